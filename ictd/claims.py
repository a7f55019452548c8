"""Claims of the book, checked where they are made: random instances, the error found, the tolerance."""

import math
from dataclasses import dataclass, replace

import numpy as np

from ictd import _checks, empirical, features, mrp
from ictd._settings import numpy_defaults


@dataclass(frozen=True, eq=False)
class Instance(_checks.ReadOnly):
    """A random problem: a process, one trajectory of it, features, and the numbers of the algorithm.

    Attributes
    ----------
    process : MRP
        2 to 12 states; a Boyan chain, or sparse or dense random transitions; gamma in [0, 0.99].
    trajectory : Trajectory
        1 to 60 transitions, so that states often remain unvisited; rewards may be noisy.
    X : ndarray, shape (S, d)
        1 to 8 features; two states may have equal ones.
    step_size : float
        In (0, 1].
    n_layers : int
        1 to 50.
    A : ndarray, shape (d, d)
        A score matrix that is not symmetric.
    rng : numpy.random.Generator
        For what a claim draws beyond this.
    """

    process: mrp.MRP
    trajectory: mrp.Trajectory
    X: np.ndarray
    step_size: float
    n_layers: int
    A: np.ndarray
    rng: np.random.Generator

    def __post_init__(self):
        _checks.freeze(self, X=self.X, A=self.A)

    @property
    def gamma(self):
        """Discount of the process."""
        return self.process.gamma

    @property
    def x(self):
        """Features of the positions, shape (n+1, d)."""
        return self.X[self.trajectory.states]

    @property
    def rewards(self):
        """R_1..R_n."""
        return self.trajectory.rewards

    @property
    def model(self):
        """Empirical model of the trajectory."""
        return empirical.empirical_model(self.trajectory, len(self.X))

    def closed(self):
        """The instance with one more transition, back to S_0: every state of the trajectory was a source."""
        states, rewards = self.trajectory.states, self.trajectory.rewards
        longer = mrp.Trajectory(np.append(states, states[0]), np.append(rewards, self.rng.standard_normal()))
        return replace(self, trajectory=longer)


@numpy_defaults()
def random_instance(rng):
    """Draw an `Instance`.

    Parameters
    ----------
    rng : numpy.random.Generator
    """
    rng = _checks.numpy_generator(rng)
    n_states = int(rng.integers(2, 13))
    gamma = float(rng.choice([0.0, 0.99, rng.uniform(0, 0.99)], p=[0.1, 0.2, 0.7]))
    if n_states > 2 and rng.random() < 0.5:
        process = mrp.boyan_chain(n_states, gamma, rng)
    else:
        concentration = np.full(n_states, rng.choice([0.1, 1.0]))
        process = mrp.MRP(rng.dirichlet(concentration, n_states), rng.uniform(-1, 1, n_states), gamma)
    trajectory = process.sample(int(rng.integers(1, 61)), rng)
    noise = rng.choice([0.0, 0.5]) * rng.standard_normal(trajectory.n_transitions)
    dim = int(rng.integers(1, 9))
    X = features.gaussian(n_states, dim, rng, rng.choice([0.3, 1.0]))
    if rng.random() < 0.2:
        X[-1] = X[0]
    return Instance(
        process=process,
        trajectory=mrp.Trajectory(trajectory.states, trajectory.rewards + noise),
        X=X,
        step_size=float(1 - rng.random()),
        n_layers=int(rng.integers(1, 51)),
        A=rng.standard_normal((dim, dim)),
        rng=rng,
    )


def random_instances(rng, count):
    """Yield several random instances.

    Parameters
    ----------
    rng : numpy.random.Generator
    count : int
        Number of instances, at least 1.

    Yields
    ------
    Instance
    """
    for _ in range(_checks.integer("count", count, low=1)):
        yield random_instance(rng)


@numpy_defaults()
def relative_error(found, expected):
    """Largest difference, relative to max(1, largest expected value); of several rows, the largest over the rows.

    Parameters
    ----------
    found, expected : array_like, shape (m,) or (L+1, m)
        A row is one layer or one step. NaN makes the error NaN.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        For anything but numbers, for no numbers, and for shapes that differ.
    """
    # float64 first: differences of small integers overflow in their own type
    found = np.atleast_2d(_checks.array("found", found, (...,), finite=False))
    expected = np.atleast_2d(_checks.array("expected", expected, (...,), finite=False))
    if found.shape != expected.shape:
        raise ValueError(f"found must have the shape of expected, {expected.shape}; got shape {found.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.maximum(1, np.abs(expected).max(axis=-1))
        return float((np.abs(found - expected).max(axis=-1) / scale).max())


def chance_interval(successes, trials):
    """The exact 95 % interval (Clopper and Pearson) for the chance of success of independent trials.

    Parameters
    ----------
    successes : int
        From 0 to ``trials``.
    trials : int
        At least 1.

    Returns
    -------
    low, high : float
        Outside of them, so many successes or more, or so few or fewer, have a probability below 2.5 %.

    Raises
    ------
    ValueError, TypeError
        For anything but such counts.
    """
    trials = _checks.integer("trials", trials, low=1)
    successes = _checks.integer("successes", successes, low=0, high=trials)
    upper = 1.0 if successes == trials else _chance_of(successes, trials, 0.025)
    lower = 0.0 if successes == 0 else _chance_of(successes - 1, trials, 0.975)
    return lower, upper


def _chance_of(successes, trials, probability):
    """The chance p at which so few successes or fewer have this probability; it falls as p grows."""
    low, high = 0.0, 1.0
    log_ways = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in range(successes + 1)
    ]
    for _ in range(60):
        p = (low + high) / 2
        own, other = math.log(p), math.log1p(-p)
        terms = (math.exp(ways + k * own + (trials - k) * other) for k, ways in enumerate(log_ways))
        low, high = (p, high) if math.fsum(terms) > probability else (low, p)
    return low


@dataclass(frozen=True)
class Claim:
    """A claim that holds, with the error that was found."""

    text: str
    error: float
    tolerance: float
    count: int

    def __repr__(self):
        over = f" over {self.count} instances" if self.count > 1 else ""
        return f"✓ {self.text}: largest error {self.error:.0e}{over} (tolerance {self.tolerance:.0e})"


def holds(text, errors, instances=None, tolerance=1e-10):
    """State a claim whose errors are within the tolerance; fail loudly if one is not.

    Parameters
    ----------
    text : str
        The claim in a few words.
    errors : float, sequence of floats, or callable
        One error of at least 0 for each instance, or a function that gives it. A truth value is no error.
    instances : iterable of Instance, optional
        What the function is applied to. It may return None for an instance that does not fit the claim.
    tolerance : float
        At least 0.

    Returns
    -------
    Claim

    Raises
    ------
    AssertionError
        If an error is NaN or above the tolerance.
    TypeError, ValueError
        If an error or the tolerance is negative or no number.
    """
    tolerance = _checks.real("tolerance", tolerance, low=0)
    if callable(errors):
        if instances is None:
            raise ValueError("instances must be given with a function of them; got None")
        errors = [error for error in map(errors, instances) if error is not None]
    errors = [errors] if _checks.dimensions(errors) == 0 else errors
    if len(errors) == 0:
        raise ValueError("errors must hold at least one number; got none")
    given, errors = errors, _checks.array("errors", errors, ("n",), finite=False)
    for where, error in enumerate(given):
        if np.asarray(error).dtype == bool:  # a comparison: its False would pass as the error 0
            raise TypeError(f"errors must be numbers, not truth values; entry {where} is {error}")
    if (errors < 0).any():
        where = int(np.argmax(errors < 0))
        raise ValueError(f"errors must be at least 0; entry {where} is {errors[where]}")
    worst = float(errors.max())
    if not worst <= tolerance:
        where = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
        raise AssertionError(f"{text}: error {worst:.3g} in instance {where}, above the tolerance {tolerance:.0e}")
    return Claim(text, worst, tolerance, errors.size)
