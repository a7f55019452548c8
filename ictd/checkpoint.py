"""Checkpoints: arrays and a header in one file, written atomically and read without running anything.

The file is a NumPy .npz archive (a zip file with checksums) of plain arrays; nothing in it is pickled, so a
file from elsewhere can do no harm.
"""

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np

from ictd import _checks

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
        What JSON can hold.
    arrays : dict of str to ndarray
        Numbers or truth values.

    Raises
    ------
    TypeError
        A header or an array that holds other things.
    OSError
        The disk is full, or the folder cannot be written.
    """
    text = json.dumps(header | {"format": FORMAT, "version": VERSION})
    for name, values in arrays.items():
        if np.asarray(values).dtype.kind not in "fiub":  # NumPy would pickle other objects
            raise TypeError(f"arrays must hold numbers or truth values; {name} is {_checks.describe(values)}")
    header = {_HEADER: np.frombuffer(text.encode(), dtype=np.uint8)}
    replace(path, lambda file: np.savez(file, **header, **arrays))


def replace(path, write):
    """Write a file; at any moment there is either the old one or the complete new one.

    Parameters
    ----------
    path : str or Path
        In an existing folder. A file ``.NAME.partial`` beside it is used while writing.
    write : callable
        Called with the open binary file.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.unlink(missing_ok=True)  # left by a kill; were it a link, its target would be written
        with open(partial, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_arrays(content):
    """The arrays of an .npz archive given as bytes; a ValueError if it is none, is damaged or holds other objects."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # NumPy reads an array only as far as its shape says, and then meets no checksum if that is damaged
            damaged = archive.testzip()
        if damaged:
            raise ValueError(f"the checksum of {damaged} is wrong")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # the readers of zip files and arrays answer damage with errors of many types
        raise ValueError(str(error)) from None


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
    path = Path(path)
    if path.is_dir():
        raise CheckpointError(f"{path} is no checkpoint: it is a folder")
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
