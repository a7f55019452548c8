"""Scores and softmax kernels: exact weights at every size of the scores, and who attends to whom."""

import functools
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import assert_close, contexts, empirical_kernel_loops, on_sources, seeds

from ictd import features, kernels, mrp
from ictd.empirical import empirical_model

# ----------------------------------------------------------------------------------------------------------- scores


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


@pytest.mark.parametrize(
    "score", [kernels.inner_product_score(2.0), kernels.bilinear_score([[0, 1], [0, 0]]), kernels.tabular_score()]
)
def test_scores_can_be_sent_to_another_process(score):
    x = np.random.default_rng(0).normal(size=(3, 2))
    again = pickle.loads(pickle.dumps(score))
    assert kernels.softmax_kernel(x, x, again).tobytes() == kernels.softmax_kernel(x, x, score).tobytes()


def test_any_callable_of_two_arguments_is_a_score():
    """Partial functions, methods, ufuncs-like C functions and instances with __call__."""

    class Score:
        def __call__(self, queries, sources, scale=1.0):
            return scale * (queries @ sources.T)

    x = np.random.default_rng(0).normal(size=(4, 2))
    expected = kernels.softmax_kernel(x, x)
    for score in (Score(), functools.partial(Score(), scale=1.0), np.inner, lambda *both: both[0] @ both[1].T):
        np.testing.assert_allclose(kernels.softmax_kernel(x, x, score), expected, rtol=1e-14)


def test_a_callable_that_shows_no_signature_is_a_score_too():
    """As some that are written in C: max of one number and another one."""
    assert kernels.softmax_kernel([[1.0]], [[2.0]], max).tolist() == [[1]]


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


# ------------------------------------------------------------------------------------------------------ the softmax


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


@pytest.mark.filterwarnings("error")
def test_extreme_scores_give_exact_weights_in_silence():
    """Neither scores at the ends of float64 nor sharp kernels warn, also where NumPy is told to raise."""
    rows = np.array([[1e308, -1e308], [-1e308, 1e308], [0.0, -np.inf]])
    with np.errstate(all="raise"):
        kernel = kernels.softmax_kernel(np.ones((3, 1)), np.ones((2, 1)), lambda q, s: rows)
        sharp = kernels.softmax_kernel(50 * np.eye(3), 50 * np.eye(3))
    assert kernel.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert (sharp == np.eye(3)).all()


def test_a_query_without_any_finite_score_has_a_row_of_0():
    rows = np.array([[-np.inf, -np.inf], [-np.inf, 3.0]])
    kernel = kernels.softmax_kernel(np.ones((2, 1)), np.ones((2, 1)), lambda q, s: rows, [1, 2])
    assert kernel.tolist() == [[0, 0], [0, 1]]


def test_the_softmax_of_many_rows_is_that_of_each():
    logits = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    kernel = kernels.softmax(logits)
    for index in np.ndindex(2, 3, 4):
        np.testing.assert_allclose(kernel[index], np.exp(logits[index]) / np.exp(logits[index]).sum(), rtol=1e-14)


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
        plus, minus = (kernels.softmax_kernel(x, x[:-1], sign * eps * np.eye(dim)) for sign in (1, -1))
        return np.abs((plus - minus) @ delta / (2 * eps) - linear).max()

    assert error(0.02) <= 20 * 0.02**2 * np.abs(delta).max()
    # Order 2: halving eps divides the error by 4, as long as it is above rounding.
    assert error(0.02) < 1e-9 or error(0.02) / error(0.01) == pytest.approx(4, rel=0.1)


# ---------------------------------------------------------------------------------------------- kernels over states


@given(contexts(features=("gaussian", "unit length", "repeated", "zero")))
def test_state_kernel_counts_visits(c):
    """M[s, u] = c(u) exp g(s, u) / sum: as counted in loops; columns of states that were no source are 0."""
    model = c.model
    assert_close(kernels.state_kernel(model, c.X), empirical_kernel_loops(c.states, c.X), 1e-12)
    assert (kernels.state_kernel(model, c.X)[:, ~model.visited] == 0).all()


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


def test_population_kernel_by_hand():
    process = mrp.MRP([[0.5, 0.5], [1.0, 0.0]], [1.0, 0.0], 0.9)
    # mu = (2/3, 1/3); one-hot scores are 1 for the same state and 0 otherwise.
    kernel = kernels.population_kernel(process, features.one_hot(2))
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


@given(contexts(features=("one-hot",)), st.floats(0, 30))
def test_one_hot_kernel_in_closed_form(c, beta):
    """M(s,s) = c e^b / (c e^b + n - c) for visited s; a never-visited state has M(s,u) = c(u)/n at every b."""
    X = features.one_hot(len(c.X))
    model = empirical_model(c.trajectory, len(X))
    M = kernels.state_kernel(model, X, kernels.inner_product_score(beta))
    for s in range(len(X)):
        count = model.counts[s]
        if count:
            weight = count * np.exp(beta)
            assert M[s, s] == pytest.approx(weight / (weight + c.n - count), rel=1e-12)
        else:
            np.testing.assert_allclose(M[s], model.counts / c.n, rtol=1e-12)


@given(contexts(walks=("closed", "anywhere"), features=("gaussian", "unit length", "one-hot", "repeated")))
def test_kernel_is_reversible_with_eigenvalues_in_zero_one(c):
    """M is self-adjoint in the weights c Z, so its eigenvalues are real; they lie in (0, 1]."""
    model = c.model
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
    trajectory = mrp.Trajectory(np.append(states, states[0]), rng.normal(size=states.size))
    M = kernels.state_kernel(empirical_model(trajectory, n_states), X, kernels.bilinear_score(A))
    # Rows and columns are scaled to a symmetric matrix with diagonal 1: rank does not depend on it, rounding does.
    scaled = np.sqrt(M * M.T / np.outer(M.diagonal(), M.diagonal()))
    assert np.linalg.matrix_rank(scaled, tol=1e-9) == n_states - repeat
    if repeat:
        np.testing.assert_array_equal(M[-1], M[0])


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


def test_balanced_attention_takes_weights_and_features_of_any_size():
    rng = np.random.default_rng(7)
    weights, X = rng.uniform(0.5, 2, 4), rng.normal(size=(4, 3))
    M = kernels.balanced_kernel(weights, X)
    np.testing.assert_allclose(kernels.balanced_kernel(1e200 * weights, X), M, rtol=1e-12)
    far = kernels.balanced_kernel(weights, 40 * X)  # exp of the scores overflows
    np.testing.assert_allclose(weights @ far, weights, rtol=1e-10)
    np.testing.assert_allclose(far, np.eye(4), atol=1e-10)
    twice = kernels.balanced_kernel(weights, X[[0, 0, 1, 2]])  # equal features: semidefinite
    np.testing.assert_allclose(weights @ twice, weights, rtol=1e-10)
    np.testing.assert_allclose(twice[0], twice[1], rtol=1e-14)


@pytest.mark.parametrize(
    "X, A",
    [
        (np.eye(2), [[2, 1], [0.9, 2]]),  # hardly asymmetric
        ([[3, 1], [1, 3]], [[1, 2], [2, 1]]),  # long features of one sign
        ([[10, 0], [9.9, 1.4]], -np.eye(2)),  # of the other
    ],
)
def test_scores_that_are_not_symmetric_and_semidefinite_cannot_be_balanced(X, A):
    with pytest.raises(ValueError, match="^score must be symmetric, with exp of the scores positive semidefinite"):
        kernels.balanced_kernel([1, 1], X, A)
