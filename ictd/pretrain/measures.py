"""What is measured on tasks that are the same for all seeds: value error, diagonality, NEU loss, cosines."""

import numpy as np
import torch

from ictd import _checks, inputs, neu, tasks
from ictd._settings import numpy_defaults
from ictd.model import SoftmaxICTD
from ictd.pretrain.parameters import number_type
from ictd.pretrain.sampling import HELD_OUT, NEU, sample_tasks, stationary
from ictd.state_form import kernel, matrix_form, state_values


def cosine(found, expected, dimensions):
    """Cosine of the angle between tensors over their last dimensions; NaN if one is zero."""
    found, expected = found.double(), expected.double()
    axes = tuple(range(-dimensions, 0))
    norms = found.square().sum(dim=axes).sqrt() * expected.square().sum(dim=axes).sqrt()
    return (found * expected).sum(dim=axes) / norms


def visible(config, sample=None):
    """The projection of A on what softmax can see, shape (d, d).

    If the features of every state sum to the same number, adding 1 c^T to A adds a constant to the scores of a
    query: the mean of each column of A is invisible. Of features that a function draws nothing is known, and the
    projection is the identity.
    """
    identity = torch.eye(config.dim, dtype=torch.float64)
    if sample is not None or config.features == "gaussian":
        return identity
    return identity - 1 / config.dim


class HeldOut:
    """Fixed tasks on which all seeds are measured."""

    def __init__(self, config, sample=None):
        self.config = config
        dtype = number_type(config)
        rng = np.random.default_rng([config.held_out_seed, 0, HELD_OUT])
        self.batch = sample_tasks(config, config.n_held_out, rng, sample)
        self.contexts = self.batch.sample(config.n_transitions, rng, config.reward_noise)
        self.truth = self.batch.value(config.gamma)
        mu = stationary(self.batch, sample)
        counts = self.contexts.empirical()[0]
        self.weights = mu if config.free == "none" else counts / counts.sum(axis=-1, keepdims=True)
        self.inputs = inputs.from_contexts(self.batch, self.contexts, dtype)
        self.features = torch.tensor(self.batch.features, dtype=dtype)
        self.log_mu = torch.tensor(np.log(mu), dtype=dtype)
        rng = np.random.default_rng([config.held_out_seed, 0, NEU])
        shape = (config.neu_batches, 1, config.neu_batch_size)  # the second dimension is for the seeds
        batch = sample_tasks(config, config.neu_batches * config.neu_batch_size, rng, sample)
        contexts = batch.sample(config.n_transitions + 1, rng, config.reward_noise)
        self.windows = inputs.windows(batch.reshape(shape), contexts.reshape(shape), dtype)

    def error(self, values):
        """Value error of shape (...) for values of shape (..., T, S)."""
        return _weighted_error(values, self.truth, self.weights)

    def measure(self, parameters, block):
        """Diagonality, value error and NEU of all seeds; ``block`` is the feature block of their score matrices."""
        config = self.config
        arguments = (config.gamma, config.n_layers, matrix_form(config.form))
        M = kernel.trusted(block.unsqueeze(-3), self.features, self.log_mu)
        diagonal = M.diagonal(dim1=-2, dim2=-1)
        values = state_values.trusted(parameters, self.inputs, *arguments).double().numpy()
        updates = neu.updates(parameters, self.windows, config.neu_batches, *arguments)
        estimate = neu.squared_norm(updates.double())
        return {
            "diagonality_mean": diagonal.mean(dim=(-1, -2)),
            "diagonality_min": diagonal.amin(dim=-1).mean(dim=-1),
            "value_error": self.error(values),
            "neu": estimate.value,
            "neu_standard_error": estimate.standard_error,
        }

    def references(self):
        """Value errors of the predictors that a model is compared with."""
        config = self.config
        constructed = SoftmaxICTD.constructed(config.dim, config.n_layers, config.gamma, dtype=number_type(config))
        parameters = {name: value.detach() for name, value in constructed.named_parameters()}
        values = state_values.trusted(parameters, self.inputs, config.gamma, config.n_layers).double().numpy()
        return {
            "value_error_constant": float(self.error(self.contexts.constant_value(config.gamma)[:, None])),
            "value_error_certainty_equivalence": float(self.error(self.contexts.certainty_equivalence(config.gamma))),
            "value_error_constructed": float(self.error(values)),
        }


@numpy_defaults()
def value_error(values, batch, gamma, weights=None):
    """Value error on a batch of tasks, for any predictor.

    Parameters
    ----------
    values : array_like, shape (..., T, S)
        Predicted values of all states; leading dimensions, for example seeds, are kept.
    batch : tasks.Tasks
        Leading dimension (T,).
    gamma : float
        Discount of the true values.
    weights : array_like, shape (T, S), optional
        Weights of the states of each task that sum to 1; default the stationary distributions. States of weight 0
        may have no value (NaN).

    Returns
    -------
    ndarray, shape (...)
        Root of the mean over tasks of the weighted squared error.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, negative weights, weights that do not sum to 1.
    """
    _checks.instance("batch", batch, tasks.Tasks)
    values = _checks.array("values", values, (..., "T", "S"), finite=False)
    if len(batch.shape) != 1 or values.shape[-2:] != batch.reward.shape:
        raise ValueError(
            f"values must have shape (..., T, S) = (..., {', '.join(map(str, batch.reward.shape))}) for a batch with "
            f"leading dimension (T,); got shape {values.shape}"
        )
    if weights is None:
        weights = batch.stationary()
    else:
        weights = _checks.array("weights", weights, batch.reward.shape)
        _checks.rows_of_probabilities("weights", weights)
    return _weighted_error(values, batch.value(gamma), weights)


def _weighted_error(values, truth, weights):
    squares = np.where(weights > 0, weights * (values - truth) ** 2, 0)
    return np.sqrt(squares.sum(axis=-1).mean(axis=-1))
