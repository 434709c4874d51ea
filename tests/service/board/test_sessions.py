"""A session is good for its own token and time, and for nothing else."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fedbandit.service.access.sessions import (
    SESSION_SECONDS,
    is_session,
    name_in,
    session_cookie,
)
from fedbandit.service.storage.contract import Token

BOSS = Token(digest=b"\x01" * 32, name="boss", model=None, agent=None, created=0.0)
NOW = 1_760_000_000.5
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(NAMES, st.binary(min_size=32, max_size=32))
def test_a_cookie_is_of_its_token_until_it_is_over(name: str, digest: bytes) -> None:
    token = replace(BOSS, name=name, digest=digest)
    cookie = session_cookie(token, now=NOW)
    assert name_in(cookie) == name
    assert is_session(cookie, token, now=NOW)
    assert is_session(cookie, token, now=NOW + SESSION_SECONDS - 2)
    assert not is_session(cookie, token, now=NOW + SESSION_SECONDS)
    other = bytes([digest[0] ^ 1]) + digest[1:]
    assert not is_session(cookie, replace(token, digest=other), now=NOW)
    assert not is_session(cookie, replace(token, name=f"{name}2"), now=NOW)


@given(st.integers(0, 200), st.characters())
def test_a_cookie_that_was_changed_is_none(place: int, letter: str) -> None:
    cookie = session_cookie(BOSS, now=NOW)
    place %= len(cookie)
    changed = cookie[:place] + letter + cookie[place + 1 :]
    assert changed == cookie or not is_session(changed, BOSS, now=NOW)


@given(st.text())
def test_anything_else_is_no_cookie(text: str) -> None:
    assert not is_session(text, BOSS, now=NOW)
    name_in(text)  # and raises nothing


def test_a_cookie_cannot_claim_a_longer_life() -> None:
    late = session_cookie(BOSS, now=NOW + 10 * SESSION_SECONDS)
    assert not is_session(late, BOSS, now=NOW)
