"""Two ways to remember X^T X, as frozen values: the matrix itself, or a sketch of it.

Values are never changed in place, so that one summary may be held by a server and many agents.
"""

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Protocol, Self, TypeVar

import numpy as np

from fedbandit.core.kernels.frequent_directions import shrink
from fedbandit.core.kernels.linalg import Array, read_only, row_products, spd_inverse
from fedbandit.core.memory.contract import Summary
from fedbandit.core.memory.reading import GramReading, SketchReading


class Rows(Protocol):
    """What a sketch can be merged with: another, or one whose rows were rounded on the way."""

    @property
    def rows(self) -> Array:
        """The rows S (k x d)."""
        ...

    @property
    def squares(self) -> Array:
        """Their squared norms."""
        ...

    @property
    def shed(self) -> float:
        """A bound on the largest eigenvalue of X^T X - S^T S."""
        ...

    @property
    def lost(self) -> float | None:
        """The trace of X^T X - S^T S, or more; None if this recipe does not track it."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether the rows are known to be sound."""
        ...


S = TypeVar("S", bound=Summary)


@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """X^T X itself (d x d). What reading it costs is paid once, by the first who holds it.

    ``trusted``: summed up here, of checked observations; it need not be checked again.
    """

    matrix: Array
    trusted: bool = field(default=False, init=False, repr=False)
    _readings: dict[float, GramReading] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", read_only(self.matrix))

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return len(self.matrix)

    @property
    def upload_scalars(self) -> int:
        """d^2 + d."""
        return self.dimension * (self.dimension + 1)

    download_scalars = upload_scalars

    def merge(self, *others: Self) -> Self:
        """Return the Gram matrix of all these histories. Cost O(d^2) each."""
        merged = replace(self, matrix=sum((each.matrix for each in others), self.matrix))
        sound = self.trusted and all(each.trusted for each in others)
        return trusted(merged) if sound else merged

    def scaled(self, share: float) -> Self:
        """Return share X^T X."""
        smaller = replace(self, matrix=share * self.matrix)
        return trusted(smaller) if self.trusted else smaller

    def read(self, ridge: float) -> GramReading:
        """Read as ridge I + X^T X. Cost O(d^3), once."""
        if ridge not in self._readings:
            self._readings[ridge] = GramReading(*spd_inverse(self.matrix, ridge))
        return self._readings[ridge]


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """At most size - 1 orthogonal rows S and one scalar, with S^T S <= X^T X <= S^T S + shed I.

    ``shed`` is the paper's rho (agent) or Delta (server): merging adds the two histories' shed to
    what the merge itself sheds, and the paper's rho_ser + rho~_ser is that sum. ``squares`` are the
    squared norms of the rows. ``lost`` is the trace of X^T X - S^T S; None if this recipe does not
    track it. ``trusted``: ``shrink`` has made the rows here, so that they need not be checked for
    orthogonality again.
    """

    rows: Array
    shed: float
    size: int
    lost: float | None = None
    trusted: bool = field(default=False, init=False, repr=False)
    squares: Array = field(init=False)

    def __post_init__(self) -> None:
        squares = row_products(self.rows, self.rows)
        squares.flags.writeable = False
        object.__setattr__(self, "squares", squares)
        if self.rows.flags.writeable or not self.rows.flags.c_contiguous:
            object.__setattr__(self, "rows", read_only(np.ascontiguousarray(self.rows)))

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return int(self.rows.shape[1])

    @property
    def upload_scalars(self) -> int:
        """Rows d + d + 2: rows, moment, shed and count; and what was lost where that is sent."""
        return (len(self.rows) + 1) * self.dimension + 2 + (self.lost is not None)

    @property
    def download_scalars(self) -> int:
        """Rows d + rows + d + 2: rows, H, theta, shed and det."""
        return self.upload_scalars + len(self.rows)

    def merge(self, *others: Rows) -> Self:
        """Return a sketch of all these histories (paper, Alg. 2 lines 1-7). Cost O(l^3 + l^2 d).

        Several at once are stacked and shrunk once, which sheds less than one after another. Rows
        that come rounded need not be orthogonal.
        """
        if not others:
            return self
        first, *more = others
        known = isinstance(first, Sketch) and len(first.rows) < self.size
        if len(self.rows) or more or not known:
            stack = np.vstack([self.rows, *(each.rows for each in others)])
            rows, delta = shrink(stack, self.size)
        else:
            rows, delta = first.rows.copy(), 0.0
        shed = sum((each.shed for each in others), self.shed) + delta
        merged = replace(self, rows=rows, shed=shed)
        if self.lost is not None:
            mass = sum((float(each.squares.sum()) for each in others), float(self.squares.sum()))
            lost = sum((each.lost or 0.0 for each in others), self.lost)
            lost += max(0.0, mass - float(merged.squares.sum()))
            object.__setattr__(merged, "lost", lost)
        sound = self.trusted and all(each.trusted for each in others)
        return trusted(merged) if sound else merged

    def resized(self, size: int) -> Self:
        """Return it with room for size - 1 rows, shedding what that leaves no room for.

        The rows are orthogonal, so nothing has to be factorised. Cost O(l d).
        """
        if len(self.rows) < size:
            smaller = replace(self, size=size)
        else:
            order = np.argsort(-self.squares, kind="stable")[: size - 1]
            delta = float(np.sort(self.squares)[-size])
            order = order[self.squares[order] > delta]
            rows = self.rows[order] * np.sqrt(1.0 - delta / self.squares[order])[:, None]
            smaller = replace(self, rows=rows, shed=self.shed + delta, size=size)
            if self.lost is not None:
                mass = max(0.0, float(self.squares.sum() - smaller.squares.sum()))
                object.__setattr__(smaller, "lost", self.lost + mass)
        return trusted(smaller) if self.trusted else smaller

    def trimmed(self, floor: float) -> Self:
        """Return it without the rows whose square is at most ``floor``; they are shed."""
        small = self.squares <= floor
        if not small.any():
            return self
        shed = self.shed + float(self.squares[small].max())
        lost = None if self.lost is None else self.lost + float(self.squares[small].sum())
        fewer = replace(self, rows=self.rows[~small], shed=shed, lost=lost)
        return trusted(fewer) if self.trusted else fewer

    def scaled(self, share: float) -> Self:
        """Return the sketch of share X^T X: rows, shed and lost follow. Cost O(l d)."""
        lost = None if self.lost is None else share * self.lost
        rows, shed = sqrt(share) * self.rows, share * self.shed
        smaller = replace(self, rows=rows, shed=shed, lost=lost)
        return trusted(smaller) if self.trusted else smaller

    def times(self, y: Array) -> Array:
        """Return (S^T S + lost / d I) y: X^T X y, as far as the sketch knows. Cost O(l d)."""
        return (self.rows @ y) @ self.rows + (self.lost or 0.0) / self.dimension * y

    def read(
        self, ridge: float, *, compensated: bool = True, averaged: bool = False
    ) -> SketchReading:
        """Read as (ridge + shed) I + S^T S, or without shed, as classical Frequent Directions does.

        The two kinds of sketch differ in nothing else. ``averaged`` reads theta with the average
        loss, lost / d, in place of shed. Cost O(1).
        """
        lifted = ridge + self.shed if compensated else ridge
        mean = ridge + (self.lost or 0.0) / self.dimension if averaged else lifted
        return SketchReading(self.rows, self.squares, lifted, self.shed, mean)


def trusted(made: S) -> S:
    """Mark a summary as made here of what is known to be sound: it need not be checked again.

    A copy with other numbers in it is not marked, nor is a merge with one that is not.
    """
    object.__setattr__(made, "trusted", True)
    return made


def empty_gram(dimension: int) -> Gram:
    """Return the Gram matrix of no observations."""
    return trusted(Gram(np.zeros((dimension, dimension))))


def empty_sketch(dimension: int, size: int, *, lost: float | None = None) -> Sketch:
    """Return the sketch of no observations; ``lost=0.0`` for one that keeps account of losses."""
    return trusted(Sketch(np.zeros((0, dimension)), 0.0, size, lost))


def sketch_of(rows: Array, *, shed: float, size: int) -> Sketch:
    """Make a sketch of m rows, orthogonal or not, many or few. Cost O(m^3 + m^2 d)."""
    kept, delta = shrink(rows, size)
    return trusted(Sketch(kept, shed + delta, size))
