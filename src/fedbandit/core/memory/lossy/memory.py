"""The memory of ``compensation="coordinates"``: rows, and what they lack in every coordinate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt
from typing import Final

import numpy as np

from fedbandit.core.kernels.linalg import Array, lie_within
from fedbandit.core.kernels.rounding import ETA
from fedbandit.core.memory.checking import check_sums, restored, wrong_summary
from fedbandit.core.memory.lossy.fitted import (
    DOWNLOAD,
    Fitted,
    cut_and_fitted,
    message_bytes,
    upload_charge,
)
from fedbandit.core.memory.lossy.pending import PendingLossy
from fedbandit.core.memory.lossy.reading import LossyGramReading, LossyReading
from fedbandit.core.memory.lossy.summary import (
    LossyGram,
    LossyRows,
    empty_matrix,
    explained_by,
    nothing_lost,
    reweighted,
)
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.memory.summary import trusted
from fedbandit.core.saved import State, array, number, wrong_entry
from fedbandit.core.statistics import Base, Statistics

CARRIED: Final = 4.0
"""How far corrections may move the moment of an upload, see ``LossyMemory.moment_error``."""

_FAINT = 0.02  # rows that add less than this share of the ridge to the bound are not sent
_LARGEST = 1e75  # entry of a row; squares, in matrices and bounds, are below that of this
_MOST_ROUNDINGS = 4
_UNSEEN = 1e-9  # of the trace, that rounding may hide; validation allows for as much
_ROUNDING = 1e-12  # of the moment: a correction as short is no correction


@dataclass(frozen=True, slots=True)
class LossyMemory:
    """Remember rows, fewer than ``size`` in a message, and bound what they lack by coordinate.

    The summaries are those of ``lossy.summary``: V = w S^T S + diag(ridge + c) >= ridge I + X^T X.
    ``rounds``: rows are rounded for sending (``lossy.fitted``), and with a ``budget`` no message is
    longer than that many bytes. Pending data is cut once it has ``buffer`` rows. The server keeps
    fewer than ``server_size`` rows; with d + 1 it keeps the matrix S^T S of all it was sent.
    ``whole``: the rows of a message are as long as they were, not shrunk (see ``lossy.summary``).

    ``corrected``: theta is solved for with what is missing on average, and the error of cutting and
    rounding times an estimate theta' is subtracted from the moment (see ``SketchMemory``).
    ``longest`` limits the length of theta', which radii from theory need.
    """

    dimension: int
    ridge: float
    size: int
    buffer: int
    server_size: int
    corrected: bool = False
    rounds: bool = False
    budget: int | None = None
    longest: float = inf
    whole: bool = False

    @property
    def combines_rounded(self) -> bool:
        """False: every rounding raises the weight of all rows."""
        return False

    @property
    def capacity(self) -> int:
        """The buffer."""
        return self.buffer

    def empty(self) -> Statistics:
        """Return the statistics of no observations."""
        d = self.dimension
        return Statistics(nothing_lost(np.zeros((0, d))), np.zeros(d), 0)

    def empty_server(self) -> Statistics:
        """Return the same for the server: as a matrix if it keeps everything."""
        if self.server_size <= self.dimension:
            return self.empty()
        return Statistics(empty_matrix(self.dimension), np.zeros(self.dimension), 0)

    def read(self, summary: LossyRows | LossyGram, /) -> LossyReading | LossyGramReading:
        """Read as V = w S^T S + diag(ridge + c)."""
        return summary.read(self.ridge, averaged=self.corrected)

    def pending(self, base: Base, /) -> PendingLossy:
        """Return an empty buffer."""
        return PendingLossy(base, ridge=self.ridge, size=self.size, buffer=self.buffer)

    def reference(self, base: Base, /) -> Array | None:
        """Return theta', or None if the moment is not corrected."""
        if not self.corrected:
            return None
        length = float(np.linalg.norm(base.theta))
        return base.theta if length <= self.longest else base.theta * (self.longest / length)

    def uploaded(
        self, statistics: Statistics, base: Base, carried: Array | None = None, /
    ) -> Statistics:
        """Return the statistics cut to the size of a message, rounded, and corrected.

        The correction, ``carried`` included, is cut to what ``moment_error`` and ``carried`` state.
        Statistics that are rounded already are returned as they are.
        """
        if isinstance(statistics.summary, Fitted):
            return statistics
        whole: LossyRows = statistics.summary
        trace = float(np.vdot(whole.rows, whole.rows)) + whole.lost
        charge = upload_charge(trace, trace + _trace(base.statistics.summary), self.ridge)
        sent = self._cut(whole, charge, faint=0.0)
        moved = self._moved(whole, sent, base.reference)
        if moved is None:
            return self._sent(statistics, sent, statistics.moment)
        moved = moved if carried is None else moved + carried
        share = self._allowed(sent, moved, statistics, _root_mean_square(statistics, base))
        cut = share < 1.0
        moment = statistics.moment - (moved * share if cut else moved)
        told = replace(statistics, cut=statistics.cut + 1) if cut else statistics
        return self._sent(told, sent, moment)

    def _allowed(
        self, sent: LossyRows | Fitted, moved: Array, statistics: Statistics, reward: float
    ) -> float:
        """Return the share of a correction that may be sent: 1 unless it is too long."""
        count, length = statistics.count, _length(moved)
        limit = self.moment_error(sent, count, reward)
        slack = _ROUNDING * _length(statistics.moment)
        if length <= slack:
            return 1.0
        by_length = limit / length if length > limit + slack else 1.0
        most = self.carried(count, reward)
        weight = sqrt(explained_by(sent, moved, unseen=_UNSEEN, enough=most * most))
        return min(by_length, most / weight if weight > most else 1.0)

    def downloaded(self, base: Base, /) -> Statistics:
        """Return the server's statistics cut to the size of a message, rounded, and corrected."""
        whole = base.statistics.summary
        sent = self._cut(whole, DOWNLOAD * self.ridge, faint=_FAINT * self.ridge)
        moved = self._moved(whole, sent, base.reference)
        moment = base.statistics.moment
        return self._sent(base.statistics, sent, moment if moved is None else moment - moved)

    def _cut(
        self, whole: LossyRows | LossyGram, charge: float, *, faint: float
    ) -> LossyRows | Fitted:
        """Return as many rows as a message holds, without faint ones, and rounded."""
        leading = whole.leading(self.size, self.ridge)
        leading = leading.made_whole() if self.whole else leading
        if not self.rounds:
            return leading.kept(len(leading.rows))
        room = inf if self.budget is None else self.budget - message_bytes(self.dimension)
        return cut_and_fitted(leading, charge, faint=faint, room=room)

    def _moved(
        self, before: LossyRows | LossyGram, after: LossyRows | Fitted, reference: Array | None
    ) -> Array | None:
        """Return E theta' with E = before - after; None if nothing is corrected."""
        return None if reference is None else before.times(reference) - after.times(reference)

    def _sent(
        self, statistics: Statistics, summary: LossyRows | Fitted, moment: Array
    ) -> Statistics:
        moment = short_vector(moment) if self.rounds else moment
        count, rewards, cut = statistics.count, statistics.rewards, statistics.cut
        return Statistics(summary, moment, count, rewards, cut, statistics.estimates)

    def moment_error(self, summary: LossyRows | Fitted, count: int, reward: float, /) -> float:
        """Return how far corrections may have moved the moment: 4 r sqrt(n max c), or 0.

        n observations with rewards of about r have a loss E <= max(c) I with
        theta'^T E theta' <= sum <theta', x>^2, about n r^2 where theta' predicts rewards no larger
        than those that were seen. So |E theta'| is about r sqrt(n max c). A theta' for which it
        is four times as long predicts nonsense, or features differ so much in size that rounding
        moves more than that: agents cut the correction there, and count it.
        """
        if not self.corrected:
            return 0.0
        return CARRIED * reward * sqrt(count * float(summary.bound.max()))

    def carried(self, count: int, reward: float) -> float:
        """Return the most that a correction e may weigh: sqrt(e^T A^-1 e) <= 4 r sqrt(n), or 0.

        A = w S^T S + diag(c) is the bound that is sent, and the loss E is in it: e = E theta'
        weighs no more than sqrt(theta'^T E theta'); see ``moment_error``: an agent may move the
        moment by what it says it has lost, coordinate by coordinate.
        """
        return CARRIED * reward * sqrt(count) if self.corrected else 0.0

    def opened(self, statistics: Statistics, /) -> Statistics:
        """Return the statistics with rounded rows as numbers."""
        summary = statistics.summary
        if not isinstance(summary, Fitted):
            return statistics
        rows = LossyRows(summary.rows, summary.bound, summary.lost, summary.weight)
        return replace(statistics, summary=trusted(rows))

    def merged(
        self, ours: Statistics, theirs: Sequence[Statistics], reference: Array | None, /
    ) -> Statistics:
        """Merge all; rows are cut to the server's size. Cost O(k d^2), or O(l^2 d + l^3)."""
        before = ours.summary, *(each.summary for each in theirs)
        most = max(ours.summary.weight, self._heaviest)
        summary = ours.summary.merge(
            *(each if each.weight <= most else reweighted(each, most) for each in before[1:])
        )
        if isinstance(summary, LossyRows) and len(summary.rows) >= self.server_size:
            summary = summary.leading(self.server_size, self.ridge).kept(self.server_size - 1)
        both = ours.merged_with(theirs, summary)
        if reference is None:
            return both
        error = summary.times(-reference)
        for each in before:
            error = error + each.times(reference)
        count, rewards, cut, moment = both.count, both.rewards, both.cut, both.moment - error
        return Statistics(summary, moment, count, rewards, cut, both.estimates)

    @property
    def _heaviest(self) -> float:
        """The weight of an upload that was rounded once."""
        return 1.0 + ETA if self.rounds else 1.0

    def check(self, statistics: Statistics, /, *, strict: bool = False) -> None:  # noqa: ARG002
        """Raise InvalidMessage unless the summary is one of this memory's."""
        summary = statistics.summary
        if not self._fits(summary):
            expected = f"fewer than {self.server_size} rows of {self.dimension} numbers"
            if self.rounds:
                expected += f", or fewer than {self.size} rounded ones"
            expected += ", a bound of at least 0 for every coordinate, lost and weight"
            raise wrong_summary(summary, expected)
        check_sums(statistics, self.dimension)

    def _fits(self, summary: object) -> bool:
        match summary:
            case Fitted():
                shaped = self.rounds and len(summary.codes) < self.size
                numbers, most = summary.rows, _LARGEST
            case LossyRows():
                shaped = len(summary.rows) < max(self.server_size, self._most_pending)
                numbers, most = summary.rows, _LARGEST
            case LossyGram():
                shaped = self.server_size > self.dimension and _is_symmetric(summary.matrix)
                numbers, most = summary.matrix, _LARGEST**2
            case _:
                return False
        return bool(
            shaped
            and summary.dimension == self.dimension
            and numbers.dtype == summary.bound.dtype == np.float64
            and summary.bound.shape == (self.dimension,)
            and lie_within.run(numbers, most, summary.bound, _LARGEST**2)
            and 0.0 <= summary.lost < _LARGEST**2
            and 1.0 <= summary.weight <= ((1.0 + ETA) ** _MOST_ROUNDINGS if self.rounds else 1.0)
        )

    @property
    def _most_pending(self) -> int:
        """One more row than pending observations have at most."""
        return min(self.buffer, self.dimension + 1)

    def pack(self, summary: LossyRows | LossyGram, /) -> State:
        """Return rows or matrix, bound, lost and weight."""
        state: State = {
            "bound": summary.bound.copy(),
            "lost": summary.lost,
            "weight": summary.weight,
        }
        if isinstance(summary, LossyGram):
            return state | {"matrix": summary.matrix.copy()}
        return state | {"rows": summary.rows.copy()}

    def unpack(self, state: State, /) -> LossyRows | LossyGram:
        """Return the summary that was packed."""
        d = self.dimension
        bound, lost = array(state, "bound", d), number(state, "lost")
        weight = number(state, "weight")
        if "matrix" in state:
            return restored(self, LossyGram(array(state, "matrix", d, d), bound, lost, weight))
        if "rows" not in state:
            raise wrong_entry("rows", f"only the entries {sorted(state)}", "rows or a matrix")
        return restored(self, LossyRows(array(state, "rows", None, d), bound, lost, weight))


def _trace(summary: LossyRows | LossyGram) -> float:
    if isinstance(summary, LossyGram):
        return float(summary.matrix.trace()) + summary.lost
    return float(np.vdot(summary.rows, summary.rows)) + summary.lost


def _length(vector: Array) -> float:
    """Return |y|; entries are far from where squares overflow."""
    return sqrt(float(vector @ vector))


def _root_mean_square(statistics: Statistics, base: Base) -> float:
    """Return the larger root mean square of the rewards: of these, or of all that is known."""
    known = [each for each in (statistics.rewards, base.statistics.rewards) if each.count]
    mean = max((each.squares / each.count for each in known), default=0.0)
    return sqrt(mean) if isfinite(mean) else 0.0


def _is_symmetric(matrix: Array) -> bool:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return False
    return bool(np.abs(matrix - matrix.T).max() <= 1e-9 * np.abs(matrix).max())
