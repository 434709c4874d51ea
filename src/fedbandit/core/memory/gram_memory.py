"""Remember X^T X itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.checking import HUGE, check_sums, restored, wrong_summary
from fedbandit.core.memory.contract import Pending
from fedbandit.core.memory.pending_gram import PendingGram
from fedbandit.core.memory.pending_rows import PendingRows
from fedbandit.core.memory.reading import GramReading
from fedbandit.core.memory.summary import Gram, empty_gram
from fedbandit.core.saved import State, array
from fedbandit.core.statistics import Base, Statistics

Determinant = Literal["when-needed", "rank-one", "every-round"]

_LOOSE = 1.0 + 1e-9


@dataclass(frozen=True, slots=True)
class GramMemory:
    """Remember X^T X itself.

    ``determinant`` is how pending data grows it: only when that could matter, for agents that
    decide on their base alone; by rank-one updates, which also serve those that decide on both; or
    from scratch at every observation.
    """

    dimension: int
    ridge: float
    determinant: Determinant = "rank-one"

    @property
    def capacity(self) -> int:
        """One: nothing is ever shed, and every observation is alike."""
        return 1

    def empty(self) -> Statistics:
        """Return the zero matrix."""
        return Statistics(empty_gram(self.dimension), np.zeros(self.dimension), 0)

    empty_server = empty

    def read(self, summary: Gram, /) -> GramReading:
        """Read as ridge I + X^T X."""
        return summary.read(self.ridge)

    def pending(self, base: Base, /) -> Pending:
        """Return an empty buffer."""
        if self.determinant == "when-needed":
            return PendingRows(base, ridge=self.ridge)
        return PendingGram(base, ridge=self.ridge, determinant=self.determinant)

    def reference(self, _base: Base, /) -> None:
        """None: the matrix is exact."""

    def uploaded(self, statistics: Statistics, _reference: Array | None, /) -> Statistics:
        """Return them as they are."""
        return statistics

    def downloaded(self, base: Base, /) -> Statistics:
        """Return them as they are."""
        return base.statistics

    def moment_error(self, _summary: Gram, /) -> float:
        """0."""
        return 0.0

    def opened(self, statistics: Statistics, /) -> Statistics:
        """Return them as they are."""
        return statistics

    def merged(
        self, ours: Statistics, theirs: Sequence[Statistics], _reference: Array | None, /
    ) -> Statistics:
        """Return the sums."""
        return ours.merged_with(theirs, ours.summary.merge(*(each.summary for each in theirs)))

    def check(self, statistics: Statistics, /, *, strict: bool = False) -> None:
        """Raise InvalidMessage unless the summary is a Gram matrix of this dimension."""
        summary = statistics.summary
        fits = (
            isinstance(summary, Gram)
            and summary.matrix.shape == (self.dimension, self.dimension)
            and ((summary.trusted and not strict) or _is_gram(summary.matrix))
        )
        if not fits:
            raise wrong_summary(summary, f"a Gram matrix of dimension {self.dimension}, in float64")
        check_sums(statistics, self.dimension)

    def pack(self, summary: Gram, /) -> State:
        """Return the matrix."""
        return {"matrix": summary.matrix.copy()}

    def unpack(self, state: State, /) -> Gram:
        """Return the matrix that was packed."""
        return restored(self, Gram(array(state, "matrix", self.dimension, self.dimension)))


def _is_gram(matrix: Array) -> bool:
    """Say whether a matrix can be a sum of x x^T, as far as can be told in O(d^2)."""
    diagonal = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    return (
        matrix.dtype == np.float64
        and bool((matrix.diagonal() >= 0.0).all())
        and bool((np.abs(matrix) <= _LOOSE * np.outer(diagonal, diagonal)).all())
        and bool((matrix.diagonal() < HUGE).all())
        and np.array_equal(matrix, matrix.T)
    )
