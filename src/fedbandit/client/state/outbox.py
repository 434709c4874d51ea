"""What has left the core agent and not yet reached the coordinator, as a frozen value."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedbandit.core.memory.contract import Sent
from fedbandit.core.memory.narrow import Narrow, rounding_room
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.messages import Upload
from fedbandit.wire import Limits

Join = Callable[[Upload, Upload], Upload]
"""Makes one upload of two; ``Agent.combined`` does."""
Pack = Callable[[Upload], Upload]
"""Makes an upload ready to be sent; ``Agent.packed`` does."""
Moved = Callable[[Sent], float]
"""Bounds what a moment may differ by from a sum of r x; ``Memory.moment_error`` does."""

_LOOSE = 1.0 + 1e-9  # for rounding, as at the coordinator's door


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outbox:
    """At most one upload in flight, under a number of its own; the rest waits, merged together.

    ``life`` is 16 random bytes, ``born`` what the coordinator said when this life joined first, and
    ``sequence`` the number of the last upload that was put in flight.
    Offline for long costs no more memory than one waiting upload, unless it would stand for more
    observations than the coordinator takes at once: then the next begins.
    """

    life: bytes
    born: int | None = None
    sequence: int = 0
    in_flight: Upload | None = None
    waiting: tuple[Upload, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether everything has been delivered."""
        return self.in_flight is None and not self.waiting

    @property
    def observations(self) -> int:
        """How many observations are in flight or waiting."""
        flying = 0 if self.in_flight is None else self.in_flight.count
        return flying + sum(upload.count for upload in self.waiting)

    def put(self, upload: Upload, *, most: int, join: Join) -> "Outbox":
        """Let one more upload wait; no upload stands for more than ``most`` observations."""
        if self.waiting and self.waiting[-1].count + upload.count <= most:
            *before, last = self.waiting
            return replace(self, waiting=(*before, join(last, upload)))
        return replace(self, waiting=(*self.waiting, upload))

    def frozen(self, pack: Pack) -> "Outbox":
        """Put the first that waits in flight. From now on it is sent as it is, until answered."""
        first, *rest = self.waiting
        sequence = self.sequence + 1
        return replace(self, in_flight=pack(first), sequence=sequence, waiting=tuple(rest))

    def joined(self, lives: int) -> "Outbox":
        """Note what the coordinator says about lives before this one, if it joins first."""
        return replace(self, born=lives) if self.born is None else self

    def reborn(self, life: bytes, *, again: bool) -> "Outbox":
        """Begin another life; send ``again``, under its first number, what was in flight, or not.

        Only what the coordinator cannot have merged may be sent again.
        """
        first = (self.in_flight,) if again and self.in_flight is not None else ()
        return Outbox(life=life, waiting=(*first, *self.waiting))

    def delivered(self) -> "Outbox":
        """Let go of what was in flight."""
        return replace(self, in_flight=None)

    def within(self, limits: Limits, moved: Moved, pack: Pack) -> tuple["Outbox", list[Upload]]:
        """Let go of what waits and would be refused as it will be sent; return that too."""
        packed = [pack(upload) for upload in self.waiting]
        fit = [is_within(upload, limits, moved(upload.summary)) for upload in packed]
        kept = tuple(upload for upload, fits in zip(self.waiting, fit, strict=True) if fits)
        misfits = [upload for upload, fits in zip(self.waiting, fit, strict=True) if not fits]
        return replace(self, waiting=kept), misfits


def is_within(upload: Upload, limits: Limits, moved: float) -> bool:
    """Say whether observations within the limits can add up to this, as the coordinator asks.

    ``moved`` bounds what the moment may differ by from a sum of r x.
    """
    match upload.summary:
        case Sketch() | Narrow() as sketch:
            mass = float(sketch.squares.sum()) + sketch.shed
        case Gram(matrix):
            mass = float(matrix.trace())
        case _:
            raise TypeError(f"no trace of a {type(upload.summary).__name__}")
    longest = (_LOOSE + rounding_room(upload.summary)) * upload.count * limits.arm_norm
    return (
        upload.count <= limits.count
        and mass <= longest * limits.arm_norm
        and float(np.linalg.norm(upload.moment)) <= longest * limits.reward + moved
    )
