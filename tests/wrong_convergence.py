"""Exercises on convergence: right answers of several styles, and typical mistakes with their reasons."""

import numpy as np
from wrong_temporal_shift_module import in_float32


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
    return gamma * norm(product)(scores, weights, P, 1.0) ** 2


def norm_of_the_transposed(scores, weights, P, gamma):
    return norm(product)(scores, weights, P.T, gamma)


def norm_by_eigenvalues(scores, weights, P, gamma):
    """The largest Rayleigh quotient of P' D P against D."""
    D = np.diag([w * sum(np.exp(row) * weights) for w, row in zip(weights, scores)])
    return gamma * np.sqrt(np.linalg.eigvals(np.linalg.solve(D, P.T @ D @ P)).real.max())


def norm_by_power_iteration(scores, weights, P, gamma):
    nu = weights * np.exp(scores).dot(weights)
    v = np.linspace(1, 2, len(P))
    for _ in range(20_000):
        v = P.T @ (nu * (P @ v)) / nu
        v /= np.sqrt(nu @ v**2)
    return gamma * np.sqrt(nu @ (P @ v) ** 2)


def increments_in_loops(P, states, u):
    """With h from an equation in which one value is fixed: h counts up to a constant."""
    mu, _ = fundamental(P)
    system, right = np.eye(len(P)) - P, -mu[u] * np.ones(len(P))
    right[u] += 1
    h = np.append(0, np.linalg.lstsq(system[:, 1:], right)[0])
    return [h[s] - sum(P[last, t] * h[t] for t in range(len(P))) for last, s in zip(states[:-1], states[1:])]


def increments_without_mu(P, states, u):
    """Any weights that sum to 1 do in place of mu."""
    h = np.linalg.inv(np.eye(len(P)) - P + 1 / len(P))[:, u]
    return h[states[1:]] - (P @ h)[states[:-1]]


def increments_by_powers(P, states, u):
    """Powers of a chain with a period do not converge, but their differences cancel along a walk."""
    powers = [np.linalg.matrix_power(P, k) for k in range(2000)]
    h = sum(power - powers[-1] for power in powers)[:, u]
    return h[states[1:]] - (P @ h)[states[:-1]]


def searched_step(m, gamma):
    """Golden section search."""
    low, high, ratio = 0.0, 4.0, (5**0.5 - 1) / 2

    def bound(a):
        return abs(1 - a * m) + a * (1 - m + gamma)

    for _ in range(200):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if bound(left) < bound(right) else (left, high)
    return [low, bound(low)]


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


def gelfand(J):
    """The norm of a high power, by squaring, with the size kept apart."""
    logarithm = 0.0
    for k in range(12):
        size = np.linalg.norm(J)
        logarithm += np.log(size) / 2**k
        J = J / size @ (J / size)
    return np.exp(logarithm + np.log(np.linalg.norm(J)) / 2**12)


def geometric_mean(J, n_rounds=4000):
    v = np.random.default_rng(0).standard_normal(len(J))
    growth = []
    for _ in range(n_rounds):
        w = J @ v
        growth.append(np.linalg.norm(w) / np.linalg.norm(v))
        v = w / np.linalg.norm(w)
    return np.exp(np.mean(np.log(growth[n_rounds // 2 :])))


def largest_modulus(J):
    return np.abs(np.linalg.eigvals(J)).max()


def rare_walk(rare):
    P = np.zeros((4, 4))
    P[0, 3] = P[1, 0] = P[2, 3] = 1
    P[3] = [0, rare, rare, 1 - 2 * rare]
    return P


FOUND = np.array([0.535, 2.706, 0.0, 12.645])
RARE = np.array([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1e-6, 1e-6, 1 - 2e-6]])

RIGHT = [
    ("convergence.by_hand", [1.5, 1.0, 0.625]),
    ("convergence.by_hand", (3 / 2, 1, 5 / 8)),
    ("convergence.by_hand", np.array([1.5, 1.0, 0.625], np.float32)),
    ("convergence.best_step", lambda m, g: (1 / m, (1 + g) / m - 1)),
    ("convergence.best_step", searched_step),
    ("convergence.best_step", lambda m, g: np.array([1 / m, (1 + g) / m - 1], np.float32)),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: Q[s[1:], u] - (P @ Q)[s[:-1], u])),
    ("convergence.martingale", increments_in_loops),
    ("convergence.martingale", increments_without_mu),
    ("convergence.martingale", increments_by_powers),
    ("convergence.martingale", in_float32(increments_without_mu)),
    ("convergence.reweighted_norm", norm(product)),
    ("convergence.reweighted_norm", norm_by_eigenvalues),
    ("convergence.reweighted_norm", norm_by_power_iteration),
    ("convergence.reweighted_norm", in_float32(norm(product))),
    ("convergence.scales", [0.0814, 1.412]),
    ("convergence.scales", (0.081, 1.42)),
    ("convergence.scales", np.array([0.082, 1.41], np.float32)),
    ("convergence.four_states", [FOUND, 10**2.928, rare_walk(10**-8.11)]),
    ("convergence.four_states", ([0.535 + 360, 2.706, 0.0, 12.645], 10**2.928, rare_walk(10**-8.11).tolist())),
    (
        "convergence.four_states",
        [(FOUND + 77).astype(np.float32), np.float32(847.2), rare_walk(10**-8.11).astype(np.float32)],
    ),
    ("convergence.bug", geometric_mean),
    ("convergence.bug", gelfand),
    ("convergence.bug", largest_modulus),
    ("convergence.bug", in_float32(largest_modulus)),
]
WRONG = [
    ("convergence.by_hand", [1.0, 1.0, 0.625], "you took the largest"),
    ("convergence.by_hand", [0.625, 1.0, 1.5], "order"),
    ("convergence.by_hand", [1.0, 1.5, 0.625], "order"),
    ("convergence.by_hand", [1.5, 0.875, 0.625], "not of a column"),
    ("convergence.by_hand", [1.5, 0.5, 0.625], "with their signs"),
    ("convergence.by_hand", [1.5, 1.0, 0.5], "one eigenvalue is gamma"),
    ("convergence.by_hand", [1.5, 1.0, 0.63], "within rounding"),
    ("convergence.by_hand", [1.5, 1.1, 0.7], "the bound is right; look at the norm and the radius again"),
    ("convergence.by_hand", [1.4, 1.0, 0.625], "the norm and the radius are right; look at the bound again"),
    ("convergence.by_hand", [1.5, 0.75, 0.625], "not the largest entry"),
    ("convergence.by_hand", [1.5, 1.0, 1.125], "that is the trace"),
    ("convergence.best_step", lambda m, g: (1.0, 2 * (1 - m) + g), "may exceed 1"),
    ("convergence.best_step", lambda m, g: (2 / (1 + g), 1.0), "at the end of the interval"),
    ("convergence.best_step", lambda m, g: (0.5, 1 - 0.5 * (2 * m - 1 - g)), "another one gives less"),
    ("convergence.best_step", lambda m, g: (1 / m, 2 * (1 - m) + g), "the one for step size 1"),
    ("convergence.best_step", lambda m, g: (1 / m, 0.1), "not the number that you give"),
    ("convergence.best_step", lambda m, g: (1 / m, g), "the speed limit, not the bound"),
    ("convergence.best_step", lambda m, g: (-1.0, g), "positive"),
    ("convergence.best_step", lambda m, g: ((1 + g) / m - 1, 1 / m), "order"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: Q[u][s[1:]] - (P @ Q[u])[s[:-1]]), "row of the"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: np.diff(Q[s, u])), "expected before the step"),
    (
        "convergence.martingale",
        increments(lambda P, s, u, mu, Q: Q[s[1:], u] - (P @ Q)[s[1:], u]),
        "belongs to the state that is left",
    ),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: (s[1:] == u) - mu[u]), "which is e_u - mu(u) there"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: (P @ Q)[s[:-1], u] - Q[s[1:], u]), "wrong sign"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: (s[:-1] == u) - mu[u]), "not centred"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: Q[s[1:], u]), "these are the values of h"),
    (
        "convergence.martingale",
        increments(lambda P, s, u, mu, Q: 2 * (Q[s[1:], u] - (P @ Q)[s[:-1], u])),
        "do not add up",
    ),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: Q[s[1:], u] - (P.T @ Q)[s[:-1], u]), "P transposed"),
    ("convergence.martingale", increments(lambda P, s, u, mu, Q: Q[s[:-1], u] - (P @ Q)[s[1:], u]), "against time"),
    ("convergence.martingale", lambda P, states, u: 0.0 * states[1:], "do not add up"),
    ("convergence.reweighted_norm", norm(product, square=True), "square of the norm"),
    ("convergence.reweighted_norm", root_forgotten, "square root"),
    ("convergence.reweighted_norm", lambda scores, weights, P, gamma: gamma, "spectral radius"),
    ("convergence.reweighted_norm", norm(product, discount=False), "discount is missing"),
    ("convergence.reweighted_norm", norm(lambda w, z: w), "normaliser Z changes them"),
    ("convergence.reweighted_norm", norm(lambda w, z: z), "multiply it by the weights"),
    ("convergence.reweighted_norm", norm(lambda w, z: w / z), "divided by the normaliser"),
    ("convergence.reweighted_norm", norm_of_the_transposed, "P is transposed"),
    ("convergence.reweighted_norm", norm(product, order=np.inf), "sum of a row"),
    ("convergence.reweighted_norm", lambda scores, weights, P, gamma: gamma * np.linalg.norm(P, 2), "left nu out"),
    ("convergence.reweighted_norm", lambda scores, weights, P, gamma: 0.5, "stretched by more than your 0.5"),
    ("convergence.reweighted_norm", norm(product, root=lambda nu: nu), "takes square roots"),
    ("convergence.reweighted_norm", norm(product, flip=True), "exchanged"),
    ("convergence.reweighted_norm", norm(product, order="fro"), "Frobenius"),
    ("convergence.reweighted_norm", jensen, "Jensen"),
    ("convergence.scales", [1.4, 0.08], "smaller one"),
    ("convergence.scales", [-1.0, 1.0], "positive"),
    ("convergence.scales", [0.0814, 1.5], "radius is 1.017, not 1"),
    ("convergence.scales", [0.079, 1.41], "The second is right"),
    ("convergence.scales", [0.5, 1.5], "at your first scale gamma ||P||_nu is 2.783, not 1"),
    ("convergence.scales", [0.285, 1.188], "these multiply the features"),
    ("convergence.scales", [0.0814, 0.0814], "At your second scale the radius is 0.986, not 1"),
    ("convergence.four_states", [[0.6, 3.3, 0, 12.6], 600, RARE], "the goal is 1.012"),
    ("convergence.four_states", [[0, 90, 180, 270], 600, RARE], "does not diverge"),
    ("convergence.four_states", [[0.6, 3.3, 0, 12.6], 600, np.eye(4)], "one class"),
    ("convergence.four_states", [[0.6, 3.3, 0, 12.6], 600, np.ones((4, 4))], "sum to 1; they sum to 4"),
    ("convergence.four_states", [FOUND, 10**2.928, rare_walk(10**-8.11).T], "the matrix is transposed"),
    ("convergence.four_states", [FOUND, 10**2.928, rare_walk(-0.1)], "should not be negative"),
    ("convergence.four_states", [np.deg2rad(FOUND), 10**2.928, rare_walk(10**-8.11)], "does not diverge"),
    ("convergence.four_states", [FOUND, 10**2.928, rare_walk(1e-14)], "lost in rounding"),
    ("convergence.four_states", [FOUND, -5, rare_walk(1e-3)], "your score scale should be positive"),
    ("convergence.four_states", [[0.6, 3.3, 0, 12.6], 600], "list of three things"),
    ("convergence.bug", power(np.ones, 30), "still reports 0.9"),
    ("convergence.bug", power(random_start), "complex pair"),
    ("convergence.bug", lambda J: np.abs(np.linalg.eigvals(J).real).max(), "real part"),
    ("convergence.bug", lambda J: np.abs(J).sum(axis=1).max(), "infinity norm"),
    ("convergence.bug", lambda J: np.linalg.norm(J, 2), "largest singular value"),
    ("convergence.bug", lambda J: np.linalg.eigvals(J).real.max(), "largest real part"),
    ("convergence.bug", power(lambda n: np.eye(n)[0]), "start vector"),
    ("convergence.bug", lambda J: np.abs(np.linalg.eigvalsh((J + J.T) / 2)).max(), "symmetric part"),
    ("convergence.bug", lambda J: 0.95 * largest_modulus(J), "less than the largest modulus"),
]
