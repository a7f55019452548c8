"""Lines with bands, grouped bars, and their legend."""

from collections.abc import Mapping

import numpy as np

from ictd._arguments import declare, flag, integer, optional
from ictd.plots import arguments, style
from ictd.plots.style import LINE_STYLES, MARKERS, ROLES, book_settings

# More take seconds to draw and megabytes to load.
MAX_POINTS = 10_000  # of a line
MAX_BARS = 500  # of all quantities together


@book_settings()
@declare(ax=arguments.axes, markers=flag)
def line(ax, x, y, *, low=None, high=None, label=None, role="estimate", markers=True):
    """A line in the style of its role, with a band between `low` and `high` if these are given.

    Parameters
    ----------
    ax : Axes
    x, y : array_like (n,)
    low, high : array_like (n,), optional
        An interval around `y`.
    label : str, optional
        For the legend.
    role : str
        One of `ROLES`; fixes colour, line style and marker.
    markers : bool
        False for lines with many points.
    """
    colour = style.colour(role)
    x, y = arguments.numbers("x", x, ("n",)), arguments.numbers("y", y, ("n",))
    if x.shape != y.shape:
        raise ValueError(f"x and y must be equally long, got shapes {x.shape} and {y.shape}")
    arguments.check_count("x", x.size, MAX_POINTS, "points")
    if (low is None) != (high is None):
        raise ValueError("low and high must be given together")
    if low is not None:
        low, high = (arguments.numbers(name, end, x.shape) for name, end in (("low", low), ("high", high)))
        ax.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)
    ax.plot(
        x, y, color=colour, linestyle=LINE_STYLES[role], linewidth=1.8, label=label,
        marker=MARKERS[role] if markers else None, markersize=5,
    )  # fmt: skip


@book_settings()
@declare(ax=arguments.axes)
def bars(ax, values, labels=None, *, roles=ROLES):
    """Grouped bars of one or several quantities per state.

    Parameters
    ----------
    ax : Axes
    values : array_like (S,) or mapping of str to array_like (S,)
        Keys are the names in the legend.
    labels : sequence of str, optional
        Names of the states, by default 1..S.
    roles : sequence of str
        The role of each quantity, in order.
    """
    named = values if isinstance(values, Mapping) else {None: values}
    heights = [arguments.numbers("values", value, ("S",)) for value in named.values()]
    shapes = {height.shape for height in heights}
    if len(shapes) != 1:
        raise ValueError(f"values must hold equally long arrays, got shapes {sorted(shapes)}")
    if not isinstance(roles, (tuple, list)):
        raise TypeError(f"roles must be a list of roles, got {roles!r}")
    if len(heights) > len(roles):
        raise ValueError(f"roles must have one role for each of the {len(heights)} quantities, got {len(roles)}")
    n_states = heights[0].size
    arguments.check_count("values", n_states * len(heights), MAX_BARS, "bars")
    labels = arguments.labels("labels", labels, n_states)
    width = 0.8 / len(heights)
    for i, (name, height) in enumerate(zip(named, heights)):
        place = np.arange(n_states) + (i - (len(heights) - 1) / 2) * width
        colour = style.colour(roles[i])
        ax.bar(place, height, 0.9 * width, color=(colour, 0.4), edgecolor=colour)
        # the marker tells the quantities apart without colour
        ax.plot(place, height, color=colour, linestyle="none", marker=MARKERS[roles[i]], markersize=5, label=name)
    ax.set_xticks(np.arange(n_states), labels)
    ax.grid(False, axis="x")
    ax.axhline(0, color="black", linewidth=0.8)


@book_settings()
@declare(ax=arguments.axes, columns=optional(integer(1)))
def legend(ax, columns=None):
    """The legend above the axes, without a frame, in as many columns as fit.

    Parameters
    ----------
    ax : Axes
    columns : int, optional
        By default as many as the width of the figure allows: a legend that sticks out would shrink the axes.
    """
    handles, labels = ax.get_legend_handles_labels()
    if not labels:
        raise ValueError("legend needs at least one line or bar with a label")
    if columns is None:
        room = 72 * ax.figure.get_figwidth() - 50  # points, less what the labels of the y axis take
        entry = 46 + 5.6 * max(len(label) for label in labels)  # handle, gaps and text of 10 points
        columns = int(np.clip(room // entry, 1, len(labels)))
    ax.legend(
        handles, labels, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.01),
        borderaxespad=0, borderpad=0.2, handlelength=2.6, columnspacing=1.4, frameon=False,
    )  # fmt: skip
