"""From what the caller has to numbered states and transitions."""

import math
import numbers
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ictd import _checks, empirical

# Tables of S x S and eigenvalues: a few seconds at this size.
MAX_STATES = 2000
# Sums and products of numbers up to this size cannot overflow.
LARGEST = 1e100

# How logs write that an episode ended, or did not.
TRUTHS = dict.fromkeys(("1", "1.0", "true", "yes", "t", "y"), True)
TRUTHS |= dict.fromkeys(("0", "0.0", "false", "no", "f", "n"), False)

# What programs write where a value is missing.
MISSING_WORDS = {"na", "n/a", "#n/a", "nan", "null", "none", "<na>"}


class Piece(NamedTuple):
    """The id of a later piece of an episode that missing values broke: equal to the plain tuple."""

    episode: object
    number: int


class RowFault(ValueError):
    """A row that does not fit the others.

    Attributes
    ----------
    row : int
        Its place, from 0 on.
    column : str
        "reward" or "done".
    fault : str
    """

    def __init__(self, row, column, fault):
        super().__init__(f"{'rewards' if column == 'reward' else column}, entry {row}: {fault}")
        self.row, self.column, self.fault = row, column, fault

    def __reduce__(self):  # as a worker of a pool sends it
        return type(self), (self.row, self.column, self.fault)


@dataclass(frozen=True)
class Transitions:
    """The transitions of one walk or of many episodes.

    Attributes
    ----------
    sources, successors, units : ndarray of int, shape (m,)
        The state that was left, the one that was entered (`empirical.END` for the end), and the number of what is
        independent of the rest: the episode, with all pieces into which missing values broke it.
    rewards : ndarray, shape (m,)
    n_episodes, n_ends, n_left_out : int
        Episodes, those of them that came to an end, and rewards without a known successor.
    interleaved : bool
        Whether rows of one episode stand between those of another.
    ids : tuple
        The different ids of episodes, if there are any.
    """

    sources: np.ndarray
    rewards: np.ndarray
    successors: np.ndarray
    units: np.ndarray
    n_episodes: int = 1
    n_ends: int = 0
    n_left_out: int = 0
    interleaved: bool = False
    ids: tuple = ()


def one_walk(index, rewards):
    """The transitions of a walk whose last state was not left."""
    if len(index) < 2:
        raise ValueError(f"states must hold at least two states, S_0 and S_1; got {len(index)}")
    n = len(index) - 1
    rewards = _checks.array("rewards", _nan_for_none(rewards), ("n",), finite=False)
    if len(rewards) != n:
        raise ValueError(
            f"rewards must have shape ({n},), one for leaving each of the {n + 1} states but the last, if neither "
            f"episodes nor done are given; got shape {rewards.shape}"
        )
    limited("rewards", _checks.array("rewards", rewards, (n,)))
    return Transitions(index[:-1], rewards, index[1:], np.zeros(len(rewards), np.int64))


def many_episodes(index, rewards, episodes, done):
    """The transitions within episodes: from each row to the next of its episode, or to the end.

    Parameters
    ----------
    index : ndarray of int, shape (n,)
        State of each row.
    rewards : array_like, shape (n,)
        NaN or None where there is none: in the last row of an episode that just stops.
    episodes, done : sequence of n entries, or None
        At least one of them. Without ``episodes`` a new one begins after each row that is done.

    Raises
    ------
    RowFault
        A row without the reward that it needs, or a row after the end of its episode.
    """
    n = len(index)
    rewards = row_rewards(rewards, n)
    done = np.zeros(n, dtype=bool) if done is None else truths("done", done, n)
    if episodes is None:
        return linked(index, rewards, np.cumsum(done) - done, done)
    ids = labels("episodes", episodes, n)
    whole = [id.episode if isinstance(id, Piece) else id for id in ids]
    units = ids if len(set(whole)) == 1 else whole  # the pieces of a single walk are all that can be compared
    return replace(linked(index, rewards, _numbers(ids), done, _numbers(units)), ids=tuple(dict.fromkeys(ids)))


def linked(index, rewards, episodes, done, units=None):
    """`many_episodes` for arrays that have been checked; episodes and units are numbers from 0 on."""
    order = np.argsort(episodes, kind="stable")
    state, reward, episode, end = index[order], rewards[order], episodes[order], done[order]
    goes_on = np.append(episode[1:] == episode[:-1], False)
    faults = []
    if (end & goes_on).any():
        row = order[1:][(end & goes_on)[:-1]].min()
        faults.append(RowFault(int(row), "done", "an earlier row of the same episode is done, so it has ended"))
    known = end | goes_on
    unpaid = known & np.isnan(reward)
    if unpaid.any():
        row = int(order[unpaid].min())
        what = (
            "the row is done but has no reward. A row is a state and the reward for leaving it: if the episode is over "
            "on arrival there, the row before is the one that is done"
            if done[row]
            else "empty; only the last row of an episode that just stops may have no reward"
        )
        faults.append(RowFault(row, "reward", what))
    if faults:
        raise min(faults, key=lambda fault: fault.row)
    if not known.any():
        raise ValueError("no row has a known successor: every episode is a single row, and none is done")
    n_episodes = len(np.unique(episodes))
    return Transitions(
        state[known],
        reward[known],
        np.where(end, empirical.END, np.append(state[1:], 0))[known],
        (episode if units is None else units[order])[known],
        n_episodes,
        int(end.sum()),
        int((~known & ~np.isnan(reward)).sum()),
        bool(np.count_nonzero(np.diff(episodes)) >= n_episodes),
    )


# ------------------------------------------------------------------------------------- labels and numbers


def labels(name, values, n_rows=None):
    """The entries of a column as plain, hashable Python objects, none of them empty."""
    shape = getattr(values, "shape", (None,))
    if isinstance(values, (str, bytes, Set, Mapping)) or not hasattr(values, "__len__") or len(shape) != 1:
        raise TypeError(f"{name} must be a sequence of {_entries(name)}; got {_checks.describe(values)}")
    entries = [_plain_label(label) for label in _plain(name, values)]
    if n_rows is not None and len(entries) != n_rows:
        raise ValueError(f"{name} must have one entry for each of the {n_rows} states; got {len(entries)}")
    if not entries:
        raise ValueError(f"{name} must not be empty")
    try:
        distinct = dict.fromkeys(entries)
    except TypeError:
        raise TypeError(
            f"{name} must be hashable {_entries(name)}, such as numbers, strings or tuples, not lists or arrays"
        ) from None
    for label in distinct:
        if is_empty(label):
            where = next(i for i, entry in enumerate(entries) if entry is label)
            raise ValueError(f"{name} must not hold empty entries or NaN; entry {where} is {label!r}")
    return entries


def numbered(entries, name, most=None):
    """The distinct entries, in the order of their numbers or else of their appearance, and the index of each entry."""
    distinct = list(dict.fromkeys(entries))
    if most is not None and len(distinct) > most:
        raise ValueError(
            f"{name} must hold at most {most} different labels; got {len(distinct)}. "
            f"Group continuous observations into bins first"
        )
    keys = [as_number(label) for label in distinct]
    if None in keys:
        keys = [_lower_edge(label) for label in distinct]
    if None not in keys:
        distinct = [label for _, label in sorted(zip(keys, distinct), key=lambda pair: pair[0])]
    place = {label: i for i, label in enumerate(distinct)}
    return tuple(distinct), np.fromiter((place[entry] for entry in entries), np.int64, len(entries))


def _numbers(ids):
    return numbered(ids, "episodes")[1]


def _entries(name):
    return {"states": "state labels", "episodes": "episode ids", "done": "truth values"}.get(name, "entries")


def _plain_label(label):
    """The label as a plain Python object: entries of a tensor would all differ, as they hash by identity."""
    if type(label) is tuple:
        return tuple(map(_plain_label, label))
    if not hasattr(label, "tolist"):
        return label
    plain = label.tolist()
    # Python has no dates with nanoseconds: NumPy would make ints of them.
    return label if isinstance(label, (np.datetime64, np.timedelta64)) and isinstance(plain, int) else plain


def _plain(name, values):
    if getattr(getattr(values, "dtype", None), "kind", None) in ("m", "M"):
        return list(values)
    try:
        return values.tolist() if hasattr(values, "tolist") else list(values)
    except Exception:  # tensors without data
        raise TypeError(f"{name} must be a sequence of {_entries(name)}; got {_checks.describe(values)}") from None


def is_empty(label):
    """Whether a label is None, empty text, one of the many kinds of NaN, or a tuple that holds a NaN."""
    return label is None or (isinstance(label, (str, bytes)) and not label) or _is_nan(label)


def _is_nan(label):
    if isinstance(label, (tuple, frozenset)):
        return any(map(_is_nan, label))
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas.NA refuses to be compared
        return True


def as_number(label):
    """The finite number that a label denotes, with all its digits, or None."""
    if isinstance(label, str) and "_" not in label:  # Python reads 1_0 as 10
        for read in (int, float):
            try:
                label = read(label)
                break
            except ValueError:
                pass
    if isinstance(label, np.timedelta64):  # which NumPy counts among the integers
        return None
    return label if isinstance(label, numbers.Real) and abs(label) < math.inf else None


def _lower_edge(label):
    """The number a of a label such as ``[a, b)``, or None."""
    match = re.fullmatch(r"\[([^,]+), [^,]+[)\]]", label) if isinstance(label, str) else None
    return as_number(match[1]) if match else None


def truths(name, values, n_rows):
    """A column of truth values: booleans, 1 and 0, or text such as yes and no."""
    if type(values) is np.ndarray and values.dtype == bool and values.shape == (n_rows,):
        return values
    result = np.empty(n_rows, dtype=bool)
    for row, value in enumerate(labels(name, values, n_rows)):
        truth = TRUTHS.get(value.strip().lower()) if isinstance(value, str) else {0: False, 1: True}.get(value)
        if truth is None:
            raise ValueError(f"{name} must be 1 or 0, true or false, yes or no; entry {row} is {value!r}")
        result[row] = truth
    return result


def row_rewards(rewards, n_rows):
    """One reward a row, NaN where there is none."""
    values = _checks.array("rewards", _nan_for_none(rewards), ("n",), finite=False)
    if len(values) != n_rows:
        raise ValueError(
            f"rewards must have shape ({n_rows},), one a row and NaN where there is none, if episodes or done are "
            f"given; got shape {values.shape}"
        )
    if np.isinf(values).any():
        where = int(np.argmax(np.isinf(values)))
        raise ValueError(f"rewards must be finite, or NaN where there is none; entry {where} is {values[where]}")
    limited("rewards", np.nan_to_num(values))
    return values


def _nan_for_none(rewards):
    """The rewards, with NaN where there is none; what has no order or more than one column is refused."""
    shape = getattr(rewards, "shape", None)
    if isinstance(rewards, (str, bytes, Set, Mapping)) or not hasattr(rewards, "__len__"):
        raise TypeError(f"rewards must be a sequence of numbers; got {_checks.describe(rewards)}")
    if shape is not None and len(shape) != 1:
        raise ValueError(f"rewards must be one column of numbers; got {_checks.describe(rewards)}")
    if shape is None or str(getattr(rewards, "dtype", "")) == "object":  # pandas: columns with missing integers
        return [math.nan if is_empty(reward) else reward for reward in _plain("rewards", rewards)]
    return rewards


def limited(name, values):
    """The array, if no number in it is beyond `LARGEST`."""
    if np.abs(values).max() > LARGEST:
        where = tuple(int(i) for i in np.unravel_index(np.abs(values).argmax(), values.shape))
        raise ValueError(f"{name} must be at most {LARGEST:g} in size; entry {where} is {values[where]}")
    return values


def features_of_states(features, states, index):
    """One row of features for each state, from one for each row of the data."""
    x = limited("features", _checks.array("features", features, (len(index), "d")))
    first = np.unique(index, return_index=True)[1]
    differs = (x != x[first[index]]).any(axis=1)
    if differs.any():
        row = int(np.argmax(differs))
        state = index[row]
        raise ValueError(
            f"features must be a function of the state; state {states[state]!r} has {x[first[state]].tolist()} in "
            f"row {int(first[state])} and {x[row].tolist()} in row {row}"
        )
    return x[first]
