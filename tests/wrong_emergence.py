"""Typical mistakes in the exercises on emergence, and a word of the reason that each should get."""

import numpy as np

from ictd import convergence, pretrain, td

LITTLE = {"n_records": 1, "neu_batches": 3, "neu_batch_size": 2, "n_held_out": 4}


def limit(scale=lambda w: w[0] / -w[2], discount=lambda w, g: -g * w[1] / w[2], sign=1, transpose=False):
    def function(w, gamma, transition, reward):
        P = transition.T if transpose else transition
        return sign * scale(w) * np.linalg.solve(np.eye(len(reward)) - discount(w, gamma) * P, reward)

    return function


def diagonality(of):
    """Mean and minimum over the states that ``of`` chooses from visit counts and states."""

    def function(states, X, A):
        counts = np.bincount(states[:-1], minlength=len(X))
        M = td.softmax_kernel(X, X, td.bilinear_score(A), counts)
        return convergence.diagonality(M, of(counts, states))

    return function


def half_mended(states, X, A):
    counts = np.bincount(states[:-1], minlength=len(X))
    diagonal = td.softmax_kernel(X, X, td.bilinear_score(A), counts).diagonal()
    return diagonal[counts > 0].mean(), diagonal.min()


def without_counts(states, X, A):
    return convergence.diagonality(td.softmax_kernel(X, X, td.bilinear_score(A)))


def forward(kernel, discount=True):
    def function(x, rewards, gamma, w, A, n_layers):
        K = kernel(x, A)
        history = [np.zeros(len(x))]
        for _ in range(n_layers):
            v = history[-1]
            history.append(v + K @ (w[0] * rewards + w[1] * (gamma if discount else 1) * v[1:] + w[2] * v[:-1]))
        return np.array(history)

    return function


def scores(matrix):
    return lambda x, A: td.softmax_kernel(x, x[:-1], td.bilinear_score(matrix(A)))


def trained(seeds=3, **options):
    return pretrain.pretrain(pretrain.Config(**LITTLE | options), range(seeds))


TD = np.array(5 * [[1.0, 1.0, -1.0]])
FIRST = np.array([[10.0, 0, 0]] + 4 * [[1.0, 1.0, -1.0]])
WRONG = [
    ("emergence.by_hand", [8, 6, 10], "one layer"),
    ("emergence.by_hand", [-4.25, -4.75, -3], "change in the second layer"),
    ("emergence.by_hand", [5.875, 4.375, 7.75], "(1, 1, -1)"),
    ("emergence.by_hand", [7 + 7 / 32, 5 + 11 / 32, 9 + 15 / 16], "of the text"),
    ("emergence.by_hand", [0, 8, 4], "mix the errors"),
    ("emergence.by_hand", [3.75, 1.25, 8], "A and B are right"),
    ("emergence.by_hand", [3.75, 1, 8], "A is right"),
    ("emergence.by_hand", [3.7, 1.2, 7], "within rounding"),
    ("emergence.by_hand", [1, 2], "shape"),
    ("emergence.limit", limit(lambda w: 1, lambda w, g: g), "the weights change the discount"),
    ("emergence.limit", limit(discount=lambda w, g: g), "discount is changed too"),
    ("emergence.limit", limit(discount=lambda w, g: g * w[1]), "divide w_T"),
    ("emergence.limit", limit(sign=-1), "sign is wrong"),
    ("emergence.limit", limit(transpose=True), "transposed"),
    ("emergence.limit", limit(lambda w: w[0], lambda w, g: g * w[1]), "should be 0 everywhere"),
    ("emergence.limit", lambda w, g, P, r: r, "should be 0 everywhere"),
    ("emergence.visible", lambda A: A, "changed nothing"),
    ("emergence.visible", lambda A: A - A.mean(axis=1, keepdims=True), "from each row"),
    ("emergence.visible", lambda A: A - A.mean(), "one for each query"),
    (
        "emergence.visible",
        lambda A: A - A.mean(axis=0) - A.mean(axis=1, keepdims=True) + A.mean(),
        "something that the softmax can see",
    ),
    ("emergence.visible", lambda A: A - A[:1], "a smaller matrix"),
    ("emergence.visible", lambda A: 2 * A, "another kernel"),
    ("emergence.train", [1, 2, 3], "should be a Result"),
    ("emergence.train", trained(n_steps=2), "hardly left zero"),
    ("emergence.train", trained(n_steps=8, learning_rate=3.0), "long steps"),
    ("emergence.train", trained(n_steps=2, gamma=0.9), "gamma = 0.5"),
    ("emergence.train", trained(n_steps=2, seeds=2), "three seeds"),
    ("emergence.train", trained(n_steps=2, objective="mc"), "true values"),
    ("emergence.train", trained(n_steps=2, init_scale=0.3), "init_scale"),
    ("emergence.five_layers", (TD, np.ones(5)), "your layers reach 4.1"),
    ("emergence.five_layers", (np.array(5 * [[10.0, 0, 0]]), np.zeros(5)), "your layers reach 50"),
    ("emergence.five_layers", (FIRST, np.full(5, 2.5)), "differences between states"),
    ("emergence.five_layers", (FIRST, [0, 1.6, 1.6, 1.6, 1.6]), "the goal is 0.8"),
    ("emergence.five_layers", (1e100 * TD, np.ones(5)), "blow up"),
    ("emergence.five_layers", (TD, -np.ones(5)), "negative"),
    ("emergence.five_layers", TD, "should be a pair"),
    ("emergence.bug_unseen", diagonality(lambda counts, states: None), "still count"),
    ("emergence.bug_unseen", half_mended, "minimum still looks"),
    ("emergence.bug_unseen", diagonality(lambda counts, states: np.isin(np.arange(len(counts)), states)), "no source"),
    ("emergence.bug_unseen", without_counts, "forgotten how often"),
    ("emergence.bug_digits", forward(scores(lambda A: A.T)), "as wrong as before"),
    ("emergence.bug_digits", forward(scores(lambda A: (A + A.T) / 2)), "hides the mistake"),
    ("emergence.bug_digits", forward(scores(lambda A: np.eye(3))), "do not use the matrix"),
    ("emergence.bug_digits", forward(scores(lambda A: A), discount=False), "from layer 2 on"),
]
