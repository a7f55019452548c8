"""The empirical model of a context, and its value: certainty equivalence."""

import math
from dataclasses import dataclass

import numpy as np

from ictd import _checks
from ictd._arguments import array, check_fields, declare, discount, instance, optional, side
from ictd._settings import numpy_defaults
from ictd.mrp import Trajectory, solve_bellman

# The successor of a transition that leads to the end.
END = -1


def _counts(name, value, lengths):
    """How often each state was left, as whole numbers."""
    counts = array("S")(name, value, lengths)
    if (counts < 0).any() or (counts % 1).any() or not counts.any():
        raise ValueError(f"{name} must be non-negative whole numbers, not all 0; got {counts.tolist()}")
    if counts.max() > 2**53:
        raise ValueError(f"{name} must be at most 2**53; got {counts.max():.17g}")
    return counts.astype(np.int64)


def _frequencies(name, value, lengths):
    """Rows of probabilities that sum to at most 1."""
    rows = _checks.non_negative(name, array("S", "S")(name, value, lengths))
    sums = rows.sum(axis=1)
    if sums.max() > 1 + _checks.SUM_TOLERANCE:
        row = int(sums.argmax())
        raise ValueError(f"{name} must have rows that sum to at most 1; row {row} sums to {sums[row]:.10g}")
    # The excess of a row that was rounded; rows within the rounding of a sum stay bit for bit as they are.
    return rows / np.where(sums > 1 + len(rows) * np.finfo(np.float64).eps, sums, 1)[:, None]


def _visited(name, value, lengths):
    return _checks.booleans(name, value, lengths["S"])


@dataclass(frozen=True, eq=False)
class EmpiricalModel(_checks.ReadOnly):
    """What data say about the process: counts, mean rewards and relative frequencies.

    Attributes
    ----------
    counts : ndarray of int, shape (S,)
        c(u), how often u was left (how often it was a source); at most 2**53, up to which floats count exactly.
    transition : ndarray, shape (S, S)
        Relative frequencies of the successors. Rows sum to at most 1: what is missing leads to an end worth 0. The
        row of a state that was never a source is 0.
    reward : ndarray, shape (S,)
        Mean reward for leaving; NaN for a state that was never a source.
    visited : ndarray of bool, shape (S,)
        Whether the state was a source at least once.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, or fields that contradict each other.
    """

    counts: np.ndarray
    transition: np.ndarray
    reward: np.ndarray
    visited: np.ndarray

    def __post_init__(self):
        rewards = array("S", finite=False)
        check_fields(self, counts=_counts, transition=_frequencies, reward=rewards, visited=_visited)
        if (self.visited != (self.counts > 0)).any():
            raise ValueError(f"visited must be True exactly where counts > 0; got {self.visited.tolist()}")
        if not np.isfinite(self.reward[self.visited]).all():
            raise ValueError(f"reward must be finite for the visited states; got {self.reward.tolist()}")
        if not np.isnan(self.reward[~self.visited]).all():
            raise ValueError(f"reward must be NaN for states that were never a source; got {self.reward.tolist()}")
        if self.transition[~self.visited].any():
            raise ValueError("transition must have rows of 0 for states that were never a source; it has others")

    @property
    def n_states(self):
        """Number S of states."""
        return self.counts.size


@numpy_defaults()
@declare(trajectory=instance(Trajectory), n_states=side())
def empirical_model(trajectory, n_states):
    """Count the transitions of a trajectory.

    Parameters
    ----------
    trajectory : Trajectory
    n_states : int
        Number of states S; larger than every state in the trajectory.

    Returns
    -------
    EmpiricalModel

    Raises
    ------
    ValueError, TypeError
        A state of the trajectory beyond n_states, or rewards whose sum per state overflows.
    """
    largest = int(trajectory.states.max())
    if largest >= n_states:
        raise ValueError(f"n_states must exceed every state of the trajectory; got {n_states} and state {largest}")
    try:
        return model_of_transitions.trusted(trajectory.states[:-1], trajectory.rewards, trajectory.states[1:], n_states)
    except ValueError as error:  # a sum that overflows
        raise ValueError(f"trajectory must hold smaller rewards: {error}") from None


def _states(low):
    """One state for each reward, from ``low`` on."""

    def check(name, value, lengths):
        states = _checks.indices(name, value, "an array of integer state indices, shape (m,)")
        shape, high = (lengths["m"],), lengths["S"] - 1
        if states.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, as rewards; got {states.shape}")
        if states.min() < low or states.max() > high:
            raise ValueError(f"{name} must be from {low} to {high}; got {states.min()} to {states.max()}")
        return states

    return check


@declare(rewards=array("m"), n_states=side(letter="S"), sources=_states(0), successors=_states(END))
def model_of_transitions(sources, rewards, successors, n_states):
    """Count transitions, whatever walks they come from; `empirical_model` takes those of one trajectory.

    Parameters
    ----------
    sources : array_like of int, shape (m,)
        The states that were left, from 0 to S-1.
    rewards : array_like, shape (m,)
        Paid for leaving them.
    successors : array_like of int, shape (m,)
        The states that were entered; `END` where the transition led to the end, which is worth 0.
    n_states : int
        Number of states S.

    Returns
    -------
    EmpiricalModel

    Raises
    ------
    ValueError, TypeError
        Lengths that do not fit, states that are not from 0 to S-1, or rewards whose sum per state overflows.
    """
    counts, transition, reward = frequencies(sources, rewards, successors, n_states)
    if not np.isfinite(reward).all():
        raise ValueError(
            f"rewards must have a finite sum per state; that of state {np.argmin(np.isfinite(reward))} overflows"
        )
    visited = counts > 0
    return EmpiricalModel(counts, transition, np.where(visited, reward, np.nan), visited)


@numpy_defaults()
def frequencies(sources, rewards, successors, n_states):
    """Counts (..., S), relative frequencies (..., S, S) and mean rewards (..., S) of contexts of m transitions each.

    Without checks. States that were never a source have frequencies and rewards of 0.

    Parameters
    ----------
    sources, successors : ndarray of int, shape (..., m)
        As for `model_of_transitions`.
    rewards : ndarray, shape (..., m)
    n_states : int
    """
    lead = sources.shape[:-1]
    size = math.prod(lead)
    source = (sources.reshape(size, -1) + n_states * np.arange(size)[:, None]).ravel()
    pair, on = source * n_states + successors.ravel(), successors.ravel() != END
    pairs = np.bincount(pair if on.all() else pair[on], minlength=size * n_states**2)
    counts = np.bincount(source, minlength=size * n_states).reshape(*lead, n_states)
    sums = np.bincount(source, rewards.ravel(), minlength=size * n_states).reshape(*lead, n_states)
    divisor = np.maximum(counts, 1)
    return counts, pairs.reshape(*lead, n_states, n_states) / divisor[..., None], sums / divisor


def _boundary(name, value, lengths):
    """One value, or one for each state, of which some may be NaN."""
    if _checks.dimensions(value) == 0:
        value = np.full(lengths["S"], _checks.real(name, value))
    return array("S", finite=False)(name, value, lengths)


@numpy_defaults()
@declare(model=instance(EmpiricalModel, S="n_states"), gamma=discount, boundary=optional(_boundary))
def certainty_equivalence(model, gamma, boundary=None):
    """Value of the empirical model: v_CE = (I - gamma P_hat)^{-1} r_hat on the states that were a source.

    Parameters
    ----------
    model : EmpiricalModel
    gamma : float
        Discount in [0, 1).
    boundary : float or array_like of shape (S,), optional
        Values to use for the states that were never a source. Only those that a visited state leads to
        are read; the others may be NaN.

    Returns
    -------
    ndarray, shape (S,)
        NaN for states that were never a source: the data say nothing about what follows them.

    Raises
    ------
    ValueError
        If gamma > 0, a visited state leads to one that was never a source (only the last state of a
        trajectory can be one) and ``boundary`` is not given.
    """
    never, reward = ~model.visited, model.reward
    reached = np.flatnonzero(never & model.transition.any(axis=0))
    if reached.size and gamma > 0:  # at gamma = 0 nothing depends on what follows: the values are the mean rewards
        if boundary is None:
            raise ValueError(
                f"model has a visited state that leads to state {reached[0]}, which was never a source, so its "
                f"value is not determined by the data: pass boundary= with a value for it"
            )
        if not np.isfinite(boundary[reached]).all():
            raise ValueError(f"boundary must be finite for state {reached[0]}; got {boundary[reached[0]]}")
    known = np.zeros(model.n_states)
    if boundary is not None:
        known[reached] = boundary[reached]
    try:
        values = values_with_boundary(model.transition, reward, never, known, gamma)
    except ValueError:
        raise ValueError(
            f"model and boundary must hold smaller numbers: the value overflows; rewards are up to "
            f"{np.abs(reward[model.visited]).max():.3g} in size"
        ) from None
    return np.where(never, np.nan, values)


def values_with_boundary(transition, reward, never, boundary, gamma):
    """Values (..., S) of empirical models of which states that were never a source have a given value.

    Without checks. Such a state becomes absorbing, with the reward that gives it its value.
    """
    transition = np.where(never[..., None], np.eye(never.shape[-1]), transition)
    return solve_bellman(transition, np.where(never, (1 - gamma) * boundary, reward), gamma)
