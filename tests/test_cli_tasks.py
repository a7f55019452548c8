"""``--tasks``: a function of the reader's own draws the tasks of a run or of a sweep."""

import os
import subprocess
import sys

import numpy as np
import pytest
from commands import ROOT, call

from ictd import runs

SMALL = (
    "--states 4 --dim 2 --layers 2 --context 20 --steps 4 --batch 6 --records 2 --held-out 8 --neu-batches 3 "
    "--neu-batch 4 --seeds 2"
).split()
MODULE = """
import functools, os, signal
from ictd import tasks

def rings(count, rng):
    return tasks.draw(count, 4, 2, rng, "ring", feature_scale=2.0)

def loops(count, rng):
    return tasks.draw(count, 4, 2, rng, "loop")

def fails(count, rng):
    raise KeyError("no data")

def larger(count, rng):
    return tasks.draw(count, 5, 2, rng)

def presses_at_once(count, rng):
    if count == 8:  # the held-out tasks
        os.kill(os.getpid(), signal.SIGINT)
    return rings(count, rng)

def presses_later(count, rng):
    if count == 6:  # a batch
        os.kill(os.getpid(), signal.SIGINT)
    return rings(count, rng)

def breaks_later(count, rng):
    if count == 6:
        raise ValueError("no data")
    return rings(count, rng)

def runs_out(count, rng):
    if count == 6:
        raise RuntimeError("no luck")
    return rings(count, rng)

number = 3
short = lambda count, rng: rings(count, rng)
part = functools.partial(rings)
class Draw:
    def method(self, count, rng):
        return rings(count, rng)
method = Draw().method
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with modules of the reader's own."""
    files = {"mytasks": MODULE, "divides": "1 / 0", "stops": "raise SystemExit(3)", "needs": "import nothing_like_it"}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    assert sys.path == path
    for name in files:
        sys.modules.pop(name, None)


REFUSED = [
    *((text, f"must be MODULE:FUNCTION, as mytasks:draw for the function draw of mytasks.py; got {text!r}")
      for text in ("mytasks", "mytasks.py:rings", "./mytasks:rings", "mytasks:", ":rings", "", "a:b:c")),
    ("absent:rings", "must name a module of the current folder or an installed one; there is no absent"),
    ("absent.part:rings", "must name a module of the current folder or an installed one; there is no absent"),
    ("divides:rings", "must name a module that can be imported; divides raises ZeroDivisionError: division by zero"),
    ("stops:rings", "must name a module that can be imported; stops raises SystemExit: 3"),
    ("needs:rings", "must name a module that can be imported; needs raises ModuleNotFoundError: No module named "),
    ("mytasks:ring", "must name a function of mytasks; it has no ring (did you mean rings?)"),
    ("mytasks:number", "must name a function; mytasks:number is 3"),
    *((f"mytasks:{name}", "must be a function that can be imported again by its name, at the top level of a module")
      for name in ("short", "part", "method")),
    ("mytasks:Draw", "mytasks:Draw(2, rng) must draw tasks; it raised TypeError"),
    ("mytasks:fails", "mytasks:fails(2, rng) must draw tasks; it raised KeyError: 'no data'"),
    ("mytasks:larger", "must give tasks with --states = 4; got --states = 5"),
]  # fmt: skip


@pytest.mark.parametrize("command", ["pretrain", "sweep"])
@pytest.mark.parametrize("text, message", REFUSED)
def test_what_draws_no_tasks_is_refused_before_anything_is_written(capsys, folder, command, text, message):
    status, out, err = call(capsys, command, "--out", "a", *SMALL, "--tasks", text)
    assert (status, out) == (2, "")
    assert err.startswith(f"ictd {command}: error: argument --tasks: {message}") and err.count("\n") == 1
    assert not (folder / "a").exists()


@pytest.mark.parametrize("command", ["pretrain", "sweep"])
@pytest.mark.parametrize("words", ["--family boyan", "--features gaussian", "--feature-scale 2"])
def test_options_of_a_family_are_refused_beside_it(capsys, folder, command, words):
    """Also with their defaults: the reader thinks that they count."""
    status, out, err = call(capsys, command, "--out", "a", *SMALL, "--tasks", "mytasks:rings", *words.split())
    message = f"argument {words.split()[0]}: makes no sense with --tasks, whose function decides about it"
    assert (status, out, err) == (2, "", f"ictd {command}: error: {message}\n")
    assert not (folder / "a").exists()


@pytest.fixture
def no_figures(monkeypatch):
    """Drawing takes longer than these runs."""
    monkeypatch.setattr(pytest.importorskip("ictd.runs.figures"), "write", lambda folder: None)


def test_a_run_with_tasks_of_ones_own_is_that_of_the_same_family(capsys, folder, no_figures):
    pytest.importorskip("torch")
    status, out, err = call(capsys, "pretrain", "--out", "own", *SMALL, "--tasks", "mytasks:rings")
    assert (status, err) == (0, "") and "(tasks of mytasks:rings" in out
    call(capsys, "pretrain", "--out", "family", *SMALL, "--family", "ring", "--feature-scale", "2")
    own, family = (runs.read(folder / name).history for name in ("own", "family"))
    assert own.keys() == family.keys()
    assert all(np.array_equal(own[name], family[name], equal_nan=True) for name in own)


def test_going_on_with_other_tasks_is_refused(capsys, folder, no_figures):
    pytest.importorskip("torch")
    command = ["sweep", "--out", "a", *SMALL, "--gamma", "0.5", "0.9"]
    assert call(capsys, *command, "--tasks", "mytasks:rings")[0] == 0
    for words, here in {"": "built-in", "--tasks mytasks:loops": "mytasks:loops (source "}.items():
        status, out, err = call(capsys, *command, *words.split())
        assert (status, out) == (2, "")
        assert err.startswith("ictd sweep: error: a holds results with another --tasks: mytasks:rings (source ")
        assert f" there, {here}" in err and "--force" in err
    status, out, err = call(capsys, *command, "0.7", "--tasks", "mytasks:rings")
    assert status == 0 and err.startswith("[3/3] gamma-0.7") and len(out.splitlines()) == 5


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize(
    "command, name, words",
    [
        ("pretrain", "presses_at_once", "there is no checkpoint yet: the same command goes on with a"),
        ("pretrain", "presses_later", "the checkpoint is saved, and the same command goes on with a"),
        ("sweep", "presses_later", "what is done is saved in a, and the same command goes on from there"),
    ],
)
def test_ctrl_c_says_what_is_saved(capsys, folder, command, name, words):
    pytest.importorskip("torch")
    status, out, err = call(capsys, command, "--out", "a", *SMALL, "--seeds", 1, "--tasks", f"mytasks:{name}")
    assert (status, out, err) == (130, "", f"\ninterrupted; {words}\n")


@pytest.mark.parametrize(
    "name, error", [("breaks_later", ValueError("no data")), ("runs_out", RuntimeError("no luck"))]
)
def test_a_function_that_fails_later_shows_where(capsys, folder, name, error):
    """As a traceback to its reader's own code; in a sweep, a point has failed."""
    pytest.importorskip("torch")
    with pytest.raises(type(error), match=f"^{error}$"):
        call(capsys, "pretrain", "--out", "a", *SMALL, "--tasks", f"mytasks:{name}")
    status, out, err = call(capsys, "sweep", "--out", "b", *SMALL, "--tasks", f"mytasks:{name}")
    assert status == 1 and err.splitlines()[1:] == [f"error: run: {type(error).__name__}: {error}"]
    assert out.split()[-4:] == ["failed", "saved", "in", "b"]


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_the_installed_command_finds_modules_of_the_current_folder(folder):
    """Its own folder comes first in the path of Python, not the current one."""
    pytest.importorskip("torch")
    (folder / "bin").mkdir()
    (folder / "bin" / "ictd").write_text("import sys\nfrom ictd.cli import main\nsys.exit(main())\n")
    command = [sys.executable, folder / "bin" / "ictd", "pretrain", "--out", "a", *SMALL, "--tasks", "mytasks:rings"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0 and "tasks of mytasks:rings" in done.stdout, done.stderr


@pytest.mark.parametrize("command", ["pretrain", "sweep"])
def test_the_help_says_what_the_function_is(capsys, command):
    out = " ".join(call(capsys, command, "--help")[1].split())
    assert "--tasks MODULE:FUNCTION function of your own that draws the tasks" in out
    assert "draw(count, rng) gives count tasks as ictd.tasks.Tasks" in out and "--tasks mytasks:draw" in out
