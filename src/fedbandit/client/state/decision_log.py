"""The open decisions and the journal that they are written to, kept in step.

There are two locks. ``DecisionLog.lock`` is held for a few microseconds at a time, by deciding as
well. The learning lock of ``AgentState`` puts everything that is learned into one order: callers of
``reward``, ``forget``, ``learn`` and ``rewrite`` hold it, and may wait for the disk meanwhile.
Deciding never takes the learning lock, so it never waits for a flush, a merge or the network.
"""

from collections.abc import Callable, Iterable
from math import inf
from threading import Lock

from fedbandit.client.decisions import OpenDecision, OpenDecisions
from fedbandit.client.state.journal import Journal
from fedbandit.client.state.records import (
    Activated,
    Decided,
    DecisionForgotten,
    Learned,
    Ran,
    Record,
    Rewarded,
    Settled,
    bytes_of,
    encode,
)
from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import Closed, OutputError

_SMALL = 2**20


def _accept(arm: Array) -> None:
    """Take any arm."""
    del arm


class DecisionLog:
    """The open decisions and their journal; without one, everything is in memory only. Thread-safe.

    ``running_time``: seconds that the agent ran before, by its journal; ``number``: that of its
    latest decision. ``durable``: every reward waits until it is on the disk.
    """

    def __init__(
        self,
        open_decisions: OpenDecisions,
        clock: Callable[[], float],
        *,
        running_time: float = 0.0,
        number: int = 0,
        durable: bool = False,
    ) -> None:
        self.lock = Lock()
        self.decided = 0
        self._open = open_decisions
        self._clock, self._began = clock, clock() - running_time
        self._time_written = running_time
        self._durable, self._number = durable, number
        self._journal: Journal | None = None
        self._snapshot: Callable[[], Iterable[Record]] = tuple
        self._hold_again: Callable[[], None] = lambda: None
        self._snapshot_size = 0
        self._broken = self._closed = False
        self._during_rewrite: list[bytes] | None = None

    @property
    def number(self) -> int:
        """The largest number of a decision so far, over all runs."""
        return self._number

    @property
    def open(self) -> int:
        """How many decisions wait for their reward."""
        return len(self._open)

    @property
    def forgotten(self) -> int:
        """How many decisions were given up without an observation since the start."""
        return self._open.forgotten

    @property
    def running_time(self) -> float:
        """Seconds that the agent has been running, over all its runs."""
        return self._clock() - self._began

    @property
    def broken(self) -> bool:
        """Whether the journal lacks what is in memory: writing failed, or the file was deleted."""
        journal = self._journal
        return self._broken or not (journal is None or journal.in_place)

    @property
    def waits_for_disk(self) -> bool:
        """Whether a reward has to wait for the disk: each does, or the journal has to be mended."""
        return self._durable or self._broken

    @property
    def too_long(self) -> bool:
        """Whether most of the journal is history that rewriting it would leave out."""
        journal = self._journal
        return journal is not None and journal.size > _SMALL + 4 * self._snapshot_size

    def write_to(
        self,
        journal: Journal,
        snapshot: Callable[[], Iterable[Record]],
        *,
        hold_again: Callable[[], None],
    ) -> None:
        """Append to this journal from now on; it already holds the present state.

        ``snapshot`` returns the records that a rewritten journal begins with. ``hold_again`` is
        called before it is rewritten, to make its directory again if that was deleted.
        """
        self._journal, self._snapshot, self._hold_again = journal, snapshot, hold_again

    def decide(self, name: str, arm: Array, *, active: bool, chosen: bool, number: int = 0) -> None:
        """Add an open decision. If the disk fails it is in memory only, until the disk works again.

        ``chosen``: the caller picked the id, so it may have been used before. ``number``: of the
        decision, which draws follow from.
        """
        record, now = b"", self.running_time
        if self._journal is not None:
            record = encode(Decided(name, bytes_of(arm), active, now, number))
        with self.lock:
            self._check_open()
            if chosen:
                self._open.check_new(name)
            forgotten = self._open.add(name, OpenDecision(arm, now, active))
            self.decided += 1
            self._number = max(self._number, number)
            self._time_written = now
            self._append_if_possible(record)
            for old in forgotten:
                self._append_if_possible(encode(DecisionForgotten(old)))

    def activate(self, name: str) -> None:
        """Make a deferred decision active; one that is active stays as it is."""
        with self.lock:
            self._check_open()
            if not self._open.get(name).active:
                now = self.running_time
                self._open.activate(name, now)
                self._append_if_possible(encode(Activated(name, now)))

    def write_running_time(self, *, every: float) -> float:
        """Write the running time if decisions wait and it was last written ``every`` seconds ago.

        After a kill, running time since the last record is not counted. Returns in how many seconds
        to call this again; infinity without a journal.
        """
        with self.lock:
            if self._journal is None:
                return inf
            if not len(self._open):
                return every  # the record of the next decision has the time
            now = self.running_time
            if now - self._time_written >= every:
                self._time_written = now
                self._append_if_possible(encode(Ran(now, self._number)))
            return self._time_written + every - now

    def oldest(self) -> tuple[str, OpenDecision] | None:
        """Return the decision that has waited longest, with its id."""
        with self.lock:
            return self._open.oldest()

    def reward(self, name: str, value: float, check: Callable[[Array], None] = _accept) -> Array:
        """Settle an open decision with its reward; return its arm.

        ``check`` is called with the arm before anything is written, and may raise.
        """
        return self._settle(name, encode(Rewarded(name, value)), check, flush=self._durable)

    def forget(self, name: str) -> None:
        """Settle an open decision without an observation."""
        self._settle(name, encode(DecisionForgotten(name)), _accept, flush=False)
        with self.lock:
            self._open.forgotten += 1

    def learn(self, learned: Learned) -> None:
        """Write everything that is learned; it is on the disk when this returns."""
        record = b"" if self._journal is None else encode(learned)
        while True:
            with self.lock:
                self._check_open()
                if self._append(record):
                    break
            self.rewrite()
        self._flush()

    def rewrite(self) -> None:
        """Replace the journal by one without history; keep decisions that are made meanwhile."""
        old = self._journal
        if old is None:
            return
        self._hold_again()
        records = [encode(record) for record in self._snapshot()]
        with self.lock:
            decided, settled = self._open.items(), self._open.settled()
            ran, self._during_rewrite = Ran(self.running_time, self._number), []
        try:
            records += [encode(Settled(settled)), encode(ran)]
            made = Journal.create(old.path, [*records, *map(_decided_again, decided)])
            self._replace(old, made)
        finally:
            with self.lock:
                self._during_rewrite = None
        made.flush_name()

    def close(self) -> None:
        """Close the journal. From now on everything that would have to be written raises Closed."""
        with self.lock:
            self._closed = True
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def _replace(self, old: Journal, made: Journal) -> None:
        with self.lock:
            size = made.size
            try:
                for payload in self._during_rewrite or ():
                    made.append(payload)
                made.rename(old.path)
            except OutputError:
                made.close()
                raise
            self._journal, self._snapshot_size, self._broken = made, size, False
            old.close()

    def _settle(
        self, name: str, record: bytes, check: Callable[[Array], None], *, flush: bool
    ) -> Array:
        """Write the record about an open decision, then remove the decision; return its arm.

        It is looked up under the lock that its record is written under. Deciding may forget it at
        any other time: it would then be rewarded in memory, and forgotten in the journal.
        """
        while True:
            with self.lock:
                self._check_open()
                arm = self._open.get(name).arm
                check(arm)
                if self._append(record):
                    if not flush:
                        self._open.settle(name)
                    break
            self.rewrite()
        if flush:
            self._flush()
            with self.lock:
                self._open.settle(name)
        return arm

    def _append(self, record: bytes) -> bool:
        """Append a record or raise OutputError; return False if the journal is to be rewritten.

        Called under the lock: deciding may find the disk failing at any time, and a reward must not
        follow a decision that was not written. A file that was deleted would take the record, and
        lose it.
        """
        if self.broken:
            self._broken = True
            return False
        if self._journal is not None:
            try:
                self._journal.append(record)
            except OutputError:
                self._broken = True
                raise
        return True

    def _append_if_possible(self, record: bytes) -> None:
        """Append a record; if the disk fails, deciding goes on without."""
        if self._during_rewrite is not None:
            self._during_rewrite.append(record)
        if self._journal is not None and not self._broken:
            try:
                self._journal.append(record)
            except OutputError:
                self._broken = True

    def _flush(self) -> None:
        if self._journal is not None:
            try:
                self._journal.flush()
            except OutputError:
                self._broken = True
                raise

    def _check_open(self) -> None:
        if self._closed:
            raise closed()


def closed() -> Closed:
    """Return the error for a call after ``close``."""
    fix = "Connect again; with the same state_dir it goes on where it stopped."
    return Closed(f"The agent is closed. {fix}")


def _decided_again(entry: tuple[str, OpenDecision]) -> bytes:
    name, decision = entry
    return encode(Decided(name, bytes_of(decision.arm), decision.active, decision.since))
