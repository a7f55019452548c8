"""The masked Transformer: constructed weights run the algorithm, trained weights get the right gradients."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import assert_close, contexts, loops, run_layers, seeds

from ictd import empirical, kernels, td
from ictd.dual_head import DualHeadLayer
from ictd.features import one_hot
from ictd.model import FullICTD, SoftmaxICTD
from ictd.mrp import Trajectory, boyan_chain
from ictd.prompt import build_prompt, memory_offset, rows
from ictd.temporal_shift import TSMLayer

forms = st.sampled_from(["tsm", "dual_head"])
LAYERS = {"tsm": TSMLayer, "dual_head": DualHeadLayer}


def prompt_of(c):
    return build_prompt(c.x, c.rewards, c.initial[c.states], c.gamma)


def fresh(d=2, n_layers=3, gamma=0.9, seed=0, kind=SoftmaxICTD, **options):
    return kind(d, n_layers, gamma, generator=torch.Generator().manual_seed(seed), **options)


# ------------------------------------------------------------------------------- constructed weights


@settings(max_examples=60)
@given(contexts(max_steps=50), forms)
def test_constructed_model_runs_weighted_softmax_td(c, form):
    """values[l, j] = v_l(S_j) of the plain loops, in both forms, with one step size or one per layer."""
    n_layers = max(c.n_steps, 1)
    size = c.step_size if np.ndim(c.step_size) == 0 or c.n_steps else 1.0
    model = SoftmaxICTD.constructed(c.X.shape[1], n_layers, c.gamma, size, form=form)
    values = model.values(prompt_of(c), check=True).detach()
    assert values.shape == (n_layers + 1, c.n + 1)
    assert_close(values[: c.n_steps + 1], loops(c))


@given(contexts(max_steps=20), forms, seeds)
def test_model_is_a_stack_of_layers(c, form, seed):
    """Z_0, ..., Z_L of the layer classes, for a non-symmetric score block, memories included."""
    sizes = c.step_sizes if c.n_steps else [1.0]
    model = SoftmaxICTD.constructed(c.X.shape[1], len(sizes), c.gamma, sizes, form=form)
    A = np.random.default_rng(seed).normal(size=(c.X.shape[1],) * 2) / 2
    model.score_matrix.data[:] = torch.from_numpy(A)
    Z = torch.stack(list(model.layers(prompt_of(c)))).detach()
    assert_close(Z[: c.n_steps + 1], run_layers(LAYERS[form], c, A))
    assert torch.equal(Z[-1], model(prompt_of(c)))


@given(contexts(max_steps=20), forms)
def test_invariant_after_every_layer(c, form):
    """Target memory = gamma * next value, last target 0; features and rewards never change."""
    model = SoftmaxICTD.constructed(c.X.shape[1], max(c.n_steps, 1), c.gamma, form=form)
    Z = torch.stack(list(model.layers(prompt_of(c)))).detach().numpy()
    row = rows(model.d)
    scale = max(1, np.abs(Z[:, row.value]).max())
    assert np.abs(memory_offset(Z, c.gamma)).max() <= 1e-10 * scale
    assert (Z[:, row.target, -1] == 0).all()
    assert (Z[:, : row.target] == Z[0, : row.target]).all()


@given(contexts(features=("gaussian", "unit length", "repeated"), max_steps=10), forms)
def test_float32(c, form):
    """Ten layers in float32 agree with float64 to 2e-5 relative to the largest value.

    One layer's rounding is at most about (d + n + |score|) eps times the largest TD error, 80 * 6e-8 = 5e-6 for
    the sizes here, and roundings of different sign cancel: in 3000 random instances the largest was 1.3e-6.
    """
    n_layers = max(c.n_steps, 1)
    arguments = c.X.shape[1], n_layers, c.gamma, 0.7
    exact = SoftmaxICTD.constructed(*arguments, form=form).values(prompt_of(c)).detach()
    single = SoftmaxICTD.constructed(*arguments, form=form, dtype=torch.float32).values(prompt_of(c)).detach()
    assert single.dtype == torch.float32
    assert_close(single, exact, 2e-5)


@pytest.mark.parametrize("form", LAYERS)
def test_batch_is_a_loop_over_prompts(form):
    """Leading dimensions: values[..., l, j]."""
    rng = np.random.default_rng(0)
    Z = build_prompt(rng.normal(size=(2, 3, 7, 4)), rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 3, 7)), 0.9)
    model = SoftmaxICTD.constructed(4, 5, 0.9, form=form)
    values = model.values(Z)
    assert values.shape == (2, 3, 6, 7) and model(Z).shape == Z.shape
    for i, j in np.ndindex(2, 3):
        assert_close(values[i, j].detach(), model.values(Z[i, j]).detach(), 1e-13)


def test_arrays_tensors_and_lists_are_the_same():
    """A prompt may come as ndarray, list or tensor, in any floating or integer type; it is not written to."""
    Z = np.array([[1, 2, 3], [4, 5, 0], [0, 0, 0], [0, 0, 0]])
    model = SoftmaxICTD.constructed(1, 4, 0.5)
    expected = model(Z.astype(float))
    for same in (Z, Z.tolist(), Z.astype(np.float32), torch.from_numpy(Z), torch.from_numpy(Z).float()):
        assert torch.equal(model(same), expected)
    assert Z.tolist() == [[1, 2, 3], [4, 5, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("form", LAYERS)
def test_check_refuses_inconsistent_memories(form):
    """values(check=True) is the guard of Theorem 1; without it the prompt is run as it is."""
    Z = build_prompt(np.ones((3, 2)), [1.0, 2.0], [1, 2, 3], 0.9)
    Z[rows(2).target, 0] = 0
    model = SoftmaxICTD.constructed(2, 3, 0.9, form=form)
    with pytest.raises(ValueError, match="Z must hold consistent memories.*column 0"):
        model.values(Z, check=True)
    assert torch.isfinite(model.values(Z)).all()


@pytest.mark.parametrize("form", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_check_in_half_precision(dtype, form):
    """A consistent prompt passes the check after rounding to half precision; one that is off does not."""
    rng = np.random.default_rng(0)
    Z = build_prompt(rng.normal(size=(6, 2)), rng.normal(size=5), rng.normal(size=6), 0.9)
    model = SoftmaxICTD.constructed(2, 4, 0.9, form=form, dtype=dtype)
    exact = SoftmaxICTD.constructed(2, 4, 0.9, form=form).values(Z).detach()
    values = model.values(Z, check=True).detach()
    assert values.dtype == dtype
    # Each of the 4 layers rounds a handful of numbers, the scores among them, to the type's resolution.
    assert_close(values.double(), exact, 20 * torch.finfo(dtype).eps)
    Z[rows(2).target, 1] += 0.5
    with pytest.raises(ValueError, match="Z must hold consistent memories.*column 1"):
        model.values(Z, check=True)


@pytest.mark.parametrize("name", ["value_weights", "score_matrix"])
def test_broken_parameters_are_named(name):
    """A model whose training diverged says so, in place of values that are NaN."""
    model = fresh()
    with torch.no_grad():
        getattr(model, name).view(-1)[0] = float("inf")
    for call in (model, model.values):
        with pytest.raises(ValueError, match=f"^{name} must be finite"):
            call(build_prompt(np.ones((3, 2)), [1.0, 2.0]))


# ---------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("shared, sets", [(True, 1), (False, 3)])
def test_only_the_masked_entries_are_parameters(shared, sets):
    """Three value weights in row d+3 and the d x d score block; everything else of V and A is 0."""
    model = fresh(shared=shared)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == {
        "value_weights": (sets, 3),
        "score_matrix": (sets, 2, 2),
    }
    V, A = (m.detach() for m in model.matrices())
    assert torch.equal(V[:, 4, 2:], model.value_weights) and torch.equal(A[:, :2, :2], model.score_matrix)
    assert V.count_nonzero() == 3 * sets and A.count_nonzero() == 4 * sets


def test_initial_parameters_come_from_the_generator():
    """Same generator seed, same parameters; torch's global state neither matters nor moves; the scale scales."""
    torch.manual_seed(1)
    state = torch.get_rng_state()
    one = fresh(seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(one.score_matrix, fresh(seed=5).score_matrix)
    assert not torch.equal(one.score_matrix, fresh(seed=6).score_matrix)
    assert not fresh(init_scale=0).score_matrix.any()
    many = fresh(d=100, shared=False, init_scale=0.5).score_matrix.detach()
    assert abs(many.std().item() / 0.5 - 1) < 5 / np.sqrt(2 * many.numel())
    assert abs(many.mean().item()) < 5 * 0.5 / np.sqrt(many.numel())


def test_shared_is_the_same_set_in_every_layer():
    """A looped model = a model with L equal sets."""
    looped, stacked = fresh(shared=True), fresh(shared=False)
    for name in ("value_weights", "score_matrix"):
        getattr(stacked, name).data[:] = getattr(looped, name).data
    Z = build_prompt(np.random.default_rng(0).normal(size=(6, 2)), np.ones(5))
    assert torch.equal(looped(Z), stacked(Z))


@pytest.mark.parametrize("size", [0.5, [0.5, 0.25, 1.0]])
def test_constructed_parameters_by_hand(size):
    """Value weights alpha (1, 1, -1) and the identity; one set, or one per step size."""
    model = SoftmaxICTD.constructed(2, 3, 0.9, size)
    sizes = np.atleast_1d(size)
    assert model.value_weights.tolist() == [[a, a, -a] for a in sizes]
    assert model.score_matrix.tolist() == [np.eye(2).tolist()] * len(sizes)
    assert model.shared == (len(sizes) == 1)


def test_saved_and_copied():
    """state_dict and deepcopy keep the numbers; both forms have the same parameters."""
    model, other = fresh(seed=1), fresh(seed=2, form="dual_head")
    other.load_state_dict(model.state_dict())
    Z = build_prompt(np.random.default_rng(0).normal(size=(6, 2)), np.ones(5))
    assert_close(other(Z).detach(), model(Z).detach(), 1e-13)
    assert torch.equal(copy.deepcopy(model)(Z), model(Z))


# ----------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("form", LAYERS)
@pytest.mark.parametrize("shared", [True, False])
def test_gradients(form, shared):
    """autograd agrees with finite differences in all parameters, through all layers."""
    rng = np.random.default_rng(0)
    Z = build_prompt(rng.normal(size=(2, 4, 2)), rng.normal(size=(2, 3)))
    model = fresh(shared=shared, form=form, init_scale=0.7)
    names = [name for name, _ in model.named_parameters()]

    def query(*parameters):
        return torch.func.functional_call(model, dict(zip(names, parameters)), (Z,))[..., -1, -1]

    assert torch.autograd.gradcheck(query, tuple(model.parameters()))


@pytest.mark.parametrize("form", LAYERS)
def test_query_gradient_against_numpy(form):
    """d v_L(S_n) / d A and d alpha: autograd of the model = finite differences of the NumPy position form."""
    rng = np.random.default_rng(4)
    x, rewards, gamma, n_layers = rng.normal(size=(9, 3)), rng.normal(size=8), 0.9, 6
    A, alpha, h = rng.normal(size=(3, 3)) / 2, 0.8, 1e-5
    model = SoftmaxICTD.constructed(3, n_layers, gamma, alpha, form=form)
    model.score_matrix.data[0] = torch.from_numpy(A)
    model.values(build_prompt(x, rewards))[-1, -1].backward()

    def query(A, alpha):
        return td.weighted_softmax_td(x, rewards, gamma, n_layers, alpha, kernels.bilinear_score(A))[-1, -1]

    for i, j in np.ndindex(3, 3):
        bump = np.zeros((3, 3))
        bump[i, j] = h
        slope = (query(A + bump, alpha) - query(A - bump, alpha)) / (2 * h)
        assert model.score_matrix.grad[0, i, j].item() == pytest.approx(slope, abs=1e-7)
    slope = (query(A, alpha + h) - query(A, alpha - h)) / (2 * h)
    directional = model.value_weights.grad[0] @ torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    assert directional.item() == pytest.approx(slope, abs=1e-7)


def test_first_layer_of_a_stack_has_no_gradient_for_the_memories():
    """THEORY 9: with v_0 = 0, layer 1's w_target and w_current multiply zeros."""
    rng = np.random.default_rng(0)
    model = fresh(shared=False, init_scale=0.5)
    model.values(build_prompt(rng.normal(size=(6, 2)), rng.normal(size=5)))[-1, -1].backward()
    assert model.value_weights.grad[0, 1:].tolist() == [0, 0]
    assert (model.value_weights.grad[1] != 0).all() and model.value_weights.grad[0, 0] != 0


def test_no_reward_weight_is_a_dead_point():
    """THEORY 7: w_R = 0 gives v = 0 and a zero gradient in every parameter but w_R."""
    rng = np.random.default_rng(0)
    model = fresh(init_scale=0.5)
    model.value_weights.data[0, 0] = 0
    values = model.values(build_prompt(rng.normal(size=(6, 2)), rng.normal(size=5)))
    values[-1, -1].backward()
    assert not values.any() and not model.score_matrix.grad.any()
    assert model.value_weights.grad[0, 1:].tolist() == [0, 0] and model.value_weights.grad[0, 0] != 0


# ------------------------------------------------------------------------------- what weights compute


@pytest.mark.parametrize("form", LAYERS)
def test_unequal_weights_change_the_discount(form):
    """THEORY 7: weights (w_R, w_T, w_C) go to (w_R/|w_C|) (I - gamma w_T/|w_C| P)^{-1} r on the context."""
    rng = np.random.default_rng(0)
    trajectory = boyan_chain(5, 0.6, rng).sample(60, rng)
    trajectory = Trajectory(np.append(trajectory.states, trajectory.states[0]), np.append(trajectory.rewards, 0.3))
    model = SoftmaxICTD.constructed(5, 200, 0.6, form=form)
    model.value_weights.data[0] = torch.tensor([1.3, 1.1, -0.9], dtype=torch.float64)
    values = model.values(build_prompt(one_hot(5, 3.0)[trajectory.states], trajectory.rewards))[-1].detach()
    context = empirical.empirical_model(trajectory, 5)
    expected = 1.3 / 0.9 * empirical.certainty_equivalence(context, 0.6 * 1.1 / 0.9)
    assert_close(values, expected[trajectory.states], 1e-9)


def test_what_softmax_cannot_see():
    """With Z^T A Z and one-hot features, A + 1 c^T has the attention of A, for every c; A + c 1^T has not."""
    rng = np.random.default_rng(0)
    Z = build_prompt(np.eye(4)[rng.integers(0, 4, 12)], rng.normal(size=11))
    outputs = []
    c = rng.normal(size=4)
    for shift in (np.zeros((4, 4)), np.outer(np.ones(4), c), np.outer(c, np.ones(4))):
        model = SoftmaxICTD.constructed(4, 3, 0.9)
        model.score_matrix.data += torch.from_numpy(shift)
        outputs.append(model(Z).detach())
    assert_close(outputs[1], outputs[0], 1e-12)
    assert (outputs[2] - outputs[0]).abs().max() > 1e-3


# ------------------------------------------------------------------------------------ independent heads


@given(contexts(max_steps=50))
def test_independent_heads_can_run_weighted_softmax_td(c):
    """With the constructed parameters the second head does what it does in the dual-head form."""
    n_layers = max(c.n_steps, 1)
    size = c.step_size if np.ndim(c.step_size) == 0 or c.n_steps else 1.0
    model = SoftmaxICTD.constructed(c.X.shape[1], n_layers, c.gamma, size, form="independent_heads")
    assert_close(model.values(prompt_of(c), check=True).detach()[: c.n_steps + 1], loops(c))


@pytest.mark.parametrize("shared", [True, False])
def test_independent_heads_are_dual_head_layers(shared):
    """Z_0, ..., Z_L of layers with a value and a score matrix for each head; tied, they are the dual-head form."""
    rng = np.random.default_rng(0)
    Z0 = build_prompt(rng.normal(size=(7, 2)), rng.normal(size=6), rng.normal(size=7), 0.9)
    model = fresh(shared=shared, form="independent_heads", init_scale=0.6)
    sets = 1 if shared else 3
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == {
        "value_weights": (sets, 3),
        "score_matrix": (sets, 2, 2),
        "target_weights": (sets, 3),
        "target_score_matrix": (sets, 2, 2),
    }
    (V, A), (V_target, A_target) = model.matrices(), model.target_matrices()
    assert V_target.count_nonzero() == 3 * sets and torch.equal(V_target[:, 3, 2:], model.target_weights)
    expected = [torch.from_numpy(Z0)]
    for layer in range(3):
        i = 0 if shared else layer
        expected.append(DualHeadLayer(V[i], A[i], 0.9, V_target[i], A_target[i])(expected[-1]))
    assert_close(torch.stack(list(model.layers(Z0))).detach(), torch.stack(expected).detach(), 1e-13)
    tied, dual = fresh(shared=shared, form="independent_heads"), fresh(shared=shared, form="dual_head")
    with torch.no_grad():
        for name in ("value_weights", "score_matrix"):
            getattr(dual, name).copy_(getattr(model, name))
            getattr(tied, name).copy_(getattr(model, name))
        tied.target_weights.copy_(0.9 * model.value_weights)
        tied.target_score_matrix.copy_(model.score_matrix)
    assert_close(tied(Z0).detach(), dual(Z0).detach(), 1e-13)
    assert (tied(Z0) - model(Z0)).abs().max() > 1e-3


def test_independent_heads_have_a_sign_symmetry():
    """THEORY 9: w_target of the value head with w_R and w_current of the target head may change sign together."""
    rng = np.random.default_rng(0)
    Z0 = build_prompt(rng.normal(size=(7, 2)), rng.normal(size=6))
    model = fresh(form="independent_heads", init_scale=0.6)
    flipped = copy.deepcopy(model)
    with torch.no_grad():
        flipped.value_weights[0, 1] *= -1
        flipped.target_weights[0, [0, 2]] *= -1
    one, other = model(Z0), flipped(Z0)
    assert torch.equal(one[rows(2).value], other[rows(2).value])
    assert torch.equal(one[rows(2).target], -other[rows(2).target]) and one[rows(2).target].abs().max() > 1e-3


# ----------------------------------------------------------------------------------- the full model


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("form", LAYERS)
def test_full_model_is_a_stack_of_layers(form, shared):
    """Every entry of V and A counts: Z_0, ..., Z_L of the layer classes with random matrices."""
    model = fresh(shared=shared, form=form, init_scale=0.4, kind=FullICTD)
    sets = 1 if shared else 3
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == {"V": (sets, 5, 5), "A": (sets, 5, 5)}
    rng = np.random.default_rng(0)
    Z0 = build_prompt(rng.normal(size=(4, 7, 2)), rng.normal(size=(4, 6)))
    expected = [torch.from_numpy(Z0)]
    for layer in range(3):
        i = 0 if shared else layer
        expected.append(LAYERS[form](model.V[i].detach(), model.A[i].detach(), 0.9)(expected[-1]))
    assert_close(torch.stack(list(model.layers(Z0))).detach(), torch.stack(expected), 1e-13)
    assert model.values(Z0).shape == (4, 4, 7)


@pytest.mark.parametrize("form", LAYERS)
@pytest.mark.parametrize("shared", [True, False])
def test_full_model_holds_the_masked_one(form, shared):
    """The matrices of a masked model make a full model with the same outputs; it has a copy of them."""
    masked = fresh(shared=shared, form=form, init_scale=0.6)
    V, A = masked.matrices()
    full = FullICTD.from_matrices(V, A, 3, 0.9, form=form)
    Z0 = build_prompt(np.random.default_rng(0).normal(size=(6, 2)), np.ones(5))
    assert torch.equal(full(Z0), masked(Z0))
    assert full.shared == shared and full.d == 2 and all(p.requires_grad for p in full.parameters())
    with torch.no_grad():
        full.V += 1
    assert (V[:, 0] == 0).all()


@pytest.mark.parametrize("form", LAYERS)
def test_full_constructed_model(form):
    """The paper's parameters as full matrices run the same algorithm as the masked model."""
    full, masked = (kind.constructed(2, 6, 0.9, 0.7, form=form) for kind in (FullICTD, SoftmaxICTD))
    Z0 = build_prompt(np.random.default_rng(0).normal(size=(6, 2)), np.arange(5.0), np.arange(6.0), 0.9)
    assert_close(full.values(Z0, check=True).detach(), masked.values(Z0).detach(), 1e-13)
    assert FullICTD.constructed(2, 1, 0.5, dtype=torch.float32).V.dtype == torch.float32


@pytest.mark.parametrize("kind, form", [(FullICTD, "tsm"), (FullICTD, "dual_head"), (SoftmaxICTD, "independent_heads")])
def test_gradients_of_all_parameters(kind, form):
    """autograd agrees with finite differences."""
    rng = np.random.default_rng(0)
    Z = build_prompt(rng.normal(size=(4, 2)), rng.normal(size=3))
    model = fresh(n_layers=2, form=form, init_scale=0.5, kind=kind)
    names = [name for name, _ in model.named_parameters()]

    def query(*parameters):
        return torch.func.functional_call(model, dict(zip(names, parameters)), (Z,))[rows(2).value]

    assert torch.autograd.gradcheck(query, tuple(model.parameters()))
