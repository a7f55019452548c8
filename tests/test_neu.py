"""Objectives and the NEU loss: against plain loops, finite differences, exact enumeration, and the theory."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from strategies import assert_close

from ictd import attention, features, inputs, neu, tasks
from ictd.model import FullICTD, SoftmaxICTD
from ictd.prompt import build_prompt
from ictd.state_form import readout, state_values

GAMMA, LAYERS, S, D, N = 0.7, 3, 5, 2, 8
F64 = torch.float64


def random_model(form="tsm", shared=True, scale=0.6, seed=0, kind=SoftmaxICTD, n_layers=LAYERS, gamma=GAMMA):
    generator = torch.Generator().manual_seed(seed)
    return kind(D, n_layers, gamma, form=form, shared=shared, init_scale=scale, generator=generator)


def parameters_of(model):
    return dict(model.named_parameters())


def drawn(count=5, n=N, seed=0):
    """Tasks with contexts of n transitions."""
    rng = np.random.default_rng(seed)
    batch = tasks.draw(count, S, D, rng, "dense")
    return batch, batch.sample(n, rng)


def read(model, batch, contexts, i, start=0, n=None):
    """v_L of all columns of one prompt, built by hand, by the model."""
    n = contexts.n_transitions - start if n is None else n
    states = contexts.states[i, start : start + n + 1]
    rewards = contexts.rewards[i, start : start + n]
    return model.values(build_prompt(batch.features[i][states], rewards))[-1]


def gradient(value, model):
    """Gradient of a number in all parameters by name, zeros where there is none."""
    names, tensors = zip(*sorted(model.named_parameters()))
    found = torch.autograd.grad(value, tensors, retain_graph=True, allow_unused=True, materialize_grads=True)
    return dict(zip(names, found))


def flat(gradients):
    return torch.cat([gradients[name].ravel() for name in sorted(gradients)])


def query_update(model, batch, contexts, i):
    """delta grad TF of one task: the window of n transitions, and the same slid by one."""
    n = contexts.n_transitions - 1
    here = read(model, batch, contexts, i, 0, n)[-1]
    there = read(model, batch, contexts, i, 1, n)[-1]
    delta = contexts.rewards[i, n] + GAMMA * there - here
    return delta.detach() * flat(gradient(here, model))


FORMS = [("tsm", True), ("tsm", False), ("independent_heads", True)]


# ------------------------------------------------------------------------------------------ objectives


@pytest.mark.parametrize("form, shared", FORMS)
def test_td_gradient_is_minus_the_mean_update(form, shared):
    """The gradient of `td_loss` = - mean over tasks and columns of delta_k grad v(S_{k-1}), in plain loops."""
    model, (batch, contexts) = random_model(form, shared), drawn(3)
    loss = neu.td_loss(parameters_of(model), inputs.from_contexts(batch, contexts), GAMMA, LAYERS)
    total, squares = 0, 0
    for i in range(3):
        values = read(model, batch, contexts, i)
        for k in range(1, N + 1):
            delta = contexts.rewards[i, k - 1] + GAMMA * values[k] - values[k - 1]
            total = total + delta.detach() * flat(gradient(values[k - 1], model))
            squares += delta.item() ** 2
    assert loss.item() == pytest.approx(squares / (3 * N) / 2, rel=1e-10)
    assert_close(flat(gradient(loss, model)), -total / (3 * N))


def test_td_query_gradient_is_minus_the_mean_update():
    """`td_query_loss`: half the mean squared error of the query, the gradient minus the mean update."""
    model, (batch, contexts) = random_model(), drawn(4)
    loss = neu.td_query_loss(parameters_of(model), inputs.windows(batch, contexts), GAMMA, LAYERS)
    updates = torch.stack([query_update(model, batch, contexts, i) for i in range(4)])
    assert_close(flat(gradient(loss, model)), -updates.mean(dim=0))
    errors = [
        contexts.rewards[i, -1]
        + GAMMA * read(model, batch, contexts, i, 1, N - 1)[-1].item()
        - read(model, batch, contexts, i, 0, N - 1)[-1].item()
        for i in range(4)
    ]
    assert loss.item() == pytest.approx(np.square(errors).mean() / 2, rel=1e-10)


def test_true_value_loss_in_loops():
    """Half the mean squared error of all columns against given values, with its whole gradient."""
    model, (batch, contexts) = random_model(), drawn(3)
    targets = batch.value(GAMMA)
    loss = neu.true_value_loss(
        parameters_of(model), inputs.from_contexts(batch, contexts), torch.tensor(targets), GAMMA, LAYERS
    )
    plain = sum(
        ((read(model, batch, contexts, i) - torch.tensor(targets[i][contexts.states[i]])) ** 2).mean() for i in range(3)
    )
    assert_close(loss.detach(), plain.detach() / 6)
    assert_close(flat(gradient(loss, model)), flat(gradient(plain / 6, model)))


@pytest.mark.parametrize("form, shared", FORMS)
def test_expected_update_in_loops(form, shared):
    """The mean of delta grad TF over tasks, parameters in the order of their names."""
    model, (batch, contexts) = random_model(form, shared), drawn()
    cut = inputs.windows(batch, contexts)
    expected = torch.stack([query_update(model, batch, contexts, i) for i in range(5)]).mean(dim=0)
    for differentiable in (False, True):
        update = neu.expected_update(parameters_of(model), cut, GAMMA, LAYERS, differentiable=differentiable)
        assert_close(update.detach(), expected)
        assert update.requires_grad == differentiable


@pytest.mark.parametrize("form", ["tsm", "dual_head"])
def test_updates_of_the_full_model(form):
    """All of V and A: batch by batch, equal to loops on the model."""
    model = random_model(form, kind=FullICTD, scale=0.3)
    rng = np.random.default_rng(0)
    flat_batch = tasks.draw(6, S, D, rng, "dense")
    contexts = flat_batch.sample(N, rng)
    cut = inputs.windows(flat_batch.reshape((3, 2)), contexts.reshape((3, 2)))
    found = neu.updates(parameters_of(model), cut, 3, GAMMA, LAYERS, form)
    each = torch.stack([query_update(model, flat_batch, contexts, i) for i in range(6)])
    assert found.shape == (3, 2 * (D + 3) ** 2)
    assert_close(found, each.reshape(3, 2, -1).mean(dim=1))


def test_updates_with_seeds():
    """Windows (B, 1, T) and parameters (K, ...): entry (b, k) is the update of seed k on batch b."""
    models = [random_model(seed=seed) for seed in (1, 2)]
    stacked = {
        name: torch.stack([parameters_of(m)[name] for m in models]).detach() for name in parameters_of(models[0])
    }
    rng = np.random.default_rng(0)
    batch = tasks.draw(12, S, D, rng, "dense")
    contexts = batch.sample(N, rng)
    cut = inputs.windows(batch.reshape((3, 1, 4)), contexts.reshape((3, 1, 4)))
    found = neu.updates(stacked, cut, 3, GAMMA, LAYERS)
    for b, k in np.ndindex(3, 2):
        alone = neu.expected_update(parameters_of(models[k]), cut[b, 0], GAMMA, LAYERS)
        assert_close(found[b, k], alone, 1e-13)


# ------------------------------------------------------------------------------------------------ NEU


def population():
    """Three tasks with one context each, as the whole world: expectations are finite sums."""
    batch, contexts = drawn(3, seed=2)
    return inputs.windows(batch, contexts)


def all_draws(size):
    """Every batch of ``size`` tasks drawn with replacement from three, as a leading dimension."""
    return torch.tensor(list(itertools.product(range(3), repeat=size)))


def copies(model, count):
    return {
        name: p.detach().expand(count, *p.shape).clone().requires_grad_() for name, p in parameters_of(model).items()
    }


def test_neu_loss_is_unbiased_and_the_one_batch_loss_is_not():
    """Exact enumeration. Double sampling averages to |E g|^2 with its gradient; one batch to that plus Var(g) / T."""
    model, world, T = random_model(), population(), 2
    draws = all_draws(T)
    each = torch.stack([neu.expected_update(parameters_of(model), world[i : i + 1], GAMMA, LAYERS) for i in range(3)])
    mean = each.mean(dim=0)
    J, variance = mean @ mean, (each - mean).square().sum(dim=1).mean()
    assert variance > 0.1 * J > 0
    pairs = list(itertools.product(range(len(draws)), repeat=2))
    first, second = (draws[[pair[i] for pair in pairs]] for i in (0, 1))
    parameters = copies(model, len(pairs))
    losses = neu.neu_loss(parameters, world[first], world[second], GAMMA, LAYERS)
    assert losses.shape == (81,)
    assert_close(losses.mean().item(), J.item(), 1e-12)
    one = neu.biased_neu_loss(copies(model, len(draws)), world[draws], GAMMA, LAYERS)
    assert one.mean().item() == pytest.approx((J + variance / T).item(), rel=1e-10)
    # the gradient of the double-sampling loss averages to that of J
    exact = neu.biased_neu_loss(parameters_of(model), world, GAMMA, LAYERS)
    assert exact.item() == pytest.approx(J.item(), rel=1e-10)
    found = torch.autograd.grad(losses.sum() / len(pairs), [parameters[name] for name in sorted(parameters)])
    assert_close(torch.cat([g.sum(dim=0).ravel() for g in found]), flat(gradient(exact, model)), 1e-12)


@pytest.mark.parametrize("form, shared", FORMS)
def test_neu_gradient_by_finite_differences(form, shared):
    """The gradient goes through delta as well as through grad TF, which semi-gradient TD's does not."""
    model, world = random_model(form, shared), population()
    parameters = parameters_of(model)
    loss = neu.neu_loss(parameters, world[:2], world[1:], GAMMA, LAYERS)
    analytic, h = gradient(loss, model), 1e-6
    for name, tensor in parameters.items():
        for place in np.ndindex(*tensor.shape):
            slopes = []
            for sign in (1, -1):
                moved = {key: value.detach().clone() for key, value in parameters.items()}
                moved[name][place] += sign * h
                moved = {key: value.requires_grad_() for key, value in moved.items()}
                slopes.append(neu.neu_loss(moved, world[:2], world[1:], GAMMA, LAYERS).item())
            assert analytic[name][place].item() == pytest.approx((slopes[0] - slopes[1]) / (2 * h), abs=1e-7)


@pytest.mark.parametrize(
    "kind, form", [(SoftmaxICTD, "tsm"), (SoftmaxICTD, "independent_heads"), (FullICTD, "dual_head")]
)
def test_neu_of_a_model(kind, form):
    """The estimate is the mean inner product of all pairs of batches; one batch alone is larger by the variance."""
    model = random_model(form, kind=kind, scale=0.4)
    cut = inputs.draw_windows(4, 3, N, S, D, np.random.default_rng(1))
    matrix_form = "dual_head" if form == "dual_head" else "tsm"
    updates = [neu.expected_update(parameters_of(model), cut[b], GAMMA, LAYERS, matrix_form) for b in range(4)]
    pairs = [(a @ b).item() for a, b in itertools.permutations(updates, 2)]
    found = neu.neu(model, cut)
    assert found.value == pytest.approx(np.mean(pairs), rel=1e-9, abs=1e-15)
    one = neu.one_batch_neu(model, cut)
    squares = [u.square().sum().item() for u in updates]
    assert one.value == pytest.approx(np.mean(squares), rel=1e-10)
    assert one.standard_error == pytest.approx(np.std(squares, ddof=1) / 2, rel=1e-10)
    assert one.value > found.value and found.standard_error > 0
    assert all(p.grad is None for p in model.parameters())


# ------------------------------------------------------------------------------------------ estimators


def test_squared_norm_is_the_mean_over_pairs():
    """The closed form = the double loop, and its standard error = the jackknife that leaves out one draw at a time."""
    g = np.random.default_rng(0).normal(size=(6, 3, 4))

    def over_pairs(draws):
        pairs = itertools.permutations(range(len(draws)), 2)
        return np.mean([(draws[i] * draws[j]).sum(axis=-1) for i, j in pairs], axis=0)

    found = neu.squared_norm(torch.tensor(g))
    left_out = np.stack([over_pairs(np.delete(g, b, axis=0)) for b in range(6)])
    assert_close(found.value, over_pairs(g), 1e-13)
    assert_close(found.standard_error, np.sqrt(5 / 6 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)), 1e-13)


@pytest.mark.parametrize("mean, B", [(0.0, 16), (0.2, 16), (1.0, 16), (1.0, 5)])
def test_squared_norm_is_unbiased_and_its_interval_covers(mean, B):
    """4000 experiments with normal vectors: the mean is |m|^2 to 5 standard errors, 95 % intervals hold in 90 to 99 %.

    With m = 0 the estimate is degenerate (its fluctuations are quadratic); the jackknife is then on the wide side.
    Negative values do occur there: the estimate is no squared norm itself.
    """
    g = mean + np.random.default_rng(0).normal(size=(B, 4000, 6))
    found = neu.squared_norm(torch.tensor(g))
    exact = 6 * mean**2
    assert abs(found.value.mean() - exact) < 5 * found.value.std() / np.sqrt(4000)
    covered = (np.abs(found.value - exact) <= 1.96 * found.standard_error).mean()
    assert 0.85 + 0.05 * (B > 5) <= covered <= 0.99
    assert (found.value < 0).mean() > 0.4 or mean > 0
    biased = (g.mean(axis=0) ** 2).sum(axis=-1).mean()
    assert biased - exact > 0.5 * 6 / B  # the squared norm of the mean is not unbiased


def test_estimates_can_be_printed():
    """Numbers and arrays."""
    assert repr(neu.Estimate(0.0123456, 0.00456)) == "Estimate(0.0123 ± 0.005)"
    assert "standard_error=[" in repr(neu.squared_norm(torch.ones(3, 2, 2)))


# ------------------------------------------------------------------------- contexts of infinite length


def test_the_limit_in_loops():
    """Values and the update of the recursion on mu, P and r, with derivatives by central differences."""
    batch = tasks.draw(3, S, D, np.random.default_rng(0), "dense")
    model = random_model()
    parameters = parameters_of(model)
    A, w = (parameters[name].detach().numpy()[0] for name in ("score_matrix", "value_weights"))
    theta, step = np.append(A.ravel(), w), 1e-5

    def values(theta, i):
        A, (w_R, w_T, w_C) = theta[:-3].reshape(D, D), theta[-3:]
        process, X = batch.process(i, GAMMA), batch.features[i]
        M = process.stationary() * np.exp(X @ A.T @ X.T)  # M[s, u] has the score x(u)^T A x(s)
        M /= M.sum(axis=1, keepdims=True)
        v = np.zeros(S)
        for _ in range(LAYERS):
            v = v + M @ (w_R * process.reward + GAMMA * w_T * process.transition @ v + w_C * v)
        return v

    expected = np.zeros(len(theta))
    limit = inputs.limit_inputs(batch)
    found = state_values(parameters, limit, GAMMA, LAYERS).detach()
    for i in range(3):
        process, v = batch.process(i, GAMMA), values(theta, i)
        assert_close(found[i], v)
        slopes = [(values(theta + e, i) - values(theta - e, i)) / (2 * step) for e in step * np.eye(len(theta))]
        errors = process.reward + GAMMA * process.transition @ v - v
        expected += np.array(slopes) @ (process.stationary() * errors) / 3
    update = neu.limit_update(parameters, limit, GAMMA, LAYERS)
    assert not update.requires_grad
    np.testing.assert_allclose(update, expected, atol=1e-8)
    graph = neu.limit_update(parameters, limit, GAMMA, LAYERS, differentiable=True)
    assert graph.requires_grad
    assert_close(graph.detach(), update)


def test_long_contexts_tend_to_the_limit():
    """The mean over many queries comes close to it as contexts grow, and two parameter sets keep apart."""
    batch = tasks.draw(1, S, D, np.random.default_rng(1), "dense")
    parameters = {
        name: torch.stack([p, p / 2]).detach().requires_grad_() for name, p in parameters_of(random_model()).items()
    }
    limit = neu.limit_update(parameters, inputs.limit_inputs(batch), GAMMA, LAYERS)
    assert limit.shape == (2, D * D + 3)
    many = tasks.Tasks(*(np.repeat(a, 4000, axis=0) for a in (batch.transition, batch.reward, batch.features)))
    cut = inputs.windows(many, many.sample(400, np.random.default_rng(2)))
    for i in range(2):
        one = {name: p[i].detach().requires_grad_() for name, p in parameters.items()}
        update = neu.expected_update(one, cut, GAMMA, LAYERS)
        assert (update - limit[i]).norm() < 0.1 * limit[i].norm()


# ---------------------------------------------------------------------------------------------- theory


def test_neu_at_the_constructed_parameters():
    """THEORY 9, gamma .5, sharp one-hot features: it vanishes for long contexts and deep models, not for n = 30.

    Measured: 2.5e-4 at (n, L) = (1000, 2), 8e-4 at (30, 20), and 0 up to the error of 3e-5 at (1000, 20).
    """
    options = {"features": "one_hot", "feature_scale": 10**0.5}
    short = inputs.draw_windows(16, 256, 30, 10, 10, np.random.default_rng(0), **options)
    long = inputs.draw_windows(16, 128, 1000, 10, 10, np.random.default_rng(0), **options)
    deep, shallow = (SoftmaxICTD.constructed(10, n_layers, 0.5) for n_layers in (20, 2))
    best, stalled = neu.neu(deep, long), neu.neu(deep, short)
    assert abs(best.value) < 3 * best.standard_error < 2e-4
    assert stalled.value - 2 * stalled.standard_error > best.value + 2 * best.standard_error
    assert abs(neu.neu(shallow, long).value) < 1e-3
    other = SoftmaxICTD(10, 20, 0.5, generator=torch.Generator().manual_seed(0), init_scale=0.2)
    assert neu.neu(other, long).value > 1e-2


def silent(seed=3):
    """A model with w_R = 0, and a world of windows."""
    model = random_model(seed=seed, scale=0.7)
    model.value_weights.data[0, 0] = 0
    return model, population()


def test_a_model_that_computes_nothing():
    """w_R = 0: v is exactly 0, the update is c in the direction of w_R, and NEU is c^2: no measure of the TD loss."""
    model, world = silent()
    parameters = parameters_of(model)
    values = readout(parameters, world.here, GAMMA, LAYERS)
    assert not values.any()
    value = values[..., -1]
    slopes = [gradient(v, model)["value_weights"][0, 0] for v in value]
    c = (world.reward * torch.stack(slopes)).mean().item()
    update = neu.expected_update(parameters, world, GAMMA, LAYERS)
    expected = torch.zeros_like(update)
    expected[D * D] = c  # score_matrix comes first in the order of names
    assert abs(c) > 1e-3
    assert_close(update, expected, 1e-14)
    assert neu.biased_neu_loss(parameters, world, GAMMA, LAYERS).item() == pytest.approx(c**2, rel=1e-12)
    loss = neu.td_query_loss(parameters, world, GAMMA, LAYERS).item()
    assert loss == pytest.approx(world.reward.square().mean().item() / 2, rel=1e-12)
    # NEU can be 0 while the TD loss is not: no reward weight, and rewards that do not correlate with the slopes
    free = world.reward - c / torch.stack(slopes).square().mean() * torch.stack(slopes)
    tuned = inputs.Windows(world.here, world.there, free)
    assert neu.biased_neu_loss(parameters, tuned, GAMMA, LAYERS).item() < 1e-28
    assert neu.td_query_loss(parameters, tuned, GAMMA, LAYERS).item() > 1e-2


def test_escape_rates_of_the_trivial_minimisers():
    """THEORY 7: where w_R = c = 0, TD's Jacobian has eigenvalues (b +- sqrt(b^2 + 4 |g_c|^2)) / 2 and else 0.

    v = w_R phi, b = E[(gamma phi' - phi) phi], g_c = E[R grad phi]: measured by autograd through the expected update.
    """
    model, world = silent()
    shapes = {name: tensor.shape for name, tensor in sorted(parameters_of(model).items())}
    sizes = [shape.numel() for shape in shapes.values()]

    def named(theta):
        return {name: part.reshape(shape) for part, (name, shape) in zip(theta.split(sizes), shapes.items())}

    def phi(theta, prompts):
        unit = named(theta)
        weights = unit["value_weights"].clone()
        weights[0, 0] = 1
        return readout(unit | {"value_weights": weights}, prompts, GAMMA, LAYERS)[..., -1]

    theta = torch.cat([parameters_of(model)[name].detach().ravel() for name in shapes])
    # rewards without correlation with phi make c = 0; what the prompts hold does not change
    here = phi(theta, world.here)
    reward = world.reward - (world.reward * here).mean() / here.square().mean() * here
    world = inputs.Windows(world.here, world.there, reward)
    b = ((GAMMA * phi(theta, world.there) - here) * here).mean().item()
    slope = torch.autograd.functional.jacobian(lambda t: (reward * phi(t, world.here)).mean(), theta)

    def update(theta):
        return neu.expected_update(named(theta), world, GAMMA, LAYERS, differentiable=True)

    assert update(theta.clone().requires_grad_()).abs().max() < 1e-15
    jacobian = torch.autograd.functional.jacobian(update, theta)
    root = np.sqrt(b**2 + 4 * slope.square().sum().item())
    expected = np.sort([(b - root) / 2, (b + root) / 2] + [0.0] * (len(theta) - 2))
    eigenvalues = torch.linalg.eigvals(jacobian)
    assert_close(np.sort(eigenvalues.real.numpy()), expected, 1e-9)
    assert eigenvalues.imag.abs().max() < 1e-9
    assert expected[-1] > 1e-2 and expected[0] < -1e-2  # a strict saddle


# ---------------------------------------------------------------------------------------------- errors


def one_set(lead=()):
    return {
        "value_weights": torch.zeros(*lead, 1, 3, dtype=F64, requires_grad=True),
        "score_matrix": torch.zeros(*lead, 1, D, D, dtype=F64, requires_grad=True),
    }


def detached():
    return {name: value.detach() for name, value in one_set().items()}


def cut_of(batches, size=2, d=D, dtype=F64):
    return inputs.draw_windows(batches, size, 4, S, d, np.random.default_rng(0), dtype)


BROKEN = SoftmaxICTD.constructed(D, 2, 0.5)
BROKEN.score_matrix.data[0, 0, 0] = float("nan")
MODEL = SoftmaxICTD.constructed(D, 2, 0.5)


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: neu.neu(MODEL, cut_of(2)), ValueError, r"windows must have leading dimensions \(B, T\) with B >= 3"),
        (lambda: neu.neu(MODEL, cut_of(3)[0]), ValueError, r"windows must have .*; got \(2,\)"),
        (lambda: neu.neu(MODEL, cut_of(3).here), TypeError, "windows must be of type Windows"),
        (lambda: neu.neu(MODEL, cut_of(3, d=3)), ValueError, "windows must have d = 2 features; got 3"),
        (lambda: neu.neu(MODEL, cut_of(3, dtype=torch.float32)), TypeError, "windows must have the type of the model"),
        (lambda: neu.neu(BROKEN, cut_of(3)), ValueError, "model must have finite parameters; score_matrix"),
        (lambda: neu.neu("model", cut_of(3)), TypeError, "model must be a SoftmaxICTD or a FullICTD; got 'model'"),
        (lambda: neu.one_batch_neu(MODEL, cut_of(1)), ValueError, "windows must have leading dimensions"),
        (lambda: neu.neu(SoftmaxICTD.constructed(D, 40, 0.9, 1e9), cut_of(3)), ValueError,
         "model must have finite values and gradients on the windows in torch.float64; it overflows"),
        (lambda: neu.updates(one_set(), cut_of(3)[0], 3, 0.5, 2), ValueError,
         r"windows must have the leading dimensions \(3, 'T'\), one for the batches .*; got \(2,\)"),
        (lambda: neu.updates(one_set(), cut_of(4)[0], 4, 0.5, 2), ValueError, "windows must have the leading dim"),
        (lambda: neu.updates(one_set(), cut_of(3), 4, 0.5, 2), ValueError, "windows must have the leading dimensions"),
        (lambda: neu.updates(one_set(), cut_of(3)[:1], 3, 0.5, 2), ValueError, "windows must have the leading dimen"),
        (lambda: neu.updates(one_set((2,)), cut_of(3), 3, 0.5, 2), ValueError, r"windows must .*\(3, 1, 'T'\)"),
        (lambda: neu.updates(one_set((2,)), cut_of(3)[None], 3, 0.5, 2), ValueError, "windows must have the leading"),
        (lambda: neu.updates(one_set(), cut_of(3), 3.0, 0.5, 2), TypeError, "n_batches must be an integer"),
        (lambda: neu.updates({}, cut_of(3), 3, 0.5, 2), ValueError, "parameters must be one of the combinations"),
        (lambda: neu.expected_update([1], cut_of(1)[0], 0.5, 2), TypeError, "parameters must be of type dict"),
        (lambda: neu.expected_update({"V": 1, "A": 2}, cut_of(1)[0], 0.5, 2), TypeError, "parameters must be floating"),
        (lambda: neu.expected_update(detached(), cut_of(1)[0], 0.5, 2, differentiable=True), ValueError,
         "parameters must require a gradient for an update with a graph"),
        (lambda: neu.expected_update(one_set(), cut_of(1)[0], 0.5, 2, differentiable="no"), TypeError,
         "differentiable must be True or False; got 'no'"),
        (lambda: neu.neu_loss(one_set(), None, cut_of(3)[0], 0.5, 2), TypeError, "first must be of type Windows"),
        (lambda: neu.neu_loss(one_set(), cut_of(3)[0], None, 0.5, 2), TypeError, "second must be of type Windows"),
        (lambda: neu.neu_loss(one_set(), cut_of(3)[0], cut_of(3, d=3)[1], 0.5, 2), ValueError,
         r"parameters must have shapes as in `state_form` for d = 3"),
        (lambda: neu.neu_loss(one_set(), cut_of(3)[0], cut_of(3), 0.5, 2), ValueError,
         r"parameters must have the leading dimensions \(3,\) of their read-outs; got \(\)"),
        (lambda: neu.td_loss(one_set(), cut_of(3).here, 0.5, 3.0), TypeError, "n_layers must be an integer"),
        (lambda: neu.td_query_loss(one_set((2,)), cut_of(3), 0.5, 2), ValueError,
         r"parameters and inputs \(without T\) must have leading dimensions that broadcast; got \(2,\), \(3,\)"),
        (lambda: neu.squared_norm(torch.ones(4, 0)), ValueError, "updates must be a tensor"),
        (lambda: neu.squared_norm(torch.ones(4, 2).long()), ValueError, "updates must be a tensor of floating-point"),
        (lambda: neu.td_loss(one_set(), inputs.limit_inputs(drawn()[0]), 0.5, 2), ValueError, "batch must hold"),
        (lambda: neu.squared_norm(torch.ones(2, 3)), ValueError, "updates must be a tensor .* with B >= 3"),
        (lambda: neu.squared_norm(np.ones((4, 3))), ValueError, "updates must be a tensor"),
        (lambda: neu.expected_update(one_set(), cut_of(1).here, 0.5, 2), TypeError, "windows must be of type Windows"),
        (lambda: neu.td_query_loss(one_set(), None, 0.5, 2), TypeError, "windows must be of type Windows; got None"),
        (lambda: neu.expected_update(one_set(), cut_of(3), 0.5, 2), ValueError,
         r"parameters must have the leading dimensions \(3,\) of their read-outs; got \(\)"),
        (lambda: neu.expected_update(one_set((2,)), cut_of(3)[:, None], 0.5, 2), ValueError,
         r"parameters must have the leading dimensions \(3, 2\)"),
        (lambda: neu.limit_update({"V": None, "A": None}, inputs.limit_inputs(drawn()[0]), 0.5, 2), ValueError,
         "parameters must be masked; got V, A"),
        (lambda: neu.limit_update(one_set(), cut_of(3)[0].here, 0.5, 2), ValueError,
         "batch must come from limit_inputs"),
        (lambda: neu.limit_update(one_set((2,)), inputs.limit_inputs(drawn()[0].reshape((5, 1, 1))), 0.5, 2),
         ValueError,
         r"parameters must have the leading dimensions \(5, 2\)"),
    ],
)  # fmt: skip
def test_bad_arguments(call, kind, message):
    """Errors name the argument, what came and what was expected."""
    with pytest.raises(kind, match=f"^{message}"):
        call()


def test_without_masks_the_gradient_grows_like_depth_and_the_error_still_wins():
    """A closed walk of three states, whose prompts hold the whole process; all of V and A are free."""
    X, states = features.one_hot(3, np.sqrt(3)), np.array([[0, 1, 2, 0, 1], [1, 2, 0, 1, 2], [2, 0, 1, 2, 0]])
    reward, P = np.array([4.0, 0.0, 8.0]), np.roll(np.eye(3), 1, axis=1)
    batch = tasks.Tasks(*(np.stack([a] * 3) for a in (P, reward, X)))
    windows = inputs.windows(batch, tasks.Contexts(states, reward[states[:, :-1]], 3))
    sizes, losses = [], []
    for depth in (20, 40, 80):
        parameters = {
            name: matrix.clone()[None].requires_grad_()
            for name, matrix in zip("VA", attention.constructed_parameters(3))
        }
        value = readout(parameters, windows.here, 0.5, depth)[0, -1]
        gradients = torch.autograd.grad(value, list(parameters.values()))
        sizes.append(float(sum(g.square().sum() for g in gradients).sqrt()))
        losses.append(float(neu.expected_update(parameters, windows, 0.5, depth).square().sum()))
    assert 1.8 < sizes[1] / sizes[0] < 2.5 and 1.8 < sizes[2] / sizes[1] < 2.5
    assert losses[1] < 1e-9 * losses[0] and losses[2] <= losses[1]


def test_targets_of_another_shape_are_refused():
    """A gather would read some numbers of larger targets, and broadcast those of fewer tasks."""
    batch, contexts = drawn(4)
    given, targets = inputs.from_contexts(batch, contexts), torch.from_numpy(batch.value(GAMMA))
    neu.true_value_loss(one_set(), given, targets, GAMMA, 2)
    for wrong in (
        targets[None], targets[0], targets.T, targets[:1], targets[:-1], targets[:, :1], torch.cat([targets] * 2),
        torch.cat([targets, targets], dim=1), targets.float(), targets.numpy(), targets * torch.nan,
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match="^targets must"):
            neu.true_value_loss(one_set(), given, wrong, GAMMA, 2)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_updates_are_computed_in_any_grad_mode(mode):
    """A gradient is the answer: it does not need the caller to record one, nor parameters that require it."""
    model = random_model()
    parameters, cut = parameters_of(model), cut_of(3)
    expected = neu.expected_update(parameters, cut[0], GAMMA, LAYERS)
    losses = neu.neu_loss(parameters, cut[0], cut[1], GAMMA, LAYERS)
    assert losses.requires_grad and not expected.requires_grad
    fixed = {name: value.detach() for name, value in parameters.items()}
    assert torch.equal(neu.expected_update(fixed, cut[0], GAMMA, LAYERS), expected)
    with mode():
        inside = {name: value + 0 for name, value in parameters.items()}
        again = cut_of(3)
        assert torch.equal(neu.expected_update(inside, again[0], GAMMA, LAYERS), expected)
        assert torch.equal(neu.neu_loss(inside, again[0], again[1], GAMMA, LAYERS), losses)
        assert neu.neu(model, again) == neu.neu(model, cut)
        assert not neu.td_query_loss(parameters, again[0], GAMMA, LAYERS).requires_grad  # the caller's right


def test_an_estimate_is_read_only_and_equal_to_its_copies():
    estimate = neu.squared_norm(torch.arange(24.0).reshape(4, 2, 3))
    for one in (estimate, copy.deepcopy(estimate), pickle.loads(pickle.dumps(estimate))):
        assert one == estimate and not one.value.flags.writeable and not one.standard_error.flags.writeable
    assert estimate != neu.squared_norm(torch.ones(4, 2, 3)) and estimate != 3


def test_updates_whose_squares_overflow_give_no_number():
    """Each entry is finite, and the estimate of a model would be NaN."""
    assert np.isnan(neu.squared_norm(torch.full((3, 2), 1e200, dtype=torch.float64)).value)
    batch, contexts = drawn(6)
    large = tasks.Contexts(contexts.states, 1e100 * contexts.rewards, S)
    cut = inputs.windows(batch.reshape((3, 2)), large.reshape((3, 2)))
    for estimate in (neu.neu, neu.one_batch_neu):
        with pytest.raises(ValueError, match="^model must have smaller gradients on the windows"):
            estimate(random_model(), cut)
    for wrong in (torch.ones(3, 2).to_sparse(), torch.ones(3, 2, device="meta")):
        with pytest.raises(TypeError, match="^updates must be a dense tensor"):
            neu.squared_norm(wrong)


def test_no_parameter_sets_are_refused():
    parameters = {name: value.detach()[None][:0] for name, value in parameters_of(random_model()).items()}
    with pytest.raises(ValueError, match="^parameters must not be empty"):
        neu.expected_update(parameters, cut_of(3)[0], GAMMA, LAYERS)


def test_a_set_that_overflows_has_a_loss_and_an_update_of_nan():
    one = parameters_of(random_model())
    parameters = {name: torch.stack([value, 1e300 * value]).detach() for name, value in one.items()}
    batch, contexts = drawn()
    given = inputs.from_contexts(batch, contexts)
    loss = neu.td_loss(parameters, given, GAMMA, LAYERS)
    update = neu.expected_update(parameters, cut_of(1), GAMMA, LAYERS)
    assert torch.isfinite(loss[0]) and not torch.isfinite(loss[1])
    assert torch.isfinite(update[0]).all() and not torch.isfinite(update[1]).any()
