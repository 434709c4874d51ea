"""Who is connected to a server, whose turn it is, and who has to go when another one comes.

A connection is *waiting* from accept until a whole request has come, and costs next to nothing. Its
turn comes with those of other addresses in rotation. Then it is a *newcomer*, being served, until a
request of it was admitted, which takes a token where tokens are asked for; from then on it is
*known*. Strangers hold places of the first two kinds alone. Where all are taken, the one that
deserves its place least is cut off: of the address that has most of them, one that is silent, that
will be refused, or that came first. An address that one was admitted from is *expected*: every
second turn is for those, so that agents come back beside a flood from many other addresses.
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
_EXPECTED = 10_000  # addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
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


BOUNDS: Final = Bounds()


def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True, eq=False)
class Guest:
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

    def deserves(self, now: float) -> int | None:
        """Return how much a newcomer deserves its place; None if it may not be cut off.

        Nothing if it is sent away; little if its request goes on and on, since it may not read its
        answer; most while the head of its request, or TLS, is on its way.
        """
        if self.refused:
            return 0
        if not self.busy:
            return 2
        return None if now - self.since < _PATIENCE else 1


class Guests:
    """Counts connections, makes room and gives turns. For one thread, that of the event loop."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.cut = 0
        self._silent, self._newcomers = _ByAddress(), _ByAddress()
        self._ready, self._ready_expected = _ByAddress(), _ByAddress()
        self._expected: OrderedDict[str, None] = OrderedDict()  # the longest unused first
        self._expected_next = False
        self._turns: set[Guest] = set()
        self._known: OrderedDict[Guest, None] = OrderedDict()  # the longest unused first

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

    def everybody(self) -> list[Guest]:
        """Return all of them."""
        return [*self._known, *self._newcomers, *self._waiting()]

    def enter(self, guest: Guest) -> None:
        """Let a connection wait, at the cost of another if there are too many."""
        if self.waiting >= self.bounds.waiting:
            self._cut(self._least_waiting())
        self._silent.add(guest)

    def is_ready(self, guest: Guest) -> None:
        """Put a waiting connection, whose request has come, behind others of its address."""
        if self._silent.discard(guest):
            guest.expected = guest.address in self._expected
            (self._ready_expected if guest.expected else self._ready).add(guest)

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

    def serve(self, guest: Guest, now: float) -> bool:
        """Have one served that is ready, out of turn; return False if there is no place for it."""
        if not self._make_room(guest.address, now):
            return False
        if not self._ready.discard(guest):
            self._ready_expected.discard(guest)
        self._newcomers.add(guest)
        self._turns.add(guest)
        guest.serve()
        return True

    def end_turn(self, guest: Guest) -> None:
        """Note that a newcomer keeps nobody waiting any more."""
        self._turns.discard(guest)

    def has_room(self, now: float) -> bool:
        """Return whether another newcomer, from an address of its own, could be served."""
        return self._fits("") or self._least_newcomer("", now) is not None

    def admit(self, guest: Guest) -> None:
        """Take a newcomer for known from now on."""
        if self._newcomers.discard(guest):
            self.end_turn(guest)
            guest.known = True
            self._known[guest] = None
            self._expect(guest.address)
            guest.admitted()

    def used(self, guest: Guest) -> None:
        """Note that a connection was of use just now."""
        if guest in self._known:
            self._known.move_to_end(guest)

    def leave(self, guest: Guest) -> None:
        """Remove a connection that has ended."""
        self.end_turn(guest)
        self._known.pop(guest, None)
        for group in (self._newcomers, self._ready, self._ready_expected, self._silent):
            group.discard(guest)

    def cut_waiting(self) -> None:
        """Cut off all that wait."""
        for guest in self._waiting():
            self._cut(guest)

    def _waiting(self) -> list[Guest]:
        return [*self._ready, *self._ready_expected, *self._silent]

    def _expect(self, address: str) -> None:
        self._expected[address] = None
        self._expected.move_to_end(address)
        if len(self._expected) > _EXPECTED:
            self._expected.popitem(last=False)

    def _least_waiting(self) -> Guest:
        """Return who has to go for another that comes: of the address with most, a silent one.

        Where silent ones went first whatever their address, one that asks in thousands cut off all
        others before their requests had come.
        """
        silent, ready, expected = (
            queue.groups for queue in (self._silent, self._ready, self._ready_expected)
        )

        def size(address: str) -> float:
            asking = len(ready.get(address, ())) + len(expected.get(address, ()))
            return len(silent.get(address, ())) + asking - 0.5 * (address in self._expected)

        looked_at = (islice(groups, _LOOKED_AT) for groups in (silent, ready, expected))
        fullest = max(chain.from_iterable(looked_at), key=size)
        return next(iter(silent.get(fullest) or ready.get(fullest) or expected[fullest]))

    def _largest_first(self) -> list[dict[Guest, None]]:
        """Return newcomers by address, those with most first; of as many, expected ones last."""
        groups = self._newcomers.groups

        def size(address: str) -> float:
            return len(groups[address]) - 0.5 * (address in self._expected)

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

    def _cut(self, guest: Guest) -> None:
        self.leave(guest)
        self.cut += 1
        guest.cut()

    def _least_newcomer(self, address: str, now: float) -> Guest | None:
        """Return who has to go for a newcomer from an address; None if all have to stay.

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
            return next((guest for guest in self._known if not guest.busy), None)
        return None


class _ByAddress:
    """Connections by their address, each group in the order in which they came."""

    def __init__(self) -> None:
        self.groups: OrderedDict[str, dict[Guest, None]] = OrderedDict()
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Guest]:
        return (guest for group in self.groups.values() for guest in group)

    def next_in_rotation(self) -> Guest:
        """Return the first of an address, and of another one the next time."""
        address, group = next(iter(self.groups.items()))
        self.groups.move_to_end(address)
        return next(iter(group))

    def add(self, guest: Guest) -> None:
        """Add a connection."""
        self.groups.setdefault(guest.address, {})[guest] = None
        self._number += 1

    def discard(self, guest: Guest) -> bool:
        """Remove a connection; return whether it was there."""
        group = self.groups.get(guest.address, {})
        if guest not in group:
            return False
        del group[guest]
        self._number -= 1
        if not group:
            del self.groups[guest.address]
        return True


def _least(group: Iterable[Guest], now: float) -> Guest | None:
    """Return the one that deserves its place least; of several, the one that came first."""
    found, least = None, 3
    for guest in group:
        rank = guest.deserves(now)
        if rank is not None and rank < least:
            found, least = guest, rank
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
