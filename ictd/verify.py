"""The claims of the book, checked on random instances: what ``ictd verify`` prints.

Each claim is a function from an `Instance` to a relative error: the largest difference in a layer over the
larger of 1 and the layer's largest value, and of that the maximum over layers.
"""

import functools
from dataclasses import dataclass
from typing import Callable

import numpy as np

from ictd import _checks, convergence, empirical, features, kernels, mrp, prompt, reference, td
from ictd._settings import numpy_defaults, torch_defaults
from ictd.claims import random_instance, relative_error

TOLERANCE = 1e-10


# --------------------------------------------------------------------------------- claims without torch


def _position(case, score=None, **kwargs):
    return td.weighted_softmax_td(
        case.x, case.rewards, case.gamma, case.n_layers, case.step_size, score or kernels.bilinear_score(case.A), **kwargs
    )


def loops_are_the_position_form(case):
    A = case.A.tolist()

    @functools.cache  # the loops ask again in every layer
    def score(query, source):
        return sum(source[a] * A[a][b] * query[b] for a in range(len(A)) for b in range(len(A)))

    loops = reference.weighted_softmax_td_loops(
        list(map(tuple, case.x.tolist())), case.rewards.tolist(), case.gamma, case.n_layers, case.step_size, score
    )
    return relative_error(_position(case), loops)


def position_form_is_the_state_form(case):
    initial = case.rng.standard_normal(len(case.X))
    states = td.weighted_softmax_td_states(
        case.trajectory, case.X, case.gamma, case.n_layers, case.step_size, kernels.bilinear_score(case.A), initial
    )
    positions = case.trajectory.states
    return relative_error(states[:, positions], _position(case, initial=initial[positions]))


def names_of_states_do_not_matter(case):
    order = case.rng.permutation(len(case.X))
    renamed = mrp.Trajectory(order[case.trajectory.states], case.rewards)
    X = np.empty_like(case.X)
    X[order] = case.X
    arguments = (case.gamma, case.n_layers, case.step_size, kernels.bilinear_score(case.A))
    values = td.weighted_softmax_td_states(case.trajectory, case.X, *arguments)
    return relative_error(td.weighted_softmax_td_states(renamed, X, *arguments)[:, order], values)


def constant_added_to_scores_changes_nothing(case):
    score = kernels.bilinear_score(case.A)
    constants = case.rng.uniform(-100, 100, (len(case.x), 1))
    return relative_error(_position(case, lambda q, s: score(q, s) + constants), _position(case, score))


def scale_multiplies_the_scores(case):
    scale = case.rng.uniform(0.1, 3)
    scaled = td.weighted_softmax_td(np.sqrt(scale) * case.x, case.rewards, case.gamma, case.n_layers, case.step_size)
    return relative_error(_position(case, kernels.inner_product_score(scale)), scaled)


def large_scores_are_harmless(case):
    """Scores of size 10,000: kernel rows against weights in exact order, from differences of scores."""
    scores = 1e4 * case.rng.standard_normal((len(case.x), len(case.x)))
    kernel = kernels.softmax_kernel(case.x, case.x[:-1], lambda queries, sources: scores[:, : len(sources)])
    scores = scores[:, :-1]
    with np.errstate(over="ignore"):
        expected = 1 / np.exp(scores[:, None, :] - scores[:, :, None]).sum(axis=-1)
    return relative_error(kernel, expected)


def tabular_score_is_tabular_td(case):
    states, rewards = case.trajectory.states, case.rewards
    X = features.one_hot(len(case.X))
    values = np.zeros((case.n_layers + 1, len(X)))
    for t in range(case.n_layers):
        td_errors = rewards + case.gamma * values[t, states[1:]] - values[t, states[:-1]]
        values[t + 1] = values[t]
        for s in set(states[:-1].tolist()):
            values[t + 1, s] += case.step_size * td_errors[states[:-1] == s].mean()
    fast = td.weighted_softmax_td_states(
        case.trajectory, X, case.gamma, case.n_layers, case.step_size, kernels.tabular_score()
    )
    return relative_error(fast, values)


def certainty_equivalence_is_fixed(case):
    trajectory = case.closed().trajectory
    fixed = empirical.certainty_equivalence(empirical.empirical_model(trajectory, len(case.X)), case.gamma)
    start = np.nan_to_num(fixed)  # states that do not occur have no value and start anywhere
    step = td.weighted_softmax_td_states(
        trajectory, case.X, case.gamma, 1, case.step_size, kernels.bilinear_score(case.A), start
    )
    seen = ~np.isnan(fixed)
    return relative_error(step[1, seen], fixed[seen])


def _restricted(case):
    """Closed trajectory, its states, and kernel and relative frequencies on them."""
    trajectory = case.closed().trajectory
    model = empirical.empirical_model(trajectory, len(case.X))
    seen = np.ix_(model.visited, model.visited)
    kernel = kernels.empirical_kernel(trajectory, case.X, case.A)
    return trajectory, model, kernel[seen], model.transition[seen]


def iteration_matrix_carries_the_error(case):
    trajectory, model, kernel, transition = _restricted(case)
    fixed = empirical.certainty_equivalence(model, case.gamma)[model.visited]
    J = convergence.iteration_matrix(kernel, transition, case.gamma, case.step_size)
    errors = [-fixed]
    for _ in range(case.n_layers):
        errors.append(J @ errors[-1])
    values = td.weighted_softmax_td_states(
        trajectory, case.X, case.gamma, case.n_layers, case.step_size, kernels.bilinear_score(case.A)
    )
    return relative_error(fixed + errors, values[:, model.visited])


def all_ones_is_an_eigenvector(case):
    _, _, kernel, transition = _restricted(case)
    J = convergence.iteration_matrix(kernel, transition, case.gamma, case.step_size)
    return relative_error(J.sum(axis=1), np.full(len(J), 1 - case.step_size * (1 - case.gamma)))


def _norm_excess(case, step_size):
    _, _, kernel, transition = _restricted(case)
    J = convergence.iteration_matrix(kernel, transition, case.gamma, step_size)
    bound = 1 - step_size * (2 * kernel.diagonal().min() - 1 - case.gamma)
    return max(0.0, float(np.abs(J).sum(axis=1).max()) - bound) / max(1.0, bound)


def norm_bound_at_step_size_one(case):
    return _norm_excess(case, 1.0)


def norm_bound_at_any_step_size(case):
    return _norm_excess(case, case.step_size)


def two_steps_contract_on_the_border(case):
    """Assumption 5.1 with C = 0, where the norm bound is 1: for gamma > 0 two steps still contract, whatever P is.

    Attained where all states reached in up to four steps of P and Q differ: at the root of a tree.
    """
    size, gamma = len(case.X), max(case.gamma, 0.01)
    eps, bound = (1 - gamma) / 2, 1 - min(gamma * (1 - gamma) ** 2, gamma * (1 - gamma**2) / 2)

    def two_steps(Q, P):
        J = convergence.iteration_matrix((1 - eps) * np.eye(len(P)) + eps * Q, P, gamma)
        return convergence.infinity_norm(J @ J)

    excess = two_steps(*case.rng.dirichlet(np.full(size, case.rng.choice([0.1, 1.0])), (2, size))) - bound
    left = 2 * np.arange(31) + 1  # the children of node k are 2 k + 1 and 2 k + 2
    tree = np.eye(31)[np.minimum([left, left + 1], 30)]
    return max(excess, relative_error([two_steps(*tree)], [bound]))


def norm_bound_for_any_step_size_and_process(case):
    """A random kernel; attained where every state leads to the one that attends least to itself and alpha m <= 1."""
    n_states, gamma = len(case.X), case.gamma
    kernel = case.rng.dirichlet(np.full(n_states, case.rng.choice([0.1, 1.0])), n_states)
    excess = 0.0
    for step_size in (case.step_size, 2 * case.step_size):
        J = convergence.iteration_matrix(kernel, case.process.transition, gamma, step_size)
        bound = convergence.norm_bound(kernel, gamma, step_size)
        excess = max(excess, (convergence.infinity_norm(J) - bound) / max(1.0, bound))
    worst = np.zeros_like(kernel)
    worst[:, kernel.diagonal().argmin()] = 1
    J = convergence.iteration_matrix(kernel, worst, gamma, case.step_size)
    bound = convergence.norm_bound(kernel, gamma, case.step_size)
    return max(excess, relative_error([convergence.infinity_norm(J)], [bound]))


def _distinct(case, scale):
    """Counts, relative frequencies and features on the states of a closed trajectory; no two features are close."""
    _, model, _, transition = _restricted(case)
    counts, own = model.counts[model.visited], np.eye(len(transition))
    return counts, transition, scale * np.hstack([case.X[model.visited], own])


def normaliser_reverses_the_kernel(case):
    counts, _, X = _distinct(case, 1.0)
    gram = np.exp(X @ X.T)
    weights = counts * (gram @ counts)
    kernel = kernels.softmax_kernel(X, X, counts=counts)
    return relative_error(convergence.reversing_distribution(kernel), weights / weights.sum())


def small_reweighted_norm_means_convergence(case):
    """Features shrink until the condition holds: it does at last, since the trajectory is closed."""
    for scale in 0.5 ** np.arange(12):
        counts, transition, X = _distinct(case, scale)
        kernel = kernels.softmax_kernel(X, X, counts=counts)
        if convergence.reweighted_norm(kernel, transition, case.gamma) < 1:
            J = convergence.iteration_matrix(kernel, transition, case.gamma, case.step_size)
            return max(0.0, convergence.spectral_radius(J) - 1)
    return np.inf


def balanced_attention_converges(case):
    counts, transition, X = _distinct(case, 2.0)
    kernel = kernels.balanced_kernel(counts, X)
    norm = convergence.reweighted_norm(kernel, transition, case.gamma)
    ratio = convergence.reweighting_ratio(kernel, transition, case.gamma)
    J = convergence.iteration_matrix(kernel, transition, case.gamma, case.step_size)
    error = relative_error([norm, ratio], [case.gamma, case.gamma**2])
    return max(error, convergence.spectral_radius(J) - 1)


def deep_limit_is_certainty_equivalence(case):
    """Nearly tabular, so that the radius is gamma; 3,000 layers leave 1e-13 of the initial error at gamma = .99."""
    trajectory = case.closed().trajectory
    fixed = empirical.certainty_equivalence(empirical.empirical_model(trajectory, len(case.X)), case.gamma)
    seen = ~np.isnan(fixed)
    X = features.one_hot(len(case.X), 6.0)
    values = td.weighted_softmax_td_states(trajectory, X, case.gamma, 3000)
    return relative_error(values[-1, seen], fixed[seen])


def never_left_state_generalises(case):
    # A last state of its own. Long features of its own for each state keep the kernel well conditioned.
    n_states = len(case.X) + 1
    trajectory = mrp.Trajectory(np.append(case.trajectory.states, n_states - 1), np.append(case.rewards, 1.0))
    X = features.one_hot(n_states, 2.0) + 0.3 * case.rng.standard_normal((n_states, n_states))
    model = empirical.empirical_model(trajectory, n_states)
    kernel = kernels.state_kernel(model, X)[:, model.visited]
    w = np.linalg.solve(kernel[model.visited].T, kernel[-1])
    initial = case.rng.standard_normal(n_states)
    values = td.weighted_softmax_td_states(trajectory, X, case.gamma, case.n_layers, case.step_size, initial=initial)
    change = values - initial
    return relative_error(change[:, model.visited] @ w + initial[-1], values[:, -1])


# ------------------------------------------------------------------------------------ claims with torch


def _layer_values(case, layer_class, V, A, rewards=None, offset=None):
    """Z_0..Z_L as an array of shape (L+1, d+3, n+1); ``offset`` is added to the target memory."""
    import torch

    Z = prompt.build_prompt(case.x, case.rewards if rewards is None else rewards)
    if offset is not None:
        Z[prompt.rows(case.X.shape[1]).target] += offset
    layer = layer_class(V, A, case.gamma)
    Z = torch.from_numpy(Z)
    history = [Z]
    for _ in range(case.n_layers):
        history.append(layer(history[-1]))
    return torch.stack(history).numpy()


def _constructed(case, general):
    """V and A of the paper; with the instance's score matrix in the feature block if ``general``."""
    import torch

    from ictd import attention

    d = case.X.shape[1]
    V, A = attention.constructed_parameters(d, case.step_size)
    if general:
        A[:d, :d] = torch.tensor(case.A)
    return V, A


def _layers_error(case, layer_class, general):
    values = _layer_values(case, layer_class, *_constructed(case, general))[:, -1]
    return relative_error(values, _position(case, None if general else kernels.inner_product_score()))


def dual_head_is_weighted_td(case):
    from ictd.dual_head import DualHeadLayer

    return _layers_error(case, DualHeadLayer, general=False)


def dual_head_is_weighted_td_for_any_scores(case):
    from ictd.dual_head import DualHeadLayer

    return _layers_error(case, DualHeadLayer, general=True)


def shift_module_is_weighted_td(case):
    from ictd.temporal_shift import TSMLayer

    return _layers_error(case, TSMLayer, general=False)


def target_memory_is_invariant(case):
    from ictd.dual_head import DualHeadLayer

    Z = _layer_values(case, DualHeadLayer, *_constructed(case, general=True))
    target = np.zeros_like(Z[:, -2])
    target[:, :-1] = case.gamma * Z[:, -1, 1:]
    return relative_error(Z[:, -2], target)


def dual_head_is_the_shift_module(case):
    import torch

    from ictd.dual_head import DualHeadLayer
    from ictd.temporal_shift import TSMLayer

    size = case.X.shape[1] + 3
    initial = case.rng.standard_normal(len(case.x))
    dual = shifted = torch.from_numpy(prompt.build_prompt(case.x, case.rewards, initial, case.gamma))
    errors = []
    for _ in range(case.n_layers):
        # Full matrices, new ones in each layer. Small V keeps 50 layers of a non-linear map from growing without bound.
        A = torch.from_numpy(0.3 * case.rng.standard_normal((size, size)))
        V = torch.from_numpy(0.3 / size * case.rng.standard_normal((size, size)))
        V[-2] = 0
        dual, shifted = DualHeadLayer(V, A, case.gamma)(dual), TSMLayer(V, A, case.gamma)(shifted)
        errors.append(relative_error(dual.numpy().ravel(), shifted.numpy().ravel()))
    return max(errors)


def dual_head_keeps_an_offset(case):
    from ictd.dual_head import DualHeadLayer

    offset = np.append(case.rng.standard_normal(len(case.rewards)), 0.0)
    values = _layer_values(case, DualHeadLayer, *_constructed(case, general=False), offset=offset)[:, -1]
    expected = td.weighted_softmax_td(case.x, case.rewards + offset[:-1], case.gamma, case.n_layers, case.step_size)
    return relative_error(values, expected)


def shift_module_forgets_an_offset(case):
    from ictd.temporal_shift import TSMLayer

    offset = np.append(case.rng.standard_normal(len(case.rewards)), 0.0)
    Z = _layer_values(case, TSMLayer, *_constructed(case, general=False), offset=offset)
    expected = td.weighted_softmax_td(
        case.x, case.rewards, case.gamma, case.n_layers - 1, case.step_size, initial=Z[1, -1]
    )
    return relative_error(Z[1:, -1], expected)


# ------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Claim:
    """What is claimed, where it comes from, the check, and whether that needs torch."""

    text: str
    source: str
    check: Callable
    needs_torch: bool = False


CLAIMS = (
    Claim("plain loops = position form", "definition", loops_are_the_position_form),
    Claim("position form = state form, from any v_0", "ours", position_form_is_the_state_form),
    Claim("names of states do not matter", "ours", names_of_states_do_not_matter),
    Claim("a constant added to a query's scores changes nothing", "ours", constant_added_to_scores_changes_nothing),
    Claim("score scale beta = features times sqrt(beta)", "ours", scale_multiplies_the_scores),
    Claim("scores of size 10,000 do no harm", "ours", large_scores_are_harmless),
    Claim("exact tabular score = tabular TD with mean TD errors", "ours", tabular_score_is_tabular_td),
    Claim("dual-head layers = weighted softmax TD", "Theorem 1", dual_head_is_weighted_td, True),
    Claim("the same for any score matrix A", "Theorem 1", dual_head_is_weighted_td_for_any_scores, True),
    Claim("target memory = gamma x next value, every layer", "Theorem 1, proof", target_memory_is_invariant, True),
    Claim("shift-module layers = weighted softmax TD", "Lemma 1", shift_module_is_weighted_td, True),
    Claim("dual head = shift module, full random A and V", "Lemma 1", dual_head_is_the_shift_module, True),
    Claim("dual head keeps a memory offset as a reward", "ours", dual_head_keeps_an_offset, True),
    Claim("shift module forgets it after one layer", "ours", shift_module_forgets_an_offset, True),
    Claim("certainty equivalence is a fixed point", "ours", certainty_equivalence_is_fixed),
    Claim("error after t layers = J^t x initial error", "ours", iteration_matrix_carries_the_error),
    Claim("J 1 = (1 - alpha (1 - gamma)) 1", "ours", all_ones_is_an_eigenvector),
    Claim("norm bound on J, alpha = 1", "Theorem 2, proof", norm_bound_at_step_size_one),
    Claim("norm bound on J, alpha <= 1", "ours", norm_bound_at_any_step_size),
    Claim("norm bound on J, any alpha; attained", "ours", norm_bound_for_any_step_size_and_process),
    Claim("norm bound on J^2 where that on J is 1; attained", "ours", two_steps_contract_on_the_border),
    Claim("kernel is reversible with weights mu Z", "ours", normaliser_reverses_the_kernel),
    Claim("gamma ||P||_nu < 1, alpha <= 1: radius of J below 1", "ours", small_reweighted_norm_means_convergence),
    Claim("balanced attention: radius of J below 1", "ours", balanced_attention_converges),
    Claim("deep limit = certainty equivalence, sharp one-hot", "ours", deep_limit_is_certainty_equivalence),
    Claim("never-left state moves with w, a kernel combination", "ours", never_left_state_generalises),
)


@dataclass(frozen=True)
class Result:
    """The outcome of a claim; ``status`` is "ok", "FAIL" or "skipped"."""

    claim: Claim
    instances: int
    error: float
    status: str


def torch_problem():
    """What is wrong with torch, in a few words; None if it works."""
    try:
        import torch

        torch.nn.Module(), torch.from_numpy(np.zeros(1))
    except ModuleNotFoundError as error:
        return "is not installed" if error.name == "torch" else f"does not work here ({error})"
    except Exception as error:  # a broken installation may raise anything
        return " ".join(f"does not work here ({type(error).__name__}: {error})".split())
    return None


def has_torch():
    """Whether torch can be imported and works."""
    return torch_problem() is None


def run(n_instances=50, seed=0):
    """Check every claim on random instances.

    Parameters
    ----------
    n_instances : int
        Instances per claim, at least 1.
    seed : int
        Instance i is drawn from ``numpy.random.default_rng([seed, i])``, the same for every claim.

    Returns
    -------
    list of Result
        In the order of `CLAIMS`. Claims that need torch are skipped where it is missing or broken.
    """
    n_instances = _checks.integer("n_instances", n_instances, low=1)
    seed = _checks.integer("seed", seed, low=0)
    with_torch = has_torch()
    defaults = torch_defaults if with_torch else numpy_defaults
    results = []
    for claim in CLAIMS:
        if claim.needs_torch and not with_torch:
            results.append(Result(claim, 0, np.nan, "skipped"))
            continue
        with defaults():
            errors = [claim.check(random_instance(np.random.default_rng([seed, i]))) for i in range(n_instances)]
        error = float(np.max(errors))  # NaN, if any claim gave one
        results.append(Result(claim, n_instances, error, "ok" if error <= TOLERANCE else "FAIL"))
    return results


def table(results):
    """The results as text, one line per claim.

    Parameters
    ----------
    results : list of Result

    Returns
    -------
    str
    """
    lines = [("claim", "source", "instances", "largest error", "tolerance", "result")]
    for result in results:
        error = "-" if result.status == "skipped" else f"{result.error:.1e}"
        claim = result.claim
        lines.append((claim.text, claim.source, str(result.instances), error, f"{TOLERANCE:.0e}", result.status))
    width = [max(len(line[column]) for line in lines) for column in range(6)]
    align = (str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust)
    return "\n".join(
        "  ".join(put(text, length) for put, text, length in zip(align, line, width)).rstrip() for line in lines
    )
