"""A sketch size that chooses itself."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fedbandit.core.memory.narrow import CODES
from fedbandit.core.memory.summary import Sketch
from fedbandit.errors import InvalidParameter, complaint

TOLERANCE: Final = 0.5
_HEAD = 96  # bytes of a message beside its numbers, with counts below 2^32


@dataclass(frozen=True, slots=True)
class Sizing:
    """Send the smallest sketch that sheds no more than is allowed, and none above ``most``.

    Allowed is ridge + tolerance times the mean of the eigenvalues of X^T X. Where nothing that the
    server holds may be shed, agents get all the room there is. The server decides at
    every download, by the spectrum of what it holds; the download says the size, and the agent's
    next upload has it.
    """

    most: int
    tolerance: float

    def size(self, held: Sketch, ridge: float) -> int:
        """Return the size of a download."""
        squares = np.sort(held.squares)[::-1]
        mean = (float(squares.sum()) + (held.lost or 0.0)) / held.dimension
        room = ridge + self.tolerance * mean - held.shed
        needed = 1 + int((squares > room).sum())  # a sketch of size l sheds the l-th square
        return self.most if needed > len(squares) else min(max(needed, 2), self.most)


def largest_size(budget: int, *, dimension: int, width: str) -> int:
    """Return the largest sketch size whose messages stay within a budget of bytes."""
    number = CODES[width].bytes if width in CODES else 8
    vector, row = (8, 0) if width == "float64" else (4, 4)
    rows = (budget - _HEAD - vector * dimension) // (number * dimension + row)
    if rows < 1:
        least = _HEAD + vector * dimension + number * dimension + row
        raise InvalidParameter(
            complaint(
                "budget",
                got=budget,
                expected=f"at least {least} bytes: one row of {dimension} numbers and the moment",
                fix="Allow more bytes a message, or choose a narrower wire.",
            )
        )
    return int(min(rows, dimension)) + 1


def lean_budget(dimension: int, *, share: float = 0.025) -> int:
    """Return bytes for a moment and for rows that take this share of a d x d matrix in float64.

    At least three rows of int8.
    """
    rows = max(int(share * 8 * dimension * dimension), 3 * (dimension + 4))
    return _HEAD + 4 * dimension + rows
