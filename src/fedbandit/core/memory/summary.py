"""Summaries of X^T X as frozen values: the matrix itself, or a sketch of it.

They are never changed in place, so that server and agents can share one.
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
    """What a sketch can be merged with: another ``Sketch``, or a rounded one, ``Narrow``."""

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
        """Whether the rows need no further check."""
        ...


class Matrix(Protocol):
    """What a Gram matrix can be merged with: another ``Gram``, or one as it is sent."""

    @property
    def matrix(self) -> Array:
        """The matrix (d x d)."""
        ...

    @property
    def shed(self) -> float:
        """A bound on the largest eigenvalue of matrix - X^T X, which has no negative one."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether the matrix needs no further check."""
        ...


S = TypeVar("S", bound=Summary)


@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """X^T X itself, ``matrix`` (d x d). Its reading is computed once and kept.

    ``shed``: where matrices are rounded for sending, they are raised so that X^T X <= matrix <=
    X^T X + shed I (``Triangle``); else 0.
    ``trusted``: computed here from checked observations, so it needs no further check.
    """

    matrix: Array
    shed: float = 0.0
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

    def merge(self, *others: Matrix) -> Self:
        """Return the sum of the matrices. Cost O(d^2) for each."""
        merged = replace(
            self,
            matrix=sum((each.matrix for each in others), self.matrix),
            shed=sum((each.shed for each in others), self.shed),
        )
        sound = self.trusted and all(each.trusted for each in others)
        return trusted(merged) if sound else merged

    def scaled(self, share: float) -> Self:
        """Return share X^T X."""
        smaller = replace(self, matrix=share * self.matrix, shed=share * self.shed)
        return trusted(smaller) if self.trusted else smaller

    def read(self, ridge: float) -> GramReading:
        """Read as V = ridge I + X^T X. Cost O(d^3) the first time, then O(1)."""
        if ridge not in self._readings:
            self._readings[ridge] = GramReading(*spd_inverse(self.matrix, ridge), self.shed)
        return self._readings[ridge]


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """A Frequent Directions sketch of X^T X: S^T S <= X^T X <= S^T S + shed I.

    - ``rows`` S (k x d): at most ``size`` - 1 orthogonal rows; ``squares``: their squared norms.
    - ``shed``: the paper's rho (agent) or Delta (server). Shrinking adds what it subtracts from the
      squares. Merging adds up the shed of both and of the merge itself, the paper's
      rho_ser + rho~_ser.
    - ``lost``: the trace of X^T X - S^T S; None if this recipe does not track it.
    - ``trusted``: the rows were made here by ``shrink``, so orthogonality needs no check.
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
        """(k + 1) d + 2: rows, moment, shed and count; 1 more if lost is tracked."""
        return (len(self.rows) + 1) * self.dimension + 2 + (self.lost is not None)

    @property
    def download_scalars(self) -> int:
        """(k + 1) d + k + 2: rows, theta, H, shed and det; 1 more if lost is tracked."""
        return self.upload_scalars + len(self.rows)

    def merge(self, *others: Rows) -> Self:
        """Return a sketch of all of them together (paper, Alg. 2 lines 1-7). Cost O(l^3 + l^2 d).

        All rows are stacked and shrunk once, which sheds less than one merge after another. The
        rows of the others need not be orthogonal.
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
        """Return the sketch with another size, shrunk if it has more than size - 1 rows.

        The rows are orthogonal, so no factorisation is needed. Cost O(l d).
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
        """Return the sketch without rows of squared norm <= ``floor``, which are shed."""
        small = self.squares <= floor
        if not small.any():
            return self
        shed = self.shed + float(self.squares[small].max())
        lost = None if self.lost is None else self.lost + float(self.squares[small].sum())
        fewer = replace(self, rows=self.rows[~small], shed=shed, lost=lost)
        return trusted(fewer) if self.trusted else fewer

    def scaled(self, share: float) -> Self:
        """Return the sketch of share X^T X. Cost O(l d)."""
        lost = None if self.lost is None else share * self.lost
        rows, shed = sqrt(share) * self.rows, share * self.shed
        smaller = replace(self, rows=rows, shed=shed, lost=lost)
        return trusted(smaller) if self.trusted else smaller

    def times(self, y: Array) -> Array:
        """Return (S^T S + lost / d I) y, which stands for X^T X y (d). Cost O(l d)."""
        return (self.rows @ y) @ self.rows + (self.lost or 0.0) / self.dimension * y

    def read(
        self, ridge: float, *, compensated: bool = True, averaged: bool = False
    ) -> SketchReading:
        """Read as V = (ridge + shed) I + S^T S, or ridge I + S^T S if not ``compensated``.

        The second is classical Frequent Directions. ``averaged``: theta is solved for with lost / d
        in place of shed. Cost O(1).
        """
        lifted = ridge + self.shed if compensated else ridge
        mean = ridge + (self.lost or 0.0) / self.dimension if averaged else lifted
        return SketchReading(self.rows, self.squares, lifted, self.shed, mean)


def trusted(made: S) -> S:
    """Mark a summary that was computed here from sound data, so that it is not checked again.

    ``dataclasses.replace`` drops the mark, and so does merging with a summary that has none.
    """
    object.__setattr__(made, "trusted", True)
    return made


def empty_gram(dimension: int) -> Gram:
    """Return the Gram matrix of no observations."""
    return trusted(Gram(np.zeros((dimension, dimension))))


def empty_sketch(dimension: int, size: int, *, lost: float | None = None) -> Sketch:
    """Return the sketch of no observations; ``lost=0.0`` for one that tracks what it loses."""
    return trusted(Sketch(np.zeros((0, dimension)), 0.0, size, lost))


def sketch_of(rows: Array, *, shed: float, size: int) -> Sketch:
    """Return a sketch of m rows (m x d), orthogonal or not. Cost O(r^3 + r m d), r = min(m, d)."""
    kept, delta = shrink(rows, size)
    return trusted(Sketch(kept, shed + delta, size))
