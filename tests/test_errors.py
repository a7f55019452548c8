"""Bad input: every public function of the core refuses it with an error that names the argument.

One table. A row holds what is tried, the call, the type of the error and fragments of its message: the argument,
what came, what was expected.
"""

from fractions import Fraction

import numpy as np
import pytest
import torch

from ictd import _checks, _files, convergence, empirical, kernels, mrp, rates, tasks, td
from ictd.attention import attention_weights, constructed_parameters, shift_left, softmax_attention
from ictd.dual_head import DualHeadLayer, target_value_matrix
from ictd.environments import from_gymnasium, rollout_gymnasium
from ictd.features import gaussian, one_hot, triangular
from ictd.model import FullICTD, SoftmaxICTD
from ictd.mrp import MRP, Trajectory, boyan_chain
from ictd.prompt import build_prompt, check_memory, memory_offset, rows
from ictd.temporal_shift import TSMLayer, shift_matrices, temporal_shift

NAN, INF = float("nan"), float("inf")
RNG = np.random.default_rng(0)
P, R = np.full((3, 3), 1 / 3), np.zeros(3)
KERNEL = (np.eye(3) + P) / 2
PROCESS = MRP(P, R, 0.9)
X, REWARDS = np.ones((4, 2)), np.ones(3)
RARE = MRP([[1 - 1e-9, 1e-9], [1.0, 0.0]], [0.0, 0.0], 0.5, [1.0, 0.0])  # the second state is hardly ever seen
WALK = Trajectory([0, 1, 0], [1.0, 2.0])
OPEN = empirical.empirical_model(Trajectory([0, 1, 2], [1.0, 2.0]), 3)
CLOSED = empirical.empirical_model(WALK, 2)
HUGE = 10**30
Z = torch.ones(5, 4, dtype=torch.float64)
V, A = constructed_parameters(2)
HALF = torch.float16
SINGLE = V.float()
MODEL = SoftmaxICTD.constructed(2, 3, 0.9)
BATCH = tasks.draw(4, 3, 2, np.random.default_rng(0))
CONTEXTS = BATCH.sample(5, np.random.default_rng(0))


class Tabular:
    """A small environment with a model: two states, two actions."""

    P = {s: {a: [(1.0, a, 0.0, False)] for a in range(2)} for s in range(2)}
    initial_state_distrib = [1.0, 0.0]


def model(**changes):
    arguments = {"d": 2, "n_layers": 3, "gamma": 0.9, "generator": torch.Generator()}
    return SoftmaxICTD(**(arguments | changes))


def large_rewards():
    return tasks.Contexts([[0, 0, 1]], [[1.7e308, 1.7e308]], 2)


def an_empirical_model(**changes):
    """An `EmpiricalModel` with one field replaced."""
    fields = {"counts": [1, 0], "transition": [[0, 1], [0, 0]], "reward": [1.0, NAN], "visited": [True, False]}
    return empirical.EmpiricalModel(**(fields | changes))


def a_kernel(A, X=((1.0, 0.0, 0.0), (0.0, 1.0, 0.5), (0.3, 0.0, 1.0))):
    """A kernel of three states, in equal shares, with the score matrix A."""
    return kernels.softmax_kernel(X, X, A)


def curves(**changes):
    arguments = {"process": PROCESS, "X": np.eye(3), "lengths": [9], "n_trajectories": 2, "n_layers": 3, "rng": RNG}
    return rates.error_curves(**(arguments | changes))


def of_batch(tensor, size):
    """A stack of ``size`` copies of a matrix."""
    return tensor.expand(size, *tensor.shape)


def broken(name):
    """A model with a NaN in one of its parameters."""
    result = SoftmaxICTD.constructed(2, 3, 0.9)
    getattr(result, name).data.view(-1)[0] = NAN
    return result


def with_entry(tensor, value):
    tensor = tensor.clone()
    tensor[0, 0] = value
    return tensor


# Discounts, checked wherever one is taken.
DISCOUNTED = {
    "MRP": lambda gamma: MRP(P, R, gamma),
    "boyan_chain": lambda gamma: boyan_chain(5, gamma, RNG),
    "from_gymnasium": lambda gamma: from_gymnasium(Tabular(), [0, 0], gamma),
    "weighted_softmax_td": lambda gamma: td.weighted_softmax_td(X, REWARDS, gamma, 2),
    "weighted_softmax_td_states": lambda gamma: td.weighted_softmax_td_states(WALK, np.eye(2), gamma, 2),
    "certainty_equivalence": lambda gamma: empirical.certainty_equivalence(CLOSED, gamma),
    "contraction_margin": lambda gamma: convergence.contraction_margin(KERNEL, gamma),
    "iteration_matrix": lambda gamma: convergence.iteration_matrix(KERNEL, P, gamma),
    "norm_bound": lambda gamma: convergence.norm_bound(KERNEL, gamma),
    "reweighted_norm": lambda gamma: convergence.reweighted_norm(KERNEL, P, gamma),
    "reweighting_ratio": lambda gamma: convergence.reweighting_ratio(KERNEL, P, gamma),
    "build_prompt": lambda gamma: build_prompt(X, REWARDS, np.zeros(4), gamma),
    "memory_offset": lambda gamma: memory_offset(Z, gamma),
    "check_memory": lambda gamma: check_memory(Z, gamma),
    "target_value_matrix": lambda gamma: target_value_matrix(V, gamma),
    "DualHeadLayer": lambda gamma: DualHeadLayer(V, A, gamma),
    "shift_matrices": lambda gamma: shift_matrices(2, gamma),
    "temporal_shift": lambda gamma: temporal_shift(Z, gamma),
    "TSMLayer": lambda gamma: TSMLayer(V, A, gamma),
    "SoftmaxICTD": lambda gamma: model(gamma=gamma),
    "SoftmaxICTD.constructed": lambda gamma: SoftmaxICTD.constructed(2, 3, gamma),
    "FullICTD": lambda gamma: FullICTD(2, 3, gamma, generator=torch.Generator()),
    "FullICTD.from_matrices": lambda gamma: FullICTD.from_matrices(V[None], A[None], 3, gamma),
    "Tasks.value": lambda gamma: BATCH.value(gamma),
    "Tasks.process": lambda gamma: BATCH.process(0, gamma),
    "Contexts.constant_value": lambda gamma: CONTEXTS.constant_value(gamma),
    "Contexts.certainty_equivalence": lambda gamma: CONTEXTS.certainty_equivalence(gamma),
}
BAD_DISCOUNTS = [
    (1, ValueError, "got 1"),
    (-0.1, ValueError, "got -0.1"),
    (NAN, ValueError, "got nan"),
    (10**400, ValueError, "got 1000"),
    (True, TypeError, "got True"),
    ("0.9", TypeError, "got '0.9'"),
    (0.5 + 0j, TypeError, "got (0.5+0j)"),
    ([0.9], TypeError, "got a list of shape (1,)"),
    (torch.tensor(0.9), TypeError, "got a Tensor of shape ()"),
    (10**5000, ValueError, "got a value of type int"),
]

# Step sizes of four steps, in the two forms of TD and in the constructed model.
STEPPED = {
    "weighted_softmax_td": lambda size: td.weighted_softmax_td(X, REWARDS, 0.9, 4, size),
    "weighted_softmax_td_states": lambda size: td.weighted_softmax_td_states(WALK, np.eye(2), 0.9, 4, size),
    "SoftmaxICTD.constructed": lambda size: SoftmaxICTD.constructed(2, 4, 0.9, size),
}
BAD_STEP_SIZES = [
    (0, ValueError, "(0, inf)", "got 0"),
    (-0.5, ValueError, "got -0.5"),
    (NAN, ValueError, "got nan"),
    (INF, ValueError, "got inf"),
    (None, TypeError, "got None"),
    ("1", TypeError, "got '1'"),
    ([1, 1, 1], ValueError, "(4,)", "got shape (3,)"),
    ([], ValueError, "(4,)", "got shape (0,)"),
    ([1, 1, 0, 1], ValueError, "positive", "entry 2 is 0.0"),
    ([1, NAN, 1, 1], ValueError, "finite", "entry (1,) is nan"),
    ([[1], [1, 1]], TypeError, "(4,)", "different lengths"),
    (["1", "1", "1", "1"], TypeError, "real numbers"),
]

# Arrays of real numbers: the argument, its expected shape in the message, and a call with a replacement.
ARRAYS = {
    "transition of MRP": ("(S, S)", lambda a: MRP(a, R, 0.9)),
    "reward of MRP": ("(3,)", lambda a: MRP(P, a, 0.9)),
    "start of MRP": ("(3,)", lambda a: MRP(P, R, 0.9, a)),
    "rewards of Trajectory": ("(2,)", lambda a: Trajectory([0, 1, 0], a)),
    "x of weighted_softmax_td": ("(4, d)", lambda a: td.weighted_softmax_td(a, REWARDS, 0.9, 2)),
    "rewards of weighted_softmax_td": ("(n,)", lambda a: td.weighted_softmax_td(X, a, 0.9, 2)),
    "initial of weighted_softmax_td": ("(4,)", lambda a: td.weighted_softmax_td(X, REWARDS, 0.9, 2, initial=a)),
    "X of weighted_softmax_td_states": ("(S, d)", lambda a: td.weighted_softmax_td_states(WALK, a, 0.9, 2)),
    "initial of weighted_softmax_td_states": (
        "(2,)",
        lambda a: td.weighted_softmax_td_states(WALK, np.eye(2), 0.9, 2, initial=a),
    ),
    "X of state_kernel": ("(3, d)", lambda a: kernels.state_kernel(OPEN, a)),
    "A of bilinear_score": ("(d, d)", lambda a: kernels.bilinear_score(a)),
    "queries of softmax_kernel": ("(q, d)", lambda a: kernels.softmax_kernel(a, X)),
    "sources of softmax_kernel": ("(m, 2)", lambda a: kernels.softmax_kernel(X, a)),
    "counts of softmax_kernel": ("(4,)", lambda a: kernels.softmax_kernel(X, X, counts=a)),
    "score(queries, sources) of softmax_kernel": ("(4, 4)", lambda a: kernels.softmax_kernel(X, X, lambda q, s: a)),
    "counts of EmpiricalModel": ("(S,)", lambda a: an_empirical_model(counts=a)),
    "transition of EmpiricalModel": ("(2, 2)", lambda a: an_empirical_model(transition=a)),
    "reward of EmpiricalModel": ("(2,)", lambda a: an_empirical_model(reward=a)),
    "X of population_kernel": ("(3, d)", lambda a: kernels.population_kernel(PROCESS, a)),
    "X of empirical_kernel": ("(S, d)", lambda a: kernels.empirical_kernel(WALK, a)),
    "M of diagonality": ("(S, S)", lambda a: convergence.diagonality(a)),
    "M of contraction_margin": ("(S, S)", lambda a: convergence.contraction_margin(a, 0.9)),
    "M of iteration_matrix": ("(S, S)", lambda a: convergence.iteration_matrix(a, P, 0.9)),
    "transition of iteration_matrix": ("(3, 3)", lambda a: convergence.iteration_matrix(KERNEL, a, 0.9)),
    "J of spectral_radius": ("(S, S)", lambda a: convergence.spectral_radius(a)),
    "J of infinity_norm": ("(S, S)", lambda a: convergence.infinity_norm(a)),
    "M of norm_bound": ("(S, S)", lambda a: convergence.norm_bound(a, 0.9)),
    "M of reversing_distribution": ("(S, S)", lambda a: convergence.reversing_distribution(a)),
    "transition of reweighted_norm": ("(3, 3)", lambda a: convergence.reweighted_norm(KERNEL, a, 0.9)),
    "transition of reweighting_ratio": ("(3, 3)", lambda a: convergence.reweighting_ratio(KERNEL, a, 0.9)),
    "weights of balanced_kernel": ("(S,)", lambda a: kernels.balanced_kernel(a, X)),
    "X of balanced_kernel": ("(3, d)", lambda a: kernels.balanced_kernel([1, 1, 1], a)),
    "X of error_curves": ("(3, d)", lambda a: rates.error_curves(PROCESS, a, [9], 2, 3, RNG)),
    "errors of fitted_rate": ("(m, L+1)", lambda a: rates.fitted_rate(a, (0, 1), RNG)),
    "lengths of fitted_slope": ("(K,)", lambda a: rates.fitted_slope(a, X, RNG)),
    "floors of fitted_slope": ("(4, m)", lambda a: rates.fitted_slope([1, 2, 3, 4], a, RNG)),
    "x of build_prompt": ("(..., n+1, d)", lambda a: build_prompt(a, REWARDS)),
    "rewards of build_prompt": ("(3,)", lambda a: build_prompt(X, a)),
    "initial of build_prompt": ("(4,)", lambda a: build_prompt(X, REWARDS, a, 0.9)),
    "Z of memory_offset": ("(..., d+3, n+1)", lambda a: memory_offset(a, 0.9)),
    "Z of check_memory": ("(..., d+3, n+1)", lambda a: check_memory(a, 0.9)),
    "Z0 of SoftmaxICTD": ("(..., d+3, n+1)", lambda a: MODEL(a)),
    "transition of Tasks": ("(..., S, S)", lambda a: tasks.Tasks(a, R, X[:3])),
    "reward of Tasks": ("(..., 3)", lambda a: tasks.Tasks(P, a, X[:3])),
    "features of Tasks": ("(..., 3, d)", lambda a: tasks.Tasks(P, R, a)),
    "rewards of Contexts": ("(..., n)", lambda a: tasks.Contexts([0, 1, 0], a, 3)),
    "transition of sample_paths": ("(..., S, S)", lambda a: mrp.sample_paths(a, [0], [[0.5]])),
    "uniforms of sample_paths": ("(..., n)", lambda a: mrp.sample_paths(P, [0], a)),
    "X of single": ("(3, d)", lambda a: tasks.single(MRP(P, R, 0.9), a)),
    "policy of from_gymnasium": ("(2, 2)", lambda a: from_gymnasium(Tabular(), a, 0.9)),
}
NO_ARRAYS = [
    ("ragged", [[1.0], [1.0, 2.0]], TypeError, "different lengths"),
    ("strings", [["1", "2"], ["3", "4"]], TypeError, "<U1"),
    ("objects with strings", np.array([["1", 2], [3, 4]], dtype=object), TypeError, "object"),
    ("dates", np.zeros((2, 2), dtype="datetime64[D]"), TypeError, "datetime64"),
    ("complex", np.ones((2, 2), dtype=complex), TypeError, "complex128"),
    ("a class", np.ndarray, TypeError, "ndarray"),
    ("a large int", [[10**400]], TypeError, "object"),
    ("tensors with a gradient", [[torch.ones(1, requires_grad=True)[0]]], TypeError, "cannot read"),
    ("five dimensions, one of them empty", np.ones((1, 1, 1, 0, 1)), ValueError, "(1, 1, 1, 0, 1)"),
]
# Tensors that NumPy cannot read, where an array is expected; prompts may be tensors and have rows of their own.
NO_ARRAY_TENSORS = [
    ("a tensor with a gradient", torch.ones(2, 2, requires_grad=True), TypeError, "dense CPU tensor with data"),
    ("a tensor without data", torch.ones(2, 2, device="meta"), TypeError, "dense CPU tensor with data"),
    ("a sparse tensor", torch.ones(2, 2).to_sparse(), TypeError, "dense CPU tensor with data"),
]

ROWS = [
    # ---- mrp
    ("negative probability", lambda: MRP([[1.5, -0.5], [0, 1]], [0, 0], 0.9),
     ValueError, "transition", "(0, 1) is -0.5"),
    ("rows do not sum to 1", lambda: MRP([[1, 0], [0.4, 0.5]], [0, 0], 0.9),
     ValueError, "transition", "row 1", "0.9"),
    ("not square", lambda: MRP(np.ones((2, 3)) / 3, [0, 0], 0.9), ValueError, "transition", "(S, S)", "(2, 3)"),
    ("NaN probability", lambda: MRP([[NAN, 1], [0, 1]], [0, 0], 0.9),
     ValueError, "transition", "finite", "(0, 0) is nan"),
    ("infinite reward", lambda: MRP(P, [0, INF, 0], 0.9), ValueError, "reward", "finite", "(1,) is inf"),
    ("too few rewards", lambda: MRP(P, [0, 0], 0.9), ValueError, "reward", "(3,)", "(2,)"),
    ("start sums to 2", lambda: MRP(P, R, 0.9, [1, 1, 0]), ValueError, "start", "sum to 1", "sums to 2"),
    ("negative start", lambda: MRP(P, R, 0.9, [2, -1, 0]), ValueError, "start", "non-negative", "entry 1 is -1"),
    ("no states", lambda: MRP(np.zeros((0, 0)), [], 0.9), ValueError, "transition", "empty", "(0, 0)"),
    ("state names", lambda: Trajectory(["a", "b"], [1.0]), TypeError, "states", "integer", "<U1"),
    ("float states", lambda: Trajectory([0.0, 1.0], [1.0]), TypeError, "states", "integer", "float64"),
    ("boolean states", lambda: Trajectory([True, False], [1.0]), TypeError, "states", "integer", "bool"),
    ("ragged states", lambda: Trajectory([[0], [0, 1]], [1.0]), TypeError, "states", "integer", "different lengths"),
    ("negative state", lambda: Trajectory([0, -1], [1.0]), ValueError, "states", "entry 1 is -1"),
    ("state beyond int64", lambda: Trajectory(np.array([0, 2**64 - 1], dtype=np.uint64), [1.0]),
     ValueError, "states"),
    ("no transition", lambda: Trajectory([0], []), ValueError, "states", "n >= 1", "(1,)"),
    ("empty trajectory", lambda: Trajectory(np.array([], dtype=int), []), ValueError, "states", "n >= 1", "(0,)"),
    ("as many rewards as states", lambda: Trajectory([0, 1], [1.0, 2.0]), ValueError, "rewards", "(1,)", "(2,)"),
    ("NaN reward", lambda: Trajectory([0, 1], [NAN]), ValueError, "rewards", "finite", "nan"),
    ("two states", lambda: boyan_chain(2, 0.9, RNG), ValueError, "n_states", "at least 3", "2"),
    ("float number", lambda: boyan_chain(5.0, 0.9, RNG), TypeError, "n_states", "integer", "5.0"),
    ("seed for a generator", lambda: boyan_chain(5, 0.9, 0), TypeError, "rng", "numpy.random.Generator", "0"),
    ("RandomState", lambda: boyan_chain(5, 0.9, np.random.RandomState(0)),
     TypeError, "rng", "Generator", "RandomState"),
    ("torch generator", lambda: MRP(P, R, 0.9).sample(5, torch.Generator()),
     TypeError, "rng", "numpy.random.Generator"),
    ("no transitions", lambda: MRP(P, R, 0.9).sample(0, RNG), ValueError, "n_transitions", "at least 1", "0"),
    ("True transitions", lambda: MRP(P, R, 0.9).sample(True, RNG), TypeError, "n_transitions", "integer", "True"),
    ("unknown state", lambda: MRP(P, R, 0.9).sample(5, RNG, 3), ValueError, "start_state", "from 0 to 2", "3"),
    ("negative state", lambda: MRP(P, R, 0.9).sample(5, RNG, -1), ValueError, "start_state", "from 0 to 2", "-1"),
    ("two classes", lambda: MRP(np.eye(2), [0, 0], 0.9).stationary(),
     ValueError, "transition", "one recurrent class", "2"),
    ("no tabular model", lambda: from_gymnasium("FrozenLake-v1", [0], 0.9), ValueError, "env", "'FrozenLake-v1'"),
    ("no environment", lambda: rollout_gymnasium(None, [0], 5, RNG), ValueError, "env", "None"),
    ("too few actions", lambda: from_gymnasium(Tabular(), [0], 0.9), ValueError, "policy", "(2,)", "(1,)"),
    ("unknown action", lambda: from_gymnasium(Tabular(), [0, 2], 0.9), ValueError, "policy", "0 to 1", "2"),
    ("float actions", lambda: from_gymnasium(Tabular(), [0.0, 1.0], 0.9), TypeError, "policy", "integer", "float64"),
    ("policy rows", lambda: from_gymnasium(Tabular(), np.ones((2, 2)), 0.9), ValueError, "policy", "sum to 1", "2"),
    ("policy shape", lambda: from_gymnasium(Tabular(), np.ones((2, 3)) / 3, 0.9),
     ValueError, "policy", "(2, 2)", "(2, 3)"),
    ("one action", lambda: from_gymnasium(Tabular(), 0, 0.9), ValueError, "policy", "(2, 2)", "()"),
    ("rollout without rng", lambda: rollout_gymnasium(Tabular(), [0, 0], 5, None),
     TypeError, "rng", "Generator", "None"),
    ("empty rollout", lambda: rollout_gymnasium(Tabular(), [0, 0], 0, RNG),
     ValueError, "n_transitions", "at least 1", "0"),
    ("masked states", lambda: Trajectory(np.ma.array([0, 5], mask=[0, 1]), [1.0]), ValueError, "states", "masked"),
    ("tensors as states", lambda: Trajectory([torch.tensor(0.0, requires_grad=True), 1], [1.0]),
     TypeError, "states", "integer", "cannot read"),
    ("states without data", lambda: Trajectory(torch.zeros(2, dtype=torch.int64, device="meta"), [1.0]),
     TypeError, "states", "integer", "dense CPU tensor with data"),
    ("huge chain", lambda: boyan_chain(HUGE, 0.9, RNG), ValueError, "n_states", "from 3 to 1048576", "1000000"),
    ("huge sample", lambda: MRP(P, R, 0.9).sample(HUGE, RNG),
     ValueError, "n_transitions", "at most 2147483647", "1000000"),
    ("masked number", lambda: MRP(P, R, np.ma.masked), ValueError, "gamma", "masked"),
    ("values that overflow", lambda: MRP([[1.0]], [1e308], 0.99).value(), ValueError, "reward", "overflows", "1e+308"),
    # ---- kernels, convergence and rates
    ("a matrix for a process", lambda: kernels.population_kernel(P, np.eye(3)), TypeError, "process", "MRP", "ndarray"),
    ("A of another dimension", lambda: kernels.population_kernel(PROCESS, np.ones((3, 2)), np.eye(3)),
     ValueError, "score", "d = 2", "A", "(3, 3)"),
    ("two recurrent classes", lambda: kernels.population_kernel(MRP(np.eye(2), [0, 0], 0.5), np.eye(2)),
     ValueError, "transition", "one recurrent class"),
    ("list for a trajectory", lambda: kernels.empirical_kernel([0, 1], np.eye(2)),
     TypeError, "trajectory", "Trajectory", "list"),
    ("a state without features", lambda: kernels.empirical_kernel(WALK, [[1.0]]), ValueError, "n_states", "state 1"),
    ("weight 0", lambda: kernels.balanced_kernel([1, 0], np.eye(2)), ValueError, "weights", "positive", "0.0"),
    ("negative definite", lambda: kernels.balanced_kernel([1, 1], np.eye(2), -np.eye(2)),
     ValueError, "score", "positive semidefinite"),
    ("not symmetric", lambda: kernels.balanced_kernel([1, 1], np.eye(2), [[1, 1], [0, 1]]),
     ValueError, "score", "symmetric"),
    ("no square kernel", lambda: convergence.diagonality(np.ones((2, 3))),
     ValueError, "M", "square", "(S, S)", "(2, 3)"),
    ("visited as numbers", lambda: convergence.diagonality(np.eye(2), [1, 0]),
     ValueError, "visited", "booleans of shape (2,)", "int64"),
    ("visited ragged", lambda: convergence.diagonality(np.eye(2), [[True], [True, False]]),
     ValueError, "visited", "booleans", "lengths"),
    ("visited masked", lambda: convergence.diagonality(np.eye(2), np.ma.array([True, True], mask=[0, 1])),
     ValueError, "visited", "masked"),
    ("nothing visited", lambda: convergence.diagonality(np.eye(2), [False, False]),
     ValueError, "visited", "at least one"),
    ("transition of another size", lambda: convergence.iteration_matrix(np.eye(2), np.eye(3), 0.5),
     ValueError, "transition", "(2, 2)", "(3, 3)"),
    ("step size 0", lambda: convergence.iteration_matrix(np.eye(2), np.eye(2), 0.5, 0.0),
     ValueError, "step_size", "(0, inf)", "0.0"),
    ("NaN in J", lambda: convergence.spectral_radius([[NAN]]), ValueError, "J", "finite", "nan"),
    ("no square J", lambda: convergence.infinity_norm(np.ones((2, 3))), ValueError, "J", "square", "(2, 3)"),
    ("rows of one half", lambda: convergence.norm_bound(0.5 * np.eye(2), 0.5), ValueError, "M", "sum to 1", "0.5"),
    ("step size 0", lambda: convergence.norm_bound(np.eye(2), 0.5, 0), ValueError, "step_size", "(0, inf)", "0"),
    ("rows that lead out", lambda: convergence.norm_bound([[0.5, 0.5], [0, 1]], 0.5, visited=[True, False]),
     ValueError, "M", "M of the visited states", "sum to 1", "0.5"),
    ("shares that vanish", lambda: convergence.reversing_distribution(a_kernel(None, [[26, 0], [0, 9], [0, -9]])),
     ValueError, "M", "float64", "vanish"),
    ("not symmetric", lambda: convergence.reversing_distribution(a_kernel(np.triu(np.ones((3, 3))))),
     ValueError, "M", "symmetric"),
    ("a negative definite score matrix", lambda: convergence.reversing_distribution(a_kernel(-np.eye(3))),
     ValueError, "M", "positive definite", "-"),
    ("equal features", lambda: convergence.reversing_distribution(a_kernel(None, [[1, 2], [0, 1], [1, 2]])),
     ValueError, "M", "distinct features"),
    ("transition of another size", lambda: convergence.reweighted_norm(a_kernel(None), np.eye(2), 0.5),
     ValueError, "transition", "(3, 3)", "(2, 2)"),
    ("transition of another size", lambda: convergence.reweighting_ratio(a_kernel(None), np.eye(2), 0.5),
     ValueError, "transition", "(3, 3)", "(2, 2)"),
    ("rows of 3", lambda: convergence.reweighting_ratio(a_kernel(None), np.ones((3, 3)), 0.5),
     ValueError, "transition", "row 0", "sums to 3"),
    ("one length", lambda: curves(lengths=9), ValueError, "lengths", "got 9"),
    ("a state hardly ever seen", lambda: curves(process=RARE, X=np.eye(2)), ValueError, "lengths", "hardly any"),
    ("no process", lambda: curves(process=None), TypeError, "process", "MRP", "None"),
    ("features of too few states", lambda: curves(X=np.eye(2)), ValueError, "X", "(3, d)", "(2, 2)"),
    ("no trajectories", lambda: curves(n_trajectories=0), ValueError, "n_trajectories", "at least 1", "0"),
    ("negative number of layers", lambda: curves(n_layers=-1), ValueError, "n_layers", "at least 0", "-1"),
    ("seed", lambda: curves(rng=0), TypeError, "rng", "Generator", "0"),
    ("step size 0", lambda: curves(step_size=0), ValueError, "step_size", "(0, inf)", "0"),
    ("A of another dimension", lambda: curves(score=np.eye(2)), ValueError, "score", "d = 3", "(2, 2)"),
    ("error 0 in the window", lambda: rates.fitted_rate([[1.0, 0.0]], (0, 1), RNG),
     ValueError, "errors", "positive", "0.0"),
    ("one layer as a window", lambda: rates.fitted_rate([[1.0, 0.5]], 1, RNG), TypeError, "window", "pair", "1"),
    ("window of three", lambda: rates.fitted_rate([[1.0, 0.5]], (0, 1, 1), RNG), TypeError, "window", "pair", "(3,)"),
    ("one error", lambda: rates.fitted_rate([[1.0]], (0, 1), RNG), ValueError, "window", "from 0 to -1", "0"),
    ("seed", lambda: rates.fitted_rate([[1.0, 0.5]], (0, 1), 0), TypeError, "rng", "Generator", "0"),
    ("one length twice", lambda: rates.fitted_slope([5, 5], np.ones((2, 1)), RNG), ValueError, "lengths", "different"),
    ("length 0", lambda: rates.fitted_slope([5, 0], np.ones((2, 1)), RNG), ValueError, "lengths", "positive", "0.0"),
    ("floors of other lengths", lambda: rates.fitted_slope([5, 6], np.ones((3, 1)), RNG),
     ValueError, "floors", "(2, m)", "(3, 1)"),
    ("floor 0", lambda: rates.fitted_slope([5, 6], [[1.0], [0.0]], RNG), ValueError, "floors", "positive", "0.0"),
    ("no resamples", lambda: rates.fitted_slope([5, 6], np.ones((2, 1)), RNG, 0),
     ValueError, "n_resamples", "at least 1", "0"),
    ("three-dimensional kernel", lambda: convergence.norm_bound(np.ones((1, 1, 1)), 0.9),
     ValueError, "M", "(S, S)", "(1, 1, 1)"),
    ("a kernel of zeros", lambda: convergence.norm_bound(np.zeros((2, 2)), 0.9), ValueError, "M", "sum to 1"),
    ("identity as a kernel", lambda: convergence.reversing_distribution(np.eye(2)),
     ValueError, "M", "positive entries", "(0, 1)"),
    ("float lengths", lambda: rates.error_curves(PROCESS, np.eye(3), [9.0], 2, 3, RNG),
     TypeError, "lengths", "integers", "float64"),
    ("context shorter than the chain", lambda: rates.error_curves(PROCESS, np.eye(3), [2], 2, 3, RNG),
     ValueError, "lengths", "number of states, 3", "shape (1,)"),
    ("window beyond the layers", lambda: rates.fitted_rate(np.ones((1, 3)), (1, 3), RNG),
     ValueError, "window", "from 2 to 2", "3"),
    ("window of one layer", lambda: rates.fitted_rate(np.ones((1, 3)), (1, 1), RNG), ValueError, "window", "1"),
    # ---- features
    ("huge number", lambda: one_hot(HUGE), ValueError, "n_states", "from 1 to 1048576", "1000000"),
    ("huge dimension", lambda: gaussian(3, HUGE, RNG), ValueError, "dim", "from 1 to 1048576", "1000000"),
    ("no states", lambda: one_hot(0), ValueError, "n_states", "at least 1", "0"),
    ("scale 0", lambda: one_hot(3, 0), ValueError, "scale", "(0, inf)", "0"),
    ("text scale", lambda: one_hot(3, "2"), TypeError, "scale", "number", "'2'"),
    ("no features", lambda: gaussian(3, 0, RNG), ValueError, "dim", "at least 1", "0"),
    ("negative scale", lambda: gaussian(3, 2, RNG, -1.0), ValueError, "scale", "(0, inf)", "-1.0"),
    ("seed", lambda: gaussian(3, 2, 0), TypeError, "rng", "numpy.random.Generator", "0"),
    ("one state", lambda: triangular(1, 2), ValueError, "n_states", "at least 2", "1"),
    ("one hat", lambda: triangular(5, 1), ValueError, "dim", "at least 2", "1"),
    ("huge number of hats", lambda: triangular(5, HUGE), ValueError, "dim", "from 2 to 1048576", "1000000"),
    ("hats of height 0", lambda: triangular(5, 2, 0), ValueError, "scale", "(0, inf)", "0"),
    # ---- td
    ("empty context", lambda: td.weighted_softmax_td([[1.0]], [], 0.9, 2), ValueError, "rewards", "empty", "(0,)"),
    ("n features for n rewards", lambda: td.weighted_softmax_td(X[:3], REWARDS, 0.9, 2),
     ValueError, "x", "(4, d)", "(3, 2)"),
    ("no feature", lambda: td.weighted_softmax_td(np.ones((4, 0)), REWARDS, 0.9, 2),
     ValueError, "x", "empty", "(4, 0)"),
    ("NaN feature", lambda: td.weighted_softmax_td(X * NAN, REWARDS, 0.9, 2), ValueError, "x", "finite", "nan"),
    ("negative steps", lambda: td.weighted_softmax_td(X, REWARDS, 0.9, -1),
     ValueError, "n_steps", "at least 0", "-1"),
    ("half steps", lambda: td.weighted_softmax_td(X, REWARDS, 0.9, 1.5), TypeError, "n_steps", "integer", "1.5"),
    ("sizes of no step", lambda: td.weighted_softmax_td(X, REWARDS, 0.9, 0, [1]),
     ValueError, "step_size", "(0,)", "(1,)"),
    ("infinite start", lambda: td.weighted_softmax_td(X, REWARDS, 0.9, 1, initial=[0, 0, 0, INF]),
     ValueError, "initial", "inf"),
    ("score is a matrix", lambda: td.weighted_softmax_td(X, REWARDS, 0.9, 1, score=A),
     ValueError, "score", "(d, d)", "(5, 5)"),
    ("score is no square matrix", lambda: kernels.balanced_kernel([1, 1, 1, 1], X, np.ones((2, 3))),
     ValueError, "score", "(d, d)", "(2, 3)"),
    ("score is a name", lambda: kernels.softmax_kernel(X, X, "dot"), TypeError, "score", "callable", "'dot'"),
    ("score is transposed", lambda: td.weighted_softmax_td(X, REWARDS, 0.9, 1, score=lambda q, s: s @ q.T),
     ValueError, "score", "(4, 3)", "(3, 4)"),
    ("score is one number", lambda: kernels.softmax_kernel(X, X, lambda q, s: 0.0),
     ValueError, "score", "(4, 4)", "()"),
    ("score returns nothing", lambda: kernels.softmax_kernel(X, X, lambda q, s: None),
     TypeError, "score", "(4, 4)", "None"),
    ("score is NaN", lambda: kernels.softmax_kernel(X, X, lambda q, s: NAN * (q @ s.T)), ValueError, "score", "NaN"),
    ("score is +inf", lambda: kernels.softmax_kernel(X, X, lambda q, s: INF * (q @ s.T)), ValueError, "score", "+inf"),
    ("other dimension", lambda: kernels.softmax_kernel(X, np.ones((4, 3))), ValueError, "sources", "(m, 2)", "(4, 3)"),
    ("negative count", lambda: kernels.softmax_kernel(X, X, counts=[1, 1, 1, -1]),
     ValueError, "counts", "non-negative", "-1"),
    ("no count", lambda: kernels.softmax_kernel(X, X, counts=np.zeros(4)), ValueError, "counts", "not all 0", "0"),
    ("negative score scale", lambda: kernels.inner_product_score(-1), ValueError, "scale", "[0, inf)", "-1"),
    ("A not square", lambda: kernels.bilinear_score(np.ones((2, 3))), ValueError, "A", "(d, d)", "(2, 3)"),
    ("A of another dimension", lambda: kernels.softmax_kernel(X, X, kernels.bilinear_score(np.eye(3))),
     ValueError, "score", "d = 2", "(3, 3)"),
    ("list for a trajectory", lambda: empirical.empirical_model([0, 1], 2),
     TypeError, "trajectory", "Trajectory", "list"),
    ("too few states", lambda: empirical.empirical_model(WALK, 1), ValueError, "n_states", "state 1", "1"),
    ("no n_states", lambda: empirical.empirical_model(WALK, None), TypeError, "n_states", "integer", "None"),
    ("array for a trajectory", lambda: td.weighted_softmax_td_states(X, X, 0.9, 1),
     TypeError, "trajectory", "Trajectory"),
    ("too few rows", lambda: td.weighted_softmax_td_states(WALK, [[1.0]], 0.9, 1),
     ValueError, "X", "up to 1", "(1, 1)"),
    ("never-left successor", lambda: empirical.certainty_equivalence(OPEN, 0.9),
     ValueError, "boundary", "state 2", "never a source"),
    ("boundary NaN where read", lambda: empirical.certainty_equivalence(OPEN, 0.9, [0, 0, NAN]),
     ValueError, "boundary", "state 2", "nan"),
    ("boundary is NaN", lambda: empirical.certainty_equivalence(OPEN, 0.9, NAN), ValueError, "boundary", "nan"),
    ("boundary of another length", lambda: empirical.certainty_equivalence(OPEN, 0.9, [0, 1]),
     ValueError, "boundary", "(3,)", "(2,)"),
    ("ragged boundary", lambda: empirical.certainty_equivalence(OPEN, 0.9, [[0], [1, 2]]),
     TypeError, "boundary", "(3,)", "lengths"),
    ("MRP for a model", lambda: empirical.certainty_equivalence(MRP(P, R, 0.9), 0.9),
     TypeError, "model", "EmpiricalModel", "MRP"),
    ("MRP for a model", lambda: kernels.state_kernel(MRP(P, R, 0.9), np.eye(3)),
     TypeError, "model", "EmpiricalModel", "MRP"),
    ("half a visit", lambda: an_empirical_model(counts=[1.5, 0]), ValueError, "counts", "whole", "1.5"),
    ("no visit at all", lambda: an_empirical_model(counts=[0, 0]), ValueError, "counts", "not all 0", "[0.0, 0.0]"),
    ("visited contradicts counts", lambda: an_empirical_model(visited=[True, True]),
     ValueError, "visited", "counts", "[True, True]"),
    ("visited as numbers", lambda: an_empirical_model(visited=[1, 0]), ValueError, "visited", "booleans", "int64"),
    ("visited ragged", lambda: an_empirical_model(visited=[[True], [True, False]]),
     ValueError, "visited", "booleans", "lengths"),
    ("no reward of a visited state", lambda: an_empirical_model(reward=[NAN, NAN]),
     ValueError, "reward", "finite", "nan"),
    ("row of a visited state", lambda: an_empirical_model(transition=[[0, 1.5], [0, 0]]),
     ValueError, "transition", "sum to at most 1", "row 0", "1.5"),
    ("negative frequency", lambda: an_empirical_model(transition=[[-0.5, 1], [0, 0]]),
     ValueError, "transition", "(0, 0) is -0.5"),
    ("a source beyond the states", lambda: empirical.model_of_transitions([0, 2], [1, 1], [0, 1], 2),
     ValueError, "sources", "from 0 to 1", "2"),
    ("the end as a source", lambda: empirical.model_of_transitions([0, empirical.END], [1, 1], [0, 1], 2),
     ValueError, "sources", "from 0 to 1", "-1"),
    ("a successor beyond the end", lambda: empirical.model_of_transitions([0, 1], [1, 1], [0, -2], 2),
     ValueError, "successors", "from -1 to 1", "-2"),
    ("a successor too few", lambda: empirical.model_of_transitions([0, 1], [1, 1], [0], 2),
     ValueError, "successors", "(2,)", "(1,)"),
    ("row of a state never left", lambda: an_empirical_model(transition=[[0, 1], [1, 0]]),
     ValueError, "transition", "rows of 0"),
    ("unread nonsense", lambda: empirical.certainty_equivalence(CLOSED, 0.9, "nonsense"),
     TypeError, "boundary", "number", "'nonsense'"),
    ("unread boundary of another length", lambda: empirical.certainty_equivalence(CLOSED, 0.9, [1, 2, 3]),
     ValueError, "boundary", "(2,)", "(3,)"),
    ("counts beyond integers", lambda: an_empirical_model(counts=[1e19, 0]), ValueError, "counts", "2**53", "1e+19"),
    ("reward of a state never left", lambda: an_empirical_model(reward=[1.0, 2.0]),
     ValueError, "reward", "NaN", "never a source", "2.0"),
    ("masked visited", lambda: an_empirical_model(visited=np.ma.array([True, False], mask=[0, 1])),
     ValueError, "visited", "masked"),
    ("rewards whose sum overflows", lambda: empirical.empirical_model(Trajectory([0, 0, 0], [1e308, 1e308]), 1),
     ValueError, "trajectory", "rewards", "state 0 overflows"),
    ("a huge model", lambda: empirical.empirical_model(WALK, HUGE),
     ValueError, "n_states", "from 1 to 1048576", "1000000"),
    ("huge number of steps", lambda: td.weighted_softmax_td(X, REWARDS, 0.9, HUGE),
     ValueError, "n_steps", "at most 2147483647", "1000000"),
    ("value that overflows", lambda: empirical.certainty_equivalence(
        empirical.empirical_model(Trajectory([0, 0], [1e308]), 1), 0.99), ValueError, "reward", "overflows", "1e+308"),
    ("a maker of scores", lambda: kernels.softmax_kernel(X, X, kernels.tabular_score),
     TypeError, "score", "two arguments", "tabular_score", "kernels.tabular_score()"),
    ("a maker of scores", lambda: td.weighted_softmax_td(X, REWARDS, 0.9, 1, score=kernels.inner_product_score),
     TypeError, "score", "two arguments", "kernels.inner_product_score()"),
    ("a maker of scores", lambda: kernels.softmax_kernel(X, X, kernels.bilinear_score),
     TypeError, "score", "two arguments", "kernels.bilinear_score(A)"),
    ("a score of one argument", lambda: kernels.softmax_kernel(X, X, lambda q: q), TypeError, "score", "two arguments"),
    # ---- prompt
    ("huge", lambda: rows(HUGE), ValueError, "d", "from 1 to 1048576", "1000000"),
    ("values beyond float32", lambda: build_prompt(
        X.astype(np.float32), REWARDS.astype(np.float32), [1, 1e300, 1, 1], 0.9),
     ValueError, "initial", "float32", "(1,) is 1e+300"),
    ("no features", lambda: rows(0), ValueError, "d", "at least 1", "0"),
    ("text", lambda: rows("3"), TypeError, "d", "integer", "'3'"),
    ("one position", lambda: build_prompt([[1.0]], []), ValueError, "x", "n >= 1", "(1, 1)"),
    ("one vector", lambda: build_prompt([1.0, 2.0], [1.0]), ValueError, "x", "(..., n+1, d)", "(2,)"),
    ("n+1 rewards", lambda: build_prompt(X, np.ones(4)), ValueError, "rewards", "(3,)", "(4,)"),
    ("rewards of another batch", lambda: build_prompt(np.ones((2, 4, 2)), np.ones((3, 3))),
     ValueError, "rewards", "(2, 3)", "(3, 3)"),
    ("warm start without gamma", lambda: build_prompt(X, REWARDS, np.ones(4)),
     ValueError, "gamma", "initial", "None"),
    ("gamma without warm start", lambda: build_prompt(X, REWARDS, gamma=2), ValueError, "gamma", "[0, 1)", "2"),
    ("NaN reward", lambda: build_prompt(X, [1, NAN, 1]), ValueError, "rewards", "finite", "(1,) is nan"),
    ("three rows", lambda: memory_offset(np.ones((3, 3)), 0.9), ValueError, "Z", "d >= 1", "(3, 3)"),
    ("one column", lambda: check_memory(np.ones((5, 1)), 0.9), ValueError, "Z", "n >= 1", "(5, 1)"),
    ("negative tolerance", lambda: check_memory(Z, 0.9, -1), ValueError, "tolerance", "[0, inf)", "-1"),
    ("inconsistent memories", lambda: check_memory(Z, 0.9), ValueError, "Z", "column 3", "off by 1"),
    # ---- attention
    ("array", lambda: softmax_attention(np.ones((5, 4)), V, A), TypeError, "Z", "torch.Tensor", "ndarray"),
    ("integers", lambda: softmax_attention(Z.long(), V, A), TypeError, "Z", "floating", "int64"),
    ("complex", lambda: softmax_attention(Z.to(torch.complex128), V, A), TypeError, "Z", "floating", "complex128"),
    ("one column", lambda: softmax_attention(Z[:, :1], V, A), ValueError, "Z", "n >= 1", "(5, 1)"),
    ("three rows", lambda: softmax_attention(Z[:3], V, A), ValueError, "Z", "d >= 1", "(3, 4)"),
    ("one row", lambda: attention_weights(Z[0], A), ValueError, "Z", "(..., d+3, n+1)", "(4,)"),
    ("NaN", lambda: softmax_attention(with_entry(Z, NAN), V, A), ValueError, "Z", "finite", "NaN"),
    ("V of another size", lambda: softmax_attention(Z, V[:4, :4], A), ValueError, "V", "(..., 5, 5)", "(4, 4)"),
    ("A of another size", lambda: attention_weights(Z, A[:4, :4]), ValueError, "A", "(..., 5, 5)", "(4, 4)"),
    ("V in float32", lambda: softmax_attention(Z, SINGLE, A), TypeError, "V", "float64", "float32"),
    ("A in integers", lambda: softmax_attention(Z, V, A.long()), TypeError, "A", "floating", "int64"),
    ("A is an array", lambda: attention_weights(Z, A.numpy()), TypeError, "A", "torch.Tensor", "ndarray"),
    ("A is infinite", lambda: softmax_attention(Z, V, with_entry(A, INF)), ValueError, "A", "finite", "infinity"),
    ("V of another batch", lambda: softmax_attention(Z.expand(2, 5, 4), V.expand(3, 5, 5), A),
     ValueError, "V", "(2,)", "(3, 5, 5)"),
    ("batches fit in pairs only", lambda: softmax_attention(Z, of_batch(V, 2), of_batch(A, 3)),
     ValueError, "A", "(2,)", "(3, 5, 5)"),
    ("Z without data", lambda: softmax_attention(Z.to("meta"), V, A), TypeError, "Z", "dense", "meta"),
    ("Z is sparse", lambda: softmax_attention(Z.to_sparse(), V, A), TypeError, "Z", "dense", "sparse_coo"),
    ("A is sparse", lambda: softmax_attention(Z, V, A.to_sparse()), TypeError, "A", "dense", "sparse_coo"),
    ("Z in float8", lambda: softmax_attention(Z.to(torch.float8_e4m3fn), V, A), TypeError, "Z", "float8"),
    ("float8", lambda: constructed_parameters(2, dtype=torch.float8_e4m3fn), TypeError, "dtype", "float8"),
    ("an array as type", lambda: constructed_parameters(2, dtype=np.ones(3)), TypeError, "dtype", "(3,)"),
    ("step size above float16", lambda: constructed_parameters(2, 1e5, HALF),
     ValueError, "step_size", "float16", "100000.0"),
    ("step size below float32", lambda: constructed_parameters(2, 1e-50, torch.float32),
     ValueError, "step_size", "float32", "1e-50"),
    ("shift of an array", lambda: shift_left(np.ones((2, 3))), TypeError, "Y", "torch.Tensor", "ndarray"),
    ("no features", lambda: constructed_parameters(0), ValueError, "d", "at least 1", "0"),
    ("step size 0", lambda: constructed_parameters(2, 0.0), ValueError, "step_size", "(0, inf)", "0.0"),
    ("several step sizes", lambda: constructed_parameters(2, [1.0]), TypeError, "step_size", "number", "list"),
    ("integer type", lambda: constructed_parameters(2, dtype=torch.int64),
     TypeError, "dtype", "torch.float64", "int64"),
    ("NumPy type", lambda: constructed_parameters(2, dtype=np.float64),
     TypeError, "dtype", "torch.float64", "numpy.float64"),
    # ---- dual head and temporal shift
    ("V is an array", lambda: DualHeadLayer(V.numpy(), A, 0.9), TypeError, "V", "torch.Tensor", "ndarray"),
    ("V is too small", lambda: DualHeadLayer(V[:3, :3], A, 0.9), ValueError, "V", "d >= 1", "(3, 3)"),
    ("V is not square", lambda: DualHeadLayer(V[:4], A, 0.9), ValueError, "V", "(..., 5, 5)", "(4, 5)"),
    ("A does not fit", lambda: DualHeadLayer(V, A[:4, :4], 0.9), ValueError, "A", "(..., 5, 5)", "(4, 4)"),
    ("A is missing", lambda: DualHeadLayer(V, None, 0.9), TypeError, "A", "torch.Tensor", "None"),
    ("target head does not fit", lambda: DualHeadLayer(V, A, 0.9, V[:4, :4]),
     ValueError, "V_target", "(..., 5, 5)", "(4, 4)"),
    ("target head is an array", lambda: DualHeadLayer(V, A, 0.9, V.numpy()),
     TypeError, "V_target", "torch.Tensor", "ndarray"),
    ("target head in float32", lambda: DualHeadLayer(V, A, 0.9, V, SINGLE),
     TypeError, "A_target", "float64", "float32"),
    ("batches fit in pairs only", lambda: DualHeadLayer(of_batch(V, 1), of_batch(A, 2), 0.9, A_target=of_batch(A, 3)),
     ValueError, "A_target", "(2,)", "(3, 5, 5)"),
    ("batches fit in pairs only", lambda: DualHeadLayer(V, of_batch(A, 2), 0.9, of_batch(V, 3)),
     ValueError, "V_target", "(2,)", "(3, 5, 5)"),
    ("target head of another batch", lambda: DualHeadLayer(V, A, 0.9, A_target=of_batch(A, 2))(of_batch(Z, 3)),
     ValueError, "A_target", "(3,)", "(2, 5, 5)"),
    ("prompt of another batch", lambda: TSMLayer(V, of_batch(A, 2), 0.9)(of_batch(Z, 3)),
     ValueError, "A", "(3,)", "(2, 5, 5)"),
    ("prompt of another d", lambda: DualHeadLayer(V, A, 0.9)(torch.ones(6, 4)),
     ValueError, "Z", "(..., 5, n+1)", "(6, 4)"),
    ("prompt in float32", lambda: DualHeadLayer(V, A, 0.9)(Z.float()), TypeError, "V", "float32", "float64"),
    ("prompt is an array", lambda: DualHeadLayer(V, A, 0.9)(Z.numpy()), TypeError, "Z", "torch.Tensor", "ndarray"),
    ("V is an array", lambda: target_value_matrix(V.numpy(), 0.9), TypeError, "V", "torch.Tensor", "ndarray"),
    ("V is too small", lambda: target_value_matrix(V[:2, :2], 0.9), ValueError, "V", "d >= 1", "(2, 2)"),
    ("V in integers", lambda: TSMLayer(V.long(), A, 0.9), TypeError, "V", "floating", "int64"),
    ("V is NaN", lambda: TSMLayer(with_entry(V, NAN), A, 0.9), ValueError, "V", "finite", "NaN"),
    ("A is missing", lambda: TSMLayer(V, None, 0.9), TypeError, "A", "torch.Tensor", "None"),
    ("A in float32", lambda: TSMLayer(V, A.float(), 0.9), TypeError, "A", "float64", "float32"),
    ("batches do not fit", lambda: TSMLayer(V.expand(2, 5, 5), A.expand(3, 5, 5), 0.9),
     ValueError, "A", "(2,)", "(3, 5, 5)"),
    ("prompt of another d", lambda: TSMLayer(V, A, 0.9)(torch.ones(6, 4)),
     ValueError, "Z", "(..., 5, n+1)", "(6, 4)"),
    ("prompt of another batch", lambda: TSMLayer(V.expand(2, 5, 5), A, 0.9)(Z.expand(3, 5, 4)),
     ValueError, "V", "(3,)", "(2, 5, 5)"),
    ("Y is an array", lambda: temporal_shift(Z.numpy(), 0.9), TypeError, "Y", "torch.Tensor", "ndarray"),
    ("Y is too small", lambda: temporal_shift(Z[:2], 0.9), ValueError, "Y", "(..., d+3, n+1)", "(2, 4)"),
    ("integer type", lambda: shift_matrices(2, 0.9, torch.int32), TypeError, "dtype", "torch.float64", "int32"),
    ("no features", lambda: shift_matrices(0, 0.9), ValueError, "d", "at least 1", "0"),
    # ---- model
    ("d is 0", lambda: model(d=0), ValueError, "d", "at least 1", "0"),
    ("no layers", lambda: model(n_layers=0), ValueError, "n_layers", "at least 1", "0"),
    ("text layers", lambda: model(n_layers="3"), TypeError, "n_layers", "integer", "'3'"),
    ("unknown form", lambda: model(form="single"), ValueError, "form", "'tsm', 'dual_head'", "'single'"),
    ("form is a class", lambda: model(form=TSMLayer), ValueError, "form", "'tsm', 'dual_head'", "TSMLayer"),
    ("shared is a number", lambda: model(shared=1), TypeError, "shared", "True or False", "1"),
    ("seed", lambda: model(generator=0), TypeError, "generator", "torch.Generator", "0"),
    ("NumPy generator", lambda: model(generator=RNG), TypeError, "generator", "torch.Generator", "Generator(PCG64)"),
    ("integer type", lambda: model(dtype=torch.int32), TypeError, "dtype", "torch.float64", "int32"),
    ("text type", lambda: model(dtype="float64"), TypeError, "dtype", "torch.float64", "'float64'"),
    ("negative scale", lambda: model(init_scale=-0.1), ValueError, "init_scale", "[0, inf)", "-0.1"),
    ("unknown form", lambda: SoftmaxICTD.constructed(2, 3, 0.9, form="TSM"), ValueError, "form", "'tsm'", "'TSM'"),
    ("no layers", lambda: SoftmaxICTD.constructed(2, 0, 0.9), ValueError, "n_layers", "at least 1", "0"),
    ("prompt of another d", lambda: MODEL(torch.ones(6, 4)), ValueError, "Z0", "(..., 5, n+1)", "d = 2", "(6, 4)"),
    ("array of another d", lambda: MODEL(np.ones((6, 4))), ValueError, "Z0", "(..., 5, n+1)", "(6, 4)"),
    ("one column", lambda: MODEL.values(Z[:, :1]), ValueError, "Z0", "n >= 1", "(5, 1)"),
    ("NaN", lambda: MODEL.values(with_entry(Z, NAN)), ValueError, "Z0", "finite", "NaN"),
    ("complex tensor", lambda: MODEL(Z.to(torch.complex64)), TypeError, "Z0", "real", "complex64"),
    ("text, checked", lambda: MODEL.values("prompt", check=True), TypeError, "Z0", "real numbers", "prompt"),
    ("prompt without data", lambda: MODEL(Z.to("meta")), TypeError, "Z0", "dense", "meta"),
    ("sparse prompt", lambda: MODEL(Z.to_sparse()), TypeError, "Z0", "dense", "sparse_coo"),
    ("prompt beyond float16", lambda: SoftmaxICTD.constructed(2, 3, 0.9, dtype=HALF)(Z * 1e5),
     ValueError, "Z0", "finite in torch.float16"),
    ("step size beyond float16", lambda: SoftmaxICTD.constructed(2, 3, 0.9, 1e-9, dtype=HALF),
     ValueError, "step_size", "float16", "1e-09"),
    ("one step size beyond float16", lambda: SoftmaxICTD.constructed(2, 2, 0.9, [1, 1e5], dtype=HALF),
     ValueError, "step_size", "float16", "100000.0"),
    ("NaN as value weight", lambda: broken("value_weights").values(Z), ValueError, "value_weights", "finite", "NaN"),
    ("NaN as score", lambda: broken("score_matrix")(Z), ValueError, "score_matrix", "finite", "NaN"),
    ("float8", lambda: model(dtype=torch.float8_e5m2), TypeError, "dtype", "float8"),
    ("huge", lambda: model(d=HUGE), ValueError, "d", "from 1 to 1048576", "1000000"),
    ("huge", lambda: model(n_layers=HUGE), ValueError, "n_layers", "at most 2147483647", "1000000"),
    ("inconsistent, checked", lambda: MODEL.values(Z, check=True), ValueError, "Z", "consistent", "column 3"),
    ("full, independent heads", lambda: FullICTD(2, 3, 0.9, form="independent_heads", generator=torch.Generator()),
     ValueError, "form", "'tsm', 'dual_head'", "'independent_heads'"),
    ("full, seed", lambda: FullICTD(2, 3, 0.9, generator=0), TypeError, "generator", "torch.Generator", "0"),
    ("full, no layers", lambda: FullICTD(2, 0, 0.9, generator=torch.Generator()),
     ValueError, "n_layers", "at least 1", "0"),
    ("one pair of matrices", lambda: FullICTD.from_matrices(V, A, 3, 0.9), ValueError, "V", "(1 or 3", "(5, 5)"),
    ("sets of another depth", lambda: FullICTD.from_matrices(of_batch(V, 2), of_batch(A, 2), 3, 0.9),
     ValueError, "V", "(1 or 3", "(2, 5, 5)"),
    ("unequal sets", lambda: FullICTD.from_matrices(of_batch(V, 3), of_batch(A, 1), 3, 0.9),
     ValueError, "V", "(3, 5, 5)", "(1, 5, 5)"),
    ("matrices as arrays", lambda: FullICTD.from_matrices(V[None].numpy(), A[None].numpy(), 3, 0.9),
     TypeError, "V", "torch.Tensor", "ndarray"),
    ("NaN in V", lambda: FullICTD.from_matrices(with_entry(V, NAN)[None], A[None], 3, 0.9),
     ValueError, "V", "finite", "NaN"),
    ("full, prompt of another d", lambda: FullICTD.constructed(2, 3, 0.9)(torch.ones(6, 4)),
     ValueError, "Z0", "d = 2", "(6, 4)"),
    # ---- tasks
    ("rows that do not sum to 1", lambda: tasks.Tasks(P * 0.9, R, X[:3]), ValueError, "transition", "sum to 1"),
    ("negative probability", lambda: tasks.Tasks([[1.5, -0.5], [0, 1]], [0, 0], X[:2]), ValueError, "transition"),
    ("not square", lambda: tasks.Tasks(np.ones((2, 3)) / 3, [0, 0, 0], X[:3]), ValueError, "transition", "(2, 3)"),
    ("other leading dimensions", lambda: tasks.Tasks(P[None], R, X[:3]),
     ValueError, "transition", "leading", "(1, 3, 3)", "(3,)"),
    ("NaN reward", lambda: tasks.Tasks(P, [0, NAN, 0], X[:3]), ValueError, "reward", "finite", "nan"),
    ("reducible", lambda: tasks.Tasks(np.eye(3), R, X[:3]).stationary(), ValueError, "transition", "irreducible"),
    ("no tasks", lambda: tasks.draw(0, 5, 2, RNG), ValueError, "count", "at least 1", "0"),
    ("two states", lambda: tasks.draw(1, 2, 2, RNG), ValueError, "n_states", "at least 3", "2"),
    ("huge number of states", lambda: tasks.draw(1, HUGE, 2, RNG), ValueError, "n_states", "1048576"),
    ("no features", lambda: tasks.draw(1, 3, 0, RNG), ValueError, "dim", "at least 1", "0"),
    ("unknown family", lambda: tasks.draw(1, 3, 2, RNG, "star"), ValueError, "family", "'boyan', 'ring'", "'star'"),
    ("unknown features", lambda: tasks.draw(1, 3, 2, RNG, features="fourier"),
     ValueError, "features", "'gaussian', 'one_hot', 'triangular'", "'fourier'"),
    ("scale 0", lambda: tasks.draw(1, 3, 2, RNG, feature_scale=0), ValueError, "feature_scale", "(0, inf)", "0"),
    ("one-hot in other dimensions", lambda: tasks.draw(1, 3, 2, RNG, features="one_hot"),
     ValueError, "dim", "n_states = 3", "2"),
    ("one triangle", lambda: tasks.draw(1, 3, 1, RNG, features="triangular"), ValueError, "dim", "at least 2", "1"),
    ("seed", lambda: tasks.draw(1, 3, 2, 0), TypeError, "rng", "numpy.random.Generator", "0"),
    ("seeds", lambda: tasks.draw(1, 3, 2, [RNG, 1]), TypeError, "rng", "numpy.random.Generator", "1"),
    ("no generators", lambda: tasks.draw(1, 3, 2, []), ValueError, "rng", "at least one"),
    ("seed", lambda: BATCH.sample(5, 0), TypeError, "rng", "numpy.random.Generator", "0"),
    ("too few generators", lambda: BATCH.sample(5, [RNG]), ValueError, "rng", "(4,)", "1"),
    ("generators for one task", lambda: BATCH[0].sample(5, [RNG]), ValueError, "rng", "()", "1"),
    ("no generators", lambda: BATCH.sample(5, []), ValueError, "rng", "(4,)", "0"),
    ("no transitions", lambda: BATCH.sample(0, RNG), ValueError, "n_transitions", "at least 1", "0"),
    ("negative noise", lambda: BATCH.sample(5, RNG, -1), ValueError, "reward_noise", "[0, inf)", "-1"),
    ("no process", lambda: tasks.single(P, X[:3]), TypeError, "process", "MRP", "ndarray"),
    ("float states", lambda: tasks.Contexts([0.0, 1.0], [1.0], 3), TypeError, "states", "integer", "float64"),
    ("one state", lambda: tasks.Contexts([0], [], 3), ValueError, "states", "n >= 1", "(1,)"),
    ("no context", lambda: tasks.Contexts(np.zeros((0, 2), dtype=int), np.zeros((0, 1)), 3),
     ValueError, "states", "n >= 1", "(0, 2)"),
    ("state number 3 of 3", lambda: tasks.Contexts([0, 3], [1.0], 3), ValueError, "states", "0 to 2", "0 to 3"),
    ("negative state", lambda: tasks.Contexts([0, -1], [1.0], 3), ValueError, "states", "0 to 2", "-1"),
    ("as many rewards as states", lambda: tasks.Contexts([0, 1], [1.0, 2.0], 3), ValueError, "rewards", "(1,)", "(2,)"),
    ("window before the start", lambda: CONTEXTS.window(-1, 2), ValueError, "start", "from 0 to 4", "-1"),
    ("window beyond the end", lambda: CONTEXTS.window(3, 3), ValueError, "n_transitions", "from 1 to 2", "3"),
    ("matrix that is not square", lambda: mrp.sample_paths(np.ones((2, 3)) / 3, [0], [[0.5]]),
     ValueError, "transition", "(..., S, S)", "(2, 3)"),
    ("matrices of other chains", lambda: mrp.sample_paths([P, P], [0, 0, 0], np.zeros((3, 2))),
     ValueError, "transition", "(3,)", "(2, 3, 3)"),
    ("matrices of other rows of chains", lambda: mrp.sample_paths([[P] * 2] * 3, [[0, 0]] * 2, np.zeros((2, 2, 5))),
     ValueError, "transition", "(2, 2)", "(3, 2, 3, 3)"),
    ("uniforms of other chains", lambda: mrp.sample_paths(P, [0, 0], [[0.5]]),
     ValueError, "uniforms", "(2, 'n')", "(1, 1)"),
    ("uniform 1", lambda: mrp.sample_paths(P, [0], [[1.0]]), ValueError, "uniforms", "[0, 1)", "1.0"),
    ("uniform below 0", lambda: mrp.sample_paths(P, [0], [[-0.1]]), ValueError, "uniforms", "[0, 1)", "-0.1"),
    ("unknown first state", lambda: mrp.sample_paths(P, [3], [[0.5]]), ValueError, "first", "0 to 2", "3"),
    ("float first state", lambda: mrp.sample_paths(P, [0.0], [[0.5]]), TypeError, "first", "integer", "float64"),
    ("columns that sum to 1", lambda: mrp.sample_paths([[0.5, 1], [0.5, 0]], [0], [[0.5]]),
     ValueError, "transition", "sum to 1"),
    ("rewards of other contexts", lambda: tasks.Contexts([[0, 1, 0]], [1.0, 2.0], 2),
     ValueError, "rewards", "(1, 2)", "(2,)"),
    ("rewards turned", lambda: tasks.Contexts([[0, 1]] * 3, [[1.0, 2.0, 3.0]], 2),
     ValueError, "rewards", "(3, 1)"),
    ("state number 2 of 2", lambda: tasks.Contexts([0, 2], [1.0], 2), ValueError, "states", "0 to 1"),
    ("no position", lambda: BATCH.process(slice(2), 0.9), TypeError, "index", "from -4 to 3", "slice"),
    ("True as position", lambda: BATCH.process(True, 0.9), TypeError, "index", "from -4 to 3", "True"),
    ("task 4 of 4", lambda: BATCH.process(4, 0.9), ValueError, "index", "from -4 to 3", "4"),
    ("two positions", lambda: CONTEXTS.trajectory((0, 1)), ValueError, "index", "1 integers", "(0, 1)"),
    ("no shape", lambda: BATCH.reshape(4), TypeError, "shape", "tuple", "4"),
    ("another size", lambda: BATCH.reshape((3,)), ValueError, "shape", "(4,)", "(3,)"),
    ("a part of the contexts", lambda: CONTEXTS.reshape((2,)), ValueError, "shape", "(4,)", "(2,)"),
    ("an open side", lambda: CONTEXTS.reshape((-1,)), ValueError, "shape", "at least 1", "-1"),
    # ---- numbers that overflow
    ("scores of infinity", lambda: td.weighted_softmax_td([[2e160]] * 3, [1, 1], 0.9, 2), ValueError, "features"),
    ("scores of minus infinity", lambda: td.weighted_softmax_td([[2e160], [2e160], [-2e160]], [1, 1], 0.9, 2),
     ValueError, "features", "overflows"),
    ("large score matrix", lambda: kernels.state_kernel(CLOSED, np.eye(2) * 1e10, -np.eye(2) * 1e300),
     ValueError, "features", "overflows"),
    ("features beyond float64", lambda: gaussian(30, 2, np.random.default_rng(0), 1.5e308),
     ValueError, "scale", "1.5e+308"),
    ("tasks beyond float64", lambda: tasks.draw(9, 3, 2, np.random.default_rng(0), feature_scale=1e308),
     ValueError, "features", "finite"),
    ("rewards beyond float64", lambda: large_rewards().constant_value(0.9),
     ValueError, "rewards", "overflows", "1.7e+308"),
    ("rewards beyond float64", lambda: large_rewards().empirical(), ValueError, "rewards", "overflows"),
    ("rewards beyond float64", lambda: large_rewards().certainty_equivalence(0.9), ValueError, "rewards", "overflows"),
    ("values beyond float64", lambda: tasks.Tasks(P, [1.7e308] * 3, X[:3]).value(0.9),
     ValueError, "reward", "overflows"),
    ("initial beyond float32", lambda: build_prompt(np.ones((2, 1), "f4"), np.ones(1, "f4"), [1e300, 0], 0.9),
     ValueError, "initial", "float32"),
    ("offset beyond float64", lambda: memory_offset([[1, 1], [0, 0], [1.7e308, 0], [0, -1.7e308]], 0.99),
     ValueError, "Z", "overflows"),
    ("parameters beyond float16", lambda: model(dtype=HALF, init_scale=1e5), ValueError, "init_scale", "float16"),
    ("layers beyond float64", lambda: SoftmaxICTD.constructed(2, 40, 0.9, 1e9).values(Z), ValueError,
     "Z0", "every layer", "diverges"),
    ("no columns", lambda: shift_left(torch.ones(2, 0)), ValueError, "Y", "at least one column", "(2, 0)"),
    ("bound beyond float64", lambda: convergence.norm_bound(KERNEL, 0.9, 1.7e308),
     ValueError, "step_size", "overflows"),
    ("iteration beyond float64", lambda: convergence.iteration_matrix(KERNEL * 1e200, P * 1e200, 0.9),
     ValueError, "M,", "overflows"),
    ("norm beyond float64", lambda: convergence.infinity_norm(np.full((3, 3), 1e308)), ValueError, "J", "overflows"),
    ("radius beyond float64", lambda: convergence.spectral_radius(np.full((3, 3), 1e308)),
     ValueError, "J", "overflows"),
    ("mean floor beyond float64", lambda: rates.fitted_slope([10, 100], np.full((2, 4), 1.7e308), RNG, 9),
     ValueError, "floors", "overflows"),
    ("sum of weights beyond float64", lambda: kernels.balanced_kernel([1.7e308] * 3, X[:3]),
     ValueError, "weights", "overflows"),
    ("scores beyond float64", lambda: kernels.balanced_kernel(np.ones(3), X[:3] * 1e200),
     ValueError, "features", "overflows"),
    ("noise beyond float64", lambda: BATCH.sample(50, np.random.default_rng(0), 1.7e308),
     ValueError, "reward_noise", "overflows", "1.7e+308"),
    ("values beyond float64", lambda: empirical.certainty_equivalence(
        empirical.empirical_model(Trajectory([0, 1, 2], [1.7e308] * 2), 3), 0.9, 1.7e308),
     ValueError, "model", "overflows", "1.7e+308"),
    ("states that would wrap", lambda: Trajectory(np.array([2**63, 0], np.uint64), [1.0]),
     ValueError, "states", "below 2**63", "9223372036854775808"),
    # ---- what is no kernel, no dense tensor, no path
    ("twice the identity", lambda: convergence.contraction_margin(2 * np.eye(3), 0.9),
     ValueError, "M", "kernel", "(0, 0)", "2.0"),
    ("negative share", lambda: convergence.diagonality([[0.5, 0.5], [2, -1]]),
     ValueError, "M", "kernel", "(1, 1)", "-1"),
    ("sparse columns", lambda: shift_left(torch.eye(3).to_sparse()), TypeError, "Y", "dense", "sparse_coo"),
    ("columns without data", lambda: shift_left(torch.ones(3, 3, device="meta")), TypeError, "Y", "dense", "meta"),
    ("no folder", lambda: _files.file_path("folder", ""), ValueError, "folder", "empty"),
    # ---- scores that are called directly
    *((f"{what} for {name}", lambda score=score, queries=queries, sources=sources: score(queries, sources), kind,
       argument, *fragments)
      for name, score in {"inner": kernels.inner_product_score(), "bilinear": kernels.bilinear_score(np.eye(2)),
                          "tabular": kernels.tabular_score()}.items()
      for what, queries, sources, kind, argument, *fragments in [
          ("one row", [1.0, 2.0], [[1.0, 2.0]], ValueError, "queries", "(q, d)", "(2,)"),
          ("fewer features", [[1.0, 2.0]], [[1.0]], ValueError, "sources", "(m, 2)", "(1, 1)"),
          ("complex features", [[1j, 0]], [[1.0, 2.0]], TypeError, "queries", "real numbers", "complex128"),
          ("masked features", [[1.0, 2.0]], np.ma.array([[1.0, 2.0]], mask=[[0, 1]]), ValueError, "sources", "masked"),
          ("NaN", [[NAN, 2.0]], [[NAN, 2.0]], ValueError, "queries", "finite", "nan")]),
    ("check is a text", lambda: MODEL.values(Z, check="no"), TypeError, "check", "True or False", "'no'"),
]  # fmt: skip
ROWS += [
    (f"{where} gamma={_checks.describe(bad)[:20]}", lambda call=call, bad=bad: call(bad), kind, "gamma", "[0, 1)", came)
    for where, call in DISCOUNTED.items()
    for bad, kind, came in BAD_DISCOUNTS
]
ROWS += [
    (f"{where} step_size={bad}", lambda call=call, bad=bad: call(bad), kind, "step_size", *fragments)
    for where, call in STEPPED.items()
    for bad, kind, *fragments in BAD_STEP_SIZES
]
ROWS += [
    (f"{what} for {where}", lambda call=call, bad=bad: call(bad), kind, where.split(" of ")[0], shape, came)
    for where, (shape, call) in ARRAYS.items()
    for what, bad, kind, came in NO_ARRAYS + NO_ARRAY_TENSORS * (not where.startswith("Z"))
]
# A masked array of the right shape, or of any other: the mask is seen first.
ROWS += [
    (f"masked array for {where}", lambda call=call, bad=bad: call(bad), ValueError, where.split(" of ")[0], "masked")
    for where, (_, call) in ARRAYS.items()
    for bad in (np.ma.array(np.ones((2, 2)), mask=[[0, 1], [0, 0]]), [np.ma.array([1.0, 2.0], mask=[0, 1])])
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("call, kind, fragments", [pytest.param(row[1], row[2], row[3:], id=row[0]) for row in ROWS])
def test_bad_input_is_refused(call, kind, fragments):
    """The error has exactly this type, begins with the name of the argument and says what came and what is expected."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert caught.type is kind
    for fragment in fragments:
        assert fragment in message
    assert message.split()[0].split("(")[0] in {fragments[0].split("(")[0], "model"}, message


def test_unusual_but_good_input_is_accepted():
    """What a strict check must not refuse: NumPy scalars, fractions, booleans as numbers, integer arrays, tensors."""
    assert MRP(P, [True, False, True], np.float32(0.5)).gamma == 0.5
    assert MRP(P, [0, 1, 2], Fraction(1, 2)).gamma == 0.5
    assert MRP(P, np.array([Fraction(1, 4), 0, 10], dtype=object), np.array(0.5)).reward[0] == 0.25
    assert MRP(np.ma.array(P), np.ma.array(R, mask=False), 0.5).n_states == 3
    assert MRP(torch.from_numpy(P), torch.zeros(3), 0).n_states == 3
    assert Trajectory(np.array([0, 1], dtype=np.uint8), [np.float64(1)]).states.dtype == np.int64
    assert boyan_chain(np.int64(3), 0, RNG).n_states == 3
    assert td.weighted_softmax_td(np.ones((2, 1), dtype=np.float32), [1], 0, np.int32(1)).tolist() == [[0, 0], [1, 1]]
