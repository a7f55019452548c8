"""Contexts as tensors: what a Transformer's read-outs need to know of its prompts."""

from dataclasses import dataclass, fields

import numpy as np
import torch

from ictd import _checks, prompt, tasks
from ictd._settings import torch_defaults
from ictd._tensors import FLOATING, check_dense, check_dtype, check_finite, check_result


@dataclass(frozen=True, eq=False)
class Inputs:
    """Contexts as tensors, all with the same leading dimensions (..., T), and of one floating type.

    Attributes
    ----------
    features : Tensor, shape (..., T, S, d)
        Their inner products must be finite in their type.
    log_counts : Tensor, shape (..., T, S)
        Logarithm of the visit counts; -inf for states that were never a source.
    transition : Tensor, shape (..., T, S, S)
        Relative frequencies; rows sum to at most 1, those of states that were never a source to 0.
    mean_reward : Tensor, shape (..., T, S)
    states : Tensor of int64, shape (..., T, n+1), or None for contexts of infinite length
    rewards : Tensor, shape (..., T, n), or None

    Raises
    ------
    ValueError, TypeError
        Shapes or types that do not fit, NaN, numbers that are too large for their type.
    """

    features: torch.Tensor
    log_counts: torch.Tensor
    transition: torch.Tensor
    mean_reward: torch.Tensor
    states: torch.Tensor | None
    rewards: torch.Tensor | None

    def __post_init__(self):
        check_inner_products("features", self.features)
        if self.features.ndim < 3:
            raise ValueError(f"features must have shape (..., T, S, d); got shape {tuple(self.features.shape)}")
        *lead, S, _ = self.features.shape
        check_fits("log_counts", self.log_counts, self.features, (*lead, S), finite=False)
        check_fits("transition", self.transition, self.features, (*lead, S, S))
        check_fits("mean_reward", self.mean_reward, self.features, (*lead, S))
        check_log_counts(self.log_counts)
        sums = self.transition.sum(dim=-1)
        rounding = 1e-6 + S * torch.finfo(sums.dtype).eps
        never = self.log_counts == -torch.inf
        if (self.transition < 0).any() or (sums > 1 + rounding).any() or (sums[never] != 0).any():
            raise ValueError(
                "transition must have non-negative rows that sum to at most 1, and to 0 where log_counts is -inf; "
                "got others"
            )
        if (self.states is None) != (self.rewards is None):
            raise ValueError("states and rewards must be given together; one of them is None")
        if self.states is not None:
            _check_states(self.states, lead, S)
            check_fits("rewards", self.rewards, self.features, (*lead, self.states.shape[-1] - 1))

    def __getitem__(self, index):
        """Some of the contexts; the index selects along leading dimensions, and leaves at least one."""
        select = _checks.leading(tuple(self.features.shape[:-2]), index)
        parts = (getattr(self, field.name) for field in fields(self))
        return Inputs(*(None if part is None else select(part) for part in parts))

    def prompts(self):
        """Prompt matrices Z_0, shape (..., T, d+3, n+1)."""
        check_finite_contexts(self)
        row = prompt.rows(self.features.shape[-1])
        states = self.states[..., None].expand(*self.states.shape, self.features.shape[-1])
        x = torch.gather(self.features, -2, states).transpose(-1, -2)
        zeros = x.new_zeros(*x.shape[:-2], row.value + 1 - row.reward, x.shape[-1])
        zeros[..., 0, :-1] = self.rewards
        return torch.cat([x, zeros], dim=-2)


def check_fits(name, tensor, like, shape, finite=True):
    """Return a tensor if it has the type and device of another, and a shape."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor; got {_checks.describe(tensor)}")
    check_dense(name, tensor)
    if tensor.dtype != like.dtype or tensor.device != like.device:
        raise TypeError(f"{name} must be of {like.dtype} on {like.device}; got {tensor.dtype} on {tensor.device}")
    if tuple(tensor.shape) != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}; got shape {tuple(tensor.shape)}")
    return check_finite(name, tensor) if finite else tensor


def check_log_counts(log_counts):
    if not (log_counts < torch.inf).all() or (log_counts == -torch.inf).all(dim=-1).any():
        raise ValueError("log_counts must be finite or -inf, and finite for a state of each context; got others")


def _check_states(states, lead, n_states):
    if not isinstance(states, torch.Tensor) or states.dtype != torch.int64:
        raise TypeError(f"states must be a torch.Tensor of int64; got {_checks.describe(states)}")
    check_dense("states", states)
    if list(states.shape[:-1]) != lead or states.shape[-1] < 2:
        raise ValueError(f"states must have shape {(*lead, 'n+1')} with n >= 1; got shape {tuple(states.shape)}")
    if states.min() < 0 or states.max() >= n_states:
        raise ValueError(f"states must be from 0 to {n_states - 1}; got {int(states.min())} to {int(states.max())}")


def check_inner_products(name, features):
    """Refuse features (..., d) whose inner products overflow in their type."""
    if not isinstance(features, torch.Tensor) or features.dtype not in FLOATING or features.ndim < 1:
        raise TypeError(f"{name} must be a floating-point torch.Tensor; got {_checks.describe(features)}")
    check_dense(name, features)
    if features.numel() == 0:
        raise ValueError(f"{name} must not be empty; got shape {tuple(features.shape)}")
    check_finite(name, features)
    check_result(name, features, features.detach().square().sum(dim=-1), "inner products overflow")


def check_finite_contexts(inputs):
    """Refuse what `inputs.limit_inputs` gives where columns of contexts are needed."""
    if inputs.states is None:
        raise ValueError("inputs must hold contexts of finite length; got those of inputs.limit_inputs")


@torch_defaults()
def from_contexts(batch, contexts, dtype=torch.float64):
    """Contexts and the features of their tasks as tensors.

    Parameters
    ----------
    batch : tasks.Tasks
    contexts : tasks.Contexts
        With the same leading dimensions, at least one.
    dtype : torch.dtype

    Returns
    -------
    Inputs

    Raises
    ------
    ValueError, TypeError
        Contexts that do not fit the tasks, numbers that are too large for the type.
    """
    check_dtype(dtype)
    _checks.instance("batch", batch, tasks.Tasks)
    _checks.instance("contexts", contexts, tasks.Contexts)
    if contexts.states.shape[:-1] != batch.shape or contexts.n_states != batch.n_states:
        raise ValueError(
            f"contexts must have one context for each task, {batch.shape} with {batch.n_states} states; "
            f"got {contexts.states.shape[:-1]} with {contexts.n_states} states"
        )
    counts, transition, reward = contexts.empirical()
    log_counts = np.log(counts)

    def tensor(values):
        return torch.tensor(values, dtype=dtype)

    return Inputs(
        tensor(batch.features),
        tensor(log_counts),
        tensor(transition),
        tensor(reward),
        torch.tensor(contexts.states),
        tensor(contexts.rewards),
    )


@dataclass(frozen=True, eq=False)
class Windows:
    """Prompts at S and at its successor S', with the reward between them.

    Attributes
    ----------
    here, there : Inputs
        Contexts of n transitions that end in S, and the same slid by one transition, so that they end in S'.
    reward : Tensor, shape (..., T)

    Raises
    ------
    ValueError, TypeError
        Parts of different shapes or types, NaN.
    """

    here: Inputs
    there: Inputs
    reward: torch.Tensor

    def __post_init__(self):
        for name in ("here", "there"):
            _checks.instance(name, getattr(self, name), Inputs)
            if getattr(self, name).states is None:
                raise ValueError(f"{name} must hold contexts of finite length; got those of limit_inputs")
        check_fits("there.features", self.there.features, self.here.features, self.here.features.shape)
        check_fits("reward", self.reward, self.here.features, self.here.states.shape[:-1])

    def __getitem__(self, index):
        """Some of the windows; the index selects along leading dimensions."""
        return Windows(
            self.here[index], self.there[index], _checks.leading(tuple(self.reward.shape), index)(self.reward)
        )


def windows(batch, contexts, dtype=torch.float64):
    """Cut contexts of n + 1 transitions into the two prompts of a TD error at the query.

    Parameters
    ----------
    batch : tasks.Tasks
    contexts : tasks.Contexts
        With n + 1 >= 2 transitions.
    dtype : torch.dtype

    Returns
    -------
    Windows
    """
    _checks.instance("contexts", contexts, tasks.Contexts)
    check_dtype(dtype)
    n = contexts.n_transitions - 1
    if n < 1:
        raise ValueError(f"contexts must have at least 2 transitions; got {contexts.n_transitions}")
    here = from_contexts(batch, contexts.window(0, n), dtype)
    there = from_contexts(batch, contexts.window(1, n), dtype)
    return Windows(here, there, there.rewards[..., -1])


def draw_windows(
    n_batches, batch_size, n_transitions, n_states, dim, rng, dtype=torch.float64, reward_noise=0.0, **options
):
    """Independent batches of random tasks with contexts of n + 1 transitions, as `Windows`.

    Parameters
    ----------
    n_batches, batch_size : int
        Batches B and tasks T of each.
    n_transitions : int
        Transitions n of each prompt.
    n_states, dim : int
    rng : numpy.random.Generator
    dtype : torch.dtype
    reward_noise : float
        As in `tasks.Tasks.sample`.
    options
        Further arguments of `tasks.draw`: ``family``, ``features``, ``feature_scale``.

    Returns
    -------
    Windows
        Leading dimensions (B, T).
    """
    n_batches = _checks.integer("n_batches", n_batches, low=1)
    batch_size = _checks.integer("batch_size", batch_size, low=1)
    n_transitions = _checks.integer("n_transitions", n_transitions, low=1)
    batch = tasks.draw(n_batches * batch_size, n_states, dim, rng, **options)
    contexts = batch.sample(n_transitions + 1, rng, reward_noise)
    shape = (n_batches, batch_size)
    return windows(batch.reshape(shape), contexts.reshape(shape), dtype)


@torch_defaults()
def limit_inputs(batch, dtype=torch.float64):
    """What contexts hold as n goes to infinity: the stationary distribution in place of counts, and P and r.

    Parameters
    ----------
    batch : tasks.Tasks
        With one leading dimension at least.
    dtype : torch.dtype

    Returns
    -------
    Inputs
        Without ``states`` and ``rewards``, which are None: for `state_form.state_values` and `limit_update`.

    Raises
    ------
    ValueError
        If a process is not irreducible.
    """
    check_dtype(dtype)
    _checks.instance("batch", batch, tasks.Tasks)
    if not batch.shape:
        raise ValueError("batch must have at least one leading dimension; got a single task, see tasks.single")
    arrays = batch.features, np.log(batch.stationary()), batch.transition, batch.reward
    return Inputs(*(torch.tensor(array, dtype=dtype) for array in arrays), None, None)
