"""How agents and server remember by a sketch."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from fedbandit.core.kernels.linalg import Array, skew
from fedbandit.core.memory.gram_memory import HUGE, misfit, restored
from fedbandit.core.memory.narrow import Narrow, Width, narrowed, rounded, values
from fedbandit.core.memory.pending_sketch import PendingSketch
from fedbandit.core.memory.reading import SketchReading
from fedbandit.core.memory.sizing import Sizing
from fedbandit.core.memory.summary import Sketch, empty_sketch
from fedbandit.core.saved import State, array, integer, not_negative, number

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
    merge, a rounding), X^T X - (S^T S + lost / d I) is an error E. In the normal equations it
    falsifies E theta*. Nobody knows theta*, but who makes the error knows E, and an estimate theta'
    at that time; so E theta' is taken from the moment, which leaves E (theta* - theta'):

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
    def keeps_account(self) -> bool:
        """Whether sketches say how much they have lost."""
        return self.estimate != "paper" or self.sizing is not None

    def empty(self) -> Sketch:
        """Return the sketch without rows."""
        return empty_sketch(self.dimension, self.size, lost=0.0 if self.keeps_account else None)

    def empty_server(self) -> Sketch:
        """Return the same, with room for what a server keeps."""
        return self.empty().resized(self._largest)

    @property
    def _largest(self) -> int:
        return self.size if self.server_size is None else self.server_size

    def read(self, summary: Sketch) -> SketchReading:
        """Read as (ridge + shed) I + S^T S, or as ridge I + S^T S."""
        averaged = self.estimate != "paper"
        return summary.read(self.ridge, compensated=self.compensated, averaged=averaged)

    def pending(
        self, base: Sketch, reading: SketchReading, at: Array | None = None, /
    ) -> PendingSketch:
        """Return an empty buffer."""
        return PendingSketch(
            base,
            reading,
            ridge=self.ridge,
            compensated=self.compensated,
            buffer=self.buffer,
            at=at,
        )

    def reference(self, summary: Sketch, moment: Array, /) -> Array | None:
        """Return theta' of the corrected estimate, no longer than it may be."""
        if self.estimate != "corrected":
            return None
        theta = self.read(summary).estimate(moment)
        length = float(np.linalg.norm(theta))
        return theta if length <= self.longest else theta * (self.longest / length)

    def uploaded(
        self, summary: Sketch, moment: Array, at: Array | None, /
    ) -> tuple[Sketch | Narrow, Array]:
        """Round the rows, and the moment to float32, unless float64 is asked for."""
        return self._sent(summary, summary, moment, at)

    def downloaded(
        self, summary: Sketch, moment: Array, at: Array | None, /
    ) -> tuple[Sketch | Narrow, Array]:
        """Do the same with as many of the server's rows as a message may have."""
        size = self.size if self.sizing is None else self.sizing.size(summary, self.ridge)
        short = summary if size == summary.size else summary.resized(size)
        return self._sent(summary, short, moment, at)

    def _sent(
        self, whole: Sketch, short: Sketch, moment: Array, at: Array | None
    ) -> tuple[Sketch | Narrow, Array]:
        if self.width == "float64":
            return short, carried(moment, before=(whole,), after=short, at=at)
        narrow = narrowed(short.trimmed(_FAINT * short.shed), self.width)
        moment = carried(moment, before=(whole,), after=narrow, at=at)
        return narrow, values(*rounded(moment[None], "float32"), "float32")[0]

    def moved(self, summary: Sketch | Narrow, /) -> float:
        """|E theta'| <= shed |theta'| for a corrected estimate; nothing for the others."""
        return summary.shed * self.longest if self.estimate == "corrected" else 0.0

    def opened(self, summary: Sketch | Narrow) -> Sketch:
        """Make rounded rows orthogonal again."""
        return summary.sketch() if isinstance(summary, Narrow) else summary

    def merged(
        self, ours: Sketch, theirs: Sequence[Sketch | Narrow], moment: Array, at: Array | None, /
    ) -> tuple[Sketch, Array]:
        """Merge by one shrink, and carry over what that costs."""
        merged = ours.merge(*theirs)
        return merged, carried(moment, before=(ours, *theirs), after=merged, at=at)

    def check(self, summary: object) -> None:
        """Raise InvalidMessage unless it is a sketch of this dimension, size and width."""
        if not self._fits(summary):
            least = 2 if self.sizing else self.size
            size = f"size {least}" if least == self._largest else f"size {least} to {self._largest}"
            rows = f"fewer rows of {self.dimension} {self.width}, orthogonal unless rounded"
            lost = "lost too" if self.keeps_account else "lost None"
            raise misfit(summary, f"a sketch of {size}, {rows}, a finite shed >= 0, and {lost}")

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
            and (summary.lost is not None) == self.keeps_account
        )
        if isinstance(summary, Narrow):
            return sound and summary.width == self.width and _fill(summary)
        trusted = summary.trusted or _are_orthogonal(summary.rows)
        return sound and len(summary.rows) < size and trusted

    def pack(self, summary: Sketch) -> State:
        """Return rows and shed, and what else may differ."""
        state: State = {"rows": summary.rows.copy(), "shed": summary.shed, "size": summary.size}
        return state | ({} if summary.lost is None else {"lost": summary.lost})

    def unpack(self, state: State) -> Sketch:
        """Return the sketch that was packed."""
        rows, size = array(state, "rows", None, self.dimension), integer(state, "size")
        lost = not_negative(state, "lost") if self.keeps_account else None
        return restored(self, Sketch(rows, number(state, "shed"), size, lost))


def carried(
    moment: Array, *, before: tuple[Sketch | Narrow, ...], after: Sketch | Narrow, at: Array | None
) -> Array:
    """Return the moment that goes with ``after``: less by what it gets wrong of X^T X at ``at``."""
    if at is None or before == (after,):
        return moment
    error = after.times(-at)
    for each in before:
        error = error + each.times(at)
    return moment - error


def _fill(narrow: Narrow) -> bool:
    """Say whether the numbers of a message are sound: nothing else is asked of rounded rows."""
    return bool(
        len(narrow.codes) < narrow.size
        and narrow.scales.shape == (len(narrow.codes),)
        and (np.abs(narrow.rows) < 1e75).all()
    )


def _are_orthogonal(rows: Array) -> bool:
    if rows.dtype != np.float64 or rows.ndim != 2:
        return False
    square, product = skew(rows)
    return square < HUGE and product <= _SKEW * square
