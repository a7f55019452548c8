"""Batches of random tasks: what the single-task functions of `mrp` and `td` give, many at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_close, seeds

from ictd import empirical, features, mrp, tasks

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


def plain_path(P, state, uniforms):
    """One chain in plain loops: the first state at which the sum of probabilities exceeds u, or the last possible."""
    states = [int(state)]
    for u in uniforms:
        row = P[states[-1]]
        last = max(s for s in range(len(row)) if row[s] > 0)
        total, move = 0.0, 0
        for move in range(len(row)):
            total += row[move]
            if u < total or move == last:
                break
        states.append(move)
    return states


def sparse_rows(rng, *shape):
    """Stochastic matrices with many zeros, also at both ends of a row."""
    P = rng.random(shape) * (rng.random(shape) < 0.4)
    at = (*np.ogrid[tuple(slice(n) for n in shape[:-1])], rng.integers(shape[-1], size=shape[:-1]))
    P[at] += 0.1
    return P / P.sum(axis=-1, keepdims=True)


# ------------------------------------------------------------------------------------------- sampling


@given(seeds, st.integers(1, 8))
def test_paths_are_the_plain_loop(seed, n_states):
    """The same uniforms give the same states, with u = 0, u just below 1 and u on a bound among them."""
    rng = np.random.default_rng(seed)
    P = sparse_rows(rng, 2, 3, n_states, n_states)
    first, uniforms = rng.integers(n_states, size=(2, 3)), rng.random((2, 3, 30))
    uniforms[..., :4] = [0, np.nextafter(1, 0), 0, np.nextafter(1, 0)]
    uniforms[..., 4:8] = np.minimum(np.cumsum(P[0, 0, 0])[rng.integers(n_states, size=4)], np.nextafter(1, 0))
    states = mrp.sample_paths(P, first, uniforms)
    for i, j in np.ndindex(2, 3):
        assert states[i, j].tolist() == plain_path(P[i, j], first[i, j], uniforms[i, j])
        assert (P[i, j][states[i, j, :-1], states[i, j, 1:]] > 0).all()


def test_paths_broadcast_the_transition():
    """One matrix for all chains, or one for each row of chains, is the same as copies of it."""
    rng = np.random.default_rng(0)
    P, first, uniforms = sparse_rows(rng, 2, 1, 5, 5), rng.integers(5, size=(2, 7)), rng.random((2, 7, 20))
    copies = np.broadcast_to(P, (2, 7, 5, 5))
    np.testing.assert_array_equal(mrp.sample_paths(P, first, uniforms), mrp.sample_paths(copies, first, uniforms))
    np.testing.assert_array_equal(
        mrp.sample_paths(P[0, 0], first[0], uniforms[0]), mrp.sample_paths(P[0], first[0], uniforms[0])
    )


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
    noise = noisy.rewards - exact.rewards
    error = 5 / np.sqrt(noise.size)
    assert abs(noise.mean()) < 0.5 * error and abs(noise.std() / 0.5 - 1) < error / np.sqrt(2)


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
    """Where a state was a source, `empirical.certainty_equivalence` with the constant predictor at the boundary; else that."""
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


# ------------------------------------------------------------------------------------------- families


def test_boyan_chains_are_those_of_mrp():
    """One chain is, number by number, the one that `mrp.boyan_chain` draws from the same generator."""
    for seed in range(5):
        batch = tasks.draw(1, 9, 4, np.random.default_rng(seed))
        process = mrp.boyan_chain(9, 0.5, np.random.default_rng(seed))
        np.testing.assert_array_equal(batch.transition[0], process.transition)
        np.testing.assert_array_equal(batch.reward[0], process.reward)


def test_many_boyan_chains_have_the_law():
    """Chains of one batch differ, and the drawn probabilities are uniform in (.01, .99): mean and deviation."""
    batch = tasks.draw(5000, 5, 1, np.random.default_rng(0))
    u = batch.transition[:, 0, 1]
    deviation = 0.98 / np.sqrt(12)
    assert u.min() > 0.01 and u.max() < 0.99 and len(np.unique(u)) == 5000
    assert abs(u.mean() - 0.5) < 5 * deviation / np.sqrt(5000) and abs(u.std() / deviation - 1) < 0.05
    allowed = np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [1, 1, 1, 1, 1]])
    assert ((batch.transition > 0) == allowed).all()
    ratio = batch.transition[:, 4].max(axis=1) / batch.transition[:, 4].min(axis=1)
    assert ratio.max() < 99 and batch.reward.min() >= -1 and batch.reward.max() < 1
    assert abs(batch.reward.mean()) < 5 / np.sqrt(3 * batch.reward.size)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_states", [3, 4, 11])
def test_families_are_irreducible(family, n_states):
    """From every state every other one is reached, in each of 200 tasks; rows sum to 1."""
    P = tasks.draw(200, n_states, 1, np.random.default_rng(n_states), family).transition
    reach = np.eye(n_states) + (P > 0)
    for _ in range(n_states):
        reach = (reach @ reach > 0).astype(float)
    assert reach.all() and np.abs(P.sum(axis=-1) - 1).max() < 1e-14 and (P >= 0).all()


def test_shapes_of_the_families():
    """Rings move to neighbours, loops onwards or stay, sparse chains have at most three successors."""
    n = 7
    right = np.roll(np.eye(n), 1, axis=1)
    drawn = {family: tasks.draw(300, n, 1, np.random.default_rng(1), family).transition for family in FAMILIES}
    ring, loop, sparse, dense = (drawn[family] for family in ("ring", "loop", "sparse", "dense"))
    assert (ring[:, right + right.T == 0] == 0).all()
    forward = ring[:, right == 1]
    assert forward.min() >= 0.1 and forward.max() < 0.9 and abs(forward.mean() - 0.5) < 0.02
    assert (loop[:, right + np.eye(n) == 0] == 0).all() and loop[:, right == 1].min() >= 0.5
    successors = (sparse > 0).sum(axis=-1)
    assert successors.max() == 3 and successors.min() == 1  # two random successors may be equal, or the next state
    assert (sparse[:, right == 1] >= 0.1 / 3).all()
    # uniform on the simplex: mean 1 / n, variance (n - 1) / (n^2 (n + 1))
    assert abs(dense.var() / ((n - 1) / (n**2 * (n + 1))) - 1) < 0.05


# ------------------------------------------------------------------------------------------- features


def test_one_hot_features_are_permuted_anew_for_each_task():
    """Every task has a permutation of the indicators, all places equally likely."""
    X = tasks.draw(4000, 4, 4, np.random.default_rng(0), features="one_hot", feature_scale=3.0).features
    assert set(np.unique(X)) == {0, 3}
    assert (X.sum(axis=1) == 3).all() and (X.sum(axis=2) == 3).all()
    assert np.abs((X == 3).mean(axis=0) - 0.25).max() < 5 * np.sqrt(3 / 16 / 4000)
    assert len({task.tobytes() for task in X}) == 24


def test_triangular_features_are_the_same_for_all_tasks():
    """They sum to the scale, whatever the state."""
    X = tasks.draw(3, 13, 4, np.random.default_rng(0), features="triangular", feature_scale=2.0).features
    for task in X:
        np.testing.assert_array_equal(task, 2 * features.triangular(13, 4))
    assert_close(X.sum(axis=-1), np.full((3, 13), 2.0), 1e-14)


def test_gaussian_features():
    """Mean 0, deviation the scale, different in each task."""
    X = tasks.draw(2000, 5, 3, np.random.default_rng(0), feature_scale=0.5).features
    error = 5 / np.sqrt(X.size)
    assert abs(X.mean()) < 0.5 * error and abs(X.std() / 0.5 - 1) < error
    assert len(np.unique(X)) == X.size


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
