"""The prompt matrix: where things stand, warm starts, and the consistency of its two memories."""

import numpy as np
import pytest
import torch
from hypothesis import given
from strategies import contexts, discounts, seeds

from ictd.prompt import build_prompt, check_memory, memory_offset, rows


def test_rows_are_the_printed_ones():
    """Rows 1..d, d+1, d+2, d+3 of the formulas, counted from 0."""
    row = rows(4)
    assert (row.features, row.reward, row.target, row.value) == (slice(0, 4), 4, 5, 6)


def test_example_by_hand():
    """Three positions, two features, entry by entry: R_{j+1} stands at S_j, the query's reward and target are 0."""
    Z = build_prompt([[1, 2], [3, 4], [5, 6]], [10, 20], initial=[1, 2, 3], gamma=0.5)
    assert Z.tolist() == [[1, 3, 5], [2, 4, 6], [10, 20, 0], [1, 1.5, 0], [1, 2, 3]]


@given(contexts())
def test_layout(c):
    """Column j holds x(S_j) and R_{j+1}; both memories start at 0 without a warm start."""
    Z, row = build_prompt(c.x, c.rewards), rows(c.X.shape[1])
    assert Z.shape == (c.X.shape[1] + 3, c.n + 1)
    for j in range(c.n + 1):
        assert (Z[row.features, j] == c.X[c.states[j]]).all()
        assert Z[row.reward, j] == (c.rewards[j] if j < c.n else 0)
    assert not Z[row.target :].any()


@given(contexts())
def test_warm_start_is_consistent(c):
    """Row d+2 = gamma * (row d+3 of the next column), exactly, and 0 in the last column."""
    v = c.initial[c.states]
    Z, row = build_prompt(c.x, c.rewards, v, c.gamma), rows(c.X.shape[1])
    assert (Z[row.value] == v).all()
    assert (Z[row.target, :-1] == c.gamma * v[1:]).all() and Z[row.target, -1] == 0
    assert not memory_offset(Z, c.gamma).any() and check_memory(Z, c.gamma) == 0


@given(contexts(), discounts, seeds)
def test_memory_offset_is_what_was_added(c, gamma, seed):
    """An offset written into the target row is found again, per prompt of a batch, in NumPy and in torch."""
    rng = np.random.default_rng(seed)
    batch = rng.normal(size=(2, 3, c.n + 1))
    Z = build_prompt(np.broadcast_to(c.x, (2, 3, *c.x.shape)), np.broadcast_to(c.rewards, (2, 3, c.n)), batch, gamma)
    offset = rng.normal(size=(2, 3, c.n + 1))
    Z[..., -2, :] += offset
    np.testing.assert_allclose(memory_offset(Z, gamma), offset, atol=1e-12)
    np.testing.assert_array_equal(memory_offset(torch.tensor(Z, requires_grad=True), gamma), memory_offset(Z, gamma))


def test_batches_are_stacks_of_prompts():
    """Leading dimensions: every prompt of a batch is the prompt that stands alone."""
    rng = np.random.default_rng(0)
    x, rewards, v = rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 5))
    batch = build_prompt(x, rewards, v, 0.9)
    assert batch.shape == (2, 3, 7, 5)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(batch[i, j], build_prompt(x[i, j], rewards[i, j], v[i, j], 0.9))


@pytest.mark.parametrize(
    "x_type, reward_type, expected",
    [
        (np.float32, np.float32, np.float32),
        (np.float32, np.float64, np.float64),
        (np.float64, np.float64, np.float64),
        (np.int64, np.int64, np.float64),
        (np.int64, np.float32, np.float64),
        (np.float16, np.float16, np.float64),
    ],
)
def test_type_of_the_prompt(x_type, reward_type, expected):
    """float32 only where all data are float32."""
    assert build_prompt(np.ones((3, 2), x_type), np.ones(2, reward_type)).dtype == expected


def test_prompt_is_a_copy():
    """Writing into a prompt leaves the data alone."""
    x, rewards = np.ones((3, 2)), np.ones(2)
    build_prompt(x, rewards)[:] = 7
    assert (x == 1).all() and (rewards == 1).all()


def test_check_memory_names_the_column():
    """The message says which column of which prompt is off, and by how much."""
    Z = np.stack([build_prompt(np.ones((4, 2)), np.ones(3), np.ones(4), 0.5)] * 2)
    Z[1, -2, 2] += 0.25
    for batch, prompt in ((Z, r"\(1,\)"), (Z[None], r"\(0, 1\)")):
        with pytest.raises(ValueError, match=f"column 2 of prompt {prompt} is off by 0.25"):
            check_memory(batch, 0.5)
    with pytest.raises(ValueError, match="last column"):
        bad = Z[0].copy()
        bad[-2, -1] = 1
        check_memory(bad, 0.5)
    assert check_memory(Z, 0.5, tolerance=0.3) == check_memory(Z, 0.5, tolerance=0.25) == 0.25
    assert check_memory(Z[0], 0.5, tolerance=0) == 0


@pytest.mark.parametrize("dtype, tolerance", [(torch.float16, 2**-8), (torch.bfloat16, 2**-5)])
def test_check_memory_in_half_precision(dtype, tolerance):
    """A rounded prompt passes; an offset above 4 times the resolution of the type does not."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        Z = torch.from_numpy(build_prompt(np.ones((6, 2)), np.ones(5), rng.normal(size=6), 0.9)).to(dtype)
        assert check_memory(Z, 0.9) < tolerance / 2
    Z = torch.from_numpy(build_prompt(np.ones((3, 1)), np.ones(2), [0, 1, 1], 0.5)).to(dtype)
    Z[-2, 0] += tolerance
    assert check_memory(Z, 0.5) == tolerance
    Z[-2, 0] += tolerance / 8
    with pytest.raises(ValueError, match="column 0 is off"):
        check_memory(Z, 0.5)


def test_tensors_that_are_views():
    """Tensors that are lazily negated or conjugated are read with their values."""
    Z = build_prompt(np.ones((3, 1)), np.ones(2), [0, 1, 1], 0.5)
    negated = torch.complex(torch.zeros(Z.shape, dtype=torch.float64), torch.from_numpy(-Z)).conj().imag
    assert negated.is_neg()
    assert check_memory(negated, 0.5) == 0


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("convert", [lambda Z: Z.to("meta"), torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_tensors_without_dense_data_are_refused(convert):
    """What holds no dense data is refused by name."""
    with pytest.raises(TypeError, match="^Z must be an array.*dense CPU tensor with data"):
        check_memory(convert(torch.ones(5, 4)), 0.9)


def test_check_memory_tolerance_follows_size_and_type():
    """The offset counts relative to max(1, largest value); 1e-10 in float64, 1e-5 in float32."""
    big = build_prompt(np.ones((3, 1)), np.ones(2), [0, 1e6, 1e6], 0.5)
    big[-2, 0] += 1e-5
    check_memory(big, 0.5)
    first = build_prompt(np.ones((3, 1)), np.ones(2), [1e6, 0, 0], 0.5)  # no memory of a target is as large
    first[-2, 0] += 1e-5
    check_memory(first, 0.5)
    small = build_prompt(np.ones((3, 1)), np.ones(2), [0, 1, 1], 0.5)
    small[-2, 0] += 1e-6
    with pytest.raises(ValueError, match="column 0 is off"):
        check_memory(small, 0.5)
    check_memory(small.astype(np.float32), 0.5)
    small[-2, 0] += 1e-4
    with pytest.raises(ValueError, match="column 0 is off"):
        check_memory(small.astype(np.float32), 0.5)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (5, 1), (2, 5, 1)])
def test_a_prompt_has_features_and_a_transition(shape):
    with pytest.raises(ValueError, match="d >= 1 and n >= 1"):
        check_memory(np.zeros(shape), 0.5)


@pytest.mark.parametrize("shape", [(7, 5, 1), (7, 3, 4)])
def test_a_batch_of_prompts_has_the_rows_and_columns_of_one(shape):
    """However many prompts there are, one column or no feature is too little."""
    with pytest.raises(ValueError, match=r"^Z must have shape \(\.\.\., d\+3, n\+1\) with d >= 1 and n >= 1"):
        memory_offset(np.zeros(shape), 0.5)
    assert not memory_offset(np.zeros((1, 1, 4, 2)), 0.5).any()
