"""The floors of the package, as its docstring lists them, and the tests of the lower ones, for `make coverage`.

python tests/floors.py code     # files of floors 1 to 5 without figures and environments, for coverage
python tests/floors.py tests    # their test files
python tests/floors.py numpy    # test files of the modules up to the logs of a reader that do not need torch
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "ictd"
_TABLE = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")))
NEEDS_TORCH = set(re.findall(r"``(\w+)``.*torch", _TABLE))
FLOORS = {name: int(floor) for floor, name in re.findall(r"^(\d+) +``(\w+)``", _TABLE, re.MULTILINE)}
# Test files of many modules at once, and those of the modules for which _read_out and _tensors are there.
GENERAL = ["errors", "global_state", "package", "statements", "state_form", "neu"]


def core(top=5, without=("plots", "environments")):
    """Names of the modules up to a floor, and of the private ones, which stand below all floors."""
    private = {path.stem for path in PACKAGE.glob("_*.py")} - {"__init__", "__main__"}
    return sorted({name for name, floor in FLOORS.items() if floor <= top} - set(without) | private)


def file_of_tests(module):
    """Where the tests of a module stand."""
    return ROOT / "tests" / f"test_{module.strip('_')}.py"


if __name__ == "__main__":
    if sys.argv[1:] == ["code"]:
        print(",".join(f"ictd/{name}.py,ictd/{name}/*" for name in core()))
    elif sys.argv[1:] == ["tests"]:
        print(*(path.relative_to(ROOT) for path in map(file_of_tests, [*core(), *GENERAL]) if path.exists()))
    elif sys.argv[1:] == ["numpy"]:
        modules = [name for name, floor in FLOORS.items() if floor <= 7 and name not in NEEDS_TORCH]
        modules += [path.stem for path in (PACKAGE / "plots").glob("[a-z]*.py")]
        print(*sorted({path.relative_to(ROOT) for path in map(file_of_tests, modules) if path.exists()}))
    else:
        sys.exit(__doc__)
