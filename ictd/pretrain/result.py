"""What a run gives: its history, its parameters and a summary."""

import platform
from dataclasses import dataclass

import numpy as np
import torch

from ictd import __version__, _checks
from ictd.pretrain.config import Config
from ictd.pretrain.identity import identity, place_of
from ictd.pretrain.parameters import trained_model


@dataclass(frozen=True, eq=False)
class History(_checks.ReadOnly):
    """What was recorded in training; K seeds, and 1 or L parameter sets.

    Attributes
    ----------
    step : ndarray of int, shape (R,)
    value_weights : ndarray, shape (R, K, sets, 3)
        [w_R, w_target, w_current]; where V is free, these entries of its value row.
    score_matrix : ndarray, shape (R, K, sets, d, d)
        The feature block of A.
    target_weights, target_score_matrix : ndarray or None
        The same for independent target heads.
    cosine_value_weights : ndarray, shape (R, K, sets)
        With (1, 1, -1).
    cosine_score_matrix : ndarray, shape (R, K, sets)
        With the identity; for features that sum to a constant, after removing what softmax cannot see.
    diagonality_mean, diagonality_min : ndarray, shape (R, K, sets)
        Mean and minimum over states of the population kernel's diagonal, averaged over the held-out tasks.
    value_error : ndarray, shape (R, K)
        Root of the mean over held-out tasks of the squared error of v_L, weighted over states by the stationary
        distribution; where V or A is free, over the states of the context by their frequencies in it.
    neu, neu_standard_error : ndarray, shape (R, K)
        Unbiased estimate of the NEU loss in the parameters that are trained (it can be negative) and its standard
        error.
    loss : ndarray, shape (R, K)
        Mean training loss of the steps since the entry before; NaN in the first.
    diverged_at : ndarray of int, shape (K,)
        Step at which a seed's loss, gradient or update was no longer finite; it stopped with the parameters
        before that step. -1 for never.
    """

    step: np.ndarray
    value_weights: np.ndarray
    score_matrix: np.ndarray
    target_weights: np.ndarray | None
    target_score_matrix: np.ndarray | None
    cosine_value_weights: np.ndarray
    cosine_score_matrix: np.ndarray
    diagonality_mean: np.ndarray
    diagonality_min: np.ndarray
    value_error: np.ndarray
    neu: np.ndarray
    neu_standard_error: np.ndarray
    loss: np.ndarray
    diverged_at: np.ndarray

    def __post_init__(self):
        _checks.freeze(self, **vars(self))


@dataclass(frozen=True, eq=False)
class Result(_checks.ReadOnly):
    """A finished run.

    Attributes
    ----------
    config : Config
    seeds : tuple of int
    history : History
    parameters : dict of ndarray
        Final parameters by name, first dimension K; see `state_form`.
    value_error_constant, value_error_certainty_equivalence, value_error_constructed : float
        Value errors, as in `History`, of the mean reward / (1 - gamma), of the empirical model's value, and of
        the model with the paper's parameters.
    seconds : float
        Computing time, over all starts.
    threads : int
        Threads of torch.
    tasks : dict or None
        `identity.origin` of the function that drew the tasks; None if it was the family in the settings.
    """

    config: Config
    seeds: tuple
    history: History
    parameters: dict
    value_error_constant: float
    value_error_certainty_equivalence: float
    value_error_constructed: float
    seconds: float
    threads: int
    tasks: dict | None = None

    def __post_init__(self):
        _checks.freeze(self, **vars(self))

    def model(self, seed):
        """The trained model of one seed.

        Parameters
        ----------
        seed : int
            One of ``seeds``.

        Returns
        -------
        SoftmaxICTD, or FullICTD where V or A is free
        """
        index = place_of(seed, self.seeds)
        return trained_model(self.config, {name: values[index] for name, values in self.parameters.items()})

    def summary(self):
        """Settings, versions and the main numbers, as JSON can hold them (NaN as None)."""
        history = self.history

        def sets(name, record=-1):
            """A number (or a triple) for looped layers, a list over layers otherwise."""
            values = getattr(history, name)[record]
            return values[:, 0] if self.config.shared else values

        return _plain(
            {
                **identity(self.config, self.seeds, self.tasks),
                "versions": versions(),
                "threads": self.threads,
                "seconds": round(self.seconds, 3),
                "value_error_constant": self.value_error_constant,
                "value_error_certainty_equivalence": self.value_error_certainty_equivalence,
                "value_error_constructed": self.value_error_constructed,
                "value_weights": sets("value_weights"),
                "cosine_value_weights": sets("cosine_value_weights"),
                "cosine_score_matrix": sets("cosine_score_matrix"),
                "diagonality_mean_start": sets("diagonality_mean", 0),
                "diagonality_mean_end": sets("diagonality_mean"),
                "diagonality_min_start": sets("diagonality_min", 0),
                "diagonality_min_end": sets("diagonality_min"),
                "value_error": history.value_error[-1],
                "neu_start": history.neu[0],
                "neu_end": history.neu[-1],
                "neu_end_standard_error": history.neu_standard_error[-1],
                "diverged_at": history.diverged_at,
            }
        )


def versions():
    """Versions of what the numbers of a run depend on."""
    return {
        "ictd": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
    }


def _plain(value):
    """Arrays as lists, NaN and infinity as None."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    return value
