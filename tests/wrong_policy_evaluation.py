"""Typical mistakes in the exercises on policy evaluation, and a word of the reason that each should get."""

import numpy as np


def batch(states, rewards, gamma, n_states, step_size, n_passes, mean=True, in_place=False):
    v = np.zeros(n_states)
    counts = np.bincount(states[:-1], minlength=n_states)
    for _ in range(n_passes):
        old = v if in_place else v.copy()
        for s, r, u in zip(states, rewards, states[1:]):
            v[s] += step_size * (r + gamma * old[u] - old[s]) / (counts[s] if mean else 1)
    return v


def duplicates(states, rewards, gamma, n_states, step_size, n_passes):
    v = np.zeros(n_states)
    for _ in range(n_passes):
        v[states[:-1]] += step_size * (rewards + gamma * v[states[1:]] - v[states[:-1]])
    return v


def visit(kind="first", unseen=np.nan):
    def function(states, rewards, gamma, n_states):
        returns = np.zeros(len(states))
        for k in reversed(range(len(rewards))):
            returns[k] = rewards[k] + gamma * returns[k + 1]
        values = np.full(n_states, unseen)
        for s in np.unique(states[:-1]):
            visits = np.flatnonzero(states[:-1] == s)
            choices = {"first": returns[visits[0]], "last": returns[visits[-1]], "mean": returns[visits].mean()}
            values[s] = {**choices, "reward": rewards[visits[0]]}[kind]
        return values

    return function


def suspect(states, rewards, gamma, n_states):
    pairs, sums = np.zeros((n_states, n_states)), np.zeros(n_states)
    np.add.at(pairs, (states[:-1], states[1:]), 1)
    np.add.at(sums, states[:-1], rewards)
    return np.linalg.solve(np.eye(n_states) - gamma * pairs / len(rewards), sums / pairs.sum(axis=1))


WRONG = [
    ("policy_evaluation.circle", [27 / 26, -153 / 26, 9 / 26], "order A, C, B"),
    ("policy_evaluation.circle", [3, 0, -6], "rewards"),
    ("policy_evaluation.circle", [1.04, 0.35, -5.88], "rounding"),
    ("policy_evaluation.circle", [0, 0, -9], "equation of A and B"),
    ("policy_evaluation.circle", [-153 / 26 + 0, 27 / 26, 9 / 26], "entering"),
    ("policy_evaluation.circle", [3 - 2 / 13, -2 + 3 / 13 - 4 / 13, -6], "next state"),
    ("policy_evaluation.bonus", lambda v, c, g: v + c, "only the first"),
    ("policy_evaluation.bonus", lambda v, c, g: v + c * g / (1 - g), "paid at once"),
    ("policy_evaluation.bonus", lambda v, c, g: np.full(4, c / (1 - g)), "add it to the values"),
    ("policy_evaluation.first_visit", visit(kind="mean"), "average over all visits"),
    ("policy_evaluation.first_visit", visit(kind="last"), "the last visit"),
    ("policy_evaluation.first_visit", visit(kind="reward"), "only the first reward"),
    ("policy_evaluation.first_visit", visit(unseen=0.0), "should get NaN"),
    ("policy_evaluation.hidden", (np.eye(3)[[1, 2, 0]], [0, 0, 1], [0, 1, 2]), "nothing is hidden"),
    ("policy_evaluation.hidden", (np.eye(3)[[1, 2, 0]], [0, 0, 2], [0, 1, 1]), "in [-1, 1]"),
    ("policy_evaluation.hidden", (np.eye(3), [0, 0, 1], [0, 1, 1]), "stationary distribution"),
    ("policy_evaluation.hidden", (np.full((3, 3), 1 / 3), [0, 0, 1], [0, 1, 1]), "should exceed 0.5"),
    ("policy_evaluation.bug", suspect, "close to the rewards"),
    ("policy_evaluation.batch_td", lambda *a: batch(*a, mean=False), "mean"),
    ("policy_evaluation.batch_td", lambda *a: batch(*a, in_place=True), "before all errors"),
    ("policy_evaluation.batch_td", duplicates, "keeps just the last"),
]
