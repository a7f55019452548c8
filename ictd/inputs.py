"""Contexts as tensors: what a Transformer's read-outs need to know of its prompts."""

from dataclasses import dataclass, fields

import numpy as np
import torch

from ictd import _checks, prompt, tasks
from ictd._arguments import declare, instance, integer
from ictd._read_out import check_columns
from ictd._settings import torch_defaults
from ictd._tensors import check_dense, check_fits, check_inner_products, check_log_counts, number_type


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
        *lead, S, _ = check_inner_products("features", self.features, "T", "S", "d").shape
        check_fits("log_counts", self.log_counts, self.features, (*lead, S), finite=False)
        check_fits("transition", self.transition, self.features, (*lead, S, S))
        check_fits("mean_reward", self.mean_reward, self.features, (*lead, S))
        check_log_counts(self.log_counts)
        _check_frequencies(self.transition, self.log_counts == -torch.inf)
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
        check_columns("inputs", self)
        row = prompt.rows(self.features.shape[-1])
        states = self.states[..., None].expand(*self.states.shape, self.features.shape[-1])
        x = torch.gather(self.features, -2, states).transpose(-1, -2)
        zeros = x.new_zeros(*x.shape[:-2], row.value + 1 - row.reward, x.shape[-1])
        zeros[..., 0, :-1] = self.rewards
        return torch.cat([x, zeros], dim=-2)


def _check_frequencies(transition, never):
    """Refuse what are no relative frequencies; ``never`` says which states were never a source."""
    sums = transition.sum(dim=-1)
    rounding = 1e-6 + sums.shape[-1] * torch.finfo(sums.dtype).eps
    if (transition < 0).any() or (sums > 1 + rounding).any() or (sums[never] != 0).any():
        raise ValueError(
            "transition must have non-negative rows that sum to at most 1, and to 0 where log_counts is -inf; got "
            "others"
        )


def _check_states(states, lead, n_states):
    if not isinstance(states, torch.Tensor) or states.dtype != torch.int64:
        raise TypeError(f"states must be a torch.Tensor of int64; got {_checks.describe(states)}")
    check_dense("states", states)
    if list(states.shape[:-1]) != lead or states.shape[-1] < 2:
        raise ValueError(f"states must have shape {(*lead, 'n+1')} with n >= 1; got shape {tuple(states.shape)}")
    if states.min() < 0 or states.max() >= n_states:
        raise ValueError(f"states must be from 0 to {n_states - 1}; got {int(states.min())} to {int(states.max())}")


def _one_for_each_task(name, value, lengths):
    """Contexts, one for each of the tasks declared before."""
    _checks.instance(name, value, tasks.Contexts)
    shape, n_states = lengths["shape"], lengths["S"]
    if value.states.shape[:-1] != shape or value.n_states != n_states:
        raise ValueError(
            f"{name} must have one context for each task, {shape} with {n_states} states; "
            f"got {value.states.shape[:-1]} with {value.n_states} states"
        )
    return value


_OF_TASKS = {
    "dtype": number_type,
    "batch": instance(tasks.Tasks, shape="shape", S="n_states"),
    "contexts": _one_for_each_task,
}


@torch_defaults()
@declare(**_OF_TASKS)
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
    counts, transition, reward = contexts.empirical()
    arrays = batch.features, np.log(counts), transition, reward
    states, rewards = torch.tensor(contexts.states), torch.tensor(contexts.rewards, dtype=dtype)
    return Inputs(*(torch.tensor(array, dtype=dtype) for array in arrays), states, rewards)


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

    @property
    def features(self):
        """Features of the states of both prompts, shape (..., T, S, d)."""
        return self.here.features

    def __getitem__(self, index):
        """Some of the windows; the index selects along leading dimensions."""
        return Windows(
            self.here[index], self.there[index], _checks.leading(tuple(self.reward.shape), index)(self.reward)
        )


@torch_defaults()
@declare(**_OF_TASKS)
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
    n = contexts.n_transitions - 1
    if n < 1:
        raise ValueError(f"contexts must have at least 2 transitions; got {contexts.n_transitions}")
    here, there = (from_contexts.trusted(batch, contexts.window(start, n), dtype) for start in (0, 1))
    return Windows(here, there, there.rewards[..., -1])


@torch_defaults()
@declare(n_batches=integer(low=1), batch_size=integer(low=1), n_transitions=integer(low=1), dtype=number_type)
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
    batch = tasks.draw(n_batches * batch_size, n_states, dim, rng, **options)
    contexts = batch.sample(n_transitions + 1, rng, reward_noise)
    shape = (n_batches, batch_size)
    return windows.trusted(batch.reshape(shape), contexts.reshape(shape), dtype)


@torch_defaults()
@declare(dtype=number_type, batch=instance(tasks.Tasks))
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
    if not batch.shape:
        raise ValueError("batch must have at least one leading dimension; got a single task, see tasks.single")
    arrays = batch.features, np.log(batch.stationary()), batch.transition, batch.reward
    return Inputs(*(torch.tensor(array, dtype=dtype) for array in arrays), None, None)
