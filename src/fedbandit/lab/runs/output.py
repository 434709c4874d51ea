"""Output directories: made, tried out, and written by one run at a time."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbandit import file_lock
from fedbandit.errors import OutputError, complaint

TEMPORARY = ".part-"
"""How the names of unfinished files begin."""


def writable_directory(path: Path) -> Path:
    """Make a directory if need be, and write a temporary file in it to be sure that one can."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(prefix=TEMPORARY, dir=path):
            pass
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError raised in this block into an OutputError that names the path and a remedy."""
    try:
        yield
    except OutputError:  # has its message already, about a place inside this one
        raise
    except OSError as error:
        raise OutputError(
            complaint(
                "output",
                got=f"{str(path)!r}, which cannot be written ({error.strerror or error})",
                expected="a place with room for files, and nothing else in the way there",
                fix="Choose another --out, or make that one writable.",
            )
        ) from error


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Lock the directory against other runs; raise OutputError if one is writing to it.

    Without locks (see :mod:`fedbandit.file_lock`), two runs would do each other's work twice.
    """
    lock = directory / ".lock"
    with writing(lock):
        handle = file_lock.acquire(lock, mode=0o666)
    if handle is None:
        raise OutputError(
            complaint(
                "output directory",
                got=f"{str(directory)!r}, which another run is writing",
                expected="a directory of its own for every run at a time",
                fix="Wait for that run to end, or choose another --out.",
            )
        )
    try:
        yield
    finally:
        file_lock.release(handle)
