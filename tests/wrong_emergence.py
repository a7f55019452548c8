"""Exercises on emergence: right answers of several styles, and typical mistakes with their reasons."""

import dataclasses
from fractions import Fraction

import numpy as np
import torch
from wrong_temporal_shift_module import in_float32

from ictd import convergence, kernels, pretrain
from ictd.model import SoftmaxICTD
from ictd.prompt import build_prompt

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
        M = kernels.softmax_kernel(X, X, kernels.bilinear_score(A), counts)
        return convergence.diagonality(M, of(counts, states))

    return function


def diagonality_in_loops(states, X, A):
    sources = sorted(set(states[:-1].tolist()))
    found = []
    for s in sources:
        weights = [np.exp(X[u] @ A @ X[s]) for u in states[:-1]]
        found.append(sum(w for w, u in zip(weights, states[:-1]) if u == s) / sum(weights))
    return np.mean(found), min(found)


def diagonality_of_columns(states, X, A):
    """From the softmax over positions."""
    K = kernels.softmax_kernel(X[np.unique(states[:-1])], X[states[:-1]], kernels.bilinear_score(A))
    own = (K * (np.unique(states[:-1])[:, None] == states[:-1])).sum(axis=1)
    return [own.mean(), own.min()]


def weighted_by_counts(states, X, A):
    counts = np.bincount(states[:-1], minlength=len(X))
    diagonal = kernels.softmax_kernel(X, X, kernels.bilinear_score(A), counts).diagonal()
    return np.average(diagonal, weights=counts), diagonal[counts > 0].min()


def half_mended(states, X, A):
    counts = np.bincount(states[:-1], minlength=len(X))
    diagonal = kernels.softmax_kernel(X, X, kernels.bilinear_score(A), counts).diagonal()
    return diagonal[counts > 0].mean(), diagonal.min()


def without_counts(states, X, A):
    return convergence.diagonality(kernels.softmax_kernel(X, X, kernels.bilinear_score(A)))


def forward(kernel, discount=True):
    def function(x, rewards, gamma, w, A, n_layers):
        K = kernel(x, A)
        history = [np.zeros(len(x))]
        for _ in range(n_layers):
            v = history[-1]
            history.append(v + K @ (w[0] * rewards + w[1] * (gamma if discount else 1) * v[1:] + w[2] * v[:-1]))
        return np.array(history)

    return function


def forward_in_loops(x, rewards, gamma, w, A, n_layers):
    n, history = len(rewards), [np.zeros(len(x))]
    for _ in range(n_layers):
        v, new = history[-1], history[-1].copy()
        errors = [w[0] * rewards[k] + w[1] * gamma * v[k + 1] + w[2] * v[k] for k in range(n)]
        for j in range(n + 1):
            weights = np.exp([x[k] @ A @ x[j] for k in range(n)])
            new[j] += weights @ errors / weights.sum()
        history.append(new)
    return history


def forward_by_the_model(x, rewards, gamma, w, A, n_layers):
    model = SoftmaxICTD.constructed(x.shape[1], n_layers, gamma)
    with torch.no_grad():
        model.value_weights.copy_(torch.tensor(w))
        model.score_matrix.copy_(torch.tensor(A))
    return model.values(build_prompt(x, rewards)).detach()


def without_residual(x, rewards, gamma, w, A, n_layers):
    return np.diff(np.array(forward_in_loops(x, rewards, gamma, w, A, n_layers)), axis=0, prepend=0)


def scores(matrix):
    return lambda x, A: kernels.softmax_kernel(x, x[:-1], kernels.bilinear_score(matrix(A)))


def trained(seeds=3, **options):
    return pretrain.pretrain(pretrain.Config(**LITTLE | options), range(seeds))


def limit_by_iteration(w, gamma, transition, reward):
    v = np.zeros(len(reward))
    for _ in range(2000):
        v = (w[0] * reward + w[1] * gamma * transition @ v) / -w[2]
    return v


def limit_by_series(w, gamma, transition, reward):
    return sum(
        (gamma * w[1] / -w[2]) ** k * np.linalg.matrix_power(transition, k) @ reward * w[0] / -w[2] for k in range(500)
    )


def visible_by_projection(A):
    n = len(A)
    return (np.eye(n) - np.ones((n, n)) / n) @ A


def visible_in_loops(A):
    return [[A[i, j] - sum(A[:, j]) / len(A) for j in range(len(A))] for i in range(len(A))]


GOOD = trained(n_steps=150, learning_rate=0.1)
TD = np.array(5 * [[1.0, 1.0, -1.0]])
FIRST = np.array([[10.0, 0, 0]] + 4 * [[1.0, 1.0, -1.0]])
RIGHT = [
    ("emergence.by_hand", [3.75, 1.25, 7]),
    ("emergence.by_hand", [Fraction(15, 4), Fraction(5, 4), 7]),
    ("emergence.by_hand", np.array([3.75, 1.25, 7], np.float32)),
    ("emergence.limit", limit()),
    ("emergence.limit", limit_by_iteration),
    ("emergence.limit", limit_by_series),
    ("emergence.limit", in_float32(limit())),
    ("emergence.visible", visible_by_projection),
    ("emergence.visible", visible_in_loops),
    ("emergence.visible", in_float32(visible_by_projection)),
    ("emergence.train", GOOD),
    ("emergence.train", trained(n_steps=120, learning_rate=0.2)),
    ("emergence.train", trained(n_steps=150, learning_rate=0.1, form="dual_head", dtype="float64", seeds=4)),
    ("emergence.five_layers", (np.array([[10, 0, 0]] + 4 * [[1.2, 1.2, -1.2]]), [0, 1, 1, 1, 1])),
    ("emergence.five_layers", [[[10, 0, 0]] + 4 * [[1.4, 1.4, -1.4]], np.array([0, 1, 1, 1, 1], np.float32)]),
    ("emergence.five_layers", (np.array([[9.5, 0, 0]] + 4 * [[1.2, 1.2, -1.2]]), 0.9 * np.array([0, 1, 1, 1, 1]))),
    ("emergence.bug_unseen", diagonality(lambda counts, states: counts > 0)),
    ("emergence.bug_unseen", diagonality_in_loops),
    ("emergence.bug_unseen", diagonality_of_columns),
    ("emergence.bug_unseen", in_float32(diagonality_of_columns)),
    ("emergence.bug_digits", forward(scores(lambda A: A))),
    ("emergence.bug_digits", forward_in_loops),
    ("emergence.bug_digits", forward_by_the_model),
    ("emergence.bug_digits", in_float32(forward_in_loops)),
]
WRONG = [
    ("emergence.by_hand", [8, 6, 10], "one layer"),
    ("emergence.by_hand", [-4.25, -4.75, -3], "change in the second layer"),
    ("emergence.by_hand", [5.875, 4.375, 7.75], "(1, 1, -1)"),
    ("emergence.by_hand", [7 + 7 / 32, 5 + 11 / 32, 9 + 15 / 16], "of the text"),
    ("emergence.by_hand", [0, 8, 4], "mix the errors"),
    ("emergence.by_hand", [3.75, 1.25, 8], "A and B are right; look at C again"),
    ("emergence.by_hand", [7, 1, 7.5], "write down"),
    ("emergence.by_hand", [3.75, 1, 8], "A is right; look at B and C again"),
    ("emergence.by_hand", [3.7, 1.2, 7], "within rounding"),
    ("emergence.by_hand", [3.75, 1.25, 7 + 1 / 30], "A and B are right"),
    ("emergence.by_hand", [1, 2], "shape"),
    ("emergence.limit", limit(lambda w: 1, lambda w, g: g), "the weights change the discount"),
    ("emergence.limit", limit(discount=lambda w, g: g), "discount is changed too"),
    ("emergence.limit", limit(discount=lambda w, g: g * w[1]), "divide w_T"),
    ("emergence.limit", limit(sign=-1), "sign is wrong"),
    ("emergence.limit", limit(transpose=True), "transposed"),
    ("emergence.limit", limit(discount=lambda w, g: g * abs(w[1] / w[2])), "(0.7, -0.8, -1.1)"),
    ("emergence.limit", limit(lambda w: w[0], lambda w, g: g * w[1]), "both w_R and w_T"),
    ("emergence.limit", limit(lambda w: -1 / w[2]), "multiplied by w_R"),
    ("emergence.limit", limit(discount=lambda w, g: g * w[1] / w[2]), "the discount should not be"),
    ("emergence.limit", limit(discount=lambda w, g: -w[1] / w[2] * 0.7), "still moves your values"),
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
    ("emergence.visible", lambda A: (A + A.T) / 2, "symmetric part"),
    ("emergence.visible", lambda A: A - A[-1:], "a smaller matrix"),
    ("emergence.visible", lambda A: A - np.median(A, axis=0), "medians"),
    ("emergence.visible", lambda A: (A - A.mean(axis=0)).T, "transposed"),
    ("emergence.visible", lambda A: 2 * A, "another kernel"),
    ("emergence.train", [1, 2, 3], "should be a Result"),
    ("emergence.train", trained(n_steps=2), "hardly left zero"),
    ("emergence.train", trained(n_steps=8, learning_rate=3.0), "long steps"),
    ("emergence.train", trained(n_steps=150, learning_rate=0.1, objective="neu"), "NEU descent"),
    ("emergence.train", trained(n_steps=60, learning_rate=0.1), "allows more steps"),
    ("emergence.train", trained(n_steps=150, learning_rate=0.05), "the rate decides"),
    ("emergence.train", trained(n_steps=150, learning_rate=0.1, batch_size=2), "cosine"),
    ("emergence.train", trained(n_steps=2, form="independent_heads"), "form = tsm"),
    (
        "emergence.train",
        dataclasses.replace(trained(n_steps=2), parameters=GOOD.parameters),
        "of the seeds [1000, 1001",
    ),
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
    ("emergence.five_layers", (TD.T, np.ones(5)), "w should have shape (5, 3)"),
    ("emergence.five_layers", TD, "should be a pair"),
    ("emergence.bug_unseen", diagonality(lambda counts, states: None), "still count"),
    ("emergence.bug_unseen", half_mended, "minimum still looks"),
    ("emergence.bug_unseen", diagonality(lambda counts, states: np.isin(np.arange(len(counts)), states)), "no source"),
    ("emergence.bug_unseen", without_counts, "forgotten how often"),
    ("emergence.bug_unseen", diagonality(lambda counts, states: counts > 1), "left once counts too"),
    (
        "emergence.bug_unseen",
        diagonality(lambda counts, states: np.isin(np.arange(len(counts)), states[1:])),
        "first state",
    ),
    ("emergence.bug_unseen", weighted_by_counts, "each state counts once"),
    ("emergence.bug_unseen", lambda states, X, A: diagonality_in_loops(states, X, A)[::-1], "exchanged"),
    ("emergence.bug_unseen", lambda states, X, A: diagonality_in_loops(states, X, A.T), "A transposed"),
    ("emergence.bug_digits", forward(scores(lambda A: A.T)), "as wrong as before"),
    ("emergence.bug_digits", forward(scores(lambda A: (A + A.T) / 2)), "hides the mistake"),
    ("emergence.bug_digits", forward(scores(lambda A: np.eye(len(A)))), "do not use the matrix"),
    ("emergence.bug_digits", forward(scores(lambda A: A), discount=False), "the discount is missing"),
    (
        "emergence.bug_digits",
        forward(lambda x, A: kernels.softmax_kernel(x, x, kernels.bilinear_score(A))[:, :-1]),
        "no successor",
    ),
    (
        "emergence.bug_digits",
        forward(lambda x, A: kernels.softmax_kernel(x, x[1:], kernels.bilinear_score(A))),
        "are entered",
    ),
    ("emergence.bug_digits", without_residual, "the residual is missing"),
    ("emergence.bug_digits", lambda *a: forward_in_loops(*a[:3], np.abs(a[3]) * [1, 1, -1], *a[4:]), "n = 8, d = 2"),
    (
        "emergence.bug_digits",
        forward(lambda x, A: kernels.softmax_kernel(x, x[:-1], kernels.bilinear_score(2 * A))),
        "look at the scores",
    ),
    (
        "emergence.bug_digits",
        lambda x, r, g, w, A, n: forward_in_loops(x, r, g, w * [1, 1.1, 1], A, n),
        "look at the rest",
    ),
]
