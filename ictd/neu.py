"""Objectives of pretraining, and the NEU loss: the squared norm of the expected semi-gradient TD update.

Objectives are sums over parameter sets along leading dimensions, so that one backward pass gives each set the
gradient that it would have alone. They follow the caller's grad mode. Updates, which are gradients themselves, are
computed in any mode. A set whose scores or values overflow has a loss and an update of NaN, as in a training that
diverges; the estimates `neu` and `one_batch_neu` refuse such a model.
"""

from dataclasses import dataclass

import numpy as np
import torch

from ictd import _checks
from ictd._settings import PRINTING, torch_defaults
from ictd._tensors import check_dense
from ictd.inputs import Inputs, Windows, check_fits
from ictd.state_form import check_parameters, is_masked, leading_shape, matrix_form, readout, state_values


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


def td_loss(parameters, batch, gamma, n_layers, form="tsm"):
    """Half the mean squared TD error of all transitions of the context, with the target held fixed.

    ``(R_k + gamma sg v_L(S_k) - v_L(S_{k-1}))^2 / 2`` averaged over k and tasks, sg = no gradient: its gradient
    is minus the mean of the semi-gradient TD update. One forward pass reads out all columns.

    Parameters
    ----------
    parameters : dict of Tensor
        Leading dimensions (...), see `state_form`.
    batch : Inputs
        Leading dimensions (..., T).
    gamma, n_layers, form
        As in `state_form.readout`.

    Returns
    -------
    Tensor, shape (...)
        One loss for each parameter set.
    """
    values = readout(parameters, batch, gamma, n_layers, form, finite=False)
    errors = batch.rewards + _checks.discount(gamma) * values[..., 1:].detach() - values[..., :-1]
    return errors.square().mean(dim=(-1, -2)) / 2


def true_value_loss(parameters, batch, targets, gamma, n_layers, form="tsm"):
    """Half the mean squared error of the columns' values against the true values: a reference that needs them.

    Parameters
    ----------
    targets : Tensor, shape (..., T, S)
        True values of the states, with the leading dimensions of ``batch`` and of its type.

    Other parameters and the result are as in `td_loss`.
    """
    values = readout(parameters, batch, gamma, n_layers, form, finite=False)
    check_fits("targets", targets, batch.features, batch.features.shape[:-1])
    expected = torch.gather(targets, -1, batch.states)
    return (values - expected).square().mean(dim=(-1, -2)) / 2


def query_td_errors(parameters, windows, gamma, n_layers, form="tsm", differentiable=True):
    """TD error of the query, as the theory writes it.

    Parameters
    ----------
    parameters : dict of Tensor
    windows : Windows
        Prompts whose query is S, the reward R for leaving it, and prompts whose query is the successor S'.
    differentiable : bool
        Keep the graph of TF(Z_0'); False holds the target fixed and saves its memory.

    Returns
    -------
    errors, values : Tensor, shape (..., T)
        R + gamma TF(Z_0') - TF(Z_0), and TF(Z_0).
    """
    _checks.instance("windows", windows, Windows)
    _checks.flag("differentiable", differentiable)
    value = readout(parameters, windows.here, gamma, n_layers, form, finite=False)[..., -1]
    with torch.set_grad_enabled(differentiable and torch.is_grad_enabled()):
        successor = readout(parameters, windows.there, gamma, n_layers, form, finite=False)[..., -1]
    return windows.reward + _checks.discount(gamma) * successor - value, value


def td_query_loss(parameters, windows, gamma, n_layers, form="tsm"):
    """Half the mean squared TD error of the query, with the successor's value held fixed, shape (...)."""
    errors, _ = query_td_errors(parameters, windows, gamma, n_layers, form, differentiable=False)
    return errors.square().mean(dim=-1) / 2


def expected_update(parameters, windows, gamma, n_layers, form="tsm", differentiable=False):
    """Mean over tasks of the semi-gradient TD update delta * grad TF(Z_0), one vector for each parameter set.

    Parameters
    ----------
    parameters : dict of Tensor
        Leading dimensions (...).
    windows : Windows
    differentiable : bool
        Keep the graph, through delta as well: for parameters that require a gradient, in grad mode.

    Returns
    -------
    Tensor, shape (..., p)
        p = number of parameters of a set, in the order of their sorted names.

    Raises
    ------
    ValueError
        If the windows have more leading dimensions than the parameters; see `updates` for several batches.
    """

    def update(parameters, differentiable):
        errors, values = query_td_errors(parameters, windows, gamma, n_layers, form, differentiable)
        return _mean_update(parameters, values, errors, errors.shape[:-1], differentiable)

    return _with_gradients(update, parameters, differentiable)


def _with_gradients(update, parameters, differentiable):
    """Call ``update(parameters, differentiable)``, which takes a gradient, also where the caller records none."""
    check_parameters(parameters)
    _checks.flag("differentiable", differentiable)
    for name, tensor in parameters.items():
        if differentiable and torch.is_grad_enabled() and not tensor.requires_grad:
            raise ValueError(f"parameters must require a gradient for an update with a graph; {name} does not")
    if differentiable and torch.is_grad_enabled():
        return update(parameters, True)
    with torch_defaults():
        leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items()}
        return update(leaves, False)


def _mean_update(parameters, values, weights, lead, differentiable):
    """Sum of weight * grad value over tasks (and states), divided by the number of tasks, shape (*lead, p)."""
    if not differentiable:
        weights = weights.detach()
    if leading_shape(parameters) != lead:
        raise ValueError(
            f"parameters must have the leading dimensions {tuple(lead)} of their read-outs; "
            f"got {tuple(leading_shape(parameters))}"
        )
    gradients = torch.autograd.grad(
        values,
        [parameters[name] for name in sorted(parameters)],
        grad_outputs=weights / weights.shape[len(lead)],
        create_graph=differentiable,
        allow_unused=True,  # the first layer's w_target and w_current see only zeros
        materialize_grads=True,
    )
    return torch.cat([gradient.reshape(*lead, -1) for gradient in gradients], dim=-1)


def neu_loss(parameters, first, second, gamma, n_layers, form="tsm"):
    """Unbiased NEU loss from two independent batches of tasks and contexts: the inner product of their updates.

    Its expectation is ``J = |E[delta grad TF]|^2``, and the expectation of its gradient is the gradient of J.

    Parameters
    ----------
    first, second : Windows
        Independent of each other.

    Returns
    -------
    Tensor, shape (...)
    """
    updates = [expected_update(parameters, batch, gamma, n_layers, form, True) for batch in (first, second)]
    return (updates[0] * updates[1]).sum(dim=-1)


def biased_neu_loss(parameters, windows, gamma, n_layers, form="tsm"):
    """The squared norm of one batch's mean update, shape (...): too large by the variance of that mean."""
    return expected_update(parameters, windows, gamma, n_layers, form, True).square().sum(dim=-1)


def limit_update(parameters, inputs, gamma, n_layers, differentiable=False):
    """What `expected_update` tends to as n goes to infinity: S has the stationary distribution, S' given S is P(S, .).

    Only the tasks are random then.

    Parameters
    ----------
    parameters : dict of Tensor
        Masked, with leading dimensions (...).
    inputs : Inputs
        From `limit_inputs`, with leading dimensions (..., T).
    gamma, n_layers
        As in `state_form.readout`.
    differentiable : bool
        Keep the graph, through delta as well.

    Returns
    -------
    Tensor, shape (..., p)
        As `expected_update`.

    Raises
    ------
    ValueError
        Parameters that are not masked, inputs of finite contexts, leading dimensions that do not fit.
    """
    if not is_masked(parameters):
        raise ValueError(f"parameters must be masked; got {', '.join(parameters)}")
    _checks.instance("inputs", inputs, Inputs)
    if inputs.states is not None:
        raise ValueError("inputs must come from limit_inputs; got those of finite contexts")

    def update(parameters, differentiable):
        values = state_values(parameters, inputs, gamma, n_layers, finite=False)
        with torch.set_grad_enabled(differentiable):
            following = (inputs.transition @ values.unsqueeze(-1)).squeeze(-1)
            errors = inputs.log_counts.exp() * (inputs.mean_reward + _checks.discount(gamma) * following - values)
        return _mean_update(parameters, values, errors, values.shape[:-2], differentiable)

    return _with_gradients(update, parameters, differentiable)


@torch_defaults()
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
    update = _model_updates(model, windows)
    estimate = squared_norm(update)
    return _finite_estimate(estimate.value, estimate.standard_error)


@torch_defaults()
def one_batch_neu(model, windows):
    """The biased estimate: the mean of ``|g|^2`` over batches, g a batch's mean update, with its standard error.

    Its expectation is the NEU loss plus the variance of g, which shrinks like 1/T.
    """
    squares = _model_updates(model, windows).square().sum(dim=-1)
    return _finite_estimate(squares.mean(), squares.std() / len(squares) ** 0.5)


def _finite_estimate(*numbers):
    """The estimate for a model, in floats; updates may be finite and their squares not."""
    estimate = Estimate(*map(float, numbers))
    if not np.isfinite(list(vars(estimate).values())).all():
        raise ValueError(f"model must have smaller gradients on the windows: their squares overflow; got {estimate}")
    return estimate


def _model_updates(model, windows):
    if not hasattr(model, "named_parameters") or not hasattr(model, "form"):
        raise TypeError(f"model must be a SoftmaxICTD or a FullICTD; got {_checks.describe(model)}")
    _checks.instance("windows", windows, Windows)
    parameters = dict(model.named_parameters())
    if windows.reward.ndim != 2 or len(windows.reward) < 3:
        raise ValueError(f"windows must have leading dimensions (B, T) with B >= 3; got {tuple(windows.reward.shape)}")
    if windows.here.features.shape[-1] != model.d:
        raise ValueError(f"windows must have d = {model.d} features; got {windows.here.features.shape[-1]}")
    for name, value in parameters.items():
        if value.dtype != windows.reward.dtype:
            raise TypeError(f"windows must have the type of the model, {value.dtype}; got {windows.reward.dtype}")
        if not torch.isfinite(value).all():
            raise ValueError(f"model must have finite parameters; {name} holds NaN or infinity")
    result = updates(parameters, windows, len(windows.reward), model.gamma, model.n_layers, matrix_form(model.form))
    if not torch.isfinite(result).all():
        raise ValueError(
            f"model must have finite values and gradients on the windows in {result.dtype}; it overflows: features or "
            f"parameters are too large for this type, or the iteration diverges"
        )
    return result


def updates(parameters, windows, n_batches, gamma, n_layers, form="tsm"):
    """Mean updates of several independent batches.

    Parameters
    ----------
    parameters : dict of Tensor
        Leading dimensions (...).
    windows : Windows
        Leading dimensions (n_batches, 1, ..., 1, T): as many as the parameters have, and one for the batches. A
        dimension of the parameters may stand in place of a 1.

    Returns
    -------
    Tensor, shape (n_batches, ..., p)

    Raises
    ------
    ValueError, TypeError
        Windows with other leading dimensions.
    """
    _checks.instance("windows", windows, Windows)
    n_batches = _checks.integer("n_batches", n_batches, low=1)
    lead, found = leading_shape(parameters), tuple(windows.reward.shape[:-1])
    if len(found) != 1 + len(lead) or found[0] != n_batches or any(w not in (1, p) for w, p in zip(found[1:], lead)):
        raise ValueError(
            f"windows must have the leading dimensions {(n_batches, *[1] * len(lead), 'T')}, one for the batches "
            f"before those of the parameters; got {tuple(windows.reward.shape)}"
        )
    if not is_masked(parameters):  # prompt matrices of all batches at once would take gigabytes
        batches = (windows[index] for index in range(n_batches))
        return torch.stack([expected_update(parameters, batch, gamma, n_layers, form) for batch in batches])
    copies = {name: tensor.detach().expand(n_batches, *tensor.shape) for name, tensor in parameters.items()}
    return expected_update(copies, windows, gamma, n_layers, form)


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
    floating = isinstance(updates, torch.Tensor) and updates.is_floating_point()
    B = len(updates) if floating and updates.ndim > 1 and updates.shape[-1] > 0 else 0
    if B < 3:
        raise ValueError(
            f"updates must be a tensor of floating-point numbers of shape (B, ..., p) with B >= 3; "
            f"got {_checks.describe(updates)}"
        )
    check_dense("updates", updates)
    updates = updates.detach().double().cpu()  # squares of float16 overflow soon
    total = updates.sum(dim=0)
    squares = updates.square().sum(dim=-1)
    pairs = total.square().sum(dim=-1) - squares.sum(dim=0)  # over ordered pairs
    value = pairs / (B * (B - 1))
    mine = 2 * ((updates * total).sum(dim=-1) - squares)  # the ordered pairs that a draw is in
    left_out = (pairs - mine) / ((B - 1) * (B - 2))
    variance = (B - 1) / B * (left_out - left_out.mean(dim=0)).square().sum(dim=0)
    return Estimate(value.numpy(), variance.sqrt().numpy())
