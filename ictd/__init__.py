"""In-context temporal difference learning with softmax attention.

The companion package of the book. One module per concept:

==================  ======================================================
``mrp``             Markov reward processes, trajectories, sampling
``features``        feature maps of states
``td``              weighted softmax TD, the empirical model and its value
``convergence``     kernels over states, iteration matrix, spectral radius
``reference``       the same algorithm in plain loops, for checks
``prompt``          the prompt matrix Z_0
``attention``       softmax attention with the source mask (needs torch)
``dual_head``       the dual-head layer (needs torch)
``temporal_shift``  the temporal shift module (needs torch)
``model``           a stack of layers with masked parameters (needs torch)
``evaluate``        values of the states of your own trajectory
``verify``          the claims of the book on random instances
``plots``           figures in one style (needs matplotlib)
``widgets``         explorers that work without a kernel (needs ipywidgets)
``claims``          claims checked where they are made
``exercises``       answers of the reader, checked at once
==================  ======================================================

``import ictd`` loads none of them: a module is imported when it is first used, so the NumPy half
runs where torch, matplotlib or ipywidgets are missing.
"""

import importlib

__version__ = "0.1.0"

_MODULES = (
    "attention",
    "claims",
    "cli",
    "convergence",
    "dual_head",
    "evaluate",
    "exercises",
    "features",
    "model",
    "mrp",
    "plots",
    "prompt",
    "reference",
    "td",
    "temporal_shift",
    "verify",
    "widgets",
)

__all__ = ["__version__", *_MODULES]


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_MODULES])
