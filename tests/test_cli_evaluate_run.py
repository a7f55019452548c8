"""``ictd evaluate LOG.csv --run DIR --seed K``: a trained model on one's own walk."""

import csv

import numpy as np
import pytest

from ictd import features, mrp, prompt, runs
from ictd.cli import main

pytest.importorskip("torch")
from ictd.pretrain import Config  # noqa: E402

SMALL = Config(
    n_states=4, dim=2, n_layers=2, n_transitions=10, n_steps=3, batch_size=2, n_records=1, n_held_out=4,
    neu_batches=3, neu_batch_size=2, gamma=0.6,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of two seeds."""
    path = tmp_path_factory.mktemp("runs") / "a"
    runs.run(path, SMALL, [3, 4])
    return path


@pytest.fixture
def log(tmp_path):
    """A walk with two features, and what a prompt holds of it."""
    rng = np.random.default_rng(0)
    trajectory = mrp.boyan_chain(4, 0.6, rng).sample(12, rng)
    x = features.gaussian(4, 2, rng)[trajectory.states]
    rewards = [*map(repr, trajectory.rewards.tolist()), ""]
    lines = [f"s{s},{r},{a!r},{b!r}" for s, r, (a, b) in zip(trajectory.states, rewards, x.tolist())]
    (tmp_path / "walk.csv").write_text("\n".join(["state,reward,x1,x2", *lines]) + "\n")
    return tmp_path / "walk.csv", trajectory, x


def test_the_column_holds_what_the_model_reads_out(folder, log, capsys):
    path, trajectory, x = log
    assert main(["evaluate", str(path), "--run", str(folder), "--seed", "4"]) == 0
    shown = capsys.readouterr().out
    assert "gamma 0.6, 2 layers" in shown and "trained" in shown
    model = runs.read(folder).model(4)
    columns = model.values(prompt.build_prompt(x, trajectory.rewards))[-1].detach().double().numpy()
    with open(path.parent / "walk-values.csv") as file:
        for row in csv.DictReader(file):
            last = np.flatnonzero(trajectory.states == int(row["state"][1:]))[-1]
            assert float(row["trained"]) == pytest.approx(columns[last], rel=1e-5)


def test_seeds_have_models_of_their_own(folder, log, capsys):
    tables = []
    for seed in ("3", "4"):
        assert main(["evaluate", str(log[0]), "--run", str(folder), "--seed", seed, "--no-save"]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] != tables[1]


@pytest.mark.parametrize(
    "options, words",
    [
        (["--seed", "3"], "argument --seed: needs --run DIR"),
        (["--run", "FOLDER"], "argument --run: needs --seed K"),
        (["--run", "FOLDER", "--seed", "5"], "argument --run: seed must be one of"),
        (["--run", "nowhere", "--seed", "3"], "argument --run: nowhere is empty, or does not exist"),
        (["--run", "FOLDER", "--seed", "3", "--gamma", "0.9"], "argument --gamma: the run has 0.6, and 0.9 was given"),
        (["--run", "FOLDER", "--seed", "3", "--layers", "7"], "argument --layers: the run has 2, and 7 was given"),
        (["--run", "FOLDER", "--seed", "3", "--episode", "e"], "argument --episode: not allowed with --run"),
        (["--run", "FOLDER", "--seed", "3", "--done", "d"], "argument --done: not allowed with --run"),
    ],
)
def test_what_does_not_go_together_is_refused(folder, log, capsys, options, words):
    assert main(["evaluate", str(log[0]), "--no-save", *[str(folder) if o == "FOLDER" else o for o in options]]) == 2
    assert words in capsys.readouterr().err


def test_the_same_gamma_and_layers_may_be_said(folder, log):
    options = ["--run", str(folder), "--seed", "3", "--gamma", "0.6", "--layers", "2", "--no-save"]
    assert main(["evaluate", str(log[0]), *options]) == 0


@pytest.mark.parametrize("columns, words", [(1, "features must have the 2 columns"), (0, "features must be given")])
def test_the_features_of_the_log_must_be_those_of_the_run(folder, log, capsys, columns, words):
    path = log[0]
    rows = [line.split(",")[: 2 + columns] for line in path.read_text().splitlines()]
    path.write_text("\n".join(map(",".join, rows)) + "\n")
    assert main(["evaluate", str(path), "--run", str(folder), "--seed", "3", "--no-save"]) == 2
    assert words in capsys.readouterr().err


def test_missing_values_that_break_the_walk_are_refused(folder, log, capsys):
    path = log[0]
    lines = path.read_text().splitlines()
    lines[5] = "," + lines[5].split(",", 1)[1]
    path.write_text("\n".join(lines) + "\n")
    options = ["--run", str(folder), "--seed", "3", "--missing", "skip", "--no-save"]
    assert main(["evaluate", str(path), *options]) == 2
    assert "argument --run: needs one walk" in capsys.readouterr().err
