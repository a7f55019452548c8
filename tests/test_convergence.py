"""Iteration matrix, radius, norms and limit against hand calculations and known theory."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import DISTINCT, contexts, on_sources

from ictd import convergence, empirical, features, kernels, mrp, td

TWO_STATES = mrp.MRP([[0.5, 0.5], [1.0, 0.0]], [1.0, 0.0], 0.9)


def test_diagonality_and_margin_look_at_visited_states_only():
    M = np.diag([0.99, 0.97, 0.0])
    visited = np.array([True, True, False])
    assert convergence.diagonality(M, visited) == pytest.approx((0.98, 0.97))
    assert convergence.diagonality(M) == pytest.approx((1.96 / 3, 0.0))
    assert convergence.contraction_margin(M, 0.9, visited) == pytest.approx(0.02)
    assert convergence.contraction_margin(M, 0.9) is None
    assert convergence.contraction_margin(np.eye(2) * 0.95, 0.9) is None  # the margin must be positive


# --------------------------------------------------------------------------------------------- the iteration matrix


def test_iteration_matrix_carries_the_error_from_layer_to_layer():
    rng = np.random.default_rng(2)
    X = features.gaussian(4, 2, rng)
    trajectory = mrp.Trajectory([0, 1, 2, 3, 1, 0, 0], rng.standard_normal(6))
    model = empirical.empirical_model(trajectory, 4)
    fixed = empirical.certainty_equivalence(model, 0.8)
    J = convergence.iteration_matrix(kernels.empirical_kernel(trajectory, X), model.transition, 0.8, 0.6)
    values = td.weighted_softmax_td_states(trajectory, X, 0.8, 7, 0.6)
    np.testing.assert_allclose(values[7] - fixed, np.linalg.matrix_power(J, 7) @ -fixed, atol=1e-12)


@given(contexts(walks=("closed", "boyan")), st.floats(0.05, 1))
def test_all_ones_is_an_eigenvector(c, alpha):
    """J 1 = (1 - alpha (1 - gamma)) 1: at alpha = 1 no kernel is faster than gamma."""
    _, M, P, _ = on_sources(c)
    assume(np.isclose(P.sum(axis=1), 1).all())
    J = convergence.iteration_matrix(M, P, c.gamma, alpha)
    np.testing.assert_allclose(J @ np.ones(len(J)), 1 - alpha * (1 - c.gamma), atol=1e-13)
    assert convergence.spectral_radius(convergence.iteration_matrix(M, P, c.gamma)) >= c.gamma - 1e-8


def test_spectral_radius_of_a_rotation_and_of_a_shear():
    assert convergence.spectral_radius([[0, -2], [2, 0]]) == pytest.approx(2)
    assert convergence.spectral_radius([[0.5, 100], [0, 0.25]]) == pytest.approx(0.5)


CYCLE = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # 1 -> 3 -> 2 -> 1


UNEQUAL = np.array([[1.0, 0.0], [1.5, 1.0], [1.0, 3.0]])


def radius_of_three_states(transition, X, scale, step_size=1.0):
    process = mrp.MRP(transition, np.zeros(3), 0.9)
    M = kernels.population_kernel(process, X, scale * np.eye(2))
    return convergence.spectral_radius(convergence.iteration_matrix(M, transition, 0.9, step_size))


@pytest.mark.parametrize("scale, radius", [(1, 0.900), (2, 1.096), (4, 1.586), (8, 1.850)])
def test_radii_of_the_divergence_example(scale, radius):
    # Unequal lengths (ours; checked there in high precision).
    assert radius_of_three_states(CYCLE, UNEQUAL, scale) == pytest.approx(radius, abs=6e-4)


@pytest.mark.parametrize("scale, radius", [(2, 1.06), (4, 1.48), (8, 1.72)])
def test_the_divergence_example_with_an_ergodic_chain(scale, radius):
    ergodic = np.where(CYCLE == 1, 0.9, 0.05)
    assert radius_of_three_states(ergodic, UNEQUAL, scale) == pytest.approx(radius, abs=6e-3)
    assert (
        convergence.reweighting_ratio(
            kernels.population_kernel(mrp.MRP(ergodic, np.zeros(3), 0.9), UNEQUAL, scale * np.eye(2)), ergodic, 0.9
        )
        > 1
    )


def test_what_cures_the_divergence_example_and_what_does_not():
    for step_size in (1.0, 0.1, 0.001):
        assert radius_of_three_states(CYCLE, UNEQUAL, 8, step_size) > 1
    equal = 2 * UNEQUAL / np.linalg.norm(UNEQUAL, axis=1, keepdims=True)
    for scale in (1, 2, 4, 8):
        assert radius_of_three_states(CYCLE, equal, scale) == pytest.approx(0.9, abs=1e-12)


def four_states():
    """Features of equal length on which the iteration diverges for every step size (ours)."""
    angles = np.deg2rad([0.6, 3.3, 0.0, 12.6])
    stay = 1 - 2e-6
    P = np.array([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1e-6, 1e-6, stay]])
    return angles, mrp.MRP(P, np.zeros(4), 0.9)


def test_equal_lengths_are_not_enough_with_four_states():
    mpmath = pytest.importorskip("mpmath")
    angles, process = four_states()
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    M = kernels.population_kernel(process, X, 600 * np.eye(2))
    J = convergence.iteration_matrix(M, process.transition, process.gamma)
    found = np.sort(np.linalg.eigvals(J).real)
    np.testing.assert_allclose(found, [0.519, 0.9, 1.0016, 1.0082], atol=5e-4)
    assert convergence.reweighting_ratio(M, process.transition, process.gamma) > 1
    # The same in 50 digits. mu is proportional to (e, e, e, 1): y, x and z are entered at rate e from a.
    with mpmath.workdps(50):
        angle = [mpmath.radians(mpmath.mpf(a)) for a in ("0.6", "3.3", "0", "12.6")]
        e = mpmath.mpf(10) ** -6
        P = mpmath.matrix([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, e, e, 1 - 2 * e]])
        mu = [e, e, e, 1]
        kernel = mpmath.matrix(4, 4)
        for s in range(4):
            weights = [mu[u] * mpmath.exp(600 * mpmath.cos(angle[s] - angle[u])) for u in range(4)]
            for u in range(4):
                kernel[s, u] = weights[u] / mpmath.fsum(weights)
        exact = mpmath.eig(mpmath.eye(4) - kernel * (mpmath.eye(4) - P * 9 / 10), left=False, right=False)
        assert max(abs(mpmath.im(z)) for z in exact) < 1e-20  # both large ones are real: no step size helps
        exact = sorted(float(mpmath.re(z)) for z in exact)
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_a_successor_that_was_never_a_source_can_diverge():
    # S_0, S_1 are sources, S_2 is the query; directions 0, 0.3, pi/2, score 5 cos(angle between them).
    angles = np.array([0.0, 0.3, np.pi / 2])
    X = np.sqrt(5) * np.column_stack([np.cos(angles), np.sin(angles)])
    trajectory, gamma = mrp.Trajectory([0, 1, 2], [1.0, -1.0]), 0.9
    M = kernels.empirical_kernel(trajectory, X)
    q = M[:, 1]
    by_hand = 1 + q[0] - q[1] * (1 + gamma) + gamma * q[2]
    assert by_hand == pytest.approx(1.122, abs=5e-4)
    P = empirical.empirical_model(trajectory, 3).transition
    J = convergence.iteration_matrix(M, P, gamma)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(J).real), [gamma, 1, by_hand], atol=1e-12)
    # On the sources alone, with the query replaced by the kernel combination w: the eigenvalue 1 is gone.
    w = np.linalg.solve(M[:2, :2].T, M[2, :2])
    inner = convergence.iteration_matrix(M[:2, :2], P[:2, :2] + np.outer(P[:2, 2], w), gamma)
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(inner).real), [gamma, by_hand], atol=1e-12)
    closed = mrp.Trajectory([0, 1, 2, 0], [1.0, -1.0, 0.0])
    J = convergence.iteration_matrix(
        kernels.empirical_kernel(closed, X), empirical.empirical_model(closed, 3).transition, gamma
    )
    assert convergence.spectral_radius(J) < 1


# --------------------------------------------------------------------------------------------------- norm and bound


def test_a_positive_margin_bounds_the_norm():
    rng = np.random.default_rng(1)
    for _ in range(50):
        chain = mrp.boyan_chain(4, 0.5, rng)
        M = kernels.population_kernel(chain, features.one_hot(4, 2.5))
        margin = convergence.contraction_margin(M, chain.gamma)
        norm = np.abs(convergence.iteration_matrix(M, chain.transition, chain.gamma)).sum(axis=1).max()
        assert margin is not None
        assert norm <= 1 - 2 * margin + 1e-12


def test_norm_bound_by_hand():
    M = np.array([[0.75, 0.25], [0.5, 0.5]])
    assert convergence.norm_bound(M, 0.8) == pytest.approx(2 * 0.5 + 0.8)
    assert convergence.norm_bound(M, 0.8, 0.5) == pytest.approx(1 - 0.5 * (2 * 0.5 - 1.8))
    assert convergence.norm_bound(M, 0.8, 2.0) == pytest.approx(2 * 1.8 - 1)  # from alpha m = 1 on
    assert convergence.norm_bound(M, 0.8, 3.0) == pytest.approx(3 * 1.8 - 1)
    assert convergence.norm_bound(np.diag([1.0, 0.0]), 0.5, visited=np.array([True, False])) == pytest.approx(0.5)
    assert convergence.infinity_norm([[1, -2], [0.5, 0.5]]) == 3
    # The optimum alpha = 1 / m of the bound, and its edges: below 1 iff m > .9 and alpha < 2 / 1.8.
    sharp = np.array([[0.96, 0.04], [0.04, 0.96]])
    assert convergence.norm_bound(sharp, 0.8, 1 / 0.96) == pytest.approx(1.8 / 0.96 - 1)
    assert convergence.norm_bound(sharp, 0.8, 2 / 1.8) == pytest.approx(1)
    assert convergence.norm_bound(sharp, 0.8, 1e-3) < 1 < convergence.norm_bound(M, 0.8, 1e-3)


@pytest.mark.parametrize("step_size", [0.01, 0.5, 1.0, 1.3, 2.0, 10.0])
def test_norm_bound_holds_for_every_process_and_is_attained(step_size):
    rng = np.random.default_rng(4)
    for _ in range(200):
        n = int(rng.integers(1, 7))
        M = rng.dirichlet(np.full(n, rng.choice([0.1, 1.0])), n)
        P = rng.dirichlet(np.full(n, rng.choice([0.1, 1.0])), n)
        gamma = rng.uniform(0, 0.99)
        norm = max(
            sum(abs((s == u) - step_size * (M[s, u] - gamma * (M[s] @ P[:, u]))) for u in range(n)) for s in range(n)
        )
        J = convergence.iteration_matrix(M, P, gamma, step_size)
        assert convergence.infinity_norm(J) == pytest.approx(norm, rel=1e-12)
        bound = convergence.norm_bound(M, gamma, step_size)
        assert norm <= bound + 1e-12
        least = M.diagonal().argmin()
        worst = convergence.iteration_matrix(M, np.eye(n)[np.full(n, least)], gamma, step_size)
        if step_size * M[least, least] <= 1:
            assert convergence.infinity_norm(worst) == pytest.approx(bound, rel=1e-12)


@given(contexts(walks=("closed", "boyan"), features=DISTINCT), st.floats(0.05, 1))
def test_norm_bound_in_contexts(c, fraction):
    """||J||_inf <= 1 - alpha (2 min M(s,s) - 1 - gamma) for alpha <= 1 / max M(s,s)."""
    U, M, P, _ = on_sources(c)
    assume(np.isclose(P.sum(axis=1), 1).all())
    alpha = fraction / M.diagonal().max()
    norm = np.abs(convergence.iteration_matrix(M, P, c.gamma, alpha)).sum(axis=1).max()
    assert norm <= 1 - alpha * (2 * M.diagonal().min() - 1 - c.gamma) + 1e-12
    at_one = np.abs(convergence.iteration_matrix(M, P, c.gamma)).sum(axis=1).max()
    assert at_one <= 2 * (1 - M.diagonal().min()) + c.gamma + 1e-12


def two_steps(gamma, eps):
    """sup ||J^2||_inf over all P and all kernels with a diagonal of at least 1 - eps (ours)."""
    return (2 * eps + gamma) ** 2 - 2 * min(2 * gamma * eps**2, gamma * eps * (1 - eps))


@pytest.mark.parametrize("gamma", [0.05, 0.2, 1 / 3, 0.5, 0.9, 0.99])
def test_two_steps_contract_where_the_norm_bound_is_one(gamma):
    rng = np.random.default_rng(11)
    border = (1 - gamma) / 2
    assert 1 - two_steps(gamma, border) == pytest.approx(min(gamma * (1 - gamma) ** 2, gamma * (1 - gamma**2) / 2))
    for eps in (border, 0.3 * border):
        for _ in range(200):  # distributions and, since extremes are attained there, maps
            n = int(rng.integers(2, 7))
            maps, laws = np.eye(n)[rng.integers(n, size=(2, n))], rng.dirichlet(np.full(n, 0.3), (2, n))
            Q, P = np.where(rng.random((2, 1, 1)) < 0.5, maps, laws)
            J = convergence.iteration_matrix((1 - eps) * np.eye(n) + eps * Q, P, gamma)
            assert convergence.infinity_norm(J @ J) <= two_steps(gamma, eps) + 1e-12
        # Attained where all states reached in up to four steps of P and Q differ: at the root of a tree.
        n, tree = 31, np.arange(31)
        P, Q = (np.eye(n)[np.where(2 * tree + side < n, 2 * tree + side, n - 1)] for side in (1, 2))
        J = convergence.iteration_matrix((1 - eps) * np.eye(n) + eps * Q, P, gamma)
        assert np.abs(J @ J)[0].sum() == pytest.approx(two_steps(gamma, eps), rel=1e-12)


def test_theorem_2_with_all_its_constants():
    """Two states that change with probability .7, at the least n that the theorem allows, and at every depth."""
    gamma, delta, P = 0.5, 0.5, np.array([[0.3, 0.7], [0.7, 0.3]])
    process, X = mrp.MRP(P, [1.0, 0.0], gamma), features.one_hot(2, np.sqrt(3))
    C = convergence.contraction_margin(kernels.population_kernel(process, X), gamma)
    H = np.ptp(np.linalg.inv(np.eye(2) - P + 0.5), axis=0).max()
    assert pytest.approx(1 / 1.4) == H  # for two states: one over the sum of the two chances of a change
    assert pytest.approx(np.e**3 / (np.e**3 + 1) - 0.75) == C
    c1, c2, c3 = 8 * (1 - gamma) ** 2 * H**2 / (C * 0.5) ** 2, gamma * np.ptp(process.value()) / (C * 0.5), 8
    n = int(np.ceil(c1 * np.log(c3 / delta)))
    assert n == 276
    radius = np.sqrt(np.log(c3 / delta) / n)
    rng, outside, violated, larger, halves = np.random.default_rng(12), 0, 0, [], 0
    for _ in range(200):
        walk = process.sample(n, rng)
        model, M = empirical.empirical_model(walk, 2), kernels.empirical_kernel(walk, X)
        outside += (np.abs(model.counts - n / 2) > C / (1 - gamma) / 4 * n).any()
        J = convergence.iteration_matrix(M, model.transition, gamma)
        xi = np.abs(gamma * (model.transition - P) @ process.value()).max()
        e = np.abs(td.weighted_softmax_td_states(walk, X, gamma, 60) - process.value()).max(axis=1)
        if M.diagonal().min() >= (1 + gamma) / 2 + C / 2:
            assert convergence.infinity_norm(J) <= 1 - C + 1e-12
            assert (e <= (1 - C) ** np.arange(61) * e[0] + xi / C + 1e-12).all()
        violated += (e > (1 - C) ** np.arange(61) * e[0] + c2 * radius).any()
        halves += (e > (1 - 2 * C) ** np.arange(61) * e[0] + 0.05 * c2 * radius).any()
        larger.append(xi / (c2 * C * radius))
    assert outside == 0 and violated == 0
    assert halves > 100  # a rate of 1 - 2 C and a twentieth of c2 would be too little: the comparison can fail
    assert 0.1 < max(larger) < 1


# --------------------------------------------------------------------------------------------- the weaker condition


def test_reversing_distribution_by_hand():
    # mu = (2/3, 1/3), one-hot: Z = (2e + 1, 2 + e) / 3 and nu ~ mu Z.
    M = kernels.population_kernel(TWO_STATES, features.one_hot(2))
    e = np.e
    nu = np.array([2 * (2 * e + 1), 2 + e])
    np.testing.assert_allclose(convergence.reversing_distribution(M), nu / nu.sum(), rtol=1e-14)
    by_hand = 0.81 * max((nu[0] / 2 + nu[1]) / nu[0], nu[0] / 2 / nu[1])
    assert convergence.reweighting_ratio(M, TWO_STATES.transition, 0.9) == pytest.approx(by_hand, rel=1e-14)
    # ||P||_nu^2 is the largest eigenvalue of D^{-1} P^T D P, here from trace and determinant.
    P, D = TWO_STATES.transition, np.diag(nu)
    adjoint = np.linalg.inv(D) @ P.T @ D @ P
    half, determinant = np.trace(adjoint) / 2, np.linalg.det(adjoint)
    by_hand = 0.9 * np.sqrt(half + np.sqrt(half**2 - determinant))
    assert convergence.reweighted_norm(M, TWO_STATES.transition, 0.9) == pytest.approx(by_hand, rel=1e-13)


def test_the_condition_means_convergence_and_is_not_vacuous():
    rng = np.random.default_rng(5)
    held, diverged = 0, 0
    for _ in range(1500):
        n, d = int(rng.integers(2, 6)), int(rng.integers(1, 5))
        gamma = rng.uniform(0.5, 0.99)
        process = mrp.MRP(rng.dirichlet(np.full(n, 0.3), n) * 0.98 + 0.02 / n, np.zeros(n), gamma)
        factor = rng.standard_normal((d, d))
        X = features.gaussian(n, d, rng, rng.choice([0.3, 1.0, 2.0]))
        M = kernels.population_kernel(process, X, factor @ factor.T)
        try:
            ratio = convergence.reweighting_ratio(M, process.transition, gamma)
        except ValueError:  # in one dimension features may be too close to tell, or weights underflow
            continue
        nu = convergence.reversing_distribution(M)
        np.testing.assert_allclose(nu @ M, nu, rtol=1e-9, atol=1e-12)
        norm = convergence.reweighted_norm(M, process.transition, gamma)
        v = rng.standard_normal((20, n))  # no vector is enlarged by more than the norm
        assert (gamma * np.sqrt((v @ process.transition.T) ** 2 @ nu) <= norm * np.sqrt(v**2 @ nu) * (1 + 1e-9)).all()
        assert gamma * (1 - 1e-9) <= norm and norm**2 <= ratio * (1 + 1e-9)  # the last is Jensen
        step_size = rng.choice([1.0, rng.uniform(0.05, 1)])
        radius = convergence.spectral_radius(convergence.iteration_matrix(M, process.transition, gamma, step_size))
        if norm < 1:
            held += 1
            assert radius < 1 + 1e-12
        diverged += radius > 1 + 1e-9
    assert held > 300 and diverged > 0


def test_balanced_attention_repairs_the_divergence_example():
    for scale in (1, 2, 4, 8):
        M = kernels.balanced_kernel([1.0, 1.0, 1.0], UNEQUAL, scale * np.eye(2))
        assert convergence.spectral_radius(convergence.iteration_matrix(M, CYCLE, 0.9)) < 1
        assert convergence.reweighting_ratio(M, CYCLE, 0.9) == pytest.approx(0.81, rel=1e-10)


# ------------------------------------------------------------------------------------------------ the limit


@given(contexts(features=DISTINCT, max_states=6, walks=("closed", "boyan", "ends in a new state", "anywhere")))
def test_limit_is_where_the_iteration_settles(c):
    """From v_0 = 0, on all states, also those that were never left; the radius says whether it settles."""
    M = kernels.state_kernel(c.model, c.X)
    limit, radius = convergence.limit(M, c.model, c.gamma)
    assume(np.isfinite(radius) and radius < 0.93 and np.abs(limit).max() < 1e3)
    values = td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, 600)[-1]
    np.testing.assert_allclose(values, limit, atol=1e-7 * max(1, np.abs(limit).max()))


@given(contexts(features=DISTINCT, walks=("closed",)))
def test_limit_of_a_context_that_was_left_everywhere_is_certainty_equivalence(c):
    """With the spectral radius of the iteration on the states of the context."""
    _, inner, P, _ = on_sources(c)
    limit, radius = convergence.limit(kernels.state_kernel(c.model, c.X), c.model, c.gamma)
    assume(c.model.visited.all())
    np.testing.assert_allclose(limit, empirical.certainty_equivalence(c.model, c.gamma), rtol=1e-9, atol=1e-9)
    assert radius == pytest.approx(convergence.spectral_radius(convergence.iteration_matrix(inner, P, c.gamma)))


def test_limit_by_hand_where_the_last_state_was_never_left():
    """S_0 and S_1 were left once each, S_2 hears both as w = (w_0, w_1): v_2 = w v and v_0 = r_0 + gamma v_1."""
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    walk = mrp.Trajectory([0, 1, 2], [1.0, -1.0])
    model, M = empirical.empirical_model(walk, 3), kernels.empirical_kernel(walk, X)
    limit, radius = convergence.limit(M, model, 0.9)
    w = np.linalg.solve(M[:2, :2].T, M[2, :2])
    # v_1 = -1 + .9 (w_0 v_0 + w_1 v_1), v_0 = 1 + .9 v_1
    v1 = (-1 + 0.9 * w[0]) / (1 - 0.81 * w[0] - 0.9 * w[1])
    np.testing.assert_allclose(limit, [1 + 0.9 * v1, v1, w @ [1 + 0.9 * v1, v1]], rtol=1e-12)
    J = np.eye(2) - M[:2, :2] @ (np.eye(2) - 0.9 * np.array([[0, 1], w]))
    assert radius == pytest.approx(np.abs(np.linalg.eigvals(J)).max(), rel=1e-12)


def test_no_limit_where_the_kernel_cannot_tell_two_sources_apart():
    """Equal features of two sources, and a state that was never left: how it hears them is lost in rounding."""
    walk = mrp.Trajectory([0, 1, 2], [1.0, -1.0])
    model, X = empirical.empirical_model(walk, 3), np.array([[1.0], [1.0], [2.0]])
    limit, radius = convergence.limit(kernels.empirical_kernel(walk, X), model, 0.9)
    assert np.isnan(limit).all() and np.isnan(radius)
    # Without such a state nothing has to be told apart: the fixed point is that of the data.
    closed = mrp.Trajectory([0, 1, 0], [1.0, -1.0])
    limit, radius = convergence.limit(np.full((2, 2), 0.5), empirical.empirical_model(closed, 2), 0.9)
    np.testing.assert_allclose(limit, empirical.certainty_equivalence(empirical.empirical_model(closed, 2), 0.9))
    assert radius == pytest.approx(1)


def test_a_fixed_point_that_does_not_exist_is_not_known():
    """The successor that was never left is heard as w = 1 / gamma times the source: I - gamma P W is singular."""
    model = empirical.EmpiricalModel([1, 0], [[0, 1], [0, 0]], [1.0, np.nan], [True, False])
    limit, radius = convergence.limit([[1.0, 0.0], [2.0, 0.0]], model, 0.5)
    assert np.isnan(limit).all() and radius == pytest.approx(1)
