"""The command line: ``fedbandit run | reproduce | plot | list | serve | model | token``."""

from fedbandit.cli.entry import main

__all__ = ["main"]
