"""Families of random chains and features: their laws, and that every chain is irreducible."""

import numpy as np
import pytest
from strategies import assert_close

from ictd import features, mrp, tasks
from ictd.families import FAMILIES, FEATURES

# ----------------------------------------------------------------------------------------------------------- chains


def test_boyan_chains_are_those_of_mrp():
    """One chain is, number by number, the one that `mrp.boyan_chain` draws from the same generator."""
    for seed in range(5):
        batch = tasks.draw(1, 9, 4, np.random.default_rng(seed))
        process = mrp.boyan_chain(9, 0.5, np.random.default_rng(seed))
        np.testing.assert_array_equal(batch.transition[0], process.transition)
        np.testing.assert_array_equal(batch.reward[0], process.reward)


def test_many_boyan_chains_have_the_law():
    """Chains of one batch differ, and the drawn probabilities are uniform in (.01, .99): mean and deviation."""
    batch = tasks.draw(5000, 5, 1, np.random.default_rng(0))
    u = batch.transition[:, 0, 1]
    deviation = 0.98 / np.sqrt(12)
    assert u.min() > 0.01 and u.max() < 0.99 and len(np.unique(u)) == 5000
    assert abs(u.mean() - 0.5) < 5 * deviation / np.sqrt(5000) and abs(u.std() / deviation - 1) < 0.05
    allowed = np.array([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1], [1, 1, 1, 1, 1]])
    assert ((batch.transition > 0) == allowed).all()
    ratio = batch.transition[:, 4].max(axis=1) / batch.transition[:, 4].min(axis=1)
    assert ratio.max() < 99 and batch.reward.min() >= -1 and batch.reward.max() < 1
    assert abs(batch.reward.mean()) < 5 / np.sqrt(3 * batch.reward.size)


@pytest.mark.parametrize("name", [*FAMILIES, *FEATURES])
def test_a_family_is_described(name):
    """In the docstring of `tasks.draw`, to which settings and help texts lead; its function has one as well."""
    assert tasks.draw.__doc__.count(f'"{name}"') == 2, (
        f"describe {name!r} in the docstring of tasks.draw, and list it there"
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n_states", [3, 4, 11])
def test_families_are_irreducible(family, n_states):
    """From every state every other one is reached, in each of 200 tasks; rows sum to 1."""
    P = tasks.draw(200, n_states, 1, np.random.default_rng(n_states), family).transition
    reach = np.eye(n_states) + (P > 0)
    for _ in range(n_states):
        reach = (reach @ reach > 0).astype(float)
    assert reach.all() and np.abs(P.sum(axis=-1) - 1).max() < 1e-14 and (P >= 0).all()


def test_shapes_of_the_families():
    """Rings move to neighbours, loops onwards or stay, sparse chains have at most three successors."""
    n = 7
    right = np.roll(np.eye(n), 1, axis=1)
    drawn = {family: tasks.draw(300, n, 1, np.random.default_rng(1), family).transition for family in FAMILIES}
    ring, loop, sparse, dense = (drawn[family] for family in ("ring", "loop", "sparse", "dense"))
    assert (ring[:, right + right.T == 0] == 0).all()
    forward = ring[:, right == 1]
    assert forward.min() >= 0.1 and forward.max() < 0.9 and abs(forward.mean() - 0.5) < 0.02
    assert (loop[:, right + np.eye(n) == 0] == 0).all() and loop[:, right == 1].min() >= 0.5
    successors = (sparse > 0).sum(axis=-1)
    assert successors.max() == 3 and successors.min() == 1  # two random successors may be equal, or the next state
    assert (sparse[:, right == 1] >= 0.1 / 3).all()
    # uniform on the simplex: mean 1 / n, variance (n - 1) / (n^2 (n + 1))
    assert abs(dense.var() / ((n - 1) / (n**2 * (n + 1))) - 1) < 0.05


# --------------------------------------------------------------------------------------------------------- features


def test_one_hot_features_are_permuted_anew_for_each_task():
    """Every task has a permutation of the indicators, all places equally likely."""
    X = tasks.draw(4000, 4, 4, np.random.default_rng(0), features="one_hot", feature_scale=3.0).features
    assert set(np.unique(X)) == {0, 3}
    assert (X.sum(axis=1) == 3).all() and (X.sum(axis=2) == 3).all()
    assert np.abs((X == 3).mean(axis=0) - 0.25).max() < 5 * np.sqrt(3 / 16 / 4000)
    assert len({task.tobytes() for task in X}) == 24


def test_triangular_features_are_the_same_for_all_tasks():
    """They sum to the scale, whatever the state."""
    X = tasks.draw(3, 13, 4, np.random.default_rng(0), features="triangular", feature_scale=2.0).features
    for task in X:
        np.testing.assert_array_equal(task, 2 * features.triangular(13, 4))
    assert_close(X.sum(axis=-1), np.full((3, 13), 2.0), 1e-14)


def test_gaussian_features():
    """Mean 0, deviation the scale, different in each task."""
    X = tasks.draw(2000, 5, 3, np.random.default_rng(0), feature_scale=0.5).features
    error = 5 / np.sqrt(X.size)
    assert abs(X.mean()) < 0.5 * error and abs(X.std() / 0.5 - 1) < error
    assert len(np.unique(X)) == X.size
