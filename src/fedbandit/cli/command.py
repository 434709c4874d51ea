"""What a command is made of."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass

Add = Callable[..., None]
"""Adds an option, or an argument, to a command: takes what ``ArgumentParser.add_argument`` does."""


@dataclass(frozen=True)
class Command:
    """A command, or one of the ``verbs`` of a command, as in ``fedbandit model create``.

    ``define`` adds its options. ``execute`` imports what it needs when it is called, which keeps
    ``--help`` quick, and returns an exit code, or None for 0; ``extra`` is the extra to install if
    one of those imports fails. ``resumes`` says whether the same command, given again after Ctrl-C,
    continues where it stopped.
    """

    name: str
    summary: str
    define: Callable[[Add], None] = lambda _: None
    execute: Callable[[Namespace], int | None] = lambda _: None
    example: str = ""
    extra: str = "lab"
    resumes: Callable[[Namespace], bool] = lambda _: False
    verbs: tuple["Command", ...] = ()

    def chosen(self, arguments: Namespace) -> "Command":
        """Return the verb that the arguments name, or the command itself if it has none."""
        return next((verb for verb in self.verbs if verb.name == arguments.verb), self)
