"""Arms exactly as long as a model allows, and recipes with bounds by coordinate to try them on."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import fedbandit as fb

COORDINATES: dict[str, Callable[..., fb.Recipe]] = {
    "lean": lambda d, ridge, alpha: fb.FSCLB.lean(dimension=d, agents=2, ridge=ridge, alpha=alpha),
    "lean, tight": lambda d, ridge, alpha: fb.FSCLB.lean(
        dimension=d, agents=2, ridge=ridge, alpha=alpha, radius="tight"
    ),
    "lean, one row": lambda d, ridge, alpha: fb.FSCLB.lean(
        dimension=d, agents=2, ridge=ridge, alpha=alpha, sketch_size=2
    ),
    "float64": lambda d, ridge, alpha: fb.FSCLB(
        dimension=d,
        agents=2,
        sketch_size=1 + (d + 1) // 2,
        ridge=ridge,
        alpha=alpha,
        estimate="corrected",
        cadence="buffered",
        compensation="coordinates",
    ),
}


def drawn(rng: np.random.Generator, d: int, length: float) -> NDArray[np.float64]:
    """An arm exactly as long as it may be: random, or along an axis, where bounds are tight."""
    arm = rng.standard_normal(d) if rng.random() < 0.5 else np.eye(d)[rng.integers(d)]
    longest: NDArray[np.float64] = length * arm / np.linalg.norm(arm)
    return longest
