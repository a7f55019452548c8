"""Objectives of pretraining.

Each is a sum over parameter sets along leading dimensions, so that one backward pass gives each set the gradient that
it would have alone. They follow the caller's grad mode. A set whose scores or values overflow has a loss of NaN or
infinity, as in a training that diverges.
"""

import torch

from ictd._arguments import declare
from ictd._read_out import OWN_UPDATE, READ_OUT, another
from ictd._tensors import check_fits
from ictd.neu.semi_gradient import WINDOWS, expected_update, query_td_errors
from ictd.state_form import COLUMNS, readout


def _targets(name, value, lengths):
    """True values (..., T, S) of the states of a batch."""
    features = lengths["features"]
    return check_fits(name, value, features, features.shape[:-1])


@declare(batch=COLUMNS, **READ_OUT)
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
    values = readout.trusted(parameters, batch, gamma, n_layers, form)
    errors = batch.rewards + gamma * values[..., 1:].detach() - values[..., :-1]
    return errors.square().mean(dim=(-1, -2)) / 2


@declare(batch=COLUMNS, **READ_OUT, targets=_targets)
def true_value_loss(parameters, batch, targets, gamma, n_layers, form="tsm"):
    """Half the mean squared error of the columns' values against the true values: a reference that needs them.

    Parameters
    ----------
    targets : Tensor, shape (..., T, S)
        True values of the states, with the leading dimensions of ``batch`` and of its type.

    Other parameters and the result are as in `td_loss`.
    """
    values = readout.trusted(parameters, batch, gamma, n_layers, form)
    return (values - torch.gather(targets, -1, batch.states)).square().mean(dim=(-1, -2)) / 2


@declare(windows=WINDOWS, **READ_OUT)
def td_query_loss(parameters, windows, gamma, n_layers, form="tsm"):
    """Half the mean squared TD error of the query, with the successor's value held fixed, shape (...)."""
    errors, _ = query_td_errors.trusted(parameters, windows, gamma, n_layers, form, differentiable=False)
    return errors.square().mean(dim=-1) / 2


@declare(first=WINDOWS, **OWN_UPDATE, second=another(WINDOWS))
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
    g, h = (expected_update.trusted(parameters, windows, gamma, n_layers, form, True) for windows in (first, second))
    return (g * h).sum(dim=-1)


@declare(windows=WINDOWS, **OWN_UPDATE)
def biased_neu_loss(parameters, windows, gamma, n_layers, form="tsm"):
    """The squared norm of one batch's mean update, shape (...): too large by the variance of that mean."""
    return expected_update.trusted(parameters, windows, gamma, n_layers, form, True).square().sum(dim=-1)
