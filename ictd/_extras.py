"""Optional packages: whether they are installed and work, and the cure where they are not."""

import importlib
import sys
from importlib.util import find_spec

# The extra that installs a package.
EXTRAS = {"torch": "torch", "matplotlib": "plots", "ipywidgets": "widgets", "distributed": "cluster"}


def installed(package):
    """Whether a package can be imported; it is not imported."""
    try:
        return find_spec(package) is not None
    except ValueError:  # it is imported already, without a spec
        return True


def cure(package):
    """The command that installs a package."""
    return f"pip install 'ictd[{EXTRAS[package]}]'"


def torch_problem():
    """What is wrong with torch, in a few words; None if it works. It is imported."""
    try:
        import numpy
        import torch

        torch.nn.Module(), torch.from_numpy(numpy.zeros(1))
    except ModuleNotFoundError as error:
        return "is not installed" if error.name == "torch" else f"does not work here ({error})"
    except Exception as error:  # a broken installation may raise anything
        return " ".join(f"does not work here ({type(error).__name__}: {error})".split())
    return None


def load(path):
    """Import a module of the package on first use, or say what it needs."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        # An AttributeError, so that hasattr answers; `import ictd.model` still raises the ModuleNotFoundError.
        raise AttributeError(f"{path} needs {error.name}, which is not installed: {cure(error.name)}") from error


def face(package, homes=None, modules=()):
    """What a package needs to load names and modules on first use: ``__getattr__`` and ``__dir__``.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : dict of str to str, optional
        The module of the package in which each name lives.
    modules : sequence of str
        Modules that need more than the package itself.
    """
    homes = homes or {}

    def __getattr__(name):
        if name in modules:
            return load(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(load(f"{package}.{homes[name]}"), name)

    def __dir__():
        return sorted({*vars(sys.modules[package]), *homes, *modules})

    return __getattr__, __dir__
