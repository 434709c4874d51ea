"""Errors are one line; --verbose adds where they came from; exit codes are those of the docs."""

import logging
import os
import re
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace

import pytest

from fedbandit.cli import main
from fedbandit.cli.catalogue import COMMANDS
from tests.cli.leaves import LEAVES

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("words", LEAVES)
def test_a_wrong_option_is_one_line(words: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main([*words.split(), "--no-such-option"])
    shown = capsys.readouterr()
    assert left.value.code == 2
    assert shown.out == ""
    assert shown.err.startswith(f"fedbandit {words}: error: option: got '--no-such-option'")
    assert shown.err.count("\n") == 1


def test_a_refusal_is_one_line_and_verbose_says_where(capsys: Capture) -> None:
    assert main(["list", "recipe"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    for words in (["list", "recipe", "--verbose"], ["--verbose", "list", "recipe"]):
        assert main(words) == 2
        told = capsys.readouterr().err
        assert told.startswith("Traceback (most recent call last):")
        assert "listing.py" in told
        assert told.splitlines()[-1].startswith("fedbandit: error: topic: got 'recipe'")


def test_a_fault_of_its_own_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(_: Namespace) -> None:
        raise KeyError("no\nsuch place")

    monkeypatch.setitem(COMMANDS, "list", replace(COMMANDS["list"], execute=fail))
    assert main(["list"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("fedbandit: error: a fault in fedbandit itself, KeyError: ")
    assert "--verbose" in told
    assert told.count("\n") == 1
    assert main(["list", "--verbose"]) == 1
    assert "Traceback" in capsys.readouterr().err


PROGRAM = """
import logging, sys
from dataclasses import replace
from fedbandit.cli import main
from fedbandit.cli.catalogue import COMMANDS

def tell(_):
    logging.getLogger("fedbandit").info("compiled scores in 2.0 s")
    logging.getLogger("fedbandit.client").info("of no interest")
    logging.getLogger("fedbandit.client").warning("of interest")

COMMANDS["list"] = replace(COMMANDS["list"], execute=tell)
sys.exit(main(["list"]))
"""


def test_compiling_is_told_as_information() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stderr == "fedbandit: compiled scores in 2.0 s\nfedbandit: of interest\n"


def test_notices_leave_nothing_behind(capsys: Capture) -> None:
    before = list(logging.getLogger("fedbandit").handlers)
    assert main(["list", "recipe"]) == 2
    assert logging.getLogger("fedbandit").handlers == before
    assert capsys.readouterr().err


COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9[0-7])[;m]")


def test_no_colour_where_it_is_not_wanted() -> None:
    reader, writer = os.openpty()
    subprocess.run(
        [sys.executable, "-m", "fedbandit.cli", "list", "worlds"],
        stdout=writer,
        check=True,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "60", "TERM": "xterm-256color"},
    )
    os.close(writer)
    shown = os.read(reader, 100_000).decode()
    os.close(reader)
    assert "synthetic" in shown
    assert not COLOUR.search(shown)
