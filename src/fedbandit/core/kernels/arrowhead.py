"""Eigenpairs of an arrowhead matrix: what a sketch needs when one row is added to it."""

import numpy as np

from fedbandit.core.kernels.compiler import kernel_or, part
from fedbandit.core.kernels.linalg import Array

_EPSILON = 2.220446049250313e-16
_MOST_STEPS = 60
_CLOSE = 1e-9


def arrowhead_eigh_numpy(
    squares: Array, crossed: Array, corner: float, count: int
) -> tuple[Array, Array]:
    """Return what ``arrowhead_eigh`` does, by LAPACK on the dense matrix. Cost O(n^3)."""
    n = len(squares)
    matrix = np.diag(np.append(squares, corner))
    matrix[n, :n] = matrix[:n, n] = crossed
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], np.ascontiguousarray(vectors.T[::-1][:count])


@kernel_or(arrowhead_eigh_numpy)
def arrowhead_eigh(
    squares: Array, crossed: Array, corner: float, count: int
) -> tuple[Array, Array]:
    """Return all eigenvalues, largest first, and ``count`` eigenvectors, of an arrowhead matrix.

    The matrix is [[diag(s), z], [z^T, a]] with s = ``squares`` (n > 0 of them, decreasing),
    z = ``crossed`` and a = ``corner``, and must be positive semidefinite: the Gram matrix of n
    orthogonal rows and one more. Its eigenvalues interlace with s.

    Eigenvectors are those of the nearby matrix whose exact eigenvalues are the computed ones (Gu
    and Eisenstat 1995), so they are orthogonal to working precision. Equal entries of s are moved
    apart, and zeros in z raised, by a unit of rounding.

    Cost O(n^2): about five steps of n divisions for each eigenvalue.
    """
    n = len(squares)
    rounding = max(_EPSILON * (squares[0] + corner), 1e-150)  # so that its square is not 0
    poles = squares.copy()
    for j in range(1, n):
        poles[j] = min(poles[j], poles[j - 1] - rounding)
    weights = np.empty(n)
    for j in range(n):
        weights[j] = max(crossed[j] * crossed[j], rounding * rounding)
    values, vectors, offsets = np.empty(n + 1), np.empty((n + 1, n + 1)), np.empty(n)
    for i in range(n + 1):
        top = poles[i - 1] if i > 0 else poles[0] + corner + 2.0 * (n + 1) * rounding
        bottom = poles[i] if i < n else min(poles[n - 1], 0.0) - 2.0 * (n + 1) * rounding
        near, root = _secular_root(poles, weights, corner, i, bottom, top, offsets)
        values[i] = poles[near] + root
        for j in range(n):
            vectors[i, j] = root - offsets[j]
    exact = np.empty(n)
    for j in range(n):
        exact[j] = abs(vectors[n, j])
    for i in range(n):
        for j in range(n):
            exact[j] *= abs(vectors[i, j] / (poles[i] - poles[j] if i != j else 1.0))
    for j in range(n):
        exact[j] = np.sqrt(exact[j]) * (-1.0 if crossed[j] < 0.0 else 1.0)
    for i in range(count):
        square = 1.0
        for j in range(n):
            vectors[i, j] = exact[j] / vectors[i, j]
            square += vectors[i, j] * vectors[i, j]
        vectors[i, n] = 1.0
        length = np.sqrt(square)
        for j in range(n + 1):
            vectors[i, j] /= length
    return values, vectors[:count]


@part
def _secular_root(
    poles: Array,
    weights: Array,
    corner: float,
    i: int,
    bottom: float,
    top: float,
    offsets: Array,
) -> tuple[int, float]:
    """Return the root of mu - a - sum w_j / (mu - p_j) between two poles, and its nearest pole.

    The root is returned as its distance from that pole, which keeps all its digits; ``offsets`` is
    filled with the distances of all poles from it. Each step keeps the term of the near pole and
    replaces the rest of the equation by its tangent, which leaves a quadratic to solve. A step that
    leaves the bracket is replaced by a bisection. Cost O(n) a step.
    """
    middle = 0.5 * (top - bottom)  # relative to bottom: poles may be adjacent floats
    value = bottom - corner + middle
    for j in range(len(poles)):
        value -= weights[j] / (bottom - poles[j] + middle)
    near = i - 1 if i == len(poles) or (value <= 0.0 and i > 0) else i
    side = 1.0 if near == i else -1.0
    origin, weight = poles[near], weights[near]
    for j in range(len(poles)):
        offsets[j] = poles[j] - origin
    low = bottom - origin if value > 0.0 else bottom - origin + middle
    high = bottom - origin + middle if value > 0.0 else top - origin
    least, most, root = low, high, 0.5 * (low + high)
    weights[near] = 0.0  # its term would swamp the digits of the others
    for _ in range(_MOST_STEPS):
        total, slope = 0.0, 0.0
        for j in range(len(poles)):
            inverse = 1.0 / (root - offsets[j])
            total += weights[j] * inverse
            slope += weights[j] * inverse * inverse
        others, tangent = origin - corner + root - total, 1.0 + slope
        if others - weight / root > 0.0:
            high = root
        else:
            low = root
        half = 0.5 * side * (others - tangent * root)
        reach = np.sqrt(half * half + tangent * weight)
        step = side * (weight / (half + reach) if half > 0.0 else (reach - half) / tangent)
        if abs(step - root) <= _CLOSE * abs(root):  # quadratic: one more is exact to rounding
            step = min(max(step, least), most)
            root = step if step != 0.0 else root
            break
        root = step if low <= step <= high and step != 0.0 else 0.5 * (low + high)
    weights[near] = weight
    return near, root
