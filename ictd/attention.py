"""Softmax attention over the source columns of a prompt, and the parameters that make it TD.

Functions of tensors, here and in the layers, follow the caller's grad mode, and compute in the type and on the device
of what they get. They refuse input that makes scores or results overflow in that type.
"""

import torch
import torch.nn.functional as F

from ictd._arguments import declare, positive, side
from ictd._construction import WEIGHTS
from ictd._settings import torch_defaults
from ictd._tensors import columns, finite, matrix, nan_where_infinite, number_type, prompt, step_size_tensor
from ictd.prompt import rows


@declare(Z=prompt, A=matrix, returns=finite("scores overflow"))
def attention_weights(Z, A):
    """Softmax weights of each source column for each column: softmax(Z^T A Z + Mask).

    Parameters
    ----------
    Z : Tensor, shape (..., d+3, n+1)
    A : Tensor, shape (..., d+3, d+3)
        The score of source i for query j is ``Z[:, i]^T A Z[:, j]``.

    Returns
    -------
    Tensor, shape (..., n, n+1)
        Columns sum to 1. The mask of the paper gives the last column (the query) the score -inf as a
        source; here its row is left out, which is the same.

    Raises
    ------
    ValueError, TypeError
        As `softmax_attention`.
    """
    scores = nan_where_infinite(Z[..., :-1].transpose(-1, -2) @ (A @ Z))
    return torch.softmax(scores, dim=-2)


@declare(Z=prompt, V=matrix, A=matrix, returns=finite())
def softmax_attention(Z, V, A):
    """One attention head: V Z softmax(Z^T A Z + Mask).

    Parameters
    ----------
    Z : Tensor, shape (..., d+3, n+1)
    V, A : Tensor, shape (..., d+3, d+3)
        Value matrix and score matrix.

    Returns
    -------
    Tensor, shape (..., d+3, n+1)

    Raises
    ------
    ValueError, TypeError
        Shapes or types that do not fit, NaN, numbers so large that scores or results overflow in their type.
    """
    return V @ Z[..., :-1] @ attention_weights.trusted(Z, A)


@declare(Y=columns)
def shift_left(Y):
    """The product Y Pi: column j becomes column j+1 of Y, the last column becomes 0.

    Parameters
    ----------
    Y : Tensor, shape (..., rows, n+1)
    """
    return F.pad(Y[..., 1:], (0, 1))


@torch_defaults()
@declare(d=side(), step_size=positive, dtype=number_type)
def constructed_parameters(d, step_size=1.0, dtype=torch.float64):
    """The paper's parameters: a head that adds alpha times the weighted TD errors to the value memory.

    ``A = diag(I_d, 0, 0, 0)`` and ``V = alpha e_{d+3} (e_{d+1} + e_{d+2} - e_{d+3})^T``

    Parameters
    ----------
    d : int
        Number of features, at least 1.
    step_size : float
        Positive step size alpha, also in ``dtype``.
    dtype : torch.dtype
        float64, float32, float16 or bfloat16.

    Returns
    -------
    V, A : Tensor, shape (d+3, d+3)
    """
    weights = step_size_tensor(step_size, dtype) * torch.tensor(WEIGHTS, dtype=dtype)
    return row_matrix(weights, rows(d).value, d), block_matrix(torch.eye(d, dtype=dtype))


def row_matrix(weights, row, d):
    """A value matrix of zeros but for the three weights (..., 3) of reward, target and value in one row."""
    V = weights.new_zeros(*weights.shape[:-1], d + 3, d + 3)
    V[..., row, rows(d).reward :] = weights
    return V


def block_matrix(block):
    """A score matrix of zeros but for its feature block (..., d, d)."""
    d = block.shape[-1]
    A = block.new_zeros(*block.shape[:-2], d + 3, d + 3)
    features = rows(d).features
    A[..., features, features] = block
    return A
