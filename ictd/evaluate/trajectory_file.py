"""Logs in files: which column is what, where missing values break a walk, and what may have been misread."""

import warnings as python_warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np

from ictd import _checks
from ictd.evaluate import arguments, columns
from ictd.evaluate import bins as bins_of
from ictd.evaluate.table import FileFault, Table, content, normal

SEPARATORS = {",": ",", ";": ";", "\t": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "tab": "\t"}
DECIMALS = {".": ".", ",": ",", "point": ".", "comma": ","}
MISSING = ("refuse", "skip")


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
        the id ``Piece(id, 2)``, then ``Piece(id, 3)``; the standard errors count its pieces as one episode.
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


def read_csv(
    path,
    *,
    state="state",
    reward="reward",
    episode=None,
    done=None,
    sep=",",
    decimal=".",
    missing="refuse",
    bins=None,
):
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
        Names of columns; both may be the same. Then the last reward of a walk is left out.
    episode : str, optional
        Name of the column of episodes. Rows with equal text belong to one episode, also if others stand between.
    done : str, optional
        Name of the column that says whether a row leads to the end: 1 or 0, true or false, yes or no.
    sep : "," or ";" or "\\t"
        Also "comma", "semicolon" or "tab".
    decimal : "." or ","
        How numbers write their decimal point; also "point" or "comma".
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
    result = read_log(
        path,
        state=state,
        reward=reward,
        episode=episode,
        done=done,
        sep=sep,
        decimal=decimal,
        missing=missing,
        bins=bins,
    )
    for text in result.warnings:
        python_warnings.warn(text, stacklevel=2)
    return result


def read_log(path, *, state, reward, episode, done, sep, decimal, missing, bins):
    """`read_csv` without Python's warnings."""
    roles = {"state": state, "reward": reward, "episode": episode, "done": done}
    roles = {role: _column_name(role, name) for role, name in roles.items() if name is not None}
    separator = _separator(sep)
    point = DECIMALS[_checks.option("decimal", decimal, tuple(DECIMALS))]
    skip = _checks.option("missing", missing, MISSING) == "skip"
    n_bins = None if bins is None else bins_of.number_of_bins(bins, roles["state"])

    name, data = content(path)
    table = Table(name, data, separator, point, roles, skip)
    rows = table.read()
    return _assemble(table, rows, n_bins)


# ------------------------------------------------------------------------------------------- arguments


def _column_name(role, name):
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"{role} must be the name of a column; got {_checks.describe(name)}")
    return normal(name)


def _separator(sep):
    if not isinstance(sep, str) or (sep if sep in SEPARATORS else sep.strip().lower()) not in SEPARATORS:
        raise ValueError(f"sep must be a comma, a semicolon or a tab; got {_checks.describe(sep)}")
    return SEPARATORS[sep if sep in SEPARATORS else sep.strip().lower()]


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
        odd = sorted({label for label in states if label.lower() in arguments.MISSING_WORDS})
        if odd:
            warnings.append(
                f"state {', '.join(map(repr, odd))} was read as a label; --missing skip (missing='skip' in Python) "
                f"leaves such rows out"
            )
    warnings += _misreadings(table, rows, episodes, done, keep, lines)
    if alone and not skip:
        if not np.isnan(rewards[-1]):
            notes.append("the last reward is left out: nobody knows what followed")
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
        if not np.isnan(rewards[-1]) and table.roles["state"] != table.roles["reward"]:
            raise table.fault(
                lines[-1],
                column["reward"],
                "must be empty in the last row, since this state was not left. Add a row with the state that it led "
                "to, or delete this reward. If the file holds episodes, or the walk came to an end, name the columns "
                "that say so with --episode or --done",
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
        episodes.append(key if pieces == 1 else arguments.Piece(key, pieces))
        keep[row] = True
    parts = [f"{count} without {what}" for what, count in counts.items()]
    if rows.gaps:
        parts.append(f"{len(rows.gaps)} empty")
    if parts:
        notes.append(f"missing values break the walk at these rows: {', '.join(parts)}")
    return episodes, keep


def _binned(table, rows, n_bins):
    """Bins in place of numbers, and a note if there are fewer than asked for."""
    column = table.roles["state"]
    number = {}
    for line, text in zip(rows.lines, rows.states):
        if text is not None and text not in number:
            number[text] = table.number(line, column, text)
    known = [text for text in rows.states if text is not None]
    if not known:
        return rows.states, []
    labels, place = bins_of.labels_of(np.array([number[text] for text in known]), n_bins)
    label = {text: labels[i] for text, i in zip(known, place.tolist())}
    note = f"{len(labels)} bins of column {column}, not {n_bins}: many rows have the same number"
    return [label.get(text) for text in rows.states], [note] * (len(labels) < n_bins)


def _misreadings(table, rows, episodes, done, keep, lines):
    """Columns without a role that say something about episodes, ends or the order of rows."""
    roles = table.roles
    yield from columns.of_columns(table.unused, "episode" in roles, roles.get("done"))
    kept = np.ones(len(rows.lines), bool) if keep is None else keep
    for name, values in rows.extra.items():
        values = [value for value, good in zip(values, kept) if good]
        kind = columns.looks_like(name)
        if kind == "truncated" and done is not None:
            yield from columns.of_cut_offs(name, values, roles["done"], done)
        elif kind == "episode" and "episode" in roles:
            ids = [key for key, good in zip(rows.episodes, kept) if good]
            yield from columns.of_shared_ids(name, values, arguments.numbered(ids, "episodes")[1])
        elif kind == "time":
            walks = np.zeros(len(lines), np.int64)
            if episodes is not None:
                walks = arguments.numbered(episodes, "episodes")[1]
            elif done is not None:
                walks = np.cumsum(done) - done
            yield from columns.of_time(name, values, lines, walks)
