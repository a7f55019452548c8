"""The listed answers to the exercises, right and wrong, and what is said of them.

`check` reads its caller's source to see whether the verdict is shown there. This file shows none, so that is quick.
"""

from functools import cache
from importlib import import_module

import numpy as np

from ictd import exercises
from ictd.exercises import check

CHAPTERS = sorted({name.split(".")[0] for name in exercises.names()})
_TABLES = [import_module(f"wrong_{chapter}") for chapter in CHAPTERS]
WRONG = [row for table in _TABLES for row in table.WRONG]  # exercise, answer, words of the reason
RIGHT = [row for table in _TABLES for row in table.RIGHT]  # exercise, answer
ANSWERS = [row[:2] for row in RIGHT + WRONG]


def ask(name, answer):
    """The verdict on any answer."""
    return check(name, answer)


@cache
def verdict_of(number):
    """The verdict on one of `ANSWERS`, asked for once for all tests."""
    return check(*ANSWERS[number])


def cast(value, dtype):
    """Floats, and arrays of them, in another type; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(cast(one, dtype) for one in value)
    if isinstance(value, np.ndarray):
        with np.errstate(over="ignore"):
            return value.astype(dtype) if value.dtype.kind == "f" else value
    return cast(np.array(value), dtype)[()] if isinstance(value, float) else value


def through(answer, inside, outside):
    """The reader's function with its arguments and results in other types."""
    return lambda *arguments: cast(answer(*cast(arguments, inside)), outside)
