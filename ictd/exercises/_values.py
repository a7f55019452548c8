"""When two arrays agree: exactly, up to rounding, or up to the last decimal."""

import numpy as np

from ictd.exercises._answers import expect

# Relative to max(1, largest right value). A float32 answer is right if it is right up to its rounding.
EXACT = 1e-9
ROUNDING = 1e-4
ROUNDED = "right up to rounding: compute in float64, round nothing, and stop no sum, iteration or search early."
BY_HAND = 0.006  # numbers found on paper may have two decimals


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


def nearly(answer, right):
    """Whether two arrays agree up to the rounding of float32, which is not enough for an answer in float64."""
    return distance(answer, right) <= ROUNDING


def expect_close(answer, right, reason, what=""):
    """Go on if two arrays agree; ``what`` is the subject of the reason if rounding is all that parts them."""
    expect(nearly(answer, right), reason)
    expect(close(answer, right), f"{what} is {ROUNDED}" if what else ROUNDED)


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
