"""Exercises that answer back: ``check("chapter.name", answer)`` says whether an answer is right, and why not.

Each chapter has a module of its own in this package, loaded by the first check that needs it. The statement of an
exercise and a worked solution stand in the chapter, ``book/CHAPTER.ipynb``; a cell below it calls `check`.

To add an exercise:

1.  Write it into the chapter: an ``exercise`` block, a cell that ends with ``check("chapter.name", ...)`` (the dots
    stand where the reader's answer goes), and a ``solution`` block whose code makes the same call.
2.  Write a function ``name`` into the chapter's module and add it to ``EXERCISES`` there. It takes the answer, raises
    the reason if it is not right, and may return a sentence of praise. Three parts, from top to bottom: a right answer
    that shares no code with the solution; the mistakes, a dict that holds for each reason what somebody with that
    misunderstanding hands in (a tuple if several hand-ins share a reason); and the hidden instances, drawn from
    ``generator("chapter.name")``, the first of which tells all mistakes apart.
3.  Hand the three to ``judge_function`` if the answer is a function, to ``judge_numbers`` if it is numbers. An answer
    with many right values (an example, a schedule) states what it needs with ``expect(condition, reason)``.
    ``bonus`` in ``policy_evaluation``, ``detach`` in ``neu_pretraining`` and ``hidden`` in ``policy_evaluation`` are
    short ones of the three kinds.
4.  List three right answers of different styles and five wrong ones, with words of the reason that they should get, in
    ``tests/wrong_CHAPTER.py``.

A reason names the misunderstanding and never shows the answer.
"""

import importlib
import pkgutil
import sys
from dataclasses import dataclass

from ictd.exercises._answers import NotYet, described
from ictd.exercises._caller import prints_the_result
from ictd.exercises._checking import standard_settings

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
    if not prints_the_result(sys._getframe(1)):
        _print(str(verdict))
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


def _print(text):
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
    """The functions of a chapter's exercises, by their names."""
    module = importlib.import_module(f"{__name__}.{chapter}")
    return {function.__name__: function for function in module.EXERCISES}


def _find(name):
    """The function behind a name; only its chapter is loaded."""
    chapter, _, exercise = name.partition(".") if isinstance(name, str) else ("", "", "")
    known = names() if chapter not in _chapters() else [f"{chapter}.{other}" for other in sorted(_exercises(chapter))]
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}; got {described(name)}")
    return _exercises(chapter)[exercise]
