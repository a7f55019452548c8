"""A grid of settings, each point of it a run with all seeds in a folder of its own.

``sweep.json`` holds what varies and, point by point, how far it is and its main figures. Points run one after
another in this process, or on the workers of a Dask cluster; then this process writes what they send back, and
the workers need no disk in common with it.
"""

import contextlib
import itertools
from dataclasses import dataclass
from pathlib import Path

from ictd import _checks, pretrain, runs


@dataclass(frozen=True)
class Point:
    """One combination of settings.

    Attributes
    ----------
    name : str
        Of its folder.
    settings : dict
        The fields of the configuration that vary in the grid, with their values here.
    config : pretrain.Config
    """

    name: str
    settings: dict
    config: pretrain.Config


def grid(values, label="{}-{}".format, make=pretrain.Config):
    """All combinations of values.

    Parameters
    ----------
    values : dict of str to sequence
        Values of each field of `pretrain.Config`; a field with several values varies.
    label : callable
        Gives a text for a field and its value, for the names of folders.
    make : callable
        Gives the configuration for a combination, passed as keywords.

    Returns
    -------
    list of Point

    Raises
    ------
    ValueError, TypeError
        A value is given twice, or a combination is refused by ``make``.
    """
    for field, several in values.items():
        twice = [value for i, value in enumerate(several) if value in several[:i]]
        if twice:
            raise ValueError(f"{field} must have different values; got {label(field, twice[0])} twice")
    vary = [field for field, several in values.items() if len(several) > 1]
    points = []
    for combination in itertools.product(*values.values()):
        settings = dict(zip(values, combination))
        varied = {field: settings[field] for field in vary}
        name = "_".join(label(field, value) for field, value in varied.items())
        points.append(Point(name or "run", varied, make(**settings)))
    return points


def identity(points, seeds, threads):
    """What makes a sweep the sweep that it is, as ``sweep.json`` holds it."""
    vary = {field: list(dict.fromkeys(point.settings[field] for point in points)) for field in points[0].settings}
    return {"vary": vary} | runs.identity(points[0].config, seeds, threads)


def check(folder, points, seeds, threads, force=False):
    """What `sweep` would find in a folder; nothing is written.

    Parameters
    ----------
    folder, points, seeds, threads, force
        As in `sweep`.

    Returns
    -------
    dict of str to {"empty", "begun", "finished"}
        For each point, by its name.

    Raises
    ------
    runs.OtherRunError, runs.RunError
        The folder belongs to another sweep, or to something else.
    """
    folder = Path(folder)
    names = runs.entries(folder)
    if names and runs.TABLE not in names:
        raise runs.RunError(f"{folder} holds files but no sweep; name a new or an empty folder")
    if names:
        there, here = runs.read_table(folder), identity(points, seeds, threads)
        if not force:
            for field in here["vary"] | there["vary"]:
                theirs, mine = (side["vary"].get(field, side["config"].get(field)) for side in (there, here))
                extends = all(field in side["vary"] for side in (there, here)) and all(old in mine for old in theirs)
                if theirs != mine and not extends:
                    raise runs.OtherRunError(folder, field, theirs, mine)
            for side in (there, here):  # compared above
                side["config"] = {name: side["config"][name] for name in side["config"] if name not in here["vary"]}
            runs.compare(folder, there, here)
    return {point.name: runs.check(folder / point.name, point.config, seeds, threads, force) for point in points}


def sweep(
    folder,
    points,
    seeds,
    *,
    threads=1,
    force=False,
    scheduler=None,
    patience=30.0,
    checkpoint_seconds=5.0,
    progress=False,
    draw=None,
    draw_overview=None,
    report=lambda text: None,
):
    """Run all points of a grid, or those that are not finished yet.

    Parameters
    ----------
    folder : str or Path
        New, empty, or with the same sweep; a setting that varied there may have more values now.
    points : list of Point
    seeds : sequence of int
    threads : int
        Threads of torch in each run.
    force : bool
        Remove what a sweep left there and start anew.
    scheduler : str, optional
        Address of a Dask scheduler. Without it the points run in this process.
    patience : float
        Seconds to wait for the scheduler and for workers.
    checkpoint_seconds, progress
        As in `pretrain.pretrain`, for runs in this process.
    draw, draw_overview : callable, optional
        Give figures as a dict of file names and bytes, from a `runs.SavedRun` and from the rows below.
    report : callable
        Called with a line of text for every point that is done.

    Returns
    -------
    list of dict
        The rows of the table, as in ``sweep.json``: "folder", "settings", "status", "error" and the figures of
        `runs.SavedRun.figures`. A point that failed has an error and does not stop the others.

    Raises
    ------
    runs.RunError, _cluster.ClusterError, OSError
        The folder, the cluster or the disk cannot be used.
    ValueError, TypeError
        Bad arguments, before anything is written.
    """
    folder = Path(folder)
    seeds, threads = pretrain.check_seeds(seeds), _checks.integer("threads", threads, low=1)
    states = check(folder, points, seeds, threads, force)
    with contextlib.ExitStack() as stack:
        cluster = None
        if scheduler is not None:  # before anything is written
            from ictd import _cluster

            cluster = stack.enter_context(_cluster.connect(scheduler, patience))
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(runs.locked(folder))
        if force:
            clear(folder, [point.name for point in points])
            states = dict.fromkeys(states, "empty")
        table = _Table(folder, points, seeds, threads, report)
        table.write()
        for point in points:
            if states[point.name] == "finished":
                table.attempt(point, lambda: runs.read(folder / point.name), quiet=True)
        waiting = [point for point in points if states[point.name] != "finished"]
        if cluster is None:
            options = {"threads": threads, "progress": progress, "checkpoint_seconds": checkpoint_seconds}
            for point in waiting:
                path = folder / point.name
                table.attempt(point, lambda: runs.run(path, point.config, seeds, draw=draw, **options))
        else:
            for point, outcome in _remote(cluster, folder, waiting, seeds, threads):
                table.attempt(point, lambda: _store(folder / point.name, outcome, draw))
        rows = list(table.rows.values())
        for name, data in (draw_overview(rows) if draw_overview else {}).items():
            runs.write_bytes(folder / name, data)
    return rows


def clear(folder, names=()):
    """Remove the files that a sweep writes; other files stay, and folders with other files."""
    if (Path(folder) / runs.TABLE).exists():
        names = {point["folder"] for point in runs.read_table(folder)["points"]} | set(names)
    for name in sorted(names):
        part = Path(folder) / name
        with contextlib.suppress(runs.RunError):  # something else has taken its place: it stays
            if runs.state(part) != "empty":
                runs.clear(part)
        if part.is_dir() and not any(part.iterdir()):
            part.rmdir()
    for path in [*Path(folder).glob(runs.FIGURES), Path(folder) / runs.TABLE]:
        path.unlink(missing_ok=True)


class _Table:
    """The rows of ``sweep.json``, written whenever a point is done."""

    def __init__(self, folder, points, seeds, threads, report):
        self.folder, self.report = folder, report
        self.head = {"format": runs.TABLE_FORMAT, "version": runs.VERSION} | identity(points, seeds, threads)
        self.rows = {
            point.name: {"folder": point.name, "settings": point.settings, "status": "waiting", "error": None}
            for point in points
        }

    def write(self):
        runs.write_json(self.folder / runs.TABLE, self.head | {"points": list(self.rows.values())})

    def attempt(self, point, work, quiet=False):
        """Do the work of a point and note its figures, or why it failed."""
        row = self.rows[point.name]
        try:
            row |= work().figures() | {"status": "finished"}
            line = f"value error {row['value_error_median'] or float('nan'):.3g}, {row['seconds']:.1f} s"
        except Exception as error:  # of any kind: the other points go on
            row |= {"status": "failed", "error": describe(error)}
            line = f"failed: {row['error']}"
        self.write()
        if not quiet or row["error"]:
            done = sum(entry["status"] != "waiting" for entry in self.rows.values())
            self.report(f"[{done}/{len(self.rows)}] {point.name}: {line}")


def describe(error):
    """An error in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, (runs.RunError, OSError)) and text else f"{type(error).__name__}: {text}"


# ---------------------------------------------------------------------------------------------- cluster


def _remote(cluster, folder, points, seeds, threads):
    """Send points to the cluster; yield (point, outcome) as they are done."""
    jobs = {}
    for point in points:
        path = folder / point.name
        runs.begin(path, point.config, seeds, threads, pretrain.versions())
        checkpoint = path / runs.CHECKPOINT
        jobs[point.name] = (point.config, tuple(seeds), checkpoint.read_bytes() if checkpoint.exists() else None)
    by_name = {point.name: point for point in points}
    for name, outcome in cluster.results(jobs, threads):
        yield by_name[name], outcome


def _store(folder, outcome, draw):
    """Write what a worker sent back."""
    if isinstance(outcome, Exception):
        raise outcome
    result, checkpoint = outcome
    runs.write_bytes(folder / runs.CHECKPOINT, checkpoint)
    return runs.finish(folder, result, draw)
