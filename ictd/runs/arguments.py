"""Arguments that runs and sweeps share, as kinds for `_arguments.declare`."""

from ictd import _checks, _files
from ictd._arguments import flag, instance, real
from ictd.pretrain.config import Config, check_seeds

# Threads of torch. Far more than there are cores only wait for each other; from some number on the process dies.
MOST_THREADS = 1024


def folder(name, value, lengths):
    """A path of a folder."""
    return _files.file_path(name, value)


def seeds(name, value, lengths):
    """Different integers of at least 0, and at least one."""
    return check_seeds(value)


def threads(name, value, lengths):
    """A number of threads from 1 to `MOST_THREADS`."""
    value = _checks.integer(name, value, low=1)
    if value > MOST_THREADS:
        raise ValueError(f"{name} must be an integer from 1 to {MOST_THREADS}; got {value}")
    return value


def function(name, value, lengths):
    """A function or None."""
    return _checks.function(name, value)


# What names a run, and how it is computed.
RUN = {"folder": folder, "config": instance(Config), "seeds": seeds, "threads": threads, "force": flag}
COMPUTING = {"checkpoint_seconds": real(low=0), "progress": flag, "report": function}
