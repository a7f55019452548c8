"""The settings in which the package computes, whatever the reader has set before.

NumPy and torch keep settings that hold for a whole thread or process: how NumPy treats overflow, whether torch
records gradients, on which device it makes tensors. An answer must not depend on them. Functions that return numbers,
files or models therefore run inside `numpy_defaults` or `torch_defaults`; both are context managers and decorators
(not of generators, whose body runs later), and both leave the reader's settings as they were. Figures have
`plots.style.book_settings`, which treats matplotlib in the same way.

What stays the caller's right is everything about a forward pass of tensors that are his: in the layers, in
`SoftmaxICTD.forward` and in the losses of `neu` the grad and inference mode, autocast, anomaly detection, and type and
device of the tensors passed in decide as they do for any layer of torch. Where a gradient is part of the answer, as
in `neu.expected_update`, it is computed whatever the grad mode is. torch's default type needs no treatment: the
package names the type wherever it makes a tensor.
"""

import contextlib
import sys

import numpy as np

# How NumPy prints by default, for texts in figures and files.
PRINTING = {
    "precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 75, "suppress": False, "nanstr": "nan",
    "infstr": "inf", "sign": "-", "formatter": None, "floatmode": "maxprec", "legacy": False,
}  # fmt: skip


# 5e-324 from its bits: its text may be read as 0 where the processor takes it for 0
_SMALLEST = np.ones((), dtype=np.uint64).view(np.float64)[()]


@contextlib.contextmanager
def numpy_defaults():
    """Let numbers overflow to infinity and become NaN without a warning or an error; they are looked for instead.

    Numbers down to the smallest one are kept.
    """
    # torch.set_flush_denormal lets the processor take the smallest numbers for 0, in NumPy as well.
    torch = sys.modules.get("torch")
    flush = torch is not None and _SMALLEST == 0
    if flush:
        torch.set_flush_denormal(False)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        if flush:
            torch.set_flush_denormal(True)


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
        _exact_products(torch, stack)
        yield


def _exact_products(torch, stack):
    """Multiply matrices of float32 in float32, and set back what the reader has chosen when the stack is left."""
    if not hasattr(torch.backends.mkldnn, "matmul"):  # before torch 2.9
        precision = torch.get_float32_matmul_precision()
        if precision != "highest":
            stack.callback(torch.set_float32_matmul_precision, precision)
            torch.set_float32_matmul_precision("highest")
        return
    # Where the reader has used the newer settings, those of before can no longer be read: torch raises an error.
    for setting in (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul):
        precision = setting.fp32_precision
        if precision not in ("none", "ieee"):
            stack.callback(_set_back, setting, precision)
            setting.fp32_precision = "ieee"


def _set_back(setting, precision):
    setting.fp32_precision = "none"
    if setting.fp32_precision != precision:  # else it follows the setting for all products again
        setting.fp32_precision = precision
