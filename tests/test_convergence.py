"""Kernels over states, iteration matrix and radius against hand calculations and known theory."""

import numpy as np
import pytest

from ictd import convergence, features, mrp, td

TWO_STATES = mrp.MRP([[0.5, 0.5], [1.0, 0.0]], [1.0, 0.0], 0.9)


def test_population_kernel_by_hand():
    # mu = (2/3, 1/3); one-hot scores are 1 for the same state and 0 otherwise.
    kernel = convergence.population_kernel(TWO_STATES, features.one_hot(2))
    e = np.e
    np.testing.assert_allclose(kernel, [[2 * e / (2 * e + 1), 1 / (2 * e + 1)], [2 / (2 + e), e / (2 + e)]], rtol=1e-14)


def test_transient_states_get_no_attention_and_have_a_row():
    chain = mrp.MRP([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], np.zeros(3), 0.5)
    kernel = convergence.population_kernel(chain, np.eye(3))
    np.testing.assert_allclose(kernel[:, 0], 0)
    np.testing.assert_allclose(kernel.sum(axis=1), 1, rtol=1e-14)


def test_empirical_kernel_tends_to_the_population_kernel():
    rng = np.random.default_rng(0)
    chain = mrp.boyan_chain(5, 0.9, rng)
    X, A = features.gaussian(5, 3, rng, 0.5), rng.standard_normal((3, 3))
    population = convergence.population_kernel(chain, X, A)
    # Frequencies of 1e5 transitions are within about 1 % of mu; shares cannot be off by more.
    empirical = convergence.empirical_kernel(chain.sample(100_000, rng), X, A)
    assert np.abs(empirical - population).max() < 0.01
    assert np.abs(convergence.population_kernel(chain, X, A.T) - population).max() > 0.01


def test_empirical_kernel_is_the_kernel_of_the_state_form():
    trajectory = mrp.Trajectory([0, 2, 0, 2, 1], [1.0, 2.0, 3.0, 4.0])
    X = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]])
    A = np.array([[1.0, 0.7], [-0.3, 0.2]])
    expected = np.zeros((3, 3))
    for s in range(3):
        weights = {u: 2 * np.exp(X[u] @ A @ X[s]) for u in (0, 2)}
        for u, weight in weights.items():
            expected[s, u] = weight / sum(weights.values())
    np.testing.assert_allclose(convergence.empirical_kernel(trajectory, X, A), expected, rtol=1e-14)


def test_diagonality_and_margin_look_at_visited_states_only():
    M = np.diag([0.99, 0.97, 0.0])
    visited = np.array([True, True, False])
    assert convergence.diagonality(M, visited) == pytest.approx((0.98, 0.97))
    assert convergence.diagonality(M) == pytest.approx((1.96 / 3, 0.0))
    assert convergence.contraction_margin(M, 0.9, visited) == pytest.approx(0.02)
    assert convergence.contraction_margin(M, 0.9) is None
    assert convergence.contraction_margin(np.eye(2) * 0.95, 0.9) is None  # the margin must be positive


def test_a_positive_margin_bounds_the_norm():
    rng = np.random.default_rng(1)
    for _ in range(50):
        chain = mrp.boyan_chain(4, 0.5, rng)
        M = convergence.population_kernel(chain, features.one_hot(4, 2.5))
        margin = convergence.contraction_margin(M, chain.gamma)
        norm = np.abs(convergence.iteration_matrix(M, chain.transition, chain.gamma)).sum(axis=1).max()
        assert margin is not None
        assert norm <= 1 - 2 * margin + 1e-12


def test_iteration_matrix_carries_the_error_from_layer_to_layer():
    rng = np.random.default_rng(2)
    X = features.gaussian(4, 2, rng)
    trajectory = mrp.Trajectory([0, 1, 2, 3, 1, 0, 0], rng.standard_normal(6))
    model = td.empirical_model(trajectory, 4)
    fixed = td.certainty_equivalence(model, 0.8)
    J = convergence.iteration_matrix(convergence.empirical_kernel(trajectory, X), model.transition, 0.8, 0.6)
    values = td.weighted_softmax_td_states(trajectory, X, 0.8, 7, 0.6)
    np.testing.assert_allclose(values[7] - fixed, np.linalg.matrix_power(J, 7) @ -fixed, atol=1e-12)


@pytest.mark.parametrize("scale, radius", [(1, 0.900), (2, 1.096), (4, 1.586), (8, 1.850)])
def test_radii_of_the_divergence_example(scale, radius):
    # Unequal lengths on the cycle 1 -> 3 -> 2 -> 1 (ours; checked there in high precision).
    cycle = mrp.MRP([[0, 0, 1], [1, 0, 0], [0, 1, 0]], np.zeros(3), 0.9)
    X = np.array([[1, 0], [1.5, 1], [1, 3]])
    M = convergence.population_kernel(cycle, X, scale * np.eye(2))
    J = convergence.iteration_matrix(M, cycle.transition, cycle.gamma)
    assert convergence.spectral_radius(J) == pytest.approx(radius, abs=6e-4)


def test_all_ones_is_an_eigenvector():
    rng = np.random.default_rng(3)
    chain = mrp.boyan_chain(6, 0.95, rng)
    M = convergence.population_kernel(chain, features.gaussian(6, 2, rng))
    J = convergence.iteration_matrix(M, chain.transition, chain.gamma, 0.7)
    np.testing.assert_allclose(J.sum(axis=1), 1 - 0.7 * 0.05, atol=1e-13)


def test_spectral_radius_of_a_rotation_and_of_a_shear():
    assert convergence.spectral_radius([[0, -2], [2, 0]]) == pytest.approx(2)
    assert convergence.spectral_radius([[0.5, 100], [0, 0.25]]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: convergence.population_kernel(np.eye(2), np.eye(2)), TypeError, ["mrp", "MRP"]),
        (lambda: convergence.population_kernel(TWO_STATES, np.eye(3)), ValueError, ["X", "(2, d)", "(3, 3)"]),
        (lambda: convergence.population_kernel(TWO_STATES, np.eye(2), np.eye(3)), ValueError, ["A", "(3, 3)"]),
        (lambda: convergence.population_kernel(mrp.MRP(np.eye(2), [0, 0], 0.5), np.eye(2)), ValueError, ["recurrent"]),
        (lambda: convergence.empirical_kernel([0, 1], np.eye(2)), TypeError, ["trajectory", "Trajectory"]),
        (lambda: convergence.diagonality(np.ones((2, 3))), ValueError, ["M", "square", "(2, 3)"]),
        (lambda: convergence.diagonality(np.eye(2), [1, 0]), ValueError, ["visited", "booleans"]),
        (lambda: convergence.diagonality(np.eye(2), [[True], [True, False]]), ValueError, ["visited", "lengths"]),
        (
            lambda: convergence.diagonality(np.eye(2), np.ma.array([True, True], mask=[0, 1])),
            ValueError,
            ["visited", "masked"],
        ),
        (lambda: convergence.diagonality(np.eye(2), [False, False]), ValueError, ["visited", "at least one"]),
        (lambda: convergence.contraction_margin(np.eye(2), 1.0), ValueError, ["gamma", "[0, 1)"]),
        (lambda: convergence.iteration_matrix(np.eye(2), np.eye(3), 0.5), ValueError, ["transition", "(2, 2)"]),
        (lambda: convergence.iteration_matrix(np.eye(2), np.eye(2), 0.5, 0.0), ValueError, ["step_size", "(0"]),
        (lambda: convergence.spectral_radius([[np.nan]]), ValueError, ["J", "finite"]),
    ],
)
def test_bad_input_is_refused_by_name(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
