"""Pretraining on random tasks, all seeds at once, with checkpoints from which a killed run goes on.

What a seed draws in step t depends on (seed, t) only: neither on the other seeds nor on a restart.
"""

from ictd import _extras

# Where the names live: loaded on first use, as the settings need NumPy only and all others torch.
_HOME = {
    "Config": "config",
    "check_seeds": "config",
    "pretrain": "training",
    "Result": "result",
    "History": "result",
    "versions": "result",
    "initial_parameters": "parameters",
    "value_error": "measures",
}
__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(_extras.load(f"{__name__}.{_HOME[name]}"), name)
    return globals()[name]


def __dir__():
    return sorted([*globals(), *__all__])
