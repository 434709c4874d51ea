"""What is kept so that a model can be set back, or be rid of what one agent sent.

*Snapshots* are whole states from before, taken on a schedule as uploads come in. There is a largest
number of them: lately they lie close together, long ago far apart.

*Parts* are what single agents sent, kept beside the state if the model is made so: the state is the
merge of all parts. An upload is added as a part of its own. Every ``LOOSE`` uploads of an agent,
those that take more room than an empty server, or are many, are merged with its earlier ones, never
across a snapshot that is still there. So everything since a snapshot can be taken out of the parts
too, and between two snapshots an agent has at most one part that was merged, and fewer than
``parts.MOST_SINGLE`` others; and ``LOOSE`` more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from fedbandit.errors import InvalidParameter, complaint

LOOSE: Final = 8
MOST_BYTES: Final = 2**28
"""All snapshots of a model take no more, but for the newest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How the past of a model is kept.

    A snapshot is taken of what was merged before an upload that comes ``every`` seconds or more
    after the last snapshot; at most ``keep`` of them are kept. ``by_agent``: keep parts too.
    """

    every: float = 3600.0
    keep: int = 24
    by_agent: bool = False


HOURLY: Final = History()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state from before: its version, its observations, when it was taken, its size in bytes.

    The size is with the states of the groups, if there are any.
    """

    version: int
    count: int
    at: float
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one agent had merged as versions ``first`` to ``last``: ``data`` is it, encoded.

    The agent "" stands for what was there before parts were kept.
    """

    agent: str
    first: int
    last: int
    data: bytes


def is_due(history: History, *, taken: float, now: float) -> bool:
    """Say whether it is time for a snapshot; after a clock was set back, it is."""
    return history.keep > 0 and not taken <= now < taken + history.every


def superfluous(snapshots: Sequence[Snapshot], history: History, *, now: float) -> list[int]:
    """Return the versions of the snapshots that have to go, the oldest first.

    ``snapshots`` are in order. One after another goes that which leaves the smallest gap behind,
    relative to how long ago it was. The newest one stays, and the oldest one as long as it can.
    """
    kept = list(snapshots)
    while len(kept) > 1 and (
        len(kept) > history.keep or sum(each.size for each in kept) > MOST_BYTES
    ):
        inner = range(1, len(kept) - 1)
        gone = min(inner, key=lambda i: _gap(kept, i, now), default=0)
        del kept[gone]
    left = {each.version for each in kept}
    return [each.version for each in snapshots if each.version not in left]


def _gap(kept: Sequence[Snapshot], i: int, now: float) -> float:
    return (kept[i + 1].at - kept[i - 1].at) / max(now - kept[i].at, 1.0)


def groups(parts: Sequence[Part], bounds: Sequence[int]) -> list[list[Part]]:
    """Return the parts of one agent, in order, those together that no snapshot lies between.

    ``bounds`` are the versions of the snapshots.
    """
    found: list[list[Part]] = []
    for part in sorted(parts, key=lambda each: each.last):
        apart = not found or any(found[-1][-1].last <= bound < part.first for bound in bounds)
        if apart:
            found.append([part])
        else:
            found[-1].append(part)
    return found


def check_history(history: History) -> History:
    """Return how the past of a model is kept; raise InvalidParameter if that is out of range."""
    if not (isfinite(history.every) and history.every > 0.0):
        raise _bad("time between snapshots", history.every, "seconds, more than 0")
    if not 0 <= history.keep <= 1000:
        raise _bad("number of snapshots", history.keep, "a whole number from 0 to 1000")
    return history


def _bad(name: str, got: float, expected: str) -> InvalidParameter:
    fix = "Leave it out for one an hour, 24 of them."
    return InvalidParameter(complaint(name, got=got, expected=expected, fix=fix))
