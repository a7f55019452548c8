"""Typical mistakes in the exercises on the prompt matrix, with a word of the reason for each, and right answers."""

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


def build_loops(x, rewards, values, gamma):
    columns = []
    for j in range(len(x)):
        last = j == len(rewards)
        columns.append([*x[j], 0 if last else rewards[j], 0 if last else gamma * values[j + 1], values[j]])
    return [list(row) for row in zip(*columns)]


def build_slices(x, rewards, values, gamma):
    Z = np.zeros((x.shape[1] + 3, len(x)))
    Z[:-3], Z[-3, :-1], Z[-2, :-1], Z[-1] = np.swapaxes(x, 0, 1), rewards, gamma * values[1:], values
    return Z


def warm_loops(Z, values, gamma):
    """One prompt after the other, whatever stands in front."""
    new = []
    for prompt, v in zip(Z.reshape(-1, *Z.shape[-2:]), values.reshape(-1, values.shape[-1])):
        targets = [gamma * one for one in v[1:]] + [0.0]
        new.append([*prompt[:-2].tolist(), targets, v.tolist()])
    return np.array(new).reshape(Z.shape)


def warm_concatenated(Z, values, gamma):
    targets = np.concatenate([gamma * values[..., 1:], np.zeros_like(values[..., :1])], axis=-1)
    return np.concatenate([Z[..., :-2, :], targets[..., None, :], values[..., None, :]], axis=-2)


def fault_loop(Z, gamma):
    n = Z.shape[1] - 1
    for j in range(n + 1):
        expected = gamma * Z[-1, j + 1] if j < n else 0.0
        if abs(Z[-2, j] - expected) > 1e-9:
            return j
    return None


def fault_where(Z, gamma):
    shifted = np.zeros(Z.shape[1])
    shifted[:-1] = Z[-1, 1:]
    found = np.flatnonzero(~np.isclose(Z[-2], gamma * shifted, rtol=0, atol=1e-9))
    return found[0] if found.size else None


def fault_with_numpy_s_tolerance(Z, gamma):
    found = np.flatnonzero(~np.isclose(Z[-2], np.append(gamma * Z[-1, 1:], 0), rtol=1e-3))
    return found[0] if found.size else None


def late_eigenvector(P, r, gamma):
    values, vectors = np.linalg.eig(P.T)
    mu = vectors[:, np.argmin(np.abs(values - 1))].real
    mu = mu / mu.sum()
    return np.linalg.inv(np.eye(len(r)) - gamma * P) @ (np.diag(1 / mu) @ P.T @ np.diag(mu)) @ r


def late_lazy_walk(P, r, gamma):
    """Powers of a walk that stays half of the time, and a long sum."""
    mu = np.linalg.matrix_power((np.eye(len(r)) + P) / 2, 2**14)[0]
    paid = [sum(mu[u] * P[u, s] * r[u] for u in range(len(r))) / mu[s] for s in range(len(r))]
    values = np.zeros(len(r))
    for _ in range(2000):
        values = paid + gamma * P @ values
    return values


def late_least_squares(P, r, gamma):
    n = len(r)
    mu = np.linalg.lstsq(np.vstack([np.eye(n) - P.T, np.ones(n)]), np.append(np.zeros(n), 1), rcond=None)[0]
    return np.linalg.solve(np.eye(n) - gamma * P, (mu * r) @ P / mu)


def transitions_looked_up(T, gamma):
    """The new value of the state that is entered, found among the states that are left."""
    d, new = (len(T) - 3) // 2, transitions()(T, gamma)
    for k in range(T.shape[1] - 1):
        same = [j for j in range(T.shape[1]) if np.array_equal(T[:d, j], T[d : 2 * d, k])]
        new[-2, k] = gamma * new[-1, same[0]]
    return new


def transitions_in_loops(T, gamma):
    d, n = (len(T) - 3) // 2, T.shape[1] - 1

    def heard(query):
        scores = [float(query @ T[:d, k]) for k in range(n)]
        weights = [np.exp(score - max(scores)) for score in scores]
        return sum(w * (T[-3, k] + T[-2, k] - T[-1, k]) for k, w in enumerate(weights)) / sum(weights)

    columns = [
        [*T[:-2, k], T[-2, k] + (gamma * heard(T[d : 2 * d, k]) if k < n else 0), T[-1, k] + heard(T[:d, k])]
        for k in range(n + 1)
    ]
    return np.array(columns).T


def step_in_loops(Z, A, gamma):
    n, new = Z.shape[1] - 1, Z.tolist()
    for j in range(n + 1):
        scores = [float(Z[:, i] @ A @ Z[:, j]) for i in range(n)]
        weights = [np.exp(score - max(scores)) for score in scores]
        new[-1][j] += sum(w * (Z[-3, i] + Z[-2, i] - Z[-1, i]) for i, w in enumerate(weights)) / sum(weights)
    for j in range(n):
        new[-2][j] = gamma * new[-1][j + 1]
    return new


def step_with_changes(Z, A, gamma):
    """Adds to the target memory instead of writing it anew."""
    change = (Z[-3] + Z[-2] - Z[-1])[:-1] @ softmax(Z[:, :-1].T @ A @ Z, axis=0)
    new = Z.copy()
    new[-1] += change
    new[-2, :-1] += gamma * change[1:]
    return new


def step_masked_by(score):
    def function(Z, A, gamma):
        scores = Z.T @ A @ Z
        scores[-1] = score
        new = Z.copy()
        new[-1] += (Z[-3] + Z[-2] - Z[-1]) @ softmax(scores, axis=0)
        new[-2, :-1] = gamma * new[-1, 1:]
        return new

    return function


def transitions_masked_by(score):
    def function(T, gamma):
        d, delta = (len(T) - 3) // 2, T[-3] + T[-2] - T[-1]

        def update(queries):
            scores = T[:d].T @ queries
            scores[-1] = score
            return delta @ softmax(scores, axis=0)

        new = T.copy()
        new[-1] += update(T[:d])
        new[-2, :-1] += gamma * update(T[d : 2 * d])[:-1]
        return new

    return function


def leaky_turned(Z, A, gamma):
    return leaky(scores=False)(Z, A.T, gamma)


def loop_builder(x, rewards):
    n, d = len(rewards), x.shape[1]
    Z = np.zeros((d + 3, n + 1))
    Z[:d] = x.T
    for k in range(1, n + 1):
        Z[d, k - 1] = rewards[k - 1]
    return Z


RIGHT = [
    ("prompt_matrix.by_hand", HAND),
    ("prompt_matrix.by_hand", HAND.tolist()),
    ("prompt_matrix.by_hand", np.float32(HAND)),
    ("prompt_matrix.build", stack()),
    ("prompt_matrix.build", build_loops),
    ("prompt_matrix.build", build_slices),
    ("prompt_matrix.reader", read()),
    ("prompt_matrix.reader", lambda d, n: ([[0] * d + [-2, -2, 2]], -np.eye(n + 1)[:, :n] / 2)),
    ("prompt_matrix.reader", lambda d, n: [np.float32(M) for M in read()(d, n)]),
    ("prompt_matrix.warm_start", warm(lambda v, g, Z: g * v[..., 1:])),
    ("prompt_matrix.warm_start", warm_loops),
    ("prompt_matrix.warm_start", warm_concatenated),
    ("prompt_matrix.find_fault", fault()),
    ("prompt_matrix.find_fault", fault_loop),
    ("prompt_matrix.find_fault", fault_where),
    ("prompt_matrix.late_value", late_eigenvector),
    ("prompt_matrix.late_value", late_lazy_walk),
    ("prompt_matrix.late_value", late_least_squares),
    ("prompt_matrix.transition_step", transitions()),
    ("prompt_matrix.transition_step", transitions_looked_up),
    ("prompt_matrix.transition_step", transitions_masked_by(-np.inf)),
    ("prompt_matrix.transition_step", transitions_in_loops),
    ("prompt_matrix.bug_step", leaky(scores=False)),
    ("prompt_matrix.bug_step", step_in_loops),
    ("prompt_matrix.bug_step", step_masked_by(-np.inf)),
    ("prompt_matrix.bug_step", step_with_changes),
    ("prompt_matrix.bug_builder", zero_prompt(lambda r: np.append(r, 0))),
    ("prompt_matrix.bug_builder", loop_builder),
    ("prompt_matrix.bug_builder", lambda x, r: build_loops(x, r, np.zeros(len(x)), 0.0)),
]
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
    ("prompt_matrix.build", stack(features=lambda x: x.reshape(x.shape[::-1])), "reshaped"),
    ("prompt_matrix.build", stack(target=lambda v, g: np.append(g**2 * v[1:], 0)), "discounted twice"),
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
    ("prompt_matrix.find_fault", fault_with_numpy_s_tolerance, "you do not notice"),
    ("prompt_matrix.find_fault", lambda Z, g: fault_loop(Z[:, ::-1], 1 / g) if g else None, "without a fault"),
    (
        "prompt_matrix.find_fault",
        lambda Z, g: None if fault_loop(Z, g) is None else fault_loop(Z, g) + 1,
        "report column 1",
    ),
    (
        "prompt_matrix.find_fault",
        lambda Z, g: None if fault_loop(Z, g) is None else fault_loop(Z, g) + 0.5,
        "whole number",
    ),
    ("prompt_matrix.find_fault", lambda Z, g: None if fault_loop(Z, g) is None else -9, "does not exist"),
    ("prompt_matrix.find_fault", lambda Z, g: fault_loop(Z, g) if g else fault_loop(Z, 1.0), "gamma = 0.0"),
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
    ("prompt_matrix.transition_step", transitions_masked_by(-50), "scores near -100, d = 2"),
    ("prompt_matrix.transition_step", transitions(target="neighbour"), "copy from the next column"),
    ("prompt_matrix.transition_step", transitions(discount=False), "lacks the discount"),
    ("prompt_matrix.transition_step", lambda T, g: T, "nothing has changed"),
    ("prompt_matrix.transition_step", lambda T, g: np.vstack([0 * T[:1], transitions()(T, g)[1:]]), "have changed"),
    ("prompt_matrix.bug_step", leaky(), "still is a source"),
    ("prompt_matrix.bug_step", leaky(errors=False), "share of every softmax"),
    ("prompt_matrix.bug_step", leaky(scores=False, target=False), "does not fit"),
    ("prompt_matrix.bug_step", leaky_turned, "transposed"),
    ("prompt_matrix.bug_step", step_masked_by(-50), "where all scores are near -200"),
    ("prompt_matrix.bug_step", lambda Z, A, g: step_in_loops(Z, 0 * A, g), "all count the same"),
    ("prompt_matrix.bug_step", lambda Z, A, g: Z[:, :-1], "shape"),
    ("prompt_matrix.bug_builder", zero_prompt(lambda r: np.append(0, r)), "too far to the right"),
    ("prompt_matrix.bug_builder", zero_prompt(lambda r: np.append(r[1:], [0, 0])), "too far to the left"),
    ("prompt_matrix.bug_builder", zero_prompt(lambda r: np.append(r, 1)), "placeholder"),
    ("prompt_matrix.bug_builder", zero_prompt(lambda r: np.append(r[::-1], 0)), "the reward for leaving its state"),
    ("prompt_matrix.bug_builder", lambda x, r: loop_builder(x[::-1], r), "feature rows"),
    ("prompt_matrix.bug_builder", lambda x, r: loop_builder(x, r).T, "on its side"),
]
