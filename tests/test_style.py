"""The style: sizes of new figures, colours that stand out and differ for all readers, settings left alone."""

import itertools
import re
import threading

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from drawings import ALT, figure  # noqa: E402

from ictd import plots  # noqa: E402
from ictd.plots.heatmap import contrast  # noqa: E402

PAGES = {"white": "#ffffff", "dark book": "#14181e", "dark JupyterLab": "#111111"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": 0}, "height in inches must be in [0.5, 12]; got 0"),
        ({"height": float("nan")}, "height in inches must be in [0.5, 12]; got nan"),
        ({"height": "3"}, "height in inches must be a number in [0.5, 12]; got '3'"),
        ({"width": 100}, "width in inches must be in [0.5, 12]; got 100"),
        ({"width": None}, "width in inches must be a number in [0.5, 12]; got None"),
        ({"rows": 0}, "rows must be an integer of at least 1; got 0"),
        ({"columns": 1.5}, "columns must be an integer of at least 1; got 1.5"),
        ({"rows": 10**5}, "rows times columns must be at most 36; got 100000 times 1"),
        ({"rows": 7, "columns": 6}, "rows times columns must be at most 36; got 7 times 6"),
    ],
)
def test_bad_sizes(options, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        plots.new(**options)


def test_identical_when_shown_twice_and_under_other_settings():
    fig = figure()
    before = plots.show(fig, caption="A caption.", alt=ALT).html
    assert plots.show(fig, caption="A caption.", alt=ALT).html == before
    others = {"font.size": 17, "svg.fonttype": "path", "axes.facecolor": "red", "lines.linewidth": 9}
    with matplotlib.rc_context(others):
        assert plots.show(figure(), caption="A caption.", alt=ALT).html == before
        assert matplotlib.rcParams["font.size"] == 17


def test_threads_draw_the_same_and_leave_the_settings_alone():
    before, drawings = dict(matplotlib.rcParams), []

    def draw():
        drawings.append([plots.svg(figure()) for _ in range(3)])

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawings) == 4 and len({text for texts in drawings for text in texts}) == 1
    assert dict(matplotlib.rcParams) == before


def test_no_global_figure_is_left():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    plots.show(figure(), caption="A caption.", alt=ALT)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize(("role", "page"), list(itertools.product(plots.ROLES, PAGES)))
def test_colours_stand_out_on_light_and_dark(role, page):
    assert contrast(plots.COLOURS[role], PAGES[page]) >= 3


# Linear RGB as seen without one kind of cones: Machado, Oliveira, Fernandes (2009), severity 1
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(linear):
    # without the linear part near black, which no colour of the palette needs
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ np.clip(linear, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colours_differ_for_colour_blind_readers(deficiency):
    seen = []
    for colour in plots.COLOURS.values():
        c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        seen.append(lab(np.array(DEFICIENCIES[deficiency]) @ linear))
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)]
    assert min(distances) >= 10  # about 2.3 can just be noticed


def test_roles_differ_without_colour():
    ax = plots.new()[1]
    for role in plots.ROLES:
        plots.line(ax, [0, 1], [0, 1], role=role)
    assert len({line.get_marker() for line in ax.lines}) == len(plots.ROLES)
    assert len({str(line._dash_pattern) for line in ax.lines}) == len(plots.ROLES)
