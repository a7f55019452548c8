"""Contexts as tensors, windows of them, and their limit: what they hold, and what they refuse."""

import numpy as np
import pytest
import torch
from strategies import assert_close

from ictd import inputs, tasks
from ictd.prompt import build_prompt

S, D, N, K = 6, 3, 9, 2
F64 = torch.float64


def instance(n=N):
    """K x 4 tasks with contexts; among them states that were never a source."""
    rngs = [np.random.default_rng(seed) for seed in (4, 5)]
    batch = tasks.draw(4, S, D, rngs, "dense")
    return batch, batch.sample(n, rngs, reward_noise=0.3)


def prompts(batch, contexts):
    """Prompt matrices built one by one with the public function."""
    x = np.stack([[X[s] for X, s in zip(*pair)] for pair in zip(batch.features, contexts.states)])
    return build_prompt(x, contexts.rewards)


def windows_of(n_batches=3):
    return inputs.draw_windows(n_batches, 2, 4, S, D, np.random.default_rng(0))


def limit():
    return inputs.limit_inputs(instance()[0])


# ----------------------------------------------------------------------------------------- what they hold


def test_inputs_hold_the_context():
    """Tensors of the arrays, in the type asked for; the prompts are those of `build_prompt`."""
    batch, contexts = instance()
    for dtype in (torch.float32, torch.float64):
        given = inputs.from_contexts(batch, contexts, dtype)
        assert given.features.dtype == given.rewards.dtype == given.prompts().dtype == dtype
        assert_close(given.prompts(), prompts(batch, contexts), 1e-6 if dtype == torch.float32 else 0)
        assert given.states.tolist() == contexts.states.tolist()
    assert_close(given[1].prompts(), prompts(batch, contexts)[1], 0)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(given.log_counts, np.log(contexts.empirical()[0]))


def test_the_limit_holds_the_process():
    """The stationary distribution in place of counts, P and r in place of frequencies and means; no columns."""
    batch, _ = instance()
    limit = inputs.limit_inputs(batch)
    assert_close(limit.log_counts.exp(), batch.stationary())
    for found, expected in ((limit.transition, batch.transition), (limit.mean_reward, batch.reward)):
        assert torch.equal(found, torch.tensor(expected))
    assert limit[1:].states is None and len(limit[1:].features) == K - 1
    with pytest.raises(ValueError, match="^inputs must hold contexts of finite length; got those of inputs.limit"):
        limit.prompts()


def test_windows_end_in_the_query_and_its_successor():
    """Both prompts have n transitions; the reward is that for leaving the query."""
    batch, contexts = instance()
    cut = inputs.windows(batch, contexts)
    assert torch.equal(cut.here.states, torch.tensor(contexts.states[..., :-1]))
    assert torch.equal(cut.there.states, torch.tensor(contexts.states[..., 1:]))
    assert torch.equal(cut.reward, torch.tensor(contexts.rewards[..., -1]))
    assert torch.equal(cut.here.rewards, torch.tensor(contexts.rewards[..., :-1]))
    assert torch.equal(cut[:, 2:4].there.rewards, torch.tensor(contexts.rewards[:, 2:4, 1:]))
    assert cut.features is cut.here.features and torch.equal(cut.features, cut.there.features)


def test_independent_batches():
    """Batches differ in tasks and contexts, tasks in a batch as well; the same generator gives the same windows."""
    draw = [inputs.draw_windows(3, 4, 7, S, D, np.random.default_rng(0), feature_scale=2.0) for _ in range(2)]
    assert torch.equal(draw[0].reward, draw[1].reward) and draw[0].reward.shape == (3, 4)
    assert draw[0].here.rewards.shape == (3, 4, 7)
    features = draw[0].here.features.reshape(12, -1)
    assert len(torch.unique(features, dim=0)) == 12
    assert len(torch.unique(draw[0].here.rewards.reshape(12, -1), dim=0)) == 12


# ------------------------------------------------------------------------------------- what they refuse


def test_contexts_of_other_tasks():
    """Contexts must be one for each task, with its states."""
    batch, contexts = instance()
    for wrong in (contexts[0], contexts.reshape((4, 2)), tasks.Contexts(contexts.states, contexts.rewards, S + 1)):
        with pytest.raises(ValueError, match="^contexts must have one context for each task"):
            inputs.from_contexts(batch, wrong)
    with pytest.raises(TypeError, match="^dtype must be a floating torch.dtype"):
        inputs.from_contexts(batch, contexts, torch.int64)
    with pytest.raises(TypeError, match="^batch must be of type Tasks"):
        inputs.from_contexts(contexts, contexts)


@pytest.mark.parametrize("dtype, scale", [(torch.float16, 256), (torch.float32, 2e19), (torch.float64, 2e160)])
def test_features_whose_inner_products_overflow_are_refused(dtype, scale):
    """For example 256 in float16, whose square is beyond 65504."""
    batch, contexts = instance()
    large = tasks.Tasks(batch.transition, batch.reward, np.sign(batch.features) * scale)
    with pytest.raises(ValueError, match="^features must give finite results in .*inner products overflow"):
        inputs.from_contexts(large, contexts, dtype)


FIELDS = ("features", "log_counts", "transition", "mean_reward", "states", "rewards")


def misshapen(tensor):
    """The tensor with an axis too many, too few, exchanged, or of length 1."""
    yield tensor[None]
    yield tensor[0]
    yield tensor.swapaxes(0, -1)
    yield torch.cat([tensor, tensor])
    for axis in range(tensor.ndim):
        yield tensor.narrow(axis, 0, 1)
        yield tensor.narrow(axis, 0, tensor.shape[axis] - 1)
        yield tensor.unsqueeze(axis)


@pytest.mark.parametrize("field", FIELDS)
def test_inputs_of_another_shape_are_refused(field):
    """None of them may be broadcast in silence; only the number of features is free."""
    batch, contexts = instance()
    good = vars(inputs.from_contexts(batch[0], contexts[0]))
    for wrong in misshapen(good[field]):
        if wrong.shape[:-1] == good[field].shape[:-1] and field == "features":
            continue
        with pytest.raises((ValueError, TypeError), match="must"):
            inputs.Inputs(**(good | {field: wrong}))


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"features": None}, TypeError, "features must be a floating-point torch.Tensor; got None"),
        ({"features": np.ones((4, S, D))}, TypeError, "features must be a floating-point torch.Tensor"),
        ({"features": torch.full((4, S, D), np.nan, dtype=torch.float64)}, ValueError, "features must be finite"),
        ({"features": torch.full((4, S, D), 1e160, dtype=torch.float64)}, ValueError,
         "features must give finite results in torch.float64; .*inner products overflow"),
        ({"features": torch.ones(4, S, D)}, TypeError, "log_counts must be of torch.float32"),
        ({"features": torch.ones(4, S, D, device="meta")}, TypeError, "features must be a dense tensor"),
        ({"log_counts": torch.full((4, S), np.inf, dtype=torch.float64)}, ValueError, "log_counts must be finite or"),
        ({"log_counts": torch.full((4, S), -np.inf, dtype=torch.float64)}, ValueError, "log_counts must be finite or"),
        ({"log_counts": torch.full((4, S), np.nan, dtype=torch.float64)}, ValueError, "log_counts must be finite or"),
        ({"transition": -torch.ones(4, S, S, dtype=torch.float64)}, ValueError, "transition must have non-negative"),
        ({"transition": torch.ones(4, S, S, dtype=torch.float64)}, ValueError, "transition must have non-negative"),
        ({"rewards": None}, ValueError, "states and rewards must be given together"),
        ({"rewards": torch.full((4, N), np.inf, dtype=torch.float64)}, ValueError, "rewards must be finite"),
        ({"states": torch.full((4, N + 1), S)}, ValueError, "states must be from 0 to 5; got 6"),
        ({"states": torch.zeros(4, N + 1)}, TypeError, "states must be a torch.Tensor of int64"),
        ({"states": None}, ValueError, "states and rewards must be given together"),
        ({"states": torch.zeros(4, 1, dtype=torch.int64)}, ValueError,
         r"states must have shape \(4, 'n\+1'\) with n >= 1; got shape \(4, 1\)"),
        ({"features": torch.ones(4, 0, D, dtype=F64)}, ValueError,
         r"features must not be empty; got shape \(4, 0, 3\)"),
        ({"mean_reward": [0.0]}, TypeError, "mean_reward must be a torch.Tensor; got a list"),
    ],
)  # fmt: skip
def test_inputs_are_checked(changes, kind, message):
    batch, contexts = instance()
    with pytest.raises(kind, match=f"^{message}"):
        inputs.Inputs(**(vars(inputs.from_contexts(batch[0], contexts[0])) | changes))


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: inputs.Windows(windows_of().here, windows_of().there, torch.zeros(2, dtype=F64)), ValueError,
         r"reward must have shape \(3, 2\); got shape \(2,\)"),
        (lambda: inputs.Windows(windows_of().here, windows_of()[:2].there, windows_of().reward), ValueError,
         "there.features must"),
        (lambda: inputs.Windows(windows_of().here, limit(), windows_of().reward), ValueError,
         "there must hold contexts of finite length"),
        (lambda: inputs.limit_inputs(instance()[0][0, 0]), ValueError,
         "batch must have at least one leading dimension"),
        (lambda: inputs.draw_windows(3, 2, 4, S, D, np.random.default_rng(0), np.float32), TypeError, "dtype must be"),
        (lambda: inputs.windows(instance()[0], None), TypeError, "contexts must be of type Contexts; got None"),
        (lambda: inputs.windows(*instance(1)), ValueError, "contexts must have at least 2 transitions; got 1"),
        (lambda: inputs.draw_windows(0, 2, 4, S, D, None), ValueError, "n_batches must be .* at least 1; got 0"),
        (lambda: inputs.draw_windows(1, 0, 4, S, D, None), ValueError, "batch_size must be .* at least 1; got 0"),
        (lambda: inputs.draw_windows(1, 2, 0, S, D, None), ValueError, "n_transitions must be .* at least 1; got 0"),
        (lambda: inputs.draw_windows(1, 2, 4, S, D, 0), TypeError, "rng must be a numpy.random.Generator"),
        (lambda: inputs.limit_inputs("tasks"), TypeError, "batch must be of type Tasks"),
        (lambda: inputs.Windows(None, windows_of().there, windows_of().reward), TypeError,
         "here must be of type Inputs; got None"),
        (lambda: inputs.windows(None, instance()[1]), TypeError, "batch must be of type Tasks; got None"),
        (lambda: inputs.windows(instance()[0][0], instance()[1]), ValueError,
         r"contexts must have one context for each task, \(4,\) with 6 states; got \(2, 4\) with 6 states"),
        (lambda: inputs.from_contexts(instance()[0][0, 0], instance()[1][0, 0]), ValueError,
         r"features must have shape \(..., T, S, d\); got shape \(6, 3\)"),
    ],
)  # fmt: skip
def test_bad_arguments(call, kind, message):
    """Errors name the argument, what came and what was expected."""
    with pytest.raises(kind, match=f"^{message}"):
        call()
