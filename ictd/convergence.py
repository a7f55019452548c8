"""What a kernel says about the speed of weighted softmax TD and whether it converges.

Kernels are indexed [query, source]; M[s, u] is the share of state u in what state s attends to.
"""

import numpy as np

from ictd import _checks
from ictd._arguments import array, declare, discount, instance, mask, optional, positive, square, stochastic
from ictd._settings import numpy_defaults
from ictd.empirical import EmpiricalModel


@declare(M=square("S"), visited=optional(mask("S")))
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


@declare(gamma=discount, M=square("S"), visited=optional(mask("S")))
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
    margin = float(_diagonal(M, visited).min()) - (1 + gamma) / 2
    return margin if margin > 0 else None


def _diagonal(M, visited):
    where = np.arange(len(M)) if visited is None else np.flatnonzero(visited)
    diagonal = M.diagonal()[where]
    wrong = np.flatnonzero((diagonal < 0) | (diagonal > 1 + _checks.SUM_TOLERANCE))
    if wrong.size:
        s = where[wrong[0]]
        raise ValueError(f"M must be a kernel, with shares from 0 to 1; entry ({s}, {s}) is {M[s, s]}")
    return diagonal


@numpy_defaults()
@declare(M=square("S"), transition=array("S", "S"), gamma=discount, step_size=positive)
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
    identity = np.eye(len(M))
    J = identity - step_size * M @ (identity - gamma * transition)
    if not np.isfinite(J).all():
        raise ValueError("M, transition and step_size must be smaller: an entry of the iteration matrix overflows")
    return J


@numpy_defaults()
@declare(J=square("S"))
def spectral_radius(J):
    """The largest modulus of an eigenvalue: from almost every start, the mean factor per step in the long run.

    Parameters
    ----------
    J : array_like, shape (S, S)

    Returns
    -------
    float
    """
    return _not_too_large("J", "spectral radius", np.abs(np.linalg.eigvals(J)).max())


def _not_too_large(name, what, number):
    """A number as a float; a bound or a mean that overflowed would say nothing."""
    if not np.isfinite(number):
        raise ValueError(f"{name} must be smaller: the {what} overflows")
    return float(number)


@numpy_defaults()
@declare(J=square("S"))
def infinity_norm(J):
    """The largest row sum of absolute values: no error grows by more than this factor in one step.

    Parameters
    ----------
    J : array_like, shape (S, S)

    Returns
    -------
    float
    """
    return _not_too_large("J", "norm", np.abs(J).sum(axis=1).max())


@numpy_defaults()
@declare(M=square("S"), visited=optional(mask("S")), gamma=discount, step_size=positive)
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
    if visited is not None:
        M = M[np.ix_(visited, visited)]
    M = _checks.distributions("M" if visited is None else "M of the visited states", M)
    least = float(M.diagonal().min())
    return _not_too_large("step_size", "bound", abs(1 - step_size * least) + step_size * (1 - least + gamma))


@numpy_defaults()
@declare(M=stochastic("S"))
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


# A kernel, a process and a discount; the kernel is checked further by `reversing_distribution`.
_pair = declare(M=stochastic("S"), transition=stochastic("S"), gamma=discount)


@numpy_defaults()
@_pair
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
    nu = reversing_distribution.trusted(M)
    root = np.sqrt(nu)
    return gamma * float(np.linalg.norm(root[:, None] * transition / root, 2))


@numpy_defaults()
@_pair
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
    nu = reversing_distribution.trusted(M)
    return gamma**2 * float((nu @ transition / nu).max())


# Beyond this condition number the limit of a context with never-left states is lost in rounding.
WORST_CONDITION = 1e10


@numpy_defaults()
@declare(M=square("S"), model=instance(EmpiricalModel, S="n_states"), gamma=discount)
def limit(M, model, gamma):
    """Limit of weighted softmax TD in a context from v_0 = 0 with step size 1, and the iteration's spectral radius.

    From 0 the values of the states that were never left are W times the others at every step, W = M_QU M_UU^{-1}, so
    the states that were left see P_UU + P_UQ W.

    Parameters
    ----------
    M : array_like, shape (S, S)
        The kernel of the context, as `kernels.state_kernel` gives it.
    model : EmpiricalModel
    gamma : float
        Discount in [0, 1).

    Returns
    -------
    limit : ndarray, shape (S,)
        The fixed point, to which the iteration converges if the radius is below 1; NaN where it is not known.
    radius : float
        NaN where M_UU is so close to singular that W is lost in rounding.
    """
    inside, outside = np.flatnonzero(model.visited), np.flatnonzero(~model.visited)
    inner, transition = M[np.ix_(inside, inside)], model.transition[np.ix_(inside, inside)]
    result = np.full(len(M), np.nan)
    if outside.size:
        if np.linalg.cond(inner, 1) > WORST_CONDITION:
            return result, np.nan
        W = np.linalg.solve(inner.T, M[np.ix_(outside, inside)].T).T
        transition = transition + model.transition[np.ix_(inside, outside)] @ W
    radius = spectral_radius(iteration_matrix(inner, transition, gamma))
    try:
        result[inside] = np.linalg.solve(np.eye(inside.size) - gamma * transition, model.reward[inside])
    except np.linalg.LinAlgError:
        return result, radius
    if outside.size:
        result[outside] = W @ result[inside]
    return result, radius
