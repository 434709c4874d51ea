"""Reads the command line, calls the command, and turns errors into messages and exit codes."""

import os
import sys
from argparse import Action, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from typing import Any

import fedbandit
from fedbandit.cli.command import Command
from fedbandit.cli.commands.advise import ADVISE
from fedbandit.cli.commands.beyond import BEYOND
from fedbandit.cli.commands.edge import EDGE
from fedbandit.cli.commands.fleet import FLEET
from fedbandit.cli.commands.list_ import LIST
from fedbandit.cli.commands.model import MODEL
from fedbandit.cli.commands.plot import PLOT
from fedbandit.cli.commands.reproduce import REPRODUCE
from fedbandit.cli.commands.run import RUN
from fedbandit.cli.commands.serve import SERVE
from fedbandit.cli.commands.token import TOKEN
from fedbandit.errors import FedbanditError, complaint, missing_extra, unknown

COMMANDS: dict[str, Command] = {
    each.name: each
    for each in (RUN, REPRODUCE, BEYOND, PLOT, ADVISE, LIST, SERVE, MODEL, TOKEN, EDGE, FLEET)
}
WHAT_IT_IS = "Federated contextual linear bandits that send sketches, not data."

BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 2 for bad input, 130 after Ctrl-C."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal gets ? for what it lacks
    chosen = _parse(list(sys.argv[1:] if arguments is None else arguments))
    try:
        _execute(chosen)
    except KeyboardInterrupt:
        how = "goes on from here" if COMMANDS[chosen.command].resumes(chosen) else "begins anew"
        print(f"fedbandit: interrupted; the same command {how}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        _drop_output()
    except FedbanditError as error:
        return _refuse(error, str(error))
    except MemoryError as error:
        fix = "Ask for fewer rounds, arms or dimensions, or fewer --jobs."
        said = str(error) or "no memory left"
        return _refuse(error, complaint("memory", got=said, expected="work that fits", fix=fix))
    except OSError as error:
        fix = "Free some space, or write elsewhere."
        said = complaint("files", got=str(error), expected="places to read and write", fix=fix)
        return _refuse(error, said)
    return 0


def _refuse(error: BaseException, message: str) -> int:
    """Print one line about an error, after what was printed before it, if that can be written."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    print("fedbandit: error:", message, *getattr(error, "__notes__", []), file=sys.stderr)
    return BAD_INPUT


def _drop_output() -> None:
    """Give up what is still to be printed, which Python would try to write once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _execute(chosen: Namespace) -> None:
    command = COMMANDS[chosen.command]
    try:
        command.execute(chosen)
        sys.stdout.flush()
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "fedbandit":
            raise
        raise missing_extra(package, command.extra, f"fedbandit {chosen.command}") from error


def _parse(given: list[str]) -> Namespace:
    """Read the words. Misspelt ones are answered first: argparse would ask for missing ones."""
    whole = ArgumentParser(
        "fedbandit", **_texts(WHAT_IT_IS, "fedbandit reproduce --quick --out demo")
    )
    number = f"fedbandit {fedbandit.__version__}"
    about = whole.add_argument("--version", action="version", version=number)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    place = next((i for i, word in enumerate(given) if not word.startswith("-")), len(given))
    _refuse_unknown_options(whole, given[:place], [about])
    for name, command in COMMANDS.items():
        texts = _texts(command.summary, command.example)
        parser = commands.add_parser(name, help=command.summary, **texts)
        options = command.define(parser)
        if given[place : place + 1] == [name]:
            _refuse_unknown_options(parser, given[place + 1 :], options)
    if place < len(given) and given[place] not in COMMANDS:
        whole.error(str(unknown("command", given[place], COMMANDS)))
    return whole.parse_args(given)


def _texts(description: str, example: str) -> dict[str, Any]:
    indented = "\n".join(f"  {line}".rstrip() for line in example.splitlines())
    return {
        "description": description,
        "epilog": f"example:\n{indented}",
        "allow_abbrev": False,
        "formatter_class": RawDescriptionHelpFormatter,
    }


def _refuse_unknown_options(
    parser: ArgumentParser, words: Iterable[str], options: Iterable[Action]
) -> None:
    known = ["-h", "--help", *(name for option in options for name in option.option_strings)]
    for word in words:
        name = word.partition("=")[0]
        if word == "--":
            return
        if name.startswith("-") and not name.lstrip("-")[:1].isdigit() and name not in known:
            parser.error(str(unknown("option", name, known[1:])))
