"""A grid of settings, each point of it a run with all seeds in a folder of its own.

``sweep.json`` holds what varies and, point by point, how far it is and its main figures. Points run one after
another in this process, or on the workers of a Dask cluster; then this process writes what they send back, and
the workers need no disk in common with it.
"""

import collections
import contextlib
import dataclasses
import fnmatch
import itertools
from dataclasses import dataclass
from pathlib import Path

from ictd import _checks, pretrain, runs
from ictd._cluster import connect


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

    Raises
    ------
    ValueError, TypeError
        A name that leads out of the folder of the sweep, settings that are not those of the configuration.
    """

    name: str
    settings: dict
    config: pretrain.Config

    def __post_init__(self):
        runs.check_name("the name of a point", self.name)
        if self.name.startswith(".") or self.name == runs.TABLE or fnmatch.fnmatchcase(self.name, runs.FIGURES):
            raise ValueError(f"the name of a point must not be that of a file of a sweep; got {self.name!r}")
        _checks.instance("settings", self.settings, dict)
        _checks.instance("config", self.config, pretrain.Config)
        of_config = dataclasses.asdict(self.config)
        for field, value in self.settings.items():
            if field not in of_config or of_config[field] != value:
                what = f"{field} is {_checks.describe(value)} in settings only"
                raise ValueError(f"settings must be those of config; {what}")
        object.__setattr__(self, "settings", {field: of_config[field] for field in self.settings})


def grid(values, label="{}-{}".format, make=pretrain.Config):
    """All combinations of values.

    Parameters
    ----------
    values : dict of str to iterable
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
        A value is given twice, a combination is refused by ``make``, or labels make no names of folders.
    """
    _checks.instance("values", values, dict)
    for name, function in {"label": label, "make": make}.items():
        if not callable(function):
            raise TypeError(f"{name} must be a function; got {_checks.describe(function)}")
    fields = [field.name for field in dataclasses.fields(pretrain.Config)]
    several = {_checks.option("a field of values", field, fields): _several(field, values[field]) for field in values}
    vary = [field for field in several if len(several[field]) > 1]
    configs = [make(**dict(zip(several, combination))) for combination in itertools.product(*several.values())]
    for made in configs:
        _checks.instance("what make gives", made, pretrain.Config)
    for field in vary:  # as the configurations hold them: 0.5 of Python and of NumPy are the same
        counts = collections.Counter(getattr(config, field) for config in configs)
        value, count = counts.most_common(1)[0]
        if count > len(configs) // len(several[field]):
            raise ValueError(f"{field} must have different values; got {label(field, value)} twice")
    points = []
    for config in configs:
        varied = {field: getattr(config, field) for field in vary}
        labels = [label(field, value) for field, value in varied.items()]
        if not all(isinstance(text, str) for text in labels):
            raise TypeError(f"label must give strings; got {_checks.describe(labels)}")
        name = "_".join(labels)
        points.append(Point(name or "run", varied, config))
    return _points(points)


def _points(points):
    """Points of one grid as a list, or an error: they have different names, and settings of the same fields."""
    if isinstance(points, (str, bytes, dict)) or not hasattr(points, "__iter__"):
        raise TypeError(f"points must be a sequence of Point, as grid gives them; got {_checks.describe(points)}")
    points = [_checks.instance("points", point, Point) for point in points]
    if not points:
        raise ValueError("points must hold at least one point; got none")
    name, count = collections.Counter(point.name.casefold() for point in points).most_common(1)[0]
    if count > 1:  # some file systems do not tell A from a
        raise ValueError(f"points must have different names; got {name!r} {count} times")
    for point in points:
        if point.settings.keys() != points[0].settings.keys():
            raise ValueError(f"points must have settings of the same fields; {point.name!r} has {[*point.settings]}")
    return points


def _several(field, values):
    """The values of a field as a tuple."""
    try:
        if isinstance(values, (str, bytes, dict)):
            raise TypeError
        values = tuple(values)
    except TypeError:
        raise TypeError(f"{field} must have a list of values in a grid; got {_checks.describe(values)}") from None
    if not values:
        raise ValueError(f"{field} must have at least one value in a grid; got none")
    return values


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
    folder, points = _checks.file_path("folder", folder), _points(points)
    seeds, threads, force = pretrain.check_seeds(seeds), runs.check_threads(threads), _checks.flag("force", force)
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
    report=None,
):
    """Run all points of a grid, or those that are not finished yet.

    Parameters
    ----------
    folder : str or Path
        New, empty, or with the same sweep; a setting that varied there may have more values now.
    points : list of Point
    seeds : sequence of int
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
    draw, draw_overview : callable, optional
        Give figures as a dict of file names and bytes, from a `runs.SavedRun` and from the rows below.
    report : callable, optional
        Called with a line of text for every point that is done.

    Returns
    -------
    list of dict
        The rows of the table, as in ``sweep.json``: "folder", "settings", "status", "error" and the figures of
        `runs.SavedRun.figures`. A point that failed has an error and does not stop the others.

    Raises
    ------
    runs.RunError, ClusterError, OSError
        The folder, the cluster or the disk cannot be used.
    ValueError, TypeError
        Bad arguments, before anything is written.
    """
    folder, points = _checks.file_path("folder", folder), _points(points)
    seeds, threads, force = pretrain.check_seeds(seeds), runs.check_threads(threads), _checks.flag("force", force)
    if not isinstance(scheduler, (str, type(None))):
        raise TypeError(f"scheduler must be an address or None; got {_checks.describe(scheduler)}")
    patience = _checks.real("patience", patience, low=0, low_open=True)
    checkpoint_seconds = _checks.real("checkpoint_seconds", checkpoint_seconds, low=0)
    progress = _checks.flag("progress", progress)
    for name, function in {"draw": draw, "draw_overview": draw_overview, "report": report}.items():
        _checks.function(name, function)
    check(folder, points, seeds, threads, force)
    with contextlib.ExitStack() as stack:
        # Before anything is written
        cluster = None if scheduler is None else stack.enter_context(connect(scheduler, patience))
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(runs.locked(folder))
        states = check(folder, points, seeds, threads, force)  # another process may have been at work until now
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
        runs.write_figures(folder, draw_overview(rows) if draw_overview else {})
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
            point.name: {"folder": point.name, "settings": dict(point.settings), "status": "waiting", "error": None}
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
        if self.report and (not quiet or row["error"]):
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
