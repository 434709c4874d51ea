"""What a command has found: for people, or with ``--json`` for programs."""

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from shutil import get_terminal_size
from textwrap import fill
from typing import Any, TextIO

from fedbandit.cli.command import Add


def add_json(add: Add) -> None:
    """Add --json."""
    add("--json", action="store_true", help="print the report as JSON, for programs")


def report(
    arguments: Namespace, found: Callable[[], Mapping[str, Any]], show: Callable[[], None]
) -> None:
    """Print what was ``found`` as JSON if --json was given; else let ``show`` print it."""
    if arguments.json:
        print_json(found())
    else:
        show()


def print_json(found: Mapping[str, Any]) -> None:
    """Print JSON: dataclasses as objects, paths as text, numbers that are not finite as null."""
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(found, enc_hook=str)).decode())


def say(text: str, *, indent: str = "") -> None:
    """Print a sentence: wrapped between words on a terminal, on one line elsewhere."""
    print(folded(text, indent=indent), flush=True)


def folded(text: str, *, indent: str = "", to: TextIO | None = None) -> str:
    """Return a text wrapped for a terminal, and as it is for anything else to print it ``to``."""
    if not (to or sys.stdout).isatty():
        return text
    return fill(
        text,
        width=columns(),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def columns() -> int:
    """Return the width of the terminal; never so narrow that every word stands alone."""
    return max(20, get_terminal_size().columns)
