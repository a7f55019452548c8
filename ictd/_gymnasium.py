"""The model of a tabular Gymnasium environment and a policy for it, checked before any work is done."""

from collections.abc import Mapping

import numpy as np

from ictd import _checks


def tabular_model(env):
    """The possible outcomes, as lists by state and action, and the start distribution, all checked."""
    inner = getattr(env, "unwrapped", env)
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


def action_probabilities(policy, n_states, n_actions):
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
    return _checks.stochastic("policy", policy, n_states, n_actions)
