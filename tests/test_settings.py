"""The package's own settings: what holds inside them, and that the reader's own are there again afterwards.

`test_global_state` asks every public function; here are the settings themselves.
"""

import numpy as np
import pytest
import torch

from ictd._settings import numpy_defaults, torch_defaults

BOTH = pytest.mark.parametrize("defaults", [numpy_defaults, torch_defaults])


@BOTH
@pytest.mark.filterwarnings("error")
def test_numpy_overflows_in_silence_inside_and_as_the_reader_says_outside(defaults):
    largest = np.array([1e308])
    with np.errstate(all="raise"):
        with defaults():
            assert np.isinf(largest * 10) and np.isnan(largest * 10 - largest * 10)
        with pytest.raises(FloatingPointError):
            largest * 10


@BOTH
def test_the_smallest_numbers_are_kept(defaults):
    smallest = np.ones(1, dtype=np.uint64).view(np.float64)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor keeps small numbers whatever is set")
    try:
        assert (smallest * 1 == 0).all()
        with defaults():
            assert (smallest * 1 > 0).all()
        assert (smallest * 1 == 0).all()
        with pytest.raises(KeyError), defaults():
            raise KeyError
        assert (smallest * 1 == 0).all()
    finally:
        torch.set_flush_denormal(False)
    with defaults():
        assert (smallest * 1 > 0).all()
    assert (smallest * 1 > 0).all()


def test_torch_records_gradients_on_the_cpu_in_the_types_of_the_tensors():
    weight = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad(), torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16), torch_defaults():
        product = weight @ torch.ones(2, 2)
        assert product.requires_grad and product.device.type == "cpu" and product.dtype == torch.float32
    with torch.inference_mode(), torch_defaults():
        assert (weight * 2).requires_grad


def test_slow_modes_of_torch_are_off_inside_and_come_back():
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        with torch_defaults():
            assert not torch.are_deterministic_algorithms_enabled() and not torch.is_anomaly_enabled()
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
        torch.autograd.set_detect_anomaly(False)


@pytest.fixture
def products():
    """The settings of products of matrices, which afterwards are as they were."""
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("this torch has one setting for all products")
    settings = torch.backends.mkldnn.matmul, torch.backends.cuda.matmul
    yield settings
    torch.backends.fp32_precision = "none"
    for setting in settings:
        setting.fp32_precision = "none"


@pytest.mark.parametrize("general, own", [("tf32", None), ("none", "tf32"), ("tf32", "tf32"), ("ieee", "bf16")])
def test_products_of_float32_are_exact_inside(products, general, own):
    """Whether the reader has chosen a precision for all products, or for those of matrices; it follows him again."""
    torch.backends.fp32_precision = general
    if own is not None:
        torch.backends.mkldnn.matmul.fp32_precision = own
    before = [setting.fp32_precision for setting in products]
    with torch_defaults():
        assert all(setting.fp32_precision in ("none", "ieee") for setting in products)
    assert [setting.fp32_precision for setting in products] == before
    if own is None:  # it still follows the setting for all products
        torch.backends.fp32_precision = "ieee"
        assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_products_of_float32_before_torch_2_9(monkeypatch, precision):
    """Older versions of torch have one setting, and none for each kind of product."""
    monkeypatch.setattr(torch.backends, "mkldnn", object())
    torch.set_float32_matmul_precision(precision)
    try:
        with torch_defaults():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision("highest")
