"""What a relay delivers to its upstream: kept in the store, sent as agents send theirs.

``client.delivery`` sends it, asks again and backs off, as it does for agents. Several coordinators
may serve one store, and each has a sender. What is in flight is the same upload for all of them, so
upstream merges one and takes the others for copies. An answer counts only if what it answers is
still in flight: the others were too late.
"""

import logging
import os
import time
from collections.abc import Callable

from fedbandit import wire
from fedbandit.client.state.agent_state import OutgoingSync
from fedbandit.core.messages import Download
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage, Refused
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.models.shadows import told_above
from fedbandit.service.relay.relayed import Relayed, read_relayed
from fedbandit.service.storage.contract import Locked, Store

_log = logging.getLogger("fedbandit.service")


class RelaySender:
    """One model of a store, as an agent of the coordinator above. Used by one thread.

    ``wait``: seconds after which what waits is sent, whether the trigger has fired or not; if
    nothing waits, upstream is asked for what it knows. Fulfils ``client.delivery.Sender``; ``wake``
    may be called from any thread.
    """

    def __init__(
        self,
        store: Store,
        model: str,
        recipe: Recipe,
        *,
        wait: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._model, self._recipe = store, model, recipe
        self._accepted = wire.fingerprints(recipe)
        self._wait, self._clock, self._all_at = wait, clock, clock() + wait
        self._due, self._all = True, False
        self._sent: tuple[bytes, int] | None = None
        self._asked: tuple[bytes, int, str] | None = None
        self.caught_up = False
        self.version, self.cut = 0, 0

    @property
    def digest(self) -> str:
        """What names the download that the base is from; what is answered must not have changed."""
        with self._store.lock(self._model) as locked:
            relayed = self._read(locked)
        self._asked = _mark(relayed)
        return relayed.digest

    def wake(self) -> None:
        """Look for something to send."""
        self._due = True

    def due(self) -> bool:
        """Return whether there may be something to send, or upstream's state to fetch."""
        return self._due or not self.caught_up

    def do_housekeeping(self) -> float:
        """Send what has waited for long, or ask for news; return in how many seconds again."""
        now = self._clock()
        if now >= self._all_at:
            self._all, self._due, self._all_at = True, True, now + self._wait
        return self._all_at - now

    def flush(self) -> None:
        """Leave it to ``do_housekeeping``, which lets nothing wait for long."""

    def next_request(self) -> OutgoingSync | None:
        """Put an upload in flight if one is due and none is; return the request, or None.

        Taking it from what waits and putting it in flight is one transaction, and it has ended
        before anything is sent: a number never means another upload.
        """
        self._due = False
        with self._store.lock(self._model) as locked:
            relayed, whole = self._read(locked), self._whole(locked)
            box = relayed.outbox
            new = box.in_flight is None and bool(box.waiting)
            new = new and (self._all or relayed.is_due(self._recipe, whole.base))
            if new:
                relayed = relayed.launched(self._recipe)
                self._write(locked, relayed, whole)
        if self._all and relayed.outbox.empty:
            self.caught_up = False  # nothing to say, so ask: others have gone on meanwhile
        self._all = self._all and bool(relayed.outbox.waiting)
        upload, box = relayed.outbox.in_flight, relayed.outbox
        if upload is None:
            return None
        self._due, self._all_at = True, self._clock() + self._wait
        self._sent = box.life, box.sequence
        fingerprint = wire.fingerprint(self._recipe)
        told = told_above(locked.model, self._store.shadows(self._model))
        sync = wire.Sync(fingerprint, box.life, box.sequence, upload, box.born or 0, shadow=told)
        return OutgoingSync(sync.sequence, wire.encode_sync(sync), new)

    def acknowledge(self, answer: wire.Synced) -> None:
        """Replace the base by the download in the answer, and drop the upload in flight."""
        self._check(answer.fingerprint)
        with self._store.lock(self._model) as locked:
            before = self._read(locked)
            if not self._is_in_flight(before):
                return
            after = before.acknowledged(self._recipe, answer.download, answer.digest)
            known = before.base.count + _flying(before)
            taken_out = _is_set_back(before, answer, answer.download, known)
            self._rebuild(locked, after, set_back=taken_out)

    def catch_up(self, answer: wire.Joined) -> None:
        """Learn what upstream has merged meanwhile, and how large an upload may be.

        While an upload is in flight, the download may hold it or not, so it is left alone: the
        answer to the upload brings another.
        """
        if answer.format != wire.FORMAT:
            raise InvalidMessage(
                f"The coordinator above speaks format {answer.format} of the wire, this one "
                f"{wire.FORMAT}. Upgrade the coordinator above: it comes first."
            )
        self._check(answer.fingerprint)
        with self._store.lock(self._model) as locked:
            before = self._read(locked)
            after = before.told(lives=answer.lives, most=answer.limits.count)
            download = answer.download
            stale = before.outbox.in_flight is not None or _mark(before) != self._asked
            if download is None or stale:
                self._write(locked, after, self._whole(locked))
            else:
                after = after.received(self._recipe, download, answer.digest)
                taken_out = _is_set_back(before, answer, download, before.base.count)
                self._rebuild(locked, after, set_back=taken_out)
        self.caught_up = True

    def set_aside(self, why: str) -> None:
        """Keep the upload that upstream refuses in flight: many agents' observations are in it."""
        fix = "Nothing is lost, and all later ones wait behind it. Have the model above take it: "
        fix += f"fedbandit model set {self._model} --relays 1, or larger limits; it is tried again."
        raise Refused(f"{why} {fix}", status=422, field="upload")

    def begin_another_life(self, *, again: bool) -> None:
        """Go on under a new life; ``again``: send what was in flight, which was not merged."""
        with self._store.lock(self._model) as locked:
            before = self._read(locked)
            box = before.outbox
            if self._sent is None or box.life != self._sent[0]:
                return
            if box.in_flight is not None and box.sequence != self._sent[1]:
                return  # another coordinator has gone on
            after = before.under_new_life(self._recipe, os.urandom(wire.LIFE_BYTES), again=again)
            self._rebuild(locked, after, set_back=not again)
        self.caught_up = False
        lost = 0 if again else _flying(before)
        why = "the coordinator above has forgotten this life, or knows more of it than we do"
        _log.warning("%s: %s; %d observations may be lost", self._model, why, lost)

    def _is_in_flight(self, relayed: Relayed) -> bool:
        box = relayed.outbox
        return box.in_flight is not None and (box.life, box.sequence) == self._sent

    def _rebuild(self, locked: Locked, relayed: Relayed, *, set_back: bool) -> None:
        """Write what the relay knows now; ``set_back``: something may be gone that agents have."""
        whole = self._whole(locked)
        whole.adopt(relayed.everything(self._recipe), version=whole.version)
        self._write(locked, relayed, whole, set_back=set_back)

    def _write(
        self, locked: Locked, relayed: Relayed, whole: Server, *, set_back: bool = False
    ) -> None:
        """Write the record and the state, under another version: by that others notice."""
        stored, version = relayed.stored(), whole.version + 1
        whole.adopt(whole.statistics, version=version)
        locked.write_relaying(outbox=stored.outbox, base=stored.base)
        locked.write(
            state=wire.encode(whole.whole()),
            version=version,
            count=whole.count,
            merged={},
            set_back=version if set_back else None,
        )
        self.version, self.cut = relayed.version, whole.statistics.cut

    def _read(self, locked: Locked) -> Relayed:
        stored = locked.relaying()
        assert stored is not None  # it was when this was made, and stays
        return read_relayed(self._recipe, stored)

    def _whole(self, locked: Locked) -> Server:
        return server_at(self._recipe, locked.state())

    def _check(self, fingerprint: str) -> None:
        if fingerprint not in self._accepted:
            raise InvalidMessage(
                f"The coordinator above serves another recipe (fingerprint {fingerprint}) under "
                f"the name {self._model} than this relay has. If it was made anew there, export or "
                "delete the relay's model and start the relay again; else use one version of "
                "fedbandit everywhere."
            )


def _is_set_back(
    before: Relayed, answer: wire.Synced | wire.Joined, download: Download, known: int
) -> bool:
    """Say whether something may be gone of what this relay knew, ``known`` observations.

    Upstream says when it took something out. If it is older than that it does not: fewer
    observations, or a lower version, tell it mostly.
    """
    gone = download.count < known or download.version < before.version
    return gone or answer.set_back > before.version


def _mark(relayed: Relayed) -> tuple[bytes, int, str]:
    """Return what changes whenever upstream was heard, or something was put in flight."""
    return relayed.outbox.life, relayed.outbox.sequence, relayed.digest


def _flying(relayed: Relayed) -> int:
    return 0 if relayed.outbox.in_flight is None else relayed.outbox.in_flight.count
