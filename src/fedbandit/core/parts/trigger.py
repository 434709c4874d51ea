"""Rules for when an agent uploads: the growth of log det V that pending data must exceed."""

from dataclasses import dataclass
from math import inf, log1p
from typing import Protocol


class Trigger(Protocol):
    """A threshold on log det(base + pending) - log det(base)."""

    def threshold(self, count: int, /) -> float:
        """Return the threshold for ``count`` pending observations, 0 or more.

        Infinity for no upload; below 0, -1 for example, for one at any growth.
        """
        ...


@dataclass(frozen=True, slots=True)
class Never:
    """No uploads: agents that learn alone."""

    def threshold(self, _count: int, /) -> float:
        """Return infinity."""
        return inf


@dataclass(frozen=True, slots=True)
class Growth:
    """det(base + pending) > (1 + alpha) det(base): FSCLB (Alg. 1), FedLinUCB, Async-LinUCB.

    For Async-LinUCB alpha is gamma_U - 1.
    """

    alpha: float

    def threshold(self, _count: int, /) -> float:
        """Return log(1 + alpha). Logs, because the determinant itself overflows near d = 100."""
        return log1p(self.alpha)


@dataclass(frozen=True, slots=True)
class GrowthTimesWait:
    """Growth of log det V times observations since the last synchronisation > D: DisLinUCB."""

    product: float

    def threshold(self, count: int, /) -> float:
        """Return D / count."""
        return self.product / count if count else inf
