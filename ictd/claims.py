"""Claims of the book, checked where they are made: random instances, the error found, the tolerance."""

from dataclasses import dataclass

import numpy as np

from ictd import _checks, features, mrp, td


@dataclass(frozen=True, eq=False)
class Instance:
    """A random problem: a process, features of its states, one trajectory, a score matrix and a step size."""

    process: mrp.MRP
    X: np.ndarray
    trajectory: mrp.Trajectory
    A: np.ndarray
    step_size: float

    @property
    def gamma(self):
        """Discount of the process."""
        return self.process.gamma

    @property
    def x(self):
        """Features of the positions, shape (n+1, d)."""
        return self.X[self.trajectory.states]

    @property
    def model(self):
        """Empirical model of the trajectory."""
        return td.empirical_model(self.trajectory, self.process.n_states)


def random_instances(rng, count, *, closed=False):
    """Yield random problems of many sizes.

    2 to 8 states with sparse or dense transitions or a Boyan chain, 1 to 5 Gaussian features, 1 to 40
    transitions, gamma in [0, 0.95], step sizes in [0.1, 1], and a score matrix that is not symmetric.
    Trajectories are short, so that states remain unvisited.

    Parameters
    ----------
    rng : numpy.random.Generator
    count : int
        Number of instances, at least 1.
    closed : bool
        Whether the last state of every trajectory must also have been left in it.

    Yields
    ------
    Instance
    """
    rng = _checks.numpy_generator(rng)
    for _ in range(_checks.integer("count", count, low=1)):
        n_states, dim = int(rng.integers(2, 9)), int(rng.integers(1, 6))
        gamma = rng.uniform(0, 0.95)
        if n_states > 2 and rng.random() < 0.5:
            process = mrp.boyan_chain(n_states, gamma, rng)
        else:
            concentration = np.full(n_states, rng.choice([0.2, 1.0]))
            process = mrp.MRP(rng.dirichlet(concentration, n_states), rng.uniform(-1, 1, n_states), gamma)
        trajectory = process.sample(int(rng.integers(1, 41)), rng)
        while closed and trajectory.states[-1] not in trajectory.states[:-1]:
            trajectory = process.sample(int(rng.integers(5, 41)), rng)
        X = features.gaussian(n_states, dim, rng)
        yield Instance(process, X, trajectory, rng.normal(size=(dim, dim)) / dim, rng.uniform(0.1, 1))


def relative_error(found, expected):
    """Largest difference, relative to max(1, largest expected value)."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise ValueError(f"found must have the shape of expected, {expected.shape}; got shape {found.shape}")
    return float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))


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


def holds(text, errors, tolerance=1e-10):
    """State a claim whose errors are within the tolerance; fail loudly if one is not.

    Parameters
    ----------
    text : str
        The claim in a few words.
    errors : float or sequence of floats
        One for each instance.
    tolerance : float

    Returns
    -------
    Claim

    Raises
    ------
    AssertionError
        If an error is NaN or above the tolerance.
    """
    errors = np.atleast_1d(np.asarray(errors, dtype=np.float64))
    if errors.size == 0:
        raise ValueError("errors must hold at least one number; got none")
    worst = float(errors.max())
    if not worst <= tolerance:
        where = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
        raise AssertionError(f"{text}: error {worst:.3g} in instance {where}, above the tolerance {tolerance:.0e}")
    return Claim(text, worst, tolerance, errors.size)
