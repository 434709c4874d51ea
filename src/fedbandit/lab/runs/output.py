"""Output directories: how they are made, checked, and kept to one run at a time."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbandit import file_lock
from fedbandit.errors import OutputError

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
        reason = error.strerror or error
        fix = "Choose another --out, or make that one writable."
        raise OutputError(f"{str(path)!r} cannot be written ({reason}). {fix}") from error


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Lock the directory against other runs; raise OutputError if one is writing to it.

    Without locks (see :mod:`fedbandit.file_lock`), two runs would do each other's work twice.
    """
    lock = directory / ".lock"
    with writing(lock):
        handle = file_lock.acquire(lock, mode=0o666)
    if handle is None:
        fix = "Wait for it to end, or choose another --out."
        raise OutputError(f"another run is writing to {str(directory)!r}. {fix}")
    try:
        yield
    finally:
        file_lock.release(handle)
