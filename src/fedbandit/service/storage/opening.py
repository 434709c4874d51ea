"""Stores by URL."""

from pathlib import Path
from typing import Literal

from fedbandit.errors import StoreError, complaint
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.database import Database
from fedbandit.service.storage.relational import SqlStore

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


Serving = Literal["coordinator", "worker"]


def open_store(url: str, *, create: bool = False, serving: Serving | None = None) -> Store:
    """Open the store that a URL names; with ``create``, make its file or tables if need be.

    ``serving``: hold the lock of those that serve a file, until it is closed. A coordinator waits
    until all others, and their workers, have let go of it, and raises StoreError if they do not.
    """
    return SqlStore(open_database(url, create=create, serving=serving), create=create)


def open_database(url: str, *, create: bool, serving: Serving | None = None) -> Database:
    """Return the database that a URL names; with ``create``, its file need not exist yet."""
    if url.startswith(_SQLITE) and url != _SQLITE:
        from fedbandit.service.storage.sqlite import Sqlite

        return Sqlite(Path(url.removeprefix(_SQLITE)), create=create, serving=serving)
    if url.startswith(_POSTGRES):
        from fedbandit.service.storage.postgres import Postgres

        return Postgres(url)
    scheme = url.partition("://")[0] if "://" in url else url
    raise StoreError(
        complaint(
            "store",
            got=repr(scheme),
            expected="sqlite:///PATH or postgresql://USER@HOST/DATABASE",
            fix="An absolute path has four slashes: sqlite:////var/lib/fedbandit/fedbandit.db.",
        )
    )
