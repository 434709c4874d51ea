"""The eigenvectors of a sketch that has grown by one row, without starting from scratch."""

import numpy as np

from fedbandit.core.compiler import kernel, kernel_or
from fedbandit.core.linalg import Array

_EPSILON = 2.220446049250313e-16
_MOST_STEPS = 60
_CLOSE = 1e-9


def arrowhead_eigh_numpy(squares: Array, crossed: Array, corner: float) -> tuple[Array, Array]:
    """Return the same by LAPACK, which knows nothing of the arrow. Cost O(n^3)."""
    n = len(squares)
    matrix = np.diag(np.append(squares, corner))
    matrix[n, :n] = matrix[:n, n] = crossed
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], np.ascontiguousarray(vectors.T[::-1])


@kernel_or(arrowhead_eigh_numpy)
def arrowhead_eigh(squares: Array, crossed: Array, corner: float) -> tuple[Array, Array]:
    """Return eigenvalues, largest first, and eigenvectors, as rows, of an arrowhead matrix.

    The matrix is [[diag(s), z], [z^T, a]] with s = ``squares`` (n > 0 of them, decreasing),
    z = ``crossed`` and a = ``corner``, and must be positive semidefinite: the Gram matrix of n
    orthogonal rows and one more. Its eigenvalues interlace with s.

    Eigenvectors are those of the nearby matrix of which the computed roots are the exact
    eigenvalues (Gu and Eisenstat 1995), and so are orthogonal to working precision. Poles that
    coincide are moved apart, and weights that vanish are raised, by a unit of rounding.

    Cost O(n^2): some five steps of n divisions for each eigenvalue.
    """
    n = len(squares)
    rounding = _EPSILON * (squares[0] + corner)
    poles = squares.copy()
    for j in range(1, n):
        poles[j] = min(poles[j], poles[j - 1] - rounding)
    weights = np.maximum(crossed * crossed, rounding * rounding)
    values, vectors = np.empty(n + 1), np.empty((n + 1, n + 1))
    for i in range(n + 1):
        top = poles[i - 1] if i > 0 else poles[0] + corner + rounding
        bottom = poles[i] if i < n else min(poles[n - 1], 0.0) - 2.0 * (n + 1) * rounding
        near, root = _secular_root(poles, weights, corner, i, bottom, top)
        values[i] = poles[near] + root
        for j in range(n):
            vectors[i, j] = root - (poles[j] - poles[near])
    exact = np.abs(vectors[n, :n])
    for i in range(n):
        for j in range(n):
            exact[j] *= abs(vectors[i, j] / (poles[i] - poles[j] if i != j else 1.0))
    exact = np.sqrt(exact) * np.where(crossed < 0.0, -1.0, 1.0)
    for i in range(n + 1):
        square = 1.0
        for j in range(n):
            vectors[i, j] = exact[j] / vectors[i, j]
            square += vectors[i, j] * vectors[i, j]
        vectors[i, n] = 1.0
        vectors[i] /= np.sqrt(square)
    return values, vectors


@kernel
def _secular_root(
    poles: Array, weights: Array, corner: float, i: int, bottom: float, top: float
) -> tuple[int, float]:
    """Return the root of mu - a - sum w_j / (mu - p_j) between two poles, and its nearest pole.

    The root is returned as its distance from that pole, which keeps all its digits. At each
    step the near pole stays as it is and the rest of the equation is replaced by its tangent: that
    leaves a quadratic to solve. A step out of the bracket becomes a bisection.
    """
    middle = 0.5 * (top + bottom)
    value = middle - corner
    for j in range(len(poles)):
        value -= weights[j] / (middle - poles[j])
    near = i - 1 if i == len(poles) or (value <= 0.0 and i > 0) else i
    side = 1.0 if near == i else -1.0
    origin, weight = poles[near], weights[near]
    low = (bottom if value > 0.0 else middle) - origin
    high = (middle if value > 0.0 else top) - origin
    root = 0.5 * (low + high)
    for _ in range(_MOST_STEPS):
        total, slope = 0.0, 0.0
        for j in range(len(poles)):
            inverse = 1.0 / (root - (poles[j] - origin))
            total += weights[j] * inverse
            slope += weights[j] * inverse * inverse
        value = origin - corner + root - total
        if value > 0.0:
            high = root
        else:
            low = root
        pole = weight / root
        tangent = 1.0 + slope - pole / root
        half = 0.5 * side * (value + pole - tangent * root)
        reach = np.sqrt(half * half + tangent * weight)
        step = side * (weight / (half + reach) if half > 0.0 else (reach - half) / tangent)
        inside = low <= step <= high
        if abs(step - root) <= _CLOSE * abs(root):  # quadratic: one more is exact to rounding
            root = step if inside else root
            break
        root = step if inside else 0.5 * (low + high)
    return near, root


@kernel
def shed_one(rows: Array, squares: Array) -> tuple[int, Array, float]:
    """Make l - 1 orthogonal rows of l - 1 such rows and one more, in place; shed the rest.

    As ``linalg.shrink``, where all rows but the last are orthogonal with decreasing squared norms
    ``squares``: a rank-one update in O(l^2) and a rotation in O(l^2 d). Returns how many rows are
    kept, largest first, their squared norms and what was shed.
    """
    n = len(rows) - 1
    crossed = np.dot(rows, rows[n])
    values, vectors = arrowhead_eigh(squares, crossed[:n], crossed[n])
    delta = max(values[n], 0.0)
    floor = max(delta, values[0] * (n + 1) * _EPSILON)
    kept = 0
    while kept < n and values[kept] > floor:
        vectors[kept] *= np.sqrt(1.0 - delta / values[kept])
        kept += 1
    shed = max(delta, values[kept]) if kept < n else delta
    rows[:kept] = np.dot(vectors[:kept], rows)
    norms = np.empty(kept)
    for i in range(kept):
        norms[i] = np.dot(rows[i], rows[i])
    return kept, norms, shed
