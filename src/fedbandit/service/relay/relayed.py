"""What a relay keeps of a model beside its state, as a frozen value.

A relay is a coordinator that is itself one agent of another coordinator, its *upstream*. What it
knows of a model has three parts, and each observation is in exactly one of them:

    state = base + in flight + waiting

The *base* is the last download from upstream. *In flight* is the one upload that upstream may have
merged or not: it is sent unchanged, under its life and number, until it is acknowledged. *Waiting*
is what the relay's own agents have sent since, merged. The answer that acknowledges the upload in
flight carries a download that contains it. That download becomes the base and the upload is dropped
in one step, so that nothing is counted twice and nothing is left out.

The state is what the relay's agents are told; it and this value change in one transaction.

Several uploads wait where upstream takes less than the relay's agents send: it is away, or holds
the relay back by a quota. All agents below share that quota, and the room for what waits. So from
``_BUSY`` uploads, or half of the room, on, an agent of which more than ``_PART`` of what waits is
has to wait itself; the others are let in, and what they send is sent in its turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from fedbandit import wire
from fedbandit.client.state.outbox import Outbox
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.ucb import exceeds
from fedbandit.core.messages import Download, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import Base, Statistics
from fedbandit.errors import InvalidMessage, InvalidState
from fedbandit.service.storage.contract import Relaying

_MANY: Final = 2**62
_MOST_BYTES: Final = 2**23
_ALWAYS: Final = 4  # uploads that may wait, however large they are
_BUSY: Final = 8  # uploads that may wait before it is asked whose they are
_PART: Final = 0.25  # of what waits that may be one agent's then


class _Outbox(msgspec.Struct, array_like=True, frozen=True):
    """The part of the record that changes with every upload of an agent."""

    life: bytes
    born: int | None
    sequence: int
    in_flight: bytes | None
    waiting: list[bytes]
    digest: str
    most: int
    logdet: float
    senders: dict[str, float] = {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relayed:
    """What upstream has said last, and the uploads that it has not acknowledged yet.

    ``base`` is merged into an empty server, ``version`` is upstream's, and ``digest`` names the
    download that both are from. ``most`` is how many observations an upload to upstream may stand
    for. ``logdet`` is log det V of base and in flight together: of what upstream knows, or will.
    ``senders``: how many of the observations that wait are whose, by agent, counted while several
    uploads wait. Those of an upload that leaves are taken to be as mixed as all that waited.
    """

    base: Statistics
    outbox: Outbox
    version: int = 0
    digest: str = ""
    most: int = _MANY
    logdet: float
    senders: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def fresh(cls, recipe: Recipe, life: bytes) -> "Relayed":
        """Return that of a relay that has heard nothing and has nothing to say."""
        memory = recipe.parts.memory
        nothing = memory.empty_server()
        logdet = memory.read(nothing.summary).logdet
        return cls(base=nothing, outbox=Outbox(life=life), logdet=logdet)

    def everything(self, recipe: Recipe) -> Statistics:
        """Return base, in flight and waiting together: what the relay's agents are to know."""
        return self._with(recipe, (*self._flying, *self.outbox.waiting))

    def absorbed(
        self, recipe: Recipe, sent: Sequence[tuple[str, Upload]], reference: Array | None
    ) -> "Relayed":
        """Return it with more uploads of the relay's agents waiting, merged with those that are.

        ``sent`` are the uploads, each with its agent.
        No upload stands for more than ``most`` observations; another is begun before that.
        ``reference`` is theta' of the state before these uploads (``Base.reference``).
        """
        *before, last = self.outbox.waiting or (None,)
        together: list[Upload] = [] if last is None else [last]
        for _, upload in sent:
            if together and sum(each.count for each in together) + upload.count > self.most:
                before.append(_one_of(recipe, together, reference))
                together = []
            together.append(upload)
        before.append(_one_of(recipe, together, reference))
        waiting = tuple(each for each in before if each is not None)
        senders = dict[str, float]()
        if len(waiting) > 1:
            senders |= self.senders
            for agent, upload in sent:
                senders[agent] = senders.get(agent, 0.0) + upload.count
        return replace(self, outbox=replace(self.outbox, waiting=waiting), senders=senders)

    def is_due(self, recipe: Recipe, whole: Base) -> bool:
        """Say whether what waits has to be passed on: the rule by which agents upload.

        ``whole`` is ``everything``. log det V of it is compared with that of what upstream knows.
        Several uploads wait only if one was as large as upstream takes: then it is due as well.
        """
        waiting = self.outbox.waiting
        if not waiting:
            return False
        growth, count = whole.reading.logdet - self.logdet, sum(each.count for each in waiting)
        return len(waiting) > 1 or exceeds(growth, recipe.parts.trigger.threshold(count))

    @property
    def is_full(self) -> bool:
        """Whether no more may wait: all that waits is written anew with every upload.

        Several uploads wait only where each stands for as many observations as upstream takes in
        one, and upstream is away, or holds the relay back.
        """
        return self._used > 1.0

    @property
    def crowding(self) -> frozenset[str]:
        """The agents that may send no more for now: too much of what waits is theirs."""
        busy = len(self.outbox.waiting) > _BUSY or self._used > 0.5
        if not (self.senders and busy):
            return frozenset()
        most = _PART * _observations(self.outbox)
        return frozenset(agent for agent, count in self.senders.items() if count > most)

    def launched(self, recipe: Recipe) -> "Relayed":
        """Return it with the first upload that waits in flight, rounded as agents round theirs."""
        memory = recipe.parts.memory
        base = Base(self.base, memory)

        def rounded(upload: Upload) -> Upload:
            return Upload(0, memory.uploaded(upload.statistics, base))

        outbox = self.outbox.next_in_flight(rounded)
        left = _observations(outbox) / _observations(self.outbox)
        several = len(outbox.waiting) > 1
        senders = {agent: left * count for agent, count in self.senders.items()} if several else {}
        return self._knowing(recipe, outbox=outbox, senders=senders)

    def acknowledged(self, recipe: Recipe, download: Download, digest: str) -> "Relayed":
        """Return it without the upload in flight, which is in this download."""
        return self.delivered().received(recipe, download, digest)

    def delivered(self) -> "Relayed":
        """Return it without the upload in flight. ``received`` has to follow."""
        return replace(self, outbox=self.outbox.delivered())

    def received(self, recipe: Recipe, download: Download, digest: str) -> "Relayed":
        """Return it with a download as the base; raise InvalidMessage if it does not fit.

        An upload in flight must not be in it: see ``delivered``.
        """
        memory = recipe.parts.memory
        memory.check(download.statistics)
        theirs = Base(memory.opened(download.statistics), memory)
        base = memory.merged(memory.empty_server(), [download.statistics], theirs.reference)
        return self._knowing(recipe, base=base, version=download.version, digest=digest)

    def told(self, *, lives: int, most: int) -> "Relayed":
        """Return it with what upstream says of this relay's lives, and of how large uploads are."""
        return replace(self, outbox=self.outbox.born_after(lives), most=most)

    def under_new_life(self, recipe: Recipe, life: bytes, *, again: bool) -> "Relayed":
        """Begin another life; ``again``: send what was in flight, which was not merged."""
        return self._knowing(recipe, outbox=self.outbox.under_new_life(life, again=again))

    def stored(self) -> Relaying:
        """Return it as it is stored."""
        box = self.outbox
        flying = None if box.in_flight is None else wire.encode(box.in_flight)
        waiting = [wire.encode(each) for each in box.waiting]
        packed = _Outbox(
            *(box.life, box.born, box.sequence, flying, waiting),
            *(self.digest, self.most, self.logdet, dict(self.senders)),
        )
        base = wire.encode(Download(self.base, self.version))
        return Relaying(base=base, outbox=msgspec.msgpack.encode(packed))

    @property
    def _used(self) -> float:
        """How much of the room for what waits is taken: 1 is all of it."""
        waiting = self.outbox.waiting
        scalars = sum(each.summary.upload_scalars for each in waiting)
        return min(len(waiting) / (_ALWAYS + 0.5), scalars * wire.WIDTH / _MOST_BYTES)

    @property
    def _flying(self) -> tuple[Upload, ...]:
        flying = self.outbox.in_flight
        return () if flying is None else (flying,)

    def _knowing(self, recipe: Recipe, **changes: object) -> "Relayed":
        """Return a copy with changes to what upstream knows, and the log determinant of that."""
        changed = replace(self, **changes)  # type: ignore[arg-type]
        known = changed._with(recipe, changed._flying)
        return replace(changed, logdet=recipe.parts.memory.read(known.summary).logdet)

    def _with(self, recipe: Recipe, uploads: Sequence[Upload]) -> Statistics:
        """Return the base merged with some uploads."""
        if not uploads:
            return self.base
        memory = recipe.parts.memory
        theirs = [each.statistics for each in uploads]
        return memory.merged(self.base, theirs, Base(self.base, memory).reference)


def _observations(outbox: Outbox) -> int:
    """Return how many observations wait."""
    return sum(each.count for each in outbox.waiting)


def _one_of(recipe: Recipe, uploads: Sequence[Upload], reference: Array | None) -> Upload:
    """Return one upload, not rounded, in place of several."""
    memory = recipe.parts.memory
    merged = memory.merged(memory.empty(), [each.statistics for each in uploads], reference)
    memory.check(merged, strict=True)
    return Upload(0, merged)


def read_relayed(recipe: Recipe, stored: Relaying) -> Relayed:
    """Return what was ``stored``; raise InvalidState if it cannot be read."""
    try:
        box = msgspec.msgpack.decode(stored.outbox, type=_Outbox)
        base = wire.decode_download(stored.base)
        flying = None if box.in_flight is None else wire.decode_upload(box.in_flight)
        waiting = tuple(map(wire.decode_upload, box.waiting))
        for each in (base, *waiting, *(() if flying is None else (flying,))):
            recipe.parts.memory.check(each.statistics)
    except (InvalidMessage, ValueError) as error:  # msgspec's errors are ValueErrors
        message = f"What is stored of the coordinator above cannot be read ({error})."
        raise InvalidState(f"{message} Restore a backup.") from error
    outbox = Outbox(
        life=box.life, born=box.born, sequence=box.sequence, in_flight=flying, waiting=waiting
    )
    return Relayed(
        base=recipe.parts.memory.opened(base.statistics),
        outbox=outbox,
        version=base.version,
        digest=box.digest,
        most=box.most,
        logdet=box.logdet,
        senders=box.senders,
    )
