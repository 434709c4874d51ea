"""The contract of every store, on SQLite and on a real PostgreSQL, and what is theirs alone."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fedbandit import errors
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_database, open_store
from fedbandit.testing import OpenStore, StoreContract
from fedbandit.testing.store_contract import MERGED, write
from fedbandit.testing.token_contract import NEWS, NEWS_STATE
from tests.service.running import overwrite


class TestEveryStore(StoreContract):
    @pytest.fixture
    def open_store(self, store_url: str) -> OpenStore:
        return partial(open_store, store_url, create=True)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url, create=True)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "lives", [b"", b"\xc1", b"\x91\x94\xc4\x01a\x00\x00", b"\x80", b"\x91\xc0"]
)
def test_merged_uploads_that_cannot_be_read_are_named(
    store: Store, store_url: str, lives: bytes
) -> None:
    store.create(NEWS, NEWS_STATE)
    write(store, NEWS, {"phone-7": MERGED, "phone-8": MERGED})
    overwrite(store_url, "UPDATE agents SET lives = ? WHERE agent = 'phone-7'", lives)
    told = "merged uploads of agent 'phone-7' of model 'news'.* Restore a backup"
    with pytest.raises(errors.InvalidState, match=told):
        store.merged_uploads("news", "phone-7")
    with pytest.raises(errors.InvalidState, match=told):
        store.archive("news")
    with store.lock("news") as locked, pytest.raises(errors.InvalidState, match=told):
        locked.merged_uploads({"phone-7"})
    assert store.merged_uploads("news", "phone-8") == MERGED


def test_what_is_there_is_opened_again_without_making_it(store: Store, store_url: str) -> None:
    store.create(NEWS, NEWS_STATE)
    again = open_store(store_url)
    assert again.models() == [NEWS]
    again.close()


def test_the_files_of_a_new_store_are_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = open_store(f"sqlite:///{tmp_path}/c.db", create=True)
        store.create(NEWS, NEWS_STATE)
        assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}
        assert len(list(tmp_path.iterdir())) == 3  # the file, its log, the log's index
        store.close()
    finally:
        os.umask(before)


def test_a_file_has_one_coordinator_and_its_workers(
    sqlite_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedbandit.service.storage.sqlite._PATIENCE", 0.1)
    url = sqlite_url()
    first = open_store(url, create=True, serving="coordinator")
    workers = [open_store(url, serving="worker") for _ in range(2)]
    open_store(url).close()  # a command
    for left in (first, *workers):  # a worker that outlives its coordinator counts too
        with pytest.raises(errors.StoreError, match=r"Another coordinator serves .* PostgreSQL"):
            open_store(url, serving="coordinator")
        left.close()
    open_store(url, serving="coordinator").close()


def test_pinging_waits_for_the_disk(sqlite_url: Callable[[], str]) -> None:
    """SQLite writes nothing where nothing changes, and would find nothing wrong with a full one."""
    url = sqlite_url()
    store = open_store(url, create=True)
    log = Path(url.removeprefix("sqlite:///") + "-wal")
    before = log.read_bytes()
    store.ping()
    assert log.read_bytes() != before
    store.close()


def test_a_store_of_another_schema_is_refused(store_url: str) -> None:
    open_store(store_url, create=True).close()
    overwrite(store_url, "UPDATE fedbandit SET version = 99")
    with pytest.raises(errors.StoreError, match="schema"):
        open_store(store_url)


def test_a_store_that_is_not_there_is_not_made_by_looking(store_url: str) -> None:
    for _ in range(2):
        with pytest.raises(errors.StoreError, match="fedbandit model create and fedbandit serve"):
            open_store(store_url)


def test_looking_into_a_file_of_something_else_leaves_it_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE something (other TEXT)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(errors.StoreError, match="with no store of fedbandit in it"):
        open_store(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_a_database_of_something_else_is_no_store(store_url: str) -> None:
    database = open_database(store_url, create=True)
    with database.session("write") as session:
        session.run("CREATE TABLE something (other TEXT)")
    database.close()
    with pytest.raises(errors.StoreError, match="with no store of fedbandit in it"):
        open_store(store_url)
    store = open_store(store_url, create=True)
    assert store.models() == []
    store.close()


@pytest.mark.parametrize("url", ["", "mysql://x", "sqlite://x", "sqlite:///", "fedbandit.db"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(errors.StoreError, match="expected sqlite:///PATH or postgresql://"):
        open_store(url)


def test_a_server_that_is_away_gives_nothing_away() -> None:
    with pytest.raises(errors.StoreError) as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)
