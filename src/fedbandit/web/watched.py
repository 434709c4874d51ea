"""One connection between its transport and uvicorn, which is given a stranger's bytes in turns.

A stranger is a client none of whose requests was admitted yet (docs/security.md).

Parsing costs time: of a head with thousands of lines, of a body in thousands of chunks, up to a
second for what one read brings. So the lines of a stranger's head are counted, and what comes
after its head is passed on in slices, a few milliseconds of them at a time, between which other
connections are served. From a connection that was admitted bytes are passed on as they come, unless
one read took long; after some that did not, they are again.
"""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from fedbandit.web.connections import Connection

MOST_LINES: Final = 256
"""Of the head of a request; a stranger with more is refused."""
SLICE: Final = 2048
"""Bytes passed on at once."""
_TURN = 0.005  # seconds of slices before other connections are served
STEP: Final = 0.01
"""Seconds that a connection may cost before others go first."""
_ADDRESSES = 4096  # remembered at most, unless they have something to pass on
_COSTLY = 0.05  # seconds to pass on one read; that connection gets slices from then on
_CHEAP, _FORGIVEN = 0.001, 64  # until so many slices took less than so many seconds each
_READ = 2**14  # bytes read at a time from a connection that gets slices
_UNSENT = 2**16  # bytes of an answer that wait at most before the rest of it has to
_END = re.compile(rb"\n\r?\n")
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)


class Holding(Protocol):
    """What holds bytes back. Those of a lower ``rank`` are passed on first.

    ``expected``: it comes from an address that one was admitted from.
    """

    rank: int
    expected: bool

    def pass_on(self) -> bool:
        """Pass on a slice; return whether there is more."""
        ...


class Reading(Protocol):
    """Where bytes come from."""

    def pause_reading(self) -> None:
        """Read no more for now."""
        ...

    def resume_reading(self) -> None:
        """Read again."""
        ...


class Slices:
    """Passes on what connections hold back, a slice at a time.

    First of those that have cost little so far; among them of one address after the other, so that
    many of one address keep only each other waiting, and those that come later wait longer. Every
    second slice is of one that is expected, as long as there are such.
    """

    def __init__(self) -> None:
        self._holding: dict[Holding, tuple[int, str]] = {}  # the round that each is in, its address
        self._rounds: dict[str, int] = {}  # the last one that each address has something in
        self._round, self._expected_next = 0, False
        self._begun = False

    def add(self, connection: Holding, address: str) -> None:
        """Pass on what a connection holds, soon."""
        if connection in self._holding:
            return
        if len(self._rounds) > _ADDRESSES:
            self._rounds = {each: last for each, last in self._rounds.items() if last > self._round}
        found = max(self._round, self._rounds.get(address, 0)) + 1
        self._rounds[address] = found
        self._holding[connection] = found, address
        if not self._begun:
            self._begun = True
            asyncio.get_running_loop().call_soon(self._turn)

    def discard(self, connection: Holding) -> None:
        """Pass on nothing more from a connection."""
        self._holding.pop(connection, None)

    def _turn(self) -> None:
        ends = time.monotonic() + _TURN
        try:
            while self._holding and time.monotonic() < ends:
                self._expected_next = not self._expected_next
                chosen = min(self._holding, key=self._comes)
                found, address = self._holding.pop(chosen)
                self._round = max(self._round, found)
                if chosen.pass_on():
                    self.add(chosen, address)
        finally:
            self._begun = bool(self._holding)
            if self._begun:
                asyncio.get_running_loop().call_soon(self._turn)

    def _comes(self, connection: Holding) -> tuple[bool, int, int]:
        later = self._expected_next and not connection.expected
        return later, connection.rank, self._holding[connection][0]


class Watched(asyncio.Protocol):
    """Passes everything on to uvicorn's protocol, and notes when the connection begins and ends.

    ``ended`` is called at its end. ``spent``: seconds that passing on its bytes took.
    ``reads_from``: what is below TLS, if there is TLS.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        connection: Connection,
        slices: Slices,
        ended: Callable[[], None],
    ) -> None:
        self._inner, self._connection, self._slices, self._ended = inner, connection, slices, ended
        self._held = bytearray()
        self._tail, self._lines = b"", 0  # of a head that has not ended yet
        self._in_head, self._is_costly, self._cheap = True, False, 0
        self.spent, self.rank, self.expected = 0.0, 0, connection.expected
        self.reads_from: Reading | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take up a connection that is to be served."""
        self._transport = cast(asyncio.Transport, transport)
        self._connection.cut = self._transport.abort
        self._connection.admitted = self._be_known
        secure = transport.get_extra_info("ssl_object")
        if secure is not None:
            self._connection.certificate = secure.getpeercert(binary_form=True)
        self._read_at_most(_READ)
        self._transport.set_write_buffer_limits(_UNSENT)  # TLS would keep 512 KiB
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on bytes, or hold back what comes after a stranger's head."""
        if self._connection.known and not self._is_costly:
            self._feed(data)
            return
        if self._in_head:
            data = self._feed_head(data)
        if data:
            self._held += data
            (self.reads_from or self._transport).pause_reading()
            self._slices.add(self, self._connection.address)

    def pass_on(self) -> bool:
        """Pass on a slice of what is held; return whether there is more."""
        if self._transport.is_closing():
            self._held.clear()
            return False
        data = bytes(self._held[:SLICE])
        del self._held[:SLICE]
        self._feed(data)
        self.rank = int(self.spent / STEP)
        if not self._held:
            self._forgive()
            self._read_on()
        return bool(self._held)

    def eof_received(self) -> bool | None:
        """Pass on that no more bytes come."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass on that the other side does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the other side reads again."""
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass on that it has ended, and forget what is held."""
        self._slices.discard(self)
        self._held.clear()
        self._ended()
        self._inner.connection_lost(error)
        self._connection.gone()
        self._connection.let_go()  # in a circle they would wait for the garbage collector
        self.reads_from = None

    def _feed_head(self, data: bytes) -> bytes:
        """Pass on what belongs to the head of the first request; return the rest."""
        begins = len(self._tail)
        found = _END.search(self._tail + data)
        head = data if found is None else data[: found.end() - begins]
        self._tail, self._in_head = (self._tail + data)[-2:], found is None
        self._lines += head.count(b"\n")
        if self._lines > MOST_LINES:
            self._transport.write(_TOO_LONG)
            self._transport.close()
            return b""
        self._feed(head)
        return data[len(head) :]

    def _feed(self, data: bytes) -> None:
        began = time.monotonic()
        self._inner.data_received(data)
        took = time.monotonic() - began
        self.spent += took
        self._cheap = self._cheap + 1 if took < _CHEAP else 0
        if took > _COSTLY and not self._is_costly:
            self._is_costly = True
            self._read_at_most(_READ)

    def _forgive(self) -> None:
        """Take a connection for cheap again: a busy machine makes one read of any of them long."""
        if self._is_costly and self._connection.known and self._cheap >= _FORGIVEN:
            self._is_costly = False
            self._read_at_most(None)

    def _be_known(self) -> None:
        """Pass on everything from now on as it comes."""
        if self._is_costly:
            return
        self._in_head = False
        self._slices.discard(self)
        self._read_at_most(None)
        if self._held:
            data = bytes(self._held)
            self._held.clear()
            self._feed(data)
            self._read_on()

    def _read_on(self) -> None:
        """Read again, unless uvicorn has enough for now: it goes on by itself then."""
        if self.reads_from is not None:
            self.reads_from.resume_reading()  # uvicorn pauses what is above TLS
        elif not cast(Any, self._inner).flow.read_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _read_at_most(self, size: int | None) -> None:
        """Set how much one read brings; under TLS, one slice waits while none is wanted.

        None: as usual. Of event loops that do not let it be chosen, more is held.
        """
        place = cast(Any, self._transport)
        if hasattr(place, "max_size"):
            place.max_size = size or type(place).max_size
        if hasattr(place, "set_read_buffer_limits"):
            place.set_read_buffer_limits(None if size is None else 1)
