"""When an agent talks: the growth, in log determinant, that its pending data must exceed."""

from dataclasses import dataclass
from math import inf, log1p
from typing import Protocol


class Trigger(Protocol):
    """A threshold on log det(base + pending) - log det(base)."""

    def threshold(self, count: int, /) -> float:
        """Return the growth to exceed with ``count`` pending observations."""
        ...


@dataclass(frozen=True, slots=True)
class Never:
    """Learners that keep to themselves."""

    def threshold(self, _count: int, /) -> float:
        """No growth suffices."""
        return inf


@dataclass(frozen=True, slots=True)
class Growth:
    """det(base + pending) > (1 + alpha) det(base): FSCLB, FedLinUCB; Async-LinUCB's gamma_U - 1."""

    alpha: float

    def threshold(self, _count: int, /) -> float:
        """Return log(1 + alpha): in logs, for the product overflows near d = 100."""
        return log1p(self.alpha)


@dataclass(frozen=True, slots=True)
class GrowthTimesWait:
    """Growth times the agent's own rounds since the last sync > D: DisLinUCB."""

    product: float

    def threshold(self, count: int, /) -> float:
        """Return D / rounds."""
        return self.product / count if count else inf
