"""Which groups of agents contradict the others, and the estimate without what they say.

A group g that sent G and b (``GroupSum``) is asked how well an estimate theta fits what it sent:

    r = b - G theta,    v = r^T D^-1 r / scale,    scale = mass of g / median mass, N / 2 at most,

with D the diagonal of the sum of all G, each scaled to the median mass at most. For honest groups r
is noise, whatever they have seen and however much, so that their v are alike: noise of mean square
s makes a v of

    e = s tr(D^-1 G) / scale

on average. s is what theta leaves of the squares of the group's rewards; the mean of all groups' at
least, so that those who had one of few rewards do not stand out, and about that of the median group
with rewards at most, whatever a group says. How far v may be above e depends on how many numbers it
is the sum of: that is read off how alike the v / e of the groups in the middle are. A group
contradicts theta if v exceeds a quantile for that number, of ``_Z`` deviations, times the larger of
e and the median v.

P, the estimate from everything, is told as it is, unless another theta fits the groups better. That
one is sought by steps that end where

    sum of w r = 0,    w = min(1, limit / v),

so that a group pulls no harder than at its limit, and one that would pull much harder, hardly at
all. There may be several: the one with the least sum of min(1, v / limit) is taken, with something
in favour of P. And P is told all the same where no group is beyond its limit at the other one, or
where one typical group would pull the estimate from there to P. In directions that no group speaks
of, theta stays P.

Where liars lead P, the v of all groups are large alike, and hide theirs. So medians are taken, and
steps begin, at the centre, where groups of equal weight would put theta (w = 1 / sqrt(v)), if there
are observations enough to tell that from chance.

What it holds is measured, not proven (docs/security.md): lies of honest size are found where
honest groups together know better. Lies that are no larger than noise are not, and as far as noise
of a group reaches, one liar moves the estimate; nor are those about what only the liar has seen.
Where few rewards are very large, honest groups that had one are doubted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.service.models.groups import FEWEST_GROUPS
from fedbandit.service.models.sums import GroupSum

DOUBTED: Final = 0.5
"""Groups with less weight than this are named."""

_Z = 5.0  # deviations that honest noise may be off, of 24 groups and many weighings
_UNEVEN = 3.0  # how much noisier than the median group's rewards may be, if v is of one number
_FAVOUR = 0.25  # of a group: so much worse P may fit
_ENOUGH = 1.5  # observations for each feature, without those of heavy groups, to find a centre
_STEPS = 20
_CENTRE_STEPS = 100  # few, unless liars are many
_CLOSE = 1e-3  # relative to the length of theta: a step as short is the last
_NEAR = 1e-2  # relative to the median v: at the centre, a step as short is the last
_TINY, _ALIKE = 1e-300, 1e6
_CG_STEPS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """The estimate to tell, None for the one from everything; and the weight of each group.

    ``metric``: D. ``typical``: the v of an honest group; -1 where that cannot be told.
    """

    theta: Array | None
    weights: Array
    metric: Array
    typical: float = -1.0


def weigh(whole: GroupSum, theta: Array, sums: Sequence[GroupSum], *, ridge: float) -> Weighed:
    """Return what to tell in place of ``theta``, the estimate from everything, ``whole``.

    Cost some systems of d equations, each put together from N matrices. Raises LinAlgError where
    numbers are too large for that.
    """
    everyone = np.ones(len(sums))
    if len(sums) < FEWEST_GROUPS:
        return Weighed(None, everyone, np.ones_like(theta))
    groups = _Groups(whole, theta, sums, ridge=ridge)
    misfits = groups.misfits(theta)
    centre, median = groups.centre(misfits)
    median = min(median, _median(misfits))
    limits, noise = groups.limits(centre, median)
    typical = max(median, _median(noise))
    if not np.isfinite(limits).all():
        raise _too_large()
    told, weights = groups.settled(centre, limits)
    pull = groups.pull(told - theta)
    needed = float(pull @ (pull / groups.metric))
    if not np.isfinite(needed):
        raise _too_large()
    if needed > typical and weights.min() < 1.0:
        return Weighed(told, weights, groups.metric, typical)
    return Weighed(None, everyone, groups.metric, typical)


def _too_large() -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError("numbers too large to weigh groups by")


class _Groups:
    """The groups as arrays, and the equations that an estimate is found by.

    The r of all groups add up to what everything together says: to b - (ridge I + G) theta of the
    whole. So each group has its share of the ridge, by what it has of each feature; and where the
    whole has more than the groups (what sketches lost on the way), of that, by its mass.
    """

    def __init__(
        self, whole: GroupSum, theta: Array, sums: Sequence[GroupSum], *, ridge: float
    ) -> None:
        self._whole, self._theta, self._sums, self._ridge = whole, theta, sums, ridge
        held = np.array([each.diagonal for each in sums])
        mass = held.sum(axis=1) + _TINY
        middle = _median(mass)
        self._share, self._owned = mass / mass.sum(), (held + _TINY) / (held + _TINY).sum(axis=0)
        self.metric = ridge + np.minimum(1.0, middle / mass) @ held
        self._scale = np.clip(mass / middle, 1e-6, len(sums) / 2.0)
        self._light = np.minimum(1.0, middle * self._scale / mass)
        self._leverage = self._light * (held / self.metric).sum(axis=1) / self._scale
        self._moments = np.array([each.moment for each in sums])
        self._rest = whole.moment - self._moments.sum(axis=0)
        self._counts = np.array([each.count for each in sums], dtype=np.float64)
        self._dense = (
            np.array([each.square for each in sums]) if sums[0].matrix is not None else None
        )
        self._spread = np.array([each.spread for each in sums])
        usual = _median(self._counts)
        self._observations = float(np.minimum(self._counts, usual).sum())
        self._numbers = max(min(float(len(theta)), usual), 1.0)

    def pull(self, away: Array) -> Array:
        """Return what it takes to move the estimate from everything by ``away`` (d)."""
        return self._whole.times(away) + self._ridge * away

    def limits(self, theta: Array, median: float) -> tuple[Array, Array]:
        """Return the v above which each group contradicts the others, and e (N each)."""
        left, numbers = self._left(theta), self._numbers
        noise = self._noise(left, 1.0)
        if (noise > 0.0).all():
            numbers = min(numbers, _numbers_in(self.misfits(theta) / noise))
            noise = self._noise(left, 1.0 + _UNEVEN / numbers)
        return np.asarray(_quantile(numbers) * np.maximum(median, noise)), noise

    def misfits(self, theta: Array) -> Array:
        """Return v of each group at an estimate (N)."""
        explained = self._explained(theta)
        more = self._whole.times(theta) - explained.sum(axis=0)
        residual = self._moments - explained + np.outer(self._share, self._rest - more)
        residual -= self._owned * (self._ridge * theta)
        squares: Array = (residual * residual / self.metric).sum(axis=1)
        return np.asarray(np.maximum(squares / self._scale, _TINY))

    def _explained(self, theta: Array) -> Array:
        """Return G theta of each group (N x d)."""
        if self._dense is None:
            return np.array([each.times(theta) for each in self._sums])
        return np.asarray(self._dense @ theta + self._spread * theta)

    def _left(self, theta: Array) -> Array:
        """Return the mean square that an estimate leaves of each group's rewards; 0 if unknown."""
        explained = 2.0 * self._moments @ theta - self._explained(theta) @ theta
        told = np.array([each.rewards.count for each in self._sums])
        squares = np.array([each.rewards.squares for each in self._sums])
        left = squares / np.maximum(told, 1) - explained / np.maximum(self._counts, 1.0)
        return np.where(told > 0, np.maximum(left, 0.0), 0.0)

    def _noise(self, left: Array, uneven: float) -> Array:
        """Return e of each group, the v that noise makes (N); 0 where too few tell of rewards."""
        told = np.array([each.rewards.squares > 0.0 for each in self._sums])
        known = np.array([each.rewards.count > 0 for each in self._sums])
        if not told.any() or known.mean() <= 0.5:
            return np.zeros(len(self._sums))
        some = np.sort(left[told])
        own = np.minimum(left, uneven * some[(len(some) - 1) // 2])
        return np.asarray(np.maximum(own, own.mean()) * self._leverage)

    def centre(self, misfits: Array) -> tuple[Array, float]:
        """Return an estimate that few liars have not led, and the median of v there.

        The estimate from everything, where too little was observed to find one. ``misfits`` are
        those of that estimate.
        """
        d, n, theta = len(self._theta), self._observations, self._theta
        if n <= _ENOUGH * d:
            return theta, _median(misfits)
        light = self._light
        for _ in range(_CENTRE_STEPS):
            least = np.maximum(misfits, 1e-6 * _median(misfits))  # of those that say nothing
            pull = np.sqrt(np.minimum(self._scale, 1.0) / (self._scale * least))
            before, theta = theta, self.solved(light * pull / pull.max())
            misfits, light, moved = self.misfits(theta), np.ones(1), theta - before
            if not moved @ (self.metric * moved) > _NEAR * _median(misfits):
                break
        return theta, _median(misfits) * n / (n - d)

    def settled(self, theta: Array, limits: Array) -> tuple[Array, Array]:
        """Return the estimate that fits the groups best, and the weights of the groups there.

        Softer steps, with the roots of w, end where more of the groups are; but at a liar where
        that outweighs the others in a direction.
        """
        alone = self._stepped(theta, limits, 1.0)
        both = self._stepped(self._stepped(theta, limits, 0.5), limits, 1.0)
        found = [self._theta, theta, alone, both]
        losses = np.array([self._loss(each, limits) for each in found])
        losses[0] -= _FAVOUR
        best = found[int(np.argmin(np.where(np.isnan(losses), np.inf, losses)))]
        return best, self._weights(best, limits)

    def _loss(self, theta: Array, limits: Array) -> float:
        """Return the sum of min(1, v / limit); v as if theta were not fitted to the same groups."""
        misfits = self.misfits(theta)
        weights = np.minimum(1.0, limits / misfits)
        n, d = float(weights @ self._counts), len(theta)
        over = n / (n - d) if n > _ENOUGH * d else 1.0
        return float(np.minimum(1.0, over * misfits / limits).sum())

    def _stepped(self, theta: Array, limits: Array, power: float) -> Array:
        """Return where steps with weights of this power end."""
        for _ in range(_STEPS):
            before, theta = theta, self.solved(self._weights(theta, limits) ** power)
            if not _length(theta - before) > _CLOSE * _length(theta):
                break
        return theta

    def _weights(self, theta: Array, limits: Array) -> Array:
        return np.minimum(1.0, limits / self.misfits(theta))

    def solved(self, weights: Array) -> Array:
        """Return the estimate with sum of w r = 0 for given weights."""
        rest, ridge = float(weights @ self._share), self._ridge * (weights @ self._owned)
        right, ours = weights @ self._moments + rest * self._rest, weights - rest
        if self._dense is None:
            parts = [(rest, self._whole), *zip(ours.tolist(), self._sums, strict=True)]

            def times(y: Array) -> Array:
                total: Array = ridge * y
                for weight, each in parts:
                    total = total + weight * each.times(y)
                return total

            away = right - times(self._theta)
            return self._theta + _conjugate_gradients(times, away, rest * self.metric)
        matrix = np.tensordot(ours, self._dense, 1) + rest * self._whole.square
        diagonal = ridge + ours @ self._spread + rest * self._whole.spread
        return np.linalg.solve(matrix + np.diag(diagonal), right)


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


def _numbers_in(ratios: Array) -> float:
    """Return of how many squares of normal numbers these are means, by the middle third of them.

    The mean of n squares has a deviation of sqrt(2 / n), and the third is 0.77 of that wide.
    """
    low, middle, high = np.quantile(ratios, (0.35, 0.5, 0.65)).tolist()
    alike = 0.77 * middle / max(high - low, _TINY)
    return float(max(1.0, 2.0 * min(alike, _ALIKE) ** 2))


def _quantile(numbers: float) -> float:
    """Return a quantile of the mean of so many squares of normal numbers, of ``_Z`` deviations."""
    part = 2.0 / (9.0 * numbers)
    return float((1.0 - part + _Z * sqrt(part)) ** 3)


def _median(values: Array) -> float:
    ordered = sorted(values.tolist())  # of so few numbers it takes less time than numpy's
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0)


def _length(vector: Array) -> float:
    return sqrt(float(vector @ vector))
