"""TLS of one connection, which is given a stranger's bytes in turns.

What TLS does with bytes costs time before any of them reach a parser: a millisecond for a
handshake, and as much for 2 KiB of messages that change keys, which a client may send without end.
So the bytes of a stranger are held as they come, and passed on among the slices of all strangers.
"""

import asyncio
import socket
import ssl
import time
from asyncio import sslproto
from typing import Any, cast

from fedbandit.web.connections import Connection
from fedbandit.web.watched import SLICE, STEP, Slices, Watched

_GOODBYE_SECONDS = 2.0  # for the other side to end TLS


class Sealed(asyncio.BufferedProtocol):
    """Passes bytes from a connection on to TLS; from one that was admitted, as they come.

    ``rank``: 0 while it has cost no more than a handshake does. ``pause_reading`` and
    ``resume_reading`` are for what reads from TLS: bytes wait here meanwhile, where they have cost
    nothing yet.
    """

    def __init__(self, inner: sslproto.SSLProtocol, connection: Connection, slices: Slices) -> None:
        self._inner, self._connection, self._slices = inner, connection, slices
        self._held = bytearray()
        self._room: memoryview | None = None  # for the next slice
        self._is_wanted, self._is_read = True, True
        self._spent = 0.0  # seconds of this thread, which others may keep waiting
        self.rank, self.expected = 0, connection.expected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self._inner.connection_made(self._transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to put the next bytes."""
        if self._goes_straight_on():
            return self._inner.get_buffer(sizehint)
        if self._room is None:
            self._room = memoryview(bytearray(SLICE))
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on the bytes that came, or hold them."""
        if self._goes_straight_on():
            self._inner.buffer_updated(nbytes)
            return
        assert self._room is not None
        self._held += self._room[:nbytes]
        self._transport.pause_reading()
        self._offer()

    def pass_on(self) -> bool:
        """Pass on what is held, unless that has to wait; return False: there is no more."""
        if self._transport.is_closing():
            self._held.clear()
        if self._held and self._may_pass():
            data = self._held
            self._held = bytearray()
            began = time.thread_time()
            for start in range(0, len(data), SLICE):
                piece = data[start : start + SLICE]
                self._inner.get_buffer(-1)[: len(piece)] = piece
                self._inner.buffer_updated(len(piece))
            self._spent += time.thread_time() - began
            self._read_on()
        self._connection.waits_for_us = False
        return False

    def pause_reading(self) -> None:
        """Pass on nothing for now."""
        self._is_wanted = False
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Pass bytes on again."""
        self._is_wanted = True
        self._go_on()

    def eof_received(self) -> bool | None:
        """Pass on that no more bytes come."""
        return cast(bool | None, self._inner.eof_received())

    def pause_writing(self) -> None:
        """Take nothing more from a stranger that does not read: TLS would have to answer it."""
        self._is_read = False
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass bytes on again."""
        self._is_read = True
        self._inner.resume_writing()
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what is held."""
        self._slices.discard(self)
        self._held.clear()
        self._connection.waits_for_us = False
        self._inner.connection_lost(exc)

    def _goes_straight_on(self) -> bool:
        return self._connection.known and not self._held

    def _may_pass(self) -> bool:
        return self._is_wanted and (self._is_read or self._connection.known)

    def _offer(self) -> None:
        if not self._may_pass():
            return
        self.rank = int(self._spent / STEP)
        self._connection.waits_for_us = not self.rank
        self._slices.add(self, self._connection.address)

    def _go_on(self) -> None:
        if self._held:
            self._offer()
        else:
            self._read_on()

    def _read_on(self) -> None:
        """Read again, unless TLS has enough for now: it goes on by itself then."""
        paused = cast(Any, self._inner)._ssl_reading_paused
        if self._may_pass() and not paused and not self._transport.is_closing():
            self._transport.resume_reading()


class SmallTls(sslproto.SSLProtocol):
    """TLS that reads so many bytes at a time, and keeps a buffer of as many all along."""

    max_size = 2**15


async def greet(
    accepted: socket.socket,
    watched: Watched,
    connection: Connection,
    slices: Slices,
    *,
    tls: ssl.SSLContext,
    seconds: float,
) -> None:
    """Set TLS up on a connection, for what reads from it; raise OSError if that fails."""
    loop = asyncio.get_running_loop()
    shaken: asyncio.Future[None] = loop.create_future()
    make = cast(Any, SmallTls)  # whose times are whole numbers to the type checker
    inner = make(
        loop,
        watched,
        tls,
        shaken,
        server_side=True,
        ssl_handshake_timeout=seconds,
        ssl_shutdown_timeout=_GOODBYE_SECONDS,
    )
    sealed = Sealed(inner, connection, slices)
    watched.reads_from = sealed
    transport, _ = await loop.connect_accepted_socket(lambda: sealed, accepted)
    try:
        await shaken
    except BaseException:
        transport.abort()
        raise
