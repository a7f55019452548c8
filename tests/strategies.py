"""Random instances for the property tests, and the few helpers that all of them share.

Hypothesis draws the shapes, the kinds and one seed; the numbers come from a NumPy generator with that seed.
The profile is deterministic: the same instances in every run, no database, no time limit per example.
"""

from dataclasses import dataclass

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ictd.attention import constructed_parameters
from ictd.empirical import empirical_model
from ictd.kernels import state_kernel
from ictd.mrp import Trajectory, boyan_chain
from ictd.prompt import build_prompt, rows
from ictd.reference import weighted_softmax_td_loops

settings.register_profile(
    "ictd",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("ictd")

# The contract of the package: implementations agree to this, relative to max(1, largest value).
TOLERANCE = 1e-10

# A false alarm of one comparison at 4.5 standard errors has probability 7e-6; the seeds are fixed anyway.
STANDARD_ERRORS = 4.5

seeds = st.integers(0, 2**32 - 1)
discounts = st.one_of(st.sampled_from([0.0, 0.5, 0.9, 0.999]), st.floats(0, 0.99))


@dataclass(frozen=True, eq=False)
class Context:
    """A trajectory, the features of all states, and how long and how fast to iterate from where."""

    trajectory: Trajectory
    X: np.ndarray
    gamma: float
    n_steps: int
    step_size: object
    initial: np.ndarray

    @property
    def states(self):
        return self.trajectory.states

    @property
    def rewards(self):
        return self.trajectory.rewards

    @property
    def x(self):
        """Features of the positions, shape (n+1, d)."""
        return self.X[self.states]

    @property
    def n(self):
        return self.trajectory.n_transitions

    @property
    def model(self):
        return empirical_model(self.trajectory, len(self.X))

    @property
    def step_sizes(self):
        """One step size per step."""
        return np.broadcast_to(np.asarray(self.step_size, dtype=float), (self.n_steps,))


WALKS = ("boyan", "anywhere", "some states", "ends in a new state", "closed", "stays")
FEATURES = ("gaussian", "unit length", "one-hot", "repeated", "zero", "long")
DISTINCT = ("gaussian", "unit length", "one-hot")


@st.composite
def contexts(draw, walks=WALKS, features=FEATURES, max_states=12, max_transitions=60, max_steps=50):
    """A `Context`. ``walks`` and ``features`` restrict the kinds that are drawn."""
    rng = np.random.default_rng(draw(seeds))
    n_states = draw(st.integers(2, max_states))
    n = draw(st.integers(1, max_transitions))
    states = _walk(draw(st.sampled_from(walks)), n_states, n, rng)
    X = _features(draw(st.sampled_from(features)), n_states, draw(st.integers(1, 8)), rng)
    n_steps = draw(st.integers(0, max_steps))
    step_size = draw(st.sampled_from([1.0, 0.7, 0.1, "per step"]))
    return Context(
        trajectory=Trajectory(states, rng.normal(size=n)),
        X=X,
        gamma=draw(discounts),
        n_steps=n_steps,
        step_size=rng.uniform(0.05, 1, n_steps) if step_size == "per step" else step_size,
        initial=rng.normal(size=n_states) * draw(st.sampled_from([0, 1, 10])),
    )


def _walk(kind, n_states, n, rng):
    if kind == "boyan" and n_states >= 3:
        return boyan_chain(n_states, 0.5, rng).sample(n, rng).states
    if kind == "stays":
        return np.full(n + 1, rng.integers(n_states))
    pool = rng.permutation(n_states)[: rng.integers(1, n_states)] if kind == "some states" else np.arange(n_states)
    states = rng.choice(pool, n + 1)
    if kind == "ends in a new state":
        states = rng.integers(0, n_states - 1, n + 1)
        states[-1] = n_states - 1
    if kind == "closed":
        states[-1] = states[0]
    return states


def _features(kind, n_states, dim, rng):
    if kind == "one-hot":
        return np.eye(n_states) * rng.uniform(0.5, 3)
    # In one dimension unit vectors are only +-1, which would repeat.
    X = rng.normal(size=(n_states, max(dim, 2) if kind == "unit length" else dim))
    if kind == "unit length":
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    if kind == "repeated":
        return X[rng.integers(0, (n_states + 1) // 2, n_states)]
    return X * {"gaussian": 1, "zero": 0, "long": 2}[kind]


def bilinear_pair(A):
    """The score of one pair in plain loops, for the reference: source^T A query."""
    d = len(A)

    def score(query, source):
        return sum(source[i] * A[i][j] * query[j] for i in range(d) for j in range(d))

    return score


def loops(context, A=None, rewards=None):
    """The plain loops of `ictd.reference` on the positions of a context, with its step sizes and start."""
    x = context.x.tolist()
    rewards = (context.rewards if rewards is None else rewards).tolist()
    score = None if A is None else bilinear_pair(np.asarray(A).tolist())
    history = [context.initial[context.states].tolist()]
    for size in context.step_sizes.tolist():
        history.append(weighted_softmax_td_loops(x, rewards, context.gamma, 1, size, score, history[-1])[1])
    return np.array(history)


def assert_close(actual, expected, tolerance=TOLERANCE):
    """Agreement within the contract: relative to max(1, largest value), also where an iteration diverges."""
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape
    assert np.isfinite(expected).all()
    difference = np.abs(actual - expected).max(initial=0)
    allowed = tolerance * max(1.0, np.abs(expected).max(initial=0))
    assert difference <= allowed, f"differ by {difference:.3g}, allowed {allowed:.3g}"


def empirical_kernel_loops(states, X, A=None):
    """M[s, u] = c(u) exp g(s, u) / sum_w c(w) exp g(s, w), in loops, for small scores."""
    A = np.eye(X.shape[1]) if A is None else A
    counts = np.bincount(states[:-1], minlength=len(X))
    kernel = np.zeros((len(X), len(X)))
    for s in range(len(X)):
        for u in range(len(X)):
            kernel[s, u] = counts[u] * np.exp(X[u] @ A @ X[s])
        kernel[s] /= kernel[s].sum()
    return kernel


def on_sources(problem, score=None):
    """The states of a context or instance that were left; its kernel, transitions and mean rewards on these."""
    model = problem.model
    U = np.flatnonzero(model.visited)
    kernel = state_kernel(model, problem.X, score)
    return U, kernel[np.ix_(U, U)], model.transition[np.ix_(U, U)], model.reward[U]


def random_arrays(seed, d, n, batch=()):
    """A prompt-shaped Z with all entries non-zero, and full V and A."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(*batch, d + 3, n + 1))
    V, A = rng.normal(size=(2, d + 3, d + 3)) / np.sqrt(d + 3)
    return Z, V, A


def masked_softmax(Z, A):
    """softmax(Z^T A Z + Mask), rows = sources, with row n of the mask at -inf: the formula, one column at a time."""
    n = Z.shape[1] - 1
    scores = Z.T @ A @ Z
    mask = np.zeros((n + 1, n + 1))
    mask[n, :] = -np.inf
    weights = np.empty((n + 1, n + 1))
    for j in range(n + 1):
        column = scores[:, j] + mask[:, j]
        weights[:, j] = np.exp(column - column.max())
        weights[:, j] /= weights[:, j].sum()
    return weights


def tensors(*arrays):
    """Arrays as tensors."""
    return [torch.from_numpy(a) for a in arrays]


def run_layers(layer, c, A=None, offset=None):
    """Z_0, ..., Z_L of layers with the constructed value matrix, the step sizes of the context and score block A."""
    d = c.X.shape[1]
    Z = torch.from_numpy(build_prompt(c.x, c.rewards, c.initial[c.states], c.gamma))
    if offset is not None:
        Z[rows(d).target] += torch.from_numpy(offset)
    history = [Z]
    for size in c.step_sizes:
        V, scores = constructed_parameters(d, float(size))
        if A is not None:
            scores[:d, :d] = torch.from_numpy(A)
        history.append(layer(V, scores, c.gamma)(history[-1]))
    return torch.stack(history)
