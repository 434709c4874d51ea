"""Means over trials with 95 % intervals, of one algorithm or of two on the same tapes."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from fedbandit.errors import InvalidParameter, complaint

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over trials and half the width of its 95 % interval, which is NaN for one trial."""

    mean: float
    ci95: float

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.ci95

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.ci95

    def scaled(self, factor: float) -> "Estimate":
        """Return the same in other units."""
        return Estimate(factor * self.mean, abs(factor) * self.ci95)

    def complement(self) -> "Estimate":
        """Turn a share that is left into the share that is saved: 1 - mean, the same width."""
        return Estimate(1.0 - self.mean, self.ci95)


def t_quantile(trials: int) -> float:
    """Student's t that leaves 2.5 % on either side, for a mean of so many trials; NaN for one."""
    if trials < 2:
        return math.nan
    return float(stdtrit(trials - 1, 0.5 + CONFIDENCE / 2))


def estimate(values: ArrayLike) -> Estimate:
    """Mean of independent trials with Student's t interval."""
    sample = _sample("estimate", values)
    return Estimate(float(sample.mean()), _half_width(sample))


def ratio(numerators: ArrayLike, denominators: ArrayLike) -> Estimate:
    """Ratio of two means over the same trials, with the interval that their pairing allows.

    r = mean(a) / mean(b). To first order the error of r is the mean of (a - r b) / mean(b), whose
    spread over trials is what the interval is made of: what both sides of a trial share (an easy
    tape, a slow minute) cancels. A ratio of means, unlike a mean of ratios, lets no trial with a
    small denominator run away with the result. NaN where mean(b) is zero.
    """
    above, below = _sample("ratio", numerators), _sample("ratio", denominators)
    if above.size != below.size:
        raise InvalidParameter(
            complaint(
                "ratio",
                got=f"{above.size} numerators and {below.size} denominators",
                expected="one pair per trial",
                fix="Pass the same trials on both sides.",
            )
        )
    scale = float(below.mean())
    if scale == 0.0:
        return Estimate(math.nan, math.nan)
    share = float(above.mean()) / scale
    return Estimate(share, _half_width((above - share * below) / scale))


def gap_loss(played: ArrayLike, reference: ArrayLike, floor: ArrayLike) -> Estimate:
    """Return what ``played`` lost to ``reference`` as a share of the lead of that over ``floor``.

    0 is as good as the reference, 1 is no better than the floor, below 0 is better than the
    reference. One reward per trial, the three on the same tapes.
    """
    best = np.asarray(reference, dtype=np.float64)
    return ratio(best - np.asarray(played), best - np.asarray(floor))


@dataclass(frozen=True)
class Band:
    """A mean curve and its 95 % interval at every checkpoint; without an interval for one trial."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def band(curves: NDArray[np.float64]) -> Band:
    """Pointwise mean and interval of curves given as trials x checkpoints."""
    mean = curves.mean(axis=0)
    trials = curves.shape[0]
    if trials < 2:
        return Band(mean, mean, mean)
    half = t_quantile(trials) * curves.std(axis=0, ddof=1) / math.sqrt(trials)
    return Band(mean, mean - half, mean + half)


def log_band(curves: NDArray[np.float64]) -> Band:
    """Return the band for a log axis: the interval of log mean, to first order; needs mean > 0.

    mean exp(± h / mean), where h is half the width of ``band``: the two agree where h is small,
    and this one stays above zero where the other does not.
    """
    plain = band(curves)
    stretch = np.exp((plain.high - plain.mean) / plain.mean)
    return Band(plain.mean, plain.mean / stretch, plain.mean * stretch)


def _half_width(sample: NDArray[np.float64]) -> float:
    if sample.size < 2:
        return math.nan
    return t_quantile(sample.size) * float(sample.std(ddof=1)) / math.sqrt(sample.size)


def _sample(who: str, values: ArrayLike) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise InvalidParameter(
            complaint(
                who,
                got=f"values of shape {sample.shape}",
                expected="one number per trial, at least one",
                fix="Pass a list of numbers.",
            )
        )
    return sample
