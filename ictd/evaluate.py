"""Values of the states of one's own trajectory, with warnings about what they can be trusted for.

`evaluate` takes states and rewards, `read_csv` takes them from a file; `ictd evaluate` joins the two.
"""

import csv
import io
import math
import numbers
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ictd import _checks, convergence, td
from ictd import features as feature_maps
from ictd.mrp import Trajectory

# Tables of S x S and eigenvalues: a few seconds at this size.
MAX_STATES = 2000
# Sums and products of numbers up to this size cannot overflow.
LARGEST = 1e100
# "At its limit" means within this share of the largest value.
CLOSE = 1e-3
# A radius this near to 1 cannot be told from 1.
ROUNDING = 1e-9
# Beyond this condition number the limit of a context with a never-source state is lost in rounding.
WORST_CONDITION = 1e10


@dataclass(frozen=True, eq=False)
class Evaluation(_checks.ReadOnly):
    """A value per state and what is known about it.

    Attributes
    ----------
    states : tuple
        The labels: in numerical order if all are numbers, otherwise in order of first appearance.
    visits : ndarray of int, shape (S,)
        How often each state was left. 0 for a state that is only the last one of the trajectory.
    value : ndarray, shape (S,)
        v_L, after L layers from v_0 = 0.
    certainty_equivalence : ndarray, shape (S,)
        The value of the empirical model; NaN where the trajectory does not determine it.
    limit : ndarray, shape (S,)
        Where the iteration leads if it converges; NaN if that cannot be computed. Equal to the certainty
        equivalence if the last state was left before and no two states have equal features.
    radius : float
        Spectral radius of the iteration on the states that were left; NaN if it cannot be computed.
    gamma, n_layers, scale
        As given.
    warnings : tuple of str
        What to know before using the values.
    """

    states: tuple
    visits: np.ndarray
    value: np.ndarray
    certainty_equivalence: np.ndarray
    limit: np.ndarray
    radius: float
    gamma: float
    n_layers: int
    scale: float
    warnings: tuple

    def __post_init__(self):
        names = ("visits", "value", "certainty_equivalence", "limit")
        _checks.freeze(self, **{name: getattr(self, name) for name in names})

    @property
    def distance(self):
        """Largest difference between a value and its limit."""
        return float(np.abs(self.value - self.limit).max())

    @property
    def more_layers(self):
        """How many more layers bring the distance below 0.1 % of the largest limit, about; 0 if it is there.

        An estimate from the radius: ``distance * radius**k = 0.001 * largest``. None if the iteration
        does not converge.
        """
        target = CLOSE * np.abs(self.limit).max()
        if self.distance <= target:
            return 0
        if not self.radius < 1 - ROUNDING or not self.distance < np.inf:
            return None
        return max(1, math.ceil(math.log(target / self.distance) / math.log(max(self.radius, 1e-300))))

    def rows(self):
        """Yield (state, visits, value, certainty_equivalence); None for an undetermined value."""
        for state, visits, *numbers_ in zip(
            self.states, self.visits.tolist(), self.value.tolist(), self.certainty_equivalence.tolist()
        ):
            yield state, visits, *(None if math.isnan(number) else number for number in numbers_)

    def table(self):
        """The values as text, one line per state; '-' where certainty equivalence is undetermined."""
        lines = [("state", "visits", "value", "certainty equivalence")]
        for state, visits, *numbers_ in self.rows():
            lines.append((_one_line(str(state)), str(visits), *("-" if n is None else f"{n:.6g}" for n in numbers_)))
        width = [max(len(line[column]) for line in lines) for column in range(4)]
        return "\n".join(
            "  ".join([line[0].ljust(width[0]), *(line[c].rjust(width[c]) for c in (1, 2, 3))]) for line in lines
        )

    def save(self, path, overwrite=False):
        """Write a CSV file with the columns state, visits, value, certainty_equivalence.

        Numbers are written with all their digits, undetermined ones as empty fields. A file that is replaced
        stays as it was until the new one is complete.

        Parameters
        ----------
        path : str or path-like
        overwrite : bool
            Replace an existing file.

        Raises
        ------
        FileExistsError
            If the file exists and ``overwrite`` is False.
        OSError
            If the file cannot be written.
        ValueError
            If a label is not valid text.
        """
        path = _path(path)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["state", "visits", "value", "certainty_equivalence"])
        writer.writerows(self.rows())
        try:
            data = text.getvalue().encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"states must be valid text to be saved; {error}") from None
        if overwrite and path.is_file():
            _replace(path.resolve(), data)
        else:
            with open(path, "wb" if overwrite else "xb") as file:
                file.write(data)


def _replace(path, data):
    """Replace a file at once, by a complete new one."""
    handle, new = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        shutil.copymode(path, new)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def _path(path):
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be a string or a path; got {_checks.describe(path)}")
    return Path(path)


def _one_line(text):
    """The text with line breaks and control characters written as escapes."""
    return text if text.isprintable() else repr(text)[1:-1]


# ------------------------------------------------------------------------------------------ evaluation


def evaluate(states, rewards, features=None, *, gamma=0.9, n_layers=50, scale=1.0):
    """Run weighted softmax TD on a trajectory, from v_0 = 0 with step size 1.

    Parameters
    ----------
    states : sequence of n+1 labels
        S_0..S_n: numbers, strings, tuples, anything hashable; also an array, a tensor or a column of a table.
    rewards : array_like, shape (n,)
        R_1..R_n; ``rewards[k]`` was paid for leaving ``states[k]``.
    features : array_like, shape (n+1, d), optional
        Features of S_0..S_n, equal for equal states. Default: one-hot.
    gamma : float
        Discount in [0, 1).
    n_layers : int
        Number of layers (steps) L, at least 0.
    scale : float
        Positive score scale: scores are scale * <x(s), x(s')>; for one-hot features the scale for equal
        states and 0 for different ones.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError, TypeError
        Lengths that do not fit, NaN, features that are no function of the state, more than 2000
        different states, numbers above 1e100.
    """
    labels, index = _number_states(states)
    rewards = _limited("rewards", _checks.array("rewards", rewards, (len(index) - 1,)))
    X = feature_maps.one_hot(len(labels)) if features is None else _features_of_states(features, labels, index)
    gamma = _checks.discount(gamma) + 0.0  # without the sign of -0.0
    n_layers = _checks.integer("n_layers", n_layers, low=0)
    scale = _checks.real("scale", scale, low=0, low_open=True, high=LARGEST)

    trajectory = Trajectory(index, rewards)
    model = td.empirical_model(trajectory, len(labels))
    certainty_equivalence = np.full(len(labels), np.nan)
    # The last state follows all others, so if it was never left, it leaves every value undetermined.
    if model.visited[index[-1]]:
        certainty_equivalence = td.certainty_equivalence(model, gamma)

    # The algorithm sees features only: states with equal features are one state for it.
    distinct, group = np.unique(X + 0.0, axis=0, return_inverse=True)
    group = group.reshape(-1)
    merged = Trajectory(group[index], rewards)
    score = td.inner_product_score(scale)
    value = _last_layer(merged, distinct, gamma, n_layers, score)
    limit, radius = _limit(merged, distinct, gamma, score)

    result = Evaluation(
        labels, model.counts, value[group], certainty_equivalence, limit[group], radius, gamma, n_layers, scale, ()
    )
    warnings = (
        *_label_warnings(labels),
        *_merge_warnings(labels, group),
        *_never_left_warnings(labels, index, group, merged, features is None),
        *_iteration_warnings(result, features is None),
    )
    object.__setattr__(result, "warnings", warnings)
    return result


def _number_states(states):
    """The distinct labels in table order, and the index of each state."""
    shape = getattr(states, "shape", (None,))
    if isinstance(states, (str, bytes, Set, Mapping)) or not hasattr(states, "__len__") or len(shape) != 1:
        raise TypeError(f"states must be a sequence of state labels; got {_checks.describe(states)}")
    # Plain Python labels: entries of a tensor would all differ, as they hash by identity.
    states = [label.tolist() if hasattr(label, "tolist") else label for label in _plain(states)]
    if len(states) < 2:
        raise ValueError(f"states must hold at least two states, S_0 and S_1; got {len(states)}")
    try:
        labels = list(dict.fromkeys(states))
    except TypeError:
        raise TypeError("states must be hashable labels: numbers, strings or tuples, not lists or arrays") from None
    for label in labels:
        if _is_empty(label):
            where = next(i for i, state in enumerate(states) if state is label)
            raise ValueError(f"states must not hold empty labels; entry {where} is {label!r}")
    if len(labels) > MAX_STATES:
        raise ValueError(
            f"states must hold at most {MAX_STATES} different labels; got {len(labels)}. "
            f"Group continuous observations into bins first"
        )
    keys = [_as_number(label) for label in labels]
    if None not in keys:
        labels = [label for _, label in sorted(zip(keys, labels), key=lambda pair: pair[0])]
    place = {label: i for i, label in enumerate(labels)}
    return tuple(labels), np.fromiter((place[state] for state in states), np.int64, len(states))


def _plain(states):
    try:
        return states.tolist() if hasattr(states, "tolist") else list(states)
    except Exception:  # tensors without data
        raise TypeError(f"states must be a sequence of state labels; got {_checks.describe(states)}") from None


def _is_empty(label):
    """Whether a label is None, empty text or one of the many kinds of NaN."""
    try:
        return label is None or label == "" or bool(label != label)
    except (TypeError, ValueError):  # pandas.NA refuses to be compared
        return True


def _as_number(label):
    """The finite number that a label denotes, with all its digits, or None."""
    if isinstance(label, str) and "_" not in label:  # Python reads 1_0 as 10
        for read in (int, float):
            try:
                label = read(label)
                break
            except ValueError:
                pass
    return label if isinstance(label, numbers.Real) and abs(label) < math.inf else None


def _limited(name, values):
    if np.abs(values).max() > LARGEST:
        where = tuple(int(i) for i in np.unravel_index(np.abs(values).argmax(), values.shape))
        raise ValueError(f"{name} must be at most {LARGEST:g} in size; entry {where} is {values[where]}")
    return values


def _features_of_states(features, labels, index):
    x = _limited("features", _checks.array("features", features, (len(index), "d")))
    first = np.unique(index, return_index=True)[1]
    differs = (x != x[first[index]]).any(axis=1)
    if differs.any():
        row = int(np.argmax(differs))
        state = index[row]
        raise ValueError(
            f"features must be a function of the state; state {labels[state]!r} has {x[first[state]].tolist()} in "
            f"row {int(first[state])} and {x[row].tolist()} in row {row}"
        )
    return x[first]


def _last_layer(trajectory, X, gamma, n_layers, score, block=1000):
    """v_L; in blocks of layers, so that memory does not grow with their number."""
    values = np.zeros(len(X))
    with np.errstate(over="ignore", invalid="ignore"):
        while n_layers > 0 and np.isfinite(values).all():
            steps = min(n_layers, block)
            values = td.weighted_softmax_td_states(trajectory, X, gamma, steps, score=score, initial=values)[-1]
            n_layers -= steps
    return values


def _limit(trajectory, X, gamma, score):
    """Limit of the iteration from 0, if it converges, and its spectral radius."""
    model = td.empirical_model(trajectory, len(X))
    inside, outside = np.flatnonzero(model.visited), np.flatnonzero(~model.visited)
    kernel = td.state_kernel(model, X, score)
    inner, transition = kernel[np.ix_(inside, inside)], model.transition[np.ix_(inside, inside)]
    limit = np.full(len(X), np.nan)
    if outside.size:
        # Only the last state can be one that was never left. From 0, its value is w times the others.
        last = outside[0]
        if np.linalg.cond(inner) > WORST_CONDITION:
            return limit, np.nan
        w = np.linalg.solve(inner.T, kernel[last, inside])
        transition = transition + np.outer(model.transition[inside, last], w)
    radius = convergence.spectral_radius(convergence.iteration_matrix(inner, transition, gamma))
    try:
        limit[inside] = np.linalg.solve(np.eye(inside.size) - gamma * transition, model.reward[inside])
    except np.linalg.LinAlgError:
        return limit, radius
    if outside.size:
        limit[last] = w @ limit[inside]
    return limit, radius


# -------------------------------------------------------------------------------------------- warnings


def _label_warnings(labels):
    """Two spellings of one number are two states."""
    seen = {}
    for label in labels:
        number = _as_number(label)
        if number is not None and number in seen:
            yield f"states {seen[number]!r} and {label!r} are one number in two spellings; they count as two states"
        seen[number] = label


def _merge_warnings(labels, group):
    counts = np.bincount(group)
    if (counts > 1).any():
        one, other = (labels[i] for i in np.flatnonzero(group == np.argmax(counts > 1))[:2])
        yield (
            f"states {one!r} and {other!r} have equal features (such repeats: {len(labels) - len(counts)} of "
            f"{len(labels)} states): the algorithm cannot tell them apart, gives them one value, and tends to the "
            f"certainty equivalence of the data in which they are one state"
        )


def _never_left_warnings(labels, index, group, merged, one_hot):
    last = index[-1]
    if last in index[:-1]:
        return
    message = (
        f"state {labels[last]!r} was never left, it is only the last one: the data do not say what follows it, so no "
        f"certainty equivalence is determined (every other state leads to it)"
    )
    if group[last] in merged.states[:-1]:
        yield f"{message}. Its value is that of the states with equal features"
    elif one_hot:
        yield (
            f"{message}. Its value is generalisation only: with one-hot features it attends to every visit alike. "
            f"End the trajectory in a state that was left before, if you can"
        )
    else:
        yield (
            f"{message}. Its value is generalisation only: a combination of the values of states with similar "
            f"features. End the trajectory in a state that was left before, if you can"
        )


def _iteration_warnings(result, one_hot):
    radius = result.radius
    if not np.isfinite(result.value).all():
        yield f"the values overflowed before layer {result.n_layers}: they are not usable"
    if math.isnan(radius):
        yield (
            "the limit and the radius cannot be computed: at this scale the kernel of the visited states is singular "
            "to rounding. Another scale, or features of equal length, may help"
        )
    elif radius > 1 + ROUNDING:
        yield (
            f"the iteration diverges: its spectral radius on the visited states is {radius:.6g}, above 1, so more "
            f"layers lead away from the limit. Features of equal length, or another scale, may help"
        )
    elif radius > 1 - ROUNDING:
        yield (
            "the spectral radius on the visited states is 1 to rounding: some differences between states are not "
            "learned in any practical number of layers. Another scale, or features of equal length, may help"
        )
    elif result.more_layers:
        slow = one_hot and 1 - radius < 0.9 * (1 - result.gamma)
        hint = f". A larger scale lowers the radius towards gamma = {result.gamma:g}" if slow else ""
        yield (
            f"after {result.n_layers} layers the values are up to {result.distance:.3g} away from their limit; about "
            f"{result.more_layers} more would bring that below 0.1 % of the largest value (radius {radius:.6g}){hint}"
        )


# --------------------------------------------------------------------------------------------- reading


class FileFault(ValueError):
    """A trajectory file that cannot be read; the message says where and why."""


@dataclass(frozen=True, eq=False)
class TrajectoryFile:
    """What a trajectory file holds.

    Attributes
    ----------
    states : list of str
        Labels S_0..S_n.
    rewards : list of float
        R_1..R_n.
    features : ndarray of shape (n+1, d), or None
        None if the file has no feature columns.
    ignored : tuple of str
        Names of the columns that were not used.
    """

    states: list
    rewards: list
    features: np.ndarray
    ignored: tuple


def is_feature_name(name):
    """Whether a column holds a feature: ``x1``, ``x2``, ... or any name that begins with ``feature``."""
    return re.fullmatch(r"feature.*|x_?[0-9]+", name) is not None


def read_csv(path):
    """Read a trajectory from a comma-separated file in UTF-8 with a header line.

    A row is a visit: ``state`` is a label, compared as text, and ``reward`` the number paid for leaving
    it. The reward of the last row is empty, since that state was not left. Features are the columns named
    x1, x2, ... or feature...; other columns are ignored. Names are compared without case and
    surrounding spaces. Empty lines are skipped.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    TrajectoryFile

    Raises
    ------
    FileFault
        Naming the file, the line (from 1 on) and the column of the first fault.
    TypeError
        If ``path`` is no path.
    """
    path = _path(path)
    records = _records(path, _text(path))
    line, names = next(records, (None, None))
    if names is None:
        raise FileFault(f"{path}: the file is empty; its first line must be a header, such as state,reward")
    names = [_one_line(name.strip().lower()) for name in names]
    _check_header(path, line, names)
    state_at, reward_at = names.index("state"), names.index("reward")
    feature_at = [i for i, name in enumerate(names) if is_feature_name(name)]
    states, rewards, features, seen = [], [], [], {}
    without_reward = None
    for line, fields in records:
        if len(fields) != len(names):
            raise FileFault(
                f"{path}, line {line}: {len(fields)} fields, but the header has {len(names)} columns "
                f"({', '.join(names)})"
            )
        if without_reward is not None:
            raise FileFault(
                f"{path}, line {without_reward}, column reward: empty; only the last row may have no reward"
            )
        state = fields[state_at].strip()
        if not state:
            raise FileFault(f"{path}, line {line}, column state: empty")
        states.append(state)
        reward = fields[reward_at].strip()
        if reward:
            rewards.append(_number(path, line, "reward", reward))
        else:
            without_reward = line
        if feature_at:
            x = [_number(path, line, names[i], fields[i].strip()) for i in feature_at]
            features.append(x)
            earlier, earlier_line = seen.setdefault(state, (x, line))
            if x != earlier:
                column = next(i for i, old, new in zip(feature_at, earlier, x) if old != new)
                raise FileFault(
                    f"{path}, line {line}, column {names[column]}: {fields[column].strip()} for state {state!r}, which "
                    f"has another number in line {earlier_line}; features must be a function of the state"
                )
    if len(states) < 2:
        raise FileFault(f"{path}, line {line}: a trajectory needs two rows at least; found {len(states)}")
    if without_reward is None:
        raise FileFault(
            f"{path}, line {line}, column reward: must be empty in the last row, since this state was not left. "
            f"Add a row with the state that it led to, or delete this reward"
        )
    used = {state_at, reward_at, *feature_at}
    ignored = tuple(name for i, name in enumerate(names) if name and i not in used)
    return TrajectoryFile(states, rewards, np.array(features) if feature_at else None, ignored)


def _text(path):
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # /dev/zero has no end
            raise OSError("it is a device; expected a file or a pipe")
        data = path.read_bytes()
    except OSError as error:
        raise FileFault(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a null character in the name
        raise FileFault(f"{str(path)!r}: cannot be read: {error}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        start = data.rfind(b"\n", 0, error.start) + 1
        column = data.count(b",", start, error.start) + 1
        raise FileFault(
            f"{path}, line {line}, field {column}: not UTF-8 text (byte 0x{data[error.start]:02x}); save the file as "
            f"CSV UTF-8"
        ) from None


def _records(path, text):
    """Yield (number of the first line, fields) of each record that is not an empty line."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise FileFault(f"{path}, line {line}: not valid CSV: {error}") from None
        if any(field.strip() for field in fields) or len(fields) > 1:
            yield line, fields


def _check_header(path, line, names):
    for i, name in enumerate(names):
        if name and name in names[:i]:
            raise FileFault(f"{path}, line {line}, column {name}: the name appears twice in the header")
    missing = [name for name in ("state", "reward") if name not in names]
    if not missing:
        return
    for separator, word in ((";", "semicolons"), (r"\t", "tabs")):
        if separator in names[0]:
            raise FileFault(f"{path}, line {line}: fields are separated by {word}; this command reads commas")
    raise FileFault(
        f"{path}, line {line}: no column named {' and none named '.join(missing)}; "
        f"found {', '.join(map(repr, names))}. The first line must be a header, such as state,reward"
    )


def _number(path, line, column, text):
    try:
        number = float(text)
    except ValueError:
        number = None
    if not text or number is None or "_" in text:
        fault = f"{text!r} is not a number" if text else "empty"
        raise FileFault(f"{path}, line {line}, column {column}: {fault}")
    if not abs(number) <= LARGEST:
        raise FileFault(
            f"{path}, line {line}, column {column}: {text!r} is not a finite number of at most {LARGEST:g} in size"
        )
    return number
