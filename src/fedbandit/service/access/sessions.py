"""Sessions of a browser at the board: a token of its own that expires, kept in a cookie.

It is stored as other tokens are, by its digest: a stolen store opens no session, a restart ends
none, and every coordinator of the store knows it. Its name says whose session it is; it is good for
as long as that token is.
"""

import re
import time
from dataclasses import replace
from typing import Final

from fedbandit.errors import UnknownName
from fedbandit.service.bookkeeping.token import Token
from fedbandit.service.storage.contract import Store
from fedbandit.service.tokens import new_token

SESSION_SECONDS: Final = 12 * 3600
MOST_SESSIONS: Final = 100
"""Of one token; the oldest one ends when another begins."""
_NAME = re.compile(r"board-[0-9a-f]{8} of (.+)", re.DOTALL)


def new_session(parent: Token) -> tuple[str, Token]:
    """Draw the token of a session; return the secret, which goes into the cookie, and the token."""
    secret, token = new_token(model=None, agent=None, lifetime=SESSION_SECONDS)
    name = f"board-{token.digest.hex()[:8]} of {parent.name}"
    ends = [each for each in (token.expires, parent.expires) if each is not None]
    return secret, replace(token, name=name, expires=min(ends), lifetime=None)


def parent_of(token: Token) -> str | None:
    """Return the name of the token that a session was begun with; None if it is no session's."""
    found = _NAME.fullmatch(token.name)
    return found[1] if found and token.model is None and not token.code else None


def keep_session(store: Store, made: Token) -> None:
    """Store the token of a session; delete sessions that are over, and the oldest of too many."""
    now, parent = time.time(), parent_of(made)
    sessions = [each for each in store.tokens() if parent_of(each) is not None]
    over = [each for each in sessions if each.is_over(now)]
    living = [each for each in sessions if each not in over and parent_of(each) == parent]
    oldest = sorted(living, key=lambda each: each.created)[: len(living) - MOST_SESSIONS + 1]
    for each in [*over, *(oldest if len(living) >= MOST_SESSIONS else ())]:
        end_session(store, each)
    store.add_token(made)


def end_session(store: Store, session: Token) -> None:
    """Delete the token of a session, which may be gone already."""
    try:
        store.revoke(session.name)
    except UnknownName:
        return
