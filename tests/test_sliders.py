"""Explorers: the frame that the links select, required texts, size and what is shown without widgets."""

import doctest
import itertools
import json
import re

import numpy as np
import pytest

ipywidgets = pytest.importorskip("ipywidgets")
pytest.importorskip("matplotlib")

from ipywidgets.embed import dependency_state, embed_data  # noqa: E402

from ictd import plots  # noqa: E402
from ictd.plots import sliders  # noqa: E402

TEXTS = {"caption": "How the bars change.", "alt": "Bars of a value per state"}
SCALE = ("score scale β", [0.5, 1, 2])
STEP = ("step", [0, 1, 2, 3], ["none", "one", "two", "three"])


def frame(scale, step=0):
    fig, ax = plots.new(1.5)
    plots.bars(ax, [scale, step])
    return fig, f"scale {scale}, step {step}."


@pytest.fixture(scope="module")
def two_axes():
    return sliders.explorer(frame, [SCALE, STEP], start=(1, 2), **TEXTS)


def links(explorer):
    """(source model id, attribute, target model id, attribute) of every link in the saved state."""
    state = dependency_state([explorer])
    pairs = [(m["state"]["source"], m["state"]["target"]) for m in state.values() if m["model_name"] == "LinkModel"]
    return state, [(a.removeprefix("IPY_MODEL_"), x, b.removeprefix("IPY_MODEL_"), y) for (a, x), (b, y) in pairs]


def reading(explorer, *indices):
    """The sentence shown after the sliders were moved: what a browser does, on the saved state alone."""
    state, connections = links(explorer)
    models = [i for i in state if state[i]["model_name"] == "SelectionSliderModel"]
    order = [row.children[1].model_id for row in explorer.children[: len(indices)]]
    assert sorted(models) == sorted(order)
    for slider, index in zip(order, indices):
        for source, attribute, target, selected in connections:
            if source == slider:
                assert (attribute, selected) == ("index", "selected_index")
                state[target]["state"][selected] = index
    model = state[explorer.children[len(indices)].model_id]
    while model["model_name"] == "StackModel":
        chosen = model["state"]["children"][model["state"]["selected_index"]]
        model = state[chosen.removeprefix("IPY_MODEL_")]
    return re.search(r'class="ictd-reading"[^>]*>(.*?)</p>', model["state"]["value"])[1]


def contents(explorer):
    """What the HTML widgets of an explorer hold."""
    return [m["state"]["value"] for m in dependency_state([explorer]).values() if m["model_name"] == "HTMLModel"]


def test_doctest():
    assert doctest.testmod(sliders).failed == 0


def test_every_frame_can_be_reached(two_axes):
    for i, scale in enumerate(SCALE[1]):
        for j, step in enumerate(STEP[1]):
            assert reading(two_axes, i, j) == f"scale {scale}, step {step}."


def test_one_axis():
    explorer = sliders.explorer(frame, [SCALE], **TEXTS)
    assert [reading(explorer, i) for i in range(3)] == [f"scale {scale}, step 0." for scale in SCALE[1]]
    assert len(links(explorer)[1]) == 1


def test_number_of_links(two_axes):
    """One for the outer stack and one for each inner stack."""
    assert len(links(two_axes)[1]) == 1 + len(SCALE[1])


def test_first_frame(two_axes):
    state, _ = links(two_axes)
    both = [row.children[1] for row in two_axes.children[:2]]
    assert [slider.index for slider in both] == [1, 2]
    assert [slider.label for slider in both] == ["1", "two"]  # the readout beside each slider
    stacks = [model["state"]["selected_index"] for model in state.values() if model["model_name"] == "StackModel"]
    assert sorted(stacks) == [1, 2, 2, 2]


def test_each_frame_describes_itself(two_axes):
    frames = [content for content in contents(two_axes) if "<svg" in content]
    assert len(frames) == 12
    for content in frames:
        text = re.search(r'class="ictd-reading"[^>]*>(.*?)</p>', content)[1]
        assert f'role="img" aria-label="Bars of a value per state. {text}"' in content
    ids = [name for content in frames for name in re.findall(r' id="([^"]+)"', content)]
    assert len(ids) == len(set(ids)) > 0


def test_names_and_caption_are_visible(two_axes):
    assert sum("ictd-slider-name" in content for content in contents(two_axes)) == 2
    (caption,) = [content for content in contents(two_axes) if "ictd-caption" in content]
    assert "How the bars change." in caption and "arrow keys" in caption


def test_without_widgets_the_first_frame_is_a_figure(two_axes):
    data = two_axes._repr_mimebundle_()
    data = data[0] if isinstance(data, tuple) else data
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == "[Interactive figure: Bars of a value per state. scale 1, step 2.]"
    assert data["text/html"].startswith('<figure class="ictd-figure"')
    again = sliders.explorer(frame, [SCALE, STEP], start=(1, 2), **TEXTS)
    assert again.fallback.html == two_axes.fallback.html  # stored outputs do not change from run to run


def test_state_can_be_embedded_in_a_page(two_axes):
    data = embed_data(two_axes)
    assert len(data["view_specs"]) == 1
    assert len(json.dumps(data["manager_state"])) < sliders.MAX_BYTES


def test_frames_share_layout_and_style(two_axes):
    state = dependency_state([two_axes])
    frames = [m["state"] for m in state.values() if m["model_name"] == "HTMLModel" and "<svg" in m["state"]["value"]]
    assert len({frame["layout"] for frame in frames}) == len({frame["style"] for frame in frames}) == 1


def test_too_large():
    drawn = []

    def counted(value):
        drawn.append(value)
        return frame(value)[0], "A reading of many words. " * 2000

    with pytest.raises(
        ValueError, match=r"about [\d,]+ bytes of widget state for 30 frames, expected at most 1,000,000"
    ):
        sliders.explorer(counted, [("step", range(30))], **TEXTS)
    assert len(drawn) < 30  # it does not draw the rest


def test_frame_of_typical_size():
    """100 frames of a kernel row, bars of 10 states with two quantities, must fit."""

    def typical(step):
        fig, ax = plots.new(2.6)
        values = np.random.default_rng(step).random(10)
        plots.bars(ax, {"estimate": values, "reference": values[::-1]})
        plots.legend(ax)
        ax.set(xlabel="state s", ylabel="value", ylim=(0, 1))
        return fig, f"step {step}: largest value {values.max():.2f}."

    explorer = sliders.explorer(typical, [("step", range(2))], **TEXTS)
    assert len(explorer.children[1].children[0].value) < sliders.MAX_BYTES / 110


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"axes": []}, ValueError, "axes must be a list of one or two"),
        ({"axes": [SCALE] * 3}, ValueError, "axes must be a list of one or two"),
        ({"axes": ["step"]}, ValueError, "axes must hold (name, values)"),
        ({"axes": [("step", [1])]}, ValueError, "axis 'step' needs at least two values, got 1"),
        ({"axes": [("step", itertools.count())]}, ValueError, "axis 'step' must have at most 1000 values, got more"),
        ({"axes": [("step", [1, 2], itertools.count())]}, ValueError, "axis 'step' needs 2 labels, got 1001"),
        ({"axes": [("", [1, 2])]}, ValueError, "the name of an axis must not be empty"),
        ({"axes": [("step", [1, 2], ["a"])]}, ValueError, "axis 'step' needs 2 labels, got 1"),
        ({"axes": [("step", [1, 2], ["a", "a"])]}, ValueError, "labels of axis 'step' must differ"),
        ({"start": (3,)}, ValueError, "start must hold one index for each axis (0..2), got (3,)"),
        ({"start": (0.5,)}, ValueError, "start must hold one index"),
        ({"start": (0, 0)}, ValueError, "start must hold one index"),
        ({"start": 0}, ValueError, "start must hold one index for each axis (0..2), got 0"),
        ({"start": (1.0,)}, ValueError, "start must hold one index"),
        ({"start": (True,)}, ValueError, "start must hold one index"),
        ({"start": (-1,)}, ValueError, "start must hold one index"),
        ({"axes": [("step", 5)]}, TypeError, "axis 'step' needs a list of values and, if given, of labels, got 5"),
        ({"axes": [("step", [1, 2], 5)]}, TypeError, "axis 'step' needs a list of values"),
        ({"frame": None}, TypeError, "frame must be a function that returns (Figure, reading), got None"),
        ({"caption": ""}, ValueError, "caption must not be empty"),
        ({"caption": "With $x$."}, ValueError, "caption of an explorer cannot hold formulas"),
        ({"alt": "Bars"}, ValueError, "at least 20 characters"),
        ({"frame": lambda value: "text"}, TypeError, "frame must return (Figure, reading), got str for the values"),
        ({"frame": lambda value: (plots.new()[0], "")}, ValueError, "the reading of frame [0.5] must not be empty"),
    ],
)
def test_bad_arguments(arguments, error, message):
    arguments = {"frame": frame, "axes": [SCALE], **TEXTS, **arguments}
    with pytest.raises(error, match=re.escape(message)):
        sliders.explorer(arguments.pop("frame"), arguments.pop("axes"), **arguments)
