"""The files of a log: their names, their order, and their lines."""

import re
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

from fedbandit.errors import DataError, complaint

NDJSON, PARQUET = ".ndjson", ".parquet"
LINES = (NDJSON, ".jsonl", ".json")
_SEGMENT = re.compile(r"decisions-(\d{6,})\.(?:ndjson|parquet)")

Sources = str | PathLike[str] | Iterable[str | PathLike[str]]


def segment(directory: Path, number: int) -> Path:
    """Return the path of the file with this number in a log's directory."""
    return directory / f"decisions-{number:06d}{NDJSON}"


def segments(directory: Path) -> list[Path]:
    """Return the files of a log's directory, the oldest first.

    While a file is turned into Parquet both may be there: the line file is left out then.
    """
    by_number: dict[int, Path] = {}
    for path in sorted(directory.iterdir()):  # .ndjson sorts before .parquet
        if found := _SEGMENT.fullmatch(path.name):
            by_number[int(found[1])] = path
    return [by_number[number] for number in sorted(by_number)]


def files_of(sources: Sources) -> list[Path]:
    """Return the files that paths name; a directory stands for the files of the log in it."""
    given = [sources] if isinstance(sources, str | PathLike) else list(sources)
    if not given:
        raise DataError("logs: no file was given. Name a log's directory, or its files.")
    found: list[Path] = []
    for path in map(Path, given):
        inside = segments(path) if path.is_dir() else [path]
        if not inside:
            expected = "files named decisions-NUMBER.ndjson or .parquet"
            fix = "Give the directory that was passed as log, or name files."
            raise DataError(
                complaint(str(path), got="a directory without a log", expected=expected, fix=fix)
            )
        found += inside
    return found


def lines_of(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Yield the lines that are not empty: number, bytes without the end, whether it has an end."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if text := line.strip():
                    yield number, text, line.endswith(b"\n")
    except OSError as error:
        fix = "Check the path and its permissions."
        raise DataError(f"{path}: cannot be read: {error.strerror or error}. {fix}") from error
