"""A lock file that one process holds at a time; the system releases it even if we are killed."""

import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def acquire(path: Path, *, mode: int = 0o600) -> int | None:
    """Lock a file, made if need be, and return its handle; None if another process holds it.

    Where the platform or the file system has no such locks (Windows, some network disks), the
    handle is returned and keeps no one out. Raises OSError if the file cannot be opened.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, mode=mode)
    if sys.platform == "win32":
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:  # this file system has no locks
        pass
    return handle


def release(handle: int) -> None:
    """Let other processes lock the file."""
    os.close(handle)
