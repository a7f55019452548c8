"""The folder of a run: what it holds, kills at any moment, refusals. Nothing is ever lost or overwritten unasked."""

import copy
import dataclasses
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import own_tasks
import pytest

pretrain = pytest.importorskip("ictd.pretrain", reason="needs torch")

from ictd import _files, runs  # noqa: E402
from ictd.pretrain import checkpoint, identity, pattern, steps  # noqa: E402
from ictd.runs import folder as run_folder  # noqa: E402

ROOT = Path(__file__).parents[1]
CONFIG = pretrain.Config(
    n_states=4, dim=2, n_layers=2, n_transitions=20, n_steps=60, batch_size=4,
    n_records=6, n_held_out=8, neu_batches=3, neu_batch_size=4,
)  # fmt: skip
SEEDS = (0, 1, 2)
FILES = ["checkpoint.npz", "config.json", "history.npz", "summary.json"]
# The same on the command line
OPTIONS = (
    "--states 4 --dim 2 --layers 2 --context 20 --steps 60 --batch 4 --records 6 --held-out 8 --neu-batches 3 "
    "--neu-batch 4 --seeds 3"
).split()
# Far longer than a process from outside waits before it disturbs the run
LONG_CONFIG = dataclasses.replace(CONFIG, n_steps=600)
LONG = [*OPTIONS, "--steps", str(LONG_CONFIG.n_steps)]
posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX processes")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    runs.run(folder, CONFIG, SEEDS)
    return folder


@pytest.fixture(scope="module")
def long_finished(tmp_path_factory):
    """The same for the run that is disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "long"
    runs.run(folder, LONG_CONFIG, SEEDS)
    return folder


def content(folder):
    """Names and bytes of the files in a folder."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def assert_same_results(folder, other):
    """Equal histories, bit for bit, equal summaries but for the time, and nothing half-written."""
    one, two = runs.read(folder), runs.read(other)
    assert one.history.keys() == two.history.keys()
    for name, values in one.history.items():
        assert values.dtype == two.history[name].dtype
        assert values.tobytes() == two.history[name].tobytes(), name
    assert one.summary | {"seconds": 0} == two.summary | {"seconds": 0}
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


# ---------------------------------------------------------------------------------------- what it holds


def test_a_finished_run_holds_what_the_computation_gave(finished):
    result = pretrain.pretrain(CONFIG, SEEDS)
    assert sorted(os.listdir(finished)) == FILES
    config = json.loads((finished / "config.json").read_text())
    assert pretrain.Config(**config["config"]) == CONFIG
    assert (config["seeds"], config["threads"]) == (list(SEEDS), 1)
    assert config["versions"] == pretrain.versions()
    summary = json.loads((finished / "summary.json").read_text())
    assert summary | {"seconds": 0} == json.loads(json.dumps(result.summary() | {"seconds": 0}))
    with np.load(finished / "history.npz", allow_pickle=False) as history:
        fields = {name: value for name, value in vars(result.history).items() if value is not None}
        assert set(history.files) == {*fields, "seeds"}
        assert history["seeds"].tolist() == list(SEEDS)
        for name, value in fields.items():
            np.testing.assert_array_equal(history[name], value)
    again = pretrain.pretrain(CONFIG, SEEDS, checkpoint_path=finished / "checkpoint.npz")
    np.testing.assert_array_equal(again.model(1).value_weights.detach(), result.model(1).value_weights.detach())


def test_read_gives_medians_over_seeds(finished):
    run = runs.read(finished)
    numbers = run.numbers()
    errors = run.history["value_error"][-1]
    assert numbers["value_error_median"] == np.median(errors)
    assert (numbers["value_error_min"], numbers["value_error_max"]) == (errors.min(), errors.max())
    assert numbers["diagonality_start"] == pytest.approx(np.median(run.history["diagonality_mean"][0, :, 0]))
    assert numbers["neu_end_standard_error"] == pytest.approx(np.median(run.history["neu_standard_error"][-1]))
    assert (numbers["seeds"], numbers["diverged"]) == (3, 0)
    table = run.table()
    for text in ("3 seeds (0 to 2), 60 steps", f"{np.median(errors):.3g}", f"{numbers['neu_end']:.3g}", "1 thread"):
        assert text in table
    for name in ("constant", "certainty_equivalence", "constructed"):
        assert f"{run.summary['value_error_' + name]:.3g}" in table


def saved(weights, scores, diverged=None):
    """A SavedRun with these cosines at the end, each (seeds, sets)."""
    weights, scores = np.array(weights)[None], np.array(scores)[None]
    diverged = np.full(weights.shape[1], -1) if diverged is None else np.array(diverged)
    names = {"cosine_value_weights": weights, "cosine_score_matrix": scores, "diverged_at": diverged}
    return runs.SavedRun(Path("."), {}, names)


def test_pattern_needs_both_cosines_and_a_seed_that_went_on():
    run = saved([[0.991], [0.99], [0.999], [0.999]], [[0.991], [0.999], [0.99], [0.999]], [-1, -1, -1, 3])
    assert run.pattern().tolist() == [True, False, False, False]
    assert saved([[np.nan]], [[0.999]]).pattern().tolist() == [False]


def test_pattern_of_layers_leaves_out_what_the_first_layer_cannot_learn():
    one = 0.999
    run = saved([[0.1, one, one], [one, one, 0.1], [0.1, one, one]], [[one] * 3, [one] * 3, [0.1, one, one]])
    assert run.pattern().tolist() == [True, False, False]


def test_a_seed_that_diverges_is_recorded_and_the_others_go_on(tmp_path, monkeypatch, finished):
    start = pretrain.initial_parameters

    def wild(config, seed):
        return {name: value * (1e30 if seed == 1 else 1) for name, value in start(config, seed).items()}

    monkeypatch.setattr(steps, "initial_parameters", wild)
    run = runs.run(tmp_path / "a", CONFIG, SEEDS)
    usual = runs.read(finished)
    assert run.alive.tolist() == [True, False, True]
    assert run.history["value_error"][-1, [0, 2]].tolist() == usual.history["value_error"][-1, [0, 2]].tolist()
    numbers = runs.read(tmp_path / "a").numbers()
    assert numbers["diverged"] == 1
    assert numbers["value_error_max"] == usual.history["value_error"][-1, [0, 2]].max()
    assert "seed 1 stopped at step 0" in run.table() and "1 of 3 seeds" in run.table()
    summary = json.loads((tmp_path / "a" / "summary.json").read_text(), parse_constant=pytest.fail)
    assert summary["diverged_at"] == [-1, 0, -1]


def test_all_seeds_diverge(tmp_path):
    config = pretrain.Config(**vars(CONFIG) | {"learning_rate": 1e30, "clip": 1e30, "n_steps": 5})
    run = runs.run(tmp_path / "a", config, (4, 7))
    assert not run.alive.any()
    assert run.numbers()["value_error_median"] is None
    assert "2 of 2 seeds" in run.table() and "2 seeds (4, 7)" in run.table()


# ---------------------------------------------------------------------------------------------- models


def same_model(one, other):
    """Of one class, with equal parameters bit for bit, and the same settings."""
    assert type(one) is type(other)
    assert (one.d, one.n_layers, one.gamma, one.form, one.shared) == (
        other.d, other.n_layers, other.gamma, other.form, other.shared,
    )  # fmt: skip
    theirs = dict(other.named_parameters())
    assert dict(one.named_parameters()).keys() == theirs.keys()
    for name, value in one.named_parameters():
        assert value.dtype == theirs[name].dtype and value.requires_grad
        assert value.detach().numpy().tobytes() == theirs[name].detach().numpy().tobytes(), name
    return True


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"form": "dual_head", "shared": False, "dtype": "float64"},
        {"form": "independent_heads", "shared": False},
        {"free": "value"},
        {"free": "score", "form": "dual_head", "shared": False},
        {"free": "both", "dtype": "float64"},
    ],
    ids=str,
)
def test_the_models_of_a_folder_are_those_of_the_computation(tmp_path, changes):
    config = pretrain.Config(**vars(CONFIG) | {"n_steps": 3} | changes)
    expected = pretrain.pretrain(config, (4, 9))
    runs.run(tmp_path, config, (4, 9))
    run = runs.read(tmp_path)
    assert all(same_model(run.model(seed), expected.model(seed)) for seed in (4, np.int64(9)))
    (tmp_path / "checkpoint.npz").unlink()
    if config.free == "none":
        assert same_model(run.model(9), expected.model(9))
        return
    with pytest.raises(runs.RunError, match=r"checkpoint.npz cannot be used for the matrix [VA], which is free: .*No"):
        run.model(9)


def test_a_matrix_without_mask_comes_from_the_checkpoint_of_the_run_only(tmp_path):
    config = pretrain.Config(**vars(CONFIG) | {"n_steps": 3, "free": "both"})
    runs.run(tmp_path / "a", config, (4, 9))
    runs.run(tmp_path / "b", config, (5, 9, 10))
    runs.run(tmp_path / "c", CONFIG, (4, 9))
    run, path = runs.read(tmp_path / "a"), tmp_path / "a" / "checkpoint.npz"
    for other, words in {"b": "it is not that of this run", "c": "it holds no V", None: "is no checkpoint"}.items():
        path.write_bytes(b"damaged" if other is None else (tmp_path / other / "checkpoint.npz").read_bytes())
        with pytest.raises(runs.RunError, match=f"the matrix V, which is free: .*{words}"):
            run.model(4)


def test_seeds_without_a_model_are_named(finished):
    run = runs.read(finished)
    for seed in (3, -1, "0", None, True, 0.0):
        with pytest.raises(ValueError, match="^seed must be one of 0, 1, 2; got"):
            run.model(seed)
    stopped = np.array([-1, 7, -1])
    diverged = runs.SavedRun(run.folder, run.summary, dict(run.history) | {"diverged_at": stopped})
    with pytest.raises(ValueError, match="^seed must be one that did not diverge; 1 stopped at step 7"):
        diverged.model(1)
    assert same_model(diverged.model(2), run.model(2))


def test_a_model_needs_torch_and_says_so(finished):
    code = f"""
import sys
sys.modules["torch"] = None
from ictd import runs
try:
    runs.read({str(finished)!r}).model(0)
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "needs torch, which is not installed: pip install 'ictd[torch]'" in done.stdout, done.stderr


# -------------------------------------------------------------------------------------------- own tasks


def test_a_run_on_own_tasks_names_them_in_its_files(tmp_path):
    result = pretrain.pretrain(CONFIG, SEEDS, own_tasks.lazy_walk)
    run = runs.run(tmp_path, CONFIG, SEEDS, sample=own_tasks.lazy_walk)
    for name, values in vars(result.history).items():
        if values is not None:
            assert values.tobytes() == run.history[name].tobytes(), name
    assert same_model(run.model(2), result.model(2))
    config, summary = (json.loads((tmp_path / name).read_text()) for name in ("config.json", "summary.json"))
    header, _ = checkpoint.load(tmp_path / "checkpoint.npz")
    for content in (config, summary, header):
        assert content["tasks"] == identity.origin(own_tasks.lazy_walk)
        assert (content["config"]["family"], content["config"]["feature_scale"]) == (None, None)
    assert run.sample == "own_tasks:lazy_walk"
    assert "2 features (tasks of own_tasks:lazy_walk)" in run.table()
    assert runs.check(tmp_path, CONFIG, SEEDS, 1, sample=own_tasks.lazy_walk) == "finished"


def test_a_run_on_own_tasks_goes_on_with_the_same_ones_only(tmp_path, finished):
    words = r"own_tasks:\w+ \(source \w+\)"
    for first, others in ((own_tasks.ring, (None, own_tasks.lazy_walk)), (None, (own_tasks.ring,))):
        folder = tmp_path / str(first is None)
        runs.begin(folder, CONFIG, SEEDS, 1, {}, sample=first)
        before = content(folder)
        for other in others:
            with pytest.raises(runs.OtherRunError, match=f"tasks is (built-in|{words}) there and (built-in|{words}) h"):
                runs.run(folder, CONFIG, SEEDS, sample=other)
            with pytest.raises(runs.OtherRunError) as caught:
                runs.check(folder, CONFIG, SEEDS, 1, sample=other)
            assert caught.value.field == "tasks"
            assert content(folder) == before
    runs.run(tmp_path / "True", CONFIG, SEEDS)
    assert_same_results(tmp_path / "True", finished)
    run = runs.run(tmp_path / "False", CONFIG, SEEDS, sample=own_tasks.ring)
    config = pretrain.Config(**vars(CONFIG) | {"family": "ring", "feature_scale": 0.5})
    built_in = runs.run(tmp_path / "c", config, SEEDS)
    assert run.history["value_error"].tobytes() == built_in.history["value_error"].tobytes()


def test_a_folder_of_a_version_without_own_tasks_goes_on(tmp_path, finished):
    runs.begin(tmp_path, CONFIG, SEEDS, 1, {})
    old = json.loads((tmp_path / "config.json").read_text())
    assert old.pop("tasks") is None
    (tmp_path / "config.json").write_text(json.dumps(old))
    runs.run(tmp_path, CONFIG, SEEDS)
    assert_same_results(tmp_path, finished)
    old = json.loads((tmp_path / "summary.json").read_text())
    del old["tasks"]
    (tmp_path / "summary.json").write_text(json.dumps(old))
    assert runs.read(tmp_path).sample is None and "(gaussian)" in runs.read(tmp_path).table()


@pytest.mark.parametrize(
    "sample, kind, message",
    [
        (3, TypeError, "sample must be a function or None"),
        (own_tasks.ring_by_lambda, ValueError, "sample must be a function that can be imported again"),
        (own_tasks.five_states, ValueError, "sample must give tasks with n_states = 4; got n_states = 5"),
    ],
)
def test_tasks_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, sample, kind, message):
    for use in (runs.run, lambda *arguments, **options: runs.check(*arguments, 1, **options)):
        with pytest.raises(kind, match=f"^{message}"):
            use(tmp_path / "a", CONFIG, SEEDS, sample=sample)
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------------------------------------ kills


@posix
def test_a_kill_between_any_two_writes_loses_nothing(tmp_path, finished):
    """A child dies just before or just after its k-th file is moved into place; then the run goes on."""

    def child(folder, deadly, after):
        calls, move = [], os.replace

        def dying_move(source, target):
            calls.append(target)
            if len(calls) == deadly and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            move(source, target)
            if len(calls) == deadly and after:
                os.kill(os.getpid(), signal.SIGKILL)

        os.replace = dying_move
        runs.run(folder, CONFIG, SEEDS)

    kills = 0
    for deadly in range(1, 6):
        for after in (False, True):
            folder = tmp_path / f"{deadly}-{after}"
            pid = os.fork()
            if pid == 0:
                try:
                    child(folder, deadly, after)
                finally:
                    os._exit(0)
            status = os.waitpid(pid, 0)[1]
            if os.WIFSIGNALED(status):
                kills += 1
                if runs.state(folder) != "finished":  # the last file of all was in place
                    runs.run(folder, CONFIG, SEEDS)
            assert_same_results(folder, finished)
            assert sorted(os.listdir(folder)) == FILES
    assert kills == 8  # config, checkpoint, history, summary


@posix
def test_real_kills_at_random_moments(tmp_path, long_finished):
    """kill -9 of the command, again and again; at the end the results are those of an undisturbed run."""
    command = [sys.executable, "-m", "ictd", "pretrain", "--out", str(tmp_path / "a"), *LONG, "--save-every", "0"]
    path = tmp_path / "a" / "checkpoint.npz"
    chance = random.Random(time.time_ns())
    steps = []
    for _ in range(3):
        old = path.stat().st_mtime_ns if path.exists() else None
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None and (path.stat().st_mtime_ns if path.exists() else None) == old:
            time.sleep(0.002)  # the program loads
        time.sleep(chance.uniform(0, 0.25))
        process.kill()
        error = process.communicate()[1]
        if runs.state(tmp_path / "a") == "finished":
            break
        assert process.returncode == -signal.SIGKILL, error
        steps.append(checkpoint.load(path)[0]["step"])
    else:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "going on" in done.stderr, done.stderr
    assert steps == sorted(steps) and 0 < steps[0] <= LONG_CONFIG.n_steps, steps
    for path in (tmp_path / "a").glob("figure-*"):
        path.unlink()
    assert_same_results(tmp_path / "a", long_finished)


@posix
def test_ctrl_c_saves_the_state_between_two_steps(tmp_path, long_finished):
    folder = tmp_path / "a"
    command = [sys.executable, "-m", "ictd", "pretrain", "--out", str(folder), *LONG, "--save-every", "0.01"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (folder / "checkpoint.npz").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130 and out == ""
    assert "interrupted; the checkpoint is saved, and the same command goes on" in error
    assert "Traceback" not in error
    assert runs.state(folder) == "begun"
    runs.run(folder, LONG_CONFIG, SEEDS)
    assert_same_results(folder, long_finished)


@posix
def test_a_full_disk_is_named_and_the_run_can_go_on(tmp_path, finished):
    import resource

    folder = tmp_path / "a"
    command = [sys.executable, "-m", "ictd", "pretrain", "--out", str(folder), *OPTIONS]
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # noqa: E731
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, preexec_fn=limit)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(f"ictd pretrain: error: {folder}: cannot be read or written: ")
    assert "Traceback" not in done.stderr
    assert os.listdir(folder) == ["config.json"]
    runs.run(folder, CONFIG, SEEDS)
    assert_same_results(folder, finished)


# --------------------------------------------------------------------------------------------- refusals


def test_a_finished_run_is_not_run_again(finished):
    before = content(finished)
    assert runs.check(finished, CONFIG, SEEDS, 1) == "finished"
    with pytest.raises(runs.RunError, match="holds this run already, finished"):
        runs.run(finished, CONFIG, SEEDS)
    assert content(finished) == before


@pytest.mark.parametrize(
    "change, field, there, here",
    [
        ({"gamma": 0.6}, "gamma", 0.5, 0.6),
        ({"n_layers": 3}, "n_layers", 2, 3),
        ({"shared": False}, "shared", True, False),
        ({"seeds": (0, 1)}, "seeds", [0, 1, 2], [0, 1]),
        ({"threads": 2}, "threads", 1, 2),
    ],
)
def test_another_run_is_refused_by_name(finished, change, field, there, here):
    before = content(finished)
    settings = {"seeds": SEEDS, "threads": 1} | change
    seeds, threads = settings.pop("seeds"), settings.pop("threads")
    config = pretrain.Config(**vars(CONFIG) | settings)
    with pytest.raises(runs.OtherRunError, match=f"{field} is") as caught:
        runs.run(finished, config, seeds, threads=threads)
    assert (caught.value.field, caught.value.there, caught.value.here) == (field, there, here)
    assert content(finished) == before


def test_a_setting_of_a_newer_version_is_refused(finished, tmp_path):
    config = json.loads((finished / "config.json").read_text())
    config["config"]["momentum"] = 0.5
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(runs.OtherRunError, match="momentum is 0.5 there and unknown here"):
        runs.check(tmp_path, CONFIG, SEEDS, 1)


def test_force_removes_only_what_a_run_writes(tmp_path):
    folder = tmp_path / "a"
    runs.run(folder, CONFIG, SEEDS)
    (folder / "figure-old.svg").write_text("<svg/>")
    (folder / "notes.txt").write_text("mine")
    (folder / "figures").mkdir()
    config = pretrain.Config(**vars(CONFIG) | {"n_steps": 3})
    runs.run(folder, config, (5,), force=True)
    assert sorted(os.listdir(folder)) == sorted([*FILES, "figures", "notes.txt"])
    assert (folder / "notes.txt").read_text() == "mine"
    assert runs.read(folder).history["seeds"].tolist() == [5]


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_with_other_files_is_refused_also_with_force(tmp_path, force):
    for name, text in {"config.json": '{"debug": true}', "thesis.tex": "years of work"}.items():
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text(text)
        with pytest.raises(runs.RunError, match="holds files but no run|was not written by this command"):
            runs.run(folder, CONFIG, SEEDS, force=force)
        assert content(folder) == {name: text.encode()}


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"config": {"gamma": 0.5}}, TypeError, "config must be of type Config"),
        ({"seeds": 3}, TypeError, "seeds must be a sequence of integers"),
        ({"seeds": [-1]}, ValueError, "seeds must be an integer of at least 0; got -1"),
        ({"seeds": [1, 1]}, ValueError, "seeds must be different"),
        ({"threads": 0}, ValueError, "threads must be an integer of at least 1; got 0"),
        ({"threads": "2"}, TypeError, "threads must be an integer of at least 1; got '2'"),
        ({"threads": 100_000}, ValueError, "threads must be an integer from 1 to 1024; got 100000"),  # would crash
        ({"force": 1}, TypeError, "force must be True or False; got 1"),
        ({"progress": "no"}, TypeError, "progress must be True or False; got 'no'"),
        ({"report": 3}, TypeError, "report must be a function or None; got 3"),
        ({"checkpoint_seconds": -1}, ValueError, "checkpoint_seconds must be in"),
        ({"checkpoint_seconds": "5"}, TypeError, "checkpoint_seconds must be a number"),
        ({"folder": 3}, TypeError, "folder must be a str or a Path; got 3"),
        ({"folder": b"a"}, TypeError, "folder must be a str or a Path; got b'a'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(tmp_path, changes, kind, message):
    arguments = {"folder": tmp_path / "a", "config": CONFIG, "seeds": SEEDS, "threads": 1} | changes
    with pytest.raises(kind, match=f"^{message}"):
        runs.run(**arguments)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("seeds", [np.arange(3), iter(SEEDS)], ids=["array", "iterator"])
def test_seeds_may_come_from_numpy_or_an_iterator(tmp_path, finished, seeds):
    runs.run(tmp_path, CONFIG, seeds)
    assert_same_results(tmp_path, finished)


@pytest.mark.parametrize(
    "weights, scores, message",
    [
        (np.ones((4, 1)), np.ones((1, 1)), r"scores must have shape \(4, 1\); got shape \(1, 1\)"),
        (np.ones(4), np.ones(4), r"weights must have shape \(K, sets\); got shape \(4,\)"),
    ],
)
def test_cosines_of_different_runs_are_no_pattern(weights, scores, message):
    """They are not broadcast. Lists will do, and NaN is no success."""
    with pytest.raises(ValueError, match=f"^{message}"):
        pattern.succeeds(weights, scores)
    assert pattern.succeeds([[1.0], [np.nan]], [[1.0], [1.0]]).tolist() == [True, False]


def test_nothing_is_reported_before_the_folder_is_free(tmp_path):
    """A run in use is refused, and does not first say that it goes on."""
    runs.begin(tmp_path / "a", CONFIG, SEEDS, 1, {})
    said = []
    if _files.fcntl is not None:
        with run_folder.locked(tmp_path / "a"), pytest.raises(runs.RunError, match="in use"):
            runs.run(tmp_path / "a", CONFIG, SEEDS, report=said.append)
        assert said == []
    runs.run(tmp_path / "a", CONFIG, SEEDS, report=said.append)
    assert len(said) == 1 and "it was begun with ictd None, python None" in said[0]


def test_saved_runs_are_read_only(finished):
    """Also copies, and those that share arrays with their maker."""
    run = runs.read(finished)
    for one in (run, copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        with pytest.raises(ValueError, match="read-only"):
            one.history["neu"][...] = 0
    mine = {"neu": np.zeros(3)}
    theirs = runs.SavedRun(Path("."), {}, mine)
    mine["neu"][0] = 1
    assert not theirs.history["neu"].any()


def leaves(value, path=()):
    """Paths to all parts of what JSON can hold."""
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from leaves(value[name], (*path, name))
    elif isinstance(value, list):
        for i in range(min(len(value), 2)):
            yield from leaves(value[i], (*path, i))


def replaced(value, path, new):
    """A copy with another part at a path."""
    if not path:
        return new
    value = copy.copy(value)
    value[path[0]] = replaced(value[path[0]], path[1:], new)
    return value


@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_whatever_stands_in_a_file_the_answer_is_a_run_or_one_error(tmp_path, finished, name):
    """Each part of the file replaced by each kind of value: never an error that says nothing of the folder."""
    for file, data in content(finished).items():
        (tmp_path / file).write_bytes(data)
    good = json.loads((finished / name).read_text())
    refused = 0
    for path in leaves(good):
        for new in (None, "x", -1.5, [], {"a": None}, 10**400):
            (tmp_path / name).write_text(json.dumps(replaced(good, path, new)))
            for use in (lambda: runs.check(tmp_path, CONFIG, SEEDS, 1), lambda: runs.read(tmp_path).table()):
                try:
                    use()
                except runs.RunError as error:
                    assert str(tmp_path) in str(error)
                    refused += 1
    assert refused > 30


def test_a_half_written_file_does_not_make_a_folder_foreign(tmp_path, finished):
    (tmp_path / ".config.json.partial").write_text("{")
    runs.run(tmp_path, CONFIG, SEEDS)
    assert_same_results(tmp_path, finished)


def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for place, words in {
        "file": "is a file",
        "file/a": "is a file",
        "link": "link to nowhere",
        "link/a": "link to nowhere",
        "n" * 300: "cannot be read",
        "a\0b": "cannot be read",
    }.items():
        with pytest.raises(runs.RunError, match=words):
            runs.run(tmp_path / place, CONFIG, SEEDS)
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]
    monkeypatch.setattr(os, "access", lambda *_: False)  # tests may run as root
    with pytest.raises(runs.RunError, match="cannot be written: Permission denied"):
        runs.run(tmp_path / "new" / "a", CONFIG, SEEDS)
    assert not (tmp_path / "new").exists()


@posix
def test_two_processes_do_not_work_in_one_folder(tmp_path):
    runs.begin(tmp_path / "a", CONFIG, SEEDS, 1, {})
    before = content(tmp_path / "a")
    for force in (False, True):
        with run_folder.locked(tmp_path / "a"), pytest.raises(runs.RunError, match="another process works in it"):
            runs.run(tmp_path / "a", CONFIG, SEEDS, force=force)
    assert content(tmp_path / "a") == before
    runs.run(tmp_path / "a", CONFIG, SEEDS)  # the lock is gone


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "is damaged"),
        ('{"format": "ictd run"', "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("[1]", "was not written by this command"),
        ('{"format": "ictd run", "version": 2}', "newer ictd"),
        ('{"format": "ictd run", "version": "x"}', "newer ictd"),
        ('{"format": "ictd run", "version": 1}', "settings or seeds are missing"),
    ],
)
def test_a_damaged_config_is_refused(tmp_path, text, words):
    (tmp_path / "config.json").write_text(text)
    for force in (False, True):
        with pytest.raises(runs.RunError, match=words):
            runs.run(tmp_path, CONFIG, SEEDS, force=force)
    assert content(tmp_path) == {"config.json": text.encode()}


@pytest.mark.parametrize("harm", ["truncated", "foreign", "newer", "other"])
def test_a_bad_checkpoint_is_refused_and_left_as_it_is(tmp_path, finished, harm):
    runs.begin(tmp_path, CONFIG, SEEDS, 1, {})
    good = (finished / "checkpoint.npz").read_bytes()
    path = tmp_path / "checkpoint.npz"
    path.write_bytes({"truncated": good[: len(good) // 2], "foreign": b"PK\x03\x04 my zip file"}.get(harm, good))
    if harm in ("newer", "other"):
        header, arrays = checkpoint.load(path)
        if harm == "other":
            header["config"]["gamma"] = 0.25
        newer = {"version": 99} if harm == "newer" else {}
        text = json.dumps(header | newer).encode()
        with open(path, "wb") as file:
            np.savez(file, **{"header.json": np.frombuffer(text, np.uint8)}, **arrays)
    before = content(tmp_path)
    with pytest.raises(checkpoint.CheckpointError, match="checkpoint.npz"):
        runs.run(tmp_path, CONFIG, SEEDS)
    assert content(tmp_path) == before
    runs.run(tmp_path, CONFIG, SEEDS, force=True)
    assert_same_results(tmp_path, finished)


def test_read_says_what_is_not_there(tmp_path):
    with pytest.raises(runs.RunError, match="empty, or does not exist"):
        runs.read(tmp_path / "absent")
    runs.begin(tmp_path / "a", CONFIG, SEEDS, 1, {})
    with pytest.raises(runs.RunError, match="is not finished"):
        runs.read(tmp_path / "a")


@pytest.mark.parametrize("harm", ["summary", "history", "missing", "shape", "field", "objects"])
def test_read_refuses_damaged_results(tmp_path, finished, harm):
    for name, data in content(finished).items():
        (tmp_path / name).write_bytes(data)
    with np.load(finished / "history.npz") as archive:
        arrays = dict(archive)
    if harm == "summary":
        (tmp_path / "summary.json").write_text('{"config": {}}')
    elif harm == "history":
        (tmp_path / "history.npz").write_bytes(b"PK")
    elif harm == "missing":
        (tmp_path / "history.npz").unlink()
    else:
        change = {
            "shape": {"neu": arrays["neu"][1:]},
            "field": {"neu": arrays.pop("neu")} if harm == "field" else {},
            "objects": {"neu": np.array([object()])},
        }[harm]
        np.savez(tmp_path / "history.npz", **arrays | (change if harm != "field" else {}))
    with pytest.raises(runs.RunError, match="damaged|cannot be read"):
        runs.read(tmp_path)


def test_flipped_bits_of_shapes_in_the_history(tmp_path, finished):
    """Every checksum is tested, as in a checkpoint: NumPy would not meet that of an array whose shape is damaged."""
    for name, data in content(finished).items():
        (tmp_path / name).write_bytes(data)
    whole = (finished / "history.npz").read_bytes()
    mark = b"'shape': ("
    starts = [i + len(mark) for i in range(len(whole)) if whole.startswith(mark, i)]
    assert len(starts) > 10
    for place in starts:
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            (tmp_path / "history.npz").write_bytes(damaged)
            with pytest.raises(runs.RunError, match="damaged"):
                runs.read(tmp_path)
