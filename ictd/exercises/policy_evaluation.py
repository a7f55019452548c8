"""Exercises of the chapter on policy evaluation; the statements stand in book/policy_evaluation.ipynb."""

import numpy as np

from ictd import mrp
from ictd.exercises._answers import NotYet, described, expect, has_parts, numbers
from ictd.exercises._checking import generator, judge_function, judge_numbers, listed
from ictd.exercises._values import BY_HAND
from ictd.exercises._walks import walks

# ------------------------------------------------------------------------------------------- by hand


def circle(answer):
    """Values of A, B and C on the circle A -> C -> B -> A."""
    answer = numbers(answer, (3,))
    gamma, reward = 1 / 3, np.array([3.0, 0.0, -6.0])
    transition = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    right = mrp.MRP(transition, reward, gamma).value()
    mistakes = {
        "all your values are 0.": 0 * reward,
        "these are the rewards; a value also counts what comes later.": reward,
        "these are the rewards and one step more; the walk goes on.": reward + gamma * transition @ reward,
        "this is the other direction; here A is followed by C.": mrp.MRP(transition.T, reward, gamma).value(),
        "you paid the reward for entering a state; it is paid for leaving.": transition @ right,
        "this is for a discount of 1/2.": mrp.MRP(transition, reward, 1 / 2).value(),
        "this is the circle of the text, and its rewards.": np.array([48, 40, 80]) / 7,
        "leaving C costs 6; you let it pay 6.": mrp.MRP(transition, np.abs(reward), gamma).value(),
        "the rewards of B and C are exchanged.": mrp.MRP(transition, reward[[0, 2, 1]], gamma).value(),
    }
    orders = {"A, C, B": [0, 2, 1], "C, B, A": [2, 1, 0], "B, A, C": [1, 0, 2]}
    mistakes |= {f"the numbers are right, but in the order {name}.": right[order] for name, order in orders.items()}

    def advice(answer):
        fits = np.abs(answer - reward - gamma * transition @ answer) < 1e-4
        if fits.any():
            return f"your numbers fit the equation of {listed(np.array(list('ABC'))[fits])}, but not all three."
        return "write one equation for each state: its reward plus the discounted value of the next state."

    inexact = "you are within rounding; give exact fractions."
    judge_numbers(answer, right, mistakes, advice, inexact, BY_HAND)


# ------------------------------------------------------------------- one number per state, of those of its visits


def _count(states, n_states):
    return np.bincount(states, minlength=n_states)


def _sum(states, numbers, n_states):
    return np.bincount(states[:-1], weights=numbers, minlength=n_states)


def _sum_over(counted):
    """The sum of a state's numbers over how often it is among the states that are counted."""
    return lambda states, numbers, n_states: (
        _sum(states, numbers, n_states) / np.maximum(_count(counted(states), n_states), 1)
    )


_mean = _sum_over(lambda states: states[:-1])
_sum_over_entries = _sum_over(lambda states: states[1:])
_sum_over_visits = _sum_over(lambda states: states)  # the end of the walk counts as well


def _sum_over_transitions(states, numbers, n_states):
    return _sum(states, numbers, n_states) / len(numbers)


def _last(states, numbers, n_states):
    found = np.zeros(n_states)
    found[states[:-1]] = numbers  # of several visits only the last counts
    return found


def _last_over_count(states, numbers, n_states):
    return _last(states, numbers, n_states) / np.maximum(_count(states[:-1], n_states), 1)


def _mean_where_entered(states, numbers, n_states):
    sums = np.bincount(states[1:], weights=numbers, minlength=n_states)
    return sums / np.maximum(_count(states[1:], n_states), 1)


def _left(states, n_states):
    return np.isin(np.arange(n_states), states[:-1])


# ---------------------------------------------------------------------------------------------- batch TD


def _batch(move=_mean, successor_weight=1.0, new_values=False):
    """Batch TD, or with something wrong in it; ``move`` makes the change of each state from all errors."""

    def function(states, rewards, gamma, n_states, step_size, n_passes):
        values, counts = np.zeros(n_states), _count(states[:-1], n_states)
        for _ in range(n_passes):
            if new_values:  # one transition after the other, each with the newest values
                for s, reward, successor in zip(states, rewards, states[1:]):
                    error = reward + gamma * values[successor] - values[s]
                    values[s] += step_size * error / (counts[s] if move is _mean else 1)
            else:
                errors = rewards + successor_weight * gamma * values[states[1:]] - values[states[:-1]]
                values = values + step_size * move(states, errors, n_states)
        return values

    return function


def _batch_of_other(change):
    """Batch TD with another discount, step size or number of passes."""

    def function(states, rewards, gamma, n_states, step_size, n_passes):
        gamma, step_size, n_passes = change(gamma, step_size, n_passes)
        return _batch()(states, rewards, gamma, n_states, step_size, n_passes)

    return function


def _nan_where_never_left(states, rewards, gamma, n_states, step_size, n_passes):
    values = _batch()(states, rewards, gamma, n_states, step_size, n_passes)
    return np.where(_left(states, n_states), values, np.nan)


def batch_td(answer):
    """A function (states, rewards, gamma, n_states, step_size, n_passes) -> values."""
    mistakes = {
        "you add up the errors of a state; take their mean.": _batch(_sum),
        "a state that was left several times moves by one of its errors only. `v[states] += changes` keeps just the "
        "last change of each state; count and add up first.": _batch(_last),
        "a state moves by its last error over its count. `v[states] += changes` keeps just the last change of each "
        "state; add up first.": _batch(_last_over_count),
        "you divide by the number of all transitions; divide by those that left the state.": _batch(
            _sum_over_transitions
        ),
        "you divide by how often a state was entered; its errors belong to leaving it.": _batch(_sum_over_entries),
        "you count the end of the walk as if that state were left once more.": _batch(_sum_over_visits),
        "each error moves the state that was entered; it belongs to the state that was left.": _batch(
            _mean_where_entered
        ),
        "you move a state before all errors of the pass are computed.": _batch(new_values=True),
        "you move a state with every transition, by the whole error; compute all errors of the pass first, then take "
        "means.": _batch(_sum, new_values=True),
        "the successor's value plays no part in your errors.": _batch(successor_weight=0),
        "the discount does nothing.": _batch_of_other(lambda gamma, step, passes: (1.0, step, passes)),
        "the step size does nothing.": _batch_of_other(lambda gamma, step, passes: (gamma, 1.0, passes)),
        "you make a single pass, whatever n_passes is.": _batch_of_other(lambda gamma, step, passes: (gamma, step, 1)),
        "you make one pass too few.": _batch_of_other(lambda gamma, step, passes: (gamma, step, passes - 1)),
        "you make one pass too many.": _batch_of_other(lambda gamma, step, passes: (gamma, step, passes + 1)),
        "the errors have the wrong sign.": _batch(lambda *walk: -_mean(*walk)),
        "all your values are 0.": _batch(lambda *walk: 0 * _mean(*walk)),
        "a state that was never left holds NaN or infinity; do not divide by its count of 0.": _nan_where_never_left,
    }
    schedule = [(0.5, 3), (1.0, 1), (0.5, 1), (1.0, 4), (0.25, 2), (0.5, 2)]
    cases = {
        f"{setting}, with step size {steps[0]} and {steps[1]} pass{'es' if steps[1] > 1 else ''},": (*walk, *steps)
        for (setting, walk), steps in zip(walks("policy_evaluation.batch_td").items(), schedule)
    }

    def advice(arguments, found):
        left = _left(arguments[0], arguments[3])
        if found[~left].any():
            return "a state that was never left moved; it should stay at 0."
        return "your values are off: after one pass from 0 with step size 1 each state should hold its mean reward."

    judge_function(answer, _batch(), cases, mistakes, advice)
    return "With many passes it settles where every state's mean error is 0."


# ------------------------------------------------------------------------------------------------- bonus


def bonus(answer):
    """A function (values, c, gamma) -> values after every reward was raised by c."""

    def right(values, c, gamma):
        return values + c / (1 - gamma)

    mistakes = {
        "you count only the first of the extra rewards.": lambda v, c, g: v + c,
        "you count two of the extra rewards; they never end.": lambda v, c, g: v + c + g * c,
        "the first extra reward is paid at once; yours is discounted already.": lambda v, c, g: v + c * g / (1 - g),
        "this is the change; add it to the values.": lambda v, c, g: np.full(len(v), c / (1 - g)),
        "the change has the wrong sign.": lambda v, c, g: v - c / (1 - g),
        "the values have not changed.": lambda v, c, g: v,
        "the old values hold discounted sums already; only the extra rewards have to be summed.": lambda v, c, g: (
            (v + c) / (1 - g)
        ),
        "you add up the discounts 1, gamma, gamma², ... with alternating signs.": lambda v, c, g: v + c / (1 + g),
        "you multiply the values; a raise of every reward adds something.": lambda v, c, g: v * (1 + c),
        "you multiply the extra reward by 1 - gamma.": lambda v, c, g: v + c * (1 - g),
        "the extra reward comes in every step, not once for each state.": lambda v, c, g: v + c * len(v),
    }
    rng = generator("policy_evaluation.bonus")
    cases = {
        f"at gamma = {gamma} and c = {c}": (rng.normal(size=4), c, gamma)
        for gamma, c in [(0.6, 1.3), (0.9, -0.7), (0.25, 2.0), (0.0, 0.8)]
    }
    advice = (
        "your values are off: a state gets the extra reward at once and after every later step, each time discounted."
    )
    judge_function(answer, right, cases, mistakes, advice)


# ------------------------------------------------------------------------------------------- Monte Carlo


def _visits(choose=lambda returns, visits: returns[visits[0]], unseen=np.nan, entered=False, last_too=False, start=0):
    """First-visit Monte Carlo; ``choose`` makes one number of the returns of a state's visits."""

    def function(states, rewards, gamma, n_states):
        returns = np.zeros(len(rewards) + 1)
        for k in reversed(range(len(rewards))):
            returns[k] = rewards[k] + gamma * returns[k + 1]
        found = np.full(n_states, unseen)
        if last_too:
            found[states[-1]] = 0
        among = states[1:] if entered else states[:-1]
        for s in range(n_states):
            visits = np.flatnonzero(among == s)
            if (visits >= start).any():
                found[s] = choose(returns, visits[visits >= start])
        return found

    return function


def first_visit(answer):
    """A function (states, rewards, gamma, n_states) -> first-visit Monte Carlo values."""
    right = _visits()

    def other_returns(reward_of, gamma_of=lambda gamma: gamma):
        return lambda states, rewards, gamma, n: right(states, reward_of(rewards, gamma), gamma_of(gamma), n)

    def from_the_start(states, rewards, gamma, n_states):
        """Discounts counted from the start of the walk instead of from the visit."""
        return _visits(lambda returns, visits: gamma ** visits[0] * returns[visits[0]])(
            states, rewards, gamma, n_states
        )

    mistakes = {
        "you average over all visits; only the first counts.": _visits(lambda returns, k: returns[k].mean()),
        "you keep the last visit of each state instead of the first.": _visits(lambda returns, k: returns[k[-1]]),
        "you add up the returns of all visits; only the first counts.": _visits(lambda returns, k: returns[k].sum()),
        "you keep the largest return; the first counts.": _visits(lambda returns, k: returns[k].max()),
        "you count only the first reward after the visit.": lambda s, r, g, n: right(s, r, 0.0, n),
        "later rewards are not discounted.": lambda s, r, g, n: right(s, r, 1.0, n),
        "discounts count from the visit, not from the start of the walk.": from_the_start,
        "the reward for leaving counts in full; yours is discounted already.": other_returns(lambda r, g: g * r),
        "each return went to the state that was entered; it belongs to the state that was left.": _visits(entered=True),
        "your walk starts at the second state; the first state is visited, too.": _visits(start=1),
        "the last reward is missing.": other_returns(lambda r, g: np.append(r[:-1], 0)),
        "a state that was never left should get NaN.": _visits(unseen=0.0),
        "the last state was entered, but if it was not left before, it should get NaN like all that were never "
        "left.": _visits(last_too=True),
    }

    def advice(arguments, found):
        left = _left(arguments[0], arguments[3])
        if not np.isfinite(found[left]).all():
            return "a state that was left has no finite value."
        if not np.isnan(found[~left]).all():
            return "a state that was never left should get NaN."
        return "your values are off: the return of a visit adds up all later rewards, discounted."

    cases = walks("policy_evaluation.first_visit")
    judge_function(answer, right, cases, mistakes, advice)


# ------------------------------------------------------------------------------------------------ labels


def hidden(answer):
    """(transition, reward, labels): the certainty equivalence of the labels is wrong by more than 1/2."""
    kind = f"{len(answer)} things" if isinstance(answer, (tuple, list)) else described(answer)
    expect(has_parts(answer, 3), f"your example should be three things, (transition, reward, labels); it is {kind}.")
    transition = numbers(answer[0], ("S", "S"), "your transition matrix").astype(np.float64)
    n_states = len(transition)
    expect(
        transition.shape == (n_states, n_states) and 1 < n_states <= 6,
        "the transition matrix should be square, for two to six states.",
    )
    reward = numbers(answer[1], (n_states,), "your list of rewards").astype(np.float64)
    labels = numbers(answer[2], (n_states,), "your list of labels")
    expect((labels % 1 == 0).all(), "your labels should be whole numbers, such as 0, 1, 2; some of yours are not.")
    expect((np.abs(reward) <= 1).all(), "rewards should lie in [-1, 1].")
    names = np.unique(labels)
    expect(len(names) < n_states, "no two states share a label, so nothing is hidden.")
    try:
        process = mrp.MRP(transition, reward, 0.9)
        weights = process.stationary()
    except (TypeError, ValueError) as error:
        raise NotYet(f"this is no process with one stationary distribution: {error}.") from None
    expect((weights > 1e-6).all(), "some state is (almost) never visited in the long run; then its label says little.")
    member = (labels == names[:, None]) * weights
    member = member / member.sum(axis=1, keepdims=True)  # each label's distribution over its states
    true = member @ process.value()
    of_labels = mrp.MRP(member @ transition @ (labels[:, None] == names), member @ reward, 0.9).value()
    gap = np.abs(true - of_labels).max()
    expect(gap > 0.5, f"the largest difference between the two values of a label is {gap:.2f}; it should exceed 0.5.")
    return f"The model of the labels is off by {gap:.2f}, however long the walk."


# ----------------------------------------------------------------------------------------------- bug lab


def _equivalence(
    rows=lambda pairs, states: pairs.sum(axis=1, keepdims=True), reward=_mean, transposed=False, discount=1.0
):
    """Certainty equivalence with something wrong in the rows or the rewards of its model."""

    def function(states, rewards, gamma, n_states):
        pairs = np.zeros((n_states, n_states))
        np.add.at(pairs, (states[:-1], states[1:]), 1)
        transition = pairs / np.maximum(rows(pairs, states), 1)
        system = np.eye(n_states) - discount * gamma * (transition.T if transposed else transition)
        return np.linalg.solve(system, reward(states, rewards, n_states))

    return function


def bug(answer):
    """A mended `suspect(states, rewards, gamma, n_states)`."""
    mistakes = {
        "nothing has changed: the values still stay close to the rewards.": _equivalence(
            lambda pairs, states: pairs.sum()
        ),
        "you divide the row of a state by how often it was entered; count how often it was left.": _equivalence(
            lambda pairs, states: pairs.sum(axis=0)[:, None]
        ),
        "you divide by how often the state of the column was entered: now the columns sum to 1, not the rows.": (
            _equivalence(lambda pairs, states: pairs.sum(axis=0, keepdims=True))
        ),
        "you divide column by column; divide each row by its own count.": _equivalence(
            lambda pairs, states: pairs.sum(axis=1)[None]
        ),
        "you count the end of the walk as if that state were left once more.": (
            _equivalence(lambda pairs, states: _count(states, len(pairs))[:, None]),
            _equivalence(
                lambda pairs, states: _count(states, len(pairs))[:, None],
                _sum_over_visits,
            ),
        ),
        "you do not divide the counts at all.": _equivalence(lambda pairs, states: np.ones((1, 1))),
        "your transition matrix is transposed.": _equivalence(transposed=True),
        "these are the mean rewards: the future plays no part any more.": _equivalence(discount=0.0),
        "all your values are 0.": lambda s, r, g, n: np.zeros(n),
        "your rewards are sums; take the mean reward of each state.": _equivalence(reward=_sum),
        "your rewards are divided by the number of all transitions; divide by how often the state was left.": (
            _equivalence(reward=_sum_over_transitions)
        ),
        "you divide the rewards of a state by how often it was entered; count how often it was left.": (
            _equivalence(reward=_sum_over_entries)
        ),
        "you divide by how often a state was entered; count how often it was left.": _equivalence(
            lambda pairs, states: pairs.sum(axis=0)[:, None],
            _sum_over_entries,
        ),
        "the rewards went to the states that were entered; they are paid for leaving.": (
            _equivalence(reward=_mean_where_entered)
        ),
        "the reward of a state is the mean over its visits, not that of the last visit.": _equivalence(reward=_last),
    }
    advice = (
        "your values are off. Count the pairs of a short walk by hand: what should each row of the model be, and what "
        "the reward of each state?"
    )
    judge_function(answer, _equivalence(), walks("policy_evaluation.bug", all_left=True), mistakes, advice)
    return "Rows that sum to 1 give the future its full weight."


EXERCISES = circle, batch_td, bonus, first_visit, hidden, bug
