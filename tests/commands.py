"""The command ``ictd`` for the tests of it."""

import importlib
import subprocess
import sys
from pathlib import Path

from ictd import cli

ROOT = Path(__file__).parents[1]


def call(capsys, *arguments):
    """Exit status, standard output and standard error of the command in this process."""
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = stop.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def process(*arguments, **options):
    """The same in a process of its own."""
    options = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 60} | options
    return subprocess.run([sys.executable, "-m", "ictd", *map(str, arguments)], **options)


def module(command):
    """The module of a command."""
    return importlib.import_module(f"ictd.cli.{command}")
