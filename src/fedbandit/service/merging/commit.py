"""Merging what waits together: one lock, one merge, one commit, then the answers."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as replace_fields

import numpy as np
from msgspec.structs import replace

from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.messages import Download, Upload
from fedbandit.core.server import Server
from fedbandit.errors import InvalidMessage
from fedbandit.service.bookkeeping.deduplication import UnreadableUploads
from fedbandit.service.bookkeeping.progress import HOUR, MINUTE, merged_progress, start_of
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.groups.membership import group_of, key_for
from fedbandit.service.groups.telling import as_told, told_moment
from fedbandit.service.groups.weighed import WeighedGroups
from fedbandit.service.merging.merge import merge
from fedbandit.service.merging.sorting import CheckedSync, Sorting
from fedbandit.service.merging.sync import Answer, ModelGone, Outcome
from fedbandit.service.models.model import Served
from fedbandit.service.models.parts import keep_parts
from fedbandit.service.models.undo import keep_snapshot, opened_groups
from fedbandit.service.refusal import not_now, refused
from fedbandit.service.relay.relayed import Relayed, read_relayed
from fedbandit.service.storage.contract import Locked, Model, Store

_log = logging.getLogger("fedbandit.service")


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
        self._places: dict[str, int | None] = {}  # of the agents of this batch
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
        owns = [
            self._own(each.agent) if isinstance(answer, Answer) else None
            for each, answer in zip(batch, outcomes, strict=True)
        ]
        wanted = {(each.sync.format, own) for own, each in zip(owns, batch, strict=True)}
        if self._digest != digest or not wanted <= ends.keys():
            ends = self._downloads(held, wanted, set_back)
        self._ends = ends
        return _with_downloads(outcomes, owns, ends)

    def _merge(self, locked: Locked, server: Server, batch: Sequence[CheckedSync]) -> list[Outcome]:
        """Merge what is new into the server and the store; answers lack their download yet."""
        sorting = Sorting(self._served, server, locked, batch, self._relayed)
        outcomes = [sorting.sort(each) for each in batch]
        self._places = sorting.places()
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
        self, locked: Locked, whole: Server, sorting: Sorting, reference: Array | None
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

    def _merge_into_groups(self, locked: Locked, whole: Server, sorting: Sorting) -> None:
        """Add each upload to its sender's group too, and work out what agents are told."""
        model, recipe = locked.model, self._served.recipe
        if not model.groups:
            return
        sent = [(agent, upload) for agent, _, upload in sorting.parts()]
        if model.weighed:
            keys = (self._key(model, agent) for agent, _ in sent)
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
        key = self._key(model, agent)
        return key if self._weighed.knows_more(key) else None

    def _key(self, model: Model, agent: str) -> int:
        return key_for(model.created, model.groups, agent, self._places[agent])

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
