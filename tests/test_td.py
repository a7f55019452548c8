"""Weighted softmax TD: its forms agree, and the theory of its fixed point, rate and limits holds."""

import functools
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import assert_close, contexts, discounts, empirical_kernel_loops, loops, radius, seeds

from ictd import empirical, kernels, td
from ictd.features import one_hot
from ictd.mrp import MRP, Trajectory, boyan_chain
from ictd.reference import weighted_softmax_td_loops

DISTINCT = ("gaussian", "unit length", "one-hot")


def position_form(c, score=None):
    return td.weighted_softmax_td(c.x, c.rewards, c.gamma, c.n_steps, c.step_size, score, c.initial[c.states])


def state_form(c, score=None):
    return td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, c.n_steps, c.step_size, score, c.initial)


def on_sources(c, score=None):
    """The kernel, the empirical transition matrix and mean rewards restricted to the states that were left."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
    U = np.flatnonzero(model.visited)
    return U, kernels.state_kernel(model, c.X, score)[np.ix_(U, U)], model.transition[np.ix_(U, U)], model.reward[U]


def iteration(M, P, gamma, alpha=1.0):
    return np.eye(len(M)) - alpha * M @ (np.eye(len(M)) - gamma * P)


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


def test_position_n_is_never_a_source():
    """The kernel runs over positions 0..n-1: with one transition it is 1, whatever the features of S_1."""
    values = td.weighted_softmax_td([[1.0], [50.0]], [2.0], 0.5, 2)
    # v_1 = 2 everywhere; the TD error is then 2 + .5 * 2 - 2 = 1.
    assert values.tolist() == [[0, 0], [2, 2], [3, 3]]


def test_zero_steps_return_the_start():
    """L = 0 is v_0, also with an empty array of step sizes."""
    assert td.weighted_softmax_td([[1.0], [2.0]], [1.0], 0.5, 0, [], initial=[3, 4]).tolist() == [[3, 4]]


# --------------------------------------------------------------------------------------- the kernel


@pytest.mark.parametrize(
    "score, expected",
    [
        (kernels.inner_product_score(2.0), [[10, 22], [22, 50]]),
        (kernels.bilinear_score([[0, 1], [0, 0]]), [[2, 6], [4, 12]]),
        (kernels.tabular_score(), [[0, -np.inf], [-np.inf, 0]]),
    ],
)
def test_scores_take_lists(score, expected):
    """A score that is called directly takes lists as well as arrays; by hand for (1, 2) and (3, 4)."""
    x = [[1, 2], [3, 4]]
    assert score(x, x).tolist() == score(np.array(x), np.array(x)).tolist() == expected


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16])
def test_narrow_numbers_do_not_wrap_in_a_score(dtype):
    """100 * 100 and 300 * 300 have no place in 8 bits, or in half precision."""
    x = np.array([[100, 100]] if dtype != np.float16 else [[300, 300]], dtype=dtype)
    expected = [[2.0 * float(x[0, 0]) ** 2]]
    assert kernels.inner_product_score()(x, x).tolist() == kernels.bilinear_score(np.eye(2))(x, x).tolist() == expected


@pytest.mark.parametrize("score", [kernels.inner_product_score(2.0), kernels.bilinear_score([[0, 1], [0, 0]]), kernels.tabular_score()])
def test_scores_can_be_sent_to_another_process(score):
    x = np.random.default_rng(0).normal(size=(3, 2))
    again = pickle.loads(pickle.dumps(score))
    assert kernels.softmax_kernel(x, x, again).tobytes() == kernels.softmax_kernel(x, x, score).tobytes()


@pytest.mark.filterwarnings("error")
def test_extreme_scores_give_exact_weights_in_silence():
    """Neither scores at the ends of float64 nor sharp kernels warn, also where NumPy is told to raise."""
    rows = np.array([[1e308, -1e308], [-1e308, 1e308], [0.0, -np.inf]])
    with np.errstate(all="raise"):
        kernel = kernels.softmax_kernel(np.ones((3, 1)), np.ones((2, 1)), lambda q, s: rows)
        sharp = kernels.softmax_kernel(50 * np.eye(3), 50 * np.eye(3))
    assert kernel.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert (sharp == np.eye(3)).all()


def test_any_callable_of_two_arguments_is_a_score():
    """Partial functions, methods, ufuncs-like C functions and instances with __call__."""

    class Score:
        def __call__(self, queries, sources, scale=1.0):
            return scale * (queries @ sources.T)

    x = np.random.default_rng(0).normal(size=(4, 2))
    expected = kernels.softmax_kernel(x, x)
    for score in (Score(), functools.partial(Score(), scale=1.0), np.inner, lambda *both: both[0] @ both[1].T):
        np.testing.assert_allclose(kernels.softmax_kernel(x, x, score), expected, rtol=1e-14)


@given(contexts(), seeds)
def test_kernel_is_the_softmax(c, seed):
    """kernel[j, i] = c_i exp g(q_j, s_i) / sum_m c_m exp g(q_j, s_m), row by row with exact normalisation."""
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(3, c.X.shape[1]))
    counts = rng.integers(0, 4, len(c.X))
    counts[rng.integers(len(c.X))] = 1
    kernel = kernels.softmax_kernel(queries, c.X, kernels.inner_product_score(0.5), counts)
    for query, row in zip(queries, kernel):
        weights = [count * np.exp(0.5 * np.dot(query, source)) for count, source in zip(counts, c.X)]
        np.testing.assert_allclose(row, np.array(weights) / sum(weights), rtol=1e-10)
    np.testing.assert_allclose(kernel.sum(axis=1), 1, rtol=1e-13)


@given(contexts(), seeds)
def test_constant_shift_of_the_scores_changes_nothing(c, seed):
    """Softmax: g(s, s') + h(s) has the weights of g(s, s') for every function h of the query."""
    rng = np.random.default_rng(seed)
    plain = kernels.inner_product_score()
    shift = {tuple(row): rng.normal() * 100 for row in c.X}

    def shifted(queries, sources):
        return plain(queries, sources) + np.array([shift[tuple(q)] for q in queries])[:, None]

    np.testing.assert_allclose(
        kernels.softmax_kernel(c.X, c.X, shifted), kernels.softmax_kernel(c.X, c.X), rtol=1e-10, atol=1e-14
    )


@pytest.mark.parametrize("size", [1e4, 1e5, 1e300])
def test_large_scores_are_stable(size):
    """Scores of +-1e4 and more: no NaN, rows sum to 1, all weight on the largest score, ties share it."""
    signs = np.array([[1.0, -1.0, 0.0], [-1.0, -1.0, -1.0], [0.5, 1.0, 1.0]])
    kernel = kernels.softmax_kernel(np.zeros((3, 1)), np.zeros((3, 1)), lambda q, s: size * signs)
    assert kernel.tolist() == [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0, 0.5, 0.5]]


def test_sharp_scores_approach_the_largest():
    """Score scale to infinity: each query attends only to its best source, no warning on the way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 3))
    with np.errstate(all="raise", under="ignore"):
        kernel = kernels.softmax_kernel(X, X, kernels.inner_product_score(1e5))
    assert (kernel == np.eye(5)[(X @ X.T).argmax(axis=1)]).all()


def test_score_convention_puts_the_source_on_the_left():
    """Z^T A Z with sources as rows: entry (query, source) is x_source^T A x_query, not the transpose."""
    A = np.array([[0.0, 1.0], [0.0, 0.0]])
    query, source = np.array([[0.0, 2.0]]), np.array([[3.0, 0.0]])
    assert kernels.bilinear_score(A)(query, source).tolist() == [[6.0]]
    assert kernels.bilinear_score(A.T)(query, source).tolist() == [[0.0]]


def test_inner_product_is_the_identity_matrix():
    """g = beta <x, x'> is the bilinear score with A = beta I."""
    X = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(kernels.inner_product_score(2)(X, X), kernels.bilinear_score(2 * np.eye(3))(X, X))


@given(contexts(features=("gaussian", "unit length", "repeated", "zero")))
def test_state_kernel_counts_visits(c):
    """M[s, u] = c(u) exp g(s, u) / sum: as counted in loops; columns of states that were no source are 0."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
    assert_close(kernels.state_kernel(model, c.X), empirical_kernel_loops(c.states, c.X), 1e-12)
    assert (kernels.state_kernel(model, c.X)[:, ~model.visited] == 0).all()


# ----------------------------------------------------------------- the empirical model and its value


@given(contexts())
def test_empirical_model_counts(c):
    """Counts, relative frequencies and mean rewards, as counted in loops; NaN reward where nothing was seen."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
    for u in range(len(c.X)):
        steps = [k for k in range(c.n) if c.states[k] == u]
        assert model.counts[u] == len(steps) and model.visited[u] == bool(steps)
        if steps:
            assert model.reward[u] == pytest.approx(np.mean([c.rewards[k] for k in steps]), abs=1e-12)
            for w in range(len(c.X)):
                share = sum(c.states[k + 1] == w for k in steps) / len(steps)
                assert model.transition[u, w] == pytest.approx(share, abs=1e-12)
        else:
            assert np.isnan(model.reward[u]) and not model.transition[u].any()


@given(contexts(walks=("closed",)))
def test_certainty_equivalence_is_the_value_of_the_empirical_process(c):
    """v_CE = (I - gamma P)^{-1} r on the sources, NaN elsewhere; a closed trajectory needs no boundary."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
    U, _, P, r = on_sources(c)
    value = empirical.certainty_equivalence(model, c.gamma)
    assert_close(value[U], MRP(P, r, c.gamma).value(), 1e-9)
    assert np.isnan(value[~model.visited]).all()


@given(contexts(walks=("ends in a new state",)), st.floats(-5, 5))
def test_boundary_value_of_a_state_never_left(c, boundary):
    """A last state that was never left has no row: refused without ``boundary``, a constant with it."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
    q = c.states[-1]
    assert_close(empirical.certainty_equivalence(model, 0)[model.visited], model.reward[model.visited], 1e-12)
    assume(c.gamma > 0)
    with pytest.raises(ValueError, match=f"state {q}.*boundary"):
        empirical.certainty_equivalence(model, c.gamma)
    value = empirical.certainty_equivalence(model, c.gamma, boundary)
    filled = np.where(np.arange(len(c.X)) == q, boundary, np.nan_to_num(value))
    bellman = model.reward + c.gamma * model.transition @ filled
    assert_close(value[model.visited], bellman[model.visited], 1e-9)
    per_state = np.full(len(c.X), np.nan)
    per_state[q] = boundary
    np.testing.assert_array_equal(empirical.certainty_equivalence(model, c.gamma, per_state), value)


def test_a_row_that_sums_to_less_than_one_leads_to_an_end_worth_0():
    """By hand: from 0 on to 1 or to the end, each half of the time; from 1 back to 0."""
    model = empirical.model_of_transitions([0, 1, 0], [1.0, 2.0, 3.0], [1, 0, empirical.END], 2)
    assert model.transition.tolist() == [[0, 0.5], [1, 0]] and model.reward.tolist() == [2, 2]
    # v0 = 2 + .8 * .5 v1, v1 = 2 + .8 v0
    assert_close(empirical.certainty_equivalence(model, 0.8), np.array([2.8, 3.6]) / 0.68, 1e-12)
    *_, last = td.context_steps(model, kernels.state_kernel(model, 20 * np.eye(2)), 0.8, np.ones(200), np.zeros(2))
    assert_close(last, empirical.certainty_equivalence(model, 0.8), 1e-12)


def test_empirical_model_is_read_only_and_its_own_copy():
    """Frozen, compared by identity, arrays that cannot be written."""
    model = empirical.empirical_model(Trajectory([0, 1, 0], [1.0, 2.0]), 3)
    for array in (model.counts, model.transition, model.reward, model.visited):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        model.counts = np.zeros(3)
    assert model == model and model != empirical.empirical_model(Trajectory([0, 1, 0], [1.0, 2.0]), 3)


# ----------------------------------------------------------------------------- fixed point and rate


@given(contexts(walks=("closed", "boyan"), features=DISTINCT), seeds)
def test_certainty_equivalence_is_a_fixed_point_for_any_kernel(c, seed):
    """THEORY 2: if S_n was left before, v_CE does not move on the sources, for any score matrix A."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
    assume(model.visited[c.states[-1]])
    value = np.nan_to_num(empirical.certainty_equivalence(model, c.gamma))
    A = np.random.default_rng(seed).normal(size=(c.X.shape[1],) * 2) / 3
    steps = td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, 1, 1.0, kernels.bilinear_score(A), value)
    assert_close(steps[1], value, 1e-9)


@given(contexts(walks=("closed", "boyan"), features=DISTINCT))
def test_reached_when_the_radius_is_below_one(c):
    """THEORY 2: the iteration reaches v_CE on the sources when the spectral radius of J_UU is below 1."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
    assume(model.visited[c.states[-1]])
    U, M, P, _ = on_sources(c)
    assume(radius(iteration(M, P, c.gamma)) < 0.93)
    start = c.initial
    values = td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, 600, initial=start)
    assert_close(values[-1, U], empirical.certainty_equivalence(model, c.gamma)[U], 1e-8)


@given(contexts(walks=("some states", "ends in a new state"), features=DISTINCT, max_states=6, max_steps=20))
def test_states_never_left_move_by_generalisation_only(c):
    """THEORY 2: v_t(q) - v_0(q) = w (v_t - v_0)_U with w = M_qU M_UU^{-1}, a row that sums to 1."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
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
    model = empirical.empirical_model(c.trajectory, len(c.X))
    U, q = np.flatnonzero(model.visited), c.states[-1]
    kernel = kernels.state_kernel(model, c.X)
    inner = kernel[np.ix_(U, U)]
    assume(np.linalg.cond(inner) < 1e6)
    w = np.linalg.solve(inner.T, kernel[q, U])
    transition = model.transition[np.ix_(U, U)] + np.outer(model.transition[U, q], w)
    assume(radius(iteration(inner, transition, c.gamma)) < 0.93)
    limit = np.linalg.solve(np.eye(U.size) - c.gamma * transition, model.reward[U])
    values = td.weighted_softmax_td_states(c.trajectory, c.X, c.gamma, 600)[-1]
    assert_close(values[U], limit, 1e-7)
    assert_close(values[q], w @ limit, 1e-7)
    # On all states the iteration has the eigenvalue 1: radii belong on U only.
    J = np.eye(len(c.X)) - kernel @ (np.diag(model.visited.astype(float)) - c.gamma * model.transition)
    assert np.abs(np.linalg.eigvals(J) - 1).min() < 1e-6


@given(contexts(walks=("closed", "boyan"), features=DISTINCT), st.floats(0.05, 1))
def test_norm_bound(c, fraction):
    """||J||_inf <= 1 - alpha (2 min M(s,s) - 1 - gamma) for alpha <= 1 / max M(s,s)."""
    U, M, P, _ = on_sources(c)
    assume(np.isclose(P.sum(axis=1), 1).all())
    alpha = fraction / M.diagonal().max()
    norm = np.abs(iteration(M, P, c.gamma, alpha)).sum(axis=1).max()
    assert norm <= 1 - alpha * (2 * M.diagonal().min() - 1 - c.gamma) + 1e-12
    at_one = np.abs(iteration(M, P, c.gamma)).sum(axis=1).max()
    assert at_one <= 2 * (1 - M.diagonal().min()) + c.gamma + 1e-12


@given(contexts(walks=("closed", "boyan")), st.floats(0.05, 1))
def test_all_ones_is_an_eigenvector(c, alpha):
    """J 1 = (1 - alpha (1 - gamma)) 1: at alpha = 1 no kernel is faster than gamma."""
    _, M, P, _ = on_sources(c)
    assume(np.isclose(P.sum(axis=1), 1).all())
    J = iteration(M, P, c.gamma, alpha)
    np.testing.assert_allclose(J @ np.ones(len(J)), 1 - alpha * (1 - c.gamma), atol=1e-13)
    assert radius(iteration(M, P, c.gamma)) >= c.gamma - 1e-8


@given(contexts(walks=("closed", "anywhere"), features=("gaussian", "unit length", "one-hot", "repeated")))
def test_kernel_is_reversible_with_eigenvalues_in_zero_one(c):
    """M is self-adjoint in the weights c Z, so its eigenvalues are real; they lie in (0, 1]."""
    model = empirical.empirical_model(c.trajectory, len(c.X))
    U, M, _, _ = on_sources(c)
    weights = model.counts[U] * (np.exp(c.X[U] @ c.X[U].T) @ model.counts[U])
    flow = weights[:, None] * M
    np.testing.assert_allclose(flow, flow.T, rtol=1e-9)
    root = np.sqrt(weights)
    eigenvalues = np.linalg.eigvalsh(root[:, None] * M / root)
    assert eigenvalues.min() > -1e-12 and eigenvalues.max() == pytest.approx(1, abs=1e-10)


@given(st.integers(2, 6), st.integers(1, 3), seeds, st.booleans())
def test_kernel_is_invertible_iff_features_are_distinct(n_states, dim, seed, repeat):
    """exp of a positive definite Gram matrix is positive definite iff no two feature vectors agree."""
    rng = np.random.default_rng(seed)
    # Spread along a line, so that distinct features are also numerically distinct.
    X = np.arange(n_states)[:, None] * np.ones(dim) * 0.8 + 0.1 * rng.normal(size=(n_states, dim))
    if repeat:
        X[-1] = X[0]
    root = rng.normal(size=(dim, dim))
    A = root @ root.T / dim + 0.5 * np.eye(dim)
    states = np.append(rng.permutation(n_states), rng.integers(0, n_states, 5))
    trajectory = Trajectory(np.append(states, states[0]), rng.normal(size=states.size))
    M = kernels.state_kernel(empirical.empirical_model(trajectory, n_states), X, kernels.bilinear_score(A))
    # Rows and columns are scaled to a symmetric matrix with diagonal 1: rank does not depend on it, rounding does.
    scaled = np.sqrt(M * M.T / np.outer(M.diagonal(), M.diagonal()))
    assert np.linalg.matrix_rank(scaled, tol=1e-9) == n_states - repeat
    if repeat:
        np.testing.assert_array_equal(M[-1], M[0])


@pytest.mark.parametrize("beta, expected", [(1, 0.900), (2, 1.096), (4, 1.586), (8, 1.850)])
def test_three_states_of_unequal_length_diverge(beta, expected):
    """THEORY 6: features (1,0), (1.5,1), (1,3) on 1 -> 3 -> 2 -> 1, gamma .9: radius .900 ... 1.850."""
    X = np.array([[1, 0], [1.5, 1], [1, 3]])
    trajectory = Trajectory([0, 2, 1, 0], [1.0, -1.0, 0.5])
    model = empirical.empirical_model(trajectory, 3)
    score = kernels.inner_product_score(beta)
    J = iteration(kernels.state_kernel(model, X, score), model.transition, 0.9)
    assert radius(J) == pytest.approx(expected, abs=5e-4)
    values = td.weighted_softmax_td_states(trajectory, X, 0.9, 200, score=score)
    assert (np.abs(values[-1]).max() > 1e6) == (expected > 1)
    # The same features at one common length behave.
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    M = kernels.state_kernel(model, 2 * unit, score)
    assert radius(iteration(M, model.transition, 0.9)) == pytest.approx(0.9, abs=1e-9)


@pytest.mark.parametrize("beta, alpha", [(8, 0.5), (8, 0.01), (8, 1e-4)])
def test_smaller_steps_do_not_cure_sharp_divergence(beta, alpha):
    """THEORY 6: at beta = 8, M (I - gamma P) has a negative eigenvalue, so every step size diverges."""
    X = np.array([[1, 0], [1.5, 1], [1, 3]])
    model = empirical.empirical_model(Trajectory([0, 2, 1, 0], [1.0, -1.0, 0.5]), 3)
    M = kernels.state_kernel(model, X, kernels.inner_product_score(beta))
    assert radius(iteration(M, model.transition, 0.9, alpha)) > 1


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


@given(contexts(features=("one-hot",)), st.floats(0, 30))
def test_one_hot_kernel_in_closed_form(c, beta):
    """M(s,s) = c e^b / (c e^b + n - c) for visited s; a never-visited state has M(s,u) = c(u)/n at every b."""
    X = one_hot(len(c.X))
    model = empirical.empirical_model(c.trajectory, len(X))
    M = kernels.state_kernel(model, X, kernels.inner_product_score(beta))
    for s in range(len(X)):
        count = model.counts[s]
        if count:
            weight = count * np.exp(beta)
            assert M[s, s] == pytest.approx(weight / (weight + c.n - count), rel=1e-12)
        else:
            np.testing.assert_allclose(M[s], model.counts / c.n, rtol=1e-12)


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
        kernels.softmax_kernel(one_hot(7, 3.0), one_hot(7, 3.0)), kernels.softmax_kernel(X, X, kernels.inner_product_score(9))
    )


@given(st.integers(3, 30), st.integers(1, 5), seeds)
def test_small_score_scale_is_centred_linear_td(n, dim, seed):
    """n K = 1 + eps <x_j, x_i - mean x> + O(eps^2): halving eps divides the rest by 4."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n + 1, dim))
    first_order = x @ (x[:-1] - x[:-1].mean(axis=0)).T

    def rest(eps):
        kernel = kernels.softmax_kernel(x, x[:-1], kernels.inner_product_score(eps))
        return np.abs(n * kernel - 1 - eps * first_order).max()

    eps = 0.01 / max(1, np.abs(first_order).max())
    assert rest(eps) <= 10 * (eps * max(1, np.abs(x @ x.T).max())) ** 2
    assert rest(eps) / rest(eps / 2) == pytest.approx(4, rel=0.1)


@given(st.integers(2, 30), st.integers(1, 5), seeds)
def test_two_heads_isolate_centred_linear_td(n, dim, seed):
    """(K at +eps minus K at -eps) / 2 eps = <x_j, x_i - mean x> / n + O(eps^2)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n + 1, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    delta = rng.normal(size=n)
    linear = x @ ((x[:-1] - x[:-1].mean(axis=0)).T @ delta) / n

    def error(eps):
        plus, minus = (kernels.softmax_kernel(x, x[:-1], kernels.bilinear_score(s * eps * np.eye(dim))) for s in (1, -1))
        return np.abs((plus - minus) @ delta / (2 * eps) - linear).max()

    assert error(0.02) <= 20 * 0.02**2 * np.abs(delta).max()
    # Order 2: halving eps divides the error by 4, as long as it is above rounding.
    assert error(0.02) < 1e-9 or error(0.02) / error(0.01) == pytest.approx(4, rel=0.1)


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


@given(contexts(features=("gaussian", "repeated"), max_steps=10), seeds)
def test_any_positive_kernel_is_a_score(c, seed):
    """g = log kappa: Nadaraya-Watson weights kappa / sum kappa for a positive kernel."""
    width = 1 + np.random.default_rng(seed).random()

    def log_gauss(queries, sources):
        return -((queries[:, None] - sources[None]) ** 2).sum(axis=-1) / width

    kernel = kernels.softmax_kernel(c.x, c.x[:-1], log_gauss)
    kappa = np.exp(log_gauss(c.x, c.x[:-1]))
    assume(kappa.sum(axis=1).min() > 1e-300)
    np.testing.assert_allclose(kernel, kappa / kappa.sum(axis=1, keepdims=True), rtol=1e-10, atol=1e-14)
