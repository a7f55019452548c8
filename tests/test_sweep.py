"""Sweeps: the grid, points as single runs, and a real cluster that loses a worker in the middle of a run."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import own_tasks
import pytest

pretrain = pytest.importorskip("ictd.pretrain", reason="needs torch")

from test_runs import leaves, replaced  # noqa: E402

from ictd import runs  # noqa: E402
from ictd.pretrain import identity, steps  # noqa: E402
from ictd.runs import cluster as clusters  # noqa: E402
from ictd.runs import grid as grids  # noqa: E402
from ictd.runs import sweep  # noqa: E402

SMALL = {
    "n_states": 4, "dim": 2, "n_layers": 2, "n_transitions": 20, "n_steps": 30, "batch_size": 4, "n_records": 3,
    "n_held_out": 8, "neu_batches": 3, "neu_batch_size": 4,
}  # fmt: skip
SEEDS = (0, 1)


def points(n_steps=30, **several):
    values = {name: [value] for name, value in SMALL.items()} | {"n_steps": [n_steps]} | several
    return grids.grid(values)


GRID = points(gamma=[0.5, 0.9], objective=["td", "mc"])


def assert_same_history(one, other):
    one, other = runs.read(one).history, runs.read(other).history
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A finished sweep, not to be changed."""
    folder = tmp_path_factory.mktemp("sweeps") / "local"
    sweep.sweep(folder, GRID, SEEDS)
    return folder


# ------------------------------------------------------------------------------------------------- grid


def test_grid_is_the_product_in_order():
    assert [point.settings for point in GRID] == [
        {"gamma": gamma, "objective": objective} for gamma in (0.5, 0.9) for objective in ("td", "mc")
    ]
    assert [point.name for point in GRID][:2] == ["gamma-0.5_objective-td", "gamma-0.5_objective-mc"]
    for point in GRID:
        assert point.config == pretrain.Config(**SMALL | point.settings)
    assert [(point.name, point.settings) for point in points()] == [("run", {})]


@pytest.mark.parametrize(
    "several",
    [
        {"gamma": np.array([0.5, 0.25], dtype=np.float32), "n_layers": np.arange(1, 3)},
        {"gamma": iter([0.5, 0.25]), "n_layers": (n for n in (1, 2))},
        {"gamma": (0.5, 0.25), "n_layers": range(1, 3)},
    ],
    ids=["NumPy", "iterators", "tuples"],
)
def test_values_may_come_from_numpy_or_an_iterator(several):
    """Settings and names are those of plain numbers, which JSON can hold."""
    grid = grids.grid(several)
    assert [point.name for point in grid][:2] == ["gamma-0.5_n_layers-1", "gamma-0.5_n_layers-2"]
    assert json.loads(json.dumps([point.settings for point in grid])) == [
        {"gamma": gamma, "n_layers": layers} for gamma in (0.5, 0.25) for layers in (1, 2)
    ]


@pytest.mark.parametrize(
    "values, kind, message",
    [
        ([1], TypeError, "values must be of type dict"),
        ({"colour": ["red"]}, ValueError, "a field of values must be one of .*; got 'colour'"),
        ({3: [1]}, ValueError, "a field of values must be one of .*; got 3"),
        ({"gamma": 0.5}, TypeError, "gamma must have a list of values in a grid; got 0.5"),
        ({"gamma": np.array(0.5)}, TypeError, "gamma must have a list of values"),
        ({"objective": "td"}, TypeError, "objective must have a list of values in a grid; got 'td'"),
        ({"gamma": []}, ValueError, "gamma must have at least one value in a grid; got none"),
        ({"gamma": [0.5, np.float64(0.5)]}, ValueError, "gamma must have different values; got gamma-0.5 twice"),
        ({"n_layers": [1, True]}, TypeError, "n_layers must be an integer of at least 1; got True"),
        ({"gamma": [None]}, TypeError, "gamma must be a number"),
    ],
)
def test_grid_refuses_what_is_no_grid(values, kind, message):
    with pytest.raises(kind, match=f"^{message}"):
        grids.grid(values)


@pytest.mark.parametrize(
    "label, kind",
    [
        ("../{}-{}".format, ValueError),
        ("/{}-{}".format, ValueError),
        ("..\\{}{}".format, ValueError),
        (lambda field, value: "..", ValueError),
        (lambda field, value: "same", ValueError),
        (lambda field, value: "A" if value == 0.5 else "a", ValueError),  # one folder on some systems
        (lambda field, value: "x" * 300 + str(value), ValueError),
        (lambda field, value: f".{value}", ValueError),
        (lambda field, value: f"a\0{value}", ValueError),
        (lambda field, value: f"figure-{value}.svg", ValueError),
        (lambda field, value: "sweep.json", ValueError),
        (lambda field, value: value, TypeError),
    ],
)
def test_labels_stay_inside_the_folder(label, kind):
    with pytest.raises(kind, match="^(the name of a point|points|label) must"):
        grids.grid({"gamma": [0.5, 0.9]}, label)


def test_points_are_what_they_say():
    config = GRID[0].config
    for arguments, kind in {
        ("a", (("gamma", 0.7),)): ValueError,  # another value than the configuration
        ("a", (("colour", 1),)): ValueError,
        ("../a", ()): ValueError,
    }.items():
        with pytest.raises(kind, match="^(settings|the name of a point) must"):
            grids.Point(arguments[0], dict(arguments[1]), config)
    with pytest.raises(TypeError, match="^config must be of type Config; got None"):
        grids.Point("a", {}, None)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"label": 3}, "label must be a function; got 3"),
        ({"make": None}, "make must be a function; got None"),
        ({"make": lambda **_: None}, "what make gives must be of type Config; got None"),
    ],
)
def test_grid_refuses_what_makes_no_points(options, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        grids.grid({"gamma": [0.5, 0.9]}, **options)


def test_grid_refuses_bad_points_before_any_work():
    with pytest.raises(ValueError, match="gamma must have different values; got gamma-0.5 twice"):
        points(gamma=[0.5, 0.9, 0.5])
    with pytest.raises(ValueError, match="dim must equal n_states = 4"):
        points(features=["gaussian", "one_hot"])


# ------------------------------------------------------------------------------------- in this process


def test_a_point_is_a_run(local, tmp_path):
    runs.run(tmp_path / "a", GRID[2].config, SEEDS)
    assert_same_history(local / GRID[2].name, tmp_path / "a")
    assert sorted(os.listdir(local / GRID[2].name)) == sorted(os.listdir(tmp_path / "a"))


def test_the_table_holds_settings_and_numbers(local):
    table = json.loads((local / "sweep.json").read_text())
    assert table["vary"] == {"gamma": [0.5, 0.9], "objective": ["td", "mc"]}
    assert table["seeds"] == list(SEEDS)
    for point, row in zip(GRID, table["points"], strict=True):
        numbers = runs.read(local / point.name).numbers()
        assert row == {"folder": point.name, "settings": point.settings, "status": "finished", "error": None} | numbers


def test_again_it_skips_what_is_finished_and_goes_on_with_the_rest(local, tmp_path, monkeypatch):
    """Interrupted in the third of four points."""
    computed, compute = [], pretrain.pretrain

    def count(config, *arguments, **options):
        computed.append((config.gamma, config.objective))
        if len(computed) == 3:
            raise KeyboardInterrupt
        return compute(config, *arguments, **options)

    monkeypatch.setattr(pretrain, "pretrain", count)
    with pytest.raises(KeyboardInterrupt):
        sweep.sweep(tmp_path / "a", GRID, SEEDS)
    states = sweep.check(tmp_path / "a", GRID, SEEDS, 1)
    assert list(states.values()) == ["finished", "finished", "begun", "empty"]
    said = []
    rows = sweep.sweep(tmp_path / "a", GRID, SEEDS, report=said.append)
    assert computed == [(0.5, "td"), (0.5, "mc"), (0.9, "td"), (0.9, "td"), (0.9, "mc")]
    assert [text.split()[0] for text in said] == ["[3/4]", "[4/4]"]
    assert [row["status"] for row in rows] == ["finished"] * 4
    for point in GRID:
        assert_same_history(tmp_path / "a" / point.name, local / point.name)
    rows_again = sweep.sweep(tmp_path / "a", GRID, SEEDS)
    assert rows_again == rows and len(computed) == 5


def test_a_point_that_fails_does_not_stop_the_others(local, tmp_path):

    def stop(text):
        raise KeyboardInterrupt

    first, second = (tmp_path / "a" / point.name for point in GRID[:2])
    with pytest.raises(KeyboardInterrupt):
        sweep.sweep(tmp_path / "a", GRID, SEEDS, report=stop)
    runs.begin(second, GRID[1].config, SEEDS, 1, {})
    (second / "checkpoint.npz").write_bytes(b"damaged")
    rows = sweep.sweep(tmp_path / "a", GRID, SEEDS)
    assert [row["status"] for row in rows] == ["finished", "failed", "finished", "finished"]
    assert "CheckpointError" in rows[1]["error"] and "damaged" in rows[1]["error"]
    assert (second / "checkpoint.npz").read_bytes() == b"damaged"
    assert json.loads((tmp_path / "a" / "sweep.json").read_text())["points"] == rows
    (second / "checkpoint.npz").unlink()
    assert sweep.sweep(tmp_path / "a", GRID, SEEDS)[1]["status"] == "finished"
    assert_same_history(second, local / GRID[1].name)
    assert_same_history(first, local / GRID[0].name)


@pytest.mark.parametrize(
    "grid, seeds, threads, field",
    [
        (points(gamma=[0.5, 0.8], objective=["td", "mc"]), SEEDS, 1, "gamma"),
        (points(gamma=[0.5, 0.9]), SEEDS, 1, "objective"),
        (points(gamma=[0.5, 0.9], objective=["td", "mc"], form=["tsm", "dual_head"]), SEEDS, 1, "form"),
        (points(n_steps=31, gamma=[0.5, 0.9], objective=["td", "mc"]), SEEDS, 1, "n_steps"),
        (GRID, (0, 1, 2), 1, "seeds"),
        (GRID, SEEDS, 2, "threads"),
    ],
)
def test_another_sweep_is_refused_by_name(local, grid, seeds, threads, field):
    before = {path: path.stat().st_mtime_ns for path in local.rglob("*")}
    with pytest.raises(runs.OtherRunError) as caught:
        sweep.sweep(local, grid, seeds, threads=threads)
    assert caught.value.field == field
    assert {path: path.stat().st_mtime_ns for path in local.rglob("*")} == before


def test_a_sweep_can_be_extended_and_reordered(tmp_path):
    """More values of what varies: finished points stay, only new ones run."""
    sweep.sweep(tmp_path / "a", points(gamma=[0.5, 0.9]), [0])
    before = (tmp_path / "a" / "gamma-0.5" / "summary.json").read_bytes()
    overview, said = tmp_path / "a" / "figure-overview.svg", []
    overview.write_text("<svg/>")
    sweep.sweep(tmp_path / "a", points(gamma=[0.5, 0.9]), [0])
    assert overview.exists()  # the points are those that it shows
    rows = sweep.sweep(tmp_path / "a", points(gamma=[0.7, 0.9, 0.5]), [0], report=said.append)
    assert not overview.exists()
    assert [row["folder"] for row in rows] == ["gamma-0.7", "gamma-0.9", "gamma-0.5"]
    assert [row["status"] for row in rows] == ["finished"] * 3
    assert len(said) == 1 and "gamma-0.7" in said[0]
    assert (tmp_path / "a" / "gamma-0.5" / "summary.json").read_bytes() == before
    with pytest.raises(runs.OtherRunError) as caught:  # a value was taken away
        sweep.check(tmp_path / "a", points(gamma=[0.5, 0.9]), (0,), 1)
    assert caught.value.field == "gamma"


def test_force_removes_what_the_old_sweep_wrote_and_nothing_else(tmp_path):
    folder = tmp_path / "a"
    sweep.sweep(folder, points(gamma=[0.5, 0.9]), (0,))
    (folder / "figure-overview.svg").write_text("<svg/>")
    (folder / "gamma-0.9" / "notes.txt").write_text("mine")
    (folder / "plan.txt").write_text("mine")
    sweep.sweep(folder, points(gamma=[0.5, 0.7]), (1,), force=True)
    assert sorted(os.listdir(folder)) == ["gamma-0.5", "gamma-0.7", "gamma-0.9", "plan.txt", "sweep.json"]
    assert os.listdir(folder / "gamma-0.9") == ["notes.txt"]
    assert runs.read(folder / "gamma-0.5").summary["seeds"] == [1]


def test_force_leaves_an_old_point_whose_place_holds_something_else(tmp_path):
    folder = tmp_path / "a"
    sweep.sweep(folder, points(gamma=[0.5, 0.9]), (0,))
    (folder / "gamma-0.9" / "config.json").write_text("{")
    before = sorted(os.listdir(folder / "gamma-0.9"))
    sweep.sweep(folder, points(n_layers=[1, 2]), (0,), force=True)
    assert sorted(os.listdir(folder)) == ["gamma-0.9", "n_layers-1", "n_layers-2", "sweep.json"]
    assert sorted(os.listdir(folder / "gamma-0.9")) == before


def test_bad_arguments_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="^seeds must be different"):
        sweep.sweep(tmp_path / "a", GRID, [1, 1])
    with pytest.raises(ValueError, match="^threads must be an integer of at least 1; got 0"):
        sweep.sweep(tmp_path / "a", GRID, SEEDS, threads=0)
    for change, kind, message in [
        ({"points": []}, ValueError, "points must hold at least one point; got none"),
        ({"points": None}, TypeError, "points must be a sequence of Point"),
        ({"points": GRID[0]}, TypeError, "points must be a sequence of Point"),
        ({"points": [GRID[0].config]}, TypeError, "points must be of type Point"),
        ({"points": GRID + GRID}, ValueError, "points must have different names"),
        ({"points": [GRID[0], points()[0]]}, ValueError, "points must have settings of the same fields"),
        ({"threads": 100_000}, ValueError, "threads must be an integer from 1 to 1024"),
        ({"scheduler": 3}, TypeError, "scheduler must be an address or None; got 3"),
        ({"patience": 0}, ValueError, r"patience must be in \(0"),
        ({"checkpoint_seconds": -1}, ValueError, "checkpoint_seconds must be in"),
        ({"progress": 1}, TypeError, "progress must be True or False"),
        ({"force": "no"}, TypeError, "force must be True or False"),
        ({"report": []}, TypeError, "report must be a function or None"),
        ({"folder": None}, TypeError, "folder must be a str or a Path"),
    ]:
        arguments = {"folder": tmp_path / "a", "points": GRID, "seeds": SEEDS} | change
        with pytest.raises(kind, match=f"^{message}"):
            sweep.sweep(**arguments)
    assert os.listdir(tmp_path) == []
    rows = sweep.sweep(tmp_path / "a", iter(points(gamma=np.array([0.5, 0.9]))), np.arange(2), report=None)
    assert [row["status"] for row in rows] == ["finished"] * 2


def test_whatever_stands_in_the_table_the_answer_is_one_error(local, tmp_path):
    """Each part replaced by null and by other kinds of values."""
    good = json.loads((local / "sweep.json").read_text())
    refused = 0
    for path in leaves(good):
        for new in (None, "x", 3, [], {}, [None], {"a": None}, "../x"):
            (tmp_path / "sweep.json").write_text(json.dumps(replaced(good, path, new)))
            try:
                sweep.check(tmp_path, GRID, SEEDS, 1)
            except runs.RunError as error:
                assert str(tmp_path) in str(error)
                refused += 1
    assert refused > 100 and os.listdir(tmp_path) == ["sweep.json"]


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_with_other_things_is_refused(tmp_path, force):
    runs.begin(tmp_path / "run", GRID[0].config, SEEDS, 1, {})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    (tmp_path / "bad").mkdir()
    table = {"format": "ictd sweep", "version": 1, "vary": {}, "config": {}, "seeds": [], "points": []}
    (tmp_path / "run" / "inside").mkdir()
    for name, target in {"bad": "../run", "run/inside": "..", "empty": ""}.items():
        (tmp_path / name).mkdir(exist_ok=True)
        table["points"] = [{"folder": target, "settings": {}}]
        (tmp_path / name / "sweep.json").write_text(json.dumps(table))
    for name in ("run", "full", "bad", "run/inside", "empty"):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(runs.RunError, match="holds files but no sweep|is damaged"):
            sweep.sweep(tmp_path / name, GRID, SEEDS, force=force)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


# ------------------------------------------------------------------------------------------ own tasks


def test_a_sweep_on_own_tasks(tmp_path):
    """Every point draws them; going on with others is refused."""
    folder, grid = tmp_path / "a", points(n_steps=4, gamma=[0.5, 0.9])
    rows = sweep.sweep(folder, grid, SEEDS, sample=own_tasks.lazy_walk)
    assert [row["status"] for row in rows] == ["finished"] * 2
    for point in grid:
        runs.run(tmp_path / point.name, point.config, SEEDS, sample=own_tasks.lazy_walk)
        assert_same_history(folder / point.name, tmp_path / point.name)
    table = json.loads((folder / "sweep.json").read_text())
    assert table["tasks"] == identity.origin(own_tasks.lazy_walk) and table["config"]["family"] is None
    assert set(sweep.check(folder, grid, SEEDS, 1, sample=own_tasks.lazy_walk).values()) == {"finished"}
    for other in (None, own_tasks.ring):
        with pytest.raises(runs.OtherRunError) as caught:
            sweep.sweep(folder, grid, SEEDS, sample=other)
        assert caught.value.field == "tasks"
    more = sweep.sweep(folder, points(n_steps=4, gamma=[0.5, 0.9, 0.1]), SEEDS, sample=own_tasks.lazy_walk)
    assert [row["status"] for row in more] == ["finished"] * 3


@pytest.mark.parametrize(
    "several, sample, message",
    [
        ({"n_states": [4, 5]}, own_tasks.ring, "sample must give tasks with n_states = 5; got n_states = 4"),
        ({"family": ["boyan", "ring"]}, own_tasks.ring, "family must be left at 'boyan' where sample draws the tasks"),
        ({"gamma": [0.5, 0.9]}, own_tasks.ring_by_partial, "sample must be a function that can be imported again"),
    ],
)
def test_tasks_must_fit_all_points(tmp_path, several, sample, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        sweep.sweep(tmp_path / "a", points(**several), SEEDS, sample=sample)
    assert os.listdir(tmp_path) == []


# ------------------------------------------------------------------------------------- on a real cluster


@pytest.fixture(scope="module")
def cluster():
    """A scheduler with two worker processes."""
    distributed = pytest.importorskip("distributed", reason="sweeps on a cluster need distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


class WhenBusy(threading.Thread):
    """Do something as soon as a worker computes."""

    def __init__(self, cluster, action):
        super().__init__(daemon=True)
        self.cluster, self.action, self.done = cluster, action, []

    def run(self):
        while not self.done:
            time.sleep(0.01)
            for state in list(self.cluster.scheduler.workers.values()):
                if any(task.prefix.name == "work" for task in list(state.processing)):
                    time.sleep(0.1)  # into the middle of the training
                    if state.processing:
                        self.done.append(self.action(state))
                        return


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_a_killed_worker_loses_no_result(cluster, tmp_path):
    grid = points(n_steps=400, gamma=[0.5, 0.7, 0.9])
    warm = cluster.get_client().run(lambda: __import__("ictd.pretrain") and os.getpid())
    assert len(warm) == 2

    def kill(state):
        pid = warm[state.address]
        os.kill(pid, signal.SIGKILL)
        return pid

    killer = WhenBusy(cluster, kill)
    killer.start()
    said = []
    address = cluster.scheduler_address
    rows = sweep.sweep(tmp_path / "a", grid, SEEDS, scheduler=address, patience=30, report=said.append)
    assert killer.done and not os.path.exists(f"/proc/{killer.done[0]}/cmdline"), "no worker was killed"
    assert [row["status"] for row in rows] == ["finished"] * 3, rows
    assert len(said) == 3
    for point in grid:
        runs.run(tmp_path / "b" / point.name, point.config, SEEDS)
        assert_same_history(tmp_path / "a" / point.name, tmp_path / "b" / point.name)
        assert sorted(os.listdir(tmp_path / "a" / point.name)) == sorted(os.listdir(tmp_path / "b" / point.name))
        assert runs.read(tmp_path / "a" / point.name).summary["threads"] == 1


def test_the_cluster_goes_on_from_a_local_checkpoint(cluster, local, tmp_path, monkeypatch):
    """Points that were begun here are finished there, with the same results."""
    advance = steps.Run.advance

    def stop(self):
        if self.step == 17:
            raise KeyboardInterrupt
        return advance(self)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(steps.Run, "advance", stop)
        sweep.sweep(tmp_path / "a", GRID, SEEDS, checkpoint_seconds=0)
    assert runs.state(tmp_path / "a" / GRID[0].name) == "begun"
    assert (tmp_path / "a" / GRID[0].name / "checkpoint.npz").exists()
    rows = sweep.sweep(tmp_path / "a", GRID, SEEDS, scheduler=cluster.scheduler_address)
    assert [row["status"] for row in rows] == ["finished"] * 4
    for point in GRID:
        assert_same_history(tmp_path / "a" / point.name, local / point.name)


def test_workers_draw_own_tasks(cluster, tmp_path):
    grid = points(n_steps=4, gamma=[0.5, 0.9])
    options = {"scheduler": cluster.scheduler_address, "sample": own_tasks.lazy_walk}
    rows = sweep.sweep(tmp_path / "a", grid, SEEDS, **options)
    assert [row["status"] for row in rows] == ["finished"] * 2, rows
    for point in grid:
        runs.run(tmp_path / "b" / point.name, point.config, SEEDS, sample=own_tasks.lazy_walk)
        assert_same_history(tmp_path / "a" / point.name, tmp_path / "b" / point.name)
        assert runs.read(tmp_path / "a" / point.name).sample == "own_tasks:lazy_walk"


def test_a_worker_with_other_tasks_is_named():
    here = identity.origin(own_tasks.ring)
    for wrong, words in {
        "own_tasks:nothing": "a worker cannot import own_tasks:nothing as it is in this process: .*nothing",
        "no_such_module:ring": "a worker cannot import no_such_module:ring as it is .*: No module named",
        "own_tasks:lazy_walk": "a worker cannot import own_tasks:lazy_walk as it is .*: .* has another source",
    }.items():
        with pytest.raises(clusters.ClusterError, match=words):
            clusters.work(GRID[0].config, SEEDS, None, 1, pretrain.versions(), here | {"function": wrong})


def test_tasks_of_the_main_program_are_not_sent(tmp_path):
    """Workers could not import them; nothing is written."""
    (tmp_path / "main.py").write_text(
        """
from own_tasks import ring
from test_sweep import SEEDS, points

from ictd.runs import sweep


def sample(count, rng):
    return ring(count, rng)


try:
    sweep.sweep("a", points(), SEEDS, sample=sample, scheduler="tcp://127.0.0.1:1")
except ValueError as error:
    print(error)
"""
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "main.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=env)
    assert "sample must be in a module that workers can import; sample is in __main__" in done.stdout, done
    assert os.listdir(tmp_path) == ["main.py"]


def test_an_error_on_a_worker_is_an_error_of_its_point(cluster, local, tmp_path):
    runs.begin(tmp_path / "a" / GRID[1].name, GRID[1].config, SEEDS, 1, {})
    (tmp_path / "a" / GRID[1].name / "checkpoint.npz").write_bytes(b"damaged")
    table = json.loads((local / "sweep.json").read_text())
    (tmp_path / "a" / "sweep.json").write_text(json.dumps(table))
    rows = sweep.sweep(tmp_path / "a", GRID, SEEDS, scheduler=cluster.scheduler_address)
    assert [row["status"] for row in rows] == ["finished", "failed", "finished", "finished"]
    assert "CheckpointError" in rows[1]["error"]


def test_other_versions_are_refused_before_anything_is_written(cluster, tmp_path, monkeypatch):
    versions = pretrain.versions() | {"ictd": "9.9"}
    monkeypatch.setattr(pretrain, "versions", lambda: versions)
    with pytest.raises(clusters.ClusterError, match="worker at tcp://.* has ictd .*, and this process has ictd 9.9"):
        sweep.sweep(tmp_path / "a", GRID, SEEDS, scheduler=cluster.scheduler_address)
    assert not (tmp_path / "a").exists()


def test_a_worker_that_joins_late_checks_its_version():
    with pytest.raises(clusters.ClusterError, match="a worker has ictd .* this process has ictd 9.9"):
        clusters.work(GRID[0].config, SEEDS, None, 1, {"ictd": "9.9"})


def test_a_cluster_without_workers_is_named(tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"processes": True, "dashboard_address": ":0", "silence_logs": 50, "threads_per_worker": 1}
    with distributed.LocalCluster(n_workers=0, **options) as empty:
        address = empty.scheduler_address
        with pytest.raises(clusters.ClusterError, match=f"{address} has no workers after 0.5 s"):
            sweep.sweep(tmp_path / "a", GRID, SEEDS, scheduler=address, patience=0.5)
    assert not (tmp_path / "a").exists()
    with pytest.raises(clusters.ClusterError, match=f"no scheduler answers at {address} within 0.5 s"):
        sweep.sweep(tmp_path / "a", GRID, SEEDS, scheduler=address, patience=0.5)
    for wrong in ("here", "tcp://", ""):
        with pytest.raises(clusters.ClusterError, match="no scheduler answers"):
            sweep.sweep(tmp_path / "a", GRID, SEEDS, scheduler=wrong, patience=0.5)
    assert not (tmp_path / "a").exists()


def test_when_all_workers_go_what_is_finished_stays(cluster, tmp_path):
    """The last test with this cluster: it loses its workers and its scheduler."""
    grid = points(n_steps=3000, gamma=[0.5, 0.9])
    killer = WhenBusy(cluster, lambda state: cluster.scale(0))
    killer.start()
    with pytest.raises(clusters.ClusterError, match="no workers for 1 s; what is finished is saved"):
        sweep.sweep(tmp_path / "a", grid, SEEDS, scheduler=cluster.scheduler_address, patience=1)
    assert killer.done
    table = json.loads((tmp_path / "a" / "sweep.json").read_text())
    assert {row["status"] for row in table["points"]} == {"waiting"}
    assert set(sweep.check(tmp_path / "a", grid, SEEDS, 1).values()) == {"begun"}


def test_without_distributed_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(clusters.ClusterError, match=r"pip install 'ictd\[cluster\]'"):
        sweep.sweep(tmp_path / "a", GRID, SEEDS, scheduler="tcp://127.0.0.1:1")
    assert not (tmp_path / "a").exists()


def test_threads_are_pinned(tmp_path):
    import torch

    before = torch.get_num_threads()
    rows = sweep.sweep(tmp_path / "a", points(n_steps=3), SEEDS, threads=2)
    assert runs.read(tmp_path / "a" / "run").summary["threads"] == 2
    assert torch.get_num_threads() == before
    assert rows[0]["seconds"] > 0 and np.isfinite(rows[0]["value_error_median"])
