"""Feature maps: indicator features with a scale, and independent normal features."""

import numpy as np
import pytest

from ictd.features import gaussian, one_hot


def test_one_hot():
    """State s has the scale in place s; inner products are scale**2 on the diagonal and 0 elsewhere."""
    assert one_hot(3, 2.0).tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    X = one_hot(4, 1.5)
    assert (X @ X.T == 1.5**2 * np.eye(4)).all() and one_hot(1).tolist() == [[1]]


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
