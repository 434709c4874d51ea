"""Merging what waits together: one lock, one merge after another, one commit, then the answers."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fedbandit import wire
from fedbandit.core.messages import Download
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage, complaint
from fedbandit.service.ledger import Ledger
from fedbandit.service.merging import merge
from fedbandit.service.model import Served, server_at
from fedbandit.service.store import Locked, Store


@dataclass(frozen=True, slots=True, eq=False)
class Posted:
    """A sync that has passed the door, its sender, and its size in bytes.

    ``token`` is the digest of the token that opened the door; whether it still does is asked in the
    transaction. None where no token is asked for.
    """

    agent: str
    sync: wire.Sync
    size: int
    token: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The bytes to answer with, and whether the upload was merged now."""

    body: bytes
    merged: bool


class Revoked(Exception):
    """The token that opened the door opens it no more."""


Outcome = Answer | InvalidMessage | Revoked


class Reborn(Exception):
    """The model was deleted and made anew under its name."""


class Committer:
    """Merges batches into one model, one batch at a time.

    Between batches it holds the server's state, so that a batch reads it only when another
    coordinator has written since, or a backup was restored. The digest of the stored state decides,
    and it is compared under the lock; a version alone does not tell two histories apart.
    """

    def __init__(self, store: Store, served: Served) -> None:
        self._store, self._served = store, served
        self._held: Server | None = None
        self._bytes, self._digest = b"", b""

    def commit(self, batch: Sequence[Posted]) -> list[Outcome]:
        """Merge, commit, and return an outcome for each upload; raise if nothing was committed.

        Whoever is answered can rely on what was merged: the transaction has ended by then.
        """
        held, self._held = self._held, None  # a failure leaves nothing half merged behind
        with self._store.lock(self._served.model.name) as locked:
            if locked.model.incarnation != self._served.model.incarnation:
                raise Reborn
            if held is None or self._digest != locked.digest:
                self._bytes, self._digest = locked.state(), locked.digest
                held = server_at(self._served.recipe, self._bytes)
            merges = self._merge(locked, held, batch)
        self._held = held
        download = held.download()
        return [
            Answer(self._answer(posted, each, download), each.merged)
            if isinstance(each, _Merge)
            else each
            for posted, each in zip(batch, merges, strict=True)
        ]

    def _merge(
        self, locked: Locked, server: Server, batch: Sequence[Posted]
    ) -> list["_Merge | InvalidMessage | Revoked"]:
        before = server.version
        opened = locked.opened({posted.token for posted in batch if posted.token is not None})
        ledgers = locked.ledgers({posted.agent for posted in batch})
        touched: dict[str, Ledger] = {}
        merges: list[_Merge | InvalidMessage | Revoked] = []
        for posted in batch:
            if posted.token is not None and opened.get(posted.token) != posted.agent:
                merges.append(Revoked())
                continue
            ledger = touched.get(posted.agent, ledgers[posted.agent])
            try:
                done = _merge_one(self._served, server, ledger, posted.sync)
            except InvalidMessage as error:
                merges.append(error)
                continue
            merges.append(done)
            if done.merged:
                touched[posted.agent] = _noted(ledger, posted, done.version)
        if server.version != before:
            self._bytes = wire.encode(server.download())
            locked.write(
                state=self._bytes, version=server.version, count=server.count, ledgers=touched
            )
            self._digest = locked.digest
        return merges

    def _answer(self, posted: Posted, merge: "_Merge", download: Download) -> bytes:
        mark, sequence = self._served.model.fingerprint, posted.sync.sequence
        answer = wire.Synced(mark, merge.merged, sequence, merge.version, download)
        return wire.encode_synced(answer, download=self._bytes)


@dataclass(frozen=True, slots=True)
class _Merge:
    merged: bool
    version: int


def _merge_one(served: Served, server: Server, ledger: Ledger, sync: wire.Sync) -> _Merge:
    copied = ledger.copy_of(sync.life, born=sync.born, sequence=sync.sequence)
    if copied is not None:
        return _Merge(False, copied)
    if server.count + sync.upload.count > wire.LARGEST:
        got, fix = sync.upload.count, "Start another model."
        message = complaint("upload.count", got=got, expected="a sum that can be stored", fix=fix)
        raise InvalidMessage(message, field="upload.count")
    merge(served.recipe, server, sync.upload)
    return _Merge(True, server.version)


def _noted(ledger: Ledger, posted: Posted, version: int) -> Ledger:
    sync = posted.sync
    noted = ledger.noting(sync.life, born=sync.born, sequence=sync.sequence, version=version)
    return noted.counting(observations=sync.upload.count, received=posted.size, seen=time.time())
