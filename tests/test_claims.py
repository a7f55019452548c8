"""The helper that states a claim next to the error that was found."""

import numpy as np
import pytest

from ictd.claims import Claim, chance_interval, holds, random_instance, random_instances, relative_error


def test_a_claim_shows_its_largest_error_and_tolerance():
    claim = holds("a = b", [1e-14, 3e-13, 0.0])
    assert repr(claim) == "✓ a = b: largest error 3e-13 over 3 instances (tolerance 1e-10)"
    assert "instances" not in repr(holds("a = b", 1e-14))


def test_a_claim_says_in_one_line_what_became_of_it():
    claim = Claim("small", "ours", lambda x: None if x > 2 else x * 1e-9, tolerance=1e-9)
    shown = {
        (1,): "✓ small: largest error 1e-09 (tolerance 1e-09)",
        (1, 2): "✗ small: largest error 2e-09 over 2 instances (tolerance 1e-09)",
        (3,): "- small: skipped",
    }
    assert {instances: repr(claim.on(instances)) for instances in shown} == shown


@pytest.mark.parametrize("errors", [[0.0, 2e-10], [np.nan], [1e-14, np.nan], [np.inf]])
def test_a_claim_that_does_not_hold_fails(errors):
    with pytest.raises(AssertionError, match=f"a = b: error .* in instance {len(errors) - 1}, above"):
        holds("a = b", errors)


def test_a_function_is_applied_to_each_instance_that_fits():
    claim = holds("small", lambda x: None if x > 2 else x * 1e-12, instances=[1, 2, 3])
    assert (claim.error, claim.count) == (2e-12, 2)
    with pytest.raises(ValueError, match="instances must be given"):
        holds("small", lambda x: x)


def test_no_errors_are_no_evidence():
    with pytest.raises(ValueError, match="at least one"):
        holds("a = b", [])


def test_the_error_is_relative_to_large_values_only():
    assert relative_error([1e6 + 1], [1e6]) == pytest.approx(1e-6)
    assert relative_error([0.5], [0.25]) == 0.25
    with pytest.raises(ValueError, match=r"\(1, 2\); got shape \(1, 1\)"):
        relative_error([1.0], [1.0, 2.0])


def test_relative_error_is_relative_to_the_largest_entry_of_each_layer():
    assert relative_error([[0.0, 0.1]], [[0.0, 0.0]]) == pytest.approx(0.1)
    assert relative_error([[1.0, 200.0]], [[0.0, 200.0]]) == pytest.approx(1 / 200)
    assert relative_error([[0.0], [300.0]], [[0.5], [200.0]]) == pytest.approx(0.5)


def test_the_error_is_computed_in_float64():
    assert relative_error(np.array([-128], np.int8), np.array([127], np.int8)) == 255 / 127
    assert relative_error(np.array([0, 0], np.uint8), np.array([255, 1], np.uint8)) == 1
    assert relative_error(np.array([-(2**63)]), np.array([0])) == 2.0**63
    assert np.isnan(relative_error([np.nan, 0.0], [0.0, 0.0])) and np.isnan(relative_error([np.inf], [np.inf]))
    assert relative_error([1e308], [-1e308]) == np.inf


@pytest.mark.parametrize("bad", [None, "1", [], [[1.0], [1.0, 2.0]], [1j], [None]], ids=str)
def test_only_numbers_are_compared(bad):
    with pytest.raises((TypeError, ValueError), match="found must"):
        relative_error(bad, [1.0])
    with pytest.raises((TypeError, ValueError), match="expected must"):
        relative_error([1.0], bad)


@pytest.mark.parametrize(
    "errors, error, words",
    [
        ([False, True], TypeError, "not truth values; entry 0 is False"),
        ([1e-12, np.False_], TypeError, "not truth values; entry 1 is False"),
        (np.zeros(2, bool), TypeError, "not truth values"),
        (False, TypeError, "not truth values"),
        ([-2.0], ValueError, "at least 0; entry 0 is -2"),
        ([0.0, -np.inf], ValueError, "at least 0; entry 1 is -inf"),
        (["1e-12"], TypeError, "real numbers"),
        ([[1e-12], [0.0, 0.0]], TypeError, "real numbers"),
        (None, TypeError, "real numbers"),
    ],
    ids=str,
)
def test_what_is_no_error_is_refused(errors, error, words):
    with pytest.raises(error, match=f"errors must .*{words}"):
        holds("a = b", errors)
    with pytest.raises(TypeError, match="errors must .*truth values"):
        holds("a = b", lambda case: np.allclose(0, 1), [1, 2, 3])


@pytest.mark.parametrize("tolerance", [np.inf, np.nan, -1e-10, "1e-10", None, True], ids=str)
def test_a_tolerance_is_a_finite_number(tolerance):
    with pytest.raises((TypeError, ValueError), match="tolerance must be"):
        holds("a = b", 0.0, tolerance=tolerance)


@pytest.mark.parametrize(
    "successes, trials, interval",
    [
        (14, 20, (0.4572, 0.8811)),
        (2, 5, (0.0527, 0.8534)),
        (0, 10, (0, 0.3085)),
        (20, 20, (0.8316, 1)),
        (0, 1, (0, 0.975)),
        (1000, 2000, (0.4778, 0.5222)),  # binomial coefficients beyond the largest float
    ],
)
def test_the_interval_of_a_chance_is_that_of_clopper_and_pearson(successes, trials, interval):
    assert chance_interval(successes, trials) == pytest.approx(interval, abs=1e-4)  # from tables of the beta law
    low, high = chance_interval(trials - successes, trials)
    assert chance_interval(successes, trials) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize("successes, trials", [(3, 2), (-1, 2), (0, 0), (1.0, 2), (True, 2), (1, None)])
def test_an_interval_needs_counts(successes, trials):
    with pytest.raises((TypeError, ValueError), match="successes must|trials must"):
        chance_interval(successes, trials)


def test_instances_are_reproducible_varied_and_closed_if_asked():
    first, second = (list(random_instances(np.random.default_rng(0), 60)) for _ in range(2))
    assert all((a.x == b.x).all() and (a.trajectory.states == b.trajectory.states).all() for a, b in zip(first, second))
    assert any(not p.model.visited.all() for p in first)
    assert any(p.trajectory.states[-1] not in p.trajectory.states[:-1] for p in first)
    assert all(not np.allclose(p.A, p.A.T) for p in first if len(p.A) > 1)
    for problem in first:
        assert problem.closed().trajectory.states[-1] in problem.trajectory.states[:-1]


def test_instances_cover_the_promised_range():
    cases = [random_instance(np.random.default_rng([0, i])) for i in range(400)]
    assert {len(case.X) for case in cases} == set(range(2, 13))
    assert {case.X.shape[1] for case in cases} == set(range(1, 9))
    lengths = [case.trajectory.n_transitions for case in cases]
    assert min(lengths) == 1 and max(lengths) == 60
    gammas = [case.gamma for case in cases]
    assert min(gammas) == 0 and max(gammas) == 0.99 and len(set(gammas)) > 200
    assert 0 < min(case.step_size for case in cases) < 0.05 and 0.95 < max(case.step_size for case in cases) <= 1
    assert {case.n_layers for case in cases} >= {1, 50} and max(case.n_layers for case in cases) == 50
    states = [set(case.trajectory.states.tolist()) for case in cases]
    assert any(len(seen) < len(case.X) for seen, case in zip(states, cases))  # unvisited states
    assert any(case.trajectory.states[-1] not in case.trajectory.states[:-1] for case in cases)  # never a source
    assert any(len(np.unique(case.X, axis=0)) < len(case.X) for case in cases)  # equal features
