"""The one style of the figures: colours and line styles by role, the settings of the book, empty axes.

What the reader has set in matplotlib (a matplotlibrc file, a style, rcParams) has no effect: every method of the figure
and the axes that `new` returns draws in the settings of the book.
"""

import inspect
import threading
import warnings
from contextlib import contextmanager

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ictd import _checks
from ictd._settings import PRINTING, numpy_defaults

WIDTH = 4.7  # inches: matplotlib's 10 pt text is then 10 CSS pixels high on a phone
PHONE_WIDTH = 343  # CSS pixels that a phone of 375 pixels leaves for a figure
PHONE_TEXT = 10  # CSS pixels, the smallest text
CAPTION = "margin:.5em auto 0;max-width:44em"  # the CSS of a caption, for pages without the book's own
MAX_AXES = 36  # of a figure: more take seconds to draw and megabytes to load

#: Blue, vermilion, green and purple from the palette of Okabe and Ito, and a grey.
COLOURS = {
    "estimate": "#0072b2",  # what the algorithm or the layers compute
    "reference": "#d55e00",  # what it is compared with: true values, certainty equivalence
    "bound": "#009e73",  # what a theorem guarantees
    "other": "#cc79a7",
    "muted": "#6e6e6e",
}
ROLES = tuple(COLOURS)
LINE_STYLES = {"estimate": "-", "reference": "--", "bound": ":", "other": "-.", "muted": (0, (1, 1))}
MARKERS = {"estimate": "o", "reference": "s", "bound": "^", "other": "D", "muted": "x"}

_SETTINGS = {
    "svg.fonttype": "none",  # real text: small, selectable, in the font of the page
    "svg.hashsalt": "ictd",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": COLOURS["muted"],
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.bottom": False,  # the grid marks the same places
    "ytick.left": False,
}

_LOCK = threading.RLock()  # matplotlib's settings, and the filters of warnings, are shared by all threads
_inside = False  # whether the thread that holds the lock has the settings of the book already


@contextmanager
def book_settings():
    """The settings of the book instead of the reader's, for a block or as a decorator.

    Of matplotlib, NumPy and warnings: what matplotlib warns of, such as a letter that its font lacks, does not concern
    a drawing whose text is set in the font of the page.
    """
    global _inside
    with _LOCK:
        if _inside:
            yield
            return
        with mpl.rc_context(), warnings.catch_warnings(), numpy_defaults(), np.printoptions(**PRINTING):
            warnings.simplefilter("ignore")
            mpl.rcdefaults()
            mpl.rcParams.update(_SETTINGS)
            _inside = True
            try:
                yield
            finally:
                _inside = False


def _in_book_settings(cls):
    """Let the public methods of a class run in `book_settings`: texts and lines take their look when they are made."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            setattr(cls, name, book_settings()(method))
    cls.__name__ = cls.__base__.__name__  # for messages; pickle goes by the qualified name
    return cls


@_in_book_settings
class _Axes(Axes):
    pass


@_in_book_settings
class _Figure(Figure):
    pass


def new(height=3.0, *, width=WIDTH, rows=1, columns=1, **subplots):
    """A figure in the style of the book.

    Parameters
    ----------
    height, width : float
        Size in inches. A width above `WIDTH` makes text too small on a phone. For panels side by side give `show`
        several figures, each up to 4.4 inches wide for two in a row: they stack on a phone.
    rows, columns : int
        Number of axes, together at most `MAX_AXES`.
    **subplots
        Passed to `Figure.subplots`, for example ``sharex=True``.

    Returns
    -------
    (Figure, Axes) or (Figure, ndarray of Axes)
        An array when there is more than one.
    """
    height, width = (
        _checks.real(f"{name} in inches", size, low=0.5, high=12)
        for name, size in (("height", height), ("width", width))
    )
    rows, columns = (_checks.integer(name, n, low=1) for name, n in (("rows", rows), ("columns", columns)))
    if rows * columns > MAX_AXES:
        raise ValueError(f"rows times columns must be at most {MAX_AXES}; got {rows} times {columns}")
    keywords = {"axes_class": _Axes} | dict(subplots.pop("subplot_kw", None) or {})
    if keywords.get("projection") or keywords.get("polar"):
        del keywords["axes_class"]
    fig = _Figure(figsize=(width, height), layout="constrained", dpi=72)
    return fig, fig.subplots(rows, columns, subplot_kw=keywords, **subplots)


def colour(role):
    """The colour of a role."""
    if not isinstance(role, str) or role not in COLOURS:
        raise ValueError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
    return COLOURS[role]
