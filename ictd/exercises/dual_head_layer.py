"""Exercises of the chapter on the dual-head layer; the statements stand in book/dual_head_layer.ipynb.

NumPy only: a second implementation of the layer.
"""

import numpy as np

from ictd import empirical, features, mrp, prompt
from ictd.exercises import _masks as masks
from ictd.exercises._answers import call, described, expect, has_parts, numbers
from ictd.exercises._checking import generator, judge, judge_function, judge_numbers, name_mistake
from ictd.exercises._layers import attention_weights, constructed_matrices, embedded, far_below, softmax
from ictd.exercises._values import BY_HAND, ROUNDING, close, expect_close, nearly


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
    answer = numbers(answer, (2, 4), "your pair of rows")
    x, start = features.one_hot(3)[HAND_STATES], np.array(HAND_START)[HAND_STATES]
    V, A = constructed_matrices(3)
    A = np.log(2) * A
    Z = prompt.build_prompt(x, HAND_REWARDS, start, HAND_GAMMA)
    change = (V @ Z @ attention_weights(Z, A))[-1]
    value, old = start + change, Z[-2]
    right = _layer(Z, V, A, HAND_GAMMA)[-2:]
    cold = _layer(prompt.build_prompt(x, HAND_REWARDS), V, A, HAND_GAMMA)[-2:]
    late = _layer(Z, V, A, HAND_GAMMA, weights=masks.late)[-2:]
    uniform = _layer(Z, V, 0 * A, HAND_GAMMA)[-2:]
    mistakes = {
        "both rows are 0.": 0 * right,
        "the rows are exchanged: the target memory stands above the value memory.": right[::-1],
        "these are the outputs of the heads; add them to Z_0.": right - Z[-2:],
        "these are the rows of Z_0.": Z[-2:],
        "you started from 0; here the memories hold v_0.": cold,
        "the query column got a weight: each column has three sources.": late,
        "all sources got the same weight; the own state counts double.": uniform,
        "these are two layers; one is enough.": _layer(_layer(Z, V, A, HAND_GAMMA), V, A, HAND_GAMMA)[-2:],
    }
    targets = {
        "In the target row the changes must move one column to the left.": old + HAND_GAMMA * change,
        "The changes of the target row moved to the right; column j needs that of column j + 1.": old
        + HAND_GAMMA * np.append(0, change[:-1]),
        "The target row should change too; yours belongs to v_0.": old,
        "The target row is missing the discount.": old + np.append(change[1:], 0),
        "Nothing arrives in the last column of the target row: there is no column n + 1.": old
        + HAND_GAMMA * np.roll(change, -1),
        "The target row holds only what the head adds; add it to the old memory.": right[0] - old,
        "In the target row the new values are not discounted.": np.append(value[1:], 0),
        "The target row speaks of the column's own state.": HAND_GAMMA * value,
    }
    values = {
        "the second row holds only what the current-value head adds; add it to v_0.": change,
        "in the value row the query has not moved; it listens, too.": np.append(value[:-1], start[-1]),
        "the value row forgets the target memory in the TD errors.": start
        + (np.array([1, 0, -1]) @ Z[-3:]) @ attention_weights(Z, A),
        "the value row forgets the value memory in the TD errors.": start + (Z[-3] + Z[-2]) @ attention_weights(Z, A),
    }
    value_is_right = "the value row is right. "

    def advice(answer):
        if close(answer[1], value):
            mistakes = {value_is_right + reason: row for reason, row in targets.items()}
            otherwise = value_is_right + "Each target entry is gamma times the value of the next column."
            judge_numbers(answer[0], right[0], mistakes, otherwise, tolerance=BY_HAND)
        name_mistake(answer[1], value, values, BY_HAND)
        expect(not close(answer[0], right[0]), "the target row is right; look at the value row again.")
        return (
            "write down the three TD errors first: in each of the columns 0, 1 and 2 of Z_0, reward plus target memory "
            "minus value memory."
        )

    judge_numbers(answer, right, mistakes, advice, "you are within rounding; write quarters as 0.25 and 0.75.", BY_HAND)
    return "Read down the columns of Z_1: the next three TD errors are already there."


# ----------------------------------------------------------------------------------------- attention

_SIZES = [(3, 5), (2, 9), (1, 1), (4, 2), (1, 6)]  # of features and transitions; the first prompt is square


def _cases(exercise, *more, sizes=_SIZES):
    """For each setting Z, V, A and what else the function takes."""
    return {
        f"for Z of shape {(d + 3, n + 1)}": (*_random(generator("dual_head_layer", exercise, d, n), d, n), *more)
        for d, n in sizes
    }


def _head(weights=attention_weights, transposed=False, values=lambda V: V, factor=lambda Z: 1.0, residual=False):
    """One head with something wrong in it; weights belong to all columns as sources."""

    def function(Z, V, A):
        output = values(V) @ Z @ weights(Z, A.T if transposed else A) * factor(Z)
        return Z + output if residual else output

    return function


def _raw_scores(Z, A):
    scores = Z.T @ A @ Z
    scores[-1] = 0
    return scores


def _first_masked(Z, A):
    scores = Z.T @ A @ Z
    return np.vstack([np.zeros_like(scores[:1]), softmax(scores[1:])])


def _row_maxima(Z, A):
    """The largest score of each source taken away, instead of that of each query."""
    scores = (Z.T @ A @ Z)[:-1]
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.vstack([weights / weights.sum(axis=0), np.zeros_like(weights[:1])])


_WRONG_WEIGHTS = {
    "your softmax runs along the wrong axis: for each column, the weights of the sources sum to 1.": _wrong_axis,
    "the last column still has a weight as a source: the mask does nothing.": masks.none,
    "you took the query's weight away after the softmax; then a column no longer sums to 1.": masks.late,
    "your mask hides the last column as a query; it must hide it as a source.": masks.as_query,
    "a score of 0 does not hide the query: e to the power 0 is 1.": masks.by_zero,
    "your mask hides the first column; the query is the last.": _first_masked,
    "you took the largest score of each row away; that changes the weights of a column.": _row_maxima,
    "there is no softmax in it.": _raw_scores,
    "you divided the scores by a square root; here such a factor is part of A.": lambda Z, A: attention_weights(
        Z, A / np.sqrt(len(Z))
    ),
    "the scores do nothing: all sources have the same weight.": lambda Z, A: attention_weights(Z, 0 * A),
    "large scores should get large weights; in yours it is the other way round.": lambda Z, A: attention_weights(Z, -A),
}


def _advice(arguments, found):
    Z = arguments[0]
    return (
        "the output is off, and should be V times a weighted average of the source columns. Print your weights: does "
        "each column sum to 1, with a 0 at the bottom?"
        + (" (Here n = 1, so the only source has all the weight.)" if Z.shape[1] == 2 else "")
    )


def attention(answer):
    """A function (Z, V, A) -> V Z softmax(Z^T A Z + Mask)."""
    mistakes = {reason: _head(weights) for reason, weights in _WRONG_WEIGHTS.items()}
    mistakes |= {
        "you added Z itself; the head's output comes without it.": _head(residual=True),
        "A is transposed: the source stands on the left.": _head(transposed=True),
        "you divided by n; the softmax normalises already.": _head(factor=lambda Z: 1 / (Z.shape[1] - 1)),
        "you divided by n + 1; the softmax normalises already.": _head(factor=lambda Z: 1 / Z.shape[1]),
        "V is transposed.": _head(values=np.transpose),
        "V does nothing.": _head(values=lambda V: np.eye(len(V))),
        "the weights are transposed: rows are sources, columns are queries.": lambda Z, V, A: (
            V @ Z @ attention_weights(Z, A).T
        ),
        "the output is 0.": lambda Z, V, A: 0 * Z,
    }
    judge_function(answer, _head(), _cases("attention"), mistakes, _advice, "your output")
    _expect_stable(answer, _head())
    return "It also stands scores of 10,000."


def _expect_stable(answer, right, *more):
    """Expect finite and right outputs at huge scores, also where the query's own score is by far the largest."""
    Z, V, A = _random(generator("dual_head_layer", "stable"), 2, 6)
    Z, V, large = Z.round(1), V.round(1), 1e4 * np.round(4 * A) / 4
    alone = np.hstack([Z[:, :-1], 100 * Z[:, -1:]]), V, np.eye(len(Z))
    for arguments, where, reason in [
        (
            alone,
            "for a loud query",
            "where the query's own score is far the largest, all other weights underflow and you divide 0 by 0: leave "
            "the query out before the softmax, in the maximum too.",
        ),
        (
            (Z, V, large),
            "at scores of 10,000",
            "at scores of 10,000 your output is off. Take the largest score among the sources of a column away, not "
            "another number.",
        ),
        (
            far_below(Z, V),
            "at scores near -20,000",
            "where the scores of all sources are near -20,000 your output is off: a negative number in place of the "
            "query's scores is no mask if theirs are smaller.",
        ),
    ]:
        found = numbers(call(answer, *arguments, *more), Z.shape, f"your output {where}", finite=False)
        expect(
            np.isfinite(found).all() or arguments[2] is not large,
            "at scores of 10,000 the exponentials overflow: take the largest score of each column away first.",
        )
        expect_close(found, right(*arguments, *more), reason, "your output")


# --------------------------------------------------------------------------------------------- layer


def _with_weights(weights):
    """The layer with other weights in both heads."""
    return lambda Z, V, A, gamma: _layer(Z, V, A, gamma, weights=weights)


def layer(answer):
    """A function (Z, V, A, gamma) -> the next Z of a dual-head layer."""

    def heads(Z, V, A, gamma):
        """What the current-value head writes, and the target head before its shift."""
        weights = attention_weights(Z, A)
        return V @ Z @ weights, _target_matrix(V, gamma) @ Z @ weights

    def joined(make):
        """A layer that makes something else of Z and the two outputs."""
        return lambda Z, V, A, gamma: make(Z, *heads(Z, V, A, gamma))

    def in_turn(Z, V, A, gamma):
        moved = Z + heads(Z, V, A, gamma)[0]
        return moved + _shift(heads(moved, V, A, gamma)[1])

    def rewritten(Z, V, A, gamma):
        moved = Z + heads(Z, V, A, gamma)[0]
        moved[-2] = gamma * np.append(moved[-1, 1:], 0)
        return moved

    def only_value_row(Z, current, target):
        return Z + np.vstack([np.zeros_like(current[:-1]), current[-1:]]) + _shift(target)

    mistakes = {reason: _with_weights(weights) for reason, weights in _WRONG_WEIGHTS.items()}
    mistakes |= {
        "you left out Z itself; the heads only say what to add.": joined(lambda Z, one, two: one + _shift(two)),
        "nothing has changed: the output is Z.": lambda Z, V, A, gamma: Z,
        "the target head is missing.": joined(lambda Z, one, two: Z + one),
        "the current-value head is missing.": joined(lambda Z, one, two: Z + _shift(two)),
        "the target head's output is not shifted.": joined(lambda Z, one, two: Z + one + two),
        "the target head's output moves to the right; column j needs that of column j + 1.": joined(
            lambda Z, one, two: Z + one + np.pad(two[:, :-1], ((0, 0), (1, 0)))
        ),
        "your shift wraps around: what leaves column 0 must not come back in column n.": joined(
            lambda Z, one, two: Z + one + np.roll(two, -1, axis=1)
        ),
        "the last column keeps its share; nothing arrives there after the shift.": joined(
            lambda Z, one, two: Z + one + np.hstack([two[:, 1:], two[:, -1:]])
        ),
        "the discount is missing in the target head.": lambda Z, V, A, gamma: (
            Z + heads(Z, V, A, gamma)[0] + _shift(heads(Z, V, A, 1.0)[1])
        ),
        "the discount is in the target head twice.": lambda Z, V, A, gamma: (
            Z + heads(Z, V, A, gamma)[0] + _shift(heads(Z, V, A, gamma**2)[1])
        ),
        "your target head uses gamma V itself; it needs gamma times row d+3 of V, moved to row d+2.": (
            lambda Z, V, A, gamma: Z + heads(Z, V, A, gamma)[0] + gamma * _shift(heads(Z, V, A, gamma)[0])
        ),
        "your target head reads the output of the current-value head; both heads read the same Z.": in_turn,
        "you rewrite the target row; the layer only adds to it.": rewritten,
        "the current-value head's output is shifted too.": joined(lambda Z, one, two: Z + _shift(one) + _shift(two)),
        "A is transposed: the source stands on the left.": lambda Z, V, A, gamma: _layer(Z, V, A.T, gamma),
        "V is transposed.": lambda Z, V, A, gamma: _layer(Z, V.T, A, gamma),
        "you divided by n; the softmax normalises already.": _with_weights(
            lambda Z, A: attention_weights(Z, A) / (Z.shape[1] - 1)
        ),
        "your first head adds its row d+3 only; V is arbitrary here, so add all its rows.": joined(only_value_row),
        "you use the constructed V; V is arbitrary here.": lambda Z, V, A, gamma: _layer(
            Z, constructed_matrices(len(Z) - 3)[0], A, gamma
        ),
    }

    cases = {}
    for gamma, (setting, arguments) in zip((0.8, 0.95, 0.5, 0.6, 0.0), _cases("layer").items()):
        cases[f"{setting} and gamma = {gamma}"] = *arguments, gamma

    def advice(arguments, found):
        off = np.abs(found - _layer(*arguments)).max(axis=1) > ROUNDING
        if off.sum() == 1 and off[-2]:
            return "only row d+2 is off: look at the target head and its shift."
        if not off[-2]:
            return "row d+2 is right, others are off: look at the current-value head."
        return (
            "several rows are off. Start with one head and Z: does V Z times the weights have the shape of Z? Then add "
            "the second."
        )

    judge_function(answer, _layer, cases, mistakes, advice, "your output")
    _expect_stable(answer, _layer, 0.8)
    return "Run it L times on a prompt, and you have L steps of weighted softmax TD."


# -------------------------------------------------------------------------------------------- scores


def _keeping(keep=lambda d, feature: np.arange(d) != feature, factor=lambda scale: scale):
    """The matrix A that keeps some features."""

    def function(d, feature, scale):
        return embedded(np.diag(factor(scale) * keep(d, feature).astype(float)))

    return function


def _source_weights(Z, A):
    """Weights of the sources; those of the query as a source, which are 0, are left out."""
    return softmax((Z.T @ A @ Z)[:-1])


def ignoring(answer):
    """A function (d, feature, scale) -> A whose weights ignore one feature and have a score scale."""
    cases, found = [], []
    for d, feature, scale in [(4, 1, 2.5), (2, 0, 0.5), (5, 4, 1.0), (3, 2, 0.25), (1, 0, 2.0)]:
        setting = f"for d = {d}, feature = {feature} and scale = {scale}"
        A = numbers(call(answer, d, feature, scale, where=setting), (d + 3, d + 3), f"{setting} your A")
        Z = generator("dual_head_layer.ignoring", d).normal(size=(d + 3, 9))
        found.append(_source_weights(Z, A))
        cases.append((setting, (Z, A, d, feature, scale)))

    def every(d, feature):
        return np.ones(d)

    mistakes = {
        "the scale does nothing.": _keeping(factor=lambda scale: 1.0),
        "the feature still counts.": _keeping(every),
        "the feature still counts, and the scale does nothing.": _keeping(every, lambda scale: 1.0),
        "you kept the one feature that should be ignored.": _keeping(lambda d, feature: np.arange(d) == feature),
        "the scale enters squared.": _keeping(factor=np.square),
        "the scale enters as a square root.": _keeping(factor=np.sqrt),
        "scores should be multiplied by the scale, not divided.": _keeping(factor=lambda scale: 1 / scale),
        "the scores have the wrong sign.": _keeping(factor=lambda scale: -scale),
        "features are numbered from 0.": _keeping(lambda d, feature: np.arange(d) != feature - 1),
        "you counted the features from the last one.": _keeping(lambda d, feature: np.arange(d)[::-1] != feature),
        "your scores are all equal.": _keeping(lambda d, feature: np.zeros(d)),
        "scores come from products of different features; an inner product multiplies each feature with itself.": (
            lambda d, feature, scale: embedded(scale * np.outer(np.arange(d) != feature, np.arange(d) != feature))
        ),
    }

    def advice(arguments, result):
        Z, A, d, feature, _ = arguments
        rng = generator("dual_head_layer.ignoring", d, feature)
        changed = Z.copy()
        changed[d:] += rng.normal(size=(3, 9))
        if not close(_source_weights(changed, A), result):
            return "the weights change with the rewards or the memories; A may read features only."
        changed = Z.copy()
        changed[feature] += rng.normal(size=9)
        if not close(_source_weights(changed, A), result):
            return "the weights still change with that feature."
        return "the feature is ignored, but the other scores are not the scaled inner product."

    def weights(matrix):
        """What is judged: the weights that a matrix A gives, which other matrices may give as well."""
        return lambda Z, A, *asked: _source_weights(Z, matrix(*asked))

    judge(found, weights(_keeping()), cases, {why: weights(wrong) for why, wrong in mistakes.items()}, advice)


# --------------------------------------------------------------------------------------- mean reward


def _two_matrices(answer, d, *arguments):
    pair = call(answer, d, *arguments)
    two = isinstance(pair, (tuple, list)) or (isinstance(pair, np.ndarray) and pair.ndim == 3)
    expect(
        two and len(pair) == 2,
        "your function should return two matrices, V and A"
        + (f"; it returned {len(pair)}." if two else f"; it returned {described(pair)}."),
    )
    return [numbers(M, (d + 3, d + 3), f"your {name} for d = {d}") for name, M in zip("VA", pair)]


def mean_reward(answer):
    """A function d -> (V, A): the head writes the mean reward into row d+3 of every column."""
    cases, found = [], []
    for d, n in [(2, 5), (4, 12), (3, 2), (1, 1)]:
        V, A = _two_matrices(answer, d)
        Z = generator("dual_head_layer.mean_reward", d).normal(size=(d + 3, n + 1))
        Z[d, -1] = 0
        found.append(V @ Z @ attention_weights(Z, A))
        cases.append((f"on a prompt with d = {d} and n = {n}", (Z, V, A)))

    def written(row, make):
        """An output whose only entries stand in one row."""

        def output(Z, V, A):
            result = np.zeros_like(Z)
            result[row] = make(Z[-3, :-1], Z)
            return result

        return output

    def mean(rewards, Z):
        return rewards.mean()

    mistakes = {
        "the output is 0.": written(-1, lambda rewards, Z: 0.0),
        "the mean is in row d+1; it belongs in row d+3.": written(-3, mean),
        "the mean is in row d+2; it belongs in row d+3.": written(-2, mean),
        "the mean is in row 1; it belongs in row d+3.": written(0, mean),
        "the sign is wrong.": written(-1, lambda rewards, Z: -rewards.mean()),
        "this is the mean TD error; a mean reward reads row d+1 only.": written(
            -1, lambda rewards, Z: (Z[-3] + Z[-2] - Z[-1])[:-1].mean()
        ),
        "this is the mean of the last feature; rewards stand in row d+1.": written(-1, lambda r, Z: Z[-4, :-1].mean()),
        "this is the mean of the target memory; rewards stand in row d+1.": written(-1, lambda r, Z: Z[-2, :-1].mean()),
        "this is the mean of the value memory; rewards stand in row d+1.": written(-1, lambda r, Z: Z[-1, :-1].mean()),
        "the weights come from inner products of features; here they have to be equal.": written(
            -1, lambda rewards, Z: rewards @ attention_weights(Z, constructed_matrices(len(Z) - 3)[1])[:-1]
        ),
    }

    def advice(arguments, output):
        Z, V, A = arguments
        d = len(Z) - 3
        if np.ptp(output, axis=1).max() > ROUNDING:
            return "the columns of the output differ: their weights are not all the same."
        if not close(output[:-1], 0 * output[:-1]):
            return "rows above d+3 are not 0: V writes too much."
        changed = Z.copy()
        changed[d + 1 :] += 1
        if not close(V @ changed @ attention_weights(changed, A), output):
            return "the result changes with the memories; a mean reward reads row d+1 only."
        changed = Z.copy()
        changed[:d] += 1
        if not close(V @ changed @ attention_weights(changed, A), output):
            return "the result changes with the features; a mean reward reads row d+1 only."
        n = Z.shape[1] - 1
        return f"row d+3 does not hold the mean of the {n} rewards, but a multiple of it."

    judge(found, written(-1, mean), cases, mistakes, advice)
    return "A head without scores is an average."


# --------------------------------------------------------------------------------------- first layer


def first_layer(answer):
    """A function (d, gamma) -> (V, A) of the first of five layers; a quarter of the error on tasks not seen before."""
    gamma, errors = 0.9, []
    V, A = _two_matrices(answer, 8, gamma)
    own = constructed_matrices(8)
    for task in range(40):
        rng = np.random.default_rng(100 + task)
        process = mrp.boyan_chain(8, gamma, rng)
        walk = process.sample(200, rng, start_state=0)
        limit = empirical.certainty_equivalence(empirical.empirical_model(walk, 8), gamma, boundary=0.0)[walk.states]
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
    mistakes = {
        reason: _head(weights)
        for reason, weights in _WRONG_WEIGHTS.items()
        if weights not in (masks.late, masks.none)  # here they have other reasons
    }
    mistakes |= {
        "nothing has changed: the weights of a column still sum to less than 1.": _head(masks.late),
        "now the query has a weight as a source again.": _head(masks.none),
        "A is transposed now; it was right before.": _head(transposed=True),
        "you added Z itself; the head's output comes without it.": _head(residual=True),
        "you rescale all columns by one number; the weights of each column should sum to 1.": _head(
            lambda Z, A: masks.late(Z, A) / masks.late(Z, A).sum(axis=0).mean()
        ),
        "you divide by n; the softmax normalises already.": _head(factor=lambda Z: 1 / (Z.shape[1] - 1)),
        "you made the weights of each row, that of one source, sum to 1; those of each column should.": _head(
            lambda Z, A: masks.late(Z, A) / np.maximum(masks.late(Z, A).sum(axis=1, keepdims=True), 1e-300)
        ),
        "the output is 0.": lambda Z, V, A: 0 * Z,
    }

    advice = "the symptom may be gone, but this is another head. Change as little as you can."
    judge_function(answer, _head(), _cases("fading"), mistakes, advice, "your output")
    _expect_stable(answer, _head())
    return "The weights of every column sum to 1 again, and the query has none of them."


def _second(
    move=lambda change: np.append(change[1:], 0.0), discount=lambda gamma: gamma, overwrite=False, transposed=False
):
    """One layer with the constructed V; ``move`` is the shift of the changes of the values."""

    def function(Z, A, gamma):
        V, _ = constructed_matrices(len(Z) - 3)
        change = (V @ Z @ attention_weights(Z, A.T if transposed else A))[-1]
        new = Z.copy()
        new[-1] += change
        new[-2] = (0 if overwrite else Z[-2]) + discount(gamma) * move(change)
        return new

    return function


def second_layer(answer):
    """A mended `suspect_layer(Z, A, gamma)` with the constructed V, alpha = 1."""
    mistakes = {
        "in the target memory the changes still move to the right.": _second(lambda c: np.append(0, c[:-1])),
        "in the target memory the changes no longer move at all.": _second(lambda c: c),
        "in the target memory your shift wraps around: nothing may arrive in the last column.": _second(
            lambda c: np.roll(c, -1)
        ),
        "in the target memory the last column keeps its own change; nothing may arrive there.": _second(
            lambda c: np.append(c[1:], c[-1])
        ),
        "the target memory does not change any more.": _second(lambda c: 0 * c),
        "in the target memory the discount is missing.": _second(discount=lambda gamma: 1.0),
        "the target memory holds the last change alone; add it to the old memory.": _second(overwrite=True),
        "in the target memory the changes have moved two columns.": _second(
            lambda c: np.append(c[2:], [0, 0])[: len(c)]
        ),
        "A is transposed now; it was right before.": _second(transposed=True),
        "nothing has changed: the output is Z.": lambda Z, A, gamma: Z,
    }

    cases = {}
    for n, d, gamma in [(6, 2, 0.8), (5, 3, 0.95), (4, 1, 0.5), (1, 2, 0.7), (3, 2, 0.0)]:
        rng = generator("dual_head_layer.second_layer", n, d)
        A = embedded(rng.normal(size=(d, d)))
        Z = prompt.build_prompt(rng.normal(size=(n + 1, d)), rng.normal(size=n))
        for number in range(1, 5):
            cases[f"with n = {n}, d = {d} and gamma = {gamma}, in layer {number},"] = Z, A, gamma
            Z = _second()(Z, A, gamma)

    def advice(arguments, found):
        right = _second()(*arguments)
        if not nearly(found[:-2], right[:-2]):
            return "features or rewards change; both must stay."
        if not nearly(found[-1], right[-1]):
            return "the values are off."
        return "the values are right, but the target memory is not what the next layer needs."

    judge_function(answer, _second(), cases, mistakes, advice, "your output")
    return "Four layers agree with four steps. (A layer that overwrites the target memory would pass here, too.)"


CANDIDATES = {
    "wrong axis": dict(weights=_wrong_axis),
    "late mask": dict(weights=masks.late),
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
    answer = answer.tolist() if isinstance(answer, np.ndarray) else answer
    expect(
        has_parts(answer, 3) and all(isinstance(name, str) for name in answer),
        f"give a list of three names, for P, Q and R, out of: {known}.",
    )
    for name in answer:
        expect(name in CANDIDATES, f"{described(name)} is not one of the names: {known}.")
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


EXERCISES = by_hand, attention, layer, ignoring, mean_reward, first_layer, fading, second_layer, suspects
