"""What makes a world a tape: streams of their own, drawn in blocks, with sums in a fixed order.

Each thing that is random (agents, arms, noise, ...) has a stream of its own that is read in order,
so how many rounds are drawn at a time decides speed and nothing else. Nothing here goes through
BLAS or LAPACK: those round differently with another number of threads, and a tape must not.
"""

import numpy as np
from numpy.typing import NDArray

FLOATS_PER_BLOCK = 2**18
"""How many numbers a block of arms holds at most (2 MB), unless one round alone has more."""

ROUNDS_PER_BLOCK = 512
"""How many rounds a block holds at most: a short run should not pay for a long one."""

MOST = 10**9
"""More agents, arms or features than this nobody means; numpy could not even count the bytes."""


def streams(seed: int, count: int) -> list[np.random.Generator]:
    """Return independent generators; the i-th is the same whatever the count.

    SFC64 because drawing normals is most of a world's time and it is a fifth faster than the
    default.
    """
    sequences = np.random.SeedSequence(seed).spawn(count)
    return [np.random.Generator(np.random.SFC64(sequence)) for sequence in sequences]


def block_length(floats_per_round: int) -> int:
    """Return how many rounds to draw at once, at least one: memory stays bounded for long arms."""
    return max(1, min(ROUNDS_PER_BLOCK, FLOATS_PER_BLOCK // floats_per_round))


def lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Euclidean length of every row (last axis), summed in the same order every time."""
    squares: NDArray[np.float64] = np.einsum("...d,...d->...", rows, rows)
    return np.sqrt(squares)
