"""Values of options, checked where they are read, and options that several commands share."""

import re
import tomllib
from argparse import Action, ArgumentParser, ArgumentTypeError
from math import inf, nan
from pathlib import Path
from typing import Any


def _number(text: str) -> float:
    """Read a number; what is none is nan, which lies in no range."""
    try:
        return float(text)
    except ValueError:
        return nan


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"got {text!r}; expected a whole number of at least 1")
    return int(text)


def seconds(text: str) -> float:
    """Read a time above 0, at most a day."""
    value = _number(text)
    if not 0.0 < value <= 86_400.0:
        raise ArgumentTypeError(f"got {text!r}; expected seconds, above 0 and at most a day")
    return value


def above_zero(text: str) -> float:
    """Read a finite number above 0."""
    value = _number(text)
    if not 0.0 < value < inf:
        raise ArgumentTypeError(f"got {text!r}; expected a number above 0")
    return value


def number_or_none(text: str) -> float | None:
    """Read a number, or the word none."""
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"got {text!r}; expected a number, or none") from None


def whole_number(text: str) -> int:
    """Read a whole number of at least 1, also one written like 1e9."""
    written = re.fullmatch(r"[0-9]+(\.[0-9]*)?[eE][+]?[0-9]+", text)
    value = float(text) if written else 0.0
    return int(value) if 1.0 <= value <= 2.0**53 and value.is_integer() else positive(text)


def share(text: str) -> float:
    """Read a number strictly between 0 and 1."""
    value = _number(text)
    if not 0.0 < value < 1.0:
        raise ArgumentTypeError(f"got {text!r}; expected a number strictly between 0 and 1")
    return value


def not_negative(text: str) -> float:
    """Read a finite number of at least 0."""
    value = _number(text)
    if not 0.0 <= value < inf:
        raise ArgumentTypeError(f"got {text!r}; expected a number of at least 0")
    return value


def numbers(text: str) -> tuple[int, ...]:
    """Read whole numbers of at least 1 with commas between them."""
    return tuple(positive(word) for word in words(text))


def setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE, the value as a spec file would write it; other text needs no quotes."""
    name, equals, written = (part.strip() for part in text.partition("="))
    if not (name and equals and written):
        raise ArgumentTypeError(f"got {text!r}; expected NAME=VALUE")
    try:
        return name, tomllib.loads(f"value = {written}")["value"]
    except tomllib.TOMLDecodeError:
        return name, written


def host_name(text: str) -> str:
    """Read the name of a machine, without a port."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})", text):
        raise ArgumentTypeError(f"got {text!r}; expected a name as in http://NAME, without a port")
    return text


def words(text: str) -> tuple[str, ...]:
    """Read words with commas between them; each is kept once."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",")))


def directory(text: str) -> Path:
    """Read the path of a directory; no text at all would be the current one."""
    if not text.strip():
        raise ArgumentTypeError(f"got {text!r}; expected a directory (. is the current one)")
    return Path(text)


def add_out(parser: ArgumentParser, *, holds: str) -> Action:
    """Add the required --out."""
    return parser.add_argument(
        "--out", type=directory, required=True, metavar="DIR", help=f"directory for {holds}"
    )


def add_allow_host(parser: ArgumentParser, *, when: str = "") -> Action:
    """Let a server without tokens answer to other names; ``when`` says under what condition."""
    return parser.add_argument(
        "--allow-host",
        type=host_name,
        action="append",
        default=[],
        metavar="NAME",
        help=f"{when}answer to this name too, besides localhost and the address listened at",
    )


def add_cafile(parser: ArgumentParser) -> Action:
    """Add --cafile, for whoever talks to a coordinator of a private authority."""
    return parser.add_argument(
        "--cafile",
        metavar="PEM",
        help="certificates to trust with https, in place of the system's",
    )


def add_jobs(parser: ArgumentParser) -> Action:
    """Add --jobs."""
    return parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="processes at work at once (default: the CPUs that may be used); changes no result",
    )


def add_trials(parser: ArgumentParser, *, quick: str) -> list[Action]:
    """Add how much a comparison at the paper's settings runs; ``quick`` says what --quick takes."""
    add = parser.add_argument
    return [
        add("--trials", type=positive, metavar="N", help="trials per setting (default: 20)"),
        add("--rounds", type=positive, metavar="N", help="rounds per trial (default: 20000)"),
        add("--quick", action="store_true", help=f"few and short trials: {quick}"),
    ]
