"""Hidden walks with every corner that a program may forget."""

import numpy as np

from ictd.exercises._checking import generator

# Counts are unequal, some states stay where they are, and the first state is the last one only where it says so.
_CLOSED = {
    "on a walk that ends in a state that it left before": [2, 0, 1, 1, 3, 0, 2, 4, 2, 0, 3, 1],
    "on a walk that ends where it began": [0, 1, 2, 0, 0, 3, 2, 1, 0, 2, 4, 0],
}
_OPEN = {
    "on a walk whose last state is new": [1, 0, 2, 1, 1, 2, 0, 4],
    "on a walk of one transition": [3, 1],
    "on a walk that never leaves one state": [2, 2, 2],
}


def walks(name, discounts=(0.8, 0.9, 0.7, 0.6, 0.95), all_left=False):
    """Walks of the named exercise: for each setting (states, rewards, gamma, n_states).

    Rewards of one state differ from visit to visit. One walk comes twice, the second time with gamma = 0.
    With ``all_left`` every state was left, so that certainty equivalence exists.
    """
    rng, found = generator(name), {}
    chosen = _CLOSED if all_left else {**_CLOSED, **_OPEN}
    for gamma, (setting, states) in zip(discounts, chosen.items()):
        found[setting] = np.array(states), rng.normal(size=len(states) - 1).round(2), gamma, 5
    states, rewards, _, n_states = next(iter(found.values()))
    return {**found, "with gamma = 0": (states, rewards, 0.0, n_states)}
