"""Weighted softmax TD, certainty equivalence and its standard error on the data of the caller."""

import dataclasses
import itertools

import numpy as np

from ictd import _checks, _settings, convergence, empirical, kernels, td
from ictd import features as feature_maps
from ictd.evaluate import arguments, cautions
from ictd.evaluate.result import Evaluation
from ictd.evaluate.trained import check_model, trained_values
from ictd.evaluate.uncertainty import standard_error

# Where neither the caller nor a model says it.
GAMMA, N_LAYERS = 0.9, 50


def evaluate(
    states, rewards, features=None, *, gamma=None, n_layers=None, scale=1.0, episodes=None, done=None, model=None
):
    """Run weighted softmax TD on a walk or on many episodes, from v_0 = 0 with step size 1.

    Transitions never cross episodes. An episode that is done leads to an end that is worth 0: the rows of the
    empirical model then sum to less than 1. An episode that just stops leaves its last reward out, since nobody
    knows what followed; ``notes`` say how often.

    Parameters
    ----------
    states : sequence of labels
        S_0..S_n: numbers, strings, tuples, anything hashable; also an array, a tensor or a column of a table.
    rewards : array_like
        Without ``episodes`` and ``done``, shape (n,): ``rewards[k]`` was paid for leaving ``states[k]``, and the last
        state was not left. With one of them, shape (n+1,), one a row: NaN (or None) where there is none, which only
        the last row of an episode may have that is not done.
    features : array_like, shape (n+1, d), optional
        Features of S_0..S_n, equal for equal states. Default: one-hot.
    gamma : float, optional
        Discount in [0, 1). Default: that of the model, or 0.9.
    n_layers : int, optional
        Number of layers (steps) L, at least 0. Default: that of the model, or 50.
    scale : float
        Positive score scale: scores are scale * <x(s), x(s')>; for one-hot features the scale for equal
        states and 0 for different ones.
    episodes : sequence of n+1 ids, optional
        Anything hashable. Equal ids are one episode, in the order of the rows, also if other rows stand between them.
    done : sequence of n+1 truth values, optional
        Whether the row leads to the end: booleans, 1 and 0, or text such as "yes" and "no". Without ``episodes`` the
        row after it begins the next one. A time limit that cuts an episode off is not an end.
    model : SoftmaxICTD or FullICTD, optional
        A trained model, for example of `runs.SavedRun.model`, to be run on the walk as well: needs torch, one walk
        and the features, gamma and number of layers that the model has.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError, TypeError
        Lengths that do not fit, NaN, features that are no function of the state, more than 2000
        different states, numbers above 1e100; a row that is done without a reward, or that follows the end of its
        episode; data without any transition.
    """
    with _settings.numpy_defaults():
        return _evaluate(states, rewards, features, gamma, n_layers, scale, episodes, done, model)


def _evaluate(states, rewards, features, gamma, n_layers, scale, episodes, done, model):
    several = episodes is not None or done is not None
    if model is not None:
        gamma, n_layers = check_model(model, gamma, n_layers, features, several)
    entries = arguments.labels("states", states)
    labels, index = arguments.numbered(entries, "states", arguments.MAX_STATES)
    if not several:
        transitions = arguments.one_walk(index, rewards)
    else:
        transitions = arguments.many_episodes(index, rewards, episodes, done)
    X = None if features is None else arguments.features_of_states(features, labels, index)
    gamma = _checks.discount(GAMMA if gamma is None else gamma) + 0.0  # without the sign of -0.0
    n_layers = _checks.integer("n_layers", N_LAYERS if n_layers is None else n_layers, low=0)
    scale = _checks.real("scale", scale, low=0, low_open=True, high=arguments.LARGEST)

    context = empirical.model_of_transitions(
        transitions.sources, transitions.rewards, transitions.successors, len(labels)
    )
    certainty_equivalence = _certainty_equivalence(context, gamma)
    error = standard_error(transitions, context, certainty_equivalence, gamma)
    trained = None if model is None else trained_values(model, X, index, transitions.rewards, context)

    X, group, merged = _as_the_algorithm_sees_it(X, transitions, context)
    kernel = kernels.state_kernel(merged, X, kernels.inner_product_score(scale))
    value = _last_layer(merged, kernel, gamma, n_layers)
    limit, radius = convergence.limit(kernel, merged, gamma)

    result = Evaluation(
        labels,
        context.counts,
        value[group],
        certainty_equivalence,
        error,
        limit[group],
        radius,
        gamma,
        n_layers,
        scale,
        len(transitions.rewards),
        transitions.n_episodes,
        transitions.n_ends,
        transitions.n_left_out,
        trained=trained,
    )
    return dataclasses.replace(
        result,
        warnings=(
            *cautions.of_labels(labels),
            *cautions.of_two_spellings(transitions.ids, "episodes"),
            *cautions.of_equal_features(labels, group),
            *cautions.of_states_never_left(result, merged.visited[group], features is None, several),
            *cautions.of_states_left_once(result),
            *cautions.of_the_iteration(result, features is None),
        ),
        notes=tuple(cautions.notes(transitions)),
    )


def _certainty_equivalence(context, gamma):
    """The value of the empirical model, NaN for the states that lead to one that was never left."""
    unknown = _leading_to(~context.visited, context.transition)
    if gamma == 0:  # what follows does not matter
        unknown = ~context.visited
    values = empirical.values_with_boundary(context.transition, context.reward, unknown, 0.0, gamma)
    return np.where(unknown, np.nan, values)


def _leading_to(targets, transition):
    """The states from which a target can be reached, and the targets."""
    reached, new = targets.copy(), targets
    while new.any():
        new = (transition[:, new] > 0).any(axis=1) & ~reached
        reached |= new
    return reached


def _as_the_algorithm_sees_it(X, transitions, model):
    """The distinct features, which of them each state has, and the model in which equal ones are one state."""
    if X is None:
        return feature_maps.one_hot(len(model.counts)), np.arange(len(model.counts)), model
    distinct, group = np.unique(X + 0.0, axis=0, return_inverse=True)
    group = group.reshape(-1)
    on = transitions.successors != empirical.END
    successors = np.where(on, group[transitions.successors], empirical.END)
    merged = empirical.model_of_transitions(group[transitions.sources], transitions.rewards, successors, len(distinct))
    return distinct, group, merged


def _last_layer(model, kernel, gamma, n_layers):
    """v_L, or the first values that overflowed."""
    start = values = np.zeros(len(kernel))
    for values in td.context_steps(model, kernel, gamma, itertools.repeat(1.0, n_layers), start):
        if not np.isfinite(values).all():
            break
    return values
