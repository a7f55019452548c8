"""Lines, bands and bars: where they stand, and in which colour."""

import pytest

matplotlib = pytest.importorskip("matplotlib")

from drawings import drawing, words  # noqa: E402

from ictd import plots  # noqa: E402


def test_line_with_band():
    ax = plots.new()[1]
    plots.line(ax, [0, 1, 2], [1, 2, 3], low=[0, 1, 2], high=[2, 3, 4], role="reference")
    (band,) = ax.collections
    assert band.get_datalim(ax.transData).bounds == (0, 0, 2, 4)
    assert matplotlib.colors.to_hex(ax.lines[0].get_color()) == plots.COLOURS["reference"]


def test_bars_stand_beside_each_other():
    fig, ax = plots.new()
    plots.bars(ax, {"a": [1, -2, 3], "b": [4, 5, 6]}, ["s", "t", "u"])
    boxes = list(ax.patches)
    assert [bar.get_height() for bar in boxes] == [1, -2, 3, 4, 5, 6]
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in boxes)
    assert all(right <= left for (_, right), (left, _) in zip(spans, spans[1:]))
    plots.legend(ax)
    assert {"s", "t", "u", "a", "b"} <= set(words(drawing(fig)))
