"""Kernels over states, and what they say about the speed of weighted softmax TD and whether it converges.

Kernels are indexed [query, source]; M[s, u] is the share of state u in what state s attends to.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ictd import _checks, tasks, td
from ictd._settings import numpy_defaults
from ictd.mrp import MRP, Trajectory, solve_bellman


@numpy_defaults()
def population_kernel(mrp, X, A=None):
    """The kernel of an infinite context: ``M[s, u] = mu(u) exp g(s, u) / sum_w mu(w) exp g(s, w)``.

    Parameters
    ----------
    mrp : MRP
        With one recurrent class; mu is its stationary distribution.
    X : array_like, shape (S, d)
        Features of all states.
    A : array_like, shape (d, d), optional
        Score matrix, g(s, u) = x(u)^T A x(s); default the identity.

    Returns
    -------
    ndarray, shape (S, S)
        Rows sum to 1. Columns of transient states are 0.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, NaN, a process with more than one recurrent class.
    """
    _checks.instance("mrp", mrp, MRP)
    X = _checks.array("X", X, (mrp.n_states, "d"))
    return td.softmax_kernel(X, X, _score(A), mrp.stationary())


@numpy_defaults()
def empirical_kernel(trajectory, X, A=None):
    """The kernel of a context: as `population_kernel`, with the visit counts c(u) in place of mu(u).

    Parameters
    ----------
    trajectory : Trajectory
    X : array_like, shape (S, d)
        Features of all states.
    A : array_like, shape (d, d), optional
        Score matrix, g(s, u) = x(u)^T A x(s); default the identity.

    Returns
    -------
    ndarray, shape (S, S)
        Rows sum to 1. Columns of states that were never a source are 0.
    """
    _checks.instance("trajectory", trajectory, Trajectory)
    X = _checks.array("X", X, ("S", "d"))
    return td.state_kernel(td.empirical_model(trajectory, len(X)), X, _score(A))


def _score(A):
    return None if A is None else td.bilinear_score(A)


def diagonality(M, visited=None):
    """How much states attend to themselves.

    Parameters
    ----------
    M : array_like, shape (S, S)
        A kernel.
    visited : array_like of bool, shape (S,), optional
        The states to look at; default all. In a context, take those that were a source.

    Returns
    -------
    mean, minimum : float
        Of M[s, s] over these states.
    """
    diagonal = _diagonal(M, visited)
    return float(diagonal.mean()), float(diagonal.min())


def contraction_margin(M, gamma, visited=None):
    """The constant C of Assumption 5.1 of the paper: ``min_s M[s, s] - (1 + gamma) / 2``.

    Parameters
    ----------
    M : array_like, shape (S, S)
        A kernel.
    gamma : float
        Discount in [0, 1).
    visited : array_like of bool, shape (S,), optional
        The states to look at; default all.

    Returns
    -------
    float or None
        C if it is positive: a step of size 1 then leaves at most the share 1 - 2C of the error. None if
        the assumption does not hold, which does not mean that the iteration diverges.
    """
    gamma = _checks.discount(gamma)
    margin = float(_diagonal(M, visited).min()) - (1 + gamma) / 2
    return margin if margin > 0 else None


def _diagonal(M, visited):
    M = _square("M", M)
    where = np.arange(len(M)) if visited is None else np.flatnonzero(_mask(visited, len(M)))
    diagonal = M.diagonal()[where]
    wrong = np.flatnonzero((diagonal < 0) | (diagonal > 1 + _checks.SUM_TOLERANCE))
    if wrong.size:
        s = where[wrong[0]]
        raise ValueError(f"M must be a kernel, with shares from 0 to 1; entry ({s}, {s}) is {M[s, s]}")
    return diagonal


@numpy_defaults()
def iteration_matrix(M, transition, gamma, step_size=1.0):
    """The matrix that one step multiplies the error with: ``J = I - alpha M (I - gamma P)``.

    Parameters
    ----------
    M : array_like, shape (S, S)
        A kernel. In a context, restrict it and ``transition`` to the states that were a source (U): on all
        states J has the eigenvalue 1 for each of the others. If the last state q was never a source, first
        replace P_UU by P_UU + P_Uq w with w = M_qU M_UU^{-1}; leaving q out would lose its feedback.
    transition : array_like, shape (S, S)
        P, or the relative frequencies of a context. Rows need not sum to 1.
    gamma : float
        Discount in [0, 1).
    step_size : float
        Positive step size alpha.

    Returns
    -------
    ndarray, shape (S, S)
    """
    M = _square("M", M)
    transition = _checks.array("transition", transition, M.shape)
    gamma = _checks.discount(gamma)
    step_size = _checks.real("step_size", step_size, low=0, low_open=True)
    identity = np.eye(len(M))
    J = identity - step_size * M @ (identity - gamma * transition)
    if not np.isfinite(J).all():
        raise ValueError("M, transition and step_size must be smaller: an entry of the iteration matrix overflows")
    return J


@numpy_defaults()
def spectral_radius(J):
    """The largest modulus of an eigenvalue: from almost every start, the mean factor per step in the long run.

    Parameters
    ----------
    J : array_like, shape (S, S)

    Returns
    -------
    float
    """
    return _not_too_large("J", "spectral radius", np.abs(np.linalg.eigvals(_square("J", J))).max())


def _not_too_large(name, what, number):
    """A number as a float; a bound or a mean that overflowed would say nothing."""
    if not np.isfinite(number):
        raise ValueError(f"{name} must be smaller: the {what} overflows")
    return float(number)


# ---------------------------------------------------------------------------------- norm and its bound


@numpy_defaults()
def infinity_norm(J):
    """The largest row sum of absolute values: no error grows by more than this factor in one step.

    Parameters
    ----------
    J : array_like, shape (S, S)

    Returns
    -------
    float
    """
    return _not_too_large("J", "norm", np.abs(_square("J", J)).sum(axis=1).max())


@numpy_defaults()
def norm_bound(M, gamma, step_size=1.0, visited=None):
    """A bound on the infinity norm of J that needs the diagonal of the kernel only, whatever P is.

    ``||I - alpha M (I - gamma P)||_inf <= |1 - alpha m| + alpha (1 - m + gamma)``, m = min_s M[s, s]

    Parameters
    ----------
    M : array_like, shape (S, S)
        A kernel.
    gamma : float
        Discount in [0, 1).
    step_size : float
        Positive step size alpha; it may exceed 1.
    visited : array_like of bool, shape (S,), optional
        The states to look at, as for `contraction_margin`; default all.

    Returns
    -------
    float
        2 (1 - m) + gamma at alpha = 1, the proof of Theorem 2 of the paper; 1 - alpha (2 m - 1 - gamma)
        while alpha m <= 1, alpha (1 + gamma) - 1 beyond (ours). Below 1 iff m > (1 + gamma) / 2 and
        alpha < 2 / (1 + gamma).

    Raises
    ------
    ValueError, TypeError
        Rows of M (on the visited states) that are no distribution, gamma or step_size out of range.

    Notes
    -----
    Row s of J has ``|1 - alpha M[s, s]| + alpha (1 - M[s, s])`` from I - alpha M and at most alpha gamma from
    alpha gamma M P. The sum does not increase with M[s, s], so the least diagonal entry has the largest one.
    While alpha m <= 1 the bound is attained: by the P that leads every state to the one with the least entry.
    """
    M = _square("M", M)
    if visited is not None:
        mask = _mask(visited, len(M))
        M = M[np.ix_(mask, mask)]
    M = _checks.stochastic("M" if visited is None else "M of the visited states", M)
    gamma = _checks.discount(gamma)
    step_size = _checks.real("step_size", step_size, low=0, low_open=True)
    least = float(M.diagonal().min())
    return _not_too_large("step_size", "bound", abs(1 - step_size * least) + step_size * (1 - least + gamma))


# ------------------------------------------------------------------------- a weaker sufficient condition


@numpy_defaults()
def reversing_distribution(M):
    """The distribution nu with ``nu(s) M[s, u] = nu(u) M[u, s]``: the weights nu(s) ~ mu(s) Z(s).

    The softmax divides by its normaliser Z(s) = sum_w mu(w) exp g(s, w). Seen through the kernel, states
    therefore weigh mu(s) Z(s) and no longer mu(s): TD becomes off-policy (ours).

    Parameters
    ----------
    M : array_like, shape (S, S)
        A kernel of a symmetric positive definite score matrix and features that are pairwise distinct. In a
        context, restricted to the states that were a source.

    Returns
    -------
    ndarray, shape (S,)
        Positive, sums to 1. It is also the stationary distribution of M.

    Raises
    ------
    ValueError, TypeError
        M is no kernel with positive entries, or diag(nu) M is not symmetric and positive definite beyond
        rounding: the score matrix is of another kind, or two features are equal or too close to tell.
    """
    M = _checks.stochastic("M", M)
    if (M <= 0).any():
        s, u = (int(i) for i in np.argwhere(M <= 0)[0])
        raise ValueError(f"M must have positive entries: a softmax kernel on the visited states; entry ({s}, {u}) is 0")
    nu = M[0] / M[:, 0]
    nu /= nu.sum()
    flow = nu[:, None] * M
    if not (np.isfinite(flow).all() and flow.min() > 0):
        raise ValueError(
            f"M must have larger entries for float64: some of nu(s) M(s, u) vanish; got down to {M.min():.3g}"
        )
    asymmetry = float((np.abs(flow - flow.T) / np.maximum(flow, flow.T)).max())
    if asymmetry > 1e-8:
        raise ValueError(
            f"M must come from a symmetric score matrix: diag(nu) M must be symmetric; entries differ by the share "
            f"{asymmetry:.2g}"
        )
    root = np.sqrt(nu)
    smallest = float(np.linalg.eigvalsh((flow + flow.T) / 2 / np.outer(root, root)).min())
    if smallest <= len(M) * np.finfo(np.float64).eps:
        raise ValueError(
            f"M must come from a positive definite score matrix and distinct features: its eigenvalues must be "
            f"positive; the smallest is {smallest:.2g}"
        )
    return nu


@numpy_defaults()
def reweighted_norm(M, transition, gamma):
    """``gamma ||P||_nu``, the norm of gamma P in L2(nu): below 1 it proves that the iteration converges (ours).

    Parameters
    ----------
    M : array_like, shape (S, S)
        A kernel as for `reversing_distribution`, which gives nu.
    transition : array_like, shape (S, S)
        P; rows sum to 1.
    gamma : float
        Discount in [0, 1).

    Returns
    -------
    float
        At least gamma. Below 1, every eigenvalue of ``I - alpha M (I - gamma P)`` has modulus below 1 for
        0 < alpha <= 1. The converse does not hold.

    Raises
    ------
    ValueError, TypeError
        As for `reversing_distribution`, or a transition matrix that does not fit.

    Notes
    -----
    With B = I - gamma P, an eigenvalue z of M B satisfies ``|1 - z| < 1`` iff Re(1/z) > 1/2, and
    ``Re(1/z) = Re <v, Bv>_nu / <Bv, M B v>_nu >= Re <v, Bv>_nu / ||Bv||_nu^2``, which exceeds 1/2 iff
    ``gamma ||Pv||_nu < ||v||_nu``.
    """
    nu, transition, gamma = _reweighted(M, transition, gamma)
    root = np.sqrt(nu)
    return gamma * float(np.linalg.norm(root[:, None] * transition / root, 2))


@numpy_defaults()
def reweighting_ratio(M, transition, gamma):
    """``max_u gamma^2 (nu P)(u) / nu(u)``, a bound on the square of `reweighted_norm` without singular values (ours).

    Parameters
    ----------
    M, transition, gamma
        As for `reweighted_norm`.

    Returns
    -------
    float
        At least gamma^2. Below 1 it proves convergence, since `reweighted_norm` then is below 1 as well.

    Raises
    ------
    ValueError, TypeError
        As for `reweighted_norm`.

    Notes
    -----
    By Jensen's inequality ``||Pv||_nu^2 <= sum_u (nu P)(u) |v(u)|^2``.
    """
    nu, transition, gamma = _reweighted(M, transition, gamma)
    return gamma**2 * float((nu @ transition / nu).max())


def _reweighted(M, transition, gamma):
    nu = reversing_distribution(M)
    _checks.array("transition", transition, (nu.size, nu.size))
    return nu, _checks.stochastic("transition", transition), _checks.discount(gamma)


@numpy_defaults()
def balanced_kernel(weights, X, A=None):
    """Attention with a constant normaliser (ours): the kernel whose reversing distribution is ``weights``.

    A bias b(u) on the score of each source, ``M[s, u] ~ weights(u) exp(g(s, u) + b(u))``, is chosen such that
    ``b(s) + log sum_u weights(u) exp(g(s, u) + b(u)) = 0``. With weights = mu the reweighting ratio is gamma^2.

    Parameters
    ----------
    weights : array_like, shape (S,)
        Positive: mu, or the visit counts of a context in which every state was a source.
    X : array_like, shape (S, d)
        Features of the states.
    A : array_like, shape (d, d), optional
        Symmetric positive semidefinite score matrix; default the identity.

    Returns
    -------
    ndarray, shape (S, S)
        Rows sum to 1, and ``weights @ M`` is ``weights``.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, weights that are not positive, another kind of A.

    Notes
    -----
    Sinkhorn's scaling of a symmetric matrix, with damping 1/2: near the solution an error is multiplied by
    (I - M) / 2, whose eigenvalues are in [0, 1/2), since those of M are in (0, 1].
    """
    weights = _checks.array("weights", weights, ("S",))
    if (weights <= 0).any():
        raise ValueError(f"weights must be positive; got {weights.min()}")
    X = _checks.array("X", X, (weights.size, "d"))
    if not np.isfinite(weights.sum()):
        raise ValueError(f"weights must be smaller: their sum overflows; got up to {weights.max():.3g}")
    A = np.eye(X.shape[1]) if A is None else _checks.array("A", A, (X.shape[1], X.shape[1]))
    if not np.allclose(A, A.T, rtol=1e-12, atol=0) or np.linalg.eigvalsh(A).min() < -1e-12 * np.abs(A).max():
        raise ValueError(f"A must be symmetric and positive semidefinite; got {A.tolist()}")
    products = X @ A @ X.T
    if not np.isfinite(products).all():
        raise ValueError("X must hold smaller features: a score overflows")
    scores = products + np.log(weights / weights.sum())
    bias = -scores.diagonal() / 2
    for _ in range(100):
        logits = scores + bias
        top = logits.max(axis=1, keepdims=True)
        bias = (bias - top[:, 0] - np.log(np.exp(logits - top).sum(axis=1))) / 2
    return td.softmax_kernel(X, X, lambda queries, sources: products + bias, weights)


# ------------------------------------------------------------------ errors against depth and context length


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


@numpy_defaults()
def error_curves(mrp, X, lengths, n_trajectories, n_layers, rng, A=None, step_size=1.0):
    """Draw trajectories of several lengths and follow weighted softmax TD from v_0 = 0 over the layers.

    Only complete contexts are used, those in which every state was a source at least once: Theorem 2 of the paper
    speaks of them, and certainty equivalence then has a value for every state. Others are drawn again.

    Parameters
    ----------
    mrp : MRP
    X : array_like, shape (S, d)
        Features of all states.
    lengths : sequence of int, shape (K,)
        Numbers n of transitions, at least S.
    n_trajectories : int
        Number m of independent trajectories for each length.
    n_layers : int
        Number L of steps.
    rng : numpy.random.Generator
    A : array_like, shape (d, d), optional
        Score matrix; default the identity.
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
    _checks.instance("mrp", mrp, MRP)
    S, gamma = mrp.n_states, mrp.gamma
    X = _checks.array("X", X, (S, "d"))
    lengths = _checks.indices("lengths", lengths, "integers, shape (K,)")
    if lengths.ndim != 1 or lengths.size == 0 or lengths.min() < S:
        raise ValueError(
            f"lengths must be at least the number of states, {S}; got {_checks.describe(lengths.tolist())}"
        )
    m = _checks.integer("n_trajectories", n_trajectories, low=1)
    n_layers = _checks.integer("n_layers", n_layers, low=0)
    rng = _checks.numpy_generator(rng)
    step_size = _checks.real("step_size", step_size, low=0, low_open=True)
    drawn = [_complete_models(mrp, int(n), m, rng) for n in lengths]
    counts, transition = (np.stack([models[i] for models in drawn]) for i in (0, 1))
    logits = (_score(A) or td.inner_product_score())(X, X) + np.log(counts)[..., None, :]
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    kernel = weights / weights.sum(axis=-1, keepdims=True)
    bellman = np.eye(S) - gamma * transition
    target, right = mrp.value(), mrp.reward[:, None]
    fixed = solve_bellman(transition, np.broadcast_to(mrp.reward, counts.shape), gamma)
    values = np.zeros((n_layers + 1, *counts.shape, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(n_layers):
            values[t + 1] = values[t] + step_size * (kernel @ (right - bellman @ values[t]))
    values = np.moveaxis(values[..., 0], 0, 2)
    return ErrorCurves(
        lengths=lengths,
        errors=np.abs(values - target).max(axis=-1),
        distances=np.abs(values - fixed[:, :, None]).max(axis=-1),
        floors=np.abs(fixed - target).max(axis=-1),
        radii=np.abs(np.linalg.eigvals(np.eye(S) - step_size * kernel @ bellman)).max(axis=-1),
        complete=np.array([share for _, _, share in drawn]),
    )


def _complete_models(mrp, n, m, rng):
    """Counts (m, S) and relative frequencies (m, S, S) of m complete contexts, and the share of those drawn."""
    counts, transitions, draws, found = [], [], 0, 0
    while found < m:
        if draws >= 1000 and found < draws / 1000:
            raise ValueError(f"lengths must leave time to visit all states; at {n} hardly any context was complete")
        first = rng.choice(mrp.n_states, m, p=mrp.start)
        states = tasks.sample_paths(mrp.transition, first, rng.random((m, n)))
        count, transition, _ = tasks.empirical_models(states, np.zeros((m, n)), mrp.n_states)
        complete = (count > 0).all(axis=1)
        counts.append(count[complete])
        transitions.append(transition[complete])
        draws, found = draws + m, found + int(complete.sum())
    return np.concatenate(counts)[:m], np.concatenate(transitions)[:m], found / draws


# ------------------------------------------------------------------------------------------- fitted laws


class Interval(NamedTuple):
    """An estimate with a 95 % bootstrap interval over trajectories or seeds."""

    value: float
    low: float
    high: float


@numpy_defaults()
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
    errors = _checks.array("errors", errors, ("m", "L+1"))
    first, last = _window(window, errors.shape[1])
    late = _positive("errors", errors[:, first : last + 1], ("m", "layers of the window"))
    slopes = _slopes(np.arange(first, last + 1), np.log(late))
    logs = _bootstrap(slopes, lambda sample: sample.mean(axis=-1), rng, n_resamples)
    return Interval(*np.exp(logs).tolist())


@numpy_defaults()
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
    lengths = _positive("lengths", lengths, ("K",))
    if np.unique(lengths).size < 2:
        raise ValueError(f"lengths must hold at least two different ones; got {lengths.tolist()}")
    floors = _positive("floors", floors, (lengths.size, "m"))
    _not_too_large("floors", "mean", floors.sum(axis=1).max())
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
    rng = _checks.numpy_generator(rng)
    n_resamples = _checks.integer("n_resamples", n_resamples, low=1)
    m = columns.shape[-1]
    resampled = statistic(columns[..., rng.integers(m, size=(n_resamples, m))])
    return np.append(statistic(columns[..., None, :]), np.quantile(resampled, [0.025, 0.975]))


def _positive(name, value, shape):
    values = _checks.array(name, value, shape)
    if (values <= 0).any():
        raise ValueError(f"{name} must be positive; got {values.min()}")
    return values


def _window(window, n_values):
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise TypeError(f"window must be a pair of layers (first, last); got {_checks.describe(window)}")
    first = _checks.integer("window", window[0], low=0, high=n_values - 2)
    return first, _checks.integer("window", window[1], low=first + 1, high=n_values - 1)


# ------------------------------------------------------------------------------------------------ checks


def _mask(visited, n_states):
    mask = _checks.booleans("visited", visited, n_states)
    if not mask.any():
        raise ValueError("visited must be True for at least one state; got none")
    return mask


def _square(name, matrix):
    matrix = _checks.array(name, matrix, ("S", "S"))
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be square, of shape (S, S); got shape {matrix.shape}")
    return matrix
