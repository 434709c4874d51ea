"""What every command is made of."""

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command: its name, what it is for in a line, an example, its options and what it does.

    ``define`` adds the options to a parser and returns them, so that a misspelt one can be answered
    with the nearest. ``execute`` imports what it needs when it is called: help stays quick.
    ``extra`` is what to install where that is missing. ``resumes`` says whether the same words,
    given again after Ctrl-C, go on from there.
    """

    name: str
    summary: str
    example: str
    define: Callable[[ArgumentParser], Sequence[Action]]
    execute: Callable[[Namespace], None]
    extra: str = "lab"
    resumes: Callable[[Namespace], bool] = lambda _: False
