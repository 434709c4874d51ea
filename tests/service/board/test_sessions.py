"""A session is a token that expires, and ends with the one that it was begun with."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.service.access.sessions import (
    MOST_SESSIONS,
    SESSION_SECONDS,
    end_session,
    keep_session,
    new_session,
    parent_of,
)
from fedbandit.service.bookkeeping.token import Token
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store
from fedbandit.service.tokens import digest_of, new_token

BOSS = Token(digest=b"\x01" * 32, name="boss", model=None, agent=None, created=0.0)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(f"sqlite:///{tmp_path}/c.db", create=True)
    made.add_token(BOSS)
    yield made
    made.close()


@given(NAMES)
def test_a_session_names_its_token_and_expires(name: str) -> None:
    before = time.time()
    secret, session = new_session(replace(BOSS, name=name))
    assert session.digest == digest_of(secret)
    assert parent_of(session) == name
    assert (session.model, session.agent, session.code) == (None, None, False)
    assert not session.is_over(before + SESSION_SECONDS - 1)
    assert session.is_over(time.time() + SESSION_SECONDS)


def test_a_session_does_not_outlive_its_token() -> None:
    soon = time.time() + 60
    assert new_session(replace(BOSS, expires=soon))[1].expires == soon


def test_other_tokens_are_no_sessions() -> None:
    assert parent_of(BOSS) is None
    for model, agent in ((None, None), ("news", "phone")):
        assert parent_of(new_token(model=model, agent=agent)[1]) is None
    agents = replace(BOSS, name="board-00000000 of boss", model="news", agent="phone")
    assert parent_of(agents) is None


def test_sessions_that_are_over_make_room(store: Store) -> None:
    old = replace(new_session(BOSS)[1], expires=time.time() - 1)
    store.add_token(old)
    keep_session(store, new_session(BOSS)[1])
    names = [each.name for each in store.tokens()]
    assert old.name not in names
    assert len(names) == 2
    assert "boss" in names


def test_a_token_has_no_end_of_sessions(store: Store) -> None:
    made = [replace(new_session(BOSS)[1], created=float(k)) for k in range(MOST_SESSIONS + 3)]
    for each in made:
        keep_session(store, each)
    kept = {each.name for each in store.tokens()} - {"boss"}
    assert kept == {each.name for each in made[3:]}
    end_session(store, made[-1])
    end_session(store, made[-1])  # it is gone already
    assert len(store.tokens()) == MOST_SESSIONS
