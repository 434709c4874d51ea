"""The arithmetic, as functions on arrays. Shapes: S is k x d, gram is m x m, arms is K x d.

A sketch stands for the matrix cI + S^T S, where the rows of S are mutually orthogonal with squared
norms s. Everything about that matrix then follows from k numbers and products with S; no d x d
array is ever formed.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shrink(rows: Array, gram: Array, size: int) -> tuple[Array, float]:
    """Frequent Directions: make at most size - 1 orthogonal rows of m, and say what was shed.

    With the eigenvalues g_1 >= g_2 >= ... of gram = rows rows^T (the squared singular values of
    rows) and delta = g_size (0 if there are fewer), the kept rows are sqrt(g_i - delta) v_i
    (paper, Alg. 1 lines 7-10 and Alg. 2 lines 3-6). With fewer than ``size`` rows nothing is shed
    and the rows are only made orthogonal.

    Returns the rows, largest first, and delta. Cost O(m^3 + m^2 d).
    """
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = min(rows.shape)
    delta = max(float(values[size - 1]), 0.0) if size <= rank else 0.0
    rounding = values[0] * len(values) * np.finfo(float).eps if len(values) else 0.0
    kept = int(np.count_nonzero(values[: min(size - 1, rank)] > max(delta, rounding)))
    scaled = vectors[:, :kept] * np.sqrt(1.0 - delta / values[:kept])
    return scaled.T @ rows, delta


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
    return np.maximum(squared_norms(arms) - explained, 0.0) / ridge


def sketch_growth(
    rows: Array, squares: Array, ridge: float, pending: Array, gram: Array, shed: float
) -> float:
    """Return log det((c + p) I + S^T S + P^T P) - log det(cI + S^T S), the paper's trigger.

    P are the pending rows (n x d, orthogonal or not), gram = P P^T and p is what they have shed.
    By the matrix determinant lemma, with c' = c + p and Q = S P^T, this is

        (d - k) log(c'/c) + sum log((s_i + c')/(s_i + c))
        + log det(I + (gram - Q^T diag(s + c')^{-1} Q)/c').

    Cost O(k n d + k n^2 + n^3), where the paper's SVD of [S; P] costs O((k + n)^2 d).
    """
    raised = ridge + shed
    crossed = rows @ pending.T
    inner = gram - crossed.T @ (crossed / (squares + raised)[:, None])
    inner /= raised
    inner.flat[:: len(inner) + 1] += 1.0
    lift = (pending.shape[1] - len(squares)) * np.log1p(shed / ridge)
    lift += np.log1p(shed / (squares + ridge)).sum()
    return float(lift) + spd_logdet(inner)


def spd_logdet(matrix: Array) -> float:
    """Return the log determinant of a symmetric positive definite matrix. Cost O(n^3)."""
    return 2.0 * float(np.log(np.linalg.cholesky(matrix).diagonal()).sum())


def squared_norms(arms: Array) -> Array:
    """Return |x|^2 of every row. Cost O(K d)."""
    norms: Array = np.einsum("kd,kd->k", arms, arms)
    return norms


def absorb_into_inverse(inverse: Array, x: Array) -> float:
    """Turn V^{-1} into (V + x x^T)^{-1} in place and return x^T V^{-1} x (Sherman-Morrison).

    The log determinant of V grows by log(1 + that). Cost O(d^2).
    """
    solved = inverse @ x
    gain = max(float(x @ solved), 0.0)
    inverse -= np.outer(solved, solved / (1.0 + gain))
    return gain
