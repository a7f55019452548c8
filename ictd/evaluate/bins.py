"""Bins of equal frequency for numbers."""

import re
from collections.abc import Mapping

import numpy as np

from ictd import _checks
from ictd.evaluate import arguments
from ictd.evaluate.table import normal


def number_of_bins(bins, state):
    """N, from N, {column: N} or "column=N"; the column must be the one of states."""
    if isinstance(bins, str):
        column, equals, number = bins.rpartition("=")
        if not equals or not re.fullmatch(r"[0-9]{1,9}", number.strip()):
            raise ValueError(f"bins must be COLUMN=N, such as {state}=10; got {bins!r}")
        bins = {column: int(number)}
    if isinstance(bins, Mapping):
        if len(bins) != 1 or normal(str(next(iter(bins)))) != state:
            names = ", ".join(map(str, bins)) or "none"
            raise ValueError(f"bins must be for the column of states, {state}; got {names}")
        (bins,) = bins.values()
    return _checks.integer("bins", bins, low=2, high=arguments.MAX_STATES)


def labels_of(numbers, n_bins):
    """The bins of numbers that repeat as often as rows do, and the label of each.

    Parameters
    ----------
    numbers : ndarray, shape (n,)
    n_bins : int
        Fewer result if many numbers are equal.

    Returns
    -------
    labels : list of str
        ``[a, b)`` in numerical order; the last one is ``[a, b]``, since it holds the largest number too.
    place : ndarray of int, shape (n,)
        Which bin each number is in.
    """
    values = np.sort(numbers)
    edges = _edges(values, n_bins)
    lower, upper = [values[0], *edges], [*edges, values[-1]]
    labels = [f"[{_digits(a)}, {_digits(b)})" for a, b in zip(lower, upper)]
    labels[-1] = labels[-1][:-1] + "]"
    return labels, np.searchsorted(edges, numbers, side="right")


def _edges(values, n_bins):
    """The inner edges of bins with about equally many of the sorted values; equal values stay together."""
    changes = np.flatnonzero(np.diff(values)) + 1
    if not changes.size:
        return []
    wanted = len(values) * np.arange(1, n_bins) / n_bins
    right = np.minimum(np.searchsorted(changes, wanted), len(changes) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(changes[left] - wanted) <= np.abs(changes[right] - wanted), left, right)
    return [_shortest(values[i - 1], values[i]) for i in changes[np.unique(nearest)]]


def _shortest(low, high):
    """The number with the fewest digits in (low, high]."""
    for digits in range(1, 17):
        number = float(f"{high:.{digits}g}")
        if low < number <= high:
            return number
    return float(high)


def _digits(number):
    return repr(float(number) + 0.0).removesuffix(".0")
