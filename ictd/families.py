"""Families of random chains and of features, from which tasks are drawn.

A family of chains is a function ``(count, n_states, rng) -> (count, S, S)`` of irreducible transition matrices, one of
features is a function ``(count, n_states, dim, rng) -> (count, S, d)``. To add one, write it here and name it in
`FAMILIES` or `FEATURES`: sampling, settings and the command line then know it.
"""

import numpy as np

from ictd.features import triangular
from ictd.mrp import boyan_transitions


def _onwards_or(other, chance):
    """State s moves to s + 1 with its chance, shape (count, S), else to ``other[s]``."""
    count, n = chance.shape
    transition = np.zeros((count, n, n))
    state = np.arange(n)
    transition[:, state, (state + 1) % n] = chance
    transition[:, state, other] += 1 - chance
    return transition


def _ring(count, n, rng):
    return _onwards_or(np.arange(n) - 1, rng.uniform(0.1, 0.9, (count, n)))


def _loop(count, n, rng):
    return _onwards_or(np.arange(n), rng.uniform(0.5, 1, (count, n)))


def _dense(count, n, rng):
    return rng.dirichlet(np.ones(n), (count, n))


def _sparse(count, n, rng):
    """Three successors of each state, one of them the next state, so that the chain is irreducible."""
    transition = np.zeros((count, n, n))
    state = np.arange(n)
    weights = rng.dirichlet(np.ones(3), (count, n))
    weights = 0.9 * weights + 0.1 / 3
    transition[:, state, (state + 1) % n] = weights[:, :, 0]
    task = np.arange(count)[:, None]
    for branch in (1, 2):
        transition[task, state, rng.integers(n, size=(count, n))] += weights[:, :, branch]
    return transition


FAMILIES = {"boyan": boyan_transitions, "ring": _ring, "dense": _dense, "sparse": _sparse, "loop": _loop}


def _gaussian(count, n_states, dim, rng):
    return rng.standard_normal((count, n_states, dim))


def _one_hot(count, n_states, dim, rng):
    if dim != n_states:
        raise ValueError(f"dim must equal n_states = {n_states} for one-hot features; got {dim}")
    return rng.permuted(np.broadcast_to(np.arange(n_states), (count, n_states)), axis=1)[..., None] == np.arange(dim)


def _triangular(count, n_states, dim, rng):
    return np.broadcast_to(triangular(n_states, dim), (count, n_states, dim))


FEATURES = {"gaussian": _gaussian, "one_hot": _one_hot, "triangular": _triangular}
