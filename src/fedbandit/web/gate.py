"""Accepting connections for uvicorn, within bounds that hold from the first packet on.

asyncio's own servers accept whatever comes, and build a transport, TLS and a parser for it at once.
Here a connection is a socket and a ``Guest`` until a whole head of a request, or a whole greeting
of TLS, lies in the system's buffer: those that are silent or say half of it cost next to nothing.
"""

import asyncio
import socket
import ssl
from asyncio import sslproto
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import cast

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedbandit.web.greeting import REFUSAL, is_cheap
from fedbandit.web.guests import Bounds, Guest, Guests, address_of
from fedbandit.web.sealed import greet
from fedbandit.web.watched import Slices, Watched

_AT_ONCE = 64  # accepted before connections accepted earlier get their turn
_TURN = 0.1  # seconds; what takes longer waits for the network
_PAUSE = 0.1  # seconds without accepting when the system has no handles left
_FIRST_LOOK, _LAST_LOOK = 0.01, 1.0  # seconds after which to look at half a head again
_HEAD = 2**14  # bytes; uvicorn refuses longer ones
_TLS_RECORD = 5  # bytes before its content, the last two its length
_TLS_GREETING = b"\x16"
_LOOK_SECONDS = 0.02
_TLS_BUFFER = 2**14

_GUEST = "guest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """In seconds.

    ``idle``: for a whole head of a request, or to read an answer. ``request``: for a newcomer's
    request to be admitted or answered. ``handshake``: for TLS.
    """

    idle: float = 30.0
    request: float = 60.0
    handshake: float = 5.0


class Gate:
    """Accepts connections on one socket and has uvicorn serve them.

    ``tls`` may be replaced at any time; connections made from then on use it. ``trusts`` is called
    with a request's head, where TLS does not hide it, and says whether to serve it out of turn.
    """

    def __init__(
        self,
        listener: socket.socket,
        config: uvicorn.Config,
        *,
        bounds: Bounds,
        patience: Patience,
        tls: ssl.SSLContext | None = None,
        trusts: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self.guests, self.tls, self._trusts = Guests(bounds), tls, trusts
        self._listener, self._config, self._patience = listener, config, patience
        self._server: uvicorn.Server | None = None
        self._slices = Slices()
        self._greeting: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        if tls is not None:
            sslproto.SSLProtocol.max_size = _TLS_BUFFER  # of a connection; 256 KiB by default

    def open(self, server: uvicorn.Server) -> None:
        """Begin to accept, for a server that has started; it calls ``close`` when it stops."""
        self._server = server
        server.servers.append(cast(asyncio.Server, self))
        self._listener.setblocking(False)
        self._listen()
        self._sweeping = asyncio.create_task(self._sweep())

    def has_room(self) -> bool:
        """Return whether another newcomer would be served now."""
        return self.guests.has_room(monotonic())

    def admit(self, guest: Guest) -> None:
        """Take a connection for known."""
        self.guests.admit(guest)
        self._give_turns()

    def leave(self, guest: Guest) -> None:
        """Forget a connection that has ended."""
        self.guests.leave(guest)
        self._give_turns()

    def end_turn(self, guest: Guest) -> None:
        """Let others be served too."""
        self.guests.end_turn(guest)
        self._give_turns()

    def close(self) -> None:
        """Accept no more, and cut those off that uvicorn does not know yet."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self.guests.cut_waiting()
        for greeting in self._greeting:
            greeting.cancel()

    async def wait_closed(self) -> None:
        """Return once no connection is being greeted; part of what uvicorn asks of a server."""
        if self._greeting:
            await asyncio.wait(self._greeting)

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, place = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no handles left, or no memory
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._listener)
                loop.call_later(_PAUSE, self._listen)
                return
            self._take(connection, address_of(place[0]))

    def _take(self, connection: socket.socket, address: str) -> None:
        """Let a connection wait until something comes from it."""
        loop = asyncio.get_running_loop()
        guest = Guest(address, monotonic())

        def cut() -> None:
            loop.remove_reader(connection)
            connection.close()

        guest.cut, guest.serve = cut, lambda: self._greet(guest, connection)
        guest.turn_over = lambda: self.end_turn(guest)
        connection.setblocking(False)
        self.guests.enter(guest)
        loop.add_reader(connection, self._look, guest, connection, _FIRST_LOOK)

    def _look(self, guest: Guest, connection: socket.socket, again: float) -> None:
        """Have a connection served if enough came from it; else look again later."""
        loop, found = asyncio.get_running_loop(), _peeked(connection)
        if found is None:  # nothing after all
            return
        loop.remove_reader(connection)  # it stays readable, and would call this again and again
        guest.cut = connection.close
        if not found or (self.tls is not None and found[:1] != _TLS_GREETING):
            self.guests.leave(guest)
            connection.close()
        elif self._is_whole(found) and self.tls is not None and not is_cheap(found):
            with suppress(OSError):
                connection.recv(_HEAD)  # closing on unread bytes would cut off the answer
                connection.send(REFUSAL)
            self.guests.leave(guest)
            connection.close()
        elif self._is_whole(found):
            self.guests.is_ready(guest)
            if self.tls is None and self._trusts(found):
                self.guests.serve(guest, monotonic())
            self._give_turns()
        else:
            more = (guest, connection, min(2.0 * again, _LAST_LOOK))
            later = loop.call_later(again, self._look, *more)

            def cut() -> None:
                later.cancel()
                connection.close()

            guest.cut = cut

    def _is_whole(self, begun: bytes) -> bool:
        """Return whether bytes hold a head of a request, or of TLS what a client says first."""
        if self.tls is None:
            return b"\n\r\n" in begun or b"\n\n" in begun or len(begun) >= _HEAD
        length = int.from_bytes(begun[_TLS_RECORD - 2 : _TLS_RECORD])
        return len(begun) >= _TLS_RECORD + min(length, _HEAD - _TLS_RECORD)

    def _give_turns(self) -> None:
        self.guests.give_turns(monotonic())

    def _greet(self, guest: Guest, connection: socket.socket) -> None:
        """Have a connection served. Its turn ends soon, whether it has made use of it or not."""
        greeting = asyncio.create_task(self._serve(guest, connection))
        guest.cut, guest.since = greeting.cancel, monotonic()
        self._greeting.add(greeting)
        greeting.add_done_callback(self._greeting.discard)
        asyncio.get_running_loop().call_later(_TURN, self._end_turn_soon, guest)

    def _end_turn_soon(self, guest: Guest) -> None:
        """End a turn, unless it was not made use of because we had no time for it."""
        if guest.waits_for_us:
            asyncio.get_running_loop().call_later(_TURN, self._end_turn_soon, guest)
        else:
            self.end_turn(guest)

    async def _serve(self, guest: Guest, connection: socket.socket) -> None:
        watched = Watched(self._protocol(guest), guest, self._slices, lambda: self.leave(guest))
        try:
            if self.tls is None:
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(lambda: watched, connection)
            else:
                seconds = self._patience.handshake
                await greet(connection, watched, guest, self._slices, tls=self.tls, seconds=seconds)
        except (OSError, asyncio.CancelledError):
            self.leave(guest)
            connection.close()

    def _protocol(self, guest: Guest) -> asyncio.Protocol:
        assert self._server is not None
        make = cast(Callable[..., asyncio.Protocol], self._config.http_protocol_class)
        return make(
            config=self._config,
            server_state=self._server.server_state,
            app_state={**self._server.lifespan.state, _GUEST: (guest, self)},
        )

    async def _sweep(self) -> None:
        """Cut off connections that never finish the head of a request, or never read an answer."""
        while True:
            await asyncio.sleep(min(1.0, self._patience.idle))
            now = monotonic()
            for guest in self.guests.everybody():
                most = self._patience.request if guest.busy else self._patience.idle
                if now - guest.since > most and not (guest.busy and guest.known):
                    self.guests.leave(guest)
                    guest.cut()


class NoteRequests:
    """Middleware that notes whose request is under way, for ``Guests`` to know.

    A connection is closed after a request that was not admitted: strangers have one each.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        seat = scope.get("state", {}).get(_GUEST)
        if seat is None:
            await self._app(scope, receive, send)
            return
        guest, gate = seat
        guest.busy, guest.since, guest.answering = True, monotonic(), asyncio.current_task()

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and not guest.known:
                others = [each for each in message["headers"] if each[0] != b"connection"]
                message["headers"] = [*others, (b"connection", b"close")]
            await send(message)

        try:
            await self._app(scope, receive, send if guest.known else closing)
        finally:
            guest.busy, guest.refused = False, not guest.known
            guest.since, guest.answering = monotonic(), None
            gate.guests.used(guest)
            gate.end_turn(guest)


def guest_of(scope: Scope) -> Guest | None:
    """Return the connection that a request came by; None without a gate, in tests for example."""
    seat = scope.get("state", {}).get(_GUEST)
    return None if seat is None else cast(Guest, seat[0])


def admit(scope: Scope) -> None:
    """Take the connection that a request came by for known."""
    seat = scope.get("state", {}).get(_GUEST)
    if seat is not None and not seat[0].known:
        guest, gate = seat
        gate.admit(guest)


async def serve_behind(gates: Sequence[Gate], server: uvicorn.Server) -> None:
    """Run a server, which accepts through these gates once it has started, until it stops."""

    async def open_gates() -> None:
        while not server.started:
            await asyncio.sleep(_LOOK_SECONDS)
        for gate in gates:
            gate.open(server)

    opening = asyncio.create_task(open_gates())
    try:
        await server.serve(sockets=[])
    finally:
        opening.cancel()


def _peeked(connection: socket.socket) -> bytes | None:
    """Return what can be read from a socket, and leave it there; no bytes at its end, else None."""
    try:
        return connection.recv(_HEAD, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
