"""Summaries read as a positive definite matrix V: widths, estimates and determinants."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np

from fedbandit.core.kernels.linalg import (
    Array,
    psd_root,
    row_products,
    sketch_logdet,
    sketch_solve,
    sketch_squared_widths,
)
from fedbandit.core.kernels.play import play_gram, play_shedding, play_sketch
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.kernels.ucb import gram_ucb, sketch_ucb, sparse_products, sparse_squares
from fedbandit.core.memory.contract import Tape


@dataclass(frozen=True)
class GramReading:
    """V by its inverse (d x d) and log determinant. Solving costs O(d^2), widths O(K d^2).

    V is ridge I + X^T X, and at most ``shed`` more in any direction (``Gram.shed``).
    """

    inverse: Array
    logdet: float
    shed: float = 0.0

    inflation = 1.0

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        return self.inverse @ y

    estimate = solve

    def shown_directions(self, ridge: float) -> float:
        """Return d - ridge trace(V^{-1}). Cost O(d)."""
        return len(self.inverse) - ridge * float(self.inverse.trace())

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms."""
        widths: Array = np.maximum(row_products(arms @ self.inverse, arms), 0.0)
        return widths

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm. Cost O(sum of nnz(x)^2)."""
        squares = sparse_squares(arms.data, arms.indices, arms.indptr, self.inverse)
        widths: Array = np.maximum(squares, 0.0)
        return widths

    def whitened(self, arms: Array) -> Array:
        """Return A times a root of V^{-1}, K x d. Cost O(K d^2), and O(d^3) the first time."""
        return arms @ self._root

    @cached_property
    def _root(self) -> Array:
        return psd_root(self.inverse)

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the arm with the best UCB, see ``Reading.best``."""
        return gram_ucb.run(arms, theta, radius, self.inverse, shown, widths)

    def play(self, tape: Tape, *pending: Any) -> tuple[int, float]:
        """Play rounds, see ``Tape``."""
        return play_gram.run(*tape, self.inverse, *pending)


@dataclass(frozen=True, slots=True)
class SketchReading:
    """V = ridge I + S^T S by the orthogonal rows S (k x d) and their squared norms; never formed.

    Solving costs O(k d), widths O(K k d). Estimates of theta use ``estimate_ridge`` in place of
    ``ridge``.
    """

    rows: Array
    squares: Array
    ridge: float
    shed: float
    estimate_ridge: float

    @property
    def logdet(self) -> float:
        """The log determinant of V."""
        return sketch_logdet(self.squares, self.ridge, self.rows.shape[1])

    @property
    def inverse_trace(self) -> float:
        """Trace of V^{-1}: how fast log det V grows when the ridge is raised."""
        rest = int(self.rows.shape[1]) - len(self.squares)
        return rest / self.ridge + float((1.0 / (self.squares + self.ridge)).sum())

    @property
    def inflation(self) -> float:
        """The ratio c / e, at least 1, of the ridges of V and of estimates (``theory.radius``).

        S^T S + e I >= (e / c) (S^T S + c I) for e <= c.
        """
        return max(1.0, self.ridge / self.estimate_ridge)

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        return sketch_solve(self.rows, self.squares, self.ridge, y)

    def estimate(self, moment: Array) -> Array:
        """(estimate_ridge I + S^T S)^{-1} moment."""
        return sketch_solve(self.rows, self.squares, self.estimate_ridge, moment)

    def shown_directions(self, ridge: float) -> float:
        """Return the sum of q / (ridge + q) over rows, and lost / (ridge + shed) for the others.

        That is at most d, exact where nothing was shed, and else a guess on the low side: no
        direction lost more than shed, so it takes at least lost / shed directions to lose as much.
        """
        lost = int(self.rows.shape[1]) * (self.estimate_ridge - ridge)
        rows = float((self.squares / (self.squares + ridge)).sum())
        return min(rows + lost / (ridge + self.shed), float(self.rows.shape[1]))

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms."""
        return sketch_squared_widths(self.rows, self.squares, self.ridge, arms)

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm. Cost O(k nnz)."""
        projected = sparse_products(arms.data, arms.indices, arms.indptr, self.rows)
        explained = (projected * projected) @ (1.0 / (self.squares + self.ridge))
        return np.maximum(arms.squares() - explained, 0.0) / self.ridge

    def whitened(self, arms: Array) -> Array:
        """Return A V^{-1} [sqrt(c) I, S^T], K x (d + k). Cost O(K k d).

        With c = ``ridge``, [sqrt(c) I, S^T] times its transpose is V.
        """
        along = (arms @ self.rows.T) / (self.squares + self.ridge)
        solved = (arms - along @ self.rows) / self.ridge
        return np.hstack([sqrt(self.ridge) * solved, along])

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the arm with the best UCB, see ``Reading.best``."""
        rows, squares, ridge = self.rows, self.squares, self.ridge
        return sketch_ucb.run(arms, theta, radius, rows, squares, ridge, shown, widths)

    def play(self, tape: Tape, *pending: Any) -> tuple[int, float]:
        """Play rounds, see ``Tape``."""
        return play_sketch.run(*tape, self.rows, self.squares, self.ridge, *pending)

    def play_shedding(self, tape: Tape, *pending: Any) -> tuple[int, float, float, int]:
        """Play rounds that shed a row each, see ``kernels.play``."""
        return play_shedding.run(*tape, self.rows, self.squares, self.ridge, *pending)
