"""Exercises that answer back: ``check("chapter.name", answer)`` says whether an answer is right, and why not.

Each chapter has a module of its own in this package, loaded by the first check that needs it. An exercise is a
function that takes the reader's answer and raises the reason if it is not right. No reason shows the answer.
"""

import ast
import importlib
import itertools
import linecache
import pkgutil
import sys
from dataclasses import dataclass

from ictd.exercises._checking import NotYet, described, standard_settings

__all__ = ["OPEN", "RIGHT", "WRONG", "Verdict", "check", "names"]

RIGHT, WRONG, OPEN = "right", "not yet", "open"
_SIGNS = {RIGHT: "✓", WRONG: "✗", OPEN: "○"}


@dataclass(frozen=True)
class Verdict:
    """The result of `check`; true if the answer is right.

    ``str(verdict)`` is the line that `check` has printed. A notebook shows nothing more.
    """

    state: str
    message: str

    def __bool__(self):
        return self.state == RIGHT

    def __str__(self):
        return f"{_SIGNS[self.state]} {self.message}"

    def __repr__(self):
        return f"<Verdict: {self.state}>"

    def _ipython_display_(self):
        """Show nothing: the line has been printed."""


def check(name, answer):
    """Check an answer and print the verdict, as one line, in a script as in a notebook.

    ``print(check(...))`` shows it once as well, wherever Python can read the caller's source (not at the prompt of
    Python itself before 3.13).

    Parameters
    ----------
    name : str
        Chapter and exercise, for example "weighted_softmax_td.kernel".
    answer : object
        What the exercise asks for: numbers, an array or a function. ``...`` counts as no answer.
        Answers in float32 are accepted. The reader's settings of NumPy, warnings and PyTorch play no part.

    Returns
    -------
    Verdict
        ``bool(verdict)`` is whether the answer is right, ``str(verdict)`` the printed line.

    Raises
    ------
    ValueError
        If there is no such exercise.
    """
    verdict = _verdict(_find(name), answer)
    if not _is_printed_by(sys._getframe(1)):
        _show(str(verdict))
    return verdict


def _verdict(exercise, answer):
    if answer is ...:
        return Verdict(OPEN, "No answer yet: put yours in place of the dots and run the cell again.")
    try:
        with standard_settings():
            praise = exercise(answer)
    except NotYet as reason:
        return Verdict(WRONG, " ".join(f"Not yet: {reason}".split()))  # a reader's error may have several lines
    return Verdict(RIGHT, f"Right. {praise}" if praise else "Right.")


def _is_printed_by(frame):
    """Whether the caller prints what this check returns, as far as its source can be read."""
    try:
        source = _source(frame)
        if "print" not in source:
            return False
        parents = {child: node for node in ast.walk(ast.parse(source)) for child in ast.iter_child_nodes(node)}
    except (SyntaxError, ValueError, IndexError, RecursionError):
        return False
    checks = [node for node in parents if isinstance(node, ast.Call) and _is_running(node, frame)]
    return bool(checks) and all(_reaches_print(node, parents) for node in checks)


def _source(frame):
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if not lines and frame.f_code.co_filename == "<string>" and sys.argv[:1] == ["-c"]:
        return sys.orig_argv[-len(sys.argv)]  # the program, before its arguments
    return "".join(lines)


def _is_running(call, frame):
    """Whether a call in the source is the one that the frame is in; Python 3.10 knows no more than its line."""
    positions = getattr(frame.f_code, "co_positions", tuple)()
    _, end_line, _, end_column = next(itertools.islice(positions, frame.f_lasti // 2, None), (None,) * 4)
    if end_column is None:
        return _called(call) == "check" and call.lineno <= frame.f_lineno <= call.end_lineno
    return (call.end_lineno, call.end_col_offset) == (end_line, end_column)


def _reaches_print(node, parents):
    """Whether the text of a node's value is printed: as an argument, perhaps in an f-string or unpacked from a list."""
    listed = False  # a list shows the short form of its entries, unless it is unpacked or joined
    while node in parents:
        child, node = node, parents[node]
        if isinstance(node, ast.Call) and child is not node.func:
            if _called(node) == "print":
                return not listed and child in node.args
            if _called(node) not in ("str", "join", "format"):
                return False
            listed = listed and _called(node) != "join"
        elif isinstance(node, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp)):
            listed = True
        elif isinstance(node, ast.Starred):
            listed = False
        elif isinstance(node, ast.FormattedValue):
            if node.conversion == ord("r"):
                return False
        elif isinstance(node, ast.IfExp):
            if child is node.test:
                return False
        elif not isinstance(node, (ast.JoinedStr, ast.NamedExpr, ast.BinOp)):
            return False
    return False


def _called(node):
    return getattr(node.func, "id", getattr(node.func, "attr", None))


def _show(text):
    try:
        print(text)
    except UnicodeEncodeError:  # a terminal without the signs
        print(text.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding))


def names():
    """The names of all exercises, sorted."""
    return sorted(f"{chapter}.{name}" for chapter in _chapters() for name in _exercises(chapter))


def _chapters():
    return [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]


def _exercises(chapter):
    return importlib.import_module(f"{__name__}.{chapter}").EXERCISES


def _find(name):
    """The function behind a name; only its chapter is loaded."""
    chapter, _, exercise = name.partition(".") if isinstance(name, str) else ("", "", "")
    known = names() if chapter not in _chapters() else [f"{chapter}.{other}" for other in sorted(_exercises(chapter))]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}; got {described(name)}")
    return _exercises(chapter)[exercise]
