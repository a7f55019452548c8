"""Checks at the door: every public function refuses bad input before it does any work.

Each function returns the value in the form in which the caller wants it, or raises an error that names
the argument, what came and what was expected.
"""

import math
import numbers

import numpy as np

from ictd._settings import numpy_defaults

# Probabilities may miss 1 by rounding, also when they were computed in float32 or typed with seven digits.
SUM_TOLERANCE = 1e-6
# Larger integers are typing errors; NumPy would answer with an overflow that names nothing.
LARGEST_INTEGER = 2**31 - 1
# The same for the number of states or features, of which there are matrices.
LARGEST_SIDE = 2**20
# What NumPy raises where it cannot read a value: ragged lists, tensors without data, with a gradient, or elsewhere.
UNREADABLE = (TypeError, ValueError, RuntimeError, OverflowError)


def describe(value):
    """Say in a few words what came, for an error message."""
    if isinstance(value, (np.ndarray, list, tuple)):
        try:
            array = np.asarray(value)
        except ValueError:
            return f"a {type(value).__name__} with rows of different lengths"
        except UNREADABLE as error:
            return f"a {type(value).__name__} that NumPy cannot read: {error}"
        return f"a {type(value).__name__} of shape {array.shape} and type {array.dtype}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        text = f"a {type(value).__name__} of shape {tuple(shape)}"
        if hasattr(value, "detach") and _read(value) is None:
            text += " that NumPy cannot read: it reads a dense CPU tensor with data and without gradient"
        return text
    try:
        text = repr(value)
    except Exception:  # an int with thousands of digits, or the caller's own class
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _read(value):
    """The value as an array, or None if NumPy cannot read it."""
    try:
        return np.asarray(value)
    except UNREADABLE:
        return None


def refuse_masked(name, value):
    """Refuse an array with masked entries: NumPy would hand out the numbers below the mask."""
    if _is_masked(value):
        raise ValueError(f"{name} must have no masked entries; got a {type(value).__name__} with some")


def _is_masked(value):
    if isinstance(value, (list, tuple)):
        return any(map(_is_masked, value))
    return isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value)


@numpy_defaults()
def array(name, value, shape, *, dtype=np.float64, finite=True):
    """Return ``value`` as an array of the given shape.

    ``shape`` is a tuple of ints (this length), strings (any length, the string is shown in the message)
    and at the front possibly ``...`` (any number of leading dimensions). ``dtype=None`` keeps float32 and
    turns everything else into float64.
    """
    expected = _shape_text(shape)
    refuse_masked(name, value)
    try:
        result = given = np.asarray(value)
        # Objects may be fractions or large ints; NumPy would also read numbers out of strings and dates.
        if result.dtype.kind == "O" and all(isinstance(entry, numbers.Real) for entry in result.flat):
            result = result.astype(np.float64)
        if result.dtype.kind not in "fiub":
            raise TypeError
        if dtype is None:
            dtype = np.float32 if result.dtype == np.float32 else np.float64
        result = result.astype(dtype)  # what becomes infinite is refused below
    except UNREADABLE:
        raise TypeError(f"{name} must be an array of real numbers of shape {expected}; got {describe(value)}") from None
    lengths = shape[1:] if shape and shape[0] is ... else shape
    open_front = len(lengths) != len(shape)
    fits = result.ndim >= len(lengths) if open_front else result.ndim == len(lengths)
    if fits:
        tail = result.shape[result.ndim - len(lengths) :]
        fits = all(isinstance(want, str) or want == have for want, have in zip(lengths, tail))
    if not fits:
        raise ValueError(f"{name} must have shape {expected}; got shape {result.shape}")
    if result.size == 0:
        raise ValueError(f"{name} must not be empty; got shape {result.shape}, expected {expected}")
    if finite and not np.isfinite(result).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
        kind = "" if result.dtype == np.float64 else f" in {result.dtype}"
        raise ValueError(f"{name} must be finite{kind}; entry {where} is {given[where]}")
    return result


def dimensions(value):
    """Number of dimensions of an array, a list or a number; -1 for what NumPy cannot read, such as a ragged list."""
    result = _read(value)
    return -1 if result is None else result.ndim


def indices(name, value, expected):
    """Return ``value`` as an array of int64; ``expected`` says what it must be, for the message."""
    refuse_masked(name, value)
    result = _read(value)
    if result is None or result.dtype.kind not in "iu":
        raise TypeError(f"{name} must be {expected}; got {describe(value)}")
    if result.dtype.kind == "u" and result.size and result.max() > np.iinfo(np.int64).max:  # it would become negative
        raise ValueError(f"{name} must be {expected}, below 2**63; got {result.max()}")
    return result.astype(np.int64)


def leading(shape, index):
    """Select along leading dimensions: a function of arrays or tensors that begin with them.

    An index that goes beyond them is an IndexError: where the numbers of tasks and of states happen to agree, it would
    give something of the right shape, mixed from all tasks.
    """
    positions = np.arange(math.prod(shape)).reshape(shape)[index]
    if any(part is Ellipsis for part in (index if isinstance(index, tuple) else (index,))):  # not all dimensions
        return lambda values: values.reshape(-1, *values.shape[len(shape) :])[positions.copy()]
    return lambda values: values[index]


def booleans(name, value, length):
    """Return ``value`` as an array of booleans, shape (length,)."""
    refuse_masked(name, value)
    result = _read(value)
    if result is None or result.dtype != bool or result.shape != (length,):
        raise ValueError(f"{name} must be booleans of shape ({length},); got {describe(value)}")
    return result


def _shape_text(shape):
    parts = ["..." if part is ... else str(part) for part in shape]
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def real(name, value, *, low=None, low_open=False, high=None, high_open=False):
    """Return ``value`` as a finite float inside an interval."""
    interval = (
        f"{'(' if low_open or low is None else '['}{'-inf' if low is None else low}, "
        f"{'inf' if high is None else high}{')' if high_open or high is None else ']'}"
    )
    refuse_masked(name, value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number in {interval}; got {describe(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    inside = (
        np.isfinite(number)
        and (low is None or number > low or (number == low and not low_open))
        and (high is None or number < high or (number == high and not high_open))
    )
    if not inside:
        raise ValueError(f"{name} must be in {interval}; got {describe(value)}")
    return number


def discount(gamma, name="gamma"):
    """Return the discount as a float in [0, 1)."""
    return real(name, gamma, low=0, high=1, high_open=True)


def integer(name, value, *, low, high=None):
    """Return ``value`` as an int of at least ``low`` and at most ``high``, by default `LARGEST_INTEGER`."""
    expected = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be {expected}; got {describe(value)}")
    if high is None and value > LARGEST_INTEGER:
        expected += f" and at most {LARGEST_INTEGER}"
    if not low <= value <= (LARGEST_INTEGER if high is None else high):
        raise ValueError(f"{name} must be {expected}; got {describe(int(value))}")
    return int(value)


def side(name, value, low=1):
    """Return a number of states or features, small enough for a square matrix of that side."""
    if isinstance(value, numbers.Integral) and value > LARGEST_SIDE:
        raise ValueError(f"{name} must be an integer from {low} to {LARGEST_SIDE}; got {describe(int(value))}")
    return integer(name, value, low=low)


def step_sizes(step_size, n_steps, name="step_size"):
    """Return one positive step size per step, shape (n_steps,), from a float or an array of that shape."""
    if dimensions(step_size) == 0:
        return np.full(n_steps, real(name, step_size, low=0, low_open=True))
    if n_steps == 0 and dimensions(step_size) == 1 and len(step_size) == 0:
        return np.zeros(0)
    sizes = array(name, step_size, (n_steps,))
    if (sizes <= 0).any():
        where = int(np.argmax(sizes <= 0))
        raise ValueError(f"{name} must be positive at every step; entry {where} is {sizes[where]}")
    return sizes


def positives(name, values):
    """Return an array of numbers, all of them positive."""
    if (values <= 0).any():
        raise ValueError(f"{name} must be positive; got {values.min()}")
    return values


def square(name, value, side="S"):
    """Return a square matrix; ``side`` is its length, or the letter that stands for any."""
    matrix = array(name, value, (side, side))
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be square, of shape ({side}, {side}); got shape {matrix.shape}")
    return matrix


@numpy_defaults()
def distribution(name, value, n_states):
    """Return a probability vector of shape (n_states,), treated as in `distributions`."""
    weights = array(name, value, (n_states,))
    if (weights < 0).any():
        where = int(np.argmin(weights))
        raise ValueError(f"{name} must be non-negative; entry {where} is {weights[where]}")
    if abs(weights.sum() - 1) > SUM_TOLERANCE:
        raise ValueError(f"{name} must sum to 1; it sums to {weights.sum():.10g}")
    return normalised(weights)


@numpy_defaults()
def distributions(name, matrix):
    """Return a matrix of floats whose rows are distributions; what misses 1 by more than rounding is divided out."""
    non_negative(name, matrix)
    sums = matrix.sum(axis=1)
    wrong = np.abs(sums - 1) > SUM_TOLERANCE
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{name} must have rows that sum to 1; row {row} sums to {sums[row]:.10g}")
    return normalised(matrix)


def non_negative(name, matrix):
    """Return a matrix of numbers, none of them negative."""
    if (matrix < 0).any():
        row, column = (int(i) for i in np.argwhere(matrix < 0)[0])
        raise ValueError(f"{name} must be non-negative; entry ({row}, {column}) is {matrix[row, column]}")
    return matrix


def rows_of_probabilities(name, rows):
    """Return an array (..., S) of floats as it is if its rows are distributions, for batches of them."""
    if (rows < 0).any() or np.abs(rows.sum(axis=-1) - 1).max() > SUM_TOLERANCE:
        raise ValueError(f"{name} must have non-negative rows that sum to 1; got some that do not")
    return rows


def normalised(rows):
    """Rows divided by their sums; rows that sum to 1 up to the rounding of a sum stay bit for bit as they are."""
    sums = rows.sum(axis=-1, keepdims=True)
    rounding = rows.shape[-1] * np.finfo(np.float64).eps
    return rows / np.where(np.abs(sums - 1) > rounding, sums, 1)


def numpy_generator(rng, name="rng"):
    """Return a numpy.random.Generator; a seed is refused, so that every draw has a visible source."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"{name} must be a numpy.random.Generator, for example numpy.random.default_rng(0); got {describe(rng)}"
        )
    return rng


def instance(name, value, kind):
    """Return ``value`` if it is of class ``kind``."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be of type {kind.__name__}; got {describe(value)}")
    return value


def option(name, value, options):
    """Return ``value`` if it is one of the strings in ``options``."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {describe(value)}")
    return value


def flag(name, value):
    """Return ``value`` as a bool if it is True or False, of Python or NumPy."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {describe(value)}")
    return bool(value)


def function(name, value):
    """Return ``value`` if it is None or can be called."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function or None; got {describe(value)}")
    return value


class ReadOnly:
    """Base of the frozen dataclasses: copies made by copy and pickle are read-only as well."""

    def __setstate__(self, state):
        freeze(self, **state)


def freeze(instance_, **fields):
    """Store fields of a frozen dataclass, arrays as read-only copies, also those in dicts and lists."""
    for field, value in fields.items():
        object.__setattr__(instance_, field, _frozen(value))


def _frozen(value):
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    elif type(value) is dict:
        value = {name: _frozen(entry) for name, entry in value.items()}
    elif type(value) is list:
        value = [_frozen(entry) for entry in value]
    return value
