"""The memory of LinUCB, FedLinUCB, Async-LinUCB and DisLinUCB: X^T X itself, d x d."""

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

_LOOSE = 1.0 + 1e-9  # room for rounding in |a_ij| <= sqrt(a_ii a_jj)


@dataclass(frozen=True, slots=True)
class GramMemory:
    """Remember X^T X itself, d x d.

    ``determinant`` is how the growth of log det V by pending data is computed. ``"when-needed"``:
    only when a bound on it reaches the threshold, for agents that decide with their base alone.
    ``"rank-one"``: by rank-one updates of V^{-1}, which also serve agents that decide on their own
    data. ``"every-round"``: from scratch at every observation.
    """

    dimension: int
    ridge: float
    determinant: Determinant = "rank-one"

    @property
    def combines_rounded(self) -> bool:
        """True: rounding again adds no more than rounding once."""
        return True

    @property
    def capacity(self) -> int:
        """1: a matrix never sheds, so all observations cost the same."""
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
        """Return None: the matrix is exact, so there is no error to correct."""

    def uploaded(
        self, statistics: Statistics, _base: Base, _carried: Array | None = None, /
    ) -> Statistics:
        """Return them as they are."""
        return statistics

    def downloaded(self, base: Base, /) -> Statistics:
        """Return them as they are."""
        return base.statistics

    def moment_error(self, _summary: Gram, _count: int, _reward: float, /) -> float:
        """Return 0: the moment is exact."""
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
    """Say whether a matrix can be a sum of x x^T, by conditions that O(d^2) steps can check."""
    diagonal = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    return (
        matrix.dtype == np.float64
        and bool((matrix.diagonal() >= 0.0).all())
        and bool((np.abs(matrix) <= _LOOSE * np.outer(diagonal, diagonal)).all())
        and bool((matrix.diagonal() < HUGE).all())
        and np.array_equal(matrix, matrix.T)
    )
