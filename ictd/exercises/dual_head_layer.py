"""Exercises of the chapter on the dual-head layer. NumPy only: a second implementation of the layer."""

import numpy as np

from ictd import features, mrp, prompt, td
from ictd.exercises._checking import NotYet, call, close, expect, numbers
from ictd.exercises._layers import attention_weights, constructed_matrices, softmax


def _late_mask(Z, A):
    weights = softmax(Z.T @ A @ Z)
    weights[-1] = 0
    return weights


def _wrong_axis(Z, A):
    scores = Z.T @ A @ Z
    return np.vstack([softmax(scores[:-1], axis=1), np.zeros_like(scores[:1])])


def _shift(Y):
    return np.pad(Y[:, 1:], ((0, 0), (0, 1)))


def _target_matrix(V, gamma):
    result = np.zeros_like(V)
    result[-2] = gamma * V[-1]
    return result


def _layer(Z, V, A, gamma, weights=attention_weights, shift=_shift):
    weights = weights(Z, A)
    return Z + V @ Z @ weights + shift(_target_matrix(V, gamma) @ Z @ weights)


def _random(rng, d, n):
    """Z, V and A with no entry 0; scores of moderate size."""
    Z, V, A = rng.normal(size=(d + 3, n + 1)), *rng.normal(size=(2, d + 3, d + 3))
    return Z, V, A / 2


# ------------------------------------------------------------------------------------------- by hand

HAND_STATES, HAND_REWARDS, HAND_START, HAND_GAMMA = [2, 1, 0, 2], [6.0, 2.0, 2.0], [4.0, 8.0, -4.0], 0.5


def by_hand(answer):
    """Rows d+2 and d+3 of Z_1 on the walk C -> B -> A -> C with v_0 = (4, 8, -4)."""
    answer = numbers(answer, (2, 4), "your two rows")
    x, start = features.one_hot(3)[HAND_STATES], np.array(HAND_START)[HAND_STATES]
    V, A = constructed_matrices(3)
    A = np.log(2) * A
    Z = prompt.build_prompt(x, HAND_REWARDS, start, HAND_GAMMA)
    change = (V @ Z @ attention_weights(Z, A))[-1]
    value, old = start + change, Z[-2]
    right = _layer(Z, V, A, HAND_GAMMA)[-2:]
    if close(answer, right):
        return "Read down the columns of Z_1: the next three TD errors are already there."
    cold = _layer(prompt.build_prompt(x, HAND_REWARDS), V, A, HAND_GAMMA)[-2:]
    late = _layer(Z, V, A, HAND_GAMMA, weights=_late_mask)[-2:]
    uniform = _layer(Z, V, 0 * A, HAND_GAMMA)[-2:]
    mistakes = {
        "the rows are exchanged: the target memory stands above the value memory.": right[::-1],
        "these are the outputs of the heads; add them to Z_0.": right - Z[-2:],
        "these are the rows of Z_0.": Z[-2:],
        "you started from 0; here the memories hold v_0.": cold,
        "the query column got a weight: each column has three sources.": late,
        "all sources got the same weight; the own state counts double.": uniform,
    }
    for reason, wrong in mistakes.items():
        expect(not close(answer, wrong), reason)
    expect(
        not np.abs(answer - right).max() < 0.06,
        "you are within rounding; write quarters as 0.25 and 0.75.",
    )
    value_fits = close(answer[1], value)
    start_of_advice = "the value row is right. "
    targets = {
        "In the target row the changes must move one column to the left.": old + HAND_GAMMA * change,
        "The changes of the target row moved to the right; column j needs that of column j + 1.": old
        + HAND_GAMMA * np.append(0, change[:-1]),
        "The target row should change too.": old,
        "The target row is missing the discount.": old + np.append(change[1:], 0),
        "Nothing arrives in the last column of the target row: there is no column n + 1.": old
        + HAND_GAMMA * np.roll(change, -1),
        "The target row holds only what the head adds; add it to the old memory.": right[0] - old,
        "In the target row you took the values of v_0.": HAND_GAMMA * np.append(start[1:], 0),
    }
    for reason, wrong in targets.items():
        expect(not (value_fits and close(answer[0], wrong)), start_of_advice + reason)
    expect(not value_fits, start_of_advice + "Each target entry is gamma times the value of the next column.")
    expect(not close(answer[1], change), "the second row holds only what the current-value head adds; add it to v_0.")
    expect(not close(answer[0], right[0]), "the target row is right; look at the value row again.")
    raise NotYet(
        "write down the three TD errors first: in each of the columns 0, 1 and 2 of Z_0, reward plus target memory "
        "minus value memory."
    )


# ----------------------------------------------------------------------------------------- attention


def attention(answer):
    """A function (Z, V, A) -> V Z softmax(Z^T A Z + Mask)."""
    for seed, (d, n) in enumerate([(3, 5), (1, 1), (2, 9)]):
        Z, V, A = _random(np.random.default_rng(20 + seed), d, n)
        result = numbers(call(answer, Z, V, A), Z.shape, f"your output for Z of shape {Z.shape}")
        expect_attention(result, Z, V, A)
    _expect_stable(answer, lambda Z, V, A: V @ Z @ attention_weights(Z, A))
    return "It also stands scores of 10,000."


def _expect_stable(answer, right, *more):
    """Expect finite and right outputs at huge scores, also where the query's own score is by far the largest."""
    Z, V, A = _random(np.random.default_rng(29), 2, 6)
    alone, same = np.hstack([Z[:, :-1], 100 * Z[:, -1:]]), np.eye(len(Z))
    loud = numbers(call(answer, alone, V, same, *more), Z.shape, "your output for a loud query", finite=False)
    expect(
        np.isfinite(loud).all() and close(loud, right(alone, V, same, *more)),
        "where the query's own score is far the largest, all other weights underflow and you divide 0 by 0: leave the "
        "query out before the softmax, in the maximum too.",
    )
    large = numbers(call(answer, Z, V, 1e4 * A, *more), Z.shape, "your output at scores of 10,000", finite=False)
    expect(
        np.isfinite(large).all(),
        "at scores of 10,000 the exponentials overflow: take the largest score of each column away first.",
    )
    expect(
        close(large, right(Z, V, 1e4 * A, *more)),
        "at scores of 10,000 your output is off. Take the largest score among the sources of a column away, not "
        "another number.",
    )


def expect_attention(result, Z, V, A):
    """Expect the output of one head; name the mistake otherwise."""
    right, n, scores = V @ Z @ attention_weights(Z, A), Z.shape[1] - 1, Z.T @ A @ Z
    if close(result, right):
        return
    masked_query = np.hstack([softmax(scores[:, :-1]), np.zeros((n + 1, 1))])
    mistakes = {
        "you added Z itself; the head's output comes without it.": right + Z,
        "your softmax runs along the wrong axis: for each column, the weights of the sources sum to 1.": V
        @ Z
        @ _wrong_axis(Z, A),
        "the last column still has a weight as a source: the mask does nothing.": V @ Z @ softmax(scores),
        "you took the query's weight away after the softmax; then a column no longer sums to 1.": V
        @ Z
        @ _late_mask(Z, A),
        "your mask hides the last column as a query; it must hide it as a source.": V @ Z @ masked_query,
        "A is transposed: the source stands on the left.": V @ Z @ attention_weights(Z, A.T),
        "you divided by n; the softmax normalises already.": right / max(n, 2) if n == 1 else right / n,
        "you divided by n + 1; the softmax normalises already.": right / (n + 1),
        "V is transposed.": V.T @ Z @ attention_weights(Z, A),
        "V does nothing.": Z @ attention_weights(Z, A),
        "the weights are transposed: rows are sources, columns are queries.": V @ Z @ attention_weights(Z, A).T,
        "there is no softmax in it.": V @ Z[:, :-1] @ scores[:-1],
        "you divided the scores by a square root; here such a factor is part of A.": V
        @ Z
        @ attention_weights(Z, A / np.sqrt(len(Z))),
    }
    for reason, wrong in mistakes.items():
        expect(not close(result, wrong), reason)
    raise NotYet(
        f"for Z of shape {Z.shape} the first column of your output is off by {np.abs(result - right)[:, 0].max():.2g} "
        "and should be V times a weighted average of the source columns. Print your weights: does each column sum to 1, "
        "with a 0 at the bottom?"
    )


# --------------------------------------------------------------------------------------------- layer


def layer(answer):
    """A function (Z, V, A, gamma) -> the next Z of a dual-head layer."""
    for seed, (d, n, gamma) in enumerate([(3, 5, 0.8), (1, 1, 0.5), (2, 9, 0.0), (2, 9, 0.95)]):
        Z, V, A = _random(np.random.default_rng(40 + seed), d, n)
        result = numbers(call(answer, Z, V, A, gamma), Z.shape, f"your output for Z of shape {Z.shape}")
        right, weights = _layer(Z, V, A, gamma), attention_weights(Z, A)
        if close(result, right):
            continue
        current, target = V @ Z @ weights, _target_matrix(V, gamma) @ Z @ weights
        moved = Z + current
        rewritten = moved.copy()
        rewritten[-2] = gamma * np.append(moved[-1, 1:], 0)
        mistakes = {
            "you left out Z itself; the heads only say what to add.": right - Z,
            "the target head is missing.": moved,
            "the target head's output is not shifted.": moved + target,
            "the target head's output moves to the right; column j needs that of column j + 1.": moved
            + np.pad(target[:, :-1], ((0, 0), (1, 0))),
            "your shift wraps around: what leaves column 0 must not come back in column n.": moved
            + np.roll(target, -1, axis=1),
            "the discount is missing in the target head.": moved + _shift(_target_matrix(V, 1.0) @ Z @ weights),
            "your target head uses gamma V itself; it needs gamma times row d+3 of V, moved to row d+2.": moved
            + gamma * _shift(current),
            "your target head reads the output of the current-value head; both heads read the same Z.": moved
            + _shift(_target_matrix(V, gamma) @ moved @ attention_weights(moved, A)),
            "you rewrite the target row; the layer only adds to it.": rewritten,
            "the current-value head's output is shifted too.": Z + _shift(current) + _shift(target),
            "A is transposed: the source stands on the left.": _layer(Z, V, A.T, gamma),
            "your softmax runs along the wrong axis.": _layer(Z, V, A, gamma, weights=_wrong_axis),
            "you took the query's weight away after the softmax.": _layer(Z, V, A, gamma, weights=_late_mask),
            "your first head adds its row d+3 only; V is arbitrary here, so add all its rows.": Z
            + np.vstack([np.zeros_like(current[:-1]), current[-1:]])
            + _shift(target),
            "the last column still has a weight as a source.": _layer(
                Z, V, A, gamma, weights=lambda Z, A: softmax(Z.T @ A @ Z)
            ),
        }
        for reason, wrong in mistakes.items():
            expect(not close(result, wrong), reason)
        off = np.abs(result - right).max(axis=1) > 1e-9
        if off.sum() == 1 and off[-2]:
            raise NotYet("only row d+2 is off: look at the target head and its shift.")
        expect(off[-2] or not off.any(), "row d+2 is right, others are off: look at the current-value head.")
        raise NotYet("start with one head and Z: does V Z times the weights have the shape of Z? Then add the second.")
    _expect_stable(answer, _layer, 0.8)
    return "Run it L times on a prompt, and you have L steps of weighted softmax TD."


# -------------------------------------------------------------------------------------------- scores


def ignoring(answer):
    """A function (d, feature, scale) -> A whose weights ignore one feature and have a score scale."""
    rng = np.random.default_rng(60)
    for d, feature, scale in [(4, 1, 2.5), (2, 0, 0.5), (5, 4, 1.0)]:
        A = numbers(call(answer, d, feature, scale), (d + 3, d + 3), f"your A for d = {d}")
        Z = rng.normal(size=(d + 3, 9))
        setting = f"for d = {d}, feature = {feature} and scale = {scale}"

        def scores(keep, factor):
            return factor * (Z[:d].T * keep) @ Z[:d]

        keep = np.arange(d) != feature
        result, right = softmax((Z.T @ A @ Z)[:-1]), softmax(scores(keep, scale)[:-1])
        if close(result, right):
            continue
        changed = Z.copy()
        changed[d:] += rng.normal(size=(3, 9))
        expect(
            close(softmax((changed.T @ A @ changed)[:-1]), result),
            f"{setting} the weights change with the rewards or the memories; A may read features only.",
        )
        mistakes = {
            "the scale does nothing.": scores(keep, 1),
            "the feature still counts.": scores(np.ones(d), scale),
            "the feature still counts, and the scale does nothing.": scores(np.ones(d), 1),
            "you kept the one feature that should be ignored.": scores(~keep, scale),
            "the scale enters squared.": scores(keep, scale**2),
            "features are numbered from 0.": scores(np.arange(d) != feature - 1, scale),
        }
        for reason, wrong in mistakes.items():
            expect(not close(result, softmax(wrong[:-1])), f"{setting} {reason}")
        changed = Z.copy()
        changed[feature] += rng.normal(size=9)
        ignores = close(softmax((changed.T @ A @ changed)[:-1]), result)
        expect(ignores, f"{setting} the weights still change with that feature.")
        raise NotYet(f"{setting} the feature is ignored, but the other scores are not the scaled inner product.")


# --------------------------------------------------------------------------------------- mean reward


def _pair(answer, d, *arguments):
    pair = call(answer, d, *arguments)
    expect(
        isinstance(pair, (tuple, list)) or (isinstance(pair, np.ndarray) and pair.ndim == 3),
        "your function should return two matrices, V and A.",
    )
    expect(
        len(pair) == 2,
        "your function should return two matrices, V and A.",
    )
    return [numbers(M, (d + 3, d + 3), f"your {name} for d = {d}") for name, M in zip("VA", pair)]


def mean_reward(answer):
    """A function d -> (V, A): the head writes the mean reward into row d+3 of every column."""
    rng = np.random.default_rng(70)
    for d, n in [(2, 5), (1, 1), (4, 12)]:
        V, A = _pair(answer, d)
        Z = rng.normal(size=(d + 3, n + 1))
        Z[d, -1] = 0
        output, mean = V @ Z @ attention_weights(Z, A), Z[d, :-1].mean()
        right = np.zeros_like(Z)
        right[-1] = mean
        if close(output, right):
            continue
        setting = f"on a prompt with d = {d} and n = {n}"
        expect(
            np.ptp(output, axis=1).max() < 1e-9,
            f"{setting} the columns of the output differ: their weights are not all the same.",
        )
        expect(
            not close(output, np.eye(d + 3)[:, [d]] * mean * np.ones(n + 1)),
            f"{setting} the mean is in row d+1; it belongs in row d+3.",
        )
        expect(close(output[:-1], 0 * output[:-1]), f"{setting} rows above d+3 are not 0: V writes too much.")
        changed = Z.copy()
        changed[d + 1 :] += 1
        expect(
            close(V @ changed @ attention_weights(changed, A), output),
            f"{setting} the result changes with the memories; a mean reward reads row d+1 only.",
        )
        expect(not close(output, -right), f"{setting} the sign is wrong.")
        raise NotYet(f"{setting} row d+3 holds {output[-1, 0]:.3g}; the mean of the {n} rewards is {mean:.3g}.")
    return "A head without scores is an average."


# --------------------------------------------------------------------------------------- first layer


def first_layer(answer):
    """A function (d, gamma) -> (V, A) of the first of five layers; a quarter of the error on tasks not seen before."""
    gamma, errors = 0.9, []
    V, A = _pair(answer, 8, gamma)
    own = constructed_matrices(8)
    for task in range(40):
        rng = np.random.default_rng(100 + task)
        process = mrp.boyan_chain(8, gamma, rng)
        walk = process.sample(200, rng, start_state=0)
        limit = td.certainty_equivalence(td.empirical_model(walk, 8), gamma, boundary=0.0)[walk.states]
        start = prompt.build_prompt(features.one_hot(8, scale=np.sqrt(6))[walk.states], walk.rewards)
        results = []
        for first in (own, (V, A)):
            Z = _layer(start, *first, gamma)
            for _ in range(4):
                Z = _layer(Z, *own, gamma)
            results.append(np.nanmax(np.abs(Z[-1] - limit)))
        errors.append(results)
    expect(
        np.isfinite(errors).all(),
        "with your first layer the values overflow: it changed the features, so the scores of later layers exploded.",
    )
    constructed, yours = np.median(errors, axis=0)
    found = f"after five layers the median error is {yours:.3g} with your first layer and {constructed:.3g} without it"
    expect(not np.isclose(yours, constructed), f"{found}: that is the constructed layer itself.")
    expect(yours <= constructed, f"{found}: your layer leaves the others a worse start than a constructed layer does.")
    expect(yours <= constructed / 4, f"{found}; the goal is a quarter of that.")
    return f"{found[0].upper()}{found[1:]}."


# --------------------------------------------------------------------------------------------- bug labs


def fading(answer):
    """A mended `suspect_head(Z, V, A)`."""
    for seed, (d, n) in enumerate([(3, 5), (2, 9)]):
        Z, V, A = _random(np.random.default_rng(80 + seed), d, n)
        result = numbers(call(answer, Z, V, A), Z.shape, f"your output for Z of shape {Z.shape}")
        right = V @ Z @ attention_weights(Z, A)
        expect(
            not close(result, V @ Z @ _late_mask(Z, A)),
            "nothing has changed: the weights of a column still sum to less than 1.",
        )
        expect(not close(result, V @ Z @ softmax(Z.T @ A @ Z)), "now the query has a weight as a source again.")
        expect(close(result, right), "the symptom may be gone, but this is another head. Change as little as you can.")
    _expect_stable(answer, lambda Z, V, A: V @ Z @ attention_weights(Z, A))
    return "The weights of every column sum to 1 again, and the query has none of them."


def second_layer(answer):
    """A mended `suspect_layer(Z, A, gamma)` with the constructed V, alpha = 1."""
    rng, gamma = np.random.default_rng(90), 0.8
    x, rewards = rng.normal(size=(7, 2)), rng.normal(size=6)
    V, A = constructed_matrices(2)
    Z = right = prompt.build_prompt(x, rewards)
    for number in range(1, 5):
        before = Z
        Z = numbers(call(answer, Z, A, gamma), right.shape, f"your output of layer {number}")
        right = _layer(right, V, A, gamma)
        if close(Z, right):
            continue
        change = Z[-1] - before[-1]
        expect(close(Z[:-2], right[:-2]), f"layer {number} changes features or rewards; both must stay.")
        expect(close(Z[-1], right[-1]), f"the values are off after layer {number}.")
        mistakes = {
            "the changes still move to the right.": np.append(0, change[:-1]),
            "the changes no longer move at all.": change,
            "your shift wraps around: nothing may arrive in the last column.": np.roll(change, -1),
        }
        for reason, wrong in mistakes.items():
            expect(not close(Z[-2], before[-2] + gamma * wrong), f"in the target memory {reason}")
        raise NotYet(f"the values of layer {number} are right, but its target memory is not what the next layer needs.")
    return "Four layers agree with four steps. (A layer that overwrites the target memory would pass here, too.)"


CANDIDATES = {
    "wrong axis": dict(weights=_wrong_axis),
    "late mask": dict(weights=_late_mask),
    "stray 1/n": dict(weights=lambda Z, A: attention_weights(Z, A) / (Z.shape[1] - 1)),
    "wrong direction": dict(shift=lambda Y: np.pad(Y[:, :-1], ((0, 0), (1, 0)))),
    "no shift": dict(shift=lambda Y: Y),
    "no target head": dict(shift=np.zeros_like),
    "no discount": dict(target_gamma=1.0),
}
_SUSPECTS = {"P": "no discount", "Q": "wrong axis", "R": "stray 1/n"}


def suspect_values(suspect, states, rewards, n_layers):
    """Values v_0..v_L of a broken layer on a walk through A, B, C; gamma = 1/2, the own state counts double.

    Parameters
    ----------
    suspect : str
        "P", "Q" or "R", or the name of a bug.
    states : sequence of int
    rewards : sequence of float
    n_layers : int

    Returns
    -------
    ndarray, shape (n_layers+1, n+1)
    """
    bug = dict(CANDIDATES[_SUSPECTS.get(suspect, suspect)])
    gamma = bug.pop("target_gamma", 0.5)
    V, A = constructed_matrices(3)
    Z = prompt.build_prompt(features.one_hot(3)[np.asarray(states)], rewards)
    history = [Z[-1]]
    for _ in range(n_layers):
        Z = _layer(Z, V, np.log(2) * A, gamma, **bug)
        history.append(Z[-1])
    return np.array(history)


def suspects(answer):
    """The names of the bugs of P, Q and R."""
    known = ", ".join(CANDIDATES)
    expect(
        isinstance(answer, (list, tuple)) and len(answer) == 3 and all(isinstance(name, str) for name in answer),
        f"give a list of three names, for P, Q and R, out of: {known}.",
    )
    for name in answer:
        expect(name in CANDIDATES, f"{name!r} is not one of the names: {known}.")
    symptoms = {
        "v_1 on the walk": ([0, 1, 2, 0], [4.0, 0.0, 8.0], 1),
        "v_1 with rewards of 1": ([0, 1, 2, 0], [1.0] * 3, 1),
        "v_1 twice round with rewards of 1": ([0, 1, 2] * 2 + [0], [1.0] * 6, 1),
        "v_60 on the walk": ([0, 1, 2, 0], [4.0, 0.0, 8.0], 60),
    }
    for suspect, name in zip(_SUSPECTS, answer):
        for what, symptom in symptoms.items():
            shown, named = suspect_values(suspect, *symptom)[-1], suspect_values(name, *symptom)[-1]
            expect(
                close(shown, named, 0.005),
                f"with '{name}', the entry for A in '{what}' would be {named[0]:.2f}; for {suspect} the table has "
                f"{shown[0]:.2f}.",
            )
    return "Two of the three have the right limit. A test that looks at the limit alone would let them pass."


EXERCISES = {
    "by_hand": by_hand,
    "attention": attention,
    "layer": layer,
    "ignoring": ignoring,
    "mean_reward": mean_reward,
    "first_layer": first_layer,
    "fading": fading,
    "second_layer": second_layer,
    "suspects": suspects,
}
