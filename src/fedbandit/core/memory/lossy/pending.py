"""Pending observations over a lossy base, kept as rows."""

from math import log1p
from typing import Self

import numpy as np

from fedbandit.core.kernels.linalg import Array, append_row, triangle_of
from fedbandit.core.kernels.ucb import exceeds
from fedbandit.core.memory.contract import Tape
from fedbandit.core.memory.lossy.reading import LossyReading
from fedbandit.core.memory.lossy.summary import LossyRows, nothing_lost
from fedbandit.core.memory.summary import trusted
from fedbandit.core.saved import State, array, integer, not_negative, wrong_entry
from fedbandit.core.statistics import Base

_FIRST_ROWS = 8
_ROUNDING = 1e-15  # what a squared width may lose to cancellation, relative to |x|^2 / ridge


class PendingLossy:
    """Pending rows over a lossy base. They are cut when they are sent, and before if need be.

    A buffer of more than d rows loses nothing before: when it is full its rows are replaced by d
    rows with the same Gram matrix. A smaller one is cut to l - 1 rows when it is full.

    ``moment`` is the plain sum of r x; ``carried`` is what cutting has made of E theta', to be
    subtracted from it (None if this recipe does not correct the moment).

    The growth of log det V is computed only when a bound on it exceeds the threshold. Absorbing x
    and adding b to the bound of what is lost adds at most log(1 + x^T V^-1 x) + sum b_j (V^-1)_jj,
    with V the base's matrix.
    """

    def __init__(self, base: Base, *, ridge: float, size: int, buffer: int) -> None:
        self._base, self._reading = base, base.reading
        self._ridge, self._size, self._capacity = ridge, size, buffer
        d = base.statistics.summary.dimension
        self._rows, self._filled = np.empty((min(_FIRST_ROWS, buffer), d)), 0
        self._bound, self._lost = np.zeros(d), 0.0
        self._growth_bound = 0.0
        self._slack = _ROUNDING / self._reading.ridge
        self.moment, self.count = np.zeros(d), 0
        self._held_gram, self._gram_of = self.moment, -1  # P^T P, and the count that it is of
        self.carried: Array | None = None if base.reference is None else np.zeros(d)

    def absorb(self, x: Array, squared_width: float, reward: float, /) -> bool:
        """Add one observation. Cost O(d); O(d^3) or O(l^2 d) when the buffer is full."""
        if self._filled == len(self._rows):
            self._make_room()
        square = append_row.run(self._rows, self._filled, self.moment, x, reward)
        if square < 0.0:
            return False
        self.count += 1
        self._filled += 1
        self._growth_bound += log1p(squared_width + self._slack * square)
        if self._filled == self._capacity:
            self._make_shorter()
        return True

    def play(self, tape: Tape, /) -> int:
        """Absorb the rounds of a tape that need no more than a row each; return how many."""
        while len(self._rows) < min(self._filled + len(tape.arms), self._capacity):
            self._make_room()
        room = min(len(self._rows), self._capacity - 1)
        if room <= self._filled:
            return 0
        played, self._growth_bound = self._reading.play(
            tape, self._rows, self._filled, room, self.moment, self._growth_bound, self._slack
        )
        self._filled += played
        self.count += played
        return int(played)

    def growth(self) -> float:
        """Return log det(base + pending) - log det(base). Cost O((k + n) n d + n^3)."""
        rows = self._rows[: self._filled]
        if not self._lost and self._filled <= rows.shape[1]:
            return float(self._reading.growth(rows))
        bound = self._bound if self._lost else None
        return float(self._reading.growth_by(self._gram(), bound))

    def growth_exceeds(self, threshold: float) -> bool:
        """Compare the growth with a threshold; compute it only if its bound exceeds that."""
        if self._growth_bound <= threshold:
            return False
        self._growth_bound = max(0.0, self.growth())  # rounding may make it negative
        return exceeds(self._growth_bound, threshold)

    def summary(self, *, packed: bool = False) -> LossyRows:
        """Return all pending rows, not cut yet, as at most d unless they are packed at once."""
        gram = self._gram() if self._filled > self._rows.shape[1] else None
        if packed:
            rows = self._rows[: self._filled]
            return trusted(LossyRows(rows, self._bound, self._lost, gram=gram))
        if gram is not None:
            self._make_shorter()
        rows = self._rows[: self._filled].copy()
        return trusted(LossyRows(rows, self._bound.copy(), self._lost, gram=gram))

    def reading(self) -> LossyReading:
        """Return V of base and pending together."""
        merged: LossyRows = self._base.statistics.summary.merge(self.summary())
        return merged.read(self._ridge, averaged=self._reading.lift is not None)

    def over(self, base: Base, /) -> Self:
        """Return the same observations on top of another base."""
        moved = type(self)(base, ridge=self._ridge, size=self._size, buffer=self._capacity)
        moved._rows, moved._filled = self._rows[: self._filled].copy(), self._filled
        moved._bound, moved._lost = self._bound.copy(), self._lost
        moved.moment, moved.count = self.moment.copy(), self.count
        moved.carried = None if self.carried is None else self.carried.copy()
        moved._growth_bound = max(0.0, moved.growth())
        return moved

    def state(self) -> State:
        """Return the rows and everything else, as arrays and numbers."""
        state: State = {
            "rows": self._rows[: self._filled].copy(),
            "bound": self._bound.copy(),
            "lost": self._lost,
            "growth_bound": self._growth_bound,
            "moment": self.moment.copy(),
            "count": self.count,
        }
        return state if self.carried is None else state | {"carried": self.carried.copy()}

    def restore(self, state: State) -> None:
        """Continue from a saved buffer."""
        d = len(self.moment)
        rows, bound = array(state, "rows", None, d), array(state, "bound", d)
        if len(rows) >= self._capacity or (bound < 0.0).any():
            expected = f"fewer than {self._capacity} rows, and no bound below 0"
            raise wrong_entry("rows", f"{len(rows)} rows", expected)
        carried = None if self.carried is None else array(state, "carried", d)
        lost, growth = not_negative(state, "lost"), not_negative(state, "growth_bound")
        moment, count = array(state, "moment", d), integer(state, "count")
        self._rows, self._filled, self._bound, self._lost = rows, len(rows), bound, lost
        self._gram_of = -1
        self._growth_bound, self.moment, self.count, self.carried = growth, moment, count, carried

    def _gram(self) -> Array:
        """Return P^T P of the pending rows; kept, since growth and upload both need it."""
        if self._gram_of != self.count:
            rows = self._rows[: self._filled]
            self._held_gram, self._gram_of = rows.T @ rows, self.count
        return self._held_gram

    def _make_room(self) -> None:
        room = min(max(2 * len(self._rows), _FIRST_ROWS), self._capacity)
        grown = np.empty((room, self._rows.shape[1]))
        grown[: self._filled] = self._rows[: self._filled]
        self._rows = grown

    def _make_shorter(self) -> None:
        """Make room in a full buffer, without a loss if it holds more than d rows."""
        rows = self._rows[: self._filled]
        if self._capacity > rows.shape[1]:
            short = triangle_of(rows, self._gram())
        else:
            short = self._cut(nothing_lost(rows.copy()))
        self._filled = len(short)
        self._rows[: self._filled] = short

    def _cut(self, whole: LossyRows) -> Array:
        kept = whole.leading(self._size, self._ridge).kept(self._size - 1)
        self._gram_of = -1
        self._bound, self._lost = self._bound + kept.bound, self._lost + kept.lost
        self._growth_bound += float(kept.bound @ self._reading.inverse_diagonal)
        theta = self._base.reference
        if self.carried is not None and theta is not None:
            self.carried = self.carried + whole.times(theta) - kept.times(theta)
        return kept.rows
