"""Which small changes of a module do its own tests not notice? `make mutants` for the core, MODULE=td for one module.

Each mutant is the module with one change: another operator, comparison or number, a condition turned round, a call
left out. Its test file, and then the table of arguments of all modules, run against a copy of the package with the
mutant in it, and stop at the first failure. A mutant that lives is a gap in the tests, or a change without effect. The
list goes to _build/mutants. Needs fork, so no Windows.
"""

import argparse
import ast
import copy
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

# What tests load and no mutant is in: loaded once, and shared by all processes that fork from this one.
import hypothesis.strategies  # noqa: F401
import numpy  # noqa: F401
import pytest
import torch  # noqa: F401
from floors import PACKAGE, ROOT, file_of_tests

MODULES = "mrp empirical kernels td prompt attention dual_head temporal_shift convergence".split()
OTHER = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult},
    **{ast.FloorDiv: ast.Div, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
}


def changed(node):
    """The nodes that may stand in place of one node."""
    other = copy.deepcopy(node)
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in OTHER:
        other.op = OTHER[type(node.op)]()
        yield other
    elif isinstance(node, ast.Compare):
        other.ops[0] = OTHER[type(node.ops[0])]()
        yield other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
        yield other.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        other.value = not node.value if type(node.value) is bool else node.value + 1
        yield other
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        other.test = ast.UnaryOp(ast.Not(), other.test)
        yield other
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


def mutants(source):
    """Triples of a line, what was changed, and the changed source."""
    tree = ast.parse(source)
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            places = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            for index, node in places:
                for other in changed(node) if isinstance(node, ast.AST) else ():
                    ast.copy_location(other, node)
                    put(parent, field, index, other)
                    yield (
                        node.lineno,
                        f"{short(node)}  ->  {short(other)}",
                        ast.unparse(ast.fix_missing_locations(tree)),
                    )
                    put(parent, field, index, node)


def put(parent, field, index, node):
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def short(node):
    text = ast.unparse(node).splitlines()[0]
    return text if len(text) <= 60 else text[:57] + "..."


def a_copy(folder):
    """A copy of the package and its tests, with links to all else that tests look at."""
    for path in ROOT.iterdir():
        if path.name in ("ictd", "tests"):
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not path.name.startswith(".") and path.name != "_build":
            (folder / path.name).symlink_to(path)
    return folder


def begin(folder, module, source):
    """Start the module's tests with this source in a copy, in a process of their own; return its number."""
    (folder / "ictd" / f"{module}.py").write_text(source, encoding="utf-8")
    process = os.fork()
    if process:
        return process
    os.setsid()
    os.chdir(folder)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(quiet, stream)
    sys.path[:0] = [str(folder)]
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True  # compiled files are known by date and size, which two mutants may share
    without = [f"-pno:{plugin}" for plugin in ("cacheprovider", "nbval", "xdist")]  # nbval takes seconds to load
    files = [f"tests/{file_of_tests(name).name}" for name in (module, "errors")]
    os._exit(pytest.main(["-x", "-q", *without, *files]))


def outcomes(folders, module, sources, limit):
    """Whether the module's tests pass, for each source; None where they do not end in time."""
    waiting, free, running, passed = list(enumerate(sources)), list(folders), {}, {}
    while waiting or running:
        while waiting and free:
            folder = free.pop()
            number, source = waiting.pop(0)
            running[begin(folder, module, source)] = number, folder, time.monotonic()
        time.sleep(0.02)
        for process, (number, folder, start) in list(running.items()):
            late = time.monotonic() - start > limit
            if late:
                os.killpg(process, signal.SIGKILL)
            ended, status = os.waitpid(process, 0 if late else os.WNOHANG)
            if ended:
                passed[number] = None if late else status == 0
                free.append(folder)
                del running[process]
    return [passed[number] for number in range(len(sources))]


def survivors(module, folders):
    """The lines of the report on one module."""
    source = (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
    start = time.monotonic()
    if outcomes(folders[:1], module, [ast.unparse(ast.parse(source))], limit=300) != [True]:
        sys.exit(f"the tests of {module} or those of arguments fail without any change")
    limit = 30 + 10 * (time.monotonic() - start)
    found = sorted(mutants(source), key=lambda mutant: mutant[:2])
    lived = outcomes(folders, module, [mutant for _, _, mutant in found], limit)
    for folder in folders:
        (folder / "ictd" / f"{module}.py").write_text(source, encoding="utf-8")
    yield f"{module}: {lived.count(True)} of {len(found)} mutants live ({time.monotonic() - start:.0f} s)"
    words = {True: "", None: "  (no end in time)"}
    yield from (f"  line {line}: {change}{words[one]}" for (line, change, _), one in zip(found, lived) if one in words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES, metavar="MODULE", help="default: the core")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "_build" / "mutants")
    options = parser.parse_args()
    for module in options.modules:
        if not ((PACKAGE / f"{module}.py").is_file() and file_of_tests(module).is_file()):
            parser.error(f"MODULE must be one of the package with a test file of its name; got {module}")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / str(number) for number in range(options.processes)]
        for folder in folders:
            folder.mkdir()
            a_copy(folder)
        for module in options.modules:
            report = "\n".join(survivors(module, folders))
            (options.out / f"{module}.txt").write_text(report + "\n", encoding="utf-8")
            print(report, flush=True)


if __name__ == "__main__":
    main()
