"""Which groups of agents contradict the others, and the estimate without what they say.

A group g that sent G and b (``GroupSum``) is asked how well an estimate theta fits what it sent:

    r = b - G theta,    v = r^T D^-1 r / min(mass of g / median mass, N / 2),

with D the diagonal of the sum of all G, each scaled to the median mass at most. For honest groups r
is noise, whatever they have seen and however much, so that their v are alike. The estimate from
everything, P, is told as it is while no v at P exceeds k^2 times the median of all v: honest fleets
lose nothing. Otherwise agents are told the theta with

    sum of w r = 0,    w = min(1, k^2 median / v):

no group pulls harder than k times the median group, and one that pulls much harder, not at all. In
directions that no group speaks of, theta stays P.

Where liars lead P, the v of all groups are large alike, and hide theirs. So the median is taken
where groups of equal weight would put theta (w = 1 / sqrt(v)), if there are observations enough to
tell that from chance.

What it holds: let N - L groups be honest, of one mass, and see alike, L < N / 2, and let their r
differ by rho at most from their mean (in the norm of D^-1). With enough observations that mean is
no longer, at the theta that is told, than

    rho + k c (1 + 1 / sqrt(1 - q^2)) rho,    q = L / (N - L),

with c = sqrt(n / (n - d)) for n observations, about 1. Proof: at the centre the pulls of all groups
cancel, and none is longer than 1. If the mean there is R > rho, each honest one pulls along it by
sqrt(1 - rho^2 / R^2) at least, so that (N - L) sqrt(1 - rho^2 / R^2) <= L. That gives R; the median
v at the centre is (R + rho)^2 at most, since more than half of the groups are honest. What is told
fits half of the groups within k c times the root of that, and one of those is honest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.service.models.sums import GroupSum

FEWEST: Final = 5
"""Groups that have to have sent something before any of them is doubted."""

DOUBTED: Final = 0.5
"""Groups with less weight than this are named."""

_K = 3.0  # more where few numbers make up a v, see ``_Groups.most``
_ENOUGH = 1.5  # observations for each feature, without those of heavy groups, to find a centre
_STEPS = 20
_CENTRE_STEPS = 100  # few, unless liars are many
_CLOSE = 1e-3  # relative to the length of theta: a step as short is the last
_NEAR = 1e-2  # relative to the median v: at the centre, a change as small is the last
_TINY = 1e-300
_CG_STEPS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """The estimate to tell, None for the one from everything; and the weight of each group.

    ``ratio``: the median v at the centre, relative to that at the estimate from everything.
    """

    theta: Array | None
    weights: Array
    ratio: float = 1.0


def weigh(
    whole: GroupSum,
    theta: Array,
    sums: Sequence[GroupSum],
    *,
    ridge: float,
    before: Weighed | None = None,
) -> Weighed:
    """Return what to tell in place of ``theta``, the estimate from everything, ``whole``.

    ``before``: what was found a moment ago of the same groups, to go on from. Cost N products with
    a G if no group was doubted then and none is now; else some systems of d equations, and a
    few if it goes on.
    """
    everyone = np.ones(len(sums))
    if len(sums) < FEWEST:
        return Weighed(None, everyone)
    groups = _Groups(whole, theta, sums, ridge=ridge)
    misfits = groups.misfits(theta)
    doubtful = float(misfits.max()) / (groups.most * _median(misfits))
    if before is not None and doubtful <= before.ratio:
        return Weighed(None, everyone, before.ratio)
    known = None if before is None or before.theta is None else before.weights
    centre, typical = groups.centre(misfits, known)
    ratio = min(1.0, typical / _median(misfits))
    if doubtful <= ratio:
        return Weighed(None, everyone, ratio)
    told, weights = groups.settled(centre, ratio * _median(misfits))
    sound = bool(np.isfinite(told).all())
    return Weighed(told, weights, ratio) if sound else Weighed(None, everyone, ratio)


class _Groups:
    """The groups as arrays, and the equations that an estimate is found by.

    The r of all groups add up to what everything together says: to b - (ridge I + G) theta of the
    whole. Where the whole has more than the groups (the ridge, what sketches lost on the way, what
    came before there were groups), each group has its share of that, by its mass.
    """

    def __init__(
        self, whole: GroupSum, theta: Array, sums: Sequence[GroupSum], *, ridge: float
    ) -> None:
        self._whole, self._theta, self._sums, self._ridge = whole, theta, sums, ridge
        mass = np.array([each.mass for each in sums]) + _TINY
        middle = _median(mass)
        self._share = mass / mass.sum()
        held = np.array([each.diagonal for each in sums])
        self._metric = ridge + np.minimum(1.0, middle / mass) @ held
        self._scale = np.minimum(mass / middle, len(sums) / 2.0)
        self._light = np.minimum(1.0, middle * self._scale / mass)
        self._moments = np.array([each.moment for each in sums])
        self._rest = whole.moment - self._moments.sum(axis=0)
        counts = np.array([each.count for each in sums])
        usual = _median(counts)
        self._observations = float(np.minimum(counts, usual).sum())
        numbers = max(min(len(theta), usual), 1.0)
        self.most = (_K + 3.0 / numbers) ** 2

    def misfits(self, theta: Array) -> Array:
        """Return v of each group at an estimate (N)."""
        explained = np.array([each.times(theta) for each in self._sums])
        more = self._whole.times(theta) + self._ridge * theta - explained.sum(axis=0)
        residual = self._moments - explained + np.outer(self._share, self._rest - more)
        squares: Array = (residual * residual / self._metric).sum(axis=1)
        return np.maximum(squares / self._scale, _TINY)

    def centre(self, misfits: Array, weights: Array | None) -> tuple[Array, float]:
        """Return an estimate that few liars have not led, and the median of v there.

        The estimate from everything, where too little was observed to find one. ``misfits`` are
        those of that estimate.
        """
        d, n, theta = len(self._theta), self._observations, self._theta
        if n <= _ENOUGH * d:
            return theta, _median(misfits)
        if weights is not None:
            theta = self.solved(weights)
            misfits = self.misfits(theta)
        else:
            light = self._light
            for _ in range(_CENTRE_STEPS):
                pull = np.sqrt(np.minimum(self._scale, 1.0) / (self._scale * misfits))
                theta, before = self.solved(light * pull / pull.max()), _median(misfits)
                misfits, light = self.misfits(theta), np.ones(1)
                if abs(before - _median(misfits)) <= _NEAR * before:
                    break
        return theta, _median(misfits) * n / (n - d)

    def settled(self, theta: Array, typical: float) -> tuple[Array, Array]:
        """Return the estimate with sum of w r = 0, and w, from a centre on.

        Softer weights come first, the roots of w. What does not fit half of the groups is not
        taken: then the estimate before it stands.
        """
        weights = self._weights(theta, typical)
        for power in (0.5, 1.0):
            tried = theta
            for _ in range(_STEPS):
                before, tried = tried, self.solved(self._weights(tried, typical) ** power)
                if _length(tried - before) <= _CLOSE * _length(tried):
                    break
            if not _median(self.misfits(tried)) <= self.most * typical:
                break
            theta, weights = tried, self._weights(tried, typical)
        return theta, weights

    def _weights(self, theta: Array, typical: float) -> Array:
        return np.minimum(1.0, self.most * typical / self.misfits(theta))

    def solved(self, weights: Array) -> Array:
        """Return the estimate with sum of w r = 0 for given weights."""
        rest = float(weights @ self._share)
        right = weights @ self._moments + rest * self._rest
        parts = [(rest, self._whole), *zip((weights - rest).tolist(), self._sums, strict=True)]
        if self._sums[0].matrix is None:

            def times(y: Array) -> Array:
                total: Array = rest * self._ridge * y
                for weight, each in parts:
                    total = total + weight * each.times(y)
                return total

            away = right - times(self._theta)
            return self._theta + _conjugate_gradients(times, away, rest * self._metric)
        diagonal = rest * self._ridge + sum(weight * each.spread for weight, each in parts)
        matrix = np.diag(diagonal)
        for weight, each in parts:
            matrix += weight * each.square
        return np.linalg.solve(matrix, right)


def _conjugate_gradients(times: Callable[[Array], Array], right: Array, metric: Array) -> Array:
    """Return y with A y = right, for a positive definite A given by its products."""
    y, rest = np.zeros_like(right), right.copy()
    scaled = rest / metric
    step, size = scaled.copy(), float(rest @ scaled)
    enough = 1e-8 * size
    for _ in range(_CG_STEPS):
        if not size > enough:
            break
        product = times(step)
        curved = float(step @ product)
        if not curved > 0.0:
            break
        length = size / curved
        y, rest = y + length * step, rest - length * product
        scaled = rest / metric
        before, size = size, float(rest @ scaled)
        step = scaled + (size / before) * step
    return y


def _median(values: Array) -> float:
    ordered = sorted(values.tolist())  # of so few numbers it takes less time than numpy's
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0)


def _length(vector: Array) -> float:
    return sqrt(float(vector @ vector))
