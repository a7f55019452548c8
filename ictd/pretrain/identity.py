"""What makes a run the run that it is, as its files hold it: settings, seeds, and the function that draws its tasks."""

import dataclasses
import hashlib
import importlib
import inspect
import numbers

from ictd import _checks
from ictd.pretrain.config import Config

# The settings of a family of tasks; they say nothing where a function draws.
OF_FAMILY = "family", "features", "feature_scale"


def identity(config, seeds, tasks=None):
    """What a run is compared by.

    Parameters
    ----------
    config : Config
    seeds : sequence of int
    tasks : dict or None
        `origin` of the function that draws the tasks.

    Returns
    -------
    dict
        "config", "seeds" and "tasks"; in the first, the settings of a family of tasks are None where a function draws.
    """
    config = dataclasses.asdict(config) | ({} if tasks is None else dict.fromkeys(OF_FAMILY))
    return {"config": config, "seeds": list(seeds), "tasks": tasks}


def config_of(content):
    """The `Config` for the "config" of an `identity`."""
    return Config(**{name: value for name, value in content.items() if name not in OF_FAMILY or value is not None})


def origin(sample):
    """Where a function that draws tasks comes from.

    Returns
    -------
    dict or None
        "function": "module:name", by which it can be imported again, and "source": the SHA-256 of its source. None
        for None.

    Raises
    ------
    ValueError
        It cannot be imported again, or has no source.
    """
    if sample is None:
        return None
    module, name = (getattr(sample, part, None) for part in ("__module__", "__qualname__"))
    try:
        found = _imported(module, name)
    except (ImportError, AttributeError, TypeError, ValueError):
        found = None
    if found is not sample:
        raise ValueError(
            f"sample must be a function that can be imported again by its name, at the top level of a module: no "
            f"lambda, partial, nested function or object; got {_checks.describe(sample)}"
        )
    try:
        source = inspect.getsource(sample)
    except (OSError, TypeError):
        raise ValueError(f"sample must have a source that can be read; got {_checks.describe(sample)}") from None
    return {"function": f"{module}:{name}", "source": hashlib.sha256(source.encode()).hexdigest()}


def function_of(record):
    """The function of an `origin`.

    Raises
    ------
    ImportError, AttributeError
        There is none here.
    ValueError
        It has another source here.
    """
    if record is None:
        return None
    sample = _imported(*record["function"].split(":"))
    if origin(sample) != record:
        raise ValueError(f"{record['function']} has another source")
    return sample


def _imported(module, name):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def difference(there, here):
    """The first field in which a run from a file differs from one that is asked for: (field, there, here), or None.

    Parameters
    ----------
    there, here : dict
        As `identity` gives it; "seeds" and what else is in ``here`` are compared after the settings.
    """
    others = {name: (there.get(name), value) for name, value in here.items() if name not in ("config", "tasks")}
    fields = {name: (there["config"].get(name), value) for name, value in here["config"].items()}
    unknown = {name: (there["config"][name], "unknown") for name in sorted(there["config"].keys() - fields.keys())}
    for name, pair in {"tasks": (there.get("tasks"), here["tasks"]), **fields, **others, **unknown}.items():
        if pair[0] != pair[1]:
            return name, *(map(_text, pair) if name == "tasks" else pair)
    return None


def _text(record):
    """An `origin` in words."""
    if isinstance(record, dict) and {"function", "source"} <= record.keys():
        return f"{record['function']} (source {str(record['source'])[:12]})"
    return "built-in" if record is None else record


def place_of(seed, seeds):
    """The place of a seed among those of a run, or a ValueError."""
    integral = isinstance(seed, numbers.Integral) and not isinstance(seed, bool)
    if not integral or seed not in seeds:
        raise ValueError(f"seed must be one of {', '.join(map(str, seeds))}; got {_checks.describe(seed)}")
    return list(seeds).index(seed)
