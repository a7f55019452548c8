"""Checkpoints: arrays and a header in one file, written atomically and read without running anything.

The file is a NumPy .npz archive (a zip file with checksums) of plain arrays; nothing in it is pickled, so a
file from elsewhere can do no harm.
"""

import contextlib
import errno
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np

from ictd import _checks

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no such locks
    fcntl = None

FORMAT = "ictd checkpoint"
VERSION = 1
_HEADER = "header.json"


class CheckpointError(ValueError):
    """A file that is no usable checkpoint. It was left as it is."""


def save(path, header, arrays):
    """Write a checkpoint; at any moment there is either the old file or the complete new one.

    Parameters
    ----------
    path : str or Path
        In an existing folder.
    header : dict
        What JSON can hold; "format" and "version" are added. The header of a loaded file can be saved again.
    arrays : dict of str to ndarray
        Numbers or truth values.

    Raises
    ------
    TypeError
        A header or an array that holds other things.
    ValueError
        A header with a "format" or "version" of its own.
    OSError
        The disk is full, or the folder cannot be written.
    """
    path = _checks.file_path("path", path)
    _checks.instance("header", header, dict)
    try:
        text = json.dumps(header)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"header must hold what JSON can hold; {error}") from None
    if not _has_text_keys(header):
        raise TypeError("header must have strings as keys, also inside; JSON would turn other keys into strings")
    for key in {"format", "version"} & header.keys():
        if header.get("format") != FORMAT:  # no header of a loaded file: the entry would be replaced
            raise ValueError(f"header must leave the key {key!r} to the file; got {header[key]!r}")
    text = json.dumps(header | {"format": FORMAT, "version": VERSION})
    content = {_HEADER: np.frombuffer(text.encode(), dtype=np.uint8)} | _numbers(arrays)
    replace(path, lambda file: write_arrays(file, content))


def _has_text_keys(value):
    if isinstance(value, (list, tuple)):
        return all(map(_has_text_keys, value))
    return not isinstance(value, dict) or all(isinstance(k, str) and _has_text_keys(v) for k, v in value.items())


def _numbers(arrays):
    """The arrays to save by name, or an error before anything is written."""
    _checks.instance("arrays", arrays, dict)
    result = {}
    for name, values in arrays.items():
        if not isinstance(name, str) or name == _HEADER or not name.isprintable() or len(name) > 255:
            raise TypeError(
                f"arrays must have printable names of up to 255 letters, other than {_HEADER}; "
                f"got {_checks.describe(name)}"
            )
        _checks.refuse_masked(f"arrays[{name!r}]", values)
        try:
            result[name] = np.asarray(values)
        except _checks.UNREADABLE:
            result[name] = None
        if result[name] is None or result[name].dtype.kind not in "fiub":  # NumPy would pickle other objects
            raise TypeError(f"arrays must hold numbers or truth values; {name} is {_checks.describe(values)}")
    return result


def write_arrays(file, arrays):
    """Write a NumPy .npz archive into an open file; unlike `numpy.savez` it takes every name, and never pickles."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(values), allow_pickle=False)


def replace(path, write):
    """Write a file; at any moment there is either the old one or the complete new one.

    Threads and processes that write the same file wait for each other.

    Parameters
    ----------
    path : str or Path
        In an existing folder. A file ``.NAME.partial`` beside it is used while writing.
    write : callable
        Called with the open binary file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        raise OSError(errno.EEXIST, "there is something else than a file", str(path))
    partial = _partial(path)
    with _alone(partial) as file:
        try:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:  # Windows moves no open file
                file.close()
            os.replace(partial, path)
        except BaseException:
            if fcntl is None:
                file.close()
            partial.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _alone(partial):
    """An empty file, opened, that nobody else writes.

    What a kill has left is used again; where that is a link, its target stays as it is.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    while True:
        if partial.is_symlink():
            partial.unlink(missing_ok=True)
        handle = os.open(partial, flags, 0o666)
        with open(handle, "r+b") as file, lock(handle, wait=True):
            if _is_at(partial, handle):  # else the writer before has moved it away
                file.truncate()
                yield file
                return


def _is_at(path, handle):
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def lock(handle, wait=False):
    """Lock an open file or folder; the lock ends with this process, however that ends.

    Raises
    ------
    BlockingIOError
        Somebody else has the lock, and ``wait`` is False.
    """
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # to close it is not enough: a child of this process may have it open
                fcntl.flock(handle, fcntl.LOCK_UN)


def _partial(path):
    return path.with_name(f".{path.name}.partial")


def place(name, value):
    """A path at which there is a file or can be one, or a ValueError or TypeError that names the argument."""
    path = _checks.file_path(name, value)
    try:
        if path.name in ("", "..") or "\0" in path.name:
            raise ValueError(f"{name} must name a file; got {str(value)!r}")
        if not path.parent.is_dir():
            raise ValueError(f"{name} must be in an existing folder; there is no {path.parent}")
        for part in (path, _partial(path)):
            with contextlib.suppress(FileNotFoundError):
                os.lstat(part)
        if not path.exists() and not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ValueError(f"{name} must be a path that can be written; {path}: {error.strerror}") from None
    return path


def read_arrays(content):
    """The arrays of an .npz archive given as bytes; a ValueError if it is none, is damaged or holds other objects."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # NumPy reads an array only as far as its shape says, and then meets no checksum if that is damaged
            damaged = archive.testzip()
            if damaged:
                raise ValueError(f"the checksum of {damaged} is wrong")
            # `numpy.load` takes the names x and x.npy for one
            return {name.removesuffix(".npy"): _read_array(archive, name) for name in archive.namelist()}
    except Exception as error:  # the readers of zip files and arrays answer damage with errors of many types
        raise ValueError(str(error)) from None


def _read_array(archive, name):
    with archive.open(name) as entry:
        return np.lib.format.read_array(entry, allow_pickle=False)


def load(path):
    """Read a checkpoint.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    header : dict
    arrays : dict of str to ndarray

    Raises
    ------
    CheckpointError
        The file is damaged, is no checkpoint, or was written by a newer version. It is not touched.
    OSError
        There is no such file, or it cannot be read.
    """
    path = _checks.file_path("path", path)
    if "\0" in str(path):
        raise CheckpointError(f"{str(path)!r} is no checkpoint: no file has such a name")
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is no checkpoint: it is a {'folder' if path.is_dir() else 'device or a pipe'}")
    content = path.read_bytes()
    try:
        arrays = read_arrays(content)
    except ValueError as error:
        raise CheckpointError(f"{path} is no checkpoint or is damaged: {error}") from None
    try:
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        known, version = header["format"] == FORMAT, header["version"]
    except (KeyError, TypeError, ValueError):  # JSON and text that cannot be decoded are ValueErrors
        known = False
    if not known or not isinstance(version, int) or version < 1:
        raise CheckpointError(f"{path} is no checkpoint of ictd")
    if version > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer ictd (format {version}; this one reads up to {VERSION}): upgrade ictd"
        )
    return header, arrays
