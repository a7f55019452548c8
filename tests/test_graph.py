"""Markov chains: each transition is drawn once, from border to border, with its probability."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from drawings import drawing, words  # noqa: E402

from ictd import plots  # noqa: E402
from ictd.plots import graph  # noqa: E402


@pytest.mark.parametrize("layout", ["circle", "line"])
def test_chain_draws_each_transition_once(layout):
    transition = np.array([[0.5, 0.5, 0.0], [0.25, 0.0, 0.75], [1.0, 0.0, 0.0]])
    ax = plots.new()[1]
    plots.chain(ax, transition, ["a", "b", "c"], layout=layout)
    assert sorted(text.get_text() for text in ax.texts) == sorted(["0.5", "0.5", "0.25", "0.75", "1", "a", "b", "c"])
    arrows = [patch for patch in ax.patches if isinstance(patch, matplotlib.patches.FancyArrowPatch)]
    assert len(arrows) == 5
    centres = graph.state_centres(3, layout)
    for s, t in np.argwhere(transition > 0):
        curve, spot, _ = graph.edge(centres, s, t, layout)
        # from the border of one circle to the border of the other, without crossing either
        assert 0.95 <= np.linalg.norm(curve[0] - centres[s]) <= 1.1
        assert 0.95 <= np.linalg.norm(curve[-1] - centres[t]) <= 1.15
        inside = [graph.bezier(curve, u) for u in np.linspace(0.05, 0.95, 19)]
        assert all(np.linalg.norm(point - centres[state]) > 1 for point in inside for state in (s, t))
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
