"""Typical mistakes in the exercises on weighted softmax TD, with a word of the reason for each, and right answers."""

import math
from fractions import Fraction

import numpy as np

from ictd.kernels import softmax_kernel
from ictd.td import weighted_softmax_td


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


def algorithm(delta=lambda v, r, g: r + g * v[1:] - v[:-1], query=False, once=False, copy=True):
    """The mended suspect of the bug lab, or with a mistake."""

    def function(x, rewards, gamma, n_steps):
        K = softmax(x @ x.T)[:, :-1] if query else softmax(x @ x[:-1].T)
        v, history = np.zeros(len(x)), []
        first = delta(v, rewards, gamma)
        for _ in range(n_steps + 1):
            history.append(v.copy() if copy else v)
            change = K @ (first if once else delta(v, rewards, gamma))
            if copy:
                v = v + change
            elif len(history) <= n_steps:
                v += change
        return np.array(history)

    return function


def algorithm_on_states(x, rewards, gamma, n_steps):
    """Counts and means of states that share their features, found in a dictionary."""
    known = {}
    states = [known.setdefault(tuple(row), len(known)) for row in x.tolist()]
    X, history = np.array(list(known)), [[0.0] * len(known)]
    for _ in range(n_steps):
        v, new = history[-1], []
        for row in X:
            weights = [math.exp(float(row @ X[s])) for s in states[:-1]]
            errors = [r + gamma * v[u] - v[s] for r, s, u in zip(rewards, states, states[1:])]
            new.append(sum(w * e for w, e in zip(weights, errors)) / sum(weights))
        history.append([old + change for old, change in zip(v, new)])
    return np.array(history)[:, states]


def kernel_right(scores, counts):
    weights = np.where(counts > 0, scores, -np.inf)
    weights = counts * np.exp(weights - weights.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def kernel_loops(scores, counts):
    rows = []
    for row in scores.tolist():
        largest = max(g for g, c in zip(row, counts) if c)
        weights = [c * math.exp(g - largest) if c else 0.0 for g, c in zip(row, counts)]
        rows.append([w / sum(weights) for w in weights])
    return rows


def kernel_of_repeated_sources(scores, counts):
    """Counts are whole numbers."""
    source = np.repeat(np.arange(len(counts)), counts)
    weights, result = softmax(scores[:, source]), np.zeros(scores.shape)
    for column, s in enumerate(source):
        result[:, s] += weights[:, column]
    return result


def kernel_masked_by(score):
    return lambda scores, counts: softmax(np.where(counts > 0, scores, score) + np.log(np.maximum(counts, 1)))


def kernel_with_logarithms(scores, counts):
    return softmax(scores + np.log(counts))


def maximum_of_all(scores, counts):
    """Stable at one large score, not in a row whose scores are all far below the largest of the matrix."""
    weights = counts * np.exp(scores - scores.max())
    return weights / weights.sum(axis=1, keepdims=True)


def step_loops(values, kernel, reward, transition, gamma, step_size):
    states = range(len(values))
    errors = [reward[s] + gamma * sum(transition[s, u] * values[u] for u in states) - values[s] for s in states]
    return [values[s] + step_size * sum(kernel[s, u] * errors[u] for u in states) for s in states]


def step_as_matrix(values, kernel, reward, transition, gamma, step_size):
    one = np.eye(len(values))
    return (one - step_size * kernel @ (one - gamma * transition)) @ values + step_size * kernel @ reward


def bisection(count, n, gamma):
    """The border, searched for."""
    low, high = 0.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        enough = count * math.exp(middle) >= (1 + gamma) / 2 * (count * math.exp(middle) + n - count)
        low, high = (low, middle) if enough else (middle, high)
    return high


def eigenvalue_by_numpy(a, b, c, g):
    J = np.eye(3) + np.array([[1 - a, a], [1 - b, b], [1 - c, c]]) @ [[-1, g, 0], [0, -1, g]]
    found = list(np.linalg.eigvals(J).real)
    for known in (1, g):
        found.remove(min(found, key=lambda one: abs(one - known)))
    return found[0]


def eigenvalue_by_determinant(a, b, c, g):
    """The non-zero eigenvalues of K D are those of the 2 x 2 matrix D K."""
    DK = np.array([[-1, g, 0], [0, -1, g]]) @ np.array([[1 - a, a], [1 - b, b], [1 - c, c]])
    return 1 + np.linalg.det(DK) / (g - 1)


V_2 = [1 + (3 - 1.5) / 4, 2 + (3 + 0.5) / 4, 3 + (3 + 4) / 4]
LONG_STEP = np.append(10.0, np.ones(19))
RIGHT = [
    ("weighted_softmax_td.by_hand", V_2),
    ("weighted_softmax_td.by_hand", tuple(map(Fraction, V_2))),
    ("weighted_softmax_td.by_hand", np.array(V_2, np.float32)),
    ("weighted_softmax_td.kernel", kernel_right),
    ("weighted_softmax_td.kernel", kernel_loops),
    ("weighted_softmax_td.kernel", kernel_with_logarithms),
    ("weighted_softmax_td.kernel", kernel_of_repeated_sources),
    ("weighted_softmax_td.kernel", kernel_masked_by(-1e30)),
    ("weighted_softmax_td.state_step", step()),
    ("weighted_softmax_td.state_step", step_loops),
    ("weighted_softmax_td.state_step", step_as_matrix),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: np.log(max(1.0, (1 + g) / (1 - g) * (n - c) / c))),
    ("weighted_softmax_td.scale_needed", bisection),
    (
        "weighted_softmax_td.scale_needed",
        lambda c, n, g: 0 if 2 * c >= (1 + g) * n else math.log1p(g) - math.log1p(-g) + math.log(n / c - 1),
    ),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 1 + a - b * (1 + g) + g * c),
    ("weighted_softmax_td.third_eigenvalue", eigenvalue_by_numpy),
    ("weighted_softmax_td.third_eigenvalue", eigenvalue_by_determinant),
    ("weighted_softmax_td.faster_steps", LONG_STEP),
    ("weighted_softmax_td.faster_steps", [1.0] * 19 + [10.0]),
    ("weighted_softmax_td.faster_steps", np.float32(np.roll(LONG_STEP, 7))),
    ("weighted_softmax_td.bug", algorithm()),
    ("weighted_softmax_td.bug", algorithm_on_states),
    ("weighted_softmax_td.bug", lambda x, r, g, n: weighted_softmax_td(x, r, g, n)),
]
WRONG = [
    ("weighted_softmax_td.by_hand", [1, 2, 3], "one more"),
    ("weighted_softmax_td.by_hand", [1, 2], "shape"),
    ("weighted_softmax_td.by_hand", [1.375, 2.875, 4.7], "rounding"),
    ("weighted_softmax_td.by_hand", [1.375, 2.875, 7], "A and B are right"),
    ("weighted_softmax_td.by_hand", [4 / 3, 17 / 6, 4.75], "C is right"),
    ("weighted_softmax_td.by_hand", [5.875, 4.375, 7.75], "another one"),
    ("weighted_softmax_td.by_hand", [V_2[1], V_2[0], V_2[2]], "order should be A, B, C"),
    ("weighted_softmax_td.by_hand", [0, 0, 0], "all your values are 0"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s, axis=0), "columns that sum to 1"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s), "counts change nothing"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s) * c, "normalise again"),
    ("weighted_softmax_td.kernel", unstable, "10,000"),
    ("weighted_softmax_td.kernel", late_mask, "should not notice"),
    ("weighted_softmax_td.kernel", maximum_of_all, "10,000"),
    ("weighted_softmax_td.kernel", kernel_masked_by(-1e4), "not small enough for every row"),
    ("weighted_softmax_td.kernel", lambda s, c: kernel_right(s, c**2), "squared"),
    ("weighted_softmax_td.kernel", lambda s, c: softmax(s + c), "add the counts"),
    ("weighted_softmax_td.kernel", lambda s, c: np.eye(len(c))[s.argmax(axis=1)], "no softmax"),
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
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: max(1, 1 + a - b * (1 + g) + g * c), "the largest"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 1 + a - 2 * b + c, "lost the discount"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: 1 - a + b * (1 + g) - g * c, "are exchanged"),
    ("weighted_softmax_td.third_eigenvalue", lambda a, b, c, g: [1.0, g], "a single number; it has shape (2,)"),
    ("weighted_softmax_td.scale_needed", lambda c, n, g: math.log2(max(1, (1 + g) / (1 - g) * (n - c) / c)), "base 2"),
    (
        "weighted_softmax_td.scale_needed",
        lambda c, n, g: max(0, np.log((1 + g) / (1 - g) * n / c)),
        "all n transitions",
    ),
    (
        "weighted_softmax_td.scale_needed",
        lambda c, n, g: math.log((1 + g) / (1 - g) * (n - c) / c),
        "for count 10, n = 10 and gamma = 0.5 your function raised ValueError",
    ),
    ("weighted_softmax_td.faster_steps", np.ones(20), "a hundredth"),
    ("weighted_softmax_td.faster_steps", np.ones(19), "shape (20,)"),
    ("weighted_softmax_td.faster_steps", -np.ones(20), "positive"),
    ("weighted_softmax_td.faster_steps", [0.01] * 20, "too small"),
    ("weighted_softmax_td.faster_steps", [np.nan] * 20, "your list of step sizes holds NaN"),
    ("weighted_softmax_td.faster_steps", [2.0] * 20, "blow up"),
    ("weighted_softmax_td.faster_steps", [1e308] * 20, "blow up"),
    ("weighted_softmax_td.faster_steps", [1e308] + [1e-308] * 19, "blow up"),
    ("weighted_softmax_td.bug", sweep, "still differ"),
    ("weighted_softmax_td.bug", algorithm(query=True), "has become a source"),
    ("weighted_softmax_td.bug", algorithm(once=True), "never change"),
    ("weighted_softmax_td.bug", algorithm(copy=False), "store a copy"),
    ("weighted_softmax_td.bug", algorithm(lambda v, r, g: r + v[1:] - v[:-1]), "discount is missing"),
    ("weighted_softmax_td.bug", algorithm(lambda v, r, g: r + g * v[:-1] - v[:-1]), "agree now, but"),
    ("weighted_softmax_td.bug", lambda *a: algorithm()(*a)[1:], "shape"),
]
