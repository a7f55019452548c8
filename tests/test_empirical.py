"""The empirical model of a context, and its value, certainty equivalence."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import assert_close, contexts, on_sources

from ictd import empirical, kernels, td
from ictd.mrp import MRP, Trajectory


@given(contexts())
def test_empirical_model_counts(c):
    """Counts, relative frequencies and mean rewards, as counted in loops; NaN reward where nothing was seen."""
    model = c.model
    for u in range(len(c.X)):
        steps = [k for k in range(c.n) if c.states[k] == u]
        assert model.counts[u] == len(steps) and model.visited[u] == bool(steps)
        if steps:
            assert model.reward[u] == pytest.approx(np.mean([c.rewards[k] for k in steps]), abs=1e-12)
            for w in range(len(c.X)):
                share = sum(c.states[k + 1] == w for k in steps) / len(steps)
                assert model.transition[u, w] == pytest.approx(share, abs=1e-12)
        else:
            assert np.isnan(model.reward[u]) and not model.transition[u].any()


@given(contexts(walks=("closed",)))
def test_certainty_equivalence_is_the_value_of_the_empirical_process(c):
    """v_CE = (I - gamma P)^{-1} r on the sources, NaN elsewhere; a closed trajectory needs no boundary."""
    model = c.model
    U, _, P, r = on_sources(c)
    value = empirical.certainty_equivalence(model, c.gamma)
    assert_close(value[U], MRP(P, r, c.gamma).value(), 1e-9)
    assert np.isnan(value[~model.visited]).all()


@given(contexts(walks=("ends in a new state",)), st.floats(-5, 5))
def test_boundary_value_of_a_state_never_left(c, boundary):
    """A last state that was never left has no row: refused without ``boundary``, a constant with it."""
    model = c.model
    q = c.states[-1]
    assert_close(empirical.certainty_equivalence(model, 0)[model.visited], model.reward[model.visited], 1e-12)
    assume(c.gamma > 0)
    with pytest.raises(ValueError, match=f"state {q}.*boundary"):
        empirical.certainty_equivalence(model, c.gamma)
    value = empirical.certainty_equivalence(model, c.gamma, boundary)
    filled = np.where(np.arange(len(c.X)) == q, boundary, np.nan_to_num(value))
    bellman = model.reward + c.gamma * model.transition @ filled
    assert_close(value[model.visited], bellman[model.visited], 1e-9)
    per_state = np.full(len(c.X), np.nan)
    per_state[q] = boundary
    np.testing.assert_array_equal(empirical.certainty_equivalence(model, c.gamma, per_state), value)


def test_a_row_that_sums_to_less_than_one_leads_to_an_end_worth_0():
    """By hand: from 0 on to 1 or to the end, each half of the time; from 1 back to 0."""
    model = empirical.model_of_transitions([0, 1, 0], [1.0, 2.0, 3.0], [1, 0, empirical.END], 2)
    assert model.transition.tolist() == [[0, 0.5], [1, 0]] and model.reward.tolist() == [2, 2]
    # v0 = 2 + .8 * .5 v1, v1 = 2 + .8 v0
    assert_close(empirical.certainty_equivalence(model, 0.8), np.array([2.8, 3.6]) / 0.68, 1e-12)
    *_, last = td.context_steps(model, kernels.state_kernel(model, 20 * np.eye(2)), 0.8, np.ones(200), np.zeros(2))
    assert_close(last, empirical.certainty_equivalence(model, 0.8), 1e-12)


def test_empirical_model_is_read_only_and_its_own_copy():
    """Frozen, compared by identity, arrays that cannot be written."""
    model = empirical.empirical_model(Trajectory([0, 1, 0], [1.0, 2.0]), 3)
    for array in (model.counts, model.transition, model.reward, model.visited):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        model.counts = np.zeros(3)
    assert model == model and model != empirical.empirical_model(Trajectory([0, 1, 0], [1.0, 2.0]), 3)


def a_model(counts=(1, 0), transition=((0, 1), (0, 0)), reward=(1.0, np.nan), visited=(True, False)):
    return empirical.EmpiricalModel(counts, transition, reward, visited)


def test_counts_are_exact_up_to_what_floats_count():
    assert a_model(counts=[2**53, 0]).counts.tolist() == [2**53, 0]
    with pytest.raises(ValueError, match=r"^counts must be at most 2\*\*53; got 9007199254740994$"):
        a_model(counts=[2**53 + 2, 0])


def test_rows_above_1_by_rounding_are_divided_and_others_stay_bit_for_bit():
    rounding = 2 * np.finfo(float).eps  # of a sum of two numbers
    for total in (0.25, 1 - 1e-7, 1, 1 + rounding):
        assert a_model(transition=[[0, total], [0, 0]]).transition.tolist() == [[0, total], [0, 0]]
    for total in (1 + 2 * rounding, 1 + 1e-7, 1 + 1e-6):
        row = np.array([0.25, 0.75]) * total
        np.testing.assert_allclose(a_model(transition=[row, [0, 0]]).transition[0], [0.25, 0.75], rtol=1e-15)
        assert a_model(transition=[[0, total], [0, 0]]).transition.tolist() == [[0, 1], [0, 0]]
    with pytest.raises(ValueError, match=r"row 0 sums to 1.000002$"):
        a_model(transition=[[0, 1 + 2e-6], [0, 0]])
