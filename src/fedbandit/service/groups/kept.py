"""The sums of groups as a coordinator holds them: read from a store, added to, written back.

What comes in is added up when a sum is asked for, or once there is much of it: rows of many uploads
take as long as those of one.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Memory
from fedbandit.core.statistics import Rewards
from fedbandit.service.groups.membership import WATCHED_FROM, group_at
from fedbandit.service.groups.sums import SILENT, WHOLE, GroupSum, nothing, packed, sound, unpacked

_TOGETHER = 16
_HEAVY, _HEAVY_OF_FEW = 0.25, 4.0  # the share of all mass, and times the average, of a heavy one


class Kept:
    """The sum of a group; of what is not stored of it, the mass and the pull b - G theta."""

    def __init__(self, total: GroupSum) -> None:
        self._total, self._waiting = total, list[GroupSum]()
        self.mass, self.rewards = total.mass, total.rewards
        self.stored()

    @property
    def total(self) -> GroupSum:
        """The sum, put together."""
        if self._waiting:
            self._total, self._waiting = self._total.plus(self._waiting), []
        self._total = self._total.put_together()
        return self._total

    def stored(self) -> None:
        """Note that all of it is stored."""
        self.unstored, self.pull = 0.0, np.zeros_like(self._total.moment)

    def add(self, piece: GroupSum, at: Array) -> None:
        """Add what was sent; ``at`` is the estimate that it pulls at."""
        self._waiting.append(piece)
        if piece.matrix is not None or len(self._waiting) >= _TOGETHER:
            self._total, self._waiting = self._total.plus(self._waiting), []
        self.unstored, self.mass = self.unstored + piece.mass, self.mass + piece.mass
        self.pull = self.pull + (piece.moment - piece.times(at))
        self.rewards = self.rewards.plus(piece.rewards)


class KeptSums:
    """The sums of all groups, by key (``membership``)."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._kept: dict[int, Kept] = {}
        self._written: dict[int, tuple[bytes, GroupSum]] = {}
        self._masses: dict[tuple[int, int], float] = {}
        self._everything, self._enough = 0.0, False

    def __getitem__(self, key: int) -> Kept:
        """Return a sum, of nothing if there is none."""
        if key not in self._kept:
            self._kept[key] = Kept(nothing(self._memory))
        return self._kept[key]

    def add(self, key: int, piece: GroupSum, at: Array) -> None:
        """Add what was sent; ``at`` is the estimate that it pulls at."""
        self[key].add(piece, at)
        self._weigh(key, piece.mass)

    def _weigh(self, key: int, mass: float) -> None:
        self._everything += mass
        if not is_past(key):
            group = group_at(key)
            self._masses[group] = self._masses.get(group, 0.0) + mass

    @property
    def keys(self) -> list[int]:
        """The keys of all sums, in order."""
        return sorted(self._kept)

    def read(self, stored: Mapping[int, bytes]) -> None:
        """Take up what a store has; what another coordinator has not changed is not read again."""
        read, before = {}, self._written
        for key, data in stored.items():
            known = before.get(key)
            if known is None or known[0] != data:
                total = unpacked(data)
                total = sound(total) if len(total.moment) <= WHOLE else total
                known = data, nothing(self._memory).plus([total])
            read[key] = known
        self._written = read
        self._kept = {key: Kept(total) for key, (_, total) in read.items()}
        self._masses, self._everything, self._enough = {}, 0.0, False
        for key, kept in self._kept.items():
            self._weigh(key, kept.mass)

    def write(self, key: int) -> bytes:
        """Return a sum as it is to be stored."""
        kept = self._kept[key]
        data = packed(kept.total)
        self._written[key] = data, kept.total
        kept.stored()
        return data

    @property
    def middle(self) -> float:
        """The mass of the median sum."""
        masses = sorted(each.mass for each in self._kept.values())
        return masses[(len(masses) - 1) // 2] if masses else 0.0

    def rewards(self) -> tuple[list[Rewards], list[bool]]:
        """Return the sums of rewards, and which of them are not agents'."""
        keys = self.keys
        return [self._kept[key].rewards for key in keys], [is_past(key) for key in keys]

    @property
    def masses(self) -> Mapping[tuple[int, int], float]:
        """The mass of each group of agents: also of what came before parts were kept."""
        return self._masses

    @property
    def enough(self) -> bool:
        """Whether ``WATCHED_FROM`` groups have sent something, of those sorted into alike."""
        if not self._enough:
            least, heard = SILENT * self._memory.ridge, defaultdict[int, int](int)
            for (many, _), mass in self._masses.items():
                heard[many] += mass > least
            self._enough = max(heard.values(), default=0) >= WATCHED_FROM
        return self._enough

    def heavy(self) -> dict[tuple[int, int], float]:
        """Return the share of all mass of groups that have far more than the others; mostly none.

        What was merged without groups counts as mass, and is nobody's.
        """
        most = max(_HEAVY, _HEAVY_OF_FEW / max(len(self._masses), 1)) * self._everything
        if max(self._masses.values(), default=0.0) <= most:
            return {}
        each = self._masses.items()
        return {group: mass / self._everything for group, mass in each if mass > most}


def is_past(key: int) -> bool:
    """Say whether a sum is of what was merged without groups: a log, or all of before."""
    return group_at(key)[0] == 1
