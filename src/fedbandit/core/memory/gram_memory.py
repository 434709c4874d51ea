"""The memory of LinUCB, FedLinUCB, Async-LinUCB and DisLinUCB: X^T X itself, d x d."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Final, Literal

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.checking import HUGE, check_sums, restored, wrong_summary
from fedbandit.core.memory.contract import Pending
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.memory.pending_gram import PendingGram
from fedbandit.core.memory.pending_rows import PendingRows
from fedbandit.core.memory.reading import GramReading
from fedbandit.core.memory.summary import Gram, empty_gram
from fedbandit.core.memory.triangle import EXACT, MOST_ROUNDINGS, GramWire, Triangle, triangle_of
from fedbandit.core.saved import State, array, not_negative
from fedbandit.core.statistics import Base, Statistics

Determinant = Literal["when-needed", "rank-one", "every-round"]

CARRIED: Final = 4.0
"""How far corrections may move the moment of an upload, see ``GramMemory.moment_error``."""

_LOOSE = 1.0 + 1e-9  # room for rounding in |a_ij| <= sqrt(a_ii a_jj)


@dataclass(frozen=True, slots=True)
class GramMemory:
    """Remember X^T X itself, d x d.

    ``determinant`` is how the growth of log det V by pending data is computed. ``"when-needed"``:
    only when a bound on it reaches the threshold, for agents that decide with their base alone.
    ``"rank-one"``: by rank-one updates of V^{-1}, which also serve agents that decide on their own
    data. ``"every-round"``: from scratch at every observation.

    ``wire`` is how the matrix is sent: ``"full"``, as it is; or its upper triangle, exact in
    float64, rounded in float32, float16 or int8. A rounded matrix B is never below the matrix A
    that was meant (``Triangle``), and sums of such matrices are never below the sum, so that

        V = ridge I + sum of B >= ridge I + X^T X

    holds for every width, in uploads, at the server and in downloads. The error is carried to the
    moment, as ``SketchMemory`` does: where A becomes B, (B - A) theta' is added to the moment, with
    theta' the estimate of that time (cut at the length ``longest``, and see ``moment_error``). That
    leaves

        theta - theta* = V^{-1} (noise - ridge theta* - sum (B_i - A_i) (theta* - theta'_i)).

    The matrices B_i - A_i are positive semidefinite, their sum is at most V - ridge I, and its
    largest eigenvalue at most ``shed``. So by Cauchy and Schwarz, with |theta*| and all |theta'_i|
    at most S, what is beside the noise is at most sqrt(ridge + 4 shed) S in the norm of V^{-1}.
    Rounding the moment itself to float32, a relative error of 6e-8, is not counted.
    """

    dimension: int
    ridge: float
    determinant: Determinant = "rank-one"
    wire: GramWire = "full"
    longest: float = inf

    @property
    def rounds(self) -> bool:
        """Whether messages are rounded."""
        return self.wire not in ("full", EXACT)

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

    def reference(self, base: Base, /) -> Array | None:
        """Return theta', cut to length ``longest``; None if nothing is rounded."""
        if not self.rounds:
            return None
        length = float(np.linalg.norm(base.theta))
        return base.theta if length <= self.longest else base.theta * (self.longest / length)

    def uploaded(
        self, statistics: Statistics, base: Base, _carried: Array | None = None, /
    ) -> Statistics:
        """Return the statistics as ``wire`` says; those in that form already as they are."""
        if self.wire == "full" or getattr(statistics.summary, "width", None) == self.wire:
            return statistics
        seen = statistics.rewards.plus(base.statistics.rewards)
        mean_square = seen.squares / seen.count if seen.count else 0.0
        most = CARRIED**2 * mean_square * statistics.count
        return self._sent(self.opened(statistics), base.reference, most)

    def downloaded(self, base: Base, /) -> Statistics:
        """Return the server's statistics as ``wire`` says."""
        if self.wire == "full":
            return base.statistics
        return self._sent(base.statistics, base.reference, inf)

    def _sent(self, whole: Statistics, reference: Array | None, most: float) -> Statistics:
        """Return ``whole`` as a triangle, the error carried to the moment, that in float32.

        With F what rounding adds, theta' is shortened where theta'^T F theta' exceeds ``most``.
        """
        sent, moment, cut = triangle_of(whole.summary, self.wire), whole.moment, whole.cut
        if reference is not None:
            moved = (sent.matrix - whole.summary.matrix) @ reference
            pull = float(reference @ moved)
            moment = moment + (moved * sqrt(most / pull) if pull > most else moved)
            moment = short_vector(moment)
            cut += pull > most
        return Statistics(sent, moment, whole.count, whole.rewards, cut, whole.estimates)

    def moment_error(self, summary: Gram | Triangle, count: int, reward: float, /) -> float:
        """Return 4 r sqrt(3 n shed) >= |sum of F_i theta'_i|, 0 if nothing is rounded.

        With F_i = B_i - A_i that sum is at most sqrt(shed) times the root of the sum of
        theta'_i^T F_i theta'_i. Each of these is what theta' predicts for pseudo-observations,
        squared, and F_i is a small share of the n_i observations that were rounded. Where it
        exceeds 16 n_i times the mean square of the rewards that the agent knows of, theta'
        predicts nonsense, and agents shorten it. Observations are rounded three times at most.
        """
        return (
            CARRIED * reward * sqrt(MOST_ROUNDINGS * count * summary.shed) if self.rounds else 0.0
        )

    def opened(self, statistics: Statistics, /) -> Statistics:
        """Return the statistics with the whole matrix of a triangle."""
        summary = statistics.summary
        if not isinstance(summary, Triangle):
            return statistics
        return replace(statistics, summary=summary.gram())

    def merged(
        self, ours: Statistics, theirs: Sequence[Statistics], _reference: Array | None, /
    ) -> Statistics:
        """Return the sums."""
        return ours.merged_with(theirs, ours.summary.merge(*(each.summary for each in theirs)))

    def check(self, statistics: Statistics, /, *, strict: bool = False) -> None:
        """Raise InvalidMessage unless the summary is a Gram matrix of this dimension and wire.

        A triangle in float64 is taken too where messages are rounded: stores and journals have it.
        """
        summary = statistics.summary
        fits = isinstance(summary, Gram | Triangle) and self._fits(summary, strict=strict)
        if not fits:
            raise wrong_summary(summary, self._expected, self._fault(summary))
        check_sums(statistics, self.dimension)

    @property
    def _expected(self) -> str:
        matrix = f"a symmetric Gram matrix of dimension {self.dimension}, in float64"
        triangle = f", or its upper triangle in {self.wire}, with a finite shed >= 0"
        return matrix if self.wire == "full" else matrix + triangle

    def _fault(self, summary: object) -> str:
        """Say what keeps a square matrix of the right size from being a sum of x x^T, or ""."""
        shape = (self.dimension, self.dimension)
        if not isinstance(summary, Gram) or summary.matrix.shape != shape:
            return ""
        return _fault_of(summary.matrix)

    def _fits(self, summary: Gram | Triangle, *, strict: bool) -> bool:
        if isinstance(summary, Triangle):
            d, widths = summary.dimension, {self.wire, EXACT} if self.rounds else {self.wire}
            sound = (
                summary.width in widths
                and len(summary.codes) == d * (d - 1) // 2
                and 0.0 <= summary.raised < HUGE
            )
            if not sound:
                return False
        elif summary.trusted and not strict:
            return summary.matrix.shape == (self.dimension, self.dimension)
        matrix = summary.matrix
        most = HUGE if self.rounds else 0.0
        return (
            matrix.shape == (self.dimension, self.dimension)
            and 0.0 <= summary.shed <= most
            and _is_gram(matrix)
        )

    def pack(self, summary: Gram, /) -> State:
        """Return the matrix, and shed where messages are rounded."""
        state: State = {"matrix": summary.matrix.copy()}
        return state | ({"shed": summary.shed} if self.rounds else {})

    def unpack(self, state: State, /) -> Gram:
        """Return the matrix that was packed."""
        matrix = array(state, "matrix", self.dimension, self.dimension)
        shed = not_negative(state, "shed") if self.rounds else 0.0
        return restored(self, Gram(matrix, shed))


def _is_gram(matrix: Array) -> bool:
    """Say whether a matrix can be a sum of x x^T, by conditions that O(d^2) steps can check."""
    return matrix.dtype == np.float64 and not _fault_of(matrix)


def _fault_of(matrix: Array) -> str:
    """Say in words which of these conditions does not hold; "" if all do."""
    diagonal = matrix.diagonal()
    if not ((diagonal >= 0.0) & (diagonal < HUGE)).all():
        return f"whose diagonal has a number that is not from 0 to {HUGE:g}"
    roots = np.sqrt(diagonal)
    if not (np.abs(matrix) <= _LOOSE * np.outer(roots, roots)).all():
        return "with an entry that exceeds the root of the product of its two diagonal entries"
    if not np.array_equal(matrix, matrix.T):
        i, j = np.argwhere(matrix != matrix.T)[0].tolist()
        pair = f"{float(matrix[i, j])!r} at [{i}, {j}] and {float(matrix[j, i])!r} at [{j}, {i}]"
        return f"which is not symmetric to the last bit: {pair}"
    return ""
