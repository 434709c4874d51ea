"""Two ways to remember X^T X, as frozen values: the matrix itself, or a sketch of it.

Both are merged by whoever receives them and read by whoever decides. Values are never changed in
place, so that one summary may be held by a server and many agents at once.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from fedbandit.core.linalg import (
    Array,
    read_only,
    row_products,
    sketch_logdet,
    sketch_solve,
    sketch_squared_widths,
    spd_inverse,
)
from fedbandit.core.scores import gram_ucb, sketch_ucb, sparse_products, sparse_squares
from fedbandit.core.shrink import shrink
from fedbandit.core.sparse import SparseArms


class Summary(Protocol):
    """What is remembered of X^T X. Summaries of one kind can be merged."""

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        ...

    @property
    def upload_scalars(self) -> int:
        """Scalars that an upload of it counts by the paper's rule, moment included."""
        ...

    @property
    def download_scalars(self) -> int:
        """Scalars that a download of it counts by the paper's rule, estimate included."""
        ...

    def merge(self, other: Any, /) -> Self:
        """Return the summary of both histories."""
        ...


class Reading(Protocol):
    """A summary read as a positive definite matrix V: what deciding and triggering need of it."""

    @property
    def shed(self) -> float:
        """Mass that the summary behind it has shed (0 for a Gram matrix)."""
        ...

    @property
    def logdet(self) -> float:
        """The log determinant of V."""
        ...

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        ...

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms (K x d)."""
        ...

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm, at a cost that grows with their entries."""
        ...

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the arm to play; keep arms and squared widths. -1 if a score is not finite."""
        ...


S = TypeVar("S", bound=Summary)


@dataclass(frozen=True, slots=True)
class GramReading:
    """V with its inverse at hand. Solving costs O(d^2), widths O(K d^2)."""

    inverse: Array
    logdet: float

    shed = 0.0

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        return self.inverse @ y

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms."""
        widths: Array = np.maximum(row_products(arms @ self.inverse, arms), 0.0)
        return widths

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm. Cost O(sum of nnz(x)^2)."""
        squares = sparse_squares(arms.data, arms.indices, arms.indptr, self.inverse)
        widths: Array = np.maximum(squares, 0.0)
        return widths

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the arm to play; keep arms and squared widths. -1 if a score is not finite."""
        return gram_ucb.run(arms, theta, radius, self.inverse, shown, widths)


@dataclass(frozen=True, slots=True)
class SketchReading:
    """V = ridge I + S^T S, never formed. Solving costs O(k d), widths O(K k d)."""

    rows: Array
    squares: Array
    ridge: float
    shed: float

    @property
    def logdet(self) -> float:
        """The log determinant of V."""
        return sketch_logdet(self.squares, self.ridge, self.rows.shape[1])

    @property
    def inverse_trace(self) -> float:
        """Trace of V^{-1}: how fast log det V grows when the ridge is raised."""
        rest = int(self.rows.shape[1]) - len(self.squares)
        return rest / self.ridge + float((1.0 / (self.squares + self.ridge)).sum())

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        return sketch_solve(self.rows, self.squares, self.ridge, y)

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms."""
        return sketch_squared_widths(self.rows, self.squares, self.ridge, arms)

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm. Cost O(k nnz)."""
        projected = sparse_products(arms.data, arms.indices, arms.indptr, self.rows)
        explained = (projected * projected) @ (1.0 / (self.squares + self.ridge))
        return np.maximum(arms.squares() - explained, 0.0) / self.ridge

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the arm to play; keep arms and squared widths. -1 if a score is not finite."""
        sketch = self.rows, self.squares, self.ridge
        return sketch_ucb.run(arms, theta, radius, *sketch, shown, widths)


@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """X^T X itself (d x d). What reading it costs is paid once, by the first who holds it.

    ``trusted``: summed up here, of checked observations, so that nobody need check it again.
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

    def merge(self, other: Self, /) -> Self:
        """Return the Gram matrix of both histories. Cost O(d^2)."""
        merged = replace(self, matrix=self.matrix + other.matrix)
        return trusted(merged) if self.trusted and other.trusted else merged

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
    squared norms of the rows. ``trusted``: ``shrink`` has made the rows here, so that nobody need
    check again whether they are orthogonal.
    """

    rows: Array
    shed: float
    size: int
    trusted: bool = field(default=False, init=False, repr=False)
    squares: Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", read_only(np.ascontiguousarray(self.rows)))
        object.__setattr__(self, "squares", read_only(row_products(self.rows, self.rows)))

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return int(self.rows.shape[1])

    @property
    def upload_scalars(self) -> int:
        """Rows d + d + 2: rows, moment, shed and count."""
        return (len(self.rows) + 1) * self.dimension + 2

    @property
    def download_scalars(self) -> int:
        """Rows d + rows + d + 2: rows, H, theta, shed and det."""
        return self.upload_scalars + len(self.rows)

    def merge(self, other: Self, /) -> Self:
        """Return a sketch of both histories (paper, Alg. 2 lines 1-7). Cost O(l^3 + l^2 d)."""
        shed = self.shed + other.shed
        if len(self.rows):
            rows, delta = shrink(np.vstack([self.rows, other.rows]), self.size)
        else:
            rows, delta = other.rows.copy(), 0.0
        merged = replace(self, rows=rows, shed=shed + delta)
        return trusted(merged) if self.trusted and other.trusted else merged

    def read(self, ridge: float, *, compensated: bool = True) -> SketchReading:
        """Read as (ridge + shed) I + S^T S, or without shed, as classical Frequent Directions does.

        The two kinds of sketch differ in nothing else. Cost O(1).
        """
        lifted = ridge + self.shed if compensated else ridge
        return SketchReading(self.rows, self.squares, lifted, self.shed)


def trusted(made: S) -> S:
    """Mark a summary as made here of what is known to be sound; whoever receives it need not check.

    A copy with other numbers in it is not marked, nor is a merge with one that is not.
    """
    object.__setattr__(made, "trusted", True)
    return made


def empty_gram(dimension: int) -> Gram:
    """Return the Gram matrix of no observations."""
    return trusted(Gram(np.zeros((dimension, dimension))))


def empty_sketch(dimension: int, size: int) -> Sketch:
    """Return the sketch of no observations."""
    return trusted(Sketch(np.zeros((0, dimension)), 0.0, size))


def sketch_of(rows: Array, *, shed: float, size: int) -> Sketch:
    """Make a sketch of m rows, orthogonal or not, many or few. Cost O(m^3 + m^2 d)."""
    kept, delta = shrink(rows, size)
    return trusted(Sketch(kept, shed + delta, size))
