"""Folders of pretraining runs: begun, continued, finished and read; grids of them, and their figures.

==================  =========================================================================================
``config.json``     settings, seeds, threads and versions; written first
``checkpoint.npz``  from which an unfinished run goes on; `pretrain` reads it
``history.npz``     plain arrays, named as in `pretrain.History`
``summary.json``    `Result.summary`; written last, so that a folder with it is a finished run
``figure-*.svg``    figures of the history, drawn afterwards by `figures.write`
==================  =========================================================================================

Every file is written beside its place and then moved there: a kill at any moment leaves whole files only.

The modules from the bottom; each imports only from those above it in this table:

=============  ======================================================
``arguments``  what runs and sweeps take
``folder``     the files of a folder, and whether it can be used
``table``      runs and sweeps as text
``saved``      `SavedRun`, a finished run that is read
``one``        `run`, one run in a folder
``grid``       settings at the points of a grid
``cluster``    runs on the workers of a Dask cluster
``sweep``      all points of a grid
``figures``    figures of runs and sweeps (needs matplotlib)
=============  ======================================================
"""

from ictd import _extras
from ictd.runs import sweep
from ictd.runs.arguments import MOST_THREADS
from ictd.runs.folder import OtherRunError, RunError, begin, check, finish, state
from ictd.runs.one import run
from ictd.runs.saved import SavedRun, read

__all__ = [
    "MOST_THREADS", "OtherRunError", "RunError", "SavedRun", "begin", "check", "finish", "read", "run", "state",
    "sweep",
]  # fmt: skip
__getattr__, __dir__ = _extras.face(__name__, modules=("figures",))  # which needs matplotlib
