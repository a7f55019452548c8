"""Exercises of the chapter on weighted softmax TD; the statements stand in book/weighted_softmax_td.ipynb."""

import numpy as np

from ictd import empirical, features, kernels, mrp, td
from ictd.exercises._answers import NotYet, call, expect, numbers
from ictd.exercises._checking import generator, judge_function, judge_numbers, name_mistake, which_are_right
from ictd.exercises._values import BY_HAND, ROUNDED, ROUNDING, expect_close
from ictd.exercises._walks import walks

# ------------------------------------------------------------------------------------------- by hand

HAND_STATES, HAND_REWARDS, HAND_GAMMA, HAND_SCALE = [1, 0, 2, 1], [2.0, -2.0, 6.0], 0.5, np.log(2)


def by_hand(answer):
    """v_2 of the states A, B, C on the trajectory B -> A -> C -> B."""
    answer = numbers(answer, (3,))
    trajectory, X = mrp.Trajectory(HAND_STATES, HAND_REWARDS), features.one_hot(3)

    def steps(walk=trajectory, scale=HAND_SCALE, gamma=HAND_GAMMA, n_steps=2):
        return td.weighted_softmax_td_states(walk, X, gamma, n_steps, score=kernels.inner_product_score(scale))

    _, first, right = steps()
    model = empirical.empirical_model(trajectory, 3)
    kernel = kernels.state_kernel(model, X, kernels.inner_product_score(HAND_SCALE))
    change = kernel @ (model.reward + HAND_GAMMA * model.transition @ first - first)
    swept = first.copy()
    for state in (1, 0, 2):
        swept[state] += kernel[state] @ (model.reward + HAND_GAMMA * model.transition @ swept - swept)
    mistakes = {
        "all your values are 0.": 0 * right,
        "these are the rewards.": model.reward,
        "these are the values after one step; take one more.": first,
        "you have taken a third step; two are enough.": steps(n_steps=3)[-1],
        "the order should be A, B, C, not the order of the visits.": right[[1, 0, 2]],
        "you gave all three sources the same weight; the own state counts double.": steps(scale=0.0)[-1],
        "the own state has three times the weight of another; it counts double.": steps(scale=np.log(3))[-1],
        "in the second step the TD errors are no longer the rewards alone: add gamma v_1 of the successor and take "
        "away v_1 of the state that is left.": first + kernel @ model.reward,
        "you left out the discount in the second step.": first
        + kernel @ (model.reward + model.transition @ first - first),
        "in the second step you did not take away v_1 of the state that is left.": first
        + kernel @ (model.reward + HAND_GAMMA * model.transition @ first),
        "in the second step you took v_1 of the predecessor instead of the successor.": first
        + kernel @ (model.reward + HAND_GAMMA * model.transition.T @ first - first),
        "you have the change in the second step; add it to v_1.": change,
        "in the second step each state moved by its own error only.": first
        + (model.reward + HAND_GAMMA * model.transition @ first - first),
        "all TD errors of a step use the values from before that step.": swept,
        "these are the values of the example in the text; the walk here is another one.": steps(
            mrp.Trajectory([0, 1, 2, 0], [4.0, 0.0, 8.0])
        )[-1],
        "these are the limits after many steps; two steps are enough.": steps(n_steps=400)[-1],
    }

    def advice(answer):
        return which_are_right("ABC", np.abs(answer - right) < ROUNDING) or (
            "write down v_1 first: with v_0 = 0 the three TD errors are the rewards, and each state takes half of the "
            "error of its own transition and a quarter of each other one."
        )

    inexact = "you are within rounding; give the exact fractions, for example 3/8 instead of 0.4."
    judge_numbers(answer, right, mistakes, advice, inexact, BY_HAND)


# -------------------------------------------------------------------------------------------- kernel


def _normalised(weights, axis=1):
    return weights / weights.sum(axis=axis, keepdims=True)


def _kernel(scores, counts):
    scores = np.where(counts > 0, scores, -np.inf)
    return _normalised(counts * np.exp(scores - scores.max(axis=1, keepdims=True)))


def _hardmax(scores, counts):
    return np.eye(len(counts))[scores.argmax(axis=1)]


_WRONG_SCORES = {
    "all your weights are equal; the scores do nothing.": lambda s, c: np.full(s.shape, 1 / len(c)),
    "you give all the weight to the largest score; that is no softmax.": _hardmax,
    "large scores should get large weights; in yours it is the other way round.": lambda s, c: _kernel(-s, c),
    "you divided the scores by a square root; here such a factor is part of the score.": lambda s, c: _kernel(
        s / np.sqrt(len(c)), c
    ),
    "you took the largest score of each column away; that changes the weights of a row.": lambda s, c: _normalised(
        np.exp(s - s.max(axis=0))
    ),
}
_WRONG_COUNTS = {
    "the counts change nothing in your kernel: a source left three times has three times the weight.": (
        lambda s, c: _kernel(s, np.ones(len(c)))
    ),
    "after multiplying with the counts, normalise again.": lambda s, c: _kernel(s, np.ones(len(c))) * c,
    "after multiplying with the counts, normalise again; a division by their sum or their mean is not enough.": (
        lambda s, c: _kernel(s, np.ones(len(c))) * c / c.mean()
    ),
    "you divide by the counts; a source that was left often has more weight.": lambda s, c: _kernel(s, 1 / c),
    "you add the counts to the scores; they multiply the exponentials.": lambda s, c: _kernel(s + c, np.ones(len(c))),
    "you multiply the scores by the counts; the counts multiply the exponentials.": lambda s, c: _kernel(
        s * c, np.ones(len(c))
    ),
    "the counts enter squared.": lambda s, c: _kernel(s, c**2),
}


def kernel(answer):
    """A function (scores (q, m), counts (m,)) -> (q, m)."""
    rng = generator("weighted_softmax_td.kernel")
    cases = {
        f"for scores of shape {shape}": (rng.normal(size=shape), 1 + rng.permutation(9)[: shape[1]])
        for shape in [(4, 6), (3, 3), (1, 4), (5, 3)]
    }
    all_ones = {
        f"with counts of 1, {setting}": (scores, np.ones_like(counts)) for setting, (scores, counts) in cases.items()
    }
    for setting, (scores, counts) in all_ones.items():
        weights = numbers(call(answer, scores, counts), scores.shape, f"{setting} your kernel")
        sums = weights.sum(axis=1)
        expect(
            np.allclose(sums, 1, atol=ROUNDING),
            f"{setting} each row should sum to 1. "
            + (
                "Yours has columns that sum to 1: normalise over the sources."
                if np.allclose(weights.sum(axis=0), 1)
                else f"The first row sums to {sums[0]:.4g}."
            ),
        )
    advice = "the weights should be the softmax of each row of scores; they are not."
    judge_function(answer, _kernel, all_ones, _WRONG_SCORES, advice, "your kernel")
    advice = "the counts should multiply the exponentials inside the sum too."
    judge_function(answer, _kernel, cases, _WRONG_COUNTS, advice, "your kernel")
    _expect_stable_kernel(answer, rng)
    return "It also stands scores of 10,000 and sources that were never left."


def _expect_stable_kernel(answer, rng):
    """Expect the right weights at scores of 10,000, and where a source with count 0 has the largest score."""
    counts = np.array([3, 1, 2, 5, 4, 7])
    base = np.array([[1e4], [0.0], [-1e4], [1e4]])
    for scores in (1e3 * np.array([rng.permutation(9)[:6] for _ in range(4)]), base + rng.integers(-8, 9, (4, 6)) / 8):
        # differences that float32 holds, so that it has no excuse
        large = numbers(call(answer, scores, counts), (4, 6), "your kernel at scores of 10,000", finite=False)
        expect(
            np.allclose(large.sum(axis=1), 1, atol=ROUNDING),
            "at scores of 10,000 the exponentials overflow or vanish: take the largest score of a row away first.",
        )
        exact = _kernel(scores, counts)
        expect(
            (large.argmax(axis=1) == exact.argmax(axis=1)).all(),
            "at scores of 10,000 the largest score of a row should take all the weight; in yours it does not.",
        )
        expect_close(
            large,
            exact,
            "at scores of 10,000 your weights are off: take a number away from each row of scores, and change nothing "
            "else about them.",
        )
    counts[2], others = 0, rng.integers(-16, 17, (4, 6)) / 8
    for score, level, reason in [  # of the source that was never left, and of all others
        (
            0,
            0,
            "a source with count 0 should have weight 0, and the others should share the rest as if it were not there.",
        ),
        (5e3, 0, "a source with count 0 may have the largest score of all; your other weights should not notice."),
        (
            -25e3,
            -2e4,
            "a source with count 0 should have weight 0 even where all other scores are far below 0: a large negative "
            "number in place of its score is not small enough for every row.",
        ),
    ]:
        scores = others + level
        scores[:, 2] = score
        weights = numbers(call(answer, scores, counts), (4, 6), "your kernel with a count of 0", finite=False)
        expect_close(weights, _kernel(scores, counts), reason)


# ---------------------------------------------------------------------------------------- state step


def _td_error(v, r, P, gamma):
    return r + gamma * P @ v - v


def _state_step(
    error=_td_error, listen=lambda M, error: M @ error, old=lambda v, step_size: v, step=lambda step_size: step_size
):
    """A step in state form; ``error`` makes the TD errors, ``listen`` what each state hears of them."""

    def function(values, kernel, reward, transition, gamma, step_size):
        errors = error(values, reward, transition, gamma)
        return old(values, step_size) + step(step_size) * listen(kernel, errors)

    return function


def state_step(answer):
    """A function (values, kernel, reward, transition, gamma, step_size) -> values, on visited states."""
    mistakes = {
        "you returned the change; add it to the old values.": _state_step(old=lambda v, a: 0),
        "the step size does nothing.": _state_step(step=lambda a: 1),
        "you used the transposed kernel: rows are queries.": _state_step(listen=lambda M, e: M.T @ e),
        "the kernel does nothing: that is the plain Bellman step.": _state_step(listen=lambda M, e: e),
        "each state hears its own error only, times its own weight; it should hear all of them.": _state_step(
            listen=lambda M, e: np.diag(M) * e
        ),
        "you used the transposed transition matrix: row s holds the successors of s.": _state_step(
            lambda v, r, P, g: r + g * P.T @ v - v
        ),
        "you left out the old value of the state in the TD error.": _state_step(lambda v, r, P, g: r + g * P @ v),
        "you left out the reward in the TD error.": _state_step(lambda v, r, P, g: g * P @ v - v),
        "you left out the value of the successor in the TD error.": _state_step(lambda v, r, P, g: r - v),
        "apply the kernel to the whole TD error, not to a part of it.": (
            lambda v, M, r, P, g, a: v + a * (r + g * M @ P @ v - v),
            lambda v, M, r, P, g, a: v + a * (M @ r + g * P @ v - v),
            lambda v, M, r, P, g, a: v + a * (r + M @ (g * P @ v - v)),
        ),
        "kernel and transition matrix are exchanged.": lambda v, M, r, P, g, a: v + a * P @ (r + g * M @ v - v),
        "the TD error has the wrong sign.": _state_step(step=lambda a: -a),
        "the discount is missing.": _state_step(lambda v, r, P, g: r + P @ v - v),
        "the discount belongs to the successor's value, not to the reward.": _state_step(
            lambda v, r, P, g: g * (r + P @ v) - v
        ),
        "the step size scales the old values too.": _state_step(old=lambda v, a: (1 - a) * v),
        "this replaces the values by averaged targets; the kernel should average TD errors, target minus value.": (
            lambda v, M, r, P, g, a: v + a * (M @ (r + g * P @ v) - v)
        ),
        "the values have not changed.": lambda v, M, r, P, g, a: v,
    }
    rng, cases = generator("weighted_softmax_td.state_step"), {}
    for n_states, gamma, step_size in [(5, 0.8, 0.6), (3, 0.95, 1.5), (1, 0.5, 0.25), (4, 0.0, 0.75)]:
        M, P = (rng.dirichlet(np.ones(n_states), n_states) for _ in range(2))
        setting = f"with {n_states} state{'s' if n_states > 1 else ''}, gamma = {gamma} and step size {step_size}"
        cases[setting] = rng.normal(size=n_states), M, rng.normal(size=n_states), P, gamma, step_size
    advice = (
        "your values are off. Read the formula from the inside out: TD errors of the states first, then the kernel, "
        "then the step."
    )
    judge_function(answer, _state_step(), cases, mistakes, advice)


# ------------------------------------------------------------------------------------- scale needed


def _scale(odds=lambda gamma: (1 + gamma) / (1 - gamma), others=lambda count, n: (n - count) / count, log=np.log):
    """The scale at which the own state outweighs the others by the odds, or with something wrong in it."""
    return lambda count, n, gamma: max(0.0, float(log(odds(gamma) * others(count, n))))


_SCALE_MISTAKES = {
    "this is the weight that is needed, not the scale.": lambda count, n, gamma: (1 + gamma) / 2,
    "these are the odds that the exponential has to reach; take the logarithm.": _scale(
        log=lambda odds: odds if odds > 1 else 0
    ),
    "you took the logarithm with base 2; softmax weights are powers of e.": _scale(log=np.log2),
    "you took the logarithm with base 10; softmax weights are powers of e.": _scale(log=np.log10),
    "you compare with all n transitions; the other n - count share the rest.": _scale(others=lambda c, n: n / c),
    "you forgot that the own state was left count times.": _scale(others=lambda c, n: n - c),
    "this is enough for a weight of gamma; the border is (1 + gamma) / 2.": _scale(
        lambda gamma: gamma / (1 - gamma) if gamma else 1e-300
    ),
    "this is enough for odds of (1 + gamma) / 2; the weight has to reach it.": _scale(lambda gamma: (1 + gamma) / 2),
    "count and n - count are exchanged: a state that was left often needs less.": _scale(
        others=lambda c, n: c / (n - c) if n > c else 1e-300
    ),
}


def scale_needed(answer):
    """A function (count, n, gamma) -> smallest score scale >= 0 with M(s,s) >= (1+gamma)/2, one-hot features."""

    def diagonal(scale, count, n):
        return 1 / (1 + (n - count) / count * np.exp(-scale))  # a large scale does not overflow

    cases = [(1, 10, 0.5), (5, 30, 0.9), (3, 200, 0.0), (40, 41, 0.99), (7, 8, 0.75), (2, 5, 0.25)]
    cases += [(9, 10, 0.5), (5, 10, 0.0), (10, 10, 0.5), (1, 1, 0.9)]  # enough weight already
    right, found = _scale(), []
    for case in cases:
        setting = "for count {}, n = {} and gamma = {}".format(*case)
        found.append(float(numbers(call(answer, *case, where=setting), (), f"{setting} your scale", finite=False)))
        expect(not np.isnan(found[-1]), f"{setting} your scale is NaN.")
    needed = [right(*case) for case in cases]
    error = np.abs(np.subtract(found, needed)) / np.maximum(1, needed)
    if (error <= 1e-6).all():  # a search for the border is as good as a formula
        return "The scale grows with the logarithm of n / count and of 1 / (1 - gamma)."
    expect((error > 1e-3).any(), "your scales are " + ROUNDED)
    negative = [case for case, scale in zip(cases, found) if scale < 0]
    expect(
        not negative or np.abs(np.maximum(found, 0) - needed).max() > 1e-3,
        "for count {}, n = {} and gamma = {} your scale is negative; a score scale is at least 0.".format(
            *(negative or cases)[0]
        ),
    )
    name_mistake(
        np.array(found),
        np.array(needed),
        {why: np.array([wrong(*case) for case in cases]) for why, wrong in _SCALE_MISTAKES.items()},
    )
    first = int(np.argmax(error > 1e-3))
    (count, n, gamma), scale = cases[first], found[first]
    reached, goal = diagonal(scale, count, n), (1 + gamma) / 2
    setting = f"for count {count}, n = {n} and gamma = {gamma}"
    expect(
        scale >= needed[first],
        f"{setting} your scale gives a weight of {reached:.4f} on the own state, below the {goal:.4f} that is needed."
        if reached < goal
        else f"{setting} your scale is negative; a score scale is at least 0.",
    )
    raise NotYet(
        f"{setting} a smaller scale is enough: yours gives a weight of {reached:.4f}, and {goal:.4f} is needed."
    )


# --------------------------------------------------------------------------------- third eigenvalue


def third_eigenvalue(answer):
    """A function (q0, q1, q2, gamma) -> the eigenvalue of J that is neither gamma nor 1."""

    def J(q0, q1, q2, gamma):
        K = np.array([[1 - q0, q0], [1 - q1, q1], [1 - q2, q2]])
        return np.eye(3) + K @ np.array([[-1, gamma, 0], [0, -1, gamma]])

    def right(q0, q1, q2, gamma):
        return np.trace(J(q0, q1, q2, gamma)) - 1 - gamma

    largest = "you take the largest of the three eigenvalues; which one depends on q is not a matter of size."
    mistakes = {
        "this is one of the two eigenvalues that do not depend on q.": (
            lambda a, b, c, g: 1.0,
            lambda a, b, c, g: g,
        ),
        "this is the trace; the other two eigenvalues are part of it.": lambda *a: np.trace(J(*a)),
        "this is the trace minus one of the other two eigenvalues; take both away.": (
            lambda *a: np.trace(J(*a)) - 1,
            lambda *a: right(*a) + 1,
        ),
        "this is the determinant, the product of all three eigenvalues.": lambda *a: np.linalg.det(J(*a)),
        largest: (
            lambda *a: max(1.0, right(*a)),
            lambda *a: max(1.0, abs(right(*a))),
        ),
        largest.replace("largest", "smallest"): lambda *a: min(a[3], right(*a)),
        largest.replace("largest", "middle one"): lambda *a: sorted([a[3], 1.0, right(*a)])[1],
        "this is an eigenvalue of K D; J has the identity added to it.": lambda *a: right(*a) - 1,
        "your number is not an eigenvalue: you lost the discount somewhere.": lambda a, b, c, g: 1 + a - 2 * b + c,
        "your number is not an eigenvalue: a sign is wrong, or the weights are exchanged. q is the weight of the "
        "second transition.": lambda a, b, c, g: 1 - a + b * (1 + g) - g * c,
        "your number is not an eigenvalue: one sign is wrong; the query listens too.": lambda a, b, c, g: (
            1 + a - b * (1 + g) - g * c
        ),
        "your number is not an eigenvalue: the query listens too, with its own weight.": lambda a, b, c, g: (
            1 + a - b * (1 + g)
        ),
    }
    rng, cases = generator("weighted_softmax_td.third_eigenvalue"), {}
    while len(cases) < 20:  # on both sides of 1 and of gamma, and away from them
        q, gamma = rng.random(3), 0.0 if len(cases) == 7 else rng.uniform(0.1, 0.99)
        if min(abs(right(*q, gamma) - 1), abs(right(*q, gamma) - gamma)) > 0.05:
            cases[f"at q = ({q[0]:.2f}, {q[1]:.2f}, {q[2]:.2f}) and gamma = {gamma:.2f}"] = *q, gamma
    advice = "your number is not an eigenvalue of the iteration matrix. Write down its diagonal first."
    judge_function(answer, right, cases, mistakes, advice, "your eigenvalue")
    return "With gamma, three weights decide whether the shortest walk that can diverge does so."


# -------------------------------------------------------------------------------------------- faster


def faster_steps(answer):
    """20 positive step sizes that leave a hundredth of the error of alpha = 1, on tasks not seen before."""
    step_sizes = numbers(answer, (20,), "your list of step sizes")
    expect((step_sizes > 0).all(), "all step sizes should be positive.")
    errors = np.array([_errors(np.random.default_rng(100 + task), step_sizes) for task in range(40)])
    start, constant, yours = np.median(errors, axis=0)
    found = f"after 20 steps the median error is {yours:.3g} with your steps and {constant:.3g} with steps of 1"
    expect(yours <= start, f"{found}: repeated large steps blow up every direction that they overshoot.")
    expect(
        yours <= constant or step_sizes.sum() >= 20,
        f"{found}: your steps are too small, together less than twenty steps of 1.",
    )
    expect(yours <= constant / 100, f"{found}; the goal is a hundredth of that.")
    return f"{found[0].upper()}{found[1:]}."


def _errors(rng, step_sizes):
    process = mrp.boyan_chain(8, 0.9, rng)
    trajectory = process.sample(200, rng, start_state=0)
    X = features.one_hot(8)
    score = kernels.inner_product_score(6.0)
    target = empirical.certainty_equivalence(empirical.empirical_model(trajectory, 8), 0.9, boundary=0.0)
    runs = [td.weighted_softmax_td_states(trajectory, X, 0.9, 20, steps, score)[-1] for steps in (1.0, step_sizes)]
    known = np.isfinite(target)
    # NaN comes from values that overflowed
    return [np.nan_to_num(np.abs(v - target)[known], nan=np.inf, posinf=np.inf).max() for v in (np.zeros(8), *runs)]


# --------------------------------------------------------------------------------------------- bug lab


def _algorithm(
    K=lambda x: kernels.softmax_kernel(x, x[:-1]),
    error=lambda v, r, gamma: r + gamma * v[1:] - v[:-1],
    order=None,
    fixed_errors=False,
    report=lambda history: history,
):
    """Weighted softmax TD at all steps; ``order`` updates positions one after the other."""

    def function(x, rewards, gamma, n_steps):
        weights, v = K(x), np.zeros(len(x))
        first, history = error(v, rewards, gamma), [v]
        for _ in range(n_steps):
            v = v.copy()
            if order:
                for j in order(range(len(x))):
                    v[j] += weights[j] @ error(v, rewards, gamma)
            else:
                v += weights @ (first if fixed_errors else error(v, rewards, gamma))
            history.append(v)
        return report(np.array(history))

    return function


def _same_state(x):
    same = (x[:, None] == x[None, :-1]).all(axis=-1).astype(float)
    return same / np.maximum(same.sum(axis=1, keepdims=True), 1)


def _wrong_axis(x):
    return _normalised(np.exp(x @ x[:-1].T), axis=0)


def bug(answer):
    """A mended `suspect(x, rewards, gamma, n_steps)`, with values at all steps."""
    mistakes = {
        "nothing has changed: visits of one state still differ.": _algorithm(order=iter),
        "visits of one state still differ: now the last position goes first.": _algorithm(order=reversed),
        "the TD errors never change: compute them anew in every step, before the loop over positions.": _algorithm(
            fixed_errors=True
        ),
        "all rows of your history are the last one: store a copy of the values.": _algorithm(
            report=lambda h: 0 * h + h[-1]
        ),
        "the query has become a source: its weight is lost.": _algorithm(
            lambda x: kernels.softmax_kernel(x, x)[:, :-1]
        ),
        "the weights of each source sum to 1 over the positions; those of each position should.": _algorithm(
            _wrong_axis
        ),
        "all sources have the same weight now.": _algorithm(lambda x: np.full((len(x), len(x) - 1), 1 / (len(x) - 1))),
        "a position listens to visits of its own state only; the kernel was right before.": _algorithm(_same_state),
        "the discount is missing.": _algorithm(error=lambda v, r, gamma: r + v[1:] - v[:-1]),
        "the values of the successors are missing.": _algorithm(error=lambda v, r, gamma: r - v[:-1]),
        "your values are the changes; add them up.": _algorithm(
            report=lambda h: np.vstack([h[:1], np.diff(h, axis=0)])
        ),
        "all your values are 0.": _algorithm(report=lambda h: 0 * h),
    }

    rng, cases = generator("weighted_softmax_td.bug features"), {}
    sizes = [(3, 12), (2, 5), (4, 6), (1, 3), (3, 4), (2, 6)]
    for (setting, (states, rewards, gamma, n)), (d, n_steps) in zip(walks("weighted_softmax_td.bug").items(), sizes):
        X = rng.normal(size=(n, d))
        cases[f"{setting}, with d = {d} and {n_steps} steps,"] = X[states], rewards, gamma, n_steps

    def advice(arguments, found):
        x, right = arguments[0], _algorithm()(*arguments)
        spread = max(np.ptp(found[:, (x == one).all(axis=1)], axis=1).max() for one in x)
        if spread > ROUNDING:
            return f"visits of one state still differ, by {spread:.2g} within {arguments[3]} steps."
        step = int(np.argmax(np.abs(found - right).max(axis=1) > ROUNDING))
        return f"visits of one state agree now, but the values are off from step {step} on."

    judge_function(answer, _algorithm(), cases, mistakes, advice, "your history")
    return "Visits of one state agree at every step again."


EXERCISES = by_hand, kernel, state_step, scale_needed, third_eigenvalue, faster_steps, bug
