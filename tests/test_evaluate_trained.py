"""A trained model on one's own walk: `evaluate.evaluate(..., model=)` against the forward pass on the prompt."""

import numpy as np
import pytest

from ictd import evaluate as ev
from ictd import features, mrp, prompt

torch = pytest.importorskip("torch")
from ictd.model import FullICTD, SoftmaxICTD  # noqa: E402

S, D, GAMMA, LAYERS = 5, 3, 0.7, 4


def walk(n=30, seed=0):
    """Labels of the states, rewards, features of every row, and the trajectory behind them."""
    rng = np.random.default_rng(seed)
    trajectory = mrp.boyan_chain(S, GAMMA, rng).sample(n, rng)
    X = features.gaussian(S, D, rng, 0.7)
    return [f"s{s}" for s in trajectory.states], trajectory.rewards, X[trajectory.states], trajectory


def model(kind=SoftmaxICTD, seed=1, **options):
    generator = torch.Generator().manual_seed(seed)
    return kind(D, LAYERS, GAMMA, generator=generator, init_scale=0.3, **options)


@pytest.mark.parametrize(
    "trained",
    [
        model(),
        model(shared=False),
        model(form="dual_head"),
        model(form="independent_heads"),
        model(dtype=torch.float32),
        model(FullICTD),
        model(FullICTD, form="dual_head"),
    ],
    ids=lambda m: f"{type(m).__name__}-{m.form}-{next(m.parameters()).dtype}-{m.shared}",
)
def test_trained_values_are_the_read_outs_of_the_prompt(trained):
    labels, rewards, x, trajectory = walk()
    result = ev.evaluate(labels, rewards, x, model=trained)
    assert result.gamma == GAMMA and result.n_layers == LAYERS
    columns = trained.values(prompt.build_prompt(x, rewards))[-1].detach().double().numpy()
    expected = [columns[np.array(labels) == label].mean() for label in result.states]
    tolerance = 1e-10 if next(trained.parameters()).dtype == torch.float64 else 1e-4
    np.testing.assert_allclose(result.trained, expected, rtol=tolerance, atol=tolerance)


def test_the_constructed_model_gives_the_construction():
    labels, rewards, x, _ = walk()
    result = ev.evaluate(labels, rewards, x, model=SoftmaxICTD.constructed(D, LAYERS, GAMMA))
    np.testing.assert_allclose(result.trained, result.value, rtol=1e-10)


def test_the_column_stands_beside_the_construction(tmp_path):
    labels, rewards, x, _ = walk()
    result = ev.evaluate(labels, rewards, x, model=model())
    assert result.columns == ("state", "visits", "value", "trained", "certainty_equivalence", "standard_error")
    assert result.table().splitlines()[0].split()[:4] == ["state", "visits", "value", "trained"]
    result.save(tmp_path / "v.csv")
    lines = (tmp_path / "v.csv").read_text().splitlines()
    assert lines[0] == ",".join(result.columns)
    np.testing.assert_allclose([float(line.split(",")[3]) for line in lines[1:]], result.trained, rtol=1e-15)
    assert "trained" not in ev.evaluate(labels, rewards, x).columns


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"model": "m"}, TypeError, "model must be a SoftmaxICTD or a FullICTD; got 'm'"),
        ({"gamma": 0.5}, ValueError, "gamma must be that of the model, 0.7, or be left out; got 0.5"),
        ({"n_layers": 5}, ValueError, "n_layers must be that of the model, 4, or be left out; got 5"),
        ({"features": None}, ValueError, "features must be given for the model"),
        ({"features": np.ones((31, 2))}, ValueError, r"features must have the 3 columns .* got shape \(31, 2\)"),
        ({"episodes": [0] * 31}, ValueError, "model must be used on one walk"),
        ({"done": [False] * 31}, ValueError, "model must be used on one walk"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(changes, error, words):
    labels, rewards, x, _ = walk()
    with pytest.raises(error, match=f"^{words}"):
        ev.evaluate(labels, rewards, **({"features": x, "model": model()} | changes))


def test_a_long_walk_needs_a_masked_model():
    labels, rewards, x, _ = walk(6000)
    assert np.isfinite(ev.evaluate(labels, rewards, x, model=model()).trained).all()
    with pytest.raises(ValueError, match="^states must be at most 5000 for a model with free matrices"):
        ev.evaluate(labels, rewards, x, model=model(FullICTD))


def test_values_that_overflow_are_refused():
    labels, rewards, x, _ = walk()
    wild = model()
    wild.value_weights.data.fill_(1e200)
    with pytest.raises(ValueError, match="overflow"):
        ev.evaluate(labels, rewards, x, model=wild)
