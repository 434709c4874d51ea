"""What every store must do with the past of models; part of ``StoreContract``."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from fedbandit.errors import UnknownName
from fedbandit.service.bookkeeping.history import Part, Snapshot
from fedbandit.service.storage.contract import Store
from fedbandit.testing.token_contract import NEWS, NEWS_STATE, SHOP, SHOP_STATE

if TYPE_CHECKING:
    from fedbandit.testing.store_contract import OpenStore

PARTS = [
    Part("", 1, 2, b"old"),
    Part("a", 3, 3, b"\x00"),
    Part("a", 4, 6, b"a"),
    Part("b", 5, 5, b"b"),
]


class PastContract:
    """Tests of the past, by the words of ``fedbandit.service.storage.contract.Past``."""

    def test_groups_are_kept_beside_the_state_and_in_snapshots(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        with store.lock("news") as locked:
            locked.past.write_groups({**locked.past.groups(), 0: b"a", 2: b"\x00"})
            locked.past.take_snapshot(at=1.0)
            assert [each.size for each in locked.past.snapshots()] == [len(NEWS_STATE) + 2]
            locked.past.write_groups({1: b"c", 2: b"d", 0: b"", 7: b""})
        with store.lock("news") as locked:
            assert locked.past.groups() == {1: b"c", 2: b"d"}
            assert store.groups("news") == {1: b"c", 2: b"d"}  # also while it is locked
            assert locked.past.groups(0) == {0: b"a", 2: b"\x00"}
            locked.past.drop_snapshots([0])
            assert locked.past.groups(0) == {}
        archive = store.archive("news")
        store.delete("news")
        store.install(archive)
        with store.lock("news") as locked:
            assert locked.past.groups() == {1: b"c", 2: b"d"}

    def test_snapshots_are_of_the_state_before_what_is_written(
        self, store: Store, open_store: OpenStore
    ) -> None:
        store.create(NEWS, NEWS_STATE)
        for version in (1, 2):
            with store.lock("news") as locked:
                locked.past.take_snapshot(at=10.0 + version)
                state = b"state %d" % version
                locked.write(state=state, version=version, count=7 * version, merged={})
        again = open_store()
        with again.lock("news") as locked:
            assert locked.model.snapshot == 12.0
            taken = [Snapshot(0, 0, 11.0, len(NEWS_STATE)), Snapshot(1, 7, 12.0, 7)]
            assert locked.past.snapshots() == taken
            assert locked.past.snapshot_state(1) == b"state 1"
            for missing in (2, 10**23):
                with pytest.raises(UnknownName):
                    locked.past.snapshot_state(missing)
            locked.past.take_snapshot(at=13.0)
            locked.past.take_snapshot(at=14.0)
            locked.past.drop_snapshots([0, 1, 5])
            assert locked.past.snapshots() == [Snapshot(2, 14, 14.0, 7)]
        again.close()

    def test_parts_are_found_by_agent_and_dropped_by_version(self, store: Store) -> None:
        store.create(NEWS, NEWS_STATE)
        store.create(SHOP, SHOP_STATE)
        with store.lock("shop") as other:
            other.past.add_parts(PARTS)
        with store.lock("news") as locked:
            past = locked.past
            past.add_parts(PARTS)
            assert past.parts("a") == PARTS[1:3]
            assert [past.parts("a", after=after) for after in (3, 5, 6)] == [PARTS[2:3]] * 2 + [[]]
            assert [*past.all_parts()] == PARTS
            past.drop_parts("a", after=0, upto=3)
            assert [*past.all_parts()] == [PARTS[0], *PARTS[2:]]
            past.drop_parts(None, after=4, upto=5)
            assert [*past.all_parts()] == [PARTS[0], PARTS[2]]
            past.drop_parts(None, after=2, upto=None)
            assert [*past.all_parts()] == PARTS[:1]
            many = [Part(f"agent-{i // 3:03}", i, i, b"%d" % i) for i in range(10, 200)]
            past.add_parts(many)
            found = [*past.all_parts()]
            assert sorted(found, key=lambda each: each.last) == sorted(
                [*PARTS[:1], *many], key=lambda each: each.last
            )
            assert all(before.agent <= after.agent for before, after in pairwise(found[1:]))
        with store.lock("shop") as other:
            assert [*other.past.all_parts()] == PARTS

    def test_the_past_goes_with_its_model_and_comes_back_with_a_lock_that_raises(
        self, store: Store
    ) -> None:
        store.create(NEWS, NEWS_STATE)
        with store.lock("news") as locked:
            locked.past.take_snapshot(at=1.0)
            locked.past.add_parts(PARTS)
        with suppress(ZeroDivisionError), store.lock("news") as locked:
            locked.past.drop_snapshots([0])
            locked.past.drop_parts(None, after=0, upto=None)
            raise ZeroDivisionError
        with store.lock("news") as locked:
            assert (len(locked.past.snapshots()), len(locked.past.parts("a"))) == (1, 2)
        store.delete("news")
        store.create(NEWS, NEWS_STATE)
        with store.lock("news") as locked:
            assert (locked.past.snapshots(), [*locked.past.all_parts()]) == ([], [])
