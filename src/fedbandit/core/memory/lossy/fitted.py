"""Rows rounded for sending: one step for all, and as many bits for a row as its size asks for.

Let S' = S - N be the rounded rows. For every eta > 0

    S^T S <= (1 + eta) S'^T S' + (1 + 1/eta) N^T N,

because (u - v)(u - v)^T >= 0 for u = sqrt(eta) S' and v = N / sqrt(eta). So rounding multiplies the
weight of a summary by 1 + eta, eta = 0.1, and adds (1 + 1/eta) |N|^2 to its bound, in coordinates
that were played: |N| is the spectral norm. |N| depends on the step alone, not on how large
the rows are: ``charge``, the most that may be added, fixes the step, and a row takes 1 + log2 of
(its largest entry / step) bits. Four times the observations cost one bit more.

What is added in the end, in multiples of the ridge:

- A download adds at most ``DOWNLOAD`` (1 + eta), however long the run. Downloads are made afresh
  from what the server holds, so this does not accumulate.
- Uploads stay in what the server holds. One whose trace is u, of an agent that has seen t with it
  (both in multiples of the ridge), adds at most ``UPLOAD`` u / t' (1 / t')^(1/4) with
  t' = max(t, 1). The uploads of one agent, which has seen all of its own, add up to at most
  ``UPLOAD`` (1 + integral from 1 of t^(-5/4)) = 5 ``UPLOAD``: for M agents at most
  5 M ``UPLOAD``, which they reach only if they never hear of each other. If each hears of all
  the others before it uploads, 5 ``UPLOAD`` is the most for all together.

A number takes at most 31 bits and a sign. Rows so large that the step asks for more get a larger
step, and what that adds is in the bound all the same.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array, read_only, rows_times
from fedbandit.core.kernels.rounding import ETA, levels_read
from fedbandit.core.memory.lossy.summary import Leading, LossyRows
from fedbandit.errors import InvalidMessage, complaint

DOWNLOAD: Final = 0.05
UPLOAD: Final = 0.01


@dataclass(frozen=True, eq=False)
class Fitted:
    """Rows as they are sent: integer ``codes`` (k x d) times ``step``.

    ``levels`` (d) and ``top`` stand for the bound: 0 is 0, 255 is ``top``, and 8 levels less are
    half of it.
    """

    codes: NDArray[np.int32]
    step: float
    levels: NDArray[np.uint8]
    top: float
    lost: float
    weight: float
    trusted: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("codes", "levels"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @cached_property
    def rows(self) -> Array:
        """The rows S' (k x d) in float64."""
        return read_only(self.codes.astype(np.float64) * self.step)

    @cached_property
    def bound(self) -> Array:
        """C (d)."""
        return read_only(levels_read(self.levels, self.top))

    @property
    def bits(self) -> NDArray[np.int64]:
        """The bits of a number of each row (k), the sign included."""
        return bits_needed(np.abs(self.codes.astype(np.int64)).max(axis=1, initial=0))

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return int(self.codes.shape[1])

    @property
    def upload_scalars(self) -> int:
        """(k + 2) d + k + 5: rows, bound, moment; bits, step, top, lost, weight and count."""
        k = len(self.codes)
        return (k + 2) * self.dimension + k + 5

    download_scalars = upload_scalars

    def times(self, y: Array) -> Array:
        """Return (S'^T S' + diag(missing)) y. Cost O(k d)."""
        return rows_times.run(self.rows, self.bound, self.lost, y)


def bits_needed(largest: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many bits hold integers from -largest to largest: one for the sign, at least 1."""
    return 1 + np.ceil(np.log2(np.asarray(largest, dtype=np.float64) + 1.0)).astype(np.int64)


def upload_charge(trace: float, seen: float, ridge: float) -> float:
    """Return what the rounding of an upload may add to the bound, see above."""
    most = max(seen, ridge)
    share: float = (ridge / most) ** 0.25
    return UPLOAD * ridge * (trace / most) * share


def fitted(summary: LossyRows, charge: float) -> Fitted:
    """Round all rows so that the bound grows by at most ``charge``. Cost O(k^2 d + k^3)."""
    (k, d), rows = summary.rows.shape, summary.rows.copy()
    whole = Leading(summary, rows, np.zeros(k), 0.0, np.ones(d), np.ones(d))
    return cut_and_fitted(whole, charge, faint=0.0, room=inf)


def cut_and_fitted(leading: Leading, charge: float, *, faint: float, room: float) -> Fitted:
    """Cut leading rows to ``room`` bytes, leave out faint ones, and round the others (``fit``).

    Raises InvalidMessage for what is not finite: no step would do.
    """
    codes, step, levels, top, lost, rows, bound = leading.fit(charge, faint=faint, room=room)
    if isnan(step):
        got, fix = "numbers that are not finite", "Look at the size of arms and rewards."
        raise InvalidMessage(complaint("rows to be sent", got=got, expected="finite", fix=fix))
    weight = leading.source.weight * (1.0 + ETA)
    rounded = Fitted(codes, step, levels, top, lost, weight)
    rounded.__dict__.update(rows=read_only(rows), bound=read_only(bound))  # as if read already
    return rounded


def message_bytes(dimension: int) -> int:
    """Return the bytes of a message beside its rows, with counts below 2^32."""
    return 112 + 5 * dimension


def rounding_length(summary: LossyRows | Fitted) -> float:
    """Return the most that rounding can have changed the rows by, as the length of all entries."""
    return 0.5 * summary.step * sqrt(summary.codes.size) if isinstance(summary, Fitted) else 0.0


def least_trace(summary: LossyRows | Fitted) -> float:
    """Return what the trace of X^T X is at least, for a summary as it is sent.

    Rounding keeps trace + lost as it is, unless rows get longer by more than was lost.
    """
    trace = float(np.vdot(summary.rows, summary.rows))
    if summary.lost > 0.0:
        return trace + summary.lost
    return max(0.0, sqrt(trace) - rounding_length(summary)) ** 2
