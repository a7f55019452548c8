"""Exercises of the chapter on policy evaluation."""

import numpy as np

from ictd import mrp, td
from ictd.exercises._checking import NotYet, call, close, expect, numbers


def circle(answer):
    """Values of A, B and C on the circle A -> C -> B -> A."""
    answer = numbers(answer, (3,))
    gamma, reward = 1 / 3, np.array([3.0, 0.0, -6.0])
    transition = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    right = mrp.MRP(transition, reward, gamma).value()
    if close(answer, right):
        return
    mistakes = {
        "these are the rewards; a value also counts what comes later.": reward,
        "this is the other direction; here A is followed by C.": mrp.MRP(transition.T, reward, gamma).value(),
        "you paid the reward for entering a state; it is paid for leaving.": transition @ right,
        "this is for a discount of 1/2.": mrp.MRP(transition, reward, 1 / 2).value(),
    }
    for reason, wrong in mistakes.items():
        expect(not close(answer, wrong), reason)
    orders = {"A, C, B": [0, 2, 1], "C, B, A": [2, 1, 0], "B, A, C": [1, 0, 2]}
    for name, order in orders.items():
        expect(not close(answer, right[order]), f"the numbers are right, but in the order {name}.")
    expect(np.abs(answer - right).max() >= 0.01, "you are within rounding; give exact fractions.")
    fits = np.abs(answer - reward - gamma * transition @ answer) < 1e-9
    expect(
        not fits.any(),
        f"your numbers fit the equation of {' and '.join(np.array(list('ABC'))[fits])}, but not all three.",
    )
    raise NotYet("write one equation for each state: its reward plus the discounted value of the next state.")


def _passes(walk, gamma, step_size, n_passes, change):
    """Repeat a pass; ``change(sources, td_errors)`` says how each state moves."""
    values = np.zeros(5)
    sources, successors = walk.states[:-1], walk.states[1:]
    for _ in range(n_passes):
        values = values + step_size * change(sources, walk.rewards + gamma * values[successors] - values[sources])
    return values


def _sum(sources, td_errors):
    return np.bincount(sources, weights=td_errors, minlength=5)


def _mean(sources, td_errors):
    return _sum(sources, td_errors) / np.maximum(np.bincount(sources, minlength=5), 1)


def _last(sources, td_errors):
    change = np.zeros(5)
    change[sources] = td_errors  # of several visits only the last counts
    return change


def _last_share(sources, td_errors):
    return _last(sources, td_errors) / np.maximum(np.bincount(sources, minlength=5), 1)


def _share_of_walk(sources, td_errors):
    return _sum(sources, td_errors) / sources.size


def _sweep(walk, gamma, step_size, n_passes):
    """One transition after the other, each with the newest values."""
    values, counts = np.zeros(5), np.bincount(walk.states[:-1], minlength=5)
    for _ in range(n_passes):
        for s, reward, successor in zip(walk.states, walk.rewards, walk.states[1:]):
            values[s] += step_size * (reward + gamma * values[successor] - values[s]) / counts[s]
    return values


def batch_td(answer):
    """A function (states, rewards, gamma, n_states, step_size, n_passes) -> values."""
    rng, gamma = np.random.default_rng(3), 0.8
    process = mrp.boyan_chain(5, gamma, rng)
    mistakes = {
        "you add up the errors of a state; take their mean.": _sum,
        "a state that was left several times moves by one of its errors only. `v[states] += changes` keeps just the "
        "last change of each state; count and add up first.": _last,
        "a state moves by its last error over its count. `v[states] += changes` keeps just the last change of each "
        "state; add up first.": _last_share,
        "you divide by the number of all transitions; divide by those that left the state.": _share_of_walk,
    }
    for n, step_size, n_passes in [(40, 1.0, 1), (40, 0.5, 1), (40, 0.5, 7), (3, 1.0, 4)]:
        walk = process.sample(n, rng, start_state=0)
        what, left = "your values of 5 states", np.isin(np.arange(5), walk.states[:-1])
        raw = call(answer, walk.states, walk.rewards, gamma, 5, step_size, n_passes)
        expect(
            np.isfinite(numbers(raw, (5,), what, finite=False)[~left]).all(),
            "a state that was never left holds NaN or infinity; do not divide by its count of 0.",
        )
        result = numbers(raw, (5,), what)
        right = _passes(walk, gamma, step_size, n_passes, _mean)
        if close(result, right):
            continue
        setting = f"with {n} transitions, step size {step_size} and {n_passes} pass{'es' if n_passes > 1 else ''}"
        expect(not result[~left].any(), f"{setting} a state that was never left moved; it should stay at 0.")
        for reason, change in mistakes.items():
            expect(not close(result, _passes(walk, gamma, step_size, n_passes, change)), f"{setting} {reason}")
        expect(
            not close(result, _sweep(walk, gamma, step_size, n_passes)),
            f"{setting} you move a state before all errors of the pass are computed.",
        )
        expect(n_passes == 1, f"{setting} your values are off, although they are right after one pass.")
        expect(step_size == 1, f"{setting} your values are off, although they are right with step size 1.")
        raise NotYet(f"{setting} your values are off: after one pass from 0 each state should hold its mean reward.")
    return "With many passes it settles where every state's mean error is 0."


def bonus(answer):
    """A function (values, c, gamma) -> values after every reward was raised by c."""
    rng = np.random.default_rng(5)
    for gamma in (0.6, 0.9, 0.0):
        process, c = mrp.boyan_chain(4, gamma, rng), rng.uniform(0.5, 2)
        old = process.value()
        right = mrp.MRP(process.transition, process.reward + c, gamma).value()
        result = numbers(call(answer, old, c, gamma), (4,), "your values of 4 states")
        setting = f"at gamma = {gamma}"
        expect(gamma == 0 or not close(result, old + c), f"{setting} you count only the first of the extra rewards.")
        expect(
            gamma == 0 or not close(result, old + c * gamma / (1 - gamma)),
            f"{setting} the first extra reward is paid at once; yours is discounted already.",
        )
        expect(not close(result, np.full(4, c / (1 - gamma))), f"{setting} this is the change; add it to the values.")
        expect(close(result, right), f"{setting} your values are off by up to {np.abs(result - right).max():.3g}.")


def first_visit(answer):
    """A function (states, rewards, gamma, n_states) -> first-visit Monte Carlo values."""
    rng, gamma = np.random.default_rng(7), 0.8
    process = mrp.boyan_chain(5, gamma, rng)
    for n in (30, 4):
        walk = process.sample(n, rng, start_state=0)
        returns = np.zeros(n + 1)
        for k in reversed(range(n)):
            returns[k] = walk.rewards[k] + gamma * returns[k + 1]
        visits = [np.flatnonzero(walk.states[:-1] == s) for s in range(5)]
        left = np.array([v.size > 0 for v in visits])
        first = np.array([returns[v[0]] for v in visits if v.size])
        result = numbers(
            call(answer, walk.states, walk.rewards, gamma, 5), (5,), "your values of 5 states", finite=False
        )
        setting = f"on a walk of {n} transitions"
        expect(np.isfinite(result[left]).all(), f"{setting} a state that was left has no finite value.")
        expect(np.isnan(result[~left]).all(), f"{setting} a state that was never left should get NaN.")
        found = result[left]
        if close(found, first):
            continue
        mean = np.array([returns[v].mean() for v in visits if v.size])
        last = np.array([returns[v[-1]] for v in visits if v.size])
        only = np.array([walk.rewards[v[0]] for v in visits if v.size])
        expect(not close(found, mean), f"{setting} you average over all visits; only the first counts.")
        expect(not close(found, last), f"{setting} you keep the last visit of each state instead of the first.")
        expect(not close(found, only), f"{setting} you count only the first reward after the visit.")
        raise NotYet(f"{setting} your values are off: the return of a visit adds up all later rewards, discounted.")


def hidden(answer):
    """(transition, reward, labels): the certainty equivalence of the labels is wrong by more than 1/2."""
    if not (isinstance(answer, (tuple, list)) and len(answer) == 3):
        numbers(answer, (), "your example")
        raise NotYet("your example should be three things: (transition, reward, labels).")
    transition = numbers(answer[0], ("S", "S"), "your transition matrix")
    n_states = len(transition)
    expect(
        transition.shape == (n_states, n_states) and 1 < n_states <= 6,
        "the transition matrix should be square, for at most six states.",
    )
    reward = numbers(answer[1], (n_states,), "your rewards")
    labels = numbers(answer[2], (n_states,), "your labels").astype(int)
    expect((np.abs(reward) <= 1).all(), "rewards should lie in [-1, 1].")
    names = np.unique(labels)
    expect(len(names) < n_states, "no two states share a label, so nothing is hidden.")
    try:
        process = mrp.MRP(transition, reward, 0.9)
        weights = process.stationary()
    except (TypeError, ValueError) as error:
        raise NotYet(f"this is no process with one stationary distribution: {error}") from None
    expect((weights > 1e-6).all(), "some state is (almost) never visited in the long run; then its label says little.")
    member = (labels == names[:, None]) * weights
    member = member / member.sum(axis=1, keepdims=True)  # each label's distribution over its states
    true = member @ process.value()
    of_labels = mrp.MRP(member @ transition @ (labels[:, None] == names), member @ reward, 0.9).value()
    gap = np.abs(true - of_labels).max()
    expect(gap > 0.5, f"the largest difference between the two values of a label is {gap:.2f}; it should exceed 0.5.")
    return f"The model of the labels is off by {gap:.2f}, however long the walk."


def bug(answer):
    """A mended `suspect(states, rewards, gamma, n_states)`."""
    rng = np.random.default_rng(9)
    process = mrp.boyan_chain(5, 0.8, rng)
    walk = process.sample(200, rng)
    right = td.certainty_equivalence(td.empirical_model(walk, 5), 0.8)
    result = numbers(call(answer, walk.states, walk.rewards, 0.8, 5), (5,), "your values of 5 states")
    if close(result, right):
        return "Rows that sum to 1 give the future its full weight."
    reward = td.empirical_model(walk, 5).reward
    expect(
        np.abs(result - reward).max() >= np.abs(right - reward).max() / 2, "the values still stay close to the rewards."
    )
    raise NotYet(f"your values are off by up to {np.abs(result - right).max():.3g}.")


EXERCISES = {
    "circle": circle,
    "batch_td": batch_td,
    "bonus": bonus,
    "first_visit": first_visit,
    "hidden": hidden,
    "bug": bug,
}
