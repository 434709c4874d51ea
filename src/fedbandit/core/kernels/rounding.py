"""Rows cut and rounded to multiples of a step, and bounds on what that changes.

``fit`` does for a message what ``core.memory.lossy`` says of cutting (``summary``) and of rounding
(``fitted``).
"""

from math import floor, frexp, inf, isfinite, ldexp, nan, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.compiler import exact_kernel, kernel_or, part
from fedbandit.core.kernels.linalg import Array

ETA: Final = 0.1
"""The share by which rounding raises the weight of a summary."""

_YOUNG = 1.0 + 1.0 / ETA
_SAFE = 1.0 + 1e-9  # covers the rounding of the bound's own arithmetic
_LARGEST = 2.0**30  # code
_SPARE = 0.9  # the first step is a little smaller than expected to be needed
_TINIEST = 1e-150  # step
_LEAST = 2.0**-1000  # number: keeps it from being subnormal
_BELOW = np.arange(-254, 1)  # levels 1 to 255, counted from the top
_SHARES = np.ldexp((2.0 ** (np.arange(8) / 8 - 1.0))[_BELOW % 8], _BELOW // 8 + 1)  # of the top

Levels = NDArray[np.uint8]
Fit = tuple[NDArray[np.int32], float, Levels, float, float, Array, Array]
"""Codes (k x d) and their step; levels (d) and their top; lost; and rows and bound as read back."""


@exact_kernel
def shortened_number(number: float) -> float:
    """Return a number above 0 with the lower 32 bits set to 0, so that four bytes hold it."""
    fraction, exponent = frexp(max(number, _LEAST))
    return ldexp(float(floor(fraction * 2.0**21)), exponent - 21)


def step_for(charge: float, rows: int, dimension: int) -> float:
    """Return the step with which rounding is expected to add ``charge`` to the bound.

    Rounding errors are spread evenly over half a step both ways, so |N|^2 is about
    step^2 / 12 (sqrt(k) + sqrt(d))^2.
    """
    spread = (sqrt(rows) + sqrt(dimension)) ** 2
    return _SPARE * sqrt(12.0 * charge / (_YOUNG * spread))


def spectral_bound(symmetric: Array) -> float:
    """Bound the largest |eigenvalue| by (trace A^16)^(1/16): at most k^(1/16) times too large."""
    scale = float(np.abs(symmetric).max(initial=0.0))
    if scale == 0.0:
        return 0.0
    power = symmetric / scale
    for _ in range(3):
        power = power @ power
    return scale * sqrt(sqrt(sqrt(np.linalg.norm(power))))


Rounded = tuple[NDArray[np.int32], Array, float, float, Array]


def rounded_to_numpy(rows: Array, step: float) -> Rounded:
    """Return what ``rounded_to`` does, by numpy."""
    codes = np.rint(rows / step)
    short = codes * step
    noise = rows - short
    moved = (noise != 0.0).any(axis=0).astype(np.float64)
    gained = float(np.vdot(short, short) - np.vdot(rows, rows))
    return codes.astype(np.int32), moved, spectral_bound(noise @ noise.T), gained, short


@kernel_or(rounded_to_numpy)
def rounded_to(rows: Array, step: float) -> Rounded:
    """Round rows S (k x d) to S', whole multiples of a step.

    Returns the multiples (k x d); 1 for every column that has changed (d), else 0; a bound on
    |N|^2 with N = S - S', see ``spectral_bound``; |S'|^2 - |S|^2, in sums of squares; and S'. Cost
    O(k^2 d + k^3).
    """
    k, d = rows.shape
    codes, short, noise = np.empty((k, d), np.int32), np.empty((k, d)), np.empty((k, d))
    inverse, moved = 1.0 / step, np.empty(d)
    before, after, largest = 0.0, 0.0, 0.0
    for j in range(d):
        moved[j] = 0.0
    for i in range(k):
        for j in range(d):
            multiple = np.rint(rows[i, j] * inverse)
            codes[i, j] = np.int32(multiple)
            short[i, j] = multiple * step
    for i in range(k):  # a loop of its own: a product in the same would not be rounded
        for j in range(d):
            noise[i, j] = rows[i, j] - short[i, j]
            moved[j] = 1.0 if noise[i, j] != 0.0 else moved[j]
    for i in range(k):  # sums apart from what writes: else bits could depend on addresses
        for j in range(d):
            before += rows[i, j] * rows[i, j]
        for j in range(d):
            after += short[i, j] * short[i, j]
    products = np.empty((k, k))
    for i in range(k):
        for j in range(i + 1):
            total = 0.0
            for c in range(d):
                total += noise[i, c] * noise[j, c]
            products[i, j] = products[j, i] = total
            largest = max(largest, abs(total))
    return codes, moved, _by_powers(products, largest), after - before, short


@part
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


Kept = tuple[Array, Array, float, float]


def kept_numpy(
    rows: Array,
    squares: Array,
    delta: float,
    metric: Array,
    held: Array,
    bound: Array,
    lost: float,
    weight: float,
    count: int,
    even: float,
) -> Kept:
    """Return what ``kept`` does, by numpy."""
    more = float(squares[count:].max(initial=0.0))
    longer = np.flatnonzero(squares[:count] > more) if count < len(rows) else np.arange(len(rows))
    delta = max(delta, more) if even > 0.0 else delta + more
    long, scales = rows[longer] * metric, delta * metric * metric
    gone = max(0.0, float(held.sum() - np.vdot(long, long)))
    shed = more if even == 0.0 else delta if scales.sum() > even * gone else 0.0
    if shed > 0.0:
        longer = longer[squares[longer] > shed]
        long = rows[longer] * np.sqrt(1.0 - shed / squares[longer])[:, None] * metric
        gone = max(0.0, float(held.sum() - np.vdot(long, long)))
    if scales.sum() > len(scales) * gone:
        scales = np.full(len(scales), gone)
    raised = bound.copy()
    if delta > 0.0:
        raised += weight * np.where(held > 0.0, scales, 0.0)
        lost += gone
    finite = isfinite(np.vdot(long, long) + raised.sum())
    return long, raised, lost, float(np.abs(long).max(initial=0.0)) if finite else inf


@kernel_or(kept_numpy)
def kept(
    rows: Array,
    squares: Array,
    delta: float,
    metric: Array,
    held: Array,
    bound: Array,
    lost: float,
    weight: float,
    count: int,
    even: float,
) -> Kept:
    """Return the first ``count`` of some leading rows, their bound, and the trace that is lost.

    The last is the largest |entry| of the rows; inf if something is not finite.

    ``rows`` (orthogonal, with squares ``squares``, delta subtracted already) are divided by
    ``metric``; bound, lost and weight are those of what they lead, ``held`` the diagonal of S^T S.
    What is lost now is bounded by delta a, or by its trace if that adds up to less. With ``even``
    above 0 delta was not subtracted, and is only if delta a adds up to more than ``even`` times
    what is lost without. Cost O(k d).
    """
    d, more, filled = len(metric), 0.0, 0
    mass, total, scales = 0.0, 0.0, 0.0
    count = min(count, len(rows))
    for i in range(count, len(rows)):
        more = max(more, squares[i])
    delta = max(delta, more) if even > 0.0 else delta + more
    for j in range(d):
        total += held[j]
        scales += delta * metric[j] * metric[j]
    longer, shed, again = np.empty((count, d)), 0.0 if even > 0.0 else more, True
    while again:
        filled, mass = 0, 0.0
        for i in range(count):
            if (count == len(rows) or squares[i] > more) and (shed == 0.0 or squares[i] > shed):
                factor = np.sqrt(1.0 - shed / squares[i]) if shed > 0.0 else 1.0
                target = longer[filled]
                for j in range(d):
                    target[j] = rows[i, j] * factor * metric[j]
                for j in range(d):  # apart from what writes, see ``rounded_to``
                    mass += target[j] * target[j]
                filled += 1
        again = even > 0.0 and shed == 0.0 and scales > even * max(0.0, total - mass)
        shed = delta
    raised = np.empty(d)
    for j in range(d):
        raised[j] = bound[j]
    if delta > 0.0:
        gone = max(0.0, total - mass)
        flat = scales > d * gone
        for j in range(d):
            if held[j] > 0.0:
                raised[j] += weight * (gone if flat else delta * metric[j] * metric[j])
        lost += gone
    largest = 0.0
    for j in range(d):
        mass += raised[j]
    for i in range(filled):
        for j in range(d):
            largest = max(largest, abs(longer[i, j]))
    return longer[:filled], raised, lost, largest if np.isfinite(mass) else np.inf


def rows_within_numpy(
    rows: Array, squares: Array, metric: Array, faint: float, charge: float, room: float
) -> int:
    """Return what ``rows_within`` does, by numpy."""
    count, d = len(rows), len(metric)
    if faint > 0.0:
        count = int(np.count_nonzero(squares * metric.max() ** 2 > faint))
    if room == inf or not count:
        return count
    step = step_for(charge, count, d)
    bits = 1.0 + np.ceil(np.log2(np.abs(rows[:count] * metric).max(axis=1) / step + 0.5 + 1.0))
    taken = np.cumsum(bits * d / 8.0 + 1.0)  # a byte says how many bits
    return max(1, int(np.count_nonzero(taken <= room)))


@kernel_or(rows_within_numpy)
def rows_within(
    rows: Array, squares: Array, metric: Array, faint: float, charge: float, room: float
) -> int:
    """Return how many leading rows are not faint and take at most ``room`` bytes.

    At least one, unless all are faint: add at most ``faint`` to the bound. ``charge`` is what
    rounding may add (see ``step_for``).
    """
    count, d = len(rows), len(metric)
    if faint > 0.0:
        largest, count = 0.0, 0
        for j in range(d):
            largest = max(largest, metric[j])
        for i in range(len(rows)):
            count += 1 if squares[i] * largest**2 > faint else 0
    if room == np.inf or count == 0:
        return count
    spread = (np.sqrt(count) + np.sqrt(d)) ** 2
    taken, step = 0.0, _SPARE * np.sqrt(12.0 * charge / (_YOUNG * spread))
    for i in range(count):
        largest = 0.0
        for j in range(d):
            largest = max(largest, abs(rows[i, j] * metric[j]))
        taken += (1.0 + np.ceil(np.log2(largest / step + 0.5 + 1.0))) * d / 8.0 + 1.0
        if not taken <= room:
            return max(1, i)
    return count


def levels_numpy(bound: Array, added: float, moved: Array) -> tuple[Levels, float, Array]:
    """Return what ``levels_of`` does, by numpy."""
    bound = bound + added * moved
    largest = float(bound.max(initial=0.0))
    if largest == 0.0:
        return np.zeros(len(bound), np.uint8), 0.0, np.zeros(len(bound))
    top = shortened_number(largest * (1.0 + 2.0**-19))
    above = np.searchsorted(_SHARES * top, bound) + 1
    levels: Levels = np.where(bound > 0.0, above, 0).astype(np.uint8)
    return levels, top, levels_read(levels, top)


@kernel_or(levels_numpy)
def levels_of(bound: Array, added: float, moved: Array) -> tuple[Levels, float, Array]:
    """Return levels and top of the least bound that can be expressed and is not below this one.

    To that of columns that were ``moved`` (1, else 0) ``added`` is added first. The last is the
    bound that is expressed, see ``levels_read``.
    """
    largest, d = 0.0, len(bound)
    levels, raised = np.empty(d, np.uint8), np.empty(d)
    for j in range(d):
        raised[j] = bound[j] + added * moved[j]
        largest = max(largest, raised[j])
    top = shortened_number(largest * (1.0 + 2.0**-19)) if largest > 0.0 else 0.0
    for j in range(d):
        low, high = 0, len(_SHARES) - 1
        while low < high:
            middle = (low + high) // 2
            if _SHARES[middle] * top < raised[j]:
                low = middle + 1
            else:
                high = middle
        levels[j] = low + 1 if raised[j] > 0.0 else 0
        raised[j] = _SHARES[low] * top if raised[j] > 0.0 else 0.0
    return levels, top, raised


def levels_read(levels: Levels, top: float) -> Array:
    """Return what levels stand for: 0 is 0, 255 is ``top``, and 8 levels less are half of it."""
    bounds: Array = np.where(levels > 0, (_SHARES * top)[levels.astype(np.int64) - 1], 0.0)
    return bounds


def fit(
    rows: Array,
    squares: Array,
    delta: float,
    metric: Array,
    held: Array,
    bound: Array,
    lost: float,
    weight: float,
    charge: float,
    faint: float,
    room: float,
    even: float,
) -> Fit:
    """Cut leading rows (see ``kept``) to what a message holds, and round them.

    Rows that add at most ``faint`` to the bound are left out, and so are those for which ``room``
    (bytes) does not suffice. The step is such that rounding adds at most ``charge`` to the bound,
    unless codes get too large; it is NaN if something is not finite. Cost O(k^2 d + k^3).
    """
    most = charge / weight
    count = rows_within.run(rows, squares, metric, faint, most, room)
    rows, raised, lost, largest = kept.run(
        rows, squares, delta, metric, held, bound, lost, weight, count, even
    )
    if not isfinite(largest + charge):
        nothing, none = np.zeros(rows.shape), np.zeros(len(metric), np.uint8)
        return nothing.astype(np.int32), nan, none, 0.0, 0.0, nothing, none.astype(np.float64)
    codes, short, step, gained = np.zeros(rows.shape, np.int32), rows, 1.0, 0.0
    added, moved = 0.0, raised
    if len(rows):
        least, asked = max(largest / _LARGEST, _TINIEST), step_for(most, *rows.shape)
        while True:
            step = shortened_number.run(max(asked, least))
            codes, moved, noise, gained, short = rounded_to.run(rows, step)
            added = _SAFE * _YOUNG * noise
            if added <= most or step <= least:
                break
            asked = 0.8 * step
    levels, top, raised = levels_of.run(raised, weight * added, moved)
    return codes, step, levels, top, max(0.0, lost - gained), short, raised
