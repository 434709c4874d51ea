"""Lossy summaries read as a matrix V: a diagonal, and rows that are not orthogonal.

V = w S^T S + C with C = diag(ridge + c). By the matrix inversion lemma, with R = sqrt(w) S and the
Cholesky factor L L^T = I + R C^-1 R^T,

    V^-1 = C^-1 - W^T W,  W = L^-1 R C^-1,
    log det V = sum log C_j + 2 sum log L_ii,

so that a decision costs one product of the arms with the k rows of W, as with a sketch.

Estimates of theta solve with V' = S^T S + diag(ridge + m), m = ``lift``, or with V if that is None.
"""

from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np

from fedbandit.core.kernels.cholesky import raised_solve, sum_logdet, whitened
from fedbandit.core.kernels.linalg import Array, read_only, row_products, spd_inverse
from fedbandit.core.kernels.play import play_diagonal
from fedbandit.core.kernels.sparse import SparseArms
from fedbandit.core.kernels.ucb import diagonal_ucb, sparse_products
from fedbandit.core.memory.contract import Tape
from fedbandit.core.memory.reading import GramReading


@dataclass(frozen=True, eq=False)
class LossyReading:
    """V of rows S (k x d), by W and the diagonal of C. Solving costs O(k d), widths O(K k d)."""

    rows: Array
    bound: Array
    weight: float
    base_ridge: float
    lift: Array | None

    @property
    def diagonal(self) -> Array:
        """The diagonal of C (d)."""
        return self.base_ridge + self.bound

    @property
    def ridge(self) -> float:
        """The least entry of C, which no eigenvalue of V is below."""
        return self.base_ridge + float(self.bound.min())

    @cached_property
    def _factor(self) -> tuple[Array, Array, float]:
        """1 / C (d), W (k x d), and log det V."""
        diagonal = self.diagonal
        return _factored(np.sqrt(self.weight) * self.rows, diagonal)

    @cached_property
    def _estimate_factor(self) -> tuple[Array, Array, float]:
        """The same of V'."""
        if self.lift is None:
            return self._factor
        return _factored(self.rows, self.base_ridge + self.lift)

    @property
    def inverse_diagonal(self) -> Array:
        """The diagonal of V^-1 (d)."""
        inverse, explained, _ = self._factor
        squares: Array = np.einsum("kd,kd->d", explained, explained)
        return np.maximum(inverse - squares, 0.0)

    @property
    def logdet(self) -> float:
        """The log determinant of V."""
        return self._factor[2]

    @property
    def shed(self) -> float:
        """What radii from theory allow for as shed, see ``theory.radius``.

        For theta from V: 0 <= V - X^T X <= (ridge + max c) I. For one from V', see
        ``SketchMemory``, with F <= diag(c) and diag(missing) for the two parts of E:
        |sum E_i (theta* - theta'_i)|_{V^-1} <= 2 S (sqrt(max c) + sqrt(max missing)).
        """
        most = float(self.bound.max())
        if self.lift is None:
            return most
        return float(np.sqrt(most) + np.sqrt(self.lift.max()) + np.sqrt(self.base_ridge)) ** 2

    @property
    def inflation(self) -> float:
        """The least factor f with V' >= V / f."""
        if self.lift is None:
            return 1.0
        return max(self.weight, float((self.diagonal / (self.base_ridge + self.lift)).max()))

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        inverse, explained, _ = self._factor
        return inverse * y - (explained @ y) @ explained

    def estimate(self, moment: Array) -> Array:
        """V'^{-1} moment. Cost O(k^2 d) the first time."""
        inverse, explained, _ = self._estimate_factor
        return inverse * moment - (explained @ moment) @ explained

    def shown_directions(self, ridge: float) -> float:
        """Return d - ridge trace(V'^{-1}). Cost O(k d)."""
        inverse, explained, _ = self._estimate_factor
        trace = float(inverse.sum()) - float(np.vdot(explained, explained))
        return len(inverse) - ridge * trace

    def growth(self, pending: Array) -> float:
        """Return log det(V + P^T P) - log det V for P = ``pending`` (n x d).

        Cost O((k + n) n d + n^3).
        """
        inverse, explained, _ = self._factor
        scaled, crossed = pending * np.sqrt(inverse), pending @ explained.T
        inner, known = scaled @ scaled.T, crossed @ crossed.T
        return _logdet(inner, -1.0, known, np.ones(len(pending)))

    def growth_by(self, gram: Array, bound: Array | None) -> float:
        """Return log det(V + G + diag(b)) - log det V for G = ``gram`` (d x d), b = bound.

        Cost O(k d^2 + d^3).
        """
        diagonal = self.diagonal if bound is None else self.diagonal + bound
        return _logdet(gram, self.weight, self.rows.T @ self.rows, diagonal) - self.logdet

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms."""
        inverse, explained, _ = self._factor
        projected = arms @ explained.T
        squared: Array = (arms * arms) @ inverse - row_products(projected, projected)
        return np.maximum(squared, 0.0)

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm. Cost O(k nnz)."""
        inverse, explained, _ = self._factor
        projected = sparse_products(arms.data, arms.indices, arms.indptr, explained)
        whole = SparseArms(arms.data * arms.data, arms.indices, arms.indptr, arms.dimension)
        return np.maximum(whole.times(inverse) - row_products(projected, projected), 0.0)

    def whitened(self, arms: Array) -> Array:
        """Return A V^{-1} [sqrt(C), R^T], K x (d + k). Cost O(K k d).

        [sqrt(C), R^T] times its transpose is V.
        """
        inverse, explained, _ = self._factor
        solved = arms * inverse - (arms @ explained.T) @ explained
        along = np.sqrt(self.weight) * (solved @ self.rows.T)
        return np.hstack([solved * np.sqrt(self.diagonal), along])

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the arm with the best UCB, see ``Reading.best``."""
        inverse, explained, _ = self._factor
        return diagonal_ucb.run(arms, theta, radius, explained, inverse, shown, widths)

    def play(self, tape: Tape, *pending: Any) -> tuple[int, float]:
        """Play rounds, see ``Tape``."""
        inverse, explained, _ = self._factor
        return play_diagonal.run(*tape, explained, inverse, *pending)


@dataclass(frozen=True, eq=False)
class LossyGramReading:
    """V of a matrix S^T S (d x d). Solving costs O(d^2) after the first time."""

    matrix: Array
    bound: Array
    weight: float
    base_ridge: float
    lift: Array | None

    @cached_property
    def _whole(self) -> GramReading:
        raised = self.weight * self.matrix + np.diag(self.bound)
        return GramReading(*spd_inverse(raised, self.base_ridge))

    @property
    def shed(self) -> float:
        """The largest entry of c."""
        return float(self.bound.max())

    @property
    def logdet(self) -> float:
        """The log determinant of V."""
        return self._whole.logdet

    @property
    def inflation(self) -> float:
        """The least factor f with V' >= V / f."""
        if self.lift is None:
            return 1.0
        ratio = (self.base_ridge + self.bound) / (self.base_ridge + self.lift)
        return max(self.weight, float(ratio.max()))

    def solve(self, y: Array) -> Array:
        """V^{-1} y."""
        return self._whole.solve(y)

    def estimate(self, moment: Array) -> Array:
        """V'^{-1} moment. Cost O(d^3)."""
        if self.lift is None:
            return self.solve(moment)
        theta = raised_solve.run(self.matrix, self.base_ridge + self.lift, moment)
        if not isnan(theta[0]):
            return theta
        inverse, _ = spd_inverse(self.matrix + np.diag(self.lift), self.base_ridge)
        return inverse @ moment  # entries were so large that rounding hid the ridge

    def shown_directions(self, ridge: float) -> float:
        """Return d - ridge trace(V^{-1}). Cost O(d)."""
        return self._whole.shown_directions(ridge)

    def squared_widths(self, arms: Array) -> Array:
        """x^T V^{-1} x for every row x of arms."""
        return self._whole.squared_widths(arms)

    def sparse_squared_widths(self, arms: SparseArms) -> Array:
        """x^T V^{-1} x for every sparse arm."""
        return self._whole.sparse_squared_widths(arms)

    def whitened(self, arms: Array) -> Array:
        """Return a root of A V^{-1} A^T, see ``GramReading``."""
        return self._whole.whitened(arms)

    def best(self, arms: Array, theta: Array, radius: float, shown: Array, widths: Array) -> int:
        """Return the arm with the best UCB, see ``Reading.best``."""
        return self._whole.best(arms, theta, radius, shown, widths)


def _factored(rows: Array, diagonal: Array) -> tuple[Array, Array, float]:
    """Return 1 / C, W = L^-1 R C^-1 and log det(C + R^T R). Cost O(k^2 d + k^3)."""
    inverse, explained, logdet = whitened.run(read_only(rows), diagonal)
    if not isnan(logdet):
        return inverse, explained, logdet
    scaled = rows * inverse  # rows so long that rounding hides the identity
    values, vectors = np.linalg.eigh(scaled @ rows.T)
    values = np.maximum(values, 0.0)
    explained = (vectors / np.sqrt(1.0 + values)).T @ scaled
    return inverse, explained, float(np.log(diagonal).sum() + np.log1p(values).sum())


def _logdet(one: Array, factor: float, other: Array, diagonal: Array) -> float:
    """Return log det(A + f B + diag(c)) of symmetric matrices."""
    logdet = sum_logdet.run(one, factor, other, diagonal)
    if not isnan(logdet):
        return logdet
    whole = one + factor * other + np.diag(diagonal)  # rounding has made it indefinite
    return float(np.linalg.slogdet(whole)[1])
