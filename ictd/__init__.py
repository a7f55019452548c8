"""In-context temporal difference learning with softmax attention.

The companion package of the book: one module for each concept, on floors. A module imports only from lower floors.

=====  ==================  ==========================================================
floor  module              what
=====  ==================  ==========================================================
1      ``reference``       the algorithm in plain loops, for checks
2      ``mrp``             Markov reward processes, trajectories, sampling
2      ``features``        feature maps of states
2      ``prompt``          the prompt matrix Z_0
2      ``plots``           figures and explorers in one style (needs matplotlib)
3      ``environments``    tabular Gymnasium environments as processes
3      ``empirical``       the model of a context, and certainty equivalence
3      ``families``        families of random chains and features
3      ``attention``       softmax attention with the source mask (needs torch)
4      ``kernels``         scores, and who attends to whom
4      ``tasks``           many random processes and contexts at once
4      ``dual_head``       the dual-head layer (needs torch)
4      ``temporal_shift``  the temporal shift module (needs torch)
5      ``td``              weighted softmax TD, on positions and on states
5      ``convergence``     iteration matrix, norms and bounds, the limit
5      ``inputs``          contexts as tensors (needs torch)
5      ``model``           a stack of layers, masked or not (needs torch)
6      ``rates``           errors against depth and context length
6      ``state_form``      read-outs for many parameters and tasks (needs torch)
6      ``claims``          claims checked where they are made, and all at once
7      ``evaluate``        values of the states of your own log
7      ``neu``             objectives of pretraining, the NEU loss (needs torch)
8      ``pretrain``        pretraining, all seeds at once (needs torch)
9      ``runs``            folders of runs, sweeps, and their figures
9      ``exercises``       answers of the reader, checked at once
10     ``cli``             the command ``ictd``
=====  ==================  ==========================================================

``import ictd`` loads none of them: a module is imported when it is first used, so the NumPy half
runs where torch, matplotlib or ipywidgets are missing. ``from ictd import *`` gives the modules whose
packages are installed.
"""

import pkgutil

from ictd import _extras

__version__ = "0.2.0"

_MODULES = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def _loads(name):
    try:
        _extras.load(f"{__name__}.{name}")
    except AttributeError:  # a package is missing
        return False
    return True


def __getattr__(name):
    if name == "__all__":  # for a star import, which loads the modules anyway
        return ["__version__", *filter(_loads, _MODULES)]
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _extras.load(f"{__name__}.{name}")


def __dir__():
    return sorted([*globals(), *_MODULES])
