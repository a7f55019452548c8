"""The Transformer's read-outs for many parameters and many tasks at once: what pretraining runs on.

With masked parameters all columns of one state hold the same values in every layer, so a forward pass is a
recursion on states, whose cost does not grow with the context. Parameters that are not masked need the full
prompt matrices; both kinds are behind `readout` and `state_values`.

Parameters are dicts of tensors with leading dimensions (..., sets), sets = 1 for looped layers or L:

===========================  ==========================  ====================================================
``value_weights``            (..., sets, 3)              [w_R, w_target, w_current] of the value row
``score_matrix``             (..., sets, d, d)           feature block of A
``target_weights``           (..., sets, 3)              the same for the target row of an independent head
``target_score_matrix``      (..., sets, d, d)           feature block of that head's A
``V``, ``A``                 (..., sets, d+3, d+3)       in place of the first two: nothing is masked
===========================  ==========================  ====================================================
"""

from dataclasses import dataclass

import numpy as np
import torch

from ictd import _checks, prompt, tasks
from ictd.dual_head import dual_head_step
from ictd.temporal_shift import tsm_step


@dataclass(frozen=True, eq=False)
class Inputs:
    """Contexts as tensors, all with the same leading dimensions (..., T).

    Attributes
    ----------
    features : Tensor, shape (..., T, S, d)
    log_counts : Tensor, shape (..., T, S)
        Logarithm of the visit counts; -inf for states that were never a source.
    transition : Tensor, shape (..., T, S, S)
        Relative frequencies.
    mean_reward : Tensor, shape (..., T, S)
    states : Tensor of int64, shape (..., T, n+1)
    rewards : Tensor, shape (..., T, n)
    """

    features: torch.Tensor
    log_counts: torch.Tensor
    transition: torch.Tensor
    mean_reward: torch.Tensor
    states: torch.Tensor
    rewards: torch.Tensor

    def prompts(self):
        """Prompt matrices Z_0, shape (..., T, d+3, n+1)."""
        states = self.states[..., None].expand(*self.states.shape, self.features.shape[-1])
        x = torch.gather(self.features, -2, states)
        return torch.from_numpy(prompt.build_prompt(x.numpy(), self.rewards.numpy()))


def inputs(batch, contexts, dtype=torch.float64):
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
    """
    _checks.instance("batch", batch, tasks.Tasks)
    _checks.instance("contexts", contexts, tasks.Contexts)
    if contexts.states.shape[:-1] != batch.shape or contexts.n_states != batch.n_states:
        raise ValueError(
            f"contexts must have one context for each task, {batch.shape} with {batch.n_states} states; "
            f"got {contexts.states.shape[:-1]} with {contexts.n_states} states"
        )
    counts, transition, reward = contexts.empirical()
    with np.errstate(divide="ignore"):
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


def kernel(score_matrix, features, log_counts):
    """Kernels M[s, u] = c(u) exp(x(u)^T A x(s)) / sum_w c(w) exp(x(w)^T A x(s)).

    Parameters
    ----------
    score_matrix : Tensor, shape (..., d, d)
    features : Tensor, shape (..., S, d)
    log_counts : Tensor, shape (..., S)

    Returns
    -------
    Tensor, shape (..., S, S)
    """
    # Sources as rows, as in the layer: softmax over the last but one dimension is four times as fast.
    scores = features @ score_matrix @ features.transpose(-1, -2)
    return torch.softmax(scores + log_counts[..., None], dim=-2).transpose(-1, -2)


def is_masked(parameters):
    """True if the parameters are the masked ones, for which the state form exists."""
    return "value_weights" in parameters and "score_matrix" in parameters


def readout(parameters, inputs, gamma, n_layers, form="tsm"):
    """Values v_L(S_j) of all columns.

    Parameters
    ----------
    parameters : dict of Tensor
        Leading dimensions that broadcast with those of ``inputs`` without its last, T.
    inputs : Inputs
    gamma : float
    n_layers : int
    form : {"tsm", "dual_head"}
        Matters only for parameters that are not masked: otherwise the two forms are equal (Lemma 1), and
        independent heads are known by their parameters.

    Returns
    -------
    Tensor, shape (..., T, n+1)
    """
    if is_masked(parameters):
        values = masked_values(parameters, inputs, gamma, n_layers)
        states = inputs.states.expand(*values.shape[:-1], inputs.states.shape[-1])
        return torch.gather(values, -1, states)
    return _matrix_readout(parameters, inputs, gamma, n_layers, form)


def state_values(parameters, inputs, gamma, n_layers, form="tsm"):
    """Values v_L(s) of all states, shape (..., T, S).

    Parameters that are not masked have no value for a state but for its columns: their mean is given, and NaN
    for a state without a column.
    """
    if is_masked(parameters):
        return masked_values(parameters, inputs, gamma, n_layers)
    columns = _matrix_readout(parameters, inputs, gamma, n_layers, form)
    states = inputs.states.expand(columns.shape)
    zeros = columns.new_zeros(*columns.shape[:-1], inputs.features.shape[-2])
    total = zeros.scatter_add(-1, states, columns)
    return total / zeros.scatter_add(-1, states, torch.ones_like(columns))


def masked_values(parameters, inputs, gamma, n_layers):
    """The state form: v <- v + M (w_R r + gamma w_target P v + w_current v), shape (..., T, S).

    With independent heads the target memory of a column is a function tau of the column's next state, with a
    recursion of its own, and takes the place of gamma v.
    """
    # (..., sets, T, S, S): one kernel for each set of parameters
    features, log_counts = inputs.features.unsqueeze(-4), inputs.log_counts.unsqueeze(-3)
    M = kernel(parameters["score_matrix"].unsqueeze(-3), features, log_counts).unbind(-4)
    w = parameters["value_weights"].unsqueeze(-2).unsqueeze(-2).unbind(-4)  # each (..., 1, 1, 3)
    reward, P = inputs.mean_reward, inputs.transition

    def apply(matrix, vector):
        return (matrix @ vector.unsqueeze(-1)).squeeze(-1)

    def update(kernel, weights, target, value):
        return apply(kernel, weights[..., 0] * reward + weights[..., 1] * target + weights[..., 2] * value)

    value = torch.zeros_like(reward)
    if "target_weights" not in parameters:
        for layer in range(n_layers):
            index = layer if len(w) > 1 else 0
            value = value + update(M[index], w[index], gamma * apply(P, value), value)
        return value
    M_target = kernel(parameters["target_score_matrix"].unsqueeze(-3), features, log_counts).unbind(-4)
    w_target = parameters["target_weights"].unsqueeze(-2).unsqueeze(-2).unbind(-4)
    target = torch.zeros_like(reward)
    for layer in range(n_layers):
        index = layer if len(w) > 1 else 0
        after = apply(P, target)
        value, target = (
            value + update(M[index], w[index], after, value),
            target + update(M_target[index], w_target[index], after, value),
        )
    return value


def _matrix_readout(parameters, inputs, gamma, n_layers, form):
    """The layers themselves on prompt matrices; masked parts are put into zero matrices."""
    V, A = full_matrices(parameters, inputs.features.shape[-1])
    V, A = (matrix.unsqueeze(-3).unbind(-4) for matrix in (V, A))  # each (..., 1, d+3, d+3)
    step = {"tsm": tsm_step, "dual_head": dual_head_step}[form]
    Z = inputs.prompts()
    for layer in range(n_layers):
        index = layer if len(V) > 1 else 0
        Z = step(Z, V[index], A[index], gamma)
    return Z[..., prompt.rows(Z.shape[-2] - 3).value, :]


def full_matrices(parameters, d):
    """V and A of shape (..., sets, d+3, d+3), whether they are masked or not."""
    row = prompt.rows(d)
    if "V" in parameters:
        V = parameters["V"]
    else:
        V = value_matrix(parameters["value_weights"], row.value, d)
    if "A" in parameters:
        return V, parameters["A"]
    A = V.new_zeros(*parameters["score_matrix"].shape[:-2], d + 3, d + 3)
    A[..., row.features, row.features] = parameters["score_matrix"]
    return V, A


def value_matrix(weights, row, d):
    """A matrix of zeros but for the three weights in one row, shape (..., d+3, d+3)."""
    V = weights.new_zeros(*weights.shape[:-1], d + 3, d + 3)
    V[..., row, prompt.rows(d).reward :] = weights
    return V
