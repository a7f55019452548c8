"""Random instances: the problems on which claims are checked."""

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
