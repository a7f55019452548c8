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

from dataclasses import dataclass, fields

import numpy as np
import torch

from ictd import _checks, prompt, tasks
from ictd._tensors import check_dtype
from ictd.attention import block_matrix, row_matrix
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

    def __getitem__(self, index):
        """Some of the contexts; the index selects along leading dimensions."""
        return Inputs(*(getattr(self, field.name)[index] for field in fields(self)))

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

    Raises
    ------
    ValueError, TypeError
        Contexts that do not fit the tasks.
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


# The number of dimensions of each parameter behind the leading ones, and which of them go together.
DIMENSIONS = {"value_weights": 2, "score_matrix": 3, "target_weights": 2, "target_score_matrix": 3, "V": 3, "A": 3}
COMBINATIONS = (
    {"value_weights", "score_matrix"},
    {"value_weights", "score_matrix", "target_weights", "target_score_matrix"},
    {"V", "score_matrix"},
    {"value_weights", "A"},
    {"V", "A"},
)


def is_masked(parameters):
    """True if the parameters are the masked ones, for which the state form exists."""
    return "value_weights" in parameters and "score_matrix" in parameters


def leading_shape(parameters):
    """The leading dimensions (...) of a dict of parameters."""
    name, tensor = next(iter(parameters.items()))
    return tensor.shape[: -DIMENSIONS[name]]


def _check(parameters, inputs, gamma, n_layers, form):
    """Cheap checks at the door of the read-outs, where every step of a training passes; NaN may enter."""
    _checks.instance("parameters", parameters, dict)
    _checks.instance("inputs", inputs, Inputs)
    _checks.discount(gamma)
    n_layers = _checks.integer("n_layers", n_layers, low=1)
    _checks.option("form", form, ("tsm", "dual_head"))
    if set(parameters) not in COMBINATIONS:
        raise ValueError(f"parameters must be one of the combinations of the module; got {', '.join(parameters)}")
    d, dtype, lead = inputs.features.shape[-1], inputs.features.dtype, leading_shape(parameters)
    sets = {tensor.shape[-DIMENSIONS[name]] for name, tensor in parameters.items()}
    for name, tensor in parameters.items():
        if tensor.dtype != dtype:
            raise TypeError(f"parameters must have the type of the inputs, {dtype}; {name} has {tensor.dtype}")
        side = d if "score" in name else d + 3
        shape = (*lead, tensor.shape[-DIMENSIONS[name]], *((3,) if DIMENSIONS[name] == 2 else (side, side)))
        if tensor.shape != shape or sets not in ({1}, {n_layers}):
            raise ValueError(
                f"parameters must have shapes as in `state_form` for d = {d}, with 1 or n_layers = {n_layers} sets and "
                f"equal leading dimensions; {name} has shape {tuple(tensor.shape)}"
            )


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

    Raises
    ------
    ValueError, TypeError
        Parameters that do not fit each other, the inputs or the number of layers; NaN is not looked for.
    """
    _check(parameters, inputs, gamma, n_layers, form)
    if is_masked(parameters):
        values = masked_values(parameters, inputs, gamma, n_layers)
        states = inputs.states.expand(*values.shape[:-1], inputs.states.shape[-1])
        return torch.gather(values, -1, states)
    return _matrix_readout(parameters, inputs, gamma, n_layers, form)


def state_values(parameters, inputs, gamma, n_layers, form="tsm"):
    """Values v_L(s) of all states, shape (..., T, S).

    Parameters that are not masked have no value for a state but for its columns: their mean is given, and NaN
    for a state without a column. Arguments are as in `readout`.
    """
    _check(parameters, inputs, gamma, n_layers, form)
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
    recursion of its own, and takes the place of gamma v. Arguments are as in `readout`; they are not checked.
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
    """V and A of shape (..., sets, d+3, d+3), whether they are masked or not; of the value head, if there are two."""
    V, A = parameters.get("V"), parameters.get("A")
    if V is None:
        V = row_matrix(parameters["value_weights"], prompt.rows(d).value, d)
    if A is None:
        A = block_matrix(parameters["score_matrix"])
    return V, A


def matrix_form(form):
    """The form, as `readout` takes it, of a model: independent heads are known by their parameters."""
    return "dual_head" if form == "dual_head" else "tsm"
