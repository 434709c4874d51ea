"""The arithmetic, as functions on arrays. Shapes: S is k x d, gram is m x m, arms is K x d.

A sketch stands for the matrix cI + S^T S, where the rows of S are mutually orthogonal with squared
norms s. Everything about that matrix then follows from k numbers and products with S; no d x d
array is ever formed.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.compiler import kernel, kernel_or

Array = NDArray[np.float64]

MARGIN: Final = 1e-9
"""What is closer than this counts as equal, wherever a comparison decides something.

With unit arms and ridge 1 the first choice is an exact tie, and with alpha = 1 so is the first
trigger. Rounding would then decide, and two correct programs would part ways.
"""


def read_only(array: Array) -> Array:
    """Return a view of an array that cannot be written through."""
    view = array.view()
    view.flags.writeable = False
    return view


def shrink(rows: Array, size: int) -> tuple[Array, float]:
    """Frequent Directions: make at most size - 1 orthogonal rows of m, and say what was shed.

    With the eigenvalues g_1 >= g_2 >= ... of rows rows^T (the squared singular values of rows) and
    delta = g_size (0 if there are fewer), the kept rows are sqrt(g_i - delta) v_i (paper, Alg. 1
    lines 7-10 and Alg. 2 lines 3-6). With fewer than ``size`` rows nothing is shed and the rows are
    only made orthogonal.

    Returns the rows, largest first, and what was shed: delta, or a little more where a direction
    is dropped because rounding has drowned it. Cost O(r^3 + r m d) with r = min(m, d): the smaller
    of rows rows^T and rows^T rows is factorised.
    """
    m, d = rows.shape
    values, vectors = np.linalg.eigh(rows @ rows.T if m <= d else rows.T @ rows)
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = min(m, d)
    delta = max(float(values[size - 1]), 0.0) if size <= rank else 0.0
    rounding = values[0] * rank * np.finfo(float).eps if rank else 0.0
    kept = int(np.count_nonzero(values[: size - 1] > max(delta, rounding)))
    shed = max(delta, float(values[kept])) if kept < min(size - 1, rank) else delta
    values, vectors = values[:kept], vectors[:, :kept]
    if m > d:
        return np.ascontiguousarray((vectors * np.sqrt(values - delta)).T), shed
    return (vectors * np.sqrt(1.0 - delta / values)).T @ rows, shed


def sketch_logdet(squares: Array, ridge: float, dimension: int) -> float:
    """Return log det(cI + S^T S) = (d - k) log c + sum log(c + s_i). Cost O(k)."""
    rest = dimension - len(squares)
    return rest * float(np.log(ridge)) + float(np.log(squares + ridge).sum())


def sketch_solve(rows: Array, squares: Array, ridge: float, y: Array) -> Array:
    """Return (cI + S^T S)^{-1} y = (y - S^T ((S y) / (s + c))) / c. Cost O(k d)."""
    return (y - ((rows @ y) / (squares + ridge)) @ rows) / ridge


def sketch_squared_widths(rows: Array, squares: Array, ridge: float, arms: Array) -> Array:
    """Return x^T (cI + S^T S)^{-1} x = (|x|^2 - sum (S x)_i^2 / (s_i + c)) / c for every arm.

    Cost O(K k d): one product of the arms with the sketch.
    """
    projected = arms @ rows.T
    explained = (projected * projected) @ (1.0 / (squares + ridge))
    return np.maximum(row_products(arms, arms) - explained, 0.0) / ridge


def sketch_growth(rows: Array, squares: Array, ridge: float, pending: Array, shed: float) -> float:
    """Return log det((c + p) I + S^T S + P^T P) - log det(cI + S^T S), the paper's trigger.

    P are the pending rows (n x d, orthogonal or not) and p is what they have shed. By the matrix
    determinant lemma, with c' = c + p and Q = S P^T, this is

        (d - k) log(c'/c) + sum log((s_i + c')/(s_i + c))
        + log det(I + (P P^T - Q^T diag(s + c')^{-1} Q)/c').

    With more rows than columns the whole matrix is taken as it is. Cost O((k + n) n d + n^3), or
    O((k + n) d^2 + d^3), where the paper's SVD of [S; P] costs O((k + n)^2 d).
    """
    n, d = pending.shape
    raised = ridge + shed
    if n > d:
        whole = rows.T @ rows + pending.T @ pending
        return spd_logdet(whole, raised) - sketch_logdet(squares, ridge, d)
    scaled = (rows @ pending.T) / np.sqrt(squares + raised)[:, None]
    inner = (pending @ pending.T - scaled.T @ scaled) / raised
    lift = (d - len(squares)) * np.log1p(shed / ridge) + np.log1p(shed / (squares + ridge)).sum()
    return float(lift) + spd_logdet(inner, 1.0)


def spd_logdet(matrix: Array, ridge: float) -> float:
    """Return log det(A + cI) for a positive semidefinite A. Cost O(n^3).

    Where rounding has made A indefinite, its negative eigenvalues are taken for 0.
    """
    try:
        root = np.linalg.cholesky(matrix + ridge * np.eye(len(matrix)))
        return 2.0 * float(np.log(root.diagonal()).sum())
    except np.linalg.LinAlgError:
        return float(np.log(np.maximum(np.linalg.eigvalsh(matrix), 0.0) + ridge).sum())


def spd_inverse(matrix: Array, ridge: float) -> tuple[Array, float]:
    """Return (A + cI)^{-1} and log det(A + cI) for a positive semidefinite A. Cost O(d^3).

    Where rounding has made A + cI anything but positive definite, eigenvalues below c are taken
    for c, which they cannot be under.
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


@kernel
def absorb_into_gram(matrix: Array, inverse: Array, x: Array) -> float:
    """Add x x^T to a matrix, and to V in V^{-1} (Sherman-Morrison); return x^T V^{-1} x.

    Both change in place. The log determinant of V grows by log(1 + what is returned). Cost O(d^2).
    """
    solved = np.dot(inverse, x)
    gain: float = max(np.dot(x, solved), 0.0)
    matrix += np.outer(x, x)
    inverse -= np.outer(solved, solved / (1.0 + gain))
    return gain


@kernel
def sketch_ucb(
    arms: Array,
    theta: Array,
    radius: float,
    rows: Array,
    squares: Array,
    ridge: float,
    widths: Array,
) -> int:
    """Return the arm with the best <theta, x> + beta |x|_{V^-1}, V = cI + S^T S.

    As ``first_best``. Fills ``widths`` with what ``sketch_squared_widths`` returns. Cost O(K k d):
    one product of the arms with the sketch.
    """
    projected = np.dot(arms, rows.T)
    explained = np.dot(projected * projected, 1.0 / (squares + ridge))
    widths[:] = np.maximum(row_products(arms, arms) - explained, 0.0) / ridge
    return first_best(np.dot(arms, theta) + radius * np.sqrt(widths))


@kernel
def gram_ucb(arms: Array, theta: Array, radius: float, inverse: Array, widths: Array) -> int:
    """Return the arm with the best <theta, x> + beta |x|_{V^-1}, from V^{-1}. Cost O(K d^2)."""
    widths[:] = np.maximum(row_products(np.dot(arms, inverse), arms), 0.0)
    return first_best(np.dot(arms, theta) + radius * np.sqrt(widths))


def exceeds(value: float, threshold: float) -> bool:
    """Say whether a growth lies above its threshold by more than the margin."""
    return value > threshold + MARGIN * max(1.0, abs(threshold))


@kernel
def first_best(scores: Array) -> int:
    """Return the first arm whose score is the best, or -1 if a score is not finite.

    Scores count as equal if they differ by less than the margin times the largest of them.
    """
    if not np.isfinite(scores.sum()):
        return -1
    return int(np.argmax(scores >= scores.max() - MARGIN * np.abs(scores).max()))


def first_best_of_each(scores: Array) -> NDArray[np.int64]:
    """Return ``first_best`` of every row of finite scores."""
    bar = scores.max(axis=1) - MARGIN * np.abs(scores).max(axis=1)
    best: NDArray[np.int64] = np.argmax(scores >= bar[:, None], axis=1)
    return best
