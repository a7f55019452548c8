"""The folder of a pretraining run: what it holds, and how it is begun, continued, finished and read.

==================  =========================================================================================
``config.json``     settings, seeds, threads and versions; written first
``checkpoint.npz``  from which an unfinished run goes on; `pretrain` reads it
``history.npz``     plain arrays, named as in `pretrain.History`
``figure-*.svg``    figures of the history
``summary.json``    `Result.summary`; written last, so that a folder with it is a finished run
==================  =========================================================================================

Every file is written beside its place and then moved there: a kill at any moment leaves whole files only.
"""

import contextlib
import dataclasses
import fnmatch
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ictd import _checks, pretrain
from ictd._settings import numpy_defaults
from ictd.checkpoint import fcntl, lock, read_arrays, replace, write_arrays
from ictd.pretrain.config import record_shapes

CONFIG, CHECKPOINT, HISTORY, SUMMARY = "config.json", "checkpoint.npz", "history.npz", "summary.json"
FIGURES = "figure-*.svg"
TABLE = "sweep.json"
FORMAT, TABLE_FORMAT, VERSION = "ictd run", "ictd sweep", 1
# A seed succeeds if the cosines of w with (1, 1, -1) and of the score matrix with I (visible parts) are above it.
SUCCESS_COSINE = 0.99
# Threads of torch. Far more than there are cores only wait for each other; from some number on the process dies.
MOST_THREADS = 1024


class RunError(ValueError):
    """A folder that cannot be used as asked; nothing in it was changed."""


class OtherRunError(RunError):
    """The folder holds a run with another setting.

    Attributes
    ----------
    folder : Path
    field : str
        The first setting that differs: a field of `pretrain.Config`, "seeds" or "threads".
    there, here
        Its value in the folder and the one asked for.
    """

    def __init__(self, folder, field, there, here):
        super().__init__(f"{folder} holds a run with other settings: {field} is {there} there and {here} here")
        self.folder, self.field, self.there, self.here = folder, field, there, here

    def __reduce__(self):  # as a worker of a pool sends it
        return type(self), (self.folder, self.field, self.there, self.here)


# ------------------------------------------------------------------------------------------------- files


def write_bytes(path, data):
    """Write a file; at any moment there is either the old one or the complete new one."""
    replace(path, lambda file: file.write(data))


def write_json(path, content):
    """The same for what JSON can hold."""
    write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path, kind, version):
    """Read a JSON object that says its format and version.

    Raises
    ------
    RunError
        It is damaged, of another kind or written by a newer version.
    OSError
        It cannot be read.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict) or content.get("format") != kind:
        raise RunError(f"{path} was not written by this command")
    if not isinstance(content.get("version"), int) or content["version"] > version:
        raise RunError(f"{path} was written by a newer ictd (format {content.get('version')}): upgrade ictd")
    return content


@contextlib.contextmanager
def locked(folder):
    """Keep other processes out of a folder that exists; the lock ends with the process, however that ends.

    Raises
    ------
    RunError
        Another process works in the folder.
    """
    if fcntl is None:  # Windows has no locks of folders
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lock(handle))
            except BlockingIOError:
                raise RunError(f"{folder} is in use: another process works in it") from None
            yield
    finally:
        os.close(handle)


def entries(folder):
    """Names in a folder but for the half-written files that a kill may leave.

    Raises
    ------
    RunError
        It is no folder, or cannot be read.
    """
    folder = _checks.file_path("folder", folder)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise RunError(f"{folder} is a file, or is inside one; expected a folder") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise RunError(f"{str(folder)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return [name for name in names if not (name.startswith(".") and name.endswith(".partial"))]


# ----------------------------------------------------------------------------------------- one run


def identity(config, seeds, threads):
    """What makes a run the run that it is, as ``config.json`` holds it."""
    return {"config": dataclasses.asdict(config), "seeds": list(seeds), "threads": threads}


def state(folder):
    """How far the run in a folder is.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    {"empty", "begun", "finished"}

    Raises
    ------
    RunError
        The folder holds something else, or cannot be read.
    """
    names, folder = entries(folder), Path(folder)
    if not names:
        return "empty"
    if CONFIG not in names:
        raise RunError(f"{folder} holds files but no run; name a new or an empty folder")
    read_config(folder)
    return "finished" if SUMMARY in names else "begun"


def read_config(folder):
    """Content of ``config.json``.

    Raises
    ------
    RunError
        It is damaged, or no run's.
    """
    path = Path(folder) / CONFIG
    try:
        content = read_json(path, FORMAT, VERSION)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from None
    if not isinstance(content.get("config"), dict) or not isinstance(content.get("seeds"), list):
        raise RunError(f"{path} is damaged: settings or seeds are missing")
    try:
        _check_seeds(content["seeds"])
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from None
    return content


def _check_seeds(seeds):
    if not all(type(seed) is int for seed in seeds):
        raise ValueError("seeds are no integers")


def read_table(folder):
    """Content of the ``sweep.json`` of `sweep`, see there.

    Raises
    ------
    RunError
        There is none, or it is damaged.
    """
    path = Path(folder) / TABLE
    try:
        content = read_json(path, TABLE_FORMAT, VERSION)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        for name, kind in {"vary": dict, "config": dict, "seeds": list, "points": list}.items():
            if not isinstance(content[name], kind):
                raise ValueError(f"{name} is {content[name]!r}")
        _check_seeds(content["seeds"])
        if not all(isinstance(values, list) for values in content["vary"].values()):
            raise ValueError("vary holds what is no list")
        for point in content["points"]:
            if not isinstance(point, dict) or not isinstance(point.get("settings"), dict):
                raise ValueError(f"{point!r} is no point with settings")
            check_name("folder", point.get("folder"))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise RunError(f"{path} is damaged: {what}") from None
    return content


def check_name(what, name):
    """Return the name of a file or a folder inside another one; a ValueError if it leads elsewhere."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a string; got {_checks.describe(name)}")
    inside = name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"}
    if not inside or len(name.encode(errors="replace")) > 200:
        raise ValueError(f"{what} must be a name of up to 200 letters without / and \\; got {_checks.describe(name)}")
    return name


def check(folder, config, seeds, threads, force=False):
    """What `run` would do in a folder; nothing is written.

    Parameters
    ----------
    folder, config, seeds, threads, force
        As in `run`.

    Returns
    -------
    {"empty", "begun", "finished"}
        "begun" means that `run` goes on, "finished" that there is nothing left to do. With ``force`` both
        are started anew.

    Raises
    ------
    OtherRunError, RunError
        The folder belongs to another run, or to something else.
    """
    folder, seeds, threads, force = _arguments(folder, config, seeds, threads, force)
    found = state(folder)
    if found != "empty" and not force:
        compare(folder, read_config(folder), identity(config, seeds, threads))
    _check_writable(folder)
    return found


def _arguments(folder, config, seeds, threads, force):
    """What names a run, checked; the configuration is used as it is."""
    _checks.instance("config", config, pretrain.Config)
    return (
        _checks.file_path("folder", folder),
        pretrain.check_seeds(seeds),
        check_threads(threads),
        _checks.flag("force", force),
    )


def check_threads(threads):
    """A number of threads as an int from 1 to `MOST_THREADS`."""
    threads = _checks.integer("threads", threads, low=1)
    if threads > MOST_THREADS:
        raise ValueError(f"threads must be an integer from 1 to {MOST_THREADS}; got {threads}")
    return threads


def compare(folder, there, here):
    """Raise an `OtherRunError` for the first difference of two identities."""
    pairs = [("config", name) for name in here["config"]] + [(None, "seeds"), (None, "threads")]
    for part, name in pairs:
        theirs, mine = ((side[part] if part else side).get(name) for side in (there, here))
        if theirs != mine:
            raise OtherRunError(folder, name, theirs, mine)
    unknown = sorted(set(there["config"]) - set(here["config"]))
    if unknown:
        raise OtherRunError(folder, unknown[0], there["config"][unknown[0]], "unknown")


def _check_writable(folder):
    """Refuse a new folder where none can be made, before any work is done."""
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(folder / f".{CHECKPOINT}.partial")
    except OSError as error:
        raise RunError(f"{folder} cannot be used: {error.strerror}") from None
    while not folder.exists():
        if os.path.lexists(folder):
            raise RunError(f"{folder} is a link to nowhere")
        folder = folder.parent
    if not folder.is_dir():
        raise RunError(f"{folder} is a file; expected a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RunError(f"{folder} cannot be written: Permission denied")


def clear(folder):
    """Remove the files that a run writes, the mark of a finished run first; other files stay."""
    folder = Path(folder)
    for pattern in (SUMMARY, HISTORY, FIGURES, CHECKPOINT, CONFIG):
        for path in sorted(folder.glob(pattern)):
            path.unlink()


def begin(folder, config, seeds, threads, versions, force=False):
    """Make the folder ready, write ``config.json`` unless the run is begun already, and say what was there."""
    folder, seeds, threads, force = _arguments(folder, config, seeds, threads, force)
    found = check(folder, config, seeds, threads, force)
    folder.mkdir(parents=True, exist_ok=True)
    if force and found != "empty":
        clear(folder)
        found = "empty"
    if found == "empty":
        content = {"format": FORMAT, "version": VERSION} | identity(config, seeds, threads) | {"versions": versions}
        write_json(folder / CONFIG, content)
    return found


def finish(folder, result, draw=None):
    """Write what a finished run leaves: history, figures and, last, the summary.

    Parameters
    ----------
    folder : str or Path
    result : pretrain.Result
    draw : callable, optional
        Called with the `SavedRun`; gives the figures as a dict of file names and bytes.

    Returns
    -------
    SavedRun
    """
    folder = Path(folder)
    arrays = {name: value for name, value in vars(result.history).items() if value is not None}
    arrays = {"seeds": np.array(result.seeds)} | arrays
    summary = result.summary()
    replace(folder / HISTORY, lambda file: write_arrays(file, arrays))
    saved = SavedRun(folder, summary, arrays)
    write_figures(folder, draw(saved) if draw else {})
    write_json(folder / SUMMARY, summary)
    return saved


def write_figures(folder, figures):
    """Write figures, given as a dict of file names and bytes; all are checked before the first one is written."""
    _checks.instance("figures", figures, dict)
    for name, data in figures.items():
        if not fnmatch.fnmatchcase(check_name("the name of a figure", name), FIGURES):  # so that `clear` finds it
            raise ValueError(f"the name of a figure must be {FIGURES}; got {_checks.describe(name)}")
        if not isinstance(data, bytes):
            raise TypeError(f"the figure {name} must be bytes; got {_checks.describe(data)}")
    for name, data in figures.items():
        write_bytes(Path(folder) / name, data)


def run(
    folder,
    config,
    seeds,
    *,
    threads=1,
    force=False,
    progress=False,
    draw=None,
    checkpoint_seconds=5.0,
    report=None,
):
    """Run `pretrain.pretrain` in a folder, or go on with it.

    Parameters
    ----------
    folder : str or Path
        New, empty, or with an unfinished run of the same settings.
    config : pretrain.Config
    seeds : sequence of int
    threads : int
        Threads of torch, up to 1024.
    force : bool
        Remove a run that is there and start anew.
    progress : bool
        As in `pretrain.pretrain`.
    draw : callable, optional
        As in `finish`.
    checkpoint_seconds : float
        As in `pretrain.pretrain`.
    report : callable, optional
        Called with a line of text if the run goes on from what is there.

    Returns
    -------
    SavedRun

    Raises
    ------
    RunError, CheckpointError
        The folder or its checkpoint cannot be used; they are left as they are.
    ValueError, TypeError
        Bad arguments, before anything is written.
    OSError
        A file cannot be written.
    """
    folder, seeds, threads, force = _arguments(folder, config, seeds, threads, force)
    progress = _checks.flag("progress", progress)
    checkpoint_seconds = _checks.real("checkpoint_seconds", checkpoint_seconds, low=0)
    _checks.function("draw", draw), _checks.function("report", report)
    found = check(folder, config, seeds, threads, force)
    if found != "finished" or force:
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), torch_threads(threads):
        found = check(folder, config, seeds, threads, force)  # another process may have been at work until now
        if found == "finished" and not force:
            raise RunError(f"{folder} holds this run already, finished")
        if begin(folder, config, seeds, threads, pretrain.versions(), force) == "begun" and report:
            report(f"going on with the run in {folder}{_other_versions(folder)}")
        result = pretrain.pretrain(
            config,
            seeds,
            checkpoint_path=folder / CHECKPOINT,
            checkpoint_seconds=checkpoint_seconds,
            progress=progress,
        )
        return finish(folder, result, draw)


def _other_versions(folder):
    """A note for a run that was begun with other versions: it may differ in the last digits."""
    there = read_config(folder).get("versions")
    there = there if isinstance(there, dict) else {}
    changed = [
        f"{name} {there.get(name)}" for name, version in pretrain.versions().items() if there.get(name) != version
    ]
    return f"; it was begun with {', '.join(changed)}, so it may differ in the last digits" if changed else ""


@contextlib.contextmanager
def torch_threads(threads):
    """Let torch work with so many threads for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ------------------------------------------------------------------------------------- finished runs


COSINES = "value_weights", "score_matrix"


def succeeds(weights, scores):
    """The success criterion of the book: both cosines above `SUCCESS_COSINE`.

    With parameters for each layer, all layers must show it; in the first one only the score matrix counts, as
    w_target and w_current have no effect where the values are still 0. Independent target heads are not looked at.

    Parameters
    ----------
    weights, scores : array_like, shape (K, sets)
        Cosines of the value weights with (1, 1, -1) and of the score matrix with I, as `pretrain.History` has them.

    Returns
    -------
    ndarray of bool, shape (K,)
    """
    weights = _checks.array("weights", weights, ("K", "sets"), finite=False)
    scores = _checks.array("scores", scores, weights.shape, finite=False)
    if weights.shape[1] > 1:
        weights = weights[:, 1:]
    return (weights > SUCCESS_COSINE).all(axis=1) & (scores > SUCCESS_COSINE).all(axis=1)


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
        """The settings, a dict."""
        return self.summary["config"]

    @property
    def alive(self):
        """Which seeds did not diverge, shape (K,)."""
        return self.history["diverged_at"] < 0

    def pattern(self):
        """Which seeds show the pattern of the paper at the end, shape (K,): `succeeds`, and not diverged."""
        return succeeds(*(self.history[f"cosine_{name}"][-1] for name in COSINES)) & self.alive

    def figures(self):
        """The main figures, medians over the seeds that did not diverge; None where there is no number."""
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

    def table(self):
        """The main figures as text."""
        f = self.figures()
        c = self.config
        lines = [
            f"{seeds_text(self.summary['seeds'])}, {c['n_steps']} steps, objective {c['objective']}: gamma "
            f"{c['gamma']:g}, {c['n_layers']} layers, {c['n_states']} states, {c['dim']} features ({c['features']})",
            "",
            f"{'value error':<26}{'median':>9}{'min':>9}{'max':>9}",
            f"{'  trained':<26}" + "".join(f"{_short(f[f'value_error_{n}']):>9}" for n in ("median", "min", "max")),
        ]
        for name in ("constant", "certainty_equivalence", "constructed"):
            lines.append(f"{'  ' + name.replace('_', ' '):<26}{_short(f[f'value_error_{name}']):>9}")
        lines += [
            f"{'weights ~ (1,1,-1), A ~ I':<26}{f['pattern']:>9} of {f['seeds']} seeds (cosines > {SUCCESS_COSINE:g})",
            f"{'mean diagonality':<26}{_short(f['diagonality_start']):>9} -> {_short(f['diagonality_end'])}",
        ]
        for name in ("start", "end"):
            value, error = (_short(f[f"neu_{name}{part}"]) for part in ("", "_standard_error"))
            lines.append(f"{'NEU loss, ' + name:<26}{value:>9} +- {error} (standard error of a seed's estimate)")
        lines.append(f"{'diverged':<26}{f['diverged']:>9} of {f['seeds']} seeds")
        for seed, step in zip(self.summary["seeds"], self.history["diverged_at"]):
            if step >= 0:
                lines.append(f"  seed {seed} stopped at step {step}, where its numbers were no longer finite")
        threads = self.summary["threads"]
        lines.append(f"{f['seconds']:.1f} s of computing, {threads} thread{'s' if threads > 1 else ''}")
        return "\n".join(lines)


def _short(number):
    return "-" if number is None else f"{number:.3g}"


def seeds_text(seeds):
    """How many seeds, and which, in words."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if len(seeds) > 1 and all(later == seed + 1 for seed, later in zip(seeds, seeds[1:])):
        return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
    return f"{len(seeds)} seeds ({', '.join(map(str, seeds)) or 'none'})"


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
    folder = _checks.file_path("folder", folder)
    found = state(folder)
    if found != "finished":
        what = "is not finished: the same command goes on" if found == "begun" else "is empty, or does not exist"
        raise RunError(f"{folder} {what}")
    try:
        summary = json.loads((folder / SUMMARY).read_bytes())
        history = read_arrays((folder / HISTORY).read_bytes())
        saved = SavedRun(folder, summary, history)
        _check_shapes(saved)
        saved.figures(), saved.table()  # everything that is used is there
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
