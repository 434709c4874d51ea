"""Means and scatter of a few columns, added up in batches: all that estimates need."""

from dataclasses import dataclass

import numpy as np

from fedbandit.core.kernels.linalg import Array


@dataclass(slots=True, eq=False)
class Sums:
    """Count, means (m) and the sums of products of deviations (m x m) of rows seen so far."""

    count: int
    means: Array
    scatter: Array

    @classmethod
    def empty(cls, columns: int) -> "Sums":
        """Return the sums of no rows."""
        return cls(0, np.zeros(columns), np.zeros((columns, columns)))

    def add(self, rows: Array) -> None:
        """Add rows (n x m)."""
        many = len(rows)
        if not many:
            return
        means = rows.mean(axis=0)
        around = rows - means
        self._merge(many, means, around.T @ around)

    def plus(self, other: "Sums") -> "Sums":
        """Return the sums of the rows of both."""
        both = Sums(self.count, self.means.copy(), self.scatter.copy())
        both._merge(other.count, other.means, other.scatter)
        return both

    def variance_of_mean(self, weights: Array) -> float:
        """Return the variance of the mean of ``rows @ weights``, estimated from the rows."""
        if self.count < 2:
            return float("inf")
        return max(float(weights @ self.scatter @ weights), 0.0) / (self.count * (self.count - 1))

    def total_of_squares(self, column: int) -> float:
        """Return the sum of the squares of a column."""
        return float(self.scatter[column, column] + self.count * self.means[column] ** 2)

    def _merge(self, many: int, means: Array, scatter: Array) -> None:
        """Add ``many`` rows with these means and this scatter (Chan, Golub and LeVeque)."""
        if not many:
            return
        total = self.count + many
        apart = means - self.means
        self.scatter += scatter + np.outer(apart, apart) * (self.count * many / total)
        self.means = self.means + apart * (many / total)
        self.count = total
