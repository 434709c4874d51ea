"""``fedbandit`` alone, ``fedbandit help``: what can be done, and what to do next."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from textwrap import fill

import fedbandit
from fedbandit.cli.command import Add, Command
from fedbandit.cli.parsing import WHAT_IT_IS, fitted
from fedbandit.cli.reporting import columns

NEXT = (
    ("watch three agents learn together, in a minute or two", "fedbandit quickstart"),
    ("see how few bytes it takes, in about a minute", "fedbandit reproduce --quick --out demo"),
    ("ask what suits your data", "fedbandit advise visits.csv"),
    ("make a model, and serve it", "fedbandit model create news --dimension 100\nfedbandit serve"),
    ("find out what is wrong", "fedbandit doctor"),
)
EXIT_CODES = (
    ("0", "done"),
    ("1", "doctor found a problem; or a fault in fedbandit itself"),
    ("2", "refused: wrong input, or something that cannot be read, written or reached"),
    ("130", "interrupted by Ctrl-C"),
)


def overview(groups: Mapping[str, Sequence[Command]]) -> str:
    """Return everything that can be done, fitted to the terminal."""
    width = columns()
    parts = [
        fill(f"fedbandit {fedbandit.__version__}: {WHAT_IT_IS[0].lower()}{WHAT_IT_IS[1:]}", width)
    ]
    longest = max(len(command.name) for group in groups.values() for command in group)
    for title, group in groups.items():
        lines = [_entry(command.name, command.summary, longest, width) for command in group]
        parts.append("\n".join([title, *lines]))
    lines = [f"  {why}:\n{_indented(fitted(line, width - 4))}" for why, line in NEXT]
    parts.append("\n".join(["What next", *lines]))
    codes = [_entry(code, meaning, 3, width) for code, meaning in EXIT_CODES]
    parts.append("\n".join(["Exit codes", *codes]))
    more = "Options of a command: fedbandit help COMMAND. Of this program: --version, --verbose."
    parts.append(fill(more, width))
    return "\n\n".join(parts)


def _entry(name: str, text: str, longest: int, width: int) -> str:
    start = f"  {name:{longest}}  "
    return fill(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _define(add: Add) -> None:
    add("words", nargs="*", metavar="COMMAND", help="a command, and one of its verbs")


def _execute(arguments: Namespace) -> None:
    from fedbandit.cli.catalogue import COMMANDS, GROUPS
    from fedbandit.cli.parsing import parse

    if arguments.words:
        parse([*arguments.words, "--help"], COMMANDS)
    print(overview(GROUPS))


HELP = Command(
    name="help",
    summary="Show what can be done, or the options of a command.",
    example="fedbandit help\nfedbandit help model create",
    define=_define,
    execute=_execute,
)
