"""The files of a run's folder: their names, how they are written and read, and whether the folder can be used.

Every file is written beside its place and then moved there: a kill at any moment leaves whole files only.
"""

import contextlib
import json
import os
from pathlib import Path

import numpy as np

from ictd import _checks, _files
from ictd._arguments import declare
from ictd.pretrain.identity import difference
from ictd.pretrain.identity import identity as of_training
from ictd.pretrain.sampling import check_sample
from ictd.runs.arguments import RUN

CONFIG, CHECKPOINT, HISTORY, SUMMARY = "config.json", "checkpoint.npz", "history.npz", "summary.json"
FIGURES = "figure-*.svg"
TABLE = "sweep.json"
FORMAT, TABLE_FORMAT, VERSION = "ictd run", "ictd sweep", 1


class RunError(ValueError):
    """A folder that cannot be used as asked; nothing in it was changed."""


class OtherRunError(RunError):
    """The folder holds a run with another setting.

    Attributes
    ----------
    folder : Path
    field : str
        The first setting that differs: "tasks" if a function draws them, a field of `pretrain.Config`, "seeds" or
        "threads".
    there, here
        Its value in the folder and the one asked for.
    """

    def __init__(self, folder, field, there, here):
        super().__init__(f"{folder} holds a run with other settings: {field} is {there} there and {here} here")
        self.folder, self.field, self.there, self.here = folder, field, there, here

    def __reduce__(self):  # as a worker of a pool sends it
        return type(self), (self.folder, self.field, self.there, self.here)


# ------------------------------------------------------------------------------------------------- files


def write_json(path, content):
    """Write what JSON can hold; at any moment there is either the old file or the complete new one."""
    _files.write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path, kind, version):
    """Read a JSON object that says its format and version.

    Raises
    ------
    RunError
        It cannot be read, is damaged, of another kind or written by a newer version.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from None
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
    if _files.fcntl is None:  # Windows has no locks of folders
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_files.lock(handle))
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
    folder = _files.file_path("folder", folder)
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise RunError(f"{folder} is a file, or is inside one; expected a folder") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise RunError(f"{str(folder)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return [name for name in names if not _files.is_partial(name)]


# ----------------------------------------------------------------------------------------- one run


def identity(config, seeds, threads, sample=None):
    """What makes a run the run that it is, as ``config.json`` holds it; ``sample`` is tried first."""
    return of_training(config, seeds, check_sample(sample, config)) | {"threads": threads}


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
    content = read_json(path, FORMAT, VERSION)
    if not isinstance(content.get("config"), dict) or not isinstance(content.get("seeds"), list):
        raise RunError(f"{path} is damaged: settings or seeds are missing")
    try:
        check_plain_seeds(content["seeds"])
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from None
    return content


def check_plain_seeds(seeds):
    """Refuse seeds of a file that are no integers."""
    if not all(type(seed) is int for seed in seeds):
        raise ValueError("seeds are no integers")


def check_name(what, name):
    """Return the name of a file or a folder inside another one; a ValueError if it leads elsewhere."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a string; got {_checks.describe(name)}")
    inside = name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"}
    if not inside or len(name.encode(errors="replace")) > 200:
        raise ValueError(f"{what} must be a name of up to 200 letters without / and \\; got {_checks.describe(name)}")
    return name


@declare(**RUN)
def check(folder, config, seeds, threads, force=False, sample=None):
    """What `run` would do in a folder; nothing is written.

    Parameters
    ----------
    folder, config, seeds, threads, force, sample
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
    return _found(folder, identity(config, seeds, threads, sample), force)


def _found(folder, here, force):
    """The state of a folder that a run of this identity can use."""
    found = state(folder)
    if found != "empty" and not force:
        compare(folder, read_config(folder), here)
    _check_writable(folder)
    return found


def compare(folder, there, here):
    """Raise an `OtherRunError` for the first difference of two identities."""
    found = difference(there, here)
    if found:
        raise OtherRunError(folder, *found)


def _check_writable(folder):
    """Refuse a new folder where none can be made, before any work is done."""
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(_files.partial_path(folder / CHECKPOINT))
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


@declare(**RUN)
def begin(folder, config, seeds, threads, versions, force=False, sample=None):
    """Make the folder ready, write ``config.json`` unless the run is begun already, and say what was there.

    Parameters
    ----------
    folder, config, seeds, threads, force, sample
        As in `run`.
    versions : dict
        What `pretrain.versions` gives.

    Returns
    -------
    {"empty", "begun", "finished"}
        As `check`; "empty" also where a run was removed.
    """
    here = identity(config, seeds, threads, sample)
    found = _found(folder, here, force)
    folder.mkdir(parents=True, exist_ok=True)
    if force and found != "empty":
        clear(folder)
        found = "empty"
    if found == "empty":
        write_json(folder / CONFIG, {"format": FORMAT, "version": VERSION} | here | {"versions": versions})
    return found


def finish(folder, result):
    """Write what a finished run leaves: its history and, last, the summary.

    Parameters
    ----------
    folder : str or Path
    result : pretrain.Result
    """
    folder = Path(folder)
    arrays = {name: value for name, value in vars(result.history).items() if value is not None}
    arrays = {"seeds": np.array(result.seeds)} | arrays
    _files.replace(folder / HISTORY, lambda file: _files.write_arrays(file, arrays))
    write_json(folder / SUMMARY, result.summary())
