"""`make mutants`: each mutant is the source with one change, and is named by it."""

import ast

from floors import FLOORS, core
from mutants import MODULES, mutants

SOURCE = """\
def f(x, n=2):
    check(x)
    if x < n and not x:
        return -x + 1
    return x @ x if g(x) else True
"""
CHANGES = """\
1: 2 -> 3
2: check(x) -> pass
3: not x -> x
3: x < n -> x <= n
3: x < n and (not x) -> x < n or not x
3: if x < n and (not x): -> if not (x < n and (not x)):
4: -x + 1 -> -x - 1
4: -x -> x
4: 1 -> 2
5: True -> False
5: x @ x if g(x) else True -> x @ x if not g(x) else True
"""


def test_every_place_is_changed_once():
    found = list(mutants(SOURCE))
    assert sorted(f"{line}: {change.replace('  ->  ', ' -> ')}" for line, change, _ in found) == sorted(
        CHANGES.split("\n")[:-1]
    )
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for line, _, mutant in found:
        differing = [
            number for number, pair in enumerate(zip(plain, mutant.splitlines()), start=1) if len(set(pair)) == 2
        ]
        assert differing == [line]


def test_the_core_stands_on_the_lower_floors():
    assert set(MODULES) <= set(core()) <= set(FLOORS) | {name for name in core() if name.startswith("_")}
