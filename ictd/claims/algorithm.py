"""Claims about the algorithm: weighted softmax TD on positions and on states, its scores, and plain loops.

A check is a function from an `Instance` to a relative error: the largest difference in a layer over the larger of 1
and the layer's largest value, and of that the maximum over layers.
"""

import functools
from dataclasses import replace

import numpy as np

from ictd import features, kernels, mrp, reference, td
from ictd.claims.statement import relative_error


def position_form(case, score=None, initial=None):
    """Weighted softmax TD of an instance at its positions; the score is that of its matrix A by default."""
    score = score or kernels.bilinear_score(case.A)
    return td.weighted_softmax_td(case.x, case.rewards, case.gamma, case.n_layers, case.step_size, score, initial)


def state_form(case, score=None, initial=None):
    """The same on the states of an instance."""
    score = score or kernels.bilinear_score(case.A)
    return td.weighted_softmax_td_states(
        case.trajectory, case.X, case.gamma, case.n_layers, case.step_size, score, initial
    )


def loops_are_the_position_form(case):
    A = case.A.tolist()

    @functools.cache  # the loops ask again in every layer
    def score(query, source):  # plain sums too: shared with the fast forms, a wrong score would go unseen
        return sum(source[a] * A[a][b] * query[b] for a in range(len(A)) for b in range(len(A)))

    loops = reference.weighted_softmax_td_loops(
        list(map(tuple, case.x.tolist())), case.rewards.tolist(), case.gamma, case.n_layers, case.step_size, score
    )
    return relative_error(position_form(case), loops)


def position_form_is_the_state_form(case):
    initial = case.rng.standard_normal(len(case.X))
    positions = case.trajectory.states
    return relative_error(
        state_form(case, initial=initial)[:, positions], position_form(case, initial=initial[positions])
    )


def names_of_states_do_not_matter(case):
    order = case.rng.permutation(len(case.X))
    renamed = mrp.Trajectory(order[case.trajectory.states], case.rewards)
    X = np.empty_like(case.X)
    X[order] = case.X
    return relative_error(state_form(replace(case, trajectory=renamed, X=X))[:, order], state_form(case))


def constant_added_to_scores_changes_nothing(case):
    score = kernels.bilinear_score(case.A)
    constants = case.rng.uniform(-100, 100, (len(case.x), 1))
    return relative_error(position_form(case, lambda q, s: score(q, s) + constants), position_form(case, score))


def scale_multiplies_the_scores(case):
    scale = case.rng.uniform(0.1, 3)
    scaled = td.weighted_softmax_td(np.sqrt(scale) * case.x, case.rewards, case.gamma, case.n_layers, case.step_size)
    return relative_error(position_form(case, kernels.inner_product_score(scale)), scaled)


def large_scores_are_harmless(case):
    """Scores of size 10,000: kernel rows against weights in exact order, from differences of scores."""
    scores = 1e4 * case.rng.standard_normal((len(case.x), len(case.x)))
    kernel = kernels.softmax_kernel(case.x, case.x[:-1], lambda queries, sources: scores[:, : len(sources)])
    scores = scores[:, :-1]
    with np.errstate(over="ignore"):
        expected = 1 / np.exp(scores[:, None, :] - scores[:, :, None]).sum(axis=-1)
    return relative_error(kernel, expected)


def tabular_score_is_tabular_td(case):
    # TD written out, as the fast form would share the model with it
    states, rewards = case.trajectory.states, case.rewards
    values = np.zeros((case.n_layers + 1, len(case.X)))
    for t in range(case.n_layers):
        td_errors = rewards + case.gamma * values[t, states[1:]] - values[t, states[:-1]]
        values[t + 1] = values[t]
        for s in set(states[:-1].tolist()):
            values[t + 1, s] += case.step_size * td_errors[states[:-1] == s].mean()
    one_hot = replace(case, X=features.one_hot(len(case.X)))
    return relative_error(state_form(one_hot, kernels.tabular_score()), values)
