"""The state form and the matrix form of pretraining against the models on prompt matrices: values, loss, gradient."""

import numpy as np
import pytest
import torch
from strategies import assert_close, empirical_kernel_loops

from ictd import inputs, tasks
from ictd.model import FullICTD, SoftmaxICTD
from ictd.prompt import build_prompt, rows
from ictd.state_form import full_matrices, kernel, readout, state_values

GAMMA, LAYERS, S, D, N, K = 0.8, 4, 6, 3, 9, 2
MASKED = ["tsm", "dual_head", "independent_heads"]
FREE = {
    "both": ("V", "A"),
    "value": ("V", "score_matrix"),
    "score": ("value_weights", "A"),
}


def instance(n=N):
    """K x 4 tasks with contexts; among them states that were never a source, also the last state of a context."""
    rngs = [np.random.default_rng(seed) for seed in (4, 5)]
    batch = tasks.draw(4, S, D, rngs, "dense")
    contexts = batch.sample(n, rngs, reward_noise=0.3)
    return batch, contexts


def parameters_of(names, sets, scale=0.6, seed=0):
    """Random parameters of K seeds; score matrices are not symmetric."""
    shapes = {"value_weights": (3,), "score_matrix": (D, D), "V": (D + 3, D + 3), "A": (D + 3, D + 3)}
    rng = np.random.default_rng(seed)
    return {
        name: torch.tensor(
            scale * rng.normal(size=(K, sets, *shapes[name.removeprefix("target_")])), requires_grad=True
        )
        if name != "target_weights"
        else torch.tensor(scale * rng.normal(size=(K, sets, 3)), requires_grad=True)
        for name in names
    }


def masked_names(form):
    both = ["value_weights", "score_matrix"]
    return both + ["target_weights", "target_score_matrix"] * (form == "independent_heads")


def prompts(batch, contexts):
    """Prompt matrices built one by one with the public function."""
    x = np.stack([[X[s] for X, s in zip(*pair)] for pair in zip(batch.features, contexts.states)])
    return build_prompt(x, contexts.rewards)


def model_values(parameters, form, seed, Z):
    """Values of the last layer by the model of one seed, differentiable in the parameters."""
    sets = next(iter(parameters.values())).shape[1]
    options = {"shared": sets == 1, "form": form, "generator": torch.Generator().manual_seed(0)}
    if "V" in parameters and "A" in parameters:
        model = FullICTD(D, LAYERS, GAMMA, **options)
    else:
        model = SoftmaxICTD(D, LAYERS, GAMMA, **options)
    mine = {name: value[seed] for name, value in parameters.items()}
    return torch.func.functional_call(model, mine, (Z,))[..., rows(D).value, :]


def as_full(parameters):
    """Half masked parameters as V and A, entry by entry."""
    result = dict(parameters)
    sets = next(iter(parameters.values())).shape[1]
    if "V" not in parameters:
        V = torch.zeros(K, sets, D + 3, D + 3, dtype=torch.float64)
        for i in range(3):
            V[:, :, D + 2, D + i] = parameters["value_weights"][:, :, i]
        result["V"] = V
    if "A" not in parameters:
        A = torch.zeros(K, sets, D + 3, D + 3, dtype=torch.float64)
        A[:, :, :D, :D] = parameters["score_matrix"]
        result["A"] = A
    return {"V": result["V"], "A": result["A"]}


def td_loss(values, rewards):
    """Half the mean squared TD error with a fixed target, in the plain form."""
    return ((rewards + GAMMA * values[..., 1:].detach() - values[..., :-1]) ** 2).mean() / 2


def compare(parameters, form, reference):
    """Values, loss and gradients of all seeds at once against ``reference(seed, Z)``, one seed at a time."""
    batch, contexts = instance()
    Z, rewards = torch.from_numpy(prompts(batch, contexts)), torch.tensor(contexts.rewards)
    together = readout(parameters, inputs.from_contexts(batch, contexts), GAMMA, LAYERS, form)
    assert together.shape == (K, 4, N + 1)
    loss = torch.stack([td_loss(together[seed], rewards[seed]) for seed in range(K)])
    gradients = torch.autograd.grad(loss.sum(), list(parameters.values()))
    for seed in range(K):
        alone = reference(seed, Z[seed])
        assert_close(together[seed].detach(), alone.detach())
        expected = td_loss(alone, rewards[seed])
        assert_close(loss[seed].detach(), expected.detach())
        for gradient, right in zip(gradients, torch.autograd.grad(expected, list(parameters.values()))):
            assert right[seed].abs().max() > 1e-6
            assert_close(gradient[seed], right[seed])


@pytest.mark.parametrize("sets", [1, LAYERS])
@pytest.mark.parametrize("form", MASKED)
def test_state_form_is_the_model(form, sets):
    """v_L(S_j), TD loss and gradient to 1e-10: looped and per layer, in all forms, with states never left."""
    _, contexts = instance()
    counts = contexts.empirical()[0]
    assert (counts == 0).any()
    assert (np.take_along_axis(counts, contexts.states[..., -1:], -1) == 0).any()
    parameters = parameters_of(masked_names(form), sets)
    compare(parameters, "tsm", lambda seed, Z: model_values(parameters, form, seed, Z))


@pytest.mark.parametrize("sets", [1, LAYERS])
@pytest.mark.parametrize("form", ["tsm", "dual_head"])
@pytest.mark.parametrize("free", FREE)
def test_free_parameters_are_the_full_model(free, form, sets):
    """With V or A free, the read-outs, loss and gradient of the model with full matrices, to 1e-10."""
    parameters = parameters_of(FREE[free], sets, scale=0.3)
    compare(parameters, form, lambda seed, Z: model_values(as_full(parameters), form, seed, Z))


@pytest.mark.parametrize("form", ["tsm", "dual_head"])
def test_masked_matrices_are_the_state_form(form):
    """The matrix form at masked V and A = the state form, in values and in the gradient of their common entries."""
    batch = inputs.from_contexts(*instance())
    masked = parameters_of(["value_weights", "score_matrix"], 1)
    V, A = (matrix.detach().requires_grad_() for matrix in full_matrices(masked, D))
    fast, slow = readout(masked, batch, GAMMA, LAYERS), readout({"V": V, "A": A}, batch, GAMMA, LAYERS, form)
    assert_close(slow.detach(), fast.detach())
    weight = torch.tensor(np.random.default_rng(0).normal(size=fast.shape))
    quick = torch.autograd.grad((weight * fast).sum(), list(masked.values()))
    full = torch.autograd.grad((weight * slow).sum(), [V, A])
    assert_close(full[0][..., -1, -3:], quick[0])
    assert_close(full[1][..., :D, :D], quick[1])


@pytest.mark.parametrize("names", [masked_names("independent_heads"), ("V", "A")])
def test_seeds_do_not_mix(names):
    """A seed alone has the values and gradients that it has among others; NaN in one does not reach the other."""
    batch = inputs.from_contexts(*instance())
    parameters = parameters_of(names, 1, scale=0.3)
    together = readout(parameters, batch, GAMMA, LAYERS)
    for seed in range(K):
        mine = {name: value[seed : seed + 1].detach().requires_grad_() for name, value in parameters.items()}
        alone = readout(mine, batch[seed : seed + 1], GAMMA, LAYERS)
        assert_close(alone[0].detach(), together[seed].detach(), 1e-13)
        gradient = torch.autograd.grad(alone.square().sum(), list(mine.values()))
        others = torch.autograd.grad(together.square().sum(), list(parameters.values()), retain_graph=True)
        for a, b in zip(gradient, others):
            assert_close(a[0], b[seed], 1e-12)
    broken = {name: value.detach().clone() for name, value in parameters.items()}
    for value in broken.values():
        value[0] = torch.nan
    broken = {name: value.requires_grad_() for name, value in broken.items()}
    values = readout(broken, batch, GAMMA, LAYERS)
    assert torch.isnan(values[0]).all() and torch.equal(values[1], together[1])
    for gradient in torch.autograd.grad(values.square().sum(), list(broken.values())):
        assert torch.isfinite(gradient[1]).all()


# ------------------------------------------------------------------------------------------- parts


def test_kernel_is_the_loop():
    """M[s, u] ~ c(u) exp x(u)^T A x(s) with a non-symmetric A: the source stands on the left."""
    batch, contexts = instance()
    A = torch.tensor(np.random.default_rng(1).normal(size=(D, D)) / 2)
    given = inputs.from_contexts(batch, contexts)
    M = kernel(A, given.features, given.log_counts).numpy()
    for index in np.ndindex(K, 4):
        assert_close(M[index], empirical_kernel_loops(contexts.states[index], batch.features[index], A.numpy()), 1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_kernel_is_safe_where_a_state_was_never_a_source(dtype):
    """log 0 = -inf gives weight exactly 0, rows of sum 1 and finite gradients, also with scores of size 1000."""
    given = inputs.from_contexts(*instance(2), dtype=dtype)
    assert torch.isinf(given.log_counts).any()
    A = (1000 * torch.eye(D, dtype=dtype)).requires_grad_()
    M = kernel(A, given.features, given.log_counts)
    never = torch.isinf(given.log_counts)[..., None, :].expand(M.shape)
    assert not M[never].any() and torch.isfinite(M).all()
    assert (M.sum(dim=-1) - 1).abs().max() < 1e-5
    M.square().sum().backward()
    assert torch.isfinite(A.grad).all()


def test_values_of_states():
    """Masked: every state has a value, which its columns show. Not masked: the mean of the columns, NaN without one."""
    batch, contexts = instance(5)
    given = inputs.from_contexts(batch, contexts)
    masked = {name: value.detach() for name, value in parameters_of(masked_names("tsm"), 1).items()}
    values, columns = (function(masked, given, GAMMA, LAYERS) for function in (state_values, readout))
    assert values.shape == (K, 4, S) and torch.isfinite(values).all()
    assert torch.equal(torch.gather(values, -1, given.states), columns)
    free = {name: value.detach() for name, value in parameters_of(("V", "A"), 1, scale=0.4).items()}
    values, columns = (function(free, given, GAMMA, LAYERS).numpy() for function in (state_values, readout))
    gaps = spread = 0
    for index in np.ndindex(K, 4):
        for s in range(S):
            mine = columns[index][contexts.states[index] == s]
            spread = max(spread, np.ptp(mine) if mine.size else 0)
            gaps += mine.size == 0
            expected = mine.mean() if mine.size else np.nan
            np.testing.assert_allclose(values[index][s], expected, rtol=1e-12, atol=1e-14)
    assert gaps > 0 and spread > 1e-3  # both cases occurred: a state without column, columns that differ


def test_parameters_broadcast_over_batches():
    """One set of parameters on a batch with leading dimensions = the same parameters on each part."""
    given = inputs.from_contexts(*instance())
    masked = {name: value[0].detach() for name, value in parameters_of(masked_names("tsm"), 1).items()}
    values = readout(masked, given, GAMMA, LAYERS)
    assert values.shape == (K, 4, N + 1)
    assert_close(values[1], readout(masked, given[1], GAMMA, LAYERS), 1e-14)


def test_constructed_parameters_in_state_form():
    """The paper's parameters give weighted softmax TD: the constructed model on prompts."""
    batch, contexts = instance()
    model = SoftmaxICTD.constructed(D, LAYERS, GAMMA)
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    expected = model.values(prompts(batch, contexts))[..., -1, :].detach()
    assert_close(readout(parameters, inputs.from_contexts(batch, contexts), GAMMA, LAYERS), expected)


# ------------------------------------------------------------------------------------------- errors

GOOD = {name: torch.zeros(1, *shape, dtype=torch.float64) for name, shape in
        {"value_weights": (3,), "score_matrix": (D, D), "V": (D + 3, D + 3), "A": (D + 3, D + 3)}.items()}  # fmt: skip


@pytest.mark.parametrize("function", [readout, state_values])
@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"form": "independent_heads"}, ValueError, "form must be one of 'tsm', 'dual_head'; got 'independent_heads'"),
        ({"gamma": 1}, ValueError, r"gamma must be in \[0, 1\); got 1"),
        ({"n_layers": 0}, ValueError, "n_layers must be an integer of at least 1; got 0"),
        ({"batch": None}, TypeError, "batch must be of type Inputs; got None"),
        ({"parameters": None}, TypeError, "parameters must be of type dict; got None"),
        ({"parameters": {}}, ValueError, "parameters must be one of the combinations"),
        ({"parameters": {"V": GOOD["V"]}}, ValueError, "parameters must be one of the combinations.*V"),
        ({"parameters": {"value_weights": GOOD["value_weights"], "score_matrix": GOOD["A"]}}, ValueError,
         r"parameters must have shapes.*d = 3.*score_matrix has shape \(1, 6, 6\)"),
        ({"parameters": {"value_weights": GOOD["value_weights"].expand(3, 3), "score_matrix": GOOD["score_matrix"]}},
         ValueError, r"parameters must have shapes.*value_weights has shape \(3, 3\)"),
        ({"parameters": {name: GOOD[name].expand(3, *GOOD[name].shape[1:]) for name in ("V", "A")}}, ValueError,
         r"parameters must have shapes.*n_layers = 4.*V has shape \(3, 6, 6\)"),
        ({"parameters": {name: GOOD[name].float() for name in ("V", "A")}}, TypeError,
         "parameters must have the type of the inputs, torch.float64; V has torch.float32"),
    ],
)  # fmt: skip
def test_bad_arguments(function, changes, kind, message):
    """The read-outs refuse what does not fit, in place of an answer that looks right."""
    good = {
        "parameters": {name: GOOD[name] for name in ("value_weights", "score_matrix")},
        "batch": inputs.from_contexts(*instance()),
    }
    with pytest.raises(kind, match=f"^{message}"):
        function(**({"gamma": GAMMA, "n_layers": LAYERS} | good | changes))


# ------------------------------------------------------------------- numbers and shapes that do not fit


@pytest.mark.parametrize("dtype, scale", [(torch.float16, 256), (torch.float32, 2e19), (torch.float64, 2e160)])
def test_features_whose_scores_overflow_are_refused(dtype, scale):
    """For example 256 in float16, whose square is beyond 65504."""
    batch, _ = instance()
    X = torch.tensor(np.sign(batch.features[0, 0]) * scale, dtype=dtype)
    with pytest.raises(ValueError, match="^features must give finite results in .*inner products overflow"):
        kernel(torch.eye(D, dtype=dtype), X, torch.zeros(S, dtype=dtype))
    half = (X / scale * np.finfo(np.float16).max ** 0.25 if dtype == torch.float16 else X / scale).to(dtype)
    M = kernel(torch.eye(D, dtype=dtype), half, torch.zeros(S, dtype=dtype))
    assert torch.isfinite(M).all()
    with pytest.raises(ValueError, match="^features must give finite results in .*scores overflow"):
        kernel(torch.full((D, D), torch.finfo(dtype).max, dtype=dtype), half * 1.5, torch.zeros(S, dtype=dtype))


def test_kernels_of_other_shapes_are_refused():
    X, A, logs = torch.ones(4, S, D), torch.eye(D), torch.zeros(4, S)
    for name, wrong in (
        ("score_matrix", (A[:2], X, logs)),
        ("score_matrix", (A.numpy(), X, logs)),
        ("score_matrix", (A.double(), X, logs)),
        ("log_counts", (A, X, logs[:, :1])),
        ("log_counts", (A, X, logs[:, :-1])),
        ("features", (A, X[0, 0], logs)),
        ("score_matrix, features and log_counts", (A, X, logs[:3])),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^{name} must"):
            kernel(*wrong)
    assert kernel(A, X, logs[0]).shape == (4, S, S)


@pytest.mark.parametrize(
    "score, log, message",
    [
        (np.nan, 0.0, "^score_matrix must be finite"),
        (1.0, np.nan, "^log_counts must be finite or -inf"),
        (1.0, np.inf, "^log_counts must be finite or -inf"),
        (1.0, -np.inf, "^log_counts must be finite or -inf, and finite for a state"),
    ],
)
def test_a_kernel_names_what_is_not_finite(score, log, message):
    """And does not blame the features; in a training, such a set has a kernel of NaN."""
    arguments = torch.full((D, D), score), torch.ones(S, D), torch.full((S,), log)
    with pytest.raises(ValueError, match=message):
        kernel(*arguments)
    assert torch.isnan(kernel.trusted(*arguments)).all()


@pytest.mark.parametrize("names", [("value_weights", "score_matrix"), ("V", "A")])
def test_values_that_overflow_are_refused_and_stay_in_their_set(names):
    """Finite parameters that are too large raise; ``readout.trusted`` gives NaN for their set alone."""
    batch, contexts = instance()
    parameters = {name: value.detach() for name, value in parameters_of(names, 1).items()}
    given = inputs.from_contexts(batch, contexts)
    good = readout(parameters, given, GAMMA, LAYERS)
    for value in parameters.values():
        value[0] *= 1e300
    for function in (readout, state_values):
        with pytest.raises(ValueError, match="^parameters must give finite values in torch.float64"):
            function(parameters, given, GAMMA, LAYERS)
    found = readout.trusted(parameters, given, GAMMA, LAYERS)
    assert not torch.isfinite(found[0]).all() and torch.equal(found[1], good[1])
    for value in parameters.values():  # NaN is no surprise
        value[0] = torch.nan
    assert torch.isnan(readout(parameters, given, GAMMA, LAYERS)[0]).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_matrix_form_computes_in_the_type_of_the_inputs(dtype):
    batch, contexts = instance()
    model = FullICTD.constructed(D, 2, GAMMA, 0.5, dtype=dtype)
    given = inputs.from_contexts(batch, contexts, dtype)
    found = readout(dict(model.named_parameters()), given, GAMMA, 2)
    assert found.dtype == dtype
    torch.testing.assert_close(found, model.values(given.prompts())[..., -1, :])


def test_limits_have_no_columns():
    """Masked parameters have values of states there, as no columns are needed; all other read-outs are refused."""
    batch, _ = instance()
    limit = inputs.limit_inputs(batch)
    masked, free = ({name: GOOD[name] for name in names} for names in (masked_names("tsm"), ("V", "A")))
    for call in (
        lambda: readout(masked, limit, GAMMA, LAYERS),
        lambda: readout(free, limit, GAMMA, LAYERS),
        lambda: state_values(free, limit, GAMMA, LAYERS),
    ):
        with pytest.raises(ValueError, match="^batch must hold contexts of finite length"):
            call()
    assert state_values(masked, limit, GAMMA, LAYERS).shape == (K, 4, S)
