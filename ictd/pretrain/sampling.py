"""The tasks of a run: of the family that its settings name, or drawn by a function of the reader's own.

Random numbers come from one generator for each (seed, step, stream), so that no draw shifts another one.
"""

import dataclasses

import numpy as np

from ictd import _checks, tasks
from ictd.pretrain.config import Config
from ictd.pretrain.identity import OF_FAMILY, origin

# The streams of random numbers: training, held-out tasks, the NEU estimates, and the first try of a function.
TRAIN, HELD_OUT, NEU, TRIAL = 1, 2, 3, 4
_TRIED = 2  # tasks of the first try


def sample_tasks(config, count, rng, sample=None):
    """Random tasks for a run.

    Parameters
    ----------
    config : Config
    count : int
        Number of tasks.
    rng : numpy.random.Generator, or a sequence of them
        As in `tasks.draw`.
    sample : callable, optional
        Draws instead of the family in the settings, see `pretrain.pretrain`.

    Returns
    -------
    tasks.Tasks
        Leading dimensions (count,), or (number of generators, count).
    """
    if sample is None:
        options = {name: getattr(config, name) for name in OF_FAMILY}
        return tasks.draw(count, config.n_states, config.dim, rng, **options)

    def one(generator):
        drawn = _checked(sample(count, generator), config, count)
        return drawn.transition, drawn.reward, drawn.features

    return tasks.Tasks(*tasks.each(rng, one))


def _checked(drawn, config, count):
    """What a function has drawn, if it fits the settings."""
    if not isinstance(drawn, tasks.Tasks):
        raise TypeError(f"sample must give tasks.Tasks; got {_checks.describe(drawn)}")
    if drawn.shape != (count,):
        raise ValueError(f"sample({count}, rng) must give tasks of leading shape ({count},); got {drawn.shape}")
    sizes = {"n_states": drawn.n_states, "dim": drawn.features.shape[-1]}
    for name, found in sizes.items():
        if found != getattr(config, name):
            raise ValueError(f"sample must give tasks with {name} = {getattr(config, name)}; got {name} = {found}")
    return drawn


def stationary(batch, sample=None):
    """Stationary distributions of tasks, or an error that names the function that drew them."""
    try:
        return batch.stationary()
    except ValueError:
        if sample is None:
            raise
        raise ValueError(
            "sample must give irreducible processes, so that every state is visited again and again; got one that "
            "is not"
        ) from None


def check_sample(sample, config):
    """Try a function that is to draw the tasks of a run: a few tasks, twice, from generators that no run uses.

    Returns
    -------
    dict or None
        Its `identity.origin`; None for None.

    Raises
    ------
    ValueError, TypeError
        It is no function, draws what does not fit the settings, draws from something else than its generator, or the
        settings name a family of tasks beside it.
    """
    if _checks.function("sample", sample) is None:
        return None
    found = origin(sample)
    for field in dataclasses.fields(Config):
        if field.name in OF_FAMILY and getattr(config, field.name) != field.default:
            raise ValueError(
                f"{field.name} must be left at {field.default!r} where sample draws the tasks; "
                f"got {getattr(config, field.name)!r}"
            )
    first, again = (_try(sample, config) for _ in range(2))
    for name, values in vars(first).items():
        if not np.array_equal(values, vars(again)[name]):
            raise ValueError(f"sample must draw from its generator only; equal generators gave different {name}")
    stationary(first, sample)
    return found


def _try(sample, config):
    try:
        drawn = sample(_TRIED, np.random.default_rng([0, 0, TRIAL]))
    except Exception as error:  # of any kind: it is the reader's own code
        raise ValueError(f"sample({_TRIED}, rng) must draw tasks; it raised {type(error).__name__}: {error}") from error
    return _checked(drawn, config, _TRIED)
