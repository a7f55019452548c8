"""The README, line by line: every ``ictd`` command and every Python block, in order, in one folder.

The folder holds what the reader of the README has beside the package: the data of the book. Commands that pretrain are
real runs of 16 seconds and more; here they take fewer steps and seeds, by options added at the end, where the last one
counts. ICTD_README_IN_FULL=1 runs them as they stand.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHORTER = "" if os.environ.get("ICTD_README_IN_FULL") == "1" else " --steps 10 --seeds 2 --records 2"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(ictd [^`]+)`")
PROGRAM = re.compile(r"(?:\.venv/bin/)?\bictd(?= )")


def steps(text):
    """What the reader runs, in order: pairs of a kind, "python" or "shell", and the code."""
    found = [(match.start(), match[1], match[2]) for match in FENCED.finditer(text)]
    prose = FENCED.sub(lambda match: " " * len(match[0]), text)  # places stay
    found += [(match.start(), "", match[0]) for match in re.finditer(r"(?:^ {4}\S.*\n)+", prose, re.MULTILINE)]
    found += [(match.start(), "", match[1]) for match in INLINE.finditer(prose)]
    for _, language, code in sorted(found):
        if language == "python":
            yield "python", code
        elif language in ("", "sh", "bash", "console"):
            lines = re.sub(r"\\\n\s*", "", code).splitlines()
            yield from (("shell", line.strip().removeprefix("$ ")) for line in lines if PROGRAM.search(line))


def prepared(line):
    """A command with this interpreter in place of the reader's environment, and with shorter runs."""
    line = re.sub(r"(\bictd (?:pretrain|sweep)\b(?!.*--help)[^#|;&>]*)", lambda m: m[1].rstrip() + SHORTER + " ", line)
    return PROGRAM.sub(lambda _: f"{shlex.quote(sys.executable)} -m ictd", line)


STEPS = [(kind, code) for kind, code in steps(README) if "--scheduler" not in code]  # needs a cluster


def test_the_readme_has_what_is_run_here():
    """The search above does not come back empty-handed: each command of the program is shown, and a Python block."""
    shown = " ".join(code for kind, code in STEPS if kind == "shell")
    assert {"evaluate", "verify", "pretrain", "sweep", "figures"} <= set(re.findall(r"ictd (\w+)", shown))
    assert [kind for kind, _ in STEPS].count("python") >= 1
    assert len([code for kind, code in steps(README) if "--scheduler" in code]) == 1


def test_blocks_are_found_in_order():
    text = "Run `ictd a`:\n\n    x/bin/ictd b   # why\n    make c\n\n```python\nimport ictd\n```\n"
    text += "\n```sh\nictd d \\\n  --e\n```\n"
    assert list(steps(text)) == [
        ("shell", "ictd a"),
        ("shell", "x/bin/ictd b   # why"),
        ("python", "import ictd\n"),
        ("shell", "ictd d --e"),
    ]
    assert prepared("ictd pretrain --out a  # why").endswith(f" -m ictd pretrain --out a{SHORTER} # why")
    assert prepared(".venv/bin/ictd sweep --out a | tail -1").endswith(f" -m ictd sweep --out a{SHORTER} | tail -1")


@pytest.mark.skipif(os.name == "nt", reason="the README is written for a POSIX shell")
def test_the_readme_runs_as_it_stands(tmp_path):
    """Everything ends with 0, without a traceback, one after the other in one folder."""
    for package in ("torch", "matplotlib"):
        pytest.importorskip(package, reason="the README needs it")
    shutil.copytree(ROOT / "book" / "data", tmp_path / "book" / "data")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 600}
    for kind, code in STEPS:
        command = [sys.executable, "-c", code] if kind == "python" else ["sh", "-c", prepared(code)]
        done = subprocess.run(command, **options)
        assert done.returncode == 0 and "Traceback" not in done.stderr, f"{code}\n{done.stdout}\n{done.stderr}"
