"""The uploads of an agent that the coordinator has not acknowledged yet, as a frozen value."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedbandit.core.memory.checking import room_for_rounding
from fedbandit.core.memory.contract import Sent
from fedbandit.core.memory.lossy.fitted import Fitted, least_trace
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.memory.triangle import Triangle
from fedbandit.core.messages import Upload
from fedbandit.wire import Limits

Join = Callable[[Upload, Upload], Upload]
"""Makes one upload of two; ``Agent.combined`` does."""
Pack = Callable[[Upload], Upload]
"""Brings an upload into the form it is sent in; ``Agent.packed`` does."""
Moved = Callable[[Sent, int, float], float]
"""Bounds the length of moment - sum of r x; ``Memory.moment_error`` does."""

_LOOSE = 1.0 + 1e-9  # for rounding, as the coordinator's validation has it
_SINGLE = 1e-6  # for a moment in float32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outbox:
    """At most one upload in flight, with a number of its own; the others wait, merged into one.

    ``life`` is 16 random bytes, ``born`` the number of earlier lives when this one first asked the
    coordinator (None before), ``sequence`` the number of the last upload that was put in flight.
    Being offline for long takes the memory of one waiting upload, or two if the first is rounded.
    Another is begun only when the last stands for as many observations as the coordinator accepts
    at once.
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
        """Add an upload that waits; none stands for more than ``most`` observations.

        Rows that were rounded to steps are not joined: rounded again they may say more than was
        observed, and would be refused.
        """
        joins = self.waiting and not isinstance(self.waiting[-1].summary, Fitted)
        if joins and self.waiting[-1].count + upload.count <= most:
            *before, last = self.waiting
            return replace(self, waiting=(*before, join(last, upload)))
        return replace(self, waiting=(*self.waiting, upload))

    def next_in_flight(self, pack: Pack) -> "Outbox":
        """Put the first that waits in flight. It is sent unchanged until it is acknowledged."""
        first, *rest = self.waiting
        sequence = self.sequence + 1
        return replace(self, in_flight=pack(first), sequence=sequence, waiting=tuple(rest))

    def born_after(self, lives: int) -> "Outbox":
        """Keep the number of earlier lives that the coordinator told first."""
        return replace(self, born=lives) if self.born is None else self

    def under_new_life(self, life: bytes, *, again: bool) -> "Outbox":
        """Begin another life; ``again``: what was in flight is sent as its first upload.

        Only for an upload that the coordinator cannot have merged; otherwise it is dropped.
        """
        first = (self.in_flight,) if again and self.in_flight is not None else ()
        return Outbox(life=life, waiting=(*first, *self.waiting))

    def delivered(self) -> "Outbox":
        """Remove the upload in flight."""
        return replace(self, in_flight=None)

    def within(self, limits: Limits, moved: Moved, pack: Pack) -> tuple["Outbox", list[Upload]]:
        """Return the outbox without the waiting uploads beyond the limits, and those uploads.

        They are checked in the form that they would be sent in.
        """
        packed = [pack(upload) for upload in self.waiting]
        fit = [
            is_within(upload, limits, moved(upload.summary, upload.count, limits.reward))
            for upload in packed
        ]
        kept = tuple(upload for upload, fits in zip(self.waiting, fit, strict=True) if fits)
        beyond = [upload for upload, fits in zip(self.waiting, fit, strict=True) if not fits]
        return replace(self, waiting=kept), beyond


def is_within(upload: Upload, limits: Limits, moved: float) -> bool:
    """Return whether observations within the limits can add up to this upload.

    The coordinator checks the same. ``moved`` bounds the length of moment - sum of r x.
    """
    match upload.summary:
        case Sketch() | Narrow() as sketch:
            mass = float(sketch.squares.sum()) + sketch.shed
        case Gram() | Triangle() as gram:
            mass = float(gram.matrix.trace())
        case LossyRows() | Fitted() as lossy:
            mass = least_trace(lossy)
        case _:
            raise TypeError(f"no trace of a {type(upload.summary).__name__}")
    single = _SINGLE if isinstance(upload.summary, Fitted) else 0.0
    room = _LOOSE + single + room_for_rounding(upload.summary)
    longest = room * upload.count * limits.arm_norm
    return (
        upload.count <= limits.count
        and mass <= longest * limits.arm_norm
        and float(np.linalg.norm(upload.moment)) <= longest * limits.reward + moved
    )
