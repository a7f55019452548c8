"""The Makefile: what it takes as changed, and that no machine's home or first start gets into the book."""

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest
from book_site import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")

# Stands in for the environment's programs: notes each run, and does only what costs nothing.
PROGRAM = """\
#!/bin/sh
echo "${0##*/} $*" >> "$LOG"
case "$*" in
    "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/jupyter-book";;
    "-m ruff check "*) eval "$DURING_STYLE";;
    "-m pytest tests "*) env > environment; eval "$DURING_TESTS";;
    *matplotlib*) [ -z "$REAL_FONTS" ] || exec %(python)s "$@";;
    *subprocess*) shift 3; exec "$@";;
    *book_site.py) [ -z "$REAL_LIST" ] || exec %(python)s "$@";;
esac
"""
FILES = ["ictd/td.py", "book/td.ipynb", "tests/test_td.py", ".ci/run", "README.md", "CITATION.cff", "LICENSE"]
FILES += ["_config.yml", "requirements.txt", "pyproject.toml", "constraints.txt"]
ODD_NAMES = ["with a space", "it's", 'a "quote"', "two\nlines", "back\\slash", "$(HOME)", "é *", "-x"]


class Project:
    """A folder with the Makefile, one small file of each kind, and programs that only note that they ran."""

    def __init__(self, root):
        self.root, self.log = root, root.parent / "log"
        for name in FILES:
            self.write(name, f"about {name}")
        shutil.copy(ROOT / "Makefile", root)
        shutil.copy(ROOT / "tests/book_site.py", root / "tests")
        self.write("_toc.yml", "root: book/td\n")
        self.program = root.parent / "python"
        self.program.write_text(PROGRAM % {"python": sys.executable})
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def make(self, *arguments, **variables):
        """Run make; return its exit status, what it printed and the programs that it ran."""
        self.log.write_text("")
        environment = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"}
        command = ["make", f"PYTHON={self.program}", "CHROMIUM=/none", *arguments]
        done = subprocess.run(
            command,
            cwd=self.root,
            env=environment | {"LOG": str(self.log)} | variables,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout + done.stderr, self.log.read_text()

    def tested(self, *arguments, **variables):
        """Whether `make test` passes, and whether it ran the tests for that."""
        status, printed, ran = self.make("test", *arguments, **variables)
        assert (status == 0) == ("All tests passed on exactly these files" in printed), printed
        return status == 0, "-m pytest tests" in ran

    def built(self):
        return "jupyter-book build" in self.make("book")[2]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project")


def test_what_was_tested_is_not_tested_again(project):
    assert project.tested() == (True, True)
    for name in FILES:
        os.utime(project.root / name)  # a checkout changes dates
    assert project.tested() == (True, False)


def test_every_file_that_can_decide_a_test_counts(project):
    project.tested()
    for name in FILES + ["book/data/new.csv", "tests/new.cfg", "book/_static/new.js"]:
        project.write(name, "other")
        assert project.tested() == (True, True), name


def test_a_name_may_hold_anything(project):
    paths = [project.write(f"book/{name}.ipynb", "right") for name in ODD_NAMES]
    project.tested()
    assert project.tested() == (True, False)
    for path in paths:
        path.write_text("broken")
        assert project.tested() == (True, True), path.name


def test_deleted_renamed_and_exchanged_files_count(project):
    first, second = project.write("book/first.md", "1"), project.write("book/second.md", "2")
    project.tested()
    first.rename(project.root / "book/third.md")
    assert project.tested() == (True, True)
    (project.root / "book/third.md").write_text("2"), second.write_text("1")
    assert project.tested() == (True, True)
    second.unlink()
    assert project.tested() == (True, True)


def test_links_count_by_what_they_lead_to(project):
    outside = project.root.parent / "outside.csv"
    outside.write_text("1")
    (project.root / "book/data.csv").symlink_to(outside)
    project.tested()
    outside.write_text("2")
    assert project.tested() == (True, True)
    outside.unlink()
    assert project.tested() == (True, True)
    assert project.tested() == (True, False)


def test_a_failure_is_not_remembered_as_a_success(project):
    assert project.tested(DURING_TESTS="exit 1") == (False, True)
    assert project.tested() == (True, True)


def test_code_of_another_style_stops_the_tests_before_anything_is_built(project):
    status, printed, ran = project.make("test", DURING_STYLE="exit 1")
    assert status != 0 and "make format" in printed and "jupyter-book" not in ran
    assert project.tested() == (True, True)
    assert project.make("test", DURING_STYLE="exit 1")[0] != 0  # also where the tests need not run again


def test_files_that_change_during_the_tests_were_not_tested(project):
    before = (project.root / "book/td.ipynb").read_text()
    assert project.tested(DURING_TESTS="echo changed >> book/td.ipynb") == (False, True)
    project.write("book/td.ipynb", before)
    assert project.tested() == (True, True)


def test_another_environment_or_browser_is_tested_anew(project):
    project.tested()
    assert project.tested("VENV=.venv-other") == (True, True)
    assert project.tested("CHROMIUM=/other") == (True, True)


def test_the_book_is_built_anew_for_what_it_shows(project):
    assert project.built() and not project.built()
    for name in ("ictd/td.py", "book/td.ipynb", "_config.yml", "_toc.yml", "tests/test_td.py", "README.md"):
        project.write(name, "root: book/td\n# other")
        assert project.built() == (name not in ("tests/test_td.py", "README.md")), name


def test_the_notebooks_of_the_table_of_contents_are_run(project):
    project.write("book/a space.ipynb", "")
    project.write("_toc.yml", 'root: book/td\nchapters:\n- file: "book/a space"\n- file: book/text\n')
    ran = project.make("test", REAL_LIST="1")[2]
    assert ran.index("book_site.py") < ran.index("@_build/notebooks")
    assert (project.root / "_build/notebooks").read_text() == "book/td.ipynb\nbook/a space.ipynb\n"


def test_coverage_and_mutants_stand_beside_the_tests(project):
    ran = project.make("test")[2]
    assert "coverage" not in ran and "mutants" not in ran
    assert "tests/mutants.py td" in project.make("mutants", "MODULE=td")[2]
    assert "-m coverage report" in project.make("coverage")[2]


def test_neither_the_home_nor_the_settings_of_a_reader_reach_the_programs(project):
    settings = {"MPLCONFIGDIR": "/dev/null/m", "MPLBACKEND": "TkAgg", "PYTHONWARNINGS": "always"}
    assert project.make("test", HOME="/dev/null/home", **settings)[0] == 0
    lines = (project.root / "environment").read_text().splitlines()
    environment = dict(line.split("=", 1) for line in lines if "=" in line)
    for name in ("MPLCONFIGDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
        folder = Path(environment[name])
        assert folder.is_dir() and project.root / "_build" in folder.parents
    assert not {"MPLBACKEND", "PYTHONWARNINGS"} & set(environment)


def test_a_slow_list_of_fonts_is_made_in_silence_before_the_first_notebook(project):
    """matplotlib speaks up after five seconds; here after none."""
    impatient = project.root.parent / "impatient"
    impatient.mkdir()
    hurry = "import threading\ntimer = threading.Timer\nthreading.Timer = lambda seconds, f: timer(0, f)\n"
    (impatient / "sitecustomize.py").write_text(hurry)
    slow = {"PYTHONPATH": str(impatient), "HOME": "/dev/null/home"}
    new = os.environ | slow | {"MPLCONFIGDIR": str(impatient)}
    command = [sys.executable, "-c", "import matplotlib.font_manager"]
    loud = subprocess.run(command, env=new, capture_output=True, text=True)
    assert "font cache" in loud.stderr

    status, printed, ran = project.make("book", REAL_FONTS="1", **slow)
    assert status == 0 and "cache" not in printed
    assert list((project.root / "_build/settings/matplotlib").glob("fontlist*"))
    assert ran.index("matplotlib") < ran.index("jupyter-book build")


def test_what_a_cell_writes_to_stderr_is_told_and_not_kept(tmp_path):
    """A message that a machine gives once fails one build, and the next one passes."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text(
        textwrap.dedent(f"""
        import sys
        sys.path.append({str(ROOT / "book/_extensions")!r})
        extensions = ["myst_nb", "noisy_outputs"]
        nb_execution_mode, nb_execution_raise_on_error, master_doc = "cache", True, "page"
        """)
    )
    first = "import pathlib, sys\nseen = pathlib.Path('seen')\n"
    first += "seen.exists() or print('once only', file=sys.stderr)\nseen.touch()"
    cells = [nbformat.v4.new_markdown_cell("# Page"), nbformat.v4.new_code_cell(first)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, source / "page.ipynb")
    build = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-E", source, tmp_path / "html"]

    def run():
        return subprocess.run(build, capture_output=True, text=True, timeout=120)

    noisy, quiet = run(), run()
    assert noisy.returncode == 1 and "cell 2 wrote to stderr:\nonce only" in noisy.stderr
    assert quiet.returncode == 0 and "Executing notebook" in quiet.stdout, quiet.stderr
