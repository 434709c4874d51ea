"""A sketch size that chooses itself."""

from dataclasses import dataclass
from typing import Final

from fedbandit.core.narrow import CODES
from fedbandit.core.summary import Sketch
from fedbandit.errors import InvalidParameter, complaint

TOLERANCE: Final = 0.5
_HEAD = 96  # bytes of a message beside its numbers, and a little more


@dataclass(frozen=True, slots=True)
class Sizing:
    """Grow while too much is shed, shrink while the smallest rows say too little.

    What is shed may reach ridge + tolerance times the mean of the eigenvalues of X^T X. Beyond
    that the size grows by a quarter at every merge, up to ``most``; while the row that would go
    fits into half of what is allowed, it shrinks by one. The server decides, after a merge; its
    download says the size, and the agent's next upload has it.
    """

    most: int
    tolerance: float

    def after(self, merged: Sketch, ridge: float) -> int:
        """Return the size to go on with."""
        squares, size = merged.squares, merged.size
        mean = (float(squares.sum()) + (merged.lost or 0.0)) / merged.dimension
        allowed = ridge + self.tolerance * mean
        if merged.shed > allowed:
            return min(max(size + 1, size + size // 4), self.most)
        room = max(allowed / 2.0 - merged.shed, 0.0)
        needed = 1 + int((squares > room).sum())
        return max(2, size - 1) if needed + 1 < size else size


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


def lean_budget(dimension: int, *, share: float = 0.05) -> int:
    """Return bytes for a moment and for rows that take this share of a d x d matrix in float64.

    At least three rows of int8.
    """
    rows = max(int(share * 8 * dimension * dimension), 3 * (dimension + 4))
    return _HEAD + 4 * dimension + rows
