"""The settings of a run; they are known and checked without torch.

A setting stands in one place, its field in `Config`: the metadata hold its range or its choices, what it is, and how
the command line calls it. The checks, the docstring and the options are made from them.
"""

import dataclasses
import functools
import inspect
import textwrap
from dataclasses import dataclass

import numpy as np

from ictd import _checks, families
from ictd._construction import FORMS

# Larger settings are typing errors; torch would answer with an overflow that names nothing.
LARGEST = 1e30
_CHECKS = {bool: _checks.flag, int: _checks.integer, float: _checks.real, str: _checks.option}


def _setting(default, group, option, text, rest=".", *, check=None, choices=None, place=0, varies=True, **limits):
    """A field of `Config`.

    Parameters
    ----------
    default : bool, int, float or str
    group : {"tasks", "model", "training", "measurements"}
        The help lists options by group, in each by place, and then in the order of the fields.
    option : str
        Its name on the command line.
    text : str
        What it is, in the help of the option (which adds the default) and in the docstring.
    rest : str
        How the docstring goes on.
    check : callable
        By default that of the type in `_checks`.
    choices : tuple of str
    place : int
    varies : bool
        Whether a sweep may have several values of it.
    limits
        The range, as the check takes it.
    """
    limits |= {"options": choices} if choices else {}
    metadata = {
        "check": functools.partial(check or _CHECKS[type(default)], **limits),
        "choices": choices,
        "group": group,
        "option": option,
        "help": text,
        "rest": rest,
        "place": place,
        "varies": varies,
    }
    return dataclasses.field(default=default, metadata=metadata)


def _documented(config):
    """Describe the fields in the docstring of their class."""
    lines = []
    for field in dataclasses.fields(config):
        text = field.metadata["help"] + field.metadata["rest"]
        lines.append(f"{field.name} : {_type(field)}")
        lines.append(textwrap.fill(text[0].upper() + text[1:], 100, initial_indent=" " * 4, subsequent_indent=" " * 4))
    config.__doc__ = inspect.cleandoc(config.__doc__ or "").replace("(fields)", "\n".join(lines))
    return config


def _type(field):
    limits = field.metadata["check"].keywords
    if field.metadata["choices"]:
        return "{" + ", ".join(f'"{choice}"' for choice in field.metadata["choices"]) + "}"
    if isinstance(field.default, float):
        brackets = "(" if "low_open" in limits else "[", ")" if "high_open" in limits else "]"
        return f"float in {brackets[0]}{limits['low']:g}, {limits['high']:g}{brackets[1]}"
    return type(field.default).__name__ + (f", at least {limits['low']}" if limits else "")


@_documented
@dataclass(frozen=True)
class Config:
    """The settings of a run.

    Parameters
    ----------
    (fields)

    Raises
    ------
    ValueError, TypeError
        Numbers out of range, unknown options, options that contradict each other.
    """

    gamma: float = _setting(0.5, "tasks", "--gamma", "discount in [0, 1)", low=0, high=1, high_open=True)
    n_layers: int = _setting(5, "model", "--layers", "number of layers", " L.", low=1)
    n_states: int = _setting(10, "tasks", "--states", "number of states, at least 3", low=3, check=_checks.side)
    dim: int = _setting(4, "tasks", "--dim", "number of features", " d.", low=1, check=_checks.side, place=1)
    n_transitions: int = _setting(100, "tasks", "--context", "transitions of a context", ", n.", low=1, place=2)
    n_steps: int = _setting(800, "training", "--steps", "optimiser steps", low=1)
    objective: str = _setting(
        "td",
        "training",
        "--objective",
        "semi-gradient TD, TD on the query, NEU by double sampling or from one batch (biased), "
        "regression on true values",
        '. "td" learns from all transitions of the context, "td_query" from the query and the window slid by one; '
        '"neu" draws two batches a step; "mc" takes the true values, which a learner does not have.',
        choices=("td", "td_query", "neu", "neu_one_batch", "mc"),
        place=-1,
    )
    family: str = _setting(
        "boyan", "tasks", "--family", "random processes", ", as in `tasks.draw`.", choices=tuple(families.FAMILIES)
    )
    features: str = _setting(
        "gaussian", "tasks", "--features", "features of states", ", as in `tasks.draw`.",
        choices=tuple(families.FEATURES),
    )  # fmt: skip
    feature_scale: float = _setting(
        1.0, "tasks", "--feature-scale", "factor of all features", low=0, low_open=True, high=LARGEST, place=1
    )
    reward_noise: float = _setting(
        0.0, "tasks", "--reward-noise", "standard deviation of noise in rewards", ", as in `tasks.Tasks.sample`.",
        low=0, high=LARGEST, place=2,
    )  # fmt: skip
    form: str = _setting(
        "tsm",
        "model",
        "--form",
        "temporal shift module, dual heads, or heads with parameters of their own",
        ", as in `model.SoftmaxICTD`.",
        choices=FORMS,
    )
    shared: bool = _setting(
        True, "model", "--per-layer", "parameters for each layer instead of one set for all", ", where this is False."
    )
    free: str = _setting(
        "none",
        "model",
        "--free",
        "which of V and A have no mask (costs far more time)",
        ", as training then runs on prompt matrices.",
        choices=("none", "value", "score", "both"),
    )
    batch_size: int = _setting(32, "training", "--batch", "fresh tasks a step for each seed", low=1)
    learning_rate: float = _setting(
        0.02, "training", "--rate", "learning rate of Adam", low=0, low_open=True, high=LARGEST
    )
    final_rate: float = _setting(
        0.02, "training", "--final-rate", "share of it that is left after a cosine decay, in [0, 1]", low=0, high=1
    )
    clip: float = _setting(
        0.3, "training", "--clip", "largest norm of a seed's gradient", low=0, low_open=True, high=LARGEST
    )
    init_scale: float = _setting(
        0.02, "training", "--init-scale", "standard deviation of initial parameters", low=0, high=LARGEST
    )
    init_reward_weight: float = _setting(
        0.0, "training", "--init-reward-weight", "added to the initial reward weight", " w_R.",
        low=-LARGEST, high=LARGEST,
    )  # fmt: skip
    dtype: str = _setting("float32", "training", "--dtype", "number type", choices=("float32", "float64"))
    n_records: int = _setting(
        40, "measurements", "--records", "entries of the history after the start", ", at equal distances.",
        low=1, varies=False,
    )  # fmt: skip
    n_held_out: int = _setting(
        256, "measurements", "--held-out", "tasks for value errors and diagonality", ", the same for all seeds.",
        low=1, varies=False,
    )  # fmt: skip
    neu_batches: int = _setting(
        16, "measurements", "--neu-batches", "independent batches for the NEU loss, at least 3", ", also the same.",
        low=3, varies=False,
    )  # fmt: skip
    neu_batch_size: int = _setting(32, "measurements", "--neu-batch", "tasks of each", low=1, varies=False)
    held_out_seed: int = _setting(0, "measurements", "--held-out-seed", "seed of these tasks", low=0, varies=False)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = field.metadata["check"](field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, type(field.default)(value))  # also NumPy's str becomes Python's
        # What is drawn at once: two batches for "neu", one transition more for a query, all batches of the estimate
        for name, factor in {"batch_size": 2, "n_transitions": 2, "neu_batch_size": self.neu_batches}.items():
            _checks.integer(name, getattr(self, name), low=1, high=_checks.LARGEST_INTEGER // factor)
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
