"""Exercises of the chapter on pretraining and the NEU loss.

PyTorch is loaded by the exercise that needs it, so that ``check`` runs where it is missing.
"""

import numpy as np

from ictd import features, mrp, td
from ictd.exercises._checking import NotYet, call, close, expect, numbers

# ------------------------------------------------------------------------------------------- by hand

# B -> A -> C -> B: rewards for leaving A, B, C; answers v(s) = phi(s) w; successors
REWARD, PHI, NEXT = np.array([-2.0, 2.0, 6.0]), np.array([1.0, 2.0, 3.0]), [2, 0, 1]
DIFFERENCE = 0.5 * PHI[NEXT] - PHI  # the TD error is REWARD + w DIFFERENCE
REST = -(REWARD @ PHI) / (DIFFERENCE @ PHI)
RESIDUAL = -(REWARD @ DIFFERENCE) / (DIFFERENCE @ DIFFERENCE)


def _updates(w):
    return (REWARD + w * DIFFERENCE) * PHI


def _not_rounded(name, found, exact):
    """A right number with too few digits must not look like a mistake."""
    rounded = 0 < abs(found - exact) < 3e-3 * abs(exact) and not close(np.array(found), np.array(exact))
    expect(not rounded, f"{name} is right up to rounding; give it as an expression, such as 112 / 53.")


def by_hand(answer):
    """[w at rest, NEU at w = 1, expected square of a single update at rest]."""
    answer = numbers(answer, (3,))
    rest, loss, single = answer
    right = np.array([REST, _updates(1.0).mean() ** 2, (_updates(REST) ** 2).mean()])
    if close(answer, right):
        return "At rest NEU is 0, and a single squared update is nowhere near it."
    for name, found, exact in zip(("first", "second", "third"), answer, right):
        _not_rounded(f"the {name} number", found, exact)
    expect(not np.abs(rest - 112 / 53) < 1e-6, "that is the resting point of the walk in the text, not of this one.")
    expect(not abs(rest - RESIDUAL) < 1e-6, "the first number minimises squared TD errors; TD holds its target fixed.")
    expect(
        not abs(rest + REWARD.sum() / DIFFERENCE.sum()) < 1e-6,
        "the first number makes the mean TD error 0; the update is the TD error times the gradient.",
    )
    undiscounted = PHI[NEXT] - PHI
    expect(
        not (abs(undiscounted @ PHI) > 0 and abs(rest + (REWARD @ PHI) / (undiscounted @ PHI)) < 1e-6),
        "the discount is missing in the first number.",
    )
    expect(
        abs(rest - REST) < 1e-9 * REST,
        "the first number is not the resting point: write down the TD error of each query, multiply it by 1, 2 or 3, "
        "and sum.",
    )
    expect(
        not abs(loss - _updates(1.0).sum() ** 2) < 1e-6,
        "for the second number take the mean of the three updates before you square, not their sum.",
    )
    expect(
        not abs(loss - (_updates(1.0) ** 2).mean()) < 1e-6,
        "the second number squares first and averages then; NEU averages first.",
    )
    expect(not abs(loss - _updates(1.0).mean()) < 1e-6, "the second number is the expected update; square it.")
    expect(
        abs(loss - right[1]) < 1e-9 * right[1],
        "the first number is right; the second is not: it is the square of the mean of the three updates at w = 1.",
    )
    expect(not abs(single) < 1e-9, "the third number is not NEU: square each of the three updates, then take the mean.")
    expect(not abs(single - (_updates(REST) ** 2).sum()) < 1e-6, "the third number is a sum; each query has a third.")
    raise NotYet("two numbers are right; for the third square each update at rest, then take the mean.")


def detach(answer):
    """The w at which the residual gradient rests."""
    answer = float(numbers(answer, ()))
    if close(np.array(answer), np.array(RESIDUAL)):
        return "The target is part of what is minimised now, and moves towards the prediction."
    _not_rounded("your number", answer, RESIDUAL)
    expect(not abs(answer - REST) < 1e-6, "that is where TD rests, with the target held fixed.")
    expect(not abs(answer - 68 / 31) < 1e-6, "that belongs to the walk in the text; this is another one.")
    expect(
        not abs(answer - REWARD @ PHI / (PHI @ PHI)) < 1e-6,
        "you left the successor out; the target contains it.",
    )
    raise NotYet("write the mean of the three squared TD errors as a function of w, and set its derivative to 0.")


# --------------------------------------------------------------------------------------- all pairs


def unbiased(answer):
    """A function of updates (B, p): the mean over ordered pairs of different updates of their inner product."""
    rng = np.random.default_rng(3)
    for shape in ((5, 3), (2, 4), (9, 1)):
        updates = rng.normal(size=shape) + 0.5
        B = len(updates)
        gram = updates @ updates.T
        right = (gram.sum() - np.trace(gram)) / (B * (B - 1))
        result = float(numbers(call(answer, updates), (), f"your estimate from updates of shape {shape}"))
        mistakes = {
            "this is the mean of the squared norms: one batch, biased.": np.trace(gram) / B,
            "this is the squared norm of the mean update: the pairs of equal batches are still in it, biased.": (
                gram.sum() / B**2
            ),
            "there are B (B - 1) ordered pairs of different batches, not B².": (gram.sum() - np.trace(gram)) / B**2,
            "this is the sum over pairs; divide by their number.": gram.sum() - np.trace(gram),
            "this is half of it: with B (B - 1) / 2 pairs each product counts once.": right / 2,
            "this is twice as much: with all ordered pairs there are B (B - 1) of them.": right * 2,
        }
        if close(np.array(result), np.array(right)):
            continue
        for reason, wrong in mistakes.items():
            expect(not close(np.array(result), np.array(wrong)), reason)
        raise NotYet(f"for updates of shape {shape} the mean over pairs is another number. Try two updates by hand.")
    many = rng.normal(size=(3_000, 2))
    gram = (many.sum(axis=0) ** 2).sum() - (many**2).sum()
    result = float(numbers(call(answer, many), (), "your estimate from 3,000 updates"))
    expect(abs(result * 3_000 * 2_999 - gram) < 1e-3, "for 3,000 updates your result is not exact enough.")
    return "It also took 3,000 updates, which have nine million ordered pairs."


# --------------------------------------------------------------------------------------- one state


def _one_state(gamma, n_layers, target_factor=True, loss=True):
    v, D = 0.0, np.zeros(3)
    for _ in range(n_layers):
        D = gamma * D + np.array([1.0, (gamma if target_factor else 1) * v, v])
        v = 1 + gamma * v
    delta = 1 + gamma * v - v
    return delta, D


def one_state(answer):
    """A function (gamma, n_layers) -> NEU of a process with one state."""
    for gamma, L in [(0.5, 1), (0.6, 2), (0.9, 1), (0.9, 12), (0.7, 40)]:
        delta, D = _one_state(gamma, L)
        right = delta**2 * (D @ D)
        result = float(numbers(call(answer, gamma, L), (), f"your NEU at gamma = {gamma} and {L} layers"))
        if close(np.array(result / max(right, 1e-300)), np.array(1.0), 1e-6):
            continue
        setting = f"at gamma = {gamma} and {L} layers"
        no_factor = _one_state(gamma, L, target_factor=False)[1]
        last = np.array([1.0, gamma * (1 - gamma ** (L - 1)) / (1 - gamma), (1 - gamma ** (L - 1)) / (1 - gamma)])
        mistakes = {
            "you squared the TD error only; NEU is the squared norm of TD error times gradient.": delta**2,
            "this is the squared norm of the gradient; the TD error is missing.": D @ D,
            "this is the norm; NEU is its square.": right**0.5,
            "this counts w_R alone; two more weights have a derivative.": (delta * D[0]) ** 2,
            "the target weight multiplies gamma v, not v.": delta**2 * (no_factor @ no_factor),
            "this is the derivative by the weights of the last layer alone; all layers share them.": (
                delta**2 * (last @ last)
            ),
        }
        for reason, wrong in mistakes.items():
            expect(not abs(result - wrong) <= 1e-9 * max(abs(wrong), 1e-300), f"{setting}: {reason}")
        raise NotYet(
            f"{setting} the loss is another number. Differentiate v <- v + w_R + gamma w_T v + w_C v by each weight: "
            f"the derivative of v on the right-hand side counts too."
        )
    peak = 1 + int(np.argmax([d**2 * (D @ D) for d, D in (_one_state(0.9, L) for L in range(1, 60))]))
    return f"At gamma = 0.9 it is largest with {peak} layers."


# ------------------------------------------------------------------------------------------ the trap


def trapped(answer):
    """A function (kernel, transition, reward, mu, gamma, w_target) -> w_C with c = 0, for two layers."""
    rng = np.random.default_rng(5)
    for _ in range(4):
        process = mrp.boyan_chain(5, 0.8, rng)
        P, r, mu, gamma = process.transition, process.reward, process.stationary(), process.gamma
        weights = mu * np.exp(td.inner_product_score()(X := features.gaussian(5, 3, rng), X))
        M, w_T = weights / weights.sum(axis=1, keepdims=True), float(rng.normal())
        first = M @ r
        parts = np.array([(mu * r) @ first, (mu * r) @ M @ P @ first, (mu * r) @ M @ first])
        right = -(2 * parts[0] + gamma * w_T * parts[1]) / parts[2]
        result = float(numbers(call(answer, M, P, r, mu, gamma, w_T), (), "your w_C"))
        if close(np.array(result), np.array(right)):
            continue
        unweighted = [r @ first, r @ M @ P @ first, r @ M @ first]
        mistakes = {
            "the sign is wrong.": -right,
            "the first layer's M r stays in the residual stream: it counts twice after two layers.": (
                -(parts[0] + gamma * w_T * parts[1]) / parts[2]
            ),
            "the discount is missing: the target memory holds gamma P v.": -(2 * parts[0] + w_T * parts[1]) / parts[2],
            "you left the target memory out.": -2 * parts[0] / parts[2],
            "states count by the stationary distribution.": (
                -(2 * unweighted[0] + gamma * w_T * unweighted[1]) / unweighted[2]
            ),
        }
        for reason, wrong in mistakes.items():
            expect(not close(np.array(result), np.array(wrong)), f"c is not 0 there: {reason}")
        c = 2 * parts[0] + gamma * w_T * parts[1] + result * parts[2]
        raise NotYet(f"c is {c:.3g} there, not 0. Write down phi after two layers with w_R = 1; it is affine in w_C.")
    return "A minimiser of NEU that answers 0 to every question."


# ----------------------------------------------------------------------------------------- no units


def without_units(answer):
    """A function (G, K) -> G^T K^-1 G."""
    rng = np.random.default_rng(7)
    scalar = float(numbers(call(answer, np.array([3.0]), np.array([[4.0]])), (), "your loss for one parameter"))
    expect(abs(scalar - 9 / 4) < 1e-9, "for one parameter, G = 3 and K = 4, the loss should be 9/4.")
    for p in (2, 4):
        G, root, Q = rng.normal(size=p), rng.normal(size=(p, 2 * p)), rng.normal(size=(p, p)) + 2 * np.eye(p)
        K = root @ root.T

        def loss(G, K):
            return float(numbers(call(answer, G, K), (), f"your loss for {p} parameters"))

        before, after = loss(G, K), loss(Q.T @ G, Q.T @ K @ Q)
        expect(
            abs(after - before) <= 1e-6 * max(1.0, abs(before)),
            f"a change of units takes your loss from {before:.4g} to {after:.4g}; it should stay.",
        )
        expect(
            abs(loss(2 * G, K) - 4 * before) <= 1e-6 * max(1.0, abs(before)),
            "your loss is not a quadratic form: twice the update should give four times the loss.",
        )
        expect(
            abs(before - G @ np.linalg.solve(K, G)) <= 1e-6 * max(1.0, abs(before)),
            "your loss has no units, but it does not reduce to the square of G / sqrt(K) along each direction.",
        )
    return "Its units are those of the reward, squared."


# ------------------------------------------------------------------------------------------ bug lab


def bug(answer):
    """A mended `suspect(batch_size, n_pairs, rng)`."""
    products = _products(answer, 4, 600, 1)
    negative = (products < 0).mean()
    expect(negative > 0, "no product is negative; products of independent updates sometimes are.")
    again = _products(answer, 4, 600, 1)
    expect(np.array_equal(products, again), "equal generators give different products; draw from the generator alone.")
    expect(not np.array_equal(products, _products(answer, 4, 600, 2)), "the generator does nothing.")
    repeated = len(np.unique(products.round(12))) < len(products)
    expect(not repeated, "some of your pairs are copies of each other; all should be independent.")
    truth = _truth()
    for size, n_pairs in ((1, 8000), (32, 300)):  # with one task, what two batches share weighs most
        products = _products(answer, size, n_pairs, 3)
        error = products.std() / n_pairs**0.5
        far = abs(products.mean() - truth.value) / np.hypot(error, truth.standard_error)
        expect(
            far < 5,
            f"in batches of {size} the mean of your products is {products.mean():.4f}, {far:.0f} standard errors away "
            "from NEU. Both the tasks and the walks of the second batch must be new.",
        )
    return f"{negative:.0%} of the products are negative now, and their mean no longer depends on the batch size."


def _products(answer, size, n_pairs, seed):
    result = call(answer, size, n_pairs, np.random.default_rng(seed))
    return numbers(result, (n_pairs,), f"your products of {n_pairs} pairs")


def _truth():
    from ictd import neu
    from ictd.model import SoftmaxICTD

    model = SoftmaxICTD.constructed(4, 2, 0.5, step_size=0.5)
    return neu.neu(model, neu.draw_windows(64, 256, 8, 6, 4, np.random.default_rng(11)))


EXERCISES = {
    "by_hand": by_hand,
    "detach": detach,
    "unbiased": unbiased,
    "one_state": one_state,
    "trapped": trapped,
    "without_units": without_units,
    "bug": bug,
}
