"""The command line: ``fedbandit run | reproduce | plot | list``."""

from fedbandit.cli.entry import main

__all__ = ["main"]
