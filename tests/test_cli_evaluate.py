"""``ictd evaluate`` on logs: options reach the reader, streams ask for a name, nothing is passed over in silence."""

import argparse
import csv
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import commands
import nbformat
import numpy as np
import pytest
from commands import ROOT

from ictd import evaluate
from ictd.cli import evaluate as evaluate_command

WALK = "state,reward\na,1\nb,2\na,1\nb,2\na,\n"
GAME = "game;room;coins;over;player\n1;hall;1;0;x\n1;attic;2;1;x\n2;hall;3;no;x\n2;hall;;no;x\n"
OPTIONS = ["--state", "room", "--reward", "coins", "--episode", "game", "--done", "over", "--sep", ";"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "walk.csv").write_text(WALK)
    (tmp_path / "game.csv").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trip.csv"
    path.write_text(WALK)
    return path


def call(capsys, *arguments):
    """Exit status, standard output and standard error of ``ictd evaluate`` in this process."""
    return commands.call(capsys, "evaluate", *arguments)


def states_printed(out):
    return [line.split("  ")[0].strip() for line in out.split("\n\n")[1].splitlines()[1:]]


def test_prints_and_saves_the_same_table(capsys, file, tmp_path):
    status, out, err = call(capsys, file, "--scale", 10, "--layers", 300)
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


def test_options_reach_the_algorithm(capsys, file):
    _, out, _ = call(capsys, file, "--no-save", "--gamma", "0", "--layers", "0")
    assert "gamma 0, 0 layers, score scale 1" in out
    assert [line.split()[2:4] for line in out.splitlines()[-2:]] == [["0", "1"], ["0", "2"]]
    assert "gamma 0, 50 layers" in call(capsys, file, "--no-save", "--gamma=-0")[1]


def test_says_what_is_missing(capsys, tmp_path):
    path = tmp_path / "open.csv"
    path.write_text("state,reward,done,x1\na,1,0,1\nb,2,0,2\nend,,1,3\n")
    status, out, err = call(capsys, path, "--out", tmp_path / "v.csv")
    assert status == 0
    assert "note: ignored columns: done" in err
    assert "warning: state 'end' was never left" in err
    assert out.splitlines()[-3].split()[-1] == "-"
    assert (tmp_path / "v.csv").read_text().splitlines()[1:][0].endswith(",")
    assert not (tmp_path / "open-values.csv").exists()


def test_never_overwrites_unasked(capsys, file, tmp_path):
    out_file = tmp_path / "trip-values.csv"
    out_file.write_text("precious")
    status, out, err = call(capsys, file)
    assert (status, out) == (2, "")  # refused before any work
    assert "--force" in err and "--out" in err and str(out_file) in err
    assert call(capsys, file, "--out", out_file)[0] == 2
    assert out_file.read_text() == "precious"
    assert call(capsys, file, "--force")[0] == 0
    assert out_file.read_text().startswith("state,visits,value,certainty_equivalence,standard_error\n")
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "nowhere.csv")
    status, out, err = call(capsys, file, "--out", link)
    assert (status, out) == (2, "") and f"{link} exists" in err
    assert call(capsys, file, "--out", link, "--force")[0] == 0
    assert (tmp_path / "nowhere.csv").read_text().startswith("state,visits")


def test_never_overwrites_its_input(capsys, file, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(file)
    for out in (file, link):
        status, _, err = call(capsys, file, "--out", out, "--force")
        assert status == 2 and "the trajectory itself" in err
    assert file.read_text() == WALK


@pytest.mark.parametrize(
    "out, words", [("absent/v.csv", "no directory"), (".", "is a directory"), ("trip.csv/v.csv", "no directory")]
)
def test_refuses_impossible_outputs(capsys, file, tmp_path, out, words):
    status, printed, err = call(capsys, file, "--out", tmp_path / out)
    assert (status, printed) == (2, "")
    assert words in err


def test_says_when_it_cannot_write(capsys, file, tmp_path):
    status, _, err = call(capsys, file, "--out", tmp_path / ("v" * 300))
    assert status == 2 and "cannot be written" in err and "Traceback" not in err


def test_prints_the_table_also_when_writing_fails(capsys, file, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluate.Evaluation, "save", full)
    status, out, err = call(capsys, file)
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
def test_refuses_bad_options_by_name(capsys, file, tmp_path, options, words):
    status, out, err = call(capsys, file, *options)
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
def test_refuses_faulty_files(capsys, file, tmp_path, content, words):
    file.write_text(content)
    status, out, err = call(capsys, file)
    assert (status, out) == (2, "")
    assert err.startswith("ictd evaluate: error: ") and err.count("\n") == 1
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["", ".", "/", "absent.csv"])
def test_refuses_what_is_no_file(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, name)
    assert (status, out) == (2, "") and "cannot be read" in err


def test_is_quick_on_a_long_file(capsys, tmp_path):
    rng = np.random.default_rng(0)
    states = rng.integers(0, 100, 100_000)
    path = tmp_path / "long.csv"
    path.write_text("state,reward\n" + "".join(f"{s},{s % 7}\n" for s in states) + "0,\n")
    start = time.process_time()
    status, out, _ = call(capsys, path)
    assert status == 0 and "100000 transitions, 100 states" in out
    assert time.process_time() - start < 2


# --------------------------------------------------------------------------------------------------------------- logs


def test_a_game(capsys, folder):
    status, out, err = call(capsys, "game.csv", *OPTIONS, "--layers", 100, "--scale", 10)
    assert status == 0
    assert out.startswith("game.csv: 3 transitions, 2 states, one-hot features, 2 episodes (1 came to an end)\n")
    assert err.splitlines() == ["note: ignored columns: player (features are named x1, x2, ... or feature...)"]
    saved = (folder / "game-values.csv").read_text().splitlines()
    assert saved[0] == "state,visits,value,certainty_equivalence,standard_error"
    # v(attic) = 2; v(hall) = (1 + .9 * 2 + 3 + .9 v(hall)) / 2
    assert float(saved[1].split(",")[3]) == pytest.approx(5.8 / 1.1)


def test_a_game_without_its_columns_is_warned_about(capsys, folder):
    walk = [option for option in OPTIONS if option not in ("--episode", "game", "--done", "over")]
    (folder / "game.csv").write_text(GAME.replace("over", "done").replace("game", "Episode_No"))
    status, _, err = call(capsys, "game.csv", *walk, "--no-save")
    assert status == 0
    assert "warning: column episode_no looks like episodes and is not used" in err and "--episode episode_no" in err
    assert "warning: column done looks like ends of episodes and is not used" in err and "--done done" in err


def test_what_just_stops_and_what_is_missing_is_said(capsys, folder):
    (folder / "heat.csv").write_text("celsius,watt\n20.1,5\n,6\n22,7\n20.3,8\n22.5,9\n20,1\n")
    options = "--state celsius --reward watt --bins celsius=2 --missing skip --no-save".split()
    status, out, err = call(capsys, "heat.csv", *options)
    assert status == 0 and states_printed(out) == ["[20, 20.3)", "[20.3, 22.5]"]
    assert "3 transitions" in out and "2 walks (0 came to an end)" in out
    assert "note: missing values break the walk at these rows: 1 without a state" in err
    assert "note: 2 episodes just stop: 2 last rewards without a known successor left out" in err


def test_order_and_number_of_the_lines_printed(capsys, folder):
    (folder / "walk.csv").write_text("state,reward\n2,1\n10,5\n2,1\n10,5\n2,1\n1,0\n2,\n")
    assert states_printed(call(capsys, "walk.csv", "--no-save")[1]) == ["1", "2", "10"]
    assert states_printed(call(capsys, "walk.csv", "--no-save", "--sort", "visits")[1]) == ["2", "10", "1"]
    assert states_printed(call(capsys, "walk.csv", "--no-save", "--sort", "state")[1]) == ["1", "2", "10"]
    status, out, _ = call(capsys, "walk.csv", "--sort", "value", "--top", 1)
    assert status == 0 and states_printed(out)[:1] == ["10"] and "(1 of 3 states)" in out
    assert len((folder / "walk-values.csv").read_text().splitlines()) == 4  # the file holds all
    assert "of 3 states" not in call(capsys, "walk.csv", "--no-save", "--top", 3)[1]


@pytest.mark.parametrize("options", [[], ["--force"]], ids=str)
@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0", "pipe"])
def test_streams_ask_for_a_name_before_any_work(capsys, folder, name, options):
    if name == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no named pipes")
        os.mkfifo(folder / name)
    status, out, err = call(capsys, name, *options)
    assert (status, out) == (2, "")
    words = f"{name} has no name to derive the output file from; pass --out FILE or --no-save"
    assert err == f"ictd evaluate: error: {words}\n"
    assert not list(folder.glob("*-values.csv"))


def test_standard_input(capsys, folder, monkeypatch):
    for stream in (io.TextIOWrapper(io.BytesIO(WALK.encode())), io.StringIO(WALK)):
        monkeypatch.setattr(sys, "stdin", stream)
        status, out, err = call(capsys, "-", "--out", "v.csv", "--force")
        assert status == 0 and out.startswith("standard input: 4 transitions") and (folder / "v.csv").exists()
    monkeypatch.setattr(sys, "stdin", io.StringIO("state,reward\na,x\n"))
    assert "line 2, column reward: 'x'" in call(capsys, "-", "--no-save")[2]
    monkeypatch.setattr(sys, "stdin", None)
    status, out, err = call(capsys, "-", "--no-save")
    assert (status, out) == (2, "") and "standard input is closed" in err


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_a_shell_may_pass_the_log_on(folder):
    script = """
    "$0" -m ictd evaluate - --no-save < walk.csv &&
    cat walk.csv | "$0" -m ictd evaluate /dev/stdin --no-save &&
    "$0" -m ictd evaluate <(cat walk.csv) --out values.csv &&
    "$0" -m ictd evaluate ./walk.csv
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script, sys.executable], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("4 transitions, 2 states") == 4
    assert {path.name for path in folder.glob("*values.csv")} == {"values.csv", "walk-values.csv"}


@pytest.mark.parametrize(
    "options, words",
    [
        (["--state", "rom"], ["no column named rom", "Did you mean 'room'", "--state"]),
        (["--done", "missing"], ["no column named missing", "--done"]),
        (["--episode", "room"], ["column room", "both the state and the episode"]),
        (["--state", " "], ["argument --state:", "name of a column"]),
        (["--sep", "|"], ["argument --sep", "comma, semicolon or tab", "'|'"]),
        (["--sep", ","], ["line 1", "semicolons", "--sep semicolon"]),
        (["--missing", "drop"], ["argument --missing", "'drop'", "refuse"]),
        (["--bins", "room"], ["argument --bins: must be COLUMN=N", "'room'"]),
        (["--bins", "coins=3"], ["argument --bins:", "room", "coins"]),
        (["--bins", "room=1"], ["argument --bins:", "from 2 to 2000"]),
        (["--bins", "room=3"], ["line 2, column room", "'hall' is not a number"]),
        (["--sort", "label"], ["argument --sort", "'label'"]),
        (["--top", "0"], ["argument --top", "from 1", "0"]),
        (["--top", "two"], ["argument --top", "'two'"]),
    ],
)
def test_bad_options_are_refused_by_name(capsys, folder, options, words):
    status, out, err = call(capsys, "game.csv", *OPTIONS, *options)
    assert (status, out) == (2, "")
    for word in words:
        assert word in err
    assert sorted(path.name for path in folder.iterdir()) == ["game.csv", "walk.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_device_may_be_the_output(capsys, folder):
    status, out, err = call(capsys, "walk.csv", "--out", "/dev/full", "--force")
    assert status == 2 and "No space left" in err and "4 transitions" in out


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="this system has no /dev/fd")
def test_what_the_shell_has_opened_is_written_to_and_not_replaced(folder):
    script = """
    echo before > log
    "$0" -m ictd evaluate walk.csv --out /dev/stdout --force >> log &&
    "$0" -m ictd evaluate walk.csv --out /dev/fd/3 --force 3> three
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script, sys.executable], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    lines = (folder / "log").read_text().splitlines()
    assert lines[:2] == ["before", "state,visits,value,certainty_equivalence,standard_error"]
    assert lines[-1] == "saved to /dev/stdout" and len(lines) > 8
    assert (folder / "three").read_text().splitlines() == lines[1:4]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["absent/log.csv"], "absent/log.csv: cannot be read: No such file"),
        (["walk.csv/log.csv"], "walk.csv/log.csv: cannot be read: Not a directory"),
        (["a" * 300], f"{'a' * 300}: cannot be read: File name too long"),
        (["walk.csv", "--out", "-"], "argument --out: must be a file; got -"),
        (["walk.csv", "--out", "loop", "--force"], "loop: cannot be written: Too many levels of symbolic links"),
        (["\x1b[31m.csv"], "\\x1b[31m.csv: cannot be read"),
    ],
    ids=range(6),
)
@pytest.mark.skipif(os.name == "nt", reason="names and messages of POSIX")
def test_files_that_cannot_be_used_are_named_as_they_were_given(capsys, folder, arguments, words):
    (folder / "loop").symlink_to("pool")
    (folder / "pool").symlink_to("loop")
    status, _, err = call(capsys, *arguments)
    assert status == 2 and err.splitlines()[-1].startswith(f"ictd evaluate: error: {words}")
    assert not list(folder.glob(".*.partial")) and (folder / "loop").is_symlink()


def test_names_of_files_cannot_break_the_screen(capsys, folder):
    (folder / "a\nb.csv").write_text(WALK)
    out = call(capsys, "a\nb.csv")[1]
    assert out.startswith("a\\nb.csv: 4 transitions") and out.endswith("saved to a\\nb-values.csv\n")


def test_numbers_and_nouns_agree(capsys, folder):
    (folder / "one.csv").write_text("state,reward,e,done,x1\na,1,1,1,2\n")
    out = call(capsys, "one.csv", "--episode", "e", "--done", "done", "--no-save")[1]
    assert out.startswith("one.csv: 1 transition, 1 state, 1 feature, 1 episode (1 came to an end)")


def test_decimal_commas(capsys, folder):
    (folder / "heat.csv").write_text("celsius;watt\n20,5;1,5\n21,5;2,5\n20,5;\n")
    options = "--state celsius --reward watt --sep semicolon --bins celsius=2 --gamma 0 --no-save".split()
    assert "--decimal comma" in call(capsys, "heat.csv", *options)[2]
    status, out, _ = call(capsys, "heat.csv", *options, "--decimal", "comma")
    assert status == 0 and states_printed(out) == ["[20.5, 21.5)", "[21.5, 21.5]"] and "2.5" in out


def test_needs_neither_torch_nor_matplotlib(folder):
    code = (
        "import sys; sys.modules.update(torch=None, matplotlib=None, ipywidgets=None, gymnasium=None); "
        "from ictd import cli; sys.exit(cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "evaluate", folder / "walk.csv", "--no-save"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "2 states" in done.stdout


# ------------------------------------------------------------------------------- the logs of the book


def make_logs():
    spec = importlib.util.spec_from_file_location("make_logs", ROOT / "book" / "data" / "make_logs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["games.csv", "visits.csv", "heating.csv"])
def test_the_shipped_logs_are_made_again_byte_for_byte(name):
    if name == "games.csv":
        pytest.importorskip("gymnasium")
    assert (ROOT / "book" / "data" / name).read_bytes() == make_logs().text(name).encode()


def test_the_shop_has_the_values_of_its_process():
    """Someone who stays clicks by the rows of the process without leaving; its payments have the mean 60."""
    logs = make_logs()
    stay = logs.CLICKS[:, :-1] / logs.CLICKS[:, :-1].sum(axis=1, keepdims=True)
    paid = np.zeros(len(stay))
    paid[logs.PAGES.index("checkout")] = 60 * stay[logs.PAGES.index("checkout"), logs.PAGES.index("thanks")]
    truth = dict(zip(logs.PAGES, np.linalg.solve(np.eye(len(stay)) - 0.9 * stay, paid)))
    data = evaluate.read_csv(ROOT / "book" / "data" / "visits.csv", state="page", reward="paid", episode="session")
    result = evaluate.evaluate(data.states, data.rewards, episodes=data.episodes)
    for page, value, error in zip(result.states, result.certainty_equivalence, result.standard_error):
        assert abs(value - truth[page]) < 3 * error < 25


def test_the_commands_of_the_page_on_own_data(capsys, monkeypatch):
    """They run as they stand, and say nothing that the page does not explain."""
    monkeypatch.chdir(ROOT / "book")
    text = "".join(
        cell.source for cell in nbformat.read("own_data.ipynb", as_version=4).cells if cell.cell_type == "markdown"
    )
    blocks = re.findall(r"```bash\n(.*?)```", text, re.S)
    assert len(blocks) == 3
    for block in blocks:
        words = shlex.split(block.replace("\\\n", " "))
        assert words[:2] == ["ictd", "evaluate"] and "--no-save" in words
        status, out, err = call(capsys, *words[2:])
        assert status == 0 and "standard error" in out and "warning" not in err


def options():
    """The options of the command but --help, as argparse holds them."""
    parser = argparse.ArgumentParser(add_help=False)
    evaluate_command.add_arguments(parser)
    return [action for action in parser._actions if action.option_strings]


def test_every_option_is_tried_here():
    """An option that no test of ``ictd evaluate`` gives could do anything."""
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_cli_evaluate*.py"))
    assert [action.option_strings[-1] for action in options() if f'"{action.option_strings[-1]}' not in tests] == []


def test_every_option_is_in_the_help(capsys):
    out = call(capsys, "--help")[1]
    for action in options():
        assert action.help and re.search(rf"^  {action.option_strings[-1]}\b", out, re.M), action
    assert "\nexamples:\n" in out
