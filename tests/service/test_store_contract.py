"""The contract of every store, on SQLite and on a real PostgreSQL."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from fedbandit import errors
from fedbandit.service.models.deduplication import KEPT, Life, MergedUploads
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.contract import Model, Store, Token
from fedbandit.service.storage.opening import open_database, open_store
from tests.service.made_uploads import GRAM, RECIPE
from tests.service.running import overwrite

NEWS, NEWS_STATE = new_model("news", RECIPE)
SHOP, SHOP_STATE = new_model("shop", GRAM)
PHONE = Token(digest=bytes(32), name="phone", model="news", agent="phone-7", created=1.5)
ADMIN = Token(digest=b"\xff" * 32, name="boss", model=None, agent=None, created=2.5)
LIVES = {bytes(16): Life(0, 2**62, 3), b"\xfe" * 16: Life(1, 1, 2**62)}
MERGED = MergedUploads(LIVES, 2, 1, 5, 6, 2**62, 1.25)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url, create=True)
    yield opened
    opened.close()


def _write(
    store: Store, model: Model, merged: dict[str, MergedUploads], *, state: bytes = b"s"
) -> None:
    with store.lock(model.name) as locked:
        locked.merged_uploads(merged)
        locked.write(state=state, version=model.version + 1, count=9, merged=merged)


def test_a_model_is_kept_as_it_was_made(store: Store, store_url: str) -> None:
    assert store.models() == []
    store.create(SHOP, SHOP_STATE)
    store.create(NEWS, NEWS_STATE)
    again = open_store(store_url)
    assert again.models() == [NEWS, SHOP]
    assert again.model("news") == NEWS
    assert again.state("shop") == (SHOP, SHOP_STATE)
    again.close()


def test_a_taken_name_is_refused_and_nothing_changes(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    with pytest.raises(errors.InvalidParameter, match="Model 'news' exists already"):
        store.create(replace(SHOP, name="news"), SHOP_STATE)
    assert store.state("news") == (NEWS, NEWS_STATE)


def test_unknown_names_are_answered_with_the_nearest(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    for act in (store.model, store.state, store.delete, store.archive):
        with pytest.raises(errors.UnknownName, match="Did you mean 'news'"):
            act("new")
    with pytest.raises(errors.UnknownName), store.lock("new"):
        pass
    with pytest.raises(errors.UnknownName):
        store.add_token(replace(PHONE, model="new"))
    with pytest.raises(errors.UnknownName):
        store.revoke("phone")


def test_what_a_lock_wrote_is_there_when_it_ends(store: Store, store_url: str) -> None:
    store.create(NEWS, NEWS_STATE)
    with store.lock("news") as locked:
        assert locked.model == NEWS
        assert locked.state() == NEWS_STATE
        assert locked.digest == sha256(NEWS_STATE).digest()
        assert locked.merged_uploads(["a", "b"]) == {"a": MergedUploads(), "b": MergedUploads()}
        locked.write(state=b"\x00new", version=1, count=7, merged={"a": MERGED})
        assert locked.digest == sha256(b"\x00new").digest()
    again = open_store(store_url)
    assert again.state("news") == (replace(NEWS, version=1, count=7), b"\x00new")
    with again.lock("news") as locked:
        assert locked.digest == sha256(b"\x00new").digest()
    assert again.merged_uploads("news", "a") == MERGED
    assert again.merged_uploads("news", "b") == MergedUploads()
    assert again.merged_uploads("shop", "a") == MergedUploads()
    again.close()


def test_a_lock_says_whom_tokens_of_its_model_open(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    store.create(SHOP, SHOP_STATE)
    other = replace(PHONE, digest=b"\x01" * 32, name="other", model="shop")
    for token in (PHONE, ADMIN, other):
        store.add_token(token)
    with store.lock("news") as locked:
        digests = [PHONE.digest, ADMIN.digest, other.digest, b"\x02" * 32]
        assert locked.opened(digests) == {PHONE.digest: "phone-7"}
        assert locked.opened([]) == {}


def test_a_lock_that_raises_leaves_everything(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    with suppress(ZeroDivisionError), store.lock("news") as locked:
        locked.write(state=b"new", version=1, count=7, merged={"a": MERGED})
        raise ZeroDivisionError
    assert store.state("news") == (NEWS, NEWS_STATE)
    assert store.merged_uploads("news", "a") == MergedUploads()


def test_merged_uploads_are_replaced_whole(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    _write(store, NEWS, {"a": MERGED, "b": MERGED})
    other = MergedUploads(
        {b"\xfe" * 16: Life(1, 2, 4), b"\x01" * 16: Life(2, 1, 5)}, 3, 1, 6, 7, 8, 9.5
    )
    _write(store, NEWS, {"a": other})
    assert store.merged_uploads("news", "a") == other
    assert store.merged_uploads("news", "b") == MERGED


def test_locks_take_turns_and_see_what_came_before(store: Store, store_url: str) -> None:
    store.create(NEWS, NEWS_STATE)
    others = [store, open_store(store_url)]

    def count(mine: Store) -> None:
        for _ in range(10):
            with mine.lock("news") as locked:
                before = locked.merged_uploads(["a"])["a"]
                merged = {"a": replace(before, uploads=before.uploads + 1)}
                version = locked.model.version + 1
                state = locked.state() + b"."
                locked.write(state=state, version=version, count=version, merged=merged)

    threads = [threading.Thread(target=count, args=(mine,)) for mine in others * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    model, state = store.state("news")
    assert (model.version, model.count, state) == (40, 40, NEWS_STATE + b"." * 40)
    assert store.merged_uploads("news", "a") == MergedUploads(uploads=40)
    others[1].close()


def test_deleting_a_model_takes_all_that_is_its_own(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    store.create(SHOP, SHOP_STATE)
    for model in (NEWS, SHOP):
        _write(store, model, {"a": MERGED})
    shop_token = Token(digest=b"2" * 32, name="till", model="shop", agent="a", created=1.0)
    for token in (PHONE, ADMIN, shop_token):
        store.add_token(token)
    store.delete("news")
    assert [model.name for model in store.models()] == ["shop"]
    assert store.merged_uploads("news", "a") == MergedUploads()
    assert store.merged_uploads("shop", "a") == MERGED
    assert store.tokens() == [ADMIN, shop_token]
    store.create(NEWS, NEWS_STATE)
    assert store.state("news") == (NEWS, NEWS_STATE)


def test_tokens_are_found_by_their_digest_until_they_are_revoked(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    store.add_token(PHONE)
    store.add_token(ADMIN)
    assert store.token(PHONE.digest) == PHONE
    assert store.token(ADMIN.digest) == ADMIN
    assert store.token(b"1" * 32) is None
    assert store.tokens() == [ADMIN, PHONE]
    with pytest.raises(errors.InvalidParameter, match="Token 'phone' exists already"):
        store.add_token(replace(PHONE, digest=b"1" * 32))
    store.revoke("phone")
    assert store.token(PHONE.digest) is None
    assert store.tokens() == [ADMIN]


def test_an_archive_is_the_model_again_elsewhere(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    store.add_token(PHONE)
    store.add_token(ADMIN)
    _write(store, NEWS, {"a": MERGED, "b": MergedUploads(seen=4.0)}, state=b"state")
    archive = store.archive("news")
    assert archive.tokens == [PHONE]
    store.delete("news")
    store.install(archive)
    assert store.archive("news") == archive
    with pytest.raises(errors.InvalidParameter, match="exists already"):
        store.install(replace(archive, model=replace(archive.model, name="other")))
    assert [model.name for model in store.models()] == ["news"]


def test_a_life_forgotten_is_gone_from_the_store(store: Store) -> None:
    store.create(NEWS, NEWS_STATE)
    merged = MergedUploads()
    for version in range(1, KEPT + 4):
        life, born = version.to_bytes(16), version - 1
        merged = merged.noting(life, born=born, sequence=1, version=version)
        _write(store, NEWS, {"a": merged})
        assert store.merged_uploads("news", "a") == merged
    assert len(store.merged_uploads("news", "a").lives) == KEPT


@pytest.mark.parametrize(
    "lives", [b"", b"\xc1", b"\x91\x94\xc4\x01a\x00\x00", b"\x80", b"\x91\xc0"]
)
def test_merged_uploads_that_cannot_be_read_are_named(
    store: Store, store_url: str, lives: bytes
) -> None:
    store.create(NEWS, NEWS_STATE)
    _write(store, NEWS, {"phone-7": MERGED, "phone-8": MERGED})
    overwrite(store_url, "UPDATE agents SET lives = ? WHERE agent = 'phone-7'", lives)
    told = "merged uploads of agent 'phone-7' of model 'news'.* Restore a backup"
    with pytest.raises(errors.InvalidState, match=told):
        store.merged_uploads("news", "phone-7")
    with pytest.raises(errors.InvalidState, match=told):
        store.archive("news")
    with store.lock("news") as locked, pytest.raises(errors.InvalidState, match=told):
        locked.merged_uploads({"phone-7"})
    assert store.merged_uploads("news", "phone-8") == MERGED


def test_a_store_that_answers_can_be_pinged(store: Store, store_url: str) -> None:
    store.ping()
    open_store(store_url).close()  # and is of the same schema as before


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
