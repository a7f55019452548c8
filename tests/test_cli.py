"""The command line: exit statuses, streams, help, and ``ictd verify``. A few real processes, the rest in this one."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import ROOT, call, module, process

import ictd
from ictd import _extras, cli
from ictd.claims import verify
from ictd.cli import entry


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trip.csv"
    path.write_text("state,reward\na,1\nb,2\na,1\nb,2\na,\n")
    return path


# ------------------------------------------------------------------------------------------------------------- verify


def test_verify_prints_a_line_per_claim(capsys):
    status, out, err = call(capsys, "verify", "--instances", 2, "--seed", 5)
    assert (status, err) == (0, "")
    for claim in verify.CLAIMS:
        assert any(line.startswith(claim.text) and claim.source in line for line in out.splitlines())
    assert "hold on 2 random instances each (seed 5)" in out


def test_verify_fails_with_status_one(capsys, monkeypatch):
    broken = verify.Claim("broken", "ours", lambda case: 1e-9)
    monkeypatch.setattr(verify, "CLAIMS", (*verify.CLAIMS[-2:], broken))
    status, out, _ = call(capsys, "verify", "--instances", 1)
    assert status == 1
    assert "FAILED: 1 of 3 claims" in out


def test_verify_with_a_broken_torch_says_what_is_wrong(capsys, monkeypatch):
    monkeypatch.setattr(_extras, "torch_problem", lambda: "does not work here (OSError: no library)")
    status, out, _ = call(capsys, "verify", "--instances", 1)
    assert status == 0 and "claims need torch, which does not work here (OSError: no library). Install it" in out


def test_verify_without_torch_says_what_it_skipped(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch now raises ImportError
    status, out, _ = call(capsys, "verify", "--instances", 1)
    skipped = sum(claim.needs_torch for claim in verify.CLAIMS)
    assert status == 0
    assert f"SKIPPED: {skipped} of {len(verify.CLAIMS)} claims need torch" in out
    assert "pip install 'ictd[torch]'" in out
    assert f"{len(verify.CLAIMS) - skipped} claims hold" in out
    assert sum(line.endswith("skipped") for line in out.splitlines()) == skipped


@pytest.mark.parametrize(
    "options, word", [(["--instances", "0"], "--instances"), (["--seed", "-1"], "--seed"), (["--seed", "x"], "--seed")]
)
def test_verify_refuses_bad_options_by_name(capsys, options, word):
    status, out, err = call(capsys, "verify", *options)
    assert (status, out) == (2, "")
    assert f"argument {word}" in err


# --------------------------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize("command", ["", *entry.COMMANDS])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_follows_the_width_of_the_terminal(capsys, monkeypatch, command, width):
    """No line is longer, but for a single word, and paragraphs use the width that is there."""
    monkeypatch.setenv("COLUMNS", str(width))
    status, out, _ = call(capsys, *command.split(), "--help")
    assert status == 0
    long = [line for line in out.splitlines() if len(line) > width and len(line.split()) > 2]
    assert long == []
    if command in ("pretrain", "sweep", "figures"):
        words = module(command).HELP.split()
        assert " ".join(out.split()).count(" ".join(words)) == 1
        first = out[out.index(" ".join(words[:3])) :].split("\n\n")[0].splitlines()
        assert len(first) == 1 or min(map(len, first[:-1])) > width - 25


def test_help_keeps_columns_and_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out = call(capsys, "pretrain", "--help")[1]
    assert "\n  ictd pretrain --out runs/a\n      20 seeds at gamma 0.5, half a minute\n" in out
    assert "\n  config.json      settings, seeds, versions\n" in out
    assert "\n  checkpoint.npz   written every few seconds: the same\n                   command goes on from it" in out
    monkeypatch.setenv("COLUMNS", "120")
    out = call(capsys, "pretrain", "--help")[1]
    assert re.search(r"\n  ictd pretrain --out runs/a {20,}20 seeds at gamma 0.5, half a minute\n", out)


@pytest.mark.parametrize("command", ["", *entry.COMMANDS])
def test_help_loads_neither_torch_nor_matplotlib(command):
    """It is there at once, and also where they are missing; without NumPy but for commands about runs."""
    code = (
        "import sys; from ictd import cli\nassert 'numpy' not in sys.modules\n"
        "try: cli.main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "sys.exit(' '.join({'numpy', 'torch', 'matplotlib', 'IPython', 'distributed'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, *command.split(), "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(f"usage: ictd {' '.join(command[3:-1])}".rstrip())
    needs = "numpy" if command[3] in ("pretrain", "sweep", "figures") else ""
    assert done.stderr.strip() == needs


def test_without_arguments_it_prints_help(capsys):
    status, out, _ = call(capsys)
    assert status == 0
    assert "verify" in out and "evaluate" in out


def test_version(capsys):
    assert call(capsys, "--version")[:2] == (0, f"ictd {ictd.__version__}\n")


@pytest.mark.parametrize("command", ["verify", "evaluate"])
def test_help_has_examples(capsys, command):
    status, out, _ = call(capsys, command, "--help")
    assert status == 0
    assert f"\nexamples:\n  ictd {command}" in out


def test_unknown_command(capsys):
    status, _, err = call(capsys, "train")
    assert status == 2 and "train" in err


# ------------------------------------------------------------------------------------------------------------ streams


class Writer:
    """A stream of the reader's own that can only write, as those of some editors."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


def test_streams_that_can_only_write_are_enough(tmp_path, monkeypatch):
    out, err = Writer(), Writer()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert cli.main([]) == 0 and "usage: ictd" in out.text
    assert cli.main(["figures", str(tmp_path)]) == 2 and "ictd figures: error:" in err.text


def test_the_streams_are_left_as_they_were(tmp_path, monkeypatch):
    with open(tmp_path / "out", "w", errors="strict") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert cli.main([]) == 0 and out.errors == "strict"


def test_it_also_runs_in_another_thread(capsys):
    """There, nothing can be done about Ctrl-C."""
    with ThreadPoolExecutor() as pool:
        assert pool.submit(cli.main, ["verify", "--instances", "1"]).result() == 0
    assert "hold on 1 random instances each" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["figures runs", [Path("figures")], [None]])
def test_arguments_are_strings(words):
    with pytest.raises(TypeError, match="^arguments must be a list of strings; got"):
        cli.main(words)


def test_process_evaluate(file):
    done = process("evaluate", file, "--scale", "10", "--layers", "300")
    assert done.returncode == 0 and done.stderr == "" and "saved to" in done.stdout
    again = process("evaluate", file)
    assert again.returncode == 2 and "--force" in again.stderr and "Traceback" not in again.stderr


def test_process_with_a_poor_terminal_and_an_unreadable_file(tmp_path):
    path = tmp_path / "city.csv"
    path.write_text("state,reward\nZürich,1\nZürich,\n", encoding="utf-8")
    done = process("evaluate", path, "--no-save", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "Z\\xfcrich" in done.stdout
    missing = process("evaluate", tmp_path / "absent.csv")
    assert missing.returncode == 2 and "absent.csv: cannot be read" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_process_survives_a_reader_that_stops(tmp_path):
    path = tmp_path / "many.csv"
    labels = [f"{i:0500d}" for i in range(300)]  # more text than a pipe holds
    path.write_text("state,reward\n" + "".join(f"{label},0\n" for label in labels) + f"{labels[0]},\n")
    command = f"'{sys.executable}' -m ictd evaluate '{path}' | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("\n") == 1 and "Traceback" not in done.stderr and "Error" not in done.stderr
    assert len((tmp_path / "many-values.csv").read_text().splitlines()) == 301


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("unbuffered, command", [("", "verify --instances 1"), ("1", "evaluate trip.csv --no-save")])
def test_process_that_cannot_print(file, unbuffered, command):
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(ROOT)}
    options = {"cwd": file.parent, "env": env, "capture_output": False, "stderr": subprocess.PIPE}
    with open("/dev/full", "w") as full:
        done = process(*command.split(), stdout=full, **options)
    message = "ictd: error: standard output cannot be written: No space left on device\n"
    assert done.returncode == 2 and done.stderr.endswith(message) and "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_process_with_closed_output(file):
    command = ["sh", "-c", 'exec "$0" -m ictd evaluate "$1" >&-', sys.executable, file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "ictd: error: standard output is closed\n")
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("command", ["pretrain", "verify"])
def test_ctrl_c_while_packages_load_is_quiet(tmp_path, command):
    """At any moment from the first line of the package on: status 130, nothing printed, no folder."""
    pytest.importorskip("torch")
    # The process stops itself at the k-th module that it imports, as if Ctrl-C came there.
    code = """
import os, signal, sys
class Press:
    def __init__(self, count): self.count = count
    def find_spec(self, *_):
        self.count -= 1
        if self.count == 0: os.kill(os.getpid(), signal.SIGINT)
from ictd import cli
sys.meta_path.insert(0, Press(int(sys.argv.pop(1))))
sys.exit(cli.main())
"""
    options = ["--out", tmp_path / "a"] if command == "pretrain" else []
    for count in (1, 5, 20, 100, 400, 900):
        process = [sys.executable, "-c", code, str(count), command, *options]
        done = subprocess.run(process, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", ""), count
    assert list(tmp_path.iterdir()) == []
