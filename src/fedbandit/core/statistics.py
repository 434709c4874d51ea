"""The sufficient statistics of a set of observations, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from fedbandit.core.kernels.linalg import Array, read_only
from fedbandit.core.kernels.play import sums_paid
from fedbandit.core.kernels.ucb import Integers

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

    def plus(self, other: Rewards) -> Rewards:
        """Return the sums over the rewards of both."""
        return Rewards(
            self.count + other.count, self.total + other.total, self.squares + other.squares
        )

    def scaled(self, share: float) -> Rewards:
        """Return the sums with every reward weighted by ``share``; ``count`` stays."""
        return Rewards(self.count, share * self.total, share * self.squares)


NO_REWARDS: Final = Rewards()


@dataclass(frozen=True, slots=True)
class Estimates:
    """Sums over what rewards r were estimated to be, e = <theta, x>, before they were learned.

    ``count`` is the number of observations that were estimated, ``total`` sum e, ``errors`` sum
    (r - e)^2.
    """

    count: int = 0
    total: float = 0.0
    errors: float = 0.0

    def plus(self, other: Estimates) -> Estimates:
        """Return the sums over the estimates of both."""
        return Estimates(
            self.count + other.count, self.total + other.total, self.errors + other.errors
        )


NO_ESTIMATES: Final = Estimates()


class RunningRewards:
    """The same sums while rewards come in."""

    __slots__ = ("_count", "_squares", "_total")

    def __init__(self, start: Rewards = NO_REWARDS) -> None:
        self._count, self._total, self._squares = start.count, start.total, start.squares

    def add(self, reward: float) -> None:
        """Add one."""
        self._count += 1
        self._total += reward
        self._squares += reward * reward

    def add_chosen(self, rewards: Array, chosen: Integers, rounds: int) -> None:
        """Add those of the chosen arms, of rewards B x K, of so many rounds, one by one."""
        sums = sums_paid.run(rewards, chosen, rounds, self._total, self._squares)
        self._count, (self._total, self._squares) = self._count + rounds, sums

    def sums(self) -> Rewards:
        """Return the sums; none if a square has overflowed."""
        if not isfinite(self._squares):
            return NO_REWARDS
        return Rewards(self._count, self._total, self._squares)


class RunningEstimates:
    """The sums of ``Estimates`` while rewards come in."""

    __slots__ = ("_count", "_errors", "_total")

    def __init__(self, start: Estimates = NO_ESTIMATES) -> None:
        self._count, self._total, self._errors = start.count, start.total, start.errors

    def add(self, estimate: float, reward: float) -> None:
        """Add one."""
        missed = reward - estimate
        self._count += 1
        self._total += estimate
        self._errors += missed * missed

    def sums(self) -> Estimates:
        """Return the sums; none if one has overflowed."""
        if not isfinite(self._total + self._errors):
            return NO_ESTIMATES
        return Estimates(self._count, self._total, self._errors)


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sufficient statistics of observations (x, r), of an arm's features x and its reward r.

    They are what agents and server send, merge, store and estimate theta from.

    - ``summary`` stands for X^T X = sum x x^T (d x d): the matrix itself, ``Gram``; a ``Sketch`` of
      it; or either as it is sent in fewer bytes, ``Triangle`` and ``Narrow``; or rows or a matrix
      with a bound on what they lack (``core.memory.lossy``).
    - ``moment`` is sum r x, a vector of length d; an array that can be written is copied. With
      estimate="corrected" the sketch's error times an estimate has been subtracted from it (see
      ``SketchMemory``), and so has that of a rounded matrix (``GramMemory``).
    - ``count`` is the number of observations.
    - ``rewards`` are sums over r alone, for averages and for the noise (``radius="auto"``).
    - ``cut`` counts the uploads among them whose correction was too long and was cut.
    - ``estimates`` are sums over what r was estimated to be, for the board. Only uploads tell
      them, and only where every observation came with an estimate.
    """

    summary: Any
    moment: Array
    count: int
    rewards: Rewards = NO_REWARDS
    cut: int = 0
    estimates: Estimates = NO_ESTIMATES

    def __post_init__(self) -> None:
        if self.moment.flags.writeable:
            object.__setattr__(self, "moment", read_only(self.moment.copy()))

    def merged_with(self, others: Iterable[Statistics], summary: Any) -> Statistics:
        """Return the statistics of all these observations.

        ``summary``: their summaries, already merged by the memory.
        """
        moment, count, rewards, cut = self.moment, self.count, self.rewards, self.cut
        estimates = self.estimates
        for each in others:
            moment, count = moment + each.moment, count + each.count
            rewards, cut = rewards.plus(each.rewards), cut + each.cut
            estimates = estimates.plus(each.estimates)
        moment.setflags(write=False)  # spares a copy of it
        return Statistics(summary, moment, count, rewards, cut, estimates)

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
            self.cut,
        )


class Base:
    """Statistics, and what follows from them: V, theta and theta', each computed at first use.

    An agent decides with a base and collects pending observations on top of it; a server merges
    uploads into its base.
    """

    __slots__ = ("_memory", "_reading", "_reference", "_theta", "statistics")

    def __init__(self, statistics: Statistics, memory: Memory) -> None:
        self.statistics, self._memory = statistics, memory
        self._reading: Any = None
        self._theta: Array | None = None
        self._reference: Array | None = None

    @property
    def reading(self) -> Any:
        """The matrix V to decide with, as the memory reads the summary."""
        if self._reading is None:
            self._reading = self._memory.read(self.statistics.summary)
        return self._reading

    @property
    def theta(self) -> Array:
        """The estimate of theta* (d), from V and the moment."""
        if self._theta is None:
            self._theta = self.reading.estimate(self.statistics.moment)
        return self._theta

    @property
    def reference(self) -> Array | None:
        """The estimate theta' for the correction of the moment, see ``SketchMemory``.

        None unless estimate="corrected".
        """
        if self._reference is None:
            self._reference = self._memory.reference(self)
        return self._reference
