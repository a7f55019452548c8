"""The drawing as SVG: text size on a phone, room for all text, short numbers and paths that keep every shape."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from drawings import ALT, drawing, figure  # noqa: E402

from ictd import plots  # noqa: E402
from ictd.plots import style, vector  # noqa: E402


def test_text_is_readable_on_a_phone():
    root = drawing(figure())
    scale = style.PHONE_WIDTH / float(root.get("viewBox").split()[2])
    sizes = [float(root.get("font-size"))] + [
        float(size) for node in root.iter() for size in re.findall(r"font-size:([\d.]+)px", node.get("style", ""))
    ]
    assert min(sizes) * scale >= 10


@pytest.mark.parametrize("options", [{"width": 6}, {"width": 4.9}])
def test_small_text_is_refused(options):
    with pytest.raises(ValueError, match=r"pixels high on a phone, expected at least 10: use a larger font"):
        plots.show(figure(**options), caption="A caption.", alt=ALT)


def test_nothing_sticks_out():
    """The second layout pass matters: a legend changes the ticks, and these the room for the label."""
    fig, ax = plots.new(2.6)
    plots.bars(ax, {"TD after 5 layers": [1, 2, 0.5, -0.3], "certainty equivalence": [1.1, 2.1, 0.6, -0.4]})
    plots.legend(ax, columns=1)
    ax.set(xlabel="state s", ylabel="value")
    root = drawing(fig)
    width, height = map(float, root.get("viewBox").split()[2:])
    places = [(float(t.get("x")), float(t.get("y"))) for t in root.iter("text")]
    assert all(5 <= x <= width and 5 <= y <= height for x, y in places)


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("M 0 144 \nL 216 144 \nL 216 0 \nz\n", "M0 144 216 144 216 0z"),
        ("M 0 3 \nC 1 2 3 4 5 6 \nC 7 8 9 1 2 3 \nL 1 1", "M0 3C1 2 3 4 5 6 7 8 9 1 2 3L1 1"),
        ("M 1 1 L 2 2 M 3 3 L 4 4", "M1 1 2 2M3 3 4 4"),
    ],
)
def test_shorter_paths(long, short):
    assert vector.shorten_path(long) == short


@pytest.mark.parametrize(
    ("number", "short"),
    [("1.23456", "1.23"), ("-0.0001", "0"), ("2.50", "2.5"), ("1.5e-7", "0"), ("-0", "0"), ("120", "120")],
)
def test_shorter_numbers(number, short):
    assert vector.round_numbers(number, 2) == short


def test_compact_drawing_keeps_every_shape():
    """Points of the curve survive: 200 points, rounded to a hundredth of a point."""
    fig, ax = plots.new(2.4)
    x = np.linspace(0, 1, 200)
    plots.line(ax, x, np.sin(9 * x), markers=False)
    ax.lines[0].get_path().should_simplify = False
    (path,) = [p.get("d") for p in drawing(fig).iter("path") if p.get("d").count(" ") > 300]
    points = np.array(re.findall(r"-?[\d.]+", path), dtype=float).reshape(-1, 2)
    assert len(points) == 200
    expected = ax.transData.transform(np.stack([x, np.sin(9 * x)], axis=1)) * 72 / fig.dpi
    assert np.allclose(points[:, 0], expected[:, 0], atol=0.02)
    assert np.allclose(points[:, 1], 72 * fig.get_figheight() - expected[:, 1], atol=0.02)
