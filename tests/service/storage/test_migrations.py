"""A store is brought to the newest schema in place, once, whole or not at all."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from fedbandit.errors import StoreError
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.history import HOURLY
from fedbandit.service.bookkeeping.quotas import NO_QUOTAS
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.contract import Relaying
from fedbandit.service.storage.database import Session
from fedbandit.service.storage.migrations import MIGRATIONS, SCHEMA, migrate
from fedbandit.service.storage.opening import open_database, open_store
from fedbandit.service.tokens import digest_of
from fedbandit.wire import ShadowSums
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import client_of, make_model, make_token, overwrite, post

NEW = SCHEMA + 2

BEFORE_RELAYS = 7


def _add_column(session: Session) -> None:
    session.run(f"ALTER TABLE models ADD COLUMN note {session.dialect.blob}")
    session.run("UPDATE models SET note = ?", (b"first",))


def _add_table(session: Session) -> None:
    session.run("CREATE TABLE notes (note TEXT NOT NULL)")
    (note,) = session.run("SELECT note FROM models")[0]
    session.run("INSERT INTO notes VALUES (?)", (bytes(note).decode() + " second",))


STEPS = {SCHEMA: _add_column, SCHEMA + 1: _add_table}


def _migrated(url: str, steps: Mapping[int, Callable[[Session], None]], schema: int = NEW) -> None:
    database = open_database(url, create=False)
    try:
        migrate(database, steps, schema=schema)
    finally:
        database.close()


def _create(url: str) -> None:
    open_store(url, create=True).close()


def _rows(url: str, query: str) -> list[tuple[object, ...]]:
    database = open_database(url, create=False)
    with database.session("read") as session:
        rows = session.run(query)
    database.close()
    return rows


def _at_once(act: Callable[[], None]) -> None:
    """Do something in four threads at once; none of them fails."""
    start = threading.Barrier(4)

    def begin() -> None:
        start.wait()
        act()

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(begin) for _ in range(4)]:
            each.result()


@pytest.fixture
def old(store_url: str) -> str:
    make_model(store_url, "news", RECIPE)
    return store_url


def test_there_is_a_step_from_every_schema_since_the_oldest() -> None:
    assert sorted(MIGRATIONS) == list(range(SCHEMA - len(MIGRATIONS), SCHEMA))


def _without_places(url: str) -> None:
    """Make a store of the schema before agents had places."""
    overwrite(url, "DROP INDEX agents_by_place")
    overwrite(url, "ALTER TABLE agents DROP COLUMN place")
    overwrite(url, "UPDATE fedbandit SET version = 11")


def test_agents_of_a_store_from_before_places_have_none(old: str) -> None:
    with client_of(old) as client:
        post(client, sync_for(RECIPE, 1))
    _without_places(old)
    with client_of(old) as client:
        post(client, sync_for(RECIPE, 2, sequence=2))
        post(client, sync_for(RECIPE, 3), agent="tablet")
    opened = open_store(old)
    agents = opened.agents("news")
    assert (agents["phone"].place, agents["tablet"].place) == (None, 0)
    opened.close()


def _without_shadows(url: str) -> None:
    """Make a store of the schema before agents told of shadow mode."""
    _without_places(url)
    overwrite(url, "ALTER TABLE agents DROP COLUMN shadow")
    overwrite(url, "UPDATE fedbandit SET version = 8")


def test_agents_of_a_store_from_before_shadows_told_of_none(old: str) -> None:
    _without_shadows(old)
    opened = open_store(old)
    assert opened.shadows("news") == []
    with opened.lock("news") as locked:
        told = MergedUploads(uploads=1, shadow=ShadowSums(3))
        locked.merged_uploads(["phone"])
        locked.write(state=locked.state(), version=1, count=1, merged={"phone": told})
    assert opened.shadows("news") == [ShadowSums(3)]
    opened.close()


def _without_relaying(url: str) -> None:
    """Make a store of the schema before relays."""
    _without_shadows(url)
    overwrite(url, "DROP TABLE relaying")
    overwrite(url, f"UPDATE fedbandit SET version = {BEFORE_RELAYS}")


def test_no_model_of_a_store_from_before_relays_is_one(old: str) -> None:
    _without_relaying(old)
    opened = open_store(old)
    with opened.lock("news") as locked:
        assert locked.relaying() is None
        assert locked.model.relays == 0
        locked.write_relaying(base=b"1", outbox=b"2")
    assert opened.archive("news").relaying == Relaying(base=b"1", outbox=b"2")
    opened.close()


def _without_progress(url: str) -> None:
    """Make a store of schema 6."""
    _without_relaying(url)
    for column in ("rewards", "reward_total", "held"):
        overwrite(url, f"ALTER TABLE agents DROP COLUMN {column}")
    for table in ("periods", "refusals", "marks"):
        overwrite(url, f"DROP TABLE {table}")
    overwrite(url, "UPDATE fedbandit SET version = 6")


def test_agents_and_models_of_schema_6_get_a_progress(old: str) -> None:
    with client_of(old) as client:
        assert post(client, sync_for(RECIPE, 1)).version == 1
    _without_progress(old)
    opened = open_store(old)
    assert opened.periods("news") == []
    assert opened.totals() == {}
    (agent,) = opened.agents("news").values()
    assert (agent.uploads, agent.rewards, agent.held) == (1, 0, 0)
    opened.close()
    with client_of(old) as client:
        assert post(client, sync_for(RECIPE, 2, sequence=2)).version == 2
    opened = open_store(old)
    assert opened.totals()["news"].uploads == 1
    (agent,) = opened.agents("news").values()
    assert agent.held == 2
    opened.close()


def _without_lives_of_tokens(url: str) -> None:
    """Make a store of schema 5 of one of schema 8."""
    _without_progress(url)
    for column in ("expires", "used", "lifetime", "code"):
        overwrite(url, f"ALTER TABLE tokens DROP COLUMN {column}")
    overwrite(url, "UPDATE fedbandit SET version = 5")


def test_tokens_of_schema_5_are_good_for_ever(old: str) -> None:
    secret = make_token(old, model="news", agent="phone")
    _without_lives_of_tokens(old)
    opened = open_store(old)
    (token,) = opened.tokens()
    assert token.digest == digest_of(secret)
    assert (token.expires, token.used, token.lifetime, token.code) == (None, None, None, False)
    opened.close()


def test_a_store_of_schema_4_gets_quotas_and_a_past(old: str) -> None:
    _without_lives_of_tokens(old)
    for column in ("rules", "mass", "snapshot", "set_back", "told"):
        overwrite(old, f"ALTER TABLE models DROP COLUMN {column}")
    for column in ("since", "mass", "loose", "quarantined", "spent_at"):
        overwrite(old, f"ALTER TABLE agents DROP COLUMN {column}")
    for column in ("spent_observations", "spent_uploads"):
        overwrite(old, f"ALTER TABLE agents DROP COLUMN {column}")
    for table in ("snapshots", "parts", "groups_of"):
        overwrite(old, f"DROP TABLE {table}")
    overwrite(old, "UPDATE fedbandit SET version = 4")
    opened = open_store(old)
    assert opened.model("news").quotas == NO_QUOTAS
    assert opened.model("news").history == HOURLY
    opened.close()
    with client_of(old) as client:
        assert post(client, sync_for(RECIPE, 1)).version == 1
    opened = open_store(old)
    with opened.lock("news") as locked:
        assert [each.version for each in locked.past.snapshots()] == [0]
        assert locked.model.mass > 0.0
    opened.close()


def test_steps_are_taken_in_order_and_once(old: str) -> None:
    for _ in range(2):
        _migrated(old, STEPS)
    assert _rows(old, "SELECT version FROM fedbandit") == [(NEW,)]
    assert _rows(old, "SELECT note FROM notes") == [("first second",)]


def test_one_of_several_that_open_it_at_once_migrates_it(old: str) -> None:
    _at_once(lambda: _migrated(old, STEPS))
    assert _rows(old, "SELECT note FROM notes") == [("first second",)]


def test_a_step_that_fails_leaves_the_store_as_it_was(old: str) -> None:
    def fail(_: Session) -> None:
        raise ZeroDivisionError

    with suppress(ZeroDivisionError):
        _migrated(old, {SCHEMA: _add_column, SCHEMA + 1: fail})
    store = open_store(old)
    store.create(*new_model("other", RECIPE))  # with the columns of this schema
    assert [model.name for model in store.models()] == ["news", "other"]
    store.close()
    with pytest.raises(StoreError, match="note"):
        _rows(old, "SELECT note FROM models")


@pytest.mark.parametrize("create", [False, True])
def test_a_store_of_a_newer_schema_is_refused_and_stays(old: str, create: bool) -> None:
    _migrated(old, STEPS)
    with pytest.raises(StoreError, match=rf"schema {NEW}; .* reads schema {SCHEMA}\. Use the"):
        open_store(old, create=create)
    assert _rows(old, "SELECT version FROM fedbandit") == [(NEW,)]


@pytest.mark.parametrize("create", [False, True])
def test_a_store_older_than_every_step_is_refused_and_stays(old: str, create: bool) -> None:
    overwrite(old, "UPDATE fedbandit SET version = 1")
    with pytest.raises(StoreError, match=r"schema 1; .* Open it once with an older version"):
        open_store(old, create=create)
    assert _rows(old, "SELECT version FROM fedbandit") == [(1,)]


def test_a_store_is_made_by_several_at_once(store_url: str) -> None:
    _at_once(partial(_create, store_url))
    assert _rows(store_url, "SELECT version FROM fedbandit") == [(SCHEMA,)]


def test_a_file_is_set_to_write_ahead_mode_by_several_at_once(tmp_path: Path) -> None:
    """SQLite refuses at once, without its time-out, where two connections change the mode."""
    for turn in range(50):  # they met in about one file of twelve
        _at_once(partial(_create, f"sqlite:///{tmp_path}/{turn}.db"))
