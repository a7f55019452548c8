"""Errors against depth and context length, and the laws that are fitted to them."""

import copy

import numpy as np
import pytest

from ictd import convergence, empirical, features, kernels, mrp, rates, td

# -------------------------------------------------------------------------- errors against depth and context length


def contexts_drawn(process, n, m, rng):
    """What `error_curves` draws for one length: m paths at a time, until m are complete."""
    drawn, complete = [], 0
    while complete < m:
        first = rng.choice(process.n_states, m, p=process.start)
        drawn.extend(mrp.sample_paths(process.transition, first, rng.random((m, n))))
        complete = sum(set(states[:-1].tolist()) == set(range(process.n_states)) for states in drawn)
    return drawn


def test_error_curves_agree_with_td_one_trajectory_at_a_time():
    """The same trajectories, through `td` and without any batch."""
    rng = np.random.default_rng(7)
    process = mrp.boyan_chain(4, 0.8, rng)
    X, A = features.gaussian(4, 3, rng, 1.5), rng.standard_normal((3, 3))
    again = copy.deepcopy(rng)
    curves = rates.error_curves(process, X, [40, 9], 5, 12, rng, A, 0.7)
    assert curves.errors.shape == curves.distances.shape == (2, 5, 13)
    assert curves.floors.shape == curves.radii.shape == (2, 5)
    drawn = {n: contexts_drawn(process, n, 5, again) for n in (40, 9)}
    for k, n in enumerate(curves.lengths):
        trajectories = [mrp.Trajectory(states, process.reward[states[:-1]]) for states in drawn[n]]
        complete = [t for t in trajectories if set(t.states[:-1].tolist()) == {0, 1, 2, 3}]
        assert curves.complete[k] == len(complete) / len(trajectories)
        for i, trajectory in enumerate(complete[:5]):
            model = empirical.empirical_model(trajectory, 4)
            fixed = empirical.certainty_equivalence(model, 0.8)
            values = td.weighted_softmax_td_states(trajectory, X, 0.8, 12, 0.7, kernels.bilinear_score(A))
            J = convergence.iteration_matrix(kernels.empirical_kernel(trajectory, X, A), model.transition, 0.8, 0.7)
            for found, expected in (
                (curves.errors[k, i], np.abs(values - process.value()).max(axis=1)),
                (curves.distances[k, i], np.abs(values - fixed).max(axis=1)),
                (curves.floors[k, i], np.abs(fixed - process.value()).max()),
                (curves.radii[k, i], convergence.spectral_radius(J)),
            ):
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert curves.complete[1] < 1  # incomplete contexts did occur


def test_curves_of_one_seed_repeat():
    process = mrp.MRP([[0.5, 0.5], [1.0, 0.0]], [1.0, 0.0], 0.9)
    one, two = (rates.error_curves(process, np.eye(2), [5, 6], 3, 4, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.errors, two.errors)
    with pytest.raises(ValueError):
        one.errors[0] = 0
    with pytest.raises(AttributeError):
        one.errors = two.errors
    assert one == one and one != two and len({one, two}) == 2  # compared by identity


def test_rare_complete_contexts_are_waited_for():
    """As long as the chain has states; one in a hundred is complete here, so thousands are drawn."""
    process = mrp.MRP([[0.99, 0.01], [0.5, 0.5]], [1.0, 0.0], 0.5, [1.0, 0.0])
    curves = rates.error_curves(process, np.eye(2), [2], 20, 3, np.random.default_rng(0))
    assert curves.errors.shape == (1, 20, 4) and curves.lengths.tolist() == [2]
    assert 0.005 < curves.complete[0] < 0.02


def test_equal_features_keep_the_error_from_the_floor():
    """With two equal features the kernel is singular: the limit depends on the start, no longer on the data alone."""
    rng = np.random.default_rng(1)
    process, X = mrp.boyan_chain(10, 0.9, np.random.default_rng(0)), rng.standard_normal((10, 4))
    X[7] = X[2]
    curves = rates.error_curves(process, X, [1000], 20, 400, rng)
    np.testing.assert_allclose(curves.radii, 1, atol=1e-9)
    assert np.median(curves.errors[..., -1]) > 3 * np.median(curves.floors)
    np.testing.assert_allclose(curves.errors[..., 300], curves.errors[..., 400], rtol=1e-2)  # it has settled


@pytest.fixture(scope="module")
def one_hot_curves():
    rng = np.random.default_rng(0)
    process = mrp.boyan_chain(10, 0.9, rng)
    return rates.error_curves(process, features.one_hot(10, 4.0), [100, 300, 1000, 3000, 10000, 30000], 40, 200, rng)


def test_the_floor_is_the_certainty_equivalence_error_and_falls_like_the_root_of_n(one_hot_curves):
    curves = one_hot_curves
    np.testing.assert_allclose(curves.errors[..., -1], curves.floors, atol=1e-7)
    assert curves.distances[..., -1].max() < 1e-7
    slope = rates.fitted_slope(curves.lengths, curves.floors, np.random.default_rng(1))
    assert -0.60 < slope.value < -0.45
    assert slope.low < -0.5 < slope.high
    by_hand = np.polyfit(np.log(curves.lengths), np.log(curves.floors.mean(axis=1)), 1)[0]
    assert slope.value == pytest.approx(by_hand, rel=1e-12)


def test_late_rates_are_the_spectral_radius(one_hot_curves):
    curves = one_hot_curves
    np.testing.assert_allclose(curves.radii, 0.9, atol=0.01)
    for distances, radii in zip(curves.distances, curves.radii):
        rate = rates.fitted_rate(distances, (60, 100), np.random.default_rng(2))
        assert rate.low <= rate.value <= rate.high
        assert abs(rate.value - radii.mean()) < 0.02


@pytest.mark.parametrize("dim", [4, 10])
def test_late_rates_of_gaussian_features(dim):
    """Each trajectory against its own radius, which now differs from gamma and may belong to a complex pair."""
    rng = np.random.default_rng(8)
    for _ in range(4):
        process = mrp.boyan_chain(8, 0.9, rng)
        curves = rates.error_curves(process, features.gaussian(8, dim, rng), [100, 400], 4, 600, rng)
        for distances, radius in zip(curves.distances.reshape(8, -1), curves.radii.ravel()):
            rate = rates.fitted_rate(distances[None], (300, 600) if radius > 0.95 else (60, 150), rng)
            assert rate.value == pytest.approx(radius, abs=0.02)
            assert rate.low == pytest.approx(rate.value) and rate.high == pytest.approx(rate.value)


# ------------------------------------------------------------------------------------------------------------- fits


def test_fits_of_exact_laws():
    rng = np.random.default_rng(9)
    layers, factors = np.arange(31), np.array([0.7, 0.8, 0.9])
    errors = 5 * factors[:, None] ** layers
    rate = rates.fitted_rate(errors, (10, 30), rng)
    assert rate.value == pytest.approx(np.exp(np.log(factors).mean()), rel=1e-12)
    assert 0.7 - 1e-12 <= rate.low < rate.value < rate.high <= 0.9 + 1e-12
    lengths = np.array([10, 100, 1000])
    floors = np.array([1.0, 2.0, 4.0]) * lengths[:, None] ** -0.5
    slope = rates.fitted_slope(lengths, floors, rng)
    assert slope == pytest.approx((-0.5, -0.5, -0.5), rel=1e-12)
    # The bootstrap interval of a mean is near that of the normal law.
    logs = np.random.default_rng(10).standard_normal(400)
    interval = rates.fitted_rate(np.exp(np.outer(logs, [0, 1])), (0, 1), rng)
    half = 1.96 * logs.std() / 20
    np.testing.assert_allclose(np.log(interval), logs.mean() + np.array([0, -half, half]), atol=0.15 * half)


def test_two_thousand_resamples_if_not_said_otherwise():
    errors = np.random.default_rng(0).uniform(1, 2, (6, 12))
    for fit, arguments in ((rates.fitted_rate, (errors, (0, 3))), (rates.fitted_slope, (range(1, 7), errors))):
        default, given, few = (fit(*arguments, np.random.default_rng(1), *n) for n in ((), (2000,), (20,)))
        assert default == given != few


def test_only_the_window_of_a_rate_must_be_positive():
    errors = np.append(2.0 ** -np.arange(5), 0.0)[None]
    assert rates.fitted_rate(errors, (1, 4), np.random.default_rng(0)).value == pytest.approx(0.5)
    with pytest.raises(ValueError, match="positive"):
        rates.fitted_rate(errors, (1, 5), np.random.default_rng(0))
