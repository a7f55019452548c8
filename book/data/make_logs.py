"""Write the logs of the page on own data, games.csv, visits.csv and heating.csv, and walk.csv for a trained model.

- games.csv: games of Gymnasium's FrozenLake (4 x 4, slippery) under the policy of make_frozenlake.py, as one would log
  them: `terminated` at a hole or the goal, `truncated` where a time limit of 50 steps cut the game off.
- visits.csv: made-up visits to a web shop, several at a time: second, session, page, and what was paid on it.
- heating.csv: a made-up room whose heater is on or off: every hour the temperature, which the sensor sometimes fails to
  give, and the cost of heating. Fields are separated by semicolons.
- walk.csv: a walk of 100 steps on a random Boyan chain of ten states with four normal features, like the contexts of the
  experiment.

Run it to write the files again; the same seeds give the same bytes.
"""

import importlib.util
from bisect import bisect_right
from pathlib import Path

import numpy as np

from ictd import features, mrp

HERE = Path(__file__).parent

N_GAMES, TIME_LIMIT = 150, 50

PAGES = ("home", "search", "product", "cart", "checkout", "thanks", "help")
GONE = len(PAGES)
# From each page to each page, and away.
CLICKS = np.array(
    [
        [0.00, 0.45, 0.25, 0.02, 0.00, 0.00, 0.03, 0.25],
        [0.05, 0.20, 0.50, 0.02, 0.00, 0.00, 0.03, 0.20],
        [0.05, 0.25, 0.15, 0.25, 0.00, 0.00, 0.05, 0.25],
        [0.02, 0.08, 0.15, 0.05, 0.50, 0.00, 0.05, 0.15],
        [0.00, 0.05, 0.00, 0.10, 0.00, 0.75, 0.05, 0.05],
        [0.20, 0.10, 0.10, 0.00, 0.00, 0.00, 0.00, 0.60],
        [0.20, 0.15, 0.15, 0.10, 0.00, 0.00, 0.10, 0.30],
    ]
)
N_SESSIONS = 400

N_HOURS = 1500


def frozenlake():
    """The module make_frozenlake."""
    spec = importlib.util.spec_from_file_location(
        "make_frozenlake", HERE / "make_frozenlake.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def games():
    """The content of games.csv."""
    import gymnasium

    rng = np.random.default_rng(1)
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=TIME_LIMIT)
    bounds = np.cumsum(frozenlake().policy(), axis=1).tolist()
    lines = ["game,step,state,reward,terminated,truncated"]
    for game in range(1, N_GAMES + 1):
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        step, over = 0, False
        while not over:
            action = min(bisect_right(bounds[state], rng.random()), 3)
            next_state, reward, terminated, truncated, _ = env.step(action)
            lines.append(
                f"{game},{step},{state},{reward:g},{int(terminated)},{int(truncated)}"
            )
            state, step, over = int(next_state), step + 1, terminated or truncated
    return lines


def visits():
    """The content of visits.csv, in the order of time, so that the rows of several sessions are mixed."""
    rng = np.random.default_rng(2)
    bounds = np.cumsum(CLICKS, axis=1).tolist()
    rows, begin = [], 0.0
    for session in range(1, N_SESSIONS + 1):
        begin += rng.exponential(60)
        second, page = (
            begin,
            bisect_right([0.6, 0.8], rng.random()),
        )  # home, search or product
        while page < GONE:
            after = min(bisect_right(bounds[page], rng.random()), GONE)
            paid = (
                round(float(rng.gamma(4, 15)), 2)
                if after < GONE and PAGES[after] == "thanks"
                else 0
            )
            rows.append((round(second), session, PAGES[page], paid))
            second += 5 + rng.exponential(40)
            page = after
    return [
        "time,session,page,paid",
        *(f"{t},{s},{page},{paid:g}" for t, s, page, paid in sorted(rows)),
    ]


def heating():
    """The content of heating.csv."""
    rng = np.random.default_rng(3)
    lines, celsius, on = ["hour;celsius;cost"], 20.0, False
    for hour in range(N_HOURS):
        outside = 6 + 4 * np.sin(2 * np.pi * hour / 24)
        on = celsius < 19 or (on and celsius < 21)
        cost = 0.3 + 0.02 * (20 - outside) + 0.05 * rng.standard_normal() if on else 0.0
        shown = "" if rng.random() < 0.03 else f"{celsius:.1f}"
        lines.append(f"{hour};{shown};{cost:.2f}")
        celsius += 1.2 * on - 0.05 * (celsius - outside) + 0.2 * rng.standard_normal()
    return lines


def walk():
    """The content of walk.csv."""
    rng = np.random.default_rng(4)
    trajectory = mrp.boyan_chain(10, 0.5, rng).sample(100, rng)
    x = features.gaussian(10, 4, rng)[trajectory.states]
    rewards = [*(f"{reward:.4f}" for reward in trajectory.rewards), ""]
    lines = ["state,reward,x1,x2,x3,x4"]
    for state, reward, row in zip(trajectory.states, rewards, x):
        lines.append(f"{state},{reward},{','.join(f'{number:.4f}' for number in row)}")
    return lines


FILES = {
    "games.csv": games,
    "visits.csv": visits,
    "heating.csv": heating,
    "walk.csv": walk,
}


def text(name):
    """The content of a file."""
    return "\n".join(FILES[name]()) + "\n"


if __name__ == "__main__":
    for name in FILES:
        (HERE / name).write_bytes(text(name).encode())
