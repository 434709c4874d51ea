"""Merging what waits together: one lock, one merge, one commit, then the answers."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedbandit import wire
from fedbandit.core.messages import Download, Upload
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage, complaint
from fedbandit.service.merging.merge import merge
from fedbandit.service.models.deduplication import Ledger, UnreadableLedger
from fedbandit.service.models.model import Served, server_at
from fedbandit.service.storage.contract import Locked, Store


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
    """What to answer with, and whether the upload was merged now.

    ``head`` is the agent's own; ``download``, everything merged, is the same bytes for many.
    """

    head: bytes
    download: bytes
    merged: bool

    @property
    def body(self) -> bytes:
        """The bytes to answer with."""
        return self.head + self.download


class Revoked(Exception):
    """The token that opened the door opens it no more."""


Outcome = Answer | InvalidMessage | UnreadableLedger | Revoked


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
        """Merge, commit, and return an outcome for each upload; raise if it is not known.

        Whoever is answered can rely on what was merged: the transaction has ended by then. Uploads
        whose sum is not sound, or among whose ledgers one cannot be read, are merged one by one,
        each in a transaction of its own, to find those that spoil it.
        """
        try:
            return self._commit(batch)
        except (_Unsound, UnreadableLedger):
            return _sharing([outcome for posted in batch for outcome in self._alone(posted)])

    def _alone(self, posted: Posted) -> list[Outcome]:
        try:
            return self._commit([posted])
        except UnreadableLedger as error:
            return [error]

    def _commit(self, batch: Sequence[Posted]) -> list[Outcome]:
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
        same = download.statistics is held.statistics
        sent = _Sent(download, self._bytes if same else None)
        return [
            Answer(self._head(posted, each), sent.in_format(posted.sync.format), each.merged)
            if isinstance(each, _Merge)
            else each
            for posted, each in zip(batch, merges, strict=True)
        ]

    def _merge(self, locked: Locked, server: Server, batch: Sequence[Posted]) -> list["_Sorted"]:
        """Merge what is new into the server and the store, and say what became of each upload."""
        sorting = _Sorting(self._served, server, locked, batch)
        outcomes = [sorting.sort(posted) for posted in batch]
        if not sorting.new:
            return outcomes
        try:
            merge(self._served.recipe, server, sorting.new)
        except InvalidMessage as error:
            if len(batch) > 1:
                raise _Unsound from error
            return [error]
        self._bytes = wire.encode(server.whole())
        version, count = server.version, server.statistics.count
        locked.write(state=self._bytes, version=version, count=count, ledgers=sorting.touched)
        self._digest = locked.digest
        return outcomes

    def _head(self, posted: Posted, merge: "_Merge") -> bytes:
        form, sequence = posted.sync.format, posted.sync.sequence
        return wire.synced_head(
            self._served.fingerprints[form],
            merged=merge.merged,
            sequence=sequence,
            version=merge.version,
            format=form,
        )


class _Sent:
    """A download as bytes, made once for each format of the wire that is asked for."""

    def __init__(self, download: Download, encoded: bytes | None) -> None:
        self._download, self._encoded, self._made = download, encoded, dict[int, bytes]()

    def in_format(self, form: int) -> bytes:
        """Return what an answer in this format ends with."""
        if form not in self._made:
            encoded = self._encoded if form == wire.FORMAT else None
            self._made[form] = wire.synced_rest(self._download, format=form, encoded=encoded)
        return self._made[form]


def _sharing(outcomes: list[Outcome]) -> list[Outcome]:
    """Return answers that all come with the last download: it has what the others have."""
    answers = [each for each in outcomes if isinstance(each, Answer)]
    return [
        replace(each, download=answers[-1].download) if isinstance(each, Answer) else each
        for each in outcomes
    ]


class _Unsound(Exception):
    """Uploads that passed the door one by one, and whose sum agents would refuse."""


@dataclass(frozen=True, slots=True)
class _Merge:
    merged: bool
    version: int


_Sorted = _Merge | InvalidMessage | Revoked


class _Sorting:
    """Tells new uploads of a batch from copies, and from what is refused.

    ``new`` is what is to be merged, in order; ``touched`` are the ledgers once that is done.
    """

    def __init__(
        self, served: Served, server: Server, locked: Locked, batch: Sequence[Posted]
    ) -> None:
        self._served, self._version, self._count = served, server.version, server.statistics.count
        self._opened = locked.opened({each.token for each in batch if each.token is not None})
        self._ledgers = locked.ledgers({each.agent for each in batch})
        self.new: list[Upload] = []
        self.touched: dict[str, Ledger] = {}

    def sort(self, posted: Posted) -> _Sorted:
        """Return what becomes of one upload, if the sum is sound."""
        if posted.token is not None and self._opened.get(posted.token) != posted.agent:
            return Revoked()
        sync, ledger = posted.sync, self._ledgers[posted.agent]
        try:
            copied = ledger.copy_of(sync.life, born=sync.born, sequence=sync.sequence)
            if copied is not None:
                return _Merge(False, copied)
            self._check_count(sync.upload)
        except InvalidMessage as error:
            return error
        self.new.append(sync.upload)
        self._count += sync.upload.count
        version = self._version + len(self.new)
        self._ledgers[posted.agent] = self.touched[posted.agent] = _noted(ledger, posted, version)
        return _Merge(True, version)

    def _check_count(self, upload: Upload) -> None:
        if self._count + upload.count > wire.LARGEST:
            expected, fix = "a sum that can be stored", "Start another model."
            message = complaint("upload.count", got=upload.count, expected=expected, fix=fix)
            raise InvalidMessage(message, field="upload.count")


def _noted(ledger: Ledger, posted: Posted, version: int) -> Ledger:
    sync = posted.sync
    return ledger.noting(
        sync.life,
        born=sync.born,
        sequence=sync.sequence,
        version=version,
        observations=sync.upload.count,
        received=posted.size,
        seen=time.time(),
    )
