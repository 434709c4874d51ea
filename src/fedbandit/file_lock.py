"""A lock file that one process holds at a time; the system releases it if the process dies."""

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def acquire(path: Path, *, mode: int = 0o600, shared: bool = False) -> int | None:
    """Create and lock a file, and return its handle; None if another process holds the lock.

    ``shared``: others may hold it too, if they share it as well.

    On Windows, and on file systems without locks (some network disks), the handle is returned
    without a lock. Raises OSError if the file cannot be opened.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, mode=mode)
    if _locked(handle, shared=shared):
        return handle
    os.close(handle)
    return None


def share(handle: int) -> bool:
    """Let others share a lock from now on; return False if another process took it meanwhile."""
    return _locked(handle, shared=True)


def _locked(handle: int, *, shared: bool) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        pass
    return True


def is_at(handle: int, path: Path) -> bool:
    """Return whether the file behind a handle still has this name: not deleted, moved, replaced."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def release(handle: int) -> None:
    """Let other processes lock the file."""
    os.close(handle)
