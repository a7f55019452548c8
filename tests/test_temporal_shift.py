"""The temporal shift module: its matrices, Lemma 1 and where it ends, and how it repairs the memories."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import assert_close, contexts, loops, masked_softmax, random_arrays, run_layers, seeds, tensors

from ictd import td
from ictd.dual_head import DualHeadLayer
from ictd.prompt import build_prompt, memory_offset, rows
from ictd.temporal_shift import TSMLayer, shift_matrices, temporal_shift, tsm_step

gammas = st.sampled_from([0.0, 0.5, 0.9, 0.99])
shapes = st.tuples(st.integers(1, 5), st.integers(1, 20))


def consistent(Z, gamma):
    """The same prompt with target memories that fit its value memories."""
    Z = Z.copy()
    Z[..., -2, :-1], Z[..., -2, -1] = gamma * Z[..., -1, 1:], 0
    return Z


@settings(max_examples=60)
@given(contexts(max_steps=50))
def test_tsm_runs_weighted_softmax_td(c):
    """Theorem 1 with one head: Z_l[d+3, j] = v_l(S_j) of the plain loops, for every layer and column."""
    assert_close(run_layers(TSMLayer, c)[:, -1], loops(c))


@given(contexts(max_steps=50))
def test_tsm_is_the_dual_head(c):
    """Constructed parameters: all of Z_l agrees, memories included."""
    assert_close(run_layers(TSMLayer, c), run_layers(DualHeadLayer, c))


@given(contexts())
def test_invariant_after_every_layer(c):
    """Z_l[d+2, j] = gamma v_l(S_{j+1}) exactly, 0 in the last column; features and rewards never change."""
    history, d = run_layers(TSMLayer, c).numpy(), c.X.shape[1]
    assert (memory_offset(history, c.gamma) == 0).all() and (history[:, d + 1, -1] == 0).all()
    assert (history[:, : d + 1] == history[0, : d + 1]).all()


@given(shapes, gammas, seeds)
def test_layer_is_the_printed_formula(shape, gamma, seed):
    """U Y + W Y Pi, Y = Z + Attn(Z; V, A), with full matrices, for any V and A."""
    d, n = shape
    Z, V, A = random_arrays(seed, d, n)
    e = np.eye(d + 3)
    U = e - np.outer(e[d + 1], e[d + 1])
    W = gamma * np.outer(e[d + 1], e[d + 2])
    Pi = np.diag(np.ones(n), k=-1)
    Y = Z + V @ Z @ masked_softmax(Z, A)
    expected = U @ Y + W @ Y @ Pi
    assert_close(TSMLayer(*tensors(V, A), gamma)(torch.from_numpy(Z)), expected)
    assert_close(temporal_shift(torch.from_numpy(Y), gamma), expected, 1e-14)
    for ours, theirs in zip(shift_matrices(d, gamma), (U, W)):
        assert (ours.numpy() == theirs).all()


@given(shapes, gammas, st.integers(1, 3), seeds)
def test_lemma_1(shape, gamma, n_layers, seed):
    """TSM = dual head for full (d+3) x (d+3) A, other per layer, and any V whose target row is zero."""
    d, n = shape
    Z, _, _ = random_arrays(seed, d, n)
    tsm = dual = torch.from_numpy(consistent(Z, gamma))
    for layer in range(n_layers):
        _, V, A = random_arrays(seed + layer + 1, d, n)
        V[rows(d).target] = 0
        V, A = tensors(V, A)
        tsm, dual = TSMLayer(V, A, gamma)(tsm), DualHeadLayer(V, A, gamma)(dual)
        assert_close(tsm, dual)


def test_lemma_1_needs_a_zero_target_row():
    """Counterexample: V with a 1 in its target row. The dual head adds it, the TSM overwrites it."""
    Z = torch.from_numpy(build_prompt([[0.0], [0.0]], [3.0]))
    V, A = torch.zeros(2, 4, 4, dtype=torch.float64)
    V[2, 1] = 1.0
    dual, tsm = DualHeadLayer(V, A, 0.5)(Z), TSMLayer(V, A, 0.5)(Z)
    assert dual[2].tolist() == [3, 3] and tsm[2].tolist() == [0, 0]
    assert torch.equal(dual[[0, 1, 3]], tsm[[0, 1, 3]])


@given(shapes, st.sampled_from([0.5, 0.9]), seeds)
def test_lemma_1_needs_consistent_memories(shape, gamma, seed):
    """After one layer from an inconsistent start the two differ by the offset, in the target row only."""
    d, n = shape
    Z, V, A = random_arrays(seed, d, n)
    V[rows(d).target] = 0
    Z, V, A = tensors(Z, V, A)
    difference = DualHeadLayer(V, A, gamma)(Z) - TSMLayer(V, A, gamma)(Z)
    assert_close(difference[rows(d).target], memory_offset(Z, gamma), 1e-12)
    assert_close(difference[[*range(d + 1), d + 2]], np.zeros((d + 2, n + 1)), 1e-14)


@given(shapes, gammas, seeds)
def test_one_layer_repairs_the_memories(shape, gamma, seed):
    """After one TSM layer the memories are consistent, whatever stood in them and for every V and A."""
    Z, V, A = random_arrays(seed, *shape, batch=(2,))
    after = TSMLayer(*tensors(V, A), gamma)(torch.from_numpy(Z))
    assert (memory_offset(after, gamma) == 0).all()


@given(contexts(max_transitions=25, max_steps=20), seeds)
def test_an_offset_acts_for_one_layer(c, seed):
    """THEORY 5: layer 1 steps with rewards R_k + e_{k-1}; all later layers are TD on the true rewards from there."""
    e = np.random.default_rng(seed).normal(size=c.n + 1)
    values = run_layers(TSMLayer, c, offset=e)[:, -1].numpy()
    x, v_0, sizes = c.x, c.initial[c.states], c.step_sizes
    expected = v_0[None]
    if c.n_steps:
        first = td.weighted_softmax_td(x, c.rewards + e[:-1], c.gamma, 1, sizes[:1], initial=v_0)
        later = td.weighted_softmax_td(x, c.rewards, c.gamma, c.n_steps - 1, sizes[1:], initial=first[1])
        expected = np.concatenate([first[:1], later])
    assert_close(values, expected)


def test_the_layer_is_its_step():
    """The function takes the matrices with the prompt, and checks them as the layer does."""
    Z, V, A = tensors(*random_arrays(0, 3, 5))
    layer = TSMLayer(V, A, 0.9)
    assert torch.equal(tsm_step(Z, V, A, 0.9), layer(Z))
    with pytest.raises(ValueError, match=r"^gamma must be in \[0, 1\); got 1"):
        tsm_step(Z, V, A, 1)
    layer.V[0, 0] = torch.inf  # as by a training that diverged
    with pytest.raises(ValueError, match="^V must be finite in torch.float64; it holds NaN or infinity"):
        layer(Z)


@pytest.mark.parametrize("seed", range(2))
def test_gradients(seed):
    """autograd agrees with finite differences in Z, V and A."""
    Z, V, A = (t.requires_grad_() for t in tensors(*random_arrays(seed, 2, 3, batch=(2,))))
    assert torch.autograd.gradcheck(lambda Z, V, A: TSMLayer(V, A, 0.9)(Z), (Z, V, A))


def test_the_old_target_memory_gets_no_direct_gradient():
    """U removes row d+2: with V = 0 the output does not depend on the target memory that came in."""
    Z, _, A = tensors(*random_arrays(0, 2, 4))
    Z.requires_grad_()
    TSMLayer(torch.zeros_like(A), A, 0.9)(Z).sum().backward()
    assert not Z.grad[3].any()
    # Column 0's value is nobody's successor; the others feed their predecessor's target too.
    assert_close(Z.grad[4], np.array([1, 1.9, 1.9, 1.9, 1.9]), 1e-12)


def test_all_leading_dimensions_broadcast_together():
    """One V per row and one A per column of a 2 x 3 batch of prompts, from one prompt for all."""
    Z, V, A = tensors(*random_arrays(0, 3, 5))
    Vs, As = torch.stack([V, 2 * V])[:, None], torch.stack([A, 2 * A, 3 * A])
    batch = TSMLayer(Vs, As, 0.9)(Z)
    for i, j in np.ndindex(2, 3):
        assert_close(batch[i, j], TSMLayer(Vs[i, 0], As[j], 0.9)(Z), 1e-14)


def test_only_parameters_train():
    """A Parameter is trained, a plain tensor with requires_grad is a buffer."""
    V, A = tensors(*random_arrays(0, 3, 5)[1:])
    layer = TSMLayer(torch.nn.Parameter(V), A.requires_grad_(), 0.9)
    assert [name for name, _ in layer.named_parameters()] == ["V"]
    assert [name for name, _ in layer.named_buffers()] == ["A"]


def test_batch_is_a_loop_over_prompts():
    """Leading dimensions of Z, and one V and A per prompt."""
    Z, V, A = tensors(*random_arrays(0, 3, 5, batch=(4,)))
    batch = TSMLayer(V, A, 0.9)(Z)
    many = TSMLayer(V.expand(4, 6, 6), A.expand(4, 6, 6), 0.9)(Z)
    for i in range(4):
        assert_close(batch[i], TSMLayer(V, A, 0.9)(Z[i]), 1e-14)
        assert_close(many[i], batch[i], 1e-14)
