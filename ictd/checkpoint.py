"""Checkpoints: arrays and a header in one file, written atomically and read without running anything.

The file is a NumPy .npz archive (a zip file with checksums) of plain arrays; nothing in it is pickled, so a
file from elsewhere can do no harm.
"""

import json
import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

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
        In an existing folder. A file ``.NAME.partial`` beside it is used while writing.
    header : dict
        What JSON can hold.
    arrays : dict of str to ndarray
        Numbers or truth values.

    Raises
    ------
    OSError
        The disk is full, or the folder cannot be written.
    """
    path = Path(path)
    text = json.dumps({"format": FORMAT, "version": VERSION} | header)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            np.savez(file, **{_HEADER: np.frombuffer(text.encode(), dtype=np.uint8)}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


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
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError, NotImplementedError) as error:
        raise CheckpointError(f"{path} is no checkpoint or is damaged: {error}") from None
    except AttributeError:  # a single .npy array has no files
        raise CheckpointError(f"{path} is no checkpoint: it holds a single array") from None
    try:
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        known = header["format"] == FORMAT
        version = int(header["version"])
    except (KeyError, TypeError, ValueError):  # JSON and text that cannot be decoded are ValueErrors
        known = False
    if not known:
        raise CheckpointError(f"{path} is no checkpoint of ictd")
    if version > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer ictd (format {version}; this one reads up to {VERSION}): upgrade ictd"
        )
    return header, arrays
