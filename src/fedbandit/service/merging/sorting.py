"""Telling the new uploads of a batch from copies, and from what is refused, before it is merged."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from fedbandit import wire
from fedbandit.core.messages import Upload
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage, complaint
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.bookkeeping.quotas import (
    Exceeded,
    Spent,
    exceeded_rate,
    exceeded_share,
    mass_of,
)
from fedbandit.service.merging.sync import Answer, Outcome
from fedbandit.service.models.model import Served
from fedbandit.service.refusal import not_now, over_quota, quarantined, refused, unauthorised
from fedbandit.service.relay.relayed import Relayed
from fedbandit.service.storage.contract import Locked

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


class Sorting:
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
        self._place: int | None = None  # of the next agent that gets one
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
        version, before = self._take(agent, sync.upload, mass), self._placed(before)
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

    def places(self) -> dict[str, int | None]:
        """Return by which place each agent of the batch is in a group."""
        return {agent: each.place for agent, each in self._before.items()}

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

    def _placed(self, before: MergedUploads) -> MergedUploads:
        """Give a place to an agent of which nothing was merged yet.

        Not in models whose groups are not weighed: what agents sent there is sorted by their names.
        """
        model = self._locked.model
        if before.uploads or before.place is not None or (model.groups and not model.weighed):
            return before
        if self._place is None:
            self._place = self._locked.next_place()
        self._place += 1
        return replace(before, place=self._place - 1)

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
