"""Weighted softmax TD in position form and in state form, and the empirical model whose value it seeks.

Scores are callables ``score(queries (q, d), sources (m, d)) -> (q, m)``; entry (j, i) is g(S_j, S_i), how
much query j attends to source i. Those made here can be pickled, for a pool of processes. Kernels are indexed
[query, source] and have rows that sum to 1.
"""

import functools
import inspect
from dataclasses import dataclass

import numpy as np

from ictd import _checks
from ictd._settings import numpy_defaults
from ictd.mrp import Trajectory, solve_bellman

# The successor of a transition that leads to the end.
END = -1

# --------------------------------------------------------------------------------------------- scores


def inner_product_score(scale=1.0):
    """The score of the paper's construction times a score scale: g(s, s') = scale * <x(s), x(s')>.

    Parameters
    ----------
    scale : float
        Score scale beta, at least 0. Large values sharpen the kernel; 0 weights all sources equally.
    """
    return functools.partial(_inner_products, _checks.real("scale", scale, low=0))


@numpy_defaults()
def _inner_products(scale, queries, sources):
    queries, sources = _features(queries, sources)
    return _finite_scores(scale * (queries @ sources.T))


def _features(queries, sources):
    """What a score is called with, as floats: small integers would wrap, and other shapes broadcast."""
    queries = _checks.array("queries", queries, ("q", "d"))
    return queries, _checks.array("sources", sources, ("m", queries.shape[1]))


def _finite_scores(scores):
    """Refuse scores that overflow: -inf would stand for a weight of 0 that was set so."""
    if not np.isfinite(scores).all():
        raise ValueError("features must be smaller: a score overflows")
    return scores


def bilinear_score(A):
    """The score of an attention layer with matrix A: g(s, s') = x(s')^T A x(s).

    The source stands on the left because the layer computes Z^T A Z with sources as rows; the order
    matters when A is not symmetric.

    Parameters
    ----------
    A : array_like, shape (d, d)
    """
    A = _checks.array("A", A, ("d", "d"))
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"A must be square, of shape (d, d); got shape {A.shape}")
    return functools.partial(_bilinear, A)


@numpy_defaults()
def _bilinear(A, queries, sources):
    queries, sources = _features(queries, sources)
    if queries.shape[1] != A.shape[0]:
        raise ValueError(
            f"A must have shape (d, d) for features of dimension d = {queries.shape[1]}; got shape {A.shape}"
        )
    return _finite_scores(queries @ A.T @ sources.T)


def tabular_score():
    """The exact tabular score: 0 where two feature vectors are equal, -inf elsewhere."""
    return _tabular


def _tabular(queries, sources):
    queries, sources = _features(queries, sources)
    same = (queries[:, None, :] == sources[None, :, :]).all(axis=-1)
    return np.where(same, 0.0, -np.inf)


# -------------------------------------------------------------------------------------------- kernels


@numpy_defaults()
def softmax_kernel(queries, sources, score=None, counts=None):
    """Normalised weights of each source for each query.

    ``kernel[j, i] = counts[i] exp g(q_j, s_i) / sum_m counts[m] exp g(q_j, s_m)``

    Parameters
    ----------
    queries : array_like, shape (q, d)
    sources : array_like, shape (m, d)
    score : callable, optional
        Default: the inner product. Scores of -inf give weight 0.
    counts : array_like, shape (m,), optional
        Non-negative multiplicities of the sources, not all 0; default 1 each.

    Returns
    -------
    ndarray, shape (q, m)
        Rows sum to 1. A query whose scores are all -inf has no weights: its row is 0.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, NaN, or a score that returns NaN or +inf.
    """
    queries = _checks.array("queries", queries, ("q", "d"))
    sources = _checks.array("sources", sources, ("m", queries.shape[1]))
    scores = _scores(score, queries, sources)
    if counts is not None:
        counts = _checks.array("counts", counts, (len(sources),))
        if (counts < 0).any() or not counts.any():
            raise ValueError(f"counts must be non-negative and not all 0; got {counts.tolist()}")
        scores = scores + np.log(counts)
    # Subtracting the row's largest score keeps exp below 1; a row of -inf is left at weight 0.
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def _scores(score, queries, sources):
    if score is None:
        score = inner_product_score()
    if not callable(score):
        raise TypeError(
            f"score must be a callable (queries (q, d), sources (m, d)) -> (q, m), for example "
            f"td.inner_product_score(2.0); got {_checks.describe(score)}"
        )
    try:
        inspect.signature(score).bind(queries, sources)
    except ValueError:
        pass  # some callables written in C have no signature
    except TypeError as error:
        raise TypeError(
            f"score must take two arguments, (queries, sources): {error}; got {_checks.describe(score)}. The functions "
            f"of td make a score when called: td.inner_product_score(), td.bilinear_score(A), td.tabular_score()"
        ) from None
    shape = (len(queries), len(sources))
    scores = _checks.array("score(queries, sources)", score(queries, sources), shape, finite=False)
    if np.isnan(scores).any() or (scores == np.inf).any():
        raise ValueError("score must return finite numbers or -inf; it returned NaN or +inf")
    return scores


# -------------------------------------------------------------------------------------- position form


@numpy_defaults()
def weighted_softmax_td(x, rewards, gamma, n_steps, step_size=1.0, score=None, initial=None):
    """Weighted softmax TD on the positions of one trajectory.

    ``v_{t+1}(S_j) = v_t(S_j) + alpha_t sum_k K(k | j) (R_k + gamma v_t(S_k) - v_t(S_{k-1}))``, k = 1..n

    The softmax weights K(. | j) run over the n source positions 0..n-1; the last position is never a
    source.

    Parameters
    ----------
    x : array_like, shape (n+1, d)
        Features of S_0..S_n.
    rewards : array_like, shape (n,)
        R_1..R_n.
    gamma : float
        Discount in [0, 1).
    n_steps : int
        Number of steps L, at least 0.
    step_size : float or array_like of shape (n_steps,)
        Positive step sizes alpha_t.
    score : callable, optional
        Default: the inner product of the features.
    initial : array_like, shape (n+1,), optional
        Values v_0 of the positions; default 0. Start positions of the same state from the same value.

    Returns
    -------
    ndarray, shape (n_steps+1, n+1)
        Row t holds v_t(S_0)..v_t(S_n). A position without any finite score keeps its initial value. An
        iteration that diverges may grow to infinity and NaN.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, an empty context, NaN, gamma outside [0, 1), step sizes that are not positive.
    """
    rewards = _checks.array("rewards", rewards, ("n",))
    x = _checks.array("x", x, (rewards.size + 1, "d"))
    gamma = _checks.discount(gamma)
    n_steps = _checks.integer("n_steps", n_steps, low=0)
    step_size = _checks.step_sizes(step_size, n_steps)
    values = np.zeros((n_steps + 1, len(x)))
    if initial is not None:
        values[0] = _checks.array("initial", initial, (len(x),))
    kernel = softmax_kernel(x, x[:-1], score)
    for t in range(n_steps):
        td_errors = rewards + gamma * values[t, 1:] - values[t, :-1]
        values[t + 1] = values[t] + step_size[t] * (kernel @ td_errors)
    return values


# ------------------------------------------------------------------------------ empirical model and CE


@dataclass(frozen=True, eq=False)
class EmpiricalModel(_checks.ReadOnly):
    """What data say about the process: counts, mean rewards and relative frequencies.

    Attributes
    ----------
    counts : ndarray of int, shape (S,)
        c(u), how often u was left (how often it was a source); at most 2**53, up to which floats count exactly.
    transition : ndarray, shape (S, S)
        Relative frequencies of the successors. Rows sum to at most 1: what is missing leads to an end worth 0. The
        row of a state that was never a source is 0.
    reward : ndarray, shape (S,)
        Mean reward for leaving; NaN for a state that was never a source.
    visited : ndarray of bool, shape (S,)
        Whether the state was a source at least once.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, or fields that contradict each other.
    """

    counts: np.ndarray
    transition: np.ndarray
    reward: np.ndarray
    visited: np.ndarray

    def __post_init__(self):
        counts = _checks.array("counts", self.counts, ("S",))
        if (counts < 0).any() or (counts % 1).any() or not counts.any():
            raise ValueError(f"counts must be non-negative whole numbers, not all 0; got {counts.tolist()}")
        if counts.max() > 2**53:
            raise ValueError(f"counts must be at most 2**53; got {counts.max():.17g}")
        n_states = counts.size
        transition = _checks.array("transition", self.transition, (n_states, n_states))
        reward = _checks.array("reward", self.reward, (n_states,), finite=False)
        visited = _checks.booleans("visited", self.visited, n_states)
        if (visited != (counts > 0)).any():
            raise ValueError(f"visited must be True exactly where counts > 0; got {visited.tolist()}")
        if not np.isfinite(reward[visited]).all():
            raise ValueError(f"reward must be finite for the visited states; got {reward.tolist()}")
        if not np.isnan(reward[~visited]).all():
            raise ValueError(f"reward must be NaN for states that were never a source; got {reward.tolist()}")
        if (transition < 0).any():
            row, column = (int(i) for i in np.argwhere(transition < 0)[0])
            raise ValueError(f"transition must be non-negative; entry ({row}, {column}) is {transition[row, column]}")
        sums = transition.sum(axis=1)
        if sums.max() > 1 + _checks.SUM_TOLERANCE:
            row = int(sums.argmax())
            raise ValueError(f"transition must have rows that sum to at most 1; row {row} sums to {sums[row]:.10g}")
        # The excess of a row that was rounded; rows within the rounding of a sum stay bit for bit as they are.
        transition /= np.where(sums > 1 + n_states * np.finfo(np.float64).eps, sums, 1)[:, None]
        if transition[~visited].any():
            raise ValueError("transition must have rows of 0 for states that were never a source; it has others")
        _checks.freeze(self, counts=counts.astype(np.int64), transition=transition, reward=reward, visited=visited)


@numpy_defaults()
def empirical_model(trajectory, n_states):
    """Count the transitions of a trajectory.

    Parameters
    ----------
    trajectory : Trajectory
    n_states : int
        Number of states S; larger than every state in the trajectory.

    Returns
    -------
    EmpiricalModel

    Raises
    ------
    ValueError, TypeError
        A state of the trajectory beyond n_states, or rewards whose sum per state overflows.
    """
    _checks.instance("trajectory", trajectory, Trajectory)
    largest = int(trajectory.states.max())
    n_states = _checks.side("n_states", n_states)
    if largest >= n_states:
        raise ValueError(f"n_states must exceed every state of the trajectory; got {n_states} and state {largest}")
    try:
        return model_of_transitions(trajectory.states[:-1], trajectory.rewards, trajectory.states[1:], n_states)
    except ValueError as error:  # a sum that overflows
        raise ValueError(f"trajectory must hold smaller rewards: {error}") from None


def model_of_transitions(sources, rewards, successors, n_states):
    """Count transitions, whatever walks they come from; `empirical_model` takes those of one trajectory.

    Parameters
    ----------
    sources : array_like of int, shape (m,)
        The states that were left, from 0 to S-1.
    rewards : array_like, shape (m,)
        Paid for leaving them.
    successors : array_like of int, shape (m,)
        The states that were entered; `END` where the transition led to the end, which is worth 0.
    n_states : int
        Number of states S.

    Returns
    -------
    EmpiricalModel

    Raises
    ------
    ValueError, TypeError
        Lengths that do not fit, states that are not from 0 to S-1, or rewards whose sum per state overflows.
    """
    rewards = _checks.array("rewards", rewards, ("m",))
    n_states = _checks.side("n_states", n_states)
    sources = _checks.indices("sources", sources, "an array of integer state indices, shape (m,)")
    successors = _checks.indices("successors", successors, "an array of integer state indices, shape (m,)")
    for name, states, low in (("sources", sources, 0), ("successors", successors, END)):
        if states.shape != rewards.shape:
            raise ValueError(f"{name} must have shape {rewards.shape}, as rewards; got {states.shape}")
        if states.min() < low or states.max() >= n_states:
            raise ValueError(f"{name} must be from {low} to {n_states - 1}; got {states.min()} to {states.max()}")
    counts = np.bincount(sources, minlength=n_states)
    on = successors != END
    pairs = np.bincount(sources[on] * n_states + successors[on], minlength=n_states**2).reshape(n_states, n_states)
    sums = np.bincount(sources, weights=rewards, minlength=n_states)
    if not np.isfinite(sums).all():
        raise ValueError(
            f"rewards must have a finite sum per state; that of state {np.argmin(np.isfinite(sums))} overflows"
        )
    visited = counts > 0
    at_least_one = np.maximum(counts, 1)
    reward = np.where(visited, sums / at_least_one, np.nan)
    return EmpiricalModel(counts, pairs / at_least_one[:, None], reward, visited)


@numpy_defaults()
def certainty_equivalence(model, gamma, boundary=None):
    """Value of the empirical model: v_CE = (I - gamma P_hat)^{-1} r_hat on the states that were a source.

    Parameters
    ----------
    model : EmpiricalModel
    gamma : float
        Discount in [0, 1).
    boundary : float or array_like of shape (S,), optional
        Values to use for the states that were never a source. Only those that a visited state leads to
        are read; the others may be NaN.

    Returns
    -------
    ndarray, shape (S,)
        NaN for states that were never a source: the data say nothing about what follows them.

    Raises
    ------
    ValueError
        If gamma > 0, a visited state leads to one that was never a source (only the last state of a
        trajectory can be one) and ``boundary`` is not given.
    """
    _checks.instance("model", model, EmpiricalModel)
    gamma = _checks.discount(gamma)
    n_states = model.counts.size
    if boundary is not None:
        if _checks.dimensions(boundary) == 0:
            boundary = np.full(n_states, _checks.real("boundary", boundary))
        boundary = _checks.array("boundary", boundary, (n_states,), finite=False)
    inside, outside = np.flatnonzero(model.visited), np.flatnonzero(~model.visited)
    leaks = model.transition[np.ix_(inside, outside)]
    reached = outside[leaks.any(axis=0)]
    right = model.reward[inside]
    if reached.size and gamma > 0:  # at gamma = 0 nothing depends on what follows: the values are the mean rewards
        if boundary is None:
            raise ValueError(
                f"model has a visited state that leads to state {reached[0]}, which was never a source, so its "
                f"value is not determined by the data: pass boundary= with a value for it"
            )
        if not np.isfinite(boundary[reached]).all():
            raise ValueError(f"boundary must be finite for state {reached[0]}; got {boundary[reached[0]]}")
        right = right + gamma * model.transition[np.ix_(inside, reached)] @ boundary[reached]
    values = np.full(n_states, np.nan)
    inner = model.transition[np.ix_(inside, inside)]
    try:
        values[inside] = solve_bellman(inner, right, gamma)
    except ValueError:
        raise ValueError(
            f"model and boundary must hold smaller numbers: the value overflows; rewards are up to "
            f"{np.abs(model.reward[inside]).max():.3g} in size"
        ) from None
    return values


# ----------------------------------------------------------------------------------------- state form


def state_kernel(model, X, score=None):
    """The kernel of the state form: ``M[s, u] = c(u) exp g(s, u) / sum_w c(w) exp g(s, w)``.

    Parameters
    ----------
    model : EmpiricalModel
    X : array_like, shape (S, d)
        Features of all states.
    score : callable, optional
        Default: the inner product of the features.

    Returns
    -------
    ndarray, shape (S, S)
        Columns of states that were never a source are 0. Rows sum to 1, except that a state without any
        finite score has a row of 0.
    """
    _checks.instance("model", model, EmpiricalModel)
    X = _checks.array("X", X, (model.counts.size, "d"))
    visited = model.visited
    kernel = np.zeros((len(X), len(X)))
    kernel[:, visited] = softmax_kernel(X, X[visited], score, model.counts[visited])
    return kernel


def bellman_steps(model, kernel, gamma, step_sizes, values):
    """Yield v_1, v_2, ... of ``v <- v + alpha M (r_hat + gamma P_hat v - v)``, without checks.

    Parameters
    ----------
    model : EmpiricalModel
    kernel : ndarray, shape (S, S)
        M, as `state_kernel` gives it.
    gamma : float
    step_sizes : iterable of float
        One alpha for each step.
    values : ndarray, shape (S,)
        v_0.
    """
    visited = model.visited
    kernel, reward, transition = kernel[:, visited], model.reward[visited], model.transition[visited]
    for step_size in step_sizes:
        td_errors = reward + gamma * (transition @ values) - values[visited]
        values = values + step_size * (kernel @ td_errors)
        yield values


@numpy_defaults()
def weighted_softmax_td_states(trajectory, X, gamma, n_steps, step_size=1.0, score=None, initial=None):
    """Weighted softmax TD on states: a kernel-preconditioned Bellman step of the empirical model.

    ``v <- v + alpha M (r_hat + gamma P_hat v - v)``

    Equal to `weighted_softmax_td` at every position if the positions of one state start from one value,
    at a cost per step that does not grow with the length of the trajectory.

    Parameters
    ----------
    trajectory : Trajectory
    X : array_like, shape (S, d)
        Features of all states.
    gamma : float
        Discount in [0, 1).
    n_steps : int
        Number of steps L, at least 0.
    step_size : float or array_like of shape (n_steps,)
        Positive step sizes alpha_t.
    score : callable, optional
        Default: the inner product of the features.
    initial : array_like, shape (S,), optional
        Values v_0 of the states; default 0.

    Returns
    -------
    ndarray, shape (n_steps+1, S)
    """
    X = _checks.array("X", X, ("S", "d"))
    _checks.instance("trajectory", trajectory, Trajectory)
    if trajectory.states.max() >= len(X):
        raise ValueError(
            f"X must have a row for every state of the trajectory, up to {trajectory.states.max()}; got shape {X.shape}"
        )
    model = empirical_model(trajectory, len(X))
    gamma = _checks.discount(gamma)
    n_steps = _checks.integer("n_steps", n_steps, low=0)
    step_size = _checks.step_sizes(step_size, n_steps)
    values = np.zeros((n_steps + 1, len(X)))
    if initial is not None:
        values[0] = _checks.array("initial", initial, (len(X),))
    steps = bellman_steps(model, state_kernel(model, X, score), gamma, step_size, values[0])
    for t, step in enumerate(steps, start=1):
        values[t] = step
    return values
