"""Markov reward processes, their values, and trajectories sampled from them."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from ictd import _checks
from ictd._arguments import (
    array,
    check_fields,
    declare,
    discount,
    distribution,
    generator,
    integer,
    optional,
    side,
    stochastic,
)
from ictd._settings import numpy_defaults


def _states(name, value, lengths):
    """Indices of the states of one walk, at least two."""
    states = _checks.indices(name, value, "an array of integer state indices, shape (n+1,)")
    if states.ndim != 1 or states.size < 2:
        raise ValueError(
            f"{name} must have shape (n+1,) with at least one transition (n >= 1); got shape {states.shape}"
        )
    if (states < 0).any():
        where = int(np.argmax(states < 0))
        raise ValueError(f"{name} must be indices from 0 on; entry {where} is {states[where]}")
    lengths["n"] = states.size - 1
    return states


@dataclass(frozen=True, eq=False)
class Trajectory(_checks.ReadOnly):
    """States S_0..S_n and the rewards R_1..R_n paid for leaving S_0..S_{n-1}.

    Parameters
    ----------
    states : array_like of int, shape (n+1,)
        Indices from 0 on. They may come from the user's own data.
    rewards : array_like, shape (n,)
        ``rewards[k-1]`` is R_k, the reward for leaving ``states[k-1]``. Rewards may be noisy.

    Raises
    ------
    ValueError, TypeError
        Non-integer or negative states, NaN, lengths that do not fit, or no transition at all.
    """

    states: np.ndarray
    rewards: np.ndarray

    def __post_init__(self):
        check_fields(self, states=_states, rewards=array("n"))

    @property
    def n_transitions(self):
        """Number n of transitions."""
        return self.rewards.size


@dataclass(frozen=True, eq=False)
class MRP(_checks.ReadOnly):
    """A finite Markov reward process with deterministic rewards per state.

    Parameters
    ----------
    transition : array_like, shape (S, S)
        Row s holds the probabilities P(s, .) of the next state. Rows sum to 1; one that misses 1 by more
        than rounding, but by at most 1e-6, is divided by its sum. The same holds for ``start``.
    reward : array_like, shape (S,)
        r(s), paid for leaving state s.
    gamma : float
        Discount in [0, 1).
    start : array_like, shape (S,), optional
        Distribution of the first state; uniform if not given.

    Raises
    ------
    ValueError, TypeError
        A matrix that is not stochastic, shapes that do not fit, NaN, gamma outside [0, 1).
    """

    transition: np.ndarray
    reward: np.ndarray
    gamma: float
    start: np.ndarray = None

    def __post_init__(self):
        start = optional(distribution("S"))
        check_fields(self, transition=stochastic("S"), reward=array("S"), gamma=discount, start=start)
        if self.start is None:
            _checks.freeze(self, start=np.full(self.n_states, 1 / self.n_states))

    @property
    def n_states(self):
        """Number S of states."""
        return self.reward.size

    def value(self):
        """True value v = (I - gamma P)^{-1} r, the solution of the Bellman equation, shape (S,).

        Rounding costs about 1e-16 / (1 - gamma), relative to the largest value.

        Raises
        ------
        ValueError
            If the rewards are so large that the value overflows.
        """
        return solve_bellman(self.transition, self.reward, self.gamma)

    def stationary(self):
        """Stationary distribution mu, with mu P = mu, shape (S,).

        States outside the one recurrent class have probability 0.

        Raises
        ------
        ValueError
            If the chain has more than one recurrent class, so that mu is not unique.

        Notes
        -----
        Grassmann, Taksar and Heyman (1985), "Regenerative analysis and steady state distributions for Markov
        chains": states are taken out one by one, without any subtraction, so every entry of mu is
        accurate to rounding, also where parts of the chain hardly ever meet.
        """
        classes = _recurrent_classes(self.transition)
        if len(classes) > 1:
            raise ValueError(
                f"transition must have one recurrent class for a unique stationary distribution; "
                f"it has {len(classes)}: {', '.join(str(c.tolist()) for c in classes)}"
            )
        states = classes[0]
        result = np.zeros(self.n_states)
        transition = self.transition[np.ix_(states, states)]
        result[states] = eliminate(transition)
        if not np.isfinite(result).all():
            smallest = transition[transition > 0].min()
            raise ValueError(f"transition must have larger probabilities for float64; the smallest is {smallest:.3g}")
        return result

    @numpy_defaults()
    @declare(n_transitions=integer(low=1), rng=generator)
    def sample(self, n_transitions, rng, start_state=None):
        """Draw a trajectory.

        Parameters
        ----------
        n_transitions : int
            Number n of transitions, at least 1.
        rng : numpy.random.Generator
        start_state : int, optional
            S_0; drawn from ``start`` if not given.

        Returns
        -------
        Trajectory
        """
        if start_state is not None:
            start_state = _checks.integer("start_state", start_state, low=0, high=self.n_states - 1)
        uniforms = rng.random(n_transitions + 1).tolist()
        rows = cumulative(self.transition).tolist()
        state = bisect_right(cumulative(self.start).tolist(), uniforms[0]) if start_state is None else start_state
        states = [state]
        for u in uniforms[1:]:
            state = bisect_right(rows[state], u)
            states.append(state)
        states = np.array(states)
        return Trajectory(states, self.reward[states[:-1]])


@numpy_defaults()
def solve_bellman(transition, reward, gamma):
    """The solutions of v = r + gamma P v, shape (..., S), without checks of the input."""
    identity = np.eye(reward.shape[-1])
    value = np.linalg.solve(identity - gamma * transition, reward[..., None])[..., 0]
    if not np.isfinite(value).all():
        raise ValueError(f"reward must be smaller in size: the value overflows; got up to {np.abs(reward).max():.3g}")
    return value


@numpy_defaults()
def eliminate(transition):
    """Stationary distributions of irreducible chains, shape (..., S), by the elimination of `MRP.stationary`.

    Without checks: other chains, and probabilities too small for float64, give NaN, infinity or 0.
    """
    P, n = transition.copy(), transition.shape[-1]
    for k in range(n - 1, 0, -1):
        # Take out state k: a visit to it ends in a state below k, in proportion to P[k, :k].
        P[..., :k, k] /= P[..., k, :k].sum(axis=-1, keepdims=True)
        P[..., :k, :k] += P[..., :k, k, None] * P[..., k, None, :k]
    mu = np.ones(P.shape[:-1])
    for k in range(1, n):
        mu[..., k] = (mu[..., :k] * P[..., :k, k]).sum(axis=-1)
        mu[..., : k + 1] /= mu[..., : k + 1].sum(axis=-1, keepdims=True)
    return mu


def cumulative(probabilities):
    """Cumulative sums along the last axis, exactly 1 from the last possible entry on, whatever the rounding."""
    n = probabilities.shape[-1]
    last = n - 1 - np.argmax(probabilities[..., ::-1] > 0, axis=-1)
    return np.where(np.arange(n) < last[..., None], np.cumsum(probabilities, axis=-1), 1.0)


def _recurrent_classes(transition):
    """The closed communicating classes of a chain, as sorted arrays of states."""
    reach = (transition > 0) | np.eye(len(transition), dtype=bool)
    while True:
        further = (reach.astype(np.float64) @ reach) > 0
        if (further == reach).all():
            break
        reach = further
    # A state is recurrent iff it can be reached again from everywhere it leads to.
    recurrent = ~(reach & ~reach.T).any(axis=1)
    classes = []
    for state in np.flatnonzero(recurrent):
        if not any(state in known for known in classes):
            classes.append(np.flatnonzero(reach[state]))
    return classes


def chains(name, value, lengths):
    """Transition matrices of many chains, shape (..., S, S)."""
    transition = array(..., "S", "S")(name, value, lengths)
    if transition.shape[-2] != transition.shape[-1]:
        raise ValueError(f"{name} must have shape (..., S, S); got shape {transition.shape}")
    lengths[name] = transition.shape
    return _checks.rows_of_probabilities(name, transition)


def _first_states(name, value, lengths):
    """States of chains whose leading dimensions broadcast with those of the transition matrices."""
    first = _checks.indices(name, value, "an array of integer state indices")
    *lead, n_states, _ = lengths["transition"]
    if len(lead) > first.ndim or any(m not in (1, k) for m, k in zip(lead[::-1], first.shape[::-1])):
        raise ValueError(
            f"transition must have shape (..., S, S) with leading dimensions that broadcast to those of {name}, "
            f"{first.shape}; got shape {lengths['transition']}"
        )
    if first.min() < 0 or first.max() >= n_states:
        raise ValueError(f"{name} must hold states from 0 to {n_states - 1}; got {first.min()} to {first.max()}")
    lengths[name] = first.shape
    return first


def _uniforms(name, value, lengths):
    """Numbers in [0, 1), a row of them for each first state."""
    uniforms = array(..., "n")(name, value, lengths)
    if uniforms.shape[:-1] != lengths["first"]:
        raise ValueError(f"{name} must have shape {(*lengths['first'], 'n')} to fit first; got shape {uniforms.shape}")
    if uniforms.min() < 0 or uniforms.max() >= 1:
        raise ValueError(f"{name} must be in [0, 1); got {uniforms.min()} to {uniforms.max()}")
    return uniforms


@numpy_defaults()
@declare(transition=chains, first=_first_states, uniforms=_uniforms)
def sample_paths(transition, first, uniforms):
    """Paths of many chains at once by inversion: step k moves where ``uniforms[..., k]`` points.

    Parameters
    ----------
    transition : array_like, shape (..., S, S)
        Rows sum to 1. Leading dimensions broadcast with those of ``first``.
    first : array_like of int, shape (...)
        First states.
    uniforms : array_like, shape (..., n)
        Numbers in [0, 1).

    Returns
    -------
    ndarray of int, shape (..., n+1)
        Moves of probability 0 are never taken, whatever the uniforms.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, rows that are no distribution, states or uniforms out of range, NaN.
    """
    n_states, lead = transition.shape[-1], transition.shape[:-2]
    # The next state is the number of bounds that u has reached. One column for each chain and state: sums over the
    # first axis are fast.
    bounds = cumulative(transition)
    bounds = np.ascontiguousarray(bounds.reshape(-1, n_states).T)
    chain = np.arange(bounds.shape[1] // n_states).reshape(lead)
    column = n_states * np.broadcast_to(chain, first.shape).ravel()
    steps = uniforms.reshape(first.size, -1).T
    states = np.empty((len(steps) + 1, first.size), dtype=np.int64)
    states[0] = first.ravel()
    for k, u in enumerate(steps):
        states[k + 1] = (u >= bounds.take(column + states[k], axis=1)).sum(axis=0)
    return np.ascontiguousarray(states.T).reshape(*first.shape, -1)


@numpy_defaults()
@declare(n_states=side(low=3), gamma=discount, rng=generator)
def boyan_chain(n_states, gamma, rng):
    """A random Boyan chain, drawn as in the paper's experiment.

    State i = 0..N-3 moves to i+1 with probability u, uniform in (0.01, 0.99), and to i+2 otherwise;
    N-2 moves to N-1; N-1 restarts in a random state, with weights uniform in (0.01, 0.99), normalised.
    Rewards are uniform in (-1, 1) per state.

    Parameters
    ----------
    n_states : int
        Number N of states, at least 3.
    gamma : float
        Discount in [0, 1).
    rng : numpy.random.Generator

    Returns
    -------
    MRP
        Ergodic, with a uniform start distribution.
    """
    transition = boyan_transitions(1, n_states, rng)[0]
    return MRP(transition, rng.uniform(-1, 1, n_states), gamma)


def boyan_transitions(count, n_states, rng):
    """Transition matrices of random Boyan chains, shape (count, S, S), without checks; see `boyan_chain`."""
    transition = np.zeros((count, n_states, n_states))
    first = np.arange(n_states - 2)
    step = rng.uniform(0.01, 0.99, (count, n_states - 2))
    transition[:, first, first + 1] = step
    transition[:, first, first + 2] = 1 - step
    transition[:, n_states - 2, n_states - 1] = 1
    restart = rng.uniform(0.01, 0.99, (count, n_states))
    transition[:, n_states - 1] = restart / restart.sum(axis=1, keepdims=True)
    return transition
