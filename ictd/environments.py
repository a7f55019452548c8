"""Tabular Gymnasium environments as Markov reward processes and as sources of trajectories."""

from bisect import bisect_right
from collections.abc import Mapping

import numpy as np

from ictd import _checks
from ictd._arguments import declare, discount, generator, integer
from ictd._settings import numpy_defaults
from ictd.mrp import MRP, Trajectory, cumulative


@numpy_defaults()
@declare(gamma=discount)
def from_gymnasium(env, policy, gamma):
    """The Markov reward process of a tabular Gymnasium environment under a fixed policy.

    The reward of a state is its expected reward under policy and dynamics. A terminal state, any state
    that is entered by a terminating transition, pays 0 and restarts from the environment's start
    distribution, so that one trajectory can hold many episodes.

    Parameters
    ----------
    env : gymnasium.Env
        With the model ``env.unwrapped.P[state][action] = [(probability, next_state, reward, terminated), ...]``
        and ``env.unwrapped.initial_state_distrib``, as FrozenLake, CliffWalking and Taxi have them.
        States are 0..S-1 and have the same actions 0..A-1. Outcomes of probability 0 and time limits of
        wrappers are ignored. Wrappers that step or reset in a way of their own are refused, since the table does
        not show what they change, and so is Taxi with a fickle passenger, of which its table does not know.
    policy : array_like, shape (S, A) or (S,)
        Action probabilities per state, or one action per state.
    gamma : float
        Discount in [0, 1).

    Returns
    -------
    MRP

    Raises
    ------
    ValueError, TypeError
        An environment without such a model, or in which a state may or may not end an episode, depending on how
        it is entered; a policy that does not fit it.
    """
    model, start, policy = _table(env, policy)
    n_states = len(model)
    transition = np.zeros((n_states, n_states))
    reward = np.zeros(n_states)
    terminal = np.zeros(n_states, dtype=bool)
    for state, actions in enumerate(model):
        for action, outcomes in enumerate(actions):
            for probability, next_state, outcome_reward, terminated in outcomes:
                weight = policy[state, action] * probability
                transition[state, next_state] += weight
                reward[state] += weight * outcome_reward
                terminal[next_state] |= terminated
    transition[terminal] = start
    reward[terminal] = 0
    return MRP(transition, reward, gamma, start)


@numpy_defaults()
@declare(n_transitions=integer(low=1), rng=generator)
def rollout_gymnasium(env, policy, n_transitions, rng):
    """Step through a tabular Gymnasium environment under a fixed policy, episode after episode.

    The rewards are those that the environment pays. After a terminal state the next transition restarts
    the environment and pays 0, as in `from_gymnasium`.

    Parameters
    ----------
    env : gymnasium.Env
        Tabular, as for `from_gymnasium`, and with no other outcomes than those in its table. Episodes cut off by
        a time limit are refused, since they are not Markov: make the environment with ``max_episode_steps=-1``.
    policy : array_like, shape (S, A) or (S,)
        Action probabilities per state, or one action per state.
    n_transitions : int
        Number n of transitions, at least 1.
    rng : numpy.random.Generator

    Returns
    -------
    Trajectory

    Raises
    ------
    ValueError, TypeError
        As for `from_gymnasium`; an environment that is cut off, or does something that its table does not hold.
    """
    model, start, policy = _table(env, policy)
    actions = cumulative(policy).tolist()
    state = _reset(env, start, seed=int(rng.integers(2**31)))
    states, rewards, ended = [state], [], False
    while len(rewards) < n_transitions:
        if ended:
            state, reward, ended = _reset(env, start), 0.0, False
        else:
            action = bisect_right(actions[state], rng.random())
            state, reward, ended = _step(env, model, state, action)
        states.append(state)
        rewards.append(reward)
    return Trajectory(np.array(states, dtype=np.int64), rewards)


# Wrappers of Gymnasium that change neither states nor actions, rewards or ends of episodes. A time limit is noticed
# when it cuts an episode off.
_HARMLESS = {
    "Autoreset",
    "HumanRendering",
    "OrderEnforcing",
    "PassiveEnvChecker",
    "RecordEpisodeStatistics",
    "RecordVideo",
    "RenderCollection",
    "TimeLimit",
}


def _table(env, policy):
    """The possible outcomes by state and action, the start distribution and the action probabilities, all checked."""
    model, start = _tabular_model(env)
    policy = _action_probabilities(policy, len(model), len(model[0]))
    _check_ends(model, start, policy)
    return model, start, policy


def _tabular_model(env):
    """The possible outcomes, as lists by state and action, and the start distribution."""
    inner = getattr(env, "unwrapped", env)
    _check_wrappers(env, inner)
    model, start = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
    if model is None or start is None:
        raise ValueError(
            "env must be a tabular environment with P and initial_state_distrib, such as FrozenLake-v1 or "
            f"CliffWalking-v1; got {_checks.describe(env)}"
        )
    n_states, n_actions = _count("P", model), _count("P[0]", model[0])
    start = _checks.distribution("env.unwrapped.initial_state_distrib", start, n_states)
    outcomes = []
    for state in range(n_states):
        if _count(f"P[{state}]", model[state]) != n_actions:
            raise ValueError(
                f"env must have the same actions in all states; state 0 has {n_actions}, state {state} has "
                f"{len(model[state])}"
            )
        outcomes.append([_outcomes(model[state][action], state, action, n_states) for action in range(n_actions)])
    return outcomes, start


def _check_wrappers(env, inner):
    """Refuse wrappers that step or reset in a way of their own, and options that the table leaves out."""
    while env is not inner and hasattr(env, "env"):
        for method in ("step", "reset"):
            if method in vars(env) or not _is_harmless(type(env), method):
                raise ValueError(
                    f"env must have no wrapper that may change states, actions, rewards or ends of episodes, which its "
                    f"table P would not show; {type(env).__name__} has its own {method}. If it changes none of them, "
                    f"pass the environment inside it, its attribute env"
                )
        env = env.env
    if getattr(inner, "fickle_passenger", False) and getattr(inner, "fickle_probability", 1) > 0:
        raise ValueError(
            "env must behave as its table P says; with fickle_passenger=True the passenger may change the destination, "
            "which is not in the table of Taxi, nor Markov in its states"
        )


def _is_harmless(kind, method):
    owner = next((cls for cls in kind.__mro__ if method in vars(cls)), None)
    if owner is None:
        return True
    module, name = owner.__module__, owner.__name__
    return (module == "gymnasium.core" and name == "Wrapper") or (
        module.startswith("gymnasium.wrappers.") and name in _HARMLESS
    )


def _check_ends(model, start, policy):
    """Refuse an environment in which one state sometimes ends an episode and sometimes does not, under a policy."""
    going = set(np.flatnonzero(start).tolist())
    ended, waiting = set(), sorted(going)
    while waiting:
        state = waiting.pop()
        for action in np.flatnonzero(policy[state]):
            for _, next_state, _, terminated in model[state][action]:
                if terminated:
                    ended.add(next_state)
                elif next_state not in going:
                    going.add(next_state)
                    waiting.append(next_state)
    if going & ended:
        raise ValueError(
            f"env must have states of which each either ends an episode or does not; state {min(going & ended)} ends "
            f"one when some transitions enter it, but is also one in which an episode starts or goes on"
        )


def _reset(env, start, **seed):
    """The first state of an episode."""
    result = env.reset(**seed)
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"env must return (observation, info) from reset; got {_checks.describe(result)}")
    state = _checks.integer("env: the observation of reset", result[0], low=0, high=len(start) - 1)
    if start[state] == 0:
        raise ValueError(f"env must start as its initial_state_distrib says; it started in state {state}")
    return state


def _step(env, model, state, action):
    """The next state, the reward and whether the episode has ended, if the table of the environment knows them."""
    result = env.step(action)
    if not isinstance(result, tuple) or len(result) != 5:
        raise TypeError(
            f"env must return (observation, reward, terminated, truncated, info) from step; got "
            f"{_checks.describe(result)}"
        )
    observation, reward, terminated, truncated, _ = result
    next_state = _checks.integer("env: the observation of step", observation, low=0, high=len(model) - 1)
    reward, terminated = _checks.real("env: the reward of step", reward), bool(terminated)
    if truncated and not terminated:
        raise ValueError(
            "env must not cut episodes off; this one did after a time limit: make it with max_episode_steps=-1"
        )
    if not any(outcome[1:] == (next_state, reward, terminated) for outcome in model[state][action]):
        end = " and the end of the episode" if terminated else ""
        raise ValueError(
            f"env must behave as its table P says; action {action} in state {state} led to state {next_state} with "
            f"reward {reward:g}{end}, which is not in P[{state}][{action}]"
        )
    return next_state, reward, terminated


def _count(name, table):
    """The number of keys of a part of a Gymnasium model; they must be 0, 1, 2, ..."""
    if not isinstance(table, Mapping) or not table or set(table) != set(range(len(table))):
        keys = list(table) if isinstance(table, Mapping) else table
        raise ValueError(f"env must have a dict {name} with the keys 0, 1, 2, ...; got {_checks.describe(keys)}")
    return len(table)


def _outcomes(outcomes, state, action, n_states):
    """The outcomes of one action that have positive probability."""
    name = f"env.unwrapped.P[{state}][{action}]"
    if not isinstance(outcomes, (list, tuple)) or any(
        not isinstance(outcome, (list, tuple)) or len(outcome) != 4 for outcome in outcomes
    ):
        raise ValueError(
            f"{name} must be a list of (probability, next_state, reward, terminated); got {_checks.describe(outcomes)}"
        )
    chances = _checks.distribution(name, [outcome[0] for outcome in outcomes], len(outcomes))
    return [
        (
            chance,
            _checks.integer(f"{name}: the next state", next_state, low=0, high=n_states - 1),
            _checks.real(f"{name}: the reward", reward),
            bool(terminated),
        )
        for chance, (_, next_state, reward, terminated) in zip(chances, outcomes)
        if chance > 0
    ]


def _action_probabilities(policy, n_states, n_actions):
    """Action probabilities of shape (S, A)."""
    if _checks.dimensions(policy) == 1:
        expected = f"one integer action per state, shape ({n_states},), or of shape ({n_states}, {n_actions})"
        actions = _checks.indices("policy", policy, expected)
        if actions.shape != (n_states,):
            raise ValueError(f"policy must be {expected}; got {_checks.describe(policy)}")
        if actions.min() < 0 or actions.max() >= n_actions:
            raise ValueError(
                f"policy must hold actions from 0 to {n_actions - 1}; got {actions.min()} to {actions.max()}"
            )
        return np.eye(n_actions)[actions]
    return _checks.distributions("policy", _checks.array("policy", policy, (n_states, n_actions)))
