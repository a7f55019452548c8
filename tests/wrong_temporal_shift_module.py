"""Exercises on the temporal shift module: right answers of several styles, and typical mistakes with their reasons."""

import numpy as np
import torch
from wrong_weighted_softmax_td import softmax

from ictd import attention, empirical, mrp
from ictd.temporal_shift import TSMLayer


def tsm_variant(mask=True, axis=0, transpose=False, residual=True, erase=True, write=True, late=False, scale=True,
                shift=lambda row: np.append(row[1:], 0.0), stable=True):  # fmt: skip
    def function(Z, V, A, gamma):
        scores = Z.T @ (A.T if transpose else A) @ Z
        if mask:
            scores[-1] = -np.inf
        weights = softmax(scores, axis) if stable else np.exp(scores) / np.exp(scores).sum(axis=axis, keepdims=True)
        new = (Z if residual else 0) + V @ Z @ weights
        if erase:
            new[-2] = 0
        if write:
            new[-2] += (gamma if scale else 1) * shift((Z if late else new)[-1])
        return new

    return function


def tensors(layer):
    return lambda Z, V, A, gamma: torch.from_numpy(layer(Z.numpy(), V.numpy(), A.numpy(), gamma))


def tensor_variant(**changes):
    return tensors(tsm_variant(**changes))


def with_weights(weights):
    """The layer for other attention weights: sources in rows, the last one included."""

    def function(Z, V, A, gamma):
        new = Z + V @ Z @ weights(Z, Z.T @ A @ Z)
        new[-2] = gamma * np.append(new[-1, 1:], 0)
        return new

    return function


def masked(Z, scores):
    scores[-1] = -np.inf
    return softmax(scores, 0)


def masked_by(score):
    def weights(Z, scores):
        scores[-1] = score
        return softmax(scores, 0)

    return weights


def masked_late(Z, scores):
    weights = softmax(scores, 0)
    weights[-1] = 0
    return weights


def masked_by_zero(Z, scores):
    scores[-1] = 0
    return softmax(scores, 0)


def clipped(Z, scores):
    scores = np.clip(scores, -600, 600)
    weights = np.exp(scores)
    weights[-1] = 0
    return weights / weights.sum(axis=0)


def layer_in_loops(Z, V, A, gamma):
    columns = Z.shape[1]
    new = np.zeros_like(Z)
    for j in range(columns):
        scores = np.array([Z[:, i] @ A @ Z[:, j] for i in range(columns - 1)])
        weights = np.exp(scores - scores.max())
        mixed = sum(weight * Z[:, i] for i, weight in enumerate(weights)) / weights.sum()
        new[:, j] = Z[:, j] + V @ mixed
    for j in range(columns):
        new[-2, j] = gamma * new[-1, j + 1] if j + 1 < columns else 0
    return new


def layer_with_matrices(Z, V, A, gamma):
    rows, columns = Z.shape
    mask = np.zeros((columns, columns))
    mask[-1] = -np.inf
    Y = Z + V @ Z @ softmax(Z.T @ A @ Z + mask, 0)
    U, W, shift = np.eye(rows), np.zeros((rows, rows)), np.eye(columns, k=-1)
    U[-2, -2], W[-2, -1] = 0, gamma
    return U @ Y + W @ Y @ shift


def in_float32(function):
    """The function in single precision."""

    def rounded(*arguments):
        single = (a.astype(np.float32) if getattr(a, "dtype", None) == np.float64 else a for a in arguments)
        return np.asarray(function(*single), np.float32)

    return rounded


def package_layer(Z, V, A, gamma):
    return TSMLayer(V, A, gamma)(Z)


def in_place(Z, V, A, gamma):
    Z += attention.softmax_attention(Z, V, A)
    Z[-2, :-1], Z[-2, -1] = gamma * Z[-1, 1:], 0
    return Z


def of_three_features(Z, V, A, gamma):
    """Finds its rows by number."""
    new = Z + attention.softmax_attention(Z, V, A)
    new[4], new[4, -1] = gamma * torch.roll(new[5], -1), 0
    return new


def symmetric_scores(Z, V, A, gamma):
    return package_layer(Z, V, (A + A.T) / 2, gamma)


def limit_variant(offset_of, discount=1.0, sign=1.0):
    def function(states, rewards, offset, gamma):
        changed = rewards + sign * (gamma if discount != 1 else 1) * offset_of(offset)
        model = empirical.empirical_model(mrp.Trajectory(states, changed), max(states) + 1)
        return empirical.certainty_equivalence(model, gamma)

    return function


def limit_in_loops(states, rewards, offset, gamma):
    values = np.zeros(max(states) + 1)
    sums, counts = np.zeros_like(values), np.zeros_like(values)
    for _ in range(2000):
        sums[:], counts[:] = 0, 0
        for k in range(len(rewards)):
            sums[states[k]] += rewards[k] + offset[k] + gamma * values[states[k + 1]]
            counts[states[k]] += 1
        values = sums / counts
    return values


def limit_with_matrices(states, rewards, offset, gamma):
    X = np.eye(max(states) + 1)[states]
    left, entered = X[:-1], X[1:]
    return np.linalg.solve(left.T @ (left - gamma * entered), left.T @ (rewards + offset[:-1]))


def limit_of_all_columns(states, rewards, offset, gamma):
    """Means of offsets over all columns, the last one included."""
    n_states = max(states) + 1
    bias = np.bincount(states, offset, n_states) / np.bincount(states, minlength=n_states)
    return limit_with_matrices(states, rewards + bias[states[:-1]], 0 * offset, gamma)


def limit_by_entering(states, rewards, offset, gamma):
    """Averages over the states that are entered."""
    X = np.eye(max(states) + 1)[states]
    left, entered = X[:-1], X[1:]
    P = left.T @ entered / left.sum(axis=0)[:, None]
    r = entered.T @ (rewards + offset[:-1]) / entered.sum(axis=0)
    return np.linalg.solve(np.eye(len(P)) - gamma * P, r)


def lambda_variant(exchange=False, end=None, kind="memory"):
    def function(rewards, values, gamma, lam):
        lam = 1 - lam if exchange else lam
        memory, G = np.zeros(len(values)), values[-1] if end is None else end
        returns = np.zeros(len(values))
        for j in range(len(rewards) - 1, -1, -1):
            memory[j] = gamma * ((1 - lam) * values[j + 1] + lam * G)
            returns[j] = G = rewards[j] + memory[j]
        errors = np.append(returns[:-1] - values[:-1], 0)
        return {"memory": memory, "returns": returns, "errors": errors}[kind]

    return function


def td_memory(rewards, values, gamma, lam):
    return np.append(gamma * values[1:], 0)


def forward_view(rewards, values, gamma, lam):
    """Sum of discounted TD errors, with the value given back."""
    n = len(rewards)
    errors = rewards + gamma * values[1:] - values[:-1]
    gains = [sum((gamma * lam) ** (k - j) * errors[k] for k in range(j, n)) for j in range(n)]
    return np.append(gains + values[:-1] - rewards, 0)


def by_linear_solve(rewards, values, gamma, lam):
    n = len(rewards)
    last = np.zeros(n)
    last[-1] = gamma * lam * values[-1]
    system = np.eye(n) - gamma * lam * np.eye(n, k=1)
    return np.append(np.linalg.solve(system, rewards + gamma * (1 - lam) * values[1:] + last) - rewards, 0)


def lambda_of_own_values(rewards, values, gamma, lam):
    memory, G = np.zeros(len(values)), values[-1]
    for j in range(len(rewards) - 1, -1, -1):
        memory[j] = gamma * ((1 - lam) * values[j] + lam * G)
        G = rewards[j] + memory[j]
    return memory


RIGHT = [
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 7, 2.5, 0]]),
    ("temporal_shift_module.bribe", np.array([[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 7, 2.5, 0]], np.float32)),
    ("temporal_shift_module.bribe", torch.tensor([[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 7, 2.5, 0]])),
    ("temporal_shift_module.layer", layer_in_loops),
    ("temporal_shift_module.layer", layer_with_matrices),
    ("temporal_shift_module.layer", with_weights(masked_by(-1e30))),
    ("temporal_shift_module.layer", in_float32(layer_with_matrices)),
    ("temporal_shift_module.dual_limit", limit_in_loops),
    ("temporal_shift_module.dual_limit", limit_with_matrices),
    ("temporal_shift_module.dual_limit", in_float32(limit_with_matrices)),
    ("temporal_shift_module.harmless", [-1, 0, 1, 0, 0, 0, 0]),
    ("temporal_shift_module.harmless", [0, 0, 1, 0, 0, -1, 0]),
    ("temporal_shift_module.harmless", np.array([-1 / 3, 0, 1, 0, 0, -2 / 3, 0], np.float32)),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w * [1, 1 / c, 1], u * [c, 1, c]])),
    ("temporal_shift_module.units", lambda w, u, c: [(w[0], w[1] / c, w[2]), (c * u[0], u[1], c * u[2])]),
    ("temporal_shift_module.units", in_float32(lambda w, u, c: [w * np.array([1, 1 / c, 1]), u * np.array([c, 1, c])])),
    ("temporal_shift_module.lambda_memory", forward_view),
    ("temporal_shift_module.lambda_memory", by_linear_solve),
    ("temporal_shift_module.lambda_memory", in_float32(by_linear_solve)),
    ("temporal_shift_module.bug_grows", package_layer),
    ("temporal_shift_module.bug_grows", tensors(layer_in_loops)),
    ("temporal_shift_module.bug_grows", tensors(in_float32(layer_with_matrices))),
    ("temporal_shift_module.bug_late", package_layer),
    ("temporal_shift_module.bug_late", tensors(layer_in_loops)),
    ("temporal_shift_module.bug_late", tensors(in_float32(layer_with_matrices))),
]
WRONG = [
    ("temporal_shift_module.bribe", [[4, 3, 5, 4], [1.5, 2.5, 2, 0], [1.5, 6.5, 2, 0]], "left the target memory out"),
    ("temporal_shift_module.bribe", [[4.5, 4, 5.5, 4.5], [2, 2.75, 2.25, 0], [2, 6.75, 2.25, 0]], "by gamma again"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 2.5, 3, 2.5], [0, 0, 0, 0]], "belongs to the next column"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [0, 2.5, 2.5, 3], [0, 0, 0, 0]], "other direction"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 2.5], [0, 0, 0, 0]], "no next one"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [5, 6, 5, 0], [5, 10, 5, 0]], "lack the discount"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 7, 2.5, 0], [2.5, 7, 2.5, 0]], "erases the old target memory"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 3, 2.5, 0]], "does not erase"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 4, 2.5, 0]], "writes in B's column too"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 8, 2.5, 0]], "is not right yet"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 5, 2.5, 0]], "discounted already"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 0], [6.5, 3, 2.5, 0]], "stays in the column of B"),
    ("temporal_shift_module.bribe", [[6, 4, 6, 6], [2, 3, 3, 0], [2, 7, 3, 0]], "the transition out of B"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 0], [2.5, 3, 0, 0], [2.5, 7, 0, 0]], "listens as A does"),
    ("temporal_shift_module.layer", tsm_variant(mask=False), "mask it"),
    ("temporal_shift_module.layer", tsm_variant(transpose=True), "A transposed"),
    ("temporal_shift_module.layer", tsm_variant(mask=False, axis=1), "wrong axis"),
    ("temporal_shift_module.layer", tsm_variant(residual=False), "residual"),
    ("temporal_shift_module.layer", tsm_variant(erase=False), "erase it first"),
    ("temporal_shift_module.layer", tsm_variant(write=False), "just erased"),
    ("temporal_shift_module.layer", tsm_variant(erase=False, write=False), "this is Y"),
    ("temporal_shift_module.layer", tsm_variant(late=True), "what the head has written"),
    ("temporal_shift_module.layer", tsm_variant(scale=False), "discount is missing"),
    ("temporal_shift_module.layer", tsm_variant(shift=lambda row: np.roll(row, -1)), "should be 0"),
    ("temporal_shift_module.layer", tsm_variant(shift=lambda row: np.append(0.0, row[:-1])), "wrong direction"),
    ("temporal_shift_module.layer", tsm_variant(stable=False), "overflow"),
    ("temporal_shift_module.layer", with_weights(clipped), "limiting the scores changes the weights"),
    ("temporal_shift_module.layer", with_weights(masked_late), "after the softmax"),
    ("temporal_shift_module.layer", with_weights(masked_by(-1e4)), "no mask if theirs are smaller"),
    ("temporal_shift_module.layer", with_weights(masked_by_zero), "a score of 0 does not mask"),
    ("temporal_shift_module.layer", with_weights(lambda Z, scores: masked(Z, scores).T), "weights are transposed"),
    ("temporal_shift_module.layer", lambda Z, V, A, gamma: tsm_variant()(Z, V.T, A, gamma), "V transposed"),
    ("temporal_shift_module.layer", lambda Z, V, A, gamma: tsm_variant()(Z, V, A / len(Z) ** 0.5, gamma), "root of"),
    ("temporal_shift_module.layer", lambda Z, V, A, gamma: tsm_variant()(Z, V, A, 0.8), "only the target memory"),
    ("temporal_shift_module.layer", tsm_variant(shift=lambda row: row), "its own value"),
    ("temporal_shift_module.dual_limit", limit_variant(lambda offset: 0), "limit of the TSM"),
    ("temporal_shift_module.dual_limit", limit_variant(lambda offset: offset[1:]), "yours is one late"),
    ("temporal_shift_module.dual_limit", limit_of_all_columns, "not those for the rewards"),
    ("temporal_shift_module.dual_limit", limit_by_entering, "not to the one that is entered"),
    (
        "temporal_shift_module.dual_limit",
        lambda s, r, e, g: limit_with_matrices(s, r + e[:-1], -e, g),
        "limit of the TSM",
    ),
    ("temporal_shift_module.dual_limit", lambda s, r, e, g: limit_with_matrices(s, 0 * r, e, g), "the bias alone"),
    (
        "temporal_shift_module.dual_limit",
        lambda s, r, e, g: limit_with_matrices(s[::-1], r[::-1], e[::-1], g),
        "not those",
    ),
    ("temporal_shift_module.dual_limit", limit_variant(lambda offset: offset[:-1], sign=-1), "sign"),
    ("temporal_shift_module.dual_limit", limit_variant(lambda offset: offset[:-1], discount=0), "once more"),
    ("temporal_shift_module.harmless", [0, 0, 1, 0, 0, 0, 0], "Which other columns"),
    ("temporal_shift_module.harmless", [0, 0, 2, 0, 0, -2, 0], "should be 1"),
    ("temporal_shift_module.harmless", [-1, 1, 1, 0, 0, 0, 0], "still move the values"),
    ("temporal_shift_module.harmless", [-1, 0, 1, 0, 0, 0, 3], "need not be other than 0"),
    ("temporal_shift_module.harmless", [0, 0, 1, 0, 0, 0, -1], "the last column is no source"),
    ("temporal_shift_module.harmless", [0, 0, 1, -1, 0, 0, 0], "at the state, not at the place"),
    ("temporal_shift_module.harmless", [-1, 1, 1, 0, -1, 0, 0], "need not be other than 0"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w, u]), "have not changed"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w * c, u]), "first layer already"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w * [1, c, 1], u * [1 / c, 1, 1 / c]]), "a c-th of it"),
    (
        "temporal_shift_module.units",
        lambda w, u, c: np.array([w * [1, c, 1], u * [c, 1, c]]),
        "do not multiply once more",
    ),
    (
        "temporal_shift_module.units",
        lambda w, u, c: np.array([w * [1, 1 / c, 1], u * [c, 1, 1]]),
        "from values as well",
    ),
    (
        "temporal_shift_module.units",
        lambda w, u, c: np.array([w * [1, 1 / c, c], u * [c, 1, c]]),
        "from the two memories",
    ),
    ("temporal_shift_module.units", lambda w, u, c: np.array([-w, -u]), "first layer already"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w, u * [c, 1, c]]), "reads the new unit"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w * [1, 1 / c, 1], u * c]), "in the new unit already"),
    ("temporal_shift_module.lambda_memory", lambda_variant(kind="returns"), "this is the return"),
    ("temporal_shift_module.lambda_memory", lambda_variant(kind="errors"), "this is the error"),
    ("temporal_shift_module.lambda_memory", lambda_variant(exchange=True), "exchanged"),
    ("temporal_shift_module.lambda_memory", td_memory, "does not depend on lambda: this is the TSM"),
    ("temporal_shift_module.lambda_memory", lambda r, v, g, lam: forward_view(r, v, g, 1.0), "up to the end"),
    (
        "temporal_shift_module.lambda_memory",
        lambda r, v, g, lam: forward_view(r / g, v, 1.0, lam) if g else 0 * v,
        "are off",
    ),
    (
        "temporal_shift_module.lambda_memory",
        lambda r, v, g, lam: forward_view(r, v, 1.0, lam),
        "the discount is missing",
    ),
    ("temporal_shift_module.lambda_memory", lambda_of_own_values, "not its own"),
    ("temporal_shift_module.lambda_memory", lambda_variant(end=0.0), "where the recursion starts"),
]
for lab, missed in (("bug_grows", tensor_variant(erase=False)), ("bug_late", tensor_variant(late=True))):
    WRONG += [
        (f"temporal_shift_module.{lab}", missed, "target memory differs"),
        (f"temporal_shift_module.{lab}", lambda Z, V, A, gamma: Z.numpy(), "return a tensor"),
        (f"temporal_shift_module.{lab}", tensor_variant(mask=False), "mask it"),
        (f"temporal_shift_module.{lab}", tensor_variant(scale=False), "target memory differs"),
        (f"temporal_shift_module.{lab}", tensor_variant(shift=lambda row: np.roll(row, -1)), "wraps around"),
        (f"temporal_shift_module.{lab}", in_place, "overwrites its argument"),
        (f"temporal_shift_module.{lab}", of_three_features, "for d = 2"),
        (f"temporal_shift_module.{lab}", symmetric_scores, "any V and any A the values differ"),
    ]
