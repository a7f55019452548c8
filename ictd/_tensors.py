"""Checks at the door of the layers: tensors of the right type and shape, before any work is done."""

import torch
from torch import nn

from ictd import _checks


def check_prompt(Z, name="Z", size=None):
    """Return Z if it is a floating tensor of shape (..., d+3, n+1), d >= 1, n >= 1; d+3 = ``size`` if given."""
    if not isinstance(Z, torch.Tensor) or not Z.is_floating_point():
        raise TypeError(
            f"{name} must be a floating-point torch.Tensor of shape (..., d+3, n+1), for example "
            f"torch.from_numpy(build_prompt(x, rewards)); got {_tensor_text(Z)}"
        )
    if Z.ndim < 2 or Z.shape[-2] < 4 or Z.shape[-1] < 2:
        raise ValueError(f"{name} must have shape (..., d+3, n+1) with d >= 1 and n >= 1; got shape {tuple(Z.shape)}")
    if size is not None and Z.shape[-2] != size:
        raise ValueError(
            f"{name} must have shape (..., {size}, n+1) to fit parameters for d = {size - 3}; got shape {tuple(Z.shape)}"
        )
    if not torch.isfinite(Z).all():
        raise ValueError(f"{name} must be finite; it holds NaN or infinity")
    return Z


def check_square(name, matrix, size, like=None):
    """Return a matrix of shape (..., size, size) that fits the type and leading dimensions of ``like`` if given."""
    if not isinstance(matrix, torch.Tensor) or not matrix.is_floating_point():
        raise TypeError(f"{name} must be a floating-point torch.Tensor; got {_tensor_text(matrix)}")
    if matrix.ndim < 2 or tuple(matrix.shape[-2:]) != (size, size):
        raise ValueError(f"{name} must have shape (..., {size}, {size}); got shape {tuple(matrix.shape)}")
    if like is not None and matrix.dtype != like.dtype:
        raise TypeError(f"{name} must have the type of the tensors it is used with, {like.dtype}; got {matrix.dtype}")
    if like is not None and not _broadcast(matrix.shape[:-2], like.shape[:-2]):
        raise ValueError(
            f"{name} must have leading dimensions that broadcast with {tuple(like.shape[:-2])}; "
            f"got shape {tuple(matrix.shape)}"
        )
    if not torch.isfinite(matrix).all():
        raise ValueError(f"{name} must be finite; it holds NaN or infinity")
    return matrix


def check_dtype(dtype):
    """Return dtype if it is a floating type of torch."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating torch.dtype, such as torch.float64; got {_checks.describe(dtype)}")
    return dtype


def _broadcast(one, two):
    """Whether two shapes broadcast."""
    return all(a == b or 1 in (a, b) for a, b in zip(one[::-1], two[::-1]))


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
