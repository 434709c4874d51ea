"""What makes rounds repeatable: separate random streams, drawn in blocks, sums in a fixed order.

Each random quantity (agents, arms, noise, ...) has a stream of its own that is read in order, so
the number of rounds drawn at a time affects speed alone. Nothing here goes through BLAS or LAPACK,
whose rounding depends on the number of threads.
"""

import numpy as np
from numpy.typing import NDArray

FLOATS_PER_BLOCK = 2**18
"""How many numbers a block of arms holds at most (2 MB), unless one round alone has more."""

ROUNDS_PER_BLOCK = 512
"""How many rounds a block holds at most: a short run should not pay for a long one."""

MOST = 10**9
"""The largest number of agents, arms or features: numpy cannot allocate many more."""


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


def with_constant(block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the arms with a constant 1 as their last feature."""
    return np.concatenate([block, np.ones((*block.shape[:-1], 1))], axis=-1)
