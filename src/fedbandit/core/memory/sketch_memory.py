"""The memory of FSCLB, SOFUL and CBSCFD: a sketch of X^T X, at most l - 1 rows of length d."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from fedbandit.core.kernels.linalg import Array, skew
from fedbandit.core.memory.checking import HUGE, check_sums, restored, wrong_summary
from fedbandit.core.memory.narrow import Narrow, Width, narrowed, short_vector
from fedbandit.core.memory.pending_sketch import PendingSketch
from fedbandit.core.memory.reading import SketchReading
from fedbandit.core.memory.sizing import Sizing
from fedbandit.core.memory.summary import Sketch, empty_sketch
from fedbandit.core.saved import State, array, integer, not_negative, number
from fedbandit.core.statistics import NO_REWARDS, Base, Rewards, Statistics
from fedbandit.errors import InvalidMessage, complaint

Estimate = Literal["paper", "averaged", "corrected"]

_SKEW = 1e-11  # largest product of two rows that count as orthogonal, relative to squared norms
_FAINT = 0.01  # rows whose square is below this share of shed are not sent: they may be noise


@dataclass(frozen=True, slots=True)
class SketchMemory:
    """Remember a sketch with fewer than ``size`` rows.

    ``compensated``: V is (ridge + shed) I + S^T S, else ridge I + S^T S. Pending data is shrunk
    once it has ``buffer`` rows (default: ``size``). ``width`` is the number format of rows in
    messages. ``sizing`` lets the size of messages change, up to ``size``. The server's own sketch
    has ``server_size`` (default: ``size``). ``tells_rewards``: rounded downloads carry the sums of
    rewards too, for radii that are computed from them.

    ``estimate`` is how theta is computed. ``"paper"`` solves with the V above. ``"averaged"`` has
    lost / d, the average of what the sketch has lost, in place of shed, the worst case.
    ``"corrected"`` does so too, and corrects the moment. Whenever a sketch replaces exact data (by
    a shrink, a merge or a rounding), it makes an error E = X^T X - (S^T S + lost / d I), and the
    normal equations are wrong by E theta*. theta* is unknown, but E is known at that moment, and an
    estimate theta' is at hand. So E theta' is subtracted from the moment b, which leaves an error
    of E (theta* - theta'):

        theta = V^{-1} (b - sum E_i theta'_i)
        theta - theta* = V^{-1} (noise - ridge theta* + sum E_i (theta* - theta'_i)).

    Messages do not grow. With shed_i what step i added to shed, -shed_i I <= E_i <= shed_i I (for a
    rounding, see ``narrowed``), so the error is at most shed times the largest |theta* - theta'_i|,
    where the paper's is shed |theta*|. It is at most twice as large if no theta' is longer than the
    S that bounds theta* (theta' is cut at ``longest``), and shrinks as the estimate improves.
    Rounding the moment itself to float32, a relative error of 6e-8, is not counted.
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
    tells_rewards: bool = False

    @property
    def combines_rounded(self) -> bool:
        """True: rounding again adds no more than rounding once."""
        return True

    @property
    def capacity(self) -> int:
        """The buffer; the sketch size if there is none."""
        return self.size if self.buffer is None else self.buffer

    @property
    def tracks_lost(self) -> bool:
        """Whether sketches keep the trace that they have lost."""
        return self.estimate != "paper" or self.sizing is not None

    def empty(self) -> Statistics:
        """Return the statistics of no observations."""
        return self._empty(self.size)

    def empty_server(self) -> Statistics:
        """Return the same with a sketch of ``server_size``."""
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
        """Read as V = (ridge + shed) I + S^T S, or ridge I + S^T S if not compensated."""
        averaged = self.estimate != "paper"
        return summary.read(self.ridge, compensated=self.compensated, averaged=averaged)

    def pending(self, base: Base, /) -> PendingSketch:
        """Return an empty buffer."""
        return PendingSketch(
            base, ridge=self.ridge, compensated=self.compensated, buffer=self.buffer
        )

    def reference(self, base: Base, /) -> Array | None:
        """Return theta' of the corrected estimate, cut to length ``longest``; else None."""
        if self.estimate != "corrected":
            return None
        length = float(np.linalg.norm(base.theta))
        return base.theta if length <= self.longest else base.theta * (self.longest / length)

    def uploaded(
        self, statistics: Statistics, base: Base, _carried: Array | None = None, /
    ) -> Statistics:
        """Return the statistics rounded to ``width`` (the moment to float32); float64 as it is.

        ``cut`` is counted up if theta' is longer than ``longest``. Those that are rounded already
        are returned as they are.
        """
        if isinstance(statistics.summary, Narrow):
            return statistics
        reference = base.reference
        if reference is not None and reference is not base.theta:
            statistics = replace(statistics, cut=statistics.cut + 1)
        if self.width == "float64":
            return statistics
        return self._sent(statistics, statistics.summary, base.reference, statistics.rewards)

    def downloaded(self, base: Base, /) -> Statistics:
        """Return the server's statistics cut to the size of a message and rounded to ``width``.

        Rounded downloads leave out the sums of rewards unless agents use them.
        """
        held: Sketch = base.statistics.summary
        size = self.size if self.sizing is None else self.sizing.size(held, self.ridge)
        short = held if size == held.size else held.resized(size)
        if short is held and self.width == "float64":
            return base.statistics
        told = self.tells_rewards or self.width == "float64"
        rewards = base.statistics.rewards if told else NO_REWARDS
        return self._sent(base.statistics, short, base.reference, rewards)

    def _sent(
        self, whole: Statistics, short: Sketch, reference: Array | None, rewards: Rewards
    ) -> Statistics:
        """Return ``whole`` with the sketch ``short``, rounded; errors are corrected (see above)."""
        sent: Sketch | Narrow = short
        if self.width != "float64":
            sent = narrowed(short.trimmed(_FAINT * short.shed), self.width)
        moment = corrected(whole.moment, before=(whole.summary,), after=sent, reference=reference)
        if self.width != "float64":
            moment = short_vector(moment)
        return Statistics(sent, moment, whole.count, rewards, whole.cut, whole.estimates)

    def moment_error(self, summary: Sketch | Narrow, _count: int, _reward: float, /) -> float:
        """Return shed * longest >= |E theta'| for a corrected estimate, 0 for the others."""
        return summary.shed * self.longest if self.estimate == "corrected" else 0.0

    def opened(self, statistics: Statistics, /) -> Statistics:
        """Return the statistics with the rows of a rounded sketch made orthogonal again."""
        summary = statistics.summary
        if not isinstance(summary, Narrow):
            return statistics
        return replace(statistics, summary=summary.sketch())

    def merged(
        self, ours: Statistics, theirs: Sequence[Statistics], reference: Array | None, /
    ) -> Statistics:
        """Merge all sketches by one shrink, and correct the moment. Cost O(l^3 + l^2 d)."""
        before = (ours.summary, *(each.summary for each in theirs))
        both = ours.merged_with(theirs, ours.summary.merge(*before[1:]))
        moment = corrected(both.moment, before=before, after=both.summary, reference=reference)
        if moment is both.moment:
            return both
        return replace(both, moment=moment)

    def check(self, statistics: Statistics, /, *, strict: bool = False) -> None:
        """Raise InvalidMessage unless the summary is a sketch of this dimension, size and width."""
        summary = statistics.summary
        if not self._fits(summary):
            size = f"size 2 to {self.size}" if self.sizing else f"size {self.size}"
            if self._largest > self.size:
                size += f" (of a server up to {self._largest})"
            rows = f"fewer rows of {self.dimension} {self.width}"
            lost = "lost too" if self.tracks_lost else "lost None"
            expected = f"a sketch of {size}, {rows}, a finite shed >= 0, and {lost}"
            raise wrong_summary(summary, expected)
        if isinstance(summary, Sketch) and (strict or not summary.trusted):
            _check_orthogonal(summary.rows, _SKEW / 2 if strict else _SKEW)
        check_sums(statistics, self.dimension)

    def _fits(self, summary: object) -> bool:
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
            return sound and summary.width == self.width and _is_sound(summary)
        return sound and len(summary.rows) < size and summary.rows.dtype == np.float64

    def pack(self, summary: Sketch, /) -> State:
        """Return rows, shed and size, and lost if it is tracked."""
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
    """Return moment - E theta', with E = (sum of ``before``) - ``after`` and theta' = reference.

    Unchanged if there is no reference. Cost O(k d).
    """
    if reference is None or before == (after,):
        return moment
    error = after.times(-reference)
    for each in before:
        error = error + each.times(reference)
    return moment - error


def _is_sound(narrow: Narrow) -> bool:
    """Say whether shapes and numbers of a rounded sketch are sound; rows need not be orthogonal."""
    return bool(
        len(narrow.codes) < narrow.size
        and narrow.scales.shape == (len(narrow.codes),)
        and (np.abs(narrow.rows) < 1e75).all()
    )


def _check_orthogonal(rows: Array, most: float) -> None:
    """Raise InvalidMessage unless no two rows have a product above ``most`` times a square."""
    square, product = skew(rows)
    if square < HUGE and product <= most * square:
        return
    if not square < HUGE:
        got, expected = f"a row with the square {square:g}", f"rows with squares below {HUGE:g}"
        fix = "Look at the length of the arms."
    else:
        got = f"rows that are not orthogonal: two have the product {product:g}"
        expected = f"at most {most * square:g}, {most:g} of the largest square, {square:g}"
        fix = "Compute the rows by one-sided Jacobi, or make them orthogonal once more."
    raise InvalidMessage(complaint("rows of a sketch", got=got, expected=expected, fix=fix))
