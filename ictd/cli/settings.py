"""The settings of a run as options, which are made from the fields of `pretrain.Config`, and words about them."""

import argparse
import dataclasses
import re

from ictd.cli import console
from ictd.pretrain.config import Config
from ictd.runs.table import seeds_text

GROUPS = {
    "tasks": "tasks",
    "model": "model",
    "training": "training",
    "measurements": "measurements, on tasks that are the same for all seeds",
}
FIELDS = sorted(
    dataclasses.fields(Config),
    key=lambda field: (list(GROUPS).index(field.metadata["group"]), field.metadata["place"]),
)
NAMES = {field.name: field.metadata["option"] for field in FIELDS}
NAMES |= {"seeds": "--seeds/--first-seed", "threads": "--threads", "tasks": "--tasks", "sample": "--tasks"}


def add_arguments(parser, several=False):
    """Add an option for each setting; with ``several``, those that may vary take more than one value."""
    groups = {name: parser.add_argument_group(title) for name, title in GROUPS.items()}
    for field in FIELDS:
        choices, many = field.metadata["choices"], several and field.metadata["varies"]
        settings = {"dest": field.name, "default": argparse.SUPPRESS}
        settings["help"] = ("+ " if many else "") + field.metadata["help"] + _default(field)
        if field.name == "shared":
            settings |= {"nargs": "*", "choices": ("no", "yes")} if many else {"action": "store_const", "const": "yes"}
        else:
            settings |= {"nargs": "+"} if many else {}
            settings |= {"choices": choices} if choices else {"type": console.number(type(field.default))}
            settings["metavar"] = None if choices else "N" if isinstance(field.default, int) else "X"
        groups[field.metadata["group"]].add_argument(field.metadata["option"], **settings)
    groups["tasks"].add_argument("--tasks", metavar="MODULE:FUNCTION", help="function of your own that draws the tasks")


def _default(field):
    if field.name == "shared":  # its option is a switch
        return ""
    default = f"{field.default:g}" if isinstance(field.default, float) else field.default
    return f" (default {default}{'; for one_hot the number of states' if field.name == 'dim' else ''})"


def values(options):
    """Values of each field that was given on the command line."""
    given = {field.name: getattr(options, field.name) for field in FIELDS if hasattr(options, field.name)}
    given = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
    if "shared" in given:
        given["shared"] = [text == "no" for text in given["shared"] or ["yes"]]
    return given


def config(**settings):
    """The configuration for settings of which some may be missing; one-hot features fix their number."""
    if settings.get("features") == "one_hot" and "dim" not in settings:
        settings["dim"] = settings.get("n_states", Config.n_states)
    return Config(**settings)


def in_words(error):
    """The message of a `Config`, with options as they are typed."""
    message = re.sub(r"\bn_[a-z_]+\b", lambda match: NAMES.get(match[0], match[0]), str(error))
    field, _, rest = message.partition(" ")
    return f"argument {NAMES.get(field, field)}: {rest}"


def label(field, value):
    """A setting as it is typed, for names of folders: gamma-0.5, per-layer-yes."""
    return f"{title(field)}-{typed(field, value)}"


def title(field):
    """The name of a setting in tables."""
    return NAMES[field].removeprefix("--")


def typed(field, value):
    """The value of a setting as it is typed."""
    if field == "shared" and isinstance(value, bool):
        return "no" if value else "yes"
    if field == "seeds":
        return seeds_text(value)
    if isinstance(value, list):
        return " ".join(typed(field, entry) for entry in value)
    return str(value).removesuffix(".0")


def other_run(error):
    """Say which option differs from those of the run in the folder."""
    there, here = (typed(error.field, value) for value in (error.there, error.here))
    option = NAMES.get(error.field, error.field)
    return (
        f"{error.folder} holds results with another {option}: {there} there, {here} here; name another folder, or pass "
        f"--force to remove them"
    )
