"""Explorers: figures with one or two sliders that work without a kernel.

Every frame is drawn beforehand as compact SVG and stands in a `Stack`; the sliders select a frame through
`jslink`, in the browser. The same explorer therefore works on the static page, on a phone and in JupyterLab:

>>> from ictd import plots
>>> def frame(beta, step):
...     fig, ax = plots.new(height=2.2)
...     plots.line(ax, [0, 1, 2], [1.0, beta, beta**2])
...     return fig, f"score scale {beta}, step {step}: the error is {beta**step}"
>>> explorer(frame, [("score scale β", [0.1, 0.5]), ("step", [0, 1, 2])], caption="The error at each step.",
...          alt="A falling line: the error by step.")
Explorer(...)
"""

import html
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from numbers import Integral

import ipywidgets
from ipywidgets.embed import dependency_state
from ipywidgets.widgets.widget_string import HTMLStyle
from matplotlib.figure import Figure

from ictd.plots import page, vector
from ictd.plots.arguments import is_ordered
from ictd.plots.style import book_settings

__all__ = ["MAX_BYTES", "Axis", "Explorer", "explorer"]

MAX_BYTES = 1_000_000  # of widget state that a page has to load for one explorer
MAX_VALUES = 1000  # of a slider
_DIGITS = 1  # decimals of coordinates in points: a tenth of a point cannot be seen
_TEXT = "font-size:.95rem;line-height:1.5"  # widgets are set in 13 pixels otherwise


@dataclass(frozen=True)
class Axis:
    """One slider: its name, the values given to `frame` and the labels that the reader sees."""

    name: str
    values: tuple
    labels: tuple

    @classmethod
    def of(cls, axis):
        """From ``(name, values)`` or ``(name, values, labels)``; labels are the values as text by default."""
        if not isinstance(axis, (tuple, list)) or len(axis) not in (2, 3):
            raise ValueError(f"axes must hold (name, values) or (name, values, labels), got {axis!r}")
        name = page.checked_text("the name of an axis", axis[0])
        for part in axis[1:]:
            if not is_ordered(part):
                raise TypeError(f"axis {name!r} needs a list of values and, if given, of labels, got {part!r}")
        values = tuple(islice(axis[1], MAX_VALUES + 1))  # it may never end
        if len(values) < 2:
            raise ValueError(f"axis {name!r} needs at least two values, got {len(values)}")
        if len(values) > MAX_VALUES:
            raise ValueError(f"axis {name!r} must have at most {MAX_VALUES} values, got more")
        labels = tuple(str(label) for label in islice(axis[2] if len(axis) == 3 else values, MAX_VALUES + 1))
        if len(labels) != len(values):
            raise ValueError(f"axis {name!r} needs {len(values)} labels, got {len(labels)}")
        if len(set(labels)) != len(labels):
            raise ValueError(f"the labels of axis {name!r} must differ, got {labels}")
        return cls(name, values, labels)


class Explorer(ipywidgets.VBox):
    """Sliders, frames and caption. Where widgets are not rendered, the first frame is shown as a figure."""

    def __init__(self, children, fallback):
        super().__init__(children)
        self.fallback = fallback
        self.add_class("ictd-explorer")

    def __repr__(self):
        return "Explorer(...)"

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, *metadata = bundle if isinstance(bundle, tuple) else (bundle,)
        data = {**data, "text/html": self.fallback.html, "text/plain": f"[Interactive figure: {self.fallback.alt}]"}
        return (data, *metadata) if metadata else data


@book_settings()
def explorer(frame, axes, *, caption, alt, start=None):
    """An interactive figure with one or two sliders.

    Parameters
    ----------
    frame : callable
        ``frame(value)`` or ``frame(value1, value2)`` returns a Figure from `plots.new` and a reading: one sentence
        that says what this frame shows in numbers. The reading stands below the picture and is its description.
    axes : sequence
        One or two of ``(name, values)`` or ``(name, values, labels)``, each with at least two values.
    caption : str
        Stands below the explorer. No formulas between dollar signs: widgets do not set them.
    alt : str
        What kind of picture the frames are, for readers who do not see it; at least 20 characters.
    start : sequence of int, optional
        Indices of the frame that is shown first, by default 0.

    Returns
    -------
    Explorer
        Leave it as the last value of a cell.

    Raises
    ------
    TypeError, ValueError
        For a missing text, a wrong number of axes, or more than `MAX_BYTES` of widget state.
    """
    if not callable(frame):
        raise TypeError(f"frame must be a function that returns (Figure, reading), got {frame!r}")
    caption = page.checked_text("caption", caption)
    if "$" in caption:
        raise ValueError(f"caption of an explorer cannot hold formulas (write β, not $\\beta$), got {caption!r}")
    alt = page.checked_alt(alt, caption)
    if not isinstance(axes, (tuple, list)) or len(axes) not in (1, 2):
        raise ValueError("axes must be a list of one or two (name, values)")
    axes = [Axis.of(axis) for axis in axes]
    start = _start_indices(start, axes)
    sliders = [_slider(axis, index) for axis, index in zip(axes, start)]
    layout, style = ipywidgets.Layout(width="100%", margin="0"), HTMLStyle()  # shared by all frames

    shape = tuple(len(axis.values) for axis in axes)
    shown_first, sizes = [], []

    def drawn(indices):
        fig, reading = _figure_and_reading(frame, [axis.values[i] for axis, i in zip(axes, indices)])
        description = f"{alt.rstrip('.')}. {reading}"
        if indices == start:
            shown_first.append(page.show(fig, caption=caption, alt=description))
        drawing = vector.svg(fig, alt=description, key=f"{caption} {indices}", digits=_DIGITS)
        content = _frame_html(drawing, reading)
        sizes.append(len(content))
        if sum(sizes) > MAX_BYTES:  # no need to draw the rest
            _check_size(sum(sizes) * math.prod(shape) // len(sizes), shape)
        return ipywidgets.HTML(content, layout=layout, style=style)

    if len(axes) == 1:
        frames = _stack([drawn((i,)) for i in range(shape[0])], sliders[0])
    else:
        rows = [_stack([drawn((i, j)) for j in range(shape[1])], sliders[1]) for i in range(shape[0])]
        frames = _stack(rows, sliders[0])
    frames.add_class("ictd-frames")
    below = ipywidgets.HTML(
        f'<div class="ictd-caption" style="{_TEXT};max-width:44em;margin:.5em auto 0">'
        f"{html.escape(caption)} <em>Drag a slider, or select it and press the arrow keys.</em></div>",
        layout=layout, style=style,
    )  # fmt: skip
    controls = [_named(slider, axis.name, style) for axis, slider in zip(axes, sliders)]
    result = Explorer([*controls, frames, below], shown_first[0])
    _check_size(len(json.dumps(dependency_state([result]))), shape)
    return result


def _start_indices(start, axes):
    given = (0,) * len(axes) if start is None else start
    start = tuple(given) if isinstance(given, Iterable) else ()
    if len(start) != len(axes) or not all(_is_index(i, axis) for i, axis in zip(start, axes)):
        sizes = ", ".join(f"0..{len(axis.values) - 1}" for axis in axes)
        raise ValueError(f"start must hold one index for each axis ({sizes}), got {given!r}")
    return tuple(map(int, start))


def _is_index(i, axis):
    return isinstance(i, Integral) and not isinstance(i, bool) and 0 <= i < len(axis.values)


def _slider(axis, index):
    return ipywidgets.SelectionSlider(
        options=list(zip(axis.labels, range(len(axis.labels)))), index=index, tooltip=axis.name,
        layout={"width": "auto", "flex": "1 1 12em", "min_width": "0"},
    )  # fmt: skip


def _named(slider, name, style):
    """The slider behind its name. A `description` would need MathJax 2 to be on the page."""
    label = ipywidgets.HTML(f'<span class="ictd-slider-name" style="{_TEXT}">{html.escape(name)}</span>', style=style)
    row = ipywidgets.HBox([label, slider], layout={"width": "100%", "max_width": "34em", "margin": "0 auto"})
    row.add_class("ictd-slider")
    return row


def _stack(children, slider):
    """A Stack that shows the child at the slider's index; the link runs in the browser."""
    stack = ipywidgets.Stack(children, selected_index=slider.index, layout={"width": "100%"})
    ipywidgets.jslink((slider, "index"), (stack, "selected_index"))
    return stack


def _figure_and_reading(frame, values):
    """(figure, reading) that `frame` returns; an error that names the values if it returns something else."""
    result = frame(*values)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Figure):
        raise TypeError(f"frame must return (Figure, reading), got {type(result).__name__} for the values {values}")
    return result[0], page.checked_text(f"the reading of frame {values}", result[1])


def _frame_html(drawing, reading):
    return (
        f'<div class="ictd-panels" style="display:flex;justify-content:center">{drawing}</div>'
        f'<p class="ictd-reading" style="{_TEXT};margin:.3em 0;text-align:center">{html.escape(reading)}</p>'
    )


def _check_size(n_bytes, shape):
    if n_bytes > MAX_BYTES:
        raise ValueError(
            f"the explorer needs about {n_bytes:,} bytes of widget state for {' x '.join(map(str, shape))} frames, "
            f"expected at most {MAX_BYTES:,}: use fewer values or draw fewer points in each frame"
        )
