"""Task distributions of a reader's own, good ones and others, as a module that also workers can import."""

import functools

import numpy as np

from ictd import tasks

N_STATES, DIM = 4, 2


def ring(count, rng):
    """The same as a family of the package."""
    return tasks.draw(count, N_STATES, DIM, rng, "ring", "gaussian", 0.5)


def lazy_walk(count, rng):
    """A walk on a line that often stays, with features that say where it is and what a step may bring."""
    transition = np.zeros((count, N_STATES, N_STATES))
    stay = rng.uniform(0.2, 0.6, (count, N_STATES))
    for state in range(N_STATES):
        transition[:, state, state] += stay[:, state]
        for neighbour in (max(state - 1, 0), min(state + 1, N_STATES - 1)):
            transition[:, state, neighbour] += (1 - stay[:, state]) / 2
    where = np.broadcast_to(np.linspace(-1, 1, N_STATES), (count, N_STATES))
    return tasks.Tasks(transition, rng.normal(size=(count, N_STATES)), np.stack([where, stay], axis=-1))


class Simulator:
    """Functions inside a class have a name, too."""

    @staticmethod
    def draw(count, rng):
        return ring(count, rng)

    def __call__(self, count, rng):
        return ring(count, rng)

    def method(self, count, rng):
        return ring(count, rng)


ring_by_partial = functools.partial(ring)
ring_by_lambda = lambda count, rng: ring(count, rng)  # noqa: E731


def nested():
    def inside(count, rng):
        return ring(count, rng)

    return inside


# ------------------------------------------------------------------------------------------------ bad ones


def no_tasks(count, rng):
    return np.zeros((count, N_STATES, N_STATES))


def one_too_few(count, rng):
    return ring(count - 1, rng)


def for_each_seed(count, rng):
    return ring(count, rng).reshape((1, count))


def five_states(count, rng):
    return tasks.draw(count, 5, DIM, rng)


def three_features(count, rng):
    return tasks.draw(count, N_STATES, 3, rng)


def of_its_own_generator(count, rng):
    return ring(count, np.random.default_rng())


def fails(count, rng):
    raise RuntimeError("no simulator")


def of_one_argument(count):
    return ring(count, np.random.default_rng(0))


def with_a_trap(count, rng):
    drawn = ring(count, rng)
    transition = drawn.transition.copy()
    transition[-1, 0] = [1, 0, 0, 0]
    return tasks.Tasks(transition, drawn.reward, drawn.features)


def with_a_trap_in_the_end(count, rng):
    """Too rare for a small draw."""
    return with_a_trap(count, rng) if count > 2 else ring(count, rng)


def short_of_batches(count, rng):
    """One task less where a step draws its batch of four."""
    return ring(count - (count == 4), rng)
