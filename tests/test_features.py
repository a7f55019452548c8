"""Feature maps: indicator features with a scale, independent normal features, and Boyan's hats."""

import numpy as np
import pytest

from ictd.features import gaussian, one_hot, triangular


def test_one_hot():
    """State s has the scale in place s; inner products are scale**2 on the diagonal and 0 elsewhere."""
    assert one_hot(3, 2.0).tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    X = one_hot(4, 1.5)
    assert (1.5**2 * np.eye(4) == X @ X.T).all() and one_hot(1).tolist() == [[1]]


def test_gaussian_moments():
    """Mean 0, standard deviation ``scale``, uncorrelated entries: 5 standard errors around the exact moments."""
    X = gaussian(20000, 3, np.random.default_rng(0), scale=2.0)
    assert X.shape == (20000, 3)
    error = 1 / np.sqrt(len(X))
    assert np.abs(X.mean(axis=0)).max() < 5 * 2 * error
    assert np.abs(X.T @ X / len(X) / 4 - np.eye(3)).max() < 5 * np.sqrt(2) * error
    assert np.abs((X / 2 < 1).mean() - 0.8413447) < 5 * 0.366 / np.sqrt(X.size)


def test_gaussian_draws_come_from_the_generator():
    """Same seed, same features; the generator moves on; the scale only scales."""
    rng = np.random.default_rng(7)
    first, second = gaussian(4, 2, rng), gaussian(4, 2, rng)
    np.testing.assert_array_equal(first, gaussian(4, 2, np.random.default_rng(7)))
    np.testing.assert_allclose(3 * first, gaussian(4, 2, np.random.default_rng(7), scale=3), rtol=1e-15)
    assert not (first == second).any()


@pytest.mark.parametrize("dim", [1, 8])
def test_shapes(dim):
    """(S, d), also for one state."""
    assert gaussian(1, dim, np.random.default_rng(0)).shape == (1, dim)


def test_triangular_by_hand():
    """Boyan's 13 states and 4 features: a quarter of the way from knot to knot at each step; 5 states on 2 knots."""
    X = triangular(13, 4)
    expected = [
        [1, 0, 0, 0],
        [0.75, 0.25, 0, 0],
        [0.5, 0.5, 0, 0],
        [0.25, 0.75, 0, 0],
        [0, 1, 0, 0],
        [0, 0.75, 0.25, 0],
    ]
    assert X[:6].tolist() == expected and X[12].tolist() == [0, 0, 0, 1]
    assert triangular(5, 2, scale=4).tolist() == [[4, 0], [3, 1], [2, 2], [1, 3], [0, 4]]


@pytest.mark.parametrize("n_states, dim", [(2, 2), (10, 4), (7, 7), (3, 9)])
def test_triangular_is_a_partition(n_states, dim):
    """Non-negative, at most two features of a state are not 0, they are neighbours and sum to the scale."""
    X = triangular(n_states, dim, scale=0.5)
    assert X.shape == (n_states, dim) and (X >= 0).all()
    np.testing.assert_allclose(X.sum(axis=1), 0.5, rtol=1e-13)
    for row in X:
        places = np.flatnonzero(row)
        assert len(places) <= 2 and np.ptp(places) <= 1
    np.testing.assert_allclose(X, X[::-1, ::-1], atol=1e-14)  # symmetric
    if dim == n_states:
        np.testing.assert_allclose(X, 0.5 * np.eye(dim), atol=1e-14)
