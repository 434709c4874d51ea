"""Open decisions and the journal that they are written in, kept in step.

Two locks. The *book's own* is held for a few microseconds at a time, by deciding too. The *ledger*
orders everything that is learned: whoever calls ``pay``, ``forget``, ``learn`` or ``rewrite`` holds
it, and may wait for the disk meanwhile. Deciding never takes it, so it never waits for the disk's
own pace, for a merge or for the network.
"""

from collections.abc import Callable, Iterable
from math import inf
from threading import Lock

from fedbandit.client.decisions import Open, OpenDecisions
from fedbandit.client.state.journal import Journal
from fedbandit.client.state.records import (
    Activated,
    Decided,
    Forgotten,
    Learned,
    Ran,
    Record,
    Rewarded,
    Settled,
    bytes_of,
    encode,
)
from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import Closed, OutputError, complaint

_SMALL = 2**20


class Book:
    """What has been decided and not yet paid.

    ``whole`` returns the records that a rewritten journal begins with. ``durable`` makes every
    reward wait for the disk. Without a journal everything is in memory alone. ``ran`` is how long
    the agent has run before, as its journal says.
    """

    def __init__(
        self,
        open_decisions: OpenDecisions,
        clock: Callable[[], float],
        *,
        ran: float = 0.0,
        durable: bool = False,
    ) -> None:
        self.lock = Lock()
        self.decided = 0
        self._open = open_decisions
        self._clock, self._began = clock, clock() - ran
        self._marked = ran
        self._durable = durable
        self._journal: Journal | None = None
        self._whole: Callable[[], Iterable[Record]] = tuple
        self._kept = 0
        self._broken = self._closed = False
        self._meanwhile: list[bytes] | None = None

    @property
    def open(self) -> int:
        """How many decisions wait for their reward."""
        return len(self._open)

    @property
    def forgotten(self) -> int:
        """How many decisions were given up without an observation since the start."""
        return self._open.forgotten

    @property
    def ran(self) -> float:
        """Seconds that the agent has been running, over all its runs."""
        return self._clock() - self._began

    @property
    def broken(self) -> bool:
        """Whether the disk failed, and the journal lacks what is in memory."""
        return self._broken

    @property
    def too_long(self) -> bool:
        """Whether most of the journal is history that a rewritten one would leave out."""
        journal = self._journal
        return journal is not None and journal.size > _SMALL + 4 * self._kept

    def write_to(self, journal: Journal, whole: Callable[[], Iterable[Record]]) -> None:
        """Write everything from now on to a journal that holds everything up to now."""
        self._journal, self._whole = journal, whole

    def decide(self, name: str, arm: Array, *, active: bool, chosen: bool) -> None:
        """Open a decision. If the disk fails it is open in memory alone, until the disk is mended.

        ``chosen`` says that a caller picked the id, so that it may have been used before.
        """
        record, now = b"", self.ran
        if self._journal is not None:
            record = encode(Decided(name, bytes_of(arm), active, now))
        with self.lock:
            self._check_open()
            if chosen:
                self._open.check_new(name)
            pushed_out = self._open.add(name, Open(arm, now, active))
            self.decided += 1
            self._marked = now
            self._note(record)
            for old in pushed_out:
                self._note(encode(Forgotten(old)))

    def activate(self, name: str) -> None:
        """Let a deferred decision count; one that counts already stays as it is."""
        with self.lock:
            self._check_open()
            if not self._open.get(name).active:
                now = self.ran
                self._open.activate(name, now)
                self._note(encode(Activated(name, now)))

    def mark_time(self, *, every: float) -> float:
        """Note how long the agent has run, if decisions wait and the last note is so old.

        A killed process cannot say it any more: what came after the last note is not counted.
        Returns in how many seconds to call this again; infinity where there is no journal.
        """
        with self.lock:
            if self._journal is None:
                return inf
            if not len(self._open):
                return every  # a decision that is made meanwhile is a note itself
            now = self.ran
            if now - self._marked >= every:
                self._marked = now
                self._note(encode(Ran(now)))
            return self._marked + every - now

    def get(self, name: str) -> Open:
        """Return an open decision; raise if there is none of that id."""
        with self.lock:
            return self._open.get(name)

    def pay(self, name: str, reward: float) -> None:
        """Settle a decision with its reward, on record first; raise if it is no longer open.

        Looking and writing are one step: a decision pushed out in between would be paid here, but
        not in what the journal gives back.
        """
        self._record(encode(Rewarded(name, reward)), flush=self._durable, about=name)
        with self.lock:
            self._open.settle(name)

    def forget(self, name: str) -> None:
        """Settle a decision without an observation; raise if it is no longer open."""
        self._record(encode(Forgotten(name)), flush=False, about=name)
        with self.lock:
            self._open.settle(name)
            self._open.forgotten += 1

    def learn(self, learned: Learned) -> None:
        """Record everything that is learned; on the disk when this returns."""
        self._record(encode(learned), flush=True)

    def oldest(self) -> tuple[str, Open] | None:
        """Return the decision that has waited longest."""
        with self.lock:
            return self._open.oldest()

    def rewrite(self) -> None:
        """Write the journal anew, without its history. Decisions made meanwhile are taken along.

        The ids that are settled are one record, of as many as are remembered in memory.
        """
        old = self._journal
        if old is None:
            return
        whole = [encode(record) for record in self._whole()]
        with self.lock:
            decided, settled = self._open.items(), self._open.settled()
            ran, self._meanwhile = self.ran, []
        try:
            whole += [encode(Settled(settled)), encode(Ran(ran))]
            made = Journal.create(old.path, [*whole, *map(_reopened, decided)])
            self._swap(old, made)
        finally:
            with self.lock:
                self._meanwhile = None
        made.settle()

    def close(self) -> None:
        """Let go of the journal. From now on whatever would have to be written raises Closed."""
        with self.lock:
            self._closed = True
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def _swap(self, old: Journal, made: Journal) -> None:
        with self.lock:
            kept = made.size
            try:
                for payload in self._meanwhile or ():
                    made.append(payload)
                made.take_the_name(old.path)
            except OutputError:
                made.close()
                raise
            self._journal, self._kept, self._broken = made, kept, False
            old.close()

    def _note(self, record: bytes) -> None:
        """Write without asking more of the disk than it gives: deciding goes on regardless."""
        if self._meanwhile is not None:
            self._meanwhile.append(record)
        if self._journal is None or self._broken:
            return
        try:
            self._journal.append(record)
        except OutputError:
            self._broken = True

    def _record(self, record: bytes, *, flush: bool, about: str | None = None) -> None:
        """Write or raise OutputError. A journal that failed is written anew before it is used.

        Deciding may find the disk failing at any time, so that is looked at under the lock: a
        reward must not follow a decision that was never written.
        """
        while not self._written(record, about):
            self.rewrite()
        journal = self._journal
        if journal is not None and flush:
            self._trying(journal.flush)

    def _written(self, record: bytes, about: str | None) -> bool:
        with self.lock:
            self._check_open()
            if self._broken:
                return False
            if about is not None:
                self._open.get(about)
            journal = self._journal
            if journal is not None:
                self._trying(lambda: journal.append(record))
            return True

    def _check_open(self) -> None:
        if self._closed:
            raise closed()

    def _trying(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OutputError:
            self._broken = True
            raise


def closed() -> Closed:
    """Return the error for whatever is asked of an agent after it was closed."""
    fix = "Connect again; with the same state_dir it goes on where it stopped."
    return Closed(complaint("agent", got="a call after close", expected="none", fix=fix))


def _reopened(entry: tuple[str, Open]) -> bytes:
    name, decision = entry
    return encode(Decided(name, bytes_of(decision.arm), decision.active, decision.since))
