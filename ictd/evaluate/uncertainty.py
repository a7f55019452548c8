"""How far certainty equivalence may be off: its standard error."""

import numpy as np

from ictd import empirical

RESAMPLES = 200
# Errors of this share of the largest value are rounding.
ROUNDING = 1e-13


def standard_error(transitions, model, value, gamma):
    """A standard error for each value of certainty equivalence, NaN where it is unknown.

    To first order ``v_CE - v = (I - gamma P)^{-1} xi``, where xi(u) is the mean TD error of v at the transitions that
    leave u. Its spread is estimated twice, with the TD errors of v_CE, and the larger estimate counts:

    - *Delta method.* In a Markov process the TD errors of different transitions are uncorrelated, so xi(u) has their
      variance at u over c(u). A state whose c(u) transitions all looked alike may still have a rare outcome, as a fall
      off a cliff, that they did not show. So each state counts as if it had one more transition, with the largest TD
      error of the data: the variance of xi(u) is (sum of squares + largest square) / c(u)^2.
    - *Bootstrap over episodes*, where there are several: whole episodes, with all their pieces if missing values broke
      them, get random weights (exponential, the Bayesian
      bootstrap of Rubin 1981), drawn with a fixed seed, so the same data give the same numbers. It needs no Markov
      process, only independent episodes, but sees no spread in a state that occurs in a single one.

    Zero says that the data show no spread anywhere, not that there is none.

    Parameters
    ----------
    transitions : Transitions
    model : empirical.EmpiricalModel
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
    errors[np.abs(errors) <= ROUNDING * np.abs(value[inside]).max()] = 0.0
    largest = np.abs(errors).max()
    if largest == 0:
        result[inside] = 0.0
        return result
    errors /= largest  # squares of tiny numbers would be 0

    squares = np.bincount(source, errors**2, n_states) + (errors**2).max()
    result[inside] = np.sqrt(resolvent**2 @ (squares / counts**2))
    if transitions.n_episodes > 1:
        spread = _over_episodes(source, errors, transitions.units[use], n_states)
        result[inside] = np.maximum(result[inside], np.sqrt(((resolvent @ spread) ** 2).mean(axis=1)))
    return result * largest


def td_errors(transitions, value, gamma):
    """R + gamma v(S') - v(S) of each transition; the end is worth 0."""
    successor = np.where(transitions.successors == empirical.END, 0.0, value[transitions.successors])
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
