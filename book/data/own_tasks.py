"""A task distribution of one's own, for ``ictd pretrain --tasks``: lazy walks around a circle."""

import numpy as np

from ictd.tasks import Tasks


def lazy_circle(count, rng):
    """Circles of six states that are left rarely, with random rewards and four random features."""
    stay = rng.uniform(0.5, 0.9, (count, 6, 1))
    transition = stay * np.eye(6) + (1 - stay) * np.roll(np.eye(6), 1, axis=1)
    return Tasks(
        transition, rng.uniform(-1, 1, (count, 6)), rng.standard_normal((count, 6, 4))
    )
