"""The parameters with which a seed begins, and the model of those with which it ends."""

import torch

from ictd import _checks
from ictd._settings import torch_defaults
from ictd.model import FullICTD, SoftmaxICTD
from ictd.pretrain.config import Config
from ictd.state_form import full_matrices


def number_type(config):
    """The type of torch in which a run computes."""
    return getattr(torch, config.dtype)


def new_model(kind, config, generator):
    """A model of a class, with the settings of a run."""
    return kind(
        config.dim,
        config.n_layers,
        config.gamma,
        shared=config.shared,
        form=config.form,
        generator=generator,
        dtype=number_type(config),
        init_scale=config.init_scale,
    )


@torch_defaults()
def initial_parameters(config, seed):
    """Initial parameters of a seed, a dict of tensors of shape (sets, ...).

    Parameters
    ----------
    config : Config
    seed : int
        At least 0.
    """
    _checks.instance("config", config, Config)
    seed = _checks.integer("seed", seed, low=0)
    masked = dict(new_model(SoftmaxICTD, config, torch.Generator().manual_seed(seed)).named_parameters())
    parameters = {name: value.detach() for name, value in masked.items()}
    if config.free != "none":
        full = dict(new_model(FullICTD, config, torch.Generator().manual_seed(seed)).named_parameters())
        for name, block, part in (("V", "value_weights", "value"), ("A", "score_matrix", "score")):
            if config.free in (part, "both"):
                del parameters[block]
                parameters[name] = full[name].detach()
    if "V" in parameters:
        parameters["V"][..., -1, -3] += config.init_reward_weight
    else:
        parameters["value_weights"][..., 0] += config.init_reward_weight
    return parameters


@torch_defaults()
def trained_model(config, parameters):
    """The model of one seed.

    Parameters
    ----------
    config : Config
    parameters : dict of ndarray
        By name, of shape (sets, ...), as in `result.Result`.

    Returns
    -------
    SoftmaxICTD, or FullICTD where V or A is free
    """
    values = {name: torch.tensor(array) for name, array in parameters.items()}
    if config.free != "none":
        V, A = full_matrices(values, config.dim)
        return FullICTD.from_matrices(V, A, config.n_layers, config.gamma, form=config.form)
    model = new_model(SoftmaxICTD, config, torch.Generator())
    with torch.no_grad():
        for name, value in values.items():
            getattr(model, name).copy_(value)
    return model
