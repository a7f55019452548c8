"""What all commands share: refusals, messages that stop no work, types of options, and the shape of help texts."""

import argparse
import contextlib
import difflib
import os
import re
import signal
import sys
import textwrap
import threading
from pathlib import Path


class Refusal(Exception):
    """What stands against a command, in words for its reader; it ends with status 2."""


def say(text):
    """Print a line to standard error, if somebody reads it."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=hasattr(sys.stderr, "flush"))


def one_line(error):
    """An error with its type, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextlib.contextmanager
def loading():
    """Let Ctrl-C end the process at once while packages load: in their C++ parts an exception is a crash."""
    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


# ------------------------------------------------------------------------------------------- types of options


def folder_path(text):
    """The argparse type of a folder; an empty text, as of a variable without a value, would be the current one."""
    if not text:
        raise argparse.ArgumentTypeError("must name a folder, '.' for the current one; got an empty text")
    return Path(text)


def number(kind):
    """The argparse type of a number without limits."""

    def parse(text):
        value = _read(kind, text)
        if value is None:
            raise argparse.ArgumentTypeError(f"must be {'an integer' if kind is int else 'a number'}; got {text!r}")
        return value

    return parse


def real(**limits):
    """The argparse type of a number inside an interval, as `_checks.real` takes it."""
    return _limited(float, "real", **limits)


def integer(low, high):
    """The argparse type of an integer from ``low`` to ``high``."""
    return _limited(int, "integer", low=low, high=high)


def _limited(kind, check, **limits):
    def parse(text):
        from ictd import _checks  # loads NumPy, which the help of a command does without

        value = _read(kind, text)
        try:
            return getattr(_checks, check)("value", text if value is None else value, **limits)
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix("value ")) from None

    return parse


def _read(kind, text):
    """A number, or None; Python would also read 1_0 as 10."""
    try:
        return None if "_" in text else kind(text)
    except ValueError:
        return None


# ------------------------------------------------------------------------------------------------ help texts


class Parser(argparse.ArgumentParser):
    """Takes -1e-3 for a number, and refuses options of several values that are given twice.

    argparse would drop the first values. Of an option with one value the last one counts, as usual.
    """

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|-(inf|nan)$", re.IGNORECASE)
        self.register("action", None, _Store)

    def refuse(self, words):
        """End with an error about words that nobody asked for."""
        options = [option for action in self._actions for option in action.option_strings]
        names = [word.partition("=")[0] for word in words if word.startswith("-")]
        near = [close[0] for close in (difflib.get_close_matches(name, options, 1) for name in names) if close]
        hint = f" (did you mean {', '.join(near)}?)" if near else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")


class _Store(argparse.Action):
    """Store the value or the values of an option."""

    def __call__(self, parser, namespace, values, option_string=None):
        if self.nargs in ("+", "*") and isinstance(getattr(namespace, self.dest, None), list):
            raise argparse.ArgumentError(self, f"is given twice; give all values at once, as in {option_string} A B")
        setattr(namespace, self.dest, values)


class Formatter(argparse.HelpFormatter):
    """Fills paragraphs; an indented line stays a line of its own.

    Such a line may have two columns, "  command   what it does", and the second one may go on in lines that are
    indented further. Where it is too long for the terminal, the second column is filled, or put below the first.
    """

    def _fill_text(self, text, width, indent):
        paragraphs = re.split(r"\n{2,}", text.strip("\n"))
        return "\n\n".join(_fill(paragraph, max(width, 20)) for paragraph in paragraphs)

    def _format_args(self, action, default_metavar):
        if action.choices is not None and action.nargs in ("+", "*"):  # argparse would list the choices twice
            return f"{{{','.join(action.choices)}}} ..."
        return super()._format_args(action, default_metavar)


def _fill(paragraph, width):
    lines = []
    for line in paragraph.split("\n"):
        indented, goes_on = _indent(line) > 0, lines and _indent(lines[-1]) > 0
        if lines and indented == bool(goes_on) and (not indented or _indent(line) > _indent(lines[-1]) + 4):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return "\n".join(_fill_line(line, width) for line in lines)


def _indent(line):
    return len(line) - len(line.lstrip())


def _fill_line(line, width):
    margin = " " * _indent(line)
    if not margin or len(line) <= width:
        return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) if not margin else line
    first, second = re.fullmatch(r"( *\S.*?)(?: {2,}(\S.*))?", line).groups()
    below = margin + "    "
    column = len(line) - len(second) if second else 0
    options = {"width": width, "break_long_words": False, "break_on_hyphens": False}
    if second and column <= width // 2:
        return textwrap.fill(second, initial_indent=line[:column], subsequent_indent=" " * column, **options)
    filled = textwrap.fill(first.strip(), initial_indent=margin, subsequent_indent=below, **options)
    if second:
        filled += "\n" + textwrap.fill(second, initial_indent=below, subsequent_indent=below, **options)
    return filled
