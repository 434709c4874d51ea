"""Stores by URL."""

from pathlib import Path

from fedbandit.errors import StoreError, complaint
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.database import Database
from fedbandit.service.storage.relational import SqlStore

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


def open_store(url: str, *, create: bool = False) -> Store:
    """Open the store that a URL names; with ``create``, make its file or tables if need be."""
    return SqlStore(open_database(url, create=create), create=create)


def open_database(url: str, *, create: bool) -> Database:
    """Return the database that a URL names; with ``create``, its file need not exist yet."""
    if url.startswith(_SQLITE) and url != _SQLITE:
        from fedbandit.service.storage.sqlite import Sqlite

        return Sqlite(Path(url.removeprefix(_SQLITE)), create=create)
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
