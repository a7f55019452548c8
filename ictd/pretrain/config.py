"""The settings of a run; they are known and checked without torch."""

from dataclasses import dataclass

import numpy as np

from ictd import _checks, tasks
from ictd._construction import FORMS

CHOICES = {
    "objective": ("td", "td_query", "neu", "neu_one_batch", "mc"),
    "family": tuple(tasks.FAMILIES),
    "features": tuple(tasks.FEATURES),
    "form": FORMS,
    "free": ("none", "value", "score", "both"),
    "dtype": ("float32", "float64"),
}
# Larger settings are typing errors; torch would answer with an overflow that names nothing.
LARGEST = 1e30


@dataclass(frozen=True)
class Config:
    """The settings of a run.

    Parameters
    ----------
    gamma : float
        Discount in [0, 1).
    n_layers : int
        Number of layers L, at least 1.
    n_states, dim : int
        Number of states S (at least 3) and of features d.
    n_transitions : int
        Transitions n of a context, at least 1.
    n_steps : int
        Optimiser steps, at least 1.
    objective : {"td", "td_query", "neu", "neu_one_batch", "mc"}
        "td": semi-gradient TD on all transitions of the context. "td_query": on the query and the window slid
        by one. "neu": the NEU loss by double sampling, two batches a step. "neu_one_batch": the biased version.
        "mc": regression on the true values, which a learner does not have.
    family, features, feature_scale
        As in `tasks.draw`.
    reward_noise : float
        As in `tasks.Tasks.sample`.
    form : {"tsm", "dual_head", "independent_heads"}
        As in `model.SoftmaxICTD`.
    shared : bool
        One set of parameters for all layers, or one for each.
    free : {"none", "value", "score", "both"}
        Which of V and A have no mask. Training then runs on prompt matrices, which costs far more.
    batch_size : int
        Fresh tasks a step for each seed.
    learning_rate, final_rate : float
        Adam's rate, and the share of it that is left at the end of a cosine decay.
    clip : float
        Largest norm of a seed's gradient.
    init_scale : float
        Standard deviation of the initial parameters.
    init_reward_weight : float
        Added to the initial w_R.
    dtype : {"float32", "float64"}
    n_records : int
        The history has this many entries after the start, at equal distances.
    n_held_out : int
        Tasks of the fixed set for value errors and diagonality, the same for all seeds.
    neu_batches, neu_batch_size : int
        Independent batches, at least 3, and tasks of each for the NEU estimates; also fixed.
    held_out_seed : int
        Seed of both fixed sets.

    Raises
    ------
    ValueError, TypeError
        Numbers out of range, unknown options, options that contradict each other.
    """

    gamma: float = 0.5
    n_layers: int = 5
    n_states: int = 10
    dim: int = 4
    n_transitions: int = 100
    n_steps: int = 800
    objective: str = "td"
    family: str = "boyan"
    features: str = "gaussian"
    feature_scale: float = 1.0
    reward_noise: float = 0.0
    form: str = "tsm"
    shared: bool = True
    free: str = "none"
    batch_size: int = 32
    learning_rate: float = 0.02
    final_rate: float = 0.02
    clip: float = 0.3
    init_scale: float = 0.02
    init_reward_weight: float = 0.0
    dtype: str = "float32"
    n_records: int = 40
    n_held_out: int = 256
    neu_batches: int = 16
    neu_batch_size: int = 32
    held_out_seed: int = 0

    def __post_init__(self):
        def put(name, value):
            object.__setattr__(self, name, value)

        put("gamma", _checks.discount(self.gamma))
        put("n_states", _checks.side("n_states", self.n_states, low=3))
        put("dim", _checks.side("dim", self.dim))
        for name, low in {
            "n_layers": 1,
            "n_transitions": 1,
            "n_steps": 1,
            "batch_size": 1,
            "n_records": 1,
            "n_held_out": 1,
            "neu_batches": 3,
            "neu_batch_size": 1,
            "held_out_seed": 0,
        }.items():
            put(name, _checks.integer(name, getattr(self, name), low=low))
        # What is drawn at once: two batches for "neu", one transition more for a query, all batches of the estimate
        for name, factor in {"batch_size": 2, "n_transitions": 2, "neu_batch_size": self.neu_batches}.items():
            _checks.integer(name, getattr(self, name), low=1, high=_checks.LARGEST_INTEGER // factor)
        for name in ("feature_scale", "learning_rate", "clip"):
            put(name, _checks.real(name, getattr(self, name), low=0, low_open=True, high=LARGEST))
        for name in ("reward_noise", "init_scale"):
            put(name, _checks.real(name, getattr(self, name), low=0, high=LARGEST))
        put("final_rate", _checks.real("final_rate", self.final_rate, low=0, high=1))
        weight = _checks.real("init_reward_weight", self.init_reward_weight, low=-LARGEST, high=LARGEST)
        put("init_reward_weight", weight)
        for name, options in CHOICES.items():
            put(name, str(_checks.option(name, getattr(self, name), options)))
        put("shared", _checks.flag("shared", self.shared))
        if self.features == "one_hot" and self.dim != self.n_states:
            raise ValueError(f"dim must equal n_states = {self.n_states} for one-hot features; got {self.dim}")
        if self.features == "triangular" and self.dim < 2:
            raise ValueError(f"dim must be at least 2 for triangular features; got {self.dim}")
        if self.free != "none" and self.form == "independent_heads":
            raise ValueError(f"free must be 'none' for independent heads; got {self.free!r}")

    def record_steps(self):
        """Steps after which the history has an entry, from 0 to n_steps."""
        steps = np.linspace(0, self.n_steps, min(self.n_records, self.n_steps) + 1)
        return np.round(steps).astype(int)


def check_seeds(seeds):
    """Seeds as a tuple of int, or an error: they must be different integers of at least 0, and at least one."""
    if isinstance(seeds, (str, bytes)) or not hasattr(seeds, "__iter__"):
        raise TypeError(f"seeds must be a sequence of integers, for example range(20); got {_checks.describe(seeds)}")
    seeds = tuple(_checks.integer("seeds", seed, low=0) for seed in seeds)
    if not seeds:
        raise ValueError("seeds must hold at least one seed; got none")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must be different; got {seeds}")
    return seeds


def record_shapes(seeds, sets, dim):
    """Shapes of the arrays of an entry of the history that every run has; see `History`."""
    each = dict.fromkeys(("value_error", "neu", "neu_standard_error", "loss"), (seeds,))
    names = ("cosine_value_weights", "cosine_score_matrix", "diagonality_mean", "diagonality_min")
    of_sets = dict.fromkeys(names, (seeds, sets))
    parameters = {"value_weights": (seeds, sets, 3), "score_matrix": (seeds, sets, dim, dim)}
    return {"step": ()} | each | of_sets | parameters
