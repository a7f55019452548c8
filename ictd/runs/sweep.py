"""All points of a grid, each of them a run with all seeds in a folder of its own.

``sweep.json`` holds what varies and, point by point, how far it is and its main numbers. Points run one after
another in this process, or on the workers of a Dask cluster; then this process writes what they send back, and
the workers need no disk in common with it.
"""

import contextlib
from pathlib import Path

from ictd import _checks, _files, pretrain
from ictd._arguments import declare, positive
from ictd.pretrain.identity import origin
from ictd.runs import arguments, cluster
from ictd.runs import folder as of_run
from ictd.runs.folder import CHECKPOINT, FIGURES, TABLE, TABLE_FORMAT, VERSION, OtherRunError, RunError
from ictd.runs.grid import check_points
from ictd.runs.one import run
from ictd.runs.saved import read


def read_table(folder):
    """Content of ``sweep.json``.

    Raises
    ------
    RunError
        There is none, or it is damaged.
    """
    path = Path(folder) / TABLE
    content = of_run.read_json(path, TABLE_FORMAT, VERSION)
    try:
        for name, kind in {"vary": dict, "config": dict, "seeds": list, "points": list}.items():
            if not isinstance(content[name], kind):
                raise ValueError(f"{name} is {content[name]!r}")
        of_run.check_plain_seeds(content["seeds"])
        if not all(isinstance(values, list) for values in content["vary"].values()):
            raise ValueError("vary holds what is no list")
        for point in content["points"]:
            if not isinstance(point, dict) or not isinstance(point.get("settings"), dict):
                raise ValueError(f"{point!r} is no point with settings")
            of_run.check_name("folder", point.get("folder"))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise RunError(f"{path} is damaged: {what}") from None
    return content


def identity(points, seeds, threads, sample=None):
    """What makes a sweep the sweep that it is, as ``sweep.json`` holds it."""
    vary = {field: list(dict.fromkeys(point.settings[field] for point in points)) for field in points[0].settings}
    return {"vary": vary} | of_run.identity(points[0].config, seeds, threads, sample)


def _points(name, value, lengths):
    return check_points(value)


def _address(name, value, lengths):
    if not isinstance(value, (str, type(None))):
        raise TypeError(f"{name} must be an address or None; got {_checks.describe(value)}")
    return value


# What names a sweep.
SWEEP = {"points" if name == "config" else name: kind for name, kind in arguments.RUN.items()} | {"points": _points}


@declare(**SWEEP)
def check(folder, points, seeds, threads, force=False, sample=None):
    """What `sweep` would find in a folder; nothing is written.

    Parameters
    ----------
    folder, points, seeds, threads, force, sample
        As in `sweep`.

    Returns
    -------
    dict of str to {"empty", "begun", "finished"}
        For each point, by its name.

    Raises
    ------
    OtherRunError, RunError
        The folder belongs to another sweep, or to something else.
    """
    names = of_run.entries(folder)
    if names and TABLE not in names:
        raise RunError(f"{folder} holds files but no sweep; name a new or an empty folder")
    if names:
        there, here = read_table(folder), identity(points, seeds, threads, sample)
        if not force:
            for field in here["vary"] | there["vary"]:
                theirs, mine = (side["vary"].get(field, side["config"].get(field)) for side in (there, here))
                extends = all(field in side["vary"] for side in (there, here)) and all(old in mine for old in theirs)
                if theirs != mine and not extends:
                    raise OtherRunError(folder, field, theirs, mine)
            for side in (there, here):  # compared above
                side["config"] = {name: side["config"][name] for name in side["config"] if name not in here["vary"]}
            del here["vary"]
            of_run.compare(folder, there, here)
    return {
        point.name: of_run.check.trusted(folder / point.name, point.config, seeds, threads, force, sample)
        for point in points
    }


@declare(**SWEEP, scheduler=_address, patience=positive, **arguments.COMPUTING)
def sweep(
    folder,
    points,
    seeds,
    *,
    sample=None,
    threads=1,
    force=False,
    scheduler=None,
    patience=30.0,
    checkpoint_seconds=5.0,
    progress=False,
    report=None,
):
    """Run all points of a grid, or those that are not finished yet.

    Parameters
    ----------
    folder : str or Path
        New, empty, or with the same sweep; a setting that varied there may have more values now.
    points : list of Point
    seeds : sequence of int
    sample : callable, optional
        A task distribution of your own, as in `pretrain.pretrain`. Workers of a cluster import it by its name.
    threads : int
        Threads of torch in each run, up to 1024.
    force : bool
        Remove what a sweep left there and start anew.
    scheduler : str, optional
        Address of a Dask scheduler. Without it the points run in this process.
    patience : float
        Seconds to wait for the scheduler and for workers.
    checkpoint_seconds, progress
        As in `pretrain.pretrain`, for runs in this process.
    report : callable, optional
        Called with a line of text for every point that is done.

    Returns
    -------
    list of dict
        The rows of the table, as in ``sweep.json``: "folder", "settings", "status", "error" and the numbers of
        `SavedRun.numbers`. A point that failed has an error and does not stop the others.

    Raises
    ------
    RunError, ClusterError, OSError
        The folder, the cluster or the disk cannot be used.
    ValueError, TypeError
        Bad arguments, before anything is written.
    """
    check.trusted(folder, points, seeds, threads, force, sample)
    if scheduler is not None and getattr(sample, "__module__", None) == "__main__":
        raise ValueError(f"sample must be in a module that workers can import; {sample.__qualname__} is in __main__")
    with contextlib.ExitStack() as stack:
        # Before anything is written
        workers = None if scheduler is None else stack.enter_context(cluster.connect(scheduler, patience))
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(of_run.locked(folder))
        # Another process may have been at work until now
        states = check.trusted(folder, points, seeds, threads, force, sample)
        if force:
            clear(folder, [point.name for point in points])
            states = dict.fromkeys(states, "empty")
        waiting = [point for point in points if states[point.name] != "finished"]
        if waiting or _names(folder) != [point.name for point in points]:
            _clear_overview(folder)
        table = _Table(folder, identity(points, seeds, threads, sample), points, report)
        table.write()
        for point in points:
            if states[point.name] == "finished":
                table.attempt(point, read, folder / point.name, quiet=True)
        if workers is None:
            options = {
                "sample": sample,
                "threads": threads,
                "progress": progress,
                "checkpoint_seconds": checkpoint_seconds,
            }
            for point in waiting:
                table.attempt(point, run.trusted, folder / point.name, point.config, seeds, **options)
        else:
            for point, outcome in _remote(workers, folder, waiting, seeds, threads, sample):
                table.attempt(point, _store, folder / point.name, outcome)
    return list(table.rows.values())


def clear(folder, names=()):
    """Remove the files that a sweep writes; other files stay, and folders with other files."""
    for name in sorted({*names, *_names(folder)}):
        part = Path(folder) / name
        with contextlib.suppress(RunError):  # something else has taken its place: it stays
            if of_run.state(part) != "empty":
                of_run.clear(part)
        if part.is_dir() and not any(part.iterdir()):
            part.rmdir()
    _clear_overview(folder)
    (Path(folder) / TABLE).unlink(missing_ok=True)


def _names(folder):
    """Names of the points of the sweep that is there."""
    return [point["folder"] for point in read_table(folder)["points"]] if (Path(folder) / TABLE).exists() else []


def _clear_overview(folder):
    for path in Path(folder).glob(FIGURES):
        path.unlink()


class _Table:
    """The rows of ``sweep.json``, written whenever a point is done."""

    def __init__(self, folder, identity, points, report):
        self.folder, self.report = folder, report
        self.head = {"format": TABLE_FORMAT, "version": VERSION} | identity
        self.rows = {
            point.name: {"folder": point.name, "settings": dict(point.settings), "status": "waiting", "error": None}
            for point in points
        }

    def write(self):
        of_run.write_json(self.folder / TABLE, self.head | {"points": list(self.rows.values())})

    def attempt(self, point, work, *arguments, quiet=False, **options):
        """Do the work of a point and note its numbers, or why it failed."""
        row = self.rows[point.name]
        try:
            row |= work(*arguments, **options).numbers() | {"status": "finished"}
            line = f"value error {row['value_error_median'] or float('nan'):.3g}, {row['seconds']:.1f} s"
        except Exception as error:  # of any kind: the other points go on
            row |= {"status": "failed", "error": describe(error)}
            line = f"failed: {row['error']}"
        self.write()
        if self.report and (not quiet or row["error"]):
            done = sum(entry["status"] != "waiting" for entry in self.rows.values())
            self.report(f"[{done}/{len(self.rows)}] {point.name}: {line}")


def describe(error):
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, (RunError, OSError)) and text else f"{type(error).__name__}: {text}"


# ---------------------------------------------------------------------------------------------- cluster


def _remote(workers, folder, points, seeds, threads, sample):
    """Send points to the cluster; yield (point, outcome) as they are done."""
    jobs = {}
    for point in points:
        path = folder / point.name
        of_run.begin.trusted(path, point.config, seeds, threads, pretrain.versions(), sample=sample)
        checkpoint = path / CHECKPOINT
        jobs[point.name] = (point.config, tuple(seeds), checkpoint.read_bytes() if checkpoint.exists() else None)
    by_name = {point.name: point for point in points}
    for name, outcome in workers.results(jobs, threads, origin(sample)):
        yield by_name[name], outcome


def _store(folder, outcome):
    """Write what a worker sent back."""
    if isinstance(outcome, Exception):
        raise outcome
    result, checkpoint = outcome
    _files.write_bytes(folder / CHECKPOINT, checkpoint)
    of_run.finish(folder, result)
    return read(folder)
