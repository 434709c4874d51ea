"""Eigenvalues and eigenvectors of small symmetric matrices, in half of LAPACK's time.

Every upload and every merge needs the leading eigenvectors of 40 to 100 rows, and with
cadence="paper" so does every observation, for a sketch with one more row. At these sizes LAPACK is
far slower than the machine allows: whole runs take 23 to 28 % longer with it. This code is faster
because its loops run along rows, which are contiguous in memory, and because it computes only the
eigenvectors that are kept. Without a compiler, and for larger matrices, LAPACK is used.
"""

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.arrowhead import arrowhead_eigh
from fedbandit.core.kernels.compiler import COMPILES, long_kernel, part
from fedbandit.core.kernels.leading import separate_eigenpairs
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.tridiagonal import (
    LARGEST_SIDE,
    Form,
    padded,
    tridiagonalise,
    turn_back,
)

_EPSILON = 2.220446049250313e-16
_MOST_STEPS = 60  # of an iteration, before it is given up
_NOTHING = 1e-50  # counts as 0 in a matrix whose largest entry is 1; its square does not underflow


def leading_eigenpairs(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return the first eigenvalues, largest first, and the first eigenvectors as rows (count x n).

    The matrix (n x n) is symmetric and positive semidefinite. There is one value more than vectors,
    unless count = n; there may be more. Values that are mere rounding errors, at most n epsilon
    times the largest, may be larger than they are, and their vectors 0. Cost O(n^3).
    """
    if COMPILES and 2 < len(matrix) <= LARGEST_SIDE:
        form = tridiagonalise.run(matrix)
        pairs = separate_eigenpairs(form, count) or halved_eigenpairs(form, count)
        if pairs is not None:
            return pairs
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], np.ascontiguousarray(vectors.T[::-1][:count])


def halved_eigenpairs(form: Form, count: int) -> tuple[Array, Array] | None:
    """Return all n eigenvalues and ``count`` vectors of a tridiagonal matrix with n > 2.

    None if something does not converge. See ``leading_eigenpairs`` for what they are.
    """
    scale, bands, reflectors = form
    values, vectors = halved.run(bands.copy(), count)
    if not np.isfinite(values.sum()):
        return None
    turn_back.run(reflectors, bands, vectors, count)
    return scale * values, vectors[:, : len(reflectors)]


@long_kernel
def halved(bands: Array, count: int) -> tuple[Array, Array]:
    """Return eigenvalues and, as padded rows, eigenvectors; a value is NaN if QL did not converge.

    The matrix is split at its middle row into two halves, which are solved by QL, in place. In the
    basis of the halves' eigenvectors it is an arrowhead (Gu and Eisenstat 1995). One product takes
    the arrowhead's leading eigenvectors back.
    """
    diagonal, beside = bands[0], bands[1]
    n = len(diagonal)
    middle = n // 2
    left, right = beside[middle - 1], beside[middle]
    upper = ql_iterations(diagonal[:middle], beside[:middle])
    lower = ql_iterations(diagonal[middle + 1 :], beside[middle + 1 :])
    order = decreasing(diagonal, middle)
    poles, crossed = np.empty(n - 1), np.empty(n - 1)
    for j in range(n - 1):
        at = order[j]
        poles[j] = diagonal[at]
        if at < middle:
            crossed[j] = left * upper[at, middle - 1]
        else:
            crossed[j] = right * lower[at - middle - 1, 0]
    values, turned = arrowhead_eigh(poles, crossed, diagonal[middle], count)
    vectors = np.zeros((count, padded(n)))
    above, below = np.empty((count, middle)), np.empty((count, n - 1 - middle))
    for i in range(count):
        vectors[i, middle] = turned[i, n - 1]
        for j in range(n - 1):
            if order[j] < middle:
                above[i, order[j]] = turned[i, j]
            else:
                below[i, order[j] - middle - 1] = turned[i, j]
    place(np.dot(above, upper), vectors, 0)
    place(np.dot(below, lower), vectors, middle + 1)
    return values, vectors


@part
def place(block: Array, into: Array, start: int) -> None:
    """Copy a block to the columns from ``start`` on."""
    for i in range(block.shape[0]):
        row, target = block[i], into[i, start:]
        for j in range(len(row)):
            target[j] = row[j]


@part
def decreasing(diagonal: Array, middle: int) -> NDArray[np.int64]:
    """Return the indices of all entries but the middle one, by decreasing entry."""
    order = np.empty(len(diagonal) - 1, dtype=np.int64)
    filled = 0
    for at in range(len(diagonal)):
        if at == middle:
            continue
        slot = filled
        while slot > 0 and diagonal[order[slot - 1]] < diagonal[at]:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = at
        filled += 1
    return order


@part
def ql_iterations(diagonal: Array, beside: Array) -> Array:
    """Make a tridiagonal matrix diagonal, in place, by implicitly shifted QL.

    Returns the eigenvectors as rows (n x n), in the order of the diagonal. Entries must be at most
    about 1; those below ``_NOTHING`` count as 0. An eigenvalue that does not converge becomes NaN.
    Cost O(n^3).
    """
    n = len(diagonal)
    vectors = np.zeros((n, padded(n)))
    for i in range(n):
        vectors[i, i] = 1.0
    for first in range(n):
        steps = 0
        while True:
            last = first
            while last < n - 1:
                size = abs(diagonal[last]) + abs(diagonal[last + 1])
                if abs(beside[last]) <= max(_EPSILON * size, _NOTHING):
                    break
                last += 1
            if last == first:
                break
            if steps == _MOST_STEPS:
                diagonal[first] = np.nan
                break
            ql_sweep(diagonal, beside, vectors, first, last)
            steps += 1
    trimmed = np.empty((n, n))
    place(vectors[:, :n], trimmed, 0)
    return trimmed


@part
def ql_sweep(diagonal: Array, beside: Array, vectors: Array, first: int, last: int) -> None:
    """Chase a rotation from the end of an unreduced block up to its start.

    With Wilkinson's shift the first entry beside the diagonal vanishes after one to two sweeps. A
    rotation that vanishes on the way splits the block, and the next sweep starts there. Rotations
    are applied to the vectors two at a time (``waiting``: one is held back), in a fifth less time.
    """
    gap = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first])
    reach = gap + np.copysign(np.sqrt(gap * gap + 1.0), gap)
    bulge = diagonal[last] - diagonal[first] + beside[first] / reach
    sine, cosine, moved = 1.0, 1.0, 0.0
    waiting, held_cosine, held_sine = False, 1.0, 0.0
    for i in range(last - 1, first - 1, -1):
        chased, kept = sine * beside[i], cosine * beside[i]
        norm = np.sqrt(chased * chased + bulge * bulge)
        beside[last] = 0.0
        if norm < _NOTHING:
            beside[i + 1] = 0.0
            diagonal[i + 1] -= moved
            if waiting:
                rotate(vectors[i + 1], vectors[i + 2], held_cosine, held_sine)
            return
        if i + 1 < last:
            beside[i + 1] = norm
        sine, cosine = chased / norm, bulge / norm
        before = diagonal[i + 1] - moved
        turned = (diagonal[i] - before) * sine + 2.0 * cosine * kept
        moved = sine * turned
        diagonal[i + 1] = before + moved
        bulge = cosine * turned - kept
        if waiting:
            three = vectors[i], vectors[i + 1], vectors[i + 2]
            rotate_twice(three, held_cosine, held_sine, cosine, sine)
        else:
            held_cosine, held_sine = cosine, sine
        waiting = not waiting
    if waiting:
        rotate(vectors[first], vectors[first + 1], held_cosine, held_sine)
    diagonal[first] -= moved
    beside[first] = bulge


@part
def rotate(one: Array, other: Array, cosine: float, sine: float) -> None:
    """Rotate two rows into each other, in place."""
    for j in range(len(one)):
        upper, lower = one[j], other[j]
        one[j] = cosine * upper - sine * lower
        other[j] = sine * upper + cosine * lower


@part
def rotate_twice(
    rows: tuple[Array, Array, Array],
    cosine: float,
    sine: float,
    next_cosine: float,
    next_sine: float,
) -> None:
    """Rotate the second and third row into each other, then the first and second, in place."""
    one, two, three = rows
    for j in range(len(one)):
        upper, middle, lower = one[j], two[j], three[j]
        three[j] = sine * middle + cosine * lower
        turned = cosine * middle - sine * lower
        two[j] = next_sine * upper + next_cosine * turned
        one[j] = next_cosine * upper - next_sine * turned
