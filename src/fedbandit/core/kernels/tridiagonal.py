"""Symmetric matrices to tridiagonal form by reflections, and vectors back."""

import numpy as np

from fedbandit.core.kernels.compiler import kernel, long_kernel
from fedbandit.core.kernels.linalg import Array

_NOTHING = 1e-50  # counts as 0 in a matrix whose largest entry is 1; its square does not underflow
_STRIDE = 16  # numbers that a compiled loop handles at once; rows are padded to a multiple of it


@long_kernel
def tridiagonalise(matrix: Array, factor: float) -> tuple[Array, Array, Array, Array]:
    """Bring a symmetric matrix, scaled, to tridiagonal form by n - 2 reflections I - tau v v^T.

    Returns the diagonal (n), the entries beside it (n, the last 0), tau of every reflection (n),
    and its v as a row. Rows are padded with zeros to a multiple of the stride, and loops start at
    one, so that compiled loops have no remainder. A row is changed by one reflection and multiplied
    by the next v in one go, which halves the traffic with memory. Cost O(n^3).
    """
    n, width = len(matrix), padded(len(matrix))
    work = np.zeros((n + 1, width))
    place(matrix, work, 0, factor)
    diagonal, beside, taus = np.empty(n), np.zeros(n), np.zeros(n)
    reflectors, w, fresh = np.zeros((n, width)), np.zeros(width), np.zeros(width)
    if n > 2:
        taus[0], beside[0] = reflection(work[0], 1, n, reflectors[0])
        v = reflectors[0]
        for i in range(1, n):
            row, total = work[i], 0.0
            for j in range(len(row)):
                total += row[j] * v[j]
            w[i] = total
    diagonal[0] = work[0, 0]
    for k in range(n - 2):
        start = (k + 1) // _STRIDE * _STRIDE
        v, u = reflectors[k, start:], w[start:]
        inner = 0.0
        for j in range(len(u)):
            inner += u[j] * v[j]
        half = 0.5 * taus[k] * inner
        for j in range(len(u)):
            u[j] = taus[k] * (u[j] - half * v[j])
        row, one, other = work[k + 1, start:], v[k + 1 - start], u[k + 1 - start]
        for j in range(len(row)):  # A - v w^T - w v^T
            row[j] -= one * u[j] + other * v[j]
        diagonal[k + 1] = work[k + 1, k + 1]
        if k + 1 < n - 2:
            taus[k + 1], beside[k + 1] = reflection(work[k + 1], k + 2, n, reflectors[k + 1])
        begin = (k + 2) // _STRIDE * _STRIDE
        v, u, following = reflectors[k, begin:], w[begin:], reflectors[k + 1, begin:]
        for i in range(k + 2, n, 2):  # two rows at a time; the one after the last is 0
            row, next_row = work[i, begin:], work[i + 1, begin:]
            one, other, total = reflectors[k, i], w[i], 0.0
            inside = i + 1 < n
            next_one = reflectors[k, i + 1] if inside else 0.0
            next_other, next_total = w[i + 1] if inside else 0.0, 0.0
            for j in range(len(row)):
                entry = row[j] - (one * u[j] + other * v[j])
                next_entry = next_row[j] - (next_one * u[j] + next_other * v[j])
                row[j] = entry
                next_row[j] = next_entry
                total += entry * following[j]
                next_total += next_entry * following[j]
            fresh[i] = total
            if inside:
                fresh[i + 1] = next_total
        fresh[k], fresh[k + 1] = 0.0, 0.0
        w, fresh = fresh, w
    if n > 1:
        beside[n - 2] = work[n - 2, n - 1]
    diagonal[n - 1] = work[n - 1, n - 1]
    return diagonal, beside, taus, reflectors


@kernel
def reflection(row: Array, start: int, end: int, v: Array) -> tuple[float, float]:
    """Fill in v, with v_start = 1, so that I - tau v v^T maps row[start:end] to (beta, 0, ...).

    Returns tau and beta.
    """
    rest = 0.0
    for j in range(start + 1, end):
        rest += row[j] * row[j]
    head = row[start]
    v[start] = 1.0
    if rest < _NOTHING * _NOTHING:
        return 0.0, head
    beta = -np.copysign(np.sqrt(head * head + rest), head)
    scale = 1.0 / (head - beta)
    for j in range(start + 1, end):
        v[j] = row[j] * scale
    return (beta - head) / beta, beta


@long_kernel
def turn_back(reflectors: Array, taus: Array, vectors: Array) -> None:
    """Apply the reflections of ``tridiagonalise``, last first, to rows in place. Cost O(n^3).

    Two at a time, so that every row is read half as often: with a = tau v.x of the first, the
    second's is tau' (v'.x - a v'.v).
    """
    k = len(reflectors) - 3
    while k >= 0:
        pair = k > 0
        start = (k if pair else k + 1) // _STRIDE * _STRIDE
        v = reflectors[k, start:]
        other = reflectors[k - 1, start:] if pair else v
        tau, other_tau, crossed = taus[k], taus[k - 1] if pair else 0.0, 0.0
        for j in range(len(v)):
            crossed += v[j] * other[j]
        for i in range(len(vectors)):
            x = vectors[i, start:]
            along, beyond = 0.0, 0.0
            for j in range(len(v)):
                along += v[j] * x[j]
                beyond += other[j] * x[j]
            along *= tau
            beyond = other_tau * (beyond - along * crossed)
            for j in range(len(v)):
                x[j] -= along * v[j] + beyond * other[j]
        k -= 2


@kernel
def largest(matrix: Array) -> float:
    """Return the largest entry of a positive semidefinite matrix, which is on its diagonal."""
    size = 0.0
    for i in range(len(matrix)):
        size = max(size, matrix[i, i])
    return size


@kernel
def place(block: Array, into: Array, start: int, factor: float) -> None:
    """Copy a block, scaled, to the columns from ``start`` on."""
    for i in range(block.shape[0]):
        row, target = block[i], into[i, start:]
        for j in range(len(row)):
            target[j] = factor * row[j]


@kernel
def padded(n: int) -> int:
    """Round n up to a multiple of the stride."""
    return (n + _STRIDE - 1) // _STRIDE * _STRIDE
