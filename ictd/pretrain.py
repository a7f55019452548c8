"""Pretraining on random tasks, all seeds at once, with checkpoints from which a killed run goes on.

What a seed draws in step t depends on (seed, t) only: neither on the other seeds nor on a restart.
"""

import contextlib
import dataclasses
import json
import platform
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ictd import __version__, _checks, checkpoint, neu, tasks
from ictd.model import FORMS, FullICTD, SoftmaxICTD
from ictd.state_form import full_matrices, inputs, kernel, matrix_form, state_values

OBJECTIVES = ("td", "td_query", "neu", "neu_one_batch", "mc")
FREE = ("none", "value", "score", "both")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
BETAS, MOMENTS = (0.9, 0.999), ("mean", "square")
# Streams of random numbers: for training, and for the held-out tasks that all seeds share.
_TRAIN, _HELD_OUT, _NEU = 1, 2, 3
PATTERN = (1.0, 1.0, -1.0)
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
        _checks.option("objective", self.objective, OBJECTIVES)
        _checks.option("family", self.family, tuple(tasks.FAMILIES))
        _checks.option("features", self.features, tuple(tasks.FEATURES))
        _checks.option("form", self.form, FORMS)
        _checks.option("free", self.free, FREE)
        _checks.option("dtype", self.dtype, tuple(DTYPES))
        if not isinstance(self.shared, bool):
            raise TypeError(f"shared must be True or False; got {_checks.describe(self.shared)}")
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


# ---------------------------------------------------------------------------------------------- results


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
class Result:
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
        if seed not in self.seeds:
            raise ValueError(f"seed must be one of {', '.join(map(str, self.seeds))}; got {_checks.describe(seed)}")
        index = self.seeds.index(seed)
        values = {name: torch.tensor(array[index]) for name, array in self.parameters.items()}
        config = self.config
        if config.free != "none":
            V, A = full_matrices(values, config.dim)
            return FullICTD.from_matrices(V, A, config.n_layers, config.gamma, form=config.form)
        model = _new_model(SoftmaxICTD, config, torch.Generator())
        with torch.no_grad():
            for name, value in values.items():
                getattr(model, name).copy_(value)
        return model

    def summary(self):
        """Settings, versions and the main figures, as JSON can hold them (NaN as None)."""
        history = self.history

        def sets(name, record=-1):
            """A number (or a triple) for looped layers, a list over layers otherwise."""
            values = getattr(history, name)[record]
            return values[:, 0] if self.config.shared else values

        return _plain(
            {
                "config": dataclasses.asdict(self.config),
                "seeds": self.seeds,
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


# --------------------------------------------------------------------------------------------- training


def pretrain(config, seeds, *, checkpoint_path=None, checkpoint_seconds=5.0, progress=False):
    """Train one model for each seed, all at once.

    Parameters
    ----------
    config : Config
    seeds : iterable of int
        Different and at least 0. A seed gives the initial parameters and the tasks of every step.
    checkpoint_path : str or Path, optional
        A file that is written every few seconds, at Ctrl-C and at the end. If it exists, the run goes on from
        it, and on the same machine with as many threads the history is the same bit for bit as without the break.
    checkpoint_seconds : float
        Time between checkpoints, at least 0.
    progress : bool
        Show a progress bar if the standard error stream is a terminal and tqdm is installed.

    Returns
    -------
    Result

    Raises
    ------
    ValueError, TypeError
        Bad arguments, before any work is done.
    CheckpointError
        The file is damaged, or belongs to other settings; it is left as it is.
    """
    _checks.instance("config", config, Config)
    seeds = check_seeds(seeds)
    checkpoint_seconds = _checks.real("checkpoint_seconds", checkpoint_seconds, low=0)
    if checkpoint_path is not None:
        checkpoint_path = _file(checkpoint_path)
    run = _Run(config, seeds)
    if checkpoint_path is not None and checkpoint_path.exists():
        run.restore(checkpoint_path)

    def save():
        if checkpoint_path is not None:
            run.save(checkpoint_path)

    saved = time.monotonic()
    with _progress_bar(run, progress) as bar, _late_interrupt() as interrupted:
        while run.advance():
            bar.update()
            if interrupted():
                break
            if time.monotonic() - saved >= checkpoint_seconds:
                save()
                saved = time.monotonic()
    save()
    if interrupted():
        raise KeyboardInterrupt
    return run.result()


@contextlib.contextmanager
def _late_interrupt():
    """Let Ctrl-C wait for the end of a step, as half a step is no state to go on from; a second one does not wait."""
    came = []
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield lambda: False
        return

    def note(*_):
        came.append(True)
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, usual)


def _file(path):
    if not isinstance(path, (str, Path)):
        raise TypeError(f"checkpoint_path must be a str or a Path; got {_checks.describe(path)}")
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"checkpoint_path must be in an existing folder; there is no {path.parent}")
    return path


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


class _NoBar:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def update(self):
        pass


def _progress_bar(run, progress):
    if not progress:
        return _NoBar()
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return _NoBar()
    # disable=None: no bar where standard error is no terminal
    return tqdm(total=run.config.n_steps, initial=run.step, desc=f"{len(run.seeds)} seeds", unit="step", disable=None)


def _new_model(kind, config, generator):
    return kind(
        config.dim,
        config.n_layers,
        config.gamma,
        shared=config.shared,
        form=config.form,
        generator=generator,
        dtype=DTYPES[config.dtype],
        init_scale=config.init_scale,
    )


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
    masked = dict(_new_model(SoftmaxICTD, config, torch.Generator().manual_seed(seed)).named_parameters())
    parameters = {name: value.detach() for name, value in masked.items()}
    if config.free != "none":
        full = dict(_new_model(FullICTD, config, torch.Generator().manual_seed(seed)).named_parameters())
        for name, block, part in (("V", "value_weights", "value"), ("A", "score_matrix", "score")):
            if config.free in (part, "both"):
                del parameters[block]
                parameters[name] = full[name].detach()
    if "V" in parameters:
        parameters["V"][..., -1, -3] += config.init_reward_weight
    else:
        parameters["value_weights"][..., 0] += config.init_reward_weight
    return parameters


class _Run:
    """The state of a run: parameters, moments of Adam, step, and what was recorded."""

    def __init__(self, config, seeds):
        self.config, self.seeds = config, seeds
        starts = [initial_parameters(config, seed) for seed in seeds]
        self.parameters = {
            name: torch.stack([start[name] for start in starts]).requires_grad_() for name in sorted(starts[0])
        }
        self.moments = {name: [torch.zeros_like(value)] * 2 for name, value in self.parameters.items()}
        self.step = 0
        self.records = []
        self.loss_sum = torch.zeros(len(seeds), dtype=torch.float64)
        self.loss_count = 0
        self.diverged_at = np.full(len(seeds), -1)
        self.seconds = 0.0
        self.record_steps = config.record_steps()
        self.held_out = _HeldOut(config)

    # ------------------------------------------------------------------------------------- one step

    def advance(self):
        """Record if it is time, then take one step; False at the end."""
        started = time.perf_counter()
        if len(self.records) < len(self.record_steps) and self.step == self.record_steps[len(self.records)]:
            self.records.append(self._record())
        done = self.step == self.config.n_steps
        if not done:
            self._train()
            self.step += 1
        self.seconds += time.perf_counter() - started
        return not done

    def _train(self):
        config = self.config
        loss = _loss(config, self.parameters, *self._draw())
        # with one layer, an independent target head has no gradient
        gradients = torch.autograd.grad(
            loss.sum(), list(self.parameters.values()), allow_unused=True, materialize_grads=True
        )
        loss = loss.detach()
        norms = torch.stack([g.flatten(1).square().sum(dim=1) for g in gradients]).sum(dim=0).sqrt()
        factor = torch.clamp(config.clip / norms, max=1.0)  # also 1 where the gradient is 0
        cosine = (1 + np.cos(np.pi * self.step / config.n_steps)) / 2
        rate = config.learning_rate * (config.final_rate + (1 - config.final_rate) * cosine)
        updated = {
            name: _adam(parameter.detach(), gradient * _along(factor, gradient), *self.moments[name], self.step, rate)
            for (name, parameter), gradient in zip(self.parameters.items(), gradients)
        }
        finite = torch.isfinite(loss) & torch.isfinite(norms)
        for parameter, *_ in updated.values():
            finite &= torch.isfinite(parameter).flatten(1).all(dim=1)
        alive = torch.from_numpy(self.diverged_at < 0)
        self.diverged_at[(alive & ~finite).numpy()] = self.step
        alive &= finite
        for name, (new, *moments) in updated.items():
            old = self.parameters[name].detach()  # a seed that diverged stays where it was
            self.parameters[name] = torch.where(_along(alive, old), new, old).requires_grad_()
            self.moments[name] = moments
        self.loss_sum += torch.where(alive, loss.double(), torch.nan)
        self.loss_count += 1

    def _draw(self):
        """The batch of a step, and a second one where the objective needs it; leading dimensions (K, T)."""
        config = self.config
        rngs = [np.random.default_rng([seed, self.step, _TRAIN]) for seed in self.seeds]
        count = config.batch_size
        batch = _tasks(config, 2 * count if config.objective == "neu" else count, rngs)
        longer = config.objective not in ("td", "mc")
        contexts = batch.sample(config.n_transitions + longer, rngs, config.reward_noise)
        if config.objective != "neu":
            return [(batch, contexts)]
        return [(batch[:, part], contexts[:, part]) for part in (slice(count), slice(count, None))]

    # ------------------------------------------------------------------------------------- the record

    def _record(self):
        config = self.config
        parameters = {name: value.detach() for name, value in self.parameters.items()}
        V, A = full_matrices(parameters, config.dim)
        weights, block = V[..., -1, -3:], A[..., : config.dim, : config.dim]
        entry = {"step": np.array(self.step), "value_weights": weights, "score_matrix": block}
        for name in ("target_weights", "target_score_matrix"):
            if name in parameters:
                entry[name] = parameters[name].clone()
        entry["cosine_value_weights"] = cosine(weights, torch.tensor(PATTERN), 1)
        visible = _visible(config)
        entry["cosine_score_matrix"] = cosine(visible @ block.double(), visible, 2)
        entry |= self.held_out.measure(parameters, block)
        mean = self.loss_sum / self.loss_count if self.loss_count else self.loss_sum * torch.nan
        self.loss_sum, self.loss_count = torch.zeros_like(self.loss_sum), 0
        entry["loss"] = mean
        return {name: np.array(value.numpy() if torch.is_tensor(value) else value) for name, value in entry.items()}

    def _recorded(self):
        """Names of what an entry holds: all of `History` but the targets' parameters where there are none."""
        names = [field.name for field in dataclasses.fields(History) if field.name != "diverged_at"]
        return [name for name in names if not name.startswith("target_") or name in self.parameters]

    def result(self):
        """The `Result` of a run that is at its end."""
        stacked = {name: np.stack([record[name] for record in self.records]) for name in self._recorded()}
        absent = {"target_weights": None, "target_score_matrix": None}
        return Result(
            self.config,
            self.seeds,
            History(**absent | stacked, diverged_at=self.diverged_at),
            {name: value.detach().numpy().copy() for name, value in self.parameters.items()},
            **self.held_out.references(),
            seconds=self.seconds,
            threads=torch.get_num_threads(),
        )

    # -------------------------------------------------------------------------------- checkpoints

    def save(self, path):
        """Write everything that the rest of the run depends on."""
        header = {
            "kind": "pretraining",
            "config": dataclasses.asdict(self.config),
            "seeds": list(self.seeds),
            "step": self.step,
            "loss_count": self.loss_count,
            "n_records": len(self.records),
            "seconds": self.seconds,
            "versions": versions(),
        }
        arrays = {"loss_sum": self.loss_sum.numpy(), "diverged_at": self.diverged_at}
        for name, parameter in self.parameters.items():
            arrays[f"parameters/{name}"] = parameter.detach().numpy()
            for key, moment in zip(MOMENTS, self.moments[name]):
                arrays[f"optimiser/{name}/{key}"] = moment.numpy()
        for name in self._recorded() if self.records else ():
            arrays[f"history/{name}"] = np.stack([record[name] for record in self.records])
        checkpoint.save(path, header, arrays)

    def restore(self, path):
        """Go on from a checkpoint of the same run."""
        header, arrays = checkpoint.load(path)
        if header.get("kind") != "pretraining":
            raise checkpoint.CheckpointError(f"{path} is no checkpoint of a pretraining run")
        try:
            mine = json.loads(json.dumps(dataclasses.asdict(self.config) | {"seeds": self.seeds}))
            theirs = header["config"] | {"seeds": header["seeds"]}
            for name in [*mine, *theirs]:
                if mine.get(name) != theirs.get(name):
                    raise checkpoint.CheckpointError(
                        f"{path} belongs to another run: {name} is {theirs.get(name)} there and {mine.get(name)} here"
                    )
            self.step, self.loss_count = header["step"], header["loss_count"]
            due = (self.record_steps < self.step).sum()  # and the one of this step may be there
            if not (0 <= self.step <= self.config.n_steps and due <= header["n_records"] <= due + 1):
                raise IndexError(f"{header['n_records']} records at step {self.step} of {self.config.n_steps}")

            def tensor(name, like):
                if arrays[name].shape != like.shape:
                    raise IndexError(f"{name} has shape {arrays[name].shape}, expected {tuple(like.shape)}")
                return torch.tensor(arrays[name])

            self.seconds = header["seconds"]
            self.loss_sum = tensor("loss_sum", self.loss_sum)
            self.diverged_at = tensor("diverged_at", self.diverged_at).numpy()
            for name, old in self.parameters.items():
                self.parameters[name] = tensor(f"parameters/{name}", old).requires_grad_()
                self.moments[name] = [tensor(f"optimiser/{name}/{key}", old) for key in MOMENTS]
            self.records = [
                {name: arrays[f"history/{name}"][i] for name in self._recorded()} for i in range(header["n_records"])
            ]
        except (KeyError, IndexError, TypeError, RuntimeError) as error:
            raise checkpoint.CheckpointError(f"{path} is incomplete: {error}") from None


def _adam(parameter, gradient, mean, square, step, rate):
    """One step of Adam from 0 on: the new parameter and the new moments of its gradient.

    Kingma and Ba (2015), bit for bit as ``torch.optim.Adam``, which takes as long to load as all of torch.
    """
    mean = mean.lerp(gradient, 1 - BETAS[0])
    square = (square * BETAS[1]).addcmul(gradient, gradient, value=1 - BETAS[1])
    size = rate / (1 - BETAS[0] ** (step + 1))
    scale = (square.sqrt() / (1 - BETAS[1] ** (step + 1)) ** 0.5).add(1e-8)
    return parameter.addcdiv(mean, scale, value=-float(size)), mean, square


def _along(values, tensor):
    """One value for each seed, in the dimensions of a tensor whose first is that of the seeds."""
    return values.view(-1, *[1] * (tensor.ndim - 1))


def _tasks(config, count, rng):
    return tasks.draw(count, config.n_states, config.dim, rng, config.family, config.features, config.feature_scale)


def _loss(config, parameters, first, second=None):
    """Loss of each seed, shape (K,)."""
    dtype = DTYPES[config.dtype]
    arguments = (config.gamma, config.n_layers, matrix_form(config.form))
    if config.objective == "td":
        return neu.td_loss(parameters, inputs(*first, dtype), *arguments)
    if config.objective == "mc":
        targets = torch.tensor(first[0].value(config.gamma), dtype=dtype)
        return neu.true_value_loss(parameters, inputs(*first, dtype), targets, *arguments)
    here = neu.windows(*first, dtype)
    if config.objective == "td_query":
        return neu.td_query_loss(parameters, here, *arguments)
    if config.objective == "neu_one_batch":
        return neu.biased_neu_loss(parameters, here, *arguments)
    return neu.neu_loss(parameters, here, neu.windows(*second, dtype), *arguments)


# ------------------------------------------------------------------------------------------ diagnostics


def cosine(found, expected, dimensions):
    """Cosine of the angle between tensors over their last dimensions; NaN if one is zero."""
    found, expected = found.double(), expected.double()
    axes = tuple(range(-dimensions, 0))
    norms = found.square().sum(dim=axes).sqrt() * expected.square().sum(dim=axes).sqrt()
    return (found * expected).sum(dim=axes) / norms


def _visible(config):
    """The projection of A on what softmax can see, shape (d, d).

    If the features of every state sum to the same number, adding 1 c^T to A adds a constant to the scores of a
    query: the mean of each column of A is invisible.
    """
    identity = torch.eye(config.dim, dtype=torch.float64)
    if config.features == "gaussian":
        return identity
    return identity - 1 / config.dim


class _HeldOut:
    """Fixed tasks on which all seeds are measured."""

    def __init__(self, config):
        self.config = config
        dtype = DTYPES[config.dtype]
        rng = np.random.default_rng([config.held_out_seed, 0, _HELD_OUT])
        self.batch = _tasks(config, config.n_held_out, rng)
        self.contexts = self.batch.sample(config.n_transitions, rng, config.reward_noise)
        self.truth = self.batch.value(config.gamma)
        mu = self.batch.stationary()
        counts = self.contexts.empirical()[0]
        self.weights = mu if config.free == "none" else counts / counts.sum(axis=-1, keepdims=True)
        self.inputs = inputs(self.batch, self.contexts, dtype)
        self.features = torch.tensor(self.batch.features, dtype=dtype)
        self.log_mu = torch.tensor(np.log(mu), dtype=dtype)
        rng = np.random.default_rng([config.held_out_seed, 0, _NEU])
        sizes = (config.neu_batches, config.neu_batch_size, config.n_transitions, config.n_states, config.dim)
        options = {name: getattr(config, name) for name in ("reward_noise", "family", "features", "feature_scale")}
        # (batches, 1, T): the second dimension is for the seeds
        self.windows = neu.draw_windows(*sizes, rng, dtype, **options)[:, None]

    def error(self, values):
        """Value error of shape (...) for values of shape (..., T, S)."""
        with np.errstate(over="ignore"):  # on the way to divergence
            return _weighted_error(values, self.truth, self.weights)

    def measure(self, parameters, block):
        """Diagonality, value error and NEU of all seeds; ``block`` is the feature block of their score matrices."""
        config = self.config
        arguments = (config.gamma, config.n_layers, matrix_form(config.form))
        M = kernel(block.unsqueeze(-3), self.features, self.log_mu, finite=False)
        diagonal = M.diagonal(dim1=-2, dim2=-1)
        values = state_values(parameters, self.inputs, *arguments, finite=False).double().numpy()
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
        constructed = SoftmaxICTD.constructed(config.dim, config.n_layers, config.gamma, dtype=DTYPES[config.dtype])
        parameters = {name: value.detach() for name, value in constructed.named_parameters()}
        values = state_values(parameters, self.inputs, config.gamma, config.n_layers).double().numpy()
        return {
            "value_error_constant": float(self.error(self.contexts.constant_value(config.gamma)[:, None])),
            "value_error_certainty_equivalence": float(self.error(self.contexts.certainty_equivalence(config.gamma))),
            "value_error_constructed": float(self.error(values)),
        }


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
        if (weights < 0).any() or np.abs(weights.sum(axis=-1) - 1).max() > _checks.SUM_TOLERANCE:
            raise ValueError("weights must be non-negative with rows that sum to 1; got some that do not")
    return _weighted_error(values, batch.value(gamma), weights)


def _weighted_error(values, truth, weights):
    squares = np.where(weights > 0, weights * (values - truth) ** 2, 0)
    return np.sqrt(squares.sum(axis=-1).mean(axis=-1))
