"""Figures as a whole: the face of the folder, the same bytes in every process, and what each function refuses."""

import ast
import doctest
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from drawings import ALT  # noqa: E402

from ictd import plots  # noqa: E402

FOLDER = Path(plots.__file__).parent
# The modules of the folder from the bottom, as its docstring lists them.
MODULES = re.findall(r"^``(\w+)``  ", plots.__doc__, re.MULTILINE)


def test_doctest():
    assert doctest.testmod(plots).failed == 0


def test_the_face_gives_what_it_lists_and_no_name_of_a_module():
    assert set(plots.__all__) <= set(dir(plots))
    assert not set(plots.__all__) & set(MODULES)
    assert sorted(MODULES) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_from_those_below(module):
    below = set(MODULES[: MODULES.index(module)])
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "ictd.plots":
            assert {alias.name for alias in node.names} <= below
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("ictd.plots."):
            assert node.module.removeprefix("ictd.plots.") in below


def test_sliders_are_loaded_on_first_use():
    """Figures need no ipywidgets; explorers say what they need."""
    code = """
import sys
sys.modules["ipywidgets"] = None
from ictd import plots
print("ictd.plots.sliders" in sys.modules, "sliders" in dir(plots))
try:
    plots.sliders
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    cure = "ictd.plots.sliders needs ipywidgets, which is not installed: pip install 'ictd[widgets]'"
    assert done.stdout.splitlines() == ["False True", cure]
    assert not hasattr(plots, "nothing")


SCRIPT = """
import numpy as np
from ictd import plots
M = np.linspace(-1, 1, 12).reshape(3, 4)
fig, ax = plots.new(2.4)
plots.line(ax, range(5), np.exp(-np.arange(5)), low=np.zeros(5), high=np.ones(5), label="error")
plots.legend(ax)
heat, ax = plots.new(2.4)
plots.matrix(ax, M)
graph, ax = plots.new(2.4)
plots.chain(ax, [[0.5, 0.5], [1, 0]])
print(plots.show([fig, heat, graph], caption="A caption.", alt="Three panels that are not important.").html)
"""


def test_identical_from_process_to_process():
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed, "MPLBACKEND": "svg"},
            capture_output=True, text=True, check=True, timeout=120, encoding="utf-8",
        ).stdout
        for seed in ("0", "12345")
    ]  # fmt: skip
    assert "<svg" in outputs[0]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ax: plots.line(ax, [1, 2], [1]), "equally long, got shapes (2,) and (1,)"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], low=[0, 1]), "low and high must be given together"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], role="blue"), "role must be one of estimate, reference"),
        (lambda ax: plots.bars(ax, [[1, 2]]), "values must have shape (S,); got shape (1, 2)"),
        (lambda ax: plots.bars(ax, {"a": [1], "b": [1, 2]}), "equally long arrays, got shapes [(1,), (2,)]"),
        (lambda ax: plots.bars(ax, {}), "values must hold equally long arrays, got shapes []"),
        (lambda ax: plots.bars(ax, {"a": [1], "b": [2]}, roles=["other"]), "for each of the 2 quantities, got 1"),
        (lambda ax: plots.bars(ax, [1, 2], ["x"]), "labels must have 2 entries, got 1"),
        (lambda ax: plots.legend(ax), "legend needs at least one line or bar with a label"),
        (lambda ax: plots.matrix(ax, [1, 2]), "M must have shape (R, C); got shape (2,)"),
        (lambda ax: plots.matrix(ax, [[np.nan]]), "M has no finite value"),
        (lambda ax: plots.matrix(ax, [[1.0]], limits=(1, 1)), "limits must be increasing, got (1, 1)"),
        (lambda ax: plots.matrix(ax, [[1.0]], column_labels=["a", "b"]), "column_labels must have 1 entries, got 2"),
        (lambda ax: plots.chain(ax, [[1.0, 0.0]]), "transition must be square, got shape (1, 2)"),
        (lambda ax: plots.chain(ax, [[-1.0]]), "transition must hold probabilities"),
        (lambda ax: plots.chain(ax, [[1.0]], layout="tree"), "layout must be one of 'circle', 'line'; got 'tree'"),
        (lambda ax: plots.chain(ax, [[1.0]], layout=["line"]), "layout must be one of 'circle', 'line'; got a list"),
        (lambda ax: plots.chain(ax, [[10.0]]), "transition must hold probabilities, got an entry outside [0, 1]"),
        (lambda ax: plots.chain(ax, [[np.nan]]), "transition must be finite"),
        (lambda ax: plots.chain(ax, np.full((23, 23), 1 / 23)), "at most 500 positive entries, got 529"),
        (lambda ax: plots.chain(ax, [[1.0]], digits=-1), "digits must be an integer from 0 to 15; got -1"),
        (lambda ax: plots.line(None, [1], [1]), "ax must be of type Axes; got None"),
        (lambda ax: plots.bars(ax.figure, [1]), "ax must be of type Axes; got <Figure"),
        (lambda ax: plots.matrix(np.array([ax, ax]), [[1]]), "ax must be of type Axes; got a ndarray of shape (2,)"),
        (lambda ax: plots.chain(None, [[1]]), "ax must be of type Axes; got None"),
        (lambda ax: plots.legend(None), "ax must be of type Axes; got None"),
        (
            lambda ax: plots.line(ax, [[1], [1, 2]], [1, 2]),
            "x must be an array of real numbers of shape (n,); got a list",
        ),
        (lambda ax: plots.line(ax, [1, 2], [1j, 2]), "y must be an array of real numbers of shape (n,); got a list"),
        (lambda ax: plots.line(ax, [1, 2], [None, 2]), "y must be an array of real numbers"),
        (lambda ax: plots.line(ax, [1, 2], [1e308, 2]), "y must hold numbers of at most 1e+300 in size"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], role=[]), "role must be one of estimate, reference"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], low=[0], high=[3, 4]), "low must have shape (2,); got shape (1,)"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], low=[0, 1], high="ab"), "high must be an array of real numbers"),
        (lambda ax: plots.bars(ax, [1j]), "values must be an array of real numbers of shape (S,)"),
        (lambda ax: plots.bars(ax, [1], 5), "labels must be a sequence of 1 texts, got 5"),
        (lambda ax: plots.bars(ax, [1], roles=5), "roles must be a list of roles, got 5"),
        (
            lambda ax: (plots.line(ax, [1], [1], label="a"), plots.legend(ax, 0)),
            "columns must be an integer of at least 1",
        ),
        (lambda ax: plots.matrix(ax, [[1j]]), "M must be an array of real numbers of shape (R, C)"),
        (lambda ax: plots.matrix(ax, np.eye(151)), "M must have at most 150 rows and columns, got shape (151, 151)"),
        (lambda ax: plots.matrix(ax, [[1]], limits=5), "limits must have shape (2,); got shape ()"),
        (lambda ax: plots.matrix(ax, [[1]], limits=(0, np.inf)), "limits must be finite; entry (1,) is inf"),
        (lambda ax: plots.matrix(ax, [[1.5]], digits=-1), "digits must be an integer from 0 to 15; got -1"),
        # what would be drawn for minutes, or for ever
        (lambda ax: plots.line(ax, range(10001), range(10001)), "x must hold at most 10000 points, got 10001"),
        (lambda ax: plots.bars(ax, range(501)), "values must hold at most 500 bars, got 501"),
        (lambda ax: plots.bars(ax, {"a": range(260), "b": range(260)}), "values must hold at most 500 bars, got 520"),
        (lambda ax: plots.bars(ax, [1, 2], itertools.count()), "labels must have 2 entries, got 3 or more"),
        (lambda ax: plots.chain(ax, np.eye(101)), "transition must hold at most 100 states, got 101"),
        (lambda ax: plots.matrix(ax, np.eye(31), values=True), "values can be written for at most 30 rows and columns"),
        (lambda ax: plots.svg(ax.figure, key=5), "key must be of type str; got 5"),
        (lambda ax: plots.svg(None), "fig must be of type Figure; got None"),
        (lambda ax: plots.svg(ax.figure, alt=5), "alt must be of type str; got 5"),
        (lambda ax: plots.svg(ax.figure, digits="a"), "digits must be an integer from 0 to 15; got 'a'"),
        (lambda ax: plots.show(ax.figure, caption="A\x00", alt=ALT), "caption must hold no control characters"),
        (lambda ax: plots.show(ax.figure, caption="A", alt=ALT + "\ud800"), "alt must hold no control characters"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        call(plots.new()[1])
