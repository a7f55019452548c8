"""Batches of random tasks: what the single-task functions of `mrp` and `td` give, many at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_close, seeds

from ictd import empirical, mrp, tasks

FAMILIES = list(tasks.FAMILIES)
families = st.sampled_from(FAMILIES)


def generators(*numbers):
    return [np.random.default_rng(number) for number in numbers]


def test_an_index_selects_tasks_and_nothing_else():
    """With as many tasks as states, one beyond would give a stochastic matrix mixed from all tasks."""
    batch = tasks.draw(3, 3, 2, *generators(0))
    contexts = batch.sample(5, *generators(1))
    for beyond in ((slice(None), 0), (slice(None), slice(1, None)), (0, 0)):
        for whole in (batch, contexts):
            with pytest.raises(IndexError, match="too many indices"):
                whole[beyond]
    with pytest.raises(IndexError, match="too many indices"):
        batch[0][0]
    pair = batch.reshape((1, 3))
    for index in ((..., 1), (0, 1), (slice(None), 1), (..., [0, 2]), (0, np.array([True, False, True])), None, ...):
        expected = np.broadcast_to(np.arange(3), (1, 3))[index]
        assert (pair[index].reward == batch.reward[expected]).all() and pair[index].shape == expected.shape


# ------------------------------------------------------------------------------------------- sampling


@pytest.mark.parametrize("family", FAMILIES)
def test_contexts_have_the_law_of_the_process(family):
    """First states are uniform and moves follow P: Pearson's statistic is within 5 standard errors of its mean.

    The sum over a source's possible moves of (count - N p)^2 / (N p) has mean (moves - 1) and variance about twice
    that. The same bound holds for `mrp.MRP.sample`, so both have the law of the process.
    """
    rng = np.random.default_rng(3)
    batch = tasks.draw(1, 6, 2, rng, family)
    process = batch.process(0, 0.5)
    many = tasks.Tasks(*(np.repeat(array, 4000, axis=0) for array in vars(batch).values()))
    ours = many.sample(20, rng)
    theirs = [process.sample(20, rng).states for _ in range(1000)]
    for states in (ours.states, np.array(theirs)):
        first = np.bincount(states[:, 0], minlength=6) / len(states)
        assert np.abs(first - 1 / 6).max() < 5 * np.sqrt(5 / 36 / len(states))
        counts = np.zeros((6, 6))
        np.add.at(counts, (states[:, :-1], states[:, 1:]), 1)
        P = process.transition
        assert (counts[P == 0] == 0).all()
        expected = counts.sum(axis=1, keepdims=True) * P
        statistic = np.sum((counts - expected)[P > 0] ** 2 / expected[P > 0])
        freedom = (P > 0).sum() - 6
        assert abs(statistic - freedom) <= 5 * np.sqrt(2 * freedom) + 1


def test_rewards_and_noise():
    """A reward is that of the state left; noise has mean 0 and the given deviation, and does not move the states."""
    batch = tasks.draw(200, 5, 2, np.random.default_rng(0))
    exact, noisy = (batch.sample(100, np.random.default_rng(1), noise) for noise in (0, 0.5))
    np.testing.assert_array_equal(exact.states, noisy.states)
    for i in (0, 199):
        np.testing.assert_array_equal(exact.rewards[i], batch.reward[i][exact.states[i, :-1]])
    np.testing.assert_array_equal(batch.sample(100, np.random.default_rng(1)).rewards, exact.rewards)  # the default
    noise = noisy.rewards - exact.rewards
    rng = np.random.default_rng(1)  # which draws first states, moves and then the noise
    rng.integers(5, size=200), rng.random((200, 100))
    np.testing.assert_allclose(noise, 0.5 * rng.standard_normal((200, 100)), atol=1e-15)
    error = 5 / np.sqrt(noise.size)
    assert abs(noise.mean()) < 0.5 * error and abs(noise.std() / 0.5 - 1) < error / np.sqrt(2)


def test_drawn_rewards_and_the_scale_of_features():
    """Rewards are uniform in (-1, 1); the scale multiplies features, and is 1 if it is not given."""
    default, scaled = (tasks.draw(500, 4, 3, np.random.default_rng(0), **given) for given in ({}, {"feature_scale": 4}))
    np.testing.assert_array_equal(scaled.features, 4 * default.features)
    assert abs(default.features.std() - 1) < 5 / np.sqrt(2 * default.features.size)
    assert -1 <= default.reward.min() < -0.99 and 0.99 < default.reward.max() < 1


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_sequence_of_generators_gives_what_each_gives_alone(noise):
    """Tasks and contexts of a seed do not depend on the other seeds."""
    together = generators(1, 2, 3)
    batch = tasks.draw(4, 5, 3, together)
    contexts = batch.sample(12, together, noise)
    assert batch.shape == (3, 4) and contexts.states.shape == (3, 4, 13)
    for index, alone in enumerate(generators(1, 2, 3)):
        mine = tasks.draw(4, 5, 3, alone)
        drawn = mine.sample(12, alone, noise)
        for name, array in vars(mine).items():
            np.testing.assert_array_equal(array, getattr(batch[index], name))
        np.testing.assert_array_equal(drawn.states, contexts.states[index])
        np.testing.assert_array_equal(drawn.rewards, contexts.rewards[index])
    assert not (batch.reward[0] == batch.reward[1]).any()


# ------------------------------------------------------------------------------- values and models


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_stationary_distributions(family):
    """A batch has the values and stationary distributions of its processes, one by one."""
    batch = tasks.draw(6, 7, 2, np.random.default_rng(0), family).reshape((2, 3))
    values, mu = batch.value(0.9), batch.stationary()
    for index in np.ndindex(2, 3):
        process = batch.process(index, 0.9)
        assert_close(values[index], process.value(), 1e-12)
        assert_close(mu[index], process.stationary(), 1e-13)
        assert_close(mu[index] @ process.transition, mu[index], 1e-13)


@pytest.mark.parametrize("transition", [[[0.5, 0.5], [0, 1]], [[1, 0], [0.5, 0.5]], np.eye(2)])
def test_no_stationary_distribution_without_irreducibility(transition):
    """A transient state, first or last, and two classes are refused; the good task beside them is no excuse."""
    batch = tasks.Tasks([transition, [[0.5, 0.5], [0.5, 0.5]]], np.zeros((2, 2)), np.zeros((2, 2, 1)))
    with pytest.raises(ValueError, match="^transition must be irreducible"):
        batch.stationary()


@given(seeds, families, st.integers(1, 30))
def test_empirical_models(seed, family, n):
    """Counts, frequencies and mean rewards of `empirical.empirical_model`, with 0 where that has NaN."""
    rng = np.random.default_rng(seed)
    contexts = tasks.draw(6, 6, 2, rng, family).reshape((2, 3)).sample(n, rng, reward_noise=0.5)
    counts, transition, reward = contexts.empirical()
    for index in np.ndindex(2, 3):
        model = empirical.empirical_model(contexts.trajectory(index), 6)
        np.testing.assert_array_equal(counts[index], model.counts)
        assert_close(transition[index], model.transition, 1e-15)
        assert_close(reward[index], np.nan_to_num(model.reward), 1e-13)


@pytest.mark.parametrize("n", [1, 3, 8, 40])
def test_certainty_equivalence(n):
    """At sources `empirical.certainty_equivalence` with the constant predictor as boundary; elsewhere the constant."""
    rng = np.random.default_rng(n)
    contexts = tasks.draw(50, 6, 2, rng, "dense").sample(n, rng, reward_noise=0.5)
    values, constant = contexts.certainty_equivalence(0.8), contexts.constant_value(0.8)
    boundaries = 0
    for i in range(50):
        trajectory = contexts.trajectory(i)
        model = empirical.empirical_model(trajectory, 6)
        expected = empirical.certainty_equivalence(model, 0.8, boundary=constant[i])
        assert constant[i] == pytest.approx(trajectory.rewards.mean() / 0.2, rel=1e-14)
        assert_close(values[i], np.where(model.visited, expected, constant[i]), 1e-12)
        boundaries += not model.visited[trajectory.states[-1]]
    assert boundaries > 0 or n == 40  # the case that needs a convention did occur


def test_certainty_equivalence_by_hand():
    """States 0, 0, 1 with rewards 1, 3 and gamma .5: constant 4, and v(0) = 2 + .5 (.5 v(0) + .5 * 4) = 4."""
    contexts = tasks.Contexts([[0, 0, 1], [0, 1, 0]], [[1.0, 3.0], [1.0, 0.0]], 3)
    # second context: constant 1; v(0) = 1 + .5 v(1), v(1) = .5 v(0)
    expected = [[4, 4, 4], [4 / 3, 2 / 3, 1]]
    assert_close(contexts.certainty_equivalence(0.5), expected, 1e-14)
    assert contexts.constant_value(0.5).tolist() == [4, 1]


# ---------------------------------------------------------------------------------------- containers


def test_parts_and_shapes():
    """Indexing, reshaping, windows and single contexts keep what belongs together."""
    rng = np.random.default_rng(0)
    batch = tasks.draw(6, 5, 2, rng)
    contexts = batch.sample(9, rng)
    square, rows = batch.reshape((2, 3)), contexts.reshape((2, 3))
    assert square.shape == (2, 3) and square.n_states == 5 and rows.n_transitions == 9
    np.testing.assert_array_equal(square[1].transition, batch[3:].transition)
    np.testing.assert_array_equal(square[1, 2].features, batch.features[5])
    np.testing.assert_array_equal(rows[1, 0].rewards, contexts.rewards[3])
    window = rows.window(2, 4)
    np.testing.assert_array_equal(window.states, rows.states[..., 2:7])
    np.testing.assert_array_equal(window.rewards, rows.rewards[..., 2:6])
    trajectory = rows.trajectory((0, 1))
    np.testing.assert_array_equal(trajectory.states, contexts.states[1])
    assert rows.window(0, 9).n_transitions == 9 and rows.window(8, 1).n_transitions == 1
    np.testing.assert_array_equal(rows.reshape((3, 2)).states[2, 1], contexts.states[5])
    np.testing.assert_array_equal(rows.constant_value(0.5), contexts.constant_value(0.5).reshape(2, 3))


def test_single_process_of_your_own():
    """A process and its features become a batch of one, whose contexts visit it."""
    process = mrp.boyan_chain(5, 0.9, np.random.default_rng(0))
    batch = tasks.single(process, np.eye(5))
    assert batch.shape == (1,)
    assert_close(batch.value(0.9)[0], process.value(), 1e-13)
    assert batch.process(0, 0.9).gamma == 0.9


def test_arrays_are_copies_that_cannot_be_written():
    """Neither the caller's arrays nor those of a batch can be changed through the other."""
    P, r, X = np.full((1, 3, 3), 1 / 3), np.zeros((1, 3)), np.zeros((1, 3, 2))
    batch = tasks.Tasks(P, r, X)
    contexts = batch.sample(5, np.random.default_rng(0))
    P[:] = r[:] = X[:] = 7
    assert batch.transition.max() < 1 and not batch.reward.any() and not batch.features.any()
    for array in (batch.transition, batch.reward, batch.features, contexts.states, contexts.rewards):
        with pytest.raises(ValueError):
            array[...] = 0
    for one, two, field in ((batch, tasks.Tasks(P * 0 + 1 / 3, r, X), "reward"), (contexts, contexts[:1], "n_states")):
        assert one == one and one != two and len({one, two}) == 2  # compared by identity
        with pytest.raises(AttributeError):
            setattr(one, field, 0)
