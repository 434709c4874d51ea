"""Linear algebra with sketches and Gram matrices.

A sketch is S (``rows``, k x d) with orthogonal rows of squared norms s (``squares``, k), and stands
for the matrix V = cI + S^T S with c = ``ridge``. Determinant, inverse and widths of V follow from
k numbers and products with S; no d x d array is formed. ``arms`` is K x d, x is one arm (d).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.compiler import kernel_or

Array = NDArray[np.float64]

LARGEST: Final = 1e140
"""Upper limit of |x|^2 and of |r x|^2 for an observation, so that sums of squares stay finite."""


def read_only(array: Array) -> Array:
    """Return a view of an array that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def triangle_of(rows: Array, gram: Array | None = None) -> Array:
    """Return d rows with the Gram matrix of m > d rows (m x d). Cost O(m d^2).

    By Cholesky, or QR if the rows do not span all d directions. ``gram``: their Gram matrix, if it
    is known.
    """
    try:
        whole = rows.T @ rows if gram is None else gram
        return np.asarray(np.linalg.cholesky(whole).T, dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.qr(rows, mode="r"), dtype=np.float64)


def sketch_logdet(squares: Array, ridge: float, dimension: int) -> float:
    """Return log det(cI + S^T S) = (d - k) log c + sum log(c + s_i). Cost O(k)."""
    rest = dimension - len(squares)
    return rest * float(np.log(ridge)) + float(np.log(squares + ridge).sum())


def sketch_solve(rows: Array, squares: Array, ridge: float, y: Array) -> Array:
    """Return (cI + S^T S)^{-1} y = (y - S^T ((S y) / (s + c))) / c. Cost O(k d)."""
    solved: Array = (y - (rows.dot(y) / (squares + ridge)).dot(rows)) / ridge
    return solved


def sketch_squared_widths(rows: Array, squares: Array, ridge: float, arms: Array) -> Array:
    """Return x^T (cI + S^T S)^{-1} x = (|x|^2 - sum (S x)_i^2 / (s_i + c)) / c for every arm.

    Cost O(K k d): one product of the arms with the sketch.
    """
    projected = arms @ rows.T
    explained = (projected * projected) @ (1.0 / (squares + ridge))
    return np.maximum(row_products(arms, arms) - explained, 0.0) / ridge


def spd_inverse(matrix: Array, ridge: float) -> tuple[Array, float]:
    """Return (A + cI)^{-1} and log det(A + cI) for a positive semidefinite A (d x d). Cost O(d^3).

    If rounding errors make A + cI indefinite, eigenvalues below c are raised to c, their least
    possible value.
    """
    raised = matrix + ridge * np.eye(len(matrix))
    try:
        root = np.linalg.cholesky(raised)
        inverse: Array = np.linalg.inv(raised).astype(np.float64, copy=False)
        return 0.5 * (inverse + inverse.T), 2.0 * float(np.log(root.diagonal()).sum())
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values, 0.0) + ridge
        return (vectors / values) @ vectors.T, float(np.log(values).sum())


def psd_root(matrix: Array) -> Array:
    """Return R with R R^T = A for a positive semidefinite A (n x n). Cost O(n^3).

    By Cholesky, or by eigenvalues, those below 0 raised to it, if A is singular.
    """
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan)
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), dtype=np.float64)


def inverse_square(rows: Array, diagonal: Array, y: Array) -> float:
    """Return y^T (S^T S + diag)^-1 y, for rows S that need not be orthogonal.

    By Woodbury's identity, in O(k^2 d + k^3) for k rows. ``diagonal`` (d) must be above 0.
    """
    scaled = y / diagonal
    whole, along = float(y @ scaled), rows @ scaled
    joint = np.eye(len(rows)) + (rows / diagonal) @ rows.T
    return max(0.0, whole - float(along @ np.linalg.solve(joint, along))) if len(rows) else whole


def row_products_numpy(one: Array, other: Array) -> Array:
    """Return <x, y> for the rows x and y of two matrices. Cost O(K d)."""
    products: Array = np.einsum("kd,kd->k", one, other)
    return products


@kernel_or(row_products_numpy)
def row_products(one: Array, other: Array) -> Array:
    """Return <x, y> for the rows x and y of two matrices. Cost O(K d)."""
    products = np.zeros(len(one))
    for k in range(len(one)):
        for i in range(one.shape[1]):
            products[k] += one[k, i] * other[k, i]
    return products


def fits(x: Array, reward: float) -> bool:
    """Say whether an observation is small enough for its squares, see ``LARGEST``."""
    return bool(x.dot(x) * max(1.0, reward * reward) < LARGEST)


def append_row_numpy(rows: Array, filled: int, moment: Array, x: Array, reward: float) -> float:
    """Do what ``append_row`` does, by numpy."""
    square = float(x.dot(x))
    if not square * max(1.0, reward * reward) < LARGEST:
        return -1.0
    rows[filled] = x
    moment += reward * x
    return square


@kernel_or(append_row_numpy)
def append_row(rows: Array, filled: int, moment: Array, x: Array, reward: float) -> float:
    """Write x to rows[filled], add reward x to the moment, and return |x|^2. Cost O(d).

    Returns -1, and writes nothing, if the observation's squares could overflow.
    """
    square = 0.0
    for i in range(len(x)):
        square += x[i] * x[i]
    if not square * max(1.0, reward * reward) < LARGEST:
        return -1.0
    for i in range(len(x)):
        rows[filled, i] = x[i]
        moment[i] += reward * x[i]
    return square


def absorb_into_gram_numpy(
    matrix: Array, inverse: Array, moment: Array, x: Array, reward: float
) -> float:
    """Do what ``absorb_into_gram`` does, by numpy."""
    if not fits(x, reward):
        return -1.0
    solved = inverse @ x
    gain = max(float(x @ solved), 0.0)
    matrix += np.outer(x, x)
    inverse -= np.outer(solved, solved / (1.0 + gain))
    moment += reward * x
    return gain


@kernel_or(absorb_into_gram_numpy)
def absorb_into_gram(
    matrix: Array, inverse: Array, moment: Array, x: Array, reward: float
) -> float:
    """Add x x^T to ``matrix`` and to V, reward x to ``moment``; return x^T V^{-1} x. Cost O(d^2).

    ``inverse`` is V^{-1} (d x d), updated by Sherman-Morrison; all arrays change in place. log det
    V grows by log(1 + the result), for V before the update. Returns -1, and changes nothing, if the
    observation's squares could overflow.
    """
    if not np.dot(x, x) * max(1.0, reward * reward) < LARGEST:
        return -1.0
    solved = np.dot(inverse, x)
    gain: float = max(np.dot(x, solved), 0.0)
    for i in range(len(x)):
        moment[i] += reward * x[i]
        scaled = solved[i] / (1.0 + gain)
        for j in range(len(x)):
            matrix[i, j] += x[i] * x[j]
            inverse[i, j] -= scaled * solved[j]
    return gain


def skew_numpy(rows: Array) -> tuple[float, float]:
    """Return what ``skew`` does, by numpy."""
    products = rows @ rows.T
    beside = np.abs(products - np.diag(products.diagonal()))
    return float(products.max(initial=0.0)), float(beside.max(initial=0.0))


@kernel_or(skew_numpy)
def skew(rows: Array) -> tuple[float, float]:
    """Return the largest squared norm of a row, and the largest |<x, y>| of two rows (k x d).

    The first is NaN if an entry is NaN. Cost O(k^2 d).
    """
    square, product, everything = 0.0, 0.0, 0.0
    for i in range(len(rows)):
        one = rows[i]
        for j in range(i + 1):
            other = rows[j]
            along = 0.0
            for k in range(len(one)):
                along += one[k] * other[k]
            if j < i:
                product = max(product, abs(along))
            else:
                square = max(square, along)
                everything += along
    return (everything if np.isnan(everything) else square), product


def missing(bound: Array, lost: float) -> Array:
    """Return lost c / sum c, the estimate of the diagonal of what is missing (d)."""
    total = float(bound.sum())
    return bound * (lost / total) if total > 0.0 else bound


def rows_times_numpy(rows: Array, bound: Array, lost: float, y: Array) -> Array:
    """Return what ``rows_times`` does, by numpy."""
    return (rows @ y) @ rows + missing(bound, lost) * y


@kernel_or(rows_times_numpy)
def rows_times(rows: Array, bound: Array, lost: float, y: Array) -> Array:
    """Return (S^T S + diag(missing)) y for rows S (k x d), see ``missing``. Cost O(k d)."""
    d, total = len(y), 0.0
    for j in range(d):
        total += bound[j]
    share, result = lost / total if total > 0.0 else 1.0, np.empty(d)
    for j in range(d):
        result[j] = share * bound[j] * y[j]
    for i in range(len(rows)):
        row, along = rows[i], 0.0
        for j in range(d):
            along += row[j] * y[j]
        for j in range(d):
            result[j] += along * row[j]
    return result


def lie_within_numpy(numbers: Array, most: float, bound: Array, highest: float) -> bool:
    """Return what ``lie_within`` does, by numpy."""
    return bool((np.abs(numbers) < most).all() and ((bound >= 0.0) & (bound < highest)).all())


@kernel_or(lie_within_numpy)
def lie_within(numbers: Array, most: float, bound: Array, highest: float) -> bool:
    """Say whether numbers (k x d) are below ``most`` in size, bounds (d) from 0 to ``highest``."""
    outside = 0.0
    for i in range(numbers.shape[0]):
        for j in range(numbers.shape[1]):
            outside += 0.0 if abs(numbers[i, j]) < most else 1.0
    for j in range(len(bound)):
        outside += 0.0 if 0.0 <= bound[j] < highest else 1.0
    return outside == 0.0
