"""Exercises of the chapter on pretraining and the NEU loss; the statements stand in book/neu_pretraining.ipynb.

PyTorch is loaded by the exercise that needs it, so that ``check`` runs where it is missing.
"""

import functools
import time

import numpy as np

from ictd import features, inputs, kernels, mrp
from ictd.exercises._answers import NotYet, call, expect, numbers
from ictd.exercises._checking import generator, judge_function, judge_numbers, name_mistake
from ictd.exercises._values import ROUNDED, ROUNDING, close

# ------------------------------------------------------------------------------------------- by hand

# B -> A -> C -> B: rewards for leaving A, B, C; answers v(s) = phi(s) w; successors
REWARD, PHI, NEXT = np.array([-2.0, 2.0, 6.0]), np.array([1.0, 2.0, 3.0]), [2, 0, 1]
DIFFERENCE = 0.5 * PHI[NEXT] - PHI  # the TD error is REWARD + w DIFFERENCE
REST = -(REWARD @ PHI) / (DIFFERENCE @ PHI)
RESIDUAL = -(REWARD @ DIFFERENCE) / (DIFFERENCE @ DIFFERENCE)


def _updates(w):
    return (REWARD + w * DIFFERENCE) * PHI


def _inexact(name):
    return f"{name} is right up to rounding; give it as an expression, such as 112 / 53."


def by_hand(answer):
    """[w at rest, NEU at w = 1, expected square of a single update at rest]."""
    answer = numbers(answer, (3,))
    rest, loss, single = answer
    right = np.array([REST, _updates(1.0).mean() ** 2, (_updates(REST) ** 2).mean()])
    if close(answer, right):
        return "At rest NEU is 0, and a single squared update is nowhere near it."
    undiscounted, errors = PHI[NEXT] - PHI, REWARD + REST * DIFFERENCE
    expect(not close(np.sort(answer), np.sort(right)), "the order should be w at rest, NEU at w = 1, expected square.")
    judge_numbers(
        rest,
        REST,
        {
            "that is the resting point of the walk in the text, not of this one.": 112 / 53,
            "the first number minimises squared TD errors; TD holds its target fixed.": RESIDUAL,
            "the first number makes the mean TD error 0; the update is the TD error times the gradient.": (
                -REWARD.sum() / DIFFERENCE.sum()
            ),
            "the discount is missing in the first number.": -(REWARD @ PHI) / (undiscounted @ PHI),
            "the first number has the wrong sign.": -REST,
            "the first number fits the rewards alone; the target contains the successor.": REWARD @ PHI / (PHI @ PHI),
        },
        "the first number is not the resting point: write down the TD error of each query, multiply it by 1, 2 or 3, "
        "and sum.",
        _inexact("the first number"),
    )
    judge_numbers(
        loss,
        right[1],
        {
            "for the second number take the mean of the three updates before you square, not their sum.": (
                _updates(1.0).sum() ** 2
            ),
            "the second number squares first and averages then; NEU averages first.": (_updates(1.0) ** 2).mean(),
            "the second number is the expected update; square it.": _updates(1.0).mean(),
            "the second number is the square of the mean TD error; the update is the TD error times the gradient.": (
                (REWARD + DIFFERENCE).mean() ** 2
            ),
            "the second number is the mean squared TD error, another loss.": ((REWARD + DIFFERENCE) ** 2).mean(),
            "the second number is NEU at rest; it is asked for w = 1.": 0.0,
            "NEU has no factor of one half.": right[1] / 2,
        },
        "the first number is right; the second is not: it is the square of the mean of the three updates at w = 1.",
        _inexact("the second number"),
    )
    judge_numbers(
        single,
        right[2],
        {
            "the third number is not NEU: square each of the three updates, then take the mean.": 0.0,
            "the third number is a sum; each query has a third.": (_updates(REST) ** 2).sum(),
            "the third number is the mean squared TD error; the update is the TD error times the gradient.": (
                (errors**2).mean()
            ),
            "the third number is the expected square at w = 1; it is asked at rest.": (_updates(1.0) ** 2).mean(),
            "the third number divides by 2, as for a variance from three draws; these are all cases, not draws.": (
                (_updates(REST) ** 2).sum() / 2
            ),
            "the third number is the root of the expected square.": right[2] ** 0.5,
        },
        "two numbers are right; for the third square each update at rest, then take the mean.",
        _inexact("the third number"),
    )


def detach(answer):
    """The w at which the residual gradient rests."""
    answer = numbers(answer, ())
    if close(answer, RESIDUAL):
        return "The target is part of what is minimised now, and moves towards the prediction."
    judge_numbers(
        answer,
        RESIDUAL,
        {
            "that is where TD rests, with the target held fixed.": REST,
            "that belongs to the walk in the text; this is another one.": 68 / 31,
            "you left the successor out; the target contains it.": REWARD @ PHI / (PHI @ PHI),
            "there the mean TD error is 0, not the derivative of its mean square.": -REWARD.sum() / DIFFERENCE.sum(),
            "the sign is wrong: the TD error's derivative is gamma times the next phi, less the own phi.": -RESIDUAL,
        },
        "write the mean of the three squared TD errors as a function of w, and set its derivative to 0.",
        _inexact("your number"),
    )


# --------------------------------------------------------------------------------------- all pairs


def _seconds(function, *arguments):
    """The shorter of two runs."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        call(function, *arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def _over_pairs(form=lambda squares, pairs, B: pairs / (B * (B - 1))):
    """A function of the sum of squared norms, the sum over ordered pairs of different updates, and B."""

    def function(updates):
        squares = (updates**2).sum()
        return form(squares, (updates.sum(axis=0) ** 2).sum() - squares, len(updates))

    return function


def _halves(updates):
    half = len(updates) // 2
    return updates[:half].mean(axis=0) @ updates[half : 2 * half].mean(axis=0)


_PAIR_MISTAKES = {
    "this is the mean of the squared norms: one batch, biased.": _over_pairs(lambda squares, pairs, B: squares / B),
    "this is the squared norm of the mean update: the pairs of equal batches are still in it, biased.": _over_pairs(
        lambda squares, pairs, B: (pairs + squares) / B**2
    ),
    "there are B (B - 1) ordered pairs of different batches, not B².": _over_pairs(
        lambda squares, pairs, B: pairs / B**2
    ),
    "this is the sum over ordered pairs; divide by their number.": _over_pairs(lambda squares, pairs, B: pairs),
    "this is the sum over pairs; divide by their number.": _over_pairs(lambda squares, pairs, B: pairs / 2),
    "this is half of it: with B (B - 1) / 2 pairs each product counts once.": _over_pairs(
        lambda squares, pairs, B: pairs / (2 * B * (B - 1))
    ),
    "this is twice as much: with all ordered pairs there are B (B - 1) of them.": _over_pairs(
        lambda squares, pairs, B: 2 * pairs / (B * (B - 1))
    ),
    "you divided by B (B - 1), but the pairs of equal batches are still in the sum.": _over_pairs(
        lambda squares, pairs, B: (pairs + squares) / (B * (B - 1))
    ),
    "the squared norms go away once, before you divide by the number of pairs.": _over_pairs(
        lambda squares, pairs, B: (pairs + squares) / B**2 - squares / B
    ),
    "the variance of the mean is estimated with B - 1; with B the result is still biased.": _over_pairs(
        lambda squares, pairs, B: (pairs + squares) / B**2 - (squares - (pairs + squares) / B) / B**2
    ),
    "only neighbours are paired; there are more pairs.": lambda g: (g[:-1] * g[1:]).sum() / (len(g) - 1),
    "this pairs the first half with the second: unbiased, but not the mean over all pairs.": _halves,
    "this is the product of the first two updates.": lambda g: g[0] @ g[1],
    "an inner product sums over the p entries; you averaged over them too.": lambda g: _over_pairs()(g) / g.shape[1],
}


def unbiased(answer):
    """A function of updates (B, p): the mean over ordered pairs of different updates of their inner product."""
    rng = generator("unbiased")
    cases = {
        f"for updates of shape {shape}": (rng.normal(size=shape) + 0.5,) for shape in ((5, 3), (2, 4), (9, 1), (4, 4))
    }
    many = {"for 3,000 updates": (rng.normal(size=(3_000, 2)) + 0.5,)}
    advice = "the mean over pairs is another number. Try two updates by hand."
    judge_function(answer, _over_pairs(), cases, _PAIR_MISTAKES, advice, "your estimate")
    few, more = (_seconds(answer, rng.normal(size=(B, 2))) for B in (100, 1_000))
    expect(
        more < max(0.05, 30 * few),  # of the order of 10 without a loop over pairs, of 100 with one
        "the numbers are right, but ten times as many updates take your function about a hundred times as long: it "
        "looks at one pair after the other.",
    )
    judge_function(answer, _over_pairs(), many, _PAIR_MISTAKES, advice, "your estimate")
    return "It also took 3,000 updates, which have nine million ordered pairs."


# --------------------------------------------------------------------------------------- one state


def _one_state(loss=lambda delta, D, gamma: delta**2 * (D @ D), target_factor=True, residual=True, extra=0, late=0):
    """The loss from the error and the derivatives of v_L by (w_R, w_T, w_C), or with one of these parts changed."""

    def function(gamma, n_layers):
        v, D = 0.0, np.zeros(3)
        for _ in range(n_layers + extra):
            after = 1 + gamma * v
            D = (gamma if residual else 0) * D + [1.0, (gamma if target_factor else 1) * v, v]
            v = after
        return loss(gamma ** (n_layers + extra + late), D, gamma)

    return function


def _own_weights(gamma, n_layers):
    """Every layer has weights of its own: squares add up, not derivatives."""
    v = (1 - gamma ** np.arange(n_layers)) / (1 - gamma)
    parts = np.array([np.ones(n_layers), gamma * v, v]) * gamma ** np.arange(n_layers)[::-1]
    return gamma ** (2 * n_layers) * (parts**2).sum()


_ONE_STATE_MISTAKES = {
    "you squared the TD error only; NEU is the squared norm of TD error times gradient.": _one_state(
        lambda delta, D, gamma: delta**2
    ),
    "this is the squared norm of the gradient; the TD error is missing.": _one_state(lambda delta, D, gamma: D @ D),
    "the TD error counts squared, as the gradient does.": _one_state(lambda delta, D, gamma: delta * (D @ D)),
    "this is the norm; NEU is its square.": _one_state(lambda delta, D, gamma: delta * (D @ D) ** 0.5),
    "NEU has no factor of one half.": _one_state(lambda delta, D, gamma: delta**2 * (D @ D) / 2),
    "this counts w_R alone; two more weights have a derivative.": _one_state(
        lambda delta, D, gamma: (delta * D[0]) ** 2
    ),
    "w_C has a derivative too.": _one_state(lambda delta, D, gamma: delta**2 * (D[:2] @ D[:2])),
    "w_T has a derivative too.": _one_state(lambda delta, D, gamma: delta**2 * (D[::2] @ D[::2])),
    "NEU is a sum of three squares, not the square of a sum.": _one_state(
        lambda delta, D, gamma: (delta * D.sum()) ** 2
    ),
    "the norm sums over the three weights; you took the mean.": _one_state(
        lambda delta, D, gamma: delta**2 * (D @ D) / 3
    ),
    "the target weight multiplies gamma v, not v.": _one_state(target_factor=False),
    "this is the derivative by the weights of the last layer alone; all layers share them.": _one_state(residual=False),
    "all layers share three weights: their derivatives add up before you square.": _own_weights,
    "TD holds the target fixed; you differentiated it.": _one_state(
        lambda delta, D, gamma: ((1 - gamma) * delta) ** 2 * (D @ D)
    ),
    "you went one layer too far.": _one_state(extra=1),
    "you stopped one layer early.": _one_state(extra=-1),
    "the TD error is that after L layers: yours is one layer late.": _one_state(late=1),
    "the TD error is that after L layers: yours is one layer early.": _one_state(late=-1),
}


def one_state(answer):
    """A function (gamma, n_layers) -> NEU of a process with one state."""
    cases = {
        f"for gamma = {gamma} and {L} layer{'s' * (L > 1)}": (gamma, L)
        for gamma, L in [(0.8, 3), (0.5, 1), (0.6, 2), (0.9, 1), (0.9, 12), (0.95, 40), (0.0, 4)]
    }

    advice = (
        "the loss is another number. Differentiate v <- v + w_R + gamma w_T v + w_C v by each weight: the derivative "
        "of v on the right-hand side counts too."
    )
    judge_function(answer, _one_state(), cases, _ONE_STATE_MISTAKES, advice, "your NEU")
    peak = 1 + int(np.argmax([_one_state()(0.9, L) for L in range(1, 60)]))
    return f"At gamma = 0.9 it is largest with {peak} layers."


# ------------------------------------------------------------------------------------------ the trap


def _trap(sign=-1.0, twice=2.0, discount=True, target=1.0, order="MPMr", mu=True, reward=True, transposed=""):
    """The w_C at which c = 0, or with one part changed."""

    def function(M, P, r, weights, gamma, w_target):
        M, P = (M.T, P) if transposed == "M" else (M, P.T) if transposed == "P" else (M, P)
        weight = (weights if mu else 1) * (r if reward else 1)
        first = M @ r
        second = {"MPMr": M @ P @ first, "PMMr": P @ M @ first, "MPr": M @ P @ r, "PMr": P @ first}[order]
        rest = twice * first + target * (gamma if discount else 1) * w_target * second
        return sign * (weight @ rest) / (weight @ M @ first)

    return function


_TRAP_MISTAKES = {
    "the sign is wrong.": _trap(sign=1.0),
    "the first layer's M r stays in the residual stream: it counts twice after two layers.": _trap(twice=1.0),
    "the discount is missing: the target memory holds gamma P v.": _trap(discount=False),
    "you left the target memory out.": _trap(target=0.0),
    "the target memory enters with a plus, as the rewards do.": _trap(target=-1.0),
    "the kernel mixes after the step to the successor: look at the order of M and P.": _trap(order="PMMr"),
    "the second layer looks at the values after the first one, M r, not at r.": _trap(order="MPr"),
    "the second layer mixes its errors with the kernel again.": _trap(order="PMr"),
    "states count by the stationary distribution.": _trap(mu=False),
    "c is the expectation of the reward times the derivative; you left the reward out.": _trap(reward=False),
    "rows of the kernel are queries; you used it transposed.": _trap(transposed="M"),
    "rows of the transition matrix are the states that are left; you used it transposed.": _trap(transposed="P"),
}


def trapped(answer):
    """A function (kernel, transition, reward, mu, gamma, w_target) -> w_C with c = 0, for two layers."""
    rng = generator("trapped")
    cases = {}
    for n_states, gamma in [(5, 0.8), (4, 0.5), (6, 0.0)]:
        process = mrp.boyan_chain(n_states, gamma, rng)
        X = features.gaussian(n_states, 3, rng)
        weights = process.stationary() * np.exp(kernels.inner_product_score()(X, X))
        M = weights / weights.sum(axis=1, keepdims=True)
        w_target = float(rng.uniform(0.5, 1.5) * rng.choice([-1, 1]))
        task = M, process.transition, process.reward, process.stationary()
        cases[f"for {n_states} states and gamma = {gamma}"] = *task, gamma, w_target

    def advice(arguments, found):
        M, P, r, mu, gamma, w_target = arguments
        phi = 2 * M @ r + gamma * w_target * M @ P @ M @ r + float(found) * M @ M @ r
        return f"c is {mu * r @ phi:.3g}, not 0. Write down phi after two layers with w_R = 1; it is affine in w_C."

    judge_function(answer, _trap(), cases, _TRAP_MISTAKES, advice, "your w_C")
    return "A minimiser of NEU that answers 0 to every question."


# ----------------------------------------------------------------------------------------- no units


_UNIT_MISTAKES = {
    "K does not appear: the loss still has the units of G.": lambda G, K: G @ G,
    "you multiply by K; units cancel only if you divide.": lambda G, K: G @ K @ G,
    "you divide by K twice.": lambda G, K: G @ np.linalg.inv(K) @ np.linalg.inv(K) @ G,
    "this is the square root of a quadratic form.": lambda G, K: np.sqrt(G @ np.linalg.solve(K, G)),
    "this is the square of a quadratic form.": lambda G, K: (G @ np.linalg.solve(K, G)) ** 2,
    "you divide each entry of G by its own entry of K; parameters that are correlated need the whole matrix.": (
        lambda G, K: (G**2 / np.diag(K)).sum()
    ),
    "you invert K entry by entry; it is a matrix.": lambda G, K: G @ (1 / K) @ G,
    "one number cannot replace K: the trace does not know which parameter has which unit.": (
        lambda G, K: G @ G / np.trace(K)
    ),
    "one number cannot replace K: the mean of the diagonal does not know which parameter has which unit.": (
        lambda G, K: G @ G * len(G) / np.trace(K)
    ),
    "one number cannot replace K: a determinant does not know which parameter has which unit.": (
        lambda G, K: G @ G / np.linalg.det(K)
    ),
    "one number cannot replace K: the root of a determinant does not know which parameter has which unit.": (
        lambda G, K: G @ G / np.linalg.det(K) ** (1 / len(G))
    ),
    "one number cannot replace K: a norm does not know which parameter has which unit.": (
        lambda G, K: G @ G / np.linalg.norm(K, 2)
    ),
    "the Cholesky factor of K is solved once; a quadratic form needs both factors.": (
        lambda G, K: G @ np.linalg.solve(np.linalg.cholesky(K), G)
    ),
}


def _expect_quadratic_form(answer, rng):
    """Expect a loss that does not depend on the units, and is four times as large for twice the update."""
    for p in (2, 4):
        G, root, Q = rng.normal(size=p), rng.normal(size=(p, 2 * p)), rng.normal(size=(p, p)) + 2 * np.eye(p)
        K = root @ root.T
        scales = np.diag(10.0 ** np.arange(p))
        for change, what in ((scales, "other units"), (Q, "other directions")):
            before, after = (float(call(answer, *pair)) for pair in ((G, K), (change.T @ G, change.T @ K @ change)))
            expect(
                abs(after / before - 1) <= 1e-3,
                f"parameters in {what} take your loss for {p} parameters from {before:.4g} to {after:.4g}.",
            )
        expect(
            abs(float(call(answer, 2 * G, K)) / (4 * float(call(answer, G, K))) - 1) <= 1e-3,
            "your loss is not a quadratic form: twice the update should give four times the loss.",
        )


def without_units(answer):
    """A function (G, K) -> G^T K^-1 G, times a positive number that may depend on p and is 1 for p = 1."""
    rng = generator("without_units")
    cases = {}
    for p in (1, 1, 2, 2, 2, 4, 4, 4):
        root = rng.normal(size=(p, 2 * p))
        cases[f"for {p} parameter{'s' * (p > 1)}, pair {len(cases) + 1}"] = rng.normal(size=p) + 0.5, root @ root.T / p
    found = {
        name: numbers(call(answer, *case, where=f"{name},"), (), f"your loss {name}") for name, case in cases.items()
    }
    right = {name: G @ np.linalg.solve(K, G) for name, (G, K) in cases.items()}
    expect(all(value > 0 for value in found.values()), "a loss is positive where G is not 0; yours is not.")
    factors = {}  # a quadratic form without units is fixed up to one factor for each number of parameters
    for name, (G, _) in cases.items():
        factors.setdefault(len(G), []).append(float(found[name] / right[name]))
    tolerance = ROUNDING if any(value.dtype == np.float32 for value in found.values()) else 1e-6
    one = all(abs(factor - 1) <= tolerance for factor in factors[1])
    if one and all(max(same) / min(same) - 1 <= tolerance for same in factors.values()):
        return "Its units are those of the reward, squared."
    name_mistake(
        list(found.values()),
        list(right.values()),
        {reason: [wrong(*case) for case in cases.values()] for reason, wrong in _UNIT_MISTAKES.items()},
    )
    first = next(iter(cases))
    (G,), ((K,),) = cases[first]
    expect(
        one,
        f"for one parameter, G = {G:.3f} and K = {K:.3f}, your loss is {found[first]:.4g}, not the square of G / √K.",
    )
    _expect_quadratic_form(answer, rng)
    off = max(max(same) / min(same) - 1 for same in factors.values())
    expect(off > 1e-3, ROUNDED)
    raise NotYet("your loss has no units, but it is not a quadratic form: it is not proportional to one.")


# ------------------------------------------------------------------------------------------ bug lab


def _products(answer, size, n_pairs, seed):
    result = call(answer, size, n_pairs, np.random.default_rng(seed))
    return numbers(result, (n_pairs,), f"your array of products of {n_pairs} pairs").astype(np.float64)


def _apart(first, second):
    """Largest difference of two empirical distribution functions."""
    points = np.concatenate([first, second])
    below = (np.searchsorted(np.sort(some), points, side="right") / len(some) for some in (first, second))
    return np.abs(np.subtract(*below)).max()


def _correlation(first, second):
    return np.corrcoef(first, second)[0, 1]


def _model():
    from ictd.model import SoftmaxICTD

    return SoftmaxICTD.constructed(4, 2, 0.5, step_size=0.5)


@functools.cache
def _independent(size, n_pairs):
    """Products of independent pairs of batches."""
    from ictd import neu

    windows = inputs.draw_windows(2 * n_pairs, size, 8, 6, 4, np.random.default_rng(13))
    updates = neu.updates(dict(_model().named_parameters()), windows, 2 * n_pairs, 0.5, 2).numpy()
    return (updates[::2] * updates[1::2]).sum(axis=1)


@functools.cache
def _truth():
    from ictd import neu

    return neu.neu(_model(), inputs.draw_windows(64, 256, 8, 6, 4, np.random.default_rng(11)))


def bug(answer):
    """A mended `suspect(batch_size, n_pairs, rng)`."""
    numbers(call(answer, 1, 1, np.random.default_rng(4)), (1,), "your array of products of 1 pair of batches of 1 task")
    products = _products(answer, 4, 3000, 1)
    negative = (products < 0).mean()
    expect(negative > 0, "no product is negative; products of independent updates sometimes are.")
    once, again, other = (_products(answer, 4, 20, seed) for seed in (1, 1, 2))
    expect(np.array_equal(once, again), "equal generators give different products; draw from the generator alone.")
    expect(not np.array_equal(once, other), "the generator does nothing.")
    few = [_products(answer, 32, n_pairs, n_pairs) for n_pairs in (2, 3)]
    # float32 has few numbers near 0, so of many products some may be equal
    repeated = any(len(np.unique(some.round(12))) < 0.99 * len(some) for some in (products, *few))
    expect(not repeated, "some of your pairs are copies of each other; all should be independent.")
    truth = _truth()
    samples = {size: _products(answer, size, n_pairs, 3) for size, n_pairs in ((1, 6000), (32, 300))}
    for size, some in samples.items():  # with one task, what two batches share weighs most
        error = some.std() / len(some) ** 0.5
        far = abs(some.mean() - truth.value) / np.hypot(error, truth.standard_error)
        expect(
            far < 4.5,
            f"in batches of {size} the mean of your products is {some.mean():.4f}, {far:.0f} standard errors away "
            "from NEU. Both the tasks and the walks of the second batch must be new.",
        )
    pairs = np.array([_products(answer, 32, 2, 100 + seed) for seed in range(200)])
    many = samples[32]
    shared = max(_correlation(*pairs.T) * 200**0.5, _correlation(many[1:], many[:-1]) * 299**0.5)
    expect(
        shared < 4.5,
        "each product is one of two independent batches, but different products are correlated: no batch may be in two "
        "pairs.",
    )
    for size, some in ((1, samples[1]), (4, products)):
        ours = _independent(size, 8000)
        sizes = np.abs(some), np.abs(ours)  # means of products agree for batches of any size, those of their sizes not
        error = np.hypot(*(one.std() / len(one) ** 0.5 for one in sizes))
        expect(
            _apart(some, ours) < 2.7 * (1 / len(some) + 1 / 8000) ** 0.5  # so far apart once in a million samples
            and abs(sizes[0].mean() - sizes[1].mean()) < 4.5 * error,
            f"in batches of {size} these are not distributed like products of independent pairs: their standard "
            f"deviation is {some.std():.3f}, not {ours.std():.3f}, and {(some < 0).mean():.0%} are negative, not "
            f"{(ours < 0).mean():.0%}. Both the tasks and the walks of each batch must be new.",
        )
    return f"{negative:.0%} of the products are negative now, and their mean no longer depends on the batch size."


EXERCISES = by_hand, detach, unbiased, one_state, trapped, without_units, bug
