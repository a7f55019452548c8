"""A softmax Transformer for in-context TD: L layers with the masked parameters of the paper."""

import numpy as np
import torch
from torch import nn

from ictd import _checks
from ictd._tensors import check_dense, check_dtype, check_finite, check_prompt, step_size_tensor
from ictd.dual_head import dual_head_step
from ictd.prompt import check_memory, rows
from ictd.temporal_shift import tsm_step

FORMS = {"tsm": tsm_step, "dual_head": dual_head_step}


class SoftmaxICTD(nn.Module):
    """L layers whose only parameters are three value weights and a d x d score block each.

    The value matrix V is zero but for (w_R, w_target, w_current) in the value row; the score matrix A is
    zero but for its top-left block. The other entries are masked, as in the paper's experiment.

    Parameters
    ----------
    d : int
        Number of features, at least 1.
    n_layers : int
        Number of layers L, at least 1.
    gamma : float
        Discount in [0, 1).
    shared : bool
        One set of parameters for all layers (a looped Transformer), or one set per layer.
    form : {"tsm", "dual_head"}
        One head with the temporal shift module, or two heads.
    generator : torch.Generator
        Source of the initial parameters.
    dtype : torch.dtype
        float64 (default), float32, float16 or bfloat16.
    init_scale : float
        Standard deviation of the initial parameters, at least 0.

    Attributes
    ----------
    value_weights : Parameter, shape (1 or L, 3)
        [w_R, w_target, w_current] of each layer.
    score_matrix : Parameter, shape (1 or L, d, d)

    Raises
    ------
    ValueError, TypeError
        Numbers out of range, an unknown form, a generator that is none.
    """

    def __init__(self, d, n_layers, gamma, *, shared=True, form="tsm", generator, dtype=torch.float64, init_scale=0.02):
        super().__init__()
        if not isinstance(generator, torch.Generator):
            raise TypeError(
                f"generator must be a torch.Generator, for example torch.Generator().manual_seed(0); "
                f"got {_checks.describe(generator)}"
            )
        self._configure(d, n_layers, gamma, shared, form, dtype)
        scale = _checks.real("init_scale", init_scale, low=0)
        sets = 1 if shared else self.n_layers

        def draw(*shape):
            return nn.Parameter(scale * torch.randn(*shape, generator=generator, dtype=dtype))

        self.value_weights = draw(sets, 3)
        self.score_matrix = draw(sets, self.d, self.d)

    def _configure(self, d, n_layers, gamma, shared, form, dtype):
        self.d = _checks.side("d", d)
        self.n_layers = _checks.integer("n_layers", n_layers, low=1)
        self.gamma = _checks.discount(gamma)
        self.form = _checks.option("form", form, tuple(FORMS))
        if not isinstance(shared, bool):
            raise TypeError(f"shared must be True or False; got {_checks.describe(shared)}")
        check_dtype(dtype)
        self.shared = shared

    @classmethod
    def constructed(cls, d, n_layers, gamma, step_size=1.0, *, form="tsm", dtype=torch.float64):
        """The model with the paper's parameters: weights alpha (1, 1, -1) and the identity as score block.

        Parameters
        ----------
        d, n_layers, gamma, form, dtype
            As for the class.
        step_size : float or array_like of shape (n_layers,)
            Positive step sizes alpha, also in ``dtype``; an array gives each layer parameters of its own.

        Returns
        -------
        SoftmaxICTD
        """
        n_layers = _checks.integer("n_layers", n_layers, low=1)
        sizes = _checks.step_sizes(step_size, n_layers)
        shared = np.ndim(step_size) == 0
        model = cls.__new__(cls)
        nn.Module.__init__(model)
        model._configure(d, n_layers, gamma, shared, form, dtype)
        sizes = step_size_tensor(sizes[:1] if shared else sizes, dtype)
        model.value_weights = nn.Parameter(sizes[:, None] * torch.tensor([1.0, 1.0, -1.0], dtype=dtype))
        model.score_matrix = nn.Parameter(torch.eye(model.d, dtype=dtype).repeat(len(sizes), 1, 1))
        return model

    def matrices(self):
        """The full value and score matrices of the layers, each of shape (1 or L, d+3, d+3)."""
        row, size = rows(self.d), self.d + 3
        sets = len(self.value_weights)
        V = self.value_weights.new_zeros(sets, size, size)
        V[:, row.value, row.reward :] = self.value_weights
        A = self.score_matrix.new_zeros(sets, size, size)
        A[:, row.features, row.features] = self.score_matrix
        return V, A

    def layers(self, Z0):
        """Yield Z_0, Z_1, ..., Z_L.

        Parameters
        ----------
        Z0 : ndarray or Tensor, shape (..., d+3, n+1)

        Raises
        ------
        ValueError, TypeError
            A prompt that does not fit, or parameters that hold NaN or infinity, as after a training that diverged.
        """
        Z = self._prompt(Z0)
        check_finite("value_weights", self.value_weights)
        check_finite("score_matrix", self.score_matrix)
        V, A = self.matrices()
        step = FORMS[self.form]
        yield Z
        for layer in range(self.n_layers):
            index = 0 if self.shared else layer
            Z = step(Z, V[index], A[index], self.gamma)
            yield Z

    def forward(self, Z0):
        """Z_L for Z_0 of shape (..., d+3, n+1), an ndarray or a Tensor."""
        for Z in self.layers(Z0):
            pass
        return Z

    def values(self, Z0, check=False):
        """Read-outs of all layers: entry [..., l, j] is v_l(S_j), the value memory of column j in Z_l.

        Parameters
        ----------
        Z0 : ndarray or Tensor, shape (..., d+3, n+1)
        check : bool
            Refuse a prompt whose memories are inconsistent (see `prompt.check_memory`).

        Returns
        -------
        Tensor, shape (..., L+1, n+1)
        """
        Z0 = self._prompt(Z0)
        if check:
            check_memory(Z0, self.gamma)
        value = rows(self.d).value
        return torch.stack([Z[..., value, :] for Z in self.layers(Z0)], dim=-2)

    def _prompt(self, Z0):
        """Z_0 as a tensor in the type and on the device of the parameters."""
        if not isinstance(Z0, torch.Tensor):
            Z0 = torch.from_numpy(_checks.array("Z0", Z0, (..., "d+3", "n+1")))
        elif Z0.is_complex():
            raise TypeError(f"Z0 must hold real numbers; got a tensor of type {Z0.dtype}")
        else:
            check_dense("Z0", Z0)
        return check_prompt(Z0.to(self.value_weights), "Z0", self.d + 3)
