"""Arguments declared once, one line each: what a public function takes is checked before its body runs.

    @declare(rewards=array("n"), x=array("n+1", "d"), gamma=discount, n_steps=integer(low=0))
    def function(x, rewards, gamma, n_steps): ...

A letter in a shape stands for one length in all arguments: the first argument with it decides. Arguments are checked
in the order of the declaration, and the body gets them as the checks of `_checks` return them. ``function.trusted`` is
the body alone, for callers inside the package whose arguments are checked already.
"""

import functools
import inspect

from ictd import _checks


def declare(*, returns=None, **kinds):
    """A decorator that checks the arguments of a function.

    Parameters
    ----------
    returns : callable ``(name of the function, result, lengths) -> result``, optional
        The same for what it returns.
    kinds : callable ``(name, value, lengths) -> value``
        For each argument to check; ``lengths`` holds the lengths of the letters met so far, and may be added to.
    """

    def decorate(function):
        signature = inspect.signature(function).parameters
        parameters = {name: each for name, each in signature.items() if each.kind is not each.VAR_KEYWORD}
        takes_others = len(parameters) < len(signature)
        names = tuple(name for name, each in parameters.items() if each.kind is not each.KEYWORD_ONLY)
        defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}

        @functools.wraps(function)
        def checked(*arguments, **named):
            values = defaults | dict(zip(names, arguments)) | named  # `Signature.bind` takes as long as small kernels
            twice = not named.keys().isdisjoint(names[: len(arguments)])
            unknown = values.keys() - parameters.keys() and not takes_others
            if twice or unknown or len(arguments) > len(names) or parameters.keys() - values.keys():
                return function(*arguments, **named)  # raises Python's own error, with the function's name
            lengths = {}
            for name, kind in kinds.items():
                values[name] = kind(name, values[name], lengths)
            result = function(**values)
            return result if returns is None else returns(function.__name__, result, lengths)

        checked.trusted = function
        return checked

    return decorate


def check_fields(record, **kinds):
    """Check the fields of a frozen dataclass in the same way, and store them as the checks return them, read-only."""
    lengths = {}
    _checks.freeze(record, **{name: kind(name, getattr(record, name), lengths) for name, kind in kinds.items()})


def optional(kind):
    """None, or an argument of a kind."""
    return lambda name, value, lengths: None if value is None else kind(name, value, lengths)


def array(*shape, **options):
    """An array of real numbers; lengths are ints, letters, a letter plus a number ("n+1"), or ``...`` at the front."""

    def check(name, value, lengths):
        known = tuple(_known(part, lengths) for part in shape)
        result = _checks.array(name, value, known, **options)
        _learn(shape, result.shape, lengths)
        return result

    return check


def square(letter):
    """A square matrix."""

    def check(name, value, lengths):
        result = _checks.square(name, value, lengths.get(letter, letter))
        lengths[letter] = len(result)
        return result

    return check


def stochastic(letter):
    """A square matrix whose rows are distributions, see `_checks.distributions`."""
    return lambda name, value, lengths: _checks.distributions(name, square(letter)(name, value, lengths))


def distribution(letter):
    """Probabilities that sum to 1, see `_checks.distributions`."""
    return lambda name, value, lengths: _checks.distribution(name, value, lengths[letter])


def positives(*shape):
    """An array of positive numbers."""
    return lambda name, value, lengths: _checks.positives(name, array(*shape)(name, value, lengths))


def mask(letter):
    """Booleans, at least one of them True."""

    def check(name, value, lengths):
        result = _checks.booleans(name, value, lengths[letter])
        if not result.any():
            raise ValueError(f"{name} must be True for at least one state; got none")
        return result

    return check


def instance(kind, **lengths_of):
    """An instance of a class; attributes of it may give lengths: ``S="n_states"``."""

    def check(name, value, lengths):
        _checks.instance(name, value, kind)
        lengths.update({letter: getattr(value, attribute) for letter, attribute in lengths_of.items()})
        return value

    return check


def real(**limits):
    """A finite number inside an interval, see `_checks.real`."""
    return lambda name, value, lengths: _checks.real(name, value, **limits)


def integer(low, high=None, letter=None):
    """An integer inside an interval, which may be the length of a letter."""

    def check(name, value, lengths):
        number = _checks.integer(name, value, low=low, high=high)
        if letter is not None:
            lengths[letter] = number
        return number

    return check


def side(low=1, letter=None):
    """A number of states or features, see `_checks.side`."""

    def check(name, value, lengths):
        number = _checks.side(name, value, low=low)
        if letter is not None:
            lengths[letter] = number
        return number

    return check


def step_sizes(letter):
    """Positive step sizes, one number or an array of a length."""
    return lambda name, value, lengths: _checks.step_sizes(value, lengths[letter], name)


def option(*options):
    """One of some strings."""
    return lambda name, value, lengths: _checks.option(name, value, options)


def discount(name, value, lengths):
    """A discount in [0, 1)."""
    return _checks.discount(value, name)


def positive(name, value, lengths):
    """A positive number."""
    return _checks.real(name, value, low=0, low_open=True)


def generator(name, value, lengths):
    """A numpy.random.Generator."""
    return _checks.numpy_generator(value, name)


def flag(name, value, lengths):
    """True or False."""
    return _checks.flag(name, value)


def _known(part, lengths):
    """A part of a shape as an int where its letter has a length, else as it is."""
    if not isinstance(part, str):
        return part
    letter, plus, number = part.partition("+")
    if letter not in lengths:
        return part
    return lengths[letter] + int(number or 0)


def _learn(shape, found, lengths):
    """Note the lengths of letters that were met for the first time; a "n+1" of length 4 says that n is 3."""
    for part, length in zip(reversed(shape), reversed(found)):
        if isinstance(part, str):
            letter, _, number = part.partition("+")
            lengths.setdefault(letter, length - int(number or 0))
