"""Values of options, checked where they are read, and options that several commands share."""

from argparse import Action, ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path


def nearest(word: str, valid: Iterable[str]) -> str:
    """Say which valid word was probably meant, or name them all."""
    words = list(valid)
    close = get_close_matches(word, words, n=1)
    return f"did you mean {close[0]}?" if close else f"expected one of {', '.join(words)}"


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"got {text!r}; expected a whole number of at least 1")
    return int(text)


def word_of(valid: Iterable[str]) -> Callable[[str], str]:
    """Return a reader of one of some words."""
    words = list(valid)

    def read(text: str) -> str:
        if text not in words:
            raise ArgumentTypeError(f"got {text!r}; {nearest(text, words)}")
        return text

    return read


def words_of(valid: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a reader of some of these words with commas between them; each is kept once."""
    read_one = word_of(valid)

    def read(text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(read_one(word.strip()) for word in text.split(",")))

    return read


def add_out(parser: ArgumentParser, *, holds: str) -> Action:
    """Add the required --out."""
    return parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help=f"directory for {holds}"
    )


def add_jobs(parser: ArgumentParser) -> Action:
    """Add --jobs."""
    return parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="processes at work at once (default: the CPUs that may be used); changes no result",
    )
