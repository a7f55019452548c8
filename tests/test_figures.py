"""Figures of finished runs and sweeps: from files only, complete SVG files, never over existing ones unasked."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need matplotlib")

from ictd import runs  # noqa: E402
from ictd.runs import figures  # noqa: E402
from ictd.runs.folder import write_json  # noqa: E402

NAMES = [f"figure-{name}.svg" for name in ("diagonality", "neu", "score-matrix", "value-error", "weights")]
REFERENCES = {"constant": 0.5, "certainty_equivalence": 0.1, "constructed": 0.2}


def made_run(seeds=3, sets=1, records=5, d=2, change=lambda history: None):
    """A run with numbers of its own choice, which ``change`` may change."""
    rng = np.random.default_rng(0)
    rising = np.linspace(0, 1, records)[:, None, None]
    shape = (records, seeds, sets)
    history = {
        "step": np.arange(records) * 10,
        "seeds": np.arange(seeds) + 40,
        "value_weights": rising[..., None] * [1.5, 1.25, -1.375] * np.ones((*shape, 1)),
        "score_matrix": rising[..., None, None] * (np.eye(d) + 0.01 * rng.standard_normal((*shape, d, d))),
        "diagonality_mean": 0.1 + 0.4 * rising * np.ones(shape),
        "diagonality_min": 0.05 + 0.1 * rising * np.ones(shape),
        "value_error": 0.75 - 0.5 * rising[..., 0] + 0.001 * np.arange(seeds),
        "neu": 10.0 ** (-1 - 4 * rising[..., 0]) * np.linspace(1, 2, seeds) - 1e-5,
        "neu_standard_error": np.full(shape[:2], 1e-5),
        "loss": np.ones(shape[:2]),
        "cosine_value_weights": np.ones(shape),
        "cosine_score_matrix": np.ones(shape),
        "diverged_at": np.full(seeds, -1),
    }
    change(history)
    names = ("n_steps", "n_layers", "n_states", "dim", "gamma", "objective", "features")
    config = dict(zip(names, (10 * (records - 1), 2, 4, d, 0.5, "td", "gaussian")))
    summary = {"config": config, "seeds": history["seeds"].tolist(), "seconds": 1.5, "threads": 1}
    summary |= {f"value_error_{name}": value for name, value in REFERENCES.items()}
    return runs.SavedRun("here", summary, history)


def stored(folder, run):
    """A folder with the files of a finished run."""
    folder.mkdir(parents=True)
    write_json(folder / "config.json", {"format": "ictd run", "version": 1, "seeds": [], "config": {}})
    np.savez(folder / "history.npz", **run.history)
    write_json(folder / "summary.json", run.summary)
    return folder


def stored_sweep(folder):
    """A sweep with two finished points and one that is not."""
    names = ["gamma-0.5", "gamma-0.7", "gamma-0.9"]
    for name in names[:2]:
        stored(folder / name, made_run())
    points = [{"folder": name, "settings": {"gamma": float(name[6:])}, "status": "waiting"} for name in names]
    table = {"format": "ictd sweep", "version": 1, "vary": {}, "config": {}, "seeds": [], "points": points}
    write_json(folder / "sweep.json", table)
    return folder


def texts(svg):
    return [node.text for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text") if node.text]


def label(svg):
    return ET.fromstring(svg).get("aria-label")


# --------------------------------------------------------------------------------------------- of a run


def files(folder):
    """The figures of a run or a sweep, by name."""
    figures.write(folder)
    return {path.name: path.read_bytes() for path in folder.glob("figure-*")}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return files(stored(tmp_path_factory.mktemp("runs") / "a", made_run()))


def test_every_figure_is_a_complete_svg_file_with_a_description(drawn, tmp_path):
    assert sorted(drawn) == NAMES
    for name, data in drawn.items():
        root = ET.fromstring(data)
        assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.get("width").endswith("pt"), name
        assert len(root.get("aria-label")) > 40 and "$" not in root.get("aria-label")
        assert "step" in " ".join(texts(data)) or name == "figure-score-matrix.svg"
    assert drawn == files(stored(tmp_path / "a", made_run()))  # the same bytes


def test_descriptions_name_the_numbers_at_the_end(drawn):
    assert "w_R (reward) 1.5, w_T (target) 1.25, w_C (current) -1.38" in label(drawn["figure-weights.svg"])
    assert "mean 0.5, min 0.15" in label(drawn["figure-diagonality.svg"])
    found = label(drawn["figure-value-error.svg"])
    assert "trained 0.251, constant 0.5, certainty equivalence 0.1, constructed 0.2" in found
    assert "0.15 at the start and 5e-06 at the end" in label(drawn["figure-neu.svg"])


def axes_of(function, run):
    """Axes of a figure before it becomes text."""
    fig, _ = function(run)
    return fig.axes


def test_thin_lines_are_the_seeds_and_the_thick_one_their_median():
    run = made_run()
    (ax,) = axes_of(figures.value_error, run)
    thin = [line.get_ydata() for line in ax.lines if line.get_linewidth() < 1]
    np.testing.assert_array_equal(np.array(thin).T, run.history["value_error"])
    (trained,) = [line for line in ax.lines if line.get_label() == "trained"]
    np.testing.assert_array_equal(trained.get_ydata(), run.history["value_error"][:, 1])
    for name, level in REFERENCES.items():
        (line,) = [line for line in ax.lines if line.get_label() == name.replace("_", " ")]
        assert set(line.get_ydata()) == {level}


def test_neu_has_its_interval_on_a_symmetric_logarithmic_axis():
    run = made_run()
    (ax,) = axes_of(figures.neu, run)
    assert ax.get_yscale() == "symlog"
    (band,) = ax.collections
    middle = run.history["neu"][:, 1]
    edges = band.get_paths()[0].vertices[:, 1]
    assert edges.min() == pytest.approx((middle - 1.96e-5).min())
    assert edges.max() == pytest.approx((middle + 1.96e-5).max())
    assert edges.min() < 0


def test_parameters_for_each_layer_are_shown_by_layer():
    def change(history):
        history["value_weights"][..., 1, :] *= 2

    run = made_run(seeds=2, sets=3, change=change)
    (ax,) = axes_of(figures.weights, run)
    thin = [line.get_ydata()[-1] for line in ax.lines if line.get_linewidth() < 0.7]
    assert sorted(thin) == sorted([1.5, 3, 1.5, 1.25, 2.5, 1.25, -1.375, -2.75, -1.375])
    assert "thin: layers" in ax.get_ylabel()
    assert "last layer" in " ".join(ax.get_title() for ax in axes_of(figures.score_matrix, run))


def test_the_score_matrix_is_that_of_the_middle_seed():
    def change(history):
        history["value_error"][-1] = [0.3, 0.1, 0.2]
        history["score_matrix"][-1, 2, 0] = [[0.75, -0.5], [0.25, 1]]

    run = made_run(change=change)
    after = axes_of(figures.score_matrix, run)[1]
    assert after.get_title() == "after (seed 42)"
    assert [text.get_text() for text in after.texts] == ["0.75", "−0.50", "0.25", "1"]


@pytest.mark.parametrize("harm", ["one diverged", "all diverged", "one seed", "nan", "zero"])
@pytest.mark.filterwarnings("error")
def test_figures_can_be_drawn_whatever_the_numbers(harm, tmp_path):
    def change(history):
        if harm.endswith("diverged"):
            history["diverged_at"][: 1 if harm == "one diverged" else 3] = 7
        for values in history.values():
            if values.dtype == float and harm in ("nan", "zero"):
                values[...] = {"nan": np.nan, "zero": 0.0}[harm]
        if harm == "nan":
            history["value_error"][1] = 1e300

    run = made_run(seeds=1 if harm == "one seed" else 3, change=change)
    if harm == "one seed":
        run.summary["value_error_constructed"] = None
    drawn = files(stored(tmp_path / "a", run))
    assert sorted(drawn) == NAMES
    for data in drawn.values():
        assert not re.search(rb"nan|inf[^o]", data.partition(b">")[2])
    if harm == "one diverged":
        assert "trained 0.252" in label(drawn["figure-value-error.svg"])  # the median of the other two
    if harm == "all diverged":
        assert "trained unknown" in label(drawn["figure-value-error.svg"])


def test_many_features_are_drawn_too():
    before, after = axes_of(figures.score_matrix, made_run(d=200, seeds=1, records=2))
    assert after.get_xlim() == (-0.5, 149.5)


# ------------------------------------------------------------------------------------------- of a sweep


def test_the_overview_has_every_finished_point(tmp_path):
    """In files of up to 20, with one point that is not finished and one whose seeds all diverged."""
    names = [f"gamma-{i}" for i in range(45)]
    points = [{"folder": name, "settings": {}, "status": "waiting"} for name in names]
    table = {"format": "ictd sweep", "version": 1, "vary": {}, "config": {}, "seeds": [], "points": points}
    for i in set(range(45)) - {3}:
        step = 7 if i == 4 else -1
        folder = stored(
            tmp_path / names[i], made_run(change=lambda history, step=step: history["diverged_at"].fill(step))
        )
        for name in NAMES:  # they would take a minute
            (folder / name).write_text("drawn already")
    write_json(tmp_path / "sweep.json", table)
    written, kept, notes = figures.write(tmp_path)
    assert [path.name for path in written] == ["figure-overview.svg", "figure-overview-2.svg", "figure-overview-3.svg"]
    assert kept == 44 * 5 and len(notes) == 1
    found = [text for path in written for text in texts(path.read_bytes())]
    expected = [f"{name}: pattern in {0 if name == 'gamma-4' else 3} of 3 seeds" for name in names if name != "gamma-3"]
    assert [text for text in found if text.startswith("gamma")] == expected


# ------------------------------------------------------------------------------------------- in folders


@pytest.fixture
def quick(monkeypatch):
    """Files without drawings."""
    monkeypatch.setattr(figures, "_file", lambda fig, alt: b"<svg/>")


def test_write_never_replaces_a_figure_unasked(tmp_path, quick):
    folder = stored(tmp_path / "a", made_run())
    (folder / NAMES[0]).write_text("mine")
    written, kept, notes = figures.write(folder)
    assert (sorted(path.name for path in written), kept, notes) == (NAMES[1:], 1, [])
    assert (folder / NAMES[0]).read_text() == "mine"
    assert figures.write(folder)[:2] == ([], 5)
    assert len(figures.write(folder, overwrite=True)[0]) == 5
    assert (folder / NAMES[0]).read_text().startswith("<svg")
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_write_a_sweep_draws_its_finished_runs_and_an_overview(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "OF_RUN", {"figure-neu.svg": figures.neu})
    folder = stored_sweep(tmp_path / "s")
    written, kept, notes = figures.write(folder)
    assert len(written) == 3 and kept == 0
    assert len(notes) == 1 and "gamma-0.9 is empty" in notes[0]
    found = texts((folder / "figure-overview.svg").read_bytes())
    assert "gamma-0.5: pattern in 3 of 3 seeds" in found and "gamma-0.7: pattern in 3 of 3 seeds" in found


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: figures.write(3), "folder must be a str or a Path; got 3"),
        (lambda: figures.write("a", overwrite=3), "overwrite must be True or False; got 3"),
    ],
)
def test_what_cannot_be_drawn_is_named(call, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        call()


def test_write_says_what_is_wrong_with_a_folder(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("x")
    table = stored_sweep(tmp_path / "s") / "sweep.json"
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "sweep.json").write_bytes(table.read_bytes())
    for name, words in {
        "absent": "does not exist",
        "other": "holds files but no run",
        "other/a.txt": "is a file",
        "none": "no finished run of its sweep",
    }.items():
        with pytest.raises(runs.RunError, match=words):
            figures.write(tmp_path / name)


def test_the_command_needs_no_torch(tmp_path):
    folder = stored(tmp_path / "a", made_run())
    code = "import sys; sys.modules['torch'] = None; from ictd import cli; sys.exit(cli.main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, "figures", folder], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"5 figures drawn in {folder}\n"
    assert sorted(path.name for path in folder.glob("figure-*")) == NAMES
