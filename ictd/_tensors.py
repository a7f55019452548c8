"""Arguments that are tensors: their kinds, for `_arguments.declare`, and the checks behind them.

Of the tensors of one call ``lengths[...]`` keeps those met so far, by name: their leading dimensions broadcast
together, and they have one type. ``lengths["d"]`` is the number of features.
"""

import torch
from torch import nn

from ictd import _checks

# The types that the layers compute in; torch has narrower ones, for storage only.
FLOATING = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


# ------------------------------------------------------------------------------------- kinds of arguments


def prompt(name, value, lengths):
    """A prompt matrix: a floating tensor of shape (..., d+3, n+1), d >= 1, n >= 1."""
    if not isinstance(value, torch.Tensor) or value.dtype not in FLOATING:
        raise TypeError(
            f"{name} must be a floating-point torch.Tensor of shape (..., d+3, n+1), for example "
            f"torch.from_numpy(build_prompt(x, rewards)); got {_tensor_text(value)}"
        )
    check_dense(name, value)
    shape = tuple(value.shape)
    if len(shape) < 2 or shape[-2] < 4 or shape[-1] < 2:
        raise ValueError(f"{name} must have shape (..., d+3, n+1) with d >= 1 and n >= 1; got shape {shape}")
    d = lengths.setdefault("d", shape[-2] - 3)
    if shape[-2] != d + 3:
        raise ValueError(f"{name} must have shape (..., {d + 3}, n+1) to fit parameters for d = {d}; got shape {shape}")
    lengths.setdefault(..., {})[name] = value
    return check_finite(name, value)


def matrix(name, value, lengths):
    """A value or score matrix: a floating tensor of shape (..., d+3, d+3) that fits the tensors before it."""
    if isinstance(value, torch.Tensor) and "d" not in lengths:
        if value.ndim < 2 or value.shape[-1] < 4:
            raise ValueError(f"{name} must have shape (..., d+3, d+3) with d >= 1; got shape {tuple(value.shape)}")
        lengths["d"] = value.shape[-1] - 3
    if not isinstance(value, torch.Tensor) or value.dtype not in FLOATING:
        raise TypeError(f"{name} must be a floating-point torch.Tensor; got {_tensor_text(value)}")
    check_dense(name, value)
    size = lengths["d"] + 3
    if tuple(value.shape[-2:]) != (size, size):
        raise ValueError(f"{name} must have shape (..., {size}, {size}); got shape {tuple(value.shape)}")
    others = lengths.setdefault(..., {})
    for other in others.values():
        if value.dtype != other.dtype:
            raise TypeError(
                f"{name} must have the type of the tensors it is used with, {other.dtype}; got {value.dtype}"
            )
    batch = torch.broadcast_shapes(*(other.shape[:-2] for other in others.values()))
    try:
        torch.broadcast_shapes(value.shape[:-2], batch)
    except RuntimeError:
        raise ValueError(
            f"{name} must have leading dimensions that broadcast with {tuple(batch)}; got shape {tuple(value.shape)}"
        ) from None
    others[name] = value
    return check_finite(name, value)


def columns(name, value, lengths):
    """A tensor of shape (..., rows, n+1), of any type."""
    if not isinstance(value, torch.Tensor) or value.ndim < 1:
        raise TypeError(f"{name} must be a torch.Tensor of shape (..., rows, n+1); got {_checks.describe(value)}")
    check_dense(name, value)
    if value.shape[-1] == 0:
        raise ValueError(f"{name} must have at least one column; got shape {tuple(value.shape)}")
    return value


def like(*shape, of, finite=True):
    """A tensor of any leading dimensions and then a shape, in the type and on the device of the argument ``of``."""

    def check(name, value, lengths):
        ends = [lengths[letter] for letter in shape]
        lead = value.shape[: -len(ends)] if isinstance(value, torch.Tensor) else ()
        lengths.setdefault(..., {})[name] = value
        return check_fits(name, value, lengths[...][of], (*lead, *ends), finite)

    return check


def number_type(name, value, lengths):
    """A type of torch that the layers can compute in."""
    if not isinstance(value, torch.dtype) or value not in FLOATING:
        raise TypeError(f"{name} must be a floating torch.dtype, such as torch.float64; got {_checks.describe(value)}")
    return value


def generator(name, value, lengths):
    """A torch.Generator."""
    if not isinstance(value, torch.Generator):
        raise TypeError(
            f"{name} must be a torch.Generator, for example torch.Generator().manual_seed(0); "
            f"got {_checks.describe(value)}"
        )
    return value


def finite(what="scores or values overflow"):
    """For ``declare(returns=...)``: a result that is finite in its type. The first tensor is to blame for another."""

    def check(function, value, lengths):
        name, given = next(iter(lengths[...].items()))
        return check_result(name, given, value, what)

    return check


# ------------------------------------------------------------------------------------------------- checks


def check_dense(name, tensor):
    """Return a tensor if its entries can be computed with: not sparse, not nested, not on the meta device."""
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta:
        kind = "nested" if tensor.is_nested else f"of layout {tensor.layout} on device {tensor.device}"
        raise TypeError(f"{name} must be a dense tensor with data, on the CPU or a GPU; got one {kind}")
    return tensor


def check_finite(name, tensor):
    """Return a tensor if it holds neither NaN nor infinity, in its own type."""
    if not torch.isfinite(tensor).all():
        raise ValueError(f"{name} must be finite in {tensor.dtype}; it holds NaN or infinity")
    return tensor


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


def check_result(name, given, result, what="scores or values overflow"):
    """Return what was computed from the tensor ``given``, named ``name``, if it is finite in its type."""
    if not torch.isfinite(result).all():
        largest = float(given.detach().abs().max())
        raise ValueError(
            f"{name} must give finite results in {result.dtype}; it has entries of up to {largest:.3g}, and {what}: "
            f"scale it down, or use a type with a larger range"
        )
    return result


def check_inner_products(name, features, *shape):
    """Return features if they end in a shape, such as "S", "d", and their inner products are finite in their type."""
    if not isinstance(features, torch.Tensor) or features.dtype not in FLOATING or features.ndim < 1:
        raise TypeError(f"{name} must be a floating-point torch.Tensor; got {_checks.describe(features)}")
    check_dense(name, features)
    if features.numel() == 0:
        raise ValueError(f"{name} must not be empty; got shape {tuple(features.shape)}")
    check_finite(name, features)
    check_result(name, features, features.detach().square().sum(dim=-1), "inner products overflow")
    if features.ndim < len(shape):
        raise ValueError(f"{name} must have shape (..., {', '.join(shape)}); got shape {tuple(features.shape)}")
    return features


def check_log_counts(log_counts):
    """Return log_counts (..., S) if a state of each context was a source."""
    if not (log_counts < torch.inf).all() or (log_counts == -torch.inf).all(dim=-1).any():
        raise ValueError("log_counts must be finite or -inf, and finite for a state of each context; got others")
    return log_counts


def broadcast(name, *shapes):
    """The shape to which leading dimensions broadcast together; ``name`` says whose they are."""
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        text = ", ".join(str(tuple(shape)) for shape in shapes)
        raise ValueError(f"{name} must have leading dimensions that broadcast; got {text}") from None


def _tensor_text(value):
    if isinstance(value, torch.Tensor):
        return f"a tensor of type {value.dtype}"
    return _checks.describe(value)


# ------------------------------------------------------------------------------------------------ tensors


def nan_where_infinite(tensor):
    """A tensor with NaN where it overflowed.

    Softmax would give a score of -inf the weight 0, which is right for a score that was set so, not for one that
    overflowed; NaN reaches the result, where `finite` finds it.
    """
    return tensor + 0 * tensor  # and gradients of NaN


def step_size_tensor(step_size, dtype):
    """Positive step sizes as a tensor of a type in which they neither overflow nor vanish."""
    sizes = torch.as_tensor(step_size, dtype=torch.float64)
    result = sizes.to(dtype)
    lost = ~torch.isfinite(result) | (result == 0)
    if lost.any():
        raise ValueError(f"step_size must be a positive number in {dtype}; {sizes[lost][0].item()} is lost in it")
    return result


def of_layers(sets, n_layers, dim=0):
    """The parts of a tensor along a dimension of length 1 or L, one for each layer: looped layers share theirs."""
    parts = sets.unbind(dim)
    return parts * n_layers if len(parts) == 1 else parts


def store(module, **tensors):
    """Keep tensors in a module: trainable what is a Parameter, as buffers all others."""
    for name, tensor in tensors.items():
        if isinstance(tensor, nn.Parameter):
            module.register_parameter(name, tensor)
        else:
            module.register_buffer(name, tensor)
