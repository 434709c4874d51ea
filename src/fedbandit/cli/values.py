"""Read the value of an option from text, or raise what argparse shows to the user."""

import re
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from math import inf, nan
from pathlib import Path


def _number(expected: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a reader of numbers that fit; text that is no number is nan, which never fits."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not fits(value):
            raise ArgumentTypeError(f"got {text!r}; expected {expected}")
        return value

    return read


above_zero = _number("a number above 0", lambda x: 0.0 < x < inf)
not_negative = _number("a number of at least 0", lambda x: 0.0 <= x < inf)
share = _number("a number strictly between 0 and 1", lambda x: 0.0 < x < 1.0)
seconds = _number("seconds, above 0 and at most a day (86400)", lambda x: 0.0 < x <= 86_400.0)


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def duration(text: str) -> float:
    """Read a time such as 90d, 12h, 30m or 45s, in seconds."""
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if found is None or not int(found[1]):
        raise ArgumentTypeError(f"got {text!r}; expected a time, such as 90d, 12h, 30m or 45s")
    return int(found[1]) * _UNITS[found[2]]


def number_or_none(text: str) -> float | None:
    """Read a number, or the word none."""
    try:
        return None if text.lower() == "none" else float(text)
    except ValueError:
        raise ArgumentTypeError(f"got {text!r}; expected a number, or none") from None


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"got {text!r}; expected a whole number of at least 1")
    return int(text)


def version(text: str) -> int:
    """Read the version of a model: a whole number of at least 0."""
    if not (text.isascii() and text.isdecimal()):
        raise ArgumentTypeError(f"got {text!r}; expected a version: a whole number of at least 0")
    return int(text)


def whole_number(text: str) -> int:
    """Read a whole number of at least 1, also one written like 1e9."""
    written = re.fullmatch(r"[0-9]+(\.[0-9]*)?[eE][+]?[0-9]+", text)
    value = float(text) if written else 0.0
    return int(value) if 1.0 <= value <= 2.0**53 and value.is_integer() else positive(text)


def positive_or_auto(text: str) -> int | str:
    """Read a whole number of at least 1, or the word auto."""
    return text if text == "auto" else positive(text)


def words(text: str) -> tuple[str, ...]:
    """Read words separated by commas; repeated words are kept once."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",")))


def numbers(text: str) -> tuple[int, ...]:
    """Read whole numbers of at least 1, separated by commas."""
    return tuple(positive(word) for word in words(text))


def number_list(text: str) -> tuple[float, ...]:
    """Read numbers of at least 0, separated by commas."""
    return tuple(not_negative(word) for word in words(text))


def host_name(text: str) -> str:
    """Read the name of a machine, without a port."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})", text):
        raise ArgumentTypeError(f"got {text!r}; expected a name as in http://NAME, without a port")
    return text


def directory(text: str) -> Path:
    """Read the path of a directory. Empty text is refused: Path takes it for the current one."""
    if not text.strip():
        raise ArgumentTypeError(f"got {text!r}; expected a directory (. is the current one)")
    return Path(text)


def when(seconds: float) -> str:
    """Return a time, in seconds since 1970, as date and time of this place."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
