"""Typical mistakes in the exercises on the dual-head layer, with a word of the reason for each, and right answers."""

import math

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


def head_in_loops(Z, V, A):
    n, columns = Z.shape[1] - 1, []
    for j in range(n + 1):
        scores = [float(Z[:, i] @ A @ Z[:, j]) for i in range(n)]
        weights = [math.exp(score - max(scores)) for score in scores]
        columns.append(sum(w * (V @ Z[:, i]) for i, w in enumerate(weights)) / sum(weights))
    return np.array(columns).T


def head_without_last(Z, V, A):
    sources = Z[:, :-1]
    return V @ sources @ softmax(np.einsum("ki,kl,lj->ij", sources, A, Z), axis=0)


def large_negative_mask(Z, V, A):
    scores = Z.T @ A @ Z + np.append(np.zeros(Z.shape[1] - 1), -1e30)[:, None]
    return V @ Z @ softmax(scores, axis=0)


def masked_by(score):
    """The scores of the query replaced by a number."""

    def function(Z, V, A):
        scores = Z.T @ A @ Z
        scores[-1] = score
        return V @ Z @ softmax(scores, axis=0)

    return function


def layer_masked_by(score):
    def function(Z, V, A, gamma):
        output = masked_by(score)(Z, V, A)
        new = Z + output
        new[-2, :-1] += gamma * output[-1, 1:]
        return new

    return function


def layer_in_loops(Z, V, A, gamma):
    current = head_in_loops(Z, V, A)
    new = Z + current
    for j in range(Z.shape[1] - 1):
        new[-2, j] += gamma * current[-1, j + 1]
    return new


def layer_with_matrix(Z, V, A, gamma):
    """The shift as the matrix of the chapter."""
    V_target, move = np.zeros_like(V), np.eye(Z.shape[1], k=-1)
    V_target[-2] = gamma * V[-1]
    return Z + head_without_last(Z, V, A) + head_without_last(Z, V_target, A) @ move


def looking_away(d, feature, scale):
    A = np.zeros((d + 3, d + 3))
    for i in range(d):
        A[i, i] = 0 if i == feature else scale
    return A


def looking_away_as_product(d, feature, scale):
    keep = np.delete(np.eye(d + 3)[:d], feature, axis=0)
    return scale * keep.T @ keep


def skewed_looking_away(d, feature, scale):
    """Right scores and an antisymmetric part, which changes them."""
    A = looking_away(d, feature, scale)
    A[0, -1], A[-1, 0] = 1, -1
    return A


def constant_first_layer(d, gamma):
    V, A = np.zeros((2, d + 3, d + 3))
    V[d + 2, d] = 1 / (1 - gamma)
    return V, A


def blind_first_layer(d, gamma):
    """The long step of a constructed layer that listens to all alike; v_0 = 0 hides its last two entries."""
    V, A = constant_first_layer(d, gamma)
    V[-1, -2:] = V[-1, -3], -V[-1, -3]
    return V, A


def spoiling_first_layer(d, gamma):
    V, A = constant_first_layer(d, gamma)
    V[0, d] = 1e200
    return V, A


BY_HAND = [[4.25, 2.25, 0.5, 0], [1, 8.5, 4.5, 1]]
SUSPECTS = ["no discount", "wrong axis", "stray 1/n"]
RIGHT = [
    ("dual_head_layer.by_hand", BY_HAND),
    ("dual_head_layer.by_hand", np.array(BY_HAND, np.float32)),
    ("dual_head_layer.by_hand", (tuple(BY_HAND[0]), np.array(BY_HAND[1]))),
    ("dual_head_layer.attention", head()),
    ("dual_head_layer.attention", head_in_loops),
    ("dual_head_layer.attention", head_without_last),
    ("dual_head_layer.attention", large_negative_mask),
    ("dual_head_layer.layer", dual_head()),
    ("dual_head_layer.layer", layer_in_loops),
    ("dual_head_layer.layer", layer_masked_by(-1e30)),
    ("dual_head_layer.layer", layer_with_matrix),
    ("dual_head_layer.ignoring", looking_away),
    ("dual_head_layer.ignoring", looking_away_as_product),
    ("dual_head_layer.ignoring", lambda d, f, s: np.float32(looking_away(d, f, s))),
    ("dual_head_layer.mean_reward", mean_head()),
    ("dual_head_layer.mean_reward", lambda d: [M.astype(np.float32) for M in mean_head()(d)]),
    ("dual_head_layer.mean_reward", lambda d: np.array(mean_head()(d))),
    ("dual_head_layer.first_layer", constant_first_layer),
    ("dual_head_layer.first_layer", blind_first_layer),
    ("dual_head_layer.first_layer", lambda d, g: [np.float32(M) for M in constant_first_layer(d, g)]),
    ("dual_head_layer.fading", head()),
    ("dual_head_layer.fading", head_in_loops),
    ("dual_head_layer.fading", large_negative_mask),
    ("dual_head_layer.second_layer", shifted_layer(lambda c: np.append(c[1:], 0))),
    ("dual_head_layer.second_layer", lambda Z, A, g: layer_in_loops(Z, long_step(1.0)(len(Z) - 3, g)[0], A, g)),
    ("dual_head_layer.second_layer", lambda Z, A, g: layer_with_matrix(Z, long_step(1.0)(len(Z) - 3, g)[0], A, g)),
    ("dual_head_layer.suspects", SUSPECTS),
    ("dual_head_layer.suspects", tuple(SUSPECTS)),
    ("dual_head_layer.suspects", np.array(SUSPECTS)),
    ("dual_head_layer.suspects", "no discount,wrong axis,stray 1/n".split(",")),
]
WRONG = [
    ("dual_head_layer.attention", renormalised, "leave the query out before the softmax"),
    ("dual_head_layer.fading", renormalised, "leave the query out before the softmax"),
    ("dual_head_layer.fading", naive, "exponentials overflow"),
    ("dual_head_layer.fading", masked_by(-1e3), "no mask if theirs are smaller"),
    ("dual_head_layer.attention", masked_by(-1e4), "no mask if theirs are smaller"),
    ("dual_head_layer.layer", layer_masked_by(-1e4), "no mask if theirs are smaller"),
    ("dual_head_layer.by_hand", [[4.25, 2.25, 0.5, 0], [1, 8.5, 4.5, 1.04]], "look at the value row again"),
    ("dual_head_layer.by_hand", [[4.3, 2.3, 0.5, 0], [1, 8.5, 4.5, 1]], "within rounding"),
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
    ("dual_head_layer.layer", lambda Z, V, A, g: layer_in_loops(Z, V, A, g**2), "discount is in the target head twice"),
    ("dual_head_layer.layer", lambda Z, V, A, g: layer_in_loops(Z, V.T, A, g), "V is transposed"),
    ("dual_head_layer.ignoring", scaled_identity, "still counts"),
    ("dual_head_layer.ignoring", lambda d, f, s: scaled_identity(d, f, s, 1), "features only"),
    (
        "dual_head_layer.ignoring",
        lambda d, f, s: np.diag(np.r_[np.arange(d) != f, 0, 0, 0] * 1.0),
        "scale does nothing",
    ),
    ("dual_head_layer.ignoring", lambda d, f, s: np.diag(np.r_[(np.arange(d) != f) * s**2, 0, 0, 0]), "squared"),
    ("dual_head_layer.ignoring", skewed_looking_away, "features only"),
    ("dual_head_layer.ignoring", lambda d, f, s: looking_away(d, f - 1 if f else d, s), "numbered from 0"),
    ("dual_head_layer.ignoring", lambda d, f, s: looking_away(d, f, s)[:-1], "shape"),
    ("dual_head_layer.mean_reward", mean_head(A_entry=1), "not all the same"),
    ("dual_head_layer.mean_reward", mean_head(row=-3), "belongs in row d+3"),
    ("dual_head_layer.mean_reward", mean_head(reward=-1), "sign"),
    ("dual_head_layer.mean_reward", mean_head(value=-1), "memories"),
    ("dual_head_layer.mean_reward", mean_head(reward=2), "mean of the 5 rewards"),
    ("dual_head_layer.first_layer", long_step(1.0), "the constructed layer itself"),
    ("dual_head_layer.first_layer", long_step(10.0), "worse start"),
    ("dual_head_layer.first_layer", long_step(1.5), "a quarter"),
    ("dual_head_layer.first_layer", spoiling_first_layer, "overflow"),
    ("dual_head_layer.first_layer", lambda d, g: (np.eye(d), np.eye(d)), "should have shape"),
    ("dual_head_layer.first_layer", lambda d, gamma: np.zeros((2, d + 3, d + 3)), "worse start"),
    ("dual_head_layer.first_layer", lambda d, gamma: np.zeros((3, d + 3, d + 3)), "two matrices"),
    ("dual_head_layer.fading", head(mask="after"), "nothing has changed"),
    ("dual_head_layer.fading", head(mask="none"), "weight as a source again"),
    ("dual_head_layer.fading", head(transpose=True), "A is transposed now"),
    ("dual_head_layer.fading", lambda Z, V, A: Z, "another head"),
    ("dual_head_layer.second_layer", shifted_layer(lambda c: np.append(0, c[:-1])), "still move to the right"),
    ("dual_head_layer.second_layer", shifted_layer(lambda c: np.roll(c, -1)), "wraps around"),
    ("dual_head_layer.second_layer", shifted_layer(lambda c: c), "no longer move"),
    ("dual_head_layer.second_layer", shifted_layer(lambda c: 0 * c), "does not change any more"),
    (
        "dual_head_layer.second_layer",
        lambda Z, A, g: shifted_layer(lambda c: np.append(c[1:], 0))(Z, A, 1.0),
        "discount",
    ),
    ("dual_head_layer.second_layer", lambda Z, A, g: Z[:, :-1], "shape"),
    ("dual_head_layer.suspects", ["no discount", "late mask", "stray 1/n"], "would be 2.67"),
    ("dual_head_layer.suspects", ["no discount", "axis", "stray 1/n"], "not one of the names"),
    ("dual_head_layer.suspects", ["wrong direction", "wrong axis", "stray 1/n"], "for P"),
    ("dual_head_layer.suspects", "no discount, wrong axis, stray 1/n", "give a list of three names"),
    ("dual_head_layer.suspects", ["no discount", "wrong axis", "late mask"], "for R"),
    ("dual_head_layer.suspects", SUSPECTS[::-1], "for P"),
]
