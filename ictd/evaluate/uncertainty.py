"""How far certainty equivalence may be off: its standard error."""

import numpy as np

from ictd import td

RESAMPLES = 200


def standard_error(transitions, model, value, gamma):
    """A standard error for each value of certainty equivalence, NaN where it is unknown.

    To first order ``v_CE - v = (I - gamma P)^{-1} xi``, where xi(u) is the mean TD error of the value at the
    transitions that leave u. Two estimates of its spread; the larger one counts:

    - *Delta method.* In a Markov process the TD errors are uncorrelated, so xi(u) has the variance of the TD errors at
      u over c(u). A state left once shows no spread: it takes the variance pooled over all states.
    - *Bootstrap over episodes*, where there are several: episodes get random weights (exponential, the Bayesian
      bootstrap of Rubin 1981), drawn with a fixed seed, so the same data give the same numbers. It needs no Markov
      process, only independent episodes, but sees no spread in a state that occurs in a single one.

    Parameters
    ----------
    transitions : Transitions
    model : td.EmpiricalModel
        Of these transitions.
    value : ndarray, shape (S,)
        NaN where it is not determined; no state with a value leads to one without, unless gamma is 0.
    gamma : float

    Returns
    -------
    ndarray, shape (S,)
    """
    result = np.full(value.shape, np.nan)
    inside = np.flatnonzero(~np.isnan(value))
    use = ~np.isnan(value[transitions.sources])
    n_errors, n_states = np.count_nonzero(use), inside.size
    if n_errors == n_states:  # each state was left once: nothing shows a spread
        return result
    counts = model.counts[inside]
    resolvent = np.linalg.inv(np.eye(n_states) - gamma * model.transition[np.ix_(inside, inside)])
    place = np.full(value.shape, -1)
    place[inside] = np.arange(n_states)
    source, errors = place[transitions.sources[use]], td_errors(transitions, value, gamma)[use]

    squares = np.bincount(source, errors**2, n_states)
    pooled = squares.sum() / (n_errors - n_states)
    variance = np.where(counts > 1, squares / np.maximum(counts - 1, 1), pooled) / counts
    result[inside] = np.sqrt(resolvent**2 @ variance)
    if transitions.n_episodes > 1:
        spread = _over_episodes(source, errors, transitions.episodes[use], n_states)
        result[inside] = np.maximum(result[inside], np.sqrt(((resolvent @ spread) ** 2).mean(axis=1)))
    return result


def td_errors(transitions, value, gamma):
    """R + gamma v(S') - v(S) of each transition; the end is worth 0."""
    successor = np.where(transitions.successors == td.END, 0.0, value[transitions.successors])
    if gamma == 0:
        successor = 0.0  # also where it is NaN
    return transitions.rewards + gamma * successor - value[transitions.sources]


def _over_episodes(source, errors, episodes, n_states):
    """Mean TD error of each state for random weights of the episodes, shape (S, resamples)."""
    # One row for each state of each episode: far fewer than transitions, usually.
    pair, row = np.unique(episodes * n_states + source, return_inverse=True)
    total, count = np.bincount(row, errors), np.bincount(row)
    episode, state = np.unique(pair // n_states, return_inverse=True)[1], pair % n_states
    rng = np.random.default_rng(0)
    spread = np.empty((n_states, RESAMPLES))
    for resample in range(RESAMPLES):
        weight = rng.standard_exponential(episode[-1] + 1)[episode]
        spread[:, resample] = np.bincount(state, weight * total) / np.bincount(state, weight * count)
    return spread
