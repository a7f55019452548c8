"""Claims about Transformer layers: what they compute, and what they keep in memory. Needs torch."""

import numpy as np
import torch

from ictd import attention, kernels, prompt, td
from ictd.claims.algorithm import position_form
from ictd.claims.statement import relative_error
from ictd.dual_head import DualHeadLayer
from ictd.temporal_shift import TSMLayer


def _layer_values(case, layer_class, V, A, offset=None):
    """Z_0..Z_L as an array of shape (L+1, d+3, n+1); ``offset`` is added to the target memory."""
    Z = prompt.build_prompt(case.x, case.rewards)
    if offset is not None:
        Z[prompt.rows(case.X.shape[1]).target] += offset
    layer = layer_class(V, A, case.gamma)
    Z = torch.from_numpy(Z)
    history = [Z]
    for _ in range(case.n_layers):
        history.append(layer(history[-1]))
    return torch.stack(history).numpy()


def _constructed(case, general):
    """V and A of the paper; with the instance's score matrix in the feature block if ``general``."""
    d = case.X.shape[1]
    V, A = attention.constructed_parameters(d, case.step_size)
    if general:
        A[:d, :d] = torch.tensor(case.A)
    return V, A


def _layers_error(case, layer_class, general):
    values = _layer_values(case, layer_class, *_constructed(case, general))[:, -1]
    return relative_error(values, position_form(case, None if general else kernels.inner_product_score()))


def dual_head_is_weighted_td(case):
    return _layers_error(case, DualHeadLayer, general=False)


def dual_head_is_weighted_td_for_any_scores(case):
    return _layers_error(case, DualHeadLayer, general=True)


def shift_module_is_weighted_td(case):
    return _layers_error(case, TSMLayer, general=False)


def target_memory_is_invariant(case):
    Z = _layer_values(case, DualHeadLayer, *_constructed(case, general=True))
    target = np.zeros_like(Z[:, -2])
    target[:, :-1] = case.gamma * Z[:, -1, 1:]
    return relative_error(Z[:, -2], target)


def dual_head_is_the_shift_module(case):
    size = case.X.shape[1] + 3
    initial = case.rng.standard_normal(len(case.x))
    dual = shifted = torch.from_numpy(prompt.build_prompt(case.x, case.rewards, initial, case.gamma))
    errors = []
    for _ in range(case.n_layers):
        # Full matrices, new ones in each layer. Small V keeps 50 layers of a non-linear map from growing without bound.
        A = torch.from_numpy(0.3 * case.rng.standard_normal((size, size)))
        V = torch.from_numpy(0.3 / size * case.rng.standard_normal((size, size)))
        V[-2] = 0
        dual, shifted = DualHeadLayer(V, A, case.gamma)(dual), TSMLayer(V, A, case.gamma)(shifted)
        errors.append(relative_error(dual.numpy().ravel(), shifted.numpy().ravel()))
    return max(errors)


def dual_head_keeps_an_offset(case):
    offset = np.append(case.rng.standard_normal(len(case.rewards)), 0.0)
    values = _layer_values(case, DualHeadLayer, *_constructed(case, general=False), offset=offset)[:, -1]
    expected = td.weighted_softmax_td(case.x, case.rewards + offset[:-1], case.gamma, case.n_layers, case.step_size)
    return relative_error(values, expected)


def shift_module_forgets_an_offset(case):
    offset = np.append(case.rng.standard_normal(len(case.rewards)), 0.0)
    Z = _layer_values(case, TSMLayer, *_constructed(case, general=False), offset=offset)
    expected = td.weighted_softmax_td(
        case.x, case.rewards, case.gamma, case.n_layers - 1, case.step_size, initial=Z[1, -1]
    )
    return relative_error(Z[1:, -1], expected)
