"""Exercises of the chapter on the temporal shift module; the statements stand in book/temporal_shift_module.ipynb.

PyTorch is loaded by the exercises that need it, so that ``check`` runs where it is missing.
"""

import numpy as np

from ictd import empirical, features, kernels, mrp
from ictd.exercises import _masks as masks
from ictd.exercises._answers import NotYet, call, described, expect, numbers
from ictd.exercises._checking import generator, judge, judge_function, judge_numbers, name_mistake
from ictd.exercises._layers import attention_weights, constructed_matrices, embedded, far_below, softmax
from ictd.exercises._values import ROUNDING, close, expect_close
from ictd.prompt import build_prompt, memory_offset, rows

# ------------------------------------------------------------------------------------- plain NumPy layers


def _shift(row):
    return np.append(row[1:], 0.0)


def _layer(weights=attention_weights, residual=True, erase=True, base="head", shift=_shift, discount=True, V_of=None):
    """The layer with a temporal shift module, or with one of these parts changed.

    ``weights`` has sources in rows; ``base`` is what the shift reads: "head" (Y), "input" (Z) or "change" (Y - Z).
    """

    def function(Z, V, A, gamma):
        change = (V if V_of is None else V_of(V)) @ Z @ weights(Z, A)
        new = change + (Z if residual else 0)
        if erase:
            new[-2] = 0
        if shift is not None:
            read = {"head": new, "input": Z, "change": change}[base][-1]
            new[-2] += (gamma if discount else 1) * shift(read)
        return new

    return function


_tsm = _layer()


def _dual(Z, V, A, gamma):
    change = V @ Z @ attention_weights(Z, A)
    new = Z + change
    new[-2] = Z[-2] + gamma * _shift(change[-1])
    return new


def _random(rng, d=3, n=5):
    Z = rng.normal(size=(d + 3, n + 1))
    V, A = 0.5 * rng.normal(size=(2, d + 3, d + 3))
    return Z, V, A


def _difference(answer, right):
    """Rows and columns, counted from 0, in which two prompts differ."""
    apart = ~np.isclose(answer, right, rtol=0, atol=1e-9 * max(1.0, np.abs(right).max()))
    return np.flatnonzero(apart.any(axis=1)), np.flatnonzero(apart.any(axis=0))


# ------------------------------------------------------------------------------------------ on paper


def bribe(answer):
    """[values, targets of the TSM, targets of the dual head] after one layer with 4 in B's target memory."""
    answer = numbers(answer, (3, 4))
    td_errors = np.array([4.0, 4.0, 8.0])
    kernel = np.array([[2, 1, 1], [1, 2, 1], [1, 1, 2], [2, 1, 1]]) / 4
    values = kernel @ td_errors
    tsm = 0.5 * _shift(values)
    dual = tsm + [0, 4, 0, 0]
    found, targets, kept = answer
    right = "the values are right; "
    judge_numbers(
        found,
        values,
        {
            "you left the target memory out of the TD errors: they are reward + target memory - value memory.": (
                kernel @ [4.0, 0.0, 8.0]
            ),
            "the target memory holds a discounted value already; do not multiply it by gamma again.": (
                kernel @ [4.0, 2.0, 8.0]
            ),
            "the target memory of B belongs to the transition out of B, not to the one into B.": (
                kernel @ [8.0, 0.0, 8.0]
            ),
            "the bribe is added in the TD error, not taken away.": kernel @ [4.0, -4.0, 8.0],
            "the own transition has a double weight.": td_errors.sum() / 3 * np.ones(4),
            "these are the TD errors; a layer mixes them.": np.append(td_errors, 0),
            "the last column shows A again: it listens as A does.": np.append(values[:3], 0),
        },
        "the values are not right. Write down the three TD errors; each state takes half of the error of its own "
        "transition and a quarter of each other one.",
    )
    judge_numbers(
        targets,
        tsm,
        {
            f"{right}the target memory belongs to the next column.": 0.5 * values,
            f"{right}the shift goes in the other direction.": 0.5 * np.roll(values, 1),
            f"{right}a shift goes in the other direction.": 0.5 * np.append(0, values[:-1]),
            f"{right}the last column has no next one, so its target memory is 0.": 0.5 * np.roll(values, -1),
            f"{right}the targets of the TSM lack the discount.": _shift(values),
            "the TSM erases the old target memory before it writes.": dual,
            f"{right}the TSM writes into the target memory of every column but the last.": np.zeros(4),
        },
        "the values are right, the targets of the TSM are not.",
    )
    judge_numbers(
        kept,
        dual,
        {
            "the dual head does not erase: it adds to what was in the target memory.": tsm,
            "the bribe is kept as it is: it lies in the target memory, where values are discounted already.": (
                tsm + [0, 2, 0, 0]
            ),
            "in the dual head the bribe stays in the column of B.": tsm + [4, 0, 0, 0],
            "the dual head writes as well: it adds gamma times the change of the next value to the bribe.": (
                np.array([0.0, 4, 0, 0])
            ),
            "the dual head writes in B's column too, beside the bribe.": np.array([2.5, 4, 2.5, 0]),
        },
        "the dual head adds gamma times the change of the next column's value; its row is not right yet.",
    )
    return "One form has forgotten the bribe already; the other will be paid it again."


# ------------------------------------------------------------------------------------ from an empty file


def _along_queries(Z, A):
    weights = softmax(Z.T @ A @ Z, axis=1)
    weights[-1] = 0
    return weights


def _last_only(V):
    only = np.zeros_like(V)
    only[-1] = V[-1]
    return only


_HEAD_MISTAKES = {
    "the last column takes part as a source; mask it.": _layer(masks.none),
    "the scores use A transposed: source i stands on the left, Z[:, i]^T A Z[:, j].": _layer(
        lambda Z, A: attention_weights(Z, A.T)
    ),
    "the weights of a column should sum to 1; your softmax runs over the wrong axis, and over the last column too.": (
        _layer(lambda Z, A: softmax(Z.T @ A @ Z, axis=1))
    ),
    "the weights of a column should sum to 1; your softmax runs over the wrong axis.": _layer(_along_queries),
    "you mask after the softmax, so the weights of a column no longer sum to 1.": _layer(masks.late),
    "a score of 0 does not mask: its weight is not 0.": _layer(masks.by_zero),
    "you mask the last column as a query; it should not be a source.": _layer(masks.as_query),
    "your weights are transposed: a new column should mix the sources with the weights of its own column.": _layer(
        lambda Z, A: attention_weights(Z, A).T
    ),
    "the scores of this layer are not divided by the root of the number of rows.": _layer(
        lambda Z, A: attention_weights(Z, A / np.sqrt(len(Z)))
    ),
    "the scores of this layer are not divided by the root of d.": _layer(
        lambda Z, A: attention_weights(Z, A / np.sqrt(len(Z) - 3))
    ),
    "the scores of this layer do not look at the features alone: A is a full matrix.": _layer(
        lambda Z, A: attention_weights(Z[:-3], A[:-3, :-3])
    ),
    "you use V transposed.": _layer(V_of=np.transpose),
    "the head's output lacks V.": _layer(V_of=lambda V: np.eye(len(V))),
    "V may be any matrix here, and the head writes into every row; yours writes into the last.": _layer(
        V_of=_last_only
    ),
    "you left out the residual: the head's output is added to Z.": _layer(residual=False),
    "the shift wraps around: nothing may arrive in the last column, and yours should be 0 there.": _layer(
        shift=lambda row: np.roll(row, -1)
    ),
}
_SHIFT_MISTAKES = {
    "the shift is missing: this is Y.": _layer(erase=False, shift=None),
    "the old target memory is still there; erase it first.": _layer(erase=False),
    "you add the change to the old target memory; the module replaces it by the whole value.": _dual,
    "the target memory is not written, just erased.": _layer(shift=None),
    "the shift reads Z; it should read what the head has written.": _layer(base="input"),
    "the shift reads the head's output alone; it should read Y.": _layer(base="change"),
    "the discount is missing in the shift.": _layer(discount=False),
    "the shift goes in the wrong direction.": _layer(shift=lambda row: np.append(0.0, row[:-1])),
    "the shift goes in the wrong direction, and wraps around.": _layer(shift=lambda row: np.roll(row, 1)),
    "each column got gamma times its own value; it should be that of the next column.": _layer(shift=lambda row: row),
    "each column but the last got gamma times its own value; it should be that of the next column.": _layer(
        shift=lambda row: np.append(row[:-1], 0)
    ),
}


def _rows_that_are_off(arguments, found):
    apart, columns = _difference(found, _tsm(*arguments))
    if (apart == len(found) - 2).all():
        return f"only the target memory is off, in columns {columns.tolist()}, counted from 0."
    return f"your layer is off in rows {apart.tolist()}, counted from 0: check the head before the shift."


def layer(answer):
    """A function (Z, V, A, gamma) -> Z of the next layer, NumPy arrays."""
    rng = np.random.default_rng(31)
    cases = {
        f"for d = {d}, n = {n} and gamma = {gamma}": (*_random(rng, d, n), gamma)
        for d, n, gamma in [(3, 5, 0.8), (2, 8, 0.5), (1, 4, 0.9), (2, 5, 0.0), (1, 1, 0.7)]
    }
    judge_function(answer, _tsm, cases, _HEAD_MISTAKES | _SHIFT_MISTAKES, _rows_that_are_off, "your layer")
    Z, V, A, gamma = cases["for d = 3, n = 5 and gamma = 0.8"]
    what = "your layer at scores of 10,000"
    result = numbers(call(answer, Z, V, 1e4 * A, gamma), Z.shape, what, finite=False)
    expect(
        np.isfinite(result).all(),
        "large scores overflow: take the largest score of each column away before you exponentiate.",
    )
    expect(
        close(result, _tsm(Z, V, 1e4 * A, gamma)),
        f"{what} does not overflow, but its weights are wrong: limiting the scores changes the weights; taking the "
        "same number away from all scores of a column does not.",
    )
    low = far_below(Z, V)
    result = numbers(call(answer, *low, gamma), Z.shape, "your layer at scores near -20,000", finite=False)
    expect_close(
        result,
        _tsm(*low, gamma),
        "where the scores of all sources are near -20,000 your layer is off: a negative number in place of the last "
        "column's scores is no mask if theirs are smaller.",
        "your layer",
    )
    return "It also stands scores of 10,000."


# ---------------------------------------------------------------------------------------- dual limit


def _evaluated(states, rewards, gamma, entered=False, transposed=False, plain=False, total=False):
    """Values of the empirical model of a walk, or with a typical mistake, from plain loops."""
    n_states = max(states) + 1
    P, r, counts = np.zeros((n_states, n_states)), np.zeros(n_states), np.zeros(n_states)
    for here, there, reward in zip(states[:-1], states[1:], rewards):
        P[here, there] = 1 if plain else P[here, there] + 1
        r[there if entered else here] += reward
        counts[there if entered else here] += 1
    r /= 1 if total else counts
    P /= P.sum(axis=1, keepdims=True)
    return np.linalg.solve(np.eye(n_states) - gamma * (P.T if transposed else P), r)


def _limit(change=lambda offset, gamma: offset[:-1], **mistake):
    return lambda states, rewards, offset, gamma: _evaluated(states, rewards + change(offset, gamma), gamma, **mistake)


def _paid_once(states, rewards, offset, gamma):
    return _evaluated(states, rewards, gamma) + _evaluated(states, offset[:-1], 0.0)


_LIMIT_MISTAKES = {
    "that is the limit of the TSM; the dual head keeps the offset.": _limit(lambda offset, gamma: 0),
    "the offset of column k-1 goes with the reward for leaving that column; yours is one late.": _limit(
        lambda offset, gamma: offset[1:]
    ),
    "the offset of column k-1 goes with the reward for leaving that column; yours is one early.": _limit(
        lambda offset, gamma: np.append(0, offset[:-2])
    ),
    "the sign of the offset is wrong.": _limit(lambda offset, gamma: -offset[:-1]),
    "the offset is compared with a reward, not with a value: do not discount it once more.": _limit(
        lambda offset, gamma: gamma * offset[:-1]
    ),
    "that is the bias alone; add the value without an offset.": (
        lambda states, rewards, offset, gamma: _evaluated(states, offset[:-1], gamma)
    ),
    "the offset was added once; the dual head pays it at every transition, also at all later ones.": _paid_once,
    "a reward and its offset belong to the state that is left, not to the one that is entered.": _limit(entered=True),
    "rows of the transition matrix are the states that are left; you used it transposed.": _limit(transposed=True),
    "transitions that occurred more often count more often; all that occurred have the same weight in yours.": _limit(
        plain=True
    ),
    "the reward of a state is the mean over its visits; yours is the sum.": _limit(total=True),
}


def dual_limit(answer):
    """A function (states, rewards, offset, gamma) -> limit of the constructed dual head on the states."""
    rng = np.random.default_rng(37)
    walks = {  # the last state was left before, as the question says, and is not the first one
        "for 4 states": ([0, 2, 1, 3, 3, 0, 2, 0, 3, 0, 1], 0.7),
        "for 2 states": ([1, 0, 1, 1, 1, 0, 0, 1, 0], 0.9),
        "for gamma = 0": ([2, 0, 1, 1, 0, 2, 0, 0, 1], 0.0),
        "for 1 state": ([0, 0, 0, 0], 0.5),
    }
    cases = {
        name: (np.array(states), rng.normal(size=len(states) - 1), rng.normal(size=len(states)), gamma)
        for name, (states, gamma) in walks.items()
    }
    advice = "your values are not those for the rewards that the dual head evaluates. Which are they?"
    judge_function(answer, _limit(), cases, _LIMIT_MISTAKES, advice, "your limit")
    return "The offsets never fade: they are part of the problem that the dual head solves."


# ------------------------------------------------------------------------------------- harmless offset

_HARMLESS_STATES = np.array([0, 1, 0, 2, 1, 0, 1])


def _change_of_values(offset):
    """How far the values move in one layer, for some features."""
    X = features.gaussian(3, 2, np.random.default_rng(41))
    x = X[_HARMLESS_STATES]
    V, A = constructed_matrices(2)
    plain = build_prompt(x, np.zeros(6))
    shifted = plain.copy()
    shifted[-2] += offset
    return float(np.abs(_tsm(shifted, V, A, 0.9) - _tsm(plain, V, A, 0.9))[-1].max())


def harmless(answer):
    """An offset of 7 columns, 1 in column 2, that no value notices."""
    offset = numbers(answer, (7,))
    expect(close(offset[2], 1.0), f"the offset of column 2, the third number, should be 1; yours is {offset[2]:g}.")
    name_mistake(
        offset,
        np.array([-1.0, 0, 1, 0, 0, 0, 0]),
        {
            "the last column is no source: what stands there makes up for nothing.": np.array([0.0, 0, 1, 0, 0, 0, -1]),
            "the neighbour on the walk has other weights: the scores look at the state, not at the place.": (
                np.array([0.0, 0, 1, -1, 0, 0, 0])
            ),
            "the neighbour before it on the walk has other weights: scores look at the state, not at the place.": (
                np.array([0.0, -1, 1, 0, 0, 0, 0])
            ),
            "a sum of 0 over the whole walk is not enough: columns of different states have different weights.": (
                np.array([-1, -1, 6, -1, -1, -1, -1]) / 6
            ),
        },
    )
    for state in range(3):
        columns = np.flatnonzero(_HARMLESS_STATES[:-1] == state)
        total = offset[columns].sum()
        if abs(total) > 1e-6:  # a third in float32 is not exact
            others = [int(c) for c in columns if c != 2] if state == 0 else columns.tolist()
            reason = (
                f"the values of the query move: after one layer by {_change_of_values(offset):.2g}. "
                f"Which other columns have the same weight as column 2, for every query?"
                if state == 0
                else f"the columns {others} still move the values, after one layer by {_change_of_values(offset):.2g}."
            )
            raise NotYet(reason)
    visits = _HARMLESS_STATES[:-1] == 0
    needless = np.flatnonzero((offset != 0) & ~np.append(visits, False))
    expect(needless.size == 0, f"it does no harm, but column {needless[:1].tolist()} need not be other than 0.")
    return "Weighted softmax TD sees just the mean of what happens at each state."


# -------------------------------------------------------------------------------------------- units


def _scaled(powers, powers_target):
    """Weights times powers of c."""

    def function(w, w_target, c):
        return np.array([w * float(c) ** np.array(powers), w_target * float(c) ** np.array(powers_target)])

    return function


def _memory_that_is_off(arguments, found):
    """The reason from the memories that wrong weights produce."""
    w, w_target, c = arguments
    rng = generator("what_changes")
    Z = build_prompt(rng.normal(size=(7, 2)), rng.normal(size=6))
    kernel_pair = [attention_weights(Z, embedded(A)) for A in rng.normal(size=(2, 2, 2))]
    before, after = _memories(Z, kernel_pair, w, w_target), _memories(Z, kernel_pair, *found)
    if not close(after[0, 1], before[0, 1]):
        return "the values change in the first layer already, where the target memory is still 0."
    if not close(after[0, 0], c * before[0, 0]):
        return "the target memory after one layer is not c times what it was."
    if not close(after[1, 1], before[1, 1]):
        return (
            "the target memory is right after one layer, but the values of the second layer change: what does the "
            "value head read from the two memories?"
        )
    return "two layers are right and later ones are not: look at what the target head reads from the two memories."


def _memories(Z, kernel_pair, w, w_target, n_layers=4):
    """Target and value memory after each layer of independent heads, shape (n_layers, 2, n+1)."""
    history, current = [], Z.copy()
    for _ in range(n_layers):
        change, target = (np.asarray(v, float) @ current[-3:] @ K for v, K in zip((w, w_target), kernel_pair))
        current[-1] += change
        current[-2] += _shift(target)
        history.append(current[-2:].copy())
    return np.array(history)


def units(answer):
    """A function (w (3,), w_target (3,), c) -> both triples with the target memory in other units."""
    mistakes = {
        "the weights have not changed.": _scaled([0, 0, 0], [0, 0, 0]),
        "the target memory holds c times as much; yours holds a c-th of it.": _scaled([0, 1, 0], [-1, 0, -1]),
        "the value head reads c times as much; make up for it, do not multiply once more.": _scaled(
            [0, 1, 0], [1, 0, 1]
        ),
        "the value head reads the new unit; its weights should change.": _scaled([0, 0, 0], [1, 0, 1]),
        "what the target head reads from the target memory is in the new unit already.": _scaled([0, -1, 0], [1, 1, 1]),
        "what the target head reads from the target memory is in the new unit already: c once, not divided by it.": (
            _scaled([0, -1, 0], [1, -1, 1])
        ),
        "the target head writes in the new unit whatever it reads from rewards and values.": (
            _scaled([0, -1, 0], [0, 0, 0])
        ),
        "the target head writes in the new unit what it reads from rewards as well.": _scaled([0, -1, 0], [0, 0, 1]),
        "the target head writes in the new unit what it reads from values as well.": _scaled([0, -1, 0], [1, 0, 0]),
        "the unit of values has not changed: the value head reads the target memory alone in a new unit.": (
            _scaled([-1, -1, -1], [1, 0, 1])
        ),
        "both heads were scaled as a whole; the values change then.": _scaled([1, 1, 1], [1, 1, 1]),
        "the two heads are exchanged.": lambda w, w_target, c: _scaled([0, -1, 0], [1, 0, 1])(w, w_target, c)[::-1],
    }
    rng = generator("units")
    triples = rng.choice([-1, 1], (4, 2, 3)) * rng.uniform(0.4, 1.2, (4, 2, 3))
    cases = {f"for c = {c:g}": (*pair, c) for pair, c in zip(triples, (2.5, -1.0, -0.3, 1.0))}
    judge_function(answer, _scaled([0, -1, 0], [1, 0, 1]), cases, mistakes, _memory_that_is_off, "your array")
    return "The sign flip is the case c = -1."


# ------------------------------------------------------------------------------------- lambda memory


def _lambda_returns(rewards, values, gamma, lam):
    """As the weighted mean of n-step returns, cut off at the end: another way than the recursion."""
    n = len(rewards)
    result = np.zeros(n)
    for j in range(n):
        steps = n - j
        returns = [
            sum(gamma**i * rewards[j + i] for i in range(m)) + gamma**m * values[j + m] for m in range(1, steps + 1)
        ]
        weights = [(1 - lam) * lam ** (m - 1) for m in range(1, steps)] + [lam ** (steps - 1)]
        result[j] = np.dot(weights, returns)
    return result


def _memory(mix=lambda gamma, lam, value, G: gamma * ((1 - lam) * value + lam * G), start=None, own=False, late=False):
    """The memory by the recursion from the right, or with one of its parts changed."""

    def function(rewards, values, gamma, lam):
        memory, G = np.zeros(len(values)), values[-1] if start is None else start
        for j in range(len(rewards) - 1, -1, -1):
            memory[j] = mix(gamma, lam, values[j if own else j + 1], G)
            G = (np.append(rewards[1:], 0) if late else rewards)[j] + memory[j]
        return memory

    return function


def _plus(change):
    """The right memory, with something added in the sources."""

    def function(rewards, values, gamma, lam):
        memory = _memory()(rewards, values, gamma, lam)
        memory[:-1] += change(rewards, values[:-1])
        return memory

    return function


_TD = _memory(lambda gamma, lam, value, G: gamma * value)
_LAMBDA_MISTAKES = {
    "this is the return; the head adds the reward to the target memory itself.": _plus(lambda r, v: r),
    "this is the error; the head adds the reward and takes the value away itself.": _plus(lambda r, v: r - v),
    "the head takes the value away itself; do not subtract it in the memory.": _plus(lambda r, v: -v),
    "your memory does not depend on lambda: this is the TSM.": _TD,
    "your memory does not depend on lambda: these are the discounted rewards up to the end.": _memory(
        lambda gamma, lam, value, G: gamma * G
    ),
    "lambda and 1 - lambda are exchanged.": _memory(lambda gamma, lam, value, G: gamma * (lam * value + (1 - lam) * G)),
    "the last source is off: G_n = v(S_n) is where the recursion starts, and yours starts from 0.": _memory(start=0.0),
    "the discount is missing.": _memory(lambda gamma, lam, value, G: (1 - lam) * value + lam * G),
    "the discount belongs to G_{j+1} as well as to v(S_{j+1}).": _memory(
        lambda gamma, lam, value, G: gamma * (1 - lam) * value + lam * G
    ),
    "the discount belongs to v(S_{j+1}) as well as to G_{j+1}.": _memory(
        lambda gamma, lam, value, G: (1 - lam) * value + gamma * lam * G
    ),
    "the successor's value has the weight 1 - lambda.": _memory(lambda gamma, lam, value, G: gamma * (value + lam * G)),
    "column j takes the value of the next column, not its own.": _memory(own=True),
    "G_j takes the reward for leaving column j; yours is one late.": _memory(late=True),
    "column j mixes v(S_{j+1}) with G_{j+1}; you took the memory of the next column, which lacks the reward.": (
        lambda rewards, values, gamma, lam: _memory()(0 * rewards, values, gamma, lam)
    ),
}


def _returns(rewards, values, gamma, lam):
    result, G = np.zeros(len(rewards)), values[-1]
    for j in range(len(rewards) - 1, -1, -1):
        result[j] = G = rewards[j] + gamma * ((1 - lam) * values[j + 1] + lam * G)
    return result


def _layers_that_it_saves():
    """What one layer with lambda-returns is worth, in layers of the TSM, on one chain."""
    rng, gamma, lam = np.random.default_rng(53), 0.9, 0.8
    process = mrp.boyan_chain(6, gamma, rng)
    trajectory = process.sample(400, rng)
    model = empirical.empirical_model(trajectory, 6)
    kernel = kernels.state_kernel(model, features.one_hot(6, 3.0))[trajectory.states]
    sources = trajectory.states[:-1]
    targets = [lambda v: trajectory.rewards + gamma * v[1:], lambda v: _returns(trajectory.rewards, v, gamma, lam)]
    needed = []
    for target in targets:
        history = [np.zeros(401)]
        for _ in range(200):
            v = history[-1]
            errors = target(v) - v[:-1]
            sums = np.bincount(sources, weights=errors, minlength=6)
            history.append(v + kernel @ (sums / np.maximum(model.counts, 1)))
        distances = np.abs(np.array(history) - history[-1]).max(axis=1)
        needed.append(int(np.argmax(distances < 0.01 * distances[0])))
    return (
        f"On one chain with gamma = 0.9, the distance to the limit falls to a hundredth after {needed[0]} layers of "
        f"the TSM, and after {needed[1]} with lambda = 0.8."
    )


def lambda_memory(answer):
    """A function (rewards (n,), values (n+1,), gamma, lam) -> target memory (n+1,)."""
    rng = generator("lambda_memory")
    cases = {
        f"for n = {n}, gamma = {gamma} and lambda = {lam}": (rng.normal(size=n), rng.normal(size=n + 1), gamma, lam)
        for n, gamma, lam in [(8, 0.8, 0.6), (5, 0.9, 0.0), (5, 0.9, 1.0), (1, 0.5, 0.3), (4, 0.0, 0.7)]
    }

    def right(rewards, values, gamma, lam):
        return np.append(_lambda_returns(rewards, values, gamma, lam) - rewards, 0.0)

    def advice(arguments, found):
        if abs(found[-1]) > ROUNDING:
            return "the last target memory should be 0: nothing follows there."
        if arguments[-1] == 0:
            return "the memory should be that of the TSM, gamma times the next value in each column."
        off = np.flatnonzero(np.abs(found - right(*arguments)) > ROUNDING).tolist()
        return f"columns {off} are off; start from the right and go one column at a time."

    judge_function(answer, right, cases, _LAMBDA_MISTAKES, advice, "your target memory")
    return _layers_that_it_saves()


# ------------------------------------------------------------------------------------------ bug labs


def _symptom(arguments, found):
    apart, columns = _difference(found, _tsm(*arguments))
    if len(found) - 1 in apart:
        return f"the values differ from those of the package, in columns {columns.tolist()}, counted from 0."
    if len(found) - 2 in apart:
        offset = np.abs(memory_offset(found, arguments[-1])).max()
        return f"the target memory differs from gamma times the next value by up to {offset:.2g}."
    return f"rows {apart.tolist()}, counted from 0, differ from those of the package."


def _mended(answer, n_layers=5):
    """Check a mended layer on tensors: on two runs of the package's example, then on any prompts and matrices.

    What the bug itself does is told by its symptom alone: finding it is the exercise.
    """
    import torch

    def on_tensors(Z, V, A, gamma):
        return answer(*map(torch.from_numpy, (Z, V, A)), gamma)

    def on_arrays(Z, V, A, gamma):
        return on_tensors(Z, V, A, gamma).detach().numpy().copy()

    expect(callable(answer), f"your answer should be a function; it is {described(answer)}.")
    rng, gamma = generator("mended"), 0.8
    kind = type(result := call(on_tensors, *_random(rng), gamma)).__name__
    expect(isinstance(result, torch.Tensor), f"your function should return a tensor; it returns {kind}.")
    trajectory = mrp.boyan_chain(4, gamma, rng).sample(20, rng)
    start = build_prompt(features.gaussian(4, 3, rng)[trajectory.states], trajectory.rewards)
    V, A = constructed_matrices(3)
    cases = []
    for begin in ("from memories of 0", "from random memories"):
        current = start
        for number in range(1, n_layers + 1):
            cases.append((f"{begin}, after layer {number},", (current, V, A, gamma)))
            current = _tsm(current, V, A, gamma)
        start = start.copy()
        start[rows(3).target :] = rng.normal(size=(2, 21))
    anything = [
        (f"for d = {d}, n = {n}, gamma = {gamma}, any V and any A", (*_random(rng, d, n), gamma))
        for d, n, gamma in [(2, 6, 0.9), (1, 4, 0.0)]
    ]
    for group in (cases, anything):
        found = [
            numbers(call(on_arrays, *case, where=setting), case[0].shape, f"{setting} your new Z")
            for setting, case in group
        ]
        judge(found, _tsm, group, _HEAD_MISTAKES, _symptom)


def bug_grows(answer):
    """A mended layer whose target memory does not add up."""
    _mended(answer)
    return "The target memory holds one value, not a sum of old ones."


def bug_late(answer):
    """A mended layer whose target memory is up to date."""
    _mended(answer)
    return "Two layers are two steps again."


EXERCISES = bribe, layer, dual_limit, harmless, units, lambda_memory, bug_grows, bug_late
