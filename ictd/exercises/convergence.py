"""Exercises of the chapter on convergence; the statements stand in book/convergence.ipynb."""

import numpy as np

from ictd import convergence, kernels, mrp
from ictd.exercises._answers import NotYet, call, expect, has_parts, numbers
from ictd.exercises._checking import generator, judge_function, name_mistake, which_are_right
from ictd.exercises._values import ROUNDED, close, nearly, rounded

# ------------------------------------------------------------------------------------------- by hand

HAND_KERNEL, HAND_TRANSITION, HAND_GAMMA = np.array([[0.75, 0.25], [0.5, 0.5]]), np.eye(2)[::-1], 0.5


def by_hand(answer):
    """The norm bound, the norm and the spectral radius of J of two states that take turns."""
    answer = numbers(answer, (3,))
    M, gamma = HAND_KERNEL, HAND_GAMMA
    J = convergence.iteration_matrix(M, HAND_TRANSITION, gamma)
    right = np.array([convergence.norm_bound(M, gamma), convergence.infinity_norm(J), convergence.spectral_radius(J)])
    mistakes = [  # in the bound, in the norm, in the radius
        {
            "the bound is 2 (1 - m) + gamma with the smallest diagonal entry m of the kernel: you took the largest "
            "one, or left gamma out.": 1.0,
            "the bound is 2 (1 - m) + gamma with the smallest diagonal entry m, not with the mean of them.": 1.25,
            "the bound adds gamma; it does not multiply by it.": 0.5,
        },
        {
            "the infinity norm is the largest sum of absolute values of a row, not of a column.": 0.875,
            "the infinity norm adds absolute values; you added the entries with their signs.": 0.5,
            "the infinity norm is the largest sum of a row, not the largest entry.": 0.75,
            "that is the largest singular value, not the infinity norm.": np.linalg.norm(J, 2),
            "that is the Frobenius norm, not the infinity norm.": np.linalg.norm(J),
        },
        {
            "one eigenvalue is gamma, for the vector of ones; the trace gives the other. The radius is the larger.": (
                gamma
            ),
            "that is the trace, the sum of both eigenvalues.": np.trace(J),
            "that is the determinant, the product of both eigenvalues.": np.linalg.det(J),
        },
    ]
    if close(answer, right):
        return "The bound says nothing here, the norm says nothing, and the iteration converges all the same."
    expect(not nearly(answer, right), ROUNDED)
    expect(not close(np.sort(answer), np.sort(right)), "the order should be bound, norm, radius.")
    expect(not rounded(answer, right), "you are within rounding; give exact fractions.")
    for found, exact, wrong in zip(answer, right, mistakes):
        name_mistake(found, exact, wrong)
    fits = [close(found, exact) for found, exact in zip(answer, right)]
    reason = which_are_right(["the bound", "the norm", "the radius"], fits)
    expect(not reason, reason)
    raise NotYet("write down J = I - M + gamma M P entry by entry first; P exchanges the two columns of M.")


# ----------------------------------------------------------------------------------------- best step


def best_step(answer):
    """A function (m, gamma) -> (alpha, bound): the step size with the smallest norm bound, for m > (1 + gamma) / 2."""

    def bound(step_size, m, gamma):
        return abs(1 - step_size * m) + step_size * (1 - m + gamma)

    def with_bound(step_size):
        return lambda m, gamma: np.array([step_size(m, gamma), bound(step_size(m, gamma), m, gamma)])

    best = with_bound(lambda m, gamma: 1 / m)
    mistakes = {
        "the order should be step size, bound.": lambda m, gamma: best(m, gamma)[::-1],
        "another step size gives less. It may exceed 1.": with_bound(lambda m, gamma: 1.0),
        "at the end of the interval in which the bound is below 1, it is 1; somewhere inside it is smallest.": (
            with_bound(lambda m, gamma: 2 / (1 + gamma))
        ),
        "that is the smallest step size; the bound is nearly 1 there.": with_bound(lambda m, gamma: 0.0),
        "gamma is the speed limit, not the bound.": lambda m, gamma: np.array([1 / m, gamma]),
        "the step size is right; the bound is the one for step size 1.": (
            lambda m, gamma: np.array([1 / m, bound(1.0, m, gamma)])
        ),
    }

    cases = {f"for m = {m} and gamma = {g}": (m, g) for m, g in [(0.9, 0.5), (0.99, 0.9), (0.7, 0.0), (1.0, 0.6)]}

    def advice(arguments, found):
        step_size = float(found[0])
        if step_size <= 0:
            return f"your step size is {step_size:.4g}; it should be positive."
        at_yours = bound(step_size, *arguments)
        if at_yours > best(*arguments)[1] + 1e-6:
            return f"your step size gives the bound {at_yours:.4f}; another one gives less."
        return "the bound at your step size is not the number that you give."

    judge_function(answer, best, cases, mistakes, advice, "your pair")
    return "Even at its best step size the bound never falls below gamma, since m is at most 1."


# ---------------------------------------------------------------------------------------- martingale


def _poisson(P, u, pseudo=False, row=False):
    """A solution h of (I - P) h = e_u - mu(u), and mu; or what a wrong inverse gives for it."""
    mu = mrp.MRP(P, np.zeros(len(P)), 0).stationary()
    inverse = np.linalg.pinv(np.eye(len(P)) - P) if pseudo else np.linalg.inv(np.eye(len(P)) - P + mu)
    return (inverse[u] if row else inverse[:, u]), mu


def _increments(pick=lambda h, Ph, here, there: h[there] - Ph[here], transposed=False, **wrong):
    def function(P, states, u):
        h, _ = _poisson(P, u, **wrong)
        return pick(h, (P.T if transposed else P) @ h, states[:-1], states[1:])

    return function


def _uncentred(P, states, u):
    return (states[:-1] == u) - _poisson(P, u)[1][u]


_MARTINGALE_MISTAKES = {
    "you took a row of the fundamental matrix where a column is needed.": _increments(row=True),
    "the pseudo-inverse of I - P does not solve the equation for h: e_u alone is not in the range of I - P.": (
        _increments(pseudo=True)
    ),
    "these are the changes of h along the walk; take away what was expected before the step, not h there.": (
        _increments(lambda h, Ph, here, there: h[there] - h[here])
    ),
    "this is h - P h at the state that is entered, which is e_u - mu(u) there: the expectation belongs to the state "
    "that is left.": (_increments(lambda h, Ph, here, there: h[there] - Ph[there])),
    "these run against time: the step goes from S_{k-1} to S_k.": (
        _increments(lambda h, Ph, here, there: h[here] - Ph[there])
    ),
    "these have the wrong sign.": _increments(lambda h, Ph, here, there: Ph[here] - h[there]),
    "P h averages over successors; you used P transposed.": _increments(transposed=True),
    "these are the summands of c(u) - n mu(u) itself; they are not centred given the past.": _uncentred,
    "these are the values of h; take away what was expected before the step.": (
        _increments(lambda h, Ph, here, there: h[there])
    ),
}


def martingale(answer):
    """A function (P, states, u) -> the n increments of the martingale behind the count of u."""
    rng = generator("martingale")
    turns = np.array([[0.0, 1.0, 0.0], [0.4, 0.0, 0.6], [0.0, 1.0, 0.0]])  # of period 2
    cases = {  # none of the walks ends where it starts: there h(S_0) - h(S_n) drops out
        "for a walk of 12 transitions": (
            mrp.boyan_chain(4, 0.5, rng).transition,
            [0, 2, 3, 1, 3, 1, 2, 3, 2, 3, 2, 3, 3],
            1,
        ),
        "for a walk of 8 transitions": (rng.dirichlet(np.ones(5), 5), [4, 1, 1, 0, 3, 2, 3, 3, 0], 3),
        "for a chain of period 2": (turns, [0, 1, 2, 1, 2, 1, 0, 1], 0),
        "for a walk of one transition": (rng.dirichlet(np.ones(3), 3), [0, 1], 2),
    }
    cases = {name: (P, np.array(states), u) for name, (P, states, u) in cases.items()}

    def advice(arguments, found):
        P, states, u = arguments
        h, mu = _poisson(P, u)
        missing = (states[:-1] == u).sum() - (len(states) - 1) * mu[u] - (h[states[0]] - h[states[-1]])
        if not np.isclose(found.sum(), missing, rtol=0, atol=1e-4):
            return "your increments do not add up to c(u) - n mu(u) - h(S_0) + h(S_n)."
        return "the sum is right, but given the past an increment should have mean 0; some of yours have not."

    judge_function(answer, _increments(), cases, _MARTINGALE_MISTAKES, advice, "your array of increments")
    return "Each increment has mean 0 given the past, whatever the walk did before."


# ----------------------------------------------------------------------------------- reweighted norm


def _norm(nu=lambda w, z: w * z, of=lambda P, nu: _stretch(P, np.sqrt(nu)), final=lambda norm, gamma: gamma * norm):
    """gamma ||P||_nu in three parts: the weights nu of the norm, the norm of P, and what becomes of it."""

    def function(scores, weights, P, gamma):
        return final(of(P, nu(weights, np.exp(scores) @ weights)), gamma)

    return function


def _stretch(P, root, order=2):
    matrix = root[:, None] * P / root
    return np.linalg.norm(matrix, order) if np.isfinite(matrix).all() else np.nan


_NORM_MISTAKES = {
    "this is the square of the norm.": _norm(final=lambda norm, gamma: (gamma * norm) ** 2),
    "this is gamma times the square of the norm of P; take the square root.": _norm(
        final=lambda norm, gamma: gamma * norm**2
    ),
    "this is gamma: the spectral radius of P is 1, but under nu it may stretch a vector.": _norm(
        final=lambda norm, gamma: gamma
    ),
    "the discount is missing.": _norm(final=lambda norm, gamma: norm),
    "you used the weights of the walk; the normaliser Z changes them.": _norm(lambda w, z: w),
    "you used the normaliser alone; multiply it by the weights.": _norm(lambda w, z: z),
    "you used the weights divided by the normaliser; multiply.": _norm(lambda w, z: w / z),
    "you left nu out: this is the norm of P for equal weights.": _norm(of=lambda P, nu: np.linalg.norm(P, 2)),
    "the square roots of nu are exchanged, or P is transposed: nu belongs to its rows, 1 / nu to its columns.": _norm(
        of=lambda P, nu: _stretch(P, 1 / np.sqrt(nu))
    ),
    "the norm in L2(nu) takes square roots of nu.": _norm(of=lambda P, nu: _stretch(P, nu)),
    "this is the Frobenius norm, which is larger: take the largest singular value.": _norm(
        of=lambda P, nu: _stretch(P, np.sqrt(nu), "fro")
    ),
    "this is the largest sum of a column; take the largest singular value.": _norm(
        of=lambda P, nu: _stretch(P, np.sqrt(nu), 1)
    ),
    "this is the largest sum of a row; take the largest singular value.": _norm(
        of=lambda P, nu: _stretch(P, np.sqrt(nu), np.inf)
    ),
    "this is the bound that Jensen's inequality gives; the norm itself is smaller.": _norm(
        of=lambda P, nu: np.sqrt((nu @ P / nu).max())
    ),
    "this is the bound on the square of the norm.": _norm(
        of=lambda P, nu: (nu @ P / nu).max(), final=lambda norm, gamma: gamma**2 * norm
    ),
    "the normaliser sums exponentials of scores; yours sums the scores.": lambda scores, weights, P, gamma: (
        gamma * _stretch(P, np.sqrt(weights * (scores @ weights)))
    ),
}


def reweighted_norm(answer):
    """A function (scores (S, S) symmetric, weights (S,), P (S, S), gamma) -> gamma ||P||_nu."""
    rng = generator("reweighted_norm")
    cases = {}
    for n_states, gamma in [(4, 0.8), (6, 0.95), (3, 0.0), (1, 0.5)]:
        X = 0.8 * rng.standard_normal((n_states, 3))
        weights, P = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states), n_states)
        cases[f"for {n_states} states and gamma = {gamma}"] = X @ X.T, weights, P, gamma

    def advice(arguments, found):
        if found < _norm()(*arguments):
            return f"some vector is stretched by more than your {float(found):.4g} says."
        return f"no vector is stretched by as much as your {float(found):.4g} says."

    judge_function(answer, _norm(), cases, _NORM_MISTAKES, advice, "your norm")
    return "The largest singular value of a small matrix decides."


# -------------------------------------------------------------------------------------------- scales


CYCLE = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
UNEQUAL = np.array([[1.0, 0.0], [1.5, 1.0], [1.0, 3.0]])
EQUAL_SHARES = np.full(3, 1 / 3)


def _iteration(scale):
    """The iteration matrix of the three states at a score scale."""
    M = kernels.population_kernel(mrp.MRP(CYCLE, np.zeros(3), 0.9), UNEQUAL, scale * np.eye(2))
    return convergence.iteration_matrix(M, CYCLE, 0.9)


def _radius(scale):
    return convergence.spectral_radius(_iteration(scale))


def _nu_norm(scale):
    """gamma ||P||_nu of the three states at a score scale."""
    scores = scale * UNEQUAL @ UNEQUAL.T
    return 0.9 * _stretch(CYCLE, np.sqrt(EQUAL_SHARES * (np.exp(scores - scores.max()) @ EQUAL_SHARES)))


def _crossing(function, low, high):
    """The score scale at which an increasing function crosses 1."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 1 else (low, middle)
    return low


def scales(answer):
    """Two score scales of the three-state example: where the theorem stops, and where divergence begins."""
    answer = numbers(answer, (2,))
    promised, true = _crossing(_nu_norm, 0.01, 1), _crossing(_radius, 1, 4)
    expect((answer > 0).all(), "both score scales should be positive.")
    fits = np.abs(answer / [promised, true] - 1) <= 0.01
    if fits.all():
        return "Between the two, the iteration converges and no theorem of this chapter knows it."
    expect(answer[0] <= answer[1], "the first should be the smaller one: no theorem promises more than the truth.")
    name_mistake(
        answer,
        np.array([promised, true]),
        {
            "these multiply the features; scores then grow with the square.": np.sqrt([promised, true]),
            "these multiply the scores of features that were scaled as well: too much by a square.": (
                np.square([promised, true])
            ),
        },
        tolerance=0.01,
    )
    expect(
        fits[0],
        f"at your first scale gamma ||P||_nu is {_nu_norm(answer[0]):.3f}, not 1."
        + bool(fits[1]) * " The second is right.",
    )
    raise NotYet(f"the first is right. At your second scale the radius is {_radius(answer[1]):.3f}, not 1.")


# --------------------------------------------------------------------------------------- four states


def _radius_on_circle(angles, scale, P):
    try:
        process = mrp.MRP(P / P.sum(axis=1, keepdims=True), np.zeros(4), 0.9)
        expect((process.stationary() > 0).all(), "every state should be visited again and again.")
    except ValueError as error:
        raise NotYet(
            f"your chain does not have one class of recurrent states that float64 can handle: {error}."
        ) from None
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    M = kernels.population_kernel(process, X, scale * np.eye(2))
    return convergence.spectral_radius(convergence.iteration_matrix(M, process.transition, 0.9))


def four_states(answer):
    """Directions in degrees (4,), a score scale and transition probabilities (4, 4) with a radius of at least 1.012."""
    expect(
        has_parts(answer, 3),
        "give a list of three things: four angles in degrees, a score scale, and a four by four matrix.",
    )
    angles = np.deg2rad(numbers(answer[0], (4,), "your list of angles").astype(np.float64))
    scale = float(numbers(answer[1], (), "your score scale"))
    P = numbers(answer[2], (4, 4), "your transition matrix").astype(np.float64)
    expect(0 < scale <= 1e6, "your score scale should be positive and at most a million.")
    sums = P.sum(axis=1)
    expect((P >= 0).all(), f"probabilities should not be negative; your smallest is {P.min():.3g}.")
    expect(
        np.allclose(sums, 1, rtol=0, atol=1e-6),  # rounding of float32; rows are divided by their sums below
        f"rows of your matrix should sum to 1; they sum to {', '.join(f'{total:.7g}' for total in sums)}."
        + (" Columns do: the matrix is transposed." if np.allclose(P.sum(axis=0), 1, rtol=0, atol=1e-6) else ""),
    )
    expect(P[P > 0].min() >= 1e-12, "probabilities below 1e-12 are lost in rounding; use larger ones.")
    noise = 1e-6 * np.random.default_rng(27).standard_normal((4, 4))
    radius, perturbed = (_radius_on_circle(angles, scale, P * (1 + change)) for change in (0, noise))
    expect(abs(radius - perturbed) < 1e-3, "your radius changes when probabilities change by a millionth: rounding.")
    expect(radius > 1.001, f"the spectral radius is {radius:.4f}: this iteration does not diverge.")
    expect(radius >= 1.012, f"the spectral radius is {radius:.4f}: it diverges, and the goal is 1.012.")
    return f"The spectral radius is {radius:.4f}."


# --------------------------------------------------------------------------------------------- bug lab


_RADIUS_MISTAKES = {
    "this is the largest real part of an eigenvalue; a negative or a complex one may have the larger modulus.": (
        lambda J: np.linalg.eigvals(J).real.max()
    ),
    "this is the largest size of a real part; that of a complex eigenvalue is smaller than its modulus.": (
        lambda J: np.abs(np.linalg.eigvals(J).real).max()
    ),
    "this is the infinity norm, which bounds the radius from above.": lambda J: np.abs(J).sum(axis=1).max(),
    "this is the largest sum of a column, which bounds the radius from above.": lambda J: np.abs(J).sum(axis=0).max(),
    "this is the largest singular value, which bounds the radius from above.": lambda J: np.linalg.norm(J, 2),
    "this is the Frobenius norm, which bounds the radius from above.": np.linalg.norm,
    "this is the radius of the symmetric part of J.": lambda J: np.abs(np.linalg.eigvalsh((J + J.T) / 2)).max(),
    "this is the smallest modulus of an eigenvalue.": lambda J: np.abs(np.linalg.eigvals(J)).min(),
    "this is the size of the trace.": lambda J: abs(np.trace(J)),
    "this is the size of the determinant.": lambda J: abs(np.linalg.det(J)),
}


def bug(answer):
    """A function J -> its spectral radius."""
    rng = generator("bug")
    cases = {f"for the three states at score scale {scale}": _iteration(scale) for scale in (2, 4, 8)}
    cases["for a turn by 90 degrees that doubles"] = np.array([[0.0, -2.0], [2.0, 0.0]])
    cases["for the diagonal matrix 0.5, -1.5, 0.2"] = np.diag([0.5, -1.5, 0.2])
    cases["for the 1 by 1 matrix -0.8"] = np.array([[-0.8]])
    for number in range(1, 6):
        process = mrp.boyan_chain(6, 0.9, rng)
        M = kernels.population_kernel(process, 1.5 * rng.standard_normal((6, 4)))
        cases[f"for random chain {number}"] = convergence.iteration_matrix(M, process.transition, 0.9)
    found = {name: numbers(call(answer, J, where=f"{name},"), (), f"your radius {name}") for name, J in cases.items()}
    truth = {name: np.abs(np.linalg.eigvals(J)).max() for name, J in cases.items()}
    wrong = [name for name in cases if abs(found[name] / truth[name] - 1) > 5e-3]  # what many rounds of powers reach
    if not wrong:
        return "It also sees eigenvalues that are complex, and those that the vector of ones does not."
    expect(
        not all(abs(found[name] - 0.9) < 5e-3 for name in list(cases)[:3]),
        "on the three-state example it still reports 0.9 at every score scale.",
    )
    name_mistake(
        list(found.values()),
        list(truth.values()),
        {reason: [float(function(J)) for J in cases.values()] for reason, function in _RADIUS_MISTAKES.items()},
        tolerance=5e-3,
    )
    rotating = [name for name, J in cases.items() if np.iscomplex(max(np.linalg.eigvals(J), key=abs))]
    expect(
        not set(wrong) <= set(rotating),
        "right where the largest eigenvalue is real, wrong where it is one of a complex pair: there the growth changes "
        "from round to round.",
    )
    name = wrong[0]
    less = "less" if found[name] < truth[name] else "more"
    raise NotYet(
        f"{name} your radius is {found[name]:.4f}, {less} than the largest modulus of an eigenvalue."
        + ("" if less == "more" else " If you have a start vector: does it have a part along the eigenvector?")
    )


EXERCISES = by_hand, best_step, martingale, reweighted_norm, scales, four_states, bug
