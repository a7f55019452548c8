"""Write frozenlake.csv: one long trajectory of Gymnasium's FrozenLake (4 x 4, slippery) under a fixed policy.

The policy takes the optimal action with probability 0.8 and a uniformly random one otherwise, so that all
states are seen. Episode follows episode: after a hole or the goal comes the start, with reward 0.
Run it to write the file again; the same seed gives the same bytes.
"""

from pathlib import Path

import numpy as np

from ictd import environments

GAMMA = 0.9
SEED = 0
N_TRANSITIONS = 4000
# Optimal for gamma = 0.9: 0 left, 1 down, 2 right, 3 up; holes and goal have no choice to make.
OPTIMAL = [0, 3, 0, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]


def environment():
    """FrozenLake without a time limit."""
    import gymnasium

    return gymnasium.make("FrozenLake-v1", max_episode_steps=-1)


def policy():
    """Action probabilities, shape (16, 4)."""
    return 0.8 * np.eye(4)[OPTIMAL] + 0.2 / 4


def trajectory():
    """The rollout, with the rewards that the environment paid."""
    return environments.rollout_gymnasium(
        environment(), policy(), N_TRANSITIONS, np.random.default_rng(SEED)
    )


def text():
    """The file's content."""
    data = trajectory()
    rewards = [f"{reward:g}" for reward in data.rewards] + [""]
    lines = [
        "state,reward",
        *(f"{state},{reward}" for state, reward in zip(data.states, rewards)),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("frozenlake.csv").write_bytes(text().encode())
