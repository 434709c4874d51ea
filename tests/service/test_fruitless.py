"""What one agent may ask for that changes nothing: it keeps no coordinator busy."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.service import coordinator
from fedbandit.service.access.attempts import Attempts
from fedbandit.service.bookkeeping.deduplication import KEPT
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import BODY, OPEN, client_of, make_model, post, state_path, sync_path

FEW = replace(OPEN, fruitless=5)


def refused(client: Any) -> int:
    wrong = fb.Upload(0, replace(sync_for(RECIPE, 2).upload.statistics, moment=np.full(4, 1e9)))
    sync = wire.Sync(wire.fingerprint(RECIPE), bytes(16), 2, wrong)
    return int(client.post(sync_path(), content=wire.encode_sync(sync), headers=BODY).status_code)


def copied(client: Any) -> int:
    body = wire.encode_sync(sync_for(RECIPE, 1))
    return int(client.post(sync_path(), content=body, headers=BODY).status_code)


def joined(client: Any) -> int:
    return int(client.get(state_path()).status_code)


def asked_beyond(client: Any) -> int:
    """For news since a version that is not there, so that all is told."""
    return int(client.get(f"{state_path()}&since=99").status_code)


@pytest.fixture(autouse=True)
def no_time_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, nothing comes back that was used up."""
    monkeypatch.setattr(coordinator, "Attempts", partial(Attempts, clock=float))


@pytest.mark.parametrize(
    ("ask", "status"), [(refused, 422), (copied, 200), (joined, 200), (asked_beyond, 200)]
)
def test_what_changes_nothing_is_answered_so_often_and_then_later(
    sqlite_url: Callable[[], str], ask: Callable[[Any], int], status: int
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with client_of(url, FEW) as client:
        post(client, sync_for(RECIPE, 1))
        assert [ask(client) for _ in range(7)] == [status] * 5 + [429] * 2
        answer = client.get(state_path())
        assert answer.headers["Retry-After"] == "1"
        assert "changes nothing" in answer.text
        post(client, sync_for(RECIPE, 3), agent="tablet")  # nobody else waits


def test_uploads_of_a_life_that_was_forgotten_are_counted_too(
    sqlite_url: Callable[[], str],
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with client_of(url, FEW) as client:
        for life in range(KEPT + 1):
            post(client, sync_for(RECIPE, life, life=life, born=life))
        assert [copied(client) for _ in range(7)] == [410] * 5 + [429] * 2


def test_uploads_that_are_merged_and_questions_for_news_are_not_counted(
    sqlite_url: Callable[[], str],
) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    with client_of(url, FEW) as client:
        for number in range(1, 20):
            post(client, sync_for(RECIPE, number, sequence=number))
            assert client.get(f"{state_path()}&since={number}").status_code == 200
