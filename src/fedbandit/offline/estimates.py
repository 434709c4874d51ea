"""Estimates of what a policy would have earned, from rows of weights and rewards.

A row is a logged event with reward r, the probability p of what was done, and the probability q
with which the policy would have done the same. Its weight is w = q / p.

* ``ips``, inverse propensity scores: the mean of w r. Unbiased, noisy where p is small.
* ``snips``, self-normalised: the sum of w r over the sum of w. A small bias for much less noise.
* ``dr``, doubly robust: the mean of m + w (r - m'), where a model expects m of the policy and m' of
  what was done. Unbiased whatever the model; the better it is, the less noise.
* ``replay``: the mean of r over the rows on which the policy did by chance what was done; which is
  ``snips`` with the same weight for these rows and 0 for all others.

All are ratios or means, so intervals come from one matrix of second moments (``Sums``), by the
delta method; so does the interval of the difference to what was logged on the same rows.
"""

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import Final, Literal

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.offline.sums import Sums

Method = Literal["replay", "ips", "snips", "dr"]
METHODS: Final[tuple[Method, ...]] = ("replay", "ips", "snips", "dr")

LEAST_ROWS: Final = 100
"""Effective rows below which nothing is concluded: the intervals are those of large samples."""
LEAST_REWARDED: Final = 10
"""Effective rows with a reward other than 0 below which nothing is concluded, for the same."""

_COLUMNS = 5
_REWARD, _WEIGHT, _WEIGHTED, _ROBUST, _SIZE = range(_COLUMNS)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval, the same for its difference to what was logged, and its support.

    ``rows``: events that were looked at. ``effective``: to how many equally weighted rows they
    amount, (sum of w)^2 / sum of w^2. ``rewarded``: the same, of those whose reward is not 0.
    ``weight``: the mean of w, which is 1 but for chance where logged probabilities are right and
    everything that the policy would do was done now and then; ``supported``: whether it is.
    """

    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float
    rows: int
    effective: float
    rewarded: float
    weight: float
    supported: bool

    @property
    def enough(self) -> bool:
        """Whether anything can be concluded from the rows."""
        big = self.effective >= LEAST_ROWS and self.rewarded >= LEAST_REWARDED
        return big and self.supported

    @property
    def verdict(self) -> str:
        """What can be said of the policy against what was done, in words."""
        if self.effective < LEAST_ROWS:
            return f"too little: {self.effective:.0f} effective rows, {LEAST_ROWS} needed"
        if not self.supported:
            return f"no basis: weights average {self.weight:.2g}, not 1"
        if self.rewarded < LEAST_REWARDED:
            return f"too little: {self.rewarded:.0f} rows with a reward, {LEAST_REWARDED} needed"
        if self.gain_low > 0.0:
            return "better"
        return "worse" if self.gain_high < 0.0 else "cannot tell"


class Weighed:
    """Rows of one policy, added up: any of the estimates can be asked for at any time."""

    def __init__(self, sums: Sums | None = None) -> None:
        self._sums = Sums.empty(_COLUMNS) if sums is None else sums

    @property
    def rows(self) -> int:
        """How many rows were added."""
        return self._sums.count

    def add(
        self,
        reward: Array,
        weight: Array,
        expected: Array | float = 0.0,
        predicted: Array | float = 0.0,
    ) -> None:
        """Add rows: reward, weight, and what the model expects of the policy and of what was done.

        All of length n; without a model, ``dr`` is the same as ``ips``.
        """
        weighted = weight * reward
        robust = expected + weight * (reward - predicted)
        self._sums.add(np.column_stack([reward, weight, weighted, robust, np.abs(weighted)]))

    def plus(self, other: "Weighed") -> "Weighed":
        """Return the rows of both."""
        return Weighed(self._sums.plus(other._sums))

    def estimate(self, method: Method, *, level: float = 0.95) -> Estimate:
        """Return an estimate with intervals that cover the truth with probability ``level``."""
        from statistics import NormalDist  # which takes a device 10 ms to import

        sums, means = self._sums, self._sums.means
        value, slope = self._value(method)
        own = np.zeros(_COLUMNS)
        own[_REWARD] = 1.0
        z = NormalDist().inv_cdf(0.5 + level / 2.0)
        half = z * sqrt(sums.variance_of_mean(slope))
        apart = z * sqrt(sums.variance_of_mean(slope - own))
        gain = value - float(means[_REWARD])
        return Estimate(
            value,
            value - half,
            value + half,
            gain,
            gain - apart,
            gain + apart,
            sums.count,
            self._effective(_WEIGHT, _WEIGHT),
            self._effective(_SIZE, _WEIGHTED),
            float(means[_WEIGHT]),
            self._supported(),
        )

    def _supported(self) -> bool:
        """Return whether the mean weight is 1, but for five standard errors or a twentieth."""
        only = np.zeros(_COLUMNS)
        only[_WEIGHT] = 1.0
        room = max(0.05, 5.0 * sqrt(self._sums.variance_of_mean(only)))
        return abs(float(self._sums.means[_WEIGHT]) - 1.0) <= room

    def _value(self, method: Method) -> tuple[float, Array]:
        """Return a value, and by how much each column moves it."""
        means, slope = self._sums.means, np.zeros(_COLUMNS)
        if method in ("ips", "dr"):
            column = _WEIGHTED if method == "ips" else _ROBUST
            slope[column] = 1.0
            return float(means[column]) if self.rows else nan, slope
        if not means[_WEIGHT] > 0.0:
            slope[_REWARD] = inf if not self.rows else 0.0
            return nan, slope
        value = float(means[_WEIGHTED] / means[_WEIGHT])
        slope[_WEIGHTED], slope[_WEIGHT] = 1.0 / means[_WEIGHT], -value / means[_WEIGHT]
        return value, slope

    def _effective(self, total: int, squares: int) -> float:
        squared = self._sums.total_of_squares(squares)
        return (
            (self._sums.count * float(self._sums.means[total])) ** 2 / squared if squared else 0.0
        )
