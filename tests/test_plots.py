"""Figures: required texts, identical bytes, ids, text size on a phone, contrast, and what each helper draws."""

import base64
import doctest
import itertools
import os
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from ictd import plots  # noqa: E402

ALT = "A falling line: the error halves at every step."
PAGES = {"white": "#ffffff", "dark book": "#14181e", "dark JupyterLab": "#111111"}


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


def test_doctest():
    assert doctest.testmod(plots).failed == 0


# --- texts that must be there --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caption", "alt", "error", "message"),
    [
        ("", ALT, ValueError, "caption must not be empty"),
        ("  \n", ALT, ValueError, "caption must not be empty"),
        (None, ALT, TypeError, "caption must be a string, got NoneType"),
        ("Costs $x.", ALT, ValueError, "dollar sign without its partner"),
        ("A caption.", "", ValueError, "alt must not be empty"),
        ("A caption.", None, TypeError, "alt must be a string or a list of strings, got NoneType"),
        ("A caption.", "A line.", ValueError, "at least 20 characters, got 'A line.'"),
        ("The error halves each step.", "The error halves  each step", ValueError, "must not repeat the caption"),
        ("A caption.", "A line that falls as $2^{-n}$.", ValueError, "cannot hold formulas"),
        ("A caption.", [ALT, ALT], ValueError, "one for each of the 1 panels, got 2"),
        ("A caption.", [ALT[:5]], ValueError, "at least 20 characters"),
    ],
)
def test_texts_are_required(caption, alt, error, message):
    with pytest.raises(error, match=re.escape(message)):
        plots.show(figure(), caption=caption, alt=alt)


def test_texts_cannot_be_left_out():
    with pytest.raises(TypeError, match="caption"):
        plots.show(figure(), alt=ALT)
    with pytest.raises(TypeError, match="alt"):
        plots.show(figure(), caption="A caption.")


@pytest.mark.parametrize("figures", [[], None, "figure", [figure, 1]])
def test_only_figures_are_shown(figures):
    with pytest.raises(TypeError, match="figures must be a matplotlib Figure"):
        plots.show(figures, caption="A caption.", alt=ALT)


def test_markup():
    output = plots.show(figure(), caption='Errors < 1 & "more", with $a < b$.', alt='The "error" falls below 1 < 2.')
    root = ET.fromstring(re.sub(r"<img [^>]*>", "", output._repr_html_()))
    assert root.tag == "figure" and root.get("class") == "ictd-figure"
    panels, caption = root
    assert panels.get("class") == "ictd-panels" and caption.tag == "figcaption"
    assert "".join(caption.itertext()) == 'Errors < 1 & "more", with \\(a < b\\).'
    (svg,) = panels
    assert svg.get("role") == "img" and svg.get("aria-label") == 'The "error" falls below 1 < 2.'
    assert repr(output) == '[Figure: The "error" falls below 1 < 2.]'


def test_panels_share_one_text_or_have_their_own():
    one = plots.show([figure(), figure()], caption="Two panels.", alt=ALT).html
    assert one.count('role="img"') == 1 and one.count('aria-hidden="true"') == 1
    two = plots.show([figure(), figure()], caption="Two panels.", alt=[ALT, "The same line once more, unchanged."]).html
    assert two.count('role="img"') == 2 and "aria-hidden" not in two


# --- the drawing ---------------------------------------------------------------------------------------------

SCRIPT = """
import numpy as np
from ictd import plots
M = np.linspace(-1, 1, 12).reshape(3, 4)
fig, ax = plots.new(2.4)
plots.line(ax, range(5), np.exp(-np.arange(5)), low=np.zeros(5), high=np.ones(5), label="error")
plots.legend(ax)
heat, ax = plots.new(2.4)
plots.matrix(ax, M)
graph, ax = plots.new(2.4)
plots.chain(ax, [[0.5, 0.5], [1, 0]])
print(plots.show([fig, heat, graph], caption="A caption.", alt="Three panels that are not important.").html)
"""


def test_identical_from_process_to_process():
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed, "MPLBACKEND": "svg"},
            capture_output=True, text=True, check=True, timeout=120, encoding="utf-8",
        ).stdout
        for seed in ("0", "12345")
    ]  # fmt: skip
    assert "<svg" in outputs[0]
    assert outputs[0] == outputs[1]


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


def test_ids_are_unique_and_resolve():
    pages = [plots.show([figure(), figure()], caption=caption, alt=ALT).html for caption in ("One.", "Two.")]
    ids = re.findall(r' id="([^"]+)"', "".join(pages))
    assert len(ids) == len(set(ids)) > 4
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', "".join(pages)))
    assert {a or b for a, b in used} <= set(ids)


def test_nothing_reaches_outside_the_drawing():
    text = plots.show(figure(), caption="A caption.", alt=ALT).html
    assert not re.search(r"<style|<\?xml|<metadata|<!--|<script|font-family|https?://(?!www\.w3\.org)", text)
    assert "#000000" not in text and "currentColor" in text


def test_copy_for_untrusted_notebooks():
    text = plots.show(figure(), caption="A caption.", alt=ALT).html
    pattern = r'<desc><img alt="[^"]+" style="[^"]+" src="data:image/svg\+xml;base64,([^"]+)"></desc>'
    (source,) = re.findall(pattern, text)
    copy = ET.fromstring(base64.b64decode(source))
    assert copy.tag == "{http://www.w3.org/2000/svg}svg"
    assert "background:#fff" in copy.get("style")
    shown = ET.fromstring(re.sub(pattern, "", text)).find("div/svg")
    assert [re.sub("{.*}", "", node.tag) for node in copy.iter()] == [node.tag for node in shown.iter()]


def test_text_is_readable_on_a_phone():
    root = drawing(figure())
    scale = plots.PHONE_WIDTH / float(root.get("viewBox").split()[2])
    sizes = [float(root.get("font-size"))] + [
        float(size) for node in root.iter() for size in re.findall(r"font-size:([\d.]+)px", node.get("style", ""))
    ]
    assert min(sizes) * scale >= 10


@pytest.mark.parametrize("options", [{"width": 6}, {"width": 4.9}])
def test_small_text_is_refused(options):
    with pytest.raises(ValueError, match=r"pixels high on a phone, expected at least 10: use a larger font"):
        plots.show(figure(**options), caption="A caption.", alt=ALT)


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
    assert plots._shorten_path(long) == short


@pytest.mark.parametrize(
    ("number", "short"),
    [("1.23456", "1.23"), ("-0.0001", "0"), ("2.50", "2.5"), ("1.5e-7", "0"), ("-0", "0"), ("120", "120")],
)
def test_shorter_numbers(number, short):
    assert plots._shorten(number, 2) == short


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


# --- colours -------------------------------------------------------------------------------------------------


def test_contrast_of_known_colours():
    assert plots.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert plots.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("role", "page"), list(itertools.product(plots.ROLES, PAGES)))
def test_colours_stand_out_on_light_and_dark(role, page):
    assert plots.contrast(plots.COLOURS[role], PAGES[page]) >= 3


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
    fig, ax = plots.new()
    for role in plots.ROLES:
        plots.line(ax, [0, 1], [0, 1], role=role)
    assert len({line.get_marker() for line in ax.lines}) == len(plots.ROLES)
    assert len({str(line._dash_pattern) for line in ax.lines}) == len(plots.ROLES)


# --- helpers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ax: plots.line(ax, [1, 2], [1]), "equally long, got shapes (2,) and (1,)"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], low=[0, 1]), "low and high must be given together"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], role="blue"), "role must be one of estimate, reference"),
        (lambda ax: plots.bars(ax, [[1, 2]]), "values must have shape (S,); got shape (1, 2)"),
        (lambda ax: plots.bars(ax, {"a": [1], "b": [1, 2]}), "equally long arrays, got shapes [(1,), (2,)]"),
        (lambda ax: plots.bars(ax, {}), "values must hold equally long arrays, got shapes []"),
        (lambda ax: plots.bars(ax, {"a": [1], "b": [2]}, roles=["other"]), "for each of the 2 quantities, got 1"),
        (lambda ax: plots.bars(ax, [1, 2], ["x"]), "labels must have 2 entries, got 1"),
        (lambda ax: plots.legend(ax), "legend needs at least one line or bar with a label"),
        (lambda ax: plots.matrix(ax, [1, 2]), "M must have shape (R, C); got shape (2,)"),
        (lambda ax: plots.matrix(ax, [[np.nan]]), "M has no finite value"),
        (lambda ax: plots.matrix(ax, [[1.0]], limits=(1, 1)), "limits must be increasing, got (1, 1)"),
        (lambda ax: plots.matrix(ax, [[1.0]], column_labels=["a", "b"]), "column_labels must have 1 entries, got 2"),
        (lambda ax: plots.chain(ax, [[1.0, 0.0]]), "transition must be square, got shape (1, 2)"),
        (lambda ax: plots.chain(ax, [[-1.0]]), "transition must hold probabilities"),
        (lambda ax: plots.chain(ax, [[1.0]], layout="tree"), "layout must be one of 'circle', 'line'; got 'tree'"),
        (lambda ax: plots.chain(ax, [[1.0]], layout=["line"]), "layout must be one of 'circle', 'line'; got a list"),
        (lambda ax: plots.chain(ax, [[10.0]]), "transition must hold probabilities, got an entry outside [0, 1]"),
        (lambda ax: plots.chain(ax, [[np.nan]]), "transition must be finite"),
        (lambda ax: plots.chain(ax, np.full((23, 23), 1 / 23)), "at most 500 positive entries, got 529"),
        (lambda ax: plots.chain(ax, [[1.0]], digits=-1), "digits must be an integer from 0 to 15; got -1"),
        (lambda ax: plots.line(None, [1], [1]), "ax must be of type Axes; got None"),
        (lambda ax: plots.bars(ax.figure, [1]), "ax must be of type Axes; got <Figure"),
        (lambda ax: plots.matrix(np.array([ax, ax]), [[1]]), "ax must be of type Axes; got a ndarray of shape (2,)"),
        (lambda ax: plots.chain(None, [[1]]), "ax must be of type Axes; got None"),
        (lambda ax: plots.legend(None), "ax must be of type Axes; got None"),
        (
            lambda ax: plots.line(ax, [[1], [1, 2]], [1, 2]),
            "x must be an array of real numbers of shape (n,); got a list",
        ),
        (lambda ax: plots.line(ax, [1, 2], [1j, 2]), "y must be an array of real numbers of shape (n,); got a list"),
        (lambda ax: plots.line(ax, [1, 2], [None, 2]), "y must be an array of real numbers"),
        (lambda ax: plots.line(ax, [1, 2], [1e308, 2]), "y must hold numbers of at most 1e+300 in size"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], role=[]), "role must be one of estimate, reference"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], low=[0], high=[3, 4]), "low must have shape (2,); got shape (1,)"),
        (lambda ax: plots.line(ax, [1, 2], [1, 2], low=[0, 1], high="ab"), "high must be an array of real numbers"),
        (lambda ax: plots.bars(ax, [1j]), "values must be an array of real numbers of shape (S,)"),
        (lambda ax: plots.bars(ax, [1], 5), "labels must be a sequence of 1 texts, got 5"),
        (lambda ax: plots.bars(ax, [1], roles=5), "roles must be a list of roles, got 5"),
        (
            lambda ax: (plots.line(ax, [1], [1], label="a"), plots.legend(ax, 0)),
            "columns must be an integer of at least 1",
        ),
        (lambda ax: plots.matrix(ax, [[1j]]), "M must be an array of real numbers of shape (R, C)"),
        (lambda ax: plots.matrix(ax, np.eye(151)), "M must have at most 150 rows and columns, got shape (151, 151)"),
        (lambda ax: plots.matrix(ax, [[1]], limits=5), "limits must have shape (2,); got shape ()"),
        (lambda ax: plots.matrix(ax, [[1]], limits=(0, np.inf)), "limits must be finite; entry (1,) is inf"),
        (lambda ax: plots.matrix(ax, [[1.5]], digits=-1), "digits must be an integer from 0 to 15; got -1"),
        # what would be drawn for minutes, or for ever
        (lambda ax: plots.line(ax, range(10001), range(10001)), "x must hold at most 10000 points, got 10001"),
        (lambda ax: plots.bars(ax, range(501)), "values must hold at most 500 bars, got 501"),
        (lambda ax: plots.bars(ax, {"a": range(260), "b": range(260)}), "values must hold at most 500 bars, got 520"),
        (lambda ax: plots.bars(ax, [1, 2], itertools.count()), "labels must have 2 entries, got 3 or more"),
        (lambda ax: plots.chain(ax, np.eye(101)), "transition must hold at most 100 states, got 101"),
        (lambda ax: plots.matrix(ax, np.eye(31), values=True), "values can be written for at most 30 rows and columns"),
        (lambda ax: plots.svg(ax.figure, key=5), "key must be of type str; got 5"),
        (lambda ax: plots.svg(None), "fig must be of type Figure; got None"),
        (lambda ax: plots.svg(ax.figure, alt=5), "alt must be of type str; got 5"),
        (lambda ax: plots.svg(ax.figure, digits="a"), "digits must be an integer from 0 to 15; got 'a'"),
        (lambda ax: plots.show(ax.figure, caption="A\x00", alt=ALT), "caption must hold no control characters"),
        (lambda ax: plots.show(ax.figure, caption="A", alt=ALT + "\ud800"), "alt must hold no control characters"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        call(plots.new()[1])


def test_line_with_band():
    fig, ax = plots.new()
    plots.line(ax, [0, 1, 2], [1, 2, 3], low=[0, 1, 2], high=[2, 3, 4], role="reference")
    (band,) = ax.collections
    assert band.get_datalim(ax.transData).bounds == (0, 0, 2, 4)
    assert matplotlib.colors.to_hex(ax.lines[0].get_color()) == plots.COLOURS["reference"]


def test_bars_stand_beside_each_other():
    fig, ax = plots.new()
    plots.bars(ax, {"a": [1, -2, 3], "b": [4, 5, 6]}, ["s", "t", "u"])
    boxes = [bar for bar in ax.patches]
    assert [bar.get_height() for bar in boxes] == [1, -2, 3, 4, 5, 6]
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in boxes)
    assert all(right <= left for (_, right), (left, _) in zip(spans, spans[1:]))
    plots.legend(ax)
    assert {"s", "t", "u", "a", "b"} <= set(words(drawing(fig)))


def test_matrix_writes_every_value_with_contrast():
    M = np.array([[0.0, 0.5], [np.nan, 1.0]])
    fig, ax = plots.new()
    plots.matrix(ax, M, ["q", "r"], ["x", "y"], rows="query", columns="source")
    assert [text.get_text() for text in ax.texts] == ["0", "0.50", "1"]
    faces = {tuple(np.round(path.get_extents().min + 0.5).astype(int)): patch.get_facecolor()
             for patch in ax.patches for path in [patch.get_path()]}  # fmt: skip
    for text in ax.texts:
        column, row = (int(v) for v in text.get_position())
        assert plots.contrast(text.get_color(), faces[column, row]) >= 4.5
    assert {"q", "r", "x", "y", "query", "source"} <= set(words(drawing(fig)))


@pytest.mark.parametrize(("limits", "shades"), [(None, [0, 0.5, 1]), ((0, 4), [0, 0.25, 0.5]), ((1, 2), [0, 0, 1])])
def test_matrix_colours_follow_the_limits(limits, shades):
    fig, ax = plots.new()
    plots.matrix(ax, [[0.0, 1.0, 2.0]], limits=limits)
    faces = {matplotlib.colors.to_hex(patch.get_facecolor()) for patch in ax.patches}
    assert faces == {matplotlib.colors.to_hex(plots._SEQUENTIAL(round(shade * 63) / 63)) for shade in shades}


def test_labels_of_both_colour_scales_have_contrast_everywhere():
    for scale in (plots._SEQUENTIAL, plots._DIVERGING):
        for shade in np.arange(64) / 63:
            assert max(plots.contrast(ink, scale(shade)) for ink in (plots._CELL_INK, "#ffffff")) >= 4.5


def test_matrix_with_signs_is_symmetric_about_zero():
    assert plots._colour_scale(np.array([[-1.0, 3.0]]), None)[:2] == (-3.0, 3.0)
    assert plots._colour_scale(np.array([[1.0, 3.0]]), None)[:2] == (0.0, 3.0)
    assert plots._number(-0.001, 2) == "0.00" and plots._number(-1.5, 1) == "\N{MINUS SIGN}1.5"


@pytest.mark.parametrize("merge", [True, False])
def test_boxes_cover_each_cell_once(merge):
    shades = np.random.default_rng(0).integers(0, 3, size=(6, 9)).astype(float)
    shades[2, 3] = np.nan
    covered = np.full(shades.shape, np.nan)
    for shade, boxes in plots._boxes(shades, merge).items():
        for i, j, width in boxes:
            assert np.isnan(covered[i, j : j + width]).all()
            covered[i, j : j + width] = shade
    assert np.array_equal(covered, shades, equal_nan=True)


def test_large_matrix_stays_small():
    fig, ax = plots.new()
    states = np.arange(50)
    plots.matrix(ax, np.exp(-((states[:, None] - states) ** 2) / 20.0))
    assert len(ax.texts) == 0 and len(ax.get_xticks()) <= 12
    assert len(plots.svg(fig)) < 80_000


@pytest.mark.parametrize("layout", ["circle", "line"])
def test_chain_draws_each_transition_once(layout):
    transition = np.array([[0.5, 0.5, 0.0], [0.25, 0.0, 0.75], [1.0, 0.0, 0.0]])
    fig, ax = plots.new()
    plots.chain(ax, transition, ["a", "b", "c"], layout=layout)
    assert sorted(text.get_text() for text in ax.texts) == sorted(["0.5", "0.5", "0.25", "0.75", "1", "a", "b", "c"])
    arrows = [patch for patch in ax.patches if isinstance(patch, matplotlib.patches.FancyArrowPatch)]
    assert len(arrows) == 5
    place = plots._places(3, layout)
    for s, t in np.argwhere(transition > 0):
        curve, spot, _ = plots._edge(place, s, t, layout)
        # from the border of one circle to the border of the other, without crossing either
        assert 0.95 <= np.linalg.norm(curve[0] - place[s]) <= 1.1
        assert 0.95 <= np.linalg.norm(curve[-1] - place[t]) <= 1.15
        inside = [plots._bezier(curve, u) for u in np.linspace(0.05, 0.95, 19)]
        assert all(np.linalg.norm(point - place[state]) > 1 for point in inside for state in (s, t))
        assert min(np.linalg.norm(point - spot) for point in inside) < 0.5


@pytest.mark.parametrize(
    ("probability", "digits", "text"),
    [
        (0.25, 2, "0.25"), (0.5, 2, "0.5"), (1, 2, "1"), (0.001, 2, "<0.01"), (0.004, 1, "<0.1"), (0.5, 0, "<1"),
        (0.7, 0, "1"), (1, 0, "1"), (0.001, 3, "0.001"), (1e-9, 2, "<0.01"),
    ],
)  # fmt: skip
def test_no_arrow_is_drawn_with_probability_0(probability, digits, text):
    ax = plots.new()[1]
    plots.chain(ax, [[0, probability], [0, 0]], ["a", "b"], digits=digits)
    assert [label.get_text() for label in ax.texts] == [text, "a", "b"]


def test_chain_of_one_state_and_without_numbers():
    fig, ax = plots.new()
    plots.chain(ax, [[1.0]], probabilities=False)
    assert [text.get_text() for text in ax.texts] == ["1"]
    assert words(drawing(fig)) == ["1"]
