"""Pretraining: an independent trainer takes the same steps, the record says what it claims, killed runs go on."""

import concurrent.futures
import copy
import dataclasses
import json
import multiprocessing
import os
import pickle
import re
import signal
import sys
import time
import types

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_close

from ictd import _files, convergence, inputs, kernels, neu, pretrain, tasks
from ictd.model import FullICTD, SoftmaxICTD
from ictd.pretrain import Config, checkpoint, measures, steps, training
from ictd.pretrain.checkpoint import CheckpointError
from ictd.prompt import build_prompt
from ictd.state_form import state_values

SMALL = Config(
    gamma=0.6,
    n_layers=3,
    n_states=4,
    dim=2,
    n_transitions=20,
    n_steps=8,
    batch_size=4,
    dtype="float64",
    n_records=4,
    n_held_out=6,
    neu_batches=3,
    neu_batch_size=4,
    init_scale=0.3,
)


def small(**changes):
    return dataclasses.replace(SMALL, **changes)


def same(a, b, names=None):
    """Two results are equal bit for bit, but for the time they took."""
    for name in vars(a.history):
        x, y = getattr(a.history, name), getattr(b.history, name)
        assert (x is None) == (y is None), name
        if x is not None:
            assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes(), name
    assert a.parameters.keys() == b.parameters.keys()
    for name, value in a.parameters.items():
        assert value.dtype == b.parameters[name].dtype and value.tobytes() == b.parameters[name].tobytes(), name
    references = ("value_error_constant", "value_error_certainty_equivalence", "value_error_constructed")
    assert all(getattr(a, name) == getattr(b, name) for name in references)
    return True


def prompts(batch, contexts):
    """Prompt matrices of a batch with one leading dimension."""
    return build_prompt(np.stack([X[s] for X, s in zip(batch.features, contexts.states)]), contexts.rewards)


# ------------------------------------------------------------------------------------------- settings

INTEGERS = {"n_layers": 1, "n_transitions": 1, "n_steps": 1, "batch_size": 1, "n_records": 1, "n_held_out": 1,
            "neu_batches": 3, "neu_batch_size": 1, "held_out_seed": 0, "n_states": 3, "dim": 1}  # fmt: skip
POSITIVE = ("feature_scale", "learning_rate", "clip")
NOT_NEGATIVE = ("reward_noise", "init_scale")
OPTIONS = {
    "objective": ("td", "td_query", "neu", "neu_one_batch", "mc"),
    "family": ("boyan", "ring", "dense", "sparse", "loop"),
    "features": ("gaussian", "triangular"),  # one_hot needs dim = n_states
    "form": ("tsm", "dual_head", "independent_heads"),
    "free": ("none", "value", "score", "both"),
    "dtype": ("float32", "float64"),
}
BAD = [
    *((name, low - 1, ValueError, f"at least {low}; got {low - 1}") for name, low in INTEGERS.items()),
    *((name, 1.5, TypeError, "got 1.5") for name in INTEGERS),
    *((name, True, TypeError, "got True") for name in INTEGERS),
    *((name, bad, ValueError, r"\(0, 1e\+30\]") for name in POSITIVE for bad in (0, -1, 1e31, float("nan"))),
    *((name, bad, ValueError, r"\[0, 1e\+30\]") for name in NOT_NEGATIVE for bad in (-1e-9, float("inf"))),
    *((name, "1", TypeError, "number") for name in (*POSITIVE, *NOT_NEGATIVE, "final_rate", "init_reward_weight")),
    *((name, bad, ValueError, "one of") for name in OPTIONS for bad in ("", "TD", None, 3, ["td"])),
    ("gamma", 1, ValueError, r"\[0, 1\)"),
    ("gamma", "0.5", TypeError, "number"),
    ("final_rate", 1.1, ValueError, r"\[0, 1\]"),
    ("final_rate", -0.1, ValueError, r"\[0, 1\]"),
    ("init_reward_weight", -1e31, ValueError, r"\[-1e\+30, 1e\+30\]; got -1e\+31"),
    ("shared", 1, TypeError, "True or False; got 1"),
    ("shared", "yes", TypeError, "True or False"),
    ("n_states", 10**30, ValueError, "from 3 to 1048576"),
    ("batch_size", 2**30, ValueError, "from 1 to 1073741823; got 1073741824"),
    ("n_transitions", 2**31 - 1, ValueError, "from 1 to 1073741823"),
    ("neu_batch_size", 2**27, ValueError, "from 1 to 134217727"),  # for 16 batches
]


@pytest.mark.parametrize("name, value, kind, message", BAD)
def test_bad_settings(name, value, kind, message):
    """Every field of the settings is checked, and the error begins with its name."""
    with pytest.raises(kind, match=f"^{name} must be .*{message}"):
        Config(**{name: value})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"features": "one_hot", "n_states": 5, "dim": 4}, "dim must equal n_states = 5 for one-hot features; got 4"),
        ({"features": "triangular", "dim": 1}, "dim must be at least 2 for triangular features; got 1"),
        ({"free": "value", "form": "independent_heads"}, "free must be 'none' for independent heads; got 'value'"),
    ],
)
def test_settings_that_contradict_each_other(changes, message):
    """Refused when they are made, not when they are used."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        Config(**changes)


def test_every_field_is_tested():
    """No setting escapes the tables above; good options are accepted; integers of NumPy become ints for JSON."""
    names = {field.name for field in dataclasses.fields(Config)}
    assert names == {row[0] for row in BAD}
    for name, options in OPTIONS.items():
        assert [getattr(Config(**{name: option}), name) for option in options] == list(options)
    config = Config(n_steps=np.int64(3), gamma=np.float32(0.5), features="one_hot", n_states=5, dim=np.int8(5))
    assert Config(**json.loads(json.dumps(dataclasses.asdict(config)))) == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.gamma = 0.1


def test_a_setting_is_described_where_it_is_declared():
    """Its line of help is in the docstring; its option is its own; its default passes its check."""
    text = " ".join(Config.__doc__.split())
    for field in dataclasses.fields(Config):
        help, check = field.metadata["help"], field.metadata["check"]
        assert re.search(rf"\b{field.name} : [^:]+ {re.escape(help[0].upper() + help[1:])}", text), field.name
        assert check(field.name, field.default) == field.default
        assert not field.metadata["choices"] or field.default in field.metadata["choices"]
    options = [field.metadata["option"] for field in dataclasses.fields(Config)]
    assert len(set(options)) == len(options)
    assert 'objective : {"td", "td_query", "neu", "neu_one_batch", "mc"}' in Config.__doc__
    for line in (
        "gamma : float in [0, 1)",
        "clip : float in (0, 1e+30]",
        "n_states : int, at least 3",
        "shared : bool",
    ):
        assert line in Config.__doc__.splitlines()


@given(st.integers(1, 300), st.integers(1, 60))
def test_record_steps(n_steps, n_records):
    """From 0 to n_steps, all different, at distances that differ by at most one."""
    steps = Config(n_steps=n_steps, n_records=n_records).record_steps()
    assert steps[0] == 0 and steps[-1] == n_steps and len(steps) == min(n_records, n_steps) + 1
    gaps = np.diff(steps)
    assert gaps.min() >= 1 and np.ptp(gaps) <= 1 + (n_steps % len(gaps) > 0)


BAD_CALLS = [
    (lambda: pretrain.pretrain({"gamma": 0.5}, [0]), TypeError, "config must be of type Config; got {'gamma': 0.5}"),
    (lambda: pretrain.pretrain(SMALL, 3), TypeError, r"seeds must be a sequence of integers, .*range\(20\); got 3"),
    (lambda: pretrain.pretrain(SMALL, "12"), TypeError, "seeds must be a sequence of integers"),
    (lambda: pretrain.pretrain(SMALL, []), ValueError, "seeds must hold at least one seed; got none"),
    (lambda: pretrain.pretrain(SMALL, [1, 2, 1]), ValueError, r"seeds must be different; got \(1, 2, 1\)"),
    (lambda: pretrain.pretrain(SMALL, [-1]), ValueError, "seeds must be an integer of at least 0; got -1"),
    (lambda: pretrain.pretrain(SMALL, [0.0]), TypeError, "seeds must be an integer of at least 0; got 0.0"),
    (lambda: pretrain.pretrain(SMALL, [0], checkpoint_seconds=-1), ValueError, "checkpoint_seconds must be in"),
    (lambda: pretrain.pretrain(SMALL, [0], checkpoint_path=3), TypeError, "checkpoint_path must be a str or a Path"),
    (lambda: pretrain.pretrain(SMALL, [0], checkpoint_path="no/such/run.npz"), ValueError,
     "checkpoint_path must be in an existing folder; there is no no.such"),
    (lambda: pretrain.pretrain(SMALL, [True]), TypeError, "seeds must be an integer of at least 0; got True"),
    (lambda: pretrain.pretrain(SMALL, [0], checkpoint_seconds="5"), TypeError, "checkpoint_seconds must be a number"),
    (lambda: pretrain.pretrain(SMALL, [0], progress="yes"), TypeError, "progress must be True or False; got 'yes'"),
    (lambda: pretrain.pretrain(SMALL, [0], checkpoint_path=b"run"), TypeError, "checkpoint_path must be a str"),
    *((lambda path=path: pretrain.pretrain(SMALL, [0], checkpoint_path=path), ValueError,
       "checkpoint_path must name a file; got") for path in (".", "a\0b", "..")),
    (lambda: pretrain.pretrain(SMALL, [0], checkpoint_path=""), ValueError, "checkpoint_path must not be an empty"),
    *((lambda length=length: pretrain.pretrain(SMALL, [0], checkpoint_path="n" * length), ValueError,
       "checkpoint_path must be a path that can be written") for length in (250, 300)),  # 250: not the one beside it
    (lambda: pretrain.initial_parameters(SMALL, True), TypeError, "seed must be an integer"),
    (lambda: pretrain.initial_parameters(None, 0), TypeError, "config must be of type Config"),
    (lambda: pretrain.initial_parameters(SMALL, -1), ValueError, "seed must be an integer of at least 0"),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, message", BAD_CALLS)
def test_bad_calls(call, kind, message, monkeypatch):
    """Refused before any work."""
    monkeypatch.setattr(training, "Run", None)
    with pytest.raises(kind, match=f"^{message}"):
        call()


# ------------------------------------------------------------------------------------------- training


def loss_of(model, config, rng):
    """The loss of a step for one seed, on prompt matrices and by the definitions."""
    count = config.batch_size * (2 if config.objective == "neu" else 1)
    options = config.family, config.features, config.feature_scale
    batch = tasks.draw(count, config.n_states, config.dim, rng, *options)
    longer = config.objective not in ("td", "mc")
    contexts = batch.sample(config.n_transitions + longer, rng, config.reward_noise)
    if not longer:
        values = model.values(prompts(batch, contexts))[:, -1]
        if config.objective == "td":
            target = torch.tensor(contexts.rewards) + config.gamma * values[:, 1:].detach()
            return (target - values[:, :-1]).square().mean() / 2
        truth = np.take_along_axis(batch.value(config.gamma), contexts.states, axis=-1)
        return (values - torch.tensor(truth)).square().mean() / 2
    n = config.n_transitions
    here = model.values(prompts(batch, contexts.window(0, n)))[:, -1, -1]
    there = model.values(prompts(batch, contexts.window(1, n)))[:, -1, -1]
    delta = torch.tensor(contexts.rewards[:, -1]) + config.gamma * there - here
    if config.objective == "td_query":
        return (delta + config.gamma * (there.detach() - there)).square().mean() / 2
    updates = []
    for part in np.split(np.arange(count), 2 if config.objective == "neu" else 1):
        gradients = torch.autograd.grad(
            here[part], list(model.parameters()), delta[part] / len(part), create_graph=True, materialize_grads=True
        )
        updates.append(torch.cat([gradient.ravel() for gradient in gradients]))
    return (updates[0] * updates[-1]).sum()


def train_alone(config, seed):
    """An independent trainer for one seed: torch's Adam and clipping on a model that reads prompt matrices."""
    kind = SoftmaxICTD if config.free == "none" else FullICTD
    model = kind(
        config.dim,
        config.n_layers,
        config.gamma,
        shared=config.shared,
        form=config.form,
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
        init_scale=config.init_scale,
    )
    with torch.no_grad():
        if config.free == "none":
            model.value_weights[:, 0] += config.init_reward_weight
        else:
            model.V[:, -1, -3] += config.init_reward_weight
    optimiser = torch.optim.Adam(model.parameters())
    losses = []
    for step in range(config.n_steps):
        loss = loss_of(model, config, np.random.default_rng([seed, step, 1]))
        optimiser.zero_grad()
        loss.backward()
        norm = torch.cat([parameter.grad.ravel() for parameter in model.parameters()]).norm().item()
        for parameter in model.parameters():
            parameter.grad *= min(1, config.clip / norm)
        share = config.final_rate + (1 - config.final_rate) * (1 + np.cos(np.pi * step / config.n_steps)) / 2
        for group in optimiser.param_groups:
            group["lr"] = config.learning_rate * share
        optimiser.step()
        losses.append(loss.item())
    return model, losses


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"objective": "td_query", "family": "ring", "feature_scale": 0.5},
        {"objective": "mc", "reward_noise": 0.5},
        {"objective": "neu", "n_steps": 5},
        {"objective": "neu_one_batch", "n_steps": 5, "init_reward_weight": 0.4},
        {"form": "dual_head", "shared": False, "features": "triangular"},
        {"form": "independent_heads", "shared": False, "learning_rate": 0.3, "clip": 0.01},
        {"free": "both", "init_scale": 0.2},
        {"free": "both", "form": "dual_head", "shared": False, "init_scale": 0.2, "init_reward_weight": 0.1},
        {"free": "both", "objective": "neu", "n_steps": 3, "init_scale": 0.2},
    ],
)
def test_an_independent_trainer_takes_the_same_steps(changes):
    """Parameters and losses of every seed, to 1e-8: draws, loss, clipping, Adam and its decay, all in plain torch.

    Adam divides by the root of squared gradients, so that rounding of 1e-16 grows a little with every step.
    """
    config = small(**changes)
    result = pretrain.pretrain(config, [7, 3])
    for index, seed in enumerate((7, 3)):
        model, losses = train_alone(config, seed)
        for name, parameter in model.named_parameters():
            assert_close(result.parameters[name][index], parameter.detach(), 1e-8)
        steps = config.record_steps()
        expected = [np.mean(losses[a:b]) for a, b in zip(steps[:-1], steps[1:])]
        assert_close(result.history.loss[1:, index], expected, 1e-8)
    assert np.isnan(result.history.loss[0]).all()


@pytest.mark.parametrize("free", ["value", "score"])
def test_half_free_parameters(free):
    """Only the named matrix is free: the other one stays masked, and both move."""
    result = pretrain.pretrain(small(free=free, n_steps=3), [1])
    expected = {"value": {"V", "score_matrix"}, "score": {"A", "value_weights"}}[free]
    assert result.parameters.keys() == expected
    start = pretrain.initial_parameters(small(free=free), 1)
    assert all((result.parameters[name][0] != start[name].numpy()).any() for name in expected)
    V, A = (matrix.detach() for matrix in result.model(1).matrices())
    assert V.count_nonzero() == (3 if free == "score" else 25) and A.count_nonzero() == (4 if free == "value" else 25)


def test_a_seed_alone_is_the_seed_among_others():
    """Neither the number nor the order of the seeds matters, to rounding; seeds differ; a rerun is the same."""
    together = pretrain.pretrain(SMALL, range(4))
    alone, turned = pretrain.pretrain(SMALL, [2]), pretrain.pretrain(SMALL, [3, 2])
    for name, value in together.parameters.items():
        assert_close(alone.parameters[name][0], value[2], 1e-9)
        assert_close(turned.parameters[name], value[[3, 2]], 1e-9)
        assert len(np.unique(value.reshape(4, -1)[:, 0])) == 4
    assert_close(alone.history.value_error[:, 0], together.history.value_error[:, 2], 1e-9)
    assert alone.value_error_constant == together.value_error_constant
    assert same(together, pretrain.pretrain(SMALL, np.arange(4)))


def test_held_out_tasks():
    """They depend on ``held_out_seed`` only, which in turn does not touch the training."""
    one, other = (pretrain.pretrain(small(held_out_seed=seed), [0, 1]) for seed in (0, 1))
    assert one.value_error_constant != other.value_error_constant
    for name, value in one.parameters.items():
        np.testing.assert_array_equal(value, other.parameters[name])
    again = pretrain.pretrain(small(n_steps=2, learning_rate=0.5, batch_size=2), [5])
    assert again.value_error_constant == one.value_error_constant
    assert again.value_error_constructed == one.value_error_constructed


def test_two_threads_give_the_same():
    """Numbers on one and on two threads agree to 1e-8 after 30 steps."""
    threads = torch.get_num_threads()
    config = small(n_steps=30, n_states=10, n_transitions=60, batch_size=32)
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(pretrain.pretrain(config, range(3)))
    finally:
        torch.set_num_threads(threads)
    assert [result.threads for result in results] == [1, 2]
    for name, value in results[0].parameters.items():
        assert_close(results[1].parameters[name], value, 1e-8)


# ---------------------------------------------------------------------------------------- the record

# All states are in every held-out context, so that prompts show all values.
DENSE = small(family="dense", n_transitions=60, n_states=3)
CASES = [
    {},
    {"form": "dual_head", "shared": False},
    {"form": "independent_heads"},
    {"free": "value", "form": "dual_head"},
    {"free": "score", "shared": False},
    {"free": "both"},
    {"dtype": "float32"},
    {"features": "one_hot", "dim": 3},
]


@pytest.mark.parametrize("changes", CASES)
def test_history_at_the_end_is_that_of_the_model(changes):
    """Weights, cosines, diagonality, value error and NEU of the last entry, from `Result.model` and its prompts."""
    config = dataclasses.replace(DENSE, **changes)
    result = pretrain.pretrain(config, [4, 9])
    history, tolerance = result.history, 1e-5 if config.dtype == "float32" else 1e-9
    held_out = measures.HeldOut(config)
    batch, contexts = held_out.batch, held_out.contexts
    assert history.step.tolist() == config.record_steps().tolist() == [0, 2, 4, 6, 8]
    Z = prompts(batch, contexts)
    for index, seed in enumerate((4, 9)):
        model = result.model(seed)
        assert type(model) is (SoftmaxICTD if config.free == "none" else FullICTD)
        V, A = (matrix.detach().double().numpy() for matrix in model.matrices())
        weights, block = V[:, -1, -3:], A[:, : config.dim, : config.dim]
        assert_close(history.value_weights[-1, index], weights, 1e-15)
        assert_close(history.score_matrix[-1, index], block, 1e-15)
        if config.form == "independent_heads":
            assert_close(history.target_weights[-1, index], model.target_weights.detach(), 1e-15)
            assert_close(history.target_score_matrix[-1, index], model.target_score_matrix.detach(), 1e-15)
        else:
            assert history.target_weights is None and history.target_score_matrix is None
        # what softmax sees of one-hot features: A without the means of its columns
        centre = np.eye(config.dim) - (1 / config.dim if config.features == "one_hot" else 0)
        for layer in range(len(V)):
            cosines = weights[layer] @ [1, 1, -1] / np.linalg.norm(weights[layer]) / np.sqrt(3)
            assert history.cosine_value_weights[-1, index, layer] == pytest.approx(cosines, abs=1e-6)
            seen = centre @ block[layer]
            cosines = (seen * centre).sum() / np.linalg.norm(seen) / np.linalg.norm(centre)
            assert history.cosine_score_matrix[-1, index, layer] == pytest.approx(cosines, abs=1e-6)
            found = [
                convergence.diagonality(
                    kernels.population_kernel(batch.process(i, 0.5), batch.features[i], block[layer])
                )
                for i in range(config.n_held_out)
            ]
            mean, least = np.mean(found, axis=0)
            assert history.diagonality_mean[-1, index, layer] == pytest.approx(mean, rel=1e-5)
            assert history.diagonality_min[-1, index, layer] == pytest.approx(least, rel=1e-5)
        # the value error, from the columns of the prompts
        values = model.values(Z)[:, -1].detach().double().numpy()
        squares = []
        for i in range(config.n_held_out):
            states, truth = contexts.states[i], batch.process(i, config.gamma).value()
            assert set(states) == set(range(config.n_states))
            mean = [values[i][states == s].mean() for s in range(config.n_states)]
            if config.free == "none":
                weight = batch.process(i, config.gamma).stationary()
            else:
                weight = np.bincount(states[:-1], minlength=config.n_states) / config.n_transitions
            squares.append(weight @ (mean - truth) ** 2)
        assert history.value_error[-1, index] == pytest.approx(np.sqrt(np.mean(squares)), rel=tolerance)
        if config.free in ("none", "both"):
            estimate = neu.neu(model, held_out.windows[:, 0])
        else:  # NEU in the trained entries only
            form = "tsm" if config.form == "tsm" else "dual_head"
            updates = neu.updates(dict(model.named_parameters()), held_out.windows[:, 0], 3, config.gamma, 3, form)
            of_A, of_V = (part.reshape(3, *V.shape) for part in updates.chunk(2, dim=1))
            parts = {
                "value": (of_A[..., : config.dim, : config.dim], of_V),
                "score": (of_A, of_V[..., -1, -3:]),
            }[config.free]
            estimate = neu.squared_norm(torch.cat([part.flatten(1) for part in parts], dim=1))
        assert history.neu[-1, index] == pytest.approx(estimate.value, rel=1e-3, abs=1e-6)
        assert history.neu_standard_error[-1, index] == pytest.approx(estimate.standard_error, rel=1e-3, abs=1e-6)


def test_the_first_entry_is_the_start():
    """Entry 0 is recorded before any step."""
    config = small(form="independent_heads", shared=False)
    history = pretrain.pretrain(config, [4, 9]).history
    for index, seed in enumerate((4, 9)):
        start = pretrain.initial_parameters(config, seed)
        for name in ("value_weights", "score_matrix", "target_weights", "target_score_matrix"):
            np.testing.assert_array_equal(getattr(history, name)[0, index], start[name])
    assert (history.value_weights[0] != history.value_weights[1]).any()
    with pytest.raises(ValueError):
        history.loss[0] = 0


@pytest.mark.parametrize("changes", [{}, {"free": "both"}, {"reward_noise": 0.5, "n_transitions": 5}])
def test_references(changes):
    """Errors of the constant, of certainty equivalence and of the constructed model, in loops."""
    config = small(**changes)
    result, held_out = pretrain.pretrain(small(**changes, n_steps=1), [0]), measures.HeldOut(config)
    batch, contexts = held_out.batch, held_out.contexts
    constructed = SoftmaxICTD.constructed(config.dim, config.n_layers, config.gamma)
    squares = []
    for i in range(config.n_held_out):
        process, trajectory = batch.process(i, config.gamma), contexts.trajectory(i)
        counts = np.bincount(trajectory.states[:-1], minlength=config.n_states)
        weight = process.stationary() if config.free == "none" else counts / counts.sum()
        # the state form of the constructed model: values of all states, also of those that the context lacks
        M = kernels.empirical_kernel(trajectory, batch.features[i])
        values = np.zeros(config.n_states)
        model = contexts[i].empirical()
        for _ in range(config.n_layers):
            values = values + M @ (model[2] + config.gamma * model[1] @ values - values)
        shown = constructed.values(prompts(batch[i : i + 1], contexts[i : i + 1]))[0, -1].detach().numpy()
        assert_close(values[trajectory.states], shown, 1e-10)
        guesses = contexts.constant_value(config.gamma)[i], contexts.certainty_equivalence(config.gamma)[i], values
        squares.append([weight @ (guess - process.value()) ** 2 for guess in guesses])
    errors = np.sqrt(np.mean(squares, axis=0))
    found = result.value_error_constant, result.value_error_certainty_equivalence, result.value_error_constructed
    assert_close(found, errors, 1e-10)


def test_summary():
    """What JSON can hold, with the promised keys; numbers per seed, per layer where layers differ."""
    result = pretrain.pretrain(SMALL, [3, 5])
    summary = json.loads(json.dumps(result.summary(), allow_nan=False))
    assert Config(**summary["config"]) == SMALL and summary["seeds"] == [3, 5]
    assert summary["threads"] == torch.get_num_threads() and summary["seconds"] > 0
    assert {"ictd", "python", "numpy", "torch"} == summary["versions"].keys()
    for name in ("constant", "certainty_equivalence", "constructed"):
        assert summary[f"value_error_{name}"] == getattr(result, f"value_error_{name}") > 0
    history = result.history
    expected = {
        "value_weights": history.value_weights[-1, :, 0],
        "cosine_value_weights": history.cosine_value_weights[-1, :, 0],
        "cosine_score_matrix": history.cosine_score_matrix[-1, :, 0],
        "diagonality_mean_start": history.diagonality_mean[0, :, 0],
        "diagonality_mean_end": history.diagonality_mean[-1, :, 0],
        "value_error": history.value_error[-1],
        "neu_start": history.neu[0],
        "neu_end": history.neu[-1],
        "diverged_at": [-1, -1],
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(summary[name], value)
    layers = pretrain.pretrain(small(shared=False, n_steps=1), [3, 5]).summary()
    assert np.shape(layers["value_weights"]) == (2, 3, 3) and np.shape(layers["cosine_score_matrix"]) == (2, 3)
    start = pretrain.pretrain(small(init_scale=0, n_steps=1, n_records=1), [3]).summary()  # a cosine with 0 is NaN
    json.dumps(start, allow_nan=False)


def test_models_of_unknown_seeds():
    """Only the seeds of the run have models."""
    result = pretrain.pretrain(small(n_steps=1), [3, 5])
    for seed in (0, -1, "3", None, 3.0, True, np.array([3]), np.array(3), [3], np.float64(3), float("nan")):
        with pytest.raises(ValueError, match="^seed must be one of 3, 5; got"):
            result.model(seed)
    assert torch.equal(result.model(np.int64(3)).value_weights, result.model(3).value_weights)
    with pytest.raises(ValueError, match="^seed must be one of 1; got True"):  # True == 1
        pretrain.pretrain(small(n_steps=1), [1]).model(True)


def test_results_are_read_only():
    """Parameters and history, also of copies: a change would change the models and the files of the run."""
    result = pretrain.pretrain(small(n_steps=1), [3])
    for one in (result, copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        for values in (*one.parameters.values(), one.history.neu):
            with pytest.raises(ValueError, match="read-only"):
                values[...] = 0
    mine = {"value_weights": np.zeros((1, 1, 3))}
    theirs = dataclasses.replace(result, parameters=mine).parameters["value_weights"]
    mine["value_weights"][...] = 1
    assert not theirs.any()


def test_settings_from_numpy_are_plain():
    """As JSON holds them."""
    config = Config(shared=np.bool_(False), objective=np.str_("mc"), n_layers=np.int8(3), gamma=np.float32(0.25))
    assert [type(getattr(config, name)) for name in ("shared", "objective", "n_layers", "gamma")] == [
        bool,
        str,
        int,
        float,
    ]


# ---------------------------------------------------------------------------------------- divergence


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("free", ["none", "both"])
def test_a_seed_that_diverges_leaves_the_others_alone(monkeypatch, free):
    """NaN in one seed's loss at step 5: it is recorded and stays where it was; the others keep every bit."""
    config = small(free=free, init_scale=0.2)
    expected = pretrain.pretrain(config, [0, 1, 2])
    plain, calls = steps.loss_of, []

    def broken(config, parameters, *batches):
        calls.append({name: value.detach().clone() for name, value in parameters.items()})
        factor = torch.ones(3, dtype=torch.float64)
        if len(calls) == 6:
            factor[1] = torch.nan
        return plain(config, parameters, *batches) * factor

    monkeypatch.setattr(steps, "loss_of", broken)
    result = pretrain.pretrain(config, [0, 1, 2])
    history = result.history
    assert history.diverged_at.tolist() == [-1, 5, -1]
    for name, value in result.parameters.items():
        np.testing.assert_array_equal(value[[0, 2]], expected.parameters[name][[0, 2]])
        np.testing.assert_array_equal(value[1], calls[5][name][1])
    for name in ("loss", "value_error", "neu", "value_weights"):
        np.testing.assert_array_equal(getattr(history, name)[:, [0, 2]], getattr(expected.history, name)[:, [0, 2]])
    assert np.isfinite(history.value_error).all()
    assert np.isnan(history.loss[3:, 1]).all() and np.isfinite(history.loss[1:3]).all()
    assert json.loads(json.dumps(result.summary(), allow_nan=False))["diverged_at"] == [-1, 5, -1]
    result.model(1).values(np.ones((5, 4)))


@pytest.mark.filterwarnings("error")
def test_a_start_that_is_not_finite(monkeypatch):
    """A seed whose values overflow from the start diverges at step 0; its model says so."""
    plain = pretrain.initial_parameters

    def huge(config, seed):
        parameters = plain(config, seed)
        return {name: value * (1e200 if seed == 1 else 1) for name, value in parameters.items()}

    expected = pretrain.pretrain(SMALL, [0, 1])
    monkeypatch.setattr(steps, "initial_parameters", huge)
    result = pretrain.pretrain(SMALL, [0, 1])
    assert result.history.diverged_at.tolist() == [-1, 0]
    assert np.isnan(result.history.loss[:, 1]).all() and not np.isfinite(result.history.value_error[:, 1]).any()
    for name, value in result.parameters.items():
        np.testing.assert_array_equal(value[0], expected.parameters[name][0])
    assert json.loads(json.dumps(result.summary(), allow_nan=False))["value_error"][1] is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_seeds_diverge(dtype):
    """A learning rate of 1e30: the run ends, every parameter is finite, and the record says when."""
    result = pretrain.pretrain(small(learning_rate=1e30, dtype=dtype, n_layers=12), range(3))
    assert (result.history.diverged_at >= 0).all() and np.isnan(result.history.loss[-1]).all()
    assert all(np.isfinite(value).all() for value in result.parameters.values())
    json.dumps(result.summary(), allow_nan=False)


def test_an_update_that_overflows(monkeypatch):
    """A step that would leave the numbers is not taken: the seed stops at the last finite parameters."""
    plain, start = steps.adam, {}

    def overflow(parameter, gradient, mean, square, step, rate):
        new, *moments = plain(parameter, gradient, mean, square, step, rate)
        if step == 3 and parameter.ndim == 3:
            start["value_weights"] = parameter[1].numpy().copy()
            new[1, 0, 2] = torch.inf
        return new, *moments

    monkeypatch.setattr(steps, "adam", overflow)
    result = pretrain.pretrain(SMALL, range(3))
    assert result.history.diverged_at.tolist() == [-1, 3, -1]
    np.testing.assert_array_equal(result.parameters["value_weights"][1], start["value_weights"])
    assert all(np.isfinite(value).all() for value in result.parameters.values())


def test_adam_is_that_of_torch():
    """Twenty steps, bit for bit, in both types, with a gradient of 0 among them."""
    rng = np.random.default_rng(0)
    for dtype in (torch.float32, torch.float64):
        parameter = torch.tensor(rng.normal(size=(2, 3)), dtype=dtype)
        theirs = parameter.clone().requires_grad_()
        optimiser = torch.optim.Adam([theirs])
        mean = square = torch.zeros_like(parameter)
        for step in range(20):
            gradient = torch.tensor(rng.normal(size=(2, 3)) * (step != 7), dtype=dtype)
            optimiser.param_groups[0]["lr"] = 0.1 / (step + 1)
            theirs.grad = gradient.clone()
            optimiser.step()
            parameter, mean, square = steps.adam(parameter, gradient, mean, square, step, 0.1 / (step + 1))
            assert torch.equal(parameter, theirs)


def test_one_layer_of_independent_heads():
    """Layer 1 reads no target memory: the target head has no gradient and stays at its start."""
    config = small(n_layers=1, form="independent_heads")
    result, start = pretrain.pretrain(config, [2]), pretrain.initial_parameters(config, 2)
    for name in ("target_weights", "target_score_matrix"):
        np.testing.assert_array_equal(result.parameters[name][0], start[name])
    assert (result.parameters["value_weights"][0, 0, 0] != start["value_weights"][0, 0]).all()
    assert result.history.diverged_at.tolist() == [-1]


def test_a_gradient_of_zero():
    """A start at 0 has the gradient 0 in all but w_R, and with no reward weight no seed moves further by NaN."""
    result = pretrain.pretrain(small(init_scale=0, n_steps=2), [0])
    assert result.history.diverged_at.tolist() == [-1]
    assert all(np.isfinite(value).all() for value in result.parameters.values())


# --------------------------------------------------------------------------------------- checkpoints


def test_a_finished_run_is_read_from_its_checkpoint(tmp_path, monkeypatch):
    """The second call trains nothing and gives the same result, time included."""
    path = tmp_path / "run.npz"
    first = pretrain.pretrain(SMALL, [0, 1], checkpoint_path=path)
    assert same(first, pretrain.pretrain(SMALL, [0, 1]))
    monkeypatch.setattr(steps.Run, "_train", None)
    again = pretrain.pretrain(SMALL, [0, 1], checkpoint_path=str(path))
    assert same(first, again) and again.seconds == pytest.approx(first.seconds, abs=0.05)


CONTINUED = [
    {},
    {"form": "independent_heads", "shared": False, "dtype": "float32"},
    {"objective": "neu", "free": "both", "init_scale": 0.2},
]


@pytest.mark.parametrize("changes", CONTINUED)
def test_a_run_goes_on_bit_for_bit_from_every_step(tmp_path, changes):
    """Stopped after 0, 1, 2, ... steps: at, before and after an entry of the history."""
    config, path = small(**changes), tmp_path / "run.npz"
    expected = pretrain.pretrain(config, [0, 6])
    for stop in range(config.n_steps + 1):
        run = steps.Run(config, (0, 6))
        for _ in range(stop):
            run.advance()
        run.save(path)
        assert checkpoint.load(path)[0]["step"] == stop
        assert same(expected, pretrain.pretrain(config, [0, 6], checkpoint_path=path))


def test_divergence_survives_a_break(tmp_path, monkeypatch):
    """A seed that has diverged before the break stays so after it."""
    plain = pretrain.initial_parameters
    monkeypatch.setattr(
        steps,
        "initial_parameters",
        lambda config, seed: {k: v * (1e200 if seed else 1) for k, v in plain(config, seed).items()},
    )
    expected = pretrain.pretrain(SMALL, [0, 1])
    run = steps.Run(SMALL, (0, 1))
    for _ in range(3):
        run.advance()
    run.save(tmp_path / "run.npz")
    monkeypatch.setattr(steps, "initial_parameters", plain)
    assert same(expected, pretrain.pretrain(SMALL, [0, 1], checkpoint_path=tmp_path / "run.npz"))


def test_interrupted_in_the_middle_of_a_step(tmp_path, monkeypatch):
    """Ctrl-C inside a step waits for its end, saves, and the run goes on from there bit for bit."""
    path, plain = tmp_path / "run.npz", steps.Run._train
    expected = pretrain.pretrain(SMALL, [0, 1])

    def press(run):
        if run.step == 5:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        plain(run)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(steps.Run, "_train", press)
    with pytest.raises(KeyboardInterrupt):
        pretrain.pretrain(SMALL, [0, 1], checkpoint_path=path, checkpoint_seconds=1000)
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is before
    assert checkpoint.load(path)[0]["step"] == 6
    assert same(expected, pretrain.pretrain(SMALL, [0, 1], checkpoint_path=path))


def test_outside_the_main_thread():
    """Only the main thread may handle Ctrl-C; elsewhere, as in the workers of a cluster, a run does without."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert same(pool.submit(pretrain.pretrain, SMALL, [0]).result(), pretrain.pretrain(SMALL, [0]))


KILLED = small(n_steps=300, n_records=15, n_transitions=30)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 on Windows")
def test_killed_at_random_moments(tmp_path):
    """kill -9 of a real process, three times while it writes a checkpoint after every step, changes no bit."""
    path, rng = tmp_path / "run.npz", np.random.default_rng(0)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ictd.pretrain"])
    options = {"checkpoint_path": path, "checkpoint_seconds": 0.0}
    steps = [0]
    for _ in range(3):
        process = context.Process(target=pretrain.pretrain, args=(KILLED, range(3)), kwargs=options)
        written = path.stat().st_mtime_ns if path.exists() else 0
        process.start()
        while not (path.exists() and path.stat().st_mtime_ns > written):
            assert process.is_alive()
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.06))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        steps.append(checkpoint.load(path)[0]["step"])
    assert (np.diff(steps) > 0).all() and steps[-1] < KILLED.n_steps
    assert same(pretrain.pretrain(KILLED, range(3)), pretrain.pretrain(KILLED, range(3), checkpoint_path=path))
    assert os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"learning_rate": 0.021}, "learning_rate is 0.02 there and 0.021 here"),
        ({"n_steps": 9}, "n_steps is 8 there and 9 here"),
        ({"objective": "mc"}, "objective is td there and mc here"),
        ({"shared": False}, "shared is True there and False here"),
    ],
)
def test_checkpoint_of_other_settings(tmp_path, change, message):
    """The error names what differs, and the file stays."""
    path = tmp_path / "run.npz"
    pretrain.pretrain(SMALL, [0, 1], checkpoint_path=path)
    content = path.read_bytes()
    with pytest.raises(CheckpointError, match=f"run.npz belongs to another run: {message}"):
        pretrain.pretrain(small(**change), [0, 1], checkpoint_path=path)
    for seeds in ([0], [1, 0], [0, 1, 2]):
        with pytest.raises(CheckpointError, match=r"another run: seeds is \[0, 1\] there and \["):
            pretrain.pretrain(SMALL, seeds, checkpoint_path=path)
    assert path.read_bytes() == content


def damaged(path, kind):
    """Spoil a good checkpoint."""
    header, arrays = checkpoint.load(path)
    if kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "text":
        path.write_text("a letter")
    elif kind == "another kind":
        checkpoint.save(path, {"kind": "letter"}, arrays)
    elif kind == "newer":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoint, "VERSION", checkpoint.VERSION + 1)
            checkpoint.save(path, header, arrays)
    elif kind == "without settings":
        checkpoint.save(path, {name: value for name, value in header.items() if name != "config"}, arrays)
    elif kind == "settings are a list":
        checkpoint.save(path, header | {"config": [1, 2]}, arrays)
    elif kind in ("step", "n_records"):
        checkpoint.save(path, header | {kind: header[kind] + 2}, arrays)
    elif kind == "seconds in words":
        checkpoint.save(path, header | {"seconds": "long"}, arrays)
    elif kind == "step with a fraction":
        checkpoint.save(path, header | {"step": 8.0}, arrays)
    elif kind == "another type":
        checkpoint.save(path, header, arrays | {"loss_sum": arrays["loss_sum"].astype(np.float32)})
    elif kind == "history of another shape":
        checkpoint.save(path, header, arrays | {"history/neu": arrays["history/neu"][:, :1]})
    elif kind == "a seed more":
        more = {name: np.concatenate([values, values[:1]]) for name, values in arrays.items() if "weights" in name}
        checkpoint.save(path, header, arrays | more)
    elif kind == "one more setting":
        checkpoint.save(path, header | {"config": header["config"] | {"colour": "red"}}, arrays)
    else:
        checkpoint.save(path, header, {name: value for name, value in arrays.items() if not name.startswith(kind)})


@pytest.mark.parametrize(
    "kind, message",
    [
        ("folder", "folder"),
        ("truncated", "damaged"),
        ("text", "no checkpoint"),
        ("another kind", "no checkpoint of a pretraining run"),
        ("newer", "newer ictd"),
        ("without settings", "incomplete"),
        ("settings are a list", "incomplete"),
        ("one more setting", "another run: colour is red there"),
        ("parameters/", "incomplete"),
        ("loss_sum", "incomplete"),
        ("optimiser/", "incomplete"),
        ("history/step", "incomplete"),
        ("step", "incomplete: .* records at step"),
        ("n_records", "incomplete: .* records at step"),
        ("seconds in words", "incomplete: seconds must be a number"),
        ("step with a fraction", "incomplete: step must be an integer"),
        ("another type", "incomplete: loss_sum has type torch.float32, expected torch.float64"),
        ("history of another shape", r"incomplete: history/neu is .* shape \(5, 1\) .* expected \(5, 2\)"),
        ("a seed more", r"incomplete: parameters/value_weights has shape \(3, 1, 3\), expected \(2, 1, 3\)"),
    ],
)
def test_damaged_checkpoints(tmp_path, kind, message):
    """One clear error, before any training, and the file as it was."""
    path = tmp_path / "run.npz"
    pretrain.pretrain(SMALL, [0, 1], checkpoint_path=path)
    damaged(path, kind)
    content = path.read_bytes() if path.is_file() else None
    with pytest.raises(CheckpointError, match=message):
        pretrain.pretrain(SMALL, [0, 1], checkpoint_path=path)
    assert (path.read_bytes() if path.is_file() else None) == content


def test_checkpoints_are_written_in_time(tmp_path, monkeypatch):
    """With 0 seconds after every step and once at the end, with many seconds only at the end."""
    written = []
    monkeypatch.setattr(steps.Run, "save", lambda run, path: written.append(run.step))
    pretrain.pretrain(SMALL, [0], checkpoint_path=tmp_path / "a.npz", checkpoint_seconds=0)
    assert written == [*range(1, 9), 8]
    written.clear()
    pretrain.pretrain(SMALL, [0], checkpoint_path=tmp_path / "a.npz", checkpoint_seconds=1000)
    assert written == [8]
    pretrain.pretrain(SMALL, [0])
    assert written == [8]


def test_a_finished_run_is_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    """Its models are there; an unfinished run is refused before a step is taken."""
    path = tmp_path / "run.npz"
    first = pretrain.pretrain(SMALL, [0], checkpoint_path=path)

    def full(*_):
        raise OSError("read-only file system")

    monkeypatch.setattr(_files, "replace", full)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert same(first, pretrain.pretrain(SMALL, [0], checkpoint_path=path))
    with pytest.raises(ValueError, match="^checkpoint_path must be a path that can be written; .*Permission denied"):
        pretrain.pretrain(SMALL, [0], checkpoint_path=tmp_path / "new.npz")


@pytest.mark.parametrize("where", ["no stream", "closed", "loading", "start", "update", "close"])
def test_a_broken_bar_stops_no_run(monkeypatch, where):
    """A terminal may go while a run goes on: its bar disappears, its numbers stay."""
    calls = []

    class Bar:
        def __init__(self, **options):
            calls.append("start")
            if where == "start":
                raise OSError(5, "Input/output error")

        def update(self):
            calls.append("update")
            if where == "update":
                raise OSError(5, "Input/output error")

        def close(self):
            calls.append("close")
            if where == "close":
                raise OSError(5, "Input/output error")

    expected = pretrain.pretrain(SMALL, [0])
    stream = types.SimpleNamespace(isatty=lambda: True)
    if where == "closed":
        stream = open(os.devnull, "w")  # noqa: SIM115
        stream.close()
    monkeypatch.setattr(sys, "stderr", None if where == "no stream" else stream)
    monkeypatch.setitem(sys.modules, "tqdm", None if where == "loading" else types.SimpleNamespace(tqdm=Bar))
    result = pretrain.pretrain(SMALL, [0], progress=True)
    monkeypatch.undo()
    assert same(expected, result)
    updates = {"update": 1, "close": 8}.get(where, 0)
    assert calls == ["start"] * (where in ("start", "update", "close")) + ["update"] * updates + ["close"] * (
        where == "close"
    )


def test_progress_is_quiet_without_a_terminal(capfd):
    """A bar is for people: nothing is printed into a file or a pipe."""
    pretrain.pretrain(small(n_steps=2), [0], progress=True)
    assert capfd.readouterr() == ("", "")


# -------------------------------------------------------------------------------------- what emerges


def test_the_pattern_emerges():
    """Five seeds from small random parameters learn the paper's pattern: weights (1, 1, -1), A = I, a sharp kernel.

    Measured over eight seeds: cosines at least .9997 and .996, diagonality 3.8 times the start, error .31 of the
    constant predictor's and about the constructed model's.
    """
    config = Config(
        n_states=6,
        n_transitions=60,
        n_steps=400,
        batch_size=16,
        learning_rate=0.05,
        init_reward_weight=0.1,
        n_records=4,
        n_held_out=64,
        neu_batches=4,
        neu_batch_size=8,
    )
    result = pretrain.pretrain(config, range(5))
    history = result.history
    assert (history.diverged_at == -1).all()
    assert (history.cosine_value_weights[-1] > 0.98).all() and (history.cosine_value_weights[0] < 0.9).any()
    assert (history.cosine_score_matrix[-1] > 0.95).all() and (history.cosine_score_matrix[0] < 0.8).all()
    assert (history.diagonality_mean[-1] > 3 * history.diagonality_mean[0]).all()
    assert (history.value_error[-1] < result.value_error_constant / 2).all()
    assert result.value_error_certainty_equivalence < result.value_error_constructed < result.value_error_constant
    assert (np.sign(history.value_weights[-1]) == [1, 1, -1]).all()


# ----------------------------------------------------------------------------------------- value errors


def three_tasks(count=3):
    return tasks.draw(count, 5, 2, np.random.default_rng(0))


def test_it_is_the_formula():
    """Root of the mean over tasks of sum_s mu(s) (v(s) - v_pi(s))^2, written as loops over `MRP`s."""
    three, rng = three_tasks(), np.random.default_rng(1)
    values = rng.normal(size=(4, 3, 5))
    expected = np.zeros(4)
    for seed in range(4):
        for task in range(3):
            process = three.process(task, 0.8)
            expected[seed] += process.stationary() @ (values[seed, task] - process.value()) ** 2 / 3
    np.testing.assert_allclose(pretrain.value_error(values, three, 0.8), np.sqrt(expected), rtol=1e-12)


def test_the_true_value_has_no_error():
    three = three_tasks()
    assert pretrain.value_error(three.value(0.9), three, 0.9) == 0
    assert pretrain.value_error(three.value(0.9) + 2, three, 0.9) == pytest.approx(2)


def test_states_of_weight_zero_need_no_value():
    three = three_tasks()
    values = three.value(0.5) + np.array([1.0, 3.0, 0.0, 0.0, np.nan])
    weights = np.tile([0.5, 0.5, 0.0, 0.0, 0.0], (3, 1))
    assert pretrain.value_error(values, three, 0.5, weights) == pytest.approx(np.sqrt(5))
    assert np.isnan(pretrain.value_error(values, three, 0.5))


def test_it_is_what_a_run_records():
    """The last entry of a history, from the run's parameters and the held-out tasks drawn anew."""
    config = Config(n_steps=3, n_states=4, dim=2, n_layers=2, n_transitions=20, n_held_out=8, dtype="float64")
    run = pretrain.pretrain(config, [0, 1])
    rng = np.random.default_rng([config.held_out_seed, 0, 2])
    held_out = tasks.draw(8, 4, 2, rng)
    contexts = held_out.sample(20, rng)
    tensors = {name: torch.tensor(value) for name, value in run.parameters.items()}
    values = state_values(tensors, inputs.from_contexts(held_out, contexts), config.gamma, 2).numpy()
    np.testing.assert_allclose(pretrain.value_error(values, held_out, 0.5), run.history.value_error[-1], rtol=1e-12)
    constant = np.repeat(contexts.constant_value(0.5)[:, None], 4, axis=1)
    assert pretrain.value_error(constant, held_out, 0.5) == pytest.approx(run.value_error_constant)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda v, b: (v[..., :4], b, 0.5), r"values must have shape .* = \(\.\.\., 3, 5\)"),
        (lambda v, b: (v[:2], b, 0.5), "values must have shape"),
        (lambda v, b: (v, b.reshape((1, 3)), 0.5), r"leading dimension \(T,\)"),
        (lambda v, b: (v, b, 1.0), "gamma"),
        (lambda v, b: (v, b, 0.5, np.ones((3, 5))), "weights must have non-negative rows that sum to 1"),
        (lambda v, b: (v, b, 0.5, np.tile([2.0, -1, 0, 0, 0], (3, 1))), "weights must have non-negative rows"),
        (lambda v, b: (v, b, 0.5, np.ones(5) / 5), "weights"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    three = three_tasks()
    with pytest.raises(ValueError, match=words):
        pretrain.value_error(*change(np.zeros((3, 5)), three))


def test_a_process_is_no_three_tasks():
    with pytest.raises(TypeError, match="batch"):
        pretrain.value_error(np.zeros((1, 5)), three_tasks().process(0, 0.5), 0.5)
