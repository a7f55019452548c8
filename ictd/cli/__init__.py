"""The command ``ictd``: ``main`` chooses a command, and a module for each has its help, its options and its work."""

from ictd.cli.entry import main

__all__ = ["main"]
