"""The leading eigenpairs of a small symmetric matrix, where they are well apart.

The matrix is made tridiagonal (``tridiagonal.py``). Counting eigenvalues above many points at once
(Sturm sequences) brackets each of those that are wanted; Rayleigh quotient iteration makes them
exact, with vectors from a factorisation from both ends at once, twisted at the row where the
eigenvector is largest (Parlett and Dhillon 1997). All wanted eigenvalues advance together, which is
what compiled loops do fast. Vectors are then made orthogonal once, which takes care of eigenvalues
that are close. Where brackets cannot be told apart, or something does not converge, another method
has to be used (``eigh.py``).
"""

import numpy as np

from fedbandit.core.kernels.compiler import long_kernel, part
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.tridiagonal import Form, padded, turn_back

_EPSILON = 2.220446049250313e-16
_TINY = 1e-60  # least size of a pivot, in a matrix whose largest entry is 1
_POINTS = 96  # at which eigenvalues are counted first
_MOST_HALVINGS = 30  # of a bracket
_APART = 8.0  # brackets have to be so many times their width apart from the next
_MOST_STEPS = 8  # of Rayleigh quotient iteration
_ALIKE = 1e-3  # largest cosine of two vectors that are made orthogonal


def separate_eigenpairs(form: Form, count: int) -> tuple[Array, Array] | None:
    """Return the first count + 1 eigenvalues (n at most), largest first, and ``count`` vectors.

    They are those of the positive semidefinite matrix (n x n) that was made tridiagonal.
    Eigenvalues that are rounding error, below n epsilon / 2 times the largest, are returned as that
    bound, their vectors as 0. None if eigenvalues are too close to each other.
    """
    scale, bands, reflectors = form
    ends, floor, found = brackets.run(bands, min(count + 1, len(reflectors)))
    sound, values, vectors = polished.run(bands, ends, found, floor, scale, count)
    if not sound:
        return None
    turn_back.run(reflectors, bands, vectors, found)
    return values, vectors[:, : len(reflectors)]


@part
def count_above(
    diagonal: Array, squares: Array, points: Array, above: Array, pivots: Array
) -> None:
    """Count the eigenvalues of a tridiagonal matrix above each of some points."""
    n = len(diagonal)
    for j in range(len(points)):
        above[j] = 0.0
        pivots[j] = 1.0
    for i in range(n):
        entry, square = diagonal[i], squares[i]
        for j in range(len(points)):
            pivot = entry - points[j] - square / pivots[j]
            pivot = pivot if abs(pivot) > _TINY else -_TINY
            pivots[j] = pivot
            above[j] += 1.0 if pivot > 0.0 else 0.0


@long_kernel
def brackets(bands: Array, wanted: int) -> tuple[Array, float, int]:
    """Return intervals with one eigenvalue each, largest first, and how many there are.

    The lower ends are the first row of the result, the upper ends the second.

    Eigenvalues that are at most ``floor``, the bound on rounding errors, are left out. -1 if two of
    the others cannot be told apart.
    """
    diagonal, beside = bands[0], bands[1]
    n = len(diagonal)
    squares = np.zeros(n)
    top, total = 0.0, 0.0
    for i in range(n):
        total += diagonal[i] + beside[i]
        reach = abs(beside[i]) + (abs(beside[i - 1]) if i > 0 else 0.0)
        top = max(top, diagonal[i] + reach)
        if i > 0:
            squares[i] = beside[i - 1] * beside[i - 1]
    lanes = min(wanted + 1, n)  # the next one too: brackets have to be apart from it
    points, above, pivots = np.empty(_POINTS), np.empty(_POINTS), np.empty(_POINTS)
    for j in range(_POINTS):
        points[j] = top * (j + 1) / _POINTS
    points[_POINTS - 1] = top * (1.0 + 4.0 * n * _EPSILON)
    count_above(diagonal, squares, points, above, pivots)
    ends = np.zeros((2, lanes))
    low, high = ends[0], ends[1]
    for k in range(lanes):
        high[k] = points[_POINTS - 1]
        for j in range(_POINTS - 1):
            if above[j] > k:
                low[k] = points[j]
            else:
                high[k] = points[j]
                break
    floor, found = 0.5 * n * _EPSILON * high[0], lanes
    middle, above, pivots = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    for k in range(lanes):
        middle[k] = floor
    for halvings in range(_MOST_HALVINGS if np.isfinite(total) else 0):
        count_above(diagonal, squares, middle, above, pivots)
        if halvings == 0:
            found = min(lanes, int(above[0]))
        for k in range(found):
            if above[k] > k:
                low[k] = max(low[k], middle[k])
            else:
                high[k] = middle[k]
        if are_apart(low, high, found, floor if found < lanes else -np.inf):
            return ends, floor, min(found, wanted)
        for k in range(lanes):
            middle[k] = 0.5 * (low[k] + high[k])
    return ends, floor, -1


@part
def are_apart(low: Array, high: Array, found: int, floor: float) -> bool:
    """Say whether intervals are far from each other and the floor, compared with their widths."""
    if found > 0 and low[found - 1] - floor < _APART * (high[found - 1] - low[found - 1]):
        return False
    for k in range(found - 1):
        width = max(high[k] - low[k], high[k + 1] - low[k + 1])
        if low[k] - high[k + 1] < _APART * width:
            return False
    return True


@long_kernel
def polished(
    bands: Array, ends: Array, lanes: int, floor: float, scale: float, count: int
) -> tuple[bool, Array, Array]:
    """Make eigenvalues exact; return whether that worked, all values, and unit vectors.

    ``lanes`` eigenvalues lie in the brackets (-1: it is not known), the others are at most
    ``floor``. Values, one more than ``count`` vectors unless there are no more, are multiplied by
    ``scale``. Rows of vectors are padded with zeros to a multiple of the stride.
    """
    diagonal, beside = bands[0], bands[1]
    low, high = ends[0], ends[1]
    n = len(diagonal)
    values, vectors = np.empty(min(count + 1, n)), np.zeros((count, padded(n)))
    for j in range(len(values)):
        values[j] = scale * floor
    if lanes <= 0:
        return lanes == 0, values, vectors
    down, up, z = np.empty((n, lanes)), np.empty((n, lanes)), np.empty((n, lanes))
    roots = np.empty(lanes)
    least, at, norms = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    for j in range(lanes):
        roots[j] = 0.5 * (low[j] + high[j])
    close, worst = 4.0 * _EPSILON * high[0], 0.0
    for _ in range(_MOST_STEPS):
        twisted(diagonal, beside, roots, down, up, least, at)
        from_twist(down, up, at, z, norms)
        worst = 0.0
        for j in range(lanes):
            worst = max(worst, abs(least[j]) / np.sqrt(norms[j]))
            roots[j] += least[j] / norms[j]
        if not worst > close:
            break
    for j in range(lanes):
        if not (worst <= close and low[j] - close <= roots[j] <= high[j] + close):
            return False, values, vectors
        values[j] = scale * roots[j]
    for j in range(min(lanes, count)):
        row, length = vectors[j], 1.0 / np.sqrt(norms[j])
        for i in range(n):
            row[i] = z[i, j] * length
    return made_orthogonal(vectors[:lanes]), values, vectors


@part
def twisted(
    diagonal: Array, beside: Array, roots: Array, down: Array, up: Array, least: Array, at: Array
) -> None:
    """Factorise T - root I from both ends, for every root.

    ``down`` and ``up`` (n x roots) get beside / pivot, for the pivots from the first row on and
    from the last; ``at`` the row where the two together leave the least pivot, ``least`` that one.
    """
    n, lanes = len(diagonal), len(roots)
    pivots = np.empty((n, lanes))
    last = np.empty(lanes)
    for j in range(lanes):
        last[j] = 0.0
    for i in range(n):
        entry, before, after = diagonal[i], beside[i - 1] if i > 0 else 0.0, beside[i]
        mine, ratio = pivots[i], down[i]
        for j in range(lanes):
            pivot = entry - roots[j] - before * last[j]
            pivot = pivot if abs(pivot) > _TINY else -_TINY
            mine[j] = pivot
            last[j] = after / pivot
            ratio[j] = last[j]
    for j in range(lanes):
        last[j], least[j], at[j] = 0.0, np.inf, 0.0
    for i in range(n - 1, -1, -1):
        entry, before, after = diagonal[i], beside[i - 1] if i > 0 else 0.0, beside[i]
        mine, ratio, row = pivots[i], up[i], float(i)
        for j in range(lanes):
            change = after * last[j]
            both = mine[j] - change
            smaller = abs(both) < abs(least[j])
            least[j] = both if smaller else least[j]
            at[j] = row if smaller else at[j]
            pivot = entry - roots[j] - change
            pivot = pivot if abs(pivot) > _TINY else -_TINY
            last[j] = before / pivot
            ratio[j] = last[j]


@part
def from_twist(down: Array, up: Array, at: Array, z: Array, norms: Array) -> None:
    """Fill in z (n x roots), with 1 at the row of the twist, and the squares of its columns."""
    n, lanes = z.shape
    last = np.zeros(lanes)
    for j in range(lanes):
        norms[j] = 0.0
    for i in range(n):  # from the twist to the last row
        row, mine, ratio = float(i), z[i], up[i]
        for j in range(lanes):
            entry = -ratio[j] * last[j]
            entry = 1.0 if row == at[j] else entry
            last[j] = entry if row >= at[j] else 0.0
            mine[j] = last[j]
            norms[j] += last[j] * last[j]
    for j in range(lanes):
        last[j] = 0.0
    for i in range(n - 1, -1, -1):  # from the twist to the first row
        row, mine, ratio = float(i), z[i], down[i]
        for j in range(lanes):
            entry = -ratio[j] * last[j]
            entry = entry if row < at[j] else 0.0
            norms[j] += entry * entry
            mine[j] += entry
            last[j] = 1.0 if row == at[j] else entry


@part
def made_orthogonal(vectors: Array) -> bool:
    """Make unit rows that are nearly orthogonal so to working precision, in place.

    Rows are padded with zeros. False if two of them are alike.
    """
    for i in range(len(vectors)):
        one = vectors[i]
        for j in range(i):
            other = vectors[j]
            along = 0.0
            for k in range(len(one)):
                along += one[k] * other[k]
            if not abs(along) < _ALIKE:
                return False
            for k in range(len(one)):
                one[k] -= along * other[k]
        square = 0.0
        for k in range(len(one)):
            square += one[k] * one[k]
        length = 1.0 / np.sqrt(square)
        for k in range(len(one)):
            one[k] *= length
    return True
