"""The option ``--tasks``: a function of the reader's own draws the tasks."""

import contextlib
import difflib
import importlib
import os
import sys

from ictd import _checks
from ictd.cli import console, settings
from ictd.pretrain.identity import OF_FAMILY

HELP = """\
With --tasks, a function of your own draws the tasks instead of --family, --features and --feature-scale:
mytasks:draw is draw in mytasks.py of the current folder, or in a module that is installed. draw(count, rng)
gives count tasks as ictd.tasks.Tasks, with as many states and features as --states and --dim say, and takes
random numbers from rng only, a numpy.random.Generator. A run goes on only with the function that began it.
"""


@contextlib.contextmanager
def sampler(options):
    """The function that ``--tasks`` names, None without it; what is wrong with it is refused, also later.

    Modules in the current folder can be imported meanwhile, as under ``python -m``.
    """
    if options.tasks is None:
        yield None
        return
    for field in OF_FAMILY:
        if hasattr(options, field):
            option = settings.NAMES[field]
            raise console.Refusal(f"argument {option}: makes no sense with --tasks, whose function decides about it")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield _function(options.tasks)
    except (TypeError, ValueError) as error:
        if str(error).startswith("sample("):
            raise console.Refusal(f"argument --tasks: {options.tasks}{str(error)[len('sample') :]}") from None
        if str(error).startswith("sample "):
            raise console.Refusal(settings.in_words(error)) from None
        raise
    finally:
        with contextlib.suppress(ValueError):  # the reader's module may change the path as well
            sys.path.remove(folder)


def _function(text):
    """Import the function MODULE:FUNCTION."""
    path, _, name = text.partition(":")
    if path.endswith(".py") or not all(map(str.isidentifier, [*path.split("."), name])):
        _refuse(f"must be MODULE:FUNCTION, as mytasks:draw for the function draw of mytasks.py; got {text!r}")
    try:
        with console.loading():
            module = importlib.import_module(path)
    except (Exception, SystemExit) as error:  # of any kind: the module is the reader's own
        if isinstance(error, ModuleNotFoundError) and f"{path}.".startswith(f"{error.name}."):
            _refuse(f"must name a module of the current folder or an installed one; there is no {error.name}")
        _refuse(f"must name a module that can be imported; {path} raises {console.one_line(error)}")
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, vars(module), 1)
        _refuse(f"must name a function of {path}; it has no {name}{f' (did you mean {near[0]}?)' if near else ''}")
    if not callable(getattr(module, name)):
        _refuse(f"must name a function; {text} is {_checks.describe(getattr(module, name))}")
    return getattr(module, name)


def _refuse(message):
    raise console.Refusal(f"argument --tasks: {message}") from None
