"""Typical mistakes in the exercises on the prompt matrix, and a word of the reason that each should get."""

import numpy as np
from wrong_weighted_softmax_td import softmax

HAND = np.array(
    [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 0], [2, -2, 6, 0], [0.5, 1.5, 1, 0], [2, 1, 3, 2]]
)  # the right prompt of prompt_matrix.by_hand


def hand(row, values):
    prompt = HAND.copy()
    prompt[row] = values
    return prompt


def stack(
    reward=lambda r: np.append(r, 0), target=lambda v, g: np.append(g * v[1:], 0), features=lambda x: x.T, swap=False
):
    def function(x, rewards, values, gamma):
        memories = [target(values, gamma), values]
        return np.vstack([features(x), reward(rewards), *(memories[::-1] if swap else memories)])

    return function


def read(u=(1, 1, -1), first=False):
    def function(d, n):
        C = np.vstack([np.zeros((1, n)), np.eye(n)]) if first else np.eye(n + 1, n)
        return np.append(np.zeros(d), u)[None], C

    return function


def warm(target, last=True):
    def function(Z, values, gamma):
        new = Z.copy()
        new[..., -1, :] = values
        new[..., -2, :-1] = target(values, gamma, Z)
        if last:
            new[..., -2, -1] = 0
        return new

    return function


def fault(signed=False, query=True):
    def function(Z, gamma):
        offset = Z[-2] - np.append(gamma * Z[-1, 1:], 0)
        offset = offset if signed else np.abs(offset)
        offset = offset if query else offset[:-1]
        return int(offset.argmax()) if offset.max() > 1e-9 else None

    return function


def late(reward, backwards=False):
    def function(P, r, gamma):
        mu = np.linalg.matrix_power(P, 5000)[0]
        P_star = (P * mu[:, None]).T / mu[:, None]
        return np.linalg.solve(np.eye(len(r)) - gamma * (P_star if backwards else P), reward(P, r, mu))

    return function


def transitions(errors=None, target="entered", mask=True, discount=True):
    def function(T, gamma):
        d, end = (len(T) - 3) // 2, -1 if mask else None
        delta = (T[-3] + T[-2] - T[-1])[:end]

        def update(queries):
            return delta @ softmax(T[:d, :end].T @ queries, axis=0)

        new = T.copy()
        new[-1] += update(T[:d])
        if target == "entered":
            new[-2, :-1] += (gamma if discount else 1) * update(T[d : 2 * d])[:-1]
        elif target == "neighbour":
            new[-2, :-1] = gamma * new[-1, 1:]
        return new

    return function


def own_error(T, gamma):
    new = T.copy()
    new[-1, :-1] += (T[-3] + T[-2] - T[-1])[:-1]
    return new


def leaky(scores=True, errors=True, target=True):
    def function(Z, A, gamma):
        raw = Z.T @ A @ Z
        if not scores:
            raw[-1] = -np.inf
        weights, delta = softmax(raw, axis=0), Z[-3] + Z[-2] - Z[-1]
        if not errors:
            delta[-1] = 0
        new = Z.copy()
        new[-1] += delta @ weights
        if target:
            new[-2, :-1] = gamma * new[-1, 1:]
        return new

    return function


def zero_prompt(reward):
    return lambda x, rewards: np.vstack([x.T, reward(rewards), np.zeros((2, len(x)))])


def stationary_by_powers(P, r, gamma):
    mu = np.linalg.matrix_power(P, 1000)[0]
    with np.errstate(all="ignore"):
        return np.linalg.solve(np.eye(len(r)) - gamma * P, (mu * r) @ P / mu)


WRONG = [
    ("prompt_matrix.late_value", stationary_by_powers, "holds NaN"),
    ("prompt_matrix.by_hand", HAND.T, "on its side"),
    ("prompt_matrix.by_hand", hand(3, [0, 2, -2, 6]), "too far to the right"),
    ("prompt_matrix.by_hand", hand(4, [1.5, 0.5, 1.5, 1]), "next column"),
    ("prompt_matrix.by_hand", hand(4, [1, 0.5, 1.5, 1]), "column's own"),
    ("prompt_matrix.by_hand", hand(4, [1, 3, 2, 0]), "discount"),
    ("prompt_matrix.by_hand", hand(4, [0, 0, 0, 0]), "target row is 0"),
    ("prompt_matrix.by_hand", hand(5, [1, 2, 3, 2]), "another"),
    ("prompt_matrix.by_hand", hand(5, [2, 1, 3, 0]), "query included"),
    ("prompt_matrix.by_hand", hand(slice(0, 3), np.eye(3)[:, [0, 1, 2, 0]]), "walk of the text"),
    ("prompt_matrix.build", lambda *a: stack()(*a).T, "on its side"),
    ("prompt_matrix.build", stack(reward=lambda r: np.append(0, r)), "too far to the right"),
    ("prompt_matrix.build", stack(reward=lambda r: np.append(r, r[-1])), "placeholder in the reward row"),
    ("prompt_matrix.build", stack(target=lambda v, g: np.append(v[1:], 0)), "lacks the discount"),
    ("prompt_matrix.build", stack(target=lambda v, g: g * v), "column's own"),
    ("prompt_matrix.build", stack(target=lambda v, g: np.append(0, g * v[:-1])), "the previous one"),
    ("prompt_matrix.build", stack(target=lambda v, g: g * np.roll(v, -1)), "wraps around"),
    ("prompt_matrix.build", stack(target=lambda v, g: 0 * v), "target row is 0"),
    ("prompt_matrix.build", stack(target=lambda v, g: np.append(g * v[1:], 1)), "target of the query should be 0"),
    ("prompt_matrix.build", stack(swap=True), "exchanged"),
    ("prompt_matrix.build", stack(features=lambda x: x[::-1].T), "feature rows"),
    ("prompt_matrix.reader", read((-1, -1, 1)), "wrong sign"),
    ("prompt_matrix.reader", read((1, 1, 1)), "taken away"),
    ("prompt_matrix.reader", read(first=True), "drops the first column"),
    ("prompt_matrix.reader", read((1, 0, -1)), "Which three rows"),
    ("prompt_matrix.reader", lambda d, n: np.zeros((1, d + 3)), "two matrices"),
    ("prompt_matrix.reader", lambda d, n: (np.ones((1, d + 3)), np.eye(n + 1, n)), "mixes features"),
    ("prompt_matrix.warm_start", warm(lambda v, g, Z: Z[..., -2, :-1], last=False), "still the old one"),
    ("prompt_matrix.warm_start", warm(lambda v, g, Z: v[..., 1:]), "lacks the discount"),
    ("prompt_matrix.warm_start", warm(lambda v, g, Z: g * v[..., :-1]), "column's own"),
    ("prompt_matrix.warm_start", warm(lambda v, g, Z: g * v[..., 1:], last=False), "so set it"),
    ("prompt_matrix.warm_start", lambda Z, v, g: Z, "value row"),
    ("prompt_matrix.find_fault", fault(signed=True), "do not notice"),
    ("prompt_matrix.find_fault", fault(query=False), "do not notice"),
    ("prompt_matrix.find_fault", lambda Z, g: 0, "without a fault"),
    ("prompt_matrix.late_value", late(lambda P, r, mu: r), "true values"),
    ("prompt_matrix.late_value", late(lambda P, r, mu: P @ r), "of its successors"),
    ("prompt_matrix.late_value", late(lambda P, r, mu: P.T @ r), "do not sum to 1"),
    ("prompt_matrix.late_value", late(lambda P, r, mu: (mu * r) @ P), "did not divide"),
    ("prompt_matrix.late_value", late(lambda P, r, mu: (mu * r) @ P / mu, backwards=True), "look backwards, too"),
    ("prompt_matrix.late_value", lambda P, r, g: P @ np.linalg.solve(np.eye(len(r)) - g * P, r), "one step later"),
    ("prompt_matrix.late_value", lambda P, r, g: np.ones(len(r)), "differs from that"),
    ("prompt_matrix.transition_step", own_error, "its own error only"),
    ("prompt_matrix.transition_step", transitions(mask=False), "query is none"),
    ("prompt_matrix.transition_step", transitions(target=None), "has not moved"),
    ("prompt_matrix.transition_step", transitions(target="neighbour"), "copy from the next column"),
    ("prompt_matrix.transition_step", transitions(discount=False), "lacks the discount"),
    ("prompt_matrix.bug_step", leaky(), "still is a source"),
    ("prompt_matrix.bug_step", leaky(errors=False), "share of every softmax"),
    ("prompt_matrix.bug_step", leaky(scores=False, target=False), "does not fit"),
    ("prompt_matrix.bug_builder", zero_prompt(lambda r: np.append(0, r)), "too far to the right"),
    ("prompt_matrix.bug_builder", zero_prompt(lambda r: np.append(r[1:], [0, 0])), "too far to the left"),
    ("prompt_matrix.bug_builder", zero_prompt(lambda r: np.append(r, 1)), "placeholder"),
]
