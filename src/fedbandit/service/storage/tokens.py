"""Tokens in the table of tokens."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from fedbandit.service.bookkeeping.token import MOST_TOKENS, Token, TooManyTokens
from fedbandit.service.storage.database import Row, Session

_TOKEN = "digest, name, model, agent, created, expires, used, lifetime, code"


def insert_tokens(session: Session, tokens: Iterable[Token]) -> None:
    """Add tokens."""
    added = f"INSERT INTO tokens ({_TOKEN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    session.run_many(added, [_token_values(each) for each in tokens])


def select_tokens(session: Session, where: str = "", values: Sequence[object] = ()) -> list[Token]:
    """Return the tokens that a condition holds for, or all."""
    rows = session.run(f"SELECT {_TOKEN} FROM tokens {where}", values)
    return [_token_of(row) for row in rows]


def succeed_token(session: Session, digest: bytes, successor: Token, ends: float | None) -> bool:
    """Add a successor to a token, which ends then, or is deleted; return whether there is one."""
    found = _lock_token(session, digest, successor)
    if not found:
        return False
    if successor.agent is not None:
        _make_room_for_token(session, successor.model, successor.agent)
    insert_tokens(session, [successor])
    if ends is None:
        session.run("DELETE FROM tokens WHERE digest = ?", (digest,))
    elif found[0][0] is None or found[0][0] > ends:
        session.run("UPDATE tokens SET expires = ? WHERE digest = ?", (ends, digest))
    return True


def _lock_token(session: Session, digest: bytes, successor: Token) -> list[Row]:
    """Lock a token, and all of the successor's agent; return its row: when it expires, or none.

    All of them: of two transactions that add a token, the later one shows a token that the earlier
    one has locked, or has one locked that the earlier one shows. So they count one after the other.
    They are locked in the order in which ``note_uses`` writes, or both could wait for each other.
    """
    lock, whose = session.dialect.lock, (digest, successor.model, successor.agent)
    rows = session.run(
        "SELECT digest, expires FROM tokens WHERE digest = ? OR (model = ? AND agent = ?) "
        f"ORDER BY digest{lock}",
        whose,
    )
    return [(expires,) for each, expires in rows if bytes(each) == digest]


def _make_room_for_token(session: Session, model: str | None, agent: str) -> None:
    """Delete an agent's expired tokens; raise TooManyTokens if it still has too many."""
    whose = "FROM tokens WHERE model = ? AND agent = ?"
    session.run(f"DELETE {whose} AND expires <= ?", (model, agent, time.time()))
    if session.run(f"SELECT COUNT(*) {whose}", (model, agent))[0][0] > MOST_TOKENS:
        raise TooManyTokens


def _token_of(row: Row) -> Token:
    """Return a token from its row."""
    digest, name, model, agent, created, expires, used, lifetime, code = row
    return Token(
        digest=bytes(digest),
        name=name,
        model=model,
        agent=agent,
        created=created,
        expires=expires,
        used=used,
        lifetime=lifetime,
        code=bool(code),
    )


def _token_values(token: Token) -> tuple[Any, ...]:
    """Return the row of a token."""
    whom = (token.digest, token.name, token.model, token.agent)
    when = (token.created, token.expires, token.used, token.lifetime)
    return (*whom, *when, int(token.code))
