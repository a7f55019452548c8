"""The prompt matrix Z_0: one column per visited state, one row per thing that is known about it."""

from typing import NamedTuple

import numpy as np

from ictd import _checks
from ictd._arguments import declare, discount, optional, real, side
from ictd._settings import numpy_defaults

# Default tolerances of `check_memory`. In the two half types a prompt is rounded to 4 times their resolution.
TOLERANCES = {"float32": 1e-5, "float16": 4 * 2**-10, "bfloat16": 4 * 2**-7}


class Rows(NamedTuple):
    """Zero-based row indices of a prompt matrix with d feature rows.

    In formulas, which count from 1, these are rows 1..d, d+1, d+2 and d+3.
    """

    features: slice
    reward: int
    target: int
    value: int


@declare(d=side())
def rows(d):
    """The row indices of a prompt matrix for features of dimension d.

    Parameters
    ----------
    d : int
        Number of features, at least 1.

    Returns
    -------
    Rows
        ``features`` (a slice), ``reward``, ``target`` (memory of gamma times the successor's value) and
        ``value`` (memory of the column's own value).
    """
    return Rows(slice(0, d), d, d + 1, d + 2)


@numpy_defaults()
@declare(gamma=optional(discount))
def build_prompt(x, rewards, initial=None, gamma=None):
    """Write a trajectory into the prompt matrix Z_0.

    Column j holds what is known at S_j: its features, the reward R_{j+1} for leaving it (0 in the last
    column, the query), and two memories. The target memory is gamma v(S_{j+1}) (0 in the last column),
    the value memory v(S_j); both are 0 unless ``initial`` is given.

    Parameters
    ----------
    x : array_like, shape (..., n+1, d)
        Features of S_0..S_n.
    rewards : array_like, shape (..., n)
        R_1..R_n.
    initial : array_like, shape (..., n+1), optional
        Values v_0 for a warm start; needs ``gamma``.
    gamma : float, optional
        Discount in [0, 1).

    Returns
    -------
    ndarray, shape (..., d+3, n+1)
        float32 if x and rewards are float32, otherwise float64.

    Raises
    ------
    ValueError, TypeError
        Shapes that do not fit, an empty context, NaN, ``initial`` without ``gamma``.
    """
    x = _checks.array("x", x, (..., "n+1", "d"), dtype=None)
    batch, n, d = x.shape[:-2], x.shape[-2] - 1, x.shape[-1]
    if n < 1:
        raise ValueError(f"x must hold at least two positions (n >= 1 transitions); got shape {x.shape}")
    rewards = _checks.array("rewards", rewards, (*batch, n), dtype=None)
    if initial is not None and gamma is None:
        raise ValueError("gamma must be given with initial: the target memory holds gamma times a value; got None")
    row = rows.trusted(d)
    prompt = np.zeros((*batch, d + 3, n + 1), np.result_type(x, rewards))
    prompt[..., row.features, :] = np.swapaxes(x, -1, -2)
    prompt[..., row.reward, :-1] = rewards
    if initial is not None:
        prompt[..., row.value, :] = _checks.array("initial", initial, (*batch, n + 1), dtype=prompt.dtype)
        prompt[..., row.target, :-1] = gamma * prompt[..., row.value, 1:]
    return prompt


def prompt_matrix(name, Z, lengths):
    """A prompt, possibly a tensor of any type and with a gradient, as an array of float32 or float64."""
    if hasattr(Z, "detach") and not Z.is_meta and not Z.is_sparse:
        Z = Z.detach().cpu().resolve_conj().resolve_neg()
        if _type_name(Z) == "bfloat16":  # a type that NumPy does not have
            Z = Z.float()
    Z = _checks.array(name, Z, (..., "d+3", "n+1"), dtype=None)
    if Z.shape[-2] < 4 or Z.shape[-1] < 2:
        raise ValueError(f"{name} must have shape (..., d+3, n+1) with d >= 1 and n >= 1; got shape {Z.shape}")
    return Z


@numpy_defaults()
@declare(gamma=discount, Z=prompt_matrix)
def memory_offset(Z, gamma):
    """How far the target memory is from gamma times the successor's value memory.

    Parameters
    ----------
    Z : array_like or torch.Tensor, shape (..., d+3, n+1)
    gamma : float
        Discount in [0, 1).

    Returns
    -------
    ndarray, shape (..., n+1)
        Row d+2 minus gamma times row d+3 shifted by one column; in the last column row d+2 itself.
        All 0 is the invariant under which the layers run weighted softmax TD.
    """
    offset = _offset(Z, gamma)
    if not np.isfinite(offset).all():
        raise ValueError("Z must hold smaller memories: their difference overflows")
    return offset


def _type_name(Z):
    return str(getattr(Z, "dtype", "float64")).removeprefix("torch.")


def _offset(Z, gamma):
    """As `memory_offset`, without checks."""
    row = rows.trusted(Z.shape[-2] - 3)
    offset = Z[..., row.target, :].copy()
    offset[..., :-1] -= gamma * Z[..., row.value, 1:]
    return offset


@numpy_defaults()
@declare(gamma=discount, tolerance=optional(real(low=0)))
def check_memory(Z, gamma, tolerance=None):
    """Raise a ValueError unless the memories of a prompt matrix are consistent.

    Parameters
    ----------
    Z : array_like or torch.Tensor, shape (..., d+3, n+1)
    gamma : float
        Discount in [0, 1).
    tolerance : float, optional
        Largest allowed offset relative to max(1, largest value memory). Default 1e-10, or by the type of Z:
        1e-5 in float32, 0.004 in float16 and 0.03 in bfloat16 (4 times the machine epsilon of these two).

    Returns
    -------
    float
        The largest relative offset found.
    """
    if tolerance is None:
        tolerance = TOLERANCES.get(_type_name(Z), 1e-10)
    Z = prompt_matrix("Z", Z, {})
    offset = _offset(Z, gamma)
    largest_value = np.abs(Z[..., -1, :]).max()
    relative = np.abs(offset) / max(1.0, float(largest_value))
    if relative.max() > tolerance:
        where = tuple(int(i) for i in np.unravel_index(relative.argmax(), relative.shape))
        raise ValueError(
            f"Z must hold consistent memories: row d+2 is gamma times row d+3 of the next column, and 0 in the "
            f"last column; column {where[-1]}{f' of prompt {where[:-1]}' if where[:-1] else ''} is off by "
            f"{offset[where]:.3g}. build_prompt(x, rewards, initial, gamma) writes consistent ones"
        )
    return float(relative.max())
