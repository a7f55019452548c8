"""Checkpoints: written whole or not at all, read without running anything, damage answered with one clear error."""

import errno
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from ictd import _files
from ictd.pretrain import checkpoint
from ictd.pretrain.checkpoint import CheckpointError

HEADER = {"kind": "test", "step": 3, "learning_rate": 0.1 + 0.2, "seeds": [0, 1]}
ARRAYS = {
    "parameters/A": np.random.default_rng(0).normal(size=(2, 1, 3, 3)).astype(np.float32),
    "history/error": np.array([0.5, np.nan, -np.inf, -0.0]),
    "step": np.array(3),
    "empty": np.zeros((0, 4)),
    "alive": np.array([True, False]),
}


@pytest.fixture
def path(tmp_path):
    """A good checkpoint."""
    checkpoint.save(tmp_path / "run.npz", HEADER, ARRAYS)
    return tmp_path / "run.npz"


def same(arrays):
    return arrays.keys() == ARRAYS.keys() and all(
        arrays[name].dtype == ARRAYS[name].dtype
        and arrays[name].shape == ARRAYS[name].shape
        and arrays[name].tobytes() == ARRAYS[name].tobytes()
        for name in ARRAYS
    )


def refused(path, message="no checkpoint"):
    """The file is refused with one line that names it, and not touched."""
    content, stamp = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(CheckpointError, match=message) as caught:
        checkpoint.load(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content and path.stat().st_mtime_ns == stamp
    assert os.listdir(path.parent) == [path.name]


def test_what_is_saved_is_loaded(path):
    """Header and arrays come back bit for bit, with types and shapes, NaN and -0 included."""
    header, arrays = checkpoint.load(str(path))
    assert header == HEADER | {"format": checkpoint.FORMAT, "version": checkpoint.VERSION}
    assert same(arrays)
    assert os.listdir(path.parent) == ["run.npz"]


def test_save_replaces(path):
    """A second save takes the place of the first; what was loaded can be saved again."""
    checkpoint.save(path, {"step": 4}, {"x": np.ones(2)})
    checkpoint.save(path, *checkpoint.load(path))
    header, arrays = checkpoint.load(path)
    assert header == {"step": 4, "format": checkpoint.FORMAT, "version": checkpoint.VERSION} and list(arrays) == ["x"]


@pytest.mark.parametrize("taken", [{"version": 1}, {"format": "other"}, {"version": 1, "format": None}])
def test_a_header_cannot_claim_another_format(path, taken):
    """Its entry would be replaced without a word."""
    with pytest.raises(ValueError, match="^header must leave the key .* to the file"):
        checkpoint.save(path, taken, {})
    assert same(checkpoint.load(path)[1])


def test_truncated_anywhere(path):
    """Every length in the header of the first entry and in the directory at the end, and many between."""
    content = path.read_bytes()
    size = len(content)
    for length in {*range(40), *range(0, size, 37), *range(size - 60, size)}:
        path.write_bytes(content[:length])
        refused(path, "no checkpoint")


def test_flipped_bits(path):
    """A damaged file is refused, or the bit did not matter (zip has unused fields): never other numbers."""
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(400):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            header, arrays = checkpoint.load(path)
        except CheckpointError:
            found += 1
            assert path.read_bytes() == damaged
        else:
            assert header["seeds"] == [0, 1] and same(arrays)
    assert found > 200


def test_flipped_bits_of_shapes(path):
    """A shape that lost entries is found also in an array so large that its end, and its checksum, is not read."""
    checkpoint.save(path, {}, {"x": np.arange(40 * 41.0).reshape(40, 41)})
    content = path.read_bytes()
    start = content.index(b"(40, 41)")
    for place in range(start, start + 8):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            refused(path, "no checkpoint or is damaged: ")


def zip_file():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("letter.txt", "hello")
    return file.getvalue()


def saved(save, *args, **arrays):
    file = io.BytesIO()
    save(file, *args, **arrays)
    return file.getvalue()


def with_header(text):
    """An archive whose header is a given text."""
    return saved(np.savez, **{"header.json": np.frombuffer(text.encode(), np.uint8), "x": np.ones(2)})


FOREIGN = {
    "empty": b"",
    "text": b"state,reward\nhome,-1\n",
    "zeros": bytes(500),
    "zip": zip_file(),
    "npy": saved(np.save, np.ones(3)),
    "npz": saved(np.savez, x=np.ones(3)),
    "pickle": pickle.dumps({"x": 1}),
    "no JSON": with_header("{"),
    "a list": with_header("[1, 2]"),
    "another format": with_header(json.dumps({"format": "other", "version": 1})),
    "no version": with_header(json.dumps({"format": checkpoint.FORMAT})),
    "version in words": with_header(json.dumps({"format": checkpoint.FORMAT, "version": "one"})),
    "infinite version": with_header('{"format": "ictd checkpoint", "version": Infinity}'),
    "version 0": with_header(json.dumps({"format": checkpoint.FORMAT, "version": 0})),
    "header of floats": saved(np.savez, **{"header.json": np.ones((2, 2))}),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files(tmp_path, kind):
    """Files of every other kind."""
    path = tmp_path / "run.npz"
    path.write_bytes(FOREIGN[kind])
    refused(path)


def test_newer_version(tmp_path):
    """A file of a newer version says so and what to do."""
    path = tmp_path / "run.npz"
    path.write_bytes(with_header(json.dumps({"format": checkpoint.FORMAT, "version": checkpoint.VERSION + 1})))
    refused(path, "newer ictd.*upgrade")


def test_folders_and_missing_files(tmp_path):
    """A folder is no checkpoint; a file that is not there is an OSError as everywhere."""
    with pytest.raises(CheckpointError, match="folder"):
        checkpoint.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        checkpoint.load(tmp_path / "run.npz")


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_nothing_is_unpickled(tmp_path):
    """A pickle, alone or inside an archive, is not run."""
    target = tmp_path / "harm"
    bomb = np.array([Bomb(target)], dtype=object)
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "run.npz"
    for content in (
        pickle.dumps(Bomb(target)),
        saved(np.save, bomb),
        saved(np.savez, **{"header.json": bomb}),
        saved(np.savez, x=bomb, **{"header.json": np.frombuffer(b"{}", np.uint8)}),
    ):
        path.write_bytes(content)
        refused(path)
        assert not target.exists()
    pickle.loads(pickle.dumps(Bomb(target)))
    assert target.exists()  # it would have worked


def test_objects_are_not_saved(path):
    """An object array would be pickled: it is refused, and the old file stays."""
    content = path.read_bytes()
    for wrong in (np.array([{}], dtype=object), np.array(["text"])):
        with pytest.raises(TypeError, match="^arrays must hold numbers or truth values; x is"):
            checkpoint.save(path, {}, {"x": wrong})
    with pytest.raises(TypeError):
        checkpoint.save(path, {"x": object()}, {})
    assert path.read_bytes() == content and os.listdir(path.parent) == ["run.npz"]


NAMES = [
    "allow_pickle", "file", "args", "kwds", "arr_0", "x.npy", "a/b", "../x", "", "é", "two words", "header",
    "x", "x.npy.npy", ".npy", "header.json.npy",  # NumPy takes the names x and x.npy for one
]  # fmt: skip


def test_every_name_comes_back(tmp_path):
    """Also those that mean something to `numpy.savez`; nothing is dropped or renamed."""
    arrays = {name: np.full(2, i) for i, name in enumerate(NAMES)}
    checkpoint.save(tmp_path / "run.npz", {}, arrays)
    loaded = checkpoint.load(tmp_path / "run.npz")[1]
    assert list(loaded) == NAMES
    for name in NAMES:
        np.testing.assert_array_equal(loaded[name], arrays[name])


@pytest.mark.parametrize(
    "header, arrays, message",
    [
        ({}, {"header.json": 1}, "arrays must have printable names .* other than header.json; got 'header.json'"),
        ({}, {"a\0b": 1}, "arrays must have printable names"),
        ({}, {"\ud800": 1}, "arrays must have printable names"),
        ({}, {"a" * 256: 1}, "arrays must have printable names of up to 255 letters"),
        ({}, {3: 1}, "arrays must have printable names .*; got 3"),
        ({}, {"x": [[1], [1, 2]]}, "arrays must hold numbers or truth values; x is a list with rows"),
        ({}, {"x": 10**30}, "arrays must hold numbers"),
        ({}, [1], "arrays must be of type dict; got a list"),
        ([1], {}, "header must be of type dict; got a list"),
        ({1: 2}, {}, "header must have strings as keys"),
        ({"a": [{"b": {None: 1}}]}, {}, "header must have strings as keys"),
        ({"a": {1, 2}}, {}, "header must hold what JSON can hold"),
    ],
)
def test_what_would_not_come_back_is_refused(path, header, arrays, message):
    """Before anything is written; the old file stays."""
    content = path.read_bytes()
    with pytest.raises(TypeError, match=f"^{message}"):
        checkpoint.save(path, header, arrays)
    assert path.read_bytes() == content and os.listdir(path.parent) == ["run.npz"]


def test_masked_arrays_are_refused(path):
    with pytest.raises(ValueError, match="must have no masked entries"):
        checkpoint.save(path, {}, {"x": np.ma.masked_array([1, 2], [False, True])})


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")
def test_pipes_and_devices_are_left_alone(tmp_path):
    """Reading one might wait for ever, and a move would put a file in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/null"):
        with pytest.raises(CheckpointError, match="device or a pipe"):
            checkpoint.load(path)
        with pytest.raises(FileExistsError, match="something else than a file"):
            checkpoint.save(path, {}, {})
    assert pipe.is_fifo() and not os.path.isfile("/dev/null")
    for wrong, kind in ((3, TypeError), (b"run.npz", TypeError), ("a\0b", CheckpointError)):
        with pytest.raises(kind, match="str or a Path|no checkpoint"):
            checkpoint.load(wrong)


@pytest.mark.parametrize("where", ["half way", "at fsync", "at replace"])
def test_full_disk(path, monkeypatch, where):
    """Wherever writing fails, the old file is whole and nothing is left beside it."""
    content = path.read_bytes()

    def full(file, *_, **__):
        if where == "half way":
            file.write(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    places = {"half way": (_files, "write_arrays"), "at fsync": (os, "fsync"), "at replace": (os, "replace")}
    module, name = places[where]
    monkeypatch.setattr(module, name, full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(path, HEADER, ARRAYS)
    monkeypatch.undo()
    assert path.read_bytes() == content and os.listdir(path.parent) == ["run.npz"]


def test_the_file_is_whole_at_every_moment(path, monkeypatch):
    """Until the new file has been written and flushed, the name holds the old one."""
    content, seen = path.read_bytes(), []
    replace = os.replace

    def watch(source, target):
        seen.append(path.read_bytes() == content)
        checkpoint.load(source)  # complete before it gets the name
        replace(source, target)

    monkeypatch.setattr(os, "replace", watch)
    checkpoint.save(path, {"step": 5}, {})
    assert seen == [True] and checkpoint.load(path)[0]["step"] == 5
