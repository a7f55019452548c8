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

Read-outs follow the caller's grad mode. Leading dimensions of parameters and inputs broadcast; all else must fit.
"""

import torch

from ictd import _checks, prompt
from ictd._construction import FORMS
from ictd._tensors import check_dense, check_finite, check_result, nan_where_infinite
from ictd.attention import block_matrix, row_matrix
from ictd.dual_head import dual_head_step
from ictd.inputs import Inputs, check_finite_contexts, check_fits, check_inner_products, check_log_counts
from ictd.temporal_shift import tsm_step


def kernel(score_matrix, features, log_counts, finite=True):
    """Kernels M[s, u] = c(u) exp(x(u)^T A x(s)) / sum_w c(w) exp(x(w)^T A x(s)).

    Parameters
    ----------
    score_matrix : Tensor, shape (..., d, d)
    features : Tensor, shape (..., S, d)
    log_counts : Tensor, shape (..., S)
        Logarithms of counts, or of any other weights of the sources.
    finite : bool
        Refuse scores that overflow; False gives NaN for them, for a training in which some sets may diverge.

    Returns
    -------
    Tensor, shape (..., S, S)
        Leading dimensions are broadcast.

    Raises
    ------
    ValueError, TypeError
        Shapes or types that do not fit, numbers that are too large for their type.
    """
    check_inner_products("features", features)
    if features.ndim < 2:
        raise ValueError(f"features must have shape (..., S, d); got shape {tuple(features.shape)}")
    *_, S, d = features.shape
    for name, tensor, shape in (("score_matrix", score_matrix, (d, d)), ("log_counts", log_counts, (S,))):
        lead = tensor.shape[: -len(shape)] if isinstance(tensor, torch.Tensor) else ()
        check_fits(name, tensor, features, (*lead, *shape), finite=False)
    leads = (score_matrix.shape[:-2], features.shape[:-2], log_counts.shape[:-1])
    _broadcast("score_matrix, features and log_counts", *leads)
    if finite:
        check_finite("score_matrix", score_matrix)
        check_log_counts(log_counts)
    M = _kernel(score_matrix, features, log_counts)
    return check_result("features", features, M, "scores overflow") if finite else M


def _kernel(score_matrix, features, log_counts):
    # Sources as rows, as in the layer: softmax over the last but one dimension is four times as fast.
    scores = nan_where_infinite(features @ score_matrix @ features.transpose(-1, -2))
    return torch.softmax(scores + log_counts[..., None], dim=-2).transpose(-1, -2)


def _broadcast(name, *shapes):
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        text = ", ".join(str(tuple(shape)) for shape in shapes)
        raise ValueError(f"{name} must have leading dimensions that broadcast; got {text}") from None


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
    _checks.instance("parameters", parameters, dict)
    return "value_weights" in parameters and "score_matrix" in parameters


def leading_shape(parameters):
    """The leading dimensions (...) of a dict of parameters."""
    check_parameters(parameters)
    name, tensor = next(iter(parameters.items()))
    return tensor.shape[: -DIMENSIONS[name]]


def check_parameters(parameters):
    """Refuse what is no dict of tensors with the names of a combination; shapes and types are checked by read-outs."""
    _checks.instance("parameters", parameters, dict)
    if set(parameters) not in COMBINATIONS:
        raise ValueError(
            f"parameters must be one of the combinations of the module; got {', '.join(map(str, parameters))}"
        )
    for name, tensor in parameters.items():
        if not isinstance(tensor, torch.Tensor) or tensor.ndim < DIMENSIONS[name] or not tensor.is_floating_point():
            raise TypeError(
                f"parameters must be floating-point tensors as in `state_form`; {name} is {_checks.describe(tensor)}"
            )
        check_dense("parameters", tensor)
        if tensor.numel() == 0:
            raise ValueError(f"parameters must not be empty; {name} has shape {tuple(tensor.shape)}")


def _check(parameters, inputs, gamma, n_layers, form):
    """Cheap checks at the door of the read-outs, where every step of a training passes; the discount as a float."""
    check_parameters(parameters)
    _checks.instance("inputs", inputs, Inputs)
    n_layers = _checks.integer("n_layers", n_layers, low=1)
    _checks.option("form", form, ("tsm", "dual_head"))
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
    _broadcast("parameters and inputs (without T)", lead, inputs.features.shape[:-3])
    return _checks.discount(gamma)


def readout(parameters, inputs, gamma, n_layers, form="tsm", finite=True):
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
    finite : bool
        Refuse values that overflow; False lets them through, for a training in which some sets may diverge. Sets
        that hold NaN or infinity give NaN in any case.

    Returns
    -------
    Tensor, shape (..., T, n+1)

    Raises
    ------
    ValueError, TypeError
        Parameters that do not fit each other, the inputs or the number of layers; scores or values that overflow.
    """
    gamma = _check(parameters, inputs, gamma, n_layers, form)
    check_finite_contexts(inputs)
    if is_masked(parameters):
        values = masked_values(parameters, inputs, gamma, n_layers)
        states = inputs.states.expand(*values.shape[:-1], inputs.states.shape[-1])
        values = torch.gather(values, -1, states)
    else:
        values = _matrix_readout(parameters, inputs, gamma, n_layers, form)
    return _check_values(values, parameters) if finite else values


def _check_values(values, parameters):
    """Return values (..., T, m) if those of every set of finite parameters are finite."""
    broken = ~torch.isfinite(values).flatten(-2).all(dim=-1)
    if broken.any():
        for name, tensor in parameters.items():
            broken = broken & torch.isfinite(tensor).flatten(-DIMENSIONS[name]).all(dim=-1)
        if broken.any():
            raise ValueError(
                f"parameters must give finite values in {values.dtype} for these inputs; scores or values overflow: "
                f"parameters or features are too large for this type, or the iteration diverges"
            )
    return values


def state_values(parameters, inputs, gamma, n_layers, form="tsm", finite=True):
    """Values v_L(s) of all states, shape (..., T, S).

    Parameters that are not masked have no value for a state but for its columns: their mean is given, and NaN
    for a state without a column. Arguments and errors are as in `readout`.
    """
    gamma = _check(parameters, inputs, gamma, n_layers, form)
    if is_masked(parameters):
        values = masked_values(parameters, inputs, gamma, n_layers)
        return _check_values(values, parameters) if finite else values
    check_finite_contexts(inputs)
    columns = _matrix_readout(parameters, inputs, gamma, n_layers, form)
    if finite:
        _check_values(columns, parameters)
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
    M = _kernel(parameters["score_matrix"].unsqueeze(-3), features, log_counts).unbind(-4)
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
    M_target = _kernel(parameters["target_score_matrix"].unsqueeze(-3), features, log_counts).unbind(-4)
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
    check_parameters(parameters)
    V, A = parameters.get("V"), parameters.get("A")
    if V is None:
        V = row_matrix(parameters["value_weights"], prompt.rows(d).value, d)
    if A is None:
        A = block_matrix(parameters["score_matrix"])
    return V, A


def matrix_form(form):
    """The form, as `readout` takes it, of a model: independent heads are known by their parameters."""
    _checks.option("form", form, FORMS)
    return "dual_head" if form == "dual_head" else "tsm"
