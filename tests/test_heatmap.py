"""Heat maps: colours that follow the values, labels that can be read, each cell drawn once."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from drawings import drawing, words  # noqa: E402

from ictd import plots  # noqa: E402
from ictd.plots.heatmap import CELL_INK, DIVERGING, SEQUENTIAL, contrast  # noqa: E402


def shade(scale, share):
    """The colour at a share between 0 and 1 of a scale, which is drawn in 64 shades."""
    return matplotlib.colors.to_hex(scale(round(share * 63) / 63))


def cells(ax):
    """{(row, column): colour} of the cells that are drawn, none of them twice."""
    colours = {}
    for patch in ax.patches:
        for box in patch.get_path().vertices.reshape(-1, 5, 2):
            (left, top), (right, bottom) = box.min(axis=0), box.max(axis=0)
            for column in range(round(left + 0.5), round(right + 0.5)):
                cell = round((top + bottom) / 2), column
                assert cell not in colours
                colours[cell] = matplotlib.colors.to_hex(patch.get_facecolor())
    return colours


def test_contrast_of_known_colours():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_matrix_writes_every_value_with_contrast():
    fig, ax = plots.new()
    plots.matrix(ax, [[0.0, 0.5], [np.nan, 1.0]], ["q", "r"], ["x", "y"], rows="query", columns="source")
    assert [text.get_text() for text in ax.texts] == ["0", "0.50", "1"]
    for text in ax.texts:
        column, row = (int(v) for v in text.get_position())
        assert contrast(text.get_color(), cells(ax)[row, column]) >= 4.5
    assert {"q", "r", "x", "y", "query", "source"} <= set(words(drawing(fig)))


@pytest.mark.parametrize(("limits", "shares"), [(None, [0, 0.5, 1]), ((0, 4), [0, 0.25, 0.5]), ((1, 2), [0, 0, 1])])
def test_matrix_colours_follow_the_limits(limits, shares):
    ax = plots.new()[1]
    plots.matrix(ax, [[0.0, 1.0, 2.0]], limits=limits)
    assert cells(ax) == {(0, j): shade(SEQUENTIAL, share) for j, share in enumerate(shares)}


def test_labels_of_both_colour_scales_have_contrast_everywhere():
    for scale in (SEQUENTIAL, DIVERGING):
        for share in np.arange(64) / 63:
            assert max(contrast(ink, scale(share)) for ink in (CELL_INK, "#ffffff")) >= 4.5


@pytest.mark.parametrize(
    ("row", "scale", "shares"),
    [([-1.0, 3.0], DIVERGING, [1 / 3, 1]), ([1.0, 3.0], SEQUENTIAL, [1 / 3, 1])],
)
def test_matrix_with_signs_is_symmetric_about_zero(row, scale, shares):
    ax = plots.new()[1]
    plots.matrix(ax, [row])
    assert cells(ax) == {(0, j): shade(scale, share) for j, share in enumerate(shares)}


def test_values_have_a_true_minus_sign_and_no_negative_zero():
    ax = plots.new()[1]
    plots.matrix(ax, [[-0.001, -1.5]], digits=1)
    assert [text.get_text() for text in ax.texts] == ["0.0", "\N{MINUS SIGN}1.5"]


@pytest.mark.parametrize("shape", [(6, 9), (12, 11)])  # with gaps between the cells, and with neighbours merged
def test_each_cell_is_drawn_once_in_its_colour(shape):
    M = np.random.default_rng(0).integers(0, 3, size=shape).astype(float)
    M[2, 3] = np.nan
    ax = plots.new()[1]
    plots.matrix(ax, M, limits=(0, 2), values=False)
    assert cells(ax) == {cell: shade(SEQUENTIAL, value / 2) for cell, value in np.ndenumerate(M) if not np.isnan(value)}


def test_large_matrix_stays_small():
    fig, ax = plots.new()
    states = np.arange(50)
    plots.matrix(ax, np.exp(-((states[:, None] - states) ** 2) / 20.0))
    assert len(ax.texts) == 0 and len(ax.get_xticks()) <= 12
    assert len(plots.svg(fig)) < 80_000
