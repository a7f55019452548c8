"""Files that are whole at every moment, whoever else writes them, and whenever a process is killed."""

import io
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ictd import _files

locks = pytest.mark.skipif(_files.fcntl is None, reason="there are no locks of files")
posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")


@pytest.fixture
def path(tmp_path):
    """A file."""
    (tmp_path / "a.txt").write_text("old")
    return tmp_path / "a.txt"


def test_a_file_is_replaced_or_stays(path):
    def half(file):
        file.write(b"half of")
        raise OSError("No space left")

    with pytest.raises(OSError, match="No space left"):
        _files.replace(path, half)
    assert path.read_text() == "old" and os.listdir(path.parent) == ["a.txt"]
    _files.replace(path, lambda file: file.write(b"new"))
    assert path.read_text() == "new" and os.listdir(path.parent) == ["a.txt"]


def test_a_new_file_takes_no_place_of_another(path):
    with pytest.raises(FileExistsError):
        _files.create(path, lambda file: file.write(b"new"))
    with pytest.raises(FileExistsError):
        _files.create(path.parent, lambda file: file.write(b"new"))
    _files.create(path.with_name("b.txt"), lambda file: file.write(b"new"))
    assert path.read_text() == "old" and path.with_name("b.txt").read_text() == "new"
    assert sorted(os.listdir(path.parent)) == ["a.txt", "b.txt"]


@posix
def test_the_mode_of_a_file_is_kept(path):
    """A file that others must not read stays so; a new one is as any other new file."""
    for mode in (0o600, 0o640, 0o444):
        path.chmod(mode)
        _files.write_bytes(path, b"new")
        assert path.stat().st_mode & 0o777 == mode
    (path.parent / "plain").write_text("")
    _files.write_bytes(path.parent / "b", b"new")
    _files.create(path.parent / "c", lambda file: file.write(b"new"))
    assert len({(path.parent / name).stat().st_mode for name in ("plain", "b", "c")}) == 1


@posix
def test_what_is_no_file_is_left_alone(tmp_path):
    """A move would put a file in its place."""
    for place in (tmp_path, "/dev/null"):
        with pytest.raises(FileExistsError, match="something else than a file"):
            _files.write_bytes(place, b"x")
    assert tmp_path.is_dir() and not os.path.isfile("/dev/null")


@locks
def test_writers_of_one_file_wait_for_each_other(path):
    """None of them fails, and whoever reads meanwhile finds a whole file."""

    def work(number):
        for _ in range(30):
            _files.write_bytes(path, bytes([number]) * 20_000)
            data = path.read_bytes()
            assert len(data) == 20_000 and len(set(data)) == 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert os.listdir(path.parent) == [path.name]


@locks
def test_of_many_writers_of_a_new_file_one_succeeds(path):
    def work(number):
        try:
            _files.create(path.with_name("b.txt"), lambda file: file.write(bytes([number])))
        except FileExistsError:
            return None
        return bytes([number])

    with ThreadPoolExecutor(4) as pool:
        (written,) = set(pool.map(work, range(20))) - {None}
    assert path.with_name("b.txt").read_bytes() == written
    assert sorted(os.listdir(path.parent)) == ["a.txt", "b.txt"]


@locks
def test_a_lock_ends_with_the_work_also_if_a_child_process_lives_on(tmp_path):
    """A forked child, as of a pool of workers, has a duplicate of the open folder."""
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    with _files.lock(first):
        child = os.dup(first)
        with pytest.raises(BlockingIOError), _files.lock(second):
            pass
    with _files.lock(second):
        pass
    for handle in (first, second, child):
        os.close(handle)


@pytest.mark.parametrize("write", [_files.replace, _files.create])
def test_left_over_of_a_killed_process(tmp_path, write):
    """A half-written file, as kill -9 leaves it, is no obstacle and goes with the next one."""
    (tmp_path / ".a.txt.partial").write_bytes(b"more than half of it")
    write(tmp_path / "a.txt", lambda file: file.write(b"new"))
    assert os.listdir(tmp_path) == ["a.txt"] and (tmp_path / "a.txt").read_bytes() == b"new"


@posix
@pytest.mark.parametrize("write", [_files.replace, _files.create])
def test_a_link_in_place_of_the_half_written_file_is_not_followed(tmp_path, write):
    """What such a link points to stays as it is."""
    (tmp_path / "other.txt").write_text("mine")
    (tmp_path / ".a.txt.partial").symlink_to(tmp_path / "other.txt")
    write(tmp_path / "a.txt", lambda file: file.write(b"new"))
    assert (tmp_path / "other.txt").read_text() == "mine"
    assert not (tmp_path / "a.txt").is_symlink() and (tmp_path / "a.txt").read_bytes() == b"new"


def test_paths():
    assert _files.file_path("path", "a") == _files.file_path("path", os.fspath("a"))
    for wrong, kind in ((3, TypeError), (b"a", TypeError), (None, TypeError), ("", ValueError)):
        with pytest.raises(kind, match="^path must (be a str or a Path|not be an empty text)"):
            _files.file_path("path", wrong)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ("..", "path must name a file"),
        ("a\0b", "path must name a file"),
        ("no_such_folder/a", "path must be in an existing folder"),
        ("n" * 300, "path must be a path that can be written"),
    ],
)
def test_a_place_for_a_file_is_found_or_refused(tmp_path, wrong, words):
    assert _files.place("path", tmp_path / "new") == tmp_path / "new"
    with pytest.raises(ValueError, match=f"^{words}"):
        _files.place("path", f"{tmp_path}/{wrong}")


def test_a_folder_that_cannot_be_written_is_no_place(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(ValueError, match="can be written; .*Permission denied"):
        _files.place("path", tmp_path / "new")


@pytest.mark.parametrize("taken", [False, True])
def test_a_file_system_without_links_is_served(tmp_path, monkeypatch, taken):
    """The place is looked at first, then the file is moved there."""

    def no_links(*_):
        if taken:  # by somebody else, meanwhile
            (tmp_path / "a").write_text("theirs")
        raise OSError("Operation not supported")

    monkeypatch.setattr(os, "link", no_links)
    if taken:
        with pytest.raises(FileExistsError):
            _files.create(tmp_path / "a", lambda file: file.write(b"mine"))
    else:
        _files.create(tmp_path / "a", lambda file: file.write(b"mine"))
    assert (tmp_path / "a").read_text() == ("theirs" if taken else "mine")


@locks
def test_a_file_system_without_locks_is_served(path, monkeypatch):
    def no_locks(*_):
        raise OSError("No locks available")

    monkeypatch.setattr(_files.fcntl, "flock", no_locks)
    _files.write_bytes(path, b"new")
    assert path.read_text() == "new"


def test_a_damaged_archive_is_refused():
    file = io.BytesIO()
    _files.write_arrays(file, {"x": np.arange(1000)})
    content = bytearray(file.getvalue())
    assert _files.read_arrays(bytes(content))["x"].tolist() == list(range(1000))
    content[4000] ^= 1
    with pytest.raises(ValueError, match="checksum of x.npy is wrong"):
        _files.read_arrays(bytes(content))
    with pytest.raises(ValueError, match="not a zip file"):
        _files.read_arrays(b"no archive")
