"""Errors of weighted softmax TD against depth and context length, and the laws that are fitted to them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ictd import _checks, kernels, td
from ictd._arguments import array, declare, generator, instance, integer, positive, positives
from ictd._settings import numpy_defaults
from ictd.empirical import frequencies
from ictd.mrp import MRP, sample_paths, solve_bellman


@dataclass(frozen=True, eq=False)
class ErrorCurves(_checks.ReadOnly):
    """Errors of weighted softmax TD over layers, for several context lengths and trajectories.

    Attributes
    ----------
    lengths : ndarray of int, shape (K,)
        Context lengths n.
    errors : ndarray, shape (K, m, L+1)
        Largest error over the states against the true value, ``||v_l - v||_inf``.
    distances : ndarray, shape (K, m, L+1)
        The same against the certainty-equivalence value of the context: a fixed point, and the only one if the
        features are pairwise distinct (and A is symmetric positive definite).
    floors : ndarray, shape (K, m)
        Error of the certainty-equivalence value against the true one: where ``errors`` ends if the radius is below 1.
    radii : ndarray, shape (K, m)
        Spectral radius of the iteration matrix of each context.
    complete : ndarray, shape (K,)
        Share of the drawn contexts in which every state was a source; the others were drawn again.
    """

    lengths: np.ndarray
    errors: np.ndarray
    distances: np.ndarray
    floors: np.ndarray
    radii: np.ndarray
    complete: np.ndarray

    def __post_init__(self):
        _checks.freeze(self, **vars(self))


def _context_lengths(name, value, lengths):
    """Numbers of transitions, at least as many as there are states."""
    found = _checks.indices(name, value, "integers, shape (K,)")
    if found.ndim != 1 or found.size == 0 or found.min() < lengths["S"]:
        raise ValueError(
            f"{name} must be at least the number of states, {lengths['S']}; got {_checks.describe(found.tolist())}"
        )
    return found


@numpy_defaults()
@declare(
    process=instance(MRP, S="n_states"),
    X=array("S", "d"),
    lengths=_context_lengths,
    n_trajectories=integer(low=1),
    n_layers=integer(low=0),
    rng=generator,
    step_size=positive,
)
def error_curves(process, X, lengths, n_trajectories, n_layers, rng, score=None, step_size=1.0):
    """Draw trajectories of several lengths and follow weighted softmax TD from v_0 = 0 over the layers.

    Only complete contexts are used, those in which every state was a source at least once: Theorem 2 of the paper
    speaks of them, and certainty equivalence then has a value for every state. Others are drawn again.

    Parameters
    ----------
    process : MRP
    X : array_like, shape (S, d)
        Features of all states.
    lengths : sequence of int, shape (K,)
        Numbers n of transitions, at least S.
    n_trajectories : int
        Number m of independent trajectories for each length.
    n_layers : int
        Number L of steps.
    rng : numpy.random.Generator
    score : callable or array_like of shape (d, d), optional
        A matrix is the A of `kernels.bilinear_score`; default the inner product.
    step_size : float
        Positive step size alpha.

    Returns
    -------
    ErrorCurves
        Errors of an iteration that diverges grow, become infinite and then NaN.

    Raises
    ------
    ValueError, TypeError
        Input that does not fit, or a length at which complete contexts are rarer than one in a thousand.
    """
    gamma, n_states = process.gamma, process.n_states
    scores = kernels.scores(score, X, X)
    drawn = [_complete_models(process, int(n), n_trajectories, rng) for n in lengths]
    counts, transition = (np.stack([models[i] for models in drawn]) for i in (0, 1))  # (K, m, S), (K, m, S, S)
    kernel = kernels.softmax(scores + np.log(counts)[..., None, :])
    reward = np.broadcast_to(process.reward, counts.shape)
    target, fixed = process.value(), solve_bellman(transition, reward, gamma)
    start = np.zeros(counts.shape)
    steps = td.bellman_steps(kernel, transition, reward, gamma, np.full(n_layers, step_size), start)
    values = np.stack([start, *steps], axis=2)
    iteration = np.eye(n_states) - step_size * kernel @ (np.eye(n_states) - gamma * transition)
    return ErrorCurves(
        lengths=lengths,
        errors=np.abs(values - target).max(axis=-1),
        distances=np.abs(values - fixed[:, :, None]).max(axis=-1),
        floors=np.abs(fixed - target).max(axis=-1),
        radii=np.abs(np.linalg.eigvals(iteration)).max(axis=-1),
        complete=np.array([share for _, _, share in drawn]),
    )


def _complete_models(process, n, m, rng):
    """Counts (m, S) and relative frequencies (m, S, S) of m complete contexts, and the share of those drawn."""
    counts, transitions, draws, found = [], [], 0, 0
    while found < m:
        if draws >= 1000 and found < draws / 1000:
            raise ValueError(f"lengths must leave time to visit all states; at {n} hardly any context was complete")
        first = rng.choice(process.n_states, m, p=process.start)
        states = sample_paths.trusted(process.transition, first, rng.random((m, n)))
        count, transition, _ = frequencies(states[:, :-1], np.zeros((m, n)), states[:, 1:], process.n_states)
        complete = (count > 0).all(axis=1)
        counts.append(count[complete])
        transitions.append(transition[complete])
        draws, found = draws + m, found + int(complete.sum())
    return np.concatenate(counts)[:m], np.concatenate(transitions)[:m], found / draws


class Interval(NamedTuple):
    """An estimate with a 95 % bootstrap interval over trajectories or seeds."""

    value: float
    low: float
    high: float


def _window(name, value, lengths):
    """A pair of layers, the first one before the last one."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name} must be a pair of layers (first, last); got {_checks.describe(value)}")
    first = _checks.integer(name, value[0], low=0, high=lengths["L"] - 1)
    return first, _checks.integer(name, value[1], low=first + 1, high=lengths["L"])


# The resampling of a fit
_resampling = {"rng": generator, "n_resamples": integer(low=1)}


@numpy_defaults()
@declare(errors=array("m", "L+1"), window=_window, **_resampling)
def fitted_rate(errors, window, rng, n_resamples=2000):
    """The factor per layer by which errors shrink, from the late layers.

    Parameters
    ----------
    errors : array_like, shape (m, L+1)
        One curve per trajectory, positive in the window. Take distances to the limit: errors against the true value
        stop at their floor, and in the end distances are rounding.
    window : pair of int
        First and last layer of the fit, both included. Start late: early layers still hold faster modes.
    rng : numpy.random.Generator
        For the bootstrap.
    n_resamples : int
        Number of bootstrap samples of the m curves.

    Returns
    -------
    Interval
        exp of the mean over the curves of the least-squares slope of log(error) over the layer. With one
        curve the interval is a point.
    """
    first, last = window
    late = _checks.positives("errors", errors[:, first : last + 1])
    slopes = _slopes(np.arange(first, last + 1), np.log(late))
    logs = _bootstrap(slopes, lambda sample: sample.mean(axis=-1), rng, n_resamples)
    return Interval(*np.exp(logs).tolist())


@numpy_defaults()
@declare(lengths=positives("K"), floors=positives("K", "m"), **_resampling)
def fitted_slope(lengths, floors, rng, n_resamples=2000):
    """The exponent with which the mean floor falls with the context length: -1/2 in Theorem 2.

    Parameters
    ----------
    lengths : array_like, shape (K,)
        Context lengths, positive, at least two different ones.
    floors : array_like, shape (K, m)
        Positive errors; column i holds the trajectories of seed i.
    rng : numpy.random.Generator
        For the bootstrap.
    n_resamples : int
        Number of bootstrap samples of the m columns.

    Returns
    -------
    Interval
        Least-squares slope of log(mean floor) over log(length).
    """
    if np.unique(lengths).size < 2:
        raise ValueError(f"lengths must hold at least two different ones; got {lengths.tolist()}")
    if not np.isfinite(floors.sum(axis=1)).all():
        raise ValueError("floors must be smaller: the mean overflows")
    logs = np.log(lengths)
    slopes = _bootstrap(floors, lambda sample: _slopes(logs, np.log(sample.mean(axis=-1)).T), rng, n_resamples)
    return Interval(*slopes.tolist())


def _slopes(x, y):
    """Least-squares slopes of the rows of y, shape (..., K), over x, shape (K,)."""
    centred = x - x.mean()
    return y @ centred / (centred @ centred)


def _bootstrap(columns, statistic, rng, n_resamples):
    """The statistic of the columns, and its 2.5 % and 97.5 % quantiles over resampled columns.

    ``statistic`` maps (..., n_resamples, m) to (n_resamples,).
    """
    m = columns.shape[-1]
    resampled = statistic(columns[..., rng.integers(m, size=(n_resamples, m))])
    return np.append(statistic(columns[..., None, :]), np.quantile(resampled, [0.025, 0.975]))
