"""What a group of agents sent, as one sum: G, which stands for its X^T X, and its moment b.

It tells how well an estimate theta fits what the group sent, by b - G theta. G is what estimates of
the model are solved with, but for the ridge: S^T S of the uploads' rows S, and a diagonal for what
the rows lack. It is kept as a matrix, to which rows are added as many as there are features at a
time. Nothing is cut: what a sketch of a sum would shed speaks of every direction, also of those
that nobody has tried.

Stored in float32 (the moment in float64): G is a sum of squares, and sums of 10^12 of them leave
enough digits to see a group's noise by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property, lru_cache
from math import inf
from typing import Any, Final

import msgspec
import numpy as np

from fedbandit.core.kernels.linalg import Array, missing
from fedbandit.core.memory.contract import Memory
from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.memory.sketch_memory import SketchMemory
from fedbandit.core.memory.summary import Gram
from fedbandit.core.memory.triangle import Triangle
from fedbandit.core.statistics import NO_REWARDS, Rewards, Statistics
from fedbandit.errors import InvalidState

WHOLE: Final = 128
"""Features that are few: what takes O(d^3) for each group is done for no more."""

SILENT: Final = 1e-3
"""Of the ridge: who has sent no more mass has seen nothing."""
_HEAVIEST = 1e4
_LEAST = float(np.finfo(np.float32).tiny)  # of a diagonal: a store keeps nothing smaller


@dataclass(frozen=True, eq=False)
class GroupSum:
    """G = ``matrix`` + S^T S + diag(``spread``) with S = ``rows`` (k x d), b = ``moment``.

    ``matrix`` (d x d) is None where there are rows alone. ``count`` is the number of observations,
    ``rewards`` are sums over theirs. V, which widths are computed with, has the diagonal
    ``certain`` in place of ``spread``.
    """

    matrix: Array | None
    rows: Array
    spread: Array
    moment: Array
    count: int
    rewards: Rewards = NO_REWARDS
    certain: Array | None = None

    def times(self, y: Array) -> Array:
        """Return G y. Cost O(d^2), or O(k d)."""
        product: Array = self.spread * y
        if len(self.rows):
            product = product + (self.rows @ y) @ self.rows
        return product if self.matrix is None else product + self.matrix @ y

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of G (d)."""
        squares = np.asarray((self.rows * self.rows).sum(axis=0) + self.spread)
        return squares if self.matrix is None else squares + self.matrix.diagonal()

    @property
    def square(self) -> Array:
        """G without the spread (d x d)."""
        if self.matrix is None:
            return self.rows.T @ self.rows
        return self.matrix + self.rows.T @ self.rows if len(self.rows) else self.matrix

    def put_together(self) -> GroupSum:
        """Return it without rows beside a matrix, so that ``square`` costs nothing."""
        if self.matrix is None or not len(self.rows):
            return self
        return replace(self, matrix=self.square, rows=self.rows[:0])

    @property
    def diagonal_of_v(self) -> Array:
        """``certain``; ``spread`` where nothing else is known (d)."""
        return self.spread if self.certain is None else self.certain

    def of_v(self, weight: float) -> Array:
        """Return what it adds to V (d x d), with this weight of rows."""
        return np.asarray(weight * self.square + np.diag(self.diagonal_of_v))

    def diagonal_in_v(self, weight: float) -> Array:
        """Return the diagonal of that (d)."""
        return np.asarray(weight * (self.diagonal - self.spread) + self.diagonal_of_v)

    def along(self, inverse: Array) -> float:
        """Return tr V^-1 G, with V^-1 given. O(k d^2), or O(d^2)."""
        return self._square_along(inverse) + float(inverse.diagonal() @ self.spread)

    def along_in_v(self, inverse: Array, weight: float) -> float:
        """Return the same for what it adds to V, with this weight of rows."""
        diagonal = float(inverse.diagonal() @ self.diagonal_of_v)
        return weight * self._square_along(inverse) + diagonal

    def _square_along(self, inverse: Array) -> float:
        found = 0.0 if self.matrix is None else float(np.vdot(inverse, self.matrix))
        if len(self.rows):
            found += float(np.vdot(self.rows @ inverse, self.rows))
        return found

    @cached_property
    def mass(self) -> float:
        """The trace of G."""
        squares = float(np.vdot(self.rows, self.rows)) + float(self.spread.sum())
        return squares if self.matrix is None else squares + float(self.matrix.trace())

    def scaled(self, share: float) -> GroupSum:
        """Return a share of G and b; counts and rewards stay."""
        if share == 1.0:
            return self
        return replace(
            self,
            matrix=None if self.matrix is None else share * self.matrix,
            rows=np.sqrt(share) * self.rows,
            spread=share * self.spread,
            moment=share * self.moment,
            certain=None if self.certain is None else share * self.certain,
        )

    def plus(self, others: Iterable[GroupSum]) -> GroupSum:
        """Return the sum of all. O(k d), and O(d^3) once there are d rows."""
        matrix, rows, spread = self.matrix, [self.rows], self.spread
        moment, count, rewards = self.moment, self.count, self.rewards
        certain = self.diagonal_of_v
        for each in others:
            certain = certain + each.diagonal_of_v
            rows.append(each.rows)
            if each.matrix is not None:
                matrix = each.matrix if matrix is None else matrix + each.matrix
            spread, moment = spread + each.spread, moment + each.moment
            count, rewards = count + each.count, rewards.plus(each.rewards)
        kept = np.vstack(rows)
        if len(kept) >= len(moment):
            square = kept.T @ kept
            matrix, kept = square if matrix is None else matrix + square, kept[:0]
        return GroupSum(matrix, kept, spread, moment, count, rewards, certain)


def nothing(memory: Memory) -> GroupSum:
    """Return the sum of a group that has sent nothing."""
    d = len(memory.empty().moment)
    return GroupSum(np.zeros((d, d)), np.zeros((0, d)), np.zeros(d), np.zeros(d), 0)


def sum_of(memory: Memory, statistics: Statistics) -> GroupSum:
    """Return an upload, or the state of a server, as a sum. No factorisation: O(k d) or O(d^2)."""
    summary, moment, d = statistics.summary, statistics.moment, len(statistics.moment)
    matrix, rows, spread = None, np.zeros((0, d)), np.zeros(d)
    certain = None
    if isinstance(summary, Gram | Triangle):
        matrix = summary.matrix
    elif isinstance(memory, LossyMemory):
        weight, spread = _lossy(memory, summary)
        spread, certain = _kept(spread), _kept(summary.bound)
        matrix = weight * summary.matrix if isinstance(summary, LossyGram) else None
        rows = rows if isinstance(summary, LossyGram) else np.sqrt(weight) * summary.rows
    elif isinstance(memory, SketchMemory):
        rows, spread = summary.rows, _even(d, _missing_on_average(memory, statistics))
        if memory.estimate != "paper":
            certain = _even(d, float(summary.shed) if memory.compensated else 0.0)
    else:
        raise TypeError(f"no sum of a {type(summary).__name__}")
    return GroupSum(matrix, rows, spread, moment, statistics.count, statistics.rewards, certain)


def _kept(diagonal: Array) -> Array:
    """Return a diagonal without numbers so small that what is divided by them is none."""
    return np.where(diagonal < _LEAST, 0.0, diagonal)


def _even(d: int, number: float) -> Array:
    """Return such a diagonal of one number."""
    return np.full(d, number) if number >= _LEAST else np.zeros(d)


def _lossy(memory: LossyMemory, summary: LossyRows | LossyGram | Fitted) -> tuple[float, Array]:
    if memory.corrected:
        return 1.0, missing(summary.bound, summary.lost)
    return summary.weight, summary.bound


def _missing_on_average(memory: SketchMemory, statistics: Statistics) -> float:
    """Return what estimates have on the diagonal beside the ridge, see ``SketchMemory``."""
    summary = statistics.summary
    if memory.estimate != "paper":
        return float(summary.lost or 0.0) / len(statistics.moment)
    return float(summary.shed) if memory.compensated else 0.0


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    count: int
    moment: bytes
    spread: bytes
    rows: bytes
    triangle: bytes
    rewards: tuple[int, float, float]
    certain: bytes = b""


def packed(group: GroupSum) -> bytes:
    """Return a sum as it is stored; of a matrix the upper triangle, with the rows in it."""
    rows, triangle = group.rows, b""
    if group.matrix is not None:
        rows, triangle = rows[:0], _short(group.square[_upper(len(group.moment))])
    moment, rewards = group.moment.astype("<f8").tobytes(), astuple(group.rewards)
    diagonals = _short(group.spread), _short(group.diagonal_of_v)
    return msgspec.msgpack.encode(
        _Packed(group.count, moment, diagonals[0], _short(rows), triangle, rewards, diagonals[1])
    )


@lru_cache(maxsize=8)
def _upper(d: int) -> tuple[Any, Any]:
    """Return the places of the upper triangle of a matrix (d x d)."""
    return np.triu_indices(d)


def unpacked(data: bytes) -> GroupSum:
    """Return the sum that was packed; raise InvalidState if it cannot be read."""
    try:
        read = msgspec.msgpack.decode(data, type=_Packed)
        moment = np.frombuffer(read.moment, "<f8").astype(np.float64)
        d, matrix = len(moment), None
        if read.triangle:
            upper = np.zeros((d, d))
            upper[_upper(d)] = _long(read.triangle)
            matrix = upper + np.triu(upper, 1).T
        rows, rewards = _long(read.rows).reshape(-1, d), Rewards(*read.rewards)
        spread, certain = _long(read.spread), _long(read.certain) if read.certain else None
        return GroupSum(matrix, rows, spread, moment, read.count, rewards, certain)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidState(f"The sum of a group cannot be read ({error}). Restore a backup.") from (
            error
        )


def sound(group: GroupSum) -> GroupSum:
    """Return a sum without the negative eigenvalues that rounding made. O(d^3)."""
    return group if group.matrix is None else replace(group, matrix=positive(group.matrix))


def tempered(sums: Sequence[GroupSum], *, ridge: float, trusted: Sequence[bool]) -> list[GroupSum]:
    """Return sums of which none is so large that no digits are left for the others.

    None but ``trusted`` ones has more than ``_HEAVIEST`` times the mass of the median group.
    """
    masses = [each.mass for each in sums]
    speak = sorted(mass for mass in masses if mass > SILENT * ridge)
    most = _HEAVIEST * speak[len(speak) // 2] if speak else inf
    return [
        each if believed or mass <= most else each.scaled(most / mass)
        for each, mass, believed in zip(sums, masses, trusted, strict=True)
    ]


def positive(matrix: Array, least: float = 0.0) -> Array:
    """Return the matrix with its eigenvalues below 0, and below ``least``, at 0. O(d^3)."""
    values, vectors = np.linalg.eigh(matrix)
    return symmetric((vectors * np.where(values > least, values, 0.0)) @ vectors.T)


def symmetric(matrix: Array) -> Array:
    """Return the matrix without what rounding made of its symmetry."""
    return np.asarray((matrix + matrix.T) / 2.0)


def _short(numbers: Array) -> bytes:
    most = float(np.finfo(np.float32).max)
    return np.clip(numbers, -most, most).astype("<f4").tobytes()


def _long(data: bytes) -> Array:
    return np.frombuffer(data, "<f4").astype(np.float64)
