"""What the drawing functions take: axes, numbers that can be drawn, labels, and how many of them."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import islice

import numpy as np
from matplotlib.axes import Axes

from ictd import _arguments, _checks

MAX_DIGITS = 15  # decimals that a float has
LARGEST = 1e300  # of numbers drawn: widths and ticks of larger ones overflow

# Kinds of arguments for `declare`:
axes = _arguments.instance(Axes)
digits = _arguments.integer(0, MAX_DIGITS)


def numbers(name, value, shape, finite=False):
    """Real numbers of a shape, of a size that axes can hold; NaN and infinity may be among them."""
    result = _checks.array(name, value, shape, finite=finite)
    if (np.abs(result[np.isfinite(result)]) > LARGEST).any():
        raise ValueError(f"{name} must hold numbers of at most {LARGEST:g} in size")
    return result


def is_ordered(value):
    """Whether a value gives its entries one by one in an order, which a set does not."""
    return isinstance(value, Iterable) and not isinstance(value, AbstractSet)


def labels(name, value, n):
    """`n` labels as texts, by default 1..n."""
    if value is not None and not is_ordered(value):
        raise TypeError(f"{name} must be a sequence of {n} texts, got {value!r}")
    given = range(1, n + 1) if value is None else islice(value, n + 1)  # which may never end
    texts = [str(label) for label in given]
    if len(texts) != n:
        raise ValueError(f"{name} must have {n} entries, got {len(texts)}{' or more' * (len(texts) > n)}")
    return texts


def check_count(name, count, most, what):
    """Refuse more than can be drawn in a second."""
    if count > most:
        raise ValueError(f"{name} must hold at most {most} {what}, got {count}: draw a part of them")
