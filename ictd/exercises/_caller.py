"""Whether the code that calls a function prints what it returns.

`check` prints its verdict, so that a plain call shows it in a script as in a notebook, wherever it stands in a cell.
Many write ``print(check(...))`` all the same, and should not see the line twice. When `check` runs it cannot know what
becomes of its result, and the result itself cannot tell ``print`` from any other use of its text: only the caller's
source says it.
"""

import ast
import itertools
import linecache
import sys


def prints_the_result(frame):
    """Whether the call that a frame is in, of a function such as `check`, is printed, as far as its source is known."""
    try:
        source = _source(frame)
        if "print" not in source:
            return False
        parents = {child: node for node in ast.walk(ast.parse(source)) for child in ast.iter_child_nodes(node)}
    except (SyntaxError, ValueError, IndexError, RecursionError):
        return False
    running = [node for node in parents if isinstance(node, ast.Call) and _is_running(node, frame)]
    return bool(running) and all(_reaches_print(node, parents) for node in running)


def _source(frame):
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if not lines and frame.f_code.co_filename == "<string>" and sys.argv[:1] == ["-c"]:
        return sys.orig_argv[-len(sys.argv)]  # the program, before its arguments
    return "".join(lines)


def _is_running(call, frame):
    """Whether a call in the source is the one that the frame is in; Python 3.10 knows no more than its line."""
    positions = getattr(frame.f_code, "co_positions", tuple)()
    _, end_line, _, end_column = next(itertools.islice(positions, frame.f_lasti // 2, None), (None,) * 4)
    if end_column is None:
        return _called(call) == "check" and call.lineno <= frame.f_lineno <= call.end_lineno
    return (call.end_lineno, call.end_col_offset) == (end_line, end_column)


def _reaches_print(node, parents):
    """Whether the text of a node's value is printed: as an argument, perhaps in an f-string or unpacked from a list."""
    listed = False  # a list shows the short form of its entries, unless it is unpacked or joined
    while node in parents:
        child, node = node, parents[node]
        if isinstance(node, ast.Call) and child is not node.func:
            if _called(node) == "print":
                return not listed and child in node.args
            if _called(node) not in ("str", "join", "format"):
                return False
            listed = listed and _called(node) != "join"
        elif isinstance(node, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp)):
            listed = True
        elif isinstance(node, ast.Starred):
            listed = False
        elif isinstance(node, ast.FormattedValue):
            if node.conversion == ord("r"):
                return False
        elif isinstance(node, ast.IfExp):
            if child is node.test:
                return False
        elif not isinstance(node, (ast.JoinedStr, ast.NamedExpr, ast.BinOp)):
            return False
    return False


def _called(node):
    return getattr(node.func, "id", getattr(node.func, "attr", None))
