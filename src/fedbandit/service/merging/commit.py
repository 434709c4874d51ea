"""Merging what waits together: one lock, one merge, one commit, then the answers."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

import numpy as np
from msgspec.structs import replace

from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.messages import Download, Upload
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage, complaint
from fedbandit.service.bookkeeping.deduplication import MergedUploads, UnreadableUploads
from fedbandit.service.bookkeeping.progress import HOUR, MINUTE, merged_progress, start_of
from fedbandit.service.bookkeeping.quotas import (
    Exceeded,
    Spent,
    exceeded_rate,
    exceeded_share,
    mass_of,
)
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.membership import group_of, key_for
from fedbandit.service.groups.telling import as_told, told_moment
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.merging.merge import merge
from fedbandit.service.merging.sync import Answer, ModelGone, Outcome
from fedbandit.service.models.model import Served
from fedbandit.service.models.parts import keep_parts
from fedbandit.service.models.undo import keep_snapshot, opened_groups
from fedbandit.service.refusal import not_now, over_quota, quarantined, refused, unauthorised
from fedbandit.service.relay.relayed import Relayed, read_relayed
from fedbandit.service.storage.contract import Locked, Model, Store

_log = logging.getLogger("fedbandit.service")
_CROWDING = Exceeded("too much of what waits for the coordinator above is this agent's own", 10)


@dataclass(frozen=True, slots=True, eq=False)
class CheckedSync:
    """A sync that was decoded and passed validation, its sender, and its size in bytes.

    ``token`` is the digest of the token that was shown, which the transaction looks up again; None
    if the coordinator asks for none.
    """

    agent: str
    sync: wire.Sync
    size: int
    token: bytes | None = None


class Committer:
    """Merges batches into one model, one batch at a time.

    Between batches it holds the server's state, so that a batch reads it only when another
    coordinator has written since, or a backup was restored. The digest of the stored state decides,
    and it is compared under the lock; a version alone does not tell two histories apart.
    """

    def __init__(self, store: Store, served: Served) -> None:
        self._store, self._served = store, served
        self._held: Server | None = None
        self._groups: dict[int, Server] = {}
        self._weighed = WeighedGroups(served.recipe, watched=served.model.watched)
        self._relayed: Relayed | None = None
        self._bytes, self._digest, self._told = b"", b"", b""
        self._minute = 0
        self._ends: dict[tuple[int, int | None], bytes] = {}  # of answers, while nothing changes

    def commit(self, batch: Sequence[CheckedSync]) -> list[Outcome]:
        """Merge, commit, and return an outcome for each sync; raise if it is not known.

        What an answer says was merged is durable: the transaction has ended by then. If the merged
        state would be unsound, or what is known of one agent cannot be read, each half of the batch
        gets a transaction of its own, and so on, to refuse only those at fault.
        """
        outcomes, whole = self._commit_halves(batch)
        if whole or self._served.model.weighed:
            return outcomes  # each with what its own group is told
        last: dict[tuple[int, int | None], bytes] = {
            (each.format, None): each.download for each in outcomes if isinstance(each, Answer)
        }
        return _with_downloads(outcomes, [None] * len(batch), last)

    def _commit_halves(self, batch: Sequence[CheckedSync]) -> tuple[list[Outcome], bool]:
        """Return the outcomes, and whether all came from one transaction."""
        try:
            return self._commit(batch), True
        except _Unsound as unsound:
            if len(batch) == 1:
                return [refused(unsound.error)], True
        except UnreadableUploads as error:
            if len(batch) == 1:
                _log.error("%s", error)
                return [not_now("store", "what it holds of this agent cannot be read")], True
        half = len(batch) // 2
        parts = [self._commit_halves(batch[:half]), self._commit_halves(batch[half:])]
        return [each for outcomes, _ in parts for each in outcomes], False

    def _commit(self, batch: Sequence[CheckedSync]) -> list[Outcome]:
        held, self._held = self._held, None  # a failure leaves nothing half merged behind
        digest, ends, self._ends = self._digest, self._ends, {}
        minute = self._minute
        with self._store.lock(self._served.model.name) as locked:
            if locked.model.incarnation != self._served.model.incarnation:
                raise ModelGone
            if rules_of(locked.model) != rules_of(self._served.model):
                raise ModelGone  # they were changed: what was checked has to be checked again
            if held is None or self._digest != locked.digest:
                self._bytes, self._digest = locked.state(), locked.digest
                held = server_at(self._served.recipe, self._bytes)
                self._told = locked.model.told
                self._groups = opened_groups(self._served.recipe, locked)
                if locked.model.weighed:
                    told = as_told(self._served.recipe, held, self._told)
                    carried = told.statistics if self._told else None
                    now, known = time.time(), held.statistics
                    self._weighed.read(locked.past.groups(), now, carried, known)
                self._relayed = self._read_relayed(locked)
            try:
                outcomes = self._merge(locked, held, batch)
            except _Unsound as unsound:
                if unsound.unchanged:
                    self._held, self._minute = held, minute
                raise
            set_back = locked.model.set_back
        self._held = held
        owns = [self._own(each.agent) for each in batch]
        wanted = {(each.sync.format, own) for own, each in zip(owns, batch, strict=True)}
        if self._digest != digest or not wanted <= ends.keys():
            ends = self._downloads(held, wanted, set_back)
        self._ends = ends
        return _with_downloads(outcomes, owns, ends)

    def _merge(self, locked: Locked, server: Server, batch: Sequence[CheckedSync]) -> list[Outcome]:
        """Merge what is new into the server and the store; answers lack their download yet."""
        sorting = _Sorting(self._served, server, locked, batch, self._relayed)
        outcomes = [sorting.sort(each) for each in batch]
        if not sorting.new:
            return outcomes
        keep_snapshot(locked, sorting.now)
        reference = None if self._relayed is None else server.base.reference
        moved = self._moved(locked, server, sorting.now)
        version = server.version
        try:
            merge(self._served.recipe, server, sorting.new)
            self._merge_into_groups(locked, server, sorting)
            due = self._pass_on(locked, server, sorting, reference)
        except InvalidMessage as error:
            raise _Unsound(error, unchanged=server.version == version) from error
        self._bytes = wire.encode(server.whole())
        version, count = server.version, server.count
        merged, mass = sorting.told(version), sorting.mass
        if locked.model.history.by_agent:
            merged = keep_parts(self._served.recipe, locked, sorting.parts(), merged)
        locked.write(
            state=self._bytes,
            version=version,
            count=count,
            merged=merged,
            mass=mass,
            told=None if self._told == locked.model.told else self._told,
        )
        self._digest = locked.digest
        progress = merged_progress(sorting.sized, locked.model.limits)
        locked.past.add_progress(sorting.now, replace_fields(progress, moved=moved))
        return [replace(each, due=due) if isinstance(each, Answer) else each for each in outcomes]

    def _read_relayed(self, locked: Locked) -> Relayed | None:
        stored = locked.relaying()
        return None if stored is None else read_relayed(self._served.recipe, stored)

    def _pass_on(
        self, locked: Locked, whole: Server, sorting: "_Sorting", reference: Array | None
    ) -> bool:
        """Let uploads wait for upstream too, at a relay; return whether what waits is due there."""
        if self._relayed is None:
            return False
        recipe, sent = self._served.recipe, [(agent, each) for agent, _, each in sorting.parts()]
        self._relayed = self._relayed.absorbed(recipe, sent, reference)
        locked.write_relaying(outbox=self._relayed.stored().outbox)
        return self._relayed.outbox.in_flight is None and self._relayed.is_due(recipe, whole.base)

    def _moved(self, locked: Locked, server: Server, now: float) -> float:
        """Return how far the estimate went since it was marked last; mark it, once a minute."""
        minute, before = start_of(now, MINUTE), self._minute
        if minute == before:
            return 0.0
        self._minute = minute
        if start_of(now, HOUR) != start_of(before, HOUR):
            locked.past.fold_progress(now)
        last, theta = np.frombuffer(locked.past.mark(), "<f8"), server.theta
        locked.past.write_mark(theta.astype("<f8").tobytes())
        return float(np.linalg.norm(theta - last)) if last.shape == theta.shape else 0.0

    def _merge_into_groups(self, locked: Locked, whole: Server, sorting: "_Sorting") -> None:
        """Add each upload to its sender's group too, and work out what agents are told."""
        model, recipe = locked.model, self._served.recipe
        if not model.groups:
            return
        sent = [(agent, upload) for agent, _, upload in sorting.parts()]
        if model.weighed:
            keys = (key_for(model.created, model.groups, agent) for agent, _ in sent)
            pieces = zip(keys, (upload.statistics for _, upload in sent), strict=True)
            changed = self._weighed.absorb(pieces, sorting.now)
            if changed:
                locked.past.write_groups(changed)
            self._told = self._weighed.told(whole)
            return
        theirs: dict[int, list[Upload]] = {}
        for agent, upload in sent:
            number = group_of(model.created, model.groups, agent)
            theirs.setdefault(number, []).append(upload)
        for number, uploads in theirs.items():
            merge(recipe, self._groups.setdefault(number, recipe.server()), uploads)
        changed = {number: wire.encode(self._groups[number].whole()) for number in theirs}
        locked.past.write_groups(changed)
        self._told = told_moment(recipe, whole, self._groups).astype("<f8").tobytes()

    def _own(self, agent: str) -> int | None:
        """Return the group of an agent that is told more than others are; mostly None."""
        model = self._served.model
        if not (model.weighed and model.groups):
            return None
        key = key_for(model.created, model.groups, agent)
        return key if self._weighed.knows_more(key) else None

    def _downloads(
        self, server: Server, wanted: Iterable[tuple[int, int | None]], set_back: int
    ) -> dict[tuple[int, int | None], bytes]:
        """Return what answers end with, by the format of the wire and the group that is told."""
        made: dict[int | None, tuple[Download, bytes | None]] = {}
        for own in {own for _, own in wanted}:
            told = self._told if own is None else self._weighed.told_to(server, own)
            of, state = self._weighed.opened(server, told)
            download, state = of.download(), state if told else self._bytes
            made[own] = download, state if download.statistics is of.statistics else None
        return {
            (form, own): wire.synced_rest(
                made[own][0],
                format=form,
                encoded=made[own][1] if form == wire.FORMAT else None,
                set_back=set_back,
            )
            for form, own in wanted
        }


def _with_downloads(
    outcomes: Sequence[Outcome],
    owns: Sequence[int | None],
    downloads: Mapping[tuple[int, int | None], bytes],
) -> list[Outcome]:
    """Return outcomes whose answers carry what each is told: by format, and by group."""
    return [
        replace(each, download=downloads[each.format, own]) if isinstance(each, Answer) else each
        for own, each in zip(owns, outcomes, strict=True)
    ]


def rules_of(model: Model) -> tuple[wire.Limits, int, int, bool, bool]:
    """Return what an upload was checked by, and how agents are sorted into groups."""
    return model.limits, model.relays, model.groups, model.weighed, model.watched


class _Unsound(Exception):
    """Uploads that are valid one by one, and whose sum agents would refuse; and why.

    ``unchanged``: nothing of them is in the server or the groups that are held in memory.
    """

    def __init__(self, error: InvalidMessage, *, unchanged: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.unchanged = error, unchanged


class _Sorting:
    """Tells new uploads of a batch from copies, and from what is refused.

    ``new`` is what is to be merged, in order; ``merged`` are the senders' once that is done, and
    ``mass`` is the model's. ``sized`` is ``new`` with sizes. ``now`` is the time of the batch.
    ``relayed``, at a relay, says whether more may wait for the coordinator above, and of whom.
    """

    def __init__(
        self,
        served: Served,
        server: Server,
        locked: Locked,
        batch: Sequence[CheckedSync],
        relayed: Relayed | None,
    ) -> None:
        self._full = relayed is not None and relayed.is_full
        self._crowding = frozenset[str]() if relayed is None else relayed.crowding
        self._locked = locked
        self._fingerprints, self._dimension = served.fingerprints, served.recipe.dimension
        self._longest = locked.model.limits.arm_norm
        self._version, self._count = server.version, server.count
        self._quotas, self.mass, self.now = locked.model.quotas, locked.model.mass, time.time()
        self._senders: list[str] = []
        self.sized: list[tuple[Upload, int]] = []
        self._opened = locked.opened({each.token for each in batch if each.token is not None})
        self._before = locked.merged_uploads({each.agent for each in batch})
        self.new: list[Upload] = []
        self.merged: dict[str, MergedUploads] = {}

    def sort(self, checked: CheckedSync) -> Outcome:
        """Return the outcome of one sync, if the sum is sound."""
        agent, sync = checked.agent, checked.sync
        if checked.token is not None and self._opened.get(checked.token) != agent:
            return unauthorised()
        before = self._before[agent]
        try:
            copied = before.copy_of(sync.life, born=sync.born, sequence=sync.sequence)
            if copied is not None:
                answer = self._answer(sync, merged=False, version=copied)
                return replace(answer, quarantined=before.quarantined)
            self._check_count(sync.upload)
        except InvalidMessage as error:
            return refused(error)
        if before.quarantined:
            return quarantined()
        if self._full:
            return not_now("upstream", "as much waits for the coordinator above as may")
        if agent in self._crowding:
            return over_quota(_CROWDING)
        mass, spent = mass_of(sync.upload.summary), before.spent.drained(self._quotas, self.now)
        exceeded = self._exceeded(before, sync.upload.count, mass, spent)
        if exceeded is not None:
            return over_quota(exceeded)
        version = self._take(agent, sync.upload, mass)
        self.sized.append((sync.upload, checked.size))
        self._before[agent] = self.merged[agent] = before.noting(
            sync.life,
            born=sync.born,
            sequence=sync.sequence,
            version=version,
            observations=sync.upload.count,
            received=checked.size,
            seen=self.now,
            mass=mass,
            spent=spent.plus(sync.upload.count),
            rewards=sync.upload.statistics.rewards,
            shadow=sync.shadow,
        )
        return self._answer(sync, merged=True, version=version)

    def told(self, version: int) -> dict[str, MergedUploads]:
        """Return what is to be noted of the senders, who are all told this version."""
        return {agent: replace(each, held=version) for agent, each in self.merged.items()}

    def parts(self) -> list[tuple[str, int, Upload]]:
        """Return what is to be merged, each with its sender and its version."""
        versions = range(self._version + 1, self._version + 1 + len(self.new))
        return list(zip(self._senders, versions, self.new, strict=True))

    def _take(self, agent: str, upload: Upload, mass: float) -> int:
        """Add an upload to those that are merged; return its version."""
        self.new.append(upload)
        self._senders.append(agent)
        self._count += upload.count
        self.mass += mass
        return self._version + len(self.new)

    def _exceeded(
        self, before: MergedUploads, count: int, mass: float, spent: Spent
    ) -> Exceeded | None:
        return exceeded_rate(self._quotas, spent, count) or exceeded_share(
            self._quotas,
            dimension=self._dimension,
            longest=self._longest,
            sent=count,
            observations=before.observations + count,
            held=before.mass,
            added=mass,
            total=self.mass,
            count=self._count,
            senders=self._locked.senders,
        )

    def _answer(self, sync: wire.Sync, *, merged: bool, version: int) -> Answer:
        head = wire.synced_head(
            self._fingerprints[sync.format],
            merged=merged,
            sequence=sync.sequence,
            version=version,
            format=sync.format,
        )
        return Answer(head, b"", merged, sync.format, sync.upload.statistics.cut > 0)

    def _check_count(self, upload: Upload) -> None:
        if self._count + upload.count > wire.LARGEST:
            expected, fix = "a sum that can be stored", "Start another model."
            message = complaint("upload.count", got=upload.count, expected=expected, fix=fix)
            raise InvalidMessage(message, field="upload.count")
