"""The states of a Markov chain as circles and its transitions as arrows."""

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch
from matplotlib.path import Path

from ictd import _checks
from ictd._arguments import array, declare, flag, option
from ictd.plots import arguments
from ictd.plots.style import COLOURS, book_settings

# More take seconds to draw and megabytes to load.
MAX_STATES = 100
MAX_ARROWS = 500


@book_settings()
@declare(
    ax=arguments.axes,
    transition=array("S", "S"),
    layout=option("circle", "line"),
    probabilities=flag,
    digits=arguments.digits,
)
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
    if transition.shape[0] != transition.shape[1]:
        raise ValueError(f"transition must be square, got shape {transition.shape}")
    if (transition < 0).any() or (transition > 1 + _checks.SUM_TOLERANCE).any():
        raise ValueError("transition must hold probabilities, got an entry outside [0, 1]")
    arguments.check_count("transition", len(transition), MAX_STATES, "states")
    n_arrows = np.count_nonzero(transition)
    if n_arrows > MAX_ARROWS:
        raise ValueError(
            f"transition must have at most {MAX_ARROWS} positive entries, got {n_arrows}: draw a part of it, or a heat "
            f"map with matrix"
        )
    n_states = len(transition)
    labels = arguments.labels("labels", labels, n_states)
    centres = state_centres(n_states, layout)
    ink, drawn = "black", [centres - 1, centres + 1]
    for (s, t), p in np.ndenumerate(transition):
        if p > 0:
            curve, spot, outward = edge(centres, s, t, layout)
            drawn.append(curve)
            ax.add_patch(
                FancyArrowPatch(
                    path=Path(curve, [Path.MOVETO, *[Path.CURVE4] * 3]), arrowstyle="-|>", mutation_scale=9,
                    color=COLOURS["estimate"], linewidth=0.8 + 1.4 * p, shrinkA=0, shrinkB=0,
                )
            )  # fmt: skip
            if probabilities:
                drawn.append([spot + outward])
                _write_beside(ax, spot, outward, _probability_text(p, digits))
    for (x, y), label in zip(centres, labels):
        ax.add_patch(Circle((x, y), 1, facecolor="none", edgecolor=ink, linewidth=1.2))
        ax.text(x, y, label, ha="center", va="center", color=ink)
    corners = np.concatenate(drawn)
    (left, bottom), (right, top) = corners.min(0) - 0.2, corners.max(0) + 0.2
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    ax.set_axis_off()


def _probability_text(p, digits):
    """`p` > 0 without zeros at its end; a bound where rounding would write 0."""
    if round(p, digits) == 0:
        return f"<{10.0**-digits:.{digits}f}"
    text = f"{p:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def _write_beside(ax, spot, outward, text):
    """Text that touches `spot` from the direction `outward`, whatever the scale of the axes."""
    room = 3 + np.abs(outward) @ [3.2 * len(text), 5]  # points: half of the text's width and height
    ax.annotate(text, spot, outward * room, textcoords="offset points", ha="center", va="center", annotation_clip=False)


def state_centres(n_states, layout):
    """Centres of the states (S, 2); each state is a circle of radius 1."""
    if layout == "line":
        return np.stack([4.2 * np.arange(n_states), np.zeros(n_states)], axis=1)
    radius = 0.0 if n_states == 1 else max(3.2, 4.6 / (2 * np.sin(np.pi / n_states)))
    top = np.pi if n_states == 2 else np.pi / 2  # two states stand beside each other
    angle = top - 2 * np.pi * np.arange(n_states) / n_states
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def edge(centres, s, t, layout):
    """The arrow from state s to state t: control points (4, 2), where its label goes (2,) and on which side (2,).

    `centres` and `layout` as in `state_centres`.
    """
    start, end = centres[s], centres[t]
    if s == t:
        outward = np.array([0.0, -1.0]) if layout == "line" or not start.any() else start / np.linalg.norm(start)
        side = np.array([-outward[1], outward[0]])
        ends = [start + np.cos(0.45) * outward + sign * np.sin(0.45) * side for sign in (1, -1)]
        controls = [start + 3.0 * outward + sign * 1.5 * side for sign in (1, -1)]
        curve = np.array([ends[0], *controls, ends[1]])
        return curve, bezier(curve, 0.5), outward
    along = (end - start) / np.linalg.norm(end - start)
    left = np.array([-along[1], along[0]])
    if layout == "circle":
        lift = 0.8  # both directions bow to their left, so that they do not cover each other
    elif t - s == 1:
        lift = 0.0
    else:
        lift = 1.0 + (0.9 if t > s else 1.4) * abs(t - s)
    middle = (start + end) / 2 + lift * left
    # leave and enter on the border of the circles, towards the control point
    first, last = ((middle - centre) / np.linalg.norm(middle - centre) for centre in (start, end))
    a, b = start + 1.05 * first, end + 1.1 * last
    curve = np.array([a, a + (middle - a) * 2 / 3, b + (middle - b) * 2 / 3, b])
    # off the middle, where arrows cross: near the source, but near the target where many return from one state
    label_at = 0.38 if layout == "circle" else 0.5 if t > s else 0.65
    below = layout == "line" and t - s == 1  # straight arrows, away from the arcs above them
    return curve, bezier(curve, label_at), -left if below else left


def bezier(controls, t):
    """The point (2,) of a cubic Bézier curve at t in [0, 1]; `controls` (4, 2)."""
    return np.array([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3]) @ controls
