"""Accepting connections for uvicorn, within bounds that hold from the first packet on.

asyncio's own servers accept whatever comes, and build a transport, TLS and a parser for it at once.
Here a connection is a socket and a ``Connection`` until a whole head of a request, or a whole
greeting of TLS, lies in the system's buffer: those that are silent or send half of it cost next to
nothing.
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

from fedbandit.web.connections import Connection, ConnectionBounds, Connections, address_of
from fedbandit.web.greeting import REFUSAL, is_cheap
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

_CONNECTION = "connection"


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
        bounds: ConnectionBounds,
        patience: Patience,
        tls: ssl.SSLContext | None = None,
        trusts: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self.connections, self.tls, self._trusts = Connections(bounds), tls, trusts
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
        return self.connections.has_room(monotonic())

    def admit(self, connection: Connection) -> None:
        """Take a connection for known."""
        self.connections.admit(connection)
        self._give_turns()

    def leave(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self.connections.leave(connection)
        self._give_turns()

    def end_turn(self, connection: Connection) -> None:
        """Let others be served too."""
        self.connections.end_turn(connection)
        self._give_turns()

    def close(self) -> None:
        """Accept no more, and cut those off that uvicorn does not know yet."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self.connections.cut_waiting()
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
                accepted, place = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no handles left, or no memory
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._listener)
                loop.call_later(_PAUSE, self._listen)
                return
            self._take(accepted, address_of(place[0]))

    def _take(self, accepted: socket.socket, address: str) -> None:
        """Let a connection wait until something comes from it."""
        loop = asyncio.get_running_loop()
        connection = Connection(address, monotonic())

        def cut() -> None:
            loop.remove_reader(accepted)
            accepted.close()

        connection.cut, connection.serve = cut, lambda: self._greet(connection, accepted)
        connection.turn_over = lambda: self.end_turn(connection)
        accepted.setblocking(False)
        self.connections.enter(connection)
        loop.add_reader(accepted, self._look, connection, accepted, _FIRST_LOOK)

    def _look(self, connection: Connection, accepted: socket.socket, again: float) -> None:
        """Have a connection served if enough came from it; else look again later."""
        loop, found = asyncio.get_running_loop(), _peeked(accepted)
        if found is None:  # nothing after all
            return
        loop.remove_reader(accepted)  # it stays readable, and would call this again and again
        connection.cut = accepted.close
        if not found or (self.tls is not None and found[:1] != _TLS_GREETING):
            self.connections.leave(connection)
            accepted.close()
        elif self._is_whole(found) and self.tls is not None and not is_cheap(found):
            with suppress(OSError):
                accepted.recv(_HEAD)  # closing on unread bytes would cut off the answer
                accepted.send(REFUSAL)
            self.connections.leave(connection)
            accepted.close()
        elif self._is_whole(found):
            self.connections.is_ready(connection)
            if self.tls is None and self._trusts(found):
                self.connections.serve(connection, monotonic())
            self._give_turns()
        else:
            more = (connection, accepted, min(2.0 * again, _LAST_LOOK))
            later = loop.call_later(again, self._look, *more)

            def cut() -> None:
                later.cancel()
                accepted.close()

            connection.cut = cut

    def _is_whole(self, begun: bytes) -> bool:
        """Return whether bytes hold a head of a request, or of TLS what a client says first."""
        if self.tls is None:
            return b"\n\r\n" in begun or b"\n\n" in begun or len(begun) >= _HEAD
        length = int.from_bytes(begun[_TLS_RECORD - 2 : _TLS_RECORD])
        return len(begun) >= _TLS_RECORD + min(length, _HEAD - _TLS_RECORD)

    def _give_turns(self) -> None:
        self.connections.give_turns(monotonic())

    def _greet(self, connection: Connection, accepted: socket.socket) -> None:
        """Have a connection served. Its turn ends soon, whether it has made use of it or not."""
        greeting = asyncio.create_task(self._serve(connection, accepted))
        connection.cut, connection.since = greeting.cancel, monotonic()
        self._greeting.add(greeting)
        greeting.add_done_callback(self._greeting.discard)
        asyncio.get_running_loop().call_later(_TURN, self._end_turn_soon, connection)

    def _end_turn_soon(self, connection: Connection) -> None:
        """End a turn, unless it was not made use of because we had no time for it."""
        if connection.waits_for_us:
            asyncio.get_running_loop().call_later(_TURN, self._end_turn_soon, connection)
        else:
            self.end_turn(connection)

    async def _serve(self, connection: Connection, accepted: socket.socket) -> None:
        watched = Watched(
            self._protocol(connection), connection, self._slices, lambda: self.leave(connection)
        )
        try:
            if self.tls is None:
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(lambda: watched, accepted)
            else:
                seconds = self._patience.handshake
                await greet(
                    accepted, watched, connection, self._slices, tls=self.tls, seconds=seconds
                )
        except (OSError, asyncio.CancelledError):
            self.leave(connection)
            accepted.close()

    def _protocol(self, connection: Connection) -> asyncio.Protocol:
        assert self._server is not None
        make = cast(Callable[..., asyncio.Protocol], self._config.http_protocol_class)
        return make(
            config=self._config,
            server_state=self._server.server_state,
            app_state={**self._server.lifespan.state, _CONNECTION: (connection, self)},
        )

    async def _sweep(self) -> None:
        """Cut off connections that never finish the head of a request, or never read an answer."""
        while True:
            await asyncio.sleep(min(1.0, self._patience.idle))
            now = monotonic()
            for connection in self.connections.current():
                most = self._patience.request if connection.busy else self._patience.idle
                if now - connection.since > most and not (connection.busy and connection.known):
                    self.connections.leave(connection)
                    connection.cut()


class NoteRequests:
    """Middleware that notes whose request is under way, for ``Connections`` to know.

    A connection is closed after a request that was not admitted: strangers have one each.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        seat = scope.get("state", {}).get(_CONNECTION)
        if seat is None:
            await self._app(scope, receive, send)
            return
        connection, gate = seat
        connection.busy, connection.since, connection.answering = (
            True,
            monotonic(),
            asyncio.current_task(),
        )

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and not connection.known:
                others = [each for each in message["headers"] if each[0] != b"connection"]
                message["headers"] = [*others, (b"connection", b"close")]
            await send(message)

        try:
            await self._app(scope, receive, send if connection.known else closing)
        finally:
            connection.busy, connection.refused = False, not connection.known
            connection.since, connection.answering = monotonic(), None
            gate.connections.used(connection)
            gate.end_turn(connection)


def connection_of(scope: Scope) -> Connection | None:
    """Return the connection that a request came by; None without a gate, in tests for example."""
    seat = scope.get("state", {}).get(_CONNECTION)
    return None if seat is None else cast(Connection, seat[0])


def admit(scope: Scope) -> None:
    """Take the connection that a request came by for known."""
    seat = scope.get("state", {}).get(_CONNECTION)
    if seat is not None and not seat[0].known:
        connection, gate = seat
        gate.admit(connection)


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


def _peeked(accepted: socket.socket) -> bytes | None:
    """Return what can be read from a socket, and leave it there; no bytes at its end, else None."""
    try:
        return accepted.recv(_HEAD, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
