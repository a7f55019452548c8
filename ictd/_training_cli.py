"""The commands ``ictd pretrain``, ``ictd sweep`` and ``ictd figures``: options, messages, exit statuses.

The options and their defaults are those of `pretrain.Config`, which also checks them; this module only knows how
they are called on the command line.
"""

import argparse
import dataclasses
import re

from ictd import _extras, runs
from ictd._console import folder_path, loading, say
from ictd.pretrain.checkpoint import CheckpointError
from ictd.pretrain.config import CHOICES, Config
from ictd.runs.folder import CHECKPOINT
from ictd.runs.table import of_sweep, seeds_text

PRETRAIN_HELP = """\
Pretrain a softmax Transformer on random tasks, one model for each seed, all seeds at once, and compare it
with predictors that know the algorithm: certainty equivalence, and the model with the paper's parameters.
"""

PRETRAIN_EXAMPLES = """\
examples:
  ictd pretrain --out runs/a                                    20 seeds at gamma 0.5, half a minute
  ictd pretrain --out runs/b --gamma 0.9 --layers 10 --steps 1500
  ictd pretrain --out runs/c --features one_hot --seeds 5 --first-seed 100
  ictd pretrain --out runs/d --states 4 --dim 2 --layers 2 --context 20 --steps 60 --seeds 3   a few seconds

The folder DIR gets
  config.json      settings, seeds, versions
  checkpoint.npz   written every few seconds: the same command goes on from it, after Ctrl-C or a crash, and
                   the history is the same bit for bit on the same machine with as many threads
  history.npz      for numpy.load: step (R,), value_weights (R, K, 1, 3), score_matrix (R, K, 1, d, d),
                   cosine_value_weights, cosine_score_matrix, diagonality_mean, diagonality_min (R, K, 1),
                   value_error, neu, neu_standard_error, loss (R, K), diverged_at, seeds (K,) for R records and
                   K seeds; L instead of 1 with --per-layer; with independent heads also target_weights and
                   target_score_matrix
  figure-*.svg     weights, score matrix, diagonality, value error, NEU loss (need matplotlib)
  summary.json     main numbers of every seed; written last: a folder with it is finished

In Python, ictd.pretrain.pretrain(Config(...), seeds, checkpoint_path="DIR/checkpoint.npz") gives the trained
models of a finished folder at once, and ictd.runs.read("DIR") its numbers without torch.

A seed whose numbers are no longer finite stops, with a warning; the others go on.
Exit status: 0 done, 1 all seeds diverged, 2 wrong use, or a file that cannot be read or written,
130 interrupted by Ctrl-C.
"""

SWEEP_HELP = """\
Pretrain at every point of a grid. The options are those of 'ictd pretrain'; those marked with + take several
values, and the grid is their product. Each point is a folder in DIR as 'ictd pretrain' leaves it, with all
seeds. The same command again, also with more values, skips finished points and goes on with the others.
"""

SWEEP_EXAMPLES = """\
examples:
  ictd sweep --out runs/depth --gamma 0.5 0.9 --layers 5 10 20 --steps 1500
  ictd sweep --out runs/objectives --objective td td_query mc neu --seeds 10
  ictd sweep --out runs/heads --form tsm independent_heads --per-layer no yes
  ictd sweep --out runs/big --gamma 0.5 0.9 --layers 5 10 20 --scheduler tcp://host:8786

DIR gets a folder for each point, named after its settings, sweep.json (settings, status and main figures of
every point) and figure-overview.svg. A point that fails is reported and does not stop the others.

With --scheduler, points run on the workers of a Dask cluster (pip install 'ictd[cluster]'; start one with
'dask scheduler' and 'dask worker tcp://host:8786 --nthreads 1'). This process sends settings and writes what
comes back: the workers need ictd, but no common disk. A run whose worker dies starts again on another one.

Exit status: 0 done, 1 a point failed or lost all its seeds, 2 wrong use, a cluster that cannot be used, or
files that cannot be read or written, 130 interrupted by Ctrl-C.
"""

FIGURES_HELP = """\
Draw the figures of a finished run, or of all finished runs of a sweep, from their files: figure-*.svg in the
folder of each run, and figure-overview.svg in that of a sweep. Needs matplotlib, not torch.
"""

FIGURES_EXAMPLES = """\
examples:
  ictd figures runs/a
  ictd figures runs/depth --force      draw them all again

Figures that exist are kept unless --force is given. Exit status: 0 done, also if all figures exist, 2 wrong
use, no finished run, or files that cannot be read or written.
"""

# Field of pretrain.Config, option, group, whether a sweep may vary it, what it is.
OPTIONS = (
    ("gamma", "--gamma", "tasks", True, "discount in [0, 1)"),
    ("n_states", "--states", "tasks", True, "number of states, at least 3"),
    ("family", "--family", "tasks", True, "random processes"),
    ("features", "--features", "tasks", True, "features of states"),
    ("dim", "--dim", "tasks", True, "number of features (default 4; for one_hot the number of states)"),
    ("feature_scale", "--feature-scale", "tasks", True, "factor of all features"),
    ("n_transitions", "--context", "tasks", True, "transitions of a context"),
    ("reward_noise", "--reward-noise", "tasks", True, "standard deviation of noise in rewards"),
    ("n_layers", "--layers", "model", True, "number of layers"),
    ("form", "--form", "model", True, "temporal shift module, dual heads, or heads with parameters of their own"),
    ("shared", "--per-layer", "model", True, "parameters for each layer instead of one set for all"),
    ("free", "--free", "model", True, "which of V and A have no mask (costs far more time)"),
    ("objective", "--objective", "training", True, "semi-gradient TD, TD on the query, NEU by double sampling or "
     "from one batch (biased), regression on true values"),
    ("n_steps", "--steps", "training", True, "optimiser steps"),
    ("batch_size", "--batch", "training", True, "fresh tasks a step for each seed"),
    ("learning_rate", "--rate", "training", True, "learning rate of Adam"),
    ("final_rate", "--final-rate", "training", True, "share of it that is left after a cosine decay, in [0, 1]"),
    ("clip", "--clip", "training", True, "largest norm of a seed's gradient"),
    ("init_scale", "--init-scale", "training", True, "standard deviation of initial parameters"),
    ("init_reward_weight", "--init-reward-weight", "training", True, "added to the initial reward weight"),
    ("dtype", "--dtype", "training", True, "number type"),
    ("n_records", "--records", "measurements", False, "entries of the history after the start"),
    ("n_held_out", "--held-out", "measurements", False, "tasks for value errors and diagonality"),
    ("neu_batches", "--neu-batches", "measurements", False, "independent batches for the NEU loss, at least 3"),
    ("neu_batch_size", "--neu-batch", "measurements", False, "tasks of each"),
    ("held_out_seed", "--held-out-seed", "measurements", False, "seed of these tasks"),
)  # fmt: skip
NAMES = {field: option for field, option, *_ in OPTIONS} | {"seeds": "--seeds/--first-seed", "threads": "--threads"}
GROUPS = {
    "tasks": "tasks",
    "model": "model",
    "training": "training",
    "measurements": "measurements, on tasks that are the same for all seeds",
}


# ---------------------------------------------------------------------------------------------- options


def add_run_options(parser, integer, real):
    """The options that pretrain and sweep share; ``integer`` and ``real`` make types with limits."""
    parser.add_argument("--out", type=folder_path, metavar="DIR", required=True, help="folder for the results")
    parser.add_argument("--seeds", type=integer(1, 10_000), default=20, metavar="K", help="number (default 20)")
    parser.add_argument(
        "--first-seed", type=integer(0, 2**31 - 10_001), default=0, metavar="S", help="seeds S to S+K-1 (default 0)"
    )
    parser.add_argument(
        "--threads",
        type=integer(1, runs.MOST_THREADS),
        default=1,
        metavar="N",
        help="threads of torch for a run (default 1)",
    )
    parser.add_argument("--force", action="store_true", help="remove the results in DIR and start anew")
    parser.add_argument(
        "--save-every", type=real(low=0), default=5.0, metavar="SECONDS", help="between checkpoints (default 5)"
    )
    if parser.prog.endswith("sweep"):
        parser.add_argument("--scheduler", metavar="ADDRESS", help="run on the Dask cluster with this scheduler")
        parser.add_argument(
            "--patience",
            type=real(low=0, low_open=True),
            metavar="SECONDS",
            help="how long to wait for scheduler and workers (default 30; needs --scheduler)",
        )


def add_config_options(parser, several):
    """An option for each field of `pretrain.Config`; with ``several``, most take more than one value."""
    defaults = {field.name: field.default for field in dataclasses.fields(Config)}
    groups = {name: parser.add_argument_group(title) for name, title in GROUPS.items()}
    for field, option, group, varies, text in OPTIONS:
        default = defaults[field]
        many = several and varies
        if "default" not in text and field != "shared":
            text += f" (default {default:g})" if isinstance(default, float) else f" (default {default})"
        settings = {"dest": field, "help": ("+ " if many else "") + text, "default": argparse.SUPPRESS}
        if field == "shared":
            settings |= {"nargs": "*", "choices": ("no", "yes")} if many else {"action": "store_const", "const": "yes"}
        else:
            settings |= {"nargs": "+"} if many else {}
            settings |= {"choices": CHOICES[field]} if field in CHOICES else {"type": _number(type(default))}
            settings["metavar"] = None if field in CHOICES else "N" if isinstance(default, int) else "X"
        groups[group].add_argument(option, **settings)


def _number(kind):
    def parse(text):
        try:
            if "_" in text:  # Python reads 1_0 as 10
                raise ValueError
            return kind(text)
        except ValueError:
            what = "an integer" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {what}; got {text!r}") from None

    return parse


def config(**settings):
    """The configuration for settings of which some may be missing; one-hot features fix their number."""
    if settings.get("features") == "one_hot" and "dim" not in settings:
        settings["dim"] = settings.get("n_states", Config.n_states)
    return Config(**settings)


def values(options):
    """Values of each field that was given on the command line."""
    given = {field: getattr(options, field) for field, *_ in OPTIONS if hasattr(options, field)}
    given = {field: value if isinstance(value, list) else [value] for field, value in given.items()}
    if "shared" in given:
        given["shared"] = [text == "no" for text in given["shared"] or ["yes"]]
    return given


def in_words(error):
    """The message of a `Config`, with options as they are typed."""
    message = re.sub(r"\bn_[a-z_]+\b", lambda match: NAMES.get(match[0], match[0]), str(error))
    field, _, rest = message.partition(" ")
    return f"argument {NAMES.get(field, field)}: {rest}"


def label(field, value):
    """A setting as it is typed, for names of folders: gamma-0.5, per-layer-yes."""
    return f"{NAMES[field][2:]}-{_typed(field, value)}"


def _typed(field, value):
    if field == "shared" and isinstance(value, bool):
        return "no" if value else "yes"
    if field == "seeds":
        return seeds_text(value)
    if isinstance(value, list):
        return " ".join(_typed(field, entry) for entry in value)
    return str(value).removesuffix(".0")


def other_run(error):
    """Say which option differs from those of the run in the folder."""
    there, here = (_typed(error.field, value) for value in (error.there, error.here))
    option = NAMES.get(error.field, error.field)
    return (
        f"{error.folder} holds results with another {option}: {there} there, {here} here; name another folder, or pass "
        f"--force to remove them"
    )


# -------------------------------------------------------------------------------------------- commands


def pretrain(options, fail):
    """``ictd pretrain``; ``fail`` prints an error and gives the exit status."""
    try:
        settings = config(**{field: value[0] for field, value in values(options).items()})
    except (TypeError, ValueError) as error:
        return fail(in_words(error))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    folder = options.out
    try:
        found = runs.check(folder, settings, seeds, options.threads, options.force)
        if found == "finished" and not options.force:
            return fail(f"{folder} holds this run already, finished; pass --force to remove it and run it again")
        problem = torch_problem()
        if problem:
            return fail(problem)
        run = runs.run(
            folder,
            settings,
            seeds,
            threads=options.threads,
            force=options.force,
            progress=True,
            checkpoint_seconds=options.save_every,
            report=say,
        )
    except runs.OtherRunError as error:
        return fail(other_run(error))
    except runs.RunError as error:
        return fail(error)
    except CheckpointError as error:
        return fail(f"{error}; pass --force to start anew")
    except OSError as error:
        return fail(f"{folder}: cannot be read or written: {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        return fail(f"not enough memory for this run ({' '.join(str(error).split())}); ask for less, with --force")
    except KeyboardInterrupt:
        saved = (folder / CHECKPOINT).exists()
        what = "the checkpoint is saved, and" if saved else "there is no checkpoint yet:"
        say(f"\ninterrupted; {what} the same command goes on with {folder}")
        return 130
    print(run.table())
    print(f"saved in {folder}")
    _draw(folder)
    return _diverged(run)


def torch_problem():
    """What stands against the use of torch, with the cure; None if it works."""
    with loading():
        problem = _extras.torch_problem()
    return f"torch {problem}; install it with: pip install 'ictd[torch]'" if problem else None


def _diverged(run):
    stopped = [seed for seed, alive in zip(run.summary["seeds"], run.alive) if not alive]
    if stopped:
        say(f"warning: {len(stopped)} of {len(run.alive)} seeds diverged: {', '.join(map(str, stopped))}")
    return 1 if len(stopped) == len(run.alive) else 0


def _draw(folder):
    """Draw what can be drawn, or say how to draw it later: a run of hours must not be lost to a figure."""
    problem = None
    if not _extras.installed("matplotlib"):
        problem = f"matplotlib is not installed: {_extras.cure('matplotlib')}, then"
    else:
        try:
            from ictd.runs import figures

            figures.write(folder)
        except Exception as error:  # of matplotlib, its fonts, its settings
            problem = f"they cannot be drawn ({_one_line(error)}); try"
    if problem:
        say(f"note: no figures, because {problem}: ictd figures {folder}")


def _one_line(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_memory(error):
    return isinstance(error, MemoryError) or "alloc" in str(error)


def sweep(options, fail):
    """``ictd sweep``."""
    from ictd.runs import grid
    from ictd.runs import sweep as sweeps
    from ictd.runs.cluster import ClusterError

    if options.patience is not None and options.scheduler is None:
        return fail("argument --patience: makes no sense without --scheduler")
    try:
        points = grid.grid(values(options), label, config)
    except (TypeError, ValueError) as error:
        return fail(in_words(error))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    folder = options.out
    try:
        sweeps.check(folder, points, seeds, options.threads, options.force)
        problem = torch_problem()
        if problem:
            return fail(problem)
        rows = sweeps.sweep(
            folder,
            points,
            seeds,
            threads=options.threads,
            force=options.force,
            scheduler=options.scheduler,
            patience=30.0 if options.patience is None else options.patience,
            checkpoint_seconds=options.save_every,
            progress=True,
            report=say,
        )
    except runs.OtherRunError as error:
        return fail(other_run(error))
    except (runs.RunError, ClusterError) as error:
        return fail(error)
    except OSError as error:
        return fail(f"{folder}: cannot be read or written: {error.strerror or error}")
    except KeyboardInterrupt:
        say(f"\ninterrupted; what is done is saved in {folder}, and the same command goes on from there")
        return 130
    print(of_sweep(rows, lambda field: NAMES[field][2:], _typed))
    print(f"saved in {folder}")
    if any(row["status"] == "finished" for row in rows):
        _draw(folder)
    failed = [row for row in rows if row["status"] != "finished"]
    for row in failed:
        say(f"error: {row['folder']}: {row['error']}")
    for row in rows:
        if row.get("diverged"):
            say(f"warning: {row['folder']}: {row['diverged']} of {row['seeds']} seeds diverged")
    lost = [row for row in rows if row.get("diverged") and row["diverged"] == row["seeds"]]
    return 1 if failed or lost else 0


def figures(options, fail):
    """``ictd figures``."""
    if not _extras.installed("matplotlib"):
        return fail("figures need matplotlib, which is not installed: pip install 'ictd[plots]'")
    try:
        from ictd.runs import figures as drawing

        written, kept, notes = drawing.write(options.folder, overwrite=options.force)
    except runs.RunError as error:
        return fail(error)
    except OSError as error:
        return fail(f"{options.folder}: cannot be read or written: {error.strerror or error}")
    except Exception as error:  # of matplotlib, its fonts, its settings
        return fail(f"{options.folder}: figures cannot be drawn ({_one_line(error)})")
    for note in notes:
        say(f"note: {note}")
    if not written:
        print(f"{options.folder}: all {kept} figures exist (--force draws them again)")
        return 0
    kept = f", {kept} exist already (--force draws them again)" if kept else ""
    figures = "1 figure" if len(written) == 1 else f"{len(written)} figures"
    print(f"{figures} drawn in {options.folder}{kept}")
    return 0
