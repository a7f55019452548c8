"""Logs as people have them: episodes and ends, standard errors, missing values, bins, columns of any name.

Checked against Gymnasium's own models, against simulated processes with known values, and by hand.
"""

import csv
import dataclasses
import io
import math
import os
import time
import tracemalloc
import warnings
from bisect import bisect_right
from types import SimpleNamespace

import numpy as np
import pytest

from ictd import empirical, kernels, mrp
from ictd import evaluate as ev
from ictd.evaluate import arguments, uncertainty

# ------------------------------------------------------------------------------------ against the truth

SAFE = np.ones(48, dtype=int)  # CliffWalking: up, along the upper row, down on the right
SAFE[12:] = 0
SAFE[[11, 23, 35]] = 2
POLICIES = {
    "FrozenLake-v1": np.full((16, 4), 0.25),
    "CliffWalking-v1": 0.9 * np.eye(4)[SAFE] + 0.1 / 4,
}


def environment(name):
    gymnasium = pytest.importorskip("gymnasium")
    name = name if name in gymnasium.registry else name.replace("v1", "v0")
    return gymnasium.make(name, max_episode_steps=-1)


def play(env, policy, n_episodes, rng):
    """States, rewards, episodes and ends of a log."""
    cumulative = np.cumsum(policy, axis=1).tolist()
    log = [], [], [], []
    for episode in range(n_episodes):
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        terminated = False
        while not terminated:
            action = min(bisect_right(cumulative[state], rng.random()), policy.shape[1] - 1)
            next_state, reward, terminated, _, _ = env.step(action)
            for column, entry in zip(log, (int(state), float(reward), episode, terminated)):
                column.append(entry)
            state = next_state
    return log


def true_value(env, policy, gamma):
    """The value under Gymnasium's own model, with ends worth 0."""
    n = len(env.unwrapped.P)
    transition, reward = np.zeros((n, n)), np.zeros(n)
    for state, actions in env.unwrapped.P.items():
        for action, outcomes in actions.items():
            for probability, next_state, paid, terminated in outcomes:
                reward[state] += policy[state, action] * probability * paid
                transition[state, next_state] += policy[state, action] * probability * (not terminated)
    return np.linalg.solve(np.eye(n) - gamma * transition, reward)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", [0, 2])  # seed 2: a state above the cliff has 53 visits and no fall
def test_a_log_of_a_game_gives_the_true_values_within_their_standard_errors(name, seed):
    env, policy, gamma = environment(name), POLICIES[name], 0.9
    states, rewards, episodes, done = play(env, policy, 2000, np.random.default_rng(seed))
    truth = true_value(env, policy, gamma)
    result = ev.evaluate(states, rewards, gamma=gamma, n_layers=400, scale=10.0, episodes=episodes, done=done)
    assert (result.n_episodes, result.n_ends, result.n_left_out, result.warnings) == (2000, 2000, 0, ())
    truth, many = truth[list(result.states)], result.visits >= 50
    assert many.sum() >= 10
    error = np.abs(result.certainty_equivalence - truth)[many]
    assert (error < 4 * result.standard_error[many]).all()
    # The errors say something: they are small where much was seen.
    often = result.visits >= 500
    assert (result.standard_error[often] < 0.2 * np.abs(truth).max()).all()
    np.testing.assert_allclose(result.value, result.certainty_equivalence, atol=1e-9)


PROCESS = np.random.default_rng(1).dirichlet(np.full(5, 0.5), 5) * 0.9
REWARD = np.random.default_rng(2).standard_normal(5)


def simulate(n_episodes, rng, extra=0.0, process=PROCESS):
    """Episodes of a process with noisy rewards; ``extra`` shifts those of an episode."""
    bounds = np.cumsum(process, axis=1).tolist()
    log = [], [], [], []
    for episode in range(n_episodes):
        state, shift = int(rng.integers(5)), extra * rng.standard_normal()
        while state < 5:
            after = bisect_right(bounds[state], rng.random())
            for column, entry in zip(log, (state, REWARD[state] + shift + rng.standard_normal(), episode, after == 5)):
                column.append(entry)
            state = after
    return log


@pytest.mark.parametrize("extra", [0.0, 1.0])
def test_standard_errors_are_those_of_repeated_logs(extra):
    """With and without differences between episodes that no Markov process has: only the bootstrap sees those."""
    rng = np.random.default_rng(3)
    truth = np.linalg.solve(np.eye(5) - 0.9 * PROCESS, REWARD)
    scores, delta_scores = [], []
    for _ in range(150):
        states, rewards, episodes, done = simulate(60, rng, extra)
        result = ev.evaluate(states, rewards, n_layers=0, episodes=episodes, done=done)
        assert result.states == tuple(range(5))
        scores.append((result.certainty_equivalence - truth) / result.standard_error)
        transitions = arguments.many_episodes(np.array(states), rewards, episodes, done)
        model = empirical.model_of_transitions(transitions.sources, transitions.rewards, transitions.successors, 5)
        one = dataclasses.replace(transitions, n_episodes=1)
        error = uncertainty.standard_error(one, model, result.certainty_equivalence, 0.9)
        delta_scores.append((result.certainty_equivalence - truth) / error)
    size, delta_size = (np.sqrt(np.mean(np.square(z), axis=0)) for z in (scores, delta_scores))
    # 1 up to some 6 % of chance, below it by caution, above it as 60 episodes are not many
    assert (size > 0.75).all() and (size < (1.4 if extra else 1.2)).all()
    assert (delta_size > 1.8).all() if extra else (delta_size < 1.25).all()


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_two_and_four_standard_errors_hold_as_often_as_they_say(tmp_path, missing):
    """Also where missing values break episodes: the pieces of one are no independent episodes."""
    rng = np.random.default_rng(16)
    process = PROCESS / 0.9 * 0.97  # long episodes
    truth = np.linalg.solve(np.eye(5) - 0.9 * process, REWARD)
    scores = []
    for _ in range(100):
        log = simulate(60, rng, 1.0, process)
        rows = (f"{'' if rng.random() < missing else s},{r},{e},{int(end)}" for s, r, e, end in zip(*log))
        data = read(tmp_path, "\n".join(["state,reward,e,done", *rows]), episode="e", done="done", missing="skip")
        result = ev.evaluate(data.states, data.rewards, n_layers=0, episodes=data.episodes, done=data.done)
        error = result.certainty_equivalence - truth[[int(state) for state in result.states]]
        scores.append(np.abs(error) / result.standard_error)
    assert (np.array(scores) < 2).mean() > 0.9  # pieces taken for episodes: 75 %
    assert (np.array(scores) < 4).mean() > 0.99


def test_the_pieces_of_a_single_walk_are_compared_with_each_other(tmp_path):
    rows = "".join(f"{'ab'[i % 2] if i % 10 else ''},{i // 10}\n" for i in range(100))
    data = read(tmp_path, "state,reward\n" + rows, missing="skip")
    plain = ev.evaluate(data.states, data.rewards, episodes=[str(piece) for piece in data.episodes])
    result = ev.evaluate(data.states, data.rewards, episodes=data.episodes)
    np.testing.assert_allclose(result.standard_error, plain.standard_error)
    assert data.episodes[0] == 1 and data.episodes[-1] == (1, 10) == arguments.Piece(1, 10)


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e90])
def test_standard_errors_have_the_unit_of_the_rewards(unit):
    log = simulate(30, np.random.default_rng(5))
    plain = ev.evaluate(log[0], log[1], episodes=log[2], done=log[3])
    other = ev.evaluate(log[0], np.array(log[1]) * unit, episodes=log[2], done=log[3])
    np.testing.assert_allclose(other.standard_error / unit, plain.standard_error, rtol=1e-9)


def test_the_delta_method_alone_fits_one_long_walk():
    rng = np.random.default_rng(4)
    process = mrp.boyan_chain(6, 0.9, rng)
    scores = []
    for _ in range(200):
        walk = process.sample(400, rng, start_state=0)
        states = np.append(walk.states[:-1], walk.states[0])  # closed
        rewards = walk.rewards + rng.standard_normal(400)
        result = ev.evaluate(states, rewards, n_layers=0)
        scores.append((result.certainty_equivalence - process.value())[:5] / result.standard_error[:5])
    size = np.sqrt(np.mean(np.square(scores), axis=0))
    assert (size < 1.25).all() and (size > 0.75).all()


def test_standard_errors_by_hand():
    """One state, rewards 1 and 3, half of the steps lead on: v = 2 / (1 - .5 gamma)."""
    result = ev.evaluate(["a"] * 4, [1.0, 3.0, 1.0, 3.0], gamma=0.5, episodes=[0, 0, 1, 1], done=[0, 1, 0, 1])
    value = 2 / 0.75
    errors = np.array([1 + 0.5 * value, 3, 1 + 0.5 * value, 3]) - value
    delta = np.sqrt((errors**2).sum() + (errors**2).max()) / 4 / 0.75
    assert result.certainty_equivalence == pytest.approx([value])
    assert result.standard_error == pytest.approx([delta])  # both episodes are alike: the bootstrap sees no spread
    once = ev.evaluate(["a", "b", "a"], [1.0, 2.0])
    assert np.isnan(once.standard_error).all()  # each state was left once
    same = ev.evaluate(["a", "b"] * 50 + ["a"], [1.0, 2.0] * 50)
    assert (same.standard_error == 0).all()  # no spread at all
    rare = ev.evaluate(["a", "b"] * 50 + ["a"], [1.0, 2.0] * 49 + [1.0, -98.0], gamma=0.0)
    assert rare.standard_error == pytest.approx([98 / 50, math.sqrt(49 * 4 + 2 * 98**2) / 50])  # a may have it too


def test_the_same_data_give_the_same_standard_errors():
    log = simulate(30, np.random.default_rng(5))
    first, second = (ev.evaluate(log[0], log[1], episodes=log[2], done=log[3]) for _ in range(2))
    assert first.standard_error.tolist() == second.standard_error.tolist()


# ------------------------------------------------------------------------------------ episodes and ends


def test_by_hand():
    """a pays 1 and leads to b or to the end; b pays 2 and ends. v(b) = 2, v(a) = 1 + .9 * v(b) / 2."""
    states, rewards = ["a", "b", "a"], [1.0, 2.0, 1.0]
    result = ev.evaluate(states, rewards, episodes=["x", "x", "y"], done=[False, True, True], n_layers=200, scale=10.0)
    assert result.visits.tolist() == [2, 1]
    np.testing.assert_allclose(result.certainty_equivalence, [1.9, 2.0])
    np.testing.assert_allclose(result.value, [1.9, 2.0], rtol=1e-9)
    assert (result.n_transitions, result.n_episodes, result.n_ends) == (3, 2, 2)


def test_the_iteration_with_ends_is_the_one_with_a_state_worth_0():
    """An end is a successor whose value is 0 and which nobody attends to."""
    states, rewards, episodes, done = simulate(20, np.random.default_rng(6))
    X = np.random.default_rng(7).standard_normal((5, 3))
    result = ev.evaluate(states, rewards, X[states], n_layers=7, episodes=episodes, done=done)
    value, kernel = np.zeros(5), np.exp(X @ X.T)[:, states]
    kernel /= kernel.sum(axis=1, keepdims=True)
    for _ in range(7):
        after = [0.0 if end else value[s] for end, s in zip(done, states[1:] + [0])]
        value = value + kernel @ (np.array(rewards) + 0.9 * np.array(after) - value[states])
    np.testing.assert_allclose(result.value, value[list(result.states)], rtol=1e-12)


def test_episodes_may_be_interleaved_in_any_form():
    states, rewards, episodes, done = simulate(12, np.random.default_rng(8))
    plain = ev.evaluate(states, rewards, episodes=episodes, done=done)
    assert plain.notes == ()
    order = np.argsort(np.random.default_rng(9).random(len(states)))
    # Within an episode the order stays.
    place = np.empty(len(states), dtype=int)
    for episode in range(12):
        mine = np.flatnonzero(np.array(episodes) == episode)
        place[np.sort(np.flatnonzero(np.isin(order, mine)))] = mine
    mixed = ev.evaluate(
        [states[i] for i in place],
        [rewards[i] for i in place],
        episodes=[("id", episodes[i]) for i in place],
        done=["yes" if done[i] else "no" for i in place],
    )
    assert "stand between" in mixed.notes[0]
    assert (mixed.visits == plain.visits).all()
    np.testing.assert_allclose(mixed.certainty_equivalence, plain.certainty_equivalence, rtol=1e-12)
    np.testing.assert_allclose(mixed.value, plain.value, rtol=1e-12)


def test_long_interleaved_episodes_take_no_time():
    n = 200_000
    start = time.process_time()
    result = ev.evaluate(
        np.arange(n) // 2 % 50, np.ones(n), n_layers=0, episodes=np.arange(n) % 2, done=np.arange(n) >= n - 2
    )
    assert result.n_transitions == n and time.process_time() - start < 5


def test_an_episode_that_just_stops_leaves_out_its_last_reward():
    states, rewards = ["a", "b", "a", "b", "a"], [1.0, 2.0, 3.0, 100.0, np.nan]
    result = ev.evaluate(states, rewards, episodes=[0, 0, 0, 1, 1], gamma=0.5)
    # Left out: the 3 of episode 0. Episode 1: from b to a, where it stops without a reward.
    assert result.visits.tolist() == [1, 2] and result.n_left_out == 1
    assert result.notes == ("2 episodes just stop: 1 last reward without a known successor left out",)
    np.testing.assert_allclose(result.certainty_equivalence, np.linalg.solve([[1, -0.5], [-0.5, 1]], [1, 51]))


def test_done_without_episodes_begins_the_next_one():
    states, rewards, episodes, done = simulate(10, np.random.default_rng(10))
    first = ev.evaluate(states, rewards, done=done)
    second = ev.evaluate(states, rewards, episodes=episodes, done=done)
    assert first.n_episodes == 10
    np.testing.assert_array_equal(first.certainty_equivalence, second.certainty_equivalence)


def test_only_values_that_can_reach_a_never_left_state_are_unknown():
    """a -> b -> x (stops); c -> end; d -> c. x was never left, y neither; c and d do not lead there."""
    states = ["a", "b", "x", "d", "c", "a", "y"]
    episodes, done = [1, 1, 1, 2, 2, 3, 3], [0, 0, 0, 0, 1, 0, 0]
    rewards = [1.0, 1.0, None, 2.0, 4.0, 1.0, None]
    result = ev.evaluate(states, rewards, gamma=0.5, episodes=episodes, done=done, n_layers=3000)
    known = dict(zip(result.states, result.certainty_equivalence.tolist()))
    assert known["c"] == 4 and known["d"] == 4 and all(math.isnan(known[s]) for s in "abxy")
    text = result.warnings[0]
    assert "'x' and 'y' were never left" in text and "2 of 4 other states is not determined" in text
    assert "say so with done" in text
    # The values of several never-left states are kernel combinations; the limit is that of the iteration.
    np.testing.assert_allclose(result.value, result.limit, rtol=1e-6)
    flat = ev.evaluate(states, rewards, gamma=0.0, episodes=episodes, done=done)
    assert np.isnan(flat.certainty_equivalence).tolist() == [s in "xy" for s in flat.states]


def test_the_limit_with_several_never_left_states_and_features():
    rng = np.random.default_rng(11)
    states = np.array([0, 1, 2, 3, 0, 1, 2, 4, 0, 2, 1, 0, 5])
    episodes, done = [1] * 4 + [2] * 4 + [3] * 5, np.zeros(13, dtype=bool)
    rewards = rng.standard_normal(13)
    rewards[[3, 7, 12]] = np.nan
    x = (2 * np.eye(6) + 0.3 * rng.standard_normal((6, 6)))[states]
    result = ev.evaluate(states, rewards, x, gamma=0.8, n_layers=5000, episodes=episodes, done=done)
    np.testing.assert_allclose(result.value, result.limit, rtol=1e-8)
    later = ev.evaluate(states, rewards, x, gamma=0.8, n_layers=60, episodes=episodes)
    sooner = ev.evaluate(states, rewards, x, gamma=0.8, n_layers=50, episodes=episodes)
    rate = (later.distance / sooner.distance) ** 0.1
    assert rate == pytest.approx(result.radius, abs=0.02)


def test_equal_features_and_ends_together():
    states, rewards, episodes, done = simulate(40, np.random.default_rng(12))
    x = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [-2.0, 0.0], [0.0, -2.0]])[states]
    result = ev.evaluate(states, rewards, x, n_layers=3000, episodes=episodes, done=done)
    merged = np.array([0, 1, 0, 2, 3])
    after = [empirical.END if end else merged[s] for end, s in zip(done, states[1:] + [0])]
    expected = empirical.certainty_equivalence(empirical.model_of_transitions(merged[states], rewards, after, 4), 0.9)[
        merged
    ]
    np.testing.assert_allclose(result.value, expected, rtol=1e-6)


NAN = float("nan")
FOUR = {"states": ["a", "b", "a", "b"], "rewards": [1.0, 2.0, 3.0, 4.0]}


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"rewards": [1, 2, 3], "done": [0, 1, 0, 1]}, ValueError, ["rewards", "(4,)", "one a row", "(3,)"]),
        ({"rewards": [1, NAN, 3, 4], "episodes": [0] * 4}, ValueError, ["rewards, entry 1", "last row"]),
        ({"rewards": [1, 2, 3, NAN], "done": [0, 0, 0, 1]}, ValueError, ["rewards, entry 3", "done but has no reward"]),
        ({"rewards": [1, math.inf, 3, 4], "done": [0, 1, 0, 1]}, ValueError, ["rewards", "finite", "entry 1"]),
        ({"rewards": [1, 1e200, 3, NAN], "episodes": [0] * 4}, ValueError, ["rewards", "1e+100"]),
        ({"rewards": ["1", "2", "3", "4"], "done": [0, 1, 0, 1]}, TypeError, ["rewards", "real numbers"]),
        ({"rewards": {5: 1.0, 6: 2.0, 7: 3.0, 8: 4.0}, "done": [0, 1, 0, 1]}, TypeError, ["rewards", "sequence"]),
        ({"rewards": {4.0, 3.0, 2.0, 1.0}, "done": [0, 1, 0, 1]}, TypeError, ["rewards", "sequence"]),
        ({"rewards": {1: 0, 2: 0, 3: 0}.keys()}, TypeError, ["rewards", "sequence"]),
        ({"rewards": (r for r in [1, 2, 3])}, TypeError, ["rewards", "sequence", "generator"]),
        ({"rewards": np.ones((4, 1)), "done": [0, 1, 0, 1]}, ValueError, ["rewards", "one column", "(4, 1)"]),
        ({"rewards": [1, 2, 3, None]}, ValueError, ["(3,)", "4 states but the last", "(4,)"]),
        ({"rewards": [1, None, 3]}, ValueError, ["rewards", "finite", "(1,)"]),
        ({"episodes": [0, 0, 1], "done": [0, 1, 0, 1]}, ValueError, ["episodes", "4", "got 3"]),
        ({"episodes": [0, 0, 1, NAN]}, ValueError, ["episodes", "entry 3", "nan"]),
        ({"episodes": [0, None, 1, 1]}, ValueError, ["episodes", "entry 1", "None"]),
        ({"episodes": [0, "", 1, 1]}, ValueError, ["episodes", "entry 1"]),
        ({"episodes": [[0], [0], [1], [1]]}, TypeError, ["episodes", "hashable"]),
        ({"episodes": "0011"}, TypeError, ["episodes", "sequence"]),
        ({"episodes": np.zeros((4, 1))}, TypeError, ["episodes", "sequence", "(4, 1)"]),
        ({"done": [0, 1, 0]}, ValueError, ["done", "4", "got 3"]),
        ({"done": [[0], [1], [0], [1]]}, TypeError, ["done", "truth values", "hashable"]),
        ({"done": [0, 2, 0, 1]}, ValueError, ["done", "entry 1", "2"]),
        ({"done": ["no", "maybe", "no", "yes"]}, ValueError, ["done", "entry 1", "'maybe'"]),
        ({"done": [0, None, 0, 1]}, ValueError, ["done", "entry 1"]),
        ({"done": [0, NAN, 0, 1]}, ValueError, ["done", "entry 1", "nan"]),
        ({"episodes": [0] * 4, "done": [0, 1, 0, 1]}, ValueError, ["done, entry 2", "has ended"]),
        ({"episodes": [0, 1, 2, 3]}, ValueError, ["no row has a known successor"]),
        ({"states": [("a", NAN), "b", "a", "b"], "done": [0, 1, 0, 1]}, ValueError, ["states", "NaN", "entry 0"]),
        ({"states": [("a", (1, NAN)), "b", "a", "b"], "done": [0, 1, 0, 1]}, ValueError, ["states", "entry 0"]),
    ],
)
def test_faulty_rows_are_refused_by_entry(changes, error, words):
    with pytest.raises(error) as caught:
        ev.evaluate(**(FOUR | changes))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "done",
    [
        [False, True, False, True],
        np.array([0, 1, 0, 1]),
        [0.0, 1.0, 0.0, 1.0],
        np.array([False, True, False, True], dtype=object),
        ["0", "1", "0", "1"],
        ["False", "True", "False", "True"],
        ["no", "Yes", " NO ", "yes"],
    ],
    ids=str,
)
def test_spellings_of_done(done):
    result = ev.evaluate(**FOUR, done=done)
    assert (result.n_ends, result.n_episodes) == (2, 2)


def test_rewards_of_pandas_kinds():
    for rewards in ([1.0, None, 2.0, None], np.array([1.0, None, 2.0, None], dtype=object), np.array([1, NAN, 2, NAN])):
        result = ev.evaluate(["a", "b", "a", "b"], rewards, episodes=[0, 0, 1, 1])
        assert result.visits.tolist() == [2, 0] and result.n_left_out == 0


def test_the_reader_s_numpy_settings_change_nothing():
    with np.errstate(all="raise"):
        result = ev.evaluate(**FOUR, done=[0, 1, 0, 1], scale=1000.0)
        ev.evaluate(["a", "b", "c"], [1e100, -1e100], scale=1e100)
    assert result.value == pytest.approx([2 + 0.9 * 3, 3.0])


def test_dates_and_rows_of_arrays_are_readable_labels():
    days = np.array(["2024-01-01", "2024-01-02"] * 2, dtype="datetime64[ns]")
    for given in (days, list(days)):
        result = ev.evaluate(given, [1.0, 2.0, 3.0])
        assert result.states == tuple(days[:2]) and "2024-01-01" in result.table()
    with pytest.raises(ValueError, match="empty"):
        ev.evaluate(np.append(days, np.datetime64("NaT", "ns")), np.ones(4))
    assert len(ev.evaluate(np.array([2, 1, 2, 1], dtype="timedelta64[ns]"), np.ones(3)).states) == 2
    rows = [tuple(row) for row in np.eye(2)] * 2
    assert repr(ev.evaluate(rows, [1.0, 2.0, 3.0]).states) == "((1.0, 0.0), (0.0, 1.0))"


# ------------------------------------------------------------------------------------------ the table


def test_sorting_and_the_top_of_the_table():
    states = ["10", "9", "b", "9", "b", "9", "10"]
    result = ev.evaluate(states, [1.0, -1.0, 5.0, -1.0, 5.0, -1.0])
    assert [row[0] for row in result.rows()] == ["10", "9", "b"]
    assert [row[0] for row in result.rows("visits")] == ["9", "b", "10"]
    by_value = [row[2] for row in result.rows("value")]
    assert by_value == sorted(by_value, reverse=True)
    assert [row[0] for row in result.rows("state")] == ["10", "9", "b"]  # one is no number: the order of text
    numbers = ev.evaluate(["x10", "x9", "x10"], [1.0, 1.0])
    assert [row[0] for row in numbers.rows("state")] == ["x10", "x9"]
    lines = result.table(sort="visits", top=1).splitlines()
    assert len(lines) == 2 and lines[1].split()[:2] == ["9", "3"]
    for bad in ("values", None.__class__, ""):
        with pytest.raises(ValueError, match="sort must be one of 'value', 'visits', 'state'"):
            list(result.rows(bad))
    with pytest.raises(ValueError, match="top must be"):
        result.table(top=0)


def test_a_first_write_leaves_nothing_behind_when_the_disk_is_full(tmp_path, monkeypatch):
    result = ev.evaluate(["a", "b", "a"], [1.0, 2.0])

    def full(*arguments):
        raise OSError(28, "No space left on device")

    for overwrite in (False, True):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(os, "fsync", full)
            result.save(tmp_path / "v.csv", overwrite=overwrite)
        assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(95, "no links here")))
        result.save(tmp_path / "v.csv")
        with pytest.raises(FileExistsError):
            result.save(tmp_path / "v.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["v.csv"]
    plain = tmp_path / "plain"
    plain.write_text("")
    assert (tmp_path / "v.csv").stat().st_mode == plain.stat().st_mode


# -------------------------------------------------------------------------------------------- warnings


@pytest.mark.parametrize(
    "one, other, words",
    [
        ("caf\u00e9", "cafe\u0301", "NFC and NFD"),
        ("ab", "a\u200bb", "invisible"),
        ("ab", "\ufeffab", "invisible"),
        ("a b", "a\u00a0b", "spaces"),
        ("a b", "a  b", "spaces"),
        ("A", "\uff21", "look alike"),
        ("Home", "home", "upper and lower case"),
        (0.3, 0.1 + 0.2, "by rounding only"),
        ("0.3", "0.30000000000000004", "by rounding only"),
        ("1", "\u0661", "two spellings"),
    ],
)
def test_labels_that_look_alike_are_said(one, other, words):
    (warning,) = ev.evaluate([one, other] * 3 + [one], np.zeros(6)).warnings
    assert words in warning and "count as two states" in warning


@pytest.mark.parametrize("pairs", [[(str(i), f"{i}.0") for i in range(50)], [(f"s{i}", f"S{i}") for i in range(50)]])
def test_many_pairs_of_labels_make_one_warning(pairs):
    states = [label for pair in pairs for label in pair]
    (warning,) = ev.evaluate([*states, *states, states[0]], np.zeros(200)).warnings
    assert "count as two states (such pairs: 50)" in warning


def test_ids_of_episodes_in_two_spellings_are_said():
    (warning,) = ev.evaluate(["a"] * 4, np.ones(4), episodes=["7", "7", "7.0", "7.0"], n_layers=200).warnings
    assert "episodes '7' and '7.0' are one number in two spellings; they count as two episodes" in warning
    assert ev.evaluate(["a"] * 4, np.ones(4), episodes=["7", "7", "x7", "x7"], n_layers=200).warnings == ()


@pytest.mark.parametrize("one, other", [("a", "b"), ("a b", "ab"), ("\u0915\u0940", "\u0915\u093f"), (0.1, 0.2)])
def test_labels_that_look_different_are_not(one, other):
    assert ev.evaluate([one, other] * 3 + [one], np.zeros(6)).warnings == ()


def test_states_that_are_too_fine_are_said():
    rng = np.random.default_rng(13)
    states = rng.random(60).tolist()
    warning = ev.evaluate([*states, states[0]], np.zeros(60)).warnings[0]
    assert "60 of 60 states were left only once" in warning and "--bins" in warning


# ---------------------------------------------------------------------------------------------- files


def read(tmp_path, content, **options):
    path = tmp_path / "log.csv"
    path.write_text(content, encoding="utf-8")
    return ev.read_csv(path, **options)


GAME = "game,room,coins,over\n1,hall,1,0\n1,attic,2,1\n2,hall,3,no\n2,hall,,FALSE\n"


def test_columns_are_chosen(tmp_path):
    data = read(tmp_path, GAME, state="Room", reward=" coins", episode="GAME", done="over")
    assert data.states == ["hall", "attic", "hall", "hall"] and data.episodes == ["1", "1", "2", "2"]
    assert data.done == [False, True, False, False] and data.rewards[:3] == [1, 2, 3] and math.isnan(data.rewards[3])
    result = ev.evaluate(data.states, data.rewards, episodes=data.episodes, done=data.done)
    assert (result.n_transitions, result.n_ends, result.n_left_out) == (3, 1, 0)


@pytest.mark.parametrize("sep", [";", "semicolon", "\t", "tab", "\\t", "comma"])
def test_separators(tmp_path, sep):
    character = {"semicolon": ";", "tab": "\t", "\\t": "\t", "comma": ","}.get(sep, sep)
    text = f"state{character}reward\n'a,b'{character}1\n'a,b'{character}\n".replace("'", '"')
    assert read(tmp_path, text, sep=sep).states == ["a,b", "a,b"]


GAMES = {"state": "room", "reward": "coins", "episode": "game", "done": "over"}


@pytest.mark.parametrize(
    "row, words",
    [
        ("3,hall,3,1\n3,hall,3,0", ["line 7, column over", "has ended"]),
        ("3,hall,,1", ["line 6, column coins", "done but has no reward"]),
        ("2,hall,,0\n2,hall,1,0", ["line 5, column coins", "last row"]),
        (",hall,1,0", ["line 6, column game", "empty"]),
        ("3,hall,1,", ["line 6, column over", "empty"]),
        ("3,hall,1,perhaps", ["line 6, column over", "'perhaps'", "yes or no"]),
        ("3,,1,0", ["line 6, column room", "empty"]),
        (",,,\n3,hall,1,0", ["line 6", "empty row", "--missing skip"]),
        ('3,hall,"1,5",0', ["line 6, column coins", "1.5", "--decimal comma", "decimal=','"]),
    ],
)
def test_faulty_rows_of_a_log_are_refused_by_line(tmp_path, row, words):
    with pytest.raises(ev.FileFault) as caught:
        read(tmp_path, GAME + row + "\n", **GAMES)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"state": "rooms"}, ev.FileFault, ["no column named rooms", "Did you mean 'room'?", "--state"]),
        ({"done": "room"}, ev.FileFault, ["column room", "both the state and the done"]),
        ({"state": ""}, TypeError, ["state", "name of a column"]),
        ({"episode": 3}, TypeError, ["episode", "name of a column", "3"]),
        ({"sep": "|"}, ValueError, ["sep", "comma", "'|'"]),
        ({"sep": None}, ValueError, ["sep", "None"]),
        ({"missing": "drop"}, ValueError, ["missing", "'refuse', 'skip'"]),
        ({"decimal": ";"}, ValueError, ["decimal", "';'"]),
        ({"bins": "coins=3"}, ValueError, ["bins", "room", "coins"]),
        ({"bins": "room"}, ValueError, ["bins", "COLUMN=N", "'room'"]),
        ({"bins": 1}, ValueError, ["bins", "from 2 to 2000"]),
        ({"bins": {"room": 2.5}}, TypeError, ["bins", "integer"]),
        ({"bins": {"room": 3, "coins": 3}}, ValueError, ["bins", "room, coins"]),
        ({"bins": 3}, ev.FileFault, ["line 2, column room", "'hall' is not a number"]),
    ],
)
def test_bad_options_are_refused(tmp_path, options, error, words):
    with pytest.raises(error) as caught:
        read(tmp_path, GAME, **(GAMES | options))
    for word in words:
        assert word in str(caught.value)


def test_empty_rows_of_a_spreadsheet_are_skipped(tmp_path):
    assert read(tmp_path, "state,reward\na,1\nb,2\na,\n,\n , \n,,,,\n").states == ["a", "b", "a"]


def test_missing_values_break_the_walk(tmp_path):
    """Transitions that remain, by hand: none crosses a row with a missing value."""
    content = (
        "e,state,reward,done\n"
        "1,a,1,0\n1,,2,0\n1,c,3,0\n1,d,NA,0\n1,a,5,0\n1,c,6,1\n"  # a | c d | a c end
        ",c,1,0\n"
        "2,a,1,0\n2,d,2,null\n2,a,3,0\n2,c,,\n"  # a d | a c
        "3,a,1,0\n,b,1,0\n3,c,2,1\n"  # a | c end
    )
    data = read(tmp_path, content, episode="e", done="done", missing="skip")
    assert data.episodes == ["1", ("1", 2), ("1", 2), ("1", 3), ("1", 3), "2", "2", ("2", 2), ("2", 2), "3", ("3", 2)]
    assert "b" not in data.states
    (note,) = data.notes
    for what in ("1 without a state", "1 without a reward", "2 without an episode", "2 without a value in column done"):
        assert what in note
    result = ev.evaluate(data.states, data.rewards, episodes=data.episodes, done=data.done)
    # c -> d pays 3, a -> c 5, c -> end 6, a -> d 1, a -> c 3, c -> end 2
    assert result.states == ("a", "c", "d") and result.visits.tolist() == [3, 3, 0]
    assert (result.n_transitions, result.n_ends) == (6, 2)
    flat = ev.evaluate(data.states, data.rewards, episodes=data.episodes, done=data.done, gamma=0)
    assert flat.certainty_equivalence[:2] == pytest.approx([3, 11 / 3])


def test_nothing_is_bridged_in_a_single_walk(tmp_path):
    data = read(tmp_path, "state,reward\na,1\nb,\n,\nc,3\na,4\n", missing="skip")
    assert data.episodes == [1, 1, (1, 2), (1, 2)]
    result = ev.evaluate(data.states, data.rewards, episodes=data.episodes, gamma=0)
    assert dict(zip(result.states, result.visits.tolist())) == {"a": 1, "b": 0, "c": 1}
    whole = read(tmp_path, "state,reward\na,1\nb,2\na,\n", missing="skip")
    assert whole.notes == () and ev.evaluate(whole.states, whole.rewards, episodes=whole.episodes).n_transitions == 2
    with pytest.raises(ev.FileFault, match="nothing is left: .*2 without a state"):
        read(tmp_path, "state,reward\n,1\nNA,2\n", missing="skip")


def test_a_reward_that_may_be_missing_at_the_end_is_not_counted(tmp_path):
    data = read(tmp_path, "e,state,reward\n1,a,1\n1,b,\n2,a,1\n2,b,\n", episode="e", missing="skip")
    assert data.notes == ()


def test_words_for_missing_are_labels_unless_skipped(tmp_path):
    with pytest.warns(UserWarning, match="state 'NA', 'none' was read as a label"):
        data = read(tmp_path, "state,reward\nNA,1\nnone,2\nNA,\n")
    assert data.states == ["NA", "none", "NA"]


def test_bins_hold_equally_many_rows_and_say_what_they_hold(tmp_path):
    rng = np.random.default_rng(14)
    numbers = np.round(rng.normal(20, 3, 400), 2)
    text = "celsius,reward\n" + "".join(f"{number},1\n" for number in numbers) + f"{numbers[0]},\n"
    data = read(tmp_path, text, state="celsius", bins={"celsius": 8})
    labels = sorted(set(data.states), key=lambda label: float(label[1:].split(",")[0]))
    assert len(labels) == 8
    for label, number in zip(data.states, [*numbers, numbers[0]]):
        low, high = (float(part) for part in label[1:-1].split(", "))
        assert low <= number < high or (label.endswith("]") and number == high)
    counts = [data.states.count(label) for label in labels]
    assert max(counts) - min(counts) <= 6
    assert [label.endswith("]") for label in labels] == [False] * 7 + [True]
    assert all(len(label) <= 16 for label in labels)  # edges have no more digits than they need
    result = ev.evaluate(data.states, data.rewards)
    assert list(result.states) == labels  # in numerical order
    for same in (8, "celsius=8", {"Celsius": 8}):
        assert read(tmp_path, text, state="celsius", bins=same).states == data.states


def test_bins_of_repeated_numbers(tmp_path):
    text = "v,reward\n" + "1,0\n" * 50 + "2,0\n3,0\n" * 5 + "1,\n"
    data = read(tmp_path, text, state="v", bins=3)
    assert set(data.states) == {"[1, 2)", "[2, 3]"} and "2 bins of column v, not 3" in data.notes[0]
    assert set(read(tmp_path, "v,reward\n7,1\n7.0,1\n7,\n", state="v", bins=4).states) == {"[7, 7]"}
    ends = read(tmp_path, "v,reward\n-0.0,1\n1,1\n2,1\n3,\n", state="v", bins=2)
    assert set(ends.states) == {"[0, 2)", "[2, 3]"}


@pytest.mark.parametrize("decimal", [",", "comma"])
def test_decimal_commas(tmp_path, decimal):
    text = "e;state;reward;x1;done\n1;1,5;-,5;2,25;0,0\n1;2,5;1,5e1;3;1,0\n"
    data = read(tmp_path, text, sep=";", decimal=decimal, episode="e", done="done", bins=2)
    assert data.states == ["[1.5, 2)", "[2, 2.5]"] and data.rewards == [-0.5, 15.0] and data.done == [False, True]
    assert data.features.tolist() == [[2.25], [3.0]]
    for number, words in (("1.5", "has no point"), ("1.234,5", "'1.234,5' is not a number"), ("1,2,3", "not a number")):
        with pytest.raises(ev.FileFault, match=f"line 3, column reward: .*{words}"):
            read(tmp_path, text.replace("1,5e1", number), sep=";", decimal=decimal)


def test_spaces_before_quotes_belong_to_no_field(tmp_path):
    data = read(tmp_path, 'reward, state\n"1", "a, b"\n2, "c"\n"", "a, b"\n')
    assert data.states == ["a, b", "c", "a, b"] and data.rewards == [1, 2]


def test_a_sensor_may_be_state_and_reward_at_once(tmp_path):
    data = read(tmp_path, "watt\n5\n7\n5\n", state="watt", reward="watt")
    assert data.rewards == [5, 7] and "last reward is left out" in data.notes[0]
    data = read(tmp_path, "h,watt\n1,5\n2,\n3,9\n4,8\n5,5\n6,9\n", state="watt", reward="watt", bins=2, missing="skip")
    assert data.states == ["[5, 8)", "[8, 9]", "[8, 9]", "[5, 8)", "[8, 9]"]
    assert data.rewards == [5, 9, 8, 5, 9] and data.episodes == [1, (1, 2), (1, 2), (1, 2), (1, 2)]


def test_file_objects_are_read(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(GAME)
    with open(path, "rb") as file:
        assert ev.read_csv(file, **GAMES).states[0] == "hall"
    with open(path) as file:
        assert ev.read_csv(file, **GAMES).states[0] == "hall"
    with pytest.raises(ev.FileFault, match="closed"):
        ev.read_csv(file, **GAMES)
    with pytest.raises(ev.FileFault, match="the input, line 2, field 1: not UTF-8"):
        ev.read_csv(io.StringIO("state,reward\n\ud800,1\na,\n"))
    for content in (None, 5, memoryview(b"state,reward")):
        with pytest.raises(TypeError, match=r"path.read\(\) must return text or bytes"):
            ev.read_csv(SimpleNamespace(read=lambda content=content: content))


NAMES = "episode done terminal terminated truncated session user Session_ID userId is_done isTerminal Dones".split()


@pytest.mark.parametrize("name", NAMES)
def test_columns_that_look_like_episodes_or_ends_are_never_passed_over(tmp_path, name):
    with pytest.warns(UserWarning, match=f"column {name.lower()} looks like .*--(episode|done)"):
        data = read(tmp_path, f"state,reward,{name}\na,1,0\nb,2,1\na,,0\n")
    assert data.ignored == (name.lower(),)


def silent(tmp_path, content, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read(tmp_path, content, **options)


def test_used_columns_and_other_names_are_not_warned_about(tmp_path):
    silent(tmp_path, GAME, **GAMES)
    silent(tmp_path, "state,reward,action,weekend,abandoned,player_health\na,1,0,1,1,1\na,,0,1,1,1\n")
    gym = "state,reward,episode,terminated,truncated\na,1,0,0,0\na,1,0,0,1\na,1,1,1,0\n"
    silent(tmp_path, gym, episode="episode", done="terminated")  # an episode that was cut off just stops


@pytest.mark.parametrize(
    "content, options, words",
    [
        ("state,reward,episode,done\na,1,0,0\na,1,1,1\n", {"done": "done"}, "--episode episode"),
        ("state,reward,episode,done\na,1,0,0\na,1,0,1\n", {"episode": "episode"}, "--done done"),
        ("state,reward,terminated,truncated\na,1,0,1\na,1,1,0\n", {"done": "terminated"}, "cut off .*--episode"),
        ("state,reward,truncated\na,1,0\na,1,1\n", {"done": "truncated"}, "end worth 0"),
        ("state,reward,e,done,truncated\na,1,0,0,0\na,1,0,1,1\n", {"episode": "e", "done": "done"}, "1 row is done by"),
        ("state,reward,session,user\na,1,1,x\na,1,1,y\n", {"episode": "session"}, "several values in column user"),
        ("state,reward,time\na,1,1\na,1,3\na,,2\n", {}, "time goes back in line 4"),
        ("state,reward,date\na,1,2024-02-01\na,1,2024-01-31\na,,2024-03-01\n", {}, "date goes back in line 3"),
        ("state,reward,e,step\na,1,0,1\na,1,0,2\na,1,1,3\na,1,1,1\n", {"episode": "e"}, "step goes back in line 5"),
    ],
)
def test_other_misreadings_are_said(tmp_path, content, options, words):
    with pytest.warns(UserWarning, match=words):
        read(tmp_path, content, **options)


def clocked(times, columns="state,reward,time", rest=""):
    return columns + "\n" + "".join(f"a,1,{time}{rest}\n" for time in times) + f"a,,{times[-1]}{rest}\n"


HOURS = [f"2024-03-{1 + i // 24:02d}T{i % 24:02d}:30:00Z" for i in range(60)]


@pytest.mark.parametrize(
    "times, words",
    [
        (HOURS[:20] + HOURS[24:], "has 1 long step, first in line 22: more than 1.5 times"),
        ([t.replace("T", " ").replace("Z", "+02:00") for t in HOURS[:20] + HOURS[22:]], "has 1 long step"),
        ([*range(20), *range(21, 40), *range(45, 60)], "has 2 long steps, first in line 22"),
        (
            np.cumsum([1, 3, 40, 2, 9] * 4 + [90_000] + [5, 1, 30] * 4).tolist(),
            "has 1 long step, first in line 22: more than 100 times",
        ),
    ],
)
def test_jumps_of_the_clock_are_said(tmp_path, times, words):
    with pytest.warns(UserWarning, match=f"column time {words}"):
        read(tmp_path, clocked(times))


def test_ids_that_begin_anew_each_day_are_said(tmp_path):
    visits = [(86_400 * day + 60 * click + 7 * id, id) for day in range(5) for click in range(4) for id in range(3)]
    text = "time,session,state,reward\n" + "".join(f"{time},{id},a,1\n" for time, id in visits)
    with pytest.warns(UserWarning, match="column time has 12 long steps.* an id began anew"):
        read(tmp_path, text, episode="session")


@pytest.mark.parametrize(
    "times",
    [
        HOURS,
        HOURS[:9] + HOURS[30:31],  # too few to say what is usual
        [f"2024-{month:02d}-01" for month in range(1, 13)],
        [f"2024-03-{day:02d}" for day in range(1, 31) if day % 7 not in (2, 3)],  # no weekends
        ["9" * 400, "1e308", "-1e308"],
        ["2024-10-27 01:30:00.5+02", "2024-10-27 02:30:00.25+02", "2024-10-27 02:30:00.75+01"],
        ["2024-10-27T01:30+02:00", "2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00"],  # the end of summer time
        ["2024-01-01", "n/a", "2024-02-30", "2024-01-02"],
    ],
)
def test_a_usual_clock_is_not_warned_about(tmp_path, times):
    silent(tmp_path, clocked(times))


def test_missing_values_explain_a_jump(tmp_path):
    text = clocked(HOURS[:20]).replace("a,,", "a,1,") + ",,\n" + clocked(HOURS[40:]).split("\n", 1)[1]
    silent(tmp_path, text, missing="skip")


def test_a_log_sorted_by_episode_may_restart_its_clock(tmp_path):
    silent(tmp_path, "state,reward,e,step\na,1,0,1\na,1,0,2\na,1,1,1\na,1,1,2\n", episode="e")
    silent(tmp_path, "state,reward,when,date\na,1,9,03/01/24\na,1,8,02/01/24\na,,7,x\n")  # not understood, not judged


# ------------------------------------------------------------------------------- a reader of its own


def transitions_of(rows):
    """The transitions of rows (state, reward, episode, done), with None where a value is missing."""
    open_, number, found = {}, 0, []
    for state, reward, episode, done in rows:
        if episode is None:  # it may belong to any
            open_ = {}
            continue
        key = number if episode == "" else episode
        before = open_.pop(key, None)
        if state is None:
            continue
        if before:
            found.append((*before, state))
        if reward is not None and done is not None:
            if done:
                found.append((state, reward, None))
                number += 1
            else:
                open_[key] = state, reward
    return found


def by_hand(transitions, states, gamma):
    """Visits, and certainty equivalence as the fixed point of its own sums."""
    visits = {state: sum(s == state for s, _, _ in transitions) for state in states}
    unknown = {state for state in states if not visits[state]}
    for _ in states if gamma else ():
        unknown |= {s for s, _, t in transitions if t in unknown}
    value = dict.fromkeys(states, 0.0) | {None: 0.0}
    for _ in range(200):
        totals = dict.fromkeys(states, 0.0)
        for s, r, t in transitions:
            totals[s] += (r + gamma * value[t]) / visits[s]
        value = totals | {None: 0.0}
    return [visits[s] for s in states], [math.nan if s in unknown else value[s] for s in states]


@pytest.mark.parametrize("has_episodes", [False, True])
@pytest.mark.parametrize("has_ends", [False, True])
@pytest.mark.parametrize("sep, decimal", [(",", "."), (";", ","), ("\t", "."), (",", ",")])
def test_random_logs_with_missing_values_against_a_simple_reader(has_episodes, has_ends, sep, decimal):
    rng = np.random.default_rng(17)
    compared = 0
    for _ in range(40):
        rows, over = [], set()
        for _ in range(int(rng.choice([4, 12, 40]))):
            episode = int(rng.integers(4)) if has_episodes else ""
            if episode in over:
                continue
            end = bool(has_ends and rng.random() < 0.2)
            row = [str(rng.choice(list("abcd"))), round(rng.normal(), 2), episode, end]
            holes = rng.random(4) < 0.1
            holes[2:] &= has_episodes, has_ends
            rows.append([None if hole else entry for entry, hole in zip(row, holes)])
            over |= {episode} if end and has_episodes else set()
        file = io.StringIO(newline="")
        table = csv.writer(file, delimiter=sep)
        table.writerow(["s", "r", "e", "d"])
        for s, r, e, d in [*rows, ["a", None, "last" if has_episodes else "", False]]:
            table.writerow([s or "", "" if r is None else str(r).replace(".", decimal), "" if e is None else e, d])
        file.seek(0)
        roles = {"state": "s", "reward": "r", "episode": has_episodes and "e" or None, "done": has_ends and "d" or None}
        expected = transitions_of([*rows, ["a", None, "last" if has_episodes else "", False]])
        if not expected:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = ev.read_csv(file, **roles, sep=sep, decimal=decimal, missing="skip")
        for gamma in (0.0, 0.8):
            result = ev.evaluate(
                data.states, data.rewards, gamma=gamma, n_layers=0, episodes=data.episodes, done=data.done
            )
            visits, value = by_hand(expected, result.states, gamma)
            assert result.visits.tolist() == visits and result.n_transitions == len(expected)
            np.testing.assert_allclose(result.certainty_equivalence, value, atol=1e-9)
        compared += 1
    assert compared >= 30


# ---------------------------------------------------------------------------------------------- size


def write_log(path, n, n_states):
    rng = np.random.default_rng(15)
    states = np.append(rng.integers(n_states, size=n - n_states), np.arange(n_states)).tolist()
    rows = zip(states, rng.random(n).round(3).tolist())
    text = "".join(f"{i // 50},{state},{reward},{int(i % 50 == 49)}\n" for i, (state, reward) in enumerate(rows))
    path.write_text("episode,state,reward,done\n" + text)


def test_a_large_log_takes_little_time_and_memory(tmp_path):
    """Scaled down from 10^6 rows and 1,500 states, which take about 6 s and .4 GB."""
    path = tmp_path / "large.csv"
    write_log(path, 100_000, 500)
    start = time.process_time()
    data = ev.read_csv(path, episode="episode", done="done")
    result = ev.evaluate(data.states, data.rewards, episodes=data.episodes, done=data.done)
    assert (result.n_transitions, result.n_ends) == (100_000, 2000)
    assert time.process_time() - start < 4
    write_log(path, 20_000, 100)
    tracemalloc.start()
    data = ev.read_csv(path, episode="episode", done="done")
    ev.evaluate(data.states, data.rewards, n_layers=0, episodes=data.episodes, done=data.done)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * 20_000  # bytes


def test_many_layers_build_one_kernel(monkeypatch):
    calls = []
    kernel = kernels.state_kernel
    monkeypatch.setattr(kernels, "state_kernel", lambda *arguments: calls.append(1) or kernel(*arguments))
    ev.evaluate(["a", "b", "a"], [1.0, 2.0], n_layers=10_000)
    assert len(calls) == 1
