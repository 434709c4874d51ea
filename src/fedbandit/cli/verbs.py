"""Commands that are a noun with verbs: ``fedbandit model create``, ``fedbandit token revoke``."""

from argparse import Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """One thing to do: its name, what it does in a line, its options and how it is done."""

    name: str
    summary: str
    define: Callable[[ArgumentParser], Sequence[Action]]
    execute: Callable[[Namespace], None]


def define_verbs(verbs: Sequence[Verb]) -> Callable[[ArgumentParser], list[Action]]:
    """Return what adds the verbs to a command's parser, and returns the options of all of them."""

    def define(parser: ArgumentParser) -> list[Action]:
        found: list[Action] = []
        below = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for verb in verbs:
            part = below.add_parser(
                verb.name,
                help=verb.summary,
                description=verb.summary,
                allow_abbrev=False,
                formatter_class=RawDescriptionHelpFormatter,
            )
            found += verb.define(part)
        return found

    return define


def execute_verb(verbs: Sequence[Verb]) -> Callable[[Namespace], None]:
    """Return what does the verb that was chosen."""
    known = {verb.name: verb for verb in verbs}
    return lambda arguments: known[arguments.verb].execute(arguments)
