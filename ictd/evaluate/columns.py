"""Columns that say something by their names: episodes, ends, time limits, and the order of rows."""

import re
from datetime import datetime

import numpy as np

from ictd.evaluate.arguments import LARGEST, TRUTHS, as_number, numbered
from ictd.evaluate.cautions import count

# Words in the names of columns, alone, at the begin or at the end: session, session_id, sessionid, user_session.
EPISODE_WORDS = (
    "episode session user visitor client customer player patient trajectory rollout trial game device machine run env"
).split()
END_WORDS = "done terminal terminated termination".split()
CUT_WORDS = "truncated truncation truncations timeout".split()
# With one of these a name is that of a measurement: session_length, player_health.
MEASURES = set("age count duration health length len level mean rating return reward score size speed sum".split())
# Whole names.
SHORT_NAMES = {"ep": "episode", "uid": "episode", "sid": "episode", "traj": "episode", "end": "done", "ended": "done"}
TIME_NAMES = "time timestamp datetime date ts t step timestep time_step event_time created_at".split()
# A step of time is long above so many usual ones, if 9 of 10 steps are alike, or if they are not.
LONG_IF_REGULAR, LONG = 1.5, 100
# Fewer do not say what is usual.
FEW_STEPS = 10


def looks_like(name):
    """Whether a column looks like "episode", "done", "truncated" or "time" by its name; None if like none of them."""
    name = name.strip().lower()
    if name in TIME_NAMES:
        return "time"
    parts = re.findall(r"[a-z]+", name)
    if MEASURES & set(parts):
        return None
    for kind, words in (("truncated", CUT_WORDS), ("done", END_WORDS), ("episode", EPISODE_WORDS)):
        for word in words:
            if any(part in (word, f"{word}s") for part in parts):
                return kind
            if len(word) > 3 and any(part.startswith(word) or part.endswith(word) for part in parts):
                return kind
    return SHORT_NAMES.get("_".join(part for part in parts if part != "id"))


def of_columns(unused, has_episode, done):
    """Columns that look like episodes or ends and are not used.

    Parameters
    ----------
    unused : list of str
        The columns that have no role.
    has_episode : bool
        Whether a column of episodes was named.
    done : str or None
        The column of ends that was named.
    """
    for name in unused:
        kind = looks_like(name)
        if kind == "episode" and not has_episode:
            yield (
                f"column {name} looks like episodes and is not used: the last row of one leads to the first row of the "
                f"next. Name it with --episode {_quoted(name)} (episode= in Python)"
            )
        elif kind == "done" and done is None:
            without = "rewards at the end of an episode are left out" if has_episode else "ends lead to the next row"
            yield (
                f"column {name} looks like ends of episodes and is not used: {without}. Name it with "
                f"--done {_quoted(name)} (done= in Python)"
            )
        elif kind == "truncated" and not has_episode:
            yield (
                f"column {name} looks like episodes that were cut off and is not used: their last row leads to the "
                f"first row of the next. Name a column of episodes with --episode (episode= in Python); one that just "
                f"stops leaves out its last reward, so --done is for real ends only"
            )
    if done is not None and looks_like(done) == "truncated":
        yield (
            f"column {done} looks like episodes that were cut off, and each counts as an end worth 0. If they would "
            f"have gone on, name a column of episodes with --episode instead, and real ends with --done"
        )


def _quoted(name):
    return name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'"


def of_cut_offs(name, cut_off, done, ends):
    """Rows that are called done because a time limit came.

    Parameters
    ----------
    name, done : str
        The columns that say "cut off" and "done".
    cut_off : list of str
    ends : ndarray of bool
    """
    both = sum(bool(end) and TRUTHS.get(text.strip().lower(), False) for text, end in zip(cut_off, ends))
    if both:
        yield (
            f"{count(both, 'row is', 'rows are')} done by column {done} and cut off by column {name}: an end worth 0. "
            f"A time limit is no end: name a column of real ends (such as terminated) with --done"
        )


def of_shared_ids(name, values, episodes):
    """One episode id with rows of several users, devices or sessions is several walks made one."""
    owner = numbered(values, name)[1]
    pairs = len(np.unique(episodes * (int(owner.max()) + 1) + owner))
    n_episodes = len(np.unique(episodes))
    if pairs > n_episodes:
        yield (
            f"rows with one episode id have several values in column {name}: if ids begin anew there, different walks "
            f"are read as one. Make a column that holds both and name it with --episode"
        )


def of_time(name, values, lines, walks):
    """Rows that are not in the order of their time, and jumps that no missing value explains.

    Parameters
    ----------
    name : str
    values : list of str
    lines, walks : ndarray of int
        Line and walk of each row.
    """
    order = np.argsort(walks, kind="stable")
    times, lines, walks = np.array([_seconds(value.strip()) for value in values])[order], lines[order], walks[order]
    steps = np.where(walks[1:] == walks[:-1], np.diff(times), np.nan)  # NaN too where a time cannot be read
    if (steps < 0).any():
        yield f"column {name} goes back in line {lines[1:][steps < 0].min()}: rows must stand in the order of time"
        return
    positive = steps[steps > 0]
    if positive.size < FEW_STEPS:
        return
    usual = np.median(positive)
    regular = np.mean(np.abs(positive - usual) <= 0.1 * usual) >= 0.9
    long = steps > usual * (LONG_IF_REGULAR if regular else LONG)
    if long.any():
        yield (
            f"column {name} has {count(np.count_nonzero(long), 'long step', 'long steps')}, first in line "
            f"{lines[1:][long].min()}: more than {LONG_IF_REGULAR if regular else LONG} times the usual one. The rows "
            f"before and after are joined all the same: if others are missing between them, or an id began anew, give "
            f"each piece an id of its own and name the column with --episode"
        )


def _seconds(text):
    """A number as it is, a date or time in ISO form in seconds, NaN for what is neither."""
    number = as_number(text)
    if number is not None:
        return float(number) if abs(number) <= LARGEST else np.nan
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(\.\d+)?)? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?", text)
    if match is None:
        return np.nan
    day, clock, fraction, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z", "UTC") else f"{zone[:3]}:{zone[3:].lstrip(':') or '00'}"
    try:
        return datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}").timestamp() + float(fraction or 0)
    except ValueError:  # 2024-02-30
        return np.nan
