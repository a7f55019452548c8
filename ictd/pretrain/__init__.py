"""Pretraining on random tasks, all seeds at once, with checkpoints from which a killed run goes on.

What a seed draws in step t depends on (seed, t) only: neither on the other seeds nor on a restart. Tasks are those of
a family, or of a function of the reader's own.

==============  ============================================================================================
``config``      the settings of a run (without torch)
``identity``    what makes a run the run that it is (without torch)
``sampling``    the tasks of a run (without torch)
``parameters``  with which a seed begins, and the model of trained ones
``measures``    what is recorded on held-out tasks
``pattern``     whether trained parameters show the pattern of the paper (without torch)
``checkpoint``  arrays and a header in one file (without torch)
``result``      what a run gives
``steps``       the steps of a run, and its checkpoints
``training``    `pretrain` itself
==============  ============================================================================================
"""

from ictd import _extras

# Where the names live: loaded on first use, as the settings need NumPy only and all others torch.
_HOMES = {
    "Config": "config",
    "check_seeds": "config",
    "pretrain": "training",
    "Result": "result",
    "History": "result",
    "versions": "result",
    "initial_parameters": "parameters",
    "value_error": "measures",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = _extras.face(__name__, _HOMES)
