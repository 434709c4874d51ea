"""UCB scores, and the comparisons that decide: the best arm, and growth against a threshold.

Arms are K x d, or sparse: ``data``, ``indices`` and ``indptr`` of compressed sparse rows. The
functions that choose return -1, and write nothing, if a score is not finite. Otherwise they copy
the arms to ``shown`` and write x^T V^{-1} x of every arm to ``widths`` (K), for the observation
that follows.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.compiler import kernel, kernel_or
from fedbandit.core.kernels.linalg import Array, read_only

Integers = NDArray[np.int64]

_MANY = 64  # scores from which on numpy compares them faster than Python

MARGIN: Final = 1e-9
"""Relative difference below which scores, or growth and threshold, count as equal.

With unit arms and ridge 1 the first choice is an exact tie, and with alpha = 1 so is the first
trigger. Without a margin rounding would decide, and differently on different machines.
"""


def exceeds(value: float, threshold: float) -> bool:
    """Say whether a value is above its threshold by more than the margin."""
    return value > threshold + MARGIN * max(1.0, abs(threshold))


def first_best_numpy(scores: Array) -> int:
    """Return the index of the best of K scores, or -1 if a score is not finite.

    Scores within the margin (times the largest |score|) of the best count as equal; the first wins.
    """
    if len(scores) > _MANY:
        if not np.isfinite(scores.sum()):
            return -1
        return int(np.argmax(scores >= scores.max() - MARGIN * np.abs(scores).max()))
    listed: list[float] = scores.tolist()  # for a few numbers Python is faster than numpy
    if not isfinite(sum(listed)):
        return -1
    best = max(listed)
    bar = best - MARGIN * max(best, -min(listed))
    return next(arm for arm, score in enumerate(listed) if score >= bar)


@kernel_or(first_best_numpy)
def first_best(scores: Array) -> int:
    """Return the index of the best of K scores, or -1 if a score is not finite."""
    best, largest, total = scores[0], 0.0, 0.0
    for score in scores:
        best, largest, total = max(best, score), max(largest, abs(score)), total + score
    if not np.isfinite(total):
        return -1
    chosen = 0
    while scores[chosen] < best - MARGIN * largest:
        chosen += 1
    return chosen


def first_best_of_each(scores: Array) -> Integers:
    """Return ``first_best`` of every row of finite scores (B x K)."""
    bar = scores.max(axis=1) - MARGIN * np.abs(scores).max(axis=1)
    best: Integers = np.argmax(scores >= bar[:, None], axis=1)
    return best


@kernel
def keep(arms: Array, shown: Array, squared: Array, widths: Array) -> None:
    """Copy arms and squared widths, as loops: numba's fastest way to copy."""
    for k in range(arms.shape[0]):
        widths[k] = squared[k]
        for i in range(arms.shape[1]):
            shown[k, i] = arms[k, i]


def sketch_widths_numpy(arms: Array, rows: Array, squares: Array, ridge: float) -> Array:
    """Return x^T (cI + S^T S)^{-1} x of arms (... x K x d), see ``sketch_ucb``."""
    times = _product(arms)
    projected = times(arms, rows.T)
    projected *= projected
    squared = times(arms * arms, _ones(arms.shape[-1]))
    squared -= times(projected, 1.0 / (squares + ridge))
    np.maximum(squared, 0.0, out=squared)
    squared /= ridge
    return squared


def diagonal_widths_numpy(arms: Array, explained: Array, inverse: Array) -> Array:
    """Return x^T V^{-1} x of arms (... x K x d), see ``diagonal_ucb``."""
    times = _product(arms)
    projected = times(arms, explained.T)
    projected *= projected
    squared = times(arms * arms, inverse)
    squared -= times(projected, _ones(len(explained)))
    return np.maximum(squared, 0.0, out=squared)


def gram_widths_numpy(arms: Array, inverse: Array) -> Array:
    """Return x^T V^{-1} x of arms (... x K x d), see ``gram_ucb``."""
    times = _product(arms)
    solved = times(arms, inverse)
    solved *= arms
    squared = times(solved, _ones(len(inverse)))
    return np.maximum(squared, 0.0, out=squared)


def scores_numpy(arms: Array, theta: Array, radius: float, squared: Array) -> Array:
    """Return <theta, x> + beta |x|_{V^-1} of arms (... x K x d) with these squared widths."""
    scores = np.sqrt(squared)
    scores *= radius
    scores += _product(arms)(arms, theta)
    return scores


def _product(arms: Array) -> Callable[[Array, Array], Array]:
    """Return what multiplies the arms of one decision, or of each of several, by BLAS.

    ``matmul`` does both, with the same bits; ``dot`` starts sooner.
    """
    return np.dot if arms.ndim == 2 else np.matmul


@lru_cache(maxsize=64)
def _ones(many: int) -> Array:
    return read_only(np.ones(many))


def _choose_numpy(
    arms: Array, theta: Array, radius: float, squared: Array, shown: Array, widths: Array
) -> int:
    chosen = first_best_numpy(scores_numpy(arms, theta, radius, squared))
    if chosen >= 0:
        shown[:], widths[:] = arms, squared
    return chosen


def sketch_ucb_numpy(
    arms: Array,
    theta: Array,
    radius: float,
    rows: Array,
    squares: Array,
    ridge: float,
    shown: Array,
    widths: Array,
) -> int:
    """Choose as ``sketch_ucb`` does, by numpy."""
    squared = sketch_widths_numpy(arms, rows, squares, ridge)
    return _choose_numpy(arms, theta, radius, squared, shown, widths)


@kernel_or(sketch_ucb_numpy)
def sketch_ucb(
    arms: Array,
    theta: Array,
    radius: float,
    rows: Array,
    squares: Array,
    ridge: float,
    shown: Array,
    widths: Array,
) -> int:
    """Return the arm with the best <theta, x> + beta |x|_{V^-1}, V = cI + S^T S (Alg. 1 line 3).

    S is ``rows`` (k x d), with squared norms ``squares`` (k) and c = ``ridge``. Cost O(K k d): one
    product of the arms with S, and one pass over the arms.
    """
    projected = np.dot(arms, rows.T)
    weights = 1.0 / (squares + ridge)
    squared, scores = np.empty(len(arms)), np.empty(len(arms))
    for k in range(len(arms)):
        norm, mean, explained = 0.0, 0.0, 0.0
        for i in range(arms.shape[1]):
            norm += arms[k, i] * arms[k, i]
            mean += arms[k, i] * theta[i]
        for j in range(len(weights)):
            explained += projected[k, j] * projected[k, j] * weights[j]
        squared[k] = max(norm - explained, 0.0) / ridge
        scores[k] = mean + radius * np.sqrt(squared[k])
    chosen = first_best(scores)
    if chosen >= 0:
        keep(arms, shown, squared, widths)
    return chosen


def diagonal_ucb_numpy(
    arms: Array,
    theta: Array,
    radius: float,
    explained: Array,
    inverse: Array,
    shown: Array,
    widths: Array,
) -> int:
    """Choose as ``diagonal_ucb`` does, by numpy."""
    squared = diagonal_widths_numpy(arms, explained, inverse)
    return _choose_numpy(arms, theta, radius, squared, shown, widths)


@kernel_or(diagonal_ucb_numpy)
def diagonal_ucb(
    arms: Array,
    theta: Array,
    radius: float,
    explained: Array,
    inverse: Array,
    shown: Array,
    widths: Array,
) -> int:
    """Return the arm with the best <theta, x> + beta |x|_{V^-1}, V^-1 = diag(inverse) - W^T W.

    W is ``explained`` (k x d). Cost O(K k d).
    """
    projected = np.dot(arms, explained.T)
    squared, scores = np.empty(len(arms)), np.empty(len(arms))
    for k in range(len(arms)):
        norm, mean, along = 0.0, 0.0, 0.0
        for i in range(arms.shape[1]):
            norm += arms[k, i] * arms[k, i] * inverse[i]
            mean += arms[k, i] * theta[i]
        for j in range(len(explained)):
            along += projected[k, j] * projected[k, j]
        squared[k] = max(norm - along, 0.0)
        scores[k] = mean + radius * np.sqrt(squared[k])
    chosen = first_best(scores)
    if chosen >= 0:
        keep(arms, shown, squared, widths)
    return chosen


def gram_ucb_numpy(
    arms: Array, theta: Array, radius: float, inverse: Array, shown: Array, widths: Array
) -> int:
    """Choose as ``gram_ucb`` does, by numpy."""
    squared = gram_widths_numpy(arms, inverse)
    return _choose_numpy(arms, theta, radius, squared, shown, widths)


@kernel_or(gram_ucb_numpy)
def gram_ucb(
    arms: Array, theta: Array, radius: float, inverse: Array, shown: Array, widths: Array
) -> int:
    """Return the arm with the best <theta, x> + beta |x|_{V^-1}, from V^{-1} (d x d).

    Cost O(K d^2).
    """
    solved = np.dot(arms, inverse)
    squared, scores = np.empty(len(arms)), np.empty(len(arms))
    for k in range(len(arms)):
        square, mean = 0.0, 0.0
        for i in range(arms.shape[1]):
            square += arms[k, i] * solved[k, i]
            mean += arms[k, i] * theta[i]
        squared[k] = max(square, 0.0)
        scores[k] = mean + radius * np.sqrt(squared[k])
    chosen = first_best(scores)
    if chosen >= 0:
        keep(arms, shown, squared, widths)
    return chosen


def row_sums(values: Array, indptr: Integers) -> Array:
    """Return the sum of every sparse row's entries (..., K), for values (..., nnz)."""
    padded = np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)
    sums: Array = np.add.reduceat(padded, indptr[:-1], axis=-1)
    sums[..., indptr[:-1] == indptr[1:]] = 0.0  # empty rows: reduceat has taken the next entry
    return sums


def sparse_products_numpy(data: Array, indices: Integers, indptr: Integers, rows: Array) -> Array:
    """Return <x, s> for every sparse arm x and row s, K x k. Cost O(k nnz)."""
    return np.ascontiguousarray(row_sums(rows[:, indices] * data, indptr).T)


@kernel_or(sparse_products_numpy)
def sparse_products(data: Array, indices: Integers, indptr: Integers, rows: Array) -> Array:
    """Return <x, s> for every sparse arm x and row s, K x k. Cost O(k nnz)."""
    products = np.zeros((len(indptr) - 1, len(rows)))
    for j in range(len(rows)):
        for k in range(len(indptr) - 1):
            for at in range(indptr[k], indptr[k + 1]):
                products[k, j] += data[at] * rows[j, indices[at]]
    return products


def sparse_squares_numpy(data: Array, indices: Integers, indptr: Integers, inverse: Array) -> Array:
    """Return x^T V^{-1} x for every sparse arm x, from V^{-1}. Cost O(sum of nnz(x)^2)."""
    squares = np.zeros(len(indptr) - 1)
    for k, (start, stop) in enumerate(pairwise(indptr)):
        at, x = indices[start:stop], data[start:stop]
        squares[k] = x @ inverse[np.ix_(at, at)] @ x
    return squares


@kernel_or(sparse_squares_numpy)
def sparse_squares(data: Array, indices: Integers, indptr: Integers, inverse: Array) -> Array:
    """Return x^T V^{-1} x for every sparse arm x, from V^{-1}. Cost O(sum of nnz(x)^2)."""
    squares = np.zeros(len(indptr) - 1)
    for k in range(len(squares)):
        for one in range(indptr[k], indptr[k + 1]):
            for other in range(indptr[k], indptr[k + 1]):
                squares[k] += data[one] * data[other] * inverse[indices[one], indices[other]]
    return squares
