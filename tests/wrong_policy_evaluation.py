"""Typical mistakes in the exercises on policy evaluation, with a word of the reason for each, and right answers."""

from fractions import Fraction

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


def entering(states, rewards, gamma, n_states, step_size, n_passes):
    """Right, but for counts of entering a state in place of leaving it."""
    v, counts = np.zeros(n_states), np.bincount(states[1:], minlength=n_states)
    for _ in range(n_passes):
        delta = rewards + gamma * v[states[1:]] - v[states[:-1]]
        v = v + step_size * np.bincount(states[:-1], delta, n_states) / np.maximum(counts, 1)
    return v


def not_a_number(*arguments):
    states, n_states = arguments[0], arguments[3]
    return np.where(np.isin(np.arange(n_states), states[:-1]), batch(*arguments), np.nan)


def visit(kind="first", unseen=np.nan, end=None):
    def function(states, rewards, gamma, n_states):
        returns = np.zeros(len(states))
        for k in reversed(range(len(rewards))):
            returns[k] = rewards[k] + gamma * returns[k + 1]
        values = np.full(n_states, unseen)
        for s in np.unique(states[:-1]):
            visits = np.flatnonzero(states[:-1] == s)
            choices = {"first": returns[visits[0]], "last": returns[visits[-1]], "mean": returns[visits].mean()}
            values[s] = {**choices, "reward": rewards[visits[0]]}[kind]
        if end is not None and states[-1] not in states[:-1]:
            values[states[-1]] = end
        return values

    return function


def suspect(states, rewards, gamma, n_states):
    pairs, sums = np.zeros((n_states, n_states)), np.zeros(n_states)
    np.add.at(pairs, (states[:-1], states[1:]), 1)
    np.add.at(sums, states[:-1], rewards)
    return np.linalg.solve(np.eye(n_states) - gamma * pairs / len(rewards), sums / pairs.sum(axis=1))


def batch_lookup(states, rewards, gamma, n_states, step_size, n_passes):
    """A dictionary of transitions."""
    left, v = {}, {s: 0.0 for s in range(n_states)}
    for s, r, u in zip(states.tolist(), rewards.tolist(), states[1:].tolist()):
        left.setdefault(s, []).append((r, u))
    for _ in range(n_passes):
        mean = {s: sum(r + gamma * v[u] - v[s] for r, u in seen) / len(seen) for s, seen in left.items()}
        v = {s: v[s] + step_size * mean.get(s, 0) for s in v}
    return [v[s] for s in range(n_states)]


def batch_matrix(states, rewards, gamma, n_states, step_size, n_passes):
    """The empirical model and matrix products."""
    left, entered = np.eye(n_states)[states[:-1]], np.eye(n_states)[states[1:]]
    share = left / np.maximum(left.sum(axis=0), 1)
    v = np.zeros(n_states)
    for _ in range(n_passes):
        v = v + step_size * share.T @ (rewards + gamma * entered @ v - left @ v)
    return v


def first_forward(states, rewards, gamma, n_states):
    """Each state looks ahead from its first visit."""
    states, found = list(states), []
    for s in range(n_states):
        start = states[:-1].index(s) if s in states[:-1] else None
        found.append(float("nan") if start is None else sum(gamma**k * r for k, r in enumerate(rewards[start:])))
    return found


def first_backwards(states, rewards, gamma, n_states):
    values, following = np.full(n_states, np.nan), 0.0
    for state, reward in zip(states[-2::-1], rewards[::-1]):
        following = reward + gamma * following
        values[state] = following
    return values


def equivalence(weight="left", reward="mean", iterate=False):
    """The mended suspect of the bug lab, or with a mistake."""

    def function(states, rewards, gamma, n_states):
        pairs = np.zeros((n_states, n_states))
        np.add.at(pairs, (states[:-1], states[1:]), 1)
        counts = {
            "left": pairs.sum(axis=1),
            "entered": pairs.sum(axis=0),
            "all": np.bincount(states, minlength=n_states),
        }
        sums = np.bincount(states[:-1], rewards, n_states)
        r = sums / counts["left"] if reward == "mean" else sums if reward == "sum" else sums / counts[weight]
        P, v = pairs / counts[weight][:, None], np.zeros(n_states)
        if not iterate:
            return np.linalg.solve(np.eye(n_states) - gamma * P, r)
        for _ in range(1000):
            v = r + gamma * P @ v
        return v

    return function


def equivalence_loops(states, rewards, gamma, n_states):
    rows, right = [], []
    for s in range(n_states):
        seen = [(r, u) for t, r, u in zip(states, rewards, states[1:]) if t == s]
        share = 1 / len(seen)
        rows.append([(u == s) - gamma * share * sum(v == u for _, v in seen) for u in range(n_states)])
        right.append(share * sum(r for r, _ in seen))
    return np.linalg.solve(rows, right).tolist()


def branches(last=(1, -1), labels=(0, 1, 2, 3, 1, 4)):
    """Two branches whose middle states share a label."""
    P = np.zeros((6, 6))
    P[0, 1] = P[1, 2] = P[3, 4] = P[4, 5] = 1
    P[2, [0, 3]] = P[5, [0, 3]] = 0.5
    return P, [0, 0, last[0], 0, 0, last[1]], labels


THREE = np.eye(3)[[1, 2, 0]]
RIGHT = [
    ("policy_evaluation.circle", [27 / 26, 9 / 26, -153 / 26]),
    ("policy_evaluation.circle", (Fraction(27, 26), Fraction(9, 26), Fraction(-153, 26))),
    ("policy_evaluation.circle", np.linalg.solve([[1, 0, -1 / 3], [-1 / 3, 1, 0], [0, -1 / 3, 1]], [3, 0, -6])),
    ("policy_evaluation.circle", np.array([27 / 26, 9 / 26, -153 / 26], np.float32)),
    ("policy_evaluation.batch_td", batch),
    ("policy_evaluation.batch_td", batch_lookup),
    ("policy_evaluation.batch_td", batch_matrix),
    ("policy_evaluation.bonus", lambda v, c, g: v + c / (1 - g)),
    ("policy_evaluation.bonus", lambda v, c, g: [float(one) + c * (1 - g) ** -1 for one in v]),
    ("policy_evaluation.bonus", lambda v, c, g: v + sum(c * g**k for k in range(2000))),
    ("policy_evaluation.bonus", lambda v, c, g: np.linalg.solve((1 - g) * np.eye(len(v)), (1 - g) * v + c)),
    ("policy_evaluation.first_visit", visit()),
    ("policy_evaluation.first_visit", first_forward),
    ("policy_evaluation.first_visit", first_backwards),
    ("policy_evaluation.hidden", branches()),
    ("policy_evaluation.hidden", [np.float32(branches()[0]), (0, 0, 1, 0, 0, -1), np.array([7, -1, 2, 3, -1, 5])]),
    (
        "policy_evaluation.hidden",
        ([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]], [1, 1, -1, -1], [0, 1, 0, 2]),
    ),
    ("policy_evaluation.bug", equivalence()),
    ("policy_evaluation.bug", equivalence(iterate=True)),
    ("policy_evaluation.bug", equivalence_loops),
]
WRONG = [
    ("policy_evaluation.circle", [27 / 26, -153 / 26, 9 / 26], "order A, C, B"),
    ("policy_evaluation.circle", [3, 0, -6], "rewards"),
    ("policy_evaluation.circle", [1.04, 0.35, -5.88], "rounding"),
    ("policy_evaluation.circle", [Fraction(1), Fraction(1, 3), Fraction(-53, 9)], "equation of B and C"),
    ("policy_evaluation.circle", [0, 0, -9], "equation of A and B"),
    ("policy_evaluation.circle", [-153 / 26 + 0, 27 / 26, 9 / 26], "entering"),
    ("policy_evaluation.circle", [3 - 2 / 13, -2 + 3 / 13 - 4 / 13, -6], "next state"),
    ("policy_evaluation.circle", [0, 0, 0], "all your values are 0"),
    ("policy_evaluation.circle", ["3", "0", "-6"], "it is a list of text"),
    ("policy_evaluation.bonus", lambda v, c, g: v + c, "only the first"),
    ("policy_evaluation.bonus", lambda v, c, g: v + c * g / (1 - g), "paid at once"),
    ("policy_evaluation.bonus", lambda v, c, g: np.full(4, c / (1 - g)), "add it to the values"),
    ("policy_evaluation.bonus", lambda v, c, g: c / (1 - g), "should have shape (4,)"),
    ("policy_evaluation.bonus", lambda v, c, g: v - c / (1 - g), "wrong sign"),
    ("policy_evaluation.bonus", lambda v, c, g: v + c * (1 - g), "by 1 - gamma"),
    ("policy_evaluation.bonus", lambda v, c, g: v + 1 / (1 - g), "each time discounted"),
    ("policy_evaluation.first_visit", visit(kind="mean"), "average over all visits"),
    ("policy_evaluation.first_visit", visit(kind="last"), "the last visit"),
    ("policy_evaluation.first_visit", visit(kind="reward"), "only the first reward"),
    ("policy_evaluation.first_visit", visit(unseen=0.0), "should get NaN"),
    ("policy_evaluation.first_visit", visit(end=0.0), "the last state was entered"),
    ("policy_evaluation.first_visit", visit(kind="mean", end=0.0), "average over all visits"),
    ("policy_evaluation.first_visit", lambda s, r, g, n: visit()(s, r, 1.0, n), "not discounted"),
    ("policy_evaluation.first_visit", lambda s, r, g, n: visit()(s, r, g, n)[:4], "shape"),
    ("policy_evaluation.first_visit", lambda s, r, g, n: visit()(s[::-1], r[::-1], g, n), "adds up all later rewards"),
    ("policy_evaluation.hidden", (np.eye(3)[[1, 2, 0]], [0, 0, 1], [0, 1, 2]), "nothing is hidden"),
    ("policy_evaluation.hidden", (np.eye(3)[[1, 2, 0]], [0, 0, 2], [0, 1, 1]), "in [-1, 1]"),
    ("policy_evaluation.hidden", (np.eye(3), [0, 0, 1], [0, 1, 1]), "stationary distribution"),
    ("policy_evaluation.hidden", (np.full((3, 3), 1 / 3), [0, 0, 1], [0, 1, 1]), "should exceed 0.5"),
    (
        "policy_evaluation.hidden",
        (THREE, [0, 0, 1], ["a", "b", "b"]),
        "list of labels should be real numbers; it is a list of text",
    ),
    ("policy_evaluation.hidden", (THREE, [[0], [0], [1]], [0, 1, 1]), "your list of rewards should have shape (3,)"),
    ("policy_evaluation.hidden", (THREE, [0, 0, 1], [0.2, 0.7, 0.4]), "whole numbers"),
    ("policy_evaluation.hidden", (2 * THREE, [0, 0, 1], [0, 1, 1]), "transition"),
    ("policy_evaluation.hidden", (THREE, [0, 0, 1]), "three things, (transition, reward, labels); it is 2 things"),
    ("policy_evaluation.hidden", branches((1, 1)), "should exceed 0.5"),
    ("policy_evaluation.bug", suspect, "close to the rewards"),
    ("policy_evaluation.bug", equivalence("entered"), "how often it was entered"),
    ("policy_evaluation.bug", equivalence("entered", "same"), "how often a state was entered"),
    ("policy_evaluation.bug", equivalence("all", "same"), "the end of the walk"),
    ("policy_evaluation.bug", equivalence(reward="sum"), "your rewards are sums"),
    ("policy_evaluation.bug", lambda s, r, g, n: np.zeros(n), "all your values are 0"),
    ("policy_evaluation.bug", lambda s, r, g, n: equivalence()(s, r, 0.0, n), "these are the mean rewards"),
    ("policy_evaluation.bug", lambda s, r, g, n: equivalence()(s, r, g / 2, n), "Count the pairs"),
    ("policy_evaluation.bug", lambda s, r, g, n: equivalence()(s, g * r, g, n), "the reward of each state"),
    ("policy_evaluation.batch_td", lambda *a: batch(*a, mean=False), "mean"),
    ("policy_evaluation.batch_td", lambda *a: batch(*a, in_place=True), "before all errors"),
    ("policy_evaluation.batch_td", duplicates, "keeps just the last"),
    ("policy_evaluation.batch_td", entering, "how often a state was entered"),
    ("policy_evaluation.batch_td", not_a_number, "holds NaN or infinity; do not divide"),
    ("policy_evaluation.batch_td", lambda s, r, g, n, a, k: batch(s, r, g, n, 1.0, k), "step size does nothing"),
    (
        "policy_evaluation.batch_td",
        lambda *a: np.where(np.isin(np.arange(5), a[0][:-1]), batch(*a), 0.1),
        "never left moved",
    ),
    ("policy_evaluation.batch_td", lambda s, r, g, n, a, k: batch(s, r, g, n, a, 1), "single pass"),
]
