"""Pending observations over a Gram matrix, kept as a Gram matrix."""

from math import log1p
from typing import Literal, Self

import numpy as np

from fedbandit.core.kernels.linalg import Array, absorb_into_gram, fits
from fedbandit.core.kernels.ucb import exceeds
from fedbandit.core.memory.reading import GramReading
from fedbandit.core.memory.summary import Gram, trusted
from fedbandit.core.saved import State, array, check_word, integer, number
from fedbandit.core.statistics import Base

_MOST_UPDATES = 2000  # rank-one updates before V^{-1} is computed afresh
_LARGE_GAIN = 1e6  # an x^T V^{-1} x after which V^{-1} is computed afresh


class PendingGram:
    """Pending X^T X (d x d) over a Gram base with the matrix V.

    ``rank-one`` updates (V + X^T X)^{-1} and its log determinant by Sherman-Morrison, in O(d^2) an
    observation, and computes them afresh now and then. ``every-round`` factorises V + X^T X at
    every observation, in O(d^3), as FedLinUCB was published. The two differ by rounding alone.
    """

    carried = None

    def __init__(
        self,
        base: Base,
        *,
        ridge: float,
        determinant: Literal["rank-one", "every-round"],
    ) -> None:
        self._base: Gram = base.statistics.summary
        self._base_reading: GramReading = base.reading
        self._ridge, self._determinant = ridge, determinant
        self._matrix = np.zeros_like(self._base.matrix)
        self._inverse = self._base_reading.inverse.copy()
        self._growth = 0.0
        self._updates = 0
        self.moment = np.zeros(self._base.dimension)
        self.count = 0

    def absorb(self, x: Array, _squared_width: float, reward: float, /) -> bool:
        """Add one observation. Cost O(d^2), or O(d^3) for "every-round"."""
        if self._determinant == "every-round":
            return self._absorb_and_factorise(x, reward)
        gain = absorb_into_gram.run(self._matrix, self._inverse, self.moment, x, reward)
        if gain < 0.0:
            return False
        self.count += 1
        self._growth += log1p(gain)
        self._updates += 1
        if gain > _LARGE_GAIN or self._updates >= _MOST_UPDATES:
            self._refresh()
        return True

    def growth_exceeds(self, threshold: float) -> bool:
        """Compare the growth with a threshold. Cost O(1): absorbing has computed it."""
        return exceeds(self._growth, threshold)

    def summary(self, *, packed: bool = False) -> Gram:  # noqa: ARG002
        """Return a copy of the pending matrix."""
        return trusted(Gram(self._matrix.copy()))

    def reading(self) -> GramReading:
        """Return V of base and pending together; valid until the next ``absorb``."""
        if self._determinant == "every-round":
            return self._base.merge(self.summary()).read(self._ridge)
        base = self._base_reading
        return GramReading(self._inverse, base.logdet + self._growth, base.shed)

    def over(self, base: Base, /) -> Self:
        """Return the same observations on top of another base. Cost O(d^3)."""
        moved = type(self)(base, ridge=self._ridge, determinant=self._determinant)
        joint = moved._base.merge(self.summary()).read(self._ridge)
        moved._matrix = self._matrix.copy()
        moved.moment, moved.count = self.moment.copy(), self.count
        moved._inverse, moved._growth = (
            joint.inverse.copy(),
            joint.logdet - moved._base_reading.logdet,
        )
        return moved

    def state(self) -> State:
        """Return matrix, running inverse and growth."""
        return {
            "determinant": self._determinant,
            "matrix": self._matrix.copy(),
            "inverse": self._inverse.copy(),
            "growth": self._growth,
            "updates": self._updates,
            "moment": self.moment.copy(),
            "count": self.count,
        }

    def restore(self, state: State) -> None:
        """Continue from a saved buffer."""
        check_word(state, "determinant", self._determinant)
        d = self._base.dimension
        matrix, inverse = array(state, "matrix", d, d), array(state, "inverse", d, d)
        moment, count = array(state, "moment", d), integer(state, "count")
        self._growth, self._updates = number(state, "growth"), integer(state, "updates")
        self._matrix, self._inverse = matrix, inverse
        self.moment, self.count = moment, count

    def _absorb_and_factorise(self, x: Array, reward: float) -> bool:
        """Add one observation and compute the determinant, as FedLinUCB was published."""
        if not fits(x, reward):
            return False
        self._matrix += np.outer(x, x)
        self.moment += reward * x
        self.count += 1
        joint = self._base.matrix + self._matrix
        joint.flat[:: len(joint) + 1] += self._ridge
        self._growth = float(np.linalg.slogdet(joint)[1]) - self._base_reading.logdet
        return True

    def _refresh(self) -> None:
        """Compute the inverse afresh: many rank-one updates, or large ones, lose digits."""
        joint = self._base.merge(self.summary()).read(self._ridge)
        self._inverse, self._updates = joint.inverse.copy(), 0
        self._growth = joint.logdet - self._base_reading.logdet
