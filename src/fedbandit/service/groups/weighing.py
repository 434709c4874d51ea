"""An estimate that no group of agents sways much, and which groups contradict it.

A group g that sent G and b (``GroupSum``) is asked how well an estimate theta fits what it sent:

    r = b - G theta,    v = r^T M^-1 r / scale,    scale = min(1, mass of g / median mass);

mass excuses no lie, but for what was merged before a model had groups, which is not one agent's. M
is the ridge and the sum of all G, each scaled to the median mass at most. It is no more than the V
that estimates are solved with: who has a v moves theta by sqrt(v scale) at most, as V measures
lengths, whatever features go together. (By its diagonal alone, a lie along what few features have
in common looked small.) For honest groups r is noise, whatever they have seen, so that their v are
alike, and larger only for those that have seen more: these count as much as a typical one. Noise of
mean square s makes a v of

    e = s tr(M^-1 G) median mass / mass of g

on average, of as much as the median group has seen. s is what theta leaves of the squares of the
group's rewards; the mean of all groups' at least, so that those who had one of few rewards do not
stand out, and that of the median group with rewards at most, whatever a group says. Agents are
told the theta with

    sum of w r = 0,    w = min(1, max(median v, e) / v):

a group pulls no harder than a typical one, and one that would pull much harder, hardly at all.
There, groups whose v is more than ``_FAR`` deviations of noise explain (a quantile q, see below)
are trusted less, t = min(1, q max(median v, e) / v)^4, and theta is found once more with t w for w.
Once, not in turns: what is trusted less fits worse, and honest groups would be lost. In directions
that no group speaks of, theta is that of the estimate from all sums, P.

Where liars lead P, the v of all groups are large alike, and hide theirs. So the median is taken,
and the steps to theta begin, at the centre: where groups of equal weight would put theta
(w = 1 / sqrt(v)), if there are observations enough to tell that from chance.

A group contradicts the others where its v is more than noise explains: a quantile, of ``_Z``
deviations, times max(median v, e). Of how many numbers a v is the sum is read off how alike the
groups in the middle are, since few rewards, or very unequal ones, make few numbers.

Where most groups have seen next to nothing, the median mass is theirs, and those who did nearly all
of the work would count no more than they. So if the second heaviest group has more than ``_UNLIKE``
times the median mass, all this is done once more with its mass in place of the median: one group
alone cannot make that larger than what another one has. The outcome is told if noise explains what
the groups, as weighed by the median, have against it (``explains``).

What it holds is measured, not proven (docs/security.md). Lies that are no larger than noise move
the estimate like noise, and what only a liar has seen is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array
from fedbandit.service.groups.membership import FEWEST_GROUPS
from fedbandit.service.groups.sums import SILENT, GroupSum

_Z = 5.0  # deviations beyond which a group is named: some 24 groups are looked at many times
_FAR, _FALL = 2.0, 4  # deviations from which on a group is trusted less, and how steeply
_LITTLE = 0.03  # to that power is the least that is left of it
_ENOUGH = 1.5  # observations for each feature, without those of heavy groups, to find a centre
_RIDGE = 0.1  # of the ridge and the mean weight: what is left where those who saw a feature lie
_STEPS = 20
_CENTRE_STEPS = 100  # few, unless liars are many
_CLOSE = 1e-3  # relative to the length of theta: a step as short is the last
_NEAR = 1e-2  # relative to the median v: at the centre, a step as short is the last
_UNLIKE = 4.0  # times the median mass: what the second heaviest group has where groups are unlike
_LEAST, _TINY, _ALIKE, _MOST = 1e-6, 1e-300, 1e6, 1e300


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """The estimate to tell, None for the one from everything; and the weight of each group.

    ``doubted`` says which groups contradict the others. ``inverse``: M^-1 (d x d). ``typical``: the
    v of an honest group; -1 where that cannot be told. ``ridges``: the ridge of each feature in
    theta (d), None for that of the model.
    """

    theta: Array | None
    weights: Array
    doubted: NDArray[np.bool_]
    inverse: Array
    typical: float = -1.0
    ridges: Array | None = None


def weigh(
    sums: Sequence[GroupSum],
    *,
    ridge: float,
    trusted: Sequence[bool] | None = None,
    sent: Sequence[GroupSum] | None = None,
) -> Weighed:
    """Return what to tell in place of the estimate from all ``sums``.

    ``trusted``: groups whose mass is theirs, however much it is: those that are not one agent's.
    ``sent``: all of what groups sent, where only a share of it is in ``sums`` (``certainty``).
    Cost some systems of d equations, each put together from N matrices. Raises LinAlgError where
    numbers are too large for that.
    """
    if sum(each.mass > SILENT * ridge for each in sums) < FEWEST_GROUPS:
        full = np.ones(len(sums))
        return Weighed(None, full, full > 1.0, np.eye(len(sums[0].moment) if sums else 1))
    sent, trusted = sent or sums, trusted or [False] * len(sums)
    groups = _Groups(sums, ridge=ridge, trusted=trusted, sent=sent)
    found = _weighed(groups, sent)
    if groups.second > _UNLIKE * groups.middle:
        fuller = _Groups(sums, ridge=ridge, trusted=trusted, sent=sent, middle=groups.second)
        other = _weighed(fuller, sent)
        if other.theta is not None and groups.explains(other.theta, found, sent):
            return other
    return found


def _weighed(groups: _Groups, sent: Sequence[GroupSum]) -> Weighed:
    """Return what to tell by groups of which none counts as more than one of the middle mass."""
    misfits = groups.misfits(groups.pooled)
    centre, median = groups.centre(misfits)
    noise = groups.noise(centre, sent)
    limits = np.maximum(min(median, groups.median(misfits)), noise)
    told = groups.settled(centre, limits)
    misfits = _finite(groups.misfits(told), limits)
    weights = np.minimum(1.0, limits / misfits)
    usual = groups.heavier(weights) * limits
    doubted = misfits > groups.quantile(centre, noise, _Z) * usual
    trust = np.clip(groups.quantile(centre, noise, _FAR) * usual / misfits, _LITTLE, 1.0) ** _FALL
    if trust.min() < 1.0:
        told = groups.settled(told, limits, trust)
        weights = trust * np.minimum(1.0, limits / _finite(groups.misfits(told), limits))
    typical = groups.median(limits)
    return Weighed(told, weights, doubted, groups.inverse, typical, groups.ridges(weights))


class _Groups:
    """The groups as arrays, and the equations that an estimate is found by.

    The r of all groups add up to b - (ridge I + G) theta of their sum. So each group has its share
    of the ridge, by what it has of each feature. What only the whole has, what sketches lost on the
    way and what no sum has, does not count: a liar could make that what it likes.
    """

    def __init__(
        self,
        sums: Sequence[GroupSum],
        *,
        ridge: float,
        trusted: Sequence[bool],
        sent: Sequence[GroupSum],
        middle: float | None = None,
    ) -> None:
        """Take the sums, and all that each group ``sent``, of which they are a part.

        ``middle``: the mass in place of the median group's, for groups that are unlike each other.
        """
        self._sums, self._ridge = sums, ridge
        held = np.maximum(np.array([each.diagonal for each in sums]), 0.0)
        mass = held.sum(axis=1) + _TINY
        self._speak = mass > SILENT * ridge
        self._mass, usual = mass, self.median(mass)
        self.middle = middle = usual if middle is None else middle
        self.second = float(np.sort(np.where(trusted, 0.0, mass))[-2])
        self._owned = (held + _TINY) / (held + _TINY).sum(axis=0)
        self._light = np.minimum(1.0, middle * (len(sums) / 2.0) / mass)
        most = np.where(trusted, np.inf, 1.0)
        all_sent = np.array([each.mass for each in sent])
        usual_sent = self.median(all_sent) * middle / usual
        some = np.maximum(mass / middle, np.minimum(1.0, all_sent / usual_sent))
        self._scale = np.clip(some, _LEAST, most)
        self._more = np.maximum(1.0, mass / (middle * self._scale))
        self._moments = np.array([each.moment for each in sums])
        self._counts = np.array([each.count for each in sums], dtype=np.float64)
        self._dense = np.array([each.square for each in sums])
        self._spread = np.array([each.spread for each in sums])
        self._metric = self._sum(np.minimum(1.0, middle / mass)) + ridge * np.eye(held.shape[1])
        self._half = np.linalg.inv(np.linalg.cholesky(self._metric))
        self.inverse: Array = self._half.T @ self._half
        seen = np.array([each.along(self.inverse) for each in sums])
        self._leverage = seen / (self._scale * self._more)
        few = self.median(self._counts) * middle / usual
        self._observations = float(np.minimum(self._counts, few).sum())
        self.pooled = self.solved(np.ones(len(sums)))
        self._numbers = max(min(float(len(self.pooled)), few), 1.0)

    def median(self, values: Array) -> float:
        """Return the median of the groups that have seen anything."""
        return _median(values[self._speak])

    def heavier(self, weights: Array) -> Array:
        """Return how much larger v may be of groups that know much of what the estimate knows (N).

        v is not divided by what a group has more than others; and it has the noise of the estimate
        too, which is that of what the weights leave.
        """
        return np.asarray(self._more * (1.0 + self._mass / float(weights @ self._mass)))

    def quantile(self, theta: Array, noise: Array, deviations: float) -> float:
        """Return how many times the typical v a group has by chance, at so many deviations."""
        usual = noise[self._speak]
        usual = usual if (usual > 0.0).all() else np.ones(1)
        alike = _numbers_in(self.misfits(theta)[self._speak] / usual)
        return _far(min(self._numbers, alike), deviations)

    def misfits(self, theta: Array) -> Array:
        """Return v of each group at an estimate (N)."""
        residual = self._moments - self._explained(theta) - self._owned * (self._ridge * theta)
        squares = np.square(residual @ self._half.T).sum(axis=1)
        return np.asarray(np.maximum(squares / self._scale, _TINY))

    def _sum(self, weights: Array) -> Array:
        """Return the sum of w G (d x d)."""
        return np.tensordot(weights, self._dense, 1) + np.diag(weights @ self._spread)

    def _explained(self, theta: Array) -> Array:
        """Return G theta of each group (N x d)."""
        return np.asarray(self._dense @ theta + self._spread * theta)

    def explains(self, theta: Array, found: Weighed, sent: Sequence[GroupSum]) -> bool:
        """Say whether noise explains what these groups, as weighed, have against an estimate.

        R = sum of w r, with the ridge left out, has a length R^T (ridge I + sum of w G)^-1 R of s d
        on average if it is true; s is that of those who tell of their rewards. No group has more
        than the median mass in it, or one that agrees with what was found would speak for all.
        """
        told = self._speak & np.array([each.rewards.count > 0 for each in sent])
        if told.sum() < FEWEST_GROUPS:
            return False
        left = self._left(self.pooled if found.theta is None else found.theta, sent, told)
        weights = np.minimum(found.weights, self.middle / self._mass)
        against, d = weights @ (self._moments - self._explained(theta)), len(theta)
        whole = self._sum(weights) + self._ridge * np.eye(d)
        length = float(against @ np.linalg.solve(whole, against))
        return length <= _far(float(d), _Z) * d * float(left[told].mean())

    def noise(self, theta: Array, sent: Sequence[GroupSum]) -> Array:
        """Return e of each group (N); 0 for all where too few tell of their rewards."""
        speak = self._speak
        told = np.array([each.rewards.count > 0 for each in sent])[speak]
        left = self._left(theta, sent, speak)
        if told.mean() <= 0.5:
            return np.zeros(len(self._sums))
        return np.asarray(np.maximum(left, left[speak].mean()) * self._leverage)

    def _left(self, theta: Array, sent: Sequence[GroupSum], among: NDArray[np.bool_]) -> Array:
        """Return s of each group (N), no more than that of the median one ``among`` these."""
        told = np.array([each.rewards.count for each in sent])
        squares = np.array([each.rewards.squares for each in sent])
        explained = np.array([(2.0 * each.moment - each.times(theta)) @ theta for each in sent])
        left = squares / np.maximum(told, 1) - explained / np.maximum(self._counts, 1.0)
        left = np.where(told > 0, np.maximum(left, 0.0), 0.0)
        some = np.sort(left[among & (squares > 0.0)])
        return np.asarray(np.minimum(left, some[(len(some) - 1) // 2]) if len(some) else 0.0 * left)

    def centre(self, misfits: Array) -> tuple[Array, float]:
        """Return an estimate that few liars have not led, and the median of v there.

        The estimate from everything, where too little was observed to find one. ``misfits`` are
        those of that estimate.
        """
        d, n, theta = len(self.pooled), self._observations, self.pooled
        if n <= _ENOUGH * d:
            return theta, self.median(misfits)
        light = self._light
        for _ in range(_CENTRE_STEPS):
            least = np.maximum(misfits, _LEAST * self.median(misfits))
            pull = np.sqrt(np.minimum(self._scale, 1.0) / (self._scale * least))
            before, theta = theta, self.solved(light * pull / pull.max())
            misfits, light, moved = self.misfits(theta), np.ones(1), theta - before
            if not moved @ self._metric @ moved > _NEAR * self.median(misfits):
                break
        return theta, self.median(misfits) * n / (n - d)

    def settled(self, theta: Array, limits: Array, trust: Array | float = 1.0) -> Array:
        """Return the estimate with sum of t w r = 0, by steps from a centre on."""
        for _ in range(_STEPS):
            weights = trust * np.minimum(1.0, limits / self.misfits(theta))
            before, theta = theta, self.solved(weights)
            if not _length(theta - before) > _CLOSE * _length(theta):
                break
        return theta

    def ridges(self, weights: Array) -> Array:
        """Return the ridge of each feature (d) for given weights."""
        least = _RIDGE * float(weights @ self._mass) / float(self._mass.sum())
        return np.asarray(self._ridge * np.maximum(weights @ self._owned, least))

    def solved(self, weights: Array) -> Array:
        """Return the estimate with sum of w r = 0 for given weights."""
        whole = self._sum(weights) + np.diag(self.ridges(weights))
        return np.asarray(np.linalg.solve(whole, weights @ self._moments))


def _far(numbers: float, deviations: float) -> float:
    """Return how many times its mean a sum of so many squares is at so many deviations.

    Wilson and Hilferty's approximation, for chi squared.
    """
    part = 2.0 / (9.0 * numbers)
    return float((1.0 - part + deviations * sqrt(part)) ** 3)


def _numbers_in(ratios: Array) -> float:
    """Return of how many squares of normal numbers these are means, by the middle third of them.

    The mean of n squares has a deviation of sqrt(2 / n), and the third is 0.77 of that wide.
    """
    low, middle, high = np.quantile(ratios, (0.35, 0.5, 0.65)).tolist()
    alike = 0.77 * middle / max(high - low, _TINY)
    return float(max(1.0, 2.0 * min(alike, _ALIKE) ** 2))


def _finite(misfits: Array, limits: Array) -> Array:
    """Return the v of groups, none so large that it cannot be held against its limit.

    Raise LinAlgError where one is no number.
    """
    if not np.isfinite(misfits).all():
        raise np.linalg.LinAlgError("numbers too large to weigh groups by")
    return np.asarray(np.minimum(misfits, _MOST * np.minimum(limits, 1.0)))


def _median(values: Array) -> float:
    ordered = sorted(values.tolist())  # of so few numbers it takes less time than numpy's
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0)


def _length(vector: Array) -> float:
    return sqrt(float(vector @ vector))
