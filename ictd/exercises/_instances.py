"""Comparison of a reader's function with a reference on several instances at once."""

import numpy as np

from ictd.exercises import NotYet, call, close, numbers


def compare(answer, right, cases, mistakes, what, otherwise):
    """Go on if the reader's function is right on all instances; otherwise say why it is not.

    A mistake is named only if it explains *every* instance, also those in which it makes no difference. So
    instances may be chosen for what they reveal, and none for luck.

    Parameters
    ----------
    answer : object
        The reader's function.
    right : callable
    cases : dict of tuple
        Arguments under a name for the instance, such as "for gamma = 0"; general instances come first.
    mistakes : list of (str, callable)
        A reason and the wrong function that it explains.
    what : str
        What the function returns, such as "your values".
    otherwise : callable
        (name of the first instance that is off, its arguments, found, expected) -> reason.
    """
    found = {}
    expected = {name: np.asarray(right(*arguments)) for name, arguments in cases.items()}
    for name, arguments in cases.items():
        try:
            found[name] = numbers(call(answer, *arguments), expected[name].shape, f"{what} {name}")
        except NotYet:
            if all(close(found[known], expected[known]) for known in found):
                raise
            break  # what went wrong in a general instance says more
    off = [name for name in found if not close(found[name], expected[name])]
    if not off:
        return
    for reason, wrong in mistakes:
        if all(close(found[name], np.asarray(wrong(*cases[name]))) for name in found):
            raise NotYet(reason)
    raise NotYet(otherwise(off[0], cases[off[0]], found[off[0]], expected[off[0]]))
