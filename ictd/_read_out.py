"""What read-outs take: parameters of many sets, see `state_form`, that fit a batch of inputs.

Kinds of arguments for `_arguments.declare`. ``lengths["features"]`` are the features of the batch, declared before.
"""

import torch

from ictd import _checks
from ictd._arguments import declare, discount, integer, option
from ictd._construction import FORMS
from ictd._tensors import broadcast, check_dense

# The number of dimensions of each parameter behind the leading ones, and which of them go together.
DIMENSIONS = {"value_weights": 2, "score_matrix": 3, "target_weights": 2, "target_score_matrix": 3, "V": 3, "A": 3}
COMBINATIONS = (
    {"value_weights", "score_matrix"},
    {"value_weights", "score_matrix", "target_weights", "target_score_matrix"},
    {"V", "score_matrix"},
    {"value_weights", "A"},
    {"V", "A"},
)


def combination(name, parameters, lengths=None):
    """A dict of tensors with the names of a combination; `parameter_sets` checks shapes as well."""
    _checks.instance(name, parameters, dict)
    if set(parameters) not in COMBINATIONS:
        raise ValueError(f"{name} must be one of the combinations of the module; got {', '.join(map(str, parameters))}")
    for key, tensor in parameters.items():
        if not isinstance(tensor, torch.Tensor) or tensor.ndim < DIMENSIONS[key] or not tensor.is_floating_point():
            raise TypeError(
                f"{name} must be floating-point tensors as in `state_form`; {key} is {_checks.describe(tensor)}"
            )
        check_dense(name, tensor)
        if tensor.numel() == 0:
            raise ValueError(f"{name} must not be empty; {key} has shape {tuple(tensor.shape)}")
    return parameters


def parameter_sets(name, parameters, lengths):
    """Parameters that fit each other, the features and the number of layers, but for leading dimensions."""
    combination(name, parameters)
    n_layers, dtype, d = lengths["n_layers"], lengths["features"].dtype, lengths["features"].shape[-1]
    lead = leading_shape.trusted(parameters)
    sets = {tensor.shape[-DIMENSIONS[key]] for key, tensor in parameters.items()}
    for key, tensor in parameters.items():
        if tensor.dtype != dtype:
            raise TypeError(f"{name} must have the type of the inputs, {dtype}; {key} has {tensor.dtype}")
        side = d if "score" in key else d + 3
        shape = (*lead, tensor.shape[-DIMENSIONS[key]], *((3,) if DIMENSIONS[key] == 2 else (side, side)))
        if tensor.shape != shape or sets not in ({1}, {n_layers}):
            raise ValueError(
                f"{name} must have shapes as in `state_form` for d = {d}, with 1 or n_layers = {n_layers} sets and "
                f"equal leading dimensions; {key} has shape {tuple(tensor.shape)}"
            )
    lengths["parameters"] = parameters
    return parameters


def readable(name, parameters, lengths):
    """Parameters whose leading dimensions broadcast with those of the inputs as well, without T."""
    lead = leading_shape.trusted(parameter_sets(name, parameters, lengths))
    lengths["lead"] = broadcast("parameters and inputs (without T)", lead, lengths["features"].shape[:-3])
    return parameters


def read_alone(name, parameters, lengths):
    """Parameters with the leading dimensions of their read-outs: each set has an update of its own."""
    lead = leading_shape.trusted(readable(name, parameters, lengths))
    if lead != lengths["lead"]:
        raise ValueError(
            f"{name} must have the leading dimensions {tuple(lengths['lead'])} of their read-outs; got {tuple(lead)}"
        )
    return parameters


@declare(parameters=combination)
def leading_shape(parameters):
    """The leading dimensions (...) of a dict of parameters."""
    name, tensor = next(iter(parameters.items()))
    return tensor.shape[: -DIMENSIONS[name]]


def check_columns(name, inputs):
    """Return inputs unless they come from `inputs.limit_inputs`, which knows no columns."""
    if inputs.states is None:
        raise ValueError(f"{name} must hold contexts of finite length; got those of inputs.limit_inputs")
    return inputs


def with_columns(kind):
    """Inputs of a kind that have columns."""
    return lambda name, value, lengths: check_columns(name, kind(name, value, lengths))


def another(kind):
    """More inputs of a kind, which the parameters of an update must fit as well."""

    def check(name, value, lengths):
        result = kind(name, value, lengths)
        read_alone("parameters", lengths["parameters"], lengths)
        return result

    return check


# What every read-out takes besides its inputs, which are declared before.
READ_OUT = {
    "n_layers": integer(low=1, letter="n_layers"),
    "form": option(*FORMS[:2]),
    "parameters": readable,
    "gamma": discount,
}
OWN_UPDATE = READ_OUT | {"parameters": read_alone}
