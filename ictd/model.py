"""Softmax Transformers for in-context TD: L layers, with the masked parameters of the paper or with all of them.

Models are made on the CPU (or on the device of their generator), as trainable parameters of the type that is named,
whatever the reader's settings of torch are. A forward pass follows the grad mode of the caller.
"""

import numpy as np
import torch
from torch import nn

from ictd import _checks
from ictd._construction import FORMS, WEIGHTS
from ictd._settings import numpy_defaults, torch_defaults
from ictd._tensors import check_dense, check_dtype, check_finite, check_parameters, check_prompt, step_size_tensor
from ictd.attention import block_matrix, constructed_parameters, row_matrix
from ictd.dual_head import dual_head_step
from ictd.prompt import check_memory, rows
from ictd.temporal_shift import tsm_step


class _Stack(nn.Module):
    """What the models share: L layers from Z_0 to Z_L, and the read-out of the value memory."""

    def _configure(self, d, n_layers, gamma, shared, form, dtype):
        self.d = _checks.side("d", d)
        self.n_layers = _checks.integer("n_layers", n_layers, low=1)
        self.gamma = _checks.discount(gamma)
        self.form = _checks.option("form", form, FORMS)
        check_dtype(dtype)
        self.shared = _checks.flag("shared", shared)

    def _draw(self, generator, dtype, init_scale, **shapes):
        """Independent normal parameters with one set for all layers or one set for each."""
        if not isinstance(generator, torch.Generator):
            raise TypeError(
                f"generator must be a torch.Generator, for example torch.Generator().manual_seed(0); "
                f"got {_checks.describe(generator)}"
            )
        scale = _checks.real("init_scale", init_scale, low=0)
        sets = 1 if self.shared else self.n_layers
        for name, shape in shapes.items():
            noise = torch.randn(sets, *shape, generator=generator, dtype=dtype, device=generator.device)
            setattr(self, name, nn.Parameter(check_finite(f"init_scale times a draw, {name},", scale * noise)))

    def matrices(self):
        """The full value and score matrices of the layers, each of shape (1 or L, d+3, d+3)."""
        raise NotImplementedError

    def target_matrices(self):
        """Those of an independent target head; None if the second head follows from the first."""
        return None

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
        V, A = self.matrices()
        targets = self.target_matrices()
        yield Z
        for layer in range(self.n_layers):
            index = 0 if self.shared else layer
            if self.form == "tsm":
                Z = tsm_step(Z, V[index], A[index], self.gamma)
            else:
                target = () if targets is None else (targets[0][index], targets[1][index])
                Z = dual_head_step(Z, V[index], A[index], self.gamma, *target)
            if not torch.isfinite(Z).all():
                raise ValueError(
                    f"Z0 must give finite numbers in every layer in {Z.dtype}; layer {layer + 1} holds NaN or "
                    f"infinity: features are too large for scores in this type, or the iteration diverges"
                )
            yield Z

    def forward(self, Z0):
        """Z_L for Z_0 of shape (..., d+3, n+1), an ndarray or a Tensor; raises as `layers` does."""
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
        if _checks.flag("check", check):
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
        return check_prompt(Z0.to(next(self.parameters())), "Z0", self.d + 3)


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
    def __init__(self, d, n_layers, gamma, *, shared=True, form="tsm", generator, dtype=torch.float64, init_scale=0.02):
        super().__init__()
        self._configure(d, n_layers, gamma, shared, form, dtype)
        shapes = {"value_weights": (3,), "score_matrix": (self.d, self.d)}
        if form == "independent_heads":
            shapes |= {"target_weights": (3,), "target_score_matrix": (self.d, self.d)}
        self._draw(generator, dtype, init_scale, **shapes)

    @classmethod
    @torch_defaults()
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
        model.value_weights = nn.Parameter(sizes[:, None] * torch.tensor(WEIGHTS, dtype=dtype))
        model.score_matrix = nn.Parameter(torch.eye(model.d, dtype=dtype).repeat(len(sizes), 1, 1))
        if form == "independent_heads":
            model.target_weights = nn.Parameter(model.gamma * model.value_weights.detach())
            model.target_score_matrix = nn.Parameter(model.score_matrix.detach().clone())
        return model

    def matrices(self):
        row = rows(self.d)
        return row_matrix(self.value_weights, row.value, self.d), block_matrix(self.score_matrix)

    def target_matrices(self):
        if self.form != "independent_heads":
            return None
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
    def __init__(self, d, n_layers, gamma, *, shared=True, form="tsm", generator, dtype=torch.float64, init_scale=0.02):
        super().__init__()
        _checks.option("form", form, FORMS[:2])
        self._configure(d, n_layers, gamma, shared, form, dtype)
        side = self.d + 3
        self._draw(generator, dtype, init_scale, V=(side, side), A=(side, side))

    @classmethod
    @torch_defaults()
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
        _checks.option("form", form, FORMS[:2])
        n_layers = _checks.integer("n_layers", n_layers, low=1)
        size = check_parameters(V, A)
        if V.ndim != 3 or V.shape != A.shape or len(V) not in (1, n_layers):
            raise ValueError(
                f"V and A must have shape (1 or {n_layers}, d+3, d+3); got shapes {tuple(V.shape)} and {tuple(A.shape)}"
            )
        model = cls.__new__(cls)
        nn.Module.__init__(model)
        model._configure(size - 3, n_layers, gamma, len(V) == 1, form, V.dtype)
        model.V, model.A = (nn.Parameter(matrix.detach().clone()) for matrix in (V, A))
        return model

    @classmethod
    def constructed(cls, d, n_layers, gamma, step_size=1.0, *, form="tsm", dtype=torch.float64):
        """The model with the paper's parameters, see `attention.constructed_parameters`."""
        V, A = constructed_parameters(d, step_size, dtype)
        return cls.from_matrices(V[None], A[None], n_layers, gamma, form=form)

    def matrices(self):
        return self.V, self.A
