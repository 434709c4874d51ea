"""Quotas over HTTP: who has used one up is told when to come back, by every coordinator."""

import pickle
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.summary import sketch_of
from fedbandit.service import coordinator
from fedbandit.service.bookkeeping.history import HOURLY
from fedbandit.service.bookkeeping.quotas import FREE, NO_QUOTAS, Exceeded, Quotas
from fedbandit.service.models.model import DEFAULT_LIMITS, new_model
from fedbandit.service.models.undo import quarantine
from fedbandit.service.refusal import over_quota
from fedbandit.service.storage.contract import Model
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import RECIPE, sync_for, upload_for
from tests.service.running import BODY, OPEN, client_of, post, stored, sync_path
from tests.service.stores import StoreUrl


def made(url: str, quotas: Quotas) -> Model:
    model, state = new_model("news", RECIPE, quotas=quotas)
    store = open_store(url, create=True)
    store.create(model, state)
    store.close()
    return model


def tried(client: TestClient, sync: wire.Sync, agent: str = "phone") -> tuple[int, int]:
    """Post a sync; return the status, and after how many seconds to come back."""
    body = wire.encode_sync(sync)
    answer = client.post(sync_path(agent=agent), content=body, headers=BODY)
    if answer.status_code == 429:
        assert answer.json()["error"]["field"] == "quota"
    return answer.status_code, int(answer.headers.get("Retry-After", 0))


def test_what_is_spent_is_counted_by_all_coordinators_and_after_restarts(store_url: str) -> None:
    made(store_url, Quotas(uploads=3))
    for sequence in (1, 2, 3):  # a coordinator each, one after the other
        with client_of(store_url) as client:
            post(client, sync_for(RECIPE, sequence, sequence=sequence))
    with client_of(store_url) as one, client_of(store_url) as other:
        for client in (one, other):
            status, seconds = tried(client, sync_for(RECIPE, 4, sequence=4))
            assert status == 429
            assert 1100 < seconds <= 1200
        assert tried(one, sync_for(RECIPE, 3, sequence=3)) == (200, 0)  # a copy costs nothing
        post(other, sync_for(RECIPE, 5), agent="tablet")  # another agent has its own
    assert stored(store_url).version == 4


def test_observations_are_counted_and_a_refused_upload_is_free(store_url: str) -> None:
    made(store_url, Quotas(observations=13))
    with client_of(store_url) as client:
        post(client, sync_for(RECIPE, 1))  # 6 observations
        wrong = sync_for(RECIPE, 2, sequence=2)
        statistics = replace(wrong.upload.statistics, count=10**9)
        wrong = replace(wrong, upload=replace(wrong.upload, statistics=statistics))
        assert tried(client, wrong)[0] == 422
        post(client, sync_for(RECIPE, 2, sequence=2))
        status, seconds = tried(client, sync_for(RECIPE, 3, sequence=3))
    assert status == 429
    assert 3600 * 5 / 13 - 60 < seconds <= 3600 * 5 / 13 + 1
    assert stored(store_url).count == 12


def test_a_share_waits_for_others(sqlite_url: StoreUrl) -> None:
    url = sqlite_url()
    made(url, Quotas(share=0.5))
    with client_of(url) as client:
        sequence = 0
        while (sequence := sequence + 1) * 6 <= FREE * RECIPE.dimension:
            post(client, sync_for(RECIPE, sequence, sequence=sequence))
        mine = sync_for(RECIPE, sequence, sequence=sequence)
        assert tried(client, mine)[0] == 429
        for other in range(2):
            for number in range(1, sequence):
                life = sync_for(RECIPE, number, sequence=number)
                post(client, life, agent=f"tablet-{other}")
        assert tried(client, mine)[0] == 200


def test_who_tells_first_of_arms_that_weigh_nothing_stops_nobody(sqlite_url: StoreUrl) -> None:
    url = sqlite_url()
    made(url, Quotas(share=0.2))
    nothing = fb.Statistics(sketch_of(np.zeros((0, 4)), shed=0.0, size=3), np.zeros(4), 40)
    with client_of(url) as client:
        sync = wire.Sync(wire.fingerprint(RECIPE), bytes(16), 1, fb.Upload(0, nothing))
        post(client, sync, agent="liar")
        for number in range(1, 15):
            for agent in range(6):
                sync = sync_for(RECIPE, number, sequence=number)
                assert tried(client, sync, agent=f"phone-{agent}") == (200, 0)
        again = wire.Sync(wire.fingerprint(RECIPE), bytes(16), 2, fb.Upload(0, nothing))
        assert tried(client, again, agent="liar")[0] == 200  # 80 of 584
        for sequence in (3, 4):
            again = replace(
                again, sequence=sequence, upload=fb.Upload(0, replace(nothing, count=60))
            )
            status, _ = tried(client, again, agent="liar")
        assert status == 429


def test_who_waits_is_let_in(sqlite_url: StoreUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    url, now = sqlite_url(), time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    made(url, Quotas(observations=6, uploads=1))
    with client_of(url) as client:
        post(client, sync_for(RECIPE, 1))
        status, seconds = tried(client, sync_for(RECIPE, 2, sequence=2))
        assert (status, seconds) == (429, 3600)
        monkeypatch.setattr(time, "time", lambda: now + 3610)
        post(client, sync_for(RECIPE, 2, sequence=2))


@pytest.fixture
def no_time_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, what a coordinator remembers is not over yet."""
    monkeypatch.setattr(coordinator, "time", SimpleNamespace(monotonic=float))


def change(url: str, *, limits: wire.Limits = DEFAULT_LIMITS, quotas: Quotas = NO_QUOTAS) -> None:
    store = open_store(url)
    with store.lock("news") as locked:
        locked.set_rules(limits=limits, quotas=quotas, history=HOURLY)
    store.close()


def test_rules_that_change_hold_for_coordinators_that_run(store_url: str) -> None:
    made(store_url, NO_QUOTAS)
    with client_of(store_url) as client:
        post(client, sync_for(RECIPE, 1))
        change(store_url, quotas=Quotas(uploads=2))
        post(client, sync_for(RECIPE, 2, sequence=2))
        assert tried(client, sync_for(RECIPE, 3, sequence=3))[0] == 429
        change(store_url, limits=replace(DEFAULT_LIMITS, count=5))
        assert tried(client, sync_for(RECIPE, 3, sequence=3))[0] == 503  # it reads them anew
        assert tried(client, sync_for(RECIPE, 3, sequence=3))[0] == 422
        small = upload_for(RECIPE, 3, count=5)
        sync = wire.Sync(wire.fingerprint(RECIPE), bytes(16), 3, small)
        assert tried(client, sync)[0] == 200


@pytest.mark.usefixtures("no_time_goes_by")
@pytest.mark.parametrize(("seconds", "status"), [(0.0, 200), (60.0, 429)])
def test_who_asks_in_a_loop_is_not_merged_for(
    sqlite_url: StoreUrl, seconds: float, status: int
) -> None:
    url = sqlite_url()
    made(url, Quotas(uploads=1))
    with client_of(url, replace(OPEN, remember_seconds=seconds)) as client:
        post(client, sync_for(RECIPE, 1))
        assert tried(client, sync_for(RECIPE, 2, sequence=2))[0] == 429
        change(url)  # what the store says now is asked for after remember_seconds
        assert tried(client, sync_for(RECIPE, 2, sequence=2))[0] == status
        post(client, sync_for(RECIPE, 3), agent="tablet")


@pytest.mark.usefixtures("no_time_goes_by")
@pytest.mark.parametrize(("seconds", "status"), [(0.0, 200), (60.0, 403)])
def test_an_agent_in_quarantine_that_asks_in_a_loop_is_not_merged_for(
    sqlite_url: StoreUrl, seconds: float, status: int
) -> None:
    url = sqlite_url()
    made(url, NO_QUOTAS)
    store = open_store(url)
    with client_of(url, replace(OPEN, remember_seconds=seconds)) as client:
        for on in (True, False):  # what the store says now is asked for after remember_seconds
            with store.lock("news") as locked:
                quarantine(locked, "phone", on=on)
            assert tried(client, sync_for(RECIPE, 1))[0] == (403 if on else status)
        post(client, sync_for(RECIPE, 3), agent="tablet")
    store.close()


@pytest.mark.usefixtures("no_time_goes_by")
@pytest.mark.parametrize(("seconds", "status"), [(0.0, 200), (60.0, 403)])
def test_copies_of_an_agent_in_quarantine_are_answered_once_in_a_while(
    sqlite_url: StoreUrl, seconds: float, status: int
) -> None:
    """The first says that it was merged; the next are refused without a look."""
    url = sqlite_url()
    made(url, NO_QUOTAS)
    store = open_store(url)
    with client_of(url, replace(OPEN, remember_seconds=seconds)) as client:
        post(client, sync_for(RECIPE, 1))
        with store.lock("news") as locked:
            quarantine(locked, "phone")
        assert tried(client, sync_for(RECIPE, 1))[0] == 200
        assert tried(client, sync_for(RECIPE, 1))[0] == status
    store.close()


def test_the_time_is_told_by_the_process_that_merges_too() -> None:
    refusal = pickle.loads(pickle.dumps(over_quota(Exceeded("why", 77))))
    assert refusal.response().headers["Retry-After"] == "77"
    assert (refusal.status, refusal.field, str(refusal)) == (429, "quota", "why")
