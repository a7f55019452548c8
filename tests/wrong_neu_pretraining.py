"""Exercises on pretraining: right answers of several styles, and typical mistakes with their reasons."""

from fractions import Fraction

import numpy as np
import torch
from wrong_temporal_shift_module import in_float32

from ictd import inputs, neu, tasks
from ictd.model import SoftmaxICTD

REST = 40 / 17
EXACT = np.array([REST, (11.5 / 3) ** 2, 7256 / 867])


def hand(place, number):
    answer = EXACT.copy()
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
        draws = [inputs.draw_windows(n_pairs, batch_size, 8, 6, 4, generator) for generator in rngs]
        updates = [neu.updates(parameters, draw, n_pairs, 0.5, 2).numpy() for draw in draws]
        return share * (updates[0] * updates[1 if size is None else 0]).sum(axis=1)

    return function


def of_single_pair(batch_size, n_pairs, rng):
    return np.repeat(products_variant("ours")(batch_size, (n_pairs + 1) // 2, rng), 2)[:n_pairs]


def updates(batch_size, n_batches, rng):
    parameters = dict(SoftmaxICTD.constructed(4, 2, 0.5, step_size=0.5).named_parameters())
    return neu.updates(parameters, inputs.draw_windows(n_batches, batch_size, 8, 6, 4, rng), n_batches, 0.5, 2).numpy()


def inner(first, second):
    return (first * second).sum(axis=1)


def of_one_stream(batch_size, n_pairs, rng):
    """All batches at once, two for each pair."""
    g = updates(batch_size, 2 * n_pairs, rng)
    return inner(g[::2], g[1::2])


def of_two_generators(batch_size, n_pairs, rng):
    return inner(*(updates(batch_size, n_pairs, child) for child in rng.spawn(2)))


def of_two_seeds(batch_size, n_pairs, rng):
    seeds = rng.integers(2**32, size=2)
    return inner(*(updates(batch_size, n_pairs, np.random.default_rng(seed)) for seed in seeds))


def rolling(batch_size, n_pairs, rng):
    """Each batch is in two pairs."""
    g = updates(batch_size, n_pairs, rng)
    return inner(g, np.roll(g, 1, axis=0))


def chain(batch_size, n_pairs, rng):
    g = updates(batch_size, n_pairs + 1, rng)
    return inner(g[:-1], g[1:])


def one_partner(batch_size, n_pairs, rng):
    return updates(batch_size, n_pairs, rng) @ updates(batch_size, 1, rng)[0]


def all_pairs(batch_size, n_pairs, rng):
    """As few batches as have enough pairs."""
    k = 2 + int((2 * n_pairs) ** 0.5)
    g = updates(batch_size, k, rng)
    first, second = np.triu_indices(k, 1)
    return inner(g[first], g[second])[:n_pairs]


def less_the_variance(batch_size, n_pairs, rng):
    """Unbiased, from one batch for each product."""
    g = updates(batch_size, max(n_pairs, 2), rng)
    return (inner(g, g) - np.trace(np.cov(g.T)))[:n_pairs]


def of_larger_batches(batch_size, n_pairs, rng):
    return products_variant("ours")(2 * batch_size, n_pairs, rng)


def of_halves(batch_size, n_pairs, rng):
    """Each batch cut in two: unbiased, but the batches are too small."""
    return products_variant("ours")(max(batch_size // 2, 1), n_pairs, rng)


def pairs_in_loops(g):
    pairs = [g[i] @ g[j] for i in range(len(g)) for j in range(len(g)) if i != j] if len(g) < 50 else None
    return np.mean(pairs) if pairs else ((g.sum(axis=0) ** 2).sum() - (g**2).sum()) / len(g) / (len(g) - 1)


def every_pair_in_turn(g):
    total = sum(a @ b for i, a in enumerate(g) for j, b in enumerate(g) if i != j)
    return total / (len(g) * (len(g) - 1))


def each_against_the_rest(g):
    """A loop, but not over pairs."""
    total = g.sum(axis=0)
    return sum(one @ (total - one) for one in g) / (len(g) * (len(g) - 1))


def by_the_variance(g):
    """The squared norm of the mean less the estimated variance of the mean."""
    return (g.mean(axis=0) ** 2).sum() - g.var(axis=0, ddof=1).sum() / len(g)


def by_the_gram_matrix(g):
    gram = g @ g.T
    return (gram.sum() - np.trace(gram)) / (len(g) ** 2 - len(g))


def derivative_by_differences(gamma, n_layers):
    """Central differences of the recursion, and the TD error in closed form."""

    def value(w):
        v = 0.0
        for _ in range(n_layers):
            v += w[0] + gamma * w[1] * v + w[2] * v
        return v

    at, step = np.array([1.0, 1, -1]), 1e-4
    gradient = [(value(at + step * e) - value(at - step * e)) / (2 * step) for e in np.eye(3)]
    # one step of Richardson's extrapolation
    half = [(value(at + step / 2 * e) - value(at - step / 2 * e)) / step for e in np.eye(3)]
    gradient = (4 * np.array(half) - gradient) / 3
    return gamma ** (2 * n_layers) * (gradient**2).sum()


def by_autograd(gamma, n_layers):
    w = torch.tensor([1.0, 1, -1], dtype=torch.float64, requires_grad=True)
    v = torch.zeros((), dtype=torch.float64)
    for _ in range(n_layers):
        v = v + w[0] + gamma * w[1] * v + w[2] * v
    (gradient,) = torch.autograd.grad(v, w)
    error = 1 + (gamma - 1) * v.detach()
    return float((error * gradient).square().sum())


def trapped_by_two_points(kernel, transition, reward, mu, gamma, w_target):
    """c is affine in w_C: run two layers at 0 and at 1."""

    def c(w_current):
        v = np.zeros(len(reward))
        for _ in range(2):
            v = v + kernel @ (reward + w_target * gamma * transition @ v + w_current * v)
        return (mu * reward * v).sum()

    return -c(0) / (c(1) - c(0))


def whitened(G, K):
    values, vectors = np.linalg.eigh(K)
    return ((vectors.T @ G) ** 2 / values).sum()


def by_cholesky(G, K):
    return (np.linalg.solve(np.linalg.cholesky(K), G) ** 2).sum()


def other_walks_of_the_same_tasks(batch_size, n_pairs, rng):
    parameters = dict(SoftmaxICTD.constructed(4, 2, 0.5, step_size=0.5).named_parameters())
    shape = (n_pairs, batch_size)
    batch = tasks.draw(n_pairs * batch_size, 6, 4, rng)
    draws = [inputs.windows(batch.reshape(shape), batch.sample(9, rng).reshape(shape)) for _ in range(2)]
    first, second = (neu.updates(parameters, draw, n_pairs, 0.5, 2).numpy() for draw in draws)
    return (first * second).sum(axis=1)


RIGHT = [
    ("neu_pretraining.by_hand", EXACT),
    ("neu_pretraining.by_hand", [Fraction(40, 17), Fraction(23, 6) ** 2, Fraction(7256, 867)]),
    ("neu_pretraining.by_hand", EXACT.astype(np.float32)),
    ("neu_pretraining.detach", 32 / 13),
    ("neu_pretraining.detach", Fraction(32, 13)),
    ("neu_pretraining.detach", np.float32(32 / 13)),
    ("neu_pretraining.unbiased", pairs_in_loops),
    ("neu_pretraining.unbiased", by_the_variance),
    ("neu_pretraining.unbiased", each_against_the_rest),
    ("neu_pretraining.unbiased", by_the_gram_matrix),
    ("neu_pretraining.unbiased", in_float32(pairs_variant())),
    ("neu_pretraining.one_state", layers_variant()),
    ("neu_pretraining.one_state", derivative_by_differences),
    ("neu_pretraining.one_state", by_autograd),
    ("neu_pretraining.one_state", lambda gamma, n_layers: np.float32(by_autograd(gamma, n_layers))),
    ("neu_pretraining.trapped", trap_variant()),
    ("neu_pretraining.trapped", trapped_by_two_points),
    ("neu_pretraining.trapped", in_float32(trap_variant())),
    ("neu_pretraining.without_units", lambda G, K: G @ np.linalg.inv(K) @ G),
    ("neu_pretraining.without_units", whitened),
    ("neu_pretraining.without_units", by_cholesky),
    ("neu_pretraining.without_units", lambda G, K: G @ np.linalg.solve(K, G) / len(G)),
    ("neu_pretraining.without_units", in_float32(whitened)),
    ("neu_pretraining.bug", of_one_stream),
    ("neu_pretraining.bug", of_two_generators),
    ("neu_pretraining.bug", of_two_seeds),
    ("neu_pretraining.bug", lambda *case: of_one_stream(*case).astype(np.float32)),
]
WRONG = [
    ("neu_pretraining.by_hand", hand(0, 112 / 53), "walk in the text"),
    ("neu_pretraining.by_hand", hand(0, 32 / 13), "holds its target fixed"),
    ("neu_pretraining.by_hand", hand(0, 2.0), "times the gradient"),
    ("neu_pretraining.by_hand", hand(0, 20 / 3), "discount is missing"),
    ("neu_pretraining.by_hand", hand(0, 2.5), "not the resting point"),
    ("neu_pretraining.by_hand", hand(0, 2.35), "up to rounding"),
    ("neu_pretraining.by_hand", hand(1, 14.69), "second number is right up to rounding"),
    ("neu_pretraining.by_hand", hand(1, 11.5**2), "not their sum"),
    ("neu_pretraining.by_hand", hand(1, (1 + 2.25 + 144) / 3), "averages first"),
    ("neu_pretraining.by_hand", hand(1, 11.5 / 3), "square it"),
    ("neu_pretraining.by_hand", hand(1, 14), "the second is not"),
    ("neu_pretraining.by_hand", hand(1, 44 / 3), "the second is not"),
    ("neu_pretraining.by_hand", hand(2, 0), "is not NEU"),
    ("neu_pretraining.by_hand", hand(2, 7256 / 289), "is a sum"),
    ("neu_pretraining.by_hand", hand(2, 9), "two numbers are right"),
    ("neu_pretraining.by_hand", EXACT[[1, 0, 2]], "the order should be"),
    ("neu_pretraining.by_hand", hand(1, ((1 + 0.5 - 4.5) / 3) ** 2), "square of the mean TD error"),
    ("neu_pretraining.by_hand", hand(2, (1 + 2.25 + 144) / 3), "asked at rest"),
    ("neu_pretraining.detach", REST, "where TD rests"),
    ("neu_pretraining.detach", 68 / 31, "walk in the text"),
    ("neu_pretraining.detach", 20 / 14, "left the successor out"),
    ("neu_pretraining.detach", 2.46, "up to rounding"),
    ("neu_pretraining.detach", Fraction(37, 15), "set its derivative to 0"),
    ("neu_pretraining.detach", 3, "derivative"),
    ("neu_pretraining.detach", 2.0, "the mean TD error"),
    ("neu_pretraining.detach", -32 / 13, "sign"),
    ("neu_pretraining.unbiased", lambda g: (g**2).sum() / len(g), "one batch, biased"),
    ("neu_pretraining.unbiased", lambda g: (g.mean(axis=0) ** 2).sum(), "pairs of equal batches"),
    ("neu_pretraining.unbiased", pairs_variant(count=lambda B: B**2), "not B²"),
    ("neu_pretraining.unbiased", pairs_variant(count=lambda B: 1), "divide by their number"),
    ("neu_pretraining.unbiased", pairs_variant(diagonal=True), "still in the sum"),
    ("neu_pretraining.unbiased", lambda g: (g.mean(axis=0) ** 2).sum() - g.var(axis=0).sum() / len(g), "still biased"),
    ("neu_pretraining.unbiased", lambda g: (g[1:] * g[:-1]).sum() / (len(g) - 1), "neighbours"),
    ("neu_pretraining.unbiased", lambda g: pairs_variant()(g) / g.shape[1], "averaged over them too"),
    (
        "neu_pretraining.unbiased",
        lambda g: g[: len(g) // 2].mean(axis=0) @ g[len(g) // 2 :].mean(axis=0),
        "another number",
    ),
    ("neu_pretraining.unbiased", pairs_variant(count=lambda B: 2 * B * (B - 1)), "half of it"),
    ("neu_pretraining.unbiased", pairs_variant(count=lambda B: B * (B - 1) / 2), "twice as much"),
    ("neu_pretraining.unbiased", lambda g: g[0] @ g[1], "first two updates"),
    ("neu_pretraining.unbiased", every_pair_in_turn, "one pair after the other"),
    ("neu_pretraining.one_state", layers_variant(read=lambda delta, D: delta**2), "squared the TD error only"),
    ("neu_pretraining.one_state", layers_variant(read=lambda delta, D: D @ D), "TD error is missing"),
    ("neu_pretraining.one_state", layers_variant(power=1), "its square"),
    ("neu_pretraining.one_state", layers_variant(read=lambda delta, D: delta * (D @ D)), "counts squared"),
    ("neu_pretraining.one_state", layers_variant(weights=slice(2)), "w_C has a derivative too"),
    ("neu_pretraining.one_state", lambda gamma, n: layers_variant()(gamma, n + 1), "one layer too far"),
    (
        "neu_pretraining.one_state",
        lambda gamma, n: (1 - gamma) ** 2 * layers_variant()(gamma, n),
        "holds the target fixed",
    ),
    ("neu_pretraining.one_state", layers_variant(read=lambda delta, D: (delta * D.sum()) ** 2), "sum of three squares"),
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
    ("neu_pretraining.trapped", lambda M, P, r, *rest: trap_variant()(M.T, P, r, *rest), "rows of the kernel"),
    (
        "neu_pretraining.trapped",
        lambda M, P, r, *rest: trap_variant()(M, P.T, r, *rest),
        "rows of the transition matrix",
    ),
    ("neu_pretraining.trapped", lambda *case: trap_variant()(*case[:-1], -case[-1]), "enters with a plus"),
    ("neu_pretraining.without_units", lambda G, K: G @ G, "K does not appear"),
    ("neu_pretraining.without_units", lambda G, K: G @ K @ G, "divide"),
    ("neu_pretraining.without_units", lambda G, K: G @ G / np.trace(K), "the trace does not know"),
    ("neu_pretraining.without_units", lambda G, K: float((G**2 / np.diag(K)).sum()), "the whole matrix"),
    (
        "neu_pretraining.without_units",
        lambda G, K: np.sqrt(G @ np.linalg.solve(K, G)),
        "square root of a quadratic form",
    ),
    ("neu_pretraining.without_units", lambda G, K: by_cholesky(G, K) ** (1 + (len(G) > 1)), "not a quadratic form"),
    ("neu_pretraining.without_units", lambda G, K: by_cholesky(G, K) * (1 + np.linalg.det(K)), "for one parameter"),
    (
        "neu_pretraining.without_units",
        lambda G, K: by_cholesky(G, K) * K[0, 0] / K[-1, -1],
        "parameters in other units",
    ),
    ("neu_pretraining.without_units", lambda G, K: -by_cholesky(G, K), "a loss is positive"),
    ("neu_pretraining.bug", products_variant("same", size=1), "no product is negative"),
    ("neu_pretraining.bug", products_variant("fixed"), "generator does nothing"),
    ("neu_pretraining.bug", products_variant("unseeded"), "from the generator alone"),
    ("neu_pretraining.bug", of_single_pair, "copies of each other"),
    ("neu_pretraining.bug", other_walks_of_the_same_tasks, "tasks and the walks"),
    ("neu_pretraining.bug", rolling, "copies of each other"),
    ("neu_pretraining.bug", chain, "no batch may be in two pairs"),
    ("neu_pretraining.bug", all_pairs, "no batch may be in two pairs"),
    ("neu_pretraining.bug", one_partner, "standard errors away"),
    ("neu_pretraining.bug", less_the_variance, "distributed like products"),
    ("neu_pretraining.bug", of_larger_batches, "distributed like products"),
    ("neu_pretraining.bug", of_halves, "distributed like products"),
    ("neu_pretraining.bug", products_variant("ours", share=2.0), "standard errors away"),
    ("neu_pretraining.bug", products_variant("ours", step_size=1.0), "standard errors away"),
]
