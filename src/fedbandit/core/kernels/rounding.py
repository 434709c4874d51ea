"""Rows rounded to multiples of a step, and a bound on what that changes."""

from math import sqrt

import numpy as np

from fedbandit.core.kernels.compiler import kernel, kernel_or
from fedbandit.core.kernels.linalg import Array


def spectral_bound(symmetric: Array) -> float:
    """Bound the largest |eigenvalue| by (trace A^16)^(1/16): at most k^(1/16) times too large."""
    scale = float(np.abs(symmetric).max(initial=0.0))
    if scale == 0.0:
        return 0.0
    power = symmetric / scale
    for _ in range(3):
        power = power @ power
    return scale * sqrt(sqrt(sqrt(np.linalg.norm(power))))


def rounded_to_numpy(rows: Array, step: float) -> tuple[Array, Array, float, float]:
    """Return what ``rounded_to`` does, by numpy."""
    codes = np.rint(rows / step)
    short = codes * step
    noise = rows - short
    moved = (noise != 0.0).any(axis=0).astype(np.float64)
    gained = float(np.vdot(short, short) - np.vdot(rows, rows))
    return codes, moved, spectral_bound(noise @ noise.T), gained


@kernel_or(rounded_to_numpy)
def rounded_to(rows: Array, step: float) -> tuple[Array, Array, float, float]:
    """Round rows S (k x d) to S', whole multiples of a step.

    Returns the multiples (k x d); 1 for every column that has changed (d), else 0; a bound on
    |N|^2 with N = S - S', see ``spectral_bound``; and |S'|^2 - |S|^2, in sums of squares. Cost
    O(k^2 d + k^3).
    """
    k, d = rows.shape
    codes, noise, moved = np.empty((k, d)), np.empty((k, d)), np.zeros(d)
    before, after, inverse = 0.0, 0.0, 1.0 / step
    for i in range(k):
        for j in range(d):
            codes[i, j] = np.rint(rows[i, j] * inverse)
            noise[i, j] = codes[i, j] * step
    for i in range(k):  # a loop of its own: a product in the same would not be rounded
        for j in range(d):
            short = noise[i, j]
            before += rows[i, j] * rows[i, j]
            after += short * short
            noise[i, j] = rows[i, j] - short
            moved[j] = 1.0 if noise[i, j] != 0.0 else moved[j]
    products = np.empty((k, k))
    largest = 0.0
    for i in range(k):
        for j in range(i + 1):
            total = 0.0
            for c in range(d):
                total += noise[i, c] * noise[j, c]
            products[i, j] = products[j, i] = total
            largest = max(largest, abs(total))
    return codes, moved, _by_powers(products, largest), after - before


@kernel
def _by_powers(symmetric: Array, scale: float) -> float:
    """Return ``spectral_bound`` of a matrix with this largest entry, which it overwrites."""
    if scale == 0.0:
        return 0.0
    n = len(symmetric)
    for i in range(n):
        for j in range(n):
            symmetric[i, j] /= scale
    power = np.empty((n, n))
    total = 0.0
    for _ in range(3):
        total = 0.0
        for i in range(n):
            for j in range(i + 1):
                along = 0.0
                for c in range(n):
                    along += symmetric[i, c] * symmetric[j, c]
                power[i, j] = power[j, i] = along
                total += along * along if i == j else 2.0 * along * along
        symmetric, power = power, symmetric
    return float(scale * np.sqrt(np.sqrt(np.sqrt(np.sqrt(total)))))
