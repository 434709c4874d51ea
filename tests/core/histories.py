"""Arms to absorb, for property tests: of every shape that has ever broken a sketch."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Array = NDArray[np.float64]


@st.composite
def histories(draw: st.DrawFn, *, dimension: int | None = None, most: int = 40) -> Array:
    """Return n x d arms: any scale, any rank, repeats, zeros and near-parallel rows included."""
    d = dimension or draw(st.integers(1, 9))
    n = draw(st.integers(0, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rank = draw(st.integers(1, d))
    arms = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
    arms *= draw(st.sampled_from([1e-3, 1.0, 30.0]))
    kind = draw(st.sampled_from(["plain", "repeated", "with zeros", "nearly parallel", "decaying"]))
    if n and kind == "repeated":
        arms = arms[rng.integers(0, min(3, n), size=n)]
    elif n and kind == "with zeros":
        arms[rng.random(n) < 0.5] = 0.0
    elif n and kind == "nearly parallel":
        arms = arms[:1] + 1e-7 * arms
    elif kind == "decaying":
        arms *= 10.0 ** -np.arange(d)
    return arms


def assert_psd_order(small: Array, large: Array, *, scale: float) -> None:
    """Assert small <= large in the PSD order, up to rounding of matrices of norm ``scale``."""
    assert np.linalg.eigvalsh(large - small).min() >= -1e-12 * (1.0 + scale)
