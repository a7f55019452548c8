"""Softmax attention over the source columns of a prompt, and the parameters that make it TD."""

import torch
import torch.nn.functional as F

from ictd import _checks
from ictd.prompt import rows


def check_prompt(Z, name="Z", size=None):
    """Return Z if it is a floating tensor of shape (..., d+3, n+1), d >= 1, n >= 1, with d+3 = ``size`` if given."""
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


def attention_weights(Z, A):
    """Softmax weights of each source column for each column.

    Parameters
    ----------
    Z : Tensor, shape (..., d+3, n+1)
    A : Tensor, shape (..., d+3, d+3)
        The score of source i for query j is ``Z[:, i]^T A Z[:, j]``.

    Returns
    -------
    Tensor, shape (..., n, n+1)
        Columns sum to 1. The mask of the paper gives the last column (the query) the score -inf as a
        source; here its row is left out, which is the same.
    """
    check_prompt(Z)
    check_square("A", A, Z.shape[-2], Z)
    return weights(Z, A)


def weights(Z, A):
    """As `attention_weights`, without checks."""
    sources = Z[..., :-1]
    return torch.softmax(sources.transpose(-1, -2) @ (A @ Z), dim=-2)


def softmax_attention(Z, V, A):
    """One attention head: V Z softmax(Z^T A Z + Mask).

    Parameters
    ----------
    Z : Tensor, shape (..., d+3, n+1)
    V, A : Tensor, shape (..., d+3, d+3)
        Value matrix and score matrix.

    Returns
    -------
    Tensor, shape (..., d+3, n+1)

    Raises
    ------
    ValueError, TypeError
        Shapes or types that do not fit, NaN.
    """
    check_prompt(Z)
    check_square("V", V, Z.shape[-2], Z)
    check_square("A", A, Z.shape[-2], Z)
    return attend(Z, V, A)


def attend(Z, V, A):
    """As `softmax_attention`, without checks."""
    return (V @ Z[..., :-1]) @ weights(Z, A)


def shift_left(Y):
    """The product Y Pi: column j becomes column j+1 of Y, the last column becomes 0.

    Parameters
    ----------
    Y : Tensor, shape (..., rows, n+1)
    """
    if not isinstance(Y, torch.Tensor) or Y.ndim < 1:
        raise TypeError(f"Y must be a torch.Tensor of shape (..., rows, n+1); got {_checks.describe(Y)}")
    return F.pad(Y[..., 1:], (0, 1))


def constructed_parameters(d, step_size=1.0, dtype=torch.float64):
    """The paper's parameters: a head that adds alpha times the weighted TD errors to the value memory.

    ``A = diag(I_d, 0, 0, 0)`` and ``V = alpha e_{d+3} (e_{d+1} + e_{d+2} - e_{d+3})^T``

    Parameters
    ----------
    d : int
        Number of features, at least 1.
    step_size : float
        Positive step size alpha.
    dtype : torch.dtype

    Returns
    -------
    V, A : Tensor, shape (d+3, d+3)
    """
    row = rows(d)
    step_size = _checks.real("step_size", step_size, low=0, low_open=True)
    dtype = check_dtype(dtype)
    V = torch.zeros(d + 3, d + 3, dtype=dtype)
    V[row.value, row.reward] = step_size
    V[row.value, row.target] = step_size
    V[row.value, row.value] = -step_size
    A = torch.zeros(d + 3, d + 3, dtype=dtype)
    A[row.features, row.features] = torch.eye(d, dtype=dtype)
    return V, A
