"""``ictd pretrain``, ``ictd sweep`` and ``ictd figures``: options, messages, exit statuses, files."""

import dataclasses
import json
import os
import re
import subprocess
import sys

import pytest
from commands import ROOT, call, module

from ictd import _files, runs
from ictd.cli import entry, settings
from ictd.pretrain import Config
from ictd.runs.folder import locked


@pytest.mark.parametrize("words", [["pretrain", "--out", ""], ["sweep", "--out", ""], ["figures", ""]])
def test_an_empty_name_is_not_the_current_folder(capsys, tmp_path, monkeypatch, words):
    """As of a variable of the shell without a value."""
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *words)
    assert (status, out) == (2, "") and "must name a folder, '.' for the current one" in err
    assert os.listdir(tmp_path) == []


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
    pytest.importorskip("torch")
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
    expected = {field.name: given[field.metadata["option"]] for field in dataclasses.fields(Config)}
    assert content["config"] == expected
    default = Config()
    assert [field for field in expected if getattr(default, field) == expected[field]] == []


def configured(*words):
    """The configuration that the options of ``ictd pretrain`` give."""
    options = entry.parser("pretrain").parse_args(["pretrain", "--out", "a", *words])
    return settings.config(**{field: value[0] for field, value in settings.values(options).items()})


def test_pretrain_defaults_are_those_of_the_configuration():
    options = entry.parser("pretrain").parse_args(["pretrain", "--out", "a"])
    assert settings.values(options) == {}
    assert configured() == Config()
    assert (options.seeds, options.first_seed, options.threads) == (20, 0, 1)
    assert configured("--features", "one_hot", "--states", "6").dim == 6
    assert configured("--features", "one_hot").dim == 10


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
    runs.begin(tmp_path / "a", configured(*SMALL), [0, 1], 1, pretrain.versions() | {"torch": "1.0"})
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


def test_pretrain_reports_a_file_that_cannot_be_written(capsys, tmp_path, no_figures):
    pytest.importorskip("torch")
    (tmp_path / "a" / "history.npz").mkdir(parents=True)
    runs.begin(tmp_path / "b", configured(*SMALL), [0, 1], 1, {})
    (tmp_path / "b" / "config.json").rename(tmp_path / "a" / "config.json")
    status, out, err = call(capsys, "pretrain", "--out", tmp_path / "a", *SMALL)
    assert (status, out) == (2, "") and err.splitlines()[-1].startswith(
        f"ictd pretrain: error: {tmp_path / 'a'}: cannot be read or written: "
    )


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
    status, out, _ = call(capsys, command, "--help")
    assert status == 0 and f"\nexamples:\n  ictd {command}" in out
    options = {field.metadata["option"] for field in dataclasses.fields(Config)}
    options |= {"--out", "--seeds", "--first-seed", "--threads", "--save-every"}
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
        assert field.name in module("pretrain").EXAMPLES


def test_the_examples_of_the_help_are_right():
    pytest.importorskip("torch")
    seen = 0
    for command in ("pretrain", "sweep"):
        for line in module(command).EXAMPLES.splitlines():
            if line.startswith(f"  ictd {command}"):
                words = line.strip().partition("   ")[0].split()  # without the comment
                options = entry.parser(command).parse_args(words[1:])
                assert sweep_points(options)
                seen += 1
    assert seen == 10


def sweep_points(options):
    from ictd.runs import grid

    return grid.grid(settings.values(options), settings.label, settings.config)


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


def test_figures_of_a_sweep_name_the_runs_that_are_missing(capsys, tmp_path, no_figures, monkeypatch):
    pytest.importorskip("torch")
    call(capsys, "sweep", "--out", tmp_path / "a", *SMALL, "--gamma", "0.5", "0.9")
    (tmp_path / "a" / "gamma-0.9" / "summary.json").unlink()
    for path in (tmp_path / "a").rglob("figure-*"):
        path.unlink()
    monkeypatch.undo()
    status, out, err = call(capsys, "figures", tmp_path / "a")
    assert (status, out) == (0, f"6 figures drawn in {tmp_path / 'a'}\n")
    assert err == f"note: {tmp_path / 'a' / 'gamma-0.9'} is not finished: the same command goes on\n"


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
    runs.begin(tmp_path / "a", configured(*SMALL), [0, 1], 1, pretrain.versions())
    with locked(tmp_path / "a"):
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
