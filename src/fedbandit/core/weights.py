"""What was learned, coordinate by coordinate: theta with intervals from V."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan, sqrt

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Reading
from fedbandit.core.statistics import Base

_NORMAL = 1.96  # deviations on either side of a 95 % interval
_BLOCK = 256  # coordinates whose widths are computed at once


@dataclass(frozen=True, slots=True)
class Weight:
    """The weight of a feature, or of a pair of them: what 1 of it adds to a reward.

    ``low`` to ``high`` is an interval of 95 %, if the model is linear, its noise normal, and
    nothing was lost: what a sketch has shed biases the weight, and the interval leaves that out.
    ``unknown``: 1 if nothing was learned of it, near 0 if its direction was seen often. ``shared``:
    others have the same place, so that their weights cannot be told apart.
    """

    name: str
    weight: float
    low: float
    high: float
    unknown: float
    shared: bool = False


def noise_of(base: Base) -> float:
    """Return the deviation of rewards from what theta explains; NaN where no rewards are known."""
    known = base.statistics
    if not known.rewards.count or not known.count:
        return nan
    explained = float(base.theta @ known.moment) / known.count
    return sqrt(max(0.0, known.rewards.squares / known.rewards.count - explained))


def half_widths(diagonal: Array, *, noise: float, radius: float) -> Array:
    """Return half of the interval around every coordinate of theta, from that of V^{-1} (d).

    It is 1.96 times the noise times the root of the diagonal of V^{-1}; the radius takes the place
    of 1.96 times the noise where that is not known.
    """
    scale = _NORMAL * noise if isfinite(noise) else radius
    return scale * np.sqrt(diagonal)


def inverse_diagonal(reading: Reading, d: int) -> Array:
    """Return the diagonal of V^{-1} (d)."""
    found = [
        reading.squared_widths(np.eye(min(_BLOCK, d - start), d, start))
        for start in range(0, d, _BLOCK)
    ]
    return np.concatenate(found)


def weights_of(
    reading: Reading,
    theta: Array,
    *,
    ridge: float,
    noise: float,
    radius: float,
    terms: Mapping[str, tuple[int, float]] | None = None,
) -> list[Weight]:
    """Return weights, the largest first: of ``terms``, place and sign by name, or of coordinates.

    ``noise``: see ``noise_of``; NaN if not known. Cost that of as many decisions as V has rows.
    """
    diagonal = inverse_diagonal(reading, len(theta))
    halves = half_widths(diagonal, noise=noise, radius=radius)
    unknown = np.minimum(ridge * diagonal, 1.0)
    if terms is None:
        terms = {f"feature {j}": (j, 1.0) for j in range(len(theta))}
    places = [place for place, _ in terms.values()]
    held = np.bincount(places, minlength=len(theta)) if places else np.zeros(len(theta))
    made = [
        Weight(
            name,
            float(sign * theta[place]),
            float(sign * theta[place] - halves[place]),
            float(sign * theta[place] + halves[place]),
            float(unknown[place]),
            shared=bool(held[place] > 1),
        )
        for name, (place, sign) in terms.items()
    ]
    return sorted(made, key=lambda each: (-abs(each.weight), each.name))
