"""Pending observations over a sketch, kept as rows that are shrunk when there are too many."""

from collections.abc import Callable
from math import log1p
from typing import Self

import numpy as np

from fedbandit.core.kernels.cholesky import sketch_growth
from fedbandit.core.kernels.frequent_directions import FAINT, shed_one, shrink
from fedbandit.core.kernels.linalg import (
    Array,
    append_row,
    row_products,
    triangle_of,
)
from fedbandit.core.kernels.ucb import exceeds
from fedbandit.core.memory.contract import Tape
from fedbandit.core.memory.reading import SketchReading
from fedbandit.core.memory.summary import Sketch, trusted
from fedbandit.core.saved import State, array, integer, not_negative, wrong_entry
from fedbandit.core.statistics import Base

_FIRST_ROWS = 8
_ROUNDING = 1e-15  # what a squared width may lose to cancellation, relative to |x|^2 / ridge
_MOST_UPDATES = 256  # rank-one updates before the rows are made orthogonal afresh


class PendingSketch:
    """Pending rows over a sketch base, shrunk when there are ``buffer`` of them.

    Until then rows are kept as they are, and nothing is shed.

    - Without a buffer (that is one of the base's size l) every observation from the l-th on sheds
      (paper, Alg. 1 lines 6-10), by a rank-one update of orthogonal rows. They are made orthogonal
      afresh now and then, and before they are sent.
    - A larger buffer is shrunk when it is full or sent. The guarantees are the same, and less is
      shed.
    - A buffer of more than d rows is shrunk only when sent. When full, its rows are replaced by d
      rows with the same Gram matrix.

    The growth of log det V is computed only when a bound on it exceeds the threshold. Absorbing x
    and shedding delta adds at most log(1 + x^T V^{-1} x) + delta trace(V^{-1}) to it, with V the
    base's matrix, because

        log det(A + x x^T + delta I) <= log det A + log(1 + x^T A^{-1} x) + delta trace(A^{-1})

    and A >= V; a little is added for rounding. While the bound is below the threshold so is the
    growth: uploads are the same as if the determinant were computed at every observation.

    If the base has a reference theta', the error of shrinking times theta' is subtracted from the
    moment (see ``SketchMemory``).
    """

    carried = None

    def __init__(
        self,
        base: Base,
        *,
        ridge: float,
        compensated: bool,
        buffer: int | None = None,
    ) -> None:
        self._base: Sketch = base.statistics.summary
        self._base_reading: SketchReading = base.reading
        self._reference, self._dimension = base.reference, self._base.dimension
        self._ridge, self._compensated, self._buffer = ridge, compensated, buffer
        self._capacity = self._base.size if buffer is None else buffer
        self._rows: Array = np.empty((min(_FIRST_ROWS, self._capacity), self._dimension))
        self._filled = 0
        self._squares = np.zeros(0)  # of the leading rows that are known to be orthogonal
        self._updates = 0
        self._shed, self._lost = 0.0, 0.0
        self._growth_bound = 0.0
        self._inverse_trace = self._base_reading.inverse_trace
        self._slack = _ROUNDING / self._base_reading.ridge
        self.moment = np.zeros(self._dimension)
        self.count = 0

    def absorb(self, x: Array, squared_width: float, reward: float, /) -> bool:
        """Add one observation. Cost O(d); O(l^2 d) if l rows shed one, O(n^3 + n^2 d) if n rows."""
        if self._filled == len(self._rows):
            self._make_room()
        square = append_row.run(self._rows, self._filled, self.moment, x, reward)
        if square < 0.0:
            return False
        self.count += 1
        self._filled += 1
        self._growth_bound += log1p(squared_width + self._slack * square)
        if self._filled == self._capacity:
            self._shed_or_compact()
        return True

    def play(self, tape: Tape, /) -> int:
        """Absorb the rounds of a tape that add a row each, or shed one each; return how many."""
        while len(self._rows) < min(self._filled + len(tape.arms), self._capacity):
            self._make_room()
        room = min(len(self._rows), self._capacity - 1)
        if room <= self._filled:
            return self._play_shedding(tape) if self._sheds_one(self._filled) else 0
        played, self._growth_bound = self._base_reading.play(
            tape, self._rows, self._filled, room, self.moment, self._growth_bound, self._slack
        )
        self._filled += played
        self.count += played
        return played

    def _play_shedding(self, tape: Tape) -> int:
        """Absorb rounds into a full buffer; the one that makes its rows afresh is left out."""
        if self._base.lost is not None:
            return 0
        norms, most = self._squares.copy(), _MOST_UPDATES - 1 - self._updates
        played, self._growth_bound, self._shed, kept = self._base_reading.play_shedding(
            tape,
            self._rows[: len(norms) + 1],
            norms,
            most,
            self.moment,
            self._growth_bound,
            self._slack,
            self._inverse_trace,
            self._shed,
        )
        self._filled, self._squares = kept, norms[:kept]
        self._updates += played
        self.count += played
        return played

    def growth(self) -> float:
        """Return log det(base + pending) - log det(base). Cost O((k + n) n d + n^3)."""
        base, rows = self._base_reading, self._rows[: self._filled]
        return sketch_growth(base.rows, base.squares, base.ridge, rows, self._shed)

    def growth_exceeds(self, threshold: float) -> bool:
        """Compare the growth with a threshold; compute it only if its bound exceeds that."""
        if self._growth_bound <= threshold:
            return False
        self._growth_bound = max(0.0, self.growth())  # rounding may make it negative
        return exceeds(self._growth_bound, threshold)

    def summary(self) -> Sketch:
        """Return the pending sketch, shrunk to fewer than l orthogonal rows, none of them zero."""
        known = len(self._squares) == self._filled < self._base.size
        if not known or self._updates:
            self._shed_by(self._shrink)
        rows = self._rows[: self._filled].copy()
        lost = None if self._base.lost is None else max(self._lost, 0.0)
        return trusted(Sketch(rows, self._shed, self._base.size, lost))

    def reading(self) -> SketchReading:
        """Return V of base and pending together."""
        merged = self._base.merge(self.summary())
        return merged.read(self._ridge, compensated=self._compensated)

    def over(self, base: Base, /) -> Self:
        """Return the same observations on top of another base. Cost O((k + n) n d + n^3)."""
        moved = type(self)(
            base, ridge=self._ridge, compensated=self._compensated, buffer=self._buffer
        )
        moved._rows, moved._filled = self._rows[: self._filled].copy(), self._filled
        moved._squares, moved._updates = self._squares, self._updates
        moved._shed, moved._lost = self._shed, self._lost
        moved.moment, moved.count = self.moment.copy(), self.count
        if moved._filled >= moved._capacity:  # the new base is smaller than the old one
            moved._shed_by(moved._shrink)
        moved._growth_bound = max(0.0, moved.growth())
        return moved

    def state(self) -> State:
        """Return the rows and everything else, as arrays and numbers."""
        return {
            "rows": self._rows[: self._filled].copy(),
            "squares": self._squares.copy(),
            "updates": self._updates,
            "shed": self._shed,
            "lost": self._lost,
            "growth_bound": self._growth_bound,
            "moment": self.moment.copy(),
            "count": self.count,
        }

    def restore(self, state: State) -> None:
        """Continue from a saved buffer."""
        d = self._dimension
        rows, squares = array(state, "rows", None, d), array(state, "squares", None)
        updates, count = integer(state, "updates"), integer(state, "count")
        shed, bound = not_negative(state, "shed"), not_negative(state, "growth_bound")
        moment, lost = array(state, "moment", d), not_negative(state, "lost")
        if len(rows) >= self._capacity or len(squares) > len(rows):
            got = f"{len(rows)} rows, {len(squares)} of them orthogonal"
            raise wrong_entry("rows", got, f"fewer than {self._capacity} rows")
        self._rows, self._filled, self._squares = rows, len(rows), squares
        self._updates, self._shed, self._lost, self._growth_bound = updates, shed, lost, bound
        self.moment, self.count = moment, count

    def _make_room(self) -> None:
        room = min(max(2 * len(self._rows), _FIRST_ROWS), self._capacity)
        grown = np.empty((room, self._dimension))
        grown[: self._filled] = self._rows[: self._filled]
        self._rows = grown

    def _shed_or_compact(self) -> None:
        """Make room in a full buffer: by a rank-one update, by shrinking, or without shedding."""
        if self._capacity > self._dimension:
            self._compact()
        elif self._sheds_one(self._filled - 1):
            self._shed_by(self._shed_one)
            if self._updates == _MOST_UPDATES:
                self._shed_by(self._shrink)
        else:
            self._shed_by(self._shrink)

    def _sheds_one(self, before: int) -> bool:
        """Say whether one more than ``before`` rows fill the buffer, to shed by one update."""
        known = len(self._squares) == before == self._base.size - 1 == self._capacity - 1
        return known and self._capacity <= self._dimension and bool(self._squares[0] > FAINT)

    def _shed_by(self, shed: Callable[[], None]) -> None:
        """Shed; add the lost trace to ``lost``, and subtract E theta' from the moment."""
        if self._base.lost is None:
            return shed()
        before = self._rows[: self._filled].copy()
        shed()
        after = self._rows[: self._filled]
        mass = max(0.0, float(np.vdot(before, before) - np.vdot(after, after)))
        self._lost += mass
        if self._reference is not None:
            error = (before @ self._reference) @ before - (after @ self._reference) @ after
            self.moment -= error - mass / self._dimension * self._reference
        return None

    def _shed_one(self) -> None:
        self._keep(*shed_one(self._rows[: self._filled], self._squares))
        self._updates += 1

    def _shrink(self) -> None:
        rows, delta = shrink(self._rows[: self._filled], self._base.size)
        self._rows[: len(rows)] = rows
        self._keep(len(rows), row_products(rows, rows), delta)
        self._updates = 0

    def _compact(self) -> None:
        """Replace the rows by d rows with the same Gram matrix, without shedding."""
        triangle = triangle_of(self._rows[: self._filled])
        self._filled = len(triangle)
        self._rows[: self._filled] = triangle
        self._squares = np.zeros(0)

    def _keep(self, filled: int, squares: Array, delta: float) -> None:
        self._filled, self._squares = filled, squares
        self._shed += float(delta)
        self._growth_bound += float(delta) * self._inverse_trace
