"""A reader's function against a reference, on named instances."""

import numpy as np

from ictd.exercises._checking import NotYet, call, close, judge, numbers


def compare(answer, right, cases, mistakes, what, otherwise):
    """Go on if the reader's function is right on all instances; otherwise say why it is not, as `judge` does.

    Parameters
    ----------
    answer : object
        The reader's function.
    right : callable
    cases : dict of tuple
        Arguments under the name of the instance, such as "for gamma = 0"; general instances come first.
    mistakes : dict of callable
        For each reason a wrong function.
    what : str
        What the function returns, such as "your values".
    otherwise : callable
        (name of an instance that is off, found, expected) -> the reason if no mistake is recognised.
    """
    expected = {name: np.asarray(right(*arguments), np.float64) for name, arguments in cases.items()}
    found = {}
    for name, arguments in cases.items():
        try:
            result = call(answer, *arguments, where=f"{name},")
            found[name] = numbers(result, expected[name].shape, f"{what} {name}")
        except NotYet:
            if all(close(found[known], expected[known]) for known in found):
                raise
            break  # a mistake in a general instance says more than what came of it in a special one
    judge(
        list(found.values()),
        list(found),
        expected.get,
        {reason: (lambda name, wrong=wrong: wrong(*cases[name])) for reason, wrong in mistakes.items()},
        lambda name, result: otherwise(name, result, expected[name]),
    )
