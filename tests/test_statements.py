"""Statements of chapters 1 to 5 that were once too wide: what holds, and an instance of what does not."""

import itertools

import numpy as np
import pytest
import torch
from strategies import on_sources

from ictd import attention, convergence, empirical, features, kernels, mrp, td
from ictd.claims import random_instances
from ictd.model import SoftmaxICTD
from ictd.prompt import build_prompt

BACK_AND_FORTH = mrp.Trajectory([0, 1, 0], [1.0, -1.0])


def instances(count=60, seed=0):
    return list(random_instances(np.random.default_rng(seed), count))


def leaked(states, rewards, gamma, n_states):
    """Fixed point of a leaked query, solved on states: one more transition from S_n to a place that is worth 0."""
    counts, sums = np.zeros((n_states, n_states)), np.zeros(n_states)
    np.add.at(counts, (states[:-1], states[1:]), 1)
    np.add.at(sums, states[:-1], rewards)
    total = counts.sum(axis=1)
    total[states[-1]] += 1
    U = total > 0
    P, r = (counts[U] / total[U, None])[:, U], sums[U] / total[U]
    return np.linalg.solve(np.eye(U.sum()) - gamma * P, r), U


# policy_evaluation


@pytest.mark.parametrize("gamma", [0.3, 0.9])
def test_batch_td_settles_for_steps_below_two_over_one_plus_gamma_and_not_always_above(gamma):
    border = 2 / (1 + gamma)
    for p in instances():
        _, _, P, _ = on_sources(p.closed())
        J = convergence.iteration_matrix(np.eye(len(P)), P, gamma, 0.999 * border)
        assert convergence.spectral_radius(J) < 1
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    radius = convergence.spectral_radius(convergence.iteration_matrix(np.eye(2), swap, gamma, 1.001 * border))
    assert radius == pytest.approx(1.001 * border * (1 + gamma) - 1) and radius > 1


def test_a_start_without_the_swinging_part_settles_even_at_the_border():
    """Why the rewards of A, B, A must be unequal there."""
    for rewards, settles in [([1.0, 1.0], True), ([1.0, -1.0], False)]:
        walk, rest = mrp.Trajectory([0, 1, 0], rewards), (0.9, 2000, 2 / 1.9, kernels.tabular_score())
        target = empirical.certainty_equivalence(empirical.empirical_model(walk, 2), 0.9)
        run = td.weighted_softmax_td_states(walk, features.one_hot(2), *rest)
        assert (np.abs(run[-1] - target).max() < 1e-6) == settles


def test_a_value_within_a_tenth_need_not_stay_there():
    """TD(0) with a constant step size, on the walk of the first explorer made longer."""
    process = mrp.boyan_chain(6, gamma=0.9, rng=np.random.default_rng(2))
    walk = process.sample(20_000, np.random.default_rng(0))
    v, truth, outside = np.zeros(6), process.value(), []
    for s, reward, successor in zip(walk.states, walk.rewards, walk.states[1:]):
        v[s] += 0.1 * (reward + 0.9 * v[successor] - v[s])
        outside.append(np.abs(v - truth).max() > 0.1)
    assert not outside[2_999] and not outside[5_999]  # the readings of the explorer
    assert 0.2 < np.mean(outside[3_000:]) < 0.5


# weighted_softmax_td


def test_the_speed_limit_is_an_eigenvalue_not_the_largest_one():
    slower = []
    for p in instances(150):
        closed = p.closed()
        _, M, P, _ = on_sources(closed)
        radius = convergence.spectral_radius(convergence.iteration_matrix(M, P, p.gamma))
        assert radius >= p.gamma - 1e-9
        slower.append(radius > p.gamma + 1e-6)
    assert np.mean(slower) > 0.5


def test_a_start_without_a_part_along_one_beats_the_discount_and_almost_no_other_does():
    score, rest = kernels.inner_product_score(2.5), (features.one_hot(2), 0.9, 60, 1.0)
    target = empirical.certainty_equivalence(empirical.empirical_model(BACK_AND_FORTH, 2), 0.9)

    def rate(initial, first, last):
        errors = np.abs(td.weighted_softmax_td_states(BACK_AND_FORTH, *rest, score, initial) - target).max(axis=1)
        return (errors[last] / errors[first]) ** (1 / (last - first))

    assert rate(None, 0, 20) < 0.7
    for seed in range(20):
        assert rate(np.random.default_rng(seed).normal(size=2), 40, 60) == pytest.approx(0.9, abs=1e-3)


def test_small_scales_have_errors_of_second_order_in_every_instance_with_three_sources():
    def errors(p, epsilon):
        sources = p.x[:-1]
        centred = p.x @ (sources - sources.mean(axis=0)).T
        scores = [kernels.bilinear_score(sign * epsilon * np.eye(p.x.shape[1])) for sign in (1, -1)]
        plus, minus = (len(sources) * kernels.softmax_kernel(p.x, sources, score) for score in scores)
        return np.array(
            [np.abs(plus - 1 - epsilon * centred).max(), np.abs((plus - minus) / (2 * epsilon) - centred).max()]
        )

    for p in instances(50, seed=12):
        if p.model.visited.sum() > 2:
            assert errors(p, 2e-3) / errors(p, 1e-3) == pytest.approx(4, abs=0.05)

    class TwoEquallyFrequent:
        x = np.array([[1.0], [-0.4], [1.0]])

    one_head, two_heads = errors(TwoEquallyFrequent, 2e-2) / errors(TwoEquallyFrequent, 1e-2)
    assert one_head > 7.5 and two_heads == pytest.approx(4, abs=0.05)


def test_weights_of_states_keep_one_value_for_each_state_and_weights_of_positions_do_not():
    rng = np.random.default_rng(3)
    states, rewards, kappa = rng.integers(0, 3, 13), rng.normal(size=12), rng.uniform(0.1, 2, (3, 3))

    def spread(weights, steps=5):
        v, K = np.zeros(13), weights / weights.sum(axis=1, keepdims=True)
        for _ in range(steps):
            v = v + K @ (rewards + 0.8 * v[1:] - v[:-1])
        return max(np.ptp(v[states == s]) for s in np.unique(states))

    assert spread(kappa[states][:, states[:-1]]) < 1e-12
    assert spread(rng.uniform(0.1, 2, (13, 12))) > 0.1


def test_equal_lengths_listen_to_themselves_if_no_two_states_share_their_features():
    X = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    score = kernels.inner_product_score(100.0)
    assert kernels.softmax_kernel(X, X, score).diagonal().min() > 0.99
    assert kernels.softmax_kernel(X[[0, 0, 2]], X[[0, 0, 2]], score).diagonal().min() == pytest.approx(0.5)


def test_two_sources_converge_at_step_one_and_a_new_query_can_make_them_diverge():
    rng = np.random.default_rng(4)
    for _ in range(300):
        X, counts, P = rng.normal(size=(2, 3)), rng.integers(1, 9, 2), rng.dirichlet([0.3, 0.3], 2)
        weights = counts * np.exp(X @ X.T)
        J = convergence.iteration_matrix(weights / weights.sum(axis=1, keepdims=True), P, 0.9)
        assert convergence.spectral_radius(J) < 1
    angles = np.array([0, 0.3, np.pi / 2])
    X, new = np.column_stack([np.cos(angles), np.sin(angles)]), mrp.Trajectory([0, 1, 2], [1.0, -1.0])
    run = td.weighted_softmax_td_states(new, X, 0.9, 300, 1.0, kernels.inner_product_score(5.0))
    assert np.abs(run[-1]).max() > 1e6


def test_one_long_step_removes_the_common_level_and_helps_more_with_one_hot_features():
    """The exercise on twenty steps: what is said of one-hot and of normally distributed features."""
    sizes, gains = np.r_[10.0, np.ones(19)], {"one-hot": [], "gaussian": []}
    for seed in range(40):
        rng = np.random.default_rng([77, seed])
        process = mrp.boyan_chain(8, 0.9, rng)
        walk, X = process.sample(200, rng), features.gaussian(8, 4, rng)
        model = empirical.empirical_model(walk, 8)
        if not model.visited.all():
            continue
        target = empirical.certainty_equivalence(model, 0.9)
        for name, given, scale in [("one-hot", features.one_hot(8), 6.0), ("gaussian", X, 1.0)]:
            score = kernels.inner_product_score(scale)
            runs = [td.weighted_softmax_td_states(walk, given, 0.9, 20, s, score)[-1] for s in (1.0, sizes)]
            gains[name].append([np.abs(run - target).max() for run in runs])
        M = kernels.state_kernel(model, features.one_hot(8), kernels.inner_product_score(6.0))
        moduli = np.sort(np.abs(np.linalg.eigvals(convergence.iteration_matrix(M, model.transition, 0.9))))
        assert moduli[-1] == pytest.approx(0.9) and moduli[-2] < 0.8  # the common level is what is slow
    slow, fast = np.median(gains["one-hot"], axis=0)
    assert fast < slow / 100
    slow, fast = np.median(gains["gaussian"], axis=0)
    assert slow / 20 < fast < slow / 2


# prompt_matrix


def test_a_leaked_query_pulls_against_its_own_sign_not_towards_zero():
    v, _ = leaked(np.array([0, 1, 0]), np.array([3.0, -4.0]), 0.5, 2)
    assert v == pytest.approx([4 / 7, -26 / 7])
    farther = []
    for p in instances(150):
        p = p.closed()
        v, U = leaked(p.trajectory.states, p.rewards, p.gamma, len(p.X))
        certain = empirical.certainty_equivalence(p.model, p.gamma)[U]
        at = int(U[: p.trajectory.states[-1]].sum())
        moved = (v - certain) * np.sign(certain[at])
        assert (moved <= 1e-9).all() and abs(v[at]) <= abs(certain[at])
        farther.append((np.abs(v) > np.abs(certain) + 1e-12).any())
    assert 0.3 < np.mean(farther) < 0.7


# dual_head_layer


def test_with_a_late_mask_it_is_not_always_the_query_that_loses_most():
    losers = []
    for p in instances(200):
        if len(np.unique(p.trajectory.states)) > 1:
            omega = kernels.softmax_kernel(p.x, p.x)[:, -1]
            losers.append(omega[-1] >= omega.max() - 1e-12)
    assert 0.7 < np.mean(losers) < 0.98


def test_a_matrix_that_softmax_does_not_see_needs_one_hot_features():
    rng = np.random.default_rng(5)
    A, unseen = torch.zeros(7, 7, dtype=torch.float64), torch.zeros(7, 7, dtype=torch.float64)
    A[:4, :4] = torch.from_numpy(rng.normal(size=(4, 4)))
    unseen[:4] = torch.from_numpy(rng.normal(size=7))  # u c^T with ones in the feature rows of u
    states, rewards = rng.integers(0, 4, 21), rng.normal(size=20)

    def change(X):
        Z = torch.from_numpy(build_prompt(X[states], rewards))
        return float((attention.attention_weights(Z, A) - attention.attention_weights(Z, A + unseen)).abs().max())

    assert change(features.one_hot(4)) < 1e-12
    assert change(features.gaussian(4, 4, rng)) > 0.01


# temporal_shift_module


@pytest.mark.parametrize("shared", [True, False])
def test_a_run_from_mirrored_parameters_is_the_mirrored_run(shared):
    """Independent heads: TD updates through Adam, with weight decay and clipping by norm, bit for bit."""
    flips = {"value_weights": [1, -1, 1], "target_weights": [-1, 1, -1]}

    def train(mirrored):
        generator = torch.Generator().manual_seed(0)
        form = dict(shared=shared, form="independent_heads", init_scale=0.3)
        model = SoftmaxICTD(2, 3, 0.8, generator=generator, **form)
        signs = {name: torch.tensor(flips.get(name, 1.0)) for name, _ in model.named_parameters()}
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter *= signs[name] if mirrored else 1
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.01)
        rng = np.random.default_rng(1)
        for _ in range(30):
            Z = build_prompt(rng.normal(size=(4, 9, 2)), rng.normal(size=(4, 8)))
            v = model.values(Z)[:, -1]
            delta = torch.from_numpy(Z[:, 2, :-1]) + 0.8 * v[:, 1:] - v[:, :-1]
            optimiser.zero_grad()
            (-delta.detach() * v[:, :-1]).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            optimiser.step()
        return {name: p.detach() * (signs[name] if mirrored else 1) for name, p in model.named_parameters()}

    run, image = train(False), train(True)
    assert all(torch.equal(run[name], image[name]) for name in run)
    assert float(run["value_weights"][..., 1].abs().min()) > 0.01  # the sign of w_T is decided


@pytest.mark.parametrize("gamma", [0.0, 0.8])
def test_no_sign_change_of_the_temporal_shift_form_keeps_the_values_unless_the_discount_is_zero(gamma):
    rng = np.random.default_rng(0)
    Z = build_prompt(rng.normal(size=(9, 2)), rng.normal(size=8))

    def values(signs):
        model = SoftmaxICTD.constructed(2, 3, gamma)
        with torch.no_grad():
            model.value_weights *= torch.tensor(signs)
        return model.values(Z).detach()

    same = {signs for signs in itertools.product([1, -1], repeat=3) if torch.equal(values(signs), values((1, 1, 1)))}
    assert same == ({(1, 1, 1)} if gamma else {(1, 1, 1), (1, -1, 1)})
