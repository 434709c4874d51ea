"""Symmetric matrices to tridiagonal form by reflections, and vectors back."""

import numpy as np

from fedbandit.core.kernels.compiler import long_kernel, part
from fedbandit.core.kernels.linalg import Array

LARGEST_SIDE = 256
"""Of a matrix here. LAPACK, which works in blocks, is faster for larger ones."""

_NOTHING = 1e-50  # counts as 0 in a matrix whose largest entry is 1; its square does not underflow
_VANISHED = 1e-300  # least scale of a matrix
_STRIDE = 16  # numbers that a compiled loop handles at once; rows are padded to a multiple of it
_ROW = LARGEST_SIDE + _STRIDE  # numbers from the start of a row to the next; not a power of two
_W, _NEXT, _SUMS, _AFTER = _ROW, 2 * _ROW, 3 * _ROW, 4 * _ROW  # vectors beside v in one array

Form = tuple[float, Array, Array]
"""What ``tridiagonalise`` returns."""


@long_kernel
def tridiagonalise(matrix: Array) -> Form:
    """Bring a positive semidefinite matrix to tridiagonal form by n - 2 reflections I - tau v v^T.

    Returns its scale, which is its largest entry. Of the matrix divided by it: the diagonal, the
    entries beside it (the last 0) and tau of every reflection, as three rows of n; and every v as a
    row, padded with zeros to a multiple of the stride. n is at most ``LARGEST_SIDE``.

    Only what is right of the diagonal is kept up to date, and the blocks of a stride on it. In one
    go four rows are changed by a reflection (A - v w^T - w v^T) and multiplied by the next v: what
    is right of their block also stands for what is below it. Rows lie a constant apart, by which
    the compiler knows that they do not overlap; it compares the two arrays as wholes, so sums have
    the same bits wherever they lie. Cost O(n^3).
    """
    n, scale = len(matrix), _VANISHED
    for i in range(n):
        scale = max(scale, matrix[i, i])
    factor, width = 1.0 / scale, padded(n)
    bands, reflectors = np.zeros((3, n)), np.zeros((n, width))
    work, vectors = np.empty((n + 3) // 4 * 4 * _ROW), np.zeros(5 * _ROW)
    for i in range((n + 3) // 4 * 4):
        row = work[i * _ROW : i * _ROW + width]
        for j in range(width):
            row[j] = 0.0
    for i in range(n):
        row = work[i * _ROW : i * _ROW + n]
        for j in range(n):
            row[j] = factor * matrix[i, j]
    for k in range(n):
        start = k // _STRIDE * _STRIDE
        at, row, v = k - start, work[k * _ROW + start : k * _ROW + width], vectors[start:width]
        w, following = vectors[_W + start : _W + width], vectors[_NEXT + start : _NEXT + width]
        sums, after = vectors[_SUMS + start : _SUMS + width], vectors[_AFTER + start :]
        if k > 0:  # the reflection that was found at the row before: w, and the row brought up
            tau, inner = bands[2, k - 1], 0.0
            for j in range(len(v)):
                inner += sums[j] * following[j]
            half = 0.5 * tau * inner
            for j in range(len(v)):
                w[j] = tau * (sums[j] - half * following[j])
            for j in range(len(v)):
                v[j] = following[j]
            one, other = v[at], w[at]
            for j in range(len(v)):
                row[j] -= one * w[j] + other * v[j]
        bands[0, k] = row[at]
        if k == n - 2:
            bands[1, k] = row[at + 1]
        for j in range(len(v)):
            sums[j] = 0.0
        for j in range(len(v)):
            following[j] = 0.0
        if k < n - 2:  # the next reflection, which maps the rest of the row to (beta, 0, ...)
            head, rest = row[at + 1], 0.0
            for j in range(at + 2):
                row[j] = 0.0
            for j in range(len(v)):
                rest += row[j] * row[j]
            beta, share = head, 0.0
            if rest >= _NOTHING * _NOTHING:
                beta = -np.copysign(np.sqrt(head * head + rest), head)
                share, bands[2, k] = 1.0 / (head - beta), (beta - head) / beta
            bands[1, k] = beta
            for j in range(len(v)):
                following[j] = share * row[j]
            following[at + 1] = 1.0
            target = reflectors[k, start:]
            for j in range(len(v)):
                target[j] = following[j]
        for j in range(len(v)):
            after[j] = following[j]
        for left in range((k + 1) // _STRIDE * _STRIDE, n, _STRIDE):
            here = vectors[left:]
            for j in range(_AFTER, _AFTER + _STRIDE):  # so that nothing in the block counts twice
                here[j] = 0.0
            for i in range(max(left, (k + 1) // 4 * 4), min(left + _STRIDE, n), 4):
                rows, at = work[i * _ROW + left :], i - left
                va, vb = here[at], here[at + 1]
                vc, vd = here[at + 2], here[at + 3]
                wa, wb = here[_W + at], here[_W + at + 1]
                wc, wd = here[_W + at + 2], here[_W + at + 3]
                fa, fb = here[_NEXT + at], here[_NEXT + at + 1]
                fc, fd = here[_NEXT + at + 2], here[_NEXT + at + 3]
                ta = tb = tc = td = 0.0
                for j in range(width - left):
                    x, y, z = here[j], here[_W + j], here[_AFTER + j]
                    a = rows[j] - (va * y + wa * x)
                    b = rows[_ROW + j] - (vb * y + wb * x)
                    c = rows[2 * _ROW + j] - (vc * y + wc * x)
                    d = rows[3 * _ROW + j] - (vd * y + wd * x)
                    rows[j], rows[_ROW + j] = a, b
                    rows[2 * _ROW + j], rows[3 * _ROW + j] = c, d
                    ta, tb = ta + a * z, tb + b * z
                    tc, td = tc + c * z, td + d * z
                    here[_SUMS + j] += fa * a + fb * b + fc * c + fd * d
                here[_SUMS + at] += ta
                here[_SUMS + at + 1] += tb
                here[_SUMS + at + 2] += tc
                here[_SUMS + at + 3] += td
        for j in range(k + 1 - start):  # rows above, which were changed with those of their four
            sums[j] = 0.0
    return scale, bands, reflectors


@long_kernel
def turn_back(reflectors: Array, bands: Array, vectors: Array, many: int) -> None:
    """Apply the reflections of ``tridiagonalise``, last first, to ``many`` rows in place.

    Two at a time, so that every row is read half as often: with a = tau v.x of the first, the
    second's is tau' (v'.x - a v'.v). Cost O(n^3).
    """
    k, taus = len(reflectors) - 3, bands[2]
    while k >= 0:
        pair = k > 0
        start = (k if pair else k + 1) // _STRIDE * _STRIDE
        v = reflectors[k, start:]
        other = reflectors[k - 1, start:] if pair else v
        tau, other_tau, crossed = taus[k], taus[k - 1] if pair else 0.0, 0.0
        for j in range(len(v)):
            crossed += v[j] * other[j]
        for i in range(min(many, len(vectors))):
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


@part
def padded(n: int) -> int:
    """Round n up to a multiple of the stride."""
    return (n + _STRIDE - 1) // _STRIDE * _STRIDE
