"""Parts of the layers in plain NumPy, written anew: answers are compared with code that is not the package's."""

import numpy as np


def softmax(scores, axis=0):
    """Weights that sum to 1 along an axis."""
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def attention_weights(Z, A):
    """Weights of all columns as sources, shape (n+1, n+1); the last row is 0."""
    weights = softmax((Z.T @ A @ Z)[:-1])
    return np.vstack([weights, np.zeros_like(weights[:1])])


def constructed_matrices(d, step_size=1.0):
    """The paper's V and A for d features."""
    V, A = np.zeros((2, d + 3, d + 3))
    V[-1, -3:] = step_size, step_size, -step_size
    A[range(d), range(d)] = 1
    return V, A
