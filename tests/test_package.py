"""The package as a whole: lazy imports, a NumPy half without torch, and imports that point one way."""

import ast
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from floors import FLOORS, NEEDS_TORCH

import ictd

SOURCE = Path(ictd.__file__).parent
# A module is a file, or a folder with all its files.
FILES = {path.stem: [path] for path in SOURCE.glob("*.py") if not path.stem.startswith("__")}
FILES |= {path.parent.name: sorted(path.parent.rglob("*.py")) for path in SOURCE.glob("*/__init__.py")}
MODULES = sorted(FILES)

# The concepts that need no torch; folders are workshops.
NUMPY_HALF = [name for name in FLOORS if name not in NEEDS_TORCH and len(FILES[name]) == 1]


def nodes(module):
    """All syntax nodes of a module."""
    for path in FILES[module]:
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def imports(module):
    """Names of the modules of the package, and of other packages, that a module imports, also inside functions."""
    own, others = set(), set()
    for node in nodes(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first != "ictd":
                others.add(first)
            elif rest:
                own.add(rest[0])
    return own & set(MODULES) - {module}, others


def python(code):
    """Run code in a fresh interpreter and return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_is_light():
    """``import ictd`` loads no heavy package and none of its own modules."""
    heavy = "torch matplotlib ipywidgets gymnasium numpy IPython".split()
    code = f"import sys, ictd; print(*[m for m in sys.modules if m in {heavy} or m.startswith('ictd.')])"
    assert python(code) == ["ictd._extras"]


def test_modules_load_on_first_use():
    """``ictd.td`` imports td and what it needs, not torch; an unknown name is an AttributeError."""
    code = "import sys, ictd; ictd.td.weighted_softmax_td; print('torch' in sys.modules, 'ictd.td' in sys.modules)"
    assert python(code) == ["False", "True"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ictd.nothing
    assert {"td", "model", "__version__"} <= set(dir(ictd))


def test_every_public_module_is_listed():
    """The lazy names are the files of the package."""
    public = {module for module in MODULES if not module.startswith("_")}
    assert public <= set(dir(ictd))
    assert set(ictd.__all__) - {"__version__"} <= public
    assert python("import ictd; print(*ictd.__all__)") == ictd.__all__


def test_numpy_half_works_without_torch():
    """Sampling, TD in all NumPy forms and prompts run where torch, matplotlib and ipywidgets are missing."""
    code = """
import sys
for name in ("torch", "matplotlib", "ipywidgets", "gymnasium"):
    sys.modules[name] = None
import numpy as np
import ictd
rng = np.random.default_rng(0)
trajectory = ictd.mrp.boyan_chain(5, 0.9, rng).sample(20, rng)
X = ictd.features.gaussian(5, 3, rng)
x = X[trajectory.states]
values = ictd.td.weighted_softmax_td(x, trajectory.rewards, 0.9, 5)
loops = ictd.reference.weighted_softmax_td_loops(x, trajectory.rewards, 0.9, 5)
states = ictd.td.weighted_softmax_td_states(trajectory, X, 0.9, 5)
ictd.prompt.check_memory(ictd.prompt.build_prompt(x, trajectory.rewards, values[-1], 0.9), 0.9)
print(np.allclose(values, loops), np.allclose(states[:, trajectory.states], values))
"""
    assert python(code) == ["True", "True"]


@pytest.mark.parametrize(
    "missing, module, extra",
    [("torch", "model", "torch"), ("matplotlib", "plots", "plots")],
)
def test_missing_packages_are_named_with_their_cure(missing, module, extra):
    """hasattr answers, the error says what to install, and a star import gives all that works."""
    code = f"""
import sys
sys.modules["{missing}"] = None
import ictd
print(hasattr(ictd, "{module}"), hasattr(ictd, "td"))
try:
    ictd.{module}
except AttributeError as error:
    print(error)
try:
    import ictd.{module}
except ModuleNotFoundError as error:
    print(error.name)
from ictd import *
print("{module}" in ictd.__all__, "{module}" in dir(ictd), kernels.softmax_kernel.__name__)
"""
    cure = f"ictd.{module} needs {missing}, which is not installed: pip install 'ictd[{extra}]'"
    expected = f"False True {cure} {missing} False True softmax_kernel"
    assert python(code) == expected.split()


def test_star_import_gives_all_modules_where_nothing_is_missing():
    """With every optional package present, ``__all__`` is the full list and each name loads."""
    for package in ("torch", "matplotlib", "ipywidgets"):
        pytest.importorskip(package)
    code = "from ictd import *; import ictd; print(*(n for n in ictd._MODULES if n not in globals()), 'end')"
    assert python(code) == ["end"]


def test_a_broken_package_is_not_called_missing():
    """A module that is missing inside an installed package is no question of extras."""
    code = """
import sys
sys.modules["ictd._tensors"] = None
import ictd
try:
    ictd.model
except ModuleNotFoundError as error:
    print(error.name)
"""
    assert python(code) == ["ictd._tensors"]


def test_every_module_has_a_floor():
    public = {module for module in MODULES if not module.startswith("_")}
    assert set(FLOORS) == public


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module):
    """A module imports from lower floors only; what is private in the package stands below all of them."""
    own, _ = imports(module)
    assert all(FLOORS.get(name, 0) < FLOORS.get(module, 1) for name in own), own


@pytest.mark.parametrize("module", NUMPY_HALF)
def test_the_numpy_half_needs_nothing_else(module):
    assert imports(module)[1] - set(sys.stdlib_module_names) <= {"numpy"}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_stay_small(path):
    """A file that grows beyond a few screens holds two concepts; the exercises of a chapter may."""
    if path.parent.name != "exercises":
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 350


def test_errors_survive_a_process_pool():
    """Every class of errors of the package comes out of pickle as it went in: type, message and attributes."""
    pytest.importorskip("torch")
    given = {"OtherRunError": ("folder", "gamma", 0.5, 0.9), "RowFault": (3, "reward", "too much")}
    seen = set()
    for info in pkgutil.walk_packages(ictd.__path__, "ictd."):
        if info.name == "ictd.__main__":
            continue
        for name, kind in inspect.getmembers(importlib.import_module(info.name), inspect.isclass):
            if not (issubclass(kind, Exception) and kind.__module__.startswith("ictd")):
                continue
            error = kind(*given.get(name, ("a message",)))
            again = pickle.loads(pickle.dumps(error))
            assert type(again) is kind and str(again) == str(error) and vars(again) == vars(error), name
            seen.add(name)
    assert {"OtherRunError", "RunError", "CheckpointError", "ClusterError"} <= seen


def test_settings_and_files_of_runs_need_no_torch():
    """A configuration, a grid and finished runs are there without torch; what trains says what it needs."""
    code = """
import sys
sys.modules.update(torch=None, matplotlib=None)
from ictd import pretrain, runs
print(pretrain.Config().n_layers, len(runs.grid.grid({"gamma": [0.5, 0.9]})), runs.state("nowhere"))
try:
    pretrain.pretrain
except AttributeError as error:
    print(error)
"""
    cure = "ictd.pretrain.training needs torch, which is not installed: pip install 'ictd[torch]'"
    assert python(code) == ["5", "2", "empty", *cure.split()]


def test_exercises_are_known_without_torch():
    """Names, and the checks of the chapters that need NumPy only, are there where torch is missing."""
    code = """
import sys
sys.modules.update(torch=None, matplotlib=None)
from ictd import exercises
print(len(exercises.names()) > 50, bool(exercises.check("policy_evaluation.circle", "nonsense")))
"""
    assert python(code)[-2:] == ["True", "False"]


def test_the_face_of_pretrain_gives_what_it_lists():
    pretrain = pytest.importorskip("ictd.pretrain")
    pytest.importorskip("torch")
    for name in pretrain.__all__:
        assert getattr(pretrain, name).__module__.startswith("ictd.pretrain.")
    assert set(pretrain.__all__) <= set(dir(pretrain))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pretrain.nothing


def files_imported(path):
    """The files of the package that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        for name in names:
            place = SOURCE.parent / name.replace(".", "/")
            yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists())


def test_imports_have_no_cycle():
    """All files can be put in an order in which each imports only earlier ones; a folder's face comes last in it."""
    faces = set(SOURCE.rglob("__init__.py"))
    needs = {path: set(files_imported(path)) - {SOURCE / "__init__.py", path} for path in SOURCE.rglob("*.py")}
    # A file that imports from its own folder names the folder on the way; that is no use of its face.
    needs = {
        path: {file for file in found if file not in faces or file.parent != path.parent}
        for path, found in needs.items()
    }
    order = list(TopologicalSorter(needs).static_order())
    assert len(order) == len(needs)


def test_plots_and_widgets_stand_on_top():
    """Only figures of runs import plots, and only plots matplotlib and widgets."""
    for path in SOURCE.rglob("*.py"):
        if path.parent.name == "plots" or path.relative_to(SOURCE).parts in {
            ("runs", "figures.py"),
            ("cli", "figures.py"),
        }:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in getattr(node, "names", []) if isinstance(node, ast.Import)]
            )
            roots = {name.split(".")[0] for name in names}
            assert not roots & {"matplotlib", "ipywidgets", "IPython"} and "ictd.plots" not in names, path


def test_no_global_randomness():
    """No seed is set and no draw is made without a generator, anywhere in the package."""
    for module in MODULES:
        for node in nodes(module):
            if isinstance(node, ast.Attribute):
                name = ast.unparse(node)
                allowed = ("np.random.Generator", "np.random.default_rng", "np.random.SeedSequence")
                assert name != "torch.manual_seed", module
                assert not name.startswith("np.random.") or name.startswith(allowed), f"{module}: {name}"
