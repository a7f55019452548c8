"""Heat maps with the value in each cell, in an ink that stands out from it."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from ictd._arguments import declare, flag, optional
from ictd.plots import arguments
from ictd.plots.style import book_settings

# More take seconds to draw and megabytes to load.
MAX_CELLS = 150  # rows or columns
MAX_VALUES = 30  # the same, where the values are written

CELL_INK = "#010101"  # on coloured cells, where the page's text colour must not be used: not quite black
SEQUENTIAL = LinearSegmentedColormap.from_list("ictd_sequential", ["#f2f6fa", "#8bb8da", "#0072b2", "#00395c"])
DIVERGING = LinearSegmentedColormap.from_list("ictd_diverging", ["#8f3e00", "#e89a5e", "#f7f7f7", "#6fabd3", "#00517f"])


@book_settings()
@declare(ax=arguments.axes, digits=arguments.digits, values=optional(flag))
def matrix(ax, M, row_labels=None, column_labels=None, *, rows="", columns="", digits=2, limits=None, values=None):
    """A heat map with the value in each cell.

    Parameters
    ----------
    ax : Axes
    M : array_like (R, C)
        At most `MAX_CELLS` rows and columns. NaN leaves a cell empty. Blue stands for large values; with negative
        ones the scale is symmetric and runs from brown over white to blue.
    row_labels, column_labels : sequence of str, optional
        By default 1..R and 1..C.
    rows, columns : str
        What rows and columns are, for example "query state" and "source state".
    digits : int
        Decimals of the written values, at most 15.
    limits : (float, float), optional
        Ends of the colour scale, to compare several heat maps.
    values : bool, optional
        Whether to write the values, of at most `MAX_VALUES` rows and columns; by default up to 8 columns, as more do
        not fit.
    """
    M = arguments.numbers("M", M, ("R", "C"))
    n_rows, n_columns = M.shape
    if max(M.shape) > MAX_CELLS:
        raise ValueError(f"M must have at most {MAX_CELLS} rows and columns, got shape {M.shape}: draw a part of it")
    row_labels = arguments.labels("row_labels", row_labels, n_rows)
    column_labels = arguments.labels("column_labels", column_labels, n_columns)
    low, high, colours = _colour_scale(M, limits)
    largest = max(M.shape)
    values = n_columns <= 8 and largest <= MAX_VALUES if values is None else values
    if values and largest > MAX_VALUES:
        raise ValueError(f"values can be written for at most {MAX_VALUES} rows and columns, got shape {M.shape}")

    shades = np.round(np.clip((M - low) / (high - low), 0, 1) * 63)
    gap = 0.04 if M.size <= 100 else 0.0
    for shade, boxes in _boxes_by_shade(shades, merge=not gap).items():
        colour = to_hex(colours(shade / 63))
        corners = [Path.unit_rectangle().vertices * (width - gap, 1 - gap) + (j - 0.5 + gap / 2, i - 0.5 + gap / 2)
                   for i, j, width in boxes]  # fmt: skip
        path = Path.make_compound_path(*(Path(corner, closed=True) for corner in corners))
        # without a gap, an outline in the same colour closes the hairlines between neighbours
        ax.add_patch(PathPatch(path, facecolor=colour, edgecolor=colour, linewidth=0 if gap else 0.8))
    if values:
        for (i, j), value in np.ndenumerate(M):
            if np.isfinite(value):
                ink = max((CELL_INK, "#ffffff"), key=lambda c: contrast(c, colours(shades[i, j] / 63)))
                ax.text(j, i, _cell_text(value, digits if value % 1 else 0), ha="center", va="center", color=ink)
    _matrix_axes(ax, row_labels, column_labels, rows, columns)


def _colour_scale(M, limits):
    finite = M[np.isfinite(M)]
    if finite.size == 0:
        raise ValueError("M has no finite value")
    if limits is None:
        top = float(np.abs(finite).max()) or 1.0
        limits = (-top, top) if (finite < 0).any() else (0.0, top)
    low, high = arguments.numbers("limits", limits, (2,), finite=True).tolist()
    if not low < high:
        raise ValueError(f"limits must be increasing, got {limits!r}")
    return low, high, DIVERGING if low < 0 else SEQUENTIAL


def _boxes_by_shade(shades, merge):
    """{shade: [(row, column, width), ...]}; one shape for each shade keeps the drawing of a large kernel small."""
    boxes = {}
    for i, row in enumerate(shades):
        j = 0
        while j < row.size:
            width = 1
            while merge and j + width < row.size and row[j + width] == row[j]:
                width += 1
            if not np.isnan(row[j]):
                boxes.setdefault(row[j], []).append((i, j, width))
            j += width
    return boxes


def _matrix_axes(ax, row_labels, column_labels, rows, columns):
    ax.set(xlim=(-0.5, len(column_labels) - 0.5), ylim=(len(row_labels) - 0.5, -0.5), aspect="equal")
    for axis, labels, name in ((ax.xaxis, column_labels, columns), (ax.yaxis, row_labels, rows)):
        step = -(-len(labels) // 12)  # at most 12 labels
        axis.set_ticks(np.arange(0, len(labels), step), labels[::step])
        axis.set_label_text(name)
    ax.grid(False)
    ax.spines[:].set_visible(False)


def _cell_text(value, digits):
    """`value` with a true minus sign and no negative zero."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}") if round(value, digits) else f"{0:.{digits}f}"


def luminance(colour):
    """Relative luminance of a colour between 0 (black) and 1 (white), after WCAG 2."""
    channels = np.array([int(to_hex(colour)[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    """Contrast ratio of two colours between 1 and 21, after WCAG 2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
