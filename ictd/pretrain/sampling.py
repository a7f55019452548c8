"""The tasks of a run."""

from ictd import tasks


def sample_tasks(config, count, rng):
    """Random tasks with the settings of a run.

    Parameters
    ----------
    config : Config
    count : int
        Number of tasks.
    rng : numpy.random.Generator, or a sequence of them
        As in `tasks.draw`.

    Returns
    -------
    tasks.Tasks
        Leading dimensions (count,), or (number of generators, count).
    """
    return tasks.draw(count, config.n_states, config.dim, rng, config.family, config.features, config.feature_scale)
