"""Exercises that answer back: ``check("chapter.name", answer)`` says whether an answer is right, and why not.

Each chapter has a module of its own in this package. An exercise is a function that takes the reader's
answer and calls `expect` for each thing that must hold; the first that does not gives the reason. No reason
shows the answer.
"""

import importlib
import pkgutil
from dataclasses import dataclass

import numpy as np

from ictd import _checks

RIGHT, WRONG, OPEN = "right", "not yet", "open"
_SIGNS = {RIGHT: "✓", WRONG: "✗", OPEN: "○"}


@dataclass(frozen=True)
class Verdict:
    """The result of `check`; true if the answer is right."""

    state: str
    message: str

    def __bool__(self):
        return self.state == RIGHT

    def __repr__(self):
        return f"{_SIGNS[self.state]} {self.message}"


class NotYet(Exception):
    """The reason why an answer is not right."""


def expect(condition, reason):
    """Go on if the condition holds; otherwise the answer is not right, for this reason."""
    if not condition:
        raise NotYet(reason)


def check(name, answer):
    """Check an answer.

    Parameters
    ----------
    name : str
        Chapter and exercise, for example "weighted_softmax_td.kernel".
    answer : object
        What the exercise asks for: numbers, an array or a function. ``...`` counts as no answer.

    Returns
    -------
    Verdict
        Shows itself as one line; ``bool(verdict)`` is whether the answer is right.

    Raises
    ------
    ValueError
        If there is no such exercise.
    """
    exercise = _find(name)
    if answer is ...:
        return Verdict(OPEN, "No answer yet: put yours in place of the dots and run the cell again.")
    try:
        with np.errstate(all="ignore"):
            praise = exercise(answer)
    except NotYet as reason:
        return Verdict(WRONG, f"Not yet: {reason}")
    return Verdict(RIGHT, f"Right. {praise}" if praise else "Right.")


def names():
    """The names of all exercises, sorted."""
    chapters = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    return sorted(f"{chapter}.{name}" for chapter in chapters for name in _chapter(chapter))


def _chapter(chapter):
    return importlib.import_module(f"{__name__}.{chapter}").EXERCISES


def _find(name):
    known = names()
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}; got {_described(name)}")
    chapter, exercise = name.split(".")
    return _chapter(chapter)[exercise]


# ------------------------------------------------------------- what several exercises ask of an answer


def numbers(answer, shape, what="your answer", finite=True):
    """The answer as an array of real numbers of a given shape; ``finite=False`` lets NaN and infinity pass.

    A text in ``shape``, such as "S", stands for any length.
    """
    try:
        result = np.asarray(answer)
        if np.ma.is_masked(answer) or result.dtype.kind not in "fiubO":  # objects may be fractions
            raise TypeError
        result = result.astype(np.float64)
    except Exception:  # whatever the reader's object raises, it is no array of numbers
        raise NotYet(f"{what} should be real numbers; it is {_described(answer)}.") from None
    fits = len(result.shape) == len(shape) and all(
        isinstance(want, str) or want == have for want, have in zip(shape, result.shape)
    )
    wanted = repr(shape).replace("'", "")
    expect(fits, f"{what} should have shape {wanted}; it has shape {result.shape}.")
    expect(not finite or np.isfinite(result).all(), f"{what} holds NaN or infinity.")
    return result


def _described(answer):
    try:
        return _checks.describe(answer)
    except Exception:
        return f"of type {type(answer).__name__}"


def call(function, *arguments):
    """The result of the reader's function, which must leave its arguments as they are."""
    expect(callable(function), f"your answer should be a function; it is {_described(function)}.")
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    try:
        result = function(*copies)
    except (Exception, SystemExit) as error:  # whatever the reader's code raises is the reason
        raise NotYet(f"your function raised {type(error).__name__}{_message(error)}") from None
    for place, (copy, argument) in enumerate(zip(copies, arguments), start=1):
        if isinstance(copy, np.ndarray) and not np.array_equal(copy, argument, equal_nan=True):
            raise NotYet(
                f"your function overwrites its argument number {place}; whoever calls it still needs that array. "
                f"Work on a copy."
            )
    return result


def _message(error):
    try:
        return f": {error}" if str(error) else ""
    except Exception:
        return ""


def close(answer, right, tolerance=1e-9):
    """Whether two arrays agree, relative to max(1, largest right value)."""
    return bool(np.abs(answer - right).max() <= tolerance * max(1.0, np.abs(right).max()))
