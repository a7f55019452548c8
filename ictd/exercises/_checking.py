"""What all checks are made of.

A check takes the reader's answer and goes through three stages: type and shape (`numbers`, `call`), then values on
all hidden instances at once (`judge`), and only then a reason. The first thing that does not hold raises `NotYet`
with the reason; no reason shows the answer.
"""

import sys
import warnings
from contextlib import contextmanager

import numpy as np

from ictd import _checks, _settings

# Relative to max(1, largest right value). A float32 answer is right if it is right up to its rounding.
EXACT = 1e-9
ROUNDING = 1e-4
ROUNDED = "right up to rounding: compute in float64, round nothing, and stop no sum, iteration or search early."

_KINDS = {"U": "text", "S": "text", "c": "complex numbers", "M": "dates", "m": "durations", "V": "records"}


class NotYet(Exception):
    """The reason why an answer is not right."""


def expect(condition, reason):
    """Go on if the condition holds; otherwise the answer is not right, for this reason."""
    if not condition:
        raise NotYet(reason)


@contextmanager
def standard_settings():
    """Settings of NumPy, warnings and PyTorch under which every check runs, whatever the reader has set."""
    # torch that nobody has loaded has no settings, and takes a second to load
    defaults = _settings.torch_defaults if "torch" in sys.modules else _settings.numpy_defaults
    with defaults(), np.printoptions(**_settings.PRINTING), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def generator(*name):
    """The random generator that belongs to a name, such as that of an exercise: other names, other instances.

    Returns
    -------
    numpy.random.Generator
    """
    return np.random.default_rng(list(":".join(map(str, name)).encode()))


# ------------------------------------------------------------------------------------- types and shapes


def described(answer):
    """What came, in a few words."""
    try:
        if isinstance(answer, str):
            return f"the text {answer if len(answer) <= 40 else answer[:37] + '...'!r}"
        if callable(answer) and not isinstance(answer, type):
            return "a function"
        if isinstance(answer, (np.ndarray, list, tuple)):
            kind = np.asarray(answer).dtype.kind  # ragged lists raise
            if kind in _KINDS:
                return f"a {type(answer).__name__} of {_KINDS[kind]}"
            if kind == "O":
                return f"a {type(answer).__name__} with entries that are no numbers"
        text = _checks.describe(answer)
        return f"of type {type(answer).__name__}" if " at 0x" in text else text
    except ValueError:
        return _checks.describe(answer)
    except Exception:  # whatever the reader's object raises when it is looked at
        return f"of type {type(answer).__name__}"


def numbers(answer, shape, what="your answer", finite=True):
    """The answer as an array of real numbers of a given shape.

    Parameters
    ----------
    answer : object
        Whatever the reader handed in.
    shape : tuple
        A text in it, such as "S", stands for any length.
    what : str
        The subject of the reason.
    finite : bool
        False lets NaN and infinity pass.

    Returns
    -------
    ndarray
        A copy in float32 if that came (`close` then forgives its rounding), otherwise in float64.

    Raises
    ------
    NotYet
        If the answer is anything else.
    """
    try:
        expect(
            "float16" not in str(getattr(answer, "dtype", "")), f"{what} should be in float64; float16 has 3 digits."
        )
        result = np.asarray(answer)
        expect(result.dtype != np.float16, f"{what} should be in float64; float16 has 3 digits.")
        if np.ma.is_masked(answer) or result.dtype.kind not in "fiubO":
            raise TypeError
        if any(one is None or isinstance(one, str) for one in result.flat):  # other objects may be fractions
            raise TypeError
        result = result.astype(np.float32 if result.dtype == np.float32 else np.float64)
    except NotYet:
        raise
    except Exception:  # whatever the reader's object raises, it is no array of numbers
        raise NotYet(f"{what} should be real numbers; it is {described(answer)}.") from None
    fits = len(result.shape) == len(shape) and all(
        isinstance(want, str) or want == have for want, have in zip(shape, result.shape)
    )
    wanted = "have shape {}".format(repr(shape).replace("'", "")) if shape else "be a single number"
    expect(fits, f"{what} should {wanted}; it has shape {result.shape}.")
    expect(not finite or np.isfinite(result).all(), f"{what} holds NaN or infinity.")
    return result


def call(function, *arguments, where=""):
    """The result of the reader's function, which must leave its arguments as they are.

    ``where`` says on which instance, and begins the reason: "with one transition".
    """
    start = f"{where} your" if where else "your"
    expect(callable(function), f"your answer should be a function; it is {described(function)}.")
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    try:
        result = function(*copies)
    except (Exception, SystemExit) as error:  # whatever the reader's code raises is the reason
        raise NotYet(f"{start} function raised {type(error).__name__}{_message(error)}") from None
    for place, (copy, argument) in enumerate(zip(copies, arguments), start=1):
        if isinstance(copy, np.ndarray) and not np.array_equal(copy, argument, equal_nan=True):
            raise NotYet(
                f"{start} function overwrites its argument number {place}; whoever calls it still needs that array. "
                f"Work on a copy."
            )
    return result


def _message(error):
    try:
        text = str(error)
        return f": {text if len(text) <= 200 else text[:197] + '...'}" if text else ""
    except Exception:
        return ""


# ----------------------------------------------------------------------------------------------- values


def distance(answer, right):
    """Largest deviation, relative to max(1, largest right value).

    Infinite if the shapes differ, or if NaN and infinity do not stand where they should.
    """
    answer, right = np.asarray(answer, np.float64), np.asarray(right, np.float64)
    if answer.shape != right.shape:
        return np.inf
    finite = np.isfinite(right)
    if not np.array_equal(answer[~finite], right[~finite], equal_nan=True) or not np.isfinite(answer[finite]).all():
        return np.inf
    scale = max(1.0, np.abs(right[finite]).max(initial=0.0))
    return float(np.abs(answer[finite] - right[finite]).max(initial=0.0) / scale)


def close(answer, right, tolerance=None):
    """Whether two arrays agree: to 1e-9, or up to the rounding of float32 where the answer is in float32."""
    if tolerance is None:
        tolerance = ROUNDING if getattr(answer, "dtype", None) == np.float32 else EXACT
    return distance(answer, right) <= tolerance


def rounded(answer, right):
    """Whether every entry is right, at least in all its decimals but the last: it was rounded or cut off.

    What has no end of decimals, such as a wrong fraction, is not rounded.
    """

    def only_the_last_decimal_is_off(one, exact):
        for size in 10.0 ** -np.arange(1, 7):
            if abs(one / size - round(one / size)) < 1e-5:
                return abs(one - exact) < 0.999 * size
        return abs(one - exact) < 1e-6

    return all(map(only_the_last_decimal_is_off, np.ravel(answer).tolist(), np.ravel(right).tolist()))


def name_mistake(answer, right, mistakes, tolerance=ROUNDING):
    """Raise the reason of the one mistake that gives this answer; go on if none does, or more than one.

    Parameters
    ----------
    answer, right : ndarray, or list of ndarrays
        A list holds one array for each instance; a mistake must give the answer on all of them.
    mistakes : dict, or list of pairs
        For each reason what the mistake gives, in the form of ``right``. Several mistakes may share a reason.
    tolerance : float
        A mistake that is no further than twice this from what is right is never named.
    """

    def all_within(found, expected, bound):
        pairs = zip(found, expected) if isinstance(right, list) else [(found, expected)]
        return all(distance(one, other) <= bound for one, other in pairs)

    found = {
        reason
        for reason, wrong in _pairs(mistakes)
        if all_within(answer, wrong, tolerance) and not all_within(wrong, right, 2 * tolerance)
    }
    if len(found) == 1:
        raise NotYet(found.pop())


def _pairs(mistakes):
    return mistakes.items() if isinstance(mistakes, dict) else mistakes


def judge(answers, cases, right, mistakes, otherwise):
    """Accept answers that are right in all cases; otherwise raise the reason.

    Parameters
    ----------
    answers : list of ndarrays
        The reader's answer in each case.
    cases : list
        The hidden instances, in any form. The first should be one that tells all mistakes apart.
    right : callable
        Takes a case and returns the right answer.
    mistakes : dict, or list of pairs
        For each reason a function that takes a case and returns what the mistake gives; see `name_mistake`.
    otherwise : str or callable
        The reason if no mistake is recognised; a function takes the first case that is not right, and the answer.
    """
    rights = [right(case) for case in cases]
    if all(map(close, answers, rights)):
        return
    expect(any(distance(*pair) > ROUNDING for pair in zip(answers, rights)), ROUNDED)
    name_mistake(answers, rights, [(reason, [wrong(case) for case in cases]) for reason, wrong in _pairs(mistakes)])
    first = next(i for i, pair in enumerate(zip(answers, rights)) if distance(*pair) > ROUNDING)
    if first == 0:  # two mistakes at once, of which the second shows in other cases
        name_mistake(answers[0], rights[0], [(reason, wrong(cases[0])) for reason, wrong in _pairs(mistakes)])
    raise NotYet(otherwise(cases[first], answers[first]) if callable(otherwise) else otherwise)


def judge_function(answer, right, cases, mistakes, otherwise, what="your result"):
    """Accept a function that gives the right arrays in all cases; otherwise raise the reason.

    Parameters
    ----------
    answer : object
        What the reader handed in.
    right : callable
        A right function, of the same arguments.
    cases : dict
        For each setting, such as "on a walk of one transition", the arguments; see `judge`.
    mistakes : dict, or list of pairs
        For each reason a wrong function, of the same arguments.
    otherwise : str or callable
        What follows the setting of the first case that is not right, if no mistake is recognised. A function takes
        the arguments of that case and the answer.
    what : str
        What the function returns, for the reasons; in the singular.
    """
    answers = []
    try:
        for setting, arguments in cases.items():
            shape = np.shape(right(*arguments))
            raw = call(answer, *arguments, where=setting)
            answers.append(numbers(raw, shape, f"{setting} {what}", finite=False))
    except NotYet:  # a mistake in an earlier case says more than what came of it in a later one
        if all(close(found, right(*arguments)) for found, arguments in zip(answers, cases.values())):
            raise

    def reason(case, found):
        setting, arguments = case
        if np.isfinite(right(*arguments)).all():
            expect(np.isfinite(found).all(), f"{setting} {what} holds NaN or infinity.")
        return f"{setting} {otherwise(arguments, found) if callable(otherwise) else otherwise}"

    judge(
        answers,
        list(cases.items())[: len(answers)],
        lambda case: right(*case[1]),
        [(why, lambda case, wrong=wrong: wrong(*case[1])) for why, wrong in _pairs(mistakes)],
        reason,
    )


def listed(names):
    """Names in a row: "A", "A and B", "A, B and C"."""
    *front, last = names
    return f"{', '.join(front)} and {last}" if front else last


def which_are_right(names, fits):
    """A sentence on the entries that are right, such as "A and B are right; look at C again."; "" if none is."""
    good = [name for name, fit in zip(names, fits) if fit]
    rest = [name for name, fit in zip(names, fits) if not fit]
    return f"{listed(good)} {'is' if len(good) == 1 else 'are'} right; look at {listed(rest)} again." if good else ""
