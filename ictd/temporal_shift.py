"""The temporal shift module (TSM): one head, and a fixed shift that rewrites the target memory."""

import torch
from torch import nn

from ictd._arguments import declare, discount, side
from ictd._settings import torch_defaults
from ictd._tensors import finite, matrix, number_type, prompt, store
from ictd.attention import shift_left, softmax_attention
from ictd.prompt import rows


@torch_defaults()
@declare(d=side(), gamma=discount, dtype=number_type)
def shift_matrices(d, gamma, dtype=torch.float64):
    """The fixed matrices of the module: U = I - e_{d+2} e_{d+2}^T and W = gamma e_{d+2} e_{d+3}^T.

    Parameters
    ----------
    d : int
        Number of features, at least 1.
    gamma : float
        Discount in [0, 1).

    Returns
    -------
    U, W : Tensor, shape (d+3, d+3)
    """
    row = rows(d)
    U = torch.eye(d + 3, dtype=dtype)
    U[row.target, row.target] = 0
    W = torch.zeros(d + 3, d + 3, dtype=dtype)
    W[row.target, row.value] = gamma
    return U, W


@declare(gamma=discount, Y=prompt)
def temporal_shift(Y, gamma):
    """U Y + W Y Pi: the target memory becomes gamma times the value memory of the next column.

    Parameters
    ----------
    Y : Tensor, shape (..., d+3, n+1)
    gamma : float
        Discount in [0, 1).
    """
    row = rows(Y.shape[-2] - 3)
    value = Y[..., row.value :, :]
    return torch.cat([Y[..., : row.target, :], gamma * shift_left.trusted(value), value], dim=-2)


@declare(Z=prompt, V=matrix, A=matrix, gamma=discount, returns=finite())
def tsm_step(Z, V, A, gamma):
    """One layer, see `TSMLayer`: ``Y = Z + Attn(Z; V, A)``, then ``U Y + W Y Pi``."""
    return temporal_shift.trusted(Z + softmax_attention.trusted(Z, V, A), gamma)


class TSMLayer(nn.Module):
    """``Y = Z + Attn(Z; V, A)``, then ``U Y + W Y Pi``.

    Equal to the dual-head layer with the same V and A if row d+2 of V is zero and the memories of Z are
    consistent (Lemma 1 of the paper).

    Parameters
    ----------
    V, A : Tensor, shape (..., d+3, d+3)
        Value and score matrix of the one head.
    gamma : float
        Discount in [0, 1).

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, NaN, gamma outside [0, 1).

    Notes
    -----
    Only an ``nn.Parameter`` is trained; any other tensor becomes a buffer, also one that requires a gradient.
    Batches go through the leading dimensions; ``torch.vmap`` cannot trace the checks of the input.
    """

    @declare(gamma=discount, V=matrix, A=matrix)
    def __init__(self, V, A, gamma):
        super().__init__()
        self.gamma = gamma
        store(self, V=V, A=A)

    def forward(self, Z):
        """Map Z of shape (..., d+3, n+1) to the next layer's Z; refuse one whose scores or results overflow."""
        prompt("Z", Z, {"d": self.V.shape[-1] - 3})  # the layer says what d is, not the prompt
        return tsm_step(Z, self.V, self.A, self.gamma)
