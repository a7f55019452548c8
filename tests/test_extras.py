"""Optional packages: what is installed, and what stands against the use of torch."""

import sys
import types

import pytest

from ictd import _extras


def test_a_package_that_was_made_by_hand_counts_as_installed(monkeypatch):
    """It is imported already, without a spec, as in a notebook that stubs it out."""
    monkeypatch.setitem(sys.modules, "stub_without_spec", types.ModuleType("stub_without_spec"))
    assert _extras.installed("stub_without_spec") and _extras.installed("numpy")
    assert not _extras.installed("no_such_package_anywhere")
    assert _extras.cure("matplotlib") == "pip install 'ictd[plots]'"


def test_torch_is_missing_or_broken_or_works(monkeypatch):
    def broken(*_):
        raise RuntimeError("built for\nanother NumPy")

    stub = types.ModuleType("torch")
    stub.nn, stub.from_numpy = types.SimpleNamespace(Module=object), broken
    monkeypatch.setitem(sys.modules, "torch", stub)
    assert _extras.torch_problem() == "does not work here (RuntimeError: built for another NumPy)"
    monkeypatch.setitem(sys.modules, "torch", None)
    assert _extras.torch_problem() == "is not installed"
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.undo()
    pytest.importorskip("torch")
    assert _extras.torch_problem() is None


def test_a_part_of_torch_that_is_missing_is_named(monkeypatch):
    def missing(*_):
        raise ModuleNotFoundError("No module named 'sympy'", name="sympy")

    stub = types.ModuleType("torch")
    stub.nn, stub.from_numpy = types.SimpleNamespace(Module=object), missing
    monkeypatch.setitem(sys.modules, "torch", stub)
    assert _extras.torch_problem() == "does not work here (No module named 'sympy')"
