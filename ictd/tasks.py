"""Many random tasks at once: processes with features, their values, and contexts sampled from them.

Arrays have leading dimensions (...), for example (seeds, tasks); a task is a process without a discount,
together with the features of its states.
"""

import math
from dataclasses import dataclass

import numpy as np

from ictd import _checks, mrp
from ictd._arguments import array, check_fields, declare, discount, instance, integer, option, positive, real, side
from ictd._settings import numpy_defaults
from ictd.empirical import frequencies, values_with_boundary
from ictd.families import FAMILIES, FEATURES
from ictd.mrp import sample_paths


@dataclass(frozen=True, eq=False)
class Tasks(_checks.ReadOnly):
    """A batch of processes with features.

    Parameters
    ----------
    transition : array_like, shape (..., S, S)
        Rows sum to 1, up to 1e-6; they stay as they are.
    reward : array_like, shape (..., S)
        Paid for leaving a state.
    features : array_like, shape (..., S, d)

    Raises
    ------
    ValueError, TypeError
        Matrices that are not stochastic, shapes that do not fit, NaN.
    """

    transition: np.ndarray
    reward: np.ndarray
    features: np.ndarray

    @numpy_defaults()
    def __post_init__(self):
        check_fields(self, transition=mrp.chains, reward=array(..., "S"), features=array(..., "S", "d"))
        if not self.transition.shape[:-2] == self.reward.shape[:-1] == self.features.shape[:-2]:
            raise ValueError(
                f"transition must have the leading dimensions of reward and features; "
                f"got shapes {self.transition.shape}, {self.reward.shape} and {self.features.shape}"
            )

    @property
    def n_states(self):
        """Number S of states."""
        return self.reward.shape[-1]

    @property
    def shape(self):
        """The leading dimensions."""
        return self.reward.shape[:-1]

    def __getitem__(self, index):
        """Some of the tasks; the index selects along leading dimensions."""
        select = _checks.leading(self.shape, index)
        return Tasks(*map(select, (self.transition, self.reward, self.features)))

    def reshape(self, shape):
        """The same tasks with other leading dimensions."""
        shape = _new_shape(shape, self.shape)
        return Tasks(*(array.reshape(*shape, *array.shape[len(self.shape) :]) for array in vars(self).values()))

    def process(self, index, gamma):
        """One task as an `MRP` with a discount; its features are ``tasks.features[index]``."""
        _check_index(index, self.shape)
        return mrp.MRP(self.transition[index], self.reward[index], gamma)

    @declare(gamma=discount)
    def value(self, gamma):
        """True values (I - gamma P)^{-1} r, shape (..., S)."""
        return mrp.solve_bellman(self.transition, self.reward, gamma)

    def stationary(self):
        """Stationary distributions, shape (..., S), by elimination without subtraction as in `MRP.stationary`.

        Raises
        ------
        ValueError
            If a process is not irreducible; use `MRP.stationary` for those.
        """
        mu = mrp.eliminate(self.transition)
        if not (np.isfinite(mu).all() and (mu > 0).all()):
            raise ValueError("transition must be irreducible, so that every state is visited again and again")
        return mu

    @numpy_defaults()
    @declare(n_transitions=integer(low=1), reward_noise=real(low=0))
    def sample(self, n_transitions, rng, reward_noise=0.0):
        """Draw one context of each task; the first state is uniform.

        Parameters
        ----------
        n_transitions : int
            Number n of transitions, at least 1.
        rng : numpy.random.Generator, or a sequence of them
            A sequence has one generator for each entry of the first dimension, and each draws what it would
            draw alone.
        reward_noise : float
            Standard deviation of normal noise added to every reward, at least 0.

        Returns
        -------
        Contexts
        """
        several = isinstance(rng, (list, tuple))
        if several and len(rng) != (self.shape or (0,))[0]:
            raise ValueError(
                f"rng must hold one generator for each of the first dimension of {self.shape}; got {len(rng)}"
            )
        lead = self.shape[1:] if several else self.shape
        size = (*lead, n_transitions)

        def first_and_uniforms(generator):
            return generator.integers(self.n_states, size=lead), generator.random(size)

        first, uniforms = each(rng, first_and_uniforms)
        states = sample_paths.trusted(self.transition, first, uniforms)
        rewards = np.take_along_axis(self.reward, states[..., :-1], axis=-1)
        if reward_noise:
            (normal,) = each(rng, lambda generator: (generator.standard_normal(size),))
            rewards = rewards + reward_noise * normal
            if not np.isfinite(rewards).all():
                raise ValueError(f"reward_noise must be smaller: a reward overflows; got {reward_noise:.3g}")
        return Contexts(states, rewards, self.n_states)


def _walks(name, value, lengths):
    """Indices of the states of many walks of equal length, at least two for each."""
    states = _checks.indices(name, value, "an array of integer state indices, shape (..., n+1)")
    n_states = lengths["S"]
    if states.ndim < 1 or states.size == 0 or states.shape[-1] < 2:
        raise ValueError(f"{name} must have shape (..., n+1) with n >= 1; got shape {states.shape}")
    if states.min() < 0 or states.max() >= n_states:
        raise ValueError(f"{name} must be from 0 to {n_states - 1}; got some from {states.min()} to {states.max()}")
    return states


@dataclass(frozen=True, eq=False)
class Contexts(_checks.ReadOnly):
    """A batch of trajectories of equal length.

    Parameters
    ----------
    states : array_like of int, shape (..., n+1)
        From 0 to n_states - 1.
    rewards : array_like, shape (..., n)
    n_states : int
    """

    states: np.ndarray
    rewards: np.ndarray
    n_states: int

    def __post_init__(self):
        check_fields(self, n_states=side(letter="S"), states=_walks, rewards=array(..., "n"))
        expected = self.states[..., 1:].shape
        if self.rewards.shape != expected:
            raise ValueError(f"rewards must have shape {expected} to fit states; got shape {self.rewards.shape}")

    @property
    def n_transitions(self):
        """Number n of transitions of each context."""
        return self.rewards.shape[-1]

    def __getitem__(self, index):
        """Some of the contexts; the index selects along leading dimensions."""
        select = _checks.leading(self.states.shape[:-1], index)
        return Contexts(select(self.states), select(self.rewards), self.n_states)

    def reshape(self, shape):
        """The same contexts with other leading dimensions."""
        shape = _new_shape(shape, self.states.shape[:-1])
        return Contexts(self.states.reshape(*shape, -1), self.rewards.reshape(*shape, -1), self.n_states)

    def trajectory(self, index):
        """One context as a `Trajectory`."""
        _check_index(index, self.states.shape[:-1])
        return mrp.Trajectory(self.states[index], self.rewards[index])

    def window(self, start, n_transitions):
        """The n transitions from position ``start`` on, of every context."""
        start = _checks.integer("start", start, low=0, high=self.n_transitions - 1)
        n = _checks.integer("n_transitions", n_transitions, low=1, high=self.n_transitions - start)
        return Contexts(self.states[..., start : start + n + 1], self.rewards[..., start : start + n], self.n_states)

    def empirical(self):
        """Visit counts, relative frequencies and mean rewards, see `empirical.frequencies`."""
        counts, transition, reward = frequencies(
            self.states[..., :-1], self.rewards, self.states[..., 1:], self.n_states
        )
        if not np.isfinite(reward).all():
            raise ValueError("rewards must have a finite sum for each state; that of some state overflows")
        return counts, transition, reward

    @numpy_defaults()
    @declare(gamma=discount)
    def constant_value(self, gamma):
        """The constant predictor of each context: its mean reward / (1 - gamma), shape (...)."""
        result = self.rewards.mean(axis=-1) / (1 - gamma)
        if not np.isfinite(result).all():
            raise ValueError(f"rewards must be smaller: the mean overflows; got up to {np.abs(self.rewards).max():.3g}")
        return result

    @numpy_defaults()
    @declare(gamma=discount)
    def certainty_equivalence(self, gamma):
        """Values of the empirical models, shape (..., S).

        States that were never a source have no data: they get the constant predictor, also where the last
        transition of a context leads into one.
        """
        counts, transition, reward = self.empirical()
        constant = self.constant_value(gamma)[..., None]
        return values_with_boundary(transition, reward, counts == 0, constant, gamma)


def _new_shape(shape, old):
    """Leading dimensions that hold as many entries as the old ones."""
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"shape must be a tuple of integers; got {_checks.describe(shape)}")
    shape = tuple(_checks.integer("shape", side, low=1) for side in shape)
    if math.prod(shape) != math.prod(old):
        raise ValueError(f"shape must hold as many entries as {old}; got {shape}")
    return shape


def _check_index(index, shape):
    """Refuse what is no position in leading dimensions: an integer, or a tuple of one for each."""
    position = index if isinstance(index, tuple) else (index,)
    if len(position) != len(shape):
        raise ValueError(f"index must have {len(shape)} integers, for the leading dimensions {shape}; got {index!r}")
    for place, length in zip(position, shape):
        _checks.integer("index", place, low=-length, high=length - 1)


def each(rng, draw_arrays):
    """The arrays that a generator draws, or those of several generators stacked: each draws what it would alone."""
    if not isinstance(rng, (list, tuple)):
        return draw_arrays(_checks.numpy_generator(rng))
    if not rng:
        raise ValueError("rng must hold at least one generator; got none")
    return [np.stack(arrays) for arrays in zip(*(draw_arrays(_checks.numpy_generator(one)) for one in rng))]


@numpy_defaults()
@declare(
    count=integer(low=1),
    n_states=side(low=3),
    dim=side(),
    family=option(*FAMILIES),
    features=option(*FEATURES),
    feature_scale=positive,
)
def draw(count, n_states, dim, rng, family="boyan", features="gaussian", feature_scale=1.0):
    """Draw random tasks.

    Parameters
    ----------
    count : int
        Number of tasks T, at least 1.
    n_states : int
        Number of states S, at least 3.
    dim : int
        Number of features d, at least 1.
    rng : numpy.random.Generator, or a sequence of them
        A sequence gives T tasks for each generator, the same that the generator would give alone.
    family : {"boyan", "ring", "dense", "sparse", "loop"}
        "boyan": the paper's chains, as `mrp.boyan_chain`. "ring": a step to the right with a probability in
        (0.1, 0.9) per state, else to the left. "dense": rows uniform on the simplex. "sparse": the next state
        and two random ones. "loop": onwards with a probability in (0.5, 1) per state, else stay.
        Rewards are uniform in (-1, 1) per state. All are irreducible.
    features : {"gaussian", "one_hot", "triangular"}
        "gaussian": standard normal. "one_hot": indicators in a random order for each task, d = S.
        "triangular": `features.triangular`, the same for all tasks, d >= 2.
    feature_scale : float
        Positive factor of all features; scores grow with its square.

    Returns
    -------
    Tasks
        Leading dimensions (T,), or (number of generators, T).
    """

    def one(generator):
        transition = FAMILIES[family](count, n_states, generator)
        reward = generator.uniform(-1, 1, (count, n_states))
        return transition, reward, FEATURES[features](count, n_states, dim, generator)

    transition, reward, X = each(rng, one)
    return Tasks(transition, reward, feature_scale * X)


@declare(process=instance(mrp.MRP, S="n_states"), X=array("S", "d"))
def single(process, X):
    """One process with its features as a batch of one task, for example a process of your own.

    Parameters
    ----------
    process : MRP
    X : array_like, shape (S, d)
    """
    return Tasks(process.transition[None], process.reward[None], X[None])
