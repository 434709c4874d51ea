"""Sketch sizes from a budget of bytes, and the rule behind ``sketch_size="auto"``."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fedbandit.core.memory.lossy.fitted import message_bytes
from fedbandit.core.memory.narrow import CODES
from fedbandit.core.memory.summary import Sketch
from fedbandit.errors import InvalidParameter

TOLERANCE: Final = 0.5
"""Share of the mean eigenvalue of X^T X that a message may shed besides the ridge."""

ALL_ROWS: Final = 512
"""Largest dimension at which servers and buffers of ``compensation="coordinates"`` lose nothing."""

_HEAD = 96  # bytes of a message beside its numbers, with counts below 2^32


@dataclass(frozen=True, slots=True)
class Sizing:
    """The rule of ``sketch_size="auto"``: the smallest sketch that sheds little enough.

    A download may have shed at most ridge + tolerance * (mean eigenvalue of X^T X) in all, and no
    size exceeds ``most``. The server chooses the size anew at every download, from the spectrum of
    what it holds; the agent's next upload has the size of its last download.
    """

    most: int
    tolerance: float

    def size(self, held: Sketch, ridge: float) -> int:
        """Return the size of a download of ``held``: ``most`` if none of its rows may be shed."""
        squares = np.sort(held.squares)[::-1]
        mean = (float(squares.sum()) + (held.lost or 0.0)) / held.dimension
        room = ridge + self.tolerance * mean - held.shed
        needed = 1 + int((squares > room).sum())  # a sketch of size l sheds the l-th square
        return self.most if needed > len(squares) else min(max(needed, 2), self.most)


def largest_size(budget: int, *, dimension: int, width: str) -> int:
    """Return the largest sketch size whose messages stay within a budget of bytes."""
    if width == "fitted":
        return _fitted_size(budget, dimension)
    number = CODES[width].bytes if width in CODES else 8
    vector, row = (8, 0) if width == "float64" else (4, 4)
    rows = (budget - _HEAD - vector * dimension) // (number * dimension + row)
    if rows < 1:
        least = _HEAD + vector * dimension + number * dimension + row
        raise InvalidParameter(
            f"budget must be at least {least} bytes, for the moment and one row of {dimension} "
            f"numbers in {width}; got {budget}. Allow more bytes per message, or choose a "
            "narrower wire."
        )
    return int(min(rows, dimension)) + 1


def _fitted_size(budget: int, dimension: int) -> int:
    """Return the largest size with rows of 8 bits a number; rows with more bits are fewer."""
    least = message_bytes(dimension) + 2 * dimension + 1
    if budget < least:
        raise InvalidParameter(
            f"budget must be at least {least} bytes, for the moment, the bound and one row of "
            f"{dimension} numbers of 16 bits; got {budget}. Allow more bytes per message."
        )
    return int(min((budget - message_bytes(dimension)) // (dimension + 1), dimension)) + 1


def lean_budget(dimension: int, *, share: float = 0.035) -> int:
    """Return the default ``budget`` of ``FSCLB.lean``, in bytes per message.

    It has room for the moment in float32, a byte a coordinate for the bound, and for rows that take
    ``share`` of a d x d matrix in float64, or as much as all the rest if that is more (d < 31).
    """
    rest = message_bytes(dimension)
    return rest + max(int(share * 8 * dimension * dimension), rest)
