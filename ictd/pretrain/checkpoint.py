"""Checkpoints: arrays and a header in one file, written atomically and read without running anything.

The file is a NumPy .npz archive (a zip file with checksums) of plain arrays; nothing in it is pickled, so a
file from elsewhere can do no harm.
"""

import json

import numpy as np

from ictd import _checks, _files

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
    path = _files.file_path("path", path)
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
    _files.replace(path, lambda file: _files.write_arrays(file, content))


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
    path = _files.file_path("path", path)
    if "\0" in str(path):
        raise CheckpointError(f"{str(path)!r} is no checkpoint: no file has such a name")
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is no checkpoint: it is a {'folder' if path.is_dir() else 'device or a pipe'}")
    content = path.read_bytes()
    try:
        arrays = _files.read_arrays(content)
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
