"""The sufficient statistics of a set of observations, as frozen values."""

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
    """Sums over rewards r: ``count`` is their number, ``total`` sum r, ``squares`` sum r^2.

    ``count`` may be less than the number of observations: uploads in version 1 of the wire format
    do not carry these sums.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, others: Iterable[Rewards]) -> Rewards:
        """Return the sums over these rewards and those of ``others``."""
        count, total, squares = self.count, self.total, self.squares
        for each in others:
            count, total, squares = (
                count + each.count,
                total + each.total,
                squares + each.squares,
            )
        return Rewards(count, total, squares)

    def scaled(self, share: float) -> Rewards:
        """Return the sums with every reward weighted by ``share``; ``count`` stays."""
        return Rewards(self.count, share * self.total, share * self.squares)


NO_REWARDS: Final = Rewards()


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sufficient statistics of observations (x, r), of an arm's features x and its reward r.

    They are what agents and server send, merge, store and estimate theta from.

    - ``summary`` stands for X^T X = sum x x^T (d x d): the matrix itself, ``Gram``; a ``Sketch`` of
      it; or a sketch with rounded rows, as it is sent, ``Narrow``.
    - ``moment`` is sum r x, a vector of length d. With estimate="corrected" the sketch's error
      times an estimate has been subtracted from it (see ``SketchMemory``).
    - ``count`` is the number of observations.
    - ``rewards`` are sums over r alone, for averages and for the noise; no algorithm uses them.
    """

    summary: Any
    moment: Array
    count: int
    rewards: Rewards = NO_REWARDS

    def __post_init__(self) -> None:
        if self.moment.flags.writeable:
            object.__setattr__(self, "moment", read_only(self.moment))

    def merged_with(self, others: Iterable[Statistics], summary: Any) -> Statistics:
        """Return the statistics of all these observations.

        ``summary``: their summaries, already merged by the memory.
        """
        moment, count = self.moment, self.count
        for each in others:
            moment, count = moment + each.moment, count + each.count
        return Statistics(
            summary, moment, count, self.rewards.plus(each.rewards for each in others)
        )

    def scaled(self, share: float) -> Statistics:
        """Return the statistics with every observation weighted by ``share`` (0 < share <= 1).

        This is how old observations are forgotten. ``count`` is not weighted.
        """
        if not (isfinite(share) and 0.0 < share <= 1.0):
            raise ValueError(f"share must be above 0 and at most 1; got {share!r}.")
        return Statistics(
            self.summary.scaled(share),
            share * self.moment,
            self.count,
            self.rewards.scaled(share),
        )


@dataclass(frozen=True, eq=False)
class Base:
    """Statistics, and what follows from them: V, theta and theta', each computed at first use.

    An agent decides with a base and collects pending observations on top of it; a server merges
    uploads into its base.
    """

    statistics: Statistics
    memory: Memory

    @cached_property
    def reading(self) -> Any:
        """The matrix V to decide with, as the memory reads the summary."""
        return self.memory.read(self.statistics.summary)

    @cached_property
    def theta(self) -> Array:
        """The estimate of theta* (d), from V and the moment."""
        theta: Array = self.reading.estimate(self.statistics.moment)
        return theta

    @cached_property
    def reference(self) -> Array | None:
        """The estimate theta' for the correction of the moment, see ``SketchMemory``.

        None unless estimate="corrected".
        """
        return self.memory.reference(self)
