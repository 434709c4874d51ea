"""Pending observations over a Gram matrix, kept as rows."""

from math import log1p
from typing import Self

import numpy as np

from fedbandit.core.kernels.cholesky import gram_growth
from fedbandit.core.kernels.linalg import Array, append_row
from fedbandit.core.kernels.ucb import exceeds
from fedbandit.core.memory.contract import Tape
from fedbandit.core.memory.reading import GramReading
from fedbandit.core.memory.summary import Gram, trusted
from fedbandit.core.saved import State, array, check_word, integer, not_negative, wrong_entry
from fedbandit.core.statistics import Base

_FIRST_ROWS = 8
_ROUNDING = 1e-13  # what a squared width may lose to the rounding of V^{-1}, relative to |x|^2


class PendingRows:
    """Pending rows over a Gram base, for agents that decide with the base alone.

    Such agents need pending data for the trigger and for uploads only, so rows are kept as they
    are, in O(d) an observation. The growth is at most the sum of log(1 + x^T V^{-1} x), with V the
    base's matrix, and is computed only when that sum exceeds the threshold. Every d rows are added
    up in a matrix.
    """

    carried = None

    def __init__(self, base: Base, *, ridge: float) -> None:
        self._base: Gram = base.statistics.summary
        self._base_reading: GramReading = base.reading
        self._ridge, d = ridge, self._base.dimension
        self._rows, self._filled = np.empty((min(_FIRST_ROWS, d), d)), 0
        self._matrix: Array | None = None
        self._growth_bound = 0.0
        self._slack = _ROUNDING / ridge
        self.moment = np.zeros(d)
        self.count = 0

    def absorb(self, x: Array, squared_width: float, reward: float, /) -> bool:
        """Add one observation. Cost O(d), and O(d^3) every d observations."""
        if self._filled == len(self._rows):
            self._make_room()
        square = append_row.run(self._rows, self._filled, self.moment, x, reward)
        if square < 0.0:
            return False
        self.count += 1
        self._filled += 1
        self._growth_bound += log1p(squared_width + self._slack * square)
        return True

    def play(self, tape: Tape, /) -> int:
        """Absorb the rounds of a tape that need no more than a row each; return how many."""
        most = min(self._filled + len(tape.arms), self._base.dimension)
        while self._filled == len(self._rows) or len(self._rows) < most:
            self._make_room()
        room = len(self._rows)
        if room <= self._filled:
            return 0
        played, self._growth_bound = self._base_reading.play(
            tape, self._rows, self._filled, room, self.moment, self._growth_bound, self._slack
        )
        self._filled += played
        self.count += played
        return played

    def growth(self) -> float:
        """Return log det(base + pending) - log det(base). Cost O(n d^2 + n^3), n <= d rows."""
        if self._matrix is None:
            return gram_growth(self._base_reading.inverse, self._rows[: self._filled])
        joint = self._base.merge(self.summary()).read(self._ridge)
        return joint.logdet - self._base_reading.logdet

    def growth_exceeds(self, threshold: float) -> bool:
        """Compare the growth with a threshold; compute it only if its bound exceeds that."""
        if self._growth_bound <= threshold:
            return False
        self._growth_bound = max(0.0, self.growth())  # rounding may make it negative
        return exceeds(self._growth_bound, threshold)

    def summary(self, *, packed: bool = False) -> Gram:  # noqa: ARG002
        """Return X^T X. Cost O(n d^2)."""
        rows = self._rows[: self._filled]
        matrix = rows.T @ rows
        return trusted(Gram(matrix if self._matrix is None else matrix + self._matrix))

    def reading(self) -> GramReading:
        """Return V of base and pending together. Cost O(d^3)."""
        return self._base.merge(self.summary()).read(self._ridge)

    def over(self, base: Base, /) -> Self:
        """Return the same observations on top of another base."""
        moved = type(self)(base, ridge=self._ridge)
        moved._rows, moved._filled = self._rows.copy(), self._filled
        moved._matrix = None if self._matrix is None else self._matrix.copy()
        moved.moment, moved.count = self.moment.copy(), self.count
        moved._growth_bound = max(0.0, moved.growth())
        return moved

    def state(self) -> State:
        """Return rows, matrix and the bound."""
        nothing = np.zeros((0, self._base.dimension))
        return {
            "determinant": "when-needed",
            "rows": self._rows[: self._filled].copy(),
            "matrix": nothing if self._matrix is None else self._matrix.copy(),
            "growth_bound": self._growth_bound,
            "moment": self.moment.copy(),
            "count": self.count,
        }

    def restore(self, state: State) -> None:
        """Continue from a saved buffer."""
        check_word(state, "determinant", "when-needed")
        d = self._base.dimension
        rows, matrix = array(state, "rows", None, d), array(state, "matrix", None, d)
        bound, count = not_negative(state, "growth_bound"), integer(state, "count")
        moment = array(state, "moment", d)
        if len(rows) > d or len(matrix) not in (0, d):
            got = f"{len(rows)} rows and a matrix of {len(matrix)} rows"
            raise wrong_entry("rows", got, f"at most {d} rows, and a matrix of 0 or {d} rows")
        self._rows, self._filled = rows, len(rows)
        self._matrix = matrix if len(matrix) else None
        self._growth_bound, self.moment, self.count = bound, moment, count

    def _make_room(self) -> None:
        d = self._base.dimension
        if len(self._rows) == d:
            self._matrix, self._filled = self.summary().matrix, 0
            return
        grown = np.empty((min(max(2 * len(self._rows), _FIRST_ROWS), d), d))
        grown[: self._filled] = self._rows[: self._filled]
        self._rows = grown
