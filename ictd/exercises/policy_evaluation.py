"""Exercises of the chapter on policy evaluation."""

import numpy as np

from ictd import mrp, td
from ictd.exercises import NotYet, call, close, expect, numbers


def circle(answer):
    """Values of A and B on the circle A -> B -> A."""
    answer = numbers(answer, (2,))
    right = mrp.MRP([[0, 1], [1, 0]], [1, -2], 1 / 3).value()
    if close(answer, right):
        return None
    expect(not close(answer, right[::-1]), "the order should be A, B.")
    expect(not close(answer, [1, -2]), "these are the rewards; a value also counts what comes later.")
    expect(np.abs(answer - right).max() >= 0.01, "you are within rounding; give exact fractions.")
    first = abs(answer[0] - 1 - answer[1] / 3) < 1e-9
    second = abs(answer[1] + 2 - answer[0] / 3) < 1e-9
    expect(not first, "your values fit the equation of A, but not that of B.")
    expect(not second, "your values fit the equation of B, but not that of A.")
    raise NotYet("write one equation for each state: its reward plus the discounted value of the next state.")


def batch_td(answer):
    """A function (states, rewards, gamma, n_states, step_size, n_passes) -> values."""
    rng = np.random.default_rng(3)
    process = mrp.boyan_chain(5, 0.8, rng)
    for n, step_size, passes in [(40, 1.0, 1), (40, 0.5, 1), (40, 0.5, 7), (3, 1.0, 4)]:
        walk = process.sample(n, rng, start_state=0)
        arguments = walk.states, walk.rewards, 0.8, 5, step_size, passes
        result = numbers(call(answer, *arguments), (5,), "your values of 5 states")
        one_hot, model = np.eye(5), td.empirical_model(walk, 5)
        right = td.weighted_softmax_td_states(walk, one_hot, 0.8, passes, step_size, td.tabular_score())[-1]
        setting = f"with {n} transitions, step size {step_size} and {passes} pass{'es' if passes > 1 else ''}"
        if close(result, right):
            continue
        expect(not result[~model.visited].any(), f"{setting} a state that was never left moved; it should stay at 0.")
        sums = step_size * np.where(model.visited, model.reward, 0) * model.counts
        expect(passes > 1 or not close(result, sums), f"{setting} you add up the errors of a state; take their mean.")
        expect(step_size == 1, f"{setting} your values are off, although they are right with step size 1.")
        expect(passes == 1, f"{setting} your values are off: compute all errors of a pass before you move any value.")
        raise NotYet(f"{setting} your values are off: after one pass from 0 each state should hold its mean reward.")
    return None


EXERCISES = {"circle": circle, "batch_td": batch_td}
