"""In-context temporal difference learning with softmax attention.

The companion package of the book. One module per concept:

==================  ======================================================
``mrp``             Markov reward processes, trajectories, sampling
``features``        feature maps of states
``td``              weighted softmax TD, the empirical model and its value
``convergence``     kernels over states, iteration matrix, rates and bounds
``reference``       the same algorithm in plain loops, for checks
``prompt``          the prompt matrix Z_0
``attention``       softmax attention with the source mask (needs torch)
``dual_head``       the dual-head layer (needs torch)
``temporal_shift``  the temporal shift module (needs torch)
``model``           a stack of layers, masked or not (needs torch)
``tasks``           many random processes and contexts at once
``state_form``      read-outs for many parameters and tasks (needs torch)
``neu``             objectives of pretraining, the NEU loss (needs torch)
``pretrain``        pretraining, all seeds at once (needs torch)
``checkpoint``      files from which a killed run goes on
``runs``            the folder of a run, and what it says when it is read
``sweep``           runs at every point of a grid, here or on a cluster (needs torch)
``figures``         figures of runs and sweeps (needs matplotlib)
``evaluate``        values of the states of your own trajectory
``verify``          the claims of the book on random instances
``plots``           figures in one style (needs matplotlib)
``widgets``         explorers that work without a kernel (needs ipywidgets)
``claims``          claims checked where they are made
``exercises``       answers of the reader, checked at once
==================  ======================================================

``import ictd`` loads none of them: a module is imported when it is first used, so the NumPy half
runs where torch, matplotlib or ipywidgets are missing. ``from ictd import *`` gives the modules whose
packages are installed.
"""

from ictd import _extras

__version__ = "0.1.0"

_MODULES = (
    "attention",
    "checkpoint",
    "claims",
    "cli",
    "convergence",
    "dual_head",
    "evaluate",
    "exercises",
    "features",
    "figures",
    "model",
    "mrp",
    "neu",
    "plots",
    "pretrain",
    "prompt",
    "reference",
    "runs",
    "state_form",
    "sweep",
    "tasks",
    "td",
    "temporal_shift",
    "verify",
    "widgets",
)
# The optional packages that modules need.
_NEEDS = dict.fromkeys(
    ("attention", "dual_head", "model", "neu", "pretrain", "state_form", "sweep", "temporal_shift"), ("torch",)
)
_NEEDS |= {"figures": ("matplotlib",), "plots": ("matplotlib",), "widgets": ("ipywidgets", "matplotlib")}

__all__ = ["__version__"]
__all__ += [name for name in _MODULES if all(map(_extras.installed, _NEEDS.get(name, ())))]


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _extras.load(f"{__name__}.{name}")


def __dir__():
    return sorted([*globals(), *_MODULES])
