"""SQLite: one file, in write-ahead mode, with every commit on disk before it is acknowledged."""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from fedbandit import file_lock
from fedbandit.errors import StoreError
from fedbandit.service.storage.database import Dialect, Kind, Row, TakenKey

_PATIENCE = 10.0  # seconds to wait for another process that writes
_BEGIN: Final[dict[Kind, str]] = {
    "read": "BEGIN",
    "snapshot": "BEGIN",
    "write": "BEGIN IMMEDIATE",
}


class _SqliteSession:
    dialect = Dialect(
        blob="BLOB", integer="INTEGER", real="REAL", clustered=" WITHOUT ROWID", lock="", alone=""
    )

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement."""
        return self._connection.execute(sql, values).fetchall()

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each of some rows."""
        self._connection.executemany(sql, rows)


class Sqlite:
    """A file. Threads take connections from a small pool; those that write take turns."""

    writers = 1

    def __init__(
        self,
        path: Path,
        *,
        create: bool,
        serving: Literal["coordinator", "worker"] | None = None,
    ) -> None:
        self._path, self._create = path, create
        self._idle: list[sqlite3.Connection] = []
        self._writing = Lock()
        if not create and not path.is_file():
            raise _no_store(path, "no such file")
        self._held = None if serving is None else _hold(path, alone=serving == "coordinator")

    @contextmanager
    def session(self, kind: Kind) -> Iterator[_SqliteSession]:
        """Open a transaction."""
        if kind != "write":
            with self._transaction(kind) as session:
                yield session
        else:
            with self._turn_to_write(), self._transaction(kind) as session:
                yield session

    def close(self) -> None:
        """Close the connections; the last one to go folds the log into the file."""
        while idle := self._idle_one():
            idle.close()
        held, self._held = self._held, None
        if held is not None:
            file_lock.release(held)

    @contextmanager
    def _turn_to_write(self) -> Iterator[None]:
        if not self._writing.acquire(timeout=_PATIENCE):
            said = f"another thread has been writing for {_PATIENCE:g} seconds"
            raise _failed(self._path, said)
        try:
            yield
        finally:
            self._writing.release()

    @contextmanager
    def _transaction(self, kind: Kind) -> Iterator[_SqliteSession]:
        connection = None
        try:
            connection = self._idle_one() or self._connect()
            connection.execute(_BEGIN[kind])
            yield _SqliteSession(connection)
            connection.execute("COMMIT")
            self._idle.append(connection)
            connection = None
        except sqlite3.IntegrityError as error:
            raise TakenKey(str(error)) from error
        except sqlite3.Error as error:
            if str(error).startswith("no such table"):
                raise _no_store(self._path, "a file with no store of fedbandit in it") from error
            raise _failed(self._path, str(error)) from error
        finally:
            if connection is not None:  # closing rolls back
                with suppress(sqlite3.Error):
                    connection.close()

    def _idle_one(self) -> sqlite3.Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self) -> sqlite3.Connection:
        if self._create:
            _make_private(self._path)
        connection = sqlite3.connect(
            self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            if self._create:  # the file remembers it; one that is only opened may not be ours
                _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def _hold(path: Path, *, alone: bool) -> int:
    """Lock the file beside a store that those who serve it share.

    A coordinator has to be ``alone`` when it comes: a worker that outlives its coordinator might
    still write, and what it writes belongs to the file as it was before a backup was restored.
    """
    lock, give_up = path.with_name(f"{path.name}.lock"), time.monotonic() + _PATIENCE
    while True:
        try:
            held = file_lock.acquire(lock, shared=not alone)
        except OSError as error:
            raise _failed(path, f"unable to open {lock}: {error.strerror or error}") from error
        if held is not None and (not alone or file_lock.share(held)):
            return held
        if held is not None:
            file_lock.release(held)
        if time.monotonic() > give_up:
            fix = "Stop it first; several coordinators need PostgreSQL."
            raise StoreError(f"Another coordinator serves sqlite:///{path}. {fix}")
        time.sleep(0.02)


def _make_private(path: Path) -> None:
    """Create the file for its owner alone; SQLite gives the log beside it the same rights."""
    with suppress(OSError):  # it is there, or SQLite says better what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600))


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Set write-ahead mode. SQLite does not wait here if another connection does the same."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
        time.sleep(0.005)


def _no_store(path: Path, got: str) -> StoreError:
    fix = "fedbandit model create and fedbandit serve make one there; or correct the path."
    return StoreError(f"There is no store at sqlite:///{path} ({got}). {fix}")


def _failed(path: Path, said: str) -> StoreError:
    fix = "Look at the path, its permissions and the space left."
    return StoreError(f"The store sqlite:///{path} cannot be read or written: {said}. {fix}")
