"""Pending observations as a sketch."""

from math import log1p
from typing import Self

import numpy as np

from fedbandit.core.arrowhead import shed_one
from fedbandit.core.linalg import Array, exceeds, row_products, shrink, sketch_growth
from fedbandit.core.state import State, array, integer, misfit, not_negative
from fedbandit.core.summary import Sketch, SketchReading

_FIRST_ROWS = 8
_ROUNDING = 1e-15  # what a squared width may lose to cancellation, relative to |x|^2 / ridge
_MOST_UPDATES = 256
_TINY = 1e-100  # products of smaller squares underflow


class PendingSketch:
    """Pending rows over a sketch base, shrunk whenever ``capacity`` rows are there.

    Rows are kept as they came until then: nothing is shed, so nothing has to be computed. With a
    capacity equal to the sketch's size every further observation sheds (paper, Alg. 1 lines 6-10):
    a rank-one update of orthogonal rows, which are made orthogonal afresh now and then and before
    they are sent. A larger capacity is a buffer that sheds when it is full
    or when the rows are to be sent: the same guarantees, and less is shed. A buffer of more rows
    than there are columns never sheds before it is sent: when full, it is made triangular.

    The growth is computed only when it could matter. Absorbing x and shedding delta raises it by at
    most log(1 + x^T V^{-1} x) + delta trace(V^{-1}), with V the base's reading, because

        log det(A + x x^T + delta I) <= log det A + log(1 + x^T A^{-1} x) + delta trace(A^{-1})

    and A >= V; a little is added for rounding. While that bound is under the threshold the trigger
    cannot fire. The decision is the same as if the determinant were computed every round.
    """

    def __init__(
        self,
        base: Sketch,
        reading: SketchReading,
        *,
        ridge: float,
        compensated: bool,
        capacity: int,
    ) -> None:
        self._base, self._base_reading = base, reading
        self._ridge, self._compensated, self._capacity = ridge, compensated, capacity
        self._rows = np.empty((min(_FIRST_ROWS, capacity), base.dimension))
        self._filled = 0
        self._orthogonal = True
        self._squares = np.zeros(0)
        self._updates = 0
        self._shed = 0.0
        self._growth_bound = 0.0
        self._inverse_trace = reading.inverse_trace
        self._slack = _ROUNDING / reading.ridge

    def absorb(self, x: Array, squared_width: float, /) -> None:
        """Take in one played arm. Cost O(d) while there is room, else that of shedding."""
        self._growth_bound += log1p(squared_width + self._slack * float(x @ x))
        orthogonal = self._orthogonal and self._filled > 0
        self._append(x)
        if self._filled < self._capacity:
            return
        if self._capacity > self._base.dimension:
            self._compact()
        elif orthogonal and self._squares[0] > _TINY:
            self._keep(*shed_one(self._rows, self._squares))
            self._updates += 1
            if self._updates == _MOST_UPDATES:
                self._shrink()
        else:
            self._shrink()

    def growth(self) -> float:
        """Return log det(base + pending) - log det(base). Cost O((k + n) n d + n^3)."""
        base, rows = self._base_reading, self._rows[: self._filled]
        return sketch_growth(base.rows, base.squares, base.ridge, rows, self._shed)

    def growth_exceeds(self, threshold: float) -> bool:
        """Compare the growth with a threshold; compute it only if its bound exceeds that."""
        if self._growth_bound <= threshold:
            return False
        self._growth_bound = self.growth()
        return exceeds(self._growth_bound, threshold)

    def summary(self) -> Sketch:
        """Return the pending sketch: orthogonal rows, none of them zero, fewer than its size."""
        if not self._orthogonal or self._updates:
            self._shrink()
        return Sketch(self._rows[: self._filled].copy(), self._shed, self._base.size)

    def reading(self) -> SketchReading:
        """Return base and pending merged and read together."""
        merged = self._base.merge(self.summary())
        return merged.read(self._ridge, compensated=self._compensated)

    def over(self, base: Sketch, reading: SketchReading) -> Self:
        """Return the same observations on top of another base. Cost O((k + n) n d + n^3)."""
        moved = type(self)(
            base,
            reading,
            ridge=self._ridge,
            compensated=self._compensated,
            capacity=self._capacity,
        )
        moved._rows, moved._filled = self._rows.copy(), self._filled
        moved._squares, moved._updates = self._squares, self._updates
        moved._orthogonal, moved._shed = self._orthogonal, self._shed
        moved._growth_bound = moved.growth()
        return moved

    def state(self) -> State:
        """Return rows and what is kept about them."""
        return {
            "rows": self._rows[: self._filled].copy(),
            "squares": self._squares.copy(),
            "orthogonal": int(self._orthogonal),
            "updates": self._updates,
            "shed": self._shed,
            "growth_bound": self._growth_bound,
        }

    def restore(self, state: State) -> None:
        """Take up a saved buffer."""
        rows = array(state, "rows", None, self._base.dimension)
        orthogonal, updates = bool(integer(state, "orthogonal")), integer(state, "updates")
        squares = array(state, "squares", len(rows) if orthogonal else None)
        shed, bound = not_negative(state, "shed"), not_negative(state, "growth_bound")
        if len(rows) >= self._capacity:
            raise misfit("rows", f"{len(rows)} rows", f"fewer than {self._capacity}")
        self._rows, self._filled, self._squares = rows, len(rows), squares
        self._orthogonal, self._updates = orthogonal, updates
        self._shed, self._growth_bound = shed, bound

    def _append(self, x: Array) -> None:
        if self._filled == len(self._rows):
            room = min(max(2 * len(self._rows), _FIRST_ROWS), self._capacity)
            grown = np.empty((room, self._base.dimension))
            grown[: self._filled] = self._rows
            self._rows = grown
        self._rows[self._filled] = x
        self._filled += 1
        self._orthogonal = False

    def _shrink(self) -> None:
        rows, delta = shrink(self._rows[: self._filled], self._base.size)
        self._rows[: len(rows)] = rows
        self._keep(len(rows), row_products(rows, rows), delta)
        self._updates = 0

    def _compact(self) -> None:
        """Make d rows with the same Gram matrix: room for more, and nothing is shed."""
        triangle = np.linalg.qr(self._rows[: self._filled], mode="r")
        self._filled = len(triangle)
        self._rows[: self._filled] = triangle

    def _keep(self, filled: int, squares: Array, delta: float) -> None:
        self._filled, self._squares, self._orthogonal = filled, squares, True
        self._shed += float(delta)
        self._growth_bound += float(delta) * self._inverse_trace
