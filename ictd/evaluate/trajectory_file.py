"""Logs in files: comma-separated text with a header line, read with the line and column of every fault."""

import csv
import io
import math
import re
import stat
import warnings as python_warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from ictd import _checks
from ictd.evaluate import arguments, cautions
from ictd.evaluate.arguments import LARGEST, TRUTHS
from ictd.evaluate.result import checked_path, one_line

SEPARATORS = {",": ",", ";": ";", "\t": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "tab": "\t"}
MISSING = ("refuse", "skip")
# Records that are turned into columns at once.
BLOCK = 4096


class FileFault(ValueError):
    """A trajectory file that cannot be read; the message says where and why."""


@dataclass(frozen=True, eq=False)
class TrajectoryFile:
    """What a trajectory file holds: the arguments of `ictd.evaluate.evaluate`.

    Attributes
    ----------
    states : list of str
        Labels S_0..S_n, or intervals where bins were asked for.
    rewards : list of float
        R_1..R_n, or one a row and NaN where there is none if ``episodes`` or ``done`` is not None.
    features : ndarray of shape (n+1, d), or None
        None if the file has no feature columns.
    ignored : tuple of str
        Names of the columns that were not used.
    episodes : list of n+1 ids, or None
        None if no column was named and nothing was skipped. A walk that is broken by missing values goes on under
        the id ``(id, 2)``, then ``(id, 3)``.
    done : list of n+1 bool, or None
        None if no column was named.
    warnings : tuple of str
        Columns and labels that may have been misread.
    notes : tuple of str
        What was left out.
    """

    states: list
    rewards: list
    features: np.ndarray
    ignored: tuple
    episodes: list = None
    done: list = None
    warnings: tuple = ()
    notes: tuple = ()


def is_feature_name(name):
    """Whether a column holds a feature: ``x1``, ``x2``, ... or any name that begins with ``feature``."""
    return re.fullmatch(r"feature.*|x_?[0-9]+", name) is not None


def read_csv(path, *, state="state", reward="reward", episode=None, done=None, sep=",", missing="refuse", bins=None):
    """Read a log from a file of separated values in UTF-8 with a header line.

    A row is a visit: a state, compared as text, and the reward for leaving it. Without ``episode`` and ``done`` the
    file is one walk, and the reward of the last row is empty, since that state was not left. Features are the columns
    named x1, x2, ... or feature...; other columns are ignored. Names are compared without case and surrounding spaces.
    Empty lines, and empty rows at the end, are skipped.

    Parameters
    ----------
    path : str, path-like, or file object
        A file object is read to its end.
    state, reward : str
        Names of columns; both may be the same.
    episode : str, optional
        Name of the column of episodes. Rows with equal text belong to one episode, also if others stand between.
    done : str, optional
        Name of the column that says whether a row leads to the end: 1 or 0, true or false, yes or no.
    sep : "," or ";" or "\\t"
        Also "comma", "semicolon" or "tab".
    missing : "refuse" or "skip"
        What to do where a value is missing: refuse the file, or break the walk there (it is not bridged) and count
        what was left out. Empty fields are missing values; with "skip" NA, N/A, NaN, null and None are too.
    bins : int, mapping or str, optional
        Number of bins for a numeric column of states: N, {column: N} or "column=N". Bins hold about equally many rows
        and are labelled ``[a, b)``; the last one holds its upper end too.

    Returns
    -------
    TrajectoryFile

    Raises
    ------
    FileFault
        Naming the file, the line (from 1 on) and the column of a fault.
    ValueError, TypeError
        If an argument cannot be what it is.

    Warns
    -----
    UserWarning
        For each of the ``warnings`` of the result.
    """
    result = read_log(path, state=state, reward=reward, episode=episode, done=done, sep=sep, missing=missing, bins=bins)
    for text in result.warnings:
        python_warnings.warn(text, stacklevel=2)
    return result


def read_log(path, *, state, reward, episode, done, sep, missing, bins):
    """`read_csv` without Python's warnings."""
    roles = {"state": state, "reward": reward, "episode": episode, "done": done}
    roles = {role: _column_name(role, name) for role, name in roles.items() if name is not None}
    separator = _separator(sep)
    skip = _checks.option("missing", missing, MISSING) == "skip"
    n_bins = None if bins is None else _number_of_bins(bins, roles["state"])

    name, data = _content(path)
    table = _Table(name, data, separator, roles, skip)
    rows = table.read()
    return _assemble(table, rows, n_bins)


# ------------------------------------------------------------------------------------------- arguments


def _column_name(role, name):
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"{role} must be the name of a column; got {_checks.describe(name)}")
    return _normal(name)


def _normal(name):
    return one_line(name.strip().lower())


def _separator(sep):
    if not isinstance(sep, str) or (sep if sep in SEPARATORS else sep.strip().lower()) not in SEPARATORS:
        raise ValueError(f"sep must be a comma, a semicolon or a tab; got {_checks.describe(sep)}")
    return SEPARATORS[sep if sep in SEPARATORS else sep.strip().lower()]


def _number_of_bins(bins, state):
    if isinstance(bins, str):
        column, equals, number = bins.rpartition("=")
        if not equals or not re.fullmatch(r"[0-9]{1,9}", number.strip()):
            raise ValueError(f"bins must be COLUMN=N, such as {state}=10; got {bins!r}")
        bins = {column: int(number)}
    if isinstance(bins, Mapping):
        if len(bins) != 1 or _normal(str(next(iter(bins)))) != state:
            raise ValueError(f"bins must be for the column of states, {state}; got {', '.join(map(str, bins)) or 'none'}")
        (bins,) = bins.values()
    return _checks.integer("bins", bins, low=2, high=arguments.MAX_STATES)


def _content(path):
    """The name and the bytes of what is read."""
    if hasattr(path, "read"):
        name = str(getattr(path, "name", "the input"))
        name = "standard input" if name in ("<stdin>", "0") else name
        try:
            data = path.read()
        except (OSError, ValueError) as error:  # a closed or unreadable stream
            raise FileFault(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        return name, data.encode() if isinstance(data, str) else data
    path = checked_path(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # /dev/zero has no end
            raise OSError("it is a device; expected a file or a pipe")
        return str(path), path.read_bytes()
    except OSError as error:
        raise FileFault(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a null character in the name
        raise FileFault(f"{str(path)!r}: cannot be read: {error}") from None


# --------------------------------------------------------------------------------------------- the table


@dataclass
class _Rows:
    """The columns of a file, as they were read.

    ``states`` holds None, ``rewards`` and ``features`` NaN, ``episodes`` None and ``done`` None where a value is
    missing; ``extra`` the text of columns that may tell of a misreading.
    """

    lines: list
    states: list
    rewards: list
    episodes: list
    done: list
    features: list
    extra: dict
    gaps: list  # the numbers of rows before which an empty row stands


class _Table:
    """A file with a header: which column is what, and its rows."""

    def __init__(self, name, data, separator, roles, skip):
        self.name, self.roles, self.skip = name, roles, skip
        self.known = {}  # one object for each text: a log repeats them
        self.records = _records(name, data, separator)
        line, names = next(self.records, (None, None))
        if names is None:
            raise FileFault(f"{name}: the file is empty; its first line must be a header, such as state,reward")
        self.names = [_normal(field) for field in names]
        self._check_header(line, separator)
        self.at = {role: self.names.index(column) for role, column in roles.items()}
        used = set(self.at.values())
        self.features = [i for i, field in enumerate(self.names) if is_feature_name(field) and i not in used]
        used.update(self.features)
        self.unused = [field for i, field in enumerate(self.names) if field and i not in used]
        self.extra = {field: self.names.index(field) for field in self.unused if cautions.looks_like(field)}
        self.last_line = line

    def _check_header(self, line, separator):
        where = f"{self.name}, line {line}"
        for i, name in enumerate(self.names):
            if name and name in self.names[:i]:
                raise FileFault(f"{where}, column {name}: the name appears twice in the header")
        absent = [role for role, name in self.roles.items() if name not in self.names]
        if not absent:
            taken = {}
            for role, name in self.roles.items():
                if taken.setdefault(name, role) != role and {taken[name], role} != {"state", "reward"}:
                    raise FileFault(f"{where}, column {name}: it cannot be both the {taken[name]} and the {role}")
            return
        words = {",": "commas", ";": "semicolons", "\t": "tabs"}
        for other, option in ((";", "semicolon"), ("\t", "tab"), (",", "comma")):
            if other != separator and len(self.names) == 1 and one_line(other) in self.names[0]:
                raise FileFault(
                    f"{where}: fields are separated by {words[other]}, not by {words[separator]}: pass --sep {option} "
                    f"(in Python sep={other!r})"
                )
        wanted = " and none named ".join(self.roles[role] for role in absent)
        close = get_close_matches(self.roles[absent[0]], [name for name in self.names if name], 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        options = ", ".join(f"--{role}" for role in absent)
        raise FileFault(
            f"{where}: no column named {wanted}; found {', '.join(map(repr, self.names))}.{hint} The first line must be a "
            f"header, such as state,reward; {options} of the command ({', '.join(f'{role}=' for role in absent)} in "
            f"Python) {'names another column' if len(absent) == 1 else 'name other columns'}"
        )

    def fault(self, line, column, text):
        return FileFault(f"{self.name}, line {line}, column {column}: {text}")

    def read(self):
        """All rows."""
        rows = _Rows([], [], [], [], [], [], {name: [] for name in self.extra}, [])
        block, empty = [], None
        for line, fields in self.records:
            self.last_line = line
            if not any(fields) or not any(map(str.strip, fields)):  # a spreadsheet's empty row
                empty = empty or line
                continue
            if len(fields) != len(self.names):
                raise FileFault(
                    f"{self.name}, line {line}: {len(fields)} fields, but the header has {len(self.names)} columns "
                    f"({', '.join(self.names)})"
                )
            if empty is not None:
                if not self.skip:
                    raise FileFault(
                        f"{self.name}, line {empty}: an empty row between others. Delete it, or pass --missing skip "
                        f"(missing='skip' in Python) to break the walk there"
                    )
                rows.gaps.append(len(rows.lines) + len(block))
                empty = None
            block.append((line, fields))
            if len(block) == BLOCK:
                self._take(block, rows)
                block = []
        if block:
            self._take(block, rows)
        return rows

    def _take(self, block, rows):
        """Turn records into columns."""
        lines, records = zip(*block)
        columns = list(zip(*records))
        rows.lines += lines

        def column(role, convert):
            name = self.roles[role]
            return [convert(line, name, field.strip()) for line, field in zip(lines, columns[self.at[role]])]

        rows.states += column("state", self._text)
        rows.rewards += column("reward", self._reward)
        if "episode" in self.roles:
            rows.episodes += column("episode", self._text)
        if "done" in self.roles:
            rows.done += column("done", self._truth)
        if self.features:
            names = [self.names[i] for i in self.features]
            fields = [columns[i] for i in self.features]
            rows.features += [
                [self.number(line, name, field.strip()) for name, field in zip(names, row)]
                for line, *row in zip(lines, *fields)
            ]
        for name, i in self.extra.items():
            rows.extra[name] += [self.known.setdefault(text, text) for text in columns[i]]

    def _is_missing(self, line, column, text):
        """Whether a value is missing and may be."""
        if text and not (self.skip and text.lower() in cautions.MISSING_WORDS):
            return False
        if not self.skip:
            raise self.fault(line, column, "empty")
        return True

    def _text(self, line, column, text):
        return None if self._is_missing(line, column, text) else self.known.setdefault(text, text)

    def _reward(self, line, column, text):
        return self.number(line, column, text) if text else math.nan

    def number(self, line, column, text):
        """The number that a field holds, NaN where it is missing and may be."""
        if self._is_missing(line, column, text):
            return math.nan
        try:
            number = float(text)
        except ValueError:
            number = None
        if number is None or "_" in text:
            comma = re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text)
            hint = f"; write the decimal point as in {text.replace(',', '.')}" if comma else ""
            raise self.fault(line, column, f"{text!r} is not a number{hint}")
        if not abs(number) <= LARGEST:
            hint = ". Rows with missing values can be left out with --missing skip" if math.isnan(number) else ""
            raise self.fault(line, column, f"{text!r} is not a finite number of at most {LARGEST:g} in size{hint}")
        return number

    def _truth(self, line, column, text):
        truth = TRUTHS.get(text.lower())
        if truth is None and not self._is_missing(line, column, text):
            raise self.fault(line, column, f"{text!r} is not 1 or 0, true or false, yes or no")
        return truth


def _records(name, data, separator):
    """Yield (number of the first line, fields) of each record that is not an empty line."""
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        start = data.rfind(b"\n", 0, error.start) + 1
        column = data.count(separator.encode(), start, error.start) + 1
        raise FileFault(
            f"{name}, line {line}, field {column}: not UTF-8 text (byte 0x{data[error.start]:02x}); save the file as "
            f"CSV UTF-8"
        ) from None
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise FileFault(f"{name}, line {line}: not valid CSV: {error}") from None
        if len(fields) > 1 or (fields and fields[0].strip()):
            yield line, fields


# ------------------------------------------------------------------------------------------- the result


def _assemble(table, rows, n_bins):
    """Put the columns together: bins, breaks, and the checks that need all rows."""
    n, skip = len(rows.lines), table.skip
    alone = "episode" not in table.roles and "done" not in table.roles
    fewest = 2 if alone and not skip else 1
    if n < fewest:
        raise FileFault(
            f"{table.name}, line {rows.lines[-1] if n else table.last_line}: "
            f"{'a trajectory needs two rows at least' if fewest == 2 else 'there must be a row'}; found {n}"
        )
    lines, rewards = np.array(rows.lines), np.array(rows.rewards)
    features = np.array(rows.features) if table.features else None
    notes, warnings = [], []
    if n_bins is not None:
        rows.states, note = _binned(table, rows, n_bins)
        notes += note

    episodes, keep = _walks(table, rows, rewards, features, notes) if skip else (rows.episodes or None, None)
    done = None if "done" not in table.roles else np.array([bool(end) for end in rows.done])
    if skip:
        if done is not None:  # without a reward, an end cannot be used
            done &= ~np.isnan(rewards)
            rewards[[end is None for end in rows.done]] = np.nan
        if not keep.any():
            raise FileFault(f"{table.name}: nothing is left: {'; '.join(notes)}")
        states = [label for label, good in zip(rows.states, keep) if good]
        lines, rewards, done = lines[keep], rewards[keep], None if done is None else done[keep]
        features = None if features is None else features[keep]
    else:
        states = rows.states
    _check_features(table, states, features, lines)
    _check_rows(table, rewards, episodes, done, lines, alone and not skip)

    if not skip:
        odd = sorted({label for label in states if label.lower() in cautions.MISSING_WORDS})
        if odd:
            warnings.append(
                f"state {', '.join(map(repr, odd))} was read as a label; --missing skip (missing='skip' in Python) leaves "
                f"such rows out"
            )
    warnings += _misreadings(table, rows, episodes, done, keep, lines)
    if alone and not skip:
        rewards = rewards[:-1]
    return TrajectoryFile(
        states,
        rewards.tolist(),
        features,
        tuple(table.unused),
        episodes,
        None if done is None else done.tolist(),
        tuple(warnings),
        tuple(notes),
    )


def _check_features(table, states, features, lines):
    if features is None:
        return
    seen = {}
    for row, (label, x) in enumerate(zip(states, features.tolist())):
        first, earlier = seen.setdefault(label, (row, x))
        if x != earlier:
            i = next(i for i, pair in enumerate(zip(earlier, x)) if pair[0] != pair[1])
            raise table.fault(
                lines[row],
                table.names[table.features[i]],
                f"{x[i]:g} for state {label!r}, which has another number in line {lines[first]}; features must be a "
                f"function of the state",
            )


def _check_rows(table, rewards, episodes, done, lines, one_walk):
    """The faults that only show between rows, by line."""
    column = {"reward": table.roles["reward"], "done": table.roles.get("done")}
    if one_walk:
        empty = np.flatnonzero(np.isnan(rewards[:-1]))
        if empty.size:
            raise table.fault(lines[empty[0]], column["reward"], "empty; only the last row may have no reward")
        if not np.isnan(rewards[-1]):
            raise table.fault(
                lines[-1],
                column["reward"],
                "must be empty in the last row, since this state was not left. Add a row with the state that it led to, "
                "or delete this reward. If the file holds episodes, or the walk came to an end, name the columns that "
                "say so with --episode or --done",
            )
        return
    ends = np.zeros(len(lines), dtype=bool) if done is None else done
    numbers = np.cumsum(ends) - ends if episodes is None else arguments.numbered(episodes, "episodes")[1]
    try:
        arguments.linked(np.zeros(len(lines), dtype=np.int64), rewards, numbers, ends)
    except arguments.RowFault as error:
        raise table.fault(lines[error.row], column[error.column], error.fault) from None
    except ValueError as error:
        raise FileFault(f"{table.name}: {error}") from None


def _walks(table, rows, rewards, features, notes):
    """Where missing values break the walks: the id of each row that is left, and which rows are.

    A row without a state, a feature or an episode is left out and breaks its walk (without an episode: all walks,
    since it may belong to any). A row without a reward or without a truth value stays, as the last one of its piece.
    """
    n = len(rows.lines)
    ends = rows.done or [False] * n
    keys = rows.episodes
    if not keys:  # a new episode begins after each end
        keys = (1 + np.cumsum([0, *map(bool, ends[:-1])])).tolist()
    no_feature = np.zeros(n, dtype=bool) if features is None else np.isnan(features).any(axis=1)
    no_reward = np.isnan(rewards).tolist()
    gaps, cuts = Counter(rows.gaps), 0
    counts = Counter()
    walks = {}  # of each episode: its pieces so far, whether the last is broken, and the cuts of all walks until then
    unpaid = set()  # episodes whose last row so far has no reward, as the last one of all may
    episodes, keep = [], np.zeros(n, dtype=bool)
    for row, key in enumerate(keys):
        cuts += gaps[row]
        if key is None:
            counts["an episode"] += 1
            cuts += 1
            continue
        if key in unpaid:
            counts["a reward"] += 1
            unpaid.remove(key)
        pieces, broken, cuts_then = walks.get(key, (0, True, cuts))
        if rows.states[row] is None or no_feature[row]:
            counts["a state" if rows.states[row] is None else "a feature"] += 1
            walks[key] = pieces, True, cuts
            continue
        if broken or cuts > cuts_then:
            pieces += 1
        if ends[row] is None:
            counts[f"a value in column {table.roles['done']}"] += 1
        elif no_reward[row] and ends[row]:
            counts["a reward"] += 1
        elif no_reward[row]:
            unpaid.add(key)
        walks[key] = pieces, no_reward[row] or ends[row] is None, cuts
        episodes.append(key if pieces == 1 else (key, pieces))
        keep[row] = True
    parts = [f"{count} without {what}" for what, count in counts.items()] + [f"{len(rows.gaps)} empty"] * bool(rows.gaps)
    if parts:
        notes.append(f"missing values break the walk at these rows: {', '.join(parts)}")
    return episodes, keep


def _binned(table, rows, n_bins):
    """Labels of equal-frequency bins in place of numbers, and a note if there are fewer than asked for."""
    column = table.roles["state"]
    number = {}
    for line, text in zip(rows.lines, rows.states):
        if text is not None and text not in number:
            number[text] = table.number(line, column, text)
    values = np.sort([number[text] for text in rows.states if text is not None])
    if not values.size:
        return rows.states, []
    edges = _edges(values, n_bins)
    lower = [values[0], *edges]
    upper = [*edges, values[-1]]
    labels = [f"[{_digits(a)}, {_digits(b)})" for a, b in zip(lower, upper)]
    labels[-1] = labels[-1][:-1] + "]"  # it holds the largest number too
    place = dict(zip(number, np.searchsorted(edges, list(number.values()), side="right")))
    states = [None if text is None else labels[place[text]] for text in rows.states]
    fewer = len(labels) < n_bins
    return states, [f"{len(labels)} bins of column {column}, not {n_bins}: many rows have the same number"] * fewer


def _edges(values, n_bins):
    """The inner edges of bins with about equally many of the sorted values; equal values stay together."""
    changes = np.flatnonzero(np.diff(values)) + 1
    if not changes.size:
        return []
    wanted = len(values) * np.arange(1, n_bins) / n_bins
    right = np.minimum(np.searchsorted(changes, wanted), len(changes) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(changes[left] - wanted) <= np.abs(changes[right] - wanted), left, right)
    return [_shortest(values[i - 1], values[i]) for i in changes[np.unique(nearest)]]


def _shortest(low, high):
    """The number with the fewest digits in (low, high]."""
    for digits in range(1, 17):
        number = float(f"{high:.{digits}g}")
        if low < number <= high:
            return number
    return float(high)


def _digits(number):
    return repr(float(number) + 0.0).removesuffix(".0")


def _misreadings(table, rows, episodes, done, keep, lines):
    """Columns without a role that say something about episodes, ends or the order of rows."""
    roles = table.roles
    yield from cautions.of_columns(table.unused, "episode" in roles, roles.get("done"))
    kept = np.ones(len(rows.lines), bool) if keep is None else keep
    for name, values in rows.extra.items():
        values = [value for value, good in zip(values, kept) if good]
        kind = cautions.looks_like(name)
        if kind == "truncated" and done is not None:
            yield from cautions.of_cut_offs(name, values, roles["done"], done)
        elif kind == "episode" and "episode" in roles:
            ids = [key for key, good in zip(rows.episodes, kept) if good]
            yield from cautions.of_shared_ids(name, values, arguments.numbered(ids, "episodes")[1])
        elif kind == "time":
            walks = np.zeros(len(lines), np.int64)
            if episodes is not None:
                walks = arguments.numbered(episodes, "episodes")[1]
            elif done is not None:
                walks = np.cumsum(done) - done
            yield from cautions.of_time(name, values, lines, walks)
