"""The audit log: who asked for what, when, from where, and what came of it, as lines of JSON.

Lines are written by a thread of their own, so that no request waits for them. Refusals of one kind
from one address are counted for a second and share a line, and so does what one agent sends and
asks for again within a minute. The file is replaced when it has reached half of what both may take
together; the one before it is kept as ``FILE.1``. What is done rarely (tokens, models, operators)
is carried over from file to file. So a flood cannot fill the disk, nor push out what matters.
"""

import getpass
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final

import msgspec

MOST_BYTES: Final = 100_000_000
_MOST_WAITING = 10_000
_MOST_REFUSED = 1000
_EVERY = 1.0
_SHARED_SECONDS = 60.0
_MOST_ORIGINS = 8  # addresses and tokens of an agent that get a line of their own in that time
_FREQUENT: Final = frozenset(("sync", "join", "refused"))
_CARRIED: Final = 8  # a part in so many of the room for both files is for what is carried over

Line = dict[str, object]


class _Written(msgspec.Struct):
    """The part of a line that says what was done."""

    what: str


@dataclass(slots=True)
class _Repeated:
    """What an agent did since a time, more often than lines are written for."""

    since: float
    origins: set[tuple[object, object]] = field(default_factory=set)
    line: Line | None = None


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
        self._repeated: dict[tuple[str, object, object], _Repeated] = {}
        self._sharing = Lock()
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

    def repeated(
        self, what: str, *, address: str, token: str | None, received: int, sent: int, **who: object
    ) -> None:
        """Note what agents do all the time; ``who`` is an agent and its model.

        The first one is a line, as are those from other addresses, or with other tokens. The next
        ones within a minute share one, with their number, the sums of bytes, and the last origin.
        """
        now, key = time.time(), (what, who.get("model"), who.get("agent"))
        origin = {"from": address} | ({} if token is None else {"token": token})
        line = {**who, **origin, "status": 200, "received": received, "sent": sent}
        with self._sharing:
            known = self._repeated.get(key)
            if known is None and len(self._repeated) < _MOST_WAITING:
                known = self._repeated[key] = _Repeated(now)
            new = known is None or (address, token) not in known.origins
            if known is None or (new and len(known.origins) < _MOST_ORIGINS):
                if known is not None:
                    known.origins.add((address, token))
                self.note(what, **line)
                return
            known.line = _joined(known.line, {"time": now, "what": what, **line})

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
        lines += self._shared(now)
        lines += [
            {"time": now, "what": "refused", "from": address, "status": status} | _counted(field, n)
            for (address, status, field), n in refused.items()
        ]
        dropped, self._dropped = self._dropped, 0
        return [*lines, {"time": now, "what": "dropped", "count": dropped}] if dropped else lines

    def _shared(self, now: float) -> list[Line]:
        """Return the lines that were shared for long enough; all of them at the end."""
        whole, lines = self._stopping.is_set(), list[Line]()
        with self._sharing:
            for key, each in [*self._repeated.items()]:
                if whole or not each.since <= now < each.since + _SHARED_SECONDS:
                    del self._repeated[key]
                    lines += [] if each.line is None else [each.line]
        return lines

    def _append(self, data: bytes) -> None:
        append_private(self._path, data)
        if self._path.stat().st_size > self._most_bytes // 2:
            before = self._path.with_name(f"{self._path.name}.1")
            carried = _rare_lines(before, self._most_bytes // _CARRIED)
            os.replace(self._path, before)
            if carried:
                append_private(self._path, carried)


def _joined(first: Line | None, second: Line) -> Line:
    """Return one line for several; ``first`` is such a line, or None."""
    if first is None:
        return second | {"count": 1}
    sums = {name: _whole(first, name) + _whole(second, name) for name in ("received", "sent")}
    return first | second | sums | {"count": _whole(first, "count") + 1}


def _whole(line: Line, name: str) -> int:
    value = line[name]
    return value if isinstance(value, int) else 0


def _rare_lines(path: Path, most: int) -> bytes:
    """Return the last lines of a file about what is done rarely; none if it is not there."""
    kept, size = deque[bytes](), 0
    with suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            with suppress(msgspec.DecodeError):  # cut off by a full disk
                if msgspec.json.decode(line, type=_Written).what not in _FREQUENT:
                    kept.append(line)
                    size += len(line)
            while size > most:
                size -= len(kept.popleft())
    return b"".join(kept)


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
