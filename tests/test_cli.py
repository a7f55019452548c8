"""The command line: exit statuses, messages, files. A few real processes, the rest in this one."""

import csv
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ictd
from ictd import _extras, _files, _training_cli, cli, evaluate, runs
from ictd.claims import verify
from ictd.runs import folder as run_folder

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
    assert [line.split()[2:4] for line in out.splitlines()[-2:]] == [["0", "1"], ["0", "2"]]
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
    assert out_file.read_text().startswith("state,visits,value,certainty_equivalence,standard_error\n")
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


# --------------------------------------------------------------------------- pretrain, sweep, figures

@pytest.mark.parametrize("words", [["pretrain", "--out", ""], ["sweep", "--out", ""], ["figures", ""]])
def test_an_empty_name_is_not_the_current_folder(capsys, tmp_path, monkeypatch, words):
    """As of a variable of the shell without a value."""
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *words)
    assert (status, out) == (2, "") and "must name a folder, '.' for the current one" in err
    assert os.listdir(tmp_path) == []


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


@pytest.mark.parametrize("words", ["figures runs", [Path("figures")], [None]])
def test_arguments_are_strings(words):
    with pytest.raises(TypeError, match="^arguments must be a list of strings; got"):
        cli.main(words)


SMALL = (
    "--states 4 --dim 2 --layers 2 --context 20 --steps 6 --batch 4 --records 3 --held-out 8 --neu-batches 3 "
    "--neu-batch 4 --seeds 2"
).split()


@pytest.fixture
def no_figures(monkeypatch):
    """Drawing takes longer than these runs; other tests draw."""
    figures = pytest.importorskip("ictd.runs.figures")

    def write(folder):
        for path in folder.rglob("summary.json"):
            (path.parent / "figure-a.svg").write_text("<svg/>")
        if (folder / "sweep.json").exists():
            (folder / "figure-overview.svg").write_text("<svg/>")

    monkeypatch.setattr(figures, "write", write)


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


RUN_FILES = ["checkpoint.npz", "config.json", "figure-a.svg", "history.npz", "summary.json"]


def test_pretrain_options_reach_the_configuration(capsys, tmp_path, no_figures):
    """Every field has an option; a value that is not the default arrives where it belongs."""
    pretrain = pytest.importorskip("ictd.pretrain")
    settings = {
        "--gamma": 0.75, "--states": 5, "--family": "ring", "--features": "triangular", "--dim": 3,
        "--feature-scale": 1.5, "--context": 15, "--reward-noise": 0.1, "--layers": 2, "--form": "dual_head",
        "--per-layer": None, "--free": "score", "--objective": "mc", "--steps": 2, "--batch": 3, "--rate": 0.01,
        "--final-rate": 0.5, "--clip": 0.2, "--init-scale": 0.03, "--init-reward-weight": 0.05, "--dtype": "float64",
        "--records": 1, "--held-out": 7, "--neu-batches": 4, "--neu-batch": 5, "--held-out-seed": 6,
    }  # fmt: skip
    words = [str(word) for pair in settings.items() for word in pair if word is not None]
    status, out, err = call(capsys, "pretrain", "--out", tmp_path / "a", *words, "--seeds", 2, "--first-seed", 7)
    assert (status, err) == (0, "")
    assert "2 seeds (7 to 8), 2 steps, objective mc: gamma 0.75, 2 layers, 5 states, 3 features (triangular)" in out
    assert out.endswith(f"saved in {tmp_path / 'a'}\n")
    content = json.loads((tmp_path / "a" / "config.json").read_text())
    assert content["seeds"] == [7, 8]
    given = settings | {"--per-layer": False}  # stored as shared
    expected = {field: given[option] for field, option, *_ in _training_cli.OPTIONS}
    assert content["config"] == expected
    default = pretrain.Config()
    assert [field for field in expected if getattr(default, field) == expected[field]] == []
    assert set(expected) == {field.name for field in dataclasses.fields(default)}


def test_pretrain_defaults_are_those_of_the_configuration():
    pretrain = pytest.importorskip("ictd.pretrain")
    options = cli.parser("pretrain").parse_args(["pretrain", "--out", "a"])
    assert _training_cli.values(options) == {}
    assert _training_cli.config() == pretrain.Config()
    assert (options.seeds, options.first_seed, options.threads) == (20, 0, 1)
    assert _training_cli.config(features="one_hot", n_states=6).dim == 6
    assert _training_cli.config(features="one_hot").dim == 10


def test_pretrain_then_again_then_force(capsys, tmp_path, no_figures):
    pytest.importorskip("torch")
    folder = tmp_path / "deep" / "a"
    command = ["pretrain", "--out", folder, *SMALL]
    assert call(capsys, *command)[0] == 0
    assert tree(folder) == RUN_FILES
    before = {path: path.read_bytes() for path in folder.iterdir()}
    status, out, err = call(capsys, *command)
    assert (status, out) == (2, "") and "holds this run already, finished; pass --force" in err
    for extra, words in {
        ("--gamma", "0.25"): "another --gamma: 0.5 there, 0.25 here",
        ("--per-layer",): "another --per-layer: no there, yes here",
        ("--context", "21"): "another --context: 20 there, 21 here",
        ("--first-seed", "3"): "another --seeds/--first-seed: 2 seeds (0 to 1) there, 2 seeds (3 to 4) here",
        ("--threads", "2"): "another --threads: 1 there, 2 here",
    }.items():
        status, out, err = call(capsys, *command, *extra)
        assert (status, out) == (2, "") and words in err and "--force" in err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    status, out, err = call(capsys, *command, "--gamma", "0.25", "--force")
    assert (status, err) == (0, "") and "gamma 0.25" in out
    assert tree(folder) == RUN_FILES


def test_pretrain_goes_on_and_says_so(capsys, tmp_path, no_figures):
    pretrain = pytest.importorskip("ictd.pretrain")
    options = cli.parser("pretrain").parse_args(["pretrain", "--out", "a", *SMALL])
    config = _training_cli.config(**{field: value[0] for field, value in _training_cli.values(options).items()})
    runs.begin(tmp_path / "a", config, [0, 1], 1, pretrain.versions() | {"torch": "1.0"})
    status, _, err = call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL)
    assert status == 0
    assert f"going on with the run in {tmp_path / 'a'}; it was begun with torch 1.0, so it may differ" in err


def test_pretrain_reports_seeds_that_diverge(capsys, tmp_path, no_figures, monkeypatch):
    pretrain = pytest.importorskip("ictd.pretrain")
    start = pretrain.initial_parameters

    def wild(config, seed):
        return {name: value * (1e30 if seed == 1 else 1) for name, value in start(config, seed).items()}

    monkeypatch.setattr("ictd.pretrain.steps.initial_parameters", wild)
    status, out, err = call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL)
    assert status == 0 and "seed 1 stopped at step 0" in out
    assert err == "warning: 1 of 2 seeds diverged: 1\n"
    status, out, err = call(capsys, "pretrain", "--out", tmp_path / "b", *SMALL, "--seeds", 1, "--first-seed", 1)
    assert status == 1 and err == "warning: 1 of 1 seeds diverged: 1\n"
    status, out, err = call(capsys, "sweep", "--out", tmp_path / "c", *SMALL, "--objective", "td", "mc")
    assert status == 0 and "warning: objective-td: 1 of 2 seeds diverged" in err


def test_pretrain_reports_a_bad_checkpoint(capsys, tmp_path, no_figures):
    pytest.importorskip("torch")
    call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL)
    for name in ("summary.json", "history.npz"):
        (tmp_path / "a" / name).unlink()
    (tmp_path / "a" / "checkpoint.npz").write_bytes(b"damaged")
    status, out, err = call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL)
    assert (status, out) == (2, "") and "checkpoint.npz" in err and "pass --force to start anew" in err
    assert (tmp_path / "a" / "checkpoint.npz").read_bytes() == b"damaged"


def test_pretrain_reports_too_little_memory(capsys, tmp_path):
    pytest.importorskip("torch")
    status, out, err = call(capsys, "pretrain", "--out", tmp_path / "a", "--states", 200_000)
    assert (status, out) == (2, "") and "not enough memory" in err and "Traceback" not in err


def test_pretrain_without_matplotlib_says_how_to_draw_later(capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL)
    assert status == 0 and "trained" in out
    assert "pip install 'ictd[plots]'" in err and f"ictd figures {tmp_path / 'a'}" in err
    assert tree(tmp_path / "a") == [name for name in RUN_FILES if not name.startswith("figure")]
    status, out, err = call(capsys, "figures", tmp_path / "a")
    assert (status, out) == (2, "") and "pip install 'ictd[plots]'" in err


@pytest.mark.parametrize("command", ["pretrain", "sweep"])
def test_training_without_torch_names_the_extra(capsys, tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "torch", None)
    status, out, err = call(capsys, command, "--out", tmp_path / "a")
    assert (status, out) == (2, "")
    assert err.startswith(f"ictd {command}: error: torch ") and "pip install 'ictd[torch]'" in err
    assert list(tmp_path.iterdir()) == []


WRONG = [
    ("--gamma 1", "argument --gamma: must be in [0, 1); got 1.0"),
    ("--gamma nan", "argument --gamma: must be in [0, 1); got nan"),
    ("--gamma high", "argument --gamma: must be a number; got 'high'"),
    ("--gamma", "argument --gamma: expected"),
    ("--layers 0", "argument --layers: must be an integer of at least 1; got 0"),
    ("--layers 2.5", "argument --layers: must be an integer; got '2.5'"),
    ("--layers 1_0", "argument --layers: must be an integer; got '1_0'"),
    ("--states 2", "argument --states: must be an integer of at least 3; got 2"),
    ("--context -1", "argument --context: must be an integer of at least 1; got -1"),
    ("--steps 99999999999", "argument --steps: must be"),
    ("--rate 0", "argument --rate: must be in (0"),
    ("--rate inf", "argument --rate: must be in (0"),
    ("--rate 1e38", "argument --rate: must be in (0"),
    ("--final-rate 2", "argument --final-rate: must be in [0, 1]; got 2.0"),
    ("--neu-batches 2", "argument --neu-batches: must be an integer of at least 3; got 2"),
    ("--objective adam", "argument --objective: invalid choice: 'adam'"),
    ("--form ring", "argument --form: invalid choice: 'ring'"),
    ("--dtype int8", "argument --dtype: invalid choice"),
    ("--features one_hot --dim 4", "argument --dim: must equal --states = 10 for one-hot features; got 4"),
    ("--features triangular --dim 1", "argument --dim: must be at least 2 for triangular features; got 1"),
    ("--free both --form independent_heads", "argument --free: must be 'none' for independent heads; got 'both'"),
    ("--seeds 0", "argument --seeds: must be an integer from 1"),
    ("--first-seed -1", "argument --first-seed: must be an integer from 0"),
    ("--threads 0", "argument --threads: must be an integer from 1"),
    ("--save-every -1", "argument --save-every: must be in [0"),
    ("--n_layers 5", "unrecognized arguments: --n_layers 5 (did you mean --layers?)"),
    ("--layer 5", "unrecognized arguments: --layer 5 (did you mean --layers?)"),
    ("--gamma -1e-3", "argument --gamma: must be in [0, 1); got -0.001"),
    ("--clip -inf", "argument --clip: must be in (0, 1e+30]; got -inf"),
    ("extra", "unrecognized arguments: extra"),
]
WRONG_PRETRAIN = [
    ("--gamma 0.5 0.9", "unrecognized arguments: 0.9"),
    ("--scheduler tcp://a:1", "unrecognized arguments: --scheduler"),
]
WRONG_SWEEP = [
    ("--gamma 0.5 --gamma 0.9", "argument --gamma: is given twice; give all values at once, as in --gamma A B"),
    ("--per-layer no --per-layer", "argument --per-layer: is given twice"),
    ("--gamma 0.5 0.9 0.5", "argument --gamma: must have different values; got gamma-0.5 twice"),
    ("--gamma 0.5 1", "argument --gamma: must be in [0, 1); got 1.0"),
    ("--per-layer maybe", "argument --per-layer: invalid choice: 'maybe'"),
    ("--per-layer no no", "argument --per-layer: must have different values; got per-layer-no twice"),
    ("--held-out 8 9", "unrecognized arguments: 9"),
    ("--features gaussian one_hot --dim 4", "argument --dim: must equal --states = 10 for one-hot features; got 4"),
    ("--patience 3", "argument --patience: makes no sense without --scheduler"),
    ("--scheduler here --patience 0", "argument --patience: must be in (0"),
    ("--scheduler nowhere", "no scheduler answers at nowhere"),
]


@pytest.mark.parametrize(
    "command, words, message",
    [
        (c, *case)
        for c, cases in (("pretrain", WRONG + WRONG_PRETRAIN), ("sweep", WRONG + WRONG_SWEEP))
        for case in cases
    ],
)
def test_training_refuses_wrong_use_before_anything_is_written(capsys, tmp_path, command, words, message):
    pytest.importorskip("torch")
    if "nowhere" in words:
        pytest.importorskip("distributed")
    status, out, err = call(capsys, command, "--out", tmp_path / "a", *words.split())
    assert (status, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith(f"ictd {command}: error: ") or last.startswith("ictd: error: ")
    assert message in last
    assert list(tmp_path.iterdir()) == []


def test_training_needs_a_folder(capsys):
    pytest.importorskip("torch")
    for command in ("pretrain", "sweep"):
        status, _, err = call(capsys, command)
        assert status == 2 and "required: --out" in err
    assert call(capsys, "figures")[0] == 2


def test_training_refuses_places_that_are_no_folder(capsys, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "file").write_text("mine")
    for command in ("pretrain", "sweep"):
        status, out, err = call(capsys, command, "--out", tmp_path / "file", *SMALL)
        assert (status, out) == (2, "") and "is a file" in err
        status, out, err = call(capsys, command, "--out", tmp_path, *SMALL)
        assert (status, out) == (2, "") and "holds files but no" in err
    status, out, err = call(capsys, "figures", tmp_path)
    assert (status, out) == (2, "") and "holds files but no run" in err
    assert tree(tmp_path) == ["file"]


@pytest.mark.parametrize("command", ["pretrain", "sweep"])
def test_help_mentions_every_option_and_every_file(capsys, command):
    pytest.importorskip("torch")
    status, out, _ = call(capsys, command, "--help")
    assert status == 0 and f"\nexamples:\n  ictd {command}" in out
    options = {option for _, option, *_ in _training_cli.OPTIONS} | {
        "--out",
        "--seeds",
        "--first-seed",
        "--threads",
        "--save-every",
    }
    options |= {"--force"} | ({"--scheduler", "--patience"} if command == "sweep" else set())
    for option in options:
        assert re.search(rf"^  {option}[ \n]", out, re.MULTILINE), option
    files = {"pretrain": ["config.json", "checkpoint.npz", "history.npz", "figure-*.svg", "summary.json"]}
    for name in files.get(command, ["sweep.json", "figure-overview.svg"]):
        assert name in out
    assert "Exit status" in out


def test_the_help_names_every_array_of_the_history():
    pretrain = pytest.importorskip("ictd.pretrain")
    for field in dataclasses.fields(pretrain.History):
        assert field.name in _training_cli.PRETRAIN_EXAMPLES


def test_the_examples_of_the_help_are_right():
    pytest.importorskip("torch")
    seen = 0
    for command in ("pretrain", "sweep"):
        for line in getattr(_training_cli, f"{command.upper()}_EXAMPLES").splitlines():
            if line.startswith(f"  ictd {command}"):
                words = line.strip().partition("   ")[0].split()  # without the comment
                options = cli.parser(command).parse_args(words[1:])
                assert sweep_points(options)
                seen += 1
    assert seen == 8


def sweep_points(options):
    from ictd.runs import grid

    return grid.grid(_training_cli.values(options), _training_cli.label, _training_cli.config)


def test_sweep_prints_a_line_for_each_point(capsys, tmp_path, no_figures):
    pytest.importorskip("torch")
    command = ["sweep", "--out", tmp_path / "a", *SMALL, "--per-layer", "no", "yes", "--gamma", "0.5", "0.9"]
    status, out, err = call(capsys, *command)
    assert status == 0
    names = [f"gamma-{gamma}_per-layer-{word}" for gamma in (0.5, 0.9) for word in ("no", "yes")]
    assert [line.split()[1].rstrip(":") for line in err.splitlines()] == names
    head, *lines, last = out.splitlines()
    assert head.split()[:4] == ["gamma", "per-layer", "pattern", "value"]
    assert [line.split()[:2] for line in lines] == [["0.5", "no"], ["0.5", "yes"], ["0.9", "no"], ["0.9", "yes"]]
    for name, line in zip(names, lines):
        assert f" {runs.read(tmp_path / 'a' / name).numbers()['value_error_median']:.3g} " in line
    assert last == f"saved in {tmp_path / 'a'}"
    files = [f"{name}/{file}" for name in names for file in RUN_FILES] + ["figure-overview.svg", "sweep.json"]
    assert tree(tmp_path / "a") == sorted(files)
    status, out_again, err = call(capsys, *command)  # nothing left to do
    assert (status, out_again, err) == (0, out, "")
    status, out, err = call(capsys, *command[:-3], "--gamma", "0.5")
    assert (status, out) == (2, "") and "another --gamma: 0.5 0.9 there, 0.5 here" in err


def test_sweep_with_a_point_that_fails(capsys, tmp_path, no_figures):
    pytest.importorskip("torch")
    command = ["sweep", "--out", tmp_path / "a", *SMALL, "--gamma", "0.5", "0.9"]
    call(capsys, *command)
    (tmp_path / "a" / "gamma-0.5" / "summary.json").write_text("{")
    status, out, err = call(capsys, *command)
    assert status == 1 and "error: gamma-0.5: " in err and "damaged" in err
    assert out.splitlines()[1].split() == ["0.5", "failed"] and out.splitlines()[2].split()[0] == "0.9"


def test_figures_draws_what_is_missing(capsys, tmp_path):
    pytest.importorskip("torch")
    figures = pytest.importorskip("ictd.runs.figures")
    call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL)
    names = sorted(figures.OF_RUN)
    assert sorted(path.name for path in (tmp_path / "a").glob("*.svg")) == names
    status, out, err = call(capsys, "figures", tmp_path / "a")
    assert (status, out, err) == (0, f"{tmp_path / 'a'}: all 5 figures exist (--force draws them again)\n", "")
    (tmp_path / "a" / names[0]).unlink()
    (tmp_path / "a" / names[1]).write_text("mine")
    status, out, err = call(capsys, "figures", tmp_path / "a")
    assert (status, err) == (0, "") and out.startswith(f"1 figure drawn in {tmp_path / 'a'}, 4 exist already")
    assert (tmp_path / "a" / names[1]).read_text() == "mine"
    status, out, err = call(capsys, "figures", tmp_path / "a", "--force")
    assert (status, out) == (0, f"5 figures drawn in {tmp_path / 'a'}\n")
    assert (tmp_path / "a" / names[1]).read_text() != "mine"


def test_pretrain_is_not_lost_to_a_figure(capsys, tmp_path, monkeypatch):
    """A run whose figures fail is finished, and says how to draw them later; the command figures says why it cannot."""
    pytest.importorskip("torch")
    figures = pytest.importorskip("ictd.runs.figures")

    def broken(*_, **__):
        raise RuntimeError("no font\nis here")

    monkeypatch.setattr(figures, "write", broken)
    status, out, err = call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL)
    note = "note: no figures, because they cannot be drawn (RuntimeError: no font is here); try: ictd figures "
    assert (status, err) == (0, f"{note}{tmp_path / 'a'}\n") and "saved in" in out
    assert runs.state(tmp_path / "a") == "finished"
    status, out, err = call(capsys, "figures", tmp_path / "a")
    assert (status, out) == (2, "") and "figures cannot be drawn (RuntimeError: no font is here)" in err


@pytest.mark.skipif(_files.fcntl is None, reason="there are no locks of folders")
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_folder_in_use_is_refused_and_nothing_else_is_said(capsys, tmp_path, force):
    pretrain = pytest.importorskip("ictd.pretrain")
    pytest.importorskip("torch")
    options = cli.parser("pretrain").parse_args(["pretrain", "--out", "a", *SMALL])
    config = _training_cli.config(**{field: value[0] for field, value in _training_cli.values(options).items()})
    runs.begin(tmp_path / "a", config, [0, 1], 1, pretrain.versions())
    with run_folder.locked(tmp_path / "a"):
        status, out, err = call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL, *force)
    message = f"ictd pretrain: error: {tmp_path / 'a'} is in use: another process works in it\n"
    assert (status, out, err) == (2, "", message)


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", "2> >(true)"])
def test_training_goes_on_without_standard_error(tmp_path, stream):
    """Closed, on a full disk, or into a pipe that nobody reads: every point is done."""
    pytest.importorskip("torch")
    if "full" in stream and not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    small = " ".join(SMALL)
    code = "import sys; sys.modules['matplotlib'] = None; from ictd import cli; sys.exit(cli.main())"  # it would draw
    commands = {"a": f"pretrain {small}", "b": f"sweep {small} --gamma 0.5 0.9"}
    if "&-" not in stream:
        del commands["a"]  # a sweep runs and reports in the same way
    for folder, command in commands.items():
        line = f"""exec '{sys.executable}' -c "{code}" {command} --out '{tmp_path / folder}' {stream}"""
        done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.endswith(f"saved in {tmp_path / folder}\n"), done
    for folder in [*(["a"] if "a" in commands else []), "b/gamma-0.5", "b/gamma-0.9"]:
        assert runs.read(tmp_path / folder).alive.all()


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


# ------------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("command", ["", "pretrain", "sweep", "figures", "evaluate", "verify"])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_follows_the_width_of_the_terminal(capsys, monkeypatch, command, width):
    """No line is longer, but for a single word, and paragraphs use the width that is there."""
    monkeypatch.setenv("COLUMNS", str(width))
    status, out, _ = call(capsys, *command.split(), "--help")
    assert status == 0
    long = [line for line in out.splitlines() if len(line) > width and len(line.split()) > 2]
    assert long == []
    texts = {name: getattr(_training_cli, f"{name.upper()}_HELP") for name in ("pretrain", "sweep", "figures")}
    if command in texts:
        words = texts[command].split()
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


@pytest.mark.parametrize("command", ["", "pretrain", "sweep", "figures", "evaluate", "verify"])
def test_help_loads_neither_torch_nor_matplotlib(command):
    """It is there at once, and also where they are missing."""
    code = (
        "import sys; from ictd import cli\ntry: cli.main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'matplotlib', 'IPython', 'distributed')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split(), "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.startswith(f"usage: ictd {command}".rstrip())



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
