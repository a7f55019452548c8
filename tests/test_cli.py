"""The command line: exit statuses, messages, files. A few real processes, the rest in this one."""

import csv
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ictd
from ictd import cli, evaluate, verify

ROOT = Path(__file__).parents[1]
GOOD = "state,reward\na,1\nb,2\na,1\nb,2\na,\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trip.csv"
    path.write_text(GOOD)
    return path


def call(capsys, *arguments):
    """Exit status, standard output and standard error of the command in this process."""
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def process(*arguments, **options):
    """The same in a process of its own."""
    options = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 60} | options
    return subprocess.run([sys.executable, "-m", "ictd", *map(str, arguments)], **options)


# ------------------------------------------------------------------------------------------- evaluate


def test_evaluate_prints_and_saves_the_same_table(capsys, file, tmp_path):
    status, out, err = call(capsys, "evaluate", file, "--scale", 10, "--layers", 300)
    assert (status, err) == (0, "")
    assert "4 transitions, 2 states, one-hot features" in out
    # v(a) = 1 + .9 v(b), v(b) = 2 + .9 v(a)
    expected = [(1 + 0.9 * 2) / 0.19, (2 + 0.9) / 0.19]
    with open(tmp_path / "trip-values.csv", newline="") as saved:
        rows = list(csv.DictReader(saved))
    assert [row["state"] for row in rows] == ["a", "b"]
    assert [row["visits"] for row in rows] == ["2", "2"]
    for row, value in zip(rows, expected):
        assert float(row["value"]) == pytest.approx(value, rel=1e-9)
        assert float(row["certainty_equivalence"]) == pytest.approx(value, rel=1e-12)
        assert f"{float(row['value']):.6g}" in out
    assert f"saved to {tmp_path / 'trip-values.csv'}" in out


def test_evaluate_options_reach_the_algorithm(capsys, file):
    _, out, _ = call(capsys, "evaluate", file, "--no-save", "--gamma", "0", "--layers", "0")
    assert "gamma 0, 0 layers, score scale 1" in out
    assert [line.split()[2:] for line in out.splitlines()[-2:]] == [["0", "1"], ["0", "2"]]
    assert "gamma 0, 50 layers" in call(capsys, "evaluate", file, "--no-save", "--gamma=-0")[1]


def test_evaluate_says_what_is_missing(capsys, tmp_path):
    path = tmp_path / "open.csv"
    path.write_text("state,reward,done,x1\na,1,0,1\nb,2,0,2\nend,,1,3\n")
    status, out, err = call(capsys, "evaluate", path, "--out", tmp_path / "v.csv")
    assert status == 0
    assert "note: ignored columns: done" in err
    assert "warning: state 'end' was never left" in err
    assert out.splitlines()[-3].split()[-1] == "-"
    assert (tmp_path / "v.csv").read_text().splitlines()[1:][0].endswith(",")
    assert not (tmp_path / "open-values.csv").exists()


def test_evaluate_never_overwrites_unasked(capsys, file, tmp_path):
    out_file = tmp_path / "trip-values.csv"
    out_file.write_text("precious")
    status, out, err = call(capsys, "evaluate", file)
    assert (status, out) == (2, "")  # refused before any work
    assert "--force" in err and "--out" in err and str(out_file) in err
    assert call(capsys, "evaluate", file, "--out", out_file)[0] == 2
    assert out_file.read_text() == "precious"
    assert call(capsys, "evaluate", file, "--force")[0] == 0
    assert out_file.read_text().startswith("state,visits,value,certainty_equivalence\n")
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "nowhere.csv")
    status, out, err = call(capsys, "evaluate", file, "--out", link)
    assert (status, out) == (2, "") and f"{link} exists" in err
    assert call(capsys, "evaluate", file, "--out", link, "--force")[0] == 0
    assert (tmp_path / "nowhere.csv").read_text().startswith("state,visits")


def test_evaluate_never_overwrites_its_input(capsys, file, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(file)
    for out in (file, link):
        status, _, err = call(capsys, "evaluate", file, "--out", out, "--force")
        assert status == 2 and "the trajectory itself" in err
    assert file.read_text() == GOOD


@pytest.mark.parametrize(
    "out, words", [("absent/v.csv", "no directory"), (".", "is a directory"), ("trip.csv/v.csv", "no directory")]
)
def test_evaluate_refuses_impossible_outputs(capsys, file, tmp_path, out, words):
    status, printed, err = call(capsys, "evaluate", file, "--out", tmp_path / out)
    assert (status, printed) == (2, "")
    assert words in err


def test_evaluate_says_when_it_cannot_write(capsys, file, tmp_path):
    status, _, err = call(capsys, "evaluate", file, "--out", tmp_path / ("v" * 300))
    assert status == 2 and "cannot be written" in err and "Traceback" not in err


def test_evaluate_prints_the_table_also_when_writing_fails(capsys, file, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluate.Evaluation, "save", full)
    status, out, err = call(capsys, "evaluate", file)
    assert status == 2 and "No space left" in err
    assert "certainty equivalence" in out and "saved" not in out


@pytest.mark.parametrize(
    "options, words",
    [
        (["--gamma", "1"], ["--gamma", "[0, 1)", "1"]),
        (["--gamma", "nan"], ["--gamma", "[0, 1)", "nan"]),
        (["--gamma", "high"], ["--gamma", "[0, 1)", "'high'"]),
        (["--gamma=-0.5"], ["--gamma", "[0, 1)", "-0.5"]),
        (["--layers", "-1"], ["--layers", "0", "-1"]),
        (["--layers", "2.5"], ["--layers", "integer", "'2.5'"]),
        (["--layers", "1_0"], ["--layers", "integer", "'1_0'"]),
        (["--scale", "1_0"], ["--scale", "number", "'1_0'"]),
        (["--layers", "10000000"], ["--layers", "1000000"]),
        (["--scale", "0"], ["--scale", "(0", "0"]),
        (["--scale", "inf"], ["--scale", "inf"]),
        (["--out", "v.csv", "--no-save"], ["--no-save", "not allowed with", "--out"]),
        (["--force", "--no-save"], ["--force", "--no-save"]),
        (["--layer", "5"], ["unrecognized", "--layer"]),
        (["second.csv"], ["unrecognized", "second.csv"]),
        (["--out"], ["--out", "expected one argument"]),
    ],
)
def test_evaluate_refuses_bad_options_by_name(capsys, file, tmp_path, options, words):
    status, out, err = call(capsys, "evaluate", file, *options)
    assert (status, out) == (2, "")
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "content, words",
    [
        ("state,reward\na,1\nb,x\na,\n", ["trip.csv, line 3, column reward: 'x'"]),
        ("state,reward\n" + "".join(f"{i},0\n" for i in range(2001)) + "0,\n", ["trip.csv", "2000 different", "bins"]),
    ],
)
def test_evaluate_refuses_faulty_files(capsys, file, tmp_path, content, words):
    file.write_text(content)
    status, out, err = call(capsys, "evaluate", file)
    assert (status, out) == (2, "")
    assert err.startswith("ictd evaluate: error: ") and err.count("\n") == 1
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["", ".", "/", "absent.csv"])
def test_evaluate_refuses_what_is_no_file(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, "evaluate", name)
    assert (status, out) == (2, "") and "cannot be read" in err


def test_evaluate_is_quick_on_a_long_file(capsys, tmp_path):
    rng = np.random.default_rng(0)
    states = rng.integers(0, 100, 100_000)
    path = tmp_path / "long.csv"
    path.write_text("state,reward\n" + "".join(f"{s},{s % 7}\n" for s in states) + "0,\n")
    start = time.process_time()
    status, out, _ = call(capsys, "evaluate", path)
    assert status == 0 and "100000 transitions, 100 states" in out
    assert time.process_time() - start < 2


# --------------------------------------------------------------------------------------------- verify


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
    monkeypatch.setattr(verify, "torch_problem", lambda: "does not work here (OSError: no library)")
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


# ------------------------------------------------------------------------------------------- the rest


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


def test_evaluate_needs_neither_torch_nor_matplotlib(file):
    code = (
        "import sys; sys.modules.update(torch=None, matplotlib=None, ipywidgets=None, gymnasium=None); "
        "from ictd import cli; sys.exit(cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "evaluate", file, "--no-save"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "2 states" in done.stdout
