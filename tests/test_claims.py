"""The helper that states a claim next to the error that was found."""

import numpy as np
import pytest

from ictd.claims import holds, random_instances, relative_error


def test_a_claim_shows_its_largest_error_and_tolerance():
    claim = holds("a = b", [1e-14, 3e-13, 0.0])
    assert repr(claim) == "✓ a = b: largest error 3e-13 over 3 instances (tolerance 1e-10)"
    assert "instances" not in repr(holds("a = b", 1e-14))


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


def test_instances_are_reproducible_varied_and_closed_if_asked():
    first, second = (list(random_instances(np.random.default_rng(0), 60)) for _ in range(2))
    assert all((a.x == b.x).all() and (a.trajectory.states == b.trajectory.states).all() for a, b in zip(first, second))
    assert any(not p.model.visited.all() for p in first)
    assert any(p.trajectory.states[-1] not in p.trajectory.states[:-1] for p in first)
    assert all(not np.allclose(p.A, p.A.T) for p in first if len(p.A) > 1)
    for problem in first:
        assert problem.closed().trajectory.states[-1] in problem.trajectory.states[:-1]
