"""The parameters with which a seed begins."""

import torch

from ictd import _checks
from ictd._settings import torch_defaults
from ictd.model import FullICTD, SoftmaxICTD
from ictd.pretrain.config import Config


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
