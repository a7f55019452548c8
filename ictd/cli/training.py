"""What ``ictd pretrain`` and ``ictd sweep`` share: options of runs, refusals, figures, warnings."""

import contextlib

from ictd import _extras, runs
from ictd.cli import console, settings
from ictd.pretrain.checkpoint import CheckpointError
from ictd.runs.cluster import ClusterError


def add_arguments(parser):
    """The options of a run but for its settings."""
    parser.add_argument("--out", type=console.folder_path, metavar="DIR", required=True, help="folder for the results")
    parser.add_argument("--seeds", type=console.integer(1, 10_000), default=20, metavar="K", help="number (default 20)")
    parser.add_argument(
        "--first-seed",
        type=console.integer(0, 2**31 - 10_001),
        default=0,
        metavar="S",
        help="seeds S to S+K-1 (default 0)",
    )
    parser.add_argument(
        "--threads",
        type=console.integer(1, runs.MOST_THREADS),
        default=1,
        metavar="N",
        help="threads of torch for a run (default 1)",
    )
    parser.add_argument("--force", action="store_true", help="remove the results in DIR and start anew")
    parser.add_argument(
        "--save-every",
        type=console.real(low=0),
        default=5.0,
        metavar="SECONDS",
        help="between checkpoints (default 5)",
    )


def seeds(options):
    """The seeds of the options."""
    return range(options.first_seed, options.first_seed + options.seeds)


@contextlib.contextmanager
def settings_in_words():
    """Refuse settings in the words of the options."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise console.Refusal(settings.in_words(error)) from None


@contextlib.contextmanager
def refusals(folder):
    """Say what stands against work in a folder."""
    try:
        yield
    except runs.OtherRunError as error:
        raise console.Refusal(settings.other_run(error)) from None
    except (runs.RunError, ClusterError) as error:
        raise console.Refusal(error) from None
    except CheckpointError as error:
        raise console.Refusal(f"{error}; pass --force to start anew") from None
    except OSError as error:
        raise console.Refusal(f"{folder}: cannot be read or written: {error.strerror or error}") from None
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, MemoryError) or "alloc" in str(error)):
            raise
        what = " ".join(str(error).split())
        raise console.Refusal(f"not enough memory for this run ({what}); ask for less, with --force") from None


def need_torch():
    """Refuse to train where torch is missing or broken, with the cure."""
    with console.loading():
        problem = _extras.torch_problem()
    if problem:
        raise console.Refusal(f"torch {problem}; install it with: {_extras.cure('torch')}")


def all_diverged(diverged, count, where="", which=""):
    """Warn of seeds that diverged; whether all did."""
    if diverged:
        console.say(f"warning: {where}{diverged} of {count} seeds diverged{which}")
    return diverged == count


def write_figures(folder):
    """Draw the figures of what is finished in a folder: a run of hours must not be lost to one that fails."""
    if not _extras.installed("matplotlib"):
        problem = f"matplotlib is not installed: {_extras.cure('matplotlib')}, then"
    else:
        try:
            from ictd.runs import figures

            figures.write(folder)
            return
        except Exception as error:  # of matplotlib, its fonts, its settings
            problem = f"they cannot be drawn ({console.one_line(error)}); try"
    console.say(f"note: no figures, because {problem}: ictd figures {folder}")
