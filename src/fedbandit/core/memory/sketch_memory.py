"""How agents and server remember by a sketch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from fedbandit.core.kernels.linalg import Array, skew
from fedbandit.core.memory.checking import HUGE, check_sums, restored, wrong_summary
from fedbandit.core.memory.narrow import Narrow, Width, narrowed, rounded, values
from fedbandit.core.memory.pending_sketch import PendingSketch
from fedbandit.core.memory.reading import SketchReading
from fedbandit.core.memory.sizing import Sizing
from fedbandit.core.memory.summary import Sketch, empty_sketch
from fedbandit.core.saved import State, array, integer, not_negative, number
from fedbandit.core.statistics import NO_REWARDS, Base, Statistics

Estimate = Literal["paper", "averaged", "corrected"]

_SKEW = 1e-11
_FAINT = 0.01  # of what is shed already: rows that rounding alone brings forth are smaller


@dataclass(frozen=True, slots=True)
class SketchMemory:
    """Remember a sketch of fewer than ``size`` rows, read with or without what it has shed.

    Pending data is shrunk once ``buffer`` rows are there (default: the sketch's size). ``width`` is
    how rows travel; ``sizing`` lets the size of messages change, up to ``size``. A server may keep
    more than it sends: ``server_size`` (default: ``size``).

    ``estimate="paper"`` reads theta with shed, ``"averaged"`` with the average lost mass. The
    third, ``"corrected"``, is ours. Whenever a sketch stands in for what was observed (a shrink, a
    merge, a rounding), X^T X - (S^T S + lost / d I) is an error E, and the normal equations are
    wrong by E theta*. theta* is not known, but where the error is made E is, and an estimate theta'
    of that time; so E theta' is taken from the moment, which leaves E (theta* - theta'):

        theta = V^{-1} (b - sum E_i theta'_i)
        theta - theta* = V^{-1} (noise - ridge theta* + sum E_i (theta* - theta'_i)).

    No message grows by it. With shed_i what the step added to shed, -shed_i I <= E_i <= shed_i I
    (for a rounding, see ``narrowed``), so that the error is at most shed times the
    largest |theta* - theta'_i|, where the paper's is shed |theta*|: at most twice as large if no
    theta' is longer than the S that bounds theta* (``longest``), and ever smaller as the estimate
    improves. Rounding the moment itself to float32, a share of 6e-8, is not counted.
    """

    dimension: int
    ridge: float
    size: int
    compensated: bool = True
    buffer: int | None = None
    estimate: Estimate = "paper"
    width: Width = "float64"
    sizing: Sizing | None = None
    longest: float = inf
    server_size: int | None = None

    @property
    def capacity(self) -> int:
        """The buffer, or the largest size where there is none."""
        return self.size if self.buffer is None else self.buffer

    @property
    def tracks_lost(self) -> bool:
        """Whether sketches say how much they have lost."""
        return self.estimate != "paper" or self.sizing is not None

    def empty(self) -> Statistics:
        """Return those of the sketch without rows."""
        return self._empty(self.size)

    def empty_server(self) -> Statistics:
        """Return the same, with room for what a server keeps."""
        return self._empty(self._largest)

    def _empty(self, size: int) -> Statistics:
        lost = 0.0 if self.tracks_lost else None
        return Statistics(
            empty_sketch(self.dimension, size, lost=lost), np.zeros(self.dimension), 0
        )

    @property
    def _largest(self) -> int:
        return self.size if self.server_size is None else self.server_size

    def read(self, summary: Sketch, /) -> SketchReading:
        """Read as (ridge + shed) I + S^T S, or as ridge I + S^T S."""
        averaged = self.estimate != "paper"
        return summary.read(self.ridge, compensated=self.compensated, averaged=averaged)

    def pending(self, base: Base, /) -> PendingSketch:
        """Return an empty buffer."""
        return PendingSketch(
            base, ridge=self.ridge, compensated=self.compensated, buffer=self.buffer
        )

    def reference(self, base: Base, /) -> Array | None:
        """Return theta' of the corrected estimate, no longer than it may be."""
        if self.estimate != "corrected":
            return None
        length = float(np.linalg.norm(base.theta))
        return base.theta if length <= self.longest else base.theta * (self.longest / length)

    def uploaded(self, statistics: Statistics, reference: Array | None, /) -> Statistics:
        """Round the rows, and the moment to float32, unless float64 is asked for."""
        return self._sent(statistics, statistics.summary, reference)

    def downloaded(self, base: Base, /) -> Statistics:
        """Do the same with as many of the server's rows as a message may have.

        Sums of rewards, which agents do not need, are left out where bytes are saved.
        """
        held: Sketch = base.statistics.summary
        size = self.size if self.sizing is None else self.sizing.size(held, self.ridge)
        short = held if size == held.size else held.resized(size)
        if short is held and self.width == "float64":
            return base.statistics
        sent = self._sent(base.statistics, short, base.reference)
        return sent if self.width == "float64" else replace(sent, rewards=NO_REWARDS)

    def _sent(self, whole: Statistics, short: Sketch, reference: Array | None) -> Statistics:
        """Return statistics with a shorter sketch, rounded; their errors leave the moment."""
        before = (whole.summary,)
        if self.width == "float64":
            moment = corrected(whole.moment, before=before, after=short, reference=reference)
            return replace(whole, summary=short, moment=moment)
        narrow = narrowed(short.trimmed(_FAINT * short.shed), self.width)
        moment = corrected(whole.moment, before=before, after=narrow, reference=reference)
        moment = values(*rounded(moment[None], "float32"), "float32")[0]
        return replace(whole, summary=narrow, moment=moment)

    def moment_error(self, summary: Sketch | Narrow, /) -> float:
        """|E theta'| <= shed |theta'| for a corrected estimate; 0 for the others."""
        return summary.shed * self.longest if self.estimate == "corrected" else 0.0

    def opened(self, statistics: Statistics, /) -> Statistics:
        """Make rounded rows orthogonal again."""
        summary = statistics.summary
        if not isinstance(summary, Narrow):
            return statistics
        return replace(statistics, summary=summary.sketch())

    def merged(
        self, ours: Statistics, theirs: Sequence[Statistics], reference: Array | None, /
    ) -> Statistics:
        """Merge by one shrink, and take its error from the moment."""
        before = (ours.summary, *(each.summary for each in theirs))
        both = ours.merged_with(theirs, ours.summary.merge(*before[1:]))
        moment = corrected(both.moment, before=before, after=both.summary, reference=reference)
        return both if moment is both.moment else replace(both, moment=moment)

    def check(self, statistics: Statistics, /, *, strict: bool = False) -> None:
        """Raise InvalidMessage unless the summary is a sketch of this dimension, size and width."""
        summary = statistics.summary
        if not self._fits(summary, strict=strict):
            least = 2 if self.sizing else self.size
            size = f"size {least}" if least == self._largest else f"size {least} to {self._largest}"
            rows = f"fewer rows of {self.dimension} {self.width}, orthogonal unless rounded"
            lost = "lost too" if self.tracks_lost else "lost None"
            expected = f"a sketch of {size}, {rows}, a finite shed >= 0, and {lost}"
            raise wrong_summary(summary, expected)
        check_sums(statistics, self.dimension)

    def _fits(self, summary: object, *, strict: bool) -> bool:
        if not isinstance(summary, Sketch | Narrow) or summary.dimension != self.dimension:
            return False
        size = summary.size
        fixed = size in (self.size, self._largest)
        if not (2 <= size <= self._largest if self.sizing else fixed):
            return False
        lost = 0.0 if summary.lost is None else summary.lost
        sound = (
            0.0 <= summary.shed < HUGE
            and 0.0 <= lost < HUGE
            and (summary.lost is not None) == self.tracks_lost
        )
        if isinstance(summary, Narrow):
            return sound and summary.width == self.width and _fill(summary)
        if not sound or len(summary.rows) >= size:
            return False
        if summary.trusted and not strict:
            return True
        return _are_orthogonal(summary.rows, _SKEW / 2 if strict else _SKEW)

    def pack(self, summary: Sketch, /) -> State:
        """Return rows and shed, and what else may differ."""
        state: State = {"rows": summary.rows.copy(), "shed": summary.shed, "size": summary.size}
        return state | ({} if summary.lost is None else {"lost": summary.lost})

    def unpack(self, state: State, /) -> Sketch:
        """Return the sketch that was packed."""
        rows, size = array(state, "rows", None, self.dimension), integer(state, "size")
        lost = not_negative(state, "lost") if self.tracks_lost else None
        return restored(self, Sketch(rows, number(state, "shed"), size, lost))


def corrected(
    moment: Array,
    *,
    before: tuple[Sketch | Narrow, ...],
    after: Sketch | Narrow,
    reference: Array | None,
) -> Array:
    """Return moment - E theta': E is what ``after`` gets wrong of X^T X, theta' the reference."""
    if reference is None or before == (after,):
        return moment
    error = after.times(-reference)
    for each in before:
        error = error + each.times(reference)
    return moment - error


def _fill(narrow: Narrow) -> bool:
    """Say whether the numbers of a message are sound: nothing else is asked of rounded rows."""
    return bool(
        len(narrow.codes) < narrow.size
        and narrow.scales.shape == (len(narrow.codes),)
        and (np.abs(narrow.rows) < 1e75).all()
    )


def _are_orthogonal(rows: Array, most: float) -> bool:
    if rows.dtype != np.float64 or rows.ndim != 2:
        return False
    square, product = skew(rows)
    return square < HUGE and product <= most * square
