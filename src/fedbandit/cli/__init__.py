"""The command line: ``fedbandit COMMAND``, one module of ``commands`` for each."""

from fedbandit.cli.entry import main

__all__ = ["main"]
