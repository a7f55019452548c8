"""A finished run, read from its folder without torch."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ictd import _checks, _extras, _files
from ictd._settings import numpy_defaults
from ictd.pretrain import checkpoint
from ictd.pretrain.config import record_shapes
from ictd.pretrain.identity import config_of, place_of
from ictd.pretrain.pattern import COSINES, succeeds
from ictd.runs import table
from ictd.runs.folder import CHECKPOINT, HISTORY, SUMMARY, RunError, state


@dataclass(frozen=True, eq=False)
class SavedRun(_checks.ReadOnly):
    """A finished run, read from its folder.

    Attributes
    ----------
    folder : Path
    summary : dict
        As `Result.summary` gives it: settings under "config", numbers of every seed, references.
    history : dict of ndarray
        The fields of `pretrain.History` that the run has, and ``seeds``.
    """

    folder: Path
    summary: dict
    history: dict

    def __post_init__(self):
        _checks.freeze(self, **vars(self))

    @property
    def config(self):
        """The settings, a dict; those of a family of tasks are None where a function drew them, see `sample`."""
        return self.summary["config"]

    @property
    def sample(self):
        """Name of the function that drew the tasks, "module:name"; None if it was the family in the settings."""
        tasks = self.summary.get("tasks")
        return None if tasks is None else tasks["function"]

    @property
    def alive(self):
        """Which seeds did not diverge, shape (K,)."""
        return self.history["diverged_at"] < 0

    def pattern(self):
        """Which seeds show the pattern of the paper at the end, shape (K,): `succeeds`, and not diverged."""
        return succeeds(*(self.history[f"cosine_{name}"][-1] for name in COSINES)) & self.alive

    def numbers(self):
        """The main numbers, medians over the seeds that did not diverge; None where there is no number."""
        history, alive = self.history, self.alive

        def over_seeds(reduce, name, record):
            values = history[name][record][alive]
            values = values.mean(axis=tuple(range(1, values.ndim)))  # over layers with parameters of their own
            values = values[np.isfinite(values)]
            return float(reduce(values)) if values.size else None

        return {
            "seeds": len(alive),
            "pattern": int(self.pattern().sum()),
            "value_error_median": over_seeds(np.median, "value_error", -1),
            "value_error_min": over_seeds(np.min, "value_error", -1),
            "value_error_max": over_seeds(np.max, "value_error", -1),
            "value_error_constant": self.summary["value_error_constant"],
            "value_error_certainty_equivalence": self.summary["value_error_certainty_equivalence"],
            "value_error_constructed": self.summary["value_error_constructed"],
            "diagonality_start": over_seeds(np.median, "diagonality_mean", 0),
            "diagonality_end": over_seeds(np.median, "diagonality_mean", -1),
            "neu_start": over_seeds(np.median, "neu", 0),
            "neu_start_standard_error": over_seeds(np.median, "neu_standard_error", 0),
            "neu_end": over_seeds(np.median, "neu", -1),
            "neu_end_standard_error": over_seeds(np.median, "neu_standard_error", -1),
            "diverged": int((~alive).sum()),
            "seconds": self.summary["seconds"],
        }

    def model(self, seed):
        """The trained model of one seed, as `pretrain.Result.model` gives it; needs torch.

        Parameters
        ----------
        seed : int
            One of the run that did not diverge.

        Returns
        -------
        SoftmaxICTD, or FullICTD where V or A is free

        Raises
        ------
        ValueError
            There is no such seed, or it diverged.
        RunError
            V or A is free, and the checkpoint that holds them is missing, damaged or of another run.
        """
        index = place_of(seed, self.summary["seeds"])
        step = self.history["diverged_at"][index]
        if step >= 0:
            raise ValueError(f"seed must be one that did not diverge; {seed} stopped at step {step}")
        names = "value_weights", "score_matrix", "target_weights", "target_score_matrix"
        parameters = {name: self.history[name][-1, index] for name in names if name in self.history}
        free = self.config["free"]
        for name, part, masked in (("V", "value", "value_weights"), ("A", "score", "score_matrix")):
            if free in (part, "both"):
                parameters[name] = self._matrices(name, index, parameters.pop(masked))
        made = _extras.load("ictd.pretrain.parameters")
        return made.trained_model(config_of(self.config), parameters)

    def _matrices(self, name, index, shown):
        """A matrix without mask, which only the checkpoint holds; the history shows a part of it."""
        path = Path(self.folder) / CHECKPOINT
        try:
            matrices = checkpoint.load(path)[1][f"parameters/{name}"][index]
            d = self.config["dim"]
            part = matrices[:, -1, -3:] if name == "V" else matrices[:, :d, :d]
            if matrices.shape[1:] != (d + 3, d + 3) or not np.array_equal(part, shown):
                raise ValueError("it is not that of this run")
        except (OSError, KeyError, IndexError, ValueError) as error:
            what = f"it holds no {name}" if isinstance(error, (KeyError, IndexError)) else error
            raise RunError(f"{path} cannot be used for the matrix {name}, which is free: {what}") from None
        return matrices

    def table(self):
        """The main numbers as text."""
        return table.of_run(self)


@numpy_defaults()
def read(folder):
    """Read a finished run.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    SavedRun

    Raises
    ------
    RunError
        There is no finished run, or a file is damaged.
    """
    folder = _files.file_path("folder", folder)
    found = state(folder)
    if found != "finished":
        what = "is not finished: the same command goes on" if found == "begun" else "is empty, or does not exist"
        raise RunError(f"{folder} {what}")
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
        history = _files.read_arrays((folder / HISTORY).read_bytes())
        saved = SavedRun(folder, summary, history)
        _check_shapes(saved)
        saved.numbers(), saved.table()  # everything that is used is there
    except OSError as error:
        raise RunError(f"{folder} cannot be read: {error}") from None
    except _checks.UNREADABLE + (KeyError, IndexError, AttributeError) as error:
        raise RunError(f"{folder} holds a damaged {SUMMARY} or {HISTORY}: {error}") from None
    return saved


def _check_shapes(run):
    """Raise a ValueError or KeyError unless the arrays of the history fit together."""
    arrays, sets = run.history, run.history["value_weights"].shape[2]
    records, seeds = len(arrays["step"]), len(run.summary["seeds"])
    of_entry = record_shapes(seeds, sets, run.config["dim"])
    shapes = {name: (records, *shape) for name, shape in of_entry.items()}
    shapes |= {"seeds": (seeds,), "diverged_at": (seeds,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or 0 in shape or arrays[name].dtype.kind not in "fi":
            raise ValueError(f"{name} is {_checks.describe(arrays[name])}, expected {shape}")
