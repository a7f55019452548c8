"""Many random tasks at once: processes with features, their values, and contexts sampled from them.

Arrays have leading dimensions (...), for example (seeds, tasks); a task is a process without a discount,
together with the features of its states.
"""

import math
from dataclasses import dataclass

import numpy as np

from ictd import _checks, mrp
from ictd import features as feature_maps
from ictd._settings import numpy_defaults
from ictd.empirical import frequencies, values_with_boundary
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
        transition = _checks.array("transition", self.transition, (..., "S", "S"))
        if transition.shape[-2] != transition.shape[-1]:
            raise ValueError(f"transition must have shape (..., S, S); got shape {transition.shape}")
        reward = _checks.array("reward", self.reward, (..., transition.shape[-1]))
        features = _checks.array("features", self.features, (..., transition.shape[-1], "d"))
        if not transition.shape[:-2] == reward.shape[:-1] == features.shape[:-2]:
            raise ValueError(
                f"transition must have the leading dimensions of reward and features; "
                f"got shapes {transition.shape}, {reward.shape} and {features.shape}"
            )
        _checks.rows_of_probabilities("transition", transition)
        _checks.freeze(self, transition=transition, reward=reward, features=features)

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

    def value(self, gamma):
        """True values (I - gamma P)^{-1} r, shape (..., S)."""
        return mrp.solve_bellman(self.transition, self.reward, _checks.discount(gamma))

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
        n = _checks.integer("n_transitions", n_transitions, low=1)
        noise = _checks.real("reward_noise", reward_noise, low=0)
        single = isinstance(rng, np.random.Generator)
        rngs = [rng] if single else _generators(rng, self.shape)
        shape = self.shape if single else self.shape[1:]
        draws = [(rng.integers(self.n_states, size=shape), rng.random((*shape, n))) for rng in rngs]
        first, uniforms = draws[0] if single else map(np.stack, zip(*draws))
        states = sample_paths(self.transition, first, uniforms)
        rewards = np.take_along_axis(self.reward, states[..., :-1], axis=-1)
        if noise:
            normal = [rng.standard_normal((*shape, n)) for rng in rngs]
            rewards = rewards + noise * (normal[0] if single else np.stack(normal))
            if not np.isfinite(rewards).all():
                raise ValueError(f"reward_noise must be smaller: a reward overflows; got {noise:.3g}")
        return Contexts(states, rewards, self.n_states)


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
        states = _checks.indices("states", self.states, "an array of integer state indices, shape (..., n+1)")
        n_states = _checks.side("n_states", self.n_states)
        if states.ndim < 1 or states.size == 0 or states.shape[-1] < 2:
            raise ValueError(f"states must have shape (..., n+1) with n >= 1; got shape {states.shape}")
        if states.min() < 0 or states.max() >= n_states:
            raise ValueError(f"states must be from 0 to {n_states - 1}; got some from {states.min()} to {states.max()}")
        expected = (*states.shape[:-1], states.shape[-1] - 1)
        rewards = _checks.array("rewards", self.rewards, (..., "n"))
        if rewards.shape != expected:
            raise ValueError(f"rewards must have shape {expected} to fit states; got shape {rewards.shape}")
        _checks.freeze(self, states=states, rewards=rewards, n_states=n_states)

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
    def constant_value(self, gamma):
        """The constant predictor of each context: its mean reward / (1 - gamma), shape (...)."""
        result = self.rewards.mean(axis=-1) / (1 - _checks.discount(gamma))
        if not np.isfinite(result).all():
            raise ValueError(f"rewards must be smaller: the mean overflows; got up to {np.abs(self.rewards).max():.3g}")
        return result

    @numpy_defaults()
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
    for place, side in zip(position, shape):
        _checks.integer("index", place, low=-side, high=side - 1)


def _generators(rngs, shape):
    """One generator for each entry of the first dimension."""
    if not isinstance(rngs, (list, tuple)):
        return [_checks.numpy_generator(rngs)]
    if len(rngs) == 0 or len(rngs) != (shape[0] if shape else 0):
        raise ValueError(f"rng must hold one generator for each of the first dimension of {shape}; got {len(rngs)}")
    return [_checks.numpy_generator(rng) for rng in rngs]


def _ring(count, n, rng):
    transition = np.zeros((count, n, n))
    state = np.arange(n)
    right = rng.uniform(0.1, 0.9, (count, n))
    transition[:, state, (state + 1) % n] = right
    transition[:, state, (state - 1) % n] += 1 - right
    return transition


def _dense(count, n, rng):
    return rng.dirichlet(np.ones(n), (count, n))


def _sparse(count, n, rng):
    """Three successors of each state, one of them the next state, so that the chain is irreducible."""
    transition = np.zeros((count, n, n))
    state = np.arange(n)
    weights = rng.dirichlet(np.ones(3), (count, n))
    weights = 0.9 * weights + 0.1 / 3
    transition[:, state, (state + 1) % n] = weights[:, :, 0]
    task = np.arange(count)[:, None]
    for branch in (1, 2):
        transition[task, state, rng.integers(n, size=(count, n))] += weights[:, :, branch]
    return transition


def _loop(count, n, rng):
    transition = np.zeros((count, n, n))
    state = np.arange(n)
    forward = rng.uniform(0.5, 1, (count, n))
    transition[:, state, (state + 1) % n] = forward
    transition[:, state, state] += 1 - forward
    return transition


FAMILIES = {"boyan": mrp.boyan_transitions, "ring": _ring, "dense": _dense, "sparse": _sparse, "loop": _loop}


def _gaussian(count, n_states, dim, rng):
    return rng.standard_normal((count, n_states, dim))


def _one_hot(count, n_states, dim, rng):
    if dim != n_states:
        raise ValueError(f"dim must equal n_states = {n_states} for one-hot features; got {dim}")
    return rng.permuted(np.broadcast_to(np.arange(n_states), (count, n_states)), axis=1)[..., None] == np.arange(dim)


def _triangular(count, n_states, dim, rng):
    return np.broadcast_to(feature_maps.triangular(n_states, dim), (count, n_states, dim))


FEATURES = {"gaussian": _gaussian, "one_hot": _one_hot, "triangular": _triangular}


@numpy_defaults()
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
    count = _checks.integer("count", count, low=1)
    n_states = _checks.side("n_states", n_states, low=3)
    dim = _checks.side("dim", dim)
    _checks.option("family", family, tuple(FAMILIES))
    _checks.option("features", features, tuple(FEATURES))
    feature_scale = _checks.real("feature_scale", feature_scale, low=0, low_open=True)
    single = not isinstance(rng, (list, tuple))
    draws = []
    for generator in [rng] if single else rng:
        generator = _checks.numpy_generator(generator)
        transition = FAMILIES[family](count, n_states, generator)
        reward = generator.uniform(-1, 1, (count, n_states))
        draws.append((transition, reward, FEATURES[features](count, n_states, dim, generator)))
    if not draws:
        raise ValueError("rng must hold at least one generator; got none")
    transition, reward, X = draws[0] if single else map(np.stack, zip(*draws))
    return Tasks(transition, reward, feature_scale * X)


def single(process, X):
    """One process with its features as a batch of one task, for example a process of your own.

    Parameters
    ----------
    process : MRP
    X : array_like, shape (S, d)
    """
    _checks.instance("process", process, mrp.MRP)
    X = _checks.array("X", X, (process.n_states, "d"))
    return Tasks(process.transition[None], process.reward[None], X[None])
