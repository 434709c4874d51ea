"""Parse the command line, execute the command, turn errors into messages and exit codes."""

import logging
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper

from fedbandit.cli.catalogue import COMMANDS
from fedbandit.cli.parsing import BAD_INPUT, parse
from fedbandit.cli.reporting import folded
from fedbandit.errors import FedbanditError, missing_extra

FAULT = 1
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0, 1 for a fault in fedbandit itself (or what doctor found), 2 for bad input, 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal shows ? for other letters
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = parse(["help"] if given in ([], ["-h"], ["--help"]) else given, COMMANDS)
    try:
        with _notices():
            return _execute(chosen)
    except KeyboardInterrupt:
        how = "continues from here" if COMMANDS[chosen.command].resumes(chosen) else "starts over"
        print(f"fedbandit: interrupted; the same command {how}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, `head` for example, has closed the pipe
        _drop_output()
        return 0
    except FedbanditError as error:
        return _refuse(error, str(error), chosen)
    except MemoryError as error:
        fix = "Ask for fewer rounds, arms or dimensions, or fewer --jobs."
        return _refuse(error, f"out of memory: {error or 'allocation failed'}. {fix}", chosen)
    except OSError as error:
        fix = "Check the path and the free space."
        return _refuse(error, f"cannot read or write: {error}. {fix}", chosen)
    except Exception as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        fix = "Please report it, with what --verbose adds to the same command."
        _refuse(error, f"a fault in fedbandit itself, {what}. {fix}", chosen)
        return FAULT


def _execute(arguments: Namespace) -> int:
    """Run the command; a command that returns a number has chosen its exit code."""
    command = COMMANDS[arguments.command]
    try:
        code = command.chosen(arguments).execute(arguments)
        sys.stdout.flush()
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "fedbandit":
            raise
        raise missing_extra(package, command.extra, f"fedbandit {command.name}") from error
    return code or 0


def _refuse(error: BaseException, message: str, arguments: Namespace) -> int:
    """Print an error as one line, after flushing what the command has printed."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
    if arguments.verbose:
        traceback.print_exception(error, file=sys.stderr)
    told = " ".join(["fedbandit: error:", message, *getattr(error, "__notes__", [])])
    print(folded(told, to=sys.stderr), file=sys.stderr)
    return BAD_INPUT


def _drop_output() -> None:
    """Discard output that is still buffered: Python would try to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _notices() -> Iterator[None]:
    """Print this program's warnings, and that it compiles, until the command logs by itself."""
    log = logging.getLogger("fedbandit")
    handler, before = logging.StreamHandler(sys.stderr), log.level
    handler.setFormatter(logging.Formatter("fedbandit: %(message)s"))
    handler.addFilter(
        lambda record: (
            not logging.root.handlers and (record.name == log.name or record.levelno > logging.INFO)
        )
    )
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
