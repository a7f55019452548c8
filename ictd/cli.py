"""The command ``ictd``: it parses, calls `ictd.verify`, `ictd.evaluate` or a training command, and prints.

Exit status: 0 done, also with warnings; 1 a claim failed in ``ictd verify``, or no seed of a run came to its end;
2 wrong use, or a file or the standard output that cannot be read or written; 130 Ctrl-C.
"""

import argparse
import contextlib
import os
import sys
from pathlib import Path

# Matrices are small here: several threads would mostly wait for each other. Before NumPy and torch are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import ictd  # noqa: E402

EVALUATE_HELP = """\
Run weighted softmax TD (step size 1, from values 0) on a trajectory of your own and print a value per state
beside certainty equivalence, the value of the empirical model. The table is also saved.

The file is comma-separated UTF-8 text with a header line. A row is a visit: column 'state' is a label
(compared as text), column 'reward' the number paid for leaving it. The last row is the state in which
the trajectory stops; its reward is empty. Columns x1, x2, ... or feature... are features of the state;
without them the features are one-hot. Other columns are ignored. After a terminal state, go on with
the first state of the next episode and reward 0.

    state,reward
    home,-1
    bus,0
    work,5
    home,
"""

EVALUATE_EXAMPLES = """\
examples:
  ictd evaluate trip.csv                          table on the screen and in trip-values.csv
  ictd evaluate trip.csv --scale 10 --layers 200  sharper attention, more layers
  ictd evaluate trip.csv --gamma 0.5 --no-save    on the screen only
  ictd evaluate trip.csv --out v.csv --force      replace v.csv if it exists

The table has 'visits' (how often the state was left), 'value' (after --layers layers) and 'certainty
equivalence' (- on the screen and empty in the file where the data do not determine it). Scores are the
scale times the inner product of features: for one-hot features the scale for equal states, else 0.
Warnings go to standard error. Exit status: 0 done, 2 wrong use or a faulty file.
"""

VERIFY_HELP = """\
Check the equivalences of the book on random instances: random processes with 2 to 12 states, 1 to 8
features, up to 60 transitions, discount up to 0.99, up to 50 layers, score matrices that are not
symmetric. Prints the largest relative error of each claim, |difference| / max(1, |values|). Claims
about Transformer layers need torch; without it they are skipped, and the command says so.
"""

VERIFY_EXAMPLES = """\
examples:
  ictd verify
  ictd verify --instances 200 --seed 1

Exit status: 0 no claim failed (skipped claims do not count), 1 a claim failed, 2 wrong use or no output.
"""


def _argument(convert, check, **limits):
    """An argparse type: convert the text, check the number, and say what is wrong with it."""

    def parse(text):
        from ictd import _checks

        try:
            number = text if "_" in text else convert(text)  # Python reads 1_0 as 10
        except ValueError:
            number = text
        try:
            return getattr(_checks, check)("value", number, **limits)
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix("value ")) from None

    return parse


def _real(**limits):
    return _argument(float, "real", **limits)


def _integer(low, high):
    return _argument(int, "integer", low=low, high=high)


def parser(chosen=None):
    """The argument parser of the command.

    Parameters
    ----------
    chosen : str, optional
        The command that will be parsed. The options of "pretrain" and "sweep" are there only if it is chosen.
    """
    from ictd import _console, _training_cli

    top = argparse.ArgumentParser(
        prog="ictd",
        description="In-context temporal difference learning with softmax attention.",
        epilog="'ictd COMMAND --help' explains a command.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"ictd {ictd.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(name, summary, description, examples, **settings):
        return commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=examples,
            allow_abbrev=False,
            formatter_class=_console.Formatter,
            **settings,
        )

    verify = command("verify", "check the equivalences of the book on random instances", VERIFY_HELP, VERIFY_EXAMPLES)
    verify.add_argument(
        "--instances", type=_integer(1, 100_000), default=50, metavar="N", help="instances per claim (default 50)"
    )
    verify.add_argument("--seed", type=_integer(0, 2**63), default=0, metavar="S", help="their seed (default 0)")
    verify.set_defaults(run=_verify)

    evaluate = command("evaluate", "values of the states of your own trajectory", EVALUATE_HELP, EVALUATE_EXAMPLES)
    evaluate.add_argument("file", type=Path, metavar="FILE.csv", help="the trajectory")
    evaluate.add_argument(
        "--gamma", type=_real(low=0, high=1, high_open=True), default=0.9, help="discount in [0, 1) (default 0.9)"
    )
    evaluate.add_argument(
        "--layers", type=_integer(0, 1_000_000), default=50, metavar="L", help="number of layers (default 50)"
    )
    evaluate.add_argument(
        "--scale", type=_real(low=0, low_open=True, high=1e100), default=1.0, help="positive score scale (default 1)"
    )
    target = evaluate.add_mutually_exclusive_group()
    target.add_argument(
        "--out", type=Path, metavar="FILE", help="where to save the table (default FILE-values.csv beside the input)"
    )
    target.add_argument("--no-save", action="store_true", help="print only")
    evaluate.add_argument("--force", action="store_true", help="replace the output file if it exists")
    evaluate.set_defaults(run=_evaluate)

    for name, summary, run in (
        ("pretrain", "pretrain models on random tasks, all seeds at once", _training_cli.pretrain),
        ("sweep", "pretrain at every point of a grid of settings", _training_cli.sweep),
    ):
        texts = (getattr(_training_cli, f"{name.upper()}_{part}") for part in ("HELP", "EXAMPLES"))
        training = command(name, summary, *texts, usage=f"ictd {name} --out DIR [options]")
        training.set_defaults(run=_with_fail(name, run))
        if chosen == name:
            _training_cli.add_run_options(training, _integer, _real)
            _training_cli.add_config_options(training, several=name == "sweep")

    figures = command(
        "figures",
        "figures of finished runs",
        _training_cli.FIGURES_HELP,
        _training_cli.FIGURES_EXAMPLES,
    )
    figures.add_argument("folder", type=Path, metavar="DIR", help="folder of a run or a sweep")
    figures.add_argument("--force", action="store_true", help="replace figures that exist")
    figures.set_defaults(run=_with_fail("figures", _training_cli.figures))
    return top


def _with_fail(name, run):
    return lambda options: run(options, lambda message: _fail(f"ictd {name}", message))


def main(arguments=None):
    """Run the command and return its exit status.

    Parameters
    ----------
    arguments : list of str, optional
        Default: the arguments of the process.
    """
    with contextlib.ExitStack() as stack:
        if sys.stderr is None or sys.stderr.closed:  # what is said there goes nowhere, and fails nothing
            stack.enter_context(contextlib.redirect_stderr(stack.enter_context(open(os.devnull, "w"))))
        return _main(arguments)


def _main(arguments):
    if sys.stdout is None or sys.stdout.closed:
        return _fail("ictd", "standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # labels may hold what the terminal cannot show
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _drop_output()
        return 0
    except OSError as error:  # a full disk; errors of files are reported where they occur
        _drop_output()
        return _fail("ictd", f"standard output cannot be written: {error.strerror or error}")
    except KeyboardInterrupt:
        return 130


def _run(arguments):
    given = sys.argv[1:] if arguments is None else arguments
    top = parser(next((word for word in given if not word.startswith("-")), None))
    options = top.parse_args(arguments)
    if options.command is None:
        top.print_help()
        return 0
    return options.run(options)


def _drop_output():
    """Let the text that cannot be written go nowhere, as Python would try again at its end."""
    with contextlib.suppress(OSError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(program, message):
    from ictd._console import say

    say(f"{program}: error: {message}")
    return 2


# ------------------------------------------------------------------------------------------ ictd verify


def _verify(options):
    from ictd import _console, verify

    with _console.loading():
        verify.torch_problem()
    results = verify.run(options.instances, options.seed)
    print(verify.table(results))
    failed = [result for result in results if result.status == "FAIL"]
    skipped = [result for result in results if result.status == "skipped"]
    print()
    if skipped:
        print(
            f"SKIPPED: {len(skipped)} of {len(results)} claims need torch, which {verify.torch_problem()}. "
            f"Install it with: pip install 'ictd[torch]'"
        )
    if failed:
        print(f"FAILED: {len(failed)} of {len(results)} claims")
        return 1
    held = len(results) - len(skipped)
    print(f"{held} claims hold on {options.instances} random instances each (seed {options.seed}).")
    return 0


# ---------------------------------------------------------------------------------------- ictd evaluate


def _evaluate(options):
    out = None if options.no_save else options.out or options.file.parent / f"{options.file.stem}-values.csv"
    problem = _output_problem(options, out)
    if problem:
        return _fail("ictd evaluate", problem)

    from ictd import evaluate

    try:
        data = evaluate.read_csv(options.file)
    except evaluate.FileFault as fault:
        return _fail("ictd evaluate", fault)
    try:
        result = evaluate.evaluate(
            data.states, data.rewards, data.features, gamma=options.gamma, n_layers=options.layers, scale=options.scale
        )
    except ValueError as error:
        return _fail("ictd evaluate", f"{options.file}: {error}")

    problem = None
    if out is not None:
        try:
            result.save(out, overwrite=options.force)  # before printing: `| head` may end the command early
        except OSError as error:
            problem = f"{out}: cannot be written: {error.strerror or error}"

    features = "one-hot features" if data.features is None else f"{data.features.shape[1]} features"
    print(
        f"{options.file}: {len(data.rewards)} transitions, {len(result.states)} states, {features}\n"
        f"gamma {result.gamma:g}, {result.n_layers} layers, score scale {result.scale:g}, "
        f"spectral radius {result.radius:.6g}\n"
    )
    print(result.table(), flush=True)
    if data.ignored:
        print(
            f"note: ignored columns: {', '.join(data.ignored)} (features are named x1, x2, ... or feature...)",
            file=sys.stderr,
        )
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if problem:
        return _fail("ictd evaluate", problem)
    if out is not None:
        print(f"\nsaved to {out}")
    return 0


def _output_problem(options, out):
    """What stands against writing the output file, before any work is done; None if nothing does."""
    if out is None:
        return "--force makes no sense with --no-save" if options.force else None
    try:
        if out.exists() and options.file.exists() and out.samefile(options.file):
            return f"argument --out: {out} is the trajectory itself"
        if out.is_dir():
            return f"argument --out: {out} is a directory"
        if not out.parent.is_dir():
            return f"argument --out: there is no directory {out.parent}"
        if os.path.lexists(out) and not options.force:  # a link to nowhere too
            return f"{out} exists; pass --force to replace it, --out FILE for another name, or --no-save"
    except OSError as error:
        return f"{out}: cannot be written: {error.strerror or error}"
    return None
