"""What every store must do with the progress of models; part of ``StoreContract``."""

from contextlib import suppress
from dataclasses import replace

import pytest

from fedbandit.core.algorithms.fsclb import FSCLB
from fedbandit.errors import UnknownName
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.progress import (
    DAY,
    HOUR,
    MINUTE,
    NO_PROGRESS,
    Period,
    Progress,
    Refused,
    Traffic,
    summed,
)
from fedbandit.service.bookkeeping.quotas import Senders
from fedbandit.service.bookkeeping.token import Token
from fedbandit.service.models.model import new_model
from fedbandit.service.storage.contract import Store

_NEWS, _STATE = new_model("news", FSCLB(dimension=4, sketch_size=3, agents=2))
_ONCE = Progress(
    uploads=1,
    observations=2**40,
    copies=2,
    joins=3,
    refused=4,
    received=5,
    sent=2**50,
    rewards=7,
    total=-0.5,
    squares=2.25,
    judged=6,
    earned=1.5,
    estimated=1.25,
    errors=0.75,
    moved=0.125,
)
_REFUSED = Refused(status=422, field="upload.count", count=2, agent="a", message="why", at=9.5)
_NOON = 20_000 * DAY + DAY // 2


class ProgressContract:
    """Tests of periods, totals, senders, traffic, refusals, marks, and of tokens by name."""

    def test_progress_adds_up_by_the_minute(self, store: Store) -> None:
        store.create(_NEWS, _STATE)
        for at in (_NOON, _NOON + 59.9, _NOON + 60):
            with store.lock("news") as locked:
                locked.past.add_progress(at, _ONCE)
        twice = _ONCE.plus(_ONCE)
        expected = [Period(MINUTE, _NOON, twice), Period(MINUTE, _NOON + 60, _ONCE)]
        assert store.periods("news") == expected
        assert store.totals() == {"news": twice.plus(_ONCE)}

    def test_senders_are_those_that_uploaded_to_the_model(self, store: Store) -> None:
        merged = {
            "a": MergedUploads(uploads=2, observations=7),
            "b": MergedUploads(uploads=1, observations=2**50),
            "c": MergedUploads(quarantined=True),
        }
        for model in (_NEWS, replace(_NEWS, name="shop")):
            store.create(model, _STATE)
            with store.lock(model.name) as locked:
                assert locked.senders() == Senders()
                locked.merged_uploads(merged)
                locked.write(state=_STATE, version=1, count=9, merged=merged)
        with store.lock("news") as locked:
            assert locked.senders() == Senders(2, 2**50 + 7)

    def test_progress_of_a_lock_that_raises_is_not_kept(self, store: Store) -> None:
        store.create(_NEWS, _STATE)
        with suppress(ZeroDivisionError), store.lock("news") as locked:
            locked.past.add_progress(_NOON, _ONCE)
            locked.past.write_mark(b"theta")
            raise ZeroDivisionError
        assert store.periods("news") == []
        with store.lock("news") as locked:
            assert locked.past.mark() == b""

    def test_folding_keeps_all_sums_and_few_periods(self, store: Store) -> None:
        store.create(_NEWS, _STATE)
        now = _NOON + 40 * DAY
        times = [_NOON, _NOON + 61, _NOON + 3 * DAY, _NOON + 3 * DAY + HOUR, now - 120, now]
        with store.lock("news") as locked:
            for at in times:
                locked.past.add_progress(at, _ONCE)
            for _ in range(2):  # a second time changes nothing
                locked.past.fold_progress(now)
            locked.past.fold_progress(now)
        third_day = (_NOON + 3 * DAY) // DAY * DAY
        twice = _ONCE.plus(_ONCE)
        found = store.periods("news")
        assert [(each.span, each.start, each.progress) for each in found] == [
            (HOUR, _NOON, twice),  # the first day stays in hours
            (DAY, third_day, twice),
            (MINUTE, now - 120, _ONCE),
            (MINUTE, now, _ONCE),
        ]
        assert store.totals()["news"] == summed(each.progress for each in found)

    def test_traffic_adds_to_the_same_minutes(self, store: Store) -> None:
        store.create(_NEWS, _STATE)
        with store.lock("news") as locked:
            locked.merged_uploads(["a"])
            locked.write(state=_STATE, version=1, count=1, merged={"a": MergedUploads(uploads=1)})
            locked.past.add_progress(_NOON, _ONCE)
        more = Traffic(
            model="news",
            start=_NOON,
            progress=Progress(sent=10),
            held={"a": 7, "b": 8},
            refused=(_REFUSED,),
        )
        gone = replace(more, model="gone")
        store.add_traffic([more, gone])
        later = replace(_REFUSED, agent="b", at=10.5)
        store.add_traffic([replace(more, held={"a": 6}, refused=(later,))])
        assert store.periods("news") == [Period(MINUTE, _NOON, _ONCE.plus(Progress(sent=20)))]
        assert {name: each.held for name, each in store.agents("news").items()} == {"a": 7}
        assert store.refusals("news") == [replace(_REFUSED, count=4, agent="b", at=10.5)]
        assert store.refusals("gone") == []
        assert list(store.totals()) == ["news"]

    def test_refusals_come_latest_first(self, store: Store) -> None:
        store.create(_NEWS, _STATE)
        others = [replace(_REFUSED, status=409, at=8.5), replace(_REFUSED, field="life", at=10.0)]
        traffic = Traffic(
            model="news", start=0, progress=NO_PROGRESS, held={}, refused=(_REFUSED, *others)
        )
        store.add_traffic([traffic])
        assert store.refusals("news") == [others[1], _REFUSED, others[0]]

    def test_a_mark_is_replaced(self, store: Store) -> None:
        store.create(_NEWS, _STATE)
        with store.lock("news") as locked:
            assert locked.past.mark() == b""
            locked.past.write_mark(b"\x00one")
            locked.past.write_mark(b"\x00two")
        with store.lock("news") as locked:
            assert locked.past.mark() == b"\x00two"

    def test_progress_goes_with_its_model_and_moves_with_it(self, store: Store) -> None:
        store.create(_NEWS, _STATE)
        with store.lock("news") as locked:
            locked.past.add_progress(_NOON, _ONCE)
            locked.past.write_mark(b"theta")
        traffic = Traffic(model="news", start=0, progress=NO_PROGRESS, held={}, refused=(_REFUSED,))
        store.add_traffic([traffic])
        archive, before = store.archive("news"), store.periods("news")
        store.delete("news")
        with pytest.raises(UnknownName):
            store.periods("news")
        store.install(archive)
        assert store.periods("news") == before
        assert store.refusals("news") == []
        with store.lock("news") as locked:
            assert locked.past.mark() == b""

    def test_tokens_are_found_by_their_name(self, store: Store) -> None:
        boss = Token(digest=b"\xff" * 32, name="boss", model=None, agent=None, created=2.5)
        assert store.token_named("boss") is None
        store.add_token(boss)
        assert store.token_named("boss") == boss
        assert store.token_named("bos") is None
