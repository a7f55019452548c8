"""The Transformer's read-outs for many parameters and many tasks at once: what pretraining runs on.

With masked parameters all columns of one state hold the same values in every layer, so a forward pass is a
recursion on states, whose cost does not grow with the context. Parameters that are not masked need the full
prompt matrices; both kinds are behind `readout` and `state_values`. They refuse values that overflow; where some
of many sets may diverge, as in a training, ``readout.trusted`` gives NaN or infinity for them.

Parameters are dicts of tensors with leading dimensions (..., sets), sets = 1 for looped layers or L:

===========================  ==========================  ====================================================
``value_weights``            (..., sets, 3)              [w_R, w_target, w_current] of the value row
``score_matrix``             (..., sets, d, d)           feature block of A
``target_weights``           (..., sets, 3)              the same for the target row of an independent head
``target_score_matrix``      (..., sets, d, d)           feature block of that head's A
``V``, ``A``                 (..., sets, d+3, d+3)       in place of the first two: nothing is masked
===========================  ==========================  ====================================================

Read-outs follow the caller's grad mode. Leading dimensions of parameters and inputs broadcast; all else must fit.
"""

import torch

from ictd import prompt
from ictd._arguments import declare, instance, option
from ictd._construction import FORMS
from ictd._read_out import DIMENSIONS, READ_OUT, check_columns, combination, with_columns
from ictd._tensors import (
    broadcast,
    check_inner_products,
    check_log_counts,
    finite,
    like,
    nan_where_infinite,
    of_layers,
)
from ictd.attention import block_matrix, row_matrix
from ictd.dual_head import dual_head_step
from ictd.inputs import Inputs
from ictd.td import matrix_times_vector
from ictd.temporal_shift import tsm_step

# ------------------------------------------------------------------------------------------------- kernel


def _features(name, value, lengths):
    """Features (..., S, d) of states."""
    *_, lengths["S"], lengths["d"] = check_inner_products(name, value, "S", "d").shape
    lengths[...] = {name: value}
    return value


def _log_counts(name, value, lengths):
    """Weights (..., S) of states; the leading dimensions of all arguments broadcast."""
    like("S", of="features", finite=False)(name, value, lengths)
    leads = lengths[...]["score_matrix"].shape[:-2], lengths[...]["features"].shape[:-2], value.shape[:-1]
    broadcast("score_matrix, features and log_counts", *leads)
    return check_log_counts(value)


@declare(
    features=_features,
    score_matrix=like("d", "d", of="features"),
    log_counts=_log_counts,
    returns=finite("scores overflow"),
)
def kernel(score_matrix, features, log_counts):
    """Kernels M[s, u] = c(u) exp(x(u)^T A x(s)) / sum_w c(w) exp(x(w)^T A x(s)).

    Parameters
    ----------
    score_matrix : Tensor, shape (..., d, d)
    features : Tensor, shape (..., S, d)
    log_counts : Tensor, shape (..., S)
        Logarithms of counts, or of any other weights of the sources.

    Returns
    -------
    Tensor, shape (..., S, S)
        Leading dimensions are broadcast.

    Raises
    ------
    ValueError, TypeError
        Shapes or types that do not fit, numbers that are too large for their type.
    """
    # Sources as rows, as in the layer: softmax over the last but one dimension is four times as fast.
    scores = nan_where_infinite(features @ score_matrix @ features.transpose(-1, -2))
    return torch.softmax(scores + log_counts[..., None], dim=-2).transpose(-1, -2)


# --------------------------------------------------------------------------------------------- parameters


@declare(parameters=instance(dict))
def is_masked(parameters):
    """True if the parameters are the masked ones, for which the state form exists."""
    return "value_weights" in parameters and "score_matrix" in parameters


@declare(parameters=combination)
def full_matrices(parameters, d):
    """V and A of shape (..., sets, d+3, d+3), whether they are masked or not; of the value head, if there are two."""
    V, A = parameters.get("V"), parameters.get("A")
    if V is None:
        V = row_matrix(parameters["value_weights"], prompt.rows(d).value, d)
    if A is None:
        A = block_matrix(parameters["score_matrix"])
    return V, A


@declare(form=option(*FORMS))
def matrix_form(form):
    """The form, as `readout` takes it, of a model: independent heads are known by their parameters."""
    return "dual_head" if form == "dual_head" else "tsm"


# ---------------------------------------------------------------------------------------------- read-outs

# What they read out, for `declare`: inputs of any kind, and those with columns.
INPUTS = instance(Inputs, features="features", states="states")
COLUMNS = with_columns(INPUTS)


def _finite_values(function, values, lengths):
    """Values (..., T, m) that are finite for every set of finite parameters."""
    return _check_values(values, torch.isfinite(values), lengths["parameters"])


def _finite_state_values(function, values, lengths):
    """The same for `state_values`, where NaN may stand for a state without a column."""
    good, parameters = torch.isfinite(values), lengths["parameters"]
    if not is_masked.trusted(parameters):
        good = good | (_columns_of_states(lengths["features"], lengths["states"]) == 0)
    return _check_values(values, good, parameters)


def _check_values(values, good, parameters):
    """Return values if all are good for every set of finite parameters."""
    broken = ~good.flatten(-2).all(dim=-1)
    if broken.any():
        for name, tensor in parameters.items():
            broken = broken & torch.isfinite(tensor).flatten(-DIMENSIONS[name]).all(dim=-1)
        if broken.any():
            raise ValueError(
                f"parameters must give finite values in {values.dtype} for these inputs; scores or values overflow: "
                f"parameters or features are too large for this type, or the iteration diverges"
            )
    return values


def _columns_of_states(features, states):
    """How many columns each state has, shape (..., T, S)."""
    zeros = features.new_zeros(features.shape[:-1])
    return zeros.scatter_add(-1, states, torch.ones_like(states, dtype=features.dtype))


@declare(batch=COLUMNS, **READ_OUT, returns=_finite_values)
def readout(parameters, batch, gamma, n_layers, form="tsm"):
    """Values v_L(S_j) of all columns.

    Parameters
    ----------
    parameters : dict of Tensor
        Leading dimensions that broadcast with those of ``batch`` without its last, T.
    batch : Inputs
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
        Parameters that do not fit each other, the batch or the number of layers; scores or values that overflow. Sets
        that hold NaN or infinity are not refused, they give NaN.
    """
    if not is_masked.trusted(parameters):
        return _layers_on_prompts(parameters, batch, gamma, n_layers, form)
    values = _steps_on_states(parameters, batch, gamma, n_layers)
    return torch.gather(values, -1, batch.states.expand(*values.shape[:-1], batch.states.shape[-1]))


@declare(batch=INPUTS, **READ_OUT, returns=_finite_state_values)
def state_values(parameters, batch, gamma, n_layers, form="tsm"):
    """Values v_L(s) of all states, shape (..., T, S).

    Parameters that are not masked have no value for a state but for its columns: their mean is given, and NaN
    for a state without a column. Arguments and errors are as in `readout`.
    """
    if is_masked.trusted(parameters):
        return _steps_on_states(parameters, batch, gamma, n_layers)
    check_columns("batch", batch)
    columns = _layers_on_prompts(parameters, batch, gamma, n_layers, form)
    n_columns = _columns_of_states(batch.features, batch.states)
    zeros = columns.new_zeros(*columns.shape[:-1], n_columns.shape[-1])
    return zeros.scatter_add(-1, batch.states.expand(columns.shape), columns) / n_columns


def _steps_on_states(parameters, batch, gamma, n_layers):
    """The state form: v <- v + M (w_R r + w_target gamma P v + w_current v), shape (..., T, S).

    With independent heads the target memory of a column is a function tau of the column's next state, with a
    recursion of its own, and P tau takes the place of gamma P v.

    It is the step of `td.bellman_steps` where w = alpha (1, 1, -1). The two share no more than the product with a
    matrix: there alpha multiplies M (r + gamma P v - v), here three weights stand inside, a set for each layer.
    """
    features, log_counts = batch.features.unsqueeze(-4), batch.log_counts.unsqueeze(-3)  # (..., sets, T, S, ...)
    r, P = batch.mean_reward, batch.transition

    def head(weights, score_matrix):
        """The weights (..., 1, 1, 3) and the kernel (..., T, S, S) of a head in each layer."""
        w = parameters[weights].unsqueeze(-2).unsqueeze(-2)
        M = kernel.trusted(parameters[score_matrix].unsqueeze(-3), features, log_counts)
        return zip(of_layers(w, n_layers, -4), of_layers(M, n_layers, -4))

    def change(w, M, target, v):
        return matrix_times_vector(M, w[..., 0] * r + w[..., 1] * target + w[..., 2] * v)

    v = torch.zeros_like(r)
    value_head = head("value_weights", "score_matrix")
    if "target_weights" not in parameters:
        for w, M in value_head:
            v = v + change(w, M, gamma * matrix_times_vector(P, v), v)
        return v
    tau = torch.zeros_like(r)
    for (w, M), (w_tau, M_tau) in zip(value_head, head("target_weights", "target_score_matrix")):
        target = matrix_times_vector(P, tau)
        v, tau = v + change(w, M, target, v), tau + change(w_tau, M_tau, target, v)
    return v


def _layers_on_prompts(parameters, batch, gamma, n_layers, form):
    """The layers themselves on prompt matrices; masked parts are put into zero matrices. Shape (..., T, n+1)."""
    step = {"tsm": tsm_step, "dual_head": dual_head_step}[form].trusted
    V, A = (matrix.unsqueeze(-3) for matrix in full_matrices.trusted(parameters, batch.features.shape[-1]))
    Z = batch.prompts()
    for V_l, A_l in zip(of_layers(V, n_layers, -4), of_layers(A, n_layers, -4)):  # each (..., 1, d+3, d+3)
        Z = step(Z, V_l, A_l, gamma)
    return Z[..., prompt.rows(Z.shape[-2] - 3).value, :]
