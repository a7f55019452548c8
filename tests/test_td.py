"""Weighted softmax TD: its forms agree, and the theory of its fixed point, rate and limits holds."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import DISTINCT, assert_close, contexts, discounts, loops, on_sources, seeds

from ictd import empirical, kernels, td
from ictd.convergence import iteration_matrix, spectral_radius
from ictd.features import one_hot
from ictd.mrp import Trajectory, boyan_chain
from ictd.reference import weighted_softmax_td_loops


def position_form(c, score=None):
    return td.weighted_softmax_td(c.x, c.rewards, c.gamma, c.n_steps, c.step_size, score, c.initial[c.states])


def state_form(c, score=None):
    return td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, c.n_steps, c.step_size, score, c.initial)


# ---------------------------------------------------------------------------------- the forms agree


@settings(max_examples=60)
@given(contexts())
def test_position_form_is_the_printed_algorithm(c):
    """Position form = plain loops at every step, also for repeated features, warm starts and divergence."""
    assert_close(position_form(c), loops(c))


@settings(max_examples=100)
@given(contexts())
def test_state_form_is_the_position_form(c):
    """State form at S_j = position form at j: v <- v + alpha M (r + gamma P v - v) on the empirical model."""
    assert_close(state_form(c)[:, c.states], position_form(c))


@given(contexts(max_transitions=20, max_steps=15), seeds)
def test_non_symmetric_score_matrix(c, seed):
    """g(s, s') = x(s')^T A x(s): all NumPy forms use the same side of a non-symmetric A as the loops."""
    A = np.random.default_rng(seed).normal(size=(c.X.shape[1],) * 2) / 2
    expected = loops(c, A)
    score = kernels.bilinear_score(A)
    assert_close(position_form(c, score), expected)
    assert_close(state_form(c, score)[:, c.states], expected)


def test_full_size_once():
    """60 transitions, 50 layers, 12 states: the largest instance of the contract."""
    rng = np.random.default_rng(1)
    trajectory = boyan_chain(12, 0.95, rng).sample(60, rng)
    X = rng.normal(size=(12, 8))
    x = X[trajectory.states]
    expected = np.array(weighted_softmax_td_loops(x.tolist(), trajectory.rewards.tolist(), 0.95, 50, 0.7))
    assert_close(td.weighted_softmax_td(x, trajectory.rewards, 0.95, 50, 0.7), expected)
    assert_close(td.weighted_softmax_td_states(trajectory, X, 0.95, 50, 0.7)[:, trajectory.states], expected)


@given(contexts(max_steps=20), seeds)
def test_state_labels_do_not_matter(c, seed):
    """Renaming the states permutes the values of the state form and changes nothing else."""
    new_name = np.random.default_rng(seed).permutation(len(c.X))
    X, initial = np.empty_like(c.X), np.empty_like(c.initial)
    X[new_name], initial[new_name] = c.X, c.initial
    renamed = td.weighted_softmax_td_states(
        Trajectory(new_name[c.states], c.rewards), X, c.gamma, c.n_steps, c.step_size, initial=initial
    )
    assert_close(renamed[:, new_name], state_form(c))


@given(contexts(max_steps=20))
def test_a_run_can_be_continued(c):
    """Warm start: L steps = the first half, then the second half from where it stopped."""
    half = c.n_steps // 2
    sizes = c.step_sizes
    first = td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, half, sizes[:half], initial=c.initial)
    second = td.weighted_softmax_td_states(
        c.trajectory, c.X, c.gamma, c.n_steps - half, sizes[half:], initial=first[-1]
    )
    assert_close(np.concatenate([first, second[1:]]), state_form(c))


@given(contexts(max_steps=10))
def test_scaling_rewards_and_start_scales_the_values(c):
    """The iteration is linear in (rewards, v_0)."""
    scaled = td.weighted_softmax_td_states(
        Trajectory(c.states, -3 * c.rewards), c.X, c.gamma, c.n_steps, c.step_size, initial=-3 * c.initial
    )
    assert_close(scaled, -3 * state_form(c))


def test_steps_of_many_processes_are_those_of_each():
    """With two leading dimensions, and some states as sources."""
    rng = np.random.default_rng(4)
    M, P = rng.dirichlet(np.ones(3), (2, 4, 5)), rng.dirichlet(np.ones(5), (2, 4, 3))
    r, v, sources = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4, 5)), [0, 2, 3]
    *_, values = td.bellman_steps(M, P, r, 0.9, [1.0, 0.5], v, sources)
    for i in np.ndindex(2, 4):
        expected = v[i]
        for size in (1.0, 0.5):
            expected = expected + size * M[i] @ (r[i] + 0.9 * P[i] @ expected - expected[sources])
        assert_close(values[i], expected, 1e-13)


def test_position_n_is_never_a_source():
    """The kernel runs over positions 0..n-1: with one transition it is 1, whatever the features of S_1."""
    values = td.weighted_softmax_td([[1.0], [50.0]], [2.0], 0.5, 2)
    # v_1 = 2 everywhere; the TD error is then 2 + .5 * 2 - 2 = 1.
    assert values.tolist() == [[0, 0], [2, 2], [3, 3]]


def test_zero_steps_return_the_start():
    """L = 0 is v_0, also with an empty array of step sizes."""
    assert td.weighted_softmax_td([[1.0], [2.0]], [1.0], 0.5, 0, [], initial=[3, 4]).tolist() == [[3, 4]]


# ----------------------------------------------------------------------------- fixed point and rate


@given(contexts(walks=("closed", "boyan"), features=DISTINCT), seeds)
def test_certainty_equivalence_is_a_fixed_point_for_any_kernel(c, seed):
    """THEORY 2: if S_n was left before, v_CE does not move on the sources, for any score matrix A."""
    model = c.model
    assume(model.visited[c.states[-1]])
    value = np.nan_to_num(empirical.certainty_equivalence(model, c.gamma))
    A = np.random.default_rng(seed).normal(size=(c.X.shape[1],) * 2) / 3
    steps = td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, 1, 1.0, kernels.bilinear_score(A), value)
    assert_close(steps[1], value, 1e-9)


@given(contexts(walks=("closed", "boyan"), features=DISTINCT))
def test_reached_when_the_radius_is_below_one(c):
    """THEORY 2: the iteration reaches v_CE on the sources when the spectral radius of J_UU is below 1."""
    model = c.model
    assume(model.visited[c.states[-1]])
    U, M, P, _ = on_sources(c)
    assume(spectral_radius(iteration_matrix(M, P, c.gamma)) < 0.93)
    start = c.initial
    values = td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, 600, initial=start)
    assert_close(values[-1, U], empirical.certainty_equivalence(model, c.gamma)[U], 1e-8)


@given(contexts(walks=("some states", "ends in a new state"), features=DISTINCT, max_states=6, max_steps=20))
def test_states_never_left_move_by_generalisation_only(c):
    """THEORY 2: v_t(q) - v_0(q) = w (v_t - v_0)_U with w = M_qU M_UU^{-1}, a row that sums to 1."""
    model = c.model
    U, q = np.flatnonzero(model.visited), np.flatnonzero(~model.visited)
    kernel = kernels.state_kernel(model, c.X)
    inner = kernel[np.ix_(U, U)]
    assume(q.size and np.linalg.cond(inner) < 1e6)
    w = np.linalg.solve(inner.T, kernel[np.ix_(q, U)].T).T
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-8)
    moved = state_form(c) - c.initial
    assert_close(moved[:, q], moved[:, U] @ w.T, 1e-8)


@given(contexts(walks=("ends in a new state",), features=DISTINCT, max_states=6))
def test_limit_when_the_query_was_never_left(c):
    """THEORY 2: from v_0 = 0 the limit on U is (I - gamma (P_UU + P_Uq w))^{-1} r_U, if it converges."""
    model = c.model
    U, q = np.flatnonzero(model.visited), c.states[-1]
    kernel = kernels.state_kernel(model, c.X)
    inner = kernel[np.ix_(U, U)]
    assume(np.linalg.cond(inner) < 1e6)
    w = np.linalg.solve(inner.T, kernel[q, U])
    transition = model.transition[np.ix_(U, U)] + np.outer(model.transition[U, q], w)
    assume(spectral_radius(iteration_matrix(inner, transition, c.gamma)) < 0.93)
    limit = np.linalg.solve(np.eye(U.size) - c.gamma * transition, model.reward[U])
    values = td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, 600)[-1]
    assert_close(values[U], limit, 1e-7)
    assert_close(values[q], w @ limit, 1e-7)
    # On all states the iteration has the eigenvalue 1: radii belong on U only.
    J = np.eye(len(c.X)) - kernel @ (np.diag(model.visited.astype(float)) - c.gamma * model.transition)
    assert np.abs(np.linalg.eigvals(J) - 1).min() < 1e-6


@pytest.mark.parametrize("beta, expected", [(1, 0.900), (2, 1.096), (4, 1.586), (8, 1.850)])
def test_three_states_of_unequal_length_diverge(beta, expected):
    """THEORY 6: features (1,0), (1.5,1), (1,3) on 1 -> 3 -> 2 -> 1, gamma .9: radius .900 ... 1.850."""
    X = np.array([[1, 0], [1.5, 1], [1, 3]])
    trajectory = Trajectory([0, 2, 1, 0], [1.0, -1.0, 0.5])
    model = empirical.empirical_model(trajectory, 3)
    score = kernels.inner_product_score(beta)
    J = iteration_matrix(kernels.state_kernel(model, X, score), model.transition, 0.9)
    assert spectral_radius(J) == pytest.approx(expected, abs=5e-4)
    values = td.weighted_softmax_td_states(trajectory, X, 0.9, 200, score=score)
    assert (np.abs(values[-1]).max() > 1e6) == (expected > 1)
    # The same features at one common length behave.
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    M = kernels.state_kernel(model, 2 * unit, score)
    assert spectral_radius(iteration_matrix(M, model.transition, 0.9)) == pytest.approx(0.9, abs=1e-9)


def test_never_left_successor_diverges():
    """THEORY 6: S_0, S_1 and an unseen query at angles 0, .3, pi/2, score 5 cos: eigenvalues .9, 1, 1.122."""
    angles = np.array([0, 0.3, np.pi / 2])
    X = np.sqrt(5) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    q = kernels.softmax_kernel(X, X[:2])[:, 1]
    columns = [td.weighted_softmax_td(X, np.zeros(2), 0.9, 1, initial=unit)[1] for unit in np.eye(3)]
    eigenvalues = np.sort(np.linalg.eigvals(np.array(columns).T).real)
    expected = np.sort([0.9, 1, 1 + q[0] - 1.9 * q[1] + 0.9 * q[2]])
    np.testing.assert_allclose(eigenvalues, expected, atol=1e-10)
    assert eigenvalues[-1] == pytest.approx(1.122, abs=5e-4)


# --------------------------------------------------------------------------------------- special cases


@given(contexts(features=DISTINCT, max_steps=15))
def test_tabular_score_is_batch_td_with_mean_errors(c):
    """g = 0 or -inf: each state moves by the mean TD error of its own visits; unvisited states stay."""
    values = state_form(c, kernels.tabular_score())
    assert_close(values[:, c.states], position_form(c, kernels.tabular_score()))
    v = c.initial.copy()
    for t in range(c.n_steps):
        errors = [[] for _ in v]
        for k in range(c.n):
            errors[c.states[k]].append(c.rewards[k] + c.gamma * v[c.states[k + 1]] - v[c.states[k]])
        v = v + c.step_sizes[t] * np.array([np.mean(e) if e else 0.0 for e in errors])
        assert_close(values[t + 1], v)
    unseen = np.bincount(c.states[:-1], minlength=len(c.X)) == 0
    assert (values[:, unseen] == c.initial[unseen]).all()


def test_one_hot_scale_reaches_the_tabular_score():
    """Score scale 40 on one-hot features: the tabular iteration to 1e-12, and |M - I| shrinks on the way."""
    rng = np.random.default_rng(3)
    trajectory = boyan_chain(7, 0.9, rng).sample(60, rng)
    X = one_hot(7)
    seen = np.unique(trajectory.states[:-1])
    assert seen.size == 7

    def run(score):
        return td.weighted_softmax_td_states(trajectory, X, 0.9, 50, score=score)

    gaps = []
    for beta in (5, 10, 20):
        M = kernels.state_kernel(empirical.empirical_model(trajectory, 7), X, kernels.inner_product_score(beta))
        gaps.append(np.abs(M - np.eye(7)).max())
    assert gaps[0] > 50 * gaps[1] > 50 * 50 * gaps[2] and gaps[2] < 1e-6
    assert_close(run(kernels.inner_product_score(40)), run(kernels.tabular_score()), 1e-12)
    # The length of the features enters squared.
    np.testing.assert_allclose(
        kernels.softmax_kernel(one_hot(7, 3.0), one_hot(7, 3.0)),
        kernels.softmax_kernel(X, X, kernels.inner_product_score(9)),
    )


@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 6), discounts, seeds)
def test_linear_kernel_is_normalised_linear_td(n, dim, n_steps, gamma, seed):
    """kappa = <x, x'> > 0: v(S_j) += alpha <x_j, u> / Z_j, u = sum_k delta_k x_{k-1}, Z_j = sum_m <x_j, x_{m-1}>."""
    rng = np.random.default_rng(seed)
    x, rewards = rng.uniform(0.1, 1, size=(n + 1, dim)), rng.normal(size=n)
    values = td.weighted_softmax_td(x, rewards, gamma, n_steps, 0.6, lambda q, s: np.log(q @ s.T))
    v = np.zeros(n + 1)
    for t in range(n_steps):
        u = sum((rewards[k] + gamma * v[k + 1] - v[k]) * x[k] for k in range(n))
        Z = np.array([sum(x[j] @ x[m] for m in range(n)) for j in range(n + 1)])
        v = v + 0.6 * (x @ u) / Z
        assert_close(values[t + 1], v)
