"""A file of separated values as columns, read with the line and column of every fault."""

import csv
import io
import math
import re
import stat
from dataclasses import dataclass
from difflib import get_close_matches

from ictd import _checks, _files
from ictd.evaluate import columns
from ictd.evaluate.arguments import LARGEST, MISSING_WORDS, TRUTHS
from ictd.evaluate.result import one_line

# Records that are turned into columns at once.
BLOCK = 4096


class FileFault(ValueError):
    """A trajectory file that cannot be read; the message says where and why."""


def is_feature_name(name):
    """Whether a column holds a feature: ``x1``, ``x2``, ... or any name that begins with ``feature``."""
    return re.fullmatch(r"feature.*|x_?[0-9]+", name) is not None


def normal(name):
    """A name of a column, without case and surrounding spaces."""
    return one_line(name.strip().lower())


def content(path):
    """The name and the bytes of what is read."""
    if hasattr(path, "read"):
        name = one_line(str(getattr(path, "name", "the input")))
        name = "standard input" if name in ("<stdin>", "0") else name
        try:
            data = path.read()
        except (OSError, ValueError) as error:  # a closed or unreadable stream
            raise FileFault(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if isinstance(data, str):
            return name, data.encode(errors="surrogatepass")  # refused with its line
        if not isinstance(data, (bytes, bytearray)):
            raise TypeError(f"path.read() must return text or bytes; got {_checks.describe(data)}")
        return name, data
    try:
        path = _files.file_path("path", path)
    except ValueError as error:
        raise FileFault(f"{path!r}: cannot be read: {error}") from None
    name = one_line(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):  # /dev/zero has no end
            raise OSError("it is a device; expected a file or a pipe")
        return name, path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise FileFault(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


@dataclass
class Rows:
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


class Table:
    """A file with a header: which column is what, and its rows."""

    def __init__(self, name, data, separator, point, roles, skip):
        self.name, self.point, self.roles, self.skip = name, point, roles, skip
        self.known = {}  # one object for each text: a log repeats them
        self.records = _records(name, data, separator)
        line, names = next(self.records, (None, None))
        if names is None:
            raise FileFault(f"{name}: the file is empty; its first line must be a header, such as state,reward")
        self.names = [normal(field) for field in names]
        self._check_header(line, separator)
        self.at = {role: self.names.index(column) for role, column in roles.items()}
        used = set(self.at.values())
        self.features = [i for i, field in enumerate(self.names) if is_feature_name(field) and i not in used]
        used.update(self.features)
        self.unused = [field for i, field in enumerate(self.names) if field and i not in used]
        self.extra = {field: self.names.index(field) for field in self.unused if columns.looks_like(field)}
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
        options, arguments = (", ".join(shape.format(role) for role in absent) for shape in ("--{}", "{}="))
        raise FileFault(
            f"{where}: no column named {wanted}; found {', '.join(map(repr, self.names))}.{hint} The first line must "
            f"be a header, such as state,reward; {options} of the command ({arguments} in Python) "
            f"{'names another column' if len(absent) == 1 else 'name other columns'}"
        )

    def fault(self, line, column, text):
        return FileFault(f"{self.name}, line {line}, column {column}: {text}")

    def read(self):
        """All rows."""
        rows = Rows([], [], [], [], [], [], {name: [] for name in self.extra}, [])
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
        fields_of = list(zip(*records))
        rows.lines += lines

        def column(role, convert):
            name = self.roles[role]
            return [convert(line, name, field.strip()) for line, field in zip(lines, fields_of[self.at[role]])]

        rows.states += column("state", self._text)
        rows.rewards += column("reward", self._reward)
        if "episode" in self.roles:
            rows.episodes += column("episode", self._text)
        if "done" in self.roles:
            rows.done += column("done", self._truth)
        if self.features:
            names = [self.names[i] for i in self.features]
            fields = [fields_of[i] for i in self.features]
            rows.features += [
                [self.number(line, name, field.strip()) for name, field in zip(names, row)]
                for line, *row in zip(lines, *fields)
            ]
        for name, i in self.extra.items():
            rows.extra[name] += [self.known.setdefault(text, text) for text in fields_of[i]]

    def _is_missing(self, line, column, text):
        """Whether a value is missing and may be."""
        if text and not (self.skip and text.lower() in MISSING_WORDS):
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
        other = "." if self.point == "," else ","
        try:
            if "_" in text or other in text:  # Python reads 1_0 as 10
                raise ValueError
            number = float(text.replace(",", "."))
        except ValueError:
            hint = ""
            if re.fullmatch(rf"[+-]?[0-9]*{re.escape(other)}[0-9]+", text):
                hint = "; with a decimal comma a number has no point"
                if other == ",":
                    hint = f"; if it means {text.replace(',', '.')}, pass --decimal comma (decimal=',' in Python)"
            raise self.fault(line, column, f"{text!r} is not a number{hint}") from None
        if not abs(number) <= LARGEST:
            hint = ". Rows with missing values can be left out with --missing skip" if math.isnan(number) else ""
            raise self.fault(line, column, f"{text!r} is not a finite number of at most {LARGEST:g} in size{hint}")
        return number

    def _truth(self, line, column, text):
        truth = TRUTHS.get(text.lower().replace(self.point, "."))
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
    reader = csv.reader(text, delimiter=separator, strict=True, skipinitialspace=True)
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
