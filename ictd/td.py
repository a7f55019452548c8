"""Weighted softmax TD in position form and in state form."""

import numpy as np

from ictd._arguments import array, declare, discount, instance, integer, optional, step_sizes
from ictd._settings import numpy_defaults
from ictd.empirical import empirical_model
from ictd.kernels import softmax_kernel, state_kernel
from ictd.mrp import Trajectory


@numpy_defaults()
@declare(
    rewards=array("n"),
    x=array("n+1", "d"),
    gamma=discount,
    n_steps=integer(low=0, letter="n_steps"),
    step_size=step_sizes("n_steps"),
    initial=optional(array("n+1")),
)
def weighted_softmax_td(x, rewards, gamma, n_steps, step_size=1.0, score=None, initial=None):
    """Weighted softmax TD on the positions of one trajectory.

    ``v_{t+1}(S_j) = v_t(S_j) + alpha_t sum_k K(k | j) (R_k + gamma v_t(S_k) - v_t(S_{k-1}))``, k = 1..n

    The softmax weights K(. | j) run over the n sources; source k is position k-1, so the last position is never one.

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
    score : callable or array_like of shape (d, d), optional
        A matrix is the A of `kernels.bilinear_score`. Default: the inner product of the features.
    initial : array_like, shape (n+1,), optional
        Values v_0 of the positions; default 0. Where positions of one state start from different values, they stay
        different.

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
    values = np.zeros((n_steps + 1, len(x)))
    values[0] = 0 if initial is None else initial
    kernel = softmax_kernel.trusted(x, x[:-1], score)
    for t in range(n_steps):
        td_errors = rewards + gamma * values[t, 1:] - values[t, :-1]
        values[t + 1] = values[t] + step_size[t] * (kernel @ td_errors)
    return values


def bellman_steps(kernel, transition, reward, gamma, step_sizes, values, sources=slice(None)):
    """Yield v_1, v_2, ... of ``v <- v + alpha M (r + gamma P v - v)``, of many processes at once; without checks.

    Parameters
    ----------
    kernel : ndarray, shape (..., S, U)
        M, the share of each source in what a state attends to.
    transition : ndarray, shape (..., U, S)
    reward : ndarray, shape (..., U)
    gamma : float
    step_sizes : iterable of float
        One alpha for each step.
    values : ndarray, shape (..., S)
        v_0.
    sources : index
        Which states the U sources are; default all.
    """
    for step_size in step_sizes:
        td_errors = reward + gamma * matrix_times_vector(transition, values) - values[..., sources]
        values = values + step_size * matrix_times_vector(kernel, td_errors)
        yield values


def matrix_times_vector(matrices, vectors):
    """Matrices (..., m, n) times vectors (..., n), arrays or tensors."""
    return (matrices @ vectors[..., None]).squeeze(-1)


def context_steps(model, kernel, gamma, step_sizes, values):
    """`bellman_steps` on the empirical model of a context, whose sources are the states that were left."""
    visited = model.visited
    yield from bellman_steps(
        kernel[:, visited], model.transition[visited], model.reward[visited], gamma, step_sizes, values, visited
    )


@numpy_defaults()
@declare(
    X=array("S", "d"),
    trajectory=instance(Trajectory),
    gamma=discount,
    n_steps=integer(low=0, letter="n_steps"),
    step_size=step_sizes("n_steps"),
    initial=optional(array("S")),
)
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
    gamma, n_steps, step_size, score
        As for `weighted_softmax_td`.
    initial : array_like, shape (S,), optional
        Values v_0 of the states; default 0.

    Returns
    -------
    ndarray, shape (n_steps+1, S)
    """
    if trajectory.states.max() >= len(X):
        raise ValueError(
            f"X must have a row for every state of the trajectory, up to {trajectory.states.max()}; got shape {X.shape}"
        )
    model = empirical_model.trusted(trajectory, len(X))
    kernel = state_kernel.trusted(model, X, score)
    start = np.zeros(len(X)) if initial is None else initial
    return np.stack([start, *context_steps(model, kernel, gamma, step_size, start)])
