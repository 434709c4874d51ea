"""The open connections of a server: which is served next, and which is cut off for another one.

A connection is *waiting* from accept until a whole request has come and it is served. Addresses are
served in rotation. A connection that is served is a *newcomer* until one of its requests is
admitted, which takes a token where tokens are asked for; from then on it is *known*. So a client
without a token holds places of the first two kinds only. If all places of a kind are taken, one
connection is cut off: of the address that has most of them, one that is silent, or that will be
refused, or that came first. An address that a connection was admitted from is *expected*. Every
second turn goes to expected addresses, so that agents are served during a flood from many others.
"""

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

_PATIENCE = 0.5  # seconds in which a newcomer's request is admitted or answered, as a rule
_LOOKED_AT = 32  # addresses of a kind, to find one with many connections
_EXPECTED, _SHARED = 10_000, 8  # addresses, and how many connections of one count as one


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBounds:
    """How many connections there may be.

    ``connections``: newcomers and known ones. ``newcomers``, and of those ``per_address``.
    ``waiting``: accepted, without a whole request yet, or not yet served. ``at_once``: newcomers
    that are served in the same moment, so that known ones are not kept waiting.
    """

    connections: int = 4096
    newcomers: int = 512
    per_address: int = 256
    waiting: int = 8192
    at_once: int = 32


BOUNDS: Final = ConnectionBounds()


def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True, eq=False)
class Connection:
    """One connection.

    ``since``: when it was accepted, or when its last request came or was answered. ``cut`` ends it
    at once, ``serve`` has it served, ``turn_over`` lets others have their turn, ``admitted`` is
    called when it becomes known. ``busy``: a request of it is not answered yet. ``known``: one was
    admitted. ``refused``: its request will be refused after a while, or was answered without being
    admitted; it is the last one. ``waits_for_us``: something that it has said was not looked at
    yet, and its turn goes on until then. ``certificate``: what its client showed, in DER.
    ``answering`` runs a request. ``expected``: one was admitted from its address before.
    """

    address: str
    since: float
    cut: Callable[[], object] = _nothing
    serve: Callable[[], object] = _nothing
    turn_over: Callable[[], object] = _nothing
    admitted: Callable[[], object] = _nothing
    busy: bool = False
    known: bool = False
    refused: bool = False
    expected: bool = False
    waits_for_us: bool = False
    certificate: bytes | None = field(default=None, repr=False)
    answering: "asyncio.Task[object] | None" = field(default=None, repr=False)

    def refuse(self) -> None:
        """Note that its request will be refused."""
        self.refused = True
        self.turn_over()

    def gone(self) -> None:
        """Stop waiting to refuse a request, where its connection has ended."""
        if self.refused and self.answering is not None:
            self.answering.cancel()

    def let_go(self) -> None:
        """Refer to nothing of its transport any more, now that it has ended."""
        self.cut = self.serve = self.admitted = _nothing
        self.answering = None

    def rank(self, now: float) -> int | None:
        """Return a newcomer's rank, by which the lowest is cut off; None if it may not be.

        0 if it will be refused; 1 if its request takes long, since it may not read its answer; 2
        while the head of its request, or TLS, is on its way.
        """
        if self.refused:
            return 0
        if not self.busy:
            return 2
        return None if now - self.since < _PATIENCE else 1


class Connections:
    """Counts connections, makes room and gives turns. For one thread, that of the event loop."""

    def __init__(self, bounds: ConnectionBounds) -> None:
        self.bounds = bounds
        self.cut = 0
        self._silent, self._newcomers = _ByAddress(), _ByAddress()
        self._ready, self._ready_expected = _ByAddress(), _ByAddress()
        self._expected: OrderedDict[str, None] = OrderedDict()  # the longest unused first
        self._expected_next = False
        self._turns: set[Connection] = set()
        self._known: OrderedDict[Connection, None] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._newcomers) + len(self._known)

    @property
    def waiting(self) -> int:
        """How many wait: for their request to come, or to be served."""
        return len(self._silent) + len(self._ready) + len(self._ready_expected)

    @property
    def newcomers(self) -> int:
        """How many are served and have not been admitted yet."""
        return len(self._newcomers)

    def current(self) -> list[Connection]:
        """Return all that are open."""
        return [*self._known, *self._newcomers, *self._waiting()]

    def enter(self, connection: Connection) -> None:
        """Let a connection wait, at the cost of another if there are too many."""
        if self.waiting >= self.bounds.waiting:
            self._cut(self._least_waiting())
        self._silent.add(connection)

    def is_ready(self, connection: Connection) -> None:
        """Put a waiting connection, whose request has come, behind others of its address."""
        if self._silent.discard(connection):
            connection.expected = connection.address in self._expected
            (self._ready_expected if connection.expected else self._ready).add(connection)

    def give_turns(self, now: float) -> None:
        """Have those served that are ready, address by address, as many as may be at once.

        Every second one is from an expected address, as long as there are such.
        """
        while len(self._turns) < self.bounds.at_once:
            self._expected_next = not self._expected_next
            queues = [self._ready, self._ready_expected]
            first, then = reversed(queues) if self._expected_next else queues
            if not (self._serve_one(first, now) or self._serve_one(then, now)):
                return

    def _serve_one(self, queue: "_ByAddress", now: float) -> bool:
        """Have the first one served for which there is a place; return whether there is one."""
        return any(self.serve(queue.next_in_rotation(), now) for _ in range(len(queue.groups)))

    def serve(self, connection: Connection, now: float) -> bool:
        """Have one served that is ready, out of turn; return False if there is no place for it."""
        if not self._make_room(connection.address, now):
            return False
        if not self._ready.discard(connection):
            self._ready_expected.discard(connection)
        self._newcomers.add(connection)
        self._turns.add(connection)
        connection.serve()
        return True

    def end_turn(self, connection: Connection) -> None:
        """Note that other newcomers need not wait for this one any more."""
        self._turns.discard(connection)

    def has_room(self, now: float) -> bool:
        """Return whether another newcomer, from an address of its own, could be served."""
        return self._fits("") or self._least_newcomer("", now) is not None

    def admit(self, connection: Connection) -> None:
        """Take a newcomer for known from now on."""
        if self._newcomers.discard(connection):
            self.end_turn(connection)
            connection.known = True
            self._known[connection] = None
            self._expect(connection.address)
            connection.admitted()

    def used(self, connection: Connection) -> None:
        """Note that a connection was of use just now."""
        if connection in self._known:
            self._known.move_to_end(connection)

    def leave(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self.end_turn(connection)
        self._known.pop(connection, None)
        for group in (self._newcomers, self._ready, self._ready_expected, self._silent):
            group.discard(connection)

    def cut_waiting(self) -> None:
        """Cut off all that wait."""
        for connection in self._waiting():
            self._cut(connection)

    def _waiting(self) -> list[Connection]:
        return [*self._ready, *self._ready_expected, *self._silent]

    def _expect(self, address: str) -> None:
        self._expected[address] = None
        self._expected.move_to_end(address)
        if len(self._expected) > _EXPECTED:
            self._expected.popitem(last=False)

    def _weight(self, address: str, number: int) -> float:
        """Return what connections of an address count: several agents may share an expected one."""
        return number / _SHARED if address in self._expected else number

    def _least_waiting(self) -> Connection:
        """Return the one to cut off for another that comes: of the address with most, a silent one.

        If silent ones of any address went first, one address with thousands of requests would cut
        off all others before their requests have come.
        """
        silent, ready, expected = (
            queue.groups for queue in (self._silent, self._ready, self._ready_expected)
        )

        def size(address: str) -> float:
            asking = len(ready.get(address, ())) + len(expected.get(address, ()))
            return self._weight(address, len(silent.get(address, ())) + asking)

        looked_at = (islice(groups, _LOOKED_AT) for groups in (silent, ready, expected))
        fullest = max(chain.from_iterable(looked_at), key=size)
        return next(iter(silent.get(fullest) or ready.get(fullest) or expected[fullest]))

    def _largest_first(self) -> list[dict[Connection, None]]:
        """Return newcomers by address, those with most first; expected ones weigh less."""
        groups = self._newcomers.groups

        def size(address: str) -> float:
            return self._weight(address, len(groups[address]))

        return [groups[address] for address in sorted(groups, key=size, reverse=True)]

    def _make_room(self, address: str, now: float) -> bool:
        if self._fits(address):
            return True
        goes = self._least_newcomer(address, now)
        if goes is not None:
            self._cut(goes)
        return goes is not None

    def _fits(self, address: str) -> bool:
        return (
            len(self) < self.bounds.connections
            and len(self._newcomers) < self.bounds.newcomers
            and len(self._newcomers.groups.get(address, ())) < self.bounds.per_address
        )

    def _cut(self, connection: Connection) -> None:
        self.leave(connection)
        self.cut += 1
        connection.cut()

    def _least_newcomer(self, address: str, now: float) -> Connection | None:
        """Return the one to cut off for a newcomer from an address; None if all have to stay.

        One from the same address if that has as many as it may have; else one from the address with
        the most; and where known ones take all places, one of those.
        """
        group = self._newcomers.groups.get(address, {})
        if len(group) >= self.bounds.per_address:
            return _least(group, now)
        for group in self._largest_first():
            if (found := _least(group, now)) is not None:
                return found
        if len(self._newcomers) < self.bounds.newcomers:
            return next((connection for connection in self._known if not connection.busy), None)
        return None


class _ByAddress:
    """Connections by their address, each group in the order in which they came."""

    def __init__(self) -> None:
        self.groups: OrderedDict[str, dict[Connection, None]] = OrderedDict()
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Connection]:
        return (connection for group in self.groups.values() for connection in group)

    def next_in_rotation(self) -> Connection:
        """Return the first of an address, and of another one the next time."""
        address, group = next(iter(self.groups.items()))
        self.groups.move_to_end(address)
        return next(iter(group))

    def add(self, connection: Connection) -> None:
        """Add a connection."""
        self.groups.setdefault(connection.address, {})[connection] = None
        self._number += 1

    def discard(self, connection: Connection) -> bool:
        """Remove a connection; return whether it was there."""
        group = self.groups.get(connection.address, {})
        if connection not in group:
            return False
        del group[connection]
        self._number -= 1
        if not group:
            del self.groups[connection.address]
        return True


def _least(group: Iterable[Connection], now: float) -> Connection | None:
    """Return the newcomer of the lowest rank; of several, the one that came first."""
    found, least = None, 3
    for connection in group:
        rank = connection.rank(now)
        if rank is not None and rank < least:
            found, least = connection, rank
            if rank == 0:
                break
    return found


def address_of(host: str) -> str:
    """Return what counts as one address: IPv4 as it is, of IPv6 the network of 64 bits."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False).network_address)
