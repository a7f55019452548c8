"""``ictd evaluate``: values of the states of a log, printed and saved."""

import argparse
import os
import stat
import sys
from pathlib import Path

from ictd.cli import console

HELP = """\
Run weighted softmax TD (step size 1, from values 0) on a log of your own and print a value per state
beside certainty equivalence, the value of the empirical model, and its standard error. The table is also
saved.

The file is comma-separated UTF-8 text with a header line. A row is a state (a label, compared as text)
and the reward for leaving it. If your log writes a reward into the row of the state that was entered,
move it one row up first. Columns x1, x2, ... or feature... are features of the state; without them the
features are one-hot. Other columns are ignored.

With --episode, rows with equal ids are one episode, in the order of the file, and no transition leads
from one to another. With --done, a row where it is 1, true or yes leads to the end, which is worth 0. An
episode that just stops leaves out its last reward, since nobody knows what followed. With neither, the
file is one walk, and its last row has no reward:

    state,reward            episode,state,reward,done
    home,-1                 1,cellar,0,no
    bus,0                   1,roof,5,yes
    work,5                  2,cellar,0,no
    home,                   2,cellar,-1,yes
"""

EXAMPLES = """\
examples:
  ictd evaluate trip.csv
    table on the screen and in trip-values.csv
  ictd evaluate trip.csv --scale 10 --layers 200 --force
    sharper attention, more layers, and replace trip-values.csv
  ictd evaluate game.csv --state room --episode game --done over --out v.csv
    the columns by name, the table in v.csv
  ictd evaluate heat.csv --state celsius --bins celsius=8 --missing skip --sep ';'
    numbers in eight bins, rows with missing values left out
  zcat log.csv.gz | ictd evaluate - --no-save --sort value --top 10
    from standard input, the ten best states on the screen only
  ictd evaluate walk.csv --run runs/a --seed 3 --no-save
    the model that seed 3 has trained, beside the construction; the log has as many features as the run

The table has 'visits' (how often the state was left), 'value' (after --layers layers), with --run also
'trained' (what the model reads out after its layers), 'certainty equivalence' and its 'standard error' (-
on the screen and empty in the file where the data do not determine it). Scores are the scale times the
inner product of features: for one-hot features the scale for equal states, else 0. Warnings and notes go
to standard error. Exit status: 0 done, 2 wrong use or a faulty file.
"""


def add_arguments(parser):
    """Add the options of the command."""
    parser.add_argument("file", metavar="FILE.csv", help="the log; - for standard input")
    parser.add_argument("--state", default="state", metavar="COLUMN", help="column of states (default state)")
    parser.add_argument("--reward", default="reward", metavar="COLUMN", help="column of rewards (default reward)")
    parser.add_argument("--episode", metavar="COLUMN", help="column of episodes (default: one walk)")
    parser.add_argument("--done", metavar="COLUMN", help="column that says whether a row leads to the end")
    parser.add_argument(
        "--sep", type=_separator, default=",", metavar="SEP", help="comma, semicolon or tab (default comma)"
    )
    parser.add_argument(
        "--decimal",
        choices=("point", "comma"),
        default="point",
        help="how numbers write their decimal point (default point, as in 1.5)",
    )
    parser.add_argument(
        "--missing",
        choices=("refuse", "skip"),
        default="refuse",
        help="where a value is missing, refuse the file (default), or break the walk there and count what is left out",
    )
    parser.add_argument(
        "--bins", metavar="COLUMN=N", help="put the numbers of the column of states into N bins of equal frequency"
    )
    parser.add_argument(
        "--gamma",
        type=console.real(low=0, high=1, high_open=True),
        help="discount in [0, 1) (default 0.9, or that of the run)",
    )
    parser.add_argument(
        "--layers",
        type=console.integer(0, 1_000_000),
        metavar="L",
        help="number of layers (default 50, or that of the run)",
    )
    parser.add_argument(
        "--scale",
        type=console.real(low=0, low_open=True, high=1e100),
        default=1.0,
        help="positive score scale (default 1)",
    )
    parser.add_argument(
        "--sort",
        choices=("value", "visits", "state"),
        help="order of what is printed, the first two descending (default: numbers in order, labels as they appear)",
    )
    parser.add_argument(
        "--top", type=console.integer(1, 10**9), metavar="N", help="print N states only; the file holds all"
    )
    parser.add_argument(
        "--run",
        dest="run_folder",
        type=console.folder_path,
        metavar="DIR",
        help="run a model of this finished run of 'ictd pretrain' as well; needs torch, one walk and its features",
    )
    parser.add_argument("--seed", type=console.integer(0, 2**31 - 1), metavar="K", help="which model of the run")
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--out", type=Path, metavar="FILE", help="where to save the table (default FILE-values.csv beside the input)"
    )
    target.add_argument("--no-save", action="store_true", help="print only")
    parser.add_argument("--force", action="store_true", help="replace the output file if it exists")


def _separator(text):
    from ictd.evaluate.trajectory_file import SEPARATORS

    known = SEPARATORS.get(text) or SEPARATORS.get(text.strip().lower())
    if known is None:
        raise argparse.ArgumentTypeError(f"must be comma, semicolon or tab; got {text!r}")
    return known


def run(options):
    """Evaluate, print and save; return the exit status."""
    out = _output(options)
    model = _model(options)
    with console.loading():
        import numpy as np

        from ictd import evaluate
        from ictd.evaluate import trajectory_file
        from ictd.evaluate.result import one_line

    try:
        data = trajectory_file.read_log(
            _standard_input() if options.file == "-" else options.file,
            state=options.state,
            reward=options.reward,
            episode=options.episode,
            done=options.done,
            sep=options.sep,
            decimal=options.decimal,
            missing=options.missing,
            bins=options.bins,
        )
    except (ValueError, TypeError) as error:  # a fault of the file, or a bad option
        raise console.Refusal(_named_as_options(error)) from None
    if model is not None and data.episodes is not None:
        raise console.Refusal("argument --run: needs one walk; missing values break the log into several")
    file = "standard input" if options.file == "-" else one_line(options.file)
    try:
        result = evaluate.evaluate(
            data.states,
            np.array(data.rewards),
            data.features,
            gamma=options.gamma,
            n_layers=options.layers,
            scale=options.scale,
            episodes=data.episodes,
            done=None if data.done is None else np.array(data.done),
            model=model,
        )
    except ValueError as error:
        raise console.Refusal(f"{file}: {error}") from None

    problem = None
    if out is not None:
        try:
            result.save(out, overwrite=options.force)  # before printing: `| head` may end the command early
        except OSError as error:
            problem = f"{one_line(str(out))}: cannot be written: {error.strerror or error}"

    _print(options, file, data, result)
    if problem:
        raise console.Refusal(problem)
    if out is not None:
        print(f"\nsaved to {one_line(str(out))}")
    return 0


def _model(options):
    """The model of --run and --seed, None without them; what does not go together is refused before any work."""
    if options.run_folder is None:
        if options.seed is not None:
            raise console.Refusal("argument --seed: needs --run DIR")
        return None
    if options.seed is None:
        raise console.Refusal("argument --run: needs --seed K, the seed whose model is to be run")
    for option in ("episode", "done"):
        if getattr(options, option) is not None:
            raise console.Refusal(f"argument --{option}: not allowed with --run, whose prompt is one walk")
    from ictd import runs
    from ictd.cli.training import need_torch

    need_torch()
    try:
        model = runs.read(options.run_folder).model(options.seed)
    except ValueError as error:  # also a RunError
        raise console.Refusal(f"argument --run: {error}") from None
    for option, given, own in (("gamma", options.gamma, model.gamma), ("layers", options.layers, model.n_layers)):
        if given is not None and given != own:
            raise console.Refusal(f"argument --{option}: the run has {own:g}, and {given:g} was given; leave it out")
    return model


def _print(options, file, data, result):
    from ictd.evaluate.cautions import count

    features = "one-hot features" if data.features is None else count(data.features.shape[1], "feature", "features")
    episodes = ""
    if data.episodes is not None or data.done is not None:
        word = "walk" if options.missing == "skip" else "episode"  # missing values break an episode into several walks
        episodes = f", {count(result.n_episodes, word, f'{word}s')} ({result.n_ends} came to an end)"
    print(
        f"{file}: {count(result.n_transitions, 'transition', 'transitions')}, "
        f"{count(len(result.states), 'state', 'states')}, {features}{episodes}\n"
        f"gamma {result.gamma:g}, {result.n_layers} layers, score scale {result.scale:g}, "
        f"spectral radius {result.radius:.6g}\n"
    )
    print(result.table(options.sort, options.top))
    if options.top is not None and options.top < len(result.states):
        print(f"({options.top} of {len(result.states)} states)")
    sys.stdout.flush()
    notes = [*data.notes, *result.notes]
    if data.ignored:
        notes.append(f"ignored columns: {', '.join(data.ignored)} (features are named x1, x2, ... or feature...)")
    for note in notes:
        console.say(f"note: {note}")
    for warning in (*data.warnings, *result.warnings):
        console.say(f"warning: {warning}")


def _named_as_options(error):
    """The message of an error, with the names of options in place of those of arguments."""
    for name in ("bins", "state", "reward", "episode", "done"):
        if str(error).startswith(f"{name} must "):
            return f"argument --{name}: {str(error)[len(name) + 1 :]}"
    return error


def _standard_input():
    if sys.stdin is None:
        raise ValueError("standard input is closed")
    return getattr(sys.stdin, "buffer", sys.stdin)


def _output(options):
    """The output file, None where there is none; what stands against writing it is refused before any work is done."""
    if options.no_save:
        if options.force:
            raise console.Refusal("--force makes no sense with --no-save")
        return None
    if options.out is None and _is_nameless(options.file):
        words = f"{options.file} has no name to derive the output file from; pass --out FILE or --no-save"
        raise console.Refusal(words)
    if options.out == Path("-"):
        raise console.Refusal("argument --out: must be a file; got -. Standard output is --out /dev/stdout --force")
    file = Path(options.file)
    out = options.out or file.parent / f"{file.stem}-values.csv"
    if options.out is not None or os.path.exists(options.file):  # else reading says what is wrong
        _check_output(out, None if options.file == "-" else file, options.force)
    return out


def _is_nameless(file):
    """Whether the input is a stream: -, /dev/stdin, a pipe such as <(...)."""
    if file == "-" or os.path.abspath(file).startswith(("/dev/", "/proc/")):
        return True
    try:
        mode = os.stat(file).st_mode
    except (OSError, ValueError):  # reading says what is wrong
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _check_output(out, file, force):
    try:
        if file is not None and out.exists() and file.exists() and out.samefile(file):
            raise console.Refusal(f"argument --out: {out} is the trajectory itself")
        if out.is_dir():
            raise console.Refusal(f"argument --out: {out} is a directory")
        if not out.parent.is_dir():
            raise console.Refusal(f"argument --out: there is no directory {out.parent}")
        if os.path.lexists(out) and not force:  # a link to nowhere too
            words = "pass --force to replace it, --out FILE for another name, or --no-save"
            raise console.Refusal(f"{out} exists; {words}")
    except OSError as error:
        raise console.Refusal(f"{out}: cannot be written: {error.strerror or error}") from None
