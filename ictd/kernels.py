"""Scores, and the softmax kernels that they make: who attends to whom.

Scores are callables ``score(queries (q, d), sources (m, d)) -> (q, m)``; entry (j, i) is g(S_j, S_i), how
much query j attends to source i. Those made here can be pickled, for a pool of processes. Kernels are indexed
[query, source] and have rows that sum to 1.
"""

import functools
import inspect

import numpy as np

from ictd import _checks
from ictd._arguments import array, declare, instance, optional, positives, real, square
from ictd._settings import numpy_defaults
from ictd.empirical import EmpiricalModel, empirical_model
from ictd.mrp import MRP, Trajectory


@declare(scale=real(low=0))
def inner_product_score(scale=1.0):
    """The score of the paper's construction times a score scale: g(s, s') = scale * <x(s), x(s')>.

    Parameters
    ----------
    scale : float
        Score scale beta, at least 0. Large values sharpen the kernel; 0 weights all sources equally.
    """
    return functools.partial(_inner_products, scale)


# What a score is called with: small integers would wrap, and other shapes broadcast.
_features = declare(queries=array("q", "d"), sources=array("m", "d"))


@numpy_defaults()
@_features
def _inner_products(scale, queries, sources):
    return _finite_scores(scale * (queries @ sources.T))


def _finite_scores(scores):
    """Refuse scores that overflow: -inf would stand for a weight of 0 that was set so."""
    if not np.isfinite(scores).all():
        raise ValueError("features must be smaller: a score overflows")
    return scores


@declare(A=square("d"))
def bilinear_score(A):
    """The score of an attention layer with matrix A: g(s, s') = x(s')^T A x(s).

    The source stands on the left because the layer computes Z^T A Z with sources as rows; the order
    matters when A is not symmetric.

    Parameters
    ----------
    A : array_like, shape (d, d)
    """
    return functools.partial(_bilinear, A)


@numpy_defaults()
@_features
def _bilinear(A, queries, sources):
    if queries.shape[1] != A.shape[0]:
        raise ValueError(
            f"score must fit features of dimension d = {queries.shape[1]}: its A must have shape (d, d); "
            f"got shape {A.shape}"
        )
    return _finite_scores(queries @ A.T @ sources.T)


def tabular_score():
    """The exact tabular score: 0 where two feature vectors are equal, -inf elsewhere."""
    return _tabular


@_features
def _tabular(queries, sources):
    same = (queries[:, None, :] == sources[None, :, :]).all(axis=-1)
    return np.where(same, 0.0, -np.inf)


def _multiplicities(letter):
    """Non-negative multiplicities of sources, not all 0."""

    def check(name, value, lengths):
        counts = array(letter)(name, value, lengths)
        if (counts < 0).any() or not counts.any():
            raise ValueError(f"{name} must be non-negative and not all 0; got {counts.tolist()}")
        return counts

    return check


@numpy_defaults()
@declare(queries=array("q", "d"), sources=array("m", "d"), counts=optional(_multiplicities("m")))
def softmax_kernel(queries, sources, score=None, counts=None):
    """Normalised weights of each source for each query.

    ``kernel[j, i] = counts[i] exp g(q_j, s_i) / sum_m counts[m] exp g(q_j, s_m)``

    Parameters
    ----------
    queries : array_like, shape (q, d)
    sources : array_like, shape (m, d)
    score : callable or array_like of shape (d, d), optional
        A matrix is the A of `bilinear_score`. Default: the inner product. Scores of -inf give weight 0.
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
    logits = scores(score, queries, sources)
    return softmax(logits if counts is None else logits + np.log(counts))


def softmax(logits):
    """Softmax over the last axis. A row of -inf has no weights: it is 0."""
    # Subtracting the row's largest entry keeps exp below 1.
    top = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - np.where(np.isfinite(top), top, 0))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0, total, 1)


def scores(score, queries, sources):
    """The scores (q, m) of a score, checked: finite or -inf. Queries and sources are not checked.

    A score of None is the inner product, and a matrix the A of a `bilinear_score`.
    """
    if score is None:
        return _inner_products.trusted(1.0, queries, sources)
    if isinstance(score, (list, tuple)) or (hasattr(score, "shape") and not callable(score)):
        return _bilinear.trusted(_checks.square("score", score, "d"), queries, sources)
    if not callable(score):
        raise TypeError(
            f"score must be a callable (queries (q, d), sources (m, d)) -> (q, m), for example "
            f"kernels.inner_product_score(2.0), or an array of shape (d, d); got {_checks.describe(score)}"
        )
    try:
        inspect.signature(score).bind(queries, sources)
    except ValueError:
        pass  # some callables written in C have no signature
    except TypeError as error:
        raise TypeError(
            f"score must take two arguments, (queries, sources): {error}; got {_checks.describe(score)}. The functions "
            f"of kernels make a score when called: kernels.inner_product_score(), kernels.bilinear_score(A), "
            f"kernels.tabular_score()"
        ) from None
    shape = (len(queries), len(sources))
    result = _checks.array("score(queries, sources)", score(queries, sources), shape, finite=False)
    if np.isnan(result).any() or (result == np.inf).any():
        raise ValueError("score must return finite numbers or -inf; it returned NaN or +inf")
    return result


@numpy_defaults()
@declare(model=instance(EmpiricalModel, S="n_states"), X=array("S", "d"))
def state_kernel(model, X, score=None):
    """The kernel of the state form: ``M[s, u] = c(u) exp g(s, u) / sum_w c(w) exp g(s, w)``.

    Parameters
    ----------
    model : EmpiricalModel
    X : array_like, shape (S, d)
        Features of all states.
    score : callable or array_like of shape (d, d), optional
        A matrix is the A of `bilinear_score`. Default: the inner product of the features.

    Returns
    -------
    ndarray, shape (S, S)
        Columns of states that were never a source are 0. Rows sum to 1, except that a state without any
        finite score has a row of 0.
    """
    visited = model.visited
    kernel = np.zeros((len(X), len(X)))
    kernel[:, visited] = softmax_kernel.trusted(X, X[visited], score, model.counts[visited])
    return kernel


@numpy_defaults()
@declare(process=instance(MRP, S="n_states"), X=array("S", "d"))
def population_kernel(process, X, score=None):
    """The kernel of an infinite context: ``M[s, u] = mu(u) exp g(s, u) / sum_w mu(w) exp g(s, w)``.

    Parameters
    ----------
    process : MRP
        With one recurrent class; mu is its stationary distribution.
    X : array_like, shape (S, d)
        Features of all states.
    score : callable or array_like of shape (d, d), optional
        A matrix is the A of `bilinear_score`; default the inner product.

    Returns
    -------
    ndarray, shape (S, S)
        Rows sum to 1. Columns of transient states are 0.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, NaN, a process with more than one recurrent class.
    """
    return softmax_kernel.trusted(X, X, score, process.stationary())


@numpy_defaults()
@declare(trajectory=instance(Trajectory), X=array("S", "d"))
def empirical_kernel(trajectory, X, score=None):
    """The kernel of a context: as `population_kernel`, with the visit counts c(u) in place of mu(u).

    Parameters
    ----------
    trajectory : Trajectory
    X, score
        As for `population_kernel`.

    Returns
    -------
    ndarray, shape (S, S)
        Rows sum to 1. Columns of states that were never a source are 0.
    """
    return state_kernel.trusted(empirical_model.trusted(trajectory, len(X)), X, score)


@numpy_defaults()
@declare(weights=positives("S"), X=array("S", "d"))
def balanced_kernel(weights, X, score=None):
    """Attention with a constant normaliser (ours): the kernel whose reversing distribution is ``weights``.

    A bias b(u) on the score of each source, ``M[s, u] ~ weights(u) exp(g(s, u) + b(u))``, is chosen such that
    ``b(s) + log sum_u weights(u) exp(g(s, u) + b(u)) = 0``. With weights = mu the reweighting ratio is gamma^2.

    Parameters
    ----------
    weights : array_like, shape (S,)
        Positive: mu, or the visit counts of a context in which every state was a source.
    X : array_like, shape (S, d)
        Features of the states.
    score : callable or array_like of shape (d, d), optional
        Symmetric, and exp g positive semidefinite on the features: so is every symmetric positive semidefinite matrix
        A of a `bilinear_score`. Default: the inner product.

    Returns
    -------
    ndarray, shape (S, S)
        Rows sum to 1, and ``weights @ M`` is ``weights``.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, weights that are not positive, another kind of score.

    Notes
    -----
    Sinkhorn's scaling of a symmetric matrix, with damping 1/2: near the solution an error is multiplied by
    (I - M) / 2, whose eigenvalues are in [0, 1/2), since those of M are in (0, 1].
    """
    if not np.isfinite(weights.sum()):
        raise ValueError(f"weights must be smaller: their sum overflows; got up to {weights.max():.3g}")
    products = scores(score, X, X)
    _check_positive_semidefinite(products)
    logits = products + np.log(weights / weights.sum())
    bias = -logits.diagonal() / 2
    for _ in range(100):
        biased = logits + bias
        top = biased.max(axis=1, keepdims=True)
        bias = (bias - top[:, 0] - np.log(np.exp(biased - top).sum(axis=1))) / 2
    return softmax(products + bias + np.log(weights))


def _check_positive_semidefinite(scores):
    """Refuse scores g (S, S) unless they are symmetric and exp g has no negative eigenvalue beyond rounding."""
    symmetric = np.allclose(scores, scores.T, rtol=1e-10, atol=1e-12)
    diagonal = scores.diagonal()
    normalised = np.exp(scores - (diagonal[:, None] + diagonal) / 2)
    if (
        not symmetric
        or not np.isfinite(normalised).all()
        or np.linalg.eigvalsh(normalised).min() < -1e-10 * len(scores)
    ):
        raise ValueError(
            "score must be symmetric, with exp of the scores positive semidefinite, on the features in X: an inner "
            "product, or a symmetric positive semidefinite matrix; got another one"
        )
