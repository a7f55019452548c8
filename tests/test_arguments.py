"""Declared arguments: shapes with letters, the order of the checks, and calls that Python itself refuses."""

import inspect
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from ictd import _arguments as kinds
from ictd import _checks, kernels, td
from ictd._arguments import declare


@declare(
    rewards=kinds.array("n"),
    x=kinds.array("n+1", "d"),
    gamma=kinds.discount,
    initial=kinds.optional(kinds.array("n+1")),
)
def example(x, rewards, gamma=0.5, *, initial=None):
    """What an example returns."""
    return x, rewards, gamma, initial


def refused(call, kind, *fragments):
    with pytest.raises(kind) as caught:
        call()
    for fragment in fragments:
        assert fragment in str(caught.value)


# ------------------------------------------------------------------------------------------- the decorator


def test_the_body_gets_what_the_checks_return():
    """Lists become arrays of float64 and fractions floats; defaults are checked as well."""
    x, rewards, gamma, initial = example([[1], [2]], [3], initial=(4, 5))
    assert (x.tolist(), rewards.tolist(), gamma, initial.tolist()) == ([[1], [2]], [3], 0.5, [4, 5])
    assert x.dtype == rewards.dtype == initial.dtype == np.float64
    by_name = example(rewards=[3], gamma=np.float32(0.25), x=[[1], [2]])
    assert by_name[2] == 0.25 and type(by_name[2]) is float and by_name[3] is None


def test_a_default_is_checked_as_well():
    @declare(gamma=kinds.discount)
    def wrong(gamma=1.0):
        raise AssertionError("the body must not run")

    refused(wrong, ValueError, "gamma must be in [0, 1); got 1.0")


def test_arguments_that_are_not_declared_pass_as_they_are():
    @declare(gamma=kinds.discount)
    def pair(gamma, anything):
        return anything

    anything = object()
    assert pair(0.5, anything) is pair(0.5, anything=anything) is anything


def test_trusted_is_the_body_without_checks():
    nothing = object()
    assert example.trusted(nothing, nothing, nothing) == (nothing, nothing, nothing, None)
    # Through a decorator on top as well.
    x = np.ones((3, 2))
    assert (kernels.softmax_kernel.trusted(x, x) == kernels.softmax_kernel(x, x)).all()


@pytest.mark.parametrize(
    "arguments, named",
    [
        ((), {}),
        (([[1], [2]],), {}),
        (([[1], [2]], [3], 0.5, [4, 5]), {}),
        (([[1], [2]], [3], 0.5, [4, 5], 6), {}),
        (([[1], [2]], [3]), {"reward": [3]}),
        (([[1], [2]], [3]), {"rewards": [3]}),
        (([[1], [2]],), {"x": [[1], [2]], "rewards": [3]}),
        (([[1], [2]], [3]), {"gamma": 0.5, "trusted": True}),
    ],
)
def test_wrong_calls_get_the_error_of_python(arguments, named):
    """Missing, too many, unknown and double arguments: as if nothing were declared, with the function's name."""
    with pytest.raises(TypeError) as plain:
        example.trusted(*arguments, **named)
    with pytest.raises(TypeError) as checked:
        example(*arguments, **named)
    assert str(checked.value) == str(plain.value) and "example() " in str(plain.value)


def test_wrong_calls_of_a_public_function():
    refused(lambda: td.weighted_softmax_td([[1.0], [1.0]], [1.0], 0.9), TypeError, "weighted_softmax_td() missing")
    refused(lambda: td.weighted_softmax_td([[1.0], [1.0]], [1.0], 0.9, steps=3), TypeError, "argument 'steps'")


def test_functions_that_take_any_names():
    """They get theirs, and what is declared is checked; a missing argument is still one."""

    @declare(count=kinds.integer(low=1))
    def settings(count, *, scale=2, **others):
        return count, scale, others

    assert settings(1, colour="red", scale=3) == (1, 3, {"colour": "red"})
    assert settings(count=np.int8(4)) == (4, 2, {})
    refused(lambda: settings(0, colour="red"), ValueError, "count must be an integer of at least 1; got 0")
    refused(lambda: settings(colour="red"), TypeError, "settings() missing 1 required positional argument: 'count'")
    refused(lambda: settings(1, count=1), TypeError, "settings() got multiple values for argument 'count'")


def test_a_result_is_checked_by_its_kind():
    """With the name of the function, and the lengths of its arguments; the trusted body gives what it gives."""

    @declare(x=kinds.array("n"), returns=kinds.array("n+1"))
    def longer(x, by=1):
        return [0] * (len(x) + by)

    result = longer([1, 2])
    assert result.dtype == np.float64 and result.tolist() == [0, 0, 0]
    refused(lambda: longer([1, 2], by=2), ValueError, "longer must have shape (3,); got shape (4,)")
    assert longer.trusted([1, 2], by=2) == [0] * 4


def test_signature_name_and_text_stay():
    """What help and the package page show."""
    assert str(inspect.signature(example)) == "(x, rewards, gamma=0.5, *, initial=None)"
    assert (example.__name__, example.__doc__) == ("example", "What an example returns.")
    assert pickle.loads(pickle.dumps(example)) is example
    parameters = inspect.signature(td.weighted_softmax_td).parameters
    assert list(parameters) == ["x", "rewards", "gamma", "n_steps", "step_size", "score", "initial"]


def test_methods_are_declared_like_functions():
    class Counter:
        def __init__(self):
            self.total = 0

        @declare(count=kinds.integer(low=1))
        def add(self, count=1):
            self.total += count
            return self.total

    counter = Counter()
    assert (counter.add(), counter.add(2), counter.add(count=3)) == (1, 3, 6)
    refused(lambda: counter.add(0), ValueError, "count must be an integer of at least 1; got 0")
    refused(lambda: counter.add(1, 2), TypeError, "add() takes from 1 to 2 positional arguments but 3 were given")


def test_checks_run_in_the_order_of_the_declaration():
    """The first wrong argument of the declaration is named, whatever the signature's order; the body never runs."""
    met = []

    def noted(name, value, lengths):
        met.append(name)
        return value

    @declare(b=noted, a=kinds.discount, c=noted)
    def function(a, b, c):
        met.append("body")

    refused(lambda: function(2, 0, 0), ValueError, "a must be")
    assert met == ["b"]
    function(0, 0, 0)
    assert met == ["b", "b", "c", "body"]
    refused(lambda: example("no", "no", 2), TypeError, "rewards must be")


# ------------------------------------------------------------------------------------- lengths and letters


def test_a_letter_is_one_length_in_all_arguments():
    refused(lambda: example([[1], [2]], [3, 4]), ValueError, "x must have shape (3, d); got shape (2, 1)")
    refused(lambda: example([[1], [2]], [3], initial=[1]), ValueError, "initial must have shape (2,); got shape (1,)")
    refused(lambda: example([1, 2], [3]), ValueError, "x must have shape (2, d); got shape (2,)")
    refused(lambda: example([[1], [2]], [[3]]), ValueError, "rewards must have shape (n,); got shape (1, 1)")


def test_a_length_is_learnt_from_a_sum_too():
    """Errors of L + 1 layers say what L is."""

    @declare(errors=kinds.array("m", "L+1"), sizes=kinds.array("L"), names=kinds.array("m+2"))
    def function(errors, sizes, names):
        return True

    assert function(np.ones((2, 4)), np.ones(3), np.ones(4))
    refused(lambda: function(np.ones((2, 4)), np.ones(4), np.ones(4)), ValueError, "sizes must have shape (3,)")
    refused(lambda: function(np.ones((2, 4)), np.ones(3), np.ones(3)), ValueError, "names must have shape (4,)")


def test_leading_dimensions_and_the_letters_behind_them():
    @declare(P=kinds.array(..., "S", "d"), r=kinds.array(..., "S"), v=kinds.array("d", 2))
    def function(P, r, v):
        return P.shape, r.shape

    assert function(np.ones((5, 4, 3)), np.ones(4), np.ones((3, 2))) == ((5, 4, 3), (4,))
    assert function(np.ones((4, 3)), np.ones((2, 2, 4)), np.ones((3, 2)))[1] == (2, 2, 4)
    refused(lambda: function(np.ones((5, 4, 3)), np.ones(5), np.ones((3, 2))), ValueError, "r must have shape (..., 4)")
    refused(lambda: function(np.ones((4, 3)), np.ones(4), np.ones((3, 3))), ValueError, "v must have shape (3, 2)")
    refused(lambda: function(np.ones(3), np.ones(4), np.ones((3, 2))), ValueError, "P must have shape (..., S, d)")


def test_every_call_begins_without_lengths():
    """A call with other lengths is not measured by those of the last one, nor of one that was refused."""
    example([[1], [2]], [3])
    refused(lambda: example([[1], [2]], [3, 4]), ValueError, "x must")
    assert len(example([[1], [2], [3]], [4, 5])[0]) == 3


def test_lengths_from_other_arguments():
    """Of a matrix, of the attribute of an instance, and of a number."""

    class Chain:
        n_states = 2

    @declare(
        chain=kinds.instance(Chain, S="n_states"),
        M=kinds.square("S"),
        count=kinds.integer(low=0, high=9, letter="count"),
        dim=kinds.side(letter="d"),
        sizes=kinds.step_sizes("count"),
        X=kinds.array("count", "d"),
        visited=kinds.mask("S"),
        weights=kinds.distribution("S"),
    )
    def function(chain, M, count=2, dim=3, sizes=0.5, X=((1, 1, 1), (2, 2, 2)), visited=(True, False), weights=(0, 1)):
        return sizes.tolist()

    chain = Chain()
    assert function(chain, np.eye(2)) == [0.5, 0.5]
    assert function(chain, np.eye(2), 1, 1, [2], [[1]]) == [2]
    refused(lambda: function(2, np.eye(2)), TypeError, "chain must be of type Chain; got 2")
    refused(lambda: function(chain, np.eye(3)), ValueError, "M must have shape (2, 2); got shape (3, 3)")
    refused(lambda: function(chain, np.eye(2), 10), ValueError, "count must be an integer from 0 to 9; got 10")
    refused(lambda: function(chain, np.eye(2), 2, 2**21), ValueError, "dim must be an integer from 1 to 1048576")
    refused(lambda: function(chain, np.eye(2), 2, 3, [1]), ValueError, "sizes must have shape (2,)")
    refused(lambda: function(chain, np.eye(2), 2, 4), ValueError, "X must have shape (2, 4)")
    refused(lambda: function(chain, np.eye(2), visited=[True]), ValueError, "visited must be booleans of shape (2,)")
    refused(
        lambda: function(chain, np.eye(2), visited=[False] * 2), ValueError, "visited must be True for at least one"
    )
    refused(lambda: function(chain, np.eye(2), weights=[1]), ValueError, "weights must have shape (2,)")


def test_square_and_stochastic_matrices():
    @declare(M=kinds.square("S"), P=kinds.stochastic("S"))
    def function(M, P):
        return P.tolist()

    assert function([[2, 0], [0, 2]], [[0.5, 0.5], [1, 0]]) == [[0.5, 0.5], [1, 0]]
    refused(lambda: function(np.ones((2, 3)), np.eye(2)), ValueError, "M must be square, of shape (S, S)", "(2, 3)")
    refused(lambda: function(np.eye(2), np.eye(3)), ValueError, "P must have shape (2, 2); got shape (3, 3)")
    refused(lambda: function(np.eye(2), [[1, 0], [2, -1]]), ValueError, "P must be non-negative; entry (1, 1) is -1.0")
    refused(
        lambda: function(np.eye(2), [[1, 0], [1, 1]]), ValueError, "P must have rows that sum to 1; row 1 sums to 2"
    )

    @declare(P=kinds.stochastic("S"), r=kinds.array("S"))
    def first(P, r):
        return True

    refused(lambda: first(np.eye(2), [1, 2, 3]), ValueError, "r must have shape (2,)")
    refused(lambda: first(np.ones((2, 3)) / 3, [1, 2, 3]), ValueError, "P must be square, of shape (S, S)")


def test_small_kinds():
    @declare(
        a=kinds.real(low=0, high=1),
        b=kinds.positive,
        c=kinds.positives("n"),
        d=kinds.option("left", "right"),
        e=kinds.flag,
        f=kinds.generator,
        g=kinds.side(),
        h=kinds.integer(low=0),
    )
    def function(a=0, b=1, c=(1,), d="left", e=True, f=np.random.default_rng(0), g=1, h=0):  # noqa: B008
        return True

    assert function()
    refused(lambda: function(a=2), ValueError, "a must be in [0, 1]; got 2")
    refused(lambda: function(b=0), ValueError, "b must be in (0, inf); got 0")
    refused(lambda: function(c=[1, 0]), ValueError, "c must be positive; got 0.0")
    refused(lambda: function(d="up"), ValueError, "d must be one of 'left', 'right'; got 'up'")
    refused(lambda: function(e=1), TypeError, "e must be True or False; got 1")
    refused(lambda: function(f=0), TypeError, "f must be a numpy.random.Generator")
    refused(lambda: function(g=0), ValueError, "g must be an integer of at least 1; got 0")
    refused(lambda: function(h=-1), ValueError, "h must be an integer of at least 0; got -1")


# --------------------------------------------------------------------------------------------------- fields


@dataclass(frozen=True, eq=False)
class Pair(_checks.ReadOnly):
    M: np.ndarray
    v: np.ndarray = None

    def __post_init__(self):
        kinds.check_fields(self, M=kinds.square("S"), v=kinds.optional(kinds.array("S")))


def test_fields_are_checked_like_arguments_and_stored_read_only():
    M = np.eye(2)
    pair = Pair(M, [1, 2])
    M[:] = 7
    assert pair.M.tolist() == [[1, 0], [0, 1]] and pair.v.tolist() == [1, 2] and Pair(M).v is None
    for array in (pair.M, pair.v):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    refused(lambda: Pair(M, [1, 2, 3]), ValueError, "v must have shape (2,); got shape (3,)")
    refused(lambda: Pair([[1, 2]]), ValueError, "M must be square, of shape (S, S); got shape (1, 2)")
