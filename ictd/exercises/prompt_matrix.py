"""Exercises of the chapter on the prompt matrix; the statements stand in book/prompt_matrix.ipynb."""

import numpy as np

from ictd import features, mrp, prompt, td
from ictd.exercises._answers import NotYet, call, described, expect, has_parts, numbers
from ictd.exercises._checking import generator, judge, judge_function, name_mistake
from ictd.exercises._layers import embedded, softmax
from ictd.exercises._values import ROUNDED, close, nearly


def _data(rng, n=7, n_states=4, dim=3, gamma=0.8):
    """Features (n+1, d), rewards (n,) and values (n+1,), one value per state, and the discount."""
    process = mrp.boyan_chain(n_states, gamma, rng)
    walk = process.sample(n, rng, start_state=0)
    x = features.gaussian(n_states, dim, rng)[walk.states]
    values = rng.standard_normal(n_states)[walk.states]
    return x, walk.rewards + 0.3 * rng.standard_normal(n), values, gamma


def _cases(exercise, sizes):
    """For each setting the data of one walk; sizes are (n, d, gamma)."""
    return {
        f"with n = {n}, d = {d} and gamma = {gamma}": _data(generator("prompt_matrix", exercise, n, d), n, 4, d, gamma)
        for n, d, gamma in sizes
    }


def _on_its_side(answer, shape):
    """Whether a matrix is transposed."""
    try:
        return np.shape(answer) == shape[::-1] != shape
    except Exception:  # no matrix at all; `numbers` says so
        return False


def _explain_rows(found, x, rewards, values, gamma):
    """Raise the reason why a prompt is not the right one, row by row."""
    right, row = prompt.build_prompt(x, rewards, values, gamma), prompt.rows(x.shape[1])

    def explain(place, mistakes, advice):
        if not nearly(found[place], right[place]):
            name_mistake(found[place], right[place], mistakes)
            raise NotYet(advice)

    name_mistake(
        found, right, {"your matrix lies on its side: columns are positions, rows are what is known.": right.T}
    )
    explain(
        row.features,
        {"you reshaped the features, which mixes them; rows and columns should change places.": x.reshape(x.T.shape)},
        "the feature rows should hold the features of the column's state: one state per column, one feature per row.",
    )
    reward, target = found[row.reward], found[row.target]
    explain(
        row.reward,
        {
            "your rewards stand one column too far to the right: a reward belongs to the state that is left.": (
                np.append(reward[0], rewards)
            ),
            "the query has not been left yet; its column should hold a placeholder in the reward row.": (
                np.append(rewards, reward[-1])
            ),
            "the rewards stand one column too far to the left, and the first one is lost.": (
                np.append(rewards[1:], [0, 0])
            ),
        },
        "the reward row should hold, in each column, the reward for leaving its state.",
    )
    memories = [row.target, row.value]
    name_mistake(
        found[memories],
        right[memories],
        {"the two memories are exchanged: the value memory is the lowest row.": right[memories[::-1]]},
    )
    explain(row.value, {}, "the value row should hold the values of the columns' own states, the query included.")
    reward, shifted = np.append(rewards, 0), np.append(values[1:], 0)
    mistakes = {
        "the target row lacks the discount.": shifted,
        "the target row should speak of the next column's state; yours speaks of the column's own.": (
            gamma * values,
            np.append(gamma * values[:-1], 0),
            values,
        ),
        "the target row should speak of the next column's state; yours speaks of the previous one.": (
            gamma * np.append(0, values[:-1])
        ),
        "the target of the query wraps around to the first column; nothing follows the query.": (
            gamma * np.roll(values, -1),
            np.roll(values, -1),
        ),
        "the target row is 0; with values that are not 0 it has to hold their discounted copies.": 0 * values,
        "the target row holds reward plus discounted value; the reward has a row of its own.": reward + gamma * shifted,
        "the target row is discounted twice.": gamma**2 * shifted,
        "the target row holds TD errors; it should hold what goes into them.": reward + gamma * shifted - values,
    }
    name_mistake(target, right[row.target], mistakes)
    explain(
        row.target,
        {"the target of the query should be 0.": np.append(right[row.target, :-1], target[-1])},
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
    for part, mistakes in [  # the features first, which tell the walk
        (
            slice(3),
            {
                "your columns show the walk of the text; the walk here visits B, A, C, B.": (
                    features.one_hot(3)[[0, 1, 2, 0]].T
                )
            },
        ),
        (slice(None), {"the features should stand above the reward, not below.": np.vstack([right[3:], right[:3]])}),
        (
            5,
            {
                "the values stand in the order A, B, C; the walk has another.": (
                    np.append(HAND_VALUES, answer[5, 3])  # whatever the query holds
                )
            },
        ),
        (slice(4, None), {"both memories are 0; that is the prompt before the first step.": 0 * right[4:]}),
    ]:
        name_mistake(answer[part], right[part], mistakes)
    _explain_rows(answer, x, rewards, values, HAND_GAMMA)
    raise NotYet("one of the rows differs from what the walk says.")


# --------------------------------------------------------------------------------------------- build

_SIZES = [(7, 3, 0.8), (5, 3, 0.6), (1, 1, 0.9), (12, 5, 0.8), (4, 1, 0.5), (6, 2, 0.0)]  # with a square one


def _prompts(answer, cases, right):
    """Accept a function whose prompts are right; advice explain the first that is not."""
    found = []
    for setting, arguments in cases.items():
        shape = right(*arguments).shape
        result = call(answer, *arguments, where=setting)
        expect(
            not _on_its_side(result, shape),
            "your matrix lies on its side: columns are positions, rows are what is known.",
        )
        found.append(numbers(result, shape, f"{setting} your prompt"))

    def advice(arguments, result):
        x, rewards, values, gamma = (*arguments, np.zeros(len(arguments[0])), 0.0)[:4]  # without values, all are 0
        _explain_rows(result, x, rewards, values, gamma)
        return "one of the rows is off."

    judge(found, right, list(cases.items()), {}, advice)


def build(answer):
    """A function (x, rewards, values, gamma) -> Z."""
    _prompts(answer, _cases("build", _SIZES), prompt.build_prompt)
    return "Also for a walk of a single step."


# -------------------------------------------------------------------------------------------- reader


def reader(answer):
    """A function (d, n) -> (B, C) with B Z C = the TD errors of every consistent prompt."""
    found, cases = [], []
    for n, dim in [(7, 3), (1, 1), (9, 2), (2, 1), (3, 4)]:
        setting = f"for d = {dim} and n = {n}"
        matrices = call(answer, dim, n, where=setting)
        expect(
            has_parts(matrices, 2),
            f"your function should return two matrices, B and C; it returned {described(matrices)}.",
        )
        B = numbers(matrices[0], (1, dim + 3), f"your B {setting}")
        C = numbers(matrices[1], (n + 1, n), f"your C {setting}")
        for gamma in (0.8, 0.3, 0.0):  # one prompt might agree by luck
            rng = generator("prompt_matrix.reader", n, dim, gamma)
            Z = prompt.build_prompt(*_data(rng, n=n, dim=dim, gamma=gamma))
            found.append((B @ Z @ C)[0].astype(np.result_type(B, C)))
            cases.append((setting, (Z, B)))

    def errors(Z, B):
        return (Z[-3] + Z[-2] - Z[-1])[:-1]

    mistakes = {
        "your errors have the wrong sign.": lambda Z, B: -errors(Z, B),
        "your C drops the first column; the column without a TD error is another one.": lambda Z, B: (
            Z[-3] + Z[-2] - Z[-1]
        )[1:],
        "your errors come in reverse order.": lambda Z, B: errors(Z, B)[::-1],
        "the value of the state that is left should be taken away.": lambda Z, B: (Z[-3] + Z[-2] + Z[-1])[:-1],
        "the target memory is missing. Which three rows of a column make a TD error?": lambda Z, B: (Z[-3] - Z[-1])[
            :-1
        ],
        "the reward is missing. Which three rows of a column make a TD error?": lambda Z, B: (Z[-2] - Z[-1])[:-1],
        "the value of the state that is left is missing. Which three rows of a column make a TD error?": lambda Z, B: (
            Z[-3] + Z[-2]
        )[:-1],
        "the value should be taken away and the target added; yours is the other way round.": lambda Z, B: (
            Z[-3] - Z[-2] + Z[-1]
        )[:-1],
    }

    def advice(arguments, found):
        Z, B = arguments
        if close(B[0], np.append(np.zeros(len(Z) - 3), [1, 1, -1])):
            return "your B is right, but C does not pick the columns that hold TD errors, one after the other."
        if B[0, :-3].any():
            return "your B mixes features into the errors; a TD error does not depend on them."
        return "the product is not the row of TD errors. Which three rows of a column make one?"

    judge(found, errors, cases, mistakes, advice)
    return "Features have no part in it, and the query has none either."


# ---------------------------------------------------------------------------------------- warm start


def _warm(
    target=lambda Z, values, gamma: gamma * values[..., 1:], last=lambda Z, values, gamma: 0, value=lambda Z, v: v
):
    def function(Z, values, gamma):
        new = Z.copy()
        new[..., -1, :] = value(Z, values)
        new[..., -2, :-1] = target(Z, values, gamma)
        new[..., -2, -1] = last(Z, values, gamma)
        return new

    return function


def warm_start(answer):
    """A function (Z, values, gamma) -> new prompts, with any leading dimensions."""
    old_target = "the target memory is still the old one; a warm start has to write both rows."
    own = "the target row should speak of the next column's state; yours speaks of the column's own."
    not_zero = "the target of the query is not 0. The old prompt may hold anything there, so set it."
    mistakes = {
        "the value row should hold the new values; nothing has changed.": lambda Z, v, g: Z,
        "the value row should hold the new values; yours holds the old ones.": _warm(value=lambda Z, v: Z[..., -1, :]),
        "the value row should hold the new values; you add them to the old ones.": _warm(
            value=lambda Z, v: Z[..., -1, :] + v
        ),
        old_target: (
            _warm(lambda Z, v, g: Z[..., -2, :-1], lambda Z, v, g: Z[..., -2, -1]),
            _warm(lambda Z, v, g: Z[..., -2, :-1]),
        ),
        "the target row is 0; with values that are not 0 it has to hold their discounted copies.": _warm(
            lambda Z, v, g: 0
        ),
        "the target row lacks the discount.": _warm(lambda Z, v, g: v[..., 1:]),
        "the target row is made of the old values.": _warm(lambda Z, v, g: g * Z[..., -1, 1:]),
        "the new targets are added to the old ones; they should replace them.": _warm(
            lambda Z, v, g: Z[..., -2, :-1] + g * v[..., 1:], lambda Z, v, g: Z[..., -2, -1]
        ),
        own: (
            _warm(lambda Z, v, g: g * v[..., :-1]),
            _warm(lambda Z, v, g: g * v[..., :-1], lambda Z, v, g: g * v[..., -1]),
        ),
        "the target row should speak of the next column's state; yours speaks of the previous one.": _warm(
            lambda Z, v, g: np.concatenate([0 * v[..., :1], g * v[..., :-2]], axis=-1),
            lambda Z, v, g: g * v[..., -2],
        ),
        not_zero: (
            _warm(last=lambda Z, v, g: Z[..., -2, -1]),
            _warm(last=lambda Z, v, g: g * v[..., -1]),
        ),
        "the target of the query wraps around to the first column; set it to 0.": _warm(
            last=lambda Z, v, g: g * v[..., 0]
        ),
        "the two rows are exchanged: the value memory is the lowest row.": lambda Z, v, g: np.concatenate(
            [Z[..., :-2, :], _warm()(Z, v, g)[..., [-1, -2], :]], axis=-2
        ),
    }

    rng, cases = generator("prompt_matrix.warm_start"), {}
    for front, d, n, gamma in [
        ((), 3, 6, 0.7),
        ((5,), 3, 6, 0.9),
        ((2, 3), 1, 4, 0.6),
        ((2,), 2, 1, 0.5),
        ((), 2, 3, 0.0),
    ]:
        Z = rng.standard_normal((*front, d + 3, n + 1))  # the old memories need not be consistent
        cases[f"for prompts of shape {Z.shape} and gamma = {gamma}"] = Z, rng.standard_normal((*front, n + 1)), gamma

    def advice(arguments, found):
        Z, values, gamma = arguments
        if not nearly(found[..., :-2, :], Z[..., :-2, :]):
            return "the features or the rewards have changed."
        if not nearly(found[..., -1, :], values):
            return "the value row should hold the new values."
        if nearly(found[..., -2, :-1], gamma * values[..., 1:]):
            return not_zero
        return "the target row should hold the discounted values of the next columns."

    judge_function(answer, _warm(), cases, mistakes, advice)
    return "It works for any leading dimensions."


# ---------------------------------------------------------------------------------------- find fault


def _dyadic_prompts():
    """Prompts whose products with gamma are exact in float32, too."""
    rng, found = generator("prompt_matrix.find_fault"), []
    for n, d, gamma in [(7, 3, 0.5), (1, 1, 0.75), (12, 2, 0.5), (4, 1, 0.0)]:
        values = rng.permutation(np.arange(1, n + 2)) * rng.choice([-0.25, 0.25], n + 1)
        found.append((prompt.build_prompt(rng.normal(size=(n + 1, d)), rng.normal(size=n), values, gamma), gamma))
    return found


def _column(answer, Z, gamma, what):
    column = call(answer, Z, gamma)
    if column is None:
        return None
    column = numbers(column, (), f"your column for {what}")
    expect(column % 1 == 0, f"your column for {what} should be a whole number; it is {column:g}.")
    return int(column)


def _expect_faults_found(answer, prompts):
    for Z, gamma in prompts:
        found, n = _column(answer, Z, gamma, "a prompt without a fault"), Z.shape[1] - 1
        expect(found is None, f"you report column {found} in a prompt without a fault (n = {n}, gamma = {gamma}).")
    for Z, gamma in prompts:
        n = Z.shape[1] - 1
        for row, name in ((-2, "target"), (-1, "value")):
            for j in range(n + 1):
                for size in (-(2.0**-10), 2.0, 2.0**-20):  # of either sign, also far smaller than the other entries
                    changed = Z.copy()
                    changed[row, j] += size
                    where = "the query" if j == n else f"column {j}"
                    what = f"a changed {name} of {where} (n = {n}, gamma = {gamma}, change {size:.3g})"
                    _expect_column(answer, changed, gamma, what, _failing(row, j, gamma), n)


def _failing(row, j, gamma):
    """The column in which the invariant fails after one change."""
    if row == -2:
        return j
    return j - 1 if j and gamma else None


def _expect_column(answer, Z, gamma, what, right, n):
    found = _column(answer, Z, gamma, what)
    if right is None:
        reason = "has no copy" if gamma else "is multiplied by 0"
        expect(found is None, f"with {what} the invariant holds, since that value {reason}; you report a fault.")
        return
    expect(found is not None, f"you do not notice {what}.")
    expect(
        found == right,
        f"with {what} you report column {found}; there, target and next value still fit together."
        if 0 <= found <= n
        else f"with {what} you report column {found}, which does not exist.",
    )


def find_fault(answer):
    """A function (Z, gamma) -> the column in which the invariant fails, or None."""
    _expect_faults_found(answer, _dyadic_prompts())
    for seed, n in [(8, 7), (9, 1), (10, 12)]:
        x, rewards, values, gamma = _data(np.random.default_rng(seed), n=n)
        found = _column(answer, prompt.build_prompt(x, rewards, values, gamma), gamma, "a prompt without a fault")
        # the prompts before had numbers that float32 holds exactly
        expect(found is None, f"you report a fault that is none. Your columns were {ROUNDED}")
    return "Also a changed target of the query, and changes of either sign."


# ---------------------------------------------------------------------------------------- late value


def _late(
    reward=lambda P, r, mu: (mu * r) @ P / mu,
    transition=lambda P, mu: P,
    discount=lambda gamma: gamma,
):
    """The limit with something wrong in the reward that the states are paid, or in where they lead."""

    def function(P, r, gamma):
        mu = mrp.MRP(P, r, gamma).stationary()
        matrix = np.eye(len(r)) - discount(gamma) * transition(P, mu)
        return np.linalg.solve(matrix, reward(P, r, mu))

    return function


def _backwards(P, mu):
    return (P * mu[:, None]).T / mu[:, None]


def late_value(answer):
    """A function (transition, reward, gamma) -> limit of the values with rewards one column too late."""
    successors = (
        "you pay each state the mean reward of its successors, which gives the expected value one step later; it "
        "gets the reward of its predecessors."
    )
    mistakes = {
        "these are the true values.": _late(lambda P, r, mu: r),
        "all your values are 0.": _late(lambda P, r, mu: 0 * r),
        successors: _late(lambda P, r, mu: P @ r),
        "the columns of P do not sum to 1, so its transpose alone is no average: weight the predecessors by how "
        "often they are visited.": _late(lambda P, r, mu: P.T @ r),
        "you gave all predecessors of a state the same weight or forgot how often they are visited.": _late(
            lambda P, r, mu: P.T @ r / P.sum(axis=0)
        ),
        "you weighted the predecessors by how often they are visited, but did not divide by how often the state "
        "itself is.": _late(lambda P, r, mu: (mu * r) @ P),
        "you weighted the wrong way round: divide by how often the state itself is visited.": _late(
            lambda P, r, mu: mu * ((r / mu) @ P)
        ),
        "the rewards are those of the predecessors, but your values look backwards, too: only the rewards are "
        "averaged backwards.": _late(transition=_backwards),
        "this is the reward that the states are paid; now take its value.": _late(discount=lambda gamma: 0.0),
        "the rewards are right, but this is the value of the walk seen backwards with its own rewards.": _late(
            lambda P, r, mu: r, _backwards
        ),
        "the rewards come late, but they are not discounted once more.": lambda P, r, gamma: (
            gamma * _late()(P, r, gamma)
        ),
    }

    rng = generator("prompt_matrix.late_value")
    cases = {}
    for n_states, gamma in [(4, 0.8), (7, 0.95), (5, 0.0)]:
        process = mrp.boyan_chain(n_states, gamma, rng)
        cases[f"with {n_states} states and gamma = {gamma}"] = process.transition, process.reward, gamma
    cases["with two states"] = np.array([[0.9, 0.1], [0.6, 0.4]]), rng.uniform(-1, 1, 2), 0.6
    cases["on a circle of 4 states"] = np.eye(4)[[1, 2, 3, 0]], rng.uniform(-1, 1, 4), 0.8  # periodic

    def advice(arguments, found):
        P, r, gamma = arguments
        mu, true = mrp.MRP(P, r, gamma).stationary(), np.linalg.solve(np.eye(len(r)) - gamma * P, r)
        if not nearly(mu @ found, mu @ true):
            return (
                "the mean of your values, weighted by how often states are visited, differs from that of the true "
                "values."
            )
        return "your values are off. First find what each state is paid: the mean reward for leaving its predecessors."

    judge_function(answer, _late(), cases, mistakes, advice)
    return "The mean over the states is that of the true values."


# ----------------------------------------------------------------------------------- transition step


def _transition_step(
    error=lambda T: (T[-3] + T[-2] - T[-1])[:-1],
    weights=lambda left, queries: softmax(left[:, :-1].T @ queries),
    target=lambda T, gamma, entered: T[-2, :-1] + gamma * entered,
    value=lambda T, heard: T[-1] + heard,
):
    """One step on transitions; ``entered`` is what the states that are entered hear."""

    def function(T, gamma):
        d = (len(T) - 3) // 2
        left, entered = T[:d], T[d : 2 * d]
        new = T.copy()
        new[-1] = value(T, error(T) @ weights(left, left))
        new[-2, :-1] = target(T, gamma, (error(T) @ weights(left, entered))[:-1])
        return new

    return function


def _own_error(T, heard):
    return np.append(T[-1, :-1] + (T[-3] + T[-2] - T[-1])[:-1], T[-1, -1])


def _neighbours(T, gamma):
    new = _transition_step()(T, gamma)
    new[-2, :-1] = gamma * new[-1, 1:]
    return new


def _late_targets(T, gamma):
    """The target memory moves with errors that are made of the new values."""
    new = _transition_step()(T, gamma)
    moved = np.vstack([T[:-1], new[-1:]])
    new[-2] = _transition_step()(moved, gamma)[-2]
    return new


def _target_like_left(T, gamma):
    new = _transition_step()(T, gamma)
    new[-2, :-1] = T[-2, :-1] + gamma * (new[-1] - T[-1])[:-1]
    return new


def _transition_prompts():
    """Settings, prompts whose columns are transitions, and discounts: three steps on each of several walks."""
    cases = []
    for n, d, gamma, shuffled, opposite in [
        (8, 3, 0.8, False, False),
        (8, 3, 0.8, True, False),
        (20, 2, 0.9, True, False),
        (5, 1, 0.0, True, False),
        (1, 2, 0.7, False, False),
        (6, 2, 0.7, True, True),
    ]:
        rng = generator("prompt_matrix.transition_step", n, d, shuffled)
        x, rewards, _, _ = _data(rng, n=n, dim=d)
        if opposite:  # a last state that is new, and unlike all others
            x[:-1, 0], x[-1, 0] = 10, -10
        order = rng.permutation(n) if shuffled else np.arange(n)
        T = np.zeros((2 * d + 3, n + 1))
        T[:d, :-1], T[d : 2 * d, :-1], T[-3, :-1] = x[:-1].T[:, order], x[1:].T[:, order], rewards[order]
        T[:d, -1] = x[-1]
        for t, values in enumerate(td.weighted_softmax_td(x, rewards, gamma, 3)):
            T = T.copy()
            T[-1], T[-2, :-1] = np.append(values[:-1][order], values[-1]), gamma * values[1:][order]
            T[-2, -1] = rng.normal()  # free, so it must play no part
            setting = f"with {n} transition{'s' * (n > 1)}{' in random order' if shuffled else ''}, "
            setting += f"{'scores near -100, ' if opposite else ''}d = {d} and gamma = {gamma}, "
            setting += f"in step {t + 1},"
            cases.append((setting, (T, gamma)))
    return cases


_TRANSITION_MISTAKES = {
    "each column moved by its own error only; it should move by the weighted errors of all.": (
        _transition_step(value=_own_error, target=lambda T, gamma, entered: T[-2, :-1]),
        _transition_step(value=_own_error),
    ),
    "the query takes part as a source. Leave its column out of the n sources (the query is none).": (
        _transition_step(lambda T: T[-3] + T[-2] - T[-1], lambda left, queries: softmax(left.T @ queries)),
        _transition_step(weights=lambda left, queries: softmax(left.T @ queries)[:-1]),
        _transition_step(lambda T: T[-3] + np.append(T[-2, :-1], 0) - T[-1], lambda left, q: softmax(left.T @ q)),
    ),
    "the target memory has not moved; it holds a value that changes, too.": _transition_step(
        target=lambda T, gamma, entered: T[-2, :-1]
    ),
    "you copy from the next column; in this layout neighbours need not follow each other.": _neighbours,
    "the target row lacks the discount.": _transition_step(target=lambda T, gamma, entered: T[-2, :-1] + entered),
    "the target row was replaced by what it should only move by.": _transition_step(
        target=lambda T, gamma, entered: gamma * entered
    ),
    "the target memory moves with errors from after the step; take those from before it.": _late_targets,
    "the target memory moves like the value of the state that is left; it holds that of the state that is "
    "entered.": _target_like_left,
    "your softmax runs along the wrong axis: for each query the weights of the sources sum to 1.": _transition_step(
        weights=lambda left, queries: softmax(left[:, :-1].T @ queries, axis=1)
    ),
    "you left the target memory out of the TD errors.": _transition_step(lambda T: (T[-3] - T[-1])[:-1]),
    "you left the value memory out of the TD errors.": _transition_step(lambda T: (T[-3] + T[-2])[:-1]),
    "the TD errors have the wrong sign.": _transition_step(lambda T: -(T[-3] + T[-2] - T[-1])[:-1]),
    "the value row was replaced by what it should only move by.": _transition_step(value=lambda T, heard: heard),
    "the query has not moved; it listens, too.": _transition_step(
        value=lambda T, h: np.append((T[-1] + h)[:-1], T[-1, -1])
    ),
    "nothing has changed.": lambda T, gamma: T,
}


def transition_step(answer):
    """A function (T, gamma) -> new T, for columns that are transitions in any order."""

    def advice(arguments, result):
        T, gamma = arguments
        right = _transition_step()(T, gamma)
        if not nearly(result[:-2], T[:-2]):
            return "features or rewards have changed; only the memories may."
        if not nearly(result[-1], right[-1]):
            return (
                "the value row is off. Compare the first block of the query column with that of the n "
                "source columns (the query is none), and weight the errors from before the step."
            )
        return "the target row is off. It should move like the value of the state that is entered, times the discount."

    found, cases = [], _transition_prompts()
    for setting, (T, gamma) in cases:
        result = numbers(call(answer, T, gamma, where=setting), T.shape, f"{setting} your matrix", finite=False)
        result[-2, -1] = T[-2, -1]  # free
        found.append(result)
    judge(found, _transition_step(), cases, _TRANSITION_MISTAKES, advice, "your matrix")
    return "The columns may stand in any order; two softmaxes per step replace the shift."


# -------------------------------------------------------------------------------------------- bug labs


def _masked(scores):
    return np.vstack([softmax(scores[:-1]), np.zeros_like(scores[:1])])


def _step(
    weights=_masked,
    error=lambda Z: Z[-3] + Z[-2] - Z[-1],
    target=lambda Z, values, gamma: np.append(gamma * values[1:], Z[-2, -1]),
    transposed=False,
):
    """The chapter's step with something wrong in it; weights belong to all columns as sources."""

    def function(Z, A, gamma):
        new = Z.copy()
        new[-1] += error(Z) @ weights(Z.T @ (A.T if transposed else A) @ Z)
        new[-2] = target(Z, new[-1], gamma)
        return new

    return function


def _zero_score(scores):
    return softmax(np.vstack([scores[:-1], 0 * scores[:1]]))


def bug_step(answer):
    """A mended `suspect_step(Z, A, gamma)`."""

    def without_query(Z):
        return (Z[-3] + Z[-2] - Z[-1]) * np.append(np.ones(Z.shape[1] - 1), 0)

    share = (
        "the query adds no error any more, but it still takes a share of every softmax. The weights of the n real "
        "sources should sum to 1."
    )
    misfit = "the values are right, but the target memory does not fit them: "
    mistakes = {
        "nothing has changed: the query still is a source.": _step(softmax),
        share: _step(softmax, without_query),
        "your mask hides the last column as a query; it must hide it as a source.": _step(
            lambda scores: np.hstack([softmax(scores[:, :-1]), 0 * scores[:, :1]])
        ),
        "your mask hides the query as a source and as a query; it should listen.": _step(
            lambda scores: np.hstack([_masked(scores)[:, :-1], 0 * scores[:, :1]])
        ),
        "your softmax runs along the wrong axis: for each column, the weights of the sources sum to 1.": _step(
            lambda scores: np.vstack([softmax(scores[:-1], axis=1), 0 * scores[:1]])
        ),
        "A is transposed: the source stands on the left.": _step(transposed=True),
        "you dropped the first column instead of the query.": _step(lambda s: np.vstack([0 * s[:1], softmax(s[1:])])),
        "the sources have to be weighted; yours all count the same.": _step(lambda s: _masked(0 * s)),
        "a score of 0 does not hide the query: e to the power 0 is 1.": _step(_zero_score),
        misfit + "it has not been written.": _step(target=lambda Z, values, gamma: Z[-2]),
        misfit + "it lacks the discount.": _step(target=lambda Z, values, gamma: np.append(values[1:], Z[-2, -1])),
        misfit + "it speaks of the column's own state.": _step(
            target=lambda Z, v, gamma: np.append(gamma * v[:-1], Z[-2, -1])
        ),
        misfit + "nothing follows the query.": _step(target=lambda Z, values, gamma: gamma * np.roll(values, -1)),
    }

    cases = {}
    for setting, (x, rewards, values, gamma) in _cases(
        "bug_step", [(7, 3, 0.8), (5, 3, 0.6), (1, 2, 0.9), (6, 1, 0.5), (4, 2, 0.0)]
    ).items():
        d = x.shape[1]
        A = embedded(generator("prompt_matrix.bug_step", setting).standard_normal((d, d)))
        cases[setting] = prompt.build_prompt(x, rewards, values, gamma), A, gamma
    x, A = np.hstack([np.ones((len(x), 1)), x]), np.pad(A, ((1, 0), (1, 0)))
    A[0, 0] = -200  # a mask that is just some negative number does not hide the query here
    cases["where all scores are near -200"] = prompt.build_prompt(x, rewards, values, 0.7), A, 0.7

    def advice(arguments, found):
        Z = arguments[0]
        if not nearly(found[:-2], Z[:-2]):
            return "the features or the rewards have changed; only the memories may."
        if not nearly(found[-1], _step()(*arguments)[-1]):
            return (
                "the values are off. Every column, the query included, should move by the weighted errors of the "
                "sources; the score of source i for query j is entry (i, j) of the product with the source on the left."
            )
        return "the values are right, but the target memory does not fit them."

    judge_function(answer, _step(), cases, mistakes, advice)
    return "The query listens, and nobody listens to it."


def bug_builder(answer):
    """A mended `suspect_build(x, rewards)`."""
    cases = {setting: data[:2] for setting, data in _cases("bug_builder", _SIZES[:5]).items()}
    _prompts(answer, cases, prompt.build_prompt)
    return "Each reward stands with the state that it was paid for leaving."


EXERCISES = by_hand, build, reader, warm_start, find_fault, late_value, transition_step, bug_step, bug_builder
