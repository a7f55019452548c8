"""Typical mistakes in the exercises on pretraining, and a word of the reason that each should get."""

import numpy as np

from ictd import neu, tasks
from ictd.model import SoftmaxICTD

REST = 40 / 17
RIGHT = np.array([REST, (11.5 / 3) ** 2, 7256 / 867])


def hand(place, number):
    answer = RIGHT.copy()
    answer[place] = number
    return answer


def pairs_variant(diagonal=False, count=lambda B: B * (B - 1)):
    def function(updates):
        total = (updates.sum(axis=0) ** 2).sum() - (0 if diagonal else (updates**2).sum())
        return total / count(len(updates))

    return function


def layers_variant(target=True, power=2, weights=slice(None), residual=True, read=None):
    def function(gamma, n_layers):
        v, D = 0.0, np.zeros(3)
        for _ in range(n_layers):
            D = (gamma * D if residual else 0) + np.array([1.0, (gamma if target else 1) * v, v])
            v = 1 + gamma * v
        delta = 1 + gamma * v - v
        if read is not None:
            return read(delta, D)
        return float(((delta * D[weights]) ** 2).sum() ** (power / 2))

    return function


def trap_variant(twice=2.0, discount=True, target=True, weighted=True, sign=-1.0):
    def function(kernel, transition, reward, mu, gamma, w_target):
        first, weight = kernel @ reward, (mu if weighted else 1) * reward
        rest = twice * first + target * (gamma if discount else 1) * w_target * kernel @ transition @ first
        return sign * (weight @ rest) / (weight @ kernel @ first)

    return function


def products_variant(second="same", share=1.0, size=None, step_size=0.5):
    def function(batch_size, n_pairs, rng):
        model = SoftmaxICTD.constructed(4, 2, 0.5, step_size=step_size)
        parameters = dict(model.named_parameters())
        rngs = {
            "same": lambda: [np.random.default_rng(int(rng.integers(2**32)))] * 2,
            "fixed": lambda: [np.random.default_rng(seed) for seed in (1, 2)],
            "unseeded": lambda: [np.random.default_rng(), rng],
            "ours": lambda: [rng, rng],
        }[second]()
        draws = [neu.draw_windows(n_pairs, batch_size, 8, 6, 4, generator) for generator in rngs]
        updates = [neu.updates(parameters, draw, n_pairs, 0.5, 2).numpy() for draw in draws]
        return share * (updates[0] * updates[1 if size is None else 0]).sum(axis=1)

    return function


def of_single_pair(batch_size, n_pairs, rng):
    return np.repeat(products_variant("ours")(batch_size, n_pairs // 2, rng), 2)


def other_walks_of_the_same_tasks(batch_size, n_pairs, rng):
    parameters = dict(SoftmaxICTD.constructed(4, 2, 0.5, step_size=0.5).named_parameters())
    shape = (n_pairs, batch_size)
    batch = tasks.draw(n_pairs * batch_size, 6, 4, rng)
    draws = [neu.windows(batch.reshape(shape), batch.sample(9, rng).reshape(shape)) for _ in range(2)]
    first, second = (neu.updates(parameters, draw, n_pairs, 0.5, 2).numpy() for draw in draws)
    return (first * second).sum(axis=1)


WRONG = [
    ("neu_pretraining.by_hand", hand(0, 112 / 53), "walk in the text"),
    ("neu_pretraining.by_hand", hand(0, 32 / 13), "holds its target fixed"),
    ("neu_pretraining.by_hand", hand(0, 2.0), "times the gradient"),
    ("neu_pretraining.by_hand", hand(0, 20 / 3), "discount is missing"),
    ("neu_pretraining.by_hand", hand(0, 2.5), "not the resting point"),
    ("neu_pretraining.by_hand", hand(0, 2.353), "up to rounding"),
    ("neu_pretraining.by_hand", hand(1, 14.69), "second number is right up to rounding"),
    ("neu_pretraining.by_hand", hand(1, 11.5**2), "not their sum"),
    ("neu_pretraining.by_hand", hand(1, (1 + 2.25 + 144) / 3), "averages first"),
    ("neu_pretraining.by_hand", hand(1, 11.5 / 3), "square it"),
    ("neu_pretraining.by_hand", hand(1, 14), "the second is not"),
    ("neu_pretraining.by_hand", hand(2, 0), "is not NEU"),
    ("neu_pretraining.by_hand", hand(2, 7256 / 289), "is a sum"),
    ("neu_pretraining.by_hand", hand(2, 9), "two numbers are right"),
    ("neu_pretraining.detach", REST, "where TD rests"),
    ("neu_pretraining.detach", 68 / 31, "walk in the text"),
    ("neu_pretraining.detach", 20 / 14, "left the successor out"),
    ("neu_pretraining.detach", 2.46, "up to rounding"),
    ("neu_pretraining.detach", 3, "derivative"),
    ("neu_pretraining.unbiased", lambda g: (g**2).sum() / len(g), "one batch, biased"),
    ("neu_pretraining.unbiased", lambda g: (g.mean(axis=0) ** 2).sum(), "pairs of equal batches"),
    ("neu_pretraining.unbiased", pairs_variant(count=lambda B: B**2), "not B²"),
    ("neu_pretraining.unbiased", pairs_variant(count=lambda B: 1), "divide by their number"),
    ("neu_pretraining.unbiased", pairs_variant(count=lambda B: 2 * B * (B - 1)), "half of it"),
    ("neu_pretraining.unbiased", pairs_variant(count=lambda B: B * (B - 1) / 2), "twice as much"),
    ("neu_pretraining.unbiased", lambda g: g[0] @ g[1] if len(g) > 2 else 0.0, "Try two updates by hand"),
    ("neu_pretraining.one_state", layers_variant(read=lambda delta, D: delta**2), "squared the TD error only"),
    ("neu_pretraining.one_state", layers_variant(read=lambda delta, D: D @ D), "TD error is missing"),
    ("neu_pretraining.one_state", layers_variant(power=1), "its square"),
    ("neu_pretraining.one_state", layers_variant(weights=slice(1)), "w_R alone"),
    ("neu_pretraining.one_state", layers_variant(target=False), "not v"),
    ("neu_pretraining.one_state", layers_variant(residual=False), "last layer alone"),
    ("neu_pretraining.one_state", lambda gamma, n_layers: gamma**n_layers / 3, "counts too"),
    ("neu_pretraining.trapped", trap_variant(sign=1.0), "sign"),
    ("neu_pretraining.trapped", trap_variant(twice=1.0), "counts twice"),
    ("neu_pretraining.trapped", trap_variant(discount=False), "discount is missing"),
    ("neu_pretraining.trapped", trap_variant(target=False), "target memory out"),
    ("neu_pretraining.trapped", trap_variant(weighted=False), "stationary distribution"),
    ("neu_pretraining.trapped", lambda *_: 0.0, "affine in w_C"),
    ("neu_pretraining.without_units", lambda G, K: G @ G, "should be 9/4"),
    ("neu_pretraining.without_units", lambda G, K: G @ G / np.trace(K), "change of units"),
    ("neu_pretraining.without_units", lambda G, K: float((G**2 / np.diag(K)).sum()), "change of units"),
    (
        "neu_pretraining.without_units",
        lambda G, K: (G @ np.linalg.solve(K, G)) ** 2 if len(G) > 1 else G[0] ** 2 / K[0, 0],
        "not a quadratic form",
    ),
    (
        "neu_pretraining.without_units",
        lambda G, K: G @ np.linalg.solve(K, G) / len(G),
        "along each direction",
    ),
    ("neu_pretraining.bug", products_variant("same", size=1), "no product is negative"),
    ("neu_pretraining.bug", products_variant("fixed"), "generator does nothing"),
    ("neu_pretraining.bug", products_variant("unseeded"), "from the generator alone"),
    ("neu_pretraining.bug", of_single_pair, "copies of each other"),
    ("neu_pretraining.bug", other_walks_of_the_same_tasks, "tasks and the walks"),
    ("neu_pretraining.bug", products_variant("ours", share=2.0), "standard errors away"),
    ("neu_pretraining.bug", products_variant("ours", step_size=1.0), "standard errors away"),
]
