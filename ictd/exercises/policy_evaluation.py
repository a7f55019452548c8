"""Exercises of the chapter on policy evaluation."""

import numpy as np

from ictd import mrp
from ictd.exercises import NotYet, call, close, expect, numbers


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


EXERCISES = {"circle": circle, "batch_td": batch_td}
