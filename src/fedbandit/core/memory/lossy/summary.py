"""Summaries of X^T X with a bound on what is missing in every coordinate: rows, or a matrix.

Both say, with w = ``weight`` and c = ``bound`` (d),

    X^T X <= w S^T S + diag(c),

so that V = w S^T S + diag(ridge + c) is never below ridge I + X^T X. Where c comes from:

- **Cutting.** Let A = diag(a) with any a_j > 0. Of the orthogonal rows of S A^-1/2 the m longest
  are kept; with delta the square of row m + 1, what is lost there is at most delta I, so the loss
  E of S^T S has 0 <= E <= delta A, and c grows by w delta a. Rows that are cut again and again are
  shrunk as well: delta is subtracted from the squares of those that are kept (Frequent Directions),
  which loses no more than delta in any direction either, and bounds the sum of all deltas. Rows of
  a message may stay ``whole``, if what is lost is spread evenly: where delta a adds up to at most
  twice that, - diag(missing) <= E - diag(missing) <= diag(missing), so that correcting with an
  estimate (``LossyMemory``) does not overshoot. Here
  a_j = ridge + (S^T S)_jj: a coordinate loses in proportion to what it holds. The paper's a = 1
  drops a feature first that was played once among thousands. If a coordinate was never played, row
  and column j of E vanish, so c_j stays 0.
- **Never more than the trace.** E <= trace(E) I as well. That takes the place of delta A if it
  adds up to less.
- **Merging.** Both sides of the inequality add up; w is the larger of the two. Rows that were
  rounded once more than others are made longer instead (``reweighted``).
- **Rounding** raises w by a constant factor, and c by a share of the ridge (``fitted``).

``lost`` is the trace of X^T X - S^T S. Estimates of theta take X^T X for S^T S + diag(missing),
where missing = lost c / sum c has that trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, Protocol, TypeVar

import numpy as np

from fedbandit.core.kernels.frequent_directions import (
    shrink,
    shrink_gram,
    squares_where_held,
    weighed_matrix,
    weighed_rows,
)
from fedbandit.core.kernels.linalg import Array, inverse_square, missing, read_only, rows_times
from fedbandit.core.kernels.rounding import Fit, fit, kept
from fedbandit.core.memory.lossy.reading import LossyGramReading, LossyReading
from fedbandit.core.memory.summary import trusted

S = TypeVar("S", "LossyRows", "LossyGram")

EVEN: Final = 2.0
"""Rows of a message stay whole if delta a adds up to at most this multiple of what is lost."""


class Sent(Protocol):
    """What is sent: rows, in full (``LossyRows``) or rounded (``Fitted``)."""

    @property
    def rows(self) -> Array:
        """S (k x d)."""
        ...

    @property
    def bound(self) -> Array:
        """C (d): what may be missing in each coordinate."""
        ...

    @property
    def lost(self) -> float:
        """The trace of what is missing."""
        ...

    @property
    def weight(self) -> float:
        """w: the factor of S^T S in the upper bound on X^T X, at least 1."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether it was computed here from sound data."""
        ...

    def times(self, y: Array) -> Array:
        """Return (S^T S + diag(missing)) y, which stands for X^T X y."""
        ...


def trace_bound(summary: Sent) -> float:
    """Return the trace of the bound A = w S^T S + diag(c) on X^T X."""
    return summary.weight * float(np.vdot(summary.rows, summary.rows)) + float(summary.bound.sum())


def explained_by(summary: Sent, y: Array, *, unseen: float, enough: float = 0.0) -> float:
    """Return y^T A^-1 y for the bound A = w S^T S + diag(c) on X^T X; inf where A has nothing.

    ``unseen`` is the share of the trace of A that rounding may have hidden: A is enlarged by it.
    Where a value without the rows, which is larger, is at most ``enough``, that one is returned.
    """
    rows, bound, weight = summary.rows, summary.bound, summary.weight
    diagonal = bound + unseen * trace_bound(summary)
    if not diagonal.all():
        return inf if y.any() else 0.0
    most = float(y @ (y / diagonal))
    return most if most <= enough else inverse_square(np.sqrt(weight) * rows, diagonal, y)


@dataclass(frozen=True, eq=False)
class LossyRows:
    """X^T X as few rows S (k x d), orthogonal or not, with a bound on what they lack.

    ``gram`` is S^T S if that is at hand, for rows that are to be cut.
    """

    rows: Array
    bound: Array
    lost: float
    weight: float = 1.0
    trusted: bool = field(default=False, init=False, repr=False)
    gram: Array | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", read_only(np.ascontiguousarray(self.rows)))
        object.__setattr__(self, "bound", read_only(self.bound))

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return int(self.rows.shape[1])

    @property
    def upload_scalars(self) -> int:
        """(k + 2) d + 3: rows, bound, moment, lost, weight and count."""
        return (len(self.rows) + 2) * self.dimension + 3

    download_scalars = upload_scalars

    def times(self, y: Array) -> Array:
        """Return (S^T S + diag(missing)) y. Cost O(k d)."""
        return rows_times.run(self.rows, self.bound, self.lost, y)

    def merge(self, *others: Sent) -> LossyRows:
        """Return the summary of all of them, with all rows. Cost O(k d)."""
        rows = np.vstack([self.rows, *(each.rows for each in others)])
        return _sound(LossyRows(rows, *_added(self, others)), self, others)

    def leading(self, size: int, ridge: float, *, whole: bool = False) -> Leading:
        """Return its rows, at most size - 1, by how much they hold. Cost O(r^3 + r k d)."""
        if self.gram is not None:
            return _leading_of(self, self.gram, size, ridge, whole=whole)
        scaled, metric, held = weighed_rows.run(self.rows, ridge)
        return _leading(self, *shrink(scaled, size, whole=whole), metric, held, whole=whole)

    def scaled(self, share: float) -> LossyRows:
        """Return the summary of share X^T X. Cost O(k d)."""
        return _scaled(replace(self, rows=np.sqrt(share) * self.rows, gram=None), self, share)

    def read(self, ridge: float, *, averaged: bool) -> LossyReading:
        """Read as V = w S^T S + diag(ridge + c). Cost O(k^2 d), at first use."""
        lift = missing(self.bound, self.lost) if averaged else None
        return LossyReading(self.rows, self.bound, self.weight, ridge, lift)


@dataclass(frozen=True, eq=False)
class LossyGram:
    """The same with S^T S as a ``matrix`` (d x d): a server that keeps everything it was sent."""

    matrix: Array
    bound: Array
    lost: float
    weight: float = 1.0
    trusted: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", read_only(self.matrix))
        object.__setattr__(self, "bound", read_only(self.bound))

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return len(self.matrix)

    @property
    def upload_scalars(self) -> int:
        """D (d + 2) + 3: matrix, bound, moment, lost, weight and count."""
        return self.dimension * (self.dimension + 2) + 3

    download_scalars = upload_scalars

    def times(self, y: Array) -> Array:
        """Return (S^T S + diag(missing)) y. Cost O(d^2)."""
        return self.matrix @ y + missing(self.bound, self.lost) * y

    def merge(self, *others: Sent) -> LossyGram:
        """Return the summary of all of them. Cost O(k d^2)."""
        matrix = self.matrix
        for each in others:
            more = each.matrix if isinstance(each, LossyGram) else each.rows.T @ each.rows
            matrix = matrix + more
        return _sound(LossyGram(matrix, *_added(self, others)), self, others)

    def leading(self, size: int, ridge: float, *, whole: bool = False) -> Leading:
        """Return its leading rows, at most size - 1. Cost O(d^3)."""
        return _leading_of(self, self.matrix, size, ridge, whole=whole)

    def scaled(self, share: float) -> LossyGram:
        """Return the summary of share X^T X. Cost O(d^2)."""
        return _scaled(replace(self, matrix=share * self.matrix), self, share)

    def read(self, ridge: float, *, averaged: bool) -> LossyGramReading:
        """Read as V = w S^T S + diag(ridge + c). Cost O(d^3), at first use."""
        lift = missing(self.bound, self.lost) if averaged else None
        return LossyGramReading(self.matrix, self.bound, self.weight, ridge, lift)


@dataclass(frozen=True, slots=True, eq=False)
class Leading:
    """The leading rows of ``source`` divided by ``metric``, the square roots of a (d).

    ``rows`` are orthogonal, largest first, with squares ``squares``; ``delta`` was subtracted from
    these, unless they are whole: then ``even`` is above 0, and they are shrunk where ``delta`` a
    adds up to more than ``even`` times what is lost. ``held`` is the diagonal of S^T S.
    """

    source: LossyRows | LossyGram
    rows: Array
    squares: Array
    delta: float
    metric: Array
    held: Array
    even: float = 0.0

    def kept(self, count: int) -> LossyRows:
        """Return the first ``count`` rows, and the loss of the others in the bound. Cost O(k d)."""
        rows, bound, lost, _ = kept.run(*self._numbers(), count, self.even)
        short = LossyRows(rows, bound, lost, self.source.weight)
        return trusted(short) if self.source.trusted else short

    def fit(self, charge: float, *, faint: float, room: float) -> Fit:
        """Return as many rows as ``room`` bytes hold, without faint ones, rounded: see ``fit``."""
        return fit(*self._numbers(), charge, faint, room, self.even)

    def _numbers(self) -> tuple[Array, Array, float, Array, Array, Array, float, float]:
        bound, lost, weight = self.source.bound, self.source.lost, self.source.weight
        return self.rows, self.squares, self.delta, self.metric, self.held, bound, lost, weight


def _leading(
    source: LossyRows | LossyGram,
    rows: Array,
    delta: float,
    metric: Array,
    held: Array,
    *,
    whole: bool,
) -> Leading:
    squares = squares_where_held.run(rows, held)  # 0 exactly, so that nothing is lost there
    return Leading(source, rows, squares, delta, metric, held, EVEN if whole else 0.0)


def _leading_of(
    source: LossyRows | LossyGram, matrix: Array, size: int, ridge: float, *, whole: bool
) -> Leading:
    """Return the leading rows of a summary whose S^T S is this matrix (d x d)."""
    scaled, metric, held = weighed_matrix.run(read_only(matrix), ridge)
    return _leading(source, *shrink_gram(scaled, size, whole=whole), metric, held, whole=whole)


def _added(ours: S, others: Sequence[Sent]) -> tuple[Array, float, float]:
    """Return bound, lost and weight of ours and the others together."""
    bound, lost, weight = ours.bound, ours.lost, ours.weight
    for each in others:
        bound, lost, weight = bound + each.bound, lost + each.lost, max(weight, each.weight)
    return bound, lost, weight


def _sound(merged: S, ours: S, others: Sequence[Sent]) -> S:
    """Return the summary that was merged of these; marked as trusted if all are."""
    return trusted(merged) if ours.trusted and all(each.trusted for each in others) else merged


def _scaled(smaller: S, whole: S, share: float) -> S:
    scaled = replace(smaller, bound=share * whole.bound, lost=share * whole.lost)
    return trusted(scaled) if whole.trusted else scaled


def reweighted(rows: Sent, weight: float) -> LossyRows | LossyGram:
    """Return a summary with a smaller weight, and rows longer by as much, or a larger matrix."""
    ratio = rows.weight / weight
    if isinstance(rows, LossyGram):
        gone = (ratio - 1.0) * float(rows.matrix.trace())
        whole = LossyGram(ratio * rows.matrix, rows.bound, max(0.0, rows.lost - gone), weight)
        return trusted(whole) if rows.trusted else whole
    trace = float(np.vdot(rows.rows, rows.rows))
    lost = max(0.0, rows.lost - (ratio - 1.0) * trace)
    longer = LossyRows(np.sqrt(ratio) * rows.rows, rows.bound, lost, weight)
    return trusted(longer) if rows.trusted else longer


def nothing_lost(rows: Array) -> LossyRows:
    """Return rows that lack nothing."""
    return trusted(LossyRows(rows, np.zeros(rows.shape[1]), 0.0))


def empty_matrix(dimension: int) -> LossyGram:
    """Return the matrix of no observations."""
    return trusted(LossyGram(np.zeros((dimension, dimension)), np.zeros(dimension), 0.0))
