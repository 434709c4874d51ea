"""What an arm pays, given its score: Gaussian rewards, clicks, or ratings from 1 to 5."""

from collections.abc import Mapping
from contextlib import suppress
from math import inf, isfinite
from numbers import Real
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import one_of, real
from fedbandit.errors import InvalidParameter, complaint

LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "gaussian": (-inf, inf),
    "clicks": (0.0, 1.0),
    "ratings": (1.0, 5.0),
}
"""The kinds of rewards, and between which numbers their means are."""


def checked_rewards(
    kind: str, *, noise: object, signal: object, mean: object, meanless: bool = True
) -> dict[str, float | None]:
    """Return noise, signal and mean as checked floats.

    The mean may be None where the world can do without (``meanless``), for Gaussian rewards alone.
    """
    one_of("rewards", kind, LIMITS)
    checked = {"noise": real("noise", noise, zero=True), "signal": real("signal", signal)}
    return {**checked, "mean": _checked_mean(kind, mean, meanless)}


def paid(
    scores: NDArray[np.float64], stream: np.random.Generator, *, kind: str, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the means and one draw of the rewards of arms with these scores.

    - ``"gaussian"``: the mean is the score; the reward is that plus ``noise`` standard normals.
    - ``"clicks"``: the mean is the score cut to [0, 1]; the reward is 1 with that chance, else 0.
    - ``"ratings"``: the mean is the score cut to [1, 5]; the reward is 1 plus the number of
      successes in 4 trials, a whole number with exactly that mean.
    """
    if kind == "gaussian":
        return scores, scores + noise * stream.standard_normal(scores.shape)
    low, high = LIMITS[kind]
    means = np.clip(scores, low, high)
    trials = int(high - low)
    draws = stream.random((*scores.shape, trials))
    successes = draws < ((means - low) / trials)[..., np.newaxis]
    return means, low + successes.sum(axis=-1)


def _checked_mean(kind: str, mean: object, meanless: bool) -> float | None:
    low, high = LIMITS[kind]
    if mean is None and meanless and kind == "gaussian":
        return None
    if isinstance(mean, Real) and not isinstance(mean, bool):
        with suppress(OverflowError):  # a whole number too long for a float
            number = float(mean)
            if isfinite(number) and low <= number <= high:
                return number
    wanted = "a finite number" if kind == "gaussian" else f"a number from {low:g} to {high:g}"
    got = f"{mean!r} with rewards {kind!r}"
    raise InvalidParameter(complaint("mean", got=got, expected=wanted, fix="Change mean."))
