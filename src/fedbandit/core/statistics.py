"""What was learned from some observations, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from fedbandit.core.kernels.linalg import Array, read_only

if TYPE_CHECKING:
    from fedbandit.core.memory.contract import Memory


@dataclass(frozen=True, slots=True)
class Rewards:
    """Sums over rewards: how many they are, sum r, and sum r^2.

    ``count`` may be less than the number of observations: version 1 of the wire format did not
    carry rewards, and what came that way is not in these sums.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, others: Iterable[Rewards]) -> Rewards:
        """Return the sums over all of them."""
        count, total, squares = self.count, self.total, self.squares
        for each in others:
            count, total, squares = (
                count + each.count,
                total + each.total,
                squares + each.squares,
            )
        return Rewards(count, total, squares)

    def scaled(self, share: float) -> Rewards:
        """Return the sums with every observation weighing ``share``; the count stays."""
        return Rewards(self.count, share * self.total, share * self.squares)


NO_REWARDS: Final = Rewards()


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The sufficient statistics of some observations (x, r): what travels, is merged and is read.

    ``summary`` stands for sum x x^T: a ``Gram`` matrix, a ``Sketch``, or a sketch in fewer bytes,
    ``Narrow``. ``moment`` is sum r x, of length d. ``count`` is the number of observations.
    ``rewards`` are sums over r alone, for averages and for the noise; no algorithm needs them.
    """

    summary: Any
    moment: Array
    count: int
    rewards: Rewards = NO_REWARDS

    def __post_init__(self) -> None:
        if self.moment.flags.writeable:
            object.__setattr__(self, "moment", read_only(self.moment))

    def merged_with(self, others: Iterable[Statistics], summary: Any) -> Statistics:
        """Return the sums of both and of others, with a summary that was merged before."""
        moment, count = self.moment, self.count
        for each in others:
            moment, count = moment + each.moment, count + each.count
        return Statistics(
            summary, moment, count, self.rewards.plus(each.rewards for each in others)
        )

    def scaled(self, share: float) -> Statistics:
        """Return them with every observation weighing ``share`` (0 < share <= 1).

        That is how old observations are forgotten. ``count`` says how many there were, and stays.
        """
        if not (isfinite(share) and 0.0 < share <= 1.0):
            raise ValueError(f"share must be above 0 and at most 1; got {share!r}")
        return Statistics(
            self.summary.scaled(share),
            share * self.moment,
            self.count,
            self.rewards.scaled(share),
        )


@dataclass(frozen=True, eq=False)
class Base:
    """Statistics with what is read off them, computed when it is first asked for, and once.

    An agent decides on a base and puts pending observations on top of it; a server merges uploads
    into one.
    """

    statistics: Statistics
    memory: Memory

    @cached_property
    def reading(self) -> Any:
        """The summary as the matrix V to decide with."""
        return self.memory.read(self.statistics.summary)

    @cached_property
    def theta(self) -> Array:
        """The estimate of theta*."""
        theta: Array = self.reading.estimate(self.statistics.moment)
        return theta

    @cached_property
    def reference(self) -> Array | None:
        """The theta' at which a sketch's error is subtracted from the moment.

        None unless estimate="corrected".
        """
        return self.memory.reference(self)
