"""What a trained model reads out on the walk of the caller."""

import numpy as np

from ictd import _checks

# A model whose matrices are free needs the whole prompt, and attention between all its columns.
MOST_COLUMNS = 5000


def check_model(model, gamma, n_layers, features, several):
    """Discount and number of layers of a model, or an error unless it fits the other arguments of `evaluate`."""
    from ictd.model import FullICTD, SoftmaxICTD

    if not isinstance(model, (SoftmaxICTD, FullICTD)):
        raise TypeError(f"model must be a SoftmaxICTD or a FullICTD; got {_checks.describe(model)}")
    for name, given, own in (("gamma", gamma, model.gamma), ("n_layers", n_layers, model.n_layers)):
        if given is not None and given != own:
            raise ValueError(f"{name} must be that of the model, {own}, or be left out; got {_checks.describe(given)}")
    if several:
        raise ValueError("model must be used on one walk, without episodes and done: its prompt is a single walk")
    if features is None:
        raise ValueError(f"features must be given for the model, of shape (n+1, {model.d}); got None")
    if np.shape(features)[-1:] != (model.d,):
        raise ValueError(
            f"features must have the {model.d} columns that the model was trained with; got shape {np.shape(features)}"
        )
    return model.gamma, model.n_layers


def trained_values(model, X, states, rewards, context):
    """Values v_L of all states, shape (S,): what the columns of a state hold in the value row at the end.

    Parameters
    ----------
    model : SoftmaxICTD or FullICTD
        With masked parameters all columns of a state agree, and the state form gives their values; with free ones
        it is the mean over the columns.
    X : ndarray, shape (S, d)
    states : ndarray of int, shape (n+1,)
    rewards : ndarray, shape (n,)
    context : EmpiricalModel
        That of the walk.

    Raises
    ------
    ValueError
        Values that overflow, or a walk that is too long for a model with free matrices.
    """
    import torch

    from ictd.inputs import Inputs
    from ictd.state_form import is_masked, matrix_form, state_values

    parameters = {name: value.detach() for name, value in model.named_parameters()}
    masked = is_masked(parameters)
    if not masked and len(states) > MOST_COLUMNS:
        raise ValueError(
            f"states must be at most {MOST_COLUMNS} for a model with free matrices, which attends between all columns; "
            f"got {len(states)}"
        )

    def batch(array):
        return torch.tensor(array[None], dtype=next(model.parameters()).dtype)

    inputs = Inputs(
        batch(X),
        batch(np.log(context.counts)),
        batch(context.transition),
        batch(np.where(context.visited, context.reward, 0)),
        None if masked else torch.tensor(states[None]),
        None if masked else batch(rewards),
    )
    return state_values(parameters, inputs, model.gamma, model.n_layers, matrix_form(model.form))[0].double().numpy()
