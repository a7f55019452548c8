"""Checks at the door of the layers: tensors of the right type and shape, before any work is done."""

import torch
from torch import nn

from ictd import _checks

# The types that the layers compute in; torch has narrower ones, for storage only.
FLOATING = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def check_prompt(Z, name="Z", size=None):
    """Return Z if it is a floating tensor of shape (..., d+3, n+1), d >= 1, n >= 1; d+3 = ``size`` if given."""
    if not isinstance(Z, torch.Tensor) or Z.dtype not in FLOATING:
        raise TypeError(
            f"{name} must be a floating-point torch.Tensor of shape (..., d+3, n+1), for example "
            f"torch.from_numpy(build_prompt(x, rewards)); got {_tensor_text(Z)}"
        )
    check_dense(name, Z)
    if Z.ndim < 2 or Z.shape[-2] < 4 or Z.shape[-1] < 2:
        raise ValueError(f"{name} must have shape (..., d+3, n+1) with d >= 1 and n >= 1; got shape {tuple(Z.shape)}")
    if size is not None and Z.shape[-2] != size:
        raise ValueError(
            f"{name} must have shape (..., {size}, n+1) to fit parameters for d = {size - 3}; "
            f"got shape {tuple(Z.shape)}"
        )
    return check_finite(name, Z)


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


def nan_where_infinite(tensor):
    """A tensor with NaN where it overflowed.

    Softmax would give a score of -inf the weight 0, which is right for a score that was set so, not for one that
    overflowed; NaN reaches the result, where `check_result` finds it.
    """
    return tensor + 0 * tensor  # and gradients of NaN


def check_result(name, given, result, what="scores or values overflow"):
    """Return what was computed from the tensor ``given``, named ``name``, if it is finite in its type."""
    if not torch.isfinite(result).all():
        largest = float(given.detach().abs().max())
        raise ValueError(
            f"{name} must give finite results in {result.dtype}; it has entries of up to {largest:.3g}, and {what}: "
            f"scale it down, or use a type with a larger range"
        )
    return result


def check_square(name, matrix, size, *others):
    """Return a matrix of shape (..., size, size) that fits ``others``, tensors that are known to fit each other.

    It has their type, and all leading dimensions broadcast together.
    """
    if not isinstance(matrix, torch.Tensor) or matrix.dtype not in FLOATING:
        raise TypeError(f"{name} must be a floating-point torch.Tensor; got {_tensor_text(matrix)}")
    check_dense(name, matrix)
    if matrix.ndim < 2 or tuple(matrix.shape[-2:]) != (size, size):
        raise ValueError(f"{name} must have shape (..., {size}, {size}); got shape {tuple(matrix.shape)}")
    for other in others:
        if matrix.dtype != other.dtype:
            raise TypeError(
                f"{name} must have the type of the tensors it is used with, {other.dtype}; got {matrix.dtype}"
            )
    batch = torch.broadcast_shapes(*(other.shape[:-2] for other in others))
    try:
        torch.broadcast_shapes(matrix.shape[:-2], batch)
    except RuntimeError:
        raise ValueError(
            f"{name} must have leading dimensions that broadcast with {tuple(batch)}; got shape {tuple(matrix.shape)}"
        ) from None
    return check_finite(name, matrix)


def check_dtype(dtype):
    """Return dtype if the layers can compute in it."""
    if not isinstance(dtype, torch.dtype) or dtype not in FLOATING:
        raise TypeError(f"dtype must be a floating torch.dtype, such as torch.float64; got {_checks.describe(dtype)}")
    return dtype


def step_size_tensor(step_size, dtype):
    """Positive step sizes as a tensor of a type in which they neither overflow nor vanish."""
    sizes = torch.as_tensor(step_size, dtype=torch.float64)
    result = sizes.to(dtype)
    lost = ~torch.isfinite(result) | (result == 0)
    if lost.any():
        raise ValueError(f"step_size must be a positive number in {dtype}; {sizes[lost][0].item()} is lost in it")
    return result


def _tensor_text(value):
    if isinstance(value, torch.Tensor):
        return f"a tensor of type {value.dtype}"
    return _checks.describe(value)


def check_value_matrix(V):
    """The size d+3 of a value matrix."""
    if isinstance(V, torch.Tensor) and (V.ndim < 2 or V.shape[-1] < 4):
        raise ValueError(f"V must have shape (..., d+3, d+3) with d >= 1; got shape {tuple(V.shape)}")
    size = V.shape[-1] if isinstance(V, torch.Tensor) else 4
    check_square("V", V, size)
    return size


def check_parameters(V, A):
    """The common size d+3 of a value and a score matrix."""
    size = check_value_matrix(V)
    check_square("A", A, size, V)
    return size


def store(module, name, tensor):
    """Keep a tensor in a module: trainable if it is a Parameter, as a buffer otherwise."""
    if isinstance(tensor, nn.Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)
