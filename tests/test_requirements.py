"""Versions: the bounds are what is tested, and say the same wherever they stand."""

import re

import pytest
from book_site import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def lines(name):
    """What a file of requirements asks for."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return [Requirement(line) for line in re.sub(r"\s*#.*", "", text).splitlines() if line and not line.startswith("-")]


def wanted(given):
    return {canonicalize_name(requirement.name): requirement.specifier for requirement in given}


BOOK = wanted(lines("requirements.txt"))
DEVELOPER = wanted(lines("tests/requirements-dev.txt"))
EXTRAS = {name: list(map(Requirement, texts)) for name, texts in PROJECT["optional-dependencies"].items()}
PACKAGE = wanted(map(Requirement, PROJECT["dependencies"]))
PACKAGE |= wanted(one for given in EXTRAS.values() for one in given if one.name != PROJECT["name"])
LOWEST = {name: Version(str(pin).removeprefix("==")) for name, pin in wanted(lines("tests/lowest.txt")).items()}
PINS = {name: Version(str(pin).removeprefix("==")) for name, pin in wanted(lines("constraints.txt")).items()}


@pytest.mark.parametrize("name, bounds", [*BOOK.items(), *DEVELOPER.items()])
def test_the_lower_bound_is_what_is_tested(name, bounds):
    """The first numbers of a version that is tested; that of constraints.txt lies below the upper bound."""
    [lowest] = [Version(bound.version).release for bound in bounds if bound.operator == ">="]
    assert PINS[name] in bounds and "<" in {bound.operator for bound in bounds}
    assert len(lowest) >= 2 and LOWEST.get(name, PINS[name]).release[: len(lowest)] == lowest


def test_the_package_asks_for_what_the_book_uses():
    assert {name: bounds for name, bounds in PACKAGE.items() if BOOK.get(name) != bounds} == {}


def test_the_extra_all_is_all_extras():
    [requirement] = EXTRAS["all"]
    assert requirement.extras == set(EXTRAS) - {"all"}


def test_the_oldest_python_is_the_same_everywhere():
    oldest = PROJECT["requires-python"].removeprefix(">=")
    makefile, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "README.md"))
    assert f"({oldest} or newer)" in makefile and f"< ({oldest.replace('.', ', ')})" in makefile
    assert f"Python {oldest} or newer" in makefile and f"You need Python {oldest} or newer" in readme


def test_the_readme_asks_for_the_same_torch():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    asked = [Requirement(text).specifier for text in re.findall(r'"(torch[<>=][^"]*)"', readme)]
    assert asked and set(asked) == {BOOK["torch"]}
