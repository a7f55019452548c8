"""What an evaluation found: a table of values, and the file that holds it."""

import csv
import errno
import io
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ictd import _checks, _files, _text
from ictd.evaluate.arguments import numbered

# "At its limit" means within this share of the largest value.
CLOSE = 1e-3
# A radius this near to 1 cannot be told from 1.
ROUNDING = 1e-9

# What the shell has opened.
STREAM = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})|/dev/(stdin|stdout|stderr)")

COLUMNS = ("state", "visits", "value", "trained", "certainty_equivalence", "standard_error")
SORTS = ("value", "visits", "state")


@dataclass(frozen=True, eq=False)
class Evaluation(_checks.ReadOnly):
    """A value per state and what is known about it.

    Attributes
    ----------
    states : tuple
        The labels: in numerical order if all are numbers or all are intervals, otherwise in order of first appearance.
    visits : ndarray of int, shape (S,)
        How often each state was left: to a known successor or to the end.
    value : ndarray, shape (S,)
        v_L, after L layers from v_0 = 0.
    certainty_equivalence : ndarray, shape (S,)
        The value of the empirical model; NaN where the data do not determine it.
    standard_error : ndarray, shape (S,)
        Of the certainty equivalence as an estimate of the true value; NaN where it is unknown. See
        `ictd.evaluate.uncertainty.standard_error`.
    limit : ndarray, shape (S,)
        Where the iteration leads if it converges; NaN if that cannot be computed. Equal to the certainty
        equivalence if every state was left and no two states have equal features.
    radius : float
        Spectral radius of the iteration on the states that were left; NaN if it cannot be computed.
    gamma, n_layers, scale
        As given.
    n_transitions, n_episodes, n_ends, n_left_out : int
        Transitions that were used, episodes, episodes that came to an end, and rewards that were left out because
        their episode just stops, so that nobody knows what followed.
    warnings : tuple of str
        What to know before using the values.
    notes : tuple of str
        What was left out, and how the rows were read.
    trained : ndarray, shape (S,), or None
        What the trained model reads out, if there is one.
    """

    states: tuple
    visits: np.ndarray
    value: np.ndarray
    certainty_equivalence: np.ndarray
    standard_error: np.ndarray
    limit: np.ndarray
    radius: float
    gamma: float
    n_layers: int
    scale: float
    n_transitions: int
    n_episodes: int
    n_ends: int
    n_left_out: int
    warnings: tuple = ()
    notes: tuple = ()
    trained: np.ndarray | None = None

    def __post_init__(self):
        names = ("visits", "value", "certainty_equivalence", "standard_error", "limit", "trained")
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

    @property
    def columns(self):
        """Names of the columns of the table: "trained" only if there is a trained model."""
        return tuple(name for name in COLUMNS if name != "trained" or self.trained is not None)

    def rows(self, sort=None):
        """Yield the entries of `columns` for each state; None for an undetermined number.

        Parameters
        ----------
        sort : "value", "visits" or "state", optional
            The first two descending, rows that compare equal in the order of ``states``. Default: that order.
        """
        numbers = [getattr(self, name).tolist() for name in self.columns[2:]]
        visits = self.visits.tolist()
        for i in self._order(sort):
            yield self.states[i], visits[i], *(None if math.isnan(column[i]) else column[i] for column in numbers)

    def _order(self, sort):
        if sort is None:
            return range(len(self.states))
        _checks.option("sort", sort, SORTS)
        if sort == "state":
            # The order of `numbered` if there is one, else that of the text.
            by_text = sorted(range(len(self.states)), key=lambda i: str(self.states[i]))
            place = {label: i for i, label in enumerate(numbered([self.states[i] for i in by_text], "states")[0])}
            return sorted(by_text, key=lambda i: place[self.states[i]])
        key = self.visits if sort == "visits" else np.nan_to_num(self.value, nan=-np.inf)
        return np.argsort(-key, kind="stable").tolist()

    def table(self, sort=None, top=None):
        """The values as text, one line per state; '-' where a number is undetermined.

        Parameters
        ----------
        sort : "value", "visits" or "state", optional
            As in `rows`.
        top : int, optional
            How many lines to give, from the first on. Default: all.
        """
        top = len(self.states) if top is None else _checks.integer("top", top, low=1)
        lines = [[name.replace("_", " ") for name in self.columns]]
        for state, visits, *numbers, error in list(self.rows(sort))[:top]:
            numbers = [_short(number, 6) for number in numbers]
            lines.append([one_line(str(state)), str(visits), *numbers, _short(error, 3)])
        return "\n".join(_text.table(lines, "<" + ">" * (len(self.columns) - 1)))

    def save(self, path, overwrite=False):
        """Write a CSV file with the columns of the table.

        Numbers are written with all their digits, undetermined ones as empty fields. The file appears when it is
        complete, and a file that is replaced stays as it was until then.

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
        path = _files.file_path("path", path)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows())
        try:
            data = text.getvalue().encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"states must be valid text to be saved; {error}") from None
        try:
            _put(path, data, overwrite)
        except OSError as error:  # which would name the unfinished file beside it
            raise OSError(error.errno, error.strerror, str(path)) from None


def _short(number, digits):
    return "-" if number is None else f"{number:.{digits}g}"


def _put(path, data, overwrite):
    if not overwrite:
        return _files.create(path, lambda file: file.write(data))
    stream = STREAM.fullmatch(os.path.abspath(path))
    if stream:  # also where it leads to a file: that belongs to the shell
        with open(os.dup(int(stream[1] or ("stdin", "stdout", "stderr").index(stream[2]))), "wb") as file:
            file.write(data)
    elif path.exists() and not path.is_file():  # a device or a pipe
        path.write_bytes(data)
    else:
        target = Path(os.path.realpath(path))
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        _files.write_bytes(target, data)


def one_line(text):
    """The text with line breaks and control characters written as escapes."""
    return text if text.isprintable() else repr(text)[1:-1]
