"""What the store in SQL needs of a database: transactions, and words in which databases differ."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Row = tuple[Any, ...]
Kind = Literal["read", "snapshot", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """SQL that differs: names of types, tables in the order of their key, and locks.

    ``lock`` follows a SELECT and locks its rows; ``alone`` is a statement that lets one transaction
    at a time create tables, until it ends. Both are empty where a writing transaction is alone.
    """

    blob: str
    integer: str
    real: str
    clustered: str
    lock: str
    alone: str


class Session(Protocol):
    """One open transaction. SQL is written with ``?`` for values."""

    @property
    def dialect(self) -> Dialect:
        """The words in which this database differs from others."""
        ...

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one statement and return its rows."""
        ...

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each of some rows of values."""
        ...


class Database(Protocol):
    """A database that can be talked to from any thread.

    ``session`` is a transaction: committed, durably, when the block ends, rolled back if it raises.
    A ``snapshot`` sees one instant throughout; only a ``write`` may change something. What the
    database refuses becomes StoreError, a key that is taken TakenKey.
    """

    @property
    def writers(self) -> int:
        """How many transactions may write at once, to different models, before they take turns."""
        ...

    def session(self, kind: Kind) -> AbstractContextManager[Session]:
        """Open a transaction."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


class TakenKey(Exception):
    """A row with this key is there already."""


def places(values: Collection[object]) -> str:
    """Return as many question marks as there are values, for a list in SQL."""
    return ", ".join("?" * len(values))
