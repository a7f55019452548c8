"""Softmax Transformers for in-context TD: L layers, with the masked parameters of the paper or with all of them.

Models are made on the CPU (or on the device of their generator), as trainable parameters of the type that is named,
whatever the reader's settings of torch are. A forward pass follows the grad mode of the caller.
"""

from collections import deque

import numpy as np
import torch
from torch import nn

from ictd import _checks
from ictd._arguments import declare, discount, flag, integer, option, real, side
from ictd._construction import FORMS, WEIGHTS
from ictd._settings import numpy_defaults, torch_defaults
from ictd._tensors import check_dense, check_finite, generator, matrix, number_type, of_layers, prompt, step_size_tensor
from ictd.attention import block_matrix, constructed_parameters, row_matrix
from ictd.dual_head import dual_head_step
from ictd.prompt import check_memory, rows
from ictd.temporal_shift import tsm_step

# What all models are made from.
_SETTINGS = {
    "d": side(),
    "n_layers": integer(low=1),
    "gamma": discount,
    "dtype": number_type,
    "shared": flag,
    "generator": generator,
    "init_scale": real(low=0),
}


class _Stack(nn.Module):
    """What the models share: L layers from Z_0 to Z_L, made of ``matrices()``, and the read-out of the values."""

    def __init__(self, d, n_layers, gamma, shared, form):
        super().__init__()
        self.d, self.n_layers, self.gamma, self.shared, self.form = d, n_layers, gamma, shared, form

    def _initialise(self, generator, dtype, init_scale, **shapes):
        """Independent normal parameters with one set for all layers or one set for each."""
        sets = 1 if self.shared else self.n_layers
        for name, shape in shapes.items():
            noise = torch.randn(sets, *shape, generator=generator, dtype=dtype, device=generator.device)
            setattr(self, name, nn.Parameter(check_finite(f"init_scale times a draw, {name},", init_scale * noise)))

    def target_matrices(self):
        """The matrices of an independent target head; empty where the second head follows from the first."""
        return ()

    def layers(self, Z0):
        """Yield Z_0, Z_1, ..., Z_L.

        Parameters
        ----------
        Z0 : ndarray or Tensor, shape (..., d+3, n+1)

        Raises
        ------
        ValueError, TypeError
            A prompt that does not fit; parameters that hold NaN or infinity, as after a training that diverged; a
            layer in which scores or values are no longer finite in the type of the parameters.
        """
        Z = self._prompt(Z0)
        for name, parameter in self.named_parameters():
            check_finite(name, parameter)
        step = tsm_step.trusted if self.form == "tsm" else dual_head_step.trusted
        matrices = (*self.matrices(), *self.target_matrices())
        yield Z
        matrices = zip(*(of_layers(sets, self.n_layers) for sets in matrices))
        for layer, (V, A, *target) in enumerate(matrices, 1):
            Z = step(Z, V, A, self.gamma, *target)
            if not torch.isfinite(Z).all():
                raise ValueError(
                    f"Z0 must give finite numbers in every layer in {Z.dtype}; layer {layer} holds NaN or "
                    f"infinity: features are too large for scores in this type, or the iteration diverges"
                )
            yield Z

    def forward(self, Z0):
        """Z_L for Z_0 of shape (..., d+3, n+1), an ndarray or a Tensor; raises as `layers` does."""
        return deque(self.layers(Z0), maxlen=1).pop()

    @declare(check=flag)
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

    @numpy_defaults()
    def _prompt(self, Z0):
        """Z_0 as a tensor in the type and on the device of the parameters."""
        if not isinstance(Z0, torch.Tensor):
            Z0 = torch.from_numpy(_checks.array("Z0", Z0, (..., "d+3", "n+1")))
        elif Z0.is_complex():
            raise TypeError(f"Z0 must hold real numbers; got a tensor of type {Z0.dtype}")
        else:
            check_dense("Z0", Z0)
        return prompt("Z0", Z0.to(next(self.parameters())), {"d": self.d})


class SoftmaxICTD(_Stack):
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
    form : {"tsm", "dual_head", "independent_heads"}
        One head with the temporal shift module; two heads that share their parameters, the target head's value
        matrix being gamma e_{d+2} e_{d+3}^T V; or two heads with parameters of their own.
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
    target_weights : Parameter, shape (1 or L, 3)
        Only for independent heads: the entries of the target row in the target head's value matrix.
    target_score_matrix : Parameter, shape (1 or L, d, d)
        Only for independent heads.

    Raises
    ------
    ValueError, TypeError
        Numbers out of range, an unknown form, a generator that is none.
    """

    @torch_defaults()
    @declare(form=option(*FORMS), **_SETTINGS)
    def __init__(self, d, n_layers, gamma, *, shared=True, form="tsm", generator, dtype=torch.float64, init_scale=0.02):
        super().__init__(d, n_layers, gamma, shared, form)
        shapes = {"value_weights": (3,), "score_matrix": (d, d)}
        if form == "independent_heads":
            shapes |= {"target_weights": (3,), "target_score_matrix": (d, d)}
        self._initialise(generator, dtype, init_scale, **shapes)

    @classmethod
    @torch_defaults()
    @declare(n_layers=integer(low=1), dtype=number_type)
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
        sizes = _checks.step_sizes(step_size, n_layers)
        shared = np.ndim(step_size) == 0
        sizes = step_size_tensor(sizes[:1] if shared else sizes, dtype)
        model = cls(d, n_layers, gamma, shared=shared, form=form, dtype=dtype, generator=torch.Generator())
        model.value_weights = nn.Parameter(sizes[:, None] * torch.tensor(WEIGHTS, dtype=dtype))
        model.score_matrix = nn.Parameter(torch.eye(d, dtype=dtype).repeat(len(sizes), 1, 1))
        if form == "independent_heads":
            model.target_weights = nn.Parameter(gamma * model.value_weights.detach())
            model.target_score_matrix = nn.Parameter(model.score_matrix.detach().clone())
        return model

    def matrices(self):
        """The full value and score matrices of the layers, each of shape (1 or L, d+3, d+3)."""
        row = rows(self.d)
        return row_matrix(self.value_weights, row.value, self.d), block_matrix(self.score_matrix)

    def target_matrices(self):
        """Those of an independent target head; empty where the second head follows from the first."""
        if self.form != "independent_heads":
            return ()
        row = rows(self.d)
        return row_matrix(self.target_weights, row.target, self.d), block_matrix(self.target_score_matrix)


class FullICTD(_Stack):
    """L layers in which every entry of V and A is a parameter: what remains of the paper's pattern without masks.

    Parameters
    ----------
    d, n_layers, gamma, shared, generator, dtype, init_scale
        As for `SoftmaxICTD`.
    form : {"tsm", "dual_head"}
        The target head of the second form has the value matrix gamma e_{d+2} e_{d+3}^T V.

    Attributes
    ----------
    V, A : Parameter, shape (1 or L, d+3, d+3)
        Value and score matrices.
    """

    @torch_defaults()
    @declare(form=option(*FORMS[:2]), **_SETTINGS)
    def __init__(self, d, n_layers, gamma, *, shared=True, form="tsm", generator, dtype=torch.float64, init_scale=0.02):
        super().__init__(d, n_layers, gamma, shared, form)
        self._initialise(generator, dtype, init_scale, V=(d + 3, d + 3), A=(d + 3, d + 3))

    @classmethod
    @torch_defaults()
    @declare(form=option(*FORMS[:2]), n_layers=integer(low=1), V=matrix, A=matrix)
    def from_matrices(cls, V, A, n_layers, gamma, *, form="tsm"):
        """A model with given matrices.

        Parameters
        ----------
        V, A : Tensor, shape (1 or L, d+3, d+3)
            For example ``SoftmaxICTD.matrices()``. They are copied.
        n_layers, gamma, form
            As for the class.

        Returns
        -------
        FullICTD
        """
        if V.ndim != 3 or V.shape != A.shape or len(V) not in (1, n_layers):
            raise ValueError(
                f"V and A must have shape (1 or {n_layers}, d+3, d+3); got shapes {tuple(V.shape)} and {tuple(A.shape)}"
            )
        d, shared = V.shape[-1] - 3, len(V) == 1
        model = cls(d, n_layers, gamma, shared=shared, form=form, dtype=V.dtype, generator=torch.Generator())
        model.V, model.A = (nn.Parameter(matrix.detach().clone()) for matrix in (V, A))
        return model

    @classmethod
    def constructed(cls, d, n_layers, gamma, step_size=1.0, *, form="tsm", dtype=torch.float64):
        """The model with the paper's parameters, see `attention.constructed_parameters`."""
        V, A = constructed_parameters(d, step_size, dtype)
        return cls.from_matrices(V[None], A[None], n_layers, gamma, form=form)

    def matrices(self):
        """The value and score matrices of the layers, each of shape (1 or L, d+3, d+3)."""
        return self.V, self.A
