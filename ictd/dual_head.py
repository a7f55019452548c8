"""The dual-head layer: one head for the current values, one for the targets of their predecessors."""

import torch
from torch import nn

from ictd import _checks
from ictd._tensors import check_parameters, check_prompt, check_result, check_square, check_value_matrix, store
from ictd.attention import attend, shift_left
from ictd.prompt import rows


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
    gamma = _checks.discount(gamma)
    check_value_matrix(V)
    return target_matrix(V, gamma)


def target_matrix(V, gamma):
    """As `target_value_matrix`, without checks."""
    row = rows(V.shape[-1] - 3)
    result = torch.zeros_like(V)
    result[..., row.target, :] = gamma * V[..., row.value, :]
    return result


def dual_head_step(Z, V, A, gamma, V_target=None, A_target=None):
    """One layer without checks; see `DualHeadLayer`."""
    if V_target is None:
        V_target = target_matrix(V, gamma)
    target = attend(Z, V_target, A if A_target is None else A_target)
    return Z + attend(Z, V, A) + shift_left(target)


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

    def __init__(self, V, A, gamma, V_target=None, A_target=None):
        super().__init__()
        self.gamma = _checks.discount(gamma)
        size = check_parameters(V, A)
        matrices = {"V": V, "A": A, "V_target": V_target, "A_target": A_target}
        _check_all(matrices, size, V, A)
        for name, matrix in matrices.items():
            store(self, name, matrix)

    def forward(self, Z):
        """Map Z of shape (..., d+3, n+1) to the next layer's Z; refuse one whose scores or results overflow."""
        check_prompt(Z, size=self.V.shape[-1])
        _check_all({name: getattr(self, name) for name in ("V", "A", "V_target", "A_target")}, Z.shape[-2], Z)
        return check_result("Z", Z, dual_head_step(Z, self.V, self.A, self.gamma, self.V_target, self.A_target))


def _check_all(matrices, size, *fitting):
    """Check every given matrix against tensors that are known to fit each other, and against all before it."""
    for name, matrix in matrices.items():
        if matrix is not None:
            fitting += (check_square(name, matrix, size, *fitting),)
