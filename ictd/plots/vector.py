"""Figures of the book: one style, a caption below, a description for those who cannot see them.

A figure is drawn on explicit matplotlib objects (no pyplot) and shown as inline SVG:

>>> fig, ax = new(height=2.4)
>>> line(ax, [0, 1, 2], [1.0, 0.5, 0.25], label="largest error")
>>> figure = show(fig, caption="The error halves at every step.",
...               alt="A falling line: the error is 1 at step 0, a half at step 1 and a quarter at step 2.")

What `show` guarantees: the same bytes in every run, no id shared with another figure, text of at least
`PHONE_TEXT` CSS pixels on a phone, and black ink drawn in the colour of the page's own text, so that one
picture serves light and dark pages. Colours have a contrast of at least 3:1 on both, and every role also
has its own line style and marker. What the reader has set in matplotlib (a matplotlibrc file, a style, rcParams) has
no effect: every method of the figure and the axes that `new` returns draws in the settings of the book.
"""

from __future__ import annotations

import base64
import hashlib
import html
import inspect
import io
import re
import threading
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Circle, FancyArrowPatch, PathPatch
from matplotlib.path import Path
from matplotlib.text import Text

from ictd import _checks
from ictd._settings import PRINTING, numpy_defaults

__all__ = ["COLOURS", "ROLES", "FigureOutput", "bars", "chain", "legend", "line", "matrix", "new", "show", "svg"]

WIDTH = 4.7  # inches: matplotlib's 10 pt text is then 10 CSS pixels high on a phone
PHONE_WIDTH = 343  # CSS pixels that a phone of 375 pixels leaves for a figure
PHONE_TEXT = 10  # CSS pixels, the smallest text
# More take seconds to draw and megabytes to load:
MAX_AXES = 36  # of a figure
MAX_POINTS = 10_000  # of a line
MAX_BARS = 500  # of all quantities together
MAX_CELLS = 150  # rows or columns of a heat map
MAX_VALUES = 30  # the same, where the values are written
MAX_STATES = 100  # of a chain
MAX_ARROWS = 500
MAX_DIGITS = 15  # decimals that a float has
LARGEST = 1e300  # of numbers drawn: widths and ticks of larger ones overflow

#: Blue, vermilion, green and purple from the palette of Okabe and Ito, and a grey.
COLOURS = {
    "estimate": "#0072b2",  # what the algorithm or the layers compute
    "reference": "#d55e00",  # what it is compared with: true values, certainty equivalence
    "bound": "#009e73",  # what a theorem guarantees
    "other": "#cc79a7",
    "muted": "#6e6e6e",
}
ROLES = tuple(COLOURS)
_LINES = {"estimate": "-", "reference": "--", "bound": ":", "other": "-.", "muted": (0, (1, 1))}
_MARKERS = {"estimate": "o", "reference": "s", "bound": "^", "other": "D", "muted": "x"}

_CELL_INK = "#010101"  # on coloured cells, where the page's text colour must not be used: not quite black
_SEQUENTIAL = LinearSegmentedColormap.from_list("ictd_sequential", ["#f2f6fa", "#8bb8da", "#0072b2", "#00395c"])
_DIVERGING = LinearSegmentedColormap.from_list(
    "ictd_diverging", ["#8f3e00", "#e89a5e", "#f7f7f7", "#6fabd3", "#00517f"]
)
_DEFAULTS = {"font-size: 10px", "text-anchor: start"}  # of the svg element that `svg` writes
_STYLE = {
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
def style():
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
            mpl.rcParams.update(_STYLE)
            _inside = True
            try:
                yield
            finally:
                _inside = False


def _styled(cls):
    """Let the public methods of a class run in `style`: texts and lines take their look when they are made."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_"):
            setattr(cls, name, style()(method))
    cls.__name__ = cls.__base__.__name__  # for messages; pickle goes by the qualified name
    return cls


@_styled
class _Axes(Axes):
    pass


@_styled
class _Figure(Figure):
    pass


# --- figures -------------------------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class FigureOutput:
    """A figure ready to be displayed; Jupyter shows `html`, a plain console shows the description."""

    html: str
    caption: str
    alt: str

    def _repr_html_(self):
        return self.html

    def __repr__(self):
        return f"[Figure: {self.alt}]"


def show(figures, *, caption, alt):
    """Caption and description around one figure or several panels, as inline SVG.

    Parameters
    ----------
    figures : Figure or sequence of Figure
        Several figures stand side by side where there is room and below each other on a phone.
    caption : str
        Stands below the figure. Formulas between dollar signs are set by MathJax.
    alt : str or sequence of str
        What the figure shows, for readers who do not see it: at least 20 characters, plain text, another text
        than the caption. One string describes all panels together; a sequence has one string for each panel.

    Returns
    -------
    FigureOutput
        Leave it as the last value of a cell.

    Raises
    ------
    TypeError, ValueError
        For a missing caption or description, and for text too small to read on a phone.
    """
    panels = list(figures) if isinstance(figures, (list, tuple)) else [figures]
    if not panels or not all(isinstance(panel, Figure) for panel in panels):
        raise TypeError("figures must be a matplotlib Figure or a non-empty list of them (new returns both)")
    caption = checked_text("caption", caption)
    alts = [alt] if isinstance(alt, str) else list(alt) if isinstance(alt, (list, tuple)) else None
    if alts is None:
        raise TypeError(f"alt must be a string or a list of strings, got {type(alt).__name__}")
    if len(alts) not in (1, len(panels)):
        raise ValueError(f"alt must be one string or one for each of the {len(panels)} panels, got {len(alts)}")
    alts = [checked_alt(text, caption) for text in alts]
    drawings = []
    for i, panel in enumerate(panels):
        text = alts[i] if i < len(alts) else None
        drawings.append(_with_picture(svg(panel, alt=text, key=f"{caption} {i}"), text or ""))
    # styles are inline for pages without the book's CSS; the font size serves `_with_picture`
    content = (
        '<figure class="ictd-figure" style="margin:1em 0">'
        '<div class="ictd-panels" style="display:flex;flex-wrap:wrap;gap:16px;justify-content:center;font-size:0">'
        f"{''.join(drawings)}</div>"
        f'<figcaption style="margin:.5em auto 0;max-width:44em">{caption_html(caption)}</figcaption></figure>'
    )
    return FigureOutput(content, caption, " ".join(alts))


def _with_picture(drawing, alt):
    """The drawing with a copy of itself as `<img>` inside its `<desc>`, which a browser does not show.

    JupyterLab removes the tags of SVG, but neither their text nor images, from notebooks that it does not trust
    yet. Then the copy appears, on white, and the text around it has no height.
    """
    white = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1)
    white = white.replace('style="', 'style="background:#fff;', 1)
    source = base64.b64encode(white.encode()).decode()
    width = drawing.partition("max-width:")[2].partition(";")[0]
    picture = (
        f'<img alt="{html.escape(alt)}" style="width:{width};max-width:100%" src="data:image/svg+xml;base64,{source}">'
    )
    start, end, rest = drawing.partition(">")
    return f"{start}{end}<desc>{picture}</desc>{rest}"


def caption_html(caption):
    r"""Escaped text in which ``$...$`` becomes ``\(...\)`` in the element that Sphinx marks for MathJax."""
    parts = caption.split("$")
    if len(parts) % 2 == 0:
        raise ValueError(f"caption has a dollar sign without its partner: {caption!r}")
    return "".join(
        f'<span class="math notranslate nohighlight">\\({html.escape(part)}\\)</span>' if i % 2 else html.escape(part)
        for i, part in enumerate(parts)
    )


def checked_text(name, text):
    """`text` with single spaces; an error that names the argument unless it is a string with something in it."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, got {type(text).__name__}")
    text = " ".join(text.split())
    if not text:
        raise ValueError(f"{name} must not be empty: say in a sentence what the figure shows")
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", text):
        raise ValueError(f"{name} must hold no control characters, got {text!r}")
    return text


def checked_alt(alt, caption):
    """`alt` with single spaces; an error unless it is a description of its own."""
    alt = checked_text("alt", alt)
    if len(alt) < 20:
        raise ValueError(f"alt must describe the figure in at least 20 characters, got {alt!r}")
    if alt.rstrip(".") == caption.rstrip("."):
        raise ValueError("alt must not repeat the caption: describe what can be seen")
    if "$" in alt:
        raise ValueError(f"alt is read aloud and cannot hold formulas between dollar signs: {alt!r}")
    return alt


# --- SVG -----------------------------------------------------------------------------------------------------


@style()
def svg(fig, *, alt=None, key="", digits=2):
    """A figure as a compact `<svg>` element for use inside a page.

    Parameters
    ----------
    fig : Figure
    alt : str, optional
        The accessible name. Without it the drawing is hidden from screen readers.
    key : str
        Makes the ids differ from those of an equal drawing elsewhere on the page.
    digits : int
        Decimals that coordinates keep, in points.

    Returns
    -------
    str
        Black is replaced by `currentColor`, fonts by those of the page; ids begin with a hash of `key` and drawing.

    Raises
    ------
    ValueError
        If text would be smaller than `PHONE_TEXT` CSS pixels on a phone.
    """
    _checks.instance("fig", fig, Figure)
    _checks.instance("key", key, str)
    if alt is not None:
        _checks.instance("alt", alt, str)
    digits = _checks.integer("digits", digits, low=0, high=MAX_DIGITS)
    _check_text_size(fig)
    for box in fig.findobj(Legend):
        box.set_frame_on(False)  # its white face would show on a dark page
    stream = io.StringIO()
    _settle(fig)
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    fig.savefig(stream, format="svg", transparent=True, metadata=metadata)
    source = stream.getvalue()
    root = ET.fromstring(re.sub(r' xmlns(:xlink)?="[^"]*"', "", source).replace(" xlink:href=", " href="))
    _tidy(root, digits)
    width, height = root.get("viewBox").split()[2:]
    root.attrib = {
        "viewBox": root.get("viewBox"),
        "width": "100%",
        # panels share a row only where text of 10 points keeps 10 pixels
        "style": f"flex:1 1 {float(width):.0f}px;min-width:0;max-width:{1.5 * float(width):.0f}px;height:auto;"
        f"aspect-ratio:{width}/{height}",
        "fill": "currentColor",
        "font-size": "10",
        "stroke-linejoin": "round",
        **({"role": "img", "aria-label": alt} if alt else {"aria-hidden": "true"}),
    }
    root.text = None
    text = ET.tostring(root, encoding="unicode").replace(" />", "/>")
    # matplotlib's ids hash unrounded coordinates: hash the drawing without them
    digest = hashlib.sha256(f"{key}\n{_rename_ids(text, '')}".encode()).hexdigest()[:8]
    return _rename_ids(text, digest)


def _settle(fig):
    """Repeat the layout until it stands still: new sizes change the ticks, and these the space for labels."""
    engine, before = fig.get_layout_engine(), None
    for _ in range(12 if engine else 0):
        engine.execute(fig)
        now = [np.round(ax.get_position().bounds, 7).tolist() for ax in fig.axes]
        if now == before:
            return
        before = now


def _check_text_size(fig):
    scale = PHONE_WIDTH / (72 * fig.get_figwidth())
    for text in fig.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text.get_fontsize() * scale < PHONE_TEXT:
            raise ValueError(
                f"the text {text.get_text()!r} would be {text.get_fontsize() * scale:.1f} pixels high on a phone, "
                f"expected at least {PHONE_TEXT}: use a larger font or a figure at most {WIDTH} inches wide"
            )


def _tidy(element, digits):
    """Drop what a page does not need and shorten the rest, in place."""
    for child in list(element):
        is_style = child.tag == "defs" and child.find("style") is not None  # its rule `*{}` would reach the whole page
        if is_style or child.tag == "metadata":
            element.remove(child)
        else:
            _tidy(child, digits)
    kept = []
    for child in element:
        child.attrib = dict(_attributes(child, digits))
        child.tail = None
        if child.tag != "text" and child.tag != "tspan":
            child.text = None
        invisible = child.tag == "path" and child.get("style") == "fill:none"
        if child.tag == "g" and not child.attrib:
            kept.extend(child)
        elif not invisible and (child.tag not in ("g", "defs") or len(child)):
            kept.append(child)
    if element.get("id", "").startswith("matplotlib.axis"):
        kept.sort(key=lambda e: e.tag == "text")  # grid lines first, so that both can be grouped
    element[:] = _grouped(kept)


def _grouped(elements):
    """Neighbours with the same look, in one `<g>` that states it once."""
    for look, run in groupby(elements, key=lambda e: (e.tag, e.get("style"), e.get("clip-path"))):
        run = list(run)
        tag, style, clip = look
        # opacity is not inherited, and definitions keep their own look
        if len(run) > 1 and style and tag in ("path", "use", "text") and not re.search("(^|;)opacity", style):
            group = ET.Element("g", {"style": style, **({"clip-path": clip} if clip else {})})
            for element in run:
                del element.attrib["style"]
                element.attrib.pop("clip-path", None)
            group.extend(run)
            yield group
        else:
            yield from run


def _attributes(element, digits):
    for name, value in element.attrib.items():
        if name == "id" and element.tag == "g":
            continue
        if name in ("d", "x", "y", "width", "height", "transform"):
            value = _shorten(value, digits)
            if name == "d":
                value = _shorten_path(value)
            if value.startswith("rotate(0 "):
                continue
        elif name == "style":
            value = _shorten_style(value, digits)
            if not value:
                continue
        yield name, value


def _shorten_style(style, digits):
    """Without font families (those of the page are inherited), with black as `currentColor`."""
    rules = []
    for rule in style.split(";"):
        name, _, value = (part.strip() for part in rule.partition(":"))
        if name in ("fill", "stroke") and value == "#000000":
            value = "currentColor"
        if name == "font":  # the shorthand: [style] [weight] size family
            match = re.match(r"(?P<words>(?:[a-z0-9]+ )*?)(?P<size>[\d.]+px)", value)
            rules += [f"font-size:{match['size']}"] * (match["size"] != "10px")
            words = match["words"].split()
            rules += [f"font-weight:{word}" for word in words if word == "bold" or word.isdigit()]
            rules += [f"font-style:{word}" for word in words if word in ("italic", "oblique")]
        elif name and name != "font-family" and rule.strip() not in _DEFAULTS:
            rules.append(f"{name}:{_shorten(value, digits) if not value.startswith(('#', 'url')) else value}")
    return ";".join(rules)


def _shorten(text, digits):
    """Round the decimal numbers in `text`."""

    def short(match):
        number = f"{float(match[0]):.{digits}f}".rstrip("0").rstrip(".")
        return "0" if number in ("-0", "") else number

    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?|-0(?![\d.])", short, text)


def _shorten_path(path):
    """Without line breaks and repeated commands: `M 0 0 L 1 1 L 2 0` becomes `M0 0 1 1 2 0`."""
    words, before = [], None
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        implied = command == before or (command == "L" and before == "M")
        if not (implied and command in "LCQ"):
            words.append(command)
        elif words:
            words.append(" ")
        words.append(" ".join(numbers.split()))
        before = "L" if command == "M" else command
    return "".join(words)


def _rename_ids(text, prefix):
    names = {}
    for old in re.findall(r' id="([^"]+)"', text):
        names.setdefault(old, f"i{prefix}{len(names)}")
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{names[m[1]]}"', text)
    return re.sub(r"(url\(#|href=\"#)([^)\"]+)", lambda m: m[1] + names[m[2]], text)


# --- what the chapters draw ----------------------------------------------------------------------------------


def _numbers(name, value, shape, finite=False):
    """Real numbers of a shape, of a size that axes can hold; NaN and infinity may be among them."""
    result = _checks.array(name, value, shape, finite=finite)
    if (np.abs(result[np.isfinite(result)]) > LARGEST).any():
        raise ValueError(f"{name} must hold numbers of at most {LARGEST:g} in size")
    return result


def _check_count(name, count, most, what):
    if count > most:
        raise ValueError(f"{name} must hold at most {most} {what}, got {count}: draw a part of them")


def _role(role):
    if not isinstance(role, str) or role not in COLOURS:
        raise ValueError(f"role must be one of {', '.join(ROLES)}, got {role!r}")
    return COLOURS[role]


@style()
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
    _checks.instance("ax", ax, Axes)
    _checks.flag("markers", markers)
    colour = _role(role)
    x, y = _numbers("x", x, ("n",)), _numbers("y", y, ("n",))
    if x.shape != y.shape:
        raise ValueError(f"x and y must be equally long, got shapes {x.shape} and {y.shape}")
    _check_count("x", x.size, MAX_POINTS, "points")
    if (low is None) != (high is None):
        raise ValueError("low and high must be given together")
    if low is not None:
        low, high = (_numbers(name, end, x.shape) for name, end in (("low", low), ("high", high)))
        ax.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)
    ax.plot(
        x, y, color=colour, linestyle=_LINES[role], linewidth=1.8, label=label,
        marker=_MARKERS[role] if markers else None, markersize=5,
    )  # fmt: skip


@style()
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
    _checks.instance("ax", ax, Axes)
    named = values if isinstance(values, Mapping) else {None: values}
    heights = [_numbers("values", value, ("S",)) for value in named.values()]
    shapes = {height.shape for height in heights}
    if len(shapes) != 1:
        raise ValueError(f"values must hold equally long arrays, got shapes {sorted(shapes)}")
    if not isinstance(roles, (tuple, list)):
        raise TypeError(f"roles must be a list of roles, got {roles!r}")
    if len(heights) > len(roles):
        raise ValueError(f"roles must have one role for each of the {len(heights)} quantities, got {len(roles)}")
    n_states = heights[0].size
    _check_count("values", n_states * len(heights), MAX_BARS, "bars")
    labels = _labels("labels", labels, n_states)
    width = 0.8 / len(heights)
    for i, (name, height) in enumerate(zip(named, heights)):
        place = np.arange(n_states) + (i - (len(heights) - 1) / 2) * width
        colour = _role(roles[i])
        ax.bar(place, height, 0.9 * width, color=(colour, 0.4), edgecolor=colour)
        # the marker tells the quantities apart without colour
        ax.plot(place, height, color=colour, linestyle="none", marker=_MARKERS[roles[i]], markersize=5, label=name)
    ax.set_xticks(np.arange(n_states), labels)
    ax.grid(False, axis="x")
    ax.axhline(0, color="black", linewidth=0.8)


@style()
def legend(ax, columns=None):
    """The legend above the axes, without a frame, in as many columns as fit.

    Parameters
    ----------
    ax : Axes
    columns : int, optional
        By default as many as the width of the figure allows: a legend that sticks out would shrink the axes.
    """
    _checks.instance("ax", ax, Axes)
    handles, labels = ax.get_legend_handles_labels()
    if not labels:
        raise ValueError("legend needs at least one line or bar with a label")
    if columns is None:
        room = 72 * ax.figure.get_figwidth() - 50  # points, less what the labels of the y axis take
        entry = 46 + 5.6 * max(len(label) for label in labels)  # handle, gaps and text of 10 points
        columns = int(np.clip(room // entry, 1, len(labels)))
    columns = _checks.integer("columns", columns, low=1)
    ax.legend(
        handles, labels, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1.01),
        borderaxespad=0, borderpad=0.2, handlelength=2.6, columnspacing=1.4, frameon=False,
    )  # fmt: skip


def _labels(name, labels, n):
    if labels is not None and (not isinstance(labels, Iterable) or isinstance(labels, Set)):  # a set has no order
        raise TypeError(f"{name} must be a sequence of {n} texts, got {labels!r}")
    labels = range(1, n + 1) if labels is None else islice(labels, n + 1)  # which may never end
    labels = [str(label) for label in labels]
    if len(labels) != n:
        raise ValueError(f"{name} must have {n} entries, got {len(labels)}{' or more' * (len(labels) > n)}")
    return labels


def luminance(colour):
    """Relative luminance of a colour between 0 (black) and 1 (white), after WCAG 2."""
    channels = np.array([int(to_hex(colour)[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    """Contrast ratio of two colours between 1 and 21, after WCAG 2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@style()
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
        Decimals of the written values, at most `MAX_DIGITS`.
    limits : (float, float), optional
        Ends of the colour scale, to compare several heat maps.
    values : bool, optional
        Whether to write the values, of at most `MAX_VALUES` rows and columns; by default up to 8 columns, as more do
        not fit.
    """
    _checks.instance("ax", ax, Axes)
    M = _numbers("M", M, ("R", "C"))
    n_rows, n_columns = M.shape
    if max(M.shape) > MAX_CELLS:
        raise ValueError(f"M must have at most {MAX_CELLS} rows and columns, got shape {M.shape}: draw a part of it")
    digits = _checks.integer("digits", digits, low=0, high=MAX_DIGITS)
    row_labels = _labels("row_labels", row_labels, n_rows)
    column_labels = _labels("column_labels", column_labels, n_columns)
    low, high, colours = _colour_scale(M, limits)
    largest = max(M.shape)
    values = n_columns <= 8 and largest <= MAX_VALUES if values is None else values
    if _checks.flag("values", values) and largest > MAX_VALUES:
        raise ValueError(f"values can be written for at most {MAX_VALUES} rows and columns, got shape {M.shape}")

    shades = np.round(np.clip((M - low) / (high - low), 0, 1) * 63)
    gap = 0.04 if M.size <= 100 else 0.0
    for shade, boxes in _boxes(shades, merge=not gap).items():
        colour = to_hex(colours(shade / 63))
        corners = [Path.unit_rectangle().vertices * (width - gap, 1 - gap) + (j - 0.5 + gap / 2, i - 0.5 + gap / 2)
                   for i, j, width in boxes]  # fmt: skip
        path = Path.make_compound_path(*(Path(corner, closed=True) for corner in corners))
        # without a gap, an outline in the same colour closes the hairlines between neighbours
        ax.add_patch(PathPatch(path, facecolor=colour, edgecolor=colour, linewidth=0 if gap else 0.8))
    if values:
        for (i, j), value in np.ndenumerate(M):
            if np.isfinite(value):
                ink = max((_CELL_INK, "#ffffff"), key=lambda c: contrast(c, colours(shades[i, j] / 63)))
                ax.text(j, i, _number(value, digits if value % 1 else 0), ha="center", va="center", color=ink)
    _matrix_axes(ax, row_labels, column_labels, rows, columns)


def _boxes(shades, merge):
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


def _colour_scale(M, limits):
    finite = M[np.isfinite(M)]
    if finite.size == 0:
        raise ValueError("M has no finite value")
    if limits is None:
        top = float(np.abs(finite).max()) or 1.0
        limits = (-top, top) if (finite < 0).any() else (0.0, top)
    low, high = _numbers("limits", limits, (2,), finite=True).tolist()
    if not low < high:
        raise ValueError(f"limits must be increasing, got {limits!r}")
    return low, high, _DIVERGING if low < 0 else _SEQUENTIAL


def _matrix_axes(ax, row_labels, column_labels, rows, columns):
    ax.set(xlim=(-0.5, len(column_labels) - 0.5), ylim=(len(row_labels) - 0.5, -0.5), aspect="equal")
    for axis, labels, name in ((ax.xaxis, column_labels, columns), (ax.yaxis, row_labels, rows)):
        step = -(-len(labels) // 12)  # at most 12 labels
        axis.set_ticks(np.arange(0, len(labels), step), labels[::step])
        axis.set_label_text(name)
    ax.grid(False)
    ax.spines[:].set_visible(False)


def _number(value, digits):
    """`value` with a true minus sign and no negative zero."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}") if round(value, digits) else f"{0:.{digits}f}"


@style()
def chain(ax, transition, labels=None, *, layout="circle", probabilities=True, digits=2):
    """The states of a Markov chain and the transitions between them.

    Parameters
    ----------
    ax : Axes
    transition : array_like (S, S)
        Row s holds the probabilities of the next state after s. Only positive entries are drawn, the more
        likely the thicker, so a row that sums to less than 1 leaves transitions out.
    labels : sequence of str, optional
        Names of the states, by default 1..S.
    layout : {"circle", "line"}
        "line" suits chains that mostly move to the right, such as Boyan's: longer jumps are arcs, forward above
        and backward below.
    probabilities : bool
        Whether to write the probability beside each arrow.
    digits : int
        Decimals of the written probabilities; smaller ones are written as "<0.01".
    """
    _checks.instance("ax", ax, Axes)
    transition = _checks.array("transition", transition, ("S", "S"))
    if transition.shape[0] != transition.shape[1]:
        raise ValueError(f"transition must be square, got shape {transition.shape}")
    if (transition < 0).any() or (transition > 1 + _checks.SUM_TOLERANCE).any():
        raise ValueError("transition must hold probabilities, got an entry outside [0, 1]")
    _check_count("transition", len(transition), MAX_STATES, "states")
    n_arrows = np.count_nonzero(transition)
    if n_arrows > MAX_ARROWS:
        raise ValueError(
            f"transition must have at most {MAX_ARROWS} positive entries, got {n_arrows}: draw a part of it, or a heat "
            f"map with matrix"
        )
    _checks.option("layout", layout, ("circle", "line"))
    _checks.flag("probabilities", probabilities)
    digits = _checks.integer("digits", digits, low=0, high=MAX_DIGITS)
    n_states = len(transition)
    labels = _labels("labels", labels, n_states)
    place = _places(n_states, layout)
    ink, drawn = "black", [place - 1, place + 1]
    for (s, t), p in np.ndenumerate(transition):
        if p > 0:
            curve, spot, outward = _edge(place, s, t, layout)
            drawn.append(curve)
            ax.add_patch(
                FancyArrowPatch(
                    path=Path(curve, [Path.MOVETO, *[Path.CURVE4] * 3]), arrowstyle="-|>", mutation_scale=9,
                    color=COLOURS["estimate"], linewidth=0.8 + 1.4 * p, shrinkA=0, shrinkB=0,
                )
            )  # fmt: skip
            if probabilities:
                drawn.append([spot + outward])
                _beside(ax, spot, outward, _probability(p, digits))
    for (x, y), label in zip(place, labels):
        ax.add_patch(Circle((x, y), 1, facecolor="none", edgecolor=ink, linewidth=1.2))
        ax.text(x, y, label, ha="center", va="center", color=ink)
    corners = np.concatenate(drawn)
    (left, bottom), (right, top) = corners.min(0) - 0.2, corners.max(0) + 0.2
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    ax.set_axis_off()


def _probability(p, digits):
    """`p` > 0 without zeros at its end; a bound where rounding would write 0."""
    if round(p, digits) == 0:
        return f"<{10.0**-digits:.{digits}f}"
    text = f"{p:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def _beside(ax, spot, outward, text):
    """Text that touches `spot` from the direction `outward`, whatever the scale of the axes."""
    room = 3 + np.abs(outward) @ [3.2 * len(text), 5]  # points: half of the text's width and height
    ax.annotate(text, spot, outward * room, textcoords="offset points", ha="center", va="center", annotation_clip=False)


def _places(n_states, layout):
    """Centres of the states (S, 2); each state is a circle of radius 1."""
    if layout == "line":
        return np.stack([4.2 * np.arange(n_states), np.zeros(n_states)], axis=1)
    radius = 0.0 if n_states == 1 else max(3.2, 4.6 / (2 * np.sin(np.pi / n_states)))
    top = np.pi if n_states == 2 else np.pi / 2  # two states stand beside each other
    angle = top - 2 * np.pi * np.arange(n_states) / n_states
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _edge(place, s, t, layout):
    """The arrow from state s to state t: control points (4, 2), where its label goes (2,) and on which side (2,)."""
    start, end = place[s], place[t]
    if s == t:
        outward = np.array([0.0, -1.0]) if layout == "line" or not start.any() else start / np.linalg.norm(start)
        side = np.array([-outward[1], outward[0]])
        ends = [start + np.cos(0.45) * outward + sign * np.sin(0.45) * side for sign in (1, -1)]
        controls = [start + 3.0 * outward + sign * 1.5 * side for sign in (1, -1)]
        curve = np.array([ends[0], *controls, ends[1]])
        return curve, _bezier(curve, 0.5), outward
    along = (end - start) / np.linalg.norm(end - start)
    left = np.array([-along[1], along[0]])
    if layout == "line":
        lift = 0.0 if t - s == 1 else 1.0 + (0.9 if t > s else 1.4) * abs(t - s)
    else:
        lift = 0.8  # both directions bow to their left, so that they do not cover each other
    middle = (start + end) / 2 + lift * left
    # leave and enter on the border of the circles, towards the control point
    first, last = ((middle - centre) / np.linalg.norm(middle - centre) for centre in (start, end))
    a, b = start + 1.05 * first, end + 1.1 * last
    curve = np.array([a, a + (middle - a) * 2 / 3, b + (middle - b) * 2 / 3, b])
    # off the middle, where arrows cross: near the source, but near the target where many return from one state
    place_of_label = 0.38 if layout == "circle" else 0.5 if t > s else 0.65
    below = layout == "line" and t - s == 1  # straight arrows, away from the arcs above them
    return curve, _bezier(curve, place_of_label), -left if below else left


def _bezier(curve, t):
    return np.array([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3]) @ curve
