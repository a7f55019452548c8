"""Kernels over states, and what they say about the speed of weighted softmax TD and whether it converges.

Kernels are indexed [query, source]; M[s, u] is the share of state u in what state s attends to.
"""

import numpy as np

from ictd import _checks, td
from ictd.mrp import MRP, Trajectory


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
    if visited is None:
        return M.diagonal()
    mask = _checks.booleans("visited", visited, len(M))
    if not mask.any():
        raise ValueError("visited must be True for at least one state; got none")
    return M.diagonal()[mask]


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
    return identity - step_size * M @ (identity - gamma * transition)


def spectral_radius(J):
    """The largest modulus of an eigenvalue: the factor by which late steps shrink (or grow) the error.

    Parameters
    ----------
    J : array_like, shape (S, S)

    Returns
    -------
    float
    """
    return float(np.abs(np.linalg.eigvals(_square("J", J))).max())


def _square(name, matrix):
    matrix = _checks.array(name, matrix, ("S", "S"))
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} must be square, of shape (S, S); got shape {matrix.shape}")
    return matrix
