"""What every store of a coordinator must do."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, Protocol

import pytest
from msgspec import structs

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.service.bookkeeping.deduplication import KEPT, Life, MergedUploads
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.bookkeeping.quotas import Quotas, Spent
from fedbandit.service.bookkeeping.token import Token
from fedbandit.service.storage.contract import Model, Relaying, Store
from fedbandit.testing.past_contract import PARTS, PastContract
from fedbandit.testing.progress_contract import ProgressContract
from fedbandit.testing.token_contract import (
    ADMIN,
    NEWS,
    NEWS_STATE,
    PHONE,
    SHOP,
    SHOP_STATE,
    TokenContract,
)
from fedbandit.wire import Limits, ShadowSums


class OpenStore(Protocol):
    """Opens a store; the same one each time, empty the first time."""

    def __call__(self) -> Store:
        """Return the store, to be closed by the caller."""
        ...


LIVES = {bytes(16): Life(0, 2**62, 3), b"\xfe" * 16: Life(1, 1, 2**62)}
SPENT = Spent(0.5, 0.25, 8.0)
SHADOW = ShadowSums(9, 8, 7, 6, 5, 4, 3.5, -2.5, 1.5, 2.5, 7.0, 8.0, 0.25)
MERGED = MergedUploads(
    *(LIVES, 2, 1, 5, 6, 2**62, 1.25, 0.5, 7.5, SPENT, 3, True, 4, -2.5, 9, SHADOW, 7)
)


class StoreContract(PastContract, ProgressContract, TokenContract):
    """Tests of a store, by the words of ``fedbandit.service.storage.contract.Store``.

    Give a fixture ``open_store`` that returns a function without arguments. Each test calls it at
    least once: the first call makes an empty store, the others open the same store again, as
    another coordinator would. The tests close what they open.
    """

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[Store]:
        """Return a new, empty store."""
        opened = open_store()
        yield opened
        opened.close()

    def test_a_model_is_kept_as_it_was_made(self, store: Store, open_store: OpenStore) -> None:
        assert store.models() == []
        store.create(SHOP, SHOP_STATE)
        store.create(NEWS, NEWS_STATE)
        again = open_store()
        assert again.models() == [NEWS, SHOP]
        assert again.model("news") == NEWS
        assert again.state("shop") == (SHOP, SHOP_STATE)
        assert again.outline("shop") == (SHOP, sha256(SHOP_STATE).digest())
        again.close()

    def test_a_taken_name_is_refused_and_nothing_changes(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        with pytest.raises(InvalidParameter, match="Model 'news' exists already"):
            store.create(replace(SHOP, name="news"), SHOP_STATE)
        assert store.state("news") == (NEWS, NEWS_STATE)

    def test_unknown_names_are_answered_with_the_nearest(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        for act in (store.model, store.state, store.outline, store.delete, store.archive):
            with pytest.raises(UnknownName, match="Did you mean 'news'"):
                act("new")
        with pytest.raises(UnknownName), store.lock("new"):
            pass
        with pytest.raises(UnknownName):
            store.add_token(replace(PHONE, model="new"))
        with pytest.raises(UnknownName):
            store.revoke("phone")

    def test_what_a_lock_wrote_is_there_when_it_ends(
        self, store: Store, open_store: OpenStore
    ) -> None:
        store.create(NEWS, NEWS_STATE)
        with store.lock("news") as locked:
            assert locked.model == NEWS
            assert locked.state() == NEWS_STATE
            assert locked.digest == sha256(NEWS_STATE).digest()
            assert locked.merged_uploads(["a", "b"]) == {"a": MergedUploads(), "b": MergedUploads()}
            locked.write(state=b"\x00new", version=1, count=7, merged={"a": MERGED})
            assert locked.digest == sha256(b"\x00new").digest()
        again = open_store()
        assert again.state("news") == (replace(NEWS, version=1, count=7), b"\x00new")
        with again.lock("news") as locked:
            assert locked.digest == sha256(b"\x00new").digest()
        assert again.merged_uploads("news", "a") == MERGED
        assert again.merged_uploads("news", "b") == MergedUploads()
        assert again.merged_uploads("shop", "a") == MergedUploads()
        again.close()

    def test_a_lock_that_raises_leaves_everything(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        with suppress(ZeroDivisionError), store.lock("news") as locked:
            locked.write(state=b"new", version=1, count=7, merged={"a": MERGED})
            raise ZeroDivisionError
        assert store.state("news") == (NEWS, NEWS_STATE)
        assert store.merged_uploads("news", "a") == MergedUploads()

    def test_merged_uploads_are_replaced_whole(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        write(store, NEWS, {"a": MERGED, "b": MERGED})
        other = MergedUploads(
            {b"\xfe" * 16: Life(1, 2, 4), b"\x01" * 16: Life(2, 1, 5)}, 3, 1, 6, 7, 8, 9.5
        )
        write(store, NEWS, {"a": other})
        assert store.merged_uploads("news", "a") == other
        assert store.merged_uploads("news", "b") == MERGED

    def test_locks_take_turns_and_see_what_came_before(
        self, store: Store, open_store: OpenStore
    ) -> None:
        store.create(NEWS, NEWS_STATE)
        others = [store, open_store()]
        threads = [threading.Thread(target=_count_to_ten, args=(mine,)) for mine in others * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        model, state = store.state("news")
        assert (model.version, model.count, state) == (40, 40, NEWS_STATE + b"." * 40)
        assert store.merged_uploads("news", "a") == MergedUploads(uploads=40)
        others[1].close()

    def test_deleting_a_model_takes_all_that_is_its_own(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.create(SHOP, SHOP_STATE)
        for model in (NEWS, SHOP):
            write(store, model, {"a": MERGED})
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

    def test_what_a_relay_keeps_changes_with_the_state_or_not_at_all(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.create(SHOP, SHOP_STATE)
        with store.lock("news") as locked:
            assert locked.relaying() is None
            locked.write_relaying(base=b"base", outbox=b"one")
            locked.write(state=b"1", version=1, count=0, merged={})
        with suppress(ZeroDivisionError), store.lock("news") as locked:
            locked.write_relaying(base=b"other", outbox=b"lost")
            locked.write(state=b"2", version=2, count=0, merged={})
            raise ZeroDivisionError
        with store.lock("news") as locked:
            assert locked.relaying() == Relaying(base=b"base", outbox=b"one")
            locked.write_relaying(outbox=b"two")
        archive = store.archive("news")
        assert archive.relaying == Relaying(base=b"base", outbox=b"two")
        assert store.archive("shop").relaying is None
        store.delete("news")
        store.install(archive)
        with store.lock("news") as locked:
            assert locked.relaying() == archive.relaying
        store.delete("news")
        store.create(NEWS, NEWS_STATE)
        with store.lock("news") as locked:
            assert locked.relaying() is None

    def test_tallies_are_the_sums_of_merged_uploads(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.create(SHOP, SHOP_STATE)
        assert store.tallies() == {}
        write(store, NEWS, {"phone-7": MERGED, "phone-8": MERGED})
        assert store.tallies() == {"news": 2 * MERGED.uploads}

    def test_an_archive_is_the_model_again_elsewhere(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.add_token(PHONE)
        store.add_token(ADMIN)
        write(store, NEWS, {"a": MERGED, "b": MergedUploads(seen=4.0)}, state=b"state")
        with store.lock("news") as locked:
            locked.past.add_parts(PARTS)
        archive = store.archive("news")
        assert archive.tokens == [PHONE]
        assert archive.parts == PARTS
        store.delete("news")
        store.install(archive)
        assert store.archive("news") == archive
        with pytest.raises(InvalidParameter, match="exists already"):
            store.install(replace(archive, model=replace(archive.model, name="other")))
        assert [model.name for model in store.models()] == ["news"]

    def test_a_life_forgotten_is_gone_from_the_store(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        merged = MergedUploads()
        for version in range(1, KEPT + 4):
            life, born = version.to_bytes(16), version - 1
            merged = merged.noting(life, born=born, sequence=1, version=version)
            write(store, NEWS, {"a": merged})
            assert store.merged_uploads("news", "a") == merged
        assert len(store.merged_uploads("news", "a").lives) == KEPT

    def test_rules_are_kept_and_changed(self, store: Store, open_store: OpenStore) -> None:
        quotas, history = Quotas(observations=9, share=0.25), History(every=1.5, keep=3)
        news = replace(NEWS, relays=2)
        store.create(replace(news, quotas=quotas, history=history), NEWS_STATE)
        again = open_store()
        assert again.model("news") == replace(news, quotas=quotas, history=history)
        limits = Limits(arm_norm=1.5, reward=2.5, count=7)
        with store.lock("news") as locked:
            locked.set_rules(
                limits=limits, quotas=Quotas(uploads=2), history=History(by_agent=True)
            )
        expected = replace(news, limits=limits, quotas=Quotas(uploads=2))
        assert again.model("news") == replace(expected, history=History(by_agent=True))
        with store.lock("news") as locked:
            locked.set_rules(limits=limits, quotas=Quotas(), history=History(), relays=1, groups=5)
            assert locked.model.groups == 5
        model = again.model("news")
        assert (model.relays, model.groups, model.weighed, model.watched) == (1, 5, True, False)
        rules: Any = {"quotas": Quotas(), "history": History(), "groups": 5}
        with store.lock("news") as locked:
            locked.set_rules(limits=limits, **rules, watched=True)
        assert (again.model("news").relays, again.model("news").watched) == (1, True)
        again.close()

    def test_mass_and_the_last_setting_back_stay_unless_written(self, store: Store) -> None:
        store.create(replace(NEWS, groups=3), NEWS_STATE)
        with store.lock("news") as locked:
            told = b"\x00\xff"
            locked.write(state=b"s", version=4, count=2, merged={}, mass=2.5, set_back=4, told=told)
        write(store, NEWS, {})
        model = store.model("news")
        assert (model.version, model.mass, model.set_back) == (1, 2.5, 4)
        assert (model.groups, model.told) == (3, b"\x00\xff")

    def test_mass_is_scaled_for_one_model_and_its_agents(self, store: Store) -> None:
        for model in (NEWS, SHOP):
            store.create(replace(model, mass=8.0), NEWS_STATE)
            tiny = {"b": structs.replace(MERGED, mass=5e-324)}  # halves of it are no number
            write(store, model, {"a": structs.replace(MERGED, mass=3.0), **tiny})
        with store.lock("news") as locked:
            locked.past.scale_mass(0.25)
        assert [each.mass for each in store.models()] == [2.0, 8.0]
        assert [store.agents(name)["a"].mass for name in ("news", "shop")] == [0.75, 3.0]
        assert store.agents("news")["b"].mass == 0.0
        with store.lock("news") as locked:
            locked.past.scale_mass(0.0)
        assert [each.mass for each in store.models()] == [0.0, 8.0]

    def test_all_agents_are_listed(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        assert store.agents("news") == {}
        write(store, NEWS, {"a": MERGED, "b": MergedUploads(seen=4.0)})
        assert store.agents("news") == {"a": MERGED, "b": MergedUploads(seen=4.0)}
        with pytest.raises(UnknownName):
            store.agents("new")

    def test_the_next_place_is_after_all_that_agents_of_the_model_have(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.create(SHOP, SHOP_STATE)
        for merged, place in (({}, 0), ({"b": MergedUploads(place=0)}, 1), ({"a": MERGED}, 8)):
            write(store, NEWS, merged)
            with store.lock("news") as locked:
                assert locked.next_place() == place
        with store.lock("shop") as locked:
            assert locked.next_place() == 0

    def test_shadows_are_those_of_agents_that_told_and_may_upload(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        told = MergedUploads(uploads=1, shadow=SHADOW)
        other = MergedUploads(uploads=2, shadow=ShadowSums(1))
        write(store, NEWS, {"c": told, "a": MERGED, "b": other, "d": MergedUploads(uploads=1)})
        assert store.shadows("news") == [ShadowSums(1), SHADOW]  # "a" is quarantined
        assert store.shadows("new") == []
        with store.lock("news") as locked:
            assert locked.merged_uploads(["c"]) == {"c": told}

    def test_a_store_that_answers_can_be_pinged(self, store: Store, open_store: OpenStore) -> None:
        store.ping()
        open_store().close()  # and it can still be opened

    def test_it_says_how_many_models_it_can_write_at_once(self, store: Store) -> None:
        assert store.writers >= 1


def write(
    store: Store, model: Model, merged: Mapping[str, MergedUploads], *, state: bytes = b"s"
) -> None:
    """Write a state and merged uploads as a merge does."""
    with store.lock(model.name) as locked:
        locked.merged_uploads(merged.keys())
        locked.write(state=state, version=model.version + 1, count=9, merged=merged)


def _count_to_ten(store: Store) -> None:
    for _ in range(10):
        with store.lock("news") as locked:
            before = locked.merged_uploads(["a"])["a"]
            merged = {"a": structs.replace(before, uploads=before.uploads + 1)}
            version = locked.model.version + 1
            state = locked.state() + b"."
            locked.write(state=state, version=version, count=version, merged=merged)
