"""Tasks of the reader's own: they take the place of a family in everything, and files know which function drew them."""

import dataclasses
import importlib
import json

import numpy as np
import own_tasks
import pytest

pretrain = pytest.importorskip("ictd.pretrain", reason="needs torch")

from test_pretrain import SMALL, same, small  # noqa: E402

from ictd.pretrain import checkpoint, identity, measures, sampling, steps, training  # noqa: E402
from ictd.pretrain.checkpoint import CheckpointError  # noqa: E402

FAMILY = {"family": "ring", "feature_scale": 0.5}  # as own_tasks.ring
RING = {"function": "own_tasks:ring", "source": identity.origin(own_tasks.ring)["source"]}


# ------------------------------------------------------------------------------------------------- drawing


@pytest.mark.parametrize(
    "changes", [{}, {"objective": "neu", "reward_noise": 0.3}, {"objective": "mc", "free": "both", "n_steps": 3}]
)
def test_a_function_that_draws_as_a_family_gives_the_same_run(changes):
    """Bit for bit: batches, held-out tasks and the batches of the NEU estimates come from it, with the same numbers."""
    own = pretrain.pretrain(small(**changes), [0, 6], own_tasks.ring)
    built_in = pretrain.pretrain(small(**changes, **FAMILY), [0, 6])
    assert same(own, built_in)
    assert (own.tasks, built_in.tasks) == (RING, None)


def test_a_seed_draws_alone_what_it_draws_among_others():
    rngs = [np.random.default_rng([seed, 3, 1]) for seed in (5, 7, 9)]
    together = sampling.sample_tasks(SMALL, 4, rngs, own_tasks.lazy_walk)
    assert together.shape == (3, 4)
    for i, seed in enumerate((5, 7, 9)):
        alone = sampling.sample_tasks(SMALL, 4, np.random.default_rng([seed, 3, 1]), own_tasks.lazy_walk)
        for name, values in vars(alone).items():
            np.testing.assert_array_equal(values, vars(together)[name][i])


def test_a_run_on_own_tasks():
    """It learns on them, is measured on them, and its score matrix is compared with the identity as it is."""
    config = small(n_steps=40, learning_rate=0.05)
    result = pretrain.pretrain(config, [1, 2], sample=own_tasks.lazy_walk)
    assert (result.history.value_error[-1] < result.history.value_error[0]).all()
    held_out = measures.HeldOut(config, own_tasks.lazy_walk).batch
    rng = np.random.default_rng([config.held_out_seed, 0, 2])
    for name, values in vars(own_tasks.lazy_walk(config.n_held_out, rng)).items():
        np.testing.assert_array_equal(values, vars(held_out)[name])
    block = result.model(1).score_matrix[0].detach().numpy()
    cosine = np.trace(block) / np.linalg.norm(block) / np.sqrt(2)
    assert result.history.cosine_score_matrix[-1, 0, 0] == pytest.approx(cosine)


# ------------------------------------------------------------------------------------------------- refusals

BAD = [
    (3, TypeError, "sample must be a function or None; got 3"),
    ("own_tasks:ring", TypeError, "sample must be a function or None"),
    (own_tasks.no_tasks, TypeError, r"sample must give tasks.Tasks; got a ndarray of shape \(2, 4, 4\)"),
    (own_tasks.one_too_few, ValueError, r"sample\(2, rng\) must give tasks of leading shape \(2,\); got \(1,\)"),
    (own_tasks.for_each_seed, ValueError, r"sample\(2, rng\) must give tasks of leading shape \(2,\); got \(1, 2\)"),
    (own_tasks.five_states, ValueError, "sample must give tasks with n_states = 4; got n_states = 5"),
    (own_tasks.three_features, ValueError, "sample must give tasks with dim = 2; got dim = 3"),
    (own_tasks.of_its_own_generator, ValueError, "sample must draw from its generator only; equal generators gave"),
    (own_tasks.fails, ValueError, r"sample\(2, rng\) must draw tasks; it raised RuntimeError: no simulator"),
    (own_tasks.of_one_argument, ValueError, r"sample\(2, rng\) must draw tasks; it raised TypeError: of_one_argument"),
    (own_tasks.with_a_trap, ValueError, "sample must give irreducible processes"),
    (own_tasks.ring_by_partial, ValueError, "sample must be a function that can be imported again by its name"),
    (own_tasks.ring_by_lambda, ValueError, "sample must be a function that can be imported again .*<function <lambda>"),
    (own_tasks.nested(), ValueError, "sample must be a function that can be imported again .* no lambda, partial"),
    (own_tasks.Simulator(), ValueError, "sample must be a function that can be imported again"),
    (own_tasks.Simulator().method, ValueError, "sample must be a function that can be imported again"),
    (max, ValueError, "sample must have a source that can be read; got <built-in function max>"),
]


@pytest.mark.parametrize("sample, kind, message", BAD, ids=range(len(BAD)))
def test_functions_that_draw_no_tasks_are_refused(sample, kind, message, monkeypatch):
    """Before any work, with an error that says what came and what was expected."""
    monkeypatch.setattr(training, "Run", None)
    with pytest.raises(kind, match=f"^{message}"):
        pretrain.pretrain(SMALL, [0], sample)


@pytest.mark.parametrize("change", [{"family": "ring"}, {"features": "triangular"}, {"feature_scale": 2.0}])
def test_settings_of_a_family_beside_a_function_are_refused(change):
    ((name, value),) = change.items()
    default = getattr(pretrain.Config(), name)
    with pytest.raises(ValueError, match=f"^{name} must be left at {default!r} where sample draws .*; got {value!r}"):
        pretrain.pretrain(small(**change), [0], own_tasks.ring)


def test_what_a_small_draw_does_not_show_is_refused_where_it_comes(monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="^sample must give irreducible processes"):
        patch.setattr(steps.Run, "advance", None)
        pretrain.pretrain(SMALL, [0], own_tasks.with_a_trap_in_the_end)
    with pytest.raises(ValueError, match=r"^sample\(4, rng\) must give tasks of leading shape \(4,\); got \(3,\)"):
        pretrain.pretrain(SMALL, [0], own_tasks.short_of_batches)


def test_the_first_try_shifts_no_draw():
    """Its generator is no generator of a run, whatever the seeds."""
    used = set()
    for seed in (0, 1):
        for step in (0, 1):
            for stream in (sampling.TRAIN, sampling.HELD_OUT, sampling.NEU, sampling.TRIAL):
                used.add(np.random.default_rng([seed, step, stream]).integers(2**63))
    assert len(used) == 16


# -------------------------------------------------------------------------------------------------- identity


def test_a_function_is_known_by_its_name_and_source():
    assert identity.origin(None) is None and identity.function_of(None) is None
    for sample, name in ((own_tasks.ring, "ring"), (own_tasks.Simulator.draw, "Simulator.draw")):
        record = identity.origin(sample)
        assert record["function"] == f"own_tasks:{name}" and len(record["source"]) == 64
        assert identity.function_of(json.loads(json.dumps(record))) is sample
    with pytest.raises(ValueError, match="own_tasks:ring has another source"):
        identity.function_of(RING | {"source": "0" * 64})
    with pytest.raises(AttributeError):
        identity.function_of(RING | {"function": "own_tasks:nothing"})
    with pytest.raises(ImportError):
        identity.function_of(RING | {"function": "no_such_module:ring"})


def test_the_first_difference_of_two_runs():
    here = identity.identity(SMALL, (0, 1), RING) | {"threads": 1}
    assert {here["config"][name] for name in identity.OF_FAMILY} == {None}
    assert identity.config_of(here["config"]) == SMALL
    there = json.loads(json.dumps(here))
    assert identity.difference(there, here) is None
    built_in = identity.identity(small(gamma=0.1), (0, 1)) | {"threads": 1}
    assert identity.config_of(built_in["config"]) == small(gamma=0.1)
    words = f"own_tasks:ring (source {RING['source'][:12]})"
    assert identity.difference(there, built_in) == ("tasks", words, "built-in")
    assert identity.difference(built_in, here) == ("tasks", "built-in", words)
    old = {name: value for name, value in built_in.items() if name != "tasks"}  # of a version without such functions
    assert identity.difference(old, built_in) is None
    assert identity.difference(there | {"threads": 2}, here) == ("threads", 2, 1)
    there["config"]["momentum"] = 0.5
    assert identity.difference(there, here) == ("momentum", 0.5, "unknown")


# ----------------------------------------------------------------------------------------------- checkpoints


def test_a_run_on_own_tasks_goes_on_bit_for_bit(tmp_path):
    path = tmp_path / "run.npz"
    expected = pretrain.pretrain(SMALL, [0, 6], own_tasks.lazy_walk)
    for stop in (0, 3, 8):
        run = steps.Run(SMALL, (0, 6), own_tasks.lazy_walk)
        for _ in range(stop):
            run.advance()
        run.save(path)
        again = pretrain.pretrain(SMALL, [0, 6], own_tasks.lazy_walk, checkpoint_path=path)
        assert same(expected, again) and again.tasks == expected.tasks
    header, _ = checkpoint.load(path)
    assert header["tasks"] == identity.origin(own_tasks.lazy_walk)
    assert {header["config"][name] for name in identity.OF_FAMILY} == {None}
    assert header["config"]["n_states"] == 4


def test_a_checkpoint_of_other_tasks_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    for first, other, there, here in (
        (own_tasks.ring, own_tasks.lazy_walk, "own_tasks:ring .source .*", "own_tasks:lazy_walk .source .*"),
        (own_tasks.ring, None, "own_tasks:ring .source .*", "built-in"),
        (None, own_tasks.ring, "built-in", "own_tasks:ring .source .*"),
    ):
        path.unlink(missing_ok=True)
        pretrain.pretrain(small(n_steps=1), [0], first, checkpoint_path=path)
        content = path.read_bytes()
        with pytest.raises(CheckpointError, match=f"belongs to another run: tasks is {there} there and {here} here"):
            pretrain.pretrain(small(n_steps=1), [0], other, checkpoint_path=path)
        assert path.read_bytes() == content


SOURCE = """\
from ictd import tasks


def sample(count, rng):
    return tasks.draw(count, 4, 2, rng, feature_scale={scale})
"""


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """``edited(scale)`` gives the function of a module whose source the reader changes."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)

    def edit(scale):
        (tmp_path / "edited_tasks.py").write_text(SOURCE.format(scale=scale))
        module = importlib.import_module("edited_tasks")
        importlib.invalidate_caches()
        return importlib.reload(module).sample

    yield edit
    monkeypatch.delitem("sys.modules", "edited_tasks", raising=False)


def test_a_function_whose_source_has_changed_is_another_one(tmp_path, edited):
    path, config = tmp_path / "run.npz", small(n_steps=1)
    pretrain.pretrain(config, [0], edited("0.5"), checkpoint_path=path)
    words = r"edited_tasks:sample \(source \w{12}\)"
    with pytest.raises(CheckpointError, match=f"another run: tasks is {words} there and {words} here"):
        pretrain.pretrain(config, [0], edited("0.75"), checkpoint_path=path)
    pretrain.pretrain(config, [0], edited("0.5"), checkpoint_path=path)


def test_the_summary_names_the_function():
    result = pretrain.pretrain(small(n_steps=1), [0], own_tasks.ring)
    summary = json.loads(json.dumps(result.summary(), allow_nan=False))
    assert summary["tasks"] == RING and summary["config"]["family"] is None
    assert result.config == small(n_steps=1) and pretrain.pretrain(small(n_steps=1), [0]).summary()["tasks"] is None
    assert dataclasses.replace(result).tasks == RING
