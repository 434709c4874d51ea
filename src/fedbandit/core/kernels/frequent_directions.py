"""Frequent Directions (Liberty 2013; paper, Algs. 1 and 2): shrink rows, keep most of X^T X."""

from typing import Final

import numpy as np

from fedbandit.core.kernels.arrowhead import arrowhead_eigh
from fedbandit.core.kernels.compiler import kernel, kernel_or
from fedbandit.core.kernels.eigh import leading_eigenpairs
from fedbandit.core.kernels.linalg import Array

_EPSILON = 2.220446049250313e-16

FAINT: Final = 1e-100
"""Squared norm of a row below which ``shed_one`` is not used: products of such underflow."""


def shrink(rows: Array, size: int) -> tuple[Array, float]:
    """Turn m rows (m x d) into at most size - 1 orthogonal rows; also return what was shed.

    With the eigenvalues g_1 >= g_2 >= ... of rows rows^T (the squared singular values of rows) and
    delta = g_size (0 if there are fewer), the kept rows are sqrt(g_i - delta) v_i (paper, Alg. 1
    lines 7-10 and Alg. 2 lines 3-6). With fewer than ``size`` rows nothing is shed and the rows are
    only made orthogonal.

    Returns the rows S, largest first, and ``shed``, with S^T S <= X^T X <= S^T S + shed I for
    X = rows. It is delta, or a little more if a direction is dropped as mere rounding error. Cost
    O(r^3 + r m d) with r = min(m, d): the smaller of rows rows^T and rows^T rows is factorised.
    """
    m, d = rows.shape
    if m > d:
        return shrink_gram(rows.T @ rows, size)
    values, vectors, delta, shed = _leading(rows @ rows.T, size)
    return (vectors * np.sqrt(1.0 - delta / values)[:, None]) @ rows, shed


def shrink_gram(matrix: Array, size: int) -> tuple[Array, float]:
    """Do what ``shrink`` does for rows of which only X^T X is known (d x d). Cost O(d^3)."""
    values, vectors, delta, shed = _leading(matrix, size)
    return vectors * np.sqrt(values - delta)[:, None], shed


def _leading(gram: Array, size: int) -> tuple[Array, Array, float, float]:
    """Return the eigenpairs to keep, what to subtract from the eigenvalues, and what is shed."""
    rank = len(gram)
    values, vectors = leading_eigenpairs(gram, min(size - 1, rank))
    delta = max(float(values[size - 1]), 0.0) if size <= rank else 0.0
    rounding = values[0] * rank * _EPSILON if rank else 0.0
    kept = int(np.count_nonzero(values[: size - 1] > max(delta, rounding)))
    shed = max(delta, float(values[kept])) if kept < min(size - 1, rank) else delta
    return values[:kept], vectors[:kept], delta, shed


@kernel
def shed_one(rows: Array, squares: Array) -> tuple[int, Array, float]:
    """Shrink l rows (l x d) to at most l - 1, in place, if only the last is not orthogonal.

    The same as ``shrink`` with size l (paper, Alg. 1 lines 6-10), by a rank-one update in O(l^2)
    and a rotation in O(l^2 d). ``squares`` (l - 1) are the decreasing squared norms of the
    orthogonal rows. Returns how many rows are kept, largest first, their squared norms, and what
    was shed.
    """
    n = len(rows) - 1
    crossed = np.dot(rows, rows[n])
    values, vectors = arrowhead_eigh(squares, crossed[:n], crossed[n], n)
    delta = max(values[n], 0.0)
    floor = max(delta, values[0] * (n + 1) * _EPSILON)
    kept = 0
    while kept < n and values[kept] > floor:
        factor = np.sqrt(1.0 - delta / values[kept])
        for j in range(n + 1):
            vectors[kept, j] *= factor
        kept += 1
    shed = max(delta, values[kept]) if kept < n else delta
    turned, norms = np.dot(vectors[:kept], rows), np.empty(kept)
    for i in range(kept):
        square = 0.0
        for j in range(rows.shape[1]):
            rows[i, j] = turned[i, j]
            square += turned[i, j] * turned[i, j]
        norms[i] = square
    return kept, norms, shed


def weighed_rows_numpy(rows: Array, ridge: float) -> tuple[Array, Array, Array]:
    """Return what ``weighed_rows`` does, by numpy."""
    held: Array = np.einsum("kd,kd->d", rows, rows)
    metric = np.sqrt(ridge + held)
    return rows * (1.0 / metric), metric, held


@kernel_or(weighed_rows_numpy)
def weighed_rows(rows: Array, ridge: float) -> tuple[Array, Array, Array]:
    """Return rows S (k x d) divided by sqrt(ridge + held), that root, and held = diag(S^T S)."""
    k, d = rows.shape
    scaled, metric, held, inverse = np.empty((k, d)), np.empty(d), np.zeros(d), np.empty(d)
    for i in range(k):
        for j in range(d):
            held[j] += rows[i, j] * rows[i, j]
    for j in range(d):
        metric[j] = np.sqrt(ridge + held[j])
        inverse[j] = 1.0 / metric[j]
    for i in range(k):
        for j in range(d):
            scaled[i, j] = rows[i, j] * inverse[j]
    return scaled, metric, held


def weighed_matrix_numpy(matrix: Array, ridge: float) -> tuple[Array, Array, Array]:
    """Return what ``weighed_matrix`` does, by numpy."""
    held = np.maximum(matrix.diagonal(), 0.0)
    metric = np.sqrt(ridge + held)
    inverse = 1.0 / metric
    return matrix * np.outer(inverse, inverse), metric, held


@kernel_or(weighed_matrix_numpy)
def weighed_matrix(matrix: Array, ridge: float) -> tuple[Array, Array, Array]:
    """Return what ``weighed_rows`` does, for rows of which only S^T S is known (d x d)."""
    d = len(matrix)
    scaled, metric, held, inverse = np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d)
    for j in range(d):
        held[j] = max(matrix[j, j], 0.0)
        metric[j] = np.sqrt(ridge + held[j])
        inverse[j] = 1.0 / metric[j]
    for i in range(d):
        for j in range(d):
            scaled[i, j] = matrix[i, j] * (inverse[i] * inverse[j])
    return scaled, metric, held


def squares_where_held_numpy(rows: Array, held: Array) -> Array:
    """Do what ``squares_where_held`` does, by numpy."""
    rows[:, held == 0.0] = 0.0
    squares: Array = np.einsum("kd,kd->k", rows, rows)
    return squares


@kernel_or(squares_where_held_numpy)
def squares_where_held(rows: Array, held: Array) -> Array:
    """Set the columns of which nothing is held to 0, and return the squares of the rows."""
    squares = np.zeros(len(rows))
    for i in range(len(rows)):
        row, square = rows[i], 0.0
        for j in range(len(held)):
            row[j] = row[j] if held[j] != 0.0 else 0.0
        for j in range(len(held)):  # apart from what writes: else bits could depend on addresses
            square += row[j] * row[j]
        squares[i] = square
    return squares
