"""PostgreSQL: for more than one coordinator, or where a database server is run already."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fedbandit.errors import StoreError
from fedbandit.service.storage.database import Dialect, Kind, Row, TakenKey

_SETTINGS = (  # milliseconds; a coordinator that hangs must not hold a model for ever
    "-c lock_timeout=10000 -c statement_timeout=20000 -c idle_in_transaction_session_timeout=20000 "
    "-c synchronous_commit=on"  # whatever the server's default: a commit is on disk
)
_NETWORK: Final = {  # a server that vanished is noticed within seconds
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,  # milliseconds
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
_ISOLATION: Final[dict[Kind, IsolationLevel]] = {
    "read": IsolationLevel.READ_COMMITTED,
    "snapshot": IsolationLevel.REPEATABLE_READ,
    "write": IsolationLevel.READ_COMMITTED,
}


class _PostgresSession:
    dialect = Dialect(
        blob="BYTEA",
        integer="BIGINT",
        real="DOUBLE PRECISION",
        clustered="",
        lock=" FOR UPDATE",
        alone="SELECT pg_advisory_xact_lock(7305447)",
    )

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement."""
        cursor = self._connection.execute(_placed(statement), values)
        return cursor.fetchall() if cursor.description else []

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each of some rows, in one round trip."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_placed(statement), rows)


class Postgres:
    """A server. Threads take connections from a small pool."""

    writers = 4

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[psycopg.Connection[Row]] = []

    @contextmanager
    def session(self, kind: Kind) -> Iterator[_PostgresSession]:
        """Open a transaction."""
        connection = None
        try:
            connection = self._idle_one() or self._connect()
            connection.isolation_level = _ISOLATION[kind]
            yield _PostgresSession(connection)
            connection.commit()
            self._idle.append(connection)
            connection = None
        except psycopg.IntegrityError as error:
            raise TakenKey(str(error)) from error
        except psycopg.errors.UndefinedTable as error:
            raise _no_store() from error
        except psycopg.Error as error:
            self.close()  # if one connection is broken, so are the others
            raise _failed(error) from error
        finally:
            if connection is not None:  # closing rolls back
                connection.close()

    def close(self) -> None:
        """Close the connections that are not in use."""
        while idle := self._idle_one():
            idle.close()

    def _idle_one(self) -> psycopg.Connection[Row] | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self) -> psycopg.Connection[Row]:
        options = conninfo_to_dict(self._url).get("options") or ""
        settings = f"{_SETTINGS} {options}".strip()
        return psycopg.connect(make_conninfo(self._url, options=settings, **_NETWORK))


def _placed(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _no_store() -> StoreError:
    fix = "fedbandit model create and fedbandit serve make one there; or correct the address."
    got = "a database with no store of fedbandit in it"
    return StoreError(f"There is no store at postgresql://... ({got}). {fix}")


def _failed(error: psycopg.Error) -> StoreError:
    said = " ".join(str(error).split()) or type(error).__name__
    fix = "Look at the address, the server and the rights of its user."
    return StoreError(f"The store postgresql://... cannot be read or written: {said}. {fix}")
