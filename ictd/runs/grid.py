"""A grid of settings: its points, each of them the settings of a run."""

import collections
import dataclasses
import fnmatch
import itertools
from dataclasses import dataclass

from ictd import _checks
from ictd.pretrain.config import Config
from ictd.runs.folder import FIGURES, TABLE, check_name


@dataclass(frozen=True)
class Point:
    """One combination of settings.

    Attributes
    ----------
    name : str
        Of its folder.
    settings : dict
        The fields of the configuration that vary in the grid, with their values here.
    config : Config

    Raises
    ------
    ValueError, TypeError
        A name that leads out of the folder of the sweep, settings that are not those of the configuration.
    """

    name: str
    settings: dict
    config: Config

    def __post_init__(self):
        check_name("the name of a point", self.name)
        if self.name.startswith(".") or self.name == TABLE or fnmatch.fnmatchcase(self.name, FIGURES):
            raise ValueError(f"the name of a point must not be that of a file of a sweep; got {self.name!r}")
        _checks.instance("settings", self.settings, dict)
        _checks.instance("config", self.config, Config)
        of_config = dataclasses.asdict(self.config)
        for field, value in self.settings.items():
            if field not in of_config or of_config[field] != value:
                what = f"{field} is {_checks.describe(value)} in settings only"
                raise ValueError(f"settings must be those of config; {what}")
        object.__setattr__(self, "settings", {field: of_config[field] for field in self.settings})


def grid(values, label="{}-{}".format, make=Config):
    """All combinations of values.

    Parameters
    ----------
    values : dict of str to iterable
        Values of each field of `pretrain.Config`; a field with several values varies.
    label : callable
        Gives a text for a field and its value, for the names of folders.
    make : callable
        Gives the configuration for a combination, passed as keywords.

    Returns
    -------
    list of Point

    Raises
    ------
    ValueError, TypeError
        A value is given twice, a combination is refused by ``make``, or labels make no names of folders.
    """
    _checks.instance("values", values, dict)
    for name, function in {"label": label, "make": make}.items():
        if not callable(function):
            raise TypeError(f"{name} must be a function; got {_checks.describe(function)}")
    fields = [field.name for field in dataclasses.fields(Config)]
    several = {_checks.option("a field of values", field, fields): _several(field, values[field]) for field in values}
    vary = [field for field in several if len(several[field]) > 1]
    configs = [make(**dict(zip(several, combination))) for combination in itertools.product(*several.values())]
    for made in configs:
        _checks.instance("what make gives", made, Config)
    for field in vary:  # as the configurations hold them: 0.5 of Python and of NumPy are the same
        counts = collections.Counter(getattr(config, field) for config in configs)
        value, count = counts.most_common(1)[0]
        if count > len(configs) // len(several[field]):
            raise ValueError(f"{field} must have different values; got {label(field, value)} twice")
    points = []
    for config in configs:
        varied = {field: getattr(config, field) for field in vary}
        labels = [label(field, value) for field, value in varied.items()]
        if not all(isinstance(text, str) for text in labels):
            raise TypeError(f"label must give strings; got {_checks.describe(labels)}")
        name = "_".join(labels)
        points.append(Point(name or "run", varied, config))
    return check_points(points)


def check_points(points):
    """Points of one grid as a list, or an error: they have different names, and settings of the same fields."""
    if isinstance(points, (str, bytes, dict)) or not hasattr(points, "__iter__"):
        raise TypeError(f"points must be a sequence of Point, as grid gives them; got {_checks.describe(points)}")
    points = [_checks.instance("points", point, Point) for point in points]
    if not points:
        raise ValueError("points must hold at least one point; got none")
    name, count = collections.Counter(point.name.casefold() for point in points).most_common(1)[0]
    if count > 1:  # some file systems do not tell A from a
        raise ValueError(f"points must have different names; got {name!r} {count} times")
    for point in points:
        if point.settings.keys() != points[0].settings.keys():
            raise ValueError(f"points must have settings of the same fields; {point.name!r} has {[*point.settings]}")
    return points


def _several(field, values):
    """The values of a field as a tuple."""
    try:
        if isinstance(values, (str, bytes, dict)):
            raise TypeError
        values = tuple(values)
    except TypeError:
        raise TypeError(f"{field} must have a list of values in a grid; got {_checks.describe(values)}") from None
    if not values:
        raise ValueError(f"{field} must have at least one value in a grid; got none")
    return values
