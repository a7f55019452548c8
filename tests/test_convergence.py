"""Kernels over states, iteration matrix and radius against hand calculations and known theory."""

import copy

import numpy as np
import pytest

from ictd import convergence, empirical, features, kernels, mrp, rates, td

TWO_STATES = mrp.MRP([[0.5, 0.5], [1.0, 0.0]], [1.0, 0.0], 0.9)


def test_population_kernel_by_hand():
    # mu = (2/3, 1/3); one-hot scores are 1 for the same state and 0 otherwise.
    kernel = kernels.population_kernel(TWO_STATES, features.one_hot(2))
    e = np.e
    np.testing.assert_allclose(kernel, [[2 * e / (2 * e + 1), 1 / (2 * e + 1)], [2 / (2 + e), e / (2 + e)]], rtol=1e-14)


def test_transient_states_get_no_attention_and_have_a_row():
    chain = mrp.MRP([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], np.zeros(3), 0.5)
    kernel = kernels.population_kernel(chain, np.eye(3))
    np.testing.assert_allclose(kernel[:, 0], 0)
    np.testing.assert_allclose(kernel.sum(axis=1), 1, rtol=1e-14)


def test_empirical_kernel_tends_to_the_population_kernel():
    rng = np.random.default_rng(0)
    chain = mrp.boyan_chain(5, 0.9, rng)
    X, A = features.gaussian(5, 3, rng, 0.5), rng.standard_normal((3, 3))
    population = kernels.population_kernel(chain, X, A)
    # Frequencies of 1e5 transitions are within about 1 % of mu; shares cannot be off by more.
    sampled = kernels.empirical_kernel(chain.sample(100_000, rng), X, A)
    assert np.abs(sampled - population).max() < 0.01
    assert np.abs(kernels.population_kernel(chain, X, A.T) - population).max() > 0.01


def test_empirical_kernel_is_the_kernel_of_the_state_form():
    trajectory = mrp.Trajectory([0, 2, 0, 2, 1], [1.0, 2.0, 3.0, 4.0])
    X = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 1.0]])
    A = np.array([[1.0, 0.7], [-0.3, 0.2]])
    expected = np.zeros((3, 3))
    for s in range(3):
        weights = {u: 2 * np.exp(X[u] @ A @ X[s]) for u in (0, 2)}
        for u, weight in weights.items():
            expected[s, u] = weight / sum(weights.values())
    np.testing.assert_allclose(kernels.empirical_kernel(trajectory, X, A), expected, rtol=1e-14)


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
        M = kernels.population_kernel(chain, features.one_hot(4, 2.5))
        margin = convergence.contraction_margin(M, chain.gamma)
        norm = np.abs(convergence.iteration_matrix(M, chain.transition, chain.gamma)).sum(axis=1).max()
        assert margin is not None
        assert norm <= 1 - 2 * margin + 1e-12


def test_iteration_matrix_carries_the_error_from_layer_to_layer():
    rng = np.random.default_rng(2)
    X = features.gaussian(4, 2, rng)
    trajectory = mrp.Trajectory([0, 1, 2, 3, 1, 0, 0], rng.standard_normal(6))
    model = empirical.empirical_model(trajectory, 4)
    fixed = empirical.certainty_equivalence(model, 0.8)
    J = convergence.iteration_matrix(kernels.empirical_kernel(trajectory, X), model.transition, 0.8, 0.6)
    values = td.weighted_softmax_td_states(trajectory, X, 0.8, 7, 0.6)
    np.testing.assert_allclose(values[7] - fixed, np.linalg.matrix_power(J, 7) @ -fixed, atol=1e-12)


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


# --------------------------------------------------------------------------------------- norm and bound


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
    assert H == pytest.approx(1 / 1.4)  # for two states: one over the sum of the two chances of a change
    assert C == pytest.approx(np.e**3 / (np.e**3 + 1) - 0.75)
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


def test_equal_features_keep_the_error_from_the_floor():
    """With two equal features the kernel is singular: the limit depends on the start, no longer on the data alone."""
    rng = np.random.default_rng(1)
    process, X = mrp.boyan_chain(10, 0.9, np.random.default_rng(0)), rng.standard_normal((10, 4))
    X[7] = X[2]
    curves = rates.error_curves(process, X, [1000], 20, 400, rng)
    np.testing.assert_allclose(curves.radii, 1, atol=1e-9)
    assert np.median(curves.errors[..., -1]) > 3 * np.median(curves.floors)
    np.testing.assert_allclose(curves.errors[..., 300], curves.errors[..., 400], rtol=1e-2)  # it has settled


# ------------------------------------------------------------------------------------- the weaker condition


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


def test_balanced_attention_has_a_constant_normaliser():
    rng = np.random.default_rng(6)
    for _ in range(20):
        process = mrp.boyan_chain(5, 0.9, rng)
        X, factor = features.gaussian(5, 3, rng), rng.standard_normal((3, 3))
        A = factor @ factor.T
        mu = process.stationary()
        M = kernels.balanced_kernel(mu, X, A)
        np.testing.assert_allclose(mu @ M, mu, rtol=1e-10)
        # Only a factor per source has changed: M[s, u] / M[s, w] = weight ratio * exp(score difference) * factor ratio.
        bias = np.log(M) - X @ A @ X.T - np.log(mu)
        rows = bias - bias[:, :1]
        np.testing.assert_allclose(rows, np.broadcast_to(rows[:1], rows.shape), atol=1e-9)
        np.testing.assert_allclose(kernels.balanced_kernel(1000 * mu, X, A), M, rtol=1e-12)  # as counts


def test_balanced_attention_repairs_the_divergence_example():
    for scale in (1, 2, 4, 8):
        M = kernels.balanced_kernel([1.0, 1.0, 1.0], UNEQUAL, scale * np.eye(2))
        assert convergence.spectral_radius(convergence.iteration_matrix(M, CYCLE, 0.9)) < 1
        assert convergence.reweighting_ratio(M, CYCLE, 0.9) == pytest.approx(0.81, rel=1e-10)


# --------------------------------------------------------------------- errors against depth and context length


def contexts_drawn(process, n, m, rng):
    """What `error_curves` draws for one length: m paths at a time, until m are complete."""
    drawn, complete = [], 0
    while complete < m:
        first = rng.choice(process.n_states, m, p=process.start)
        drawn.extend(mrp.sample_paths(process.transition, first, rng.random((m, n))))
        complete = sum(set(states[:-1].tolist()) == set(range(process.n_states)) for states in drawn)
    return drawn


def test_error_curves_agree_with_td_one_trajectory_at_a_time():
    """The same trajectories, through `td` and without any batch."""
    rng = np.random.default_rng(7)
    process = mrp.boyan_chain(4, 0.8, rng)
    X, A = features.gaussian(4, 3, rng, 1.5), rng.standard_normal((3, 3))
    again = copy.deepcopy(rng)
    curves = rates.error_curves(process, X, [9, 40], 5, 12, rng, A, 0.7)
    assert curves.errors.shape == curves.distances.shape == (2, 5, 13)
    assert curves.floors.shape == curves.radii.shape == (2, 5)
    drawn = {n: contexts_drawn(process, n, 5, again) for n in (9, 40)}
    for k, n in enumerate(curves.lengths):
        trajectories = [mrp.Trajectory(states, process.reward[states[:-1]]) for states in drawn[n]]
        complete = [t for t in trajectories if set(t.states[:-1].tolist()) == {0, 1, 2, 3}]
        assert curves.complete[k] == len(complete) / len(trajectories)
        for i, trajectory in enumerate(complete[:5]):
            model = empirical.empirical_model(trajectory, 4)
            fixed = empirical.certainty_equivalence(model, 0.8)
            values = td.weighted_softmax_td_states(trajectory, X, 0.8, 12, 0.7, kernels.bilinear_score(A))
            J = convergence.iteration_matrix(kernels.empirical_kernel(trajectory, X, A), model.transition, 0.8, 0.7)
            for found, expected in (
                (curves.errors[k, i], np.abs(values - process.value()).max(axis=1)),
                (curves.distances[k, i], np.abs(values - fixed).max(axis=1)),
                (curves.floors[k, i], np.abs(fixed - process.value()).max()),
                (curves.radii[k, i], convergence.spectral_radius(J)),
            ):
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert curves.complete[0] < 1  # incomplete contexts did occur


@pytest.fixture(scope="module")
def one_hot_curves():
    rng = np.random.default_rng(0)
    process = mrp.boyan_chain(10, 0.9, rng)
    return rates.error_curves(
        process, features.one_hot(10, 4.0), [100, 300, 1000, 3000, 10000, 30000], 40, 200, rng
    )


def test_the_floor_is_the_certainty_equivalence_error_and_falls_like_the_root_of_n(one_hot_curves):
    curves = one_hot_curves
    np.testing.assert_allclose(curves.errors[..., -1], curves.floors, atol=1e-7)
    assert curves.distances[..., -1].max() < 1e-7
    slope = rates.fitted_slope(curves.lengths, curves.floors, np.random.default_rng(1))
    assert -0.60 < slope.value < -0.45
    assert slope.low < -0.5 < slope.high
    by_hand = np.polyfit(np.log(curves.lengths), np.log(curves.floors.mean(axis=1)), 1)[0]
    assert slope.value == pytest.approx(by_hand, rel=1e-12)


def test_late_rates_are_the_spectral_radius(one_hot_curves):
    curves = one_hot_curves
    np.testing.assert_allclose(curves.radii, 0.9, atol=0.01)
    for distances, radii in zip(curves.distances, curves.radii):
        rate = rates.fitted_rate(distances, (60, 100), np.random.default_rng(2))
        assert rate.low <= rate.value <= rate.high
        assert abs(rate.value - radii.mean()) < 0.02


@pytest.mark.parametrize("dim", [4, 10])
def test_late_rates_of_gaussian_features(dim):
    """Each trajectory against its own radius, which now differs from gamma and may belong to a complex pair."""
    rng = np.random.default_rng(8)
    for _ in range(4):
        process = mrp.boyan_chain(8, 0.9, rng)
        curves = rates.error_curves(process, features.gaussian(8, dim, rng), [100, 400], 4, 600, rng)
        for distances, radius in zip(curves.distances.reshape(8, -1), curves.radii.ravel()):
            rate = rates.fitted_rate(distances[None], (300, 600) if radius > 0.95 else (60, 150), rng)
            assert rate.value == pytest.approx(radius, abs=0.02)
            assert rate.low == pytest.approx(rate.value) and rate.high == pytest.approx(rate.value)


def test_fits_of_exact_laws():
    rng = np.random.default_rng(9)
    layers, factors = np.arange(31), np.array([0.7, 0.8, 0.9])
    errors = 5 * factors[:, None] ** layers
    rate = rates.fitted_rate(errors, (10, 30), rng)
    assert rate.value == pytest.approx(np.exp(np.log(factors).mean()), rel=1e-12)
    assert 0.7 - 1e-12 <= rate.low < rate.value < rate.high <= 0.9 + 1e-12
    lengths = np.array([10, 100, 1000])
    floors = np.array([1.0, 2.0, 4.0]) * lengths[:, None] ** -0.5
    slope = rates.fitted_slope(lengths, floors, rng)
    assert slope == pytest.approx((-0.5, -0.5, -0.5), rel=1e-12)
    # The bootstrap interval of a mean is near that of the normal law.
    logs = np.random.default_rng(10).standard_normal(400)
    interval = rates.fitted_rate(np.exp(np.outer(logs, [0, 1])), (0, 1), rng)
    half = 1.96 * logs.std() / 20
    np.testing.assert_allclose(np.log(interval), logs.mean() + np.array([0, -half, half]), atol=0.15 * half)


def test_curves_of_one_seed_repeat():
    one, two = (
        rates.error_curves(TWO_STATES, np.eye(2), [5, 6], 3, 4, np.random.default_rng(3)) for _ in range(2)
    )
    np.testing.assert_array_equal(one.errors, two.errors)
    with pytest.raises(ValueError):
        one.errors[0] = 0


def test_only_the_window_of_a_rate_must_be_positive():
    errors = np.append(2.0 ** -np.arange(5), 0.0)[None]
    assert rates.fitted_rate(errors, (1, 4), RNG).value == pytest.approx(0.5)
    with pytest.raises(ValueError, match="positive"):
        rates.fitted_rate(errors, (1, 5), RNG)


def test_all_ones_is_an_eigenvector():
    rng = np.random.default_rng(3)
    chain = mrp.boyan_chain(6, 0.95, rng)
    M = kernels.population_kernel(chain, features.gaussian(6, 2, rng))
    J = convergence.iteration_matrix(M, chain.transition, chain.gamma, 0.7)
    np.testing.assert_allclose(J.sum(axis=1), 1 - 0.7 * 0.05, atol=1e-13)


def test_spectral_radius_of_a_rotation_and_of_a_shear():
    assert convergence.spectral_radius([[0, -2], [2, 0]]) == pytest.approx(2)
    assert convergence.spectral_radius([[0.5, 100], [0, 0.25]]) == pytest.approx(0.5)


RNG = np.random.default_rng(0)
RARE = mrp.MRP([[1 - 1e-9, 1e-9], [1.0, 0.0]], [0.0, 0.0], 0.5, [1.0, 0.0])  # the second state is hardly ever seen


def kernel_of(A, X=((1.0, 0.0, 0.0), (0.0, 1.0, 0.5), (0.3, 0.0, 1.0))):
    """A kernel of three states, in equal shares, with the score matrix A."""
    return kernels.softmax_kernel(X, X, None if A is None else kernels.bilinear_score(A))


def curves(**changes):
    arguments = {"process": TWO_STATES, "X": np.eye(2), "lengths": [5], "n_trajectories": 2, "n_layers": 3, "rng": RNG}
    return rates.error_curves(**(arguments | changes))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: kernels.population_kernel(np.eye(2), np.eye(2)), TypeError, ["process", "MRP"]),
        (lambda: kernels.population_kernel(TWO_STATES, np.eye(3)), ValueError, ["X", "(2, d)", "(3, 3)"]),
        (lambda: kernels.population_kernel(TWO_STATES, np.eye(2), np.eye(3)), ValueError, ["A", "(3, 3)"]),
        (lambda: kernels.population_kernel(mrp.MRP(np.eye(2), [0, 0], 0.5), np.eye(2)), ValueError, ["recurrent"]),
        (lambda: kernels.empirical_kernel([0, 1], np.eye(2)), TypeError, ["trajectory", "Trajectory"]),
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
        (lambda: convergence.infinity_norm(np.ones((2, 3))), ValueError, ["J", "square", "(2, 3)"]),
        (lambda: convergence.norm_bound(0.5 * np.eye(2), 0.5), ValueError, ["M", "sum to 1", "0.5"]),
        (lambda: convergence.norm_bound(np.eye(2), 0.5, 0), ValueError, ["step_size", "(0"]),
        (
            lambda: convergence.norm_bound([[0.5, 0.5], [0, 1]], 0.5, visited=[True, False]),
            ValueError,
            ["M of the visited states", "sum to 1", "0.5"],
        ),
        (lambda: convergence.reversing_distribution(np.eye(2)), ValueError, ["M", "positive entries", "(0, 1)"]),
        (
            lambda: convergence.reversing_distribution(kernel_of(None, [[26, 0], [0, 9], [0, -9]])),
            ValueError,
            ["M", "float64", "vanish"],
        ),
        (lambda: convergence.reversing_distribution(kernel_of(np.triu(np.ones((3, 3))))), ValueError, ["symmetric"]),
        (lambda: convergence.reversing_distribution(kernel_of(-np.eye(3))), ValueError, ["M", "positive definite"]),
        (
            lambda: convergence.reversing_distribution(kernel_of(None, [[1, 2], [0, 1], [1, 2]])),
            ValueError,
            ["M", "distinct features"],
        ),
        (lambda: convergence.reweighted_norm(kernel_of(None), np.eye(2), 0.5), ValueError, ["transition", "(3, 3)"]),
        (lambda: convergence.reweighting_ratio(kernel_of(None), np.eye(2), 0.5), ValueError, ["transition", "(3, 3)"]),
        (lambda: convergence.reweighting_ratio(kernel_of(None), np.ones((3, 3)), 0.5), ValueError, ["transition"]),
        (lambda: convergence.reweighting_ratio(kernel_of(None), np.eye(3), 1), ValueError, ["gamma", "[0, 1)"]),
        (lambda: kernels.balanced_kernel([1, 0], np.eye(2)), ValueError, ["weights", "positive", "0.0"]),
        (lambda: kernels.balanced_kernel([1, 1], np.eye(3)), ValueError, ["X", "(2, d)", "(3, 3)"]),
        (lambda: kernels.balanced_kernel([1, 1], np.eye(2), -np.eye(2)), ValueError, ["score", "semidefinite"]),
        (lambda: kernels.balanced_kernel([1, 1], np.eye(2), [[1, 1], [0, 1]]), ValueError, ["score", "symmetric"]),
        (lambda: curves(lengths=[1, 5]), ValueError, ["lengths", "number of states, 2"]),
        (lambda: curves(lengths=[5.0]), TypeError, ["lengths", "integers"]),
        (lambda: curves(lengths=5), ValueError, ["lengths"]),
        (lambda: curves(process=RARE), ValueError, ["lengths", "hardly any"]),
        (lambda: curves(process=None), TypeError, ["process", "MRP"]),
        (lambda: curves(X=np.eye(3)), ValueError, ["X", "(2, d)"]),
        (lambda: curves(n_trajectories=0), ValueError, ["n_trajectories", "at least 1"]),
        (lambda: curves(n_layers=-1), ValueError, ["n_layers", "at least 0"]),
        (lambda: curves(rng=0), TypeError, ["rng", "Generator"]),
        (lambda: curves(step_size=0), ValueError, ["step_size", "(0"]),
        (lambda: curves(score=np.eye(3)), ValueError, ["A", "(3, 3)"]),
        (lambda: rates.fitted_rate([[1.0, 0.0]], (0, 1), RNG), ValueError, ["errors", "positive", "0.0"]),
        (lambda: rates.fitted_rate([[1.0, 0.5]], 1, RNG), TypeError, ["window", "pair"]),
        (lambda: rates.fitted_rate([[1.0, 0.5]], (0, 2), RNG), ValueError, ["window", "2"]),
        (lambda: rates.fitted_rate([[1.0, 0.5]], (0, 1), 0), TypeError, ["rng", "Generator"]),
        (lambda: rates.fitted_slope([5, 5], np.ones((2, 1)), RNG), ValueError, ["lengths", "different"]),
        (lambda: rates.fitted_slope([5, 6], np.ones((3, 1)), RNG), ValueError, ["floors", "(2, m)"]),
        (lambda: rates.fitted_slope([5, 6], np.ones((2, 1)), RNG, 0), ValueError, ["n_resamples", "at least 1"]),
    ],
)
def test_bad_input_is_refused_by_name(call, error, words):
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message
