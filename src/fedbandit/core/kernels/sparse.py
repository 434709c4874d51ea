"""Sparse arms, in the compressed sparse rows (CSR) of scipy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.ucb import Integers, row_sums


@dataclass(frozen=True, slots=True, eq=False)
class SparseArms:
    """K sparse arms of d = ``dimension`` features.

    The entries of arm k are ``data[indptr[k]:indptr[k + 1]]``, in the columns ``indices`` of the
    same range, each column at most once. A copy of the caller's matrix; scipy is not needed.
    """

    data: Array
    indices: Integers
    indptr: Integers
    dimension: int

    @property
    def shape(self) -> tuple[int, ...]:
        """K and d."""
        return len(self), self.dimension

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, arm: int | np.integer[Any]) -> Array:
        """Return one arm, dense. Cost O(d)."""
        dense, entries = np.zeros(self.dimension), slice(self.indptr[arm], self.indptr[arm + 1])
        dense[self.indices[entries]] = self.data[entries]
        return dense

    def only(self, arms: Sequence[int]) -> SparseArms:
        """Return some of the arms, in this order."""
        spans = [slice(self.indptr[arm], self.indptr[arm + 1]) for arm in arms]
        sizes = [span.stop - span.start for span in spans]
        return SparseArms(
            np.concatenate([self.data[span] for span in spans]),
            np.concatenate([self.indices[span] for span in spans]),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            self.dimension,
        )

    def dense(self) -> Array:
        """Return all arms as a dense K x d array."""
        return np.array([self[arm] for arm in range(len(self))])

    def squares(self) -> Array:
        """Return |x|^2 for every arm (K). Cost O(nnz)."""
        return row_sums(self.data * self.data, self.indptr)

    def times(self, theta: Array) -> Array:
        """Return <x, theta> for every arm (K). Cost O(nnz)."""
        return row_sums(self.data * theta[self.indices], self.indptr)


@runtime_checkable
class SparseLike(Protocol):
    """Anything with ``tocsr``: the sparse matrices and arrays of scipy."""

    def tocsr(self) -> Any:
        """Return it in compressed sparse rows."""
        ...


def sparse_arms(arms: SparseLike) -> SparseArms:
    """Return a copy of scipy's sparse arms in float64, duplicate entries added up.

    Raises ValueError unless it is a matrix of real numbers with all entries inside.
    """
    if getattr(arms, "ndim", 0) != 2 or getattr(arms, "dtype", np.dtype(object)).kind not in "fiub":
        raise ValueError("a sparse array that is not a matrix of real numbers")
    rows = arms.tocsr().astype(np.float64)
    _check_places(rows.indices, rows.indptr, rows.shape[1])
    if not rows.has_canonical_format:
        rows.sum_duplicates()
    return SparseArms(
        rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64), int(rows.shape[1])
    )


def _check_places(indices: Integers, indptr: Integers, columns: int) -> None:
    """Raise ValueError for entries outside the matrix: compiled code would not notice them."""
    inside = not len(indices) or (indices.min() >= 0 and indices.max() < columns)
    ordered = indptr[0] == 0 and indptr[-1] <= len(indices) and (np.diff(indptr) >= 0).all()
    if not (inside and ordered):
        raise ValueError("a sparse matrix with entries outside its shape")
