"""Estimates of the NEU loss, with standard errors. They refuse a model that overflows."""

from dataclasses import dataclass

import numpy as np
import torch

from ictd import _checks
from ictd._arguments import declare
from ictd._settings import PRINTING, torch_defaults
from ictd._tensors import check_dense
from ictd.inputs import Windows
from ictd.neu.semi_gradient import updates
from ictd.state_form import matrix_form


@dataclass(frozen=True, eq=False)
class Estimate(_checks.ReadOnly):
    """An estimate with its standard error; floats, or arrays over parameter sets.

    An unbiased estimate of a squared norm can be negative.
    """

    value: float
    standard_error: float

    def __post_init__(self):
        _checks.freeze(self, **vars(self))

    def __eq__(self, other):
        if not isinstance(other, Estimate):
            return NotImplemented
        return all(map(np.array_equal, vars(self).values(), vars(other).values()))

    def __repr__(self):
        if np.ndim(self.value):
            with np.printoptions(**PRINTING):
                return f"Estimate(value={self.value}, standard_error={self.standard_error})"
        return f"Estimate({self.value:.3g} ± {self.standard_error:.1g})"


def _several_updates(name, value, lengths):
    """Three vectors (..., p) at least, along the first dimension of a tensor."""
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    if not floating or value.ndim < 2 or value.shape[-1] == 0 or len(value) < 3:
        raise ValueError(
            f"{name} must be a tensor of floating-point numbers of shape (B, ..., p) with B >= 3; "
            f"got {_checks.describe(value)}"
        )
    return check_dense(name, value)


@declare(updates=_several_updates)
def squared_norm(updates):
    """Unbiased estimate of the squared norm of a mean from independent draws, with a jackknife standard error.

    Parameters
    ----------
    updates : Tensor, shape (B, ..., p)
        B >= 3 independent vectors with the same expectation m.

    Returns
    -------
    Estimate
        Of ``|m|^2``, from all pairs of different draws: ``(|sum g|^2 - sum |g|^2) / (B (B - 1))``. NaN where an
        update holds NaN, or where a square overflows.
    """
    B = len(updates)
    updates = updates.detach().double().cpu()  # squares of float16 overflow soon
    total = updates.sum(dim=0)
    squares = updates.square().sum(dim=-1)
    pairs = total.square().sum(dim=-1) - squares.sum(dim=0)  # over ordered pairs
    value = pairs / (B * (B - 1))
    mine = 2 * ((updates * total).sum(dim=-1) - squares)  # the ordered pairs that a draw is in
    left_out = (pairs - mine) / ((B - 1) * (B - 2))
    variance = (B - 1) / B * (left_out - left_out.mean(dim=0)).square().sum(dim=0)
    return Estimate(value.numpy(), variance.sqrt().numpy())


def _finite_model(name, model, lengths):
    """A model of layers with finite parameters."""
    if not hasattr(model, "named_parameters") or not hasattr(model, "form"):
        raise TypeError(f"{name} must be a SoftmaxICTD or a FullICTD; got {_checks.describe(model)}")
    for parameter, value in model.named_parameters():
        if not torch.isfinite(value).all():
            raise ValueError(f"{name} must have finite parameters; {parameter} holds NaN or infinity")
    lengths["d"], lengths["dtype"] = model.d, next(model.parameters()).dtype
    return model


def _batches(name, windows, lengths):
    """Windows in several batches, for the model."""
    found = _checks.instance(name, windows, Windows).here.features
    if windows.reward.ndim != 2 or len(windows.reward) < 3:
        raise ValueError(f"{name} must have leading dimensions (B, T) with B >= 3; got {tuple(windows.reward.shape)}")
    if found.shape[-1] != lengths["d"]:
        raise ValueError(f"{name} must have d = {lengths['d']} features; got {found.shape[-1]}")
    if found.dtype != lengths["dtype"]:
        raise TypeError(f"{name} must have the type of the model, {lengths['dtype']}; got {found.dtype}")
    return windows


def _finite_estimate(function, estimate, lengths):
    """An estimate in floats that are finite: updates may be finite and their squares not."""
    estimate = Estimate(float(estimate.value), float(estimate.standard_error))
    if not np.isfinite(list(vars(estimate).values())).all():
        raise ValueError(f"model must have smaller gradients on the windows: their squares overflow; got {estimate}")
    return estimate


@torch_defaults()
@declare(model=_finite_model, windows=_batches, returns=_finite_estimate)
def neu(model, windows):
    """Unbiased estimate of a model's NEU loss, ``|E[delta grad TF(Z_0)]|^2`` over all parameters of the model.

    Parameters
    ----------
    model : SoftmaxICTD or FullICTD
    windows : Windows
        Leading dimensions (B, T): B >= 3 batches of independent tasks and contexts, see `draw_windows`, in the
        type of the model's parameters.

    Returns
    -------
    Estimate
        From all pairs of different batches, with a jackknife standard error. It can be negative.
    """
    return squared_norm.trusted(_model_updates(model, windows))


@torch_defaults()
@declare(model=_finite_model, windows=_batches, returns=_finite_estimate)
def one_batch_neu(model, windows):
    """The biased estimate: the mean of ``|g|^2`` over batches, g a batch's mean update, with its standard error.

    Its expectation is the NEU loss plus the variance of g, which shrinks like 1/T.
    """
    squares = _model_updates(model, windows).square().sum(dim=-1)
    return Estimate(squares.mean(), squares.std() / len(squares) ** 0.5)


def _model_updates(model, windows):
    """The updates of all batches, shape (B, p)."""
    parameters = dict(model.named_parameters())
    result = updates(parameters, windows, len(windows.reward), model.gamma, model.n_layers, matrix_form(model.form))
    if not torch.isfinite(result).all():
        raise ValueError(
            f"model must have finite values and gradients on the windows in {result.dtype}; it overflows: features or "
            f"parameters are too large for this type, or the iteration diverges"
        )
    return result
