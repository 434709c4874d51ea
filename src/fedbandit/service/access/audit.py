"""The audit log: who asked for what, when, from where, and what came of it, as lines of JSON.

Lines are written by a thread of their own, so that no request waits for them. Refusals of one kind
from one address are counted for a second and share a line: a flood cannot fill the disk, nor push
out what matters. The file is replaced when it has reached half of what both may take together; the
one before it is kept as ``FILE.1``.
"""

import getpass
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

import msgspec

MOST_BYTES: Final = 100_000_000
_MOST_WAITING = 10_000
_MOST_REFUSED = 1000
_EVERY = 1.0

Line = dict[str, object]


class AuditLog:
    """Writes lines to a file of its owner's alone, at most ``most_bytes`` with the one before it.

    ``failed`` is called with the error if the file cannot be written; lines are dropped then, and
    counted in a line once it can.
    """

    def __init__(
        self,
        path: Path,
        *,
        most_bytes: int = MOST_BYTES,
        failed: Callable[[OSError], None] = lambda _: None,
    ) -> None:
        self._path, self._most_bytes, self._failed = path, most_bytes, failed
        self._waiting: deque[Line] = deque()
        self._refused: Counter[tuple[str, int, str]] = Counter()
        self._dropped = 0
        self._stopping = Event()
        self._append(b"")  # or say now that it cannot be written
        self._thread = Thread(target=self._run, name="fedbandit-audit", daemon=True)
        self._thread.start()

    def note(self, what: str, **more: object) -> None:
        """Note something that was done."""
        if len(self._waiting) >= _MOST_WAITING:
            self._dropped += 1
        else:
            self._waiting.append({"time": time.time(), "what": what, **more})

    def refused(self, address: str, status: int, field: str) -> None:
        """Note a request that was refused."""
        key = (address, status, field)
        if key not in self._refused and len(self._refused) >= _MOST_REFUSED:
            key = ("others", status, field)
        self._refused[key] += 1

    def close(self) -> None:
        """Write what waits, and stop."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        lines = self._taken()
        if not lines:
            return
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        try:
            self._append(data)
        except OSError as error:
            self._dropped += len(lines)
            self._failed(error)

    def _taken(self) -> list[Line]:
        waiting = len(self._waiting)
        lines = [self._waiting.popleft() for _ in range(waiting)]
        refused, self._refused = self._refused, Counter()
        now = time.time()
        lines += [
            {"time": now, "what": "refused", "from": address, "status": status} | _counted(field, n)
            for (address, status, field), n in refused.items()
        ]
        dropped, self._dropped = self._dropped, 0
        return [*lines, {"time": now, "what": "dropped", "count": dropped}] if dropped else lines

    def _append(self, data: bytes) -> None:
        append_private(self._path, data)
        if self._path.stat().st_size > self._most_bytes // 2:
            os.replace(self._path, self._path.with_name(f"{self._path.name}.1"))


def _counted(field: str, number: int) -> Line:
    return {"field": field, "count": number}


def append_private(path: Path, data: bytes) -> None:
    """Append to a file, which is made for its owner alone, in one write."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode=0o600)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)


def note_locally(path: Path, what: str, **more: object) -> None:
    """Append one line about something done by a command, with the user who did it."""
    who = str(os.getuid()) if hasattr(os, "getuid") else ""
    with suppress(KeyError, OSError):
        who = getpass.getuser()
    line: Line = {"time": time.time(), "what": what, "user": who, **more}
    append_private(path, msgspec.json.encode(line) + b"\n")
