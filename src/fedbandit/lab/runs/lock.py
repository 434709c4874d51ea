"""One writer per output directory."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedbandit.errors import OutputError, complaint
from fedbandit.lab.runs.store import writing

if sys.platform != "win32":
    import fcntl


@contextmanager
def sole_writer(directory: Path) -> Iterator[None]:
    """Hold the directory against other runs; the system lets go of it even if we are killed.

    Where there are no such locks (Windows, some network disks) nothing is held: two writers would
    do each other's work twice.
    """
    with writing(directory / ".lock"):
        handle = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, mode=0o666)
    try:
        _hold(handle, directory)
        yield
    finally:
        os.close(handle)


def _hold(handle: int, directory: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _busy(directory) from error
    except OSError:  # this file system has no locks
        return


def _busy(directory: Path) -> OutputError:
    return OutputError(
        complaint(
            "output directory",
            got=f"{str(directory)!r}, which another run is writing",
            expected="a directory of its own for every run at a time",
            fix="Wait for that run to end, or choose another --out.",
        )
    )
