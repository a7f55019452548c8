"""Figures of the book: one style, a caption below, a description for those who cannot see them.

A figure is drawn on explicit matplotlib objects (no pyplot) and shown as inline SVG:

>>> fig, ax = new(height=2.4)
>>> line(ax, [0, 1, 2], [1.0, 0.5, 0.25], label="largest error")
>>> figure = show(fig, caption="The error halves at every step.",
...               alt="A falling line: the error is 1 at step 0, a half at step 1 and a quarter at step 2.")

What `show` guarantees: the same bytes in every run, no id shared with another figure, text of at least
`style.PHONE_TEXT` CSS pixels on a phone, and black ink drawn in the colour of the page's own text, so that one
picture serves light and dark pages. Colours have a contrast of at least 3:1 on both, and every role also
has its own line style and marker. What the reader has set in matplotlib (a matplotlibrc file, a style, rcParams) has
no effect: every method of the figure and the axes that `new` returns draws in the settings of the book.

The modules from the bottom; each imports only from those above it in this table:

=============  ===================================================================
``style``      colours and line styles by role, the settings of the book, `new`
``arguments``  what the drawing functions take
``curves``     `line`, `bars`, `legend`
``heatmap``    `matrix`
``graph``      `chain`
``vector``     `svg`: a figure as a compact SVG element
``page``       `show`: caption and description around figures
``sliders``    explorers, figures with sliders (needs ipywidgets; loaded on first use)
=============  ===================================================================
"""

import matplotlib  # noqa: F401  first of all, so that the error names it where it is missing

from ictd import _extras
from ictd.plots.curves import bars, legend, line
from ictd.plots.graph import chain
from ictd.plots.heatmap import MAX_CELLS, matrix
from ictd.plots.page import FigureOutput, show
from ictd.plots.style import COLOURS, ROLES, new
from ictd.plots.vector import svg

__all__ = [
    "COLOURS", "MAX_CELLS", "ROLES", "FigureOutput", "bars", "chain", "legend", "line", "matrix", "new", "show", "svg",
]  # fmt: skip


__getattr__, __dir__ = _extras.face(__name__, modules=("sliders",))  # which needs ipywidgets
