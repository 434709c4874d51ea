"""Who may ask for what: tokens and certificates, looked up in the store and remembered a little."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from fedbandit.service.access.attempts import Attempts
from fedbandit.service.access.sessions import end_session, keep_session, new_session, parent_of
from fedbandit.service.bookkeeping.token import Token
from fedbandit.service.refusal import too_many, unauthorised
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Store
from fedbandit.service.tokens import bearer_in, certificate_digest, digest_of, opens
from fedbandit.web.connections import Connection

T = TypeVar("T")
_REMEMBERED = 20_000
_TOGETHER = 64  # tokens looked for at a time


class Ask(Protocol):
    """Runs a question to the store in a thread; raises Refusal (503) if the store is away."""

    def __call__(self, question: Callable[[], T], /) -> Awaitable[T]:
        """Return the answer."""
        ...


class Authentication:
    """Admits tokens and certificates. Used from the event loop; the store is asked in threads."""

    def __init__(self, store: Store, settings: Settings, ask: Ask) -> None:
        self._store, self._settings, self._ask = store, settings, ask
        self._attempts = Attempts(most=settings.wrong_tokens)
        self._tokens: dict[bytes, tuple[float, Token]] = {}
        self._admitted: dict[bytes, tuple[str | None, str | None]] = {}
        self._sought: dict[bytes, asyncio.Future[Token | None]] = {}
        self._seeking: asyncio.Task[None] | None = None
        self._used: dict[bytes, float] = {}
        self._named: dict[str, tuple[float, Token | None]] = {}

    def knows(self, head: bytes) -> bool:
        """Return whether a request, by its head, has a token that was good once."""
        found = bearer_in(head)
        return found is not None and digest_of(found) in self._admitted

    async def admit(
        self,
        secret: str,
        *,
        model: str | None,
        agent: str | None,
        asked_again: bool = False,
        session: bool = False,
        connection: Connection | None = None,
    ) -> bytes | None:
        """Raise Refusal unless a token or certificate opens this agent of this model.

        Returns its digest; None if no tokens are asked for. With ``asked_again``, one that was good
        once for these names will do: the store is asked again before anything is changed or
        revealed. ``session``: of admins' tokens, that of a session at the board, which is good for
        nothing else. ``connection``: it may have shown a certificate, is cut off first while it
        waits to be refused, and has an address that is refused with 429 if it has been refused with
        401 too often.

        A refusal takes ``refusal_seconds`` and a look into the store, whatever was found or
        remembered, so that its time reveals nothing.
        """
        if self._settings.open:
            return None
        began, digest = time.monotonic(), _digest(secret, connection)
        if asked_again and self._admitted.get(digest) == (model, agent):
            self._used[digest] = time.time()
            return digest
        token = self._remembered(digest)
        what = partial(_admits, digest=digest, model=model, agent=agent, session=session)
        if not what(token):  # or not known: all the same
            token = await self._read(digest)
            if not what(token):
                if token is None or token.is_over(time.time()):
                    self._admitted.pop(digest, None)
                await self._refuse(began, connection, admin=model is None)
        if len(self._admitted) >= _REMEMBERED:
            self._admitted.clear()
        self._admitted[digest] = (model, agent)
        self._used[digest] = time.time()
        return digest

    async def admit_to_enrol(
        self, secret: str, *, model: str, agent: str, connection: Connection | None
    ) -> Token:
        """Return the code or token with which an agent asks for a token; raise Refusal if none."""
        began, digest = time.monotonic(), _digest(secret, connection)
        token = await self._read(digest)
        named = token is not None and (token.model, token.agent) == (model, agent)
        if token is None or not named or token.is_over(time.time()):
            await self._refuse(began, connection)
            raise unauthorised()
        return token

    async def check(self, digest: bytes | None, *, model: str, agent: str) -> None:
        """Raise Refusal (401) if a token that was good once was revoked, or is over, since.

        Called before another refusal, which would reveal something about the model. The store is
        asked once in ``remember_seconds``, as for other tokens.
        """
        if digest is None:
            return
        token = self._remembered(digest) or await self._read(digest)
        if not opens(token, digest, model=model, agent=agent):
            self.forget(digest)
            raise unauthorised()

    async def start_session(self, secret: str, connection: Connection | None) -> str:
        """Return the secret of a new session of an admin's token; raise Refusal if it is none."""
        digest = await self.admit(secret, model=None, agent=None, connection=connection)
        token = None if digest is None else self._remembered(digest) or await self._read(digest)
        if token is None:
            raise unauthorised(admin=True)
        cookie, made = new_session(token)
        await self._ask(lambda: keep_session(self._store, made))
        return cookie

    async def admit_session(self, cookie: str, connection: Connection | None) -> None:
        """Raise Refusal (401) unless a cookie is of a session whose admin's token is still good.

        A token that was revoked, or is over, ends its sessions within ``remember_seconds``. Wrong
        cookies are refused as wrong tokens are; a browser without one has done nothing wrong.
        """
        if self._settings.open:
            return
        session = await self._session(cookie, connection)
        parent = await self._token_named(parent_of(session) or "")
        if parent is None or not opens(parent, parent.digest, model=None, agent=None):
            self.forget(session.digest)
            raise unauthorised(admin=True)

    async def end_session(self, cookie: str) -> None:
        """End a session; do nothing if there is none."""
        token = await self._read(digest_of(cookie)) if cookie else None
        if token is not None and parent_of(token) is not None:
            await self._ask(lambda: end_session(self._store, token))
            self.forget(token.digest)

    async def _session(self, cookie: str, connection: Connection | None) -> Token:
        """Return the token of a session; raise Refusal if a cookie is of none."""
        digest = None
        if cookie:
            digest = await self.admit(
                cookie, model=None, agent=None, session=True, connection=connection
            )
        token = None if digest is None else self._remembered(digest) or await self._read(digest)
        if token is None:
            raise unauthorised(admin=True)
        return token

    async def _token_named(self, name: str) -> Token | None:
        until, token = self._named.get(name, (0.0, None))
        if until <= time.monotonic():
            token = await self._ask(lambda: self._store.token_named(name))
            if len(self._named) >= _REMEMBERED:
                self._named.clear()
            self._named[name] = time.monotonic() + self._settings.remember_seconds, token
        return token

    def forget(self, digest: bytes) -> None:
        """Look into the store before this one is believed again."""
        self._admitted.pop(digest, None)
        self._tokens.pop(digest, None)

    def name_of(self, digest: bytes | None) -> str | None:
        """Return the name of a token that was looked up lately; None if it is not remembered."""
        found = None if digest is None else self._tokens.get(digest)
        return None if found is None else found[1].name

    def take_uses(self) -> dict[bytes, float]:
        """Return which tokens were used since the last call, and when."""
        used, self._used = self._used, {}
        return used

    async def _refuse(
        self, began: float, connection: Connection | None, *, admin: bool = False
    ) -> None:
        if connection is not None:
            connection.refuse()
        await asyncio.sleep(began + self._settings.refusal_seconds - time.monotonic())
        if connection is not None and not self._attempts.allow(connection.address):
            message = "too many tokens from this address were wrong"
            raise too_many("authorization", message, closes=True)
        raise unauthorised(admin=admin)

    def _remembered(self, digest: bytes) -> Token | None:
        until, known = self._tokens.get(digest, (0.0, None))
        return known if until > time.monotonic() else None

    async def _read(self, digest: bytes) -> Token | None:
        """Return a token by a look into the store, together with others that are sought now."""
        if digest not in self._sought:
            first, self._sought[digest] = not self._sought, asyncio.Future()
            if first:
                self._seeking = asyncio.create_task(self._read_sought())
        token = await asyncio.shield(self._sought[digest])
        if token is None:
            self._tokens.pop(digest, None)
            return None
        if len(self._tokens) >= _REMEMBERED:
            self._tokens.clear()
        self._tokens[digest] = (time.monotonic() + self._settings.remember_seconds, token)
        return token

    async def _read_sought(self) -> None:
        """Look for tokens until none is sought, many in one thread: changing threads costs most."""
        while self._sought:
            digests = [*self._sought][:_TOGETHER]
            try:
                found = await self._ask(partial(_found, self._store, digests))
            except Exception as error:  # goes to all who wait for it
                for digest in digests:
                    sought = self._sought.pop(digest)
                    sought.set_exception(error)
                    sought.exception()  # those who waited may have left
                continue
            for digest, token in zip(digests, found, strict=True):
                self._sought.pop(digest).set_result(token)


def _admits(
    token: Token | None, *, digest: bytes, model: str | None, agent: str | None, session: bool
) -> bool:
    """Say whether a token opens this, and is of a session, or not, as is asked for."""
    opened = opens(token, digest, model=model, agent=agent)
    return opened and token is not None and session == (parent_of(token) is not None)


def _found(store: Store, digests: Sequence[bytes]) -> list[Token | None]:
    return [store.token(digest) for digest in digests]


def _digest(secret: str, connection: Connection | None) -> bytes:
    """Return the digest of what a request shows: its token, or else its certificate."""
    if not secret and connection is not None and connection.certificate is not None:
        return certificate_digest(connection.certificate)
    return digest_of(secret)
