"""Typical mistakes in the exercises on convergence, and a word of the reason that each should get."""

import numpy as np


def fundamental(P):
    n = len(P)
    equations = np.vstack([np.eye(n) - P.T, np.ones(n)])
    mu = np.linalg.lstsq(equations, np.append(np.zeros(n), 1), rcond=None)[0]
    return mu, np.linalg.inv(np.eye(n) - P + mu)


def increments(pick):
    def function(P, states, u):
        mu, Q = fundamental(P)
        return pick(P, states, u, mu, Q)

    return function


def norm(nu, square=False, discount=True, root=np.sqrt, order=2, flip=False):
    def function(scores, weights, P, gamma):
        v = root(nu(weights, np.exp(scores) @ weights))
        v = 1 / v if flip else v
        result = (gamma if discount else 1) * np.linalg.norm(v[:, None] * P / v, order)
        return result**2 if square else result

    return function


def product(weights, normaliser):
    return weights * normaliser


def jensen(scores, weights, P, gamma):
    nu = weights * (np.exp(scores) @ weights)
    return gamma * np.sqrt((nu @ P / nu).max())


def root_forgotten(scores, weights, P, gamma):
    return norm(product)(scores, weights, P, gamma) ** 2 / gamma


def power(start, n_rounds=3000):
    def function(J):
        v = start(len(J))
        for _ in range(n_rounds):
            w = J @ v
            growth = np.linalg.norm(w) / np.linalg.norm(v)
            v = w / np.linalg.norm(w)
        return growth

    return function


def random_start(n):
    return np.random.default_rng(0).standard_normal(n)


RARE = np.array([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1e-6, 1e-6, 1 - 2e-6]])

WRONG = [
    ("convergence.by_hand", [1.0, 1.0, 0.625], "smallest diagonal entry"),
    ("convergence.by_hand", [0.625, 1.0, 1.5], "order"),
    ("convergence.by_hand", [1.0, 1.5, 0.625], "order"),
    ("convergence.by_hand", [1.5, 0.875, 0.625], "not of a column"),
    ("convergence.by_hand", [1.5, 0.5, 0.625], "with their signs"),
    ("convergence.by_hand", [1.5, 1.0, 0.5], "one eigenvalue is gamma"),
    ("convergence.by_hand", [1.5, 1.1, 0.7], "the bound: right"),
    ("convergence.best_step", lambda m, g: (1.0, 2 * (1 - m) + g), "may exceed 1"),
    ("convergence.best_step", lambda m, g: (2 / (1 + g), 1.0), "another one gives less"),
    ("convergence.best_step", lambda m, g: (1 / m, g), "not the number that you give"),
    ("convergence.best_step", lambda m, g: (-1.0, g), "positive"),
    ("convergence.best_step", lambda m, g: ((1 + g) / m - 1, 1 / m), "order"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: Q[u][s[1:]] - (P @ Q[u])[s[:-1]]), "row of the"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: np.diff(Q[s, u])), "expected before the step"),
    (
        "convergence.martingale",
        increments(lambda P, s, u, mu, Q: Q[s[1:], u] - (P @ Q)[s[1:], u]),
        "not to the one that is entered",
    ),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: (P @ Q)[s[:-1], u] - Q[s[1:], u]), "wrong sign"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: (s[:-1] == u) - mu[u]), "not centred"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: Q[s[1:], u]), "do not add up"),
    ("convergence.reweighted_norm", norm(product, square=True), "square of the norm"),
    ("convergence.reweighted_norm", root_forgotten, "square root"),
    ("convergence.reweighted_norm", lambda scores, weights, P, gamma: gamma, "spectral radius"),
    ("convergence.reweighted_norm", norm(product, discount=False), "discount is missing"),
    ("convergence.reweighted_norm", norm(lambda w, z: w), "normaliser Z changes them"),
    ("convergence.reweighted_norm", norm(lambda w, z: z), "multiply it by the weights"),
    ("convergence.reweighted_norm", norm(lambda w, z: w / z), "multiply"),
    ("convergence.reweighted_norm", norm(product, root=lambda nu: nu), "takes square roots"),
    ("convergence.reweighted_norm", norm(product, flip=True), "exchanged"),
    ("convergence.reweighted_norm", norm(product, order="fro"), "Frobenius"),
    ("convergence.reweighted_norm", jensen, "Jensen"),
    ("convergence.scales", [1.4, 0.08], "smaller one"),
    ("convergence.scales", [-1.0, 1.0], "positive"),
    ("convergence.scales", [0.0814, 1.5], "radius is 1.017, not 1"),
    ("convergence.scales", [0.079, 1.41], "The second is right"),
    ("convergence.scales", [0.5, 1.5], "is not 1 yet, or no longer"),
    ("convergence.four_states", [[0.6, 3.3, 0, 12.6], 600, RARE], "the goal is 1.012"),
    ("convergence.four_states", [[0, 90, 180, 270], 600, RARE], "does not diverge"),
    ("convergence.four_states", [[0.6, 3.3, 0, 12.6], 600, np.eye(4)], "one class"),
    ("convergence.four_states", [[0.6, 3.3, 0, 12.6], 600, np.ones((4, 4))], "probabilities"),
    ("convergence.four_states", [[0.6, 3.3, 0, 12.6], 600], "list of three things"),
    ("convergence.bug", power(np.ones, 30), "still reports 0.9"),
    ("convergence.bug", power(random_start), "complex pair"),
    ("convergence.bug", lambda J: np.abs(np.linalg.eigvals(J).real).max(), "real part"),
    ("convergence.bug", lambda J: np.abs(J).sum(axis=1).max(), "largest modulus"),
]
