"""Typical mistakes in the exercises on weighted softmax TD, and a word of the reason that each should get."""

import numpy as np

from ictd.td import softmax_kernel


def softmax(scores, axis=1):
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def unstable(scores, counts):
    weights = counts * np.exp(scores)
    return weights / weights.sum(axis=1, keepdims=True)


def late_mask(scores, counts):
    weights = counts * np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def step(sign=1, discount=True, transpose=False, kernel=True, size=True, change=False):
    def function(values, M, reward, transition, gamma, step_size):
        error = sign * (reward + (gamma if discount else 1) * transition @ values - values)
        error = (M.T if transpose else M) @ error if kernel else error
        return (0 if change else values) + (step_size if size else 1) * error

    return function


def sweep(x, rewards, gamma, n_steps):
    K, v = softmax_kernel(x, x[:-1]), np.zeros(len(x))
    history = [v.copy()]
    for _ in range(n_steps):
        for j in range(len(x)):
            v[j] += K[j] @ (rewards + gamma * v[1:] - v[:-1])
        history.append(v.copy())
    return np.array(history)


WRONG = [
    ("weighted_softmax_td.by_hand", [1, 2, 3], "one more"),
    ("weighted_softmax_td.by_hand", [1, 2], "shape"),
    ("weighted_softmax_td.by_hand", [1.375, 2.875, 4.7], "rounding"),
    ("weighted_softmax_td.by_hand", [1.375, 2.875, 7], "A and B are right"),
    ("weighted_softmax_td.by_hand", [5.875, 4.375, 7.75], "another one"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s, axis=0), "columns that sum to 1"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s), "counts change nothing"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s) * c, "normalise again"),
    ("weighted_softmax_td.kernel", unstable, "10,000"),
    ("weighted_softmax_td.kernel", late_mask, "should not notice"),
    ("weighted_softmax_td.kernel", lambda s, c: late_mask(np.clip(s, -700, 700), c), "all the weight"),
    ("weighted_softmax_td.state_step", step(sign=-1), "wrong sign"),
    ("weighted_softmax_td.state_step", step(discount=False), "discount is missing"),
    ("weighted_softmax_td.state_step", step(transpose=True), "transposed"),
    ("weighted_softmax_td.state_step", step(kernel=False), "plain Bellman step"),
    ("weighted_softmax_td.state_step", step(size=False), "step size does nothing"),
    ("weighted_softmax_td.state_step", step(change=True), "add it to the old values"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: 1.0, "below the"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: 50.0, "smaller scale is enough"),
    (
        "weighted_softmax_td.scale_needed",
        lambda c, n, g: 1000.0,
        "smaller scale is enough: yours gives a weight of 1.0",
    ),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: 1e308, "smaller scale is enough"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: -1e308, "weight of 0.0000 on the own state, below"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: np.log((1 + g) / (1 - g) * (n - c) / c), "negative"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 1.0, "do not depend on q"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 2 + g + a - b * (1 + g) + g * c, "trace"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 1 + a - b + g * c, "not an eigenvalue"),
    ("weighted_softmax_td.faster_steps", np.ones(20), "a hundredth"),
    ("weighted_softmax_td.faster_steps", -np.ones(20), "positive"),
    ("weighted_softmax_td.faster_steps", [0.01] * 20, "too small"),
    ("weighted_softmax_td.faster_steps", [2.0] * 20, "blow up"),
    ("weighted_softmax_td.faster_steps", [1e308] * 20, "blow up"),
    ("weighted_softmax_td.faster_steps", [1e308] + [1e-308] * 19, "blow up"),
    ("weighted_softmax_td.bug", sweep, "still differ"),
]
