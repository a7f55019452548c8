"""The dual-head layer: Theorem 1, its invariant, and what it does when the memories disagree."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from strategies import Context, assert_close, contexts, loops, masked_softmax, random_arrays, run_layers, seeds, tensors

from ictd import empirical
from ictd.attention import constructed_parameters, shift_left, softmax_attention
from ictd.dual_head import DualHeadLayer, dual_head_step, target_value_matrix
from ictd.mrp import Trajectory
from ictd.prompt import build_prompt, memory_offset


@settings(max_examples=60)
@given(contexts(max_steps=50))
def test_theorem_1(c):
    """Z_l[d+3, j] = v_l(S_j) of weighted softmax TD in plain loops, for every layer and column."""
    assert_close(run_layers(DualHeadLayer, c)[:, -1], loops(c))


@given(contexts(max_transitions=20, max_steps=15), seeds)
def test_theorem_1_for_any_score_block(c, seed):
    """The same with a non-symmetric d x d score block: x_i^T A x_j for source i and query j."""
    A = np.random.default_rng(seed).normal(size=(c.X.shape[1],) * 2) / 2
    assert_close(run_layers(DualHeadLayer, c, A)[:, -1], loops(c, A))


@given(contexts())
def test_invariant_after_every_layer(c):
    """Z_l[d+2, j] = gamma v_l(S_{j+1}), 0 in the last column; features and rewards never change."""
    history, d = run_layers(DualHeadLayer, c).numpy(), c.X.shape[1]
    assert np.abs(memory_offset(history, c.gamma)).max() <= 1e-10 * max(1, np.abs(history[:, -1]).max())
    assert (history[:, d + 1, -1] == 0).all()
    assert (history[:, : d + 1] == history[0, : d + 1]).all()


@given(contexts(max_steps=5), seeds)
def test_layer_is_the_printed_formula(c, seed):
    """Z + Attn(Z; V, A) + Attn(Z; V', A') Pi with full matrices, two different heads and an explicit Pi."""
    d, n = c.X.shape[1], min(c.n, 8)
    Z, V, A = random_arrays(seed, d, n)
    _, V_target, A_target = random_arrays(seed + 1, d, n)
    Pi = np.diag(np.ones(n), k=-1)
    assert (Pi[np.arange(1, n + 1), np.arange(n)] == 1).all()
    expected = Z + V @ Z @ masked_softmax(Z, A) + V_target @ Z @ masked_softmax(Z, A_target) @ Pi
    Z, V, A, V_target, A_target = tensors(Z, V, A, V_target, A_target)
    assert_close(DualHeadLayer(V, A, c.gamma, V_target, A_target)(Z), expected)
    by_parts = Z + softmax_attention(Z, V, A) + shift_left(softmax_attention(Z, V_target, A_target))
    assert_close(by_parts, expected)


@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_default_target_head(gamma):
    """V' = gamma e_{d+2} e_{d+3}^T V and A' = A when they are not given."""
    Z, V, A = tensors(*random_arrays(0, 3, 5))
    e = torch.eye(6, dtype=torch.float64)
    V_target = gamma * torch.outer(e[4], e[5]) @ V
    assert torch.equal(target_value_matrix(V, gamma), V_target)
    assert_close(DualHeadLayer(V, A, gamma)(Z), DualHeadLayer(V, A, gamma, V_target, A)(Z), 1e-14)
    constructed, _ = constructed_parameters(3, 0.5)
    assert target_value_matrix(constructed, 0.9)[4].tolist() == pytest.approx([0, 0, 0, 0.45, 0.45, -0.45])


def test_the_layer_is_its_step():
    """The function takes the matrices with the prompt, and checks them as the layer does."""
    Z, V, A = tensors(*random_arrays(0, 3, 5))
    _, V_target, A_target = tensors(*random_arrays(1, 3, 5))
    assert torch.equal(dual_head_step(Z, V, A, 0.9), DualHeadLayer(V, A, 0.9)(Z))
    own = dual_head_step(Z, V, A, 0.9, A_target=A_target, V_target=V_target)
    assert torch.equal(own, DualHeadLayer(V, A, 0.9, V_target, A_target)(Z))
    for wrong, message in (
        ({"gamma": 1}, r"gamma must be in \[0, 1\); got 1"),
        ({"V_target": V[:5, :5]}, r"V_target must have shape \(..., 6, 6\); got shape \(5, 5\)"),
        ({"Z": 1e200 * Z}, "Z must give finite results in torch.float64; it has entries of up to"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            dual_head_step(**({"Z": Z, "V": V, "A": A, "gamma": 0.9} | wrong))


def test_a_layer_checks_matrices_that_were_changed():
    """As by a training that diverged."""
    Z, V, A = tensors(*random_arrays(0, 3, 5))
    layer = DualHeadLayer(torch.nn.Parameter(V), A, 0.9, A_target=A.clone())
    layer.A_target[0, 0] = torch.nan
    with pytest.raises(ValueError, match="^A_target must be finite in torch.float64; it holds NaN or infinity"):
        layer(Z)


@given(contexts(max_steps=30), seeds)
def test_an_offset_of_the_memories_stays(c, seed):
    """THEORY 5: e = row d+2 - gamma * shifted row d+3 is the same at every layer, and its last entry idles."""
    e = np.random.default_rng(seed).normal(size=c.n + 1)
    history = run_layers(DualHeadLayer, c, offset=e).numpy()
    scale = max(1, np.abs(history[:, -1]).max())
    assert_close(memory_offset(history, c.gamma) / scale, np.broadcast_to(e / scale, (c.n_steps + 1, c.n + 1)))


@given(contexts(max_transitions=25, max_steps=20), seeds)
def test_an_offset_of_the_memories_acts_as_reward(c, seed):
    """THEORY 5: with offset e the read-out is weighted softmax TD with rewards R_k + e_{k-1}."""
    e = np.random.default_rng(seed).normal(size=c.n + 1)
    assert_close(run_layers(DualHeadLayer, c, offset=e)[:, -1], loops(c, rewards=c.rewards + e[:-1]))


def test_an_offset_changes_the_limit():
    """The dual head with offset e goes to the value of the wrong rewards: certainty equivalence of R_k + e_{k-1}."""
    states, rewards = [0, 1, 2, 0, 1, 2, 0], np.array([1.0, -1, 2, 1, -1, 2])
    c = Context(Trajectory(states, rewards), 2 * np.eye(3), 0.5, 80, 1.0, np.zeros(3))
    e = np.array([0.5, 0, 0, 0.5, 0, 0, 9.0])
    model = empirical.empirical_model(Trajectory(states, rewards + e[:-1]), 3)
    wrong = empirical.certainty_equivalence(model, 0.5)[states]
    right = empirical.certainty_equivalence(empirical.empirical_model(c.trajectory, 3), 0.5)[states]
    assert_close(run_layers(DualHeadLayer, c, offset=e)[-1, -1], wrong)
    assert_close(run_layers(DualHeadLayer, c)[-1, -1], right)
    assert np.abs(wrong - right).max() > 0.1


@pytest.mark.parametrize("independent", [False, True])
def test_gradients(independent):
    """autograd agrees with finite differences in V and A, and in the target head's own V and A."""
    Z, V, A = tensors(*random_arrays(1, 2, 3, batch=(2,)))
    _, V_target, A_target = tensors(*random_arrays(2, 2, 3))
    inputs = [t.requires_grad_() for t in ((V, A, V_target, A_target) if independent else (V, A))]

    def layer(V, A, V_target=None, A_target=None):
        return DualHeadLayer(V, A, 0.9, V_target, A_target)(Z)

    assert torch.autograd.gradcheck(layer, inputs)


def test_parameters_train_and_buffers_do_not():
    """A Parameter is a parameter of the layer; a plain tensor is a buffer; both are saved."""
    V, A = constructed_parameters(2)
    layer = DualHeadLayer(torch.nn.Parameter(V), A, 0.9)
    assert [name for name, _ in layer.named_parameters()] == ["V"]
    assert set(layer.state_dict()) == {"V", "A"}
    layer(torch.from_numpy(build_prompt(np.ones((3, 2)), [1.0, 2.0]))).sum().backward()
    assert layer.V.grad.any()


def test_only_parameters_train_whatever_requires_a_gradient():
    """A plain tensor becomes a buffer, also with requires_grad; a gradient still flows to it."""
    V, A = constructed_parameters(2)
    layer = DualHeadLayer(V.requires_grad_(), A, 0.9)
    assert not list(layer.parameters()) and {name for name, _ in layer.named_buffers()} >= {"V", "A"}
    layer(torch.from_numpy(build_prompt(np.ones((3, 2)), [1.0, 2.0]))).sum().backward()
    assert V.grad.any()


def test_all_leading_dimensions_broadcast_together():
    """One V per row, one A per column and one target head per prompt of a 2 x 3 batch."""
    Z, V, A = tensors(*random_arrays(0, 3, 5, batch=(2, 3)))
    Vs = torch.stack([V, 2 * V])[:, None]
    As = torch.stack([A, 2 * A, 3 * A])
    heads = torch.arange(6.0, dtype=torch.float64).reshape(2, 3, 1, 1) * A
    batch = DualHeadLayer(Vs, As, 0.9, A_target=heads)(Z)
    for i, j in np.ndindex(2, 3):
        assert_close(batch[i, j], DualHeadLayer(Vs[i, 0], As[j], 0.9, A_target=heads[i, j])(Z[i, j]), 1e-14)


def test_batch_is_a_loop_over_prompts():
    """Leading dimensions of Z, and one V and A per prompt."""
    Z, V, A = tensors(*random_arrays(0, 3, 5, batch=(4,)))
    batch = DualHeadLayer(V, A, 0.9)(Z)
    many = DualHeadLayer(V.expand(4, 6, 6), A.expand(4, 6, 6), 0.9)(Z)
    for i in range(4):
        assert_close(batch[i], DualHeadLayer(V, A, 0.9)(Z[i]), 1e-14)
        assert_close(many[i], batch[i], 1e-14)
