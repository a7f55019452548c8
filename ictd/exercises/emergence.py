"""Exercises of the chapter on emergence.

PyTorch is loaded by the exercises that need it, so that ``check`` runs where it is missing.
"""

import numpy as np

from ictd import convergence, features, mrp, tasks, td
from ictd.exercises._checking import NotYet, call, close, expect, numbers

# ------------------------------------------------------------------------------------------- by hand

HAND_REWARD, HAND_GAMMA, HAND_WEIGHTS = np.array([4.0, 0.0, 8.0]), 0.5, (2.0, 1.0, -2.0)
HAND_KERNEL = np.full((3, 3), 0.25) + 0.25 * np.eye(3)
HAND_NEXT = np.eye(3)[[1, 2, 0]]


def _hand_layers(weights, gamma=HAND_GAMMA, kernel=HAND_KERNEL, transition=HAND_NEXT):
    values = [np.zeros(3)]
    for _ in range(3):
        v = values[-1]
        values.append(v + kernel @ (weights[0] * HAND_REWARD + weights[1] * gamma * transition @ v + weights[2] * v))
    return values


def by_hand(answer):
    """v_2 of A, B, C for the weights (2, 1, -2)."""
    answer = numbers(answer, (3,))
    right = _hand_layers(HAND_WEIGHTS)
    if close(answer, right[2]):
        return None
    expect(not close(answer, right[1]), "these are the values after one layer; take one more.")
    expect(not close(answer, right[3]), "these are the values after three layers.")
    expect(not close(answer, right[2] - right[1]), "you have the change in the second layer; add it to v_1.")
    wrong = {
        "you used the weights (1, 1, -1); this model has others.": _hand_layers((1, 1, -1))[2],
        "these are the values for the weights (3/2, 3/2, -3/2) of the text.": _hand_layers((1.5, 1.5, -1.5))[2],
        "the three weights are not equal in size: w_T is 1, not 2.": _hand_layers((2, 2, -2))[2],
        "the target memory holds gamma times the next value; you left out gamma.": _hand_layers(HAND_WEIGHTS, 1)[2],
        "you applied the discount twice.": _hand_layers(HAND_WEIGHTS, HAND_GAMMA**2)[2],
        "mix the errors with the kernel: every state listens to all three transitions.": _hand_layers(
            HAND_WEIGHTS, kernel=np.eye(3)
        )[2],
        "in the second layer each state looks at the state that it leads to, not at the one before it.": _hand_layers(
            HAND_WEIGHTS, transition=HAND_NEXT.T
        )[2],
        "w_C is negative: the old value is taken away.": _hand_layers((2, 1, 2))[2],
    }
    for reason, values in wrong.items():
        expect(not close(answer, values), reason)
    expect(not np.abs(answer - right[2]).max() < 0.06, "you are within rounding; give the exact fractions.")
    fits = np.abs(answer - right[2]) < 1e-9
    verb = "is" if fits.sum() == 1 else "are"
    expect(not fits.any(), f"{' and '.join(np.array(list('ABC'))[fits])} {verb} right; look at the rest again.")
    raise NotYet(
        "in the first layer only the rewards count, so v_1 is w_R times what it is for the weights (1, 1, -1); then "
        "write down w_R R + w_T gamma v(next) + w_C v for each of the three transitions."
    )


# -------------------------------------------------------------------------------------------- limit


def limit(answer):
    """A function (w, gamma, transition, reward) -> fixed point."""
    rng = np.random.default_rng(3)
    for w, gamma in [((1.0, 1.0, -1.0), 0.8), ((1.3, 0.9, -1.6), 0.7), ((0.4, 1.1, -1.2), 0.95)]:
        P, r = rng.dirichlet(np.ones(5), 5), rng.normal(size=5)
        w = np.array(w)
        found = numbers(call(answer, w, gamma, P, r), (5,), "your limit for 5 states")
        scale, gamma_eff = w[0] / -w[2], gamma * w[1] / -w[2]

        def solve(scale, discount, transition=P):
            return scale * np.linalg.solve(np.eye(5) - discount * transition, r)

        setting = f"for the weights {w.tolist()} and gamma = {gamma}"
        if close(found, solve(scale, gamma_eff)):
            continue
        mistakes = {
            "this is the value for the discount gamma; the weights change the discount.": solve(1, gamma),
            "the discount is right, but the rewards are scaled too.": solve(1, gamma_eff),
            "divide w_R by the size of w_C.": solve(w[0], gamma_eff),
            "the rewards are scaled right; the discount is changed too.": solve(scale, gamma),
            "divide w_T by the size of w_C.": solve(scale, gamma * w[1]),
            "the sign is wrong: w_C is negative.": -solve(scale, gamma_eff),
            "row s of the transition matrix holds the successors of s; you used it transposed.": solve(
                scale, gamma_eff, P.T
            ),
        }
        for reason, wrong in mistakes.items():
            expect(not close(found, wrong), f"{setting}: {reason}")
        left = w[0] * r + w[1] * gamma * P @ found + w[2] * found
        raise NotYet(
            f"{setting} a layer still moves your values: w_R r + w_T gamma P v + w_C v should be 0 everywhere, and it "
            f"reaches {np.abs(left).max():.2g}."
        )
    return "No kernel appears in it: the limit does not depend on A."


# ------------------------------------------------------------------------------------------- visible


def visible(answer):
    """A function A -> the smallest matrix with the same kernels, for features that sum to 1."""
    rng = np.random.default_rng(5)
    for size in (4, 7):
        A = rng.normal(size=(size, size))
        found = numbers(call(answer, A), (size, size), f"your matrix for an A of shape ({size}, {size})")
        right = A - A.mean(axis=0)
        if close(found, right):
            continue
        expect(not close(found, A), "you changed nothing.")
        expect(
            not close(found, A - A.mean(axis=1, keepdims=True)),
            "you took a number away from each row. The score of a source for a query is x(source)' A x(query): which "
            "of the two indices may carry a number that cancels in the softmax?",
        )
        expect(
            not close(found, A - A.mean()),
            "one number for the whole matrix is not all that cancels: there is one for each query.",
        )
        expect(
            not close(found, right - right.mean(axis=1, keepdims=True)),
            "you also took away something that the softmax can see.",
        )
        X = features.one_hot(size)
        kernels = [td.softmax_kernel(X, X, td.bilinear_score(matrix)) for matrix in (A, found)]
        expect(
            close(*kernels),
            f"with one-hot features your matrix gives another kernel: one weight differs by "
            f"{np.abs(kernels[0] - kernels[1]).max():.2g}.",
        )
        raise NotYet(
            f"the kernel is right, but a smaller matrix gives it too: yours has a sum of squares of "
            f"{(found**2).sum():.4g}."
        )
    return None


# --------------------------------------------------------------------------------------------- train


def train(answer):
    """A Result of a short training run."""
    import torch

    from ictd import pretrain
    from ictd.state_form import inputs, state_values

    if not isinstance(answer, pretrain.Result):
        raise NotYet(f"your answer should be a Result of pretrain.pretrain; it is of type {type(answer).__name__}.")
    config, usual = answer.config, pretrain.Config()
    for name in (
        "gamma n_layers n_states dim n_transitions family features feature_scale reward_noise free shared init_scale "
        "init_reward_weight"
    ).split():
        have, want = getattr(config, name), getattr(usual, name)
        expect(have == want, f"the run should have {name} = {want}; it has {have}.")
    expect(config.objective != "mc", 'the objective "mc" uses true values, which a learner does not have.')
    expect(config.n_steps <= 150, f"at most 150 steps; yours has {config.n_steps}.")
    expect(config.batch_size <= 32, f"at most 32 tasks a step; yours has {config.batch_size}.")
    expect(len(answer.seeds) >= 3, f"at least three seeds; yours has {len(answer.seeds)}.")
    expect((answer.history.diverged_at < 0).all(), "a seed diverged.")
    rng = np.random.default_rng([11, 2026])
    batch = tasks.draw(256, 10, 4, rng)
    contexts = batch.sample(100, rng)
    tensors = {name: torch.tensor(value, dtype=torch.float64) for name, value in answer.parameters.items()}
    with torch.no_grad():
        values = state_values(tensors, inputs(batch, contexts), 0.5, 5).numpy()
    constant = np.repeat(contexts.constant_value(0.5)[:, None], 10, axis=1)
    ratio = float(_error(values, batch, 0.5).max() / _error(constant, batch, 0.5))
    found = f"on new tasks the worst seed has {ratio:.3f} times the error of the constant"
    hint = ""
    if (values**2).mean(axis=(1, 2)).min() < 0.1 * (constant**2).mean():
        hint = " A seed has hardly left zero: what makes the first steps larger?"
    elif config.learning_rate > 0.5:
        hint = " Such long steps jump over the good places; between the usual rate and yours there is room."
    expect(ratio <= 0.46, f"{found}; the goal is 0.46.{hint}")
    for name, what in {"cosine_value_weights": "(1, 1, -1)", "cosine_score_matrix": "the identity"}.items():
        cosine = float(getattr(answer.history, name)[-1].min())
        expect(cosine > 0.99, f"the smallest cosine with {what} is {cosine:.4f}; the goal is 0.99.")
    return f"{found[0].upper()}{found[1:]}."


def _error(values, batch, gamma):
    """Value error, (...) for values (..., T, S)."""
    squares = (batch.stationary() * (values - batch.value(gamma)) ** 2).sum(axis=-1)
    return np.sqrt(squares.mean(axis=-1))


# --------------------------------------------------------------------------------------- five layers


def five_layers(answer):
    """Weights (5, 3) and scales (5,) that beat the constant predictor at gamma = 0.9."""
    expect(
        isinstance(answer, (tuple, list)) and len(answer) == 2,
        "your answer should be a pair (w, s).",
    )
    w = numbers(answer[0], (5, 3), "w")
    scales = numbers(answer[1], (5,), "s")
    expect((scales >= 0).all(), "the scales should not be negative.")
    rng = np.random.default_rng([13, 2026])
    batch = tasks.draw(256, 10, 4, rng)
    contexts = batch.sample(100, rng)
    counts, transition, reward = contexts.empirical()
    gram = batch.features @ batch.features.swapaxes(-1, -2)
    v = np.zeros(batch.reward.shape)
    for (w_R, w_T, w_C), scale in zip(w, scales):
        scores = np.where(counts[:, None] > 0, scale * gram, -np.inf)
        M = counts[:, None] * np.exp(scores - scores.max(axis=-1, keepdims=True))
        M /= M.sum(axis=-1, keepdims=True)
        after = (transition @ v[..., None])[..., 0]
        v = v + (M @ (w_R * reward + w_T * 0.9 * after + w_C * v)[..., None])[..., 0]
    constant = np.repeat(contexts.constant_value(0.9)[:, None], 10, axis=1)
    ratio = float(np.nan_to_num(_error(v, batch, 0.9), nan=np.inf) / _error(constant, batch, 0.9))
    found = f"your layers have {ratio:.3g} times the error of the constant"
    expect(np.isfinite(ratio), "your layers blow up.")
    level = 0.0  # of all states, if all rewards are 1; the truth is 10
    for w_R, w_T, w_C in w:
        level += w_R + (0.9 * w_T + w_C) * level
    expect(
        ratio <= 1 or 8 < level < 12,
        f"{found}. Most of a value at this discount is a level that all states share: if all rewards are 1, all values "
        f"are 10, and your layers reach {level:.3g}.",
    )
    expect(
        ratio <= 1,
        f"{found}. The level that all states share is about right; what makes the differences between states too "
        "large? Try shorter steps or smaller scales.",
    )
    expect(ratio <= 0.8, f"{found}; the goal is 0.8.")
    return f"{found[0].upper()}{found[1:]}."


# --------------------------------------------------------------------------------------------- bug labs


def bug_unseen(answer):
    """A mended `suspect_diagonality(states, X, A)` -> (mean, minimum)."""
    rng = np.random.default_rng(19)
    X, A = features.gaussian(6, 3, rng), rng.normal(size=(3, 3))
    for n in (4, 60):
        trajectory = mrp.boyan_chain(6, 0.5, rng).sample(n, rng, start_state=0)
        result = numbers(call(answer, trajectory.states, X, A), (2,), "mean and minimum")
        counts = np.bincount(trajectory.states[:-1], minlength=6)
        M = td.softmax_kernel(X, X, td.bilinear_score(A), counts)
        if close(result, np.array(convergence.diagonality(M, counts > 0))):
            continue
        diagonal = M.diagonal()
        everywhere = np.array([diagonal.mean(), diagonal.min()])
        expect(not close(result, everywhere), "states that were never left still count.")
        expect(
            not close(result, np.array([diagonal.sum() / (counts > 0).sum(), diagonal.min()])),
            "the mean is right; the minimum still looks at states that were never left.",
        )
        entered = np.isin(np.arange(6), trajectory.states)
        expect(
            not close(result, np.array([diagonal[entered].mean(), diagonal[entered].min()])),
            "the last state of a walk was entered, not left: it is no source.",
        )
        plain = td.softmax_kernel(X, X, td.bilinear_score(A)).diagonal()
        expect(
            not close(result, np.array([plain.mean(), plain.min()])),
            "your kernel has forgotten how often each state was left.",
        )
        raise NotYet("the kernel was right; only the states over which mean and minimum run should change.")
    return None


def bug_digits(answer):
    """A mended `suspect_forward(x, rewards, gamma, w, A, n_layers)` -> values of all layers."""
    rng = np.random.default_rng(23)
    process = mrp.boyan_chain(6, 0.8, rng)
    trajectory, w, A = process.sample(30, rng), np.array([1.2, 0.9, -1.1]), rng.normal(size=(3, 3))
    x = features.gaussian(6, 3, rng)[trajectory.states]

    def layers(K, w=w):
        history = [np.zeros(len(x))]
        for _ in range(6):
            v = history[-1]
            history.append(v + K @ (w[0] * trajectory.rewards + w[1] * 0.8 * v[1:] + w[2] * v[:-1]))
        return np.array(history)

    right, swapped = (layers(td.softmax_kernel(x, x[:-1], td.bilinear_score(matrix))) for matrix in (A, A.T))
    result = numbers(call(answer, x, trajectory.rewards, 0.8, w, A, 6), right.shape, "the values of 6 layers")
    if close(result, right):
        return "Now the agreement is one of all digits, for every matrix."
    expect(not close(result, swapped), "with a random matrix the values are as wrong as before.")
    symmetric = layers(td.softmax_kernel(x, x[:-1], td.bilinear_score((A + A.T) / 2)))
    expect(
        not close(result, symmetric),
        "making the matrix symmetric hides the mistake; the layer uses the matrix as it is.",
    )
    plain = layers(td.softmax_kernel(x, x[:-1]))
    expect(not close(result, plain), "your scores do not use the matrix any more.")
    step = int(np.argmax(np.abs(result - right).max(axis=1) > 1e-9))
    raise NotYet(f"the values are off from layer {step} on. The recursion was right; look at the scores.")


EXERCISES = {
    "by_hand": by_hand,
    "limit": limit,
    "visible": visible,
    "train": train,
    "five_layers": five_layers,
    "bug_unseen": bug_unseen,
    "bug_digits": bug_digits,
}
