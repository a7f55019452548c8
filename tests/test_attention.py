"""Softmax attention with the source mask, against the formula written out with full matrices in NumPy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import assert_close, contexts, masked_softmax, random_arrays, seeds, tensors

from ictd import kernels
from ictd.attention import attention_weights, constructed_parameters, shift_left, softmax_attention
from ictd.dual_head import DualHeadLayer
from ictd.model import FullICTD, SoftmaxICTD
from ictd.prompt import build_prompt
from ictd.temporal_shift import TSMLayer

shapes = st.tuples(st.integers(1, 6), st.integers(1, 30))


@given(shapes, seeds)
def test_attention_is_the_formula(shape, seed):
    """Attn(Z; V, A) = V Z softmax(Z^T A Z + Mask) with the full (n+1) x (n+1) softmax, for any V, A and Z."""
    Z, V, A = random_arrays(seed, *shape)
    assert_close(softmax_attention(*tensors(Z, V, A)), V @ Z @ masked_softmax(Z, A))


@given(shapes, seeds)
def test_weights_leave_out_only_the_masked_row(shape, seed):
    """The n x (n+1) weights are the full ones without row n, which is 0; columns sum to 1."""
    Z, _, A = random_arrays(seed, *shape)
    weights = attention_weights(*tensors(Z, A))
    full = masked_softmax(Z, A)
    assert (full[-1] == 0).all()
    assert_close(weights, full[:-1])
    assert_close(weights.sum(dim=0), np.ones(shape[1] + 1), 1e-12)


@given(shapes, seeds)
def test_the_query_is_no_source(shape, seed):
    """What stands in the last column never reaches another column: not its features, reward or memories."""
    Z, V, A = random_arrays(seed, *shape)
    other = Z.copy()
    other[:, -1] = np.random.default_rng(seed + 1).normal(size=Z.shape[0]) * 100
    outputs = [softmax_attention(*tensors(z, V, A)) for z in (Z, other)]
    assert torch.equal(outputs[0][:, :-1], outputs[1][:, :-1])


@given(shapes, seeds)
def test_the_querys_rewards_and_memories_do_not_leak(shape, seed):
    """With scores of the features only, rows d+1..d+3 of the last column change nothing, not even its own output."""
    d = shape[0]
    Z, V, _ = random_arrays(seed, *shape)
    _, A = constructed_parameters(d)
    other = Z.copy()
    other[d:, -1] = 1e6
    assert torch.equal(softmax_attention(*tensors(Z, V), A), softmax_attention(*tensors(other, V), A))


@given(shapes, seeds)
def test_source_order_does_not_matter(shape, seed):
    """Permuting the source columns permutes their outputs; the query's output stays."""
    Z, V, A = random_arrays(seed, *shape)
    order = np.append(np.random.default_rng(seed + 1).permutation(shape[1]), shape[1])
    assert_close(softmax_attention(*tensors(Z[:, order], V, A)), softmax_attention(*tensors(Z, V, A))[:, order])


@given(shapes, seeds)
def test_scores_put_the_source_on_the_left(shape, seed):
    """Source i, query j: Z_i^T A Z_j, as kernels.bilinear_score has it; the transposed A differs."""
    d, n = shape
    Z, _, A = random_arrays(seed, d, n)
    A[d:], A[:, d:] = 0, 0
    x = Z[:d].T
    weights = attention_weights(*tensors(Z, A)).numpy()
    assert_close(weights.T, kernels.softmax_kernel(x, x[:-1], kernels.bilinear_score(A[:d, :d])))
    if d > 1 and n > 1:
        assert np.abs(weights - attention_weights(*tensors(Z, A.T.copy())).numpy()).max() > 1e-6


def test_score_by_hand():
    """A = e_1 e_2^T: the score of source i for query j is Z[1, i] Z[2, j] (rows from 1)."""
    Z = torch.zeros(5, 3, dtype=torch.float64)
    Z[0, 1], Z[1, 2] = 1.0, 2.0
    A = torch.zeros(5, 5, dtype=torch.float64)
    A[0, 1] = 1.0
    odds = np.exp(2.0)
    expected = [[0.5, 0.5, 1 / (1 + odds)], [0.5, 0.5, odds / (1 + odds)]]
    assert_close(attention_weights(Z, A), np.array(expected), 1e-14)


@given(contexts())
def test_constructed_weights_are_the_td_kernel(c):
    """A = diag(I_d, 0, 0, 0): attention weights are the kernel K(k | j) of weighted softmax TD."""
    _, A = constructed_parameters(c.X.shape[1])
    Z = torch.from_numpy(build_prompt(c.x, c.rewards, c.initial[c.states], c.gamma))
    assert_close(attention_weights(Z, A).T, kernels.softmax_kernel(c.x, c.x[:-1]))


@given(contexts(), st.sampled_from([1.0, 0.3]))
def test_constructed_head_adds_the_weighted_td_errors(c, alpha):
    """V = alpha e_{d+3} (e_{d+1} + e_{d+2} - e_{d+3})^T: only the value row moves, by alpha sum_k K delta_k."""
    V, A = constructed_parameters(c.X.shape[1], alpha)
    v = c.initial[c.states]
    output = softmax_attention(torch.from_numpy(build_prompt(c.x, c.rewards, v, c.gamma)), V, A).numpy()
    delta = c.rewards + c.gamma * v[1:] - v[:-1]
    assert_close(output[-1], alpha * kernels.softmax_kernel(c.x, c.x[:-1]) @ delta)
    assert not output[:-1].any()


def test_constructed_parameters_by_hand():
    """The matrices of the paper for d = 2, alpha = .5."""
    V, A = constructed_parameters(2, 0.5)
    assert A.tolist() == np.diag([1.0, 1, 0, 0, 0]).tolist()
    assert V[-1].tolist() == [0, 0, 0.5, 0.5, -0.5] and not V[:-1].any()
    assert constructed_parameters(2, dtype=torch.float32)[0].dtype == torch.float32


@given(shapes, seeds)
def test_batch_is_a_loop_over_prompts(shape, seed):
    """Leading dimensions of Z, and of V and A, broadcast."""
    Z, V, A = random_arrays(seed, *shape, batch=(2, 3))
    output = softmax_attention(*tensors(Z, V, A))
    assert output.shape == Z.shape
    own = torch.from_numpy(np.stack([V, 2 * V])[:, None])
    per_row = softmax_attention(torch.from_numpy(Z), own, torch.from_numpy(A))
    for i, j in np.ndindex(2, 3):
        alone = softmax_attention(*tensors(Z[i, j], V, A))
        assert_close(output[i, j], alone)
        assert_close(per_row[i, j], (i + 1) * alone)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e4, 1e8])
def test_large_scores_are_stable(dtype, size):
    """Scores of +-1e4 and more: finite, columns sum to 1, all weight on the largest score, ties share it."""
    Z = torch.tensor([[1.0, -1.0, -1.0, 1.0], [5, 6, 7, 8], [0, 0, 0, 0], [0, 0, 0, 0]], dtype=dtype)
    V, A = torch.eye(4, dtype=dtype), torch.zeros(4, 4, dtype=dtype)
    A[0, 0] = size
    assert attention_weights(Z, A).T.tolist() == [[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5], [1, 0, 0]]
    assert softmax_attention(Z, V, A)[1].tolist() == [5, 6.5, 6.5, 5]


@given(shapes, seeds)
def test_shift_left_is_the_product_with_pi(shape, seed):
    """Y Pi with Pi[j+1, j] = 1: column j becomes column j+1, the last column 0."""
    Y, _, _ = random_arrays(seed, *shape, batch=(2,))
    n = shape[1]
    Pi = np.zeros((n + 1, n + 1))
    for j in range(n):
        Pi[j + 1, j] = 1
    assert (shift_left(torch.from_numpy(Y)).numpy() == Y @ Pi).all()


@pytest.mark.parametrize("seed", range(3))
def test_gradients(seed):
    """autograd agrees with finite differences in Z, V and A."""
    Z, V, A = (t.requires_grad_() for t in tensors(*random_arrays(seed, 2, 3, batch=(2,))))
    assert torch.autograd.gradcheck(softmax_attention, (Z, V, A))
    assert torch.autograd.gradcheck(attention_weights, (Z, A))


def test_the_query_gets_no_gradient_as_a_source():
    """The other columns' outputs do not depend on the last column."""
    Z, V, A = tensors(*random_arrays(0, 3, 6))
    Z.requires_grad_()
    softmax_attention(Z, V, A)[:, :-1].sum().backward()
    assert not Z.grad[:, -1].any() and Z.grad[:, :-1].any()


def test_the_trusted_formula_lets_overflow_through():
    """Callers inside the package, such as a training, get the same numbers without checks, and NaN."""
    Z, V, A = tensors(*random_arrays(0, 2, 5))
    assert torch.equal(softmax_attention.trusted(Z, V, A), softmax_attention(Z, V, A))
    Z[0, 1] = 1e200
    assert torch.isnan(attention_weights.trusted(Z, torch.ones_like(A))[:, 1]).all()


LARGE = [(torch.float16, 256.0), (torch.bfloat16, 2e19), (torch.float32, 2e19), (torch.float64, 2e154)]
COMPUTE = {
    "attention_weights": lambda Z, V, A: attention_weights(Z, A),
    "softmax_attention": softmax_attention,
    "DualHeadLayer": lambda Z, V, A: DualHeadLayer(V, A, 0.9)(Z),
    "TSMLayer": lambda Z, V, A: TSMLayer(V, A, 0.9)(Z),
    "FullICTD": lambda Z, V, A: FullICTD.from_matrices(V[None], A[None], 2, 0.9).values(Z),
    "SoftmaxICTD": lambda Z, V, A: SoftmaxICTD.constructed(2, 2, 0.9, dtype=Z.dtype)(Z),
    "independent heads": lambda Z, V, A: SoftmaxICTD.constructed(
        2, 2, 0.9, dtype=Z.dtype, form="independent_heads"
    ).values(Z),
}


@pytest.mark.parametrize("signs", [(1, 1, 1), (1, -1, -1), (1, -1, 1)])
@pytest.mark.parametrize("dtype, size", LARGE)
@pytest.mark.parametrize("name", COMPUTE)
def test_scores_that_overflow_are_refused(name, dtype, size, signs):
    """Scores of infinity would become NaN, and those of minus infinity weights of 0, without a word."""
    V, A = constructed_parameters(2, dtype=dtype)
    x = np.array(signs)[:, None] * np.ones(2)
    prompt = torch.from_numpy(build_prompt(x, np.ones(2)))

    def of_size(factor):
        return torch.cat([prompt[:2] * factor, prompt[2:]]).to(dtype)

    with pytest.raises(ValueError, match="^Z0? must give finite"):
        COMPUTE[name](of_size(size), V, A)
    assert torch.isfinite(COMPUTE[name](of_size(0.4 * size), V, A)).all()


@pytest.mark.parametrize("dtype, largest", [(torch.float16, 6e4), (torch.float32, 3e38), (torch.float64, 1e308)])
@pytest.mark.parametrize("name", ["softmax_attention", "DualHeadLayer", "TSMLayer", "FullICTD"])
def test_values_that_overflow_are_refused(name, dtype, largest):
    """Here the product of V and Z is too large: twice the reward."""
    V, A = constructed_parameters(2, dtype=dtype)
    Z = torch.from_numpy(build_prompt(np.ones((3, 2)), np.full(2, largest))).to(dtype)
    with pytest.raises(ValueError, match="^Z0? must give finite"):
        COMPUTE[name](Z, 2 * V, A)
