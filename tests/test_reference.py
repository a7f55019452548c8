"""The plain loops against numbers by hand; `test_td` holds the fast forms against the loops."""

import fractions

import numpy as np
import pytest

from ictd.reference import weighted_softmax_td_loops


def test_two_transitions_by_hand():
    """Equal features: each position moves by the mean TD error, here of (R_k + v(S_k) / 2 - v(S_{k-1}))."""
    v = weighted_softmax_td_loops([[1.0]] * 3, [2.0, 4.0], 0.5, 2, step_size=0.5)
    # v_0 = 0: mean 3, v_1 = 1.5; then errors 2 - .75 and 4 - .75, mean 2.25, v_2 = 1.5 + 1.125
    assert v == [[0, 0, 0], [1.5] * 3, [2.625] * 3]


def test_weights_by_hand():
    """Scores log 3 and 0 for the first query, 0 and 0 for the second: weights 3/4, 1/4 and 1/2, 1/2."""
    x = [[np.log(3)], [0.0], [0.0]]
    score = lambda query, source: query[0] * (source[0] > 0)  # noqa: E731
    v = weighted_softmax_td_loops(x, [8.0, 4.0], 0.9, 1, score=score, initial=[1, 1, 1])
    # errors 8 - .1 = 7.9 and 3.9
    assert v[1] == pytest.approx([1 + 0.75 * 7.9 + 0.25 * 3.9, 1 + 5.9, 1 + 5.9], rel=1e-14)


def test_the_inner_product_is_the_default_score():
    rng = np.random.default_rng(0)
    x, rewards = rng.normal(size=(5, 3)), rng.normal(size=4)
    product = lambda query, source: float(np.dot(query, source))  # noqa: E731
    default, given = (weighted_softmax_td_loops(x, rewards, 0.9, 6, 1.0, score) for score in (None, product))
    np.testing.assert_allclose(default, given, rtol=1e-12)


def test_large_scores_and_no_steps():
    assert weighted_softmax_td_loops([[1e4], [1e4]], [2.0], 0.5, 1) == [[0, 0], [2, 2]]
    assert weighted_softmax_td_loops([[1.0], [1.0]], [2.0], 0.5, 0, initial=[3, 4]) == [[3, 4]]


def test_any_numbers_are_read_as_floats():
    v = weighted_softmax_td_loops(np.ones((2, 1), dtype=np.int8), [fractions.Fraction(1, 2)], 0.5, 1)
    assert v == [[0, 0], [0.5, 0.5]] and all(type(number) is float for row in v for number in row)
