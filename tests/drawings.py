"""What the tests of figures share: a figure, its parsed drawing, and the words in it."""

import xml.etree.ElementTree as ET

from ictd import plots

ALT = "A falling line: the error halves at every step."


def figure(**options):
    fig, ax = plots.new(2.4, **options)
    plots.line(ax, [0, 1, 2], [1.0, 0.5, 0.25], label="error")
    ax.set(xlabel="step", ylabel="error")
    plots.legend(ax)
    return fig


def drawing(ax_or_fig):
    """The parsed SVG of a figure."""
    return ET.fromstring(plots.svg(getattr(ax_or_fig, "figure", ax_or_fig), alt=ALT))


def words(root):
    return ["".join(text.itertext()) for text in root.iter("text")]
