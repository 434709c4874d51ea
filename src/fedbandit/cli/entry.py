"""Parse the command line, execute the command, turn errors into messages and exit codes."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from typing import Any

import fedbandit
from fedbandit.cli.command import Command
from fedbandit.cli.commands.advise import ADVISE
from fedbandit.cli.commands.agent import AGENT
from fedbandit.cli.commands.beyond import BEYOND
from fedbandit.cli.commands.edge import EDGE
from fedbandit.cli.commands.fleet import FLEET
from fedbandit.cli.commands.listing import LIST
from fedbandit.cli.commands.model import MODEL
from fedbandit.cli.commands.plot import PLOT
from fedbandit.cli.commands.reproduce import REPRODUCE
from fedbandit.cli.commands.run import RUN
from fedbandit.cli.commands.serve import SERVE
from fedbandit.cli.commands.table import TABLE
from fedbandit.cli.commands.token import TOKEN
from fedbandit.errors import FedbanditError, missing_extra, unknown

COMMANDS: dict[str, Command] = {
    each.name: each
    for each in (
        RUN,
        REPRODUCE,
        BEYOND,
        PLOT,
        TABLE,
        ADVISE,
        LIST,
        SERVE,
        MODEL,
        AGENT,
        TOKEN,
        EDGE,
        FLEET,
    )
}
WHAT_IT_IS = "Federated contextual linear bandits that send sketches, not data."

BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for bad input, 130 after Ctrl-C."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal shows ? for other letters
    chosen = _parse(list(sys.argv[1:] if arguments is None else arguments))
    try:
        _execute(chosen)
    except KeyboardInterrupt:
        how = "continues from here" if COMMANDS[chosen.command].resumes(chosen) else "starts over"
        print(f"fedbandit: interrupted; the same command {how}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, `head` for example, has closed the pipe
        _drop_output()
    except FedbanditError as error:
        return _refuse(error, str(error))
    except MemoryError as error:
        fix = "Ask for fewer rounds, arms or dimensions, or fewer --jobs."
        return _refuse(error, f"out of memory: {error or 'allocation failed'}. {fix}")
    except OSError as error:
        fix = "Check the path and the free space."
        return _refuse(error, f"cannot read or write: {error}. {fix}")
    return 0


def _refuse(error: BaseException, message: str) -> int:
    """Print an error as one line, after flushing what the command has printed."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    print("fedbandit: error:", message, *getattr(error, "__notes__", []), file=sys.stderr)
    return BAD_INPUT


def _drop_output() -> None:
    """Discard output that is still buffered: Python would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _execute(arguments: Namespace) -> None:
    command = COMMANDS[arguments.command]
    try:
        command.chosen(arguments).execute(arguments)
        sys.stdout.flush()
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "fedbandit":
            raise
        raise missing_extra(package, command.extra, f"fedbandit {command.name}") from error


def _parse(given: list[str]) -> Namespace:
    """Parse the words. Misspelt ones are refused first: argparse would ask for missing ones."""
    whole = ArgumentParser(
        "fedbandit", **_texts(WHAT_IT_IS, "fedbandit reproduce --quick --out demo")
    )
    number = f"fedbandit {fedbandit.__version__}"
    whole.add_argument("--version", action="version", version=number)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    place = next((i for i, word in enumerate(given) if not word.startswith("-")), len(given))
    _refuse_unknown_options(whole, given[:place], ["--version"])
    for name, command in COMMANDS.items():
        texts = _texts(command.summary, command.example)
        parser = commands.add_parser(name, help=command.summary, **texts)
        options = _define(parser, command)
        if given[place : place + 1] == [name]:
            _refuse_unknown_verb(parser, given[place + 1 :], command)
            _refuse_unknown_options(parser, given[place + 1 :], options)
    if place < len(given) and given[place] not in COMMANDS:
        whole.error(str(unknown("command", given[place], COMMANDS)))
    return whole.parse_args(given)


def _define(parser: ArgumentParser, command: Command) -> list[str]:
    """Add a command's options and verbs to its parser; return the names of all those options."""
    names: list[str] = []

    def add(*words: str, **how: Any) -> None:
        names.extend(parser.add_argument(*words, **how).option_strings)

    command.define(add)
    if command.verbs:
        below = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for verb in command.verbs:
            part = below.add_parser(verb.name, help=verb.summary, **_texts(verb.summary))
            names += _define(part, verb)
    return names


def _texts(description: str, example: str = "") -> dict[str, Any]:
    indented = "\n".join(f"  {line}".rstrip() for line in example.splitlines())
    return {
        "description": description,
        "epilog": f"example:\n{indented}" if example else None,
        "allow_abbrev": False,
        "formatter_class": RawDescriptionHelpFormatter,
    }


def _refuse_unknown_verb(parser: ArgumentParser, words: Sequence[str], command: Command) -> None:
    verbs = [verb.name for verb in command.verbs]
    if verbs and words and not words[0].startswith("-") and words[0] not in verbs:
        parser.error(str(unknown("verb", words[0], verbs)))


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
