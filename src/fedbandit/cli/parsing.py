"""Build the parsers, one for each command and verb, and parse what was typed."""

import re
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any, NoReturn

import fedbandit
from fedbandit.cli.command import Command
from fedbandit.cli.reporting import columns, folded
from fedbandit.errors import unknown

WHAT_IT_IS = "Federated contextual linear bandits that send sketches, not data."
BAD_INPUT = 2
_HOW_MANY = {"?": "[{}]", "*": "[{} ...]", "+": "{} ..."}


class Parser(ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is; exit."""
        told = f"{self.prog}: error: {message} (help: {self.prog} --help)"
        self.exit(BAD_INPUT, f"{folded(told, to=sys.stderr)}\n")


def parse(given: list[str], commands: Mapping[str, Command]) -> Namespace:
    """Parse the words. Misspelt ones are refused first: argparse would ask for missing ones."""
    whole = Parser("fedbandit", **_texts(WHAT_IT_IS))
    number = f"fedbandit {fedbandit.__version__}"
    whole.add_argument("--version", action="version", version=number)
    whole.add_argument("--verbose", action="store_true")
    below = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    place = next((i for i, word in enumerate(given) if not word.startswith("-")), len(given))
    _refuse_unknown_options(whole, given[:place], ["--version", "--verbose"])
    if place < len(given) and given[place] not in commands:
        whole.error(str(unknown("command", given[place], commands)))
    for name in given[place : place + 1] or commands:
        command = commands[name]
        texts = _texts(command.summary, command.example)
        parser = below.add_parser(name, help=command.summary, **texts)
        _define(parser, command, given[place + 1 :])
    chosen, more = whole.parse_known_args(given)
    if more:
        called = " ".join(["fedbandit", chosen.command, *filter(None, [vars(chosen).get("verb")])])
        Parser(called).error(f"unrecognized arguments: {' '.join(more)}")
    return chosen


def _define(parser: ArgumentParser, command: Command, words: Sequence[str]) -> None:
    """Add a command's options and verbs to its parser, and refuse words that it does not know."""
    names: list[str] = []
    needed: list[str] = []

    def add(*words: str, **how: Any) -> None:
        action = parser.add_argument(*words, **how)
        names.extend(action.option_strings)
        value = {"?": "[{}]", "*": "[{} ...]", "+": "{} ..."}.get(str(action.nargs), "{}").format(
            action.metavar
        )
        if not action.option_strings:
            needed.append(value)
        elif action.required:
            needed.append(f"{action.option_strings[0]} {value}")

    command.define(add)
    add("--verbose", action="store_true", default=SUPPRESS, help="show where an error came from")
    if not command.verbs:
        _refuse_unknown_options(parser, words, names)
        whole = " ".join([parser.prog, *needed, "[options]"])
        parser.usage = fill(whole, columns() - 7, subsequent_indent="  ", break_on_hyphens=False)
        return
    first = next((word for word in words if not word.startswith("-")), None)
    verbs = {verb.name: verb for verb in command.verbs}
    if first is not None and first not in verbs:
        parser.error(str(unknown("verb", first, verbs)))
    before = list(words[: words.index(first)] if first is not None else words)
    _refuse_unknown_options(parser, before, names)
    below = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in command.verbs:
        texts = _texts(verb.summary, example_of(command, verb))
        part = below.add_parser(verb.name, help=verb.summary, **texts)
        _define(part, verb, words[len(before) + 1 :] if verb.name == first else ())
    parser.usage = f"{parser.prog} VERB [options]"


def example_of(command: Command, verb: Command) -> str:
    """Return the lines of a command's example that use this verb."""
    lines = (line.strip() for line in command.example.splitlines())
    begins = f"fedbandit {command.name} {verb.name}"
    return "\n".join(line for line in lines if f"{line} ".startswith(f"{begins} "))


def _texts(description: str, example: str = "") -> dict[str, Any]:
    width = columns() - 2
    shown = fitted(example, width - 2).splitlines()
    indented = "\n".join(f"  {line}".rstrip() for line in shown)
    return {
        "description": fill(description, width),
        "epilog": f"example:\n{indented}" if example else None,
        "allow_abbrev": False,
        "formatter_class": RawDescriptionHelpFormatter,
    }


def fitted(text: str, width: int) -> str:
    """Return an example that fits: commands continued on the next line, sentences wrapped.

    Other lines, of files and of JSON, stay as they are.
    """
    lines: list[str] = []
    text = re.sub(
        r"^ *fedbandit (?:.* \\\n)+.*$",
        lambda found: re.sub(r" \\\n *", " ", found[0]),
        text,
        flags=re.MULTILINE,
    )
    for block in re.split(r"\n\s*\n", text):
        rows = block.splitlines()
        if re.match(r"\s|fedbandit |curl ", block):
            lines += [piece for row in rows for piece in _continued(row, width)]
        else:
            lines += fill(" ".join(rows), width, break_on_hyphens=False).splitlines()
        lines.append("")
    return "\n".join(lines[:-1])


def _continued(row: str, width: int) -> list[str]:
    """Break a command that is too long before an option, with a backslash."""
    if len(row) <= width or not row.lstrip().startswith("fedbandit "):
        return [row]
    margin = " " * (len(row) - len(row.lstrip()))
    pieces = re.split(r" (?=--)", row.lstrip())
    lines = [margin + pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + len(piece) + 3 <= width:
            lines[-1] += f" {piece}"
        else:
            lines[-1] += " \\"
            lines.append(f"{margin}  {piece}")
    return lines


def _refuse_unknown_options(
    parser: ArgumentParser, words: Iterable[str], options: Iterable[str]
) -> None:
    known = ["-h", "--help", *options]
    for word in words:
        name = word.partition("=")[0]
        if word == "--":
            return
        if name.startswith("-") and not name.lstrip("-")[:1].isdigit() and name not in known:
            parser.error(str(unknown("option", name, {*known[1:]})))
