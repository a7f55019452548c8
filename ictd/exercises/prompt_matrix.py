"""Exercises of the chapter on the prompt matrix."""

import numpy as np

from ictd import features, mrp, prompt, td
from ictd.exercises._checking import NotYet, call, close, expect, numbers


def _data(rng, n=7, n_states=4, dim=3, gamma=0.8):
    """Features (n+1, d), rewards (n,) and values (n+1,), one value per state, and the discount."""
    process = mrp.boyan_chain(n_states, gamma, rng)
    walk = process.sample(n, rng, start_state=0)
    x = features.gaussian(n_states, dim, rng)[walk.states]
    values = rng.standard_normal(n_states)[walk.states]
    return x, walk.rewards + 0.3 * rng.standard_normal(n), values, gamma


def _on_its_side(answer, shape):
    """Whether a matrix is transposed."""
    try:
        return np.shape(answer) == shape[::-1] != shape
    except Exception:  # no matrix at all; `numbers` says so
        return False


def _same_rows(found, right):
    """For each row, whether it agrees."""
    return np.abs(found - right).max(axis=-1) < 1e-9


def _explain_rows(found, x, rewards, values, gamma):
    """Raise the reason why a prompt is not the right one, row by row."""
    n, d = len(rewards), x.shape[1]
    right, row = prompt.build_prompt(x, rewards, values, gamma), prompt.rows(d)
    expect(
        _same_rows(found[row.features], right[row.features]).all(),
        "the feature rows should hold the features of the column's state: one state per column, one feature per row.",
    )
    reward, target, value = found[row.reward], found[row.target], found[row.value]
    expect(
        not (close(reward[1:], rewards) and not close(reward, right[row.reward])),
        "your rewards stand one column too far to the right: a reward belongs to the state that is left.",
    )
    expect(
        not (close(reward[:n], rewards) and abs(reward[n]) > 1e-9),
        "the query has not been left yet; its column should hold a placeholder in the reward row.",
    )
    expect(
        close(reward, right[row.reward]),
        "the reward row should hold, in each column, the reward for leaving its state.",
    )
    expect(
        not (close(value, right[row.target]) and close(target, right[row.value])),
        "the two memories are exchanged: the value memory is the lowest row.",
    )
    expect(close(value, values), "the value row should hold the values of the columns' own states, the query included.")
    shifted = np.append(values[1:], 0)
    mistakes = {
        "the target row lacks the discount.": shifted,
        "the target row should speak of the next column's state; yours speaks of the column's own.": gamma * values,
        "the target row should speak of the next column's state; yours speaks of the previous one.": (
            gamma * np.append(0, values[:-1])
        ),
        "the target of the query wraps around to the first column; nothing follows the query.": gamma
        * np.roll(values, -1),
        "the target row is 0; with values that are not 0 it has to hold their discounted copies.": np.zeros(n + 1),
    }
    for reason, wrong in mistakes.items():
        expect(not close(target, wrong) or close(target, right[row.target]), reason)
    expect(
        not close(target[:n], right[row.target, :n]) or abs(target[n]) < 1e-9, "the target of the query should be 0."
    )
    expect(
        close(target, right[row.target]),
        "the target row should hold the discount times the value of the next column.",
    )


# ------------------------------------------------------------------------------------------- by hand

HAND_STATES, HAND_REWARDS, HAND_VALUES, HAND_GAMMA = [1, 0, 2, 1], [2.0, -2.0, 6.0], [1.0, 2.0, 3.0], 0.5


def by_hand(answer):
    """The prompt of the trajectory B -> A -> C -> B after one step."""
    expect(
        not _on_its_side(answer, (6, 4)), "your matrix lies on its side: columns are visits, rows are what is known."
    )
    answer = numbers(answer, (6, 4), "your prompt")
    x, rewards = features.one_hot(3)[HAND_STATES], np.array(HAND_REWARDS)
    values = np.array(HAND_VALUES)[HAND_STATES]
    right = prompt.build_prompt(x, rewards, values, HAND_GAMMA)
    if close(answer, right):
        return "Its last column is the query; its reward and target are placeholders."
    expect(
        not close(answer[:3], features.one_hot(3)[[0, 1, 2, 0]].T),
        "your columns show the walk of the text; the walk here visits B, A, C, B.",
    )
    expect(
        not close(answer[5, :3], np.array(HAND_VALUES)), "the values stand in the order A, B, C; the walk has another."
    )
    _explain_rows(answer, x, rewards, values, HAND_GAMMA)
    raise NotYet("one of the rows differs from what the walk says.")


# --------------------------------------------------------------------------------------------- build


def build(answer):
    """A function (x, rewards, values, gamma) -> Z."""
    for seed, n, dim in [(1, 7, 3), (2, 1, 1), (3, 12, 5)]:
        data = _data(np.random.default_rng(seed), n=n, dim=dim)
        result = call(answer, *data)
        expect(
            not _on_its_side(result, (dim + 3, n + 1)),
            "your matrix lies on its side: columns are positions, rows are what is known.",
        )
        result = numbers(result, (dim + 3, n + 1), f"your prompt for {n} transitions and {dim} features")
        if not close(result, prompt.build_prompt(data[0], data[1], data[2], data[3])):
            _explain_rows(result, *data)
    return "Also for a walk of a single step."


# -------------------------------------------------------------------------------------------- reader


def reader(answer):
    """A function (d, n) -> (B, C) with B Z C = the TD errors of every consistent prompt."""
    for seed, n, dim in [(4, 7, 3), (5, 1, 1), (6, 9, 2)]:
        matrices = call(answer, dim, n)
        expect(
            isinstance(matrices, (tuple, list)) and len(matrices) == 2,
            "your function should return two matrices, B and C.",
        )
        setting = f"for d = {dim} and n = {n}"
        B = numbers(matrices[0], (1, dim + 3), f"your B {setting}")
        C = numbers(matrices[1], (n + 1, n), f"your C {setting}")
        x, rewards, values, gamma = _data(np.random.default_rng(seed), n=n, dim=dim)
        Z = prompt.build_prompt(x, rewards, values, gamma)
        right = rewards + gamma * values[1:] - values[:-1]
        found = (B @ Z @ C)[0]
        if close(found, right):
            continue
        expect(not close(found, -right), f"{setting} your errors have the wrong sign.")
        expect(
            not close(found, (B @ Z)[0, 1:]),
            f"{setting} your C drops the first column; the column without a TD error is another one.",
        )
        u = np.append(np.zeros(dim), [1, 1, -1])
        expect(
            not close(B[0], u),
            f"{setting} your B is right, but C does not pick the columns that hold TD errors, one after the other.",
        )
        expect(not close(B[0], np.abs(u)), f"{setting} the value of the state that is left should be taken away.")
        expect(
            not B[0, :dim].any(),
            f"{setting} your B mixes features into the errors; a TD error does not depend on them.",
        )
        raise NotYet(f"{setting} the product is not the row of TD errors. Which three rows of a column make one?")
    return "Features have no part in it, and the query has none either."


# ---------------------------------------------------------------------------------------- warm start


def warm_start(answer):
    """A function (Z, values, gamma) -> new prompts, with any leading dimensions."""
    for shape in [(), (5,), (2, 3)]:
        rng = np.random.default_rng(7)
        gamma, n, d = 0.7, 6, 3
        Z = rng.standard_normal((*shape, d + 3, n + 1))  # the old memories need not be consistent
        values = rng.standard_normal((*shape, n + 1))
        result = numbers(call(answer, Z, values, gamma), Z.shape, f"your prompts for values of shape {values.shape}")
        right = Z.copy()
        right[..., -1, :] = values
        right[..., -2, :-1], right[..., -2, -1] = gamma * values[..., 1:], 0
        if close(result, right):
            continue
        setting = f"for prompts of shape {Z.shape}"
        expect(close(result[..., :-2, :], Z[..., :-2, :]), f"{setting} the features or the rewards have changed.")
        expect(close(result[..., -1, :], values), f"{setting} the value row should hold the new values.")
        target = result[..., -2, :]
        expect(
            not close(target, Z[..., -2, :]),
            f"{setting} the target memory is still the old one; a warm start has to write both rows.",
        )
        expect(not close(target[..., :-1], values[..., 1:]), f"{setting} the target row lacks the discount.")
        expect(
            not close(target[..., :-1], gamma * values[..., :-1]),
            f"{setting} the target row should speak of the next column's state; yours speaks of the column's own.",
        )
        expect(
            not close(target[..., :-1], right[..., -2, :-1]),
            f"{setting} the target of the query is not 0. The old prompt may hold anything there, so set it.",
        )
        raise NotYet(f"{setting} the target row should hold the discounted values of the next columns.")
    return "It works for any leading dimensions."


# ---------------------------------------------------------------------------------------- find fault


def find_fault(answer):
    """A function (Z, gamma) -> the column in which the invariant fails, or None."""

    def ask(Z, gamma, what):
        column = call(answer, Z, gamma)
        if column is None:
            return None
        column = numbers(column, (), f"your column for {what}")
        expect(column % 1 == 0, f"your column for {what} should be a whole number; it is {column:g}.")
        return int(column)

    faulty = []
    for seed, n in [(8, 7), (9, 1), (10, 12)]:
        x, rewards, values, gamma = _data(np.random.default_rng(seed), n=n)
        Z = prompt.build_prompt(x, rewards, values, gamma)
        found = ask(Z, gamma, "a prompt without a fault")
        expect(found is None, f"you report column {found} in a prompt without a fault (n = {n}).")
        for j in range(n + 1):
            for size in (-1e-3, 2.0):  # of either sign, and smaller than the other entries
                faulty.append((Z, gamma, -2, j, size, j))
                if j:
                    faulty.append((Z, gamma, -1, j, size, j - 1))
    for Z, gamma, line, j, size, right in faulty:
        Z, n = Z.copy(), Z.shape[1] - 1
        Z[line, j] += size
        name = {-2: "target", -1: "value"}[line]
        what = f"a changed {name} of {'the query' if j == n else f'column {j}'} (n = {n}, change {size:g})"
        found = ask(Z, gamma, what)
        expect(found is not None, f"you do not notice {what}.")
        expect(
            found == right,
            f"with {what} you report column {found}; there, target and next value still fit together."
            if 0 <= found <= n
            else f"with {what} you report column {found}, which does not exist.",
        )
    Z[-2:, :] = prompt.build_prompt(x, rewards, values, gamma)[-2:, :]
    Z[-1, 0] += 1.0
    expect(
        ask(Z, gamma, "a changed value of column 0") is None,
        "the value of column 0 has no copy, so the invariant holds whatever it is; you report a fault.",
    )
    return "Also a changed target of the query, and changes of either sign."


# ---------------------------------------------------------------------------------------- late value


def late_value(answer):
    """A function (transition, reward, gamma) -> limit of the values with rewards one column too late."""
    rng, gamma = np.random.default_rng(11), 0.8
    circle = mrp.MRP(np.eye(4)[[1, 2, 3, 0]], rng.uniform(-1, 1, 4), gamma)  # periodic
    for process in (mrp.boyan_chain(4, gamma, rng), mrp.boyan_chain(7, gamma, rng), circle):
        n_states = process.n_states
        P, r, mu = process.transition, process.reward, process.stationary()

        def value(reward, transition=P):
            return np.linalg.solve(np.eye(n_states) - gamma * transition, reward)

        result = numbers(call(answer, P, r, gamma), (n_states,), f"your values of {n_states} states")
        backwards = (P * mu[:, None]).T / mu[:, None]
        if close(result, value(backwards @ r), 1e-7):
            continue
        mistakes = {
            "these are the true values.": value(r),
            "you pay each state the mean reward of its successors, which gives the expected value one step later; it "
            "gets the reward of its predecessors.": value(P @ r),
            "the columns of P do not sum to 1, so its transpose alone is no average: weight the predecessors by how "
            "often they are visited.": value(P.T @ r),
            "you weighted the predecessors by how often they are visited, but did not divide by how often the state "
            "itself is.": value((mu * r) @ P),
            "the rewards are those of the predecessors, but your values look backwards, too: only the rewards are "
            "averaged backwards.": value(backwards @ r, backwards),
            "this is the reward that the states are paid; now take its value.": backwards @ r,
            "the rewards are right, but this is the value of the walk seen backwards with its own rewards.": value(
                r, backwards
            ),
        }
        for reason, wrong in mistakes.items():
            expect(not close(result, wrong, 1e-7), reason)
        expect(
            close(mu @ result, mu @ value(r), 1e-7),
            "the mean of your values, weighted by how often states are visited, differs from that of the true values.",
        )
        raise NotYet("first find what each state is paid: the mean reward for leaving its predecessors.")
    return "The mean over the states is that of the true values."


# ----------------------------------------------------------------------------------- transition step


def transition_step(answer):
    """A function (T, gamma) -> new T, for columns that are transitions in any order."""
    for seed, n, dim, shuffled in [(13, 8, 3, False), (14, 8, 3, True), (15, 20, 2, True), (16, 1, 2, False)]:
        rng = np.random.default_rng(seed)
        x, rewards, _, gamma = _data(rng, n=n, dim=dim)
        order = rng.permutation(n) if shuffled else np.arange(n)
        history = td.weighted_softmax_td(x, rewards, gamma, 4)
        T = np.zeros((2 * dim + 3, n + 1))
        T[:dim, :-1], T[dim : 2 * dim, :-1], T[-3, :-1] = x[:-1].T[:, order], x[1:].T[:, order], rewards[order]
        T[:dim, -1] = x[-1]
        columns = f"{n} transitions" + (" in random order" if shuffled else "")
        for t in range(4):
            result = numbers(call(answer, T, gamma), T.shape, f"your matrix for {columns}")
            setting = f"with {columns}, after step {t + 1},"
            right = np.append(history[t + 1][:-1][order], history[t + 1][-1])
            expect(
                close(result[: 2 * dim + 1], T[: 2 * dim + 1]),
                f"{setting} features or rewards have changed; only the memories may.",
            )
            delta = (T[-3] + T[-2] - T[-1])[:-1]
            expect(
                not (n > 1 and close(result[-1, :-1], T[-1, :-1] + delta)),
                f"{setting} each column moved by its own error only; it should move by the weighted errors of all.",
            )
            expect(
                close(result[-1], right),
                f"{setting} the value row is off. Compare the first block of the query column with that of the n "
                "source columns (the query is none), and weight the errors from before the step.",
            )
            target = gamma * history[t + 1][1:][order]
            expect(
                not close(result[-2, :-1], T[-2, :-1]) or close(T[-2, :-1], target),
                f"{setting} the target memory has not moved; it holds a value that changes, too.",
            )
            neighbours = gamma * result[-1, 1:]
            expect(
                not (shuffled and close(result[-2, :-1], neighbours)),
                f"{setting} you copy from the next column; in this layout neighbours need not follow each other.",
            )
            expect(
                not close(result[-2, :-1], T[-2, :-1] + (target - T[-2, :-1]) / gamma),
                f"{setting} the target row lacks the discount.",
            )
            expect(
                close(result[-2, :-1], target),
                f"{setting} the target row is off. It should move like the value of the state that is entered, times "
                "the discount.",
            )
            T = result
    return "The columns may stand in any order; two softmaxes per step replace the shift."


# -------------------------------------------------------------------------------------------- bug labs


def _masked_step(Z, A, gamma, mask_scores=True, mask_errors=True):
    scores = Z.T @ A @ Z
    if mask_scores:
        scores[-1] = -np.inf
    weights = np.exp(scores - scores.max(axis=0))
    weights = weights / weights.sum(axis=0)
    delta = Z[-3] + Z[-2] - Z[-1]
    if mask_errors:
        delta[-1] = 0
    new = Z.copy()
    new[-1] += delta @ weights
    new[-2, :-1] = gamma * new[-1, 1:]
    return new


def bug_step(answer):
    """A mended `suspect_step(Z, A, gamma)`."""
    for seed, n in [(17, 7), (18, 1)]:
        rng = np.random.default_rng(seed)
        x, rewards, values, gamma = _data(rng, n=n)
        A = np.zeros((6, 6))
        A[:3, :3] = rng.standard_normal((3, 3))
        Z = prompt.build_prompt(x, rewards, values, gamma)
        result = numbers(call(answer, Z, A, gamma), Z.shape, f"your prompt after a step with {n} transitions")
        right = _masked_step(Z, A, gamma)
        if close(result, right):
            continue
        expect(
            not close(result, _masked_step(Z, A, gamma, False, False)),
            "nothing has changed: the query still is a source.",
        )
        expect(
            not close(result, _masked_step(Z, A, gamma, False, True)),
            "the query adds no error any more, but it still takes a share of every softmax. The weights of the n real "
            "sources should sum to 1.",
        )
        expect(close(result[:-2], Z[:-2]), "the features or the rewards have changed; only the memories may.")
        expect(
            close(result[-1], right[-1]),
            "the values are off. Every column, the query included, should move by the weighted errors of the sources; "
            "the score of source i for query j is entry (i, j) of the product with the source on the left.",
        )
        raise NotYet("the values are right, but the target memory does not fit them.")
    return "The query listens, and nobody listens to it."


def bug_builder(answer):
    """A mended `suspect_build(x, rewards)`."""
    for seed, n in [(19, 7), (20, 1)]:
        x, rewards, _, _ = _data(np.random.default_rng(seed), n=n)
        result = numbers(call(answer, x, rewards), (6, n + 1), f"your prompt for {n} transitions")
        if not close(result, prompt.build_prompt(x, rewards)):
            expect(
                not close(result[3], np.append(rewards[1:], [0, 0])),
                "now the rewards stand one column too far to the left, and the first one is lost.",
            )
            _explain_rows(result, x, rewards, np.zeros(n + 1), 0.0)
    return "Each reward stands with the state that it was paid for leaving."


EXERCISES = {
    "by_hand": by_hand,
    "build": build,
    "reader": reader,
    "warm_start": warm_start,
    "find_fault": find_fault,
    "late_value": late_value,
    "transition_step": transition_step,
    "bug_step": bug_step,
    "bug_builder": bug_builder,
}
