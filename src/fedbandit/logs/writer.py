"""Write a log: a line at a time, in files that are bounded in size and in number.

A line is written by one call of the system, so a process that is killed leaves whole lines and at
most one torn at the end; the next start ends that line, and readers count and skip it. A log is a
copy for people and tools: what an agent needs to go on is in its state_dir.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from fedbandit import file_lock
from fedbandit.core.checks import whole
from fedbandit.errors import InvalidParameter, OutputError, complaint, missing_extra
from fedbandit.logs.files import NDJSON, PARQUET, segment, segments
from fedbandit.logs.records import FORMAT, Activated, Decided, Opened, Record, Rewarded, line_of

_log = logging.getLogger(__name__)

MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class LogTo:
    """Where a log is written, and how much of it is kept.

    ``file_bytes``: a file that has reached this size is closed, and another begun.
    ``total_bytes``: beyond this, the oldest files are deleted. ``parquet``: closed files are turned
    into Parquet in the background (needs pyarrow: ``pip install 'fedbandit[logs]'``).
    """

    directory: str | os.PathLike[str]
    file_bytes: int = 64 * MEGABYTE
    total_bytes: int = 1024 * MEGABYTE
    parquet: bool = False

    def __post_init__(self) -> None:
        whole("file_bytes", self.file_bytes, least=4096)
        whole("total_bytes", self.total_bytes, least=2 * self.file_bytes, why="twice file_bytes")
        if not str(self.directory):
            fix = "Name a directory; it is made if it is not there."
            raise InvalidParameter(complaint("log", got="''", expected="a directory", fix=fix))


class LogWriter:
    """An open log. Thread-safe. If the disk fails, records are lost and counted, nothing raises.

    One process at a time may write a directory. ``lost``: records that could not be written.
    """

    def __init__(
        self,
        to: LogTo | str | os.PathLike[str],
        *,
        model: str = "",
        agent: str = "",
        recipe: str = "",
        params: Mapping[str, Any] | None = None,
        encoding: Any = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._to = to if isinstance(to, LogTo) else LogTo(to)
        self._head = Opened(
            format=FORMAT,
            model=model,
            agent=agent,
            recipe=recipe,
            params=params or {},
            encoding=encoding,
        )
        self._clock, self._lock, self.lost = clock, Lock(), 0
        self._handle: int | None = None
        self._converting: Thread | None = None
        self._directory = Path(self._to.directory)
        if self._to.parquet and find_spec("pyarrow") is None:  # or the first rotation would fail
            raise missing_extra("pyarrow", "logs", "a log in Parquet")
        self._held = self._hold()
        try:
            self._resume()
        except OSError as error:
            self.close()
            raise _unwritable(self._directory, error) from error

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return self._directory

    def decided(self, decision: Decided) -> None:
        """Write a decision."""
        self._append(decision)

    def rewarded(self, id: str, reward: float, *, default: bool = False) -> None:
        """Write a decision's reward."""
        self._append(Rewarded(id=id, reward=reward, time=self.now(), default=default))

    def activated(self, id: str) -> None:
        """Write that a deferred decision was put into effect."""
        self._append(Activated(id=id, time=self.now()))

    def now(self) -> float:
        """Return the time that records have, to the millisecond."""
        return round(self._clock(), 3)

    def close(self) -> None:
        """Close the file, wait for Parquet, and let another process write here."""
        with self._lock:
            self._close_file()
            converting, self._converting = self._converting, None
        if converting is not None:
            converting.join()
        if self._held is not None:
            file_lock.release(self._held)
            self._held = None

    def _append(self, record: Record) -> None:
        line = line_of(record)
        with self._lock:
            if self._handle is None:
                self.lost += 1
                return
            try:
                self._write(line)
                if self._size >= self._to.file_bytes:
                    self._rotate()
            except OSError as error:
                if not self.lost:
                    where = self._directory
                    _log.warning("log %s: records are lost: %s", where, error.strerror or error)
                self.lost += 1

    def _write(self, line: bytes) -> None:
        """Write a whole line, or nothing of it that would look like one."""
        assert self._handle is not None
        written = os.write(self._handle, line)
        try:
            while written < len(line):
                written += os.write(self._handle, line[written:])
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._handle, self._size)
            raise
        self._size += len(line)

    def _hold(self) -> int | None:
        """Make the directory and lock it, so that two writers do not mix their lines."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            held = file_lock.acquire(self._directory / "lock")
        except OSError as error:
            raise _unwritable(self._directory, error) from error
        if held is None:
            fix = "Give every agent a log directory of its own."
            raise OutputError(f"log: {self._directory} is written by another process. {fix}")
        return held

    def _resume(self) -> None:
        """Go on with the last file, or begin the first; end a line that was torn."""
        there = segments(self._directory)
        last = int(there[-1].stem.rpartition("-")[2]) if there else 0
        if there and there[-1].suffix == NDJSON:
            self._open(last)
            if self._size and not _ends_whole(there[-1]):
                self._write(b"\n")
            self._write_head()
            if self._size >= self._to.file_bytes:
                self._rotate()
        else:
            self._begin(last + 1)

    def _begin(self, number: int) -> None:
        self._open(number)
        self._write_head()

    def _write_head(self) -> None:
        head = self._head
        self._write(line_of(_at(head, self.now())))

    def _open(self, number: int) -> None:
        path = segment(self._directory, number)
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode=0o600)
        self._number, self._size = number, os.fstat(self._handle).st_size

    def _rotate(self) -> None:
        full = self._number
        self._close_file()
        self._begin(full + 1)
        if self._to.parquet:
            before = self._converting
            self._converting = Thread(target=self._to_parquet, args=(full, before), daemon=True)
            self._converting.start()
        self._delete_oldest()

    def _to_parquet(self, number: int, before: Thread | None) -> None:
        """Turn a closed file into Parquet, after those before it."""
        from fedbandit.logs.parquet import to_parquet

        if before is not None:
            before.join()
        path = segment(self._directory, number)
        try:
            to_parquet(path, path.with_suffix(PARQUET))
            path.unlink()
        except (OSError, OutputError) as error:  # the lines stay as they are
            _log.warning("log %s: not turned into Parquet: %s", path, error)

    def _delete_oldest(self) -> None:
        *old, _ = segments(self._directory)
        total = self._size + sum(_size(path) for path in old)
        for path in old:
            if total <= self._to.total_bytes:
                break
            total -= _size(path)
            path.unlink(missing_ok=True)

    def _close_file(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _at(head: Opened, now: float) -> Opened:
    from msgspec.structs import replace

    return replace(head, time=now)


def _ends_whole(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # turned into Parquet just now
        return 0


def _unwritable(path: Path, error: OSError) -> OutputError:
    fix = "Choose another directory, or repair the disk."
    return OutputError(f"log: cannot write {path}: {error.strerror or error}. {fix}")
