"""Typical mistakes in the exercises on the temporal shift module, and a word of the reason that each should get."""

import numpy as np
import torch
from wrong_weighted_softmax_td import softmax

from ictd import mrp, td


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


def tensor_variant(**changes):
    layer = tsm_variant(**changes)
    return lambda Z, V, A, gamma: torch.from_numpy(layer(Z.numpy(), V.numpy(), A.numpy(), gamma))


def limit_variant(offset_of, discount=1.0, sign=1.0):
    def function(states, rewards, offset, gamma):
        changed = rewards + sign * (gamma if discount != 1 else 1) * offset_of(offset)
        model = td.empirical_model(mrp.Trajectory(states, changed), max(states) + 1)
        return td.certainty_equivalence(model, gamma)

    return function


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


WRONG = [
    ("temporal_shift_module.bribe", [[4, 3, 5, 4], [1.5, 2.5, 2, 0], [1.5, 6.5, 2, 0]], "left the target memory out"),
    ("temporal_shift_module.bribe", [[4.5, 4, 5.5, 4.5], [2, 2.75, 2.25, 0], [2, 6.75, 2.25, 0]], "by gamma again"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 2.5, 3, 2.5], [0, 0, 0, 0]], "belongs to the next column"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [0, 2.5, 2.5, 3], [0, 0, 0, 0]], "other direction"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 2.5], [0, 0, 0, 0]], "no next one"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [5, 6, 5, 0], [5, 10, 5, 0]], "lack the discount"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 7, 2.5, 0], [2.5, 7, 2.5, 0]], "erases the old target memory"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 3, 2.5, 0]], "does not erase"),
    ("temporal_shift_module.bribe", [[5, 5, 6, 5], [2.5, 3, 2.5, 0], [2.5, 4, 2.5, 0]], "is not right yet"),
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
    ("temporal_shift_module.dual_limit", limit_variant(lambda offset: 0), "limit of the TSM"),
    ("temporal_shift_module.dual_limit", limit_variant(lambda offset: offset[1:]), "goes with the reward"),
    ("temporal_shift_module.dual_limit", limit_variant(lambda offset: offset[:-1], sign=-1), "sign"),
    ("temporal_shift_module.dual_limit", limit_variant(lambda offset: offset[:-1], discount=0), "once more"),
    ("temporal_shift_module.harmless", [0, 0, 1, 0, 0, 0, 0], "Which other columns"),
    ("temporal_shift_module.harmless", [0, 0, 2, 0, 0, -2, 0], "should be 1"),
    ("temporal_shift_module.harmless", [-1, 1, 1, 0, 0, 0, 0], "still move the values"),
    ("temporal_shift_module.harmless", [-1, 0, 1, 0, 0, 0, 3], "need not be other than 0"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w, u]), "has not changed"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w * c, u]), "first layer already"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w, u * [c, 1, c]]), "reads the new unit"),
    ("temporal_shift_module.units", lambda w, u, c: np.array([w * [1, 1 / c, 1], u * c]), "later ones are not"),
    ("temporal_shift_module.lambda_memory", lambda_variant(kind="returns"), "this is the return"),
    ("temporal_shift_module.lambda_memory", lambda_variant(kind="errors"), "this is the error"),
    ("temporal_shift_module.lambda_memory", lambda_variant(exchange=True), "that of the TSM"),
    ("temporal_shift_module.lambda_memory", lambda_variant(end=0.0), "where the recursion starts"),
    ("temporal_shift_module.bug_grows", tensor_variant(erase=False), "target memory differs"),
    ("temporal_shift_module.bug_grows", lambda Z, V, A, gamma: Z.numpy(), "return a tensor"),
    ("temporal_shift_module.bug_late", tensor_variant(late=True), "target memory differs"),
    ("temporal_shift_module.bug_late", tensor_variant(mask=False), "values differ"),
]
