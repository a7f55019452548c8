"""What a reader has set beforehand changes no answer, no file and no figure, ends in no raw error, and stays set.

One test for every pair of a call and a setting: the result has the same bits as without the setting. Settings that
cannot hide one another are made together. The layers and losses, which compute with tensors of the caller, are called
on tensors made outside; their graph is the caller's right.
"""

import contextlib
import dataclasses
import decimal
import functools
import locale
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
mpl = pytest.importorskip("matplotlib")
style = pytest.importorskip("matplotlib.style")
pytest.importorskip("ipywidgets")

import ictd  # noqa: E402
from ictd import (  # noqa: E402
    attention,
    claims,
    convergence,
    dual_head,
    empirical,
    evaluate,
    exercises,
    features,
    inputs,
    kernels,
    model,
    mrp,
    neu,
    plots,
    pretrain,
    prompt,
    rates,
    reference,
    runs,
    state_form,
    tasks,
    td,
    temporal_shift,
)
from ictd.claims import verify  # noqa: E402
from ictd.plots import sliders  # noqa: E402
from ictd.pretrain import checkpoint  # noqa: E402
from ictd.runs import figures, grid, sweep  # noqa: E402
from ictd.runs.folder import CHECKPOINT  # noqa: E402

pytestmark = pytest.mark.long

# --------------------------------------------------------------------------------------------- settings


@contextlib.contextmanager
def _together(*settings):
    with contextlib.ExitStack() as stack:
        for setting in settings:
            stack.enter_context(setting)
        yield


@contextlib.contextmanager
def _set(put, value, back):
    put(value)
    try:
        yield
    finally:
        put(back)


@contextlib.contextmanager
def _error_state(**state):
    before = np.seterr(**state)
    call = np.seterrcall(lambda *_: pytest.fail("NumPy called the reader's function"))
    try:
        yield
    finally:
        np.seterr(**before)
        np.seterrcall(call)


@contextlib.contextmanager
def _strict_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def _no_streams(*names):
    kept = {name: getattr(sys, name) for name in names}
    for name in names:
        setattr(sys, name, None)
    try:
        yield
    finally:
        for name, stream in kept.items():
            setattr(sys, name, stream)


@contextlib.contextmanager
def _german_numbers():
    """No German locale need be installed: what Python reads from the C library is replaced."""
    kept = locale.localeconv, locale.format_string
    german = kept[0]() | {"decimal_point": ",", "thousands_sep": "."}
    locale.localeconv = lambda: german
    locale.format_string = lambda form, value, *rest, **options: (form % value).replace(".", ",")
    try:
        with mpl.rc_context({"axes.formatter.use_locale": True}):
            yield
    finally:
        locale.localeconv, locale.format_string = kept


@contextlib.contextmanager
def _anomaly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it is slow
        with torch.autograd.detect_anomaly():
            yield


@contextlib.contextmanager
def _seeded():
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


@contextlib.contextmanager
def _coarse_decimals():
    with decimal.localcontext() as context:
        context.prec = 1
        context.traps[decimal.Inexact] = True
        yield


NUMPY = {
    "seterr raise": lambda: _error_state(all="raise"),
    "seterr call": lambda: _error_state(all="call"),
    "print options": lambda: np.printoptions(precision=1, suppress=True, threshold=2, linewidth=20, legacy="1.13"),
}


@contextlib.contextmanager
def _flush_denormals():
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor keeps all numbers")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextlib.contextmanager
def _precision(of):
    """The settings of torch 2.9 and later; those of before cannot be read meanwhile."""
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("older than torch 2.9")
    setting = of(torch.backends)
    with _set(lambda value: setattr(setting, "fp32_precision", value), "bf16", setting.fp32_precision):
        yield


TORCH = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "default dtype float64": lambda: _set(torch.set_default_dtype, torch.float64, torch.float32),
    "default dtype float16": lambda: _set(torch.set_default_dtype, torch.float16, torch.float32),
    "default device meta": lambda: _set(torch.set_default_device, "meta", None),
    "device context": lambda: torch.device("meta"),
    "deterministic": lambda: _set(torch.use_deterministic_algorithms, True, False),
    "anomaly": _anomaly,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "matmul precision": lambda: _set(torch.set_float32_matmul_precision, "medium", "highest"),
    "precision of products": lambda: _precision(lambda backends: backends.mkldnn.matmul),
    "precision of everything": lambda: _precision(lambda backends: backends),
    "small numbers are 0": _flush_denormals,
}
PYTHON = {
    "warnings are errors": _strict_warnings,
    "no stdout": lambda: _no_streams("stdout"),
    "no streams": lambda: _no_streams("stdout", "stderr"),
    "German and coarse numbers": lambda: _together(_german_numbers(), _coarse_decimals()),
    "seeded generators": _seeded,
}
MATPLOTLIB = {
    "text": {
        **{"text.usetex": True, "font.size": 8, "font.family": "serif", "mathtext.fontset": "cm"},
        **{"text.color": "white", "axes.labelcolor": "white", "xtick.color": "white", "axes.unicode_minus": False},
        **{"legend.frameon": True, "legend.fontsize": 20, "figure.dpi": 200},
    },
    "lines": {
        **{"axes.prop_cycle": mpl.cycler(color=["red"]), "axes.facecolor": "red", "lines.linewidth": 9},
        **{"axes.grid": False, "axes.spines.left": False, "path.simplify": False, "path.sketch": (1, 100, 2)},
        **{"agg.path.chunksize": 9, "figure.autolayout": True, "figure.constrained_layout.h_pad": 1},
    },
    "files": {
        **{"savefig.dpi": 300, "savefig.bbox": "tight", "savefig.transparent": False, "savefig.facecolor": "red"},
        **{"svg.fonttype": "path", "svg.hashsalt": None, "svg.image_inline": False},
    },
}
FIGURES = {f"rc {name}": lambda rc=rc: mpl.rc_context(rc) for name, rc in MATPLOTLIB.items()}
FIGURES |= {f"style {name}": lambda name=name: style.context(name) for name in ("dark_background", "ggplot")}
SETTINGS = NUMPY | TORCH | PYTHON | FIGURES


def _precisions():
    backends = torch.backends
    if hasattr(backends.mkldnn, "matmul"):
        return [s.fp32_precision for s in (backends, backends.mkldnn, backends.mkldnn.matmul, backends.cuda.matmul)]
    return torch.get_float32_matmul_precision()


def _reader_sees():
    """The settings that a reader could look at."""
    return {
        "error state": np.geterr(),
        "print options": np.get_printoptions(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "device": torch.empty(0).device,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "precision": _precisions(),
        "small numbers": np.float64(5e-324) * 1 == 0,
        "threads": torch.get_num_threads(),
        "filters": list(warnings.filters),
        "rc": dict(mpl.rcParams),
        "random": (random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()),
    }


# ------------------------------------------------------------------------------------------------ calls

GAMMA, LAYERS = 0.9, 4


def rng():
    return np.random.default_rng(7)


PROCESS = mrp.boyan_chain(5, GAMMA, rng())
WALK = PROCESS.sample(40, rng())
X = features.gaussian(5, 3, rng())
x, R = X[WALK.states], WALK.rewards
EMPIRICAL = empirical.empirical_model(WALK, 5)
KERNEL = kernels.population_kernel(PROCESS, X)
Z0 = prompt.build_prompt(x, R)
Z = torch.from_numpy(Z0)
TINY = Z0 * 1e-308
V, A = attention.constructed_parameters(3)
BATCH = tasks.draw(4, 5, 3, rng())
CONTEXTS = BATCH.sample(12, rng())
INPUTS = inputs.from_contexts(BATCH, CONTEXTS)
WINDOWS = inputs.draw_windows(4, 3, 8, 5, 3, rng())
MODEL = model.SoftmaxICTD.constructed(3, LAYERS, GAMMA)
MASKED = {"value_weights": torch.tensor([[1.2, 1.1, -1.0]], dtype=torch.float64),
          "score_matrix": torch.eye(3, dtype=torch.float64)[None]}  # fmt: skip
FREE = {"V": V[None], "A": A[None]}
CONFIG = pretrain.Config(
    n_layers=2, n_states=4, dim=2, n_transitions=6, n_steps=4, batch_size=3, n_records=2, n_held_out=4, neu_batches=3,
    neu_batch_size=2, dtype="float32",
)  # fmt: skip


def made(constructor, *arguments, **options):
    """Parameters of a new model, and whether they can be trained."""
    net = constructor(*arguments, **options)
    net(Z0).sum()
    return [(name, p, p.requires_grad, p.is_inference()) for name, p in net.named_parameters()]


def gradient(loss, *arguments):
    """A loss, as the reader would compute it, with its gradient where gradients are recorded anyway."""
    return loss(MASKED, *arguments)


def history(result):
    return [vars(result.history), result.parameters, result.value_error_constructed, result.summary()["value_error"]]


def pretrained(**changes):
    return history(pretrain.pretrain(dataclasses.replace(CONFIG, **changes), [3, 5]))


def in_folder(work):
    """What ``work(folder)`` returns."""
    with tempfile.TemporaryDirectory() as folder:
        return work(Path(folder))


def saved_run(folder):
    run = runs.run(folder / "run", CONFIG, [3, 5])
    again = runs.read(folder / "run")
    table = again.table()
    net = pretrain.pretrain(CONFIG, [3, 5], checkpoint_path=folder / "run" / CHECKPOINT).model(5)
    return run.history, table[: table.rindex("\n")], dict(net.named_parameters())


def swept(folder):
    points = grid.grid({"gamma": [0.5, 0.7], **{"n_steps": [2], "n_layers": [2], "n_states": [4], "dim": [2],
                         "n_transitions": [6], "batch_size": [3], "n_held_out": [4], "neu_batches": [3],
                         "neu_batch_size": [2]}})  # fmt: skip
    rows = sweep.sweep(folder / "s", points, [1])
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@functools.cache
def finished():
    """A run, from files."""
    return in_folder(lambda folder: runs.run(folder / "run", CONFIG, [3, 5]))


def drawn(folder):
    """The figures of a sweep of one point, as `figures.write` leaves them."""
    swept(folder)
    written, *_ = figures.write(folder / "s")
    return {path.name: path.read_bytes() for path in written}


def stored(folder):
    checkpoint.save(folder / "c.npz", {"step": 3}, {"numbers": np.arange(3.0), "truth": np.array([True])})
    return checkpoint.load(folder / "c.npz")


def drawing(draw):
    """The SVG of a figure to which ``draw(ax)`` and usual methods of matplotlib have added something."""
    fig, ax = plots.new(2.4)
    draw(ax)
    ax.set(xlabel="step", title="$w_R$, a title")
    ax.text(0.5, 0.5, "a note", ha="center")
    ax.annotate("an arrow", (0, 0), (0.3, 0.3), arrowprops={"arrowstyle": "->"})
    ax.axhline(0.25)
    fig.suptitle("above", fontsize=10)
    return plots.svg(fig, alt="A figure that is not important.")


def curves(ax):
    plots.line(ax, [0, 1, 2.5], [1.0, 0.5, -0.25], low=[0.5, 0, -1], high=[1.5, 1, 1], label="error")
    ax.plot([0, 2], [0, 1], label="plain")
    plots.legend(ax)


def explored():
    def frame(beta):
        fig, ax = plots.new(2)
        plots.bars(ax, np.array([beta, 1e-300]) * 1e-300, ["a", "b"])
        ax.text(0, 0, "a note")
        return fig, f"score scale {beta}."

    alt = "Two bars, one for each state."
    made = sliders.explorer(frame, [("β", np.array([0.1, 0.3]) * 3)], caption="Bars.", alt=alt)
    return made.fallback.html, [child.value for child in made.children[1].children]


def answered(name, answer):
    verdict = exercises.check(name, answer)
    return verdict.state, verdict.message


def evaluated():
    result = evaluate.evaluate(WALK.states.tolist(), R.tolist(), n_layers=20)
    return result.table(), result.radius, list(map(str, result.warnings))


CALLS = {
    # NumPy: also numbers that overflow or underflow on the way
    "mrp.MRP": lambda: mrp.MRP([[0.5, 0.5], [1 - 1e-7, 0]], [1e-310, 1], 0.9).transition,
    "mrp.value": lambda: PROCESS.value(),
    "mrp.stationary": lambda: PROCESS.stationary(),
    "mrp.stationary underflow": lambda: mrp.MRP([[1 - 1e-300, 1e-300], [0.5, 0.5]], [0, 0], 0.9).stationary(),
    "mrp.boyan_chain": lambda: mrp.boyan_chain(6, 0.9, rng()),
    "mrp.sample": lambda: PROCESS.sample(30, rng()),
    "features": lambda: [features.one_hot(3, 2), features.gaussian(4, 2, rng(), 1e-310), features.triangular(13, 4)],
    "prompt": lambda: [prompt.build_prompt(x, R, x[:, 0], GAMMA), prompt.memory_offset(TINY, GAMMA)],
    "prompt.check_memory": lambda: prompt.check_memory(Z0, GAMMA),
    "tasks": lambda: [tasks.draw(2, 4, 2, rng(), f, feature_scale=1e-200) for f in tasks.FAMILIES],
    "tasks.Tasks": lambda: [BATCH.value(GAMMA), BATCH.stationary(), BATCH.sample(5, rng(), 0.1)],
    "tasks.Contexts": lambda: [CONTEXTS.empirical(), CONTEXTS.constant_value(0.5), CONTEXTS.certainty_equivalence(0.5)],
    "td.weighted_softmax_td": lambda: td.weighted_softmax_td(30 * x, R, GAMMA, LAYERS),
    "td diverges": lambda: td.weighted_softmax_td(x, R, GAMMA, 900, 9.0),
    "td.weighted_softmax_td_states": lambda: td.weighted_softmax_td_states(
        WALK, 30 * X, GAMMA, 9, score=kernels.bilinear_score(np.eye(3) * 1e-300)
    ),
    "kernels.tabular_score": lambda: td.weighted_softmax_td(x, R, GAMMA, LAYERS, score=kernels.tabular_score()),
    "empirical.empirical_model": lambda: empirical.empirical_model(WALK, 6),
    "empirical.certainty_equivalence": lambda: empirical.certainty_equivalence(EMPIRICAL, GAMMA, boundary=0.0),
    "kernels.state_kernel": lambda: kernels.state_kernel(EMPIRICAL, 40 * X),
    "reference": lambda: reference.weighted_softmax_td_loops(30 * x, R, GAMMA, 2),
    "convergence kernels": lambda: [
        kernels.population_kernel(PROCESS, 40 * X), kernels.empirical_kernel(WALK, 40 * X, np.eye(3)),
        kernels.balanced_kernel(np.ones(5), X),
    ],  # fmt: skip
    "convergence numbers": lambda: [
        convergence.diagonality(KERNEL), convergence.norm_bound(KERNEL, GAMMA),
        convergence.spectral_radius(convergence.iteration_matrix(KERNEL, PROCESS.transition, GAMMA)),
        convergence.reweighted_norm(KERNEL, PROCESS.transition, GAMMA),
        convergence.reweighting_ratio(KERNEL, PROCESS.transition, GAMMA),
    ],  # fmt: skip
    "rates.error_curves": lambda: rates.error_curves(PROCESS, 9 * X, [30, 40], 3, 9, rng(), step_size=9.0),
    "convergence fits": lambda: [
        rates.fitted_rate(0.5 ** np.arange(12).reshape(2, 6), (1, 5), rng(), 50),
        rates.fitted_slope([10, 100], [[1, 2.0], [0.3, 0.5]], rng(), 50),
    ],
    "claims": lambda: [repr(claims.holds("a claim", lambda case: claims.relative_error(case.X, case.X + 1e-12),
                                         claims.random_instances(rng(), 3)))],  # fmt: skip
    "verify": lambda: [(result.status, result.error) for result in verify.run(1, 5)],
    "evaluate": evaluated,
    "exercises": lambda: [
        answered("weighted_softmax_td.kernel", lambda scores, counts: counts * np.exp(scores)),
        answered(exercises.names()[0], np.ones(3)),
        answered("prompt_matrix.prompt", ...) if "prompt_matrix.prompt" in exercises.names() else None,
    ],
    # torch: functions of the caller's tensors
    "attention": lambda: [attention.attention_weights(Z, A), attention.softmax_attention(Z, V, A)],
    "constructors": lambda: [attention.constructed_parameters(2), temporal_shift.shift_matrices(2, GAMMA)],
    "layers": lambda: [
        dual_head.DualHeadLayer(V, A, GAMMA)(Z), temporal_shift.TSMLayer(V, A, GAMMA)(Z),
        temporal_shift.temporal_shift(Z, GAMMA), dual_head.target_value_matrix(V, GAMMA), attention.shift_left(Z),
    ],  # fmt: skip
    "model.values": lambda: MODEL.values(Z0, check=True),
    "model.SoftmaxICTD": lambda: made(model.SoftmaxICTD, 3, 2, GAMMA, generator=torch.Generator().manual_seed(3)),
    "model independent": lambda: made(
        model.SoftmaxICTD, 3, 2, GAMMA, shared=False, form="independent_heads",
        generator=torch.Generator().manual_seed(3), dtype=torch.float32,
    ),  # fmt: skip
    "model.constructed": lambda: made(model.SoftmaxICTD.constructed, 3, 2, GAMMA, [0.5, 1.0], form="independent_heads"),
    "model.FullICTD": lambda: [
        made(model.FullICTD, 3, 2, GAMMA, generator=torch.Generator().manual_seed(3)),
        made(model.FullICTD.constructed, 3, 2, GAMMA), made(model.FullICTD.from_matrices, V[None], A[None], 2, GAMMA),
    ],  # fmt: skip
    "inputs.from_contexts": lambda: [inputs.from_contexts(BATCH, CONTEXTS, torch.float32), INPUTS[1:].prompts()],
    "state_form.readout": lambda: [
        state_form.readout(p, INPUTS, GAMMA, LAYERS, form) for p in (MASKED, FREE) for form in ("tsm", "dual_head")
    ],
    "state_form.state_values": lambda: [state_form.state_values(MASKED, INPUTS, GAMMA, LAYERS)],
    "state_form.kernel": lambda: state_form.kernel(MASKED["score_matrix"], INPUTS.features, INPUTS.log_counts),
    "neu losses": lambda: [
        neu.td_loss(MASKED, INPUTS, GAMMA, LAYERS), neu.td_query_loss(MASKED, WINDOWS[0], GAMMA, LAYERS),
        neu.true_value_loss(MASKED, INPUTS, torch.from_numpy(BATCH.value(GAMMA)), GAMMA, LAYERS),
    ],  # fmt: skip
    "neu updates": lambda: [
        neu.expected_update(p, WINDOWS[0], GAMMA, LAYERS) for p in (MASKED, FREE)
    ] + [neu.updates(MASKED, WINDOWS, 4, GAMMA, LAYERS)],  # fmt: skip
    "neu updates of new parameters": lambda: neu.expected_update(
        {name: tensor.clone() for name, tensor in MASKED.items()},
        inputs.draw_windows(4, 3, 8, 5, 3, rng())[1], GAMMA, LAYERS,
    ),  # fmt: skip
    "neu limit": lambda: neu.limit_update(MASKED, inputs.limit_inputs(BATCH), GAMMA, LAYERS),
    "neu estimates": lambda: [neu.neu(MODEL, WINDOWS), neu.one_batch_neu(MODEL, WINDOWS)],
    "neu.Estimate": lambda: repr(neu.squared_norm(neu.updates(MASKED, WINDOWS, 4, GAMMA, LAYERS)[:, None])),
    # training and its files
    "pretrain": pretrained,
    "pretrain neu": lambda: pretrained(objective="neu", form="independent_heads", shared=False),
    "pretrain mc": lambda: pretrained(objective="mc", free="both", n_steps=2),
    "pretrain diverges": lambda: pretrained(learning_rate=1e30, clip=1e30, n_steps=3),
    "pretrain.value_error": lambda: pretrain.value_error(BATCH.value(0.5) + 1e-200, BATCH, 0.5),
    "checkpoint": lambda: in_folder(stored),
    "runs": lambda: in_folder(saved_run),
    "sweep": lambda: in_folder(swept),
    "figures": lambda: [plots.svg(draw(finished())[0]) for draw in (figures.neu, figures.score_matrix)],
    "figures.write": lambda: in_folder(drawn),
    # figures
    "plots.line": lambda: drawing(curves),
    "plots.bars": lambda: drawing(lambda ax: plots.bars(ax, {"a": [1, 1e-300], "b": [0.5, np.nan]}, ["s", "\u72b6"])),
    "plots.matrix": lambda: drawing(lambda ax: plots.matrix(ax, [[0.5, 1e-300], [np.nan, -2]], rows="r", columns="c")),
    "plots.chain": lambda: drawing(lambda ax: plots.chain(ax, PROCESS.transition, layout="line")),
    "plots.show": lambda: plots.show(
        plots.new(rows=2, sharex=True)[0], caption="One $x$.", alt="Two empty axes, nothing else."
    ),
    "sliders.explorer": explored,
}  # fmt: skip


def plain(result):
    """A result as text and bytes, so that equality means equality of all bits."""
    if isinstance(result, torch.Tensor):
        result = result.detach().cpu()
        return "tensor", str(result.dtype), tuple(result.shape), result.contiguous().numpy().tobytes()
    if isinstance(result, np.ndarray):
        return "array", result.dtype.str, result.shape, result.tobytes()
    if isinstance(result, (float, np.floating)):
        return "number", float(result).hex()
    if dataclasses.is_dataclass(result):
        return type(result).__name__, plain(vars(result))
    if isinstance(result, dict):
        return [(name, plain(value)) for name, value in result.items()]
    if isinstance(result, (list, tuple)):
        return [plain(entry) for entry in result]
    assert result is None or isinstance(result, (str, bytes, bool, int)), type(result)
    return result


UNDISTURBED = {}


def undisturbed(name):
    if name not in UNDISTURBED:
        UNDISTURBED[name] = plain(CALLS[name]())
    return UNDISTURBED[name]


def _concerns(call, setting):
    """Settings of matplotlib matter for figures only, those of torch for all but figures."""
    draws = call.startswith(("plots", "sliders", "figures"))
    return setting not in (TORCH if draws else FIGURES)


PAIRS = [(call, setting) for call in CALLS for setting in SETTINGS if _concerns(call, setting)]


@pytest.mark.parametrize("call, setting", PAIRS)
def test_settings_change_nothing(call, setting):
    expected = undisturbed(call)
    with SETTINGS[setting]():
        before = _reader_sees()
        found = CALLS[call]()
        after = _reader_sees()
    assert plain(found) == expected
    assert after == before


LAYERED = {
    "layer": lambda Z, V, A: temporal_shift.TSMLayer(V, A, GAMMA)(Z),
    "attention": attention.softmax_attention,
    "model": lambda Z, V, A: model.FullICTD.from_matrices(V[None], A[None], 2, GAMMA)(Z),
    "read-out": lambda Z, V, A: state_form.readout({"V": V[None], "A": A[None]}, _as(INPUTS, Z.dtype), GAMMA, 2),
    "loss": lambda Z, V, A: neu.td_loss({"V": V[None], "A": A[None]}, _as(INPUTS, Z.dtype), GAMMA, 2),
}


def _as(given, dtype):
    parts = vars(given).items()
    return inputs.Inputs(**{name: part if name == "states" else part.to(dtype) for name, part in parts})


@pytest.mark.parametrize("name", LAYERED)
def test_the_grad_mode_and_the_types_of_tensors_are_the_callers_right(name):
    """What a layer does with tensors of the caller is decided by them, as for any layer of torch."""
    matrices = V.clone().requires_grad_(), A.clone().requires_grad_()
    inside = LAYERED[name](Z, *matrices)
    assert inside.requires_grad and inside.dtype == torch.float64
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            outside = LAYERED[name](Z, *matrices)
        assert not outside.requires_grad and torch.equal(outside, inside)
    single = [tensor.detach().float() for tensor in (Z, *matrices)]
    plain_single = LAYERED[name](*single)
    assert plain_single.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not torch.equal(LAYERED[name](*single).float(), plain_single)


# --------------------------------------------------------------------------------------- the command line

RC_FILE = """\
text.usetex: True
font.size: 8
font.family: serif
text.color: white
axes.labelcolor: white
figure.facecolor: black
savefig.bbox: tight
svg.fonttype: path
svg.hashsalt: mine
axes.formatter.use_locale: True
"""
TRIP = "state,reward\ncafé,-1\nbus,0\nwork,5\ncafé,-2\n状,3\nbus,1\nwork,4\ncafé,\n"
PRETRAIN = "pretrain --out run --states 3 --dim 2 --layers 2 --context 6 --steps 4 --seeds 2".split()
ENVIRONMENTS = {
    "plain": {},
    "optimised, C locale": {"PYTHONOPTIMIZE": "2", "PYTHONHASHSEED": "1", "LC_ALL": "C", "LANG": "C"},
    "debug, POSIX, matplotlibrc": {
        **{"PYTHONDEVMODE": "1", "PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "4711"},
        **{"LC_ALL": "POSIX", "MPLBACKEND": "svg"},
    },
}


def command(folder, environment, *arguments):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "MPL", "PYTHON"))}
    clean |= {"PYTHONPATH": str(Path(ictd.__file__).parents[1])} | environment
    words = [sys.executable, "-m", "ictd", *arguments]
    done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run, trained by the command."""
    folder = tmp_path_factory.mktemp("trained")
    command(folder, {}, *PRETRAIN)
    return folder / "run"


@pytest.fixture(scope="module")
def commanded(tmp_path_factory, trained):
    """What a command prints and writes, for an environment."""

    @functools.cache
    def work(name):
        folder = tmp_path_factory.mktemp("work")
        (folder / "trip.csv").write_text(TRIP, encoding="utf-8")
        if "matplotlibrc" in name:
            (folder / "matplotlibrc").write_text(RC_FILE)
        shutil.copytree(trained, folder / "run")
        for path in (folder / "run").glob("*.svg"):
            path.unlink()
        commands = ("evaluate trip.csv", "figures run")
        printed = [command(folder, ENVIRONMENTS[name], *words.split()) for words in commands]
        written = {path.name: path.read_bytes() for path in [*folder.glob("*.csv"), *folder.glob("run/*.svg")]}
        assert len(written) == 7
        return printed, written

    return work


@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name != "plain"])
def test_the_environment_changes_no_output_of_a_command(commanded, name):
    assert commanded(name) == commanded("plain")


def test_the_environment_changes_no_training(trained, tmp_path):
    command(tmp_path, {"LC_ALL": "C", "PYTHONHASHSEED": "1", "PYTHONDEVMODE": "1"}, *PRETRAIN)
    assert plain(runs.read(tmp_path / "run").history) == plain(runs.read(trained).history)
