"""The expected semi-gradient TD update delta * grad TF(Z_0), whose squared norm is the NEU loss.

Updates are gradients themselves, and are computed in any grad mode. A set whose scores or values overflow has an
update of NaN.
"""

import torch

from ictd._arguments import declare, discount, flag, instance, integer
from ictd._read_out import OWN_UPDATE, READ_OUT, leading_shape, parameter_sets, read_alone
from ictd._settings import torch_defaults
from ictd.inputs import Windows
from ictd.state_form import INPUTS, is_masked, readout, state_values
from ictd.td import matrix_times_vector

# Windows, whose features the parameters must fit.
WINDOWS = instance(Windows, features="features")


@declare(windows=WINDOWS, **READ_OUT, differentiable=flag)
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
    value = readout.trusted(parameters, windows.here, gamma, n_layers, form)[..., -1]
    with torch.set_grad_enabled(differentiable and torch.is_grad_enabled()):
        successor = readout.trusted(parameters, windows.there, gamma, n_layers, form)[..., -1]
    return windows.reward + gamma * successor - value, value


@declare(windows=WINDOWS, differentiable=flag, **OWN_UPDATE)
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
        errors, values = query_td_errors.trusted(parameters, windows, gamma, n_layers, form, differentiable)
        return _mean_update(parameters, values, errors, differentiable)

    return _with_gradients(update, parameters, differentiable)


def _with_gradients(update, parameters, differentiable):
    """Call ``update(parameters, differentiable)``, which takes a gradient, also where the caller records none."""
    for name, tensor in parameters.items():
        if differentiable and torch.is_grad_enabled() and not tensor.requires_grad:
            raise ValueError(f"parameters must require a gradient for an update with a graph; {name} does not")
    if differentiable and torch.is_grad_enabled():
        return update(parameters, True)
    with torch_defaults():
        leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items()}
        return update(leaves, False)


def _mean_update(parameters, values, weights, differentiable):
    """Sum of weight * grad value over tasks (and states), divided by the number of tasks, shape (..., p)."""
    lead = leading_shape.trusted(parameters)
    if not differentiable:
        weights = weights.detach()
    gradients = torch.autograd.grad(
        values,
        [parameters[name] for name in sorted(parameters)],
        grad_outputs=weights / weights.shape[len(lead)],
        create_graph=differentiable,
        allow_unused=True,  # the first layer's w_target and w_current see only zeros
        materialize_grads=True,
    )
    return torch.cat([gradient.reshape(*lead, -1) for gradient in gradients], dim=-1)


def _limits(name, value, lengths):
    """Inputs of contexts of infinite length."""
    if INPUTS(name, value, lengths).states is not None:
        raise ValueError(f"{name} must come from limit_inputs; got that of finite contexts")
    return value


def _masked(name, parameters, lengths):
    """The same as `read_alone` for parameters that are masked."""
    if not is_masked(parameters):
        raise ValueError(f"{name} must be masked; got {', '.join(parameters)}")
    return read_alone(name, parameters, lengths)


@declare(
    batch=_limits,
    differentiable=flag,
    n_layers=integer(low=1, letter="n_layers"),
    parameters=_masked,
    gamma=discount,
)
def limit_update(parameters, batch, gamma, n_layers, differentiable=False):
    """What `expected_update` tends to as n goes to infinity: S has the stationary distribution, S' given S is P(S, .).

    Only the tasks are random then.

    Parameters
    ----------
    parameters : dict of Tensor
        Masked, with leading dimensions (...).
    batch : Inputs
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
        Parameters that are not masked, a batch of finite contexts, leading dimensions that do not fit.
    """

    def update(parameters, differentiable):
        values = state_values.trusted(parameters, batch, gamma, n_layers)
        with torch.set_grad_enabled(differentiable):
            td_errors = batch.mean_reward + gamma * matrix_times_vector(batch.transition, values) - values
            weights = batch.log_counts.exp() * td_errors
        return _mean_update(parameters, values, weights, differentiable)

    return _with_gradients(update, parameters, differentiable)


@declare(windows=WINDOWS, n_batches=integer(low=1), **READ_OUT | {"parameters": parameter_sets})
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
    lead, found = leading_shape.trusted(parameters), tuple(windows.reward.shape[:-1])
    if len(found) != 1 + len(lead) or found[0] != n_batches or any(w not in (1, p) for w, p in zip(found[1:], lead)):
        raise ValueError(
            f"windows must have the leading dimensions {(n_batches, *[1] * len(lead), 'T')}, one for the batches "
            f"before those of the parameters; got {tuple(windows.reward.shape)}"
        )
    if not is_masked.trusted(parameters):  # prompt matrices of all batches at once would take gigabytes
        batches = (windows[index] for index in range(n_batches))
        return torch.stack([expected_update.trusted(parameters, batch, gamma, n_layers, form) for batch in batches])
    copies = {name: tensor.detach().expand(n_batches, *tensor.shape) for name, tensor in parameters.items()}
    return expected_update.trusted(copies, windows, gamma, n_layers, form)
