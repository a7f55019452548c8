"""Typical mistakes in the exercises on the dual-head layer, and a word of the reason that each should get."""

import numpy as np
from wrong_weighted_softmax_td import softmax


def head(mask="before", axis=0, transpose=False, n=False, stable=True, residual=False):
    """Attention with one mistake."""

    def function(Z, V, A):
        scores = Z.T @ (A.T if transpose else A) @ Z
        if mask == "before":
            scores[-1] = -np.inf if axis == 0 else scores[-1]
        weights = np.exp(scores - (scores.max(axis=axis, keepdims=True) if stable else 0))
        weights = weights / weights.sum(axis=axis, keepdims=True)
        if mask == "after" or axis == 1:
            weights[-1] = 0
        return (Z if residual else 0) + V @ Z @ weights / (Z.shape[1] - 1 if n else 1)

    return function


def dual_head(
    move=lambda Y: np.pad(Y[:, 1:], ((0, 0), (0, 1))), discount=True, residual=True, in_turn=False, **mistake
):
    """The layer with one mistake."""

    def function(Z, V, A, gamma):
        V_target = np.zeros_like(V)
        V_target[-2] = (gamma if discount else 1) * V[-1]
        first = Z + head(**mistake)(Z, V, A)
        return first - (0 if residual else Z) + move(head(**mistake)(first if in_turn else Z, V_target, A))

    return function


def shifted_layer(move):
    """The mended suspect of the second bug lab, with another shift."""

    def function(Z, A, gamma):
        scores = (Z.T @ A @ Z)[:-1]
        change = (Z[-3] + Z[-2] - Z[-1])[:-1] @ softmax(scores, axis=0)
        Z = Z.copy()
        Z[-1] += change
        Z[-2] += gamma * move(change)
        return Z

    return function


def scaled_identity(d, feature, scale, memories=0):
    return np.diag([scale] * d + [memories] * 3).astype(float)


def mean_head(row=-1, A_entry=0, reward=1, value=0):
    def function(d):
        V, A = np.zeros((2, d + 3, d + 3))
        V[row, d], V[-1, -1], A[0, 0] = reward, value, A_entry
        return V, A

    return function


def long_step(size):
    """A first layer that is a constructed layer with another step size."""

    def function(d, gamma):
        V, A = np.zeros((2, d + 3, d + 3))
        V[-1, -3:] = size, size, -size
        A[range(d), range(d)] = 1
        return V, A

    return function


def renormalised(Z, V, A):
    """Softmax over all columns, then the query is taken out and the rest divided by its sum."""
    weights = softmax(Z.T @ A @ Z, axis=0)
    weights[-1] = 0
    return V @ Z @ (weights / weights.sum(axis=0))


def naive(Z, V, A):
    weights = np.exp(Z[:, :-1].T @ A @ Z)
    return V @ Z[:, :-1] @ (weights / weights.sum(axis=0))


WRONG = [
    ("dual_head_layer.attention", renormalised, "leave the query out before the softmax"),
    ("dual_head_layer.fading", renormalised, "leave the query out before the softmax"),
    ("dual_head_layer.fading", naive, "exponentials overflow"),
    ("dual_head_layer.by_hand", [[4, 2, -2, 0], [1, 8.5, 4.5, 1]], "target row should change"),
    ("dual_head_layer.by_hand", [[1, 8.5, 4.5, 1], [4.25, 2.25, 0.5, 0]], "exchanged"),
    ("dual_head_layer.by_hand", [[0.25, 0.25, 2.5, 0], [5, 0.5, 0.5, 5]], "outputs of the heads"),
    ("dual_head_layer.by_hand", [[6.5, 2.25, -1.75, 2.5], [1, 8.5, 4.5, 1]], "one column to the left"),
    ("dual_head_layer.by_hand", [[4.5, 2.5, 3, 0], [1, 8.5, 4.5, 1]], "missing the discount"),
    ("dual_head_layer.by_hand", [[0, 0, 0, 0], [1, 8.5, 4.5, 1]], "the value row is right"),
    ("dual_head_layer.by_hand", [[4.25, 2.25, 0.5, 0], [5, 0.5, 0.5, 5]], "add it to v_0"),
    ("dual_head_layer.by_hand", [[2, 1.5, 2, 0], [4, 3, 3, 4]], "reward plus target memory"),
    ("dual_head_layer.attention", head(axis=1), "wrong axis"),
    ("dual_head_layer.attention", head(mask="after"), "after the softmax"),
    ("dual_head_layer.attention", head(mask="none"), "does nothing"),
    ("dual_head_layer.attention", head(transpose=True), "A is transposed"),
    ("dual_head_layer.attention", head(n=True), "normalises already"),
    ("dual_head_layer.attention", head(residual=True), "added Z"),
    ("dual_head_layer.attention", head(stable=False), "10,000"),
    ("dual_head_layer.attention", lambda Z, V, A: head()(Z, V.T, A), "V is transposed"),
    ("dual_head_layer.attention", lambda Z, V, A: head()(Z, V, A).T, "shape"),
    ("dual_head_layer.layer", dual_head(move=lambda Y: Y), "not shifted"),
    ("dual_head_layer.layer", dual_head(move=lambda Y: 0 * Y), "target head is missing"),
    ("dual_head_layer.layer", dual_head(move=lambda Y: np.roll(Y, -1, axis=1)), "wraps around"),
    ("dual_head_layer.layer", dual_head(move=lambda Y: np.pad(Y[:, :-1], ((0, 0), (1, 0)))), "to the right"),
    ("dual_head_layer.layer", dual_head(discount=False), "discount is missing"),
    ("dual_head_layer.layer", dual_head(residual=False), "left out Z"),
    ("dual_head_layer.layer", dual_head(in_turn=True), "read the same Z"),
    ("dual_head_layer.layer", dual_head(mask="after"), "after the softmax"),
    ("dual_head_layer.layer", dual_head(transpose=True), "transposed"),
    ("dual_head_layer.ignoring", scaled_identity, "still counts"),
    ("dual_head_layer.ignoring", lambda d, f, s: scaled_identity(d, f, s, 1), "features only"),
    (
        "dual_head_layer.ignoring",
        lambda d, f, s: np.diag(np.r_[np.arange(d) != f, 0, 0, 0] * 1.0),
        "scale does nothing",
    ),
    ("dual_head_layer.ignoring", lambda d, f, s: np.diag(np.r_[(np.arange(d) != f) * s**2, 0, 0, 0]), "squared"),
    ("dual_head_layer.mean_reward", mean_head(A_entry=1), "not all the same"),
    ("dual_head_layer.mean_reward", mean_head(row=-3), "belongs in row d+3"),
    ("dual_head_layer.mean_reward", mean_head(reward=-1), "sign"),
    ("dual_head_layer.mean_reward", mean_head(value=-1), "memories"),
    ("dual_head_layer.mean_reward", mean_head(reward=2), "mean of the 5 rewards"),
    ("dual_head_layer.first_layer", long_step(1.0), "the constructed layer itself"),
    ("dual_head_layer.first_layer", long_step(10.0), "worse start"),
    ("dual_head_layer.first_layer", lambda d, gamma: np.zeros((2, d + 3, d + 3)), "worse start"),
    ("dual_head_layer.first_layer", lambda d, gamma: np.zeros((3, d + 3, d + 3)), "two matrices"),
    ("dual_head_layer.fading", head(mask="after"), "nothing has changed"),
    ("dual_head_layer.fading", head(mask="none"), "weight as a source again"),
    ("dual_head_layer.second_layer", shifted_layer(lambda c: np.append(0, c[:-1])), "still move to the right"),
    ("dual_head_layer.second_layer", shifted_layer(lambda c: np.roll(c, -1)), "wraps around"),
    ("dual_head_layer.second_layer", shifted_layer(lambda c: c), "no longer move"),
    ("dual_head_layer.suspects", ["no discount", "late mask", "stray 1/n"], "would be 2.67"),
    ("dual_head_layer.suspects", ["no discount", "axis", "stray 1/n"], "not one of the names"),
    ("dual_head_layer.suspects", ["wrong direction", "wrong axis", "stray 1/n"], "for P"),
]
