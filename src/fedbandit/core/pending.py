"""What an agent has observed and not yet sent, and how much that adds to what it holds.

A pending buffer grows in place, one observation at a time, on top of a *base*: the summary that the
agent holds. Its growth, log det(base + pending) - log det(base), is what triggers look at.
"""

from typing import Any, Literal, Protocol, Self

import numpy as np

from fedbandit.core.linalg import (
    Array,
    absorb_into_inverse,
    shrink,
    sketch_growth,
    squared_norms,
)
from fedbandit.core.margin import exceeds
from fedbandit.core.state import State, array, integer, number
from fedbandit.core.summary import Gram, GramReading, Reading, Sketch, SketchReading, Summary

Determinant = Literal["rank-one", "every-round"]


class Pending(Protocol):
    """A buffer of observations on top of a base."""

    def absorb(self, x: Array, squared_width: float, /) -> None:
        """Take in one played arm; squared_width is x^T V^{-1} x in what it was played on."""
        ...

    def growth_exceeds(self, threshold: float) -> bool:
        """Say whether log det(base + pending) - log det(base) exceeds threshold."""
        ...

    def summary(self) -> Summary:
        """Return what is pending as a frozen value, to be sent."""
        ...

    def reading(self) -> Reading:
        """Return base and pending read together, for agents that decide on their own data."""
        ...

    def over(self, base: Any, reading: Any) -> Self:
        """Return the same observations on top of another base."""
        ...

    def state(self) -> State:
        """Return the buffer as plain arrays and numbers."""
        ...

    def restore(self, state: State) -> None:
        """Take up a saved buffer; the base must be the one that it was saved on."""
        ...


class PendingGram:
    """Pending X^T X over a Gram base.

    ``rank-one`` keeps (V + X^T X)^{-1} by Sherman-Morrison and sums the log determinant on the way:
    O(d^2) an observation. ``every-round`` factorises V + X^T X anew each time, the way FedLinUCB
    was published: O(d^3). The two differ by rounding alone.
    """

    def __init__(
        self, base: Gram, reading: GramReading, *, ridge: float, determinant: Determinant
    ) -> None:
        self._base, self._base_reading = base, reading
        self._ridge, self._determinant = ridge, determinant
        self._matrix = np.zeros_like(base.matrix)
        self._inverse = reading.inverse.copy()
        self._growth = 0.0

    def absorb(self, x: Array, _squared_width: float, /) -> None:
        """Take in one played arm."""
        self._matrix += np.outer(x, x)
        if self._determinant == "rank-one":
            self._growth += float(np.log1p(absorb_into_inverse(self._inverse, x)))
        else:
            joint = self._base.matrix + self._matrix
            joint.flat[:: len(joint) + 1] += self._ridge
            self._growth = float(np.linalg.slogdet(joint)[1]) - self._base_reading.logdet

    def growth_exceeds(self, threshold: float) -> bool:
        """Compare the growth with a threshold. Cost O(1): absorbing has computed it."""
        return exceeds(self._growth, threshold)

    def summary(self) -> Gram:
        """Return a copy of the pending matrix."""
        return Gram(self._matrix.copy())

    def reading(self) -> GramReading:
        """Return base and pending read together; valid until the next absorb."""
        if self._determinant == "every-round":
            return self._base.merge(self.summary()).read(self._ridge)
        return GramReading(self._inverse, self._base_reading.logdet + self._growth)

    def over(self, base: Gram, reading: GramReading) -> Self:
        """Return the same observations on top of another base. Cost O(d^3)."""
        moved = type(self)(base, reading, ridge=self._ridge, determinant=self._determinant)
        joint = base.merge(self.summary()).read(self._ridge)
        moved._matrix = self._matrix.copy()
        moved._inverse, moved._growth = joint.inverse, joint.logdet - reading.logdet
        return moved

    def state(self) -> State:
        """Return matrix, running inverse and growth."""
        return {
            "matrix": self._matrix.copy(),
            "inverse": self._inverse.copy(),
            "growth": self._growth,
        }

    def restore(self, state: State) -> None:
        """Take up a saved buffer."""
        d = self._base.dimension
        self._matrix, self._inverse = array(state, "matrix", d, d), array(state, "inverse", d, d)
        self._growth = number(state, "growth")


class PendingSketch:
    """Pending rows over a sketch base, shrunk whenever ``size`` rows are there.

    Fewer than ``size`` rows are kept as they came: nothing is shed, so nothing has to be computed.
    From then on every observation sheds (paper, Alg. 1 lines 6-10).

    The growth is computed only when it could matter. Absorbing x and shedding delta raises it by at
    most log(1 + x^T V^{-1} x) + delta trace(V^{-1}), with V the base's reading, because

        log det(A + x x^T + delta I) <= log det A + log(1 + x^T A^{-1} x) + delta trace(A^{-1})

    and A >= V. While that bound is under the threshold the trigger cannot fire. The decision is the
    same as if the determinant were computed every round.
    """

    def __init__(
        self, base: Sketch, reading: SketchReading, *, ridge: float, compensated: bool
    ) -> None:
        self._base, self._base_reading = base, reading
        self._ridge, self._compensated = ridge, compensated
        self._rows = np.empty((base.size, base.dimension))
        self._gram = np.empty((base.size, base.size))
        self._filled = 0
        self._orthogonal = True
        self._shed = 0.0
        self._growth_bound = 0.0

    def absorb(self, x: Array, squared_width: float, /) -> None:
        """Take in one played arm. Cost O(n d), or O(l^3 + l^2 d) when rows must be shed."""
        n = self._filled
        self._rows[n] = x
        row = self._rows[: n + 1] @ x
        self._gram[n, : n + 1] = self._gram[: n + 1, n] = row
        self._filled, self._orthogonal = n + 1, False
        self._growth_bound += float(np.log1p(squared_width))
        if self._filled == self._base.size:
            self._shrink()

    def growth(self) -> float:
        """Return log det(base + pending) - log det(base). Cost O(k n d + n^3)."""
        n, base = self._filled, self._base_reading
        return sketch_growth(
            base.rows, base.squares, base.ridge, self._rows[:n], self._gram[:n, :n], self._shed
        )

    def growth_exceeds(self, threshold: float) -> bool:
        """Compare the growth with a threshold; compute it only if its bound exceeds that."""
        if self._growth_bound <= threshold:
            return False
        self._growth_bound = self.growth()
        return exceeds(self._growth_bound, threshold)

    def summary(self) -> Sketch:
        """Return the pending sketch: rows that are orthogonal and not zero."""
        if not self._orthogonal:
            self._shrink()
        return Sketch(self._rows[: self._filled].copy(), self._shed, self._base.size)

    def reading(self) -> SketchReading:
        """Return base and pending merged and read together."""
        merged = self._base.merge(self.summary())
        return merged.read(self._ridge, compensated=self._compensated)

    def over(self, base: Sketch, reading: SketchReading) -> Self:
        """Return the same observations on top of another base. Cost O(k n d + n^3)."""
        moved = type(self)(base, reading, ridge=self._ridge, compensated=self._compensated)
        n = self._filled
        moved._fill(self._rows[:n], self._gram[:n, :n], orthogonal=self._orthogonal)
        moved._shed = self._shed
        moved._growth_bound = moved.growth()
        return moved

    def state(self) -> State:
        """Return rows and what is kept about them."""
        n = self._filled
        return {
            "rows": self._rows[:n].copy(),
            "gram": self._gram[:n, :n].copy(),
            "orthogonal": int(self._orthogonal),
            "shed": self._shed,
            "growth_bound": self._growth_bound,
        }

    def restore(self, state: State) -> None:
        """Take up a saved buffer."""
        rows = array(state, "rows", None, self._base.dimension)
        gram = array(state, "gram", len(rows), len(rows))
        orthogonal, shed = bool(integer(state, "orthogonal")), number(state, "shed")
        bound = number(state, "growth_bound")
        self._fill(rows, gram, orthogonal=orthogonal)
        self._shed, self._growth_bound = shed, bound

    def _shrink(self) -> None:
        n = self._filled
        rows, delta = shrink(self._rows[:n], self._gram[:n, :n], self._base.size)
        self._fill(rows, np.diag(squared_norms(rows)), orthogonal=True)
        self._shed += delta
        self._growth_bound += delta * self._base_reading.inverse_trace

    def _fill(self, rows: Array, gram: Array, *, orthogonal: bool) -> None:
        n = self._filled = len(rows)
        self._rows[:n], self._gram[:n, :n] = rows, gram
        self._orthogonal = orthogonal
