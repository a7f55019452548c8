"""Tabular Gymnasium environments: their process has the value of the policy, and play follows it."""

import numpy as np
import pytest
from strategies import STANDARD_ERRORS, assert_close

from ictd import empirical
from ictd.environments import from_gymnasium, rollout_gymnasium


def make(name, **options):
    return pytest.importorskip("gymnasium").make(name, max_episode_steps=-1, **options)


ENVIRONMENTS = [
    ("FrozenLake-v1", {"map_name": "4x4"}, [5, 7, 11, 12, 15]),
    ("FrozenLake-v1", {"map_name": "4x4", "is_slippery": False}, [5, 7, 11, 12, 15]),
    ("FrozenLake-v1", {"map_name": "8x8"}, [19, 29, 35, 41, 42, 46, 49, 52, 54, 59, 63]),
    ("CliffWalking-v1", {}, [47]),
]


def evaluate(env, policy, gamma, terminal):
    """Policy evaluation in loops over env.unwrapped.P; a terminal state pays 0 and restarts."""
    model, start = env.unwrapped.P, env.unwrapped.initial_state_distrib
    values = [0.0] * len(model)
    while True:
        new = []
        for state in range(len(model)):
            if state in terminal:
                new.append(gamma * sum(p * v for p, v in zip(start, values)))
                continue
            new.append(
                sum(
                    policy[state][action] * probability * (reward + gamma * values[successor])
                    for action in model[state]
                    for probability, successor, reward, _ in model[state][action]
                )
            )
        if max(abs(a - b) for a, b in zip(new, values)) < 1e-12:
            return new
        values = new


@pytest.mark.parametrize("name, options, terminal", ENVIRONMENTS)
def test_gymnasium_model_has_the_value_of_the_policy(name, options, terminal):
    """from_gymnasium(...).value() = policy evaluation over env.unwrapped.P, for a random stochastic policy."""
    env = make(name, **options)
    n_states, n_actions = env.observation_space.n, env.action_space.n
    policy = np.random.default_rng(0).dirichlet(np.ones(n_actions), n_states)
    process = from_gymnasium(env, policy, 0.9)
    assert_close(process.value(), evaluate(env, policy.tolist(), 0.9, terminal), 1e-9)
    # Terminal states, by the map, restart and pay nothing.
    assert (process.reward[terminal] == 0).all()
    np.testing.assert_array_equal(process.transition[terminal], np.tile(process.start, (len(terminal), 1)))
    np.testing.assert_allclose(process.start, env.unwrapped.initial_state_distrib)


def test_gymnasium_policy_as_actions():
    """One action per state is the policy that always takes it."""
    env = make("FrozenLake-v1")
    actions = np.arange(16) % 4
    one, two = from_gymnasium(env, actions, 0.9), from_gymnasium(env, np.eye(4)[actions], 0.9)
    np.testing.assert_array_equal(one.transition, two.transition)
    np.testing.assert_array_equal(from_gymnasium(env, actions.tolist(), 0.9).reward, two.reward)


@pytest.mark.parametrize(
    "name, options, terminal",
    [("FrozenLake-v1", {}, [5, 7, 11, 12, 15]), ("CliffWalking-v1", {"is_slippery": True}, [47])],
)
def test_rollout_approaches_the_model(name, options, terminal):
    """The empirical model of 15000 played steps lies in the confidence intervals of from_gymnasium."""
    env = make(name, **options)
    policy = np.full((env.observation_space.n, env.action_space.n), 1 / env.action_space.n)
    process = from_gymnasium(env, policy, 0.9)
    trajectory = rollout_gymnasium(env, policy, 15000, np.random.default_rng(3))
    assert trajectory.n_transitions == 15000 and process.start[trajectory.states[0]] > 0
    model = empirical.empirical_model(trajectory, process.n_states)
    assert (process.transition[trajectory.states[:-1], trajectory.states[1:]] > 0).all()
    for s in np.flatnonzero(model.counts >= 30):
        spread = np.sqrt(process.transition[s] * (1 - process.transition[s]) / model.counts[s])
        assert (np.abs(model.transition[s] - process.transition[s]) <= STANDARD_ERRORS * spread + 1e-12).all()
        # Exact variance of one step's reward; a terminal state pays 0 for sure.
        outcomes = [
            (policy[s, action] * probability, reward)
            for action, results in env.unwrapped.P[s].items()
            for probability, _, reward, _ in results
        ]
        variance = sum(p * (reward - process.reward[s]) ** 2 for p, reward in outcomes) * (s not in terminal)
        error = STANDARD_ERRORS * np.sqrt(variance / model.counts[s])
        assert abs(model.reward[s] - process.reward[s]) <= error + 1e-12


class Tabular:
    """An environment that is only a model: two states, one action, the second state ends the episode."""

    def __init__(self, **changes):
        self.P = {0: {0: [(1.0, 1, 5.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}
        self.initial_state_distrib = [1.0, 0.0]
        vars(self).update(changes)


def test_gymnasium_outcomes_of_probability_0_are_ignored():
    """What cannot happen neither ends an episode nor pays."""
    P = {0: {0: [(1.0, 1, 5.0, False), (0.0, 0, 7.0, True)]}, 1: {0: [(1.0, 0, 0.0, False)]}}
    process = from_gymnasium(Tabular(P=P), [0, 0], 0.9)
    assert process.reward.tolist() == [5, 0] and process.transition.tolist() == [[0, 1], [1, 0]]
    ending = from_gymnasium(Tabular(), [0, 0], 0.9)
    assert ending.reward.tolist() == [5, 0] and ending.transition.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"P": {}}, ValueError, "a dict P with the keys 0, 1, 2"),
        ({"P": []}, ValueError, "a dict P with the keys 0, 1, 2"),
        ({"P": {1: {0: [(1.0, 1, 0.0, False)]}}}, ValueError, "a dict P with the keys.*list of shape \\(1,\\)"),
        ({"P": {0: {}}}, ValueError, r"a dict P\[0\]"),
        ({"P": {0: {1: [(1.0, 0, 0.0, False)]}}}, ValueError, r"a dict P\[0\]"),
        ({"P": {0: {0: [(1, 0, 0, False)]}, 1: {0: [(1, 0, 0, False)], 1: [(1, 0, 0, False)]}}}, ValueError,
         "same actions.*state 0 has 1, state 1 has 2"),
        ({"P": {0: {0: [(1.0, -1, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}}, ValueError,
         r"P\[0\]\[0\]: the next state must be an integer from 0 to 1; got -1"),
        ({"P": {0: {0: [(1.0, 0, 0.0, False)]}, 1: {0: [(1.0, 2, 0.0, False)]}}}, ValueError,
         r"P\[1\]\[0\]: the next state must be an integer from 0 to 1; got 2"),
        ({"P": {0: {0: [(1.0, 0.5, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}}, TypeError,
         r"P\[0\]\[0\]: the next state must be an integer"),
        ({"P": {0: {0: [(1.0, 0, float("nan"), False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}}, ValueError,
         r"P\[0\]\[0\]: the reward"),
        ({"P": {0: {0: [(1.0, 0, 0.0)]}, 1: {0: [(1.0, 0, 0.0, False)]}}}, ValueError,
         r"P\[0\]\[0\] must be a list of \(probability, next_state, reward, terminated\)"),
        ({"P": {0: {0: []}, 1: {0: [(1.0, 0, 0.0, False)]}}}, ValueError, r"P\[0\]\[0\] must not be empty"),
        ({"P": {0: {0: [(0.9, 0, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}}, ValueError,
         r"P\[0\]\[0\] must sum to 1; it sums to 0.9"),
        ({"initial_state_distrib": [1.0]}, ValueError, r"initial_state_distrib must have shape \(2,\)"),
        ({"initial_state_distrib": [0.5, 0.4]}, ValueError, "initial_state_distrib must sum to 1"),
    ],
)  # fmt: skip
def test_gymnasium_models_are_checked(changes, kind, message):
    """A model that is none is refused, naming env and the place, before the environment is stepped."""
    env = Tabular(**changes)
    for call in (
        lambda: from_gymnasium(env, [0, 0], 0.9),
        lambda: rollout_gymnasium(env, [0, 0], 5, np.random.default_rng(0)),
    ):
        with pytest.raises(kind, match="^env.*" + message):
            call()


def test_rollout_is_reproducible():
    """The same generator seed gives the same play, whatever was played before."""
    env = make("FrozenLake-v1")
    policy = np.full((16, 4), 0.25)
    plays = [rollout_gymnasium(env, policy, 200, np.random.default_rng(1)) for _ in range(2)]
    assert (plays[0].states == plays[1].states).all() and (plays[0].rewards == plays[1].rewards).all()


def test_rollout_refuses_a_time_limit():
    """An episode that is cut off is not Markov."""
    env = pytest.importorskip("gymnasium").make("FrozenLake-v1", max_episode_steps=2)
    with pytest.raises(ValueError, match="env must not cut.*max_episode_steps=-1"):
        rollout_gymnasium(env, np.zeros(16, dtype=int), 50, np.random.default_rng(0))


def both_refuse(env, policy, message, kind=ValueError):
    for call in (
        lambda: from_gymnasium(env, policy, 0.9),
        lambda: rollout_gymnasium(env, policy, 50, np.random.default_rng(0)),
    ):
        with pytest.raises(kind, match="^env.*" + message):
            call()


LAKE_POLICY = np.full((16, 4), 0.25)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda gym, env: gym.wrappers.TransformReward(env, lambda reward: 2 * reward),
        lambda gym, env: gym.wrappers.TransformAction(env, lambda action: 3 - action, env.action_space),
        lambda gym, env: gym.wrappers.TransformObservation(env, lambda state: 15 - state, env.observation_space),
        lambda gym, env: gym.wrappers.ClipReward(env, 0, 0.5),
        lambda gym, env: gym.wrappers.StickyAction(env, 0.5),
        lambda gym, env: gym.wrappers.DelayObservation(env, 1),
        lambda gym, env: gym.wrappers.TimeLimit(gym.wrappers.TransformReward(env, lambda reward: 2 * reward), 10**6),
        lambda gym, env: type("Mine", (gym.RewardWrapper,), {"reward": lambda self, reward: -reward})(env),
        lambda gym, env: type("Mine", (gym.Wrapper,), {"step": lambda self, action: self.env.step(0)})(env),
        lambda gym, env: type("Mine", (gym.Wrapper,), {"reset": lambda self, **options: (3, {})})(env),
        lambda gym, env: type("Mine", (gym.wrappers.TimeLimit,), {"step": lambda self, a: self.env.step(a)})(env, 9),
    ],
)  # fmt: skip
def test_gymnasium_wrappers_that_may_change_the_game_are_refused(wrap):
    gymnasium = pytest.importorskip("gymnasium")
    both_refuse(wrap(gymnasium, make("FrozenLake-v1")), LAKE_POLICY, "no wrapper that may change.*its attribute env")


def test_a_patched_step_is_refused():
    env = make("FrozenLake-v1")
    env.step = lambda action: env.env.step(3 - action)
    both_refuse(env, LAKE_POLICY, "OrderEnforcing has its own step")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda gym, env: gym.wrappers.TimeLimit(env, 10**6),
        lambda gym, env: gym.wrappers.RecordEpisodeStatistics(env),
        lambda gym, env: gym.wrappers.Autoreset(env),
        lambda gym, env: type("Mine", (gym.Wrapper,), {"note": "changes nothing"})(env),
    ],
)
def test_gymnasium_wrappers_that_only_watch_are_accepted(wrap):
    env = wrap(pytest.importorskip("gymnasium"), make("FrozenLake-v1"))
    plain = make("FrozenLake-v1")
    one, other = (from_gymnasium(e, LAKE_POLICY, 0.9) for e in (env, plain))
    assert (one.transition == other.transition).all() and (one.reward == other.reward).all()
    walks = [rollout_gymnasium(e, LAKE_POLICY, 200, np.random.default_rng(1)) for e in (env, plain)]
    assert (walks[0].states == walks[1].states).all() and (walks[0].rewards == walks[1].rewards).all()


def test_taxi_with_a_fickle_passenger_is_refused():
    """Its table does not know of the passenger's change of mind; rain is in the table."""
    policy = np.full((500, 6), 1 / 6)
    both_refuse(make("Taxi-v4", fickle_passenger=True), policy, "fickle_passenger")
    for options in ({}, {"is_rainy": True}, {"fickle_passenger": True, "fickle_probability": 0.0}):
        env = make("Taxi-v4", **options)
        process = from_gymnasium(env, policy, 0.9)
        states = rollout_gymnasium(env, policy, 3000, np.random.default_rng(0)).states
        assert (process.transition[states[:-1], states[1:]] > 0).all()


class Played(Tabular):
    """A table with a game; ``plays`` and ``starts`` say what step and reset return."""

    plays = staticmethod(lambda: (1, 5.0, True, False, {}))
    starts = staticmethod(lambda: (0, {}))

    def reset(self, seed=None):
        return self.starts()

    def step(self, action):
        return self.plays()


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"plays": lambda: (0, 5.0, True, False, {})}, ValueError,
         "as its table P says; action 0 in state 0 led to state 0"),
        ({"plays": lambda: (1, 4.0, True, False, {})}, ValueError, "as its table P says.*reward 4"),
        ({"plays": lambda: (1, 5.0, False, False, {})}, ValueError, "as its table P says"),
        ({"plays": lambda: (2, 5.0, True, False, {})}, ValueError,
         "observation of step must be an integer from 0 to 1; got 2"),
        ({"plays": lambda: (1.0, 5.0, True, False, {})}, TypeError,
         "observation of step must be an integer from 0 to 1; got 1.0"),
        ({"plays": lambda: (np.ones(2), 5.0, True, False, {})}, TypeError, "observation of step.*ndarray of shape"),
        ({"plays": lambda: ("1", 5.0, True, False, {})}, TypeError, "observation of step.*got '1'"),
        ({"plays": lambda: (1, None, True, False, {})}, TypeError, "reward of step must be a number"),
        ({"plays": lambda: (1, float("nan"), True, False, {})}, ValueError, "reward of step"),
        ({"plays": lambda: (1, 5.0, True, {})}, TypeError, "terminated, truncated, info. from step; got a tuple"),
        ({"starts": lambda: 0}, TypeError, "observation, info. from reset; got 0"),
        ({"starts": lambda: (1, {})}, ValueError, "as its initial_state_distrib says; it started in state 1"),
        ({"starts": lambda: ({"place": 0}, {})}, TypeError, "observation of reset must be an integer.*place"),
        ({"starts": lambda: (-1, {})}, ValueError, "observation of reset must be an integer from 0 to 1; got -1"),
    ],
)  # fmt: skip
def test_rollout_refuses_what_the_table_does_not_hold(changes, kind, message):
    with pytest.raises(kind, match="^env.*" + message):
        rollout_gymnasium(Played(**changes), [0, 0], 5, np.random.default_rng(0))


def test_an_end_must_be_a_property_of_the_state():
    """A state that ends an episode only when some transitions enter it has no value of its own."""
    P = {0: {0: [(0.5, 1, 0.0, True), (0.5, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 1.0, False)]}}
    both_refuse(Tabular(P=P), [0, 0], "state 1 ends one when some transitions enter it")
    again = {0: {0: [(1.0, 0, 1.0, True)]}, 1: {0: [(1.0, 0, 1.0, False)]}}
    both_refuse(Tabular(P=again), [0, 0], "state 0 ends one")


def test_a_shell_without_a_step_of_its_own_is_looked_through():
    """What is around an environment is refused only if it may step or reset in a way of its own."""

    class Shell:
        def __init__(self, env):
            self.env = self.unwrapped = env

    table = from_gymnasium(Shell(Tabular()), [0, 0], 0.9)
    assert table.transition.tolist() == [[0, 1], [1, 0]] and table.reward.tolist() == [5, 0]
