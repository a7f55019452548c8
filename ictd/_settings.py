"""The settings in which the package computes, whatever the reader has set before.

NumPy and torch keep settings that hold for a whole thread or process: how NumPy treats overflow, whether torch
records gradients, on which device it makes tensors. An answer must not depend on them. Functions that return numbers,
files or models therefore run inside `numpy_defaults` or `torch_defaults`; both are context managers and decorators
(not of generators, whose body runs later), and both leave the reader's settings as they were. Figures have
`plots.style`, which treats matplotlib in the same way.

What stays the caller's right is everything about a forward pass of tensors that are his: in the layers, in
`SoftmaxICTD.forward` and in the losses of `neu` the grad and inference mode, autocast, anomaly detection, and type and
device of the tensors passed in decide as they do for any layer of torch. Where a gradient is part of the answer, as
in `neu.expected_update`, it is computed whatever the grad mode is. torch's default type needs no treatment: the
package names the type wherever it makes a tensor.
"""

import contextlib

import numpy as np

# How NumPy prints by default, for texts in figures and files.
PRINTING = {
    "precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 75, "suppress": False, "nanstr": "nan",
    "infstr": "inf", "sign": "-", "formatter": None, "floatmode": "maxprec", "legacy": False,
}  # fmt: skip


@contextlib.contextmanager
def numpy_defaults():
    """Let numbers overflow to infinity and become NaN without a warning or an error; they are looked for instead."""
    with np.errstate(all="ignore"):
        yield


@contextlib.contextmanager
def torch_defaults():
    """Compute with gradients, on the CPU, in the types that the tensors have, and as fast as torch does by default.

    Includes `numpy_defaults`. Tensors of the caller that were made in inference mode can be read inside, but must be
    cloned before they take part in a gradient.
    """
    import torch

    with contextlib.ExitStack() as stack:
        stack.enter_context(numpy_defaults())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        if torch.empty(0).device.type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if torch.is_anomaly_enabled():
            stack.callback(torch.autograd.set_detect_anomaly, True, torch.is_anomaly_check_nan_enabled())
            torch.autograd.set_detect_anomaly(False)
        if torch.are_deterministic_algorithms_enabled():
            warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
            stack.callback(torch.use_deterministic_algorithms, True, warn_only=warn_only)
            torch.use_deterministic_algorithms(False)
        precision = torch.get_float32_matmul_precision()
        if precision != "highest":
            stack.callback(torch.set_float32_matmul_precision, precision)
            torch.set_float32_matmul_precision("highest")
        yield
