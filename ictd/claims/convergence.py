"""Claims about convergence: the fixed point, the iteration matrix J, its norm and radius, and the deep limit."""

from dataclasses import replace

import numpy as np

from ictd import convergence, empirical, features, kernels, mrp, td
from ictd.claims.algorithm import state_form
from ictd.claims.statement import relative_error


def certainty_equivalence_is_fixed(case):
    case = replace(case.closed(), n_layers=1)
    fixed = empirical.certainty_equivalence(case.model, case.gamma)
    start = np.nan_to_num(fixed)  # states that do not occur have no value and start anywhere
    seen = ~np.isnan(fixed)
    return relative_error(state_form(case, initial=start)[1, seen], fixed[seen])


def _kernel_and_transition(closed):
    """Kernel and relative frequencies of a closed instance, on the states of its trajectory."""
    model = closed.model
    seen = np.ix_(model.visited, model.visited)
    return kernels.empirical_kernel(closed.trajectory, closed.X, closed.A)[seen], model.transition[seen]


def iteration_matrix_carries_the_error(case):
    case = case.closed()
    kernel, transition = _kernel_and_transition(case)
    visited = case.model.visited
    fixed = empirical.certainty_equivalence(case.model, case.gamma)[visited]
    J = convergence.iteration_matrix(kernel, transition, case.gamma, case.step_size)
    errors = [-fixed]
    for _ in range(case.n_layers):
        errors.append(J @ errors[-1])
    return relative_error(fixed + errors, state_form(case)[:, visited])


def all_ones_is_an_eigenvector(case):
    kernel, transition = _kernel_and_transition(case.closed())
    J = convergence.iteration_matrix(kernel, transition, case.gamma, case.step_size)
    return relative_error(J.sum(axis=1), np.full(len(J), 1 - case.step_size * (1 - case.gamma)))


def _norm_excess(case, step_size):
    kernel, transition = _kernel_and_transition(case.closed())
    J = convergence.iteration_matrix(kernel, transition, case.gamma, step_size)
    bound = 1 - step_size * (2 * kernel.diagonal().min() - 1 - case.gamma)  # as in the proof; `norm_bound` is general
    return max(0.0, convergence.infinity_norm(J) - bound) / max(1.0, bound)


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
    closed = case.closed()
    _, transition = _kernel_and_transition(closed)
    visited = closed.model.visited
    return closed.model.counts[visited], transition, scale * np.hstack([case.X[visited], np.eye(len(transition))])


def normaliser_reverses_the_kernel(case):
    counts, _, X = _distinct(case, 1.0)
    gram = np.exp(X @ X.T)  # mu Z from its definition
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
    case = case.closed()
    fixed = empirical.certainty_equivalence(case.model, case.gamma)
    seen = ~np.isnan(fixed)
    values = td.weighted_softmax_td_states(case.trajectory, features.one_hot(len(case.X), 6.0), case.gamma, 3000)
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
