"""Bytes that were saved against FedLinUCB, which sends whole matrices, for as many messages."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from fedbandit import wire
from fedbandit.core.memory.summary import empty_gram
from fedbandit.core.messages import Download, Upload
from fedbandit.core.statistics import Rewards, Statistics
from fedbandit.service.bookkeeping.progress import Progress

_ANY = "0" * 16  # in place of a fingerprint
_LARGEST_MADE = 256  # dimensions


@dataclass(frozen=True, slots=True)
class Savings:
    """Bytes that were sent both ways, and what FedLinUCB sends in as many syncs and joins."""

    sent: int
    fedlinucb: int

    @property
    def saved(self) -> int:
        """The difference; negative if FedLinUCB would have sent less."""
        return self.fedlinucb - self.sent

    @property
    def times(self) -> float | None:
        """How many times as much FedLinUCB sends; None before anything was sent."""
        return self.fedlinucb / self.sent if self.sent else None


def savings_of(progress: Progress, *, dimension: int) -> Savings:
    """Compare what was sent with FedLinUCB's own messages, d x d numbers of 8 bytes each.

    It is told for as many syncs, copies included, and as many joins; FedLinUCB might sync more or
    less often.
    """
    up, down = fedlinucb_bytes(dimension)
    syncs, joins = progress.uploads + progress.copies, progress.joins
    return Savings(progress.received + progress.sent, syncs * (up + down) + joins * down)


@cache
def fedlinucb_bytes(dimension: int) -> tuple[int, int]:
    """Return the bytes of a sync of FedLinUCB and of its answer.

    Messages of at most 256 dimensions are made and measured; longer ones have so many more numbers.
    """
    made = min(dimension, _LARGEST_MADE)
    up, down = _measured(made)
    longer = wire.WIDTH * (dimension * (dimension + 1) - made * (made + 1))
    return up + longer, down + longer


def _measured(d: int) -> tuple[int, int]:
    upload = Upload(0, Statistics(empty_gram(d), np.zeros(d), 100, Rewards(100)))
    download = Download(Statistics(empty_gram(d), np.zeros(d), 10_000, Rewards(10_000)), 1_000)
    sync = wire.encode_sync(wire.Sync(_ANY, bytes(wire.LIFE_BYTES), 100, upload))
    return len(sync), len(wire.encode_synced(wire.Synced(_ANY, True, 100, 1_000, download)))
