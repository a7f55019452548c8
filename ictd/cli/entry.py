"""The command ``ictd`` from its first word to its exit status.

Exit status: 0 done, also with warnings; 1 a claim failed in ``ictd verify``, or no seed of a run came to its end;
2 wrong use, or a file or the standard output that cannot be read or written; 130 Ctrl-C.
"""

import contextlib
import importlib
import os
import sys

import ictd
from ictd.cli import console

# Matrices are small here: several threads would mostly wait for each other. Before NumPy and torch are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Each is a module of this folder, which is loaded when it is chosen.
COMMANDS = {
    "verify": "check the equivalences of the book on random instances",
    "evaluate": "values of the states of your own log",
    "pretrain": "pretrain models on random tasks, all seeds at once",
    "sweep": "pretrain at every point of a grid of settings",
    "figures": "figures of finished runs",
}


def parser(chosen=None):
    """The argument parser of the command.

    Parameters
    ----------
    chosen : str, optional
        The command that will be parsed; the options of the others are not there.
    """
    top = console.Parser(
        prog="ictd",
        description="In-context temporal difference learning with softmax attention.",
        epilog="'ictd COMMAND --help' explains a command.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"ictd {ictd.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, allow_abbrev=False, formatter_class=console.Formatter)
        if name == chosen:
            with console.loading():
                module = importlib.import_module(f"ictd.cli.{name}")
            command.description, command.epilog = module.HELP, module.EXAMPLES
            command.set_defaults(run=module.run, refuse=command.refuse)
            module.add_arguments(command)
    return top


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
            return _refuse("ictd", "standard output is closed")
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
            return _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            getattr(sys.stdout, "flush", bool)()
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _drop_output()
        return 0
    except OSError as error:  # a full disk; errors of files are reported where they occur
        _drop_output()
        return _refuse("ictd", f"standard output cannot be written: {error.strerror or error}")
    except KeyboardInterrupt:
        return 130


def _run(arguments):
    top = parser(next((word for word in arguments if not word.startswith("-")), None))
    options, rest = top.parse_known_args(arguments)
    if rest:
        getattr(options, "refuse", top.refuse)(rest)
    if options.command is None:
        top.print_help()
        return 0
    try:
        return options.run(options)
    except console.Refusal as refusal:
        return _refuse(f"ictd {options.command}", refusal)


def _refuse(program, message):
    console.say(f"{program}: error: {message}")
    return 2


def _drop_output():
    """Let the text that cannot be written go nowhere, as Python would try again at its end."""
    with contextlib.suppress(OSError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
