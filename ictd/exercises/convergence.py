"""Exercises of the chapter on convergence."""

import numpy as np

from ictd import convergence, mrp
from ictd.exercises._checking import NotYet, call, close, expect, numbers

CYCLE = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
UNEQUAL = np.array([[1.0, 0.0], [1.5, 1.0], [1.0, 3.0]])
EQUAL_SHARES = np.full(3, 1 / 3)


# ------------------------------------------------------------------------------------------- by hand

HAND_KERNEL, HAND_TRANSITION, HAND_GAMMA = np.array([[0.75, 0.25], [0.5, 0.5]]), np.eye(2)[::-1], 0.5


def by_hand(answer):
    """The norm bound, the norm and the spectral radius of J of two states that take turns."""
    answer = numbers(answer, (3,))
    J = convergence.iteration_matrix(HAND_KERNEL, HAND_TRANSITION, HAND_GAMMA)
    bound, norm = convergence.norm_bound(HAND_KERNEL, HAND_GAMMA), convergence.infinity_norm(J)
    radius = convergence.spectral_radius(J)
    if close(answer, np.array([bound, norm, radius])):
        return "The bound says nothing here, the norm says nothing, and the iteration converges all the same."
    expect(not close(np.sort(answer), np.array([radius, norm, bound])), "the order should be bound, norm, radius.")
    expect(abs(answer[0] - 1) > 1e-9, "the bound needs the smallest diagonal entry of the kernel, not the largest.")
    expect(
        abs(answer[1] - np.abs(J).sum(axis=0).max()) > 1e-9,
        "the infinity norm is the largest sum of absolute values of a row, not of a column.",
    )
    expect(
        abs(answer[1] - 0.5) > 1e-9, "the infinity norm adds absolute values; you added the entries with their signs."
    )
    expect(
        abs(answer[2] - HAND_GAMMA) > 1e-9,
        "one eigenvalue is gamma, for the vector of ones. The trace gives the other; the radius is the larger one.",
    )
    fits = np.abs(answer - [bound, norm, radius]) < 1e-9
    names = np.array(["the bound", "the norm", "the radius"])
    expect(not fits.any(), f"{' and '.join(names[fits])}: right. Look at the rest again.")
    raise NotYet("write down J = I - M + gamma M P entry by entry first; P exchanges the two columns of M.")


# ----------------------------------------------------------------------------------------- best step


def best_step(answer):
    """A function (m, gamma) -> (alpha, bound): the step size with the smallest norm bound, for m > (1 + gamma) / 2."""
    for m, gamma in [(0.9, 0.5), (0.99, 0.9), (0.7, 0.0), (0.999, 0.99)]:
        setting = f"for m = {m} and gamma = {gamma}"
        step_size, bound = numbers(call(answer, m, gamma), (2,), f"your step size and bound {setting}")
        best = convergence.norm_bound(np.array([[m, 1 - m], [1 - m, m]]), gamma, 1 / m)
        expect(
            not close(np.array([bound, step_size]), np.array([1 / m, best])), "the order should be step size, bound."
        )
        expect(step_size > 0, f"{setting} your step size is {step_size:.4g}; it should be positive.")
        kernel = np.array([[m, 1 - m], [1 - m, m]])
        at_yours = convergence.norm_bound(kernel, gamma, float(step_size))
        expect(
            at_yours <= best + 1e-9,
            f"{setting} your step size gives the bound {at_yours:.4f}; another one gives less."
            + (" The step size may exceed 1." if abs(step_size - 1) < 1e-9 else ""),
        )
        expect(abs(bound - at_yours) < 1e-9, f"{setting} the bound at your step size is not the number that you give.")
    return "Even at its best step size the bound never falls below gamma, since m is at most 1."


# ---------------------------------------------------------------------------------------- martingale


def martingale(answer):
    """A function (P, states, u) -> the n increments of the martingale behind the count of u."""
    rng = np.random.default_rng(21)
    for n_states, n in [(3, 12), (5, 40)]:
        process = mrp.boyan_chain(n_states, 0.5, rng)
        P, states, u = process.transition, process.sample(n, rng).states, int(rng.integers(n_states))
        given = numbers(call(answer, P, states, u), (n,), f"your increments for a walk of {n} transitions")
        mu = process.stationary()
        h = np.linalg.inv(np.eye(n_states) - P + mu)[:, u]
        right = h[states[1:]] - (P @ h)[states[:-1]]
        if close(given, right):
            continue
        mistakes = {
            "you took a row of the fundamental matrix where a column is needed.": _increments(
                P, mu, states, u, row=True
            ),
            "these are the changes of h along the walk; take away what was expected before the step, not h there.": (
                h[states[1:]] - h[states[:-1]]
            ),
            "the expectation belongs to the state that is left, not to the one that is entered.": (
                h[states[1:]] - (P @ h)[states[1:]]
            ),
            "these have the wrong sign.": -right,
            "these are the summands of c(u) - n mu(u) itself; they are not centred given the past.": (
                (states[:-1] == u) - mu[u]
            ),
        }
        for reason, wrong in mistakes.items():
            expect(not close(given, wrong), reason)
        missing = (states[:-1] == u).sum() - n * mu[u] - (h[states[0]] - h[states[-1]])
        expect(
            abs(given.sum() - missing) < 1e-9,
            "your increments do not add up to c(u) - n mu(u) - h(S_0) + h(S_n).",
        )
        raise NotYet("the sum is right, but given the past an increment should have mean 0; some of yours have not.")
    return "Each increment has mean 0 given the past, whatever the walk did before."


def _increments(P, mu, states, u, row):
    h = np.linalg.inv(np.eye(len(P)) - P + mu)
    h = h[u] if row else h[:, u]
    return h[states[1:]] - (P @ h)[states[:-1]]


# ----------------------------------------------------------------------------------- reweighted norm


def reweighted_norm(answer):
    """A function (scores (S, S) symmetric, weights (S,), P (S, S), gamma) -> gamma ||P||_nu."""
    rng = np.random.default_rng(23)
    for n_states in (3, 6):
        X = 0.7 * rng.standard_normal((n_states, 3))
        scores, weights = X @ X.T, rng.dirichlet(np.ones(n_states))
        P, gamma = rng.dirichlet(np.ones(n_states), n_states), 0.8
        given = float(numbers(call(answer, scores, weights, P, gamma), (), f"your norm for {n_states} states"))
        normaliser = np.exp(scores) @ weights
        right = _norm(weights * normaliser, P, gamma)
        if abs(given - right) < 1e-9 * right:
            continue
        nu = weights * normaliser
        mistakes = {
            "this is the square of the norm.": right**2,
            "this is gamma times the square of the norm of P; take the square root.": right**2 / gamma,
            "this is gamma: the spectral radius of P is 1, but under nu it may stretch a vector.": gamma,
            "the discount is missing.": right / gamma,
            "you used the weights of the walk; the normaliser Z changes them.": _norm(weights, P, gamma),
            "you used the normaliser alone; multiply it by the weights.": _norm(normaliser, P, gamma),
            "you used the weights divided by the normaliser; multiply.": _norm(weights / normaliser, P, gamma),
            "the square roots of nu are exchanged: nu belongs to the rows of P, and 1 / nu to its columns.": (
                _norm(1 / nu, P, gamma)
            ),
            "the norm in L2(nu) takes square roots of nu.": gamma * np.linalg.norm(nu[:, None] * P / nu, 2),
            "this is the Frobenius norm, which is larger: take the largest singular value.": (
                gamma * np.linalg.norm(np.sqrt(nu)[:, None] * P / np.sqrt(nu))
            ),
            "this is the bound that Jensen's inequality gives; the norm itself is smaller.": (
                gamma * np.sqrt((nu @ P / nu).max())
            ),
            "this is the bound on the square of the norm.": gamma**2 * (nu @ P / nu).max(),
        }
        for reason, wrong in mistakes.items():
            expect(abs(given - wrong) > 1e-9 * abs(wrong), reason)
        raise NotYet("start with Z = K w for the weights w, then nu = w Z, then the largest singular value.")
    return "The largest singular value of a small matrix decides."


def _norm(nu, P, gamma):
    root = np.sqrt(nu)
    return gamma * np.linalg.norm(root[:, None] * P / root, 2)


# -------------------------------------------------------------------------------------------- scales


def _three_states(scale):
    process = mrp.MRP(CYCLE, np.zeros(3), 0.9)
    return convergence.population_kernel(process, UNEQUAL, scale * np.eye(2))


def _radius(scale):
    return convergence.spectral_radius(convergence.iteration_matrix(_three_states(scale), CYCLE, 0.9))


def _crossing(function, low, high):
    """The score scale at which an increasing function crosses 1."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 1 else (low, middle)
    return low


def scales(answer):
    """Two score scales of the three-state example: where the theorem stops, and where divergence begins."""
    answer = numbers(answer, (2,))
    promised = _crossing(lambda scale: convergence.reweighted_norm(_three_states(scale), CYCLE, 0.9), 0.01, 1)
    true = _crossing(_radius, 1, 4)
    expect((answer > 0).all(), "both score scales should be positive.")
    expect(answer[0] <= answer[1], "the first should be the smaller one: no theorem promises more than the truth.")
    first, second = (np.abs(answer / [promised, true] - 1) <= 0.01).tolist()
    expect(first, "at your first scale gamma ||P||_nu is not 1 yet, or no longer." + second * " The second is right.")
    expect(second, f"the first is right. At your second scale the radius is {_radius(answer[1]):.3f}, not 1.")
    return "Between the two, the iteration converges and no theorem of this chapter knows it."


# --------------------------------------------------------------------------------------- four states


def four_states(answer):
    """Directions in degrees (4,), a score scale and transition probabilities (4, 4) with a radius of at least 1.012."""
    expect(
        isinstance(answer, (tuple, list)) and len(answer) == 3,
        "give a list of three things: four angles in degrees, a score scale, and a four by four matrix.",
    )
    angles = np.deg2rad(numbers(answer[0], (4,), "your angles"))
    scale = float(numbers(answer[1], (), "your score scale"))
    P = numbers(answer[2], (4, 4), "your transition matrix")
    expect(0 < scale <= 1e6, "your score scale should be positive and at most a million.")
    expect((P >= 0).all() and np.allclose(P.sum(axis=1), 1, rtol=0, atol=1e-9), "rows of P should be probabilities.")
    expect(P[P > 0].min() >= 1e-12, "probabilities below 1e-12 are lost in rounding; use larger ones.")
    noise = 1e-6 * np.random.default_rng(27).standard_normal((4, 4))
    radius, perturbed = (_on_circle(angles, scale, P * (1 + change)) for change in (0, noise))
    expect(abs(radius - perturbed) < 1e-3, "your radius changes when probabilities change by a millionth: rounding.")
    expect(radius > 1.001, f"the spectral radius is {radius:.4f}: this iteration does not diverge.")
    expect(radius >= 1.012, f"the spectral radius is {radius:.4f}: it diverges, and the goal is 1.012.")
    return f"The spectral radius is {radius:.4f}."


def _on_circle(angles, scale, P):
    try:
        process = mrp.MRP(P / P.sum(axis=1, keepdims=True), np.zeros(4), 0.9)
        expect((process.stationary() > 0).all(), "every state should be visited again and again.")
    except ValueError as error:
        raise NotYet(
            f"your chain does not have one class of recurrent states that float64 can handle: {error}."
        ) from None
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    M = convergence.population_kernel(process, X, scale * np.eye(2))
    return convergence.spectral_radius(convergence.iteration_matrix(M, process.transition, 0.9))


# --------------------------------------------------------------------------------------------- bug lab


def bug(answer):
    """A function J -> its spectral radius."""
    rng = np.random.default_rng(29)
    cases = [_iteration(scale) for scale in (2.0, 4.0, 8.0)]
    cases += [np.array([[0.0, -2.0], [2.0, 0.0]]), np.diag([0.5, -1.5, 0.2])]
    for _ in range(5):
        process = mrp.boyan_chain(6, 0.9, rng)
        M = convergence.population_kernel(process, 1.5 * rng.standard_normal((6, 4)))
        cases.append(convergence.iteration_matrix(M, process.transition, 0.9))
    results = [float(numbers(call(answer, J), (), "your spectral radius")) for J in cases]
    truth = np.array([np.abs(np.linalg.eigvals(J)).max() for J in cases])
    wrong = np.abs(results - truth) > 5e-3 * truth
    if not wrong.any():
        return "It also sees eigenvalues that are complex, and those that the vector of ones does not."
    expect(
        not np.allclose(results[:3], 0.9, atol=5e-3),
        "on the three-state example it still reports 0.9 at every score scale.",
    )
    rotating = np.array([np.iscomplex(np.linalg.eigvals(J)[np.abs(np.linalg.eigvals(J)).argmax()]) for J in cases])
    expect(
        wrong[~rotating].any(),
        "right where the largest eigenvalue is real, wrong where it is one of a complex pair: there the growth changes "
        "from round to round, and the real part is smaller than the modulus.",
    )
    case = int(np.argmax(wrong))
    raise NotYet(f"for one matrix your radius is {results[case]:.4f} and the largest modulus is {truth[case]:.4f}.")


def _iteration(scale):
    return convergence.iteration_matrix(_three_states(scale), CYCLE, 0.9)


EXERCISES = {
    "by_hand": by_hand,
    "best_step": best_step,
    "martingale": martingale,
    "reweighted_norm": reweighted_norm,
    "scales": scales,
    "four_states": four_states,
    "bug": bug,
}
