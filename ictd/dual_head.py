"""The dual-head layer: one head for the current values, one for the targets of their predecessors."""

import torch
from torch import nn

from ictd._arguments import declare, discount, optional
from ictd._tensors import finite, matrix, prompt, store
from ictd.attention import shift_left, softmax_attention
from ictd.prompt import rows


@declare(gamma=discount, V=matrix)
def target_value_matrix(V, gamma):
    """The value matrix of the target head: gamma e_{d+2} e_{d+3}^T V.

    Parameters
    ----------
    V : Tensor, shape (..., d+3, d+3)
    gamma : float
        Discount in [0, 1).

    Returns
    -------
    Tensor, shape (..., d+3, d+3)
        All rows 0 but the target row, which is gamma times the value row of V.
    """
    row = rows(V.shape[-1] - 3)
    result = torch.zeros_like(V)
    result[..., row.target, :] = gamma * V[..., row.value, :]
    return result


@declare(
    Z=prompt, V=matrix, A=matrix, gamma=discount, V_target=optional(matrix), A_target=optional(matrix), returns=finite()
)
def dual_head_step(Z, V, A, gamma, V_target=None, A_target=None):
    """One layer, see `DualHeadLayer`: ``Z + Attn(Z; V, A) + Attn(Z; V_target, A_target) Pi``."""
    if V_target is None:
        V_target = target_value_matrix.trusted(V, gamma)
    if A_target is None:
        A_target = A
    target = softmax_attention.trusted(Z, V_target, A_target)
    return Z + softmax_attention.trusted(Z, V, A) + shift_left.trusted(target)


class DualHeadLayer(nn.Module):
    """``Z + Attn(Z; V, A) + Attn(Z; V_target, A_target) Pi``.

    With the constructed parameters and consistent memories, L layers are L steps of weighted softmax TD
    (Theorem 1 of the paper).

    Parameters
    ----------
    V, A : Tensor, shape (..., d+3, d+3)
        Value and score matrix of the current-value head.
    gamma : float
        Discount in [0, 1).
    V_target : Tensor, shape (..., d+3, d+3), optional
        Value matrix of the target head; default gamma e_{d+2} e_{d+3}^T V.
    A_target : Tensor, shape (..., d+3, d+3), optional
        Score matrix of the target head; default A.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, NaN, gamma outside [0, 1).

    Notes
    -----
    Only an ``nn.Parameter`` is trained; any other tensor becomes a buffer, also one that requires a gradient.
    Batches go through the leading dimensions; ``torch.vmap`` cannot trace the checks of the input.
    """

    @declare(gamma=discount, V=matrix, A=matrix, V_target=optional(matrix), A_target=optional(matrix))
    def __init__(self, V, A, gamma, V_target=None, A_target=None):
        super().__init__()
        self.gamma = gamma
        store(self, V=V, A=A, V_target=V_target, A_target=A_target)

    def forward(self, Z):
        """Map Z of shape (..., d+3, n+1) to the next layer's Z; refuse one whose scores or results overflow."""
        prompt("Z", Z, {"d": self.V.shape[-1] - 3})  # the layer says what d is, not the prompt
        return dual_head_step(Z, self.V, self.A, self.gamma, self.V_target, self.A_target)
