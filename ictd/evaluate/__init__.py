"""Values of the states of one's own log, with warnings about what they can be trusted for.

`evaluate` takes states and rewards, `read_csv` takes them from a file; ``ictd evaluate`` joins the two.
"""

from ictd.evaluate.evaluation import evaluate
from ictd.evaluate.result import Evaluation
from ictd.evaluate.table import FileFault
from ictd.evaluate.trajectory_file import TrajectoryFile, read_csv

__all__ = ["Evaluation", "FileFault", "TrajectoryFile", "evaluate", "read_csv"]
