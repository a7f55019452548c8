"""The command ``ictd``: it parses, calls `ictd.claims.verify`, `ictd.evaluate` or a training command, and prints.

Exit status: 0 done, also with warnings; 1 a claim failed in ``ictd verify``, or no seed of a run came to its end;
2 wrong use, or a file or the standard output that cannot be read or written; 130 Ctrl-C.
"""

import argparse
import contextlib
import os
import sys

# Matrices are small here: several threads would mostly wait for each other. Before NumPy and torch are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import ictd  # noqa: E402

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
    from ictd import _console, _evaluate_cli, _training_cli

    top = _console.Parser(
        prog="ictd",
        description="In-context temporal difference learning with softmax attention.",
        epilog="'ictd COMMAND --help' explains a command.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"ictd {ictd.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(name, summary, description, examples, **settings):
        added = commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=examples,
            allow_abbrev=False,
            formatter_class=_console.Formatter,
            **settings,
        )
        added.set_defaults(refuse=added.refuse)
        return added

    verify = command("verify", "check the equivalences of the book on random instances", VERIFY_HELP, VERIFY_EXAMPLES)
    verify.add_argument(
        "--instances", type=_integer(1, 100_000), default=50, metavar="N", help="instances per claim (default 50)"
    )
    verify.add_argument("--seed", type=_integer(0, 2**63), default=0, metavar="S", help="their seed (default 0)")
    verify.set_defaults(run=_verify)

    evaluate = command(
        "evaluate", "values of the states of your own log", _evaluate_cli.HELP, _evaluate_cli.EXAMPLES
    )
    _evaluate_cli.add_options(evaluate, _integer, _real)
    evaluate.set_defaults(run=_with_fail("evaluate", _evaluate_cli.run))

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
    figures.add_argument("folder", type=_console.folder_path, metavar="DIR", help="folder of a run or a sweep")
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

    Raises
    ------
    TypeError
        Arguments that are no strings.
    """
    if arguments is not None and (isinstance(arguments, str) or not all(isinstance(word, str) for word in arguments)):
        raise TypeError(f"arguments must be a list of strings; got {arguments!r}")
    with contextlib.ExitStack() as stack:
        if _is_closed(sys.stderr):  # what is said there goes nowhere, and fails nothing
            stack.enter_context(contextlib.redirect_stderr(stack.enter_context(open(os.devnull, "w"))))
        if _is_closed(sys.stdout):
            return _fail("ictd", "standard output is closed")
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stack.callback(_reconfigure, stream, stream.errors)
                stream.reconfigure(errors="backslashreplace")  # labels may hold what the terminal cannot show
        return _main(arguments)


def _is_closed(stream):
    return stream is None or getattr(stream, "closed", False)  # a stream of the reader's own may only write


def _reconfigure(stream, errors):
    with contextlib.suppress(OSError, ValueError):  # closed, or full
        stream.reconfigure(errors=errors)


def _main(arguments):
    try:
        try:
            return _run(arguments)
        finally:
            getattr(sys.stdout, "flush", bool)()
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
    options, rest = top.parse_known_args(arguments)
    if rest:
        getattr(options, "refuse", top.refuse)(rest)
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
    from ictd import _console, _extras
    from ictd.claims import verify

    with _console.loading():
        _extras.torch_problem()
    results = verify.run(options.instances, options.seed)
    print(verify.table(results))
    failed = [result for result in results if result.status == "FAIL"]
    skipped = [result for result in results if result.status == "skipped"]
    print()
    if skipped:
        print(
            f"SKIPPED: {len(skipped)} of {len(results)} claims need torch, which {_extras.torch_problem()}. "
            f"Install it with: pip install 'ictd[torch]'"
        )
    if failed:
        print(f"FAILED: {len(failed)} of {len(results)} claims")
        return 1
    held = len(results) - len(skipped)
    print(f"{held} claims hold on {options.instances} random instances each (seed {options.seed}).")
    return 0
