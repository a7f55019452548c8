"""What the checks hand back, and what the few of them that no table of refusals asks say.

`test_errors` holds the refusals of the public functions, `test_arguments` how checks are declared.
"""

import copy
import pickle
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from ictd import _checks


def test_arrays_are_copies_of_float64_or_keep_float32():
    given = np.arange(3.0)
    result = _checks.array("x", given, ("n",))
    result[:] = 7
    assert given.tolist() == [0, 1, 2]
    for value, dtype, expected in [
        (np.float32([1]), None, np.float32),
        (np.float16([1]), None, np.float64),
        ([1], None, np.float64),
        ([True], np.float64, np.float64),
        (np.array([Fraction(1, 2), 10**30], dtype=object), None, np.float64),
        (np.float32([1]), np.float64, np.float64),
    ]:
        assert _checks.array("x", value, ("n",), dtype=dtype).dtype == expected


@pytest.mark.parametrize(
    "shape, value, expected",
    [
        (("n",), [[1]], "(n,); got shape (1, 1)"),
        ((2, "d"), [[1, 2]], "(2, d); got shape (1, 2)"),
        ((..., "n+1", 3), [1, 2, 3], "(..., n+1, 3); got shape (3,)"),
        ((), [1], "(); got shape (1,)"),
        ((...,), [], "got shape (0,), expected (...,)"),
    ],
)
def test_shapes_in_messages(shape, value, expected):
    with pytest.raises(ValueError, match="^x must ") as caught:
        _checks.array("x", value, shape)
    assert str(caught.value).endswith(expected)


def test_the_first_entry_that_is_not_finite_is_named():
    with pytest.raises(ValueError, match=r"^x must be finite; entry \(1, 0\) is nan$"):
        _checks.array("x", [[1, 2], [np.nan, np.inf]], ("m", "n"))
    with pytest.raises(ValueError, match=r"^x must be finite in float32; entry \(1,\) is 1e\+300$"):
        _checks.array("x", [1, 1e300], ("n",), dtype=np.float32)
    assert np.isnan(_checks.array("x", [np.nan], ("n",), finite=False)).all()


@pytest.mark.parametrize(
    "value, expected",
    [
        (np.zeros((2, 3)), "a ndarray of shape (2, 3) and type float64"),
        ([1, 2], "a list of shape (2,) and type int64"),
        (((1,), (1, 2)), "a tuple with rows of different lengths"),
        ("x" * 58, repr("x" * 58)),
        ("x" * 59, "'" + 56 * "x" + "..."),
        (None, "None"),
    ],
)
def test_descriptions(value, expected):
    assert _checks.describe(value) == expected


def test_values_that_cannot_be_shown():
    class Shy:
        def __repr__(self):
            raise RuntimeError

    class Shaped:
        shape = (2, 2)

    assert _checks.describe(10**5000) == "a value of type int"
    assert _checks.describe(Shy()) == "a value of type Shy"
    assert _checks.describe(Shaped()) == "a Shaped of shape (2, 2)"


@pytest.mark.parametrize(
    "limits, good, bad, interval",
    [
        ({}, [-1e300, 0, 1e300], [np.inf], "(-inf, inf)"),
        ({"low": 0}, [0, 1e300], [-1e-300], "[0, inf)"),
        ({"low": 0, "low_open": True}, [1e-300], [0], "(0, inf)"),
        ({"low": 0, "high": 1}, [0, 1], [1 + 1e-15], "[0, 1]"),
        ({"low": 0, "high": 1, "high_open": True}, [0, 1 - 1e-15], [1], "[0, 1)"),
        ({"high": 1}, [-1e300, 1], [2], "(-inf, 1]"),
    ],
)
def test_ends_of_intervals(limits, good, bad, interval):
    for number in good:
        assert _checks.real("r", number, **limits) == number
    for number in bad:
        with pytest.raises(ValueError) as caught:
            _checks.real("r", number, **limits)
        assert str(caught.value) == f"r must be in {interval}; got {number!r}"


def test_numbers_come_as_those_of_python():
    for value in (np.float32(0.5), np.array(0.5), Fraction(1, 2)):
        assert type(_checks.real("r", value)) is float and _checks.real("r", value) == 0.5
    assert type(_checks.integer("i", np.uint8(3), low=0)) is int
    assert type(_checks.flag("f", np.True_)) is bool
    assert _checks.integer("i", 2**31 - 1, low=0) == 2**31 - 1 and _checks.side("d", 2**20) == 2**20


@pytest.mark.parametrize(
    "value, limits, message",
    [
        (4, {"low": 5}, "i must be an integer of at least 5; got 4"),
        (2**31, {"low": 5}, "i must be an integer of at least 5 and at most 2147483647; got 2147483648"),
        (10, {"low": 5, "high": 9}, "i must be an integer from 5 to 9; got 10"),
        (4, {"low": 5, "high": 9}, "i must be an integer from 5 to 9; got 4"),
    ],
)
def test_integers_out_of_range(value, limits, message):
    with pytest.raises(ValueError) as caught:
        _checks.integer("i", value, **limits)
    assert str(caught.value) == message
    for end in limits.values():
        assert _checks.integer("i", end, **limits) == end


def test_step_sizes():
    assert _checks.step_sizes(0.5, 3).tolist() == [0.5] * 3 and _checks.step_sizes([], 0).tolist() == []
    assert _checks.step_sizes([1, 2], 2).tolist() == [1, 2] and _checks.step_sizes(np.array(2), 0).shape == (0,)
    with pytest.raises(ValueError, match=r"^alpha must be positive at every step; entry 1 is -1.0$"):
        _checks.step_sizes([1, -1, 0], 3, "alpha")
    with pytest.raises(ValueError, match=r"^step_size must have shape \(0,\); got shape \(1, 0\)$"):
        _checks.step_sizes([[]], 0)


@pytest.mark.parametrize("sum_", [1 - 9e-7, 1 + 9e-7, 1])
def test_probabilities_are_divided_by_a_sum_that_misses_1(sum_):
    row = np.array([0.25, 0.75]) * sum_
    np.testing.assert_allclose(_checks.distribution("p", row, 2), [0.25, 0.75], rtol=1e-15)
    np.testing.assert_allclose(_checks.distributions("P", np.stack([row, row])), [[0.25, 0.75]] * 2, rtol=1e-15)
    assert (_checks.rows_of_probabilities("P", row) == row).all()  # batches stay as they are


def test_a_function_or_nothing():
    assert _checks.function("report", None) is None and _checks.function("report", len) is len
    with pytest.raises(TypeError, match="^report must be a function or None; got 3$"):
        _checks.function("report", 3)


@dataclass(frozen=True, eq=False)
class Record(_checks.ReadOnly):
    numbers: np.ndarray
    by_name: dict
    listed: list
    text: str

    def __post_init__(self):
        _checks.freeze(self, **vars(self))


@pytest.mark.parametrize("duplicate", [lambda r: r, copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_records_hold_read_only_copies(duplicate):
    """Arrays in fields, in dicts and in lists, and in copies of the record; the caller's own stay writable."""
    own = np.zeros(2)
    record = duplicate(Record(own, {"a": own, "b": [own]}, [own, 3], "text"))
    own[:] = 1
    for array in (record.numbers, record.by_name["a"], record.by_name["b"][0], record.listed[0]):
        assert not array.any()
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert record.listed[1] == 3 and record.text == "text"
    with pytest.raises(AttributeError):
        record.text = "other"
