"""``ictd evaluate`` on logs: options reach the reader, streams ask for a name, nothing is passed over in silence."""

import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest

from ictd import cli, evaluate

ROOT = Path(__file__).parents[1]
WALK = "state,reward\na,1\nb,2\na,1\nb,2\na,\n"
GAME = "game;room;coins;over;player\n1;hall;1;0;x\n1;attic;2;1;x\n2;hall;3;no;x\n2;hall;;no;x\n"
OPTIONS = ["--state", "room", "--reward", "coins", "--episode", "game", "--done", "over", "--sep", ";"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "walk.csv").write_text(WALK)
    (tmp_path / "game.csv").write_text(GAME)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(capsys, *arguments):
    """Exit status, standard output and standard error of the command in this process."""
    try:
        status = cli.main(["evaluate", *map(str, arguments)])
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def states_printed(out):
    return [line.split("  ")[0].strip() for line in out.split("\n\n")[1].splitlines()[1:]]


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


def test_every_option_is_in_the_help(capsys):
    out = call(capsys, "--help")[1]
    options = "--state --reward --episode --done --sep --decimal --missing --bins --sort --top --out --no-save --force"
    for word in options.split():
        assert re.search(rf"^  {word}\b", out, re.M), word
    assert "\nexamples:\n" in out
