"""Files that are whole at every moment: the atomic write, locks, archives of arrays, and checks of paths."""

import contextlib
import errno
import io
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np

from ictd import _checks

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no such locks
    fcntl = None


# ------------------------------------------------------------------------------------------------- paths


def file_path(name, value):
    """Return ``value`` as a Path."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a Path; got {_checks.describe(value)}")
    if value == "":  # Path would read it as the current folder
        raise ValueError(f"{name} must not be an empty text; the current folder is '.'")
    return Path(value)


def place(name, value):
    """A path at which there is a file or can be one, or a ValueError or TypeError that names the argument."""
    path = file_path(name, value)
    try:
        if path.name in ("", "..") or "\0" in path.name:
            raise ValueError(f"{name} must name a file; got {str(value)!r}")
        if not path.parent.is_dir():
            raise ValueError(f"{name} must be in an existing folder; there is no {path.parent}")
        for part in (path, partial_path(path)):
            with contextlib.suppress(FileNotFoundError):
                os.lstat(part)
        if not path.exists() and not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ValueError(f"{name} must be a path that can be written; {path}: {error.strerror}") from None
    return path


# ------------------------------------------------------------------------------------------------- writing


def replace(path, write):
    """Write a file; at any moment there is either the old one or the complete new one, with the mode of the old one.

    Threads and processes that write the same file wait for each other.

    Parameters
    ----------
    path : str or Path
        In an existing folder. A file ``.NAME.partial`` beside it is used while writing.
    write : callable
        Called with the open binary file.

    Raises
    ------
    OSError
        The disk is full, the folder cannot be written, or there is something else than a file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        raise OSError(errno.EEXIST, "there is something else than a file", str(path))
    with _complete(path, write) as partial:
        if path.exists():
            shutil.copymode(path, partial)
        os.replace(partial, path)


def write_bytes(path, data):
    """Write bytes as `replace` does."""
    replace(path, lambda file: file.write(data))


def create(path, write):
    """Write a file as `replace` does, but only where there is none.

    Raises
    ------
    FileExistsError
        The place is taken; what is there stays as it is.
    """
    with _complete(path, write) as partial:
        _move_to_free_place(partial, Path(path))


def _move_to_free_place(new, path):
    try:
        os.link(new, path)  # refuses a place that is taken, at once
    except FileExistsError:
        raise
    except OSError as error:  # no links on this file system
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        os.replace(new, path)
    else:
        os.unlink(new)


@contextlib.contextmanager
def _complete(path, write):
    """The file beside a path, written and on the disk; it is gone afterwards, moved or not."""
    partial = partial_path(Path(path))
    with _alone(partial) as file:
        try:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:  # Windows moves no open file
                file.close()
            yield partial
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


def partial_path(path):
    """The file beside a path that is used while writing."""
    return path.parent / f".{path.name}.partial"  # also of "/", which has no name


def is_partial(name):
    """Whether a name is that of a half-written file, which a kill may have left."""
    return name.startswith(".") and name.endswith(".partial")


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


# ---------------------------------------------------------------------------------------------- archives


def write_arrays(file, arrays):
    """Write a NumPy .npz archive into an open file; unlike `numpy.savez` it takes every name, and never pickles."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(values), allow_pickle=False)


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
