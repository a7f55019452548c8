"""Feature maps: one row of the matrix X, shape (S, d), for each state."""

import numpy as np

from ictd._arguments import declare, generator, positive, side
from ictd._settings import numpy_defaults


@declare(n_states=side(), scale=positive)
def one_hot(n_states, scale=1.0):
    """Indicator features: state s has ``scale`` in place s and 0 elsewhere.

    Parameters
    ----------
    n_states : int
        Number of states S, at least 1.
    scale : float
        Positive length of every feature vector. Inner products, and so the scores, are
        ``scale**2`` for equal states and 0 for others.

    Returns
    -------
    ndarray, shape (S, S)
    """
    return scale * np.eye(n_states)


@numpy_defaults()
@declare(n_states=side(), dim=side(), rng=generator, scale=positive)
def gaussian(n_states, dim, rng, scale=1.0):
    """Independent normal features with mean 0 and standard deviation ``scale``.

    Parameters
    ----------
    n_states, dim : int
        Number of states S and of features d, each at least 1.
    rng : numpy.random.Generator
    scale : float
        Positive standard deviation of every entry.

    Returns
    -------
    ndarray, shape (S, d)
    """
    result = scale * rng.standard_normal((n_states, dim))
    if not np.isfinite(result).all():
        raise ValueError(f"scale must be smaller: a feature overflows; got {scale:.3g}")
    return result


@numpy_defaults()
@declare(n_states=side(low=2), dim=side(low=2), scale=positive)
def triangular(n_states, dim, scale=1.0):
    """Boyan's features: overlapping hat functions over the numbered states, the same for every task.

    State s lies at the place s (d - 1) / (S - 1) on a line with d knots 0, ..., d - 1. Feature i is ``scale`` at
    knot i and falls linearly to 0 at the knots beside it, so the features of a state sum to ``scale``.

    Parameters
    ----------
    n_states, dim : int
        Number of states S and of features d, each at least 2.
    scale : float
        Positive height of the hats.

    Returns
    -------
    ndarray, shape (S, d)

    Notes
    -----
    J. A. Boyan (1999), "Least-squares temporal difference learning", with S = 13 and d = 4.
    """
    place = np.linspace(0, dim - 1, n_states)
    hats = np.clip(1 - np.abs(place[:, None] - np.arange(dim)), 0, None)
    return scale * hats
