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
from math import isfinite, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array, read_only
from fedbandit.core.kernels.rounding import rounded_to
from fedbandit.core.memory.lossy.summary import LossyRows, missing
from fedbandit.core.memory.narrow import shortened_number
from fedbandit.errors import InvalidMessage, complaint

ETA: Final = 0.1
DOWNLOAD: Final = 0.05
UPLOAD: Final = 0.01

_YOUNG = 1.0 + 1.0 / ETA
_SAFE = 1.0 + 1e-9  # covers the rounding of the bound's own arithmetic
_LARGEST = 2.0**30  # code
_SPARE = 0.9  # the first step is a little smaller than expected to be needed
_TINIEST = 1e-150  # step


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
        return read_only(_levels_read(self.levels, self.top))

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
        return (self.rows @ y) @ self.rows + missing(self.bound, self.lost) * y


def bits_needed(largest: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many bits hold integers from -largest to largest: one for the sign, at least 1."""
    return 1 + np.ceil(np.log2(np.asarray(largest, dtype=np.float64) + 1.0)).astype(np.int64)


def step_for(charge: float, rows: int, dimension: int) -> float:
    """Return the step with which rounding is expected to add ``charge`` to the bound.

    Rounding errors are spread evenly over half a step both ways, so |N|^2 is about
    step^2 / 12 (sqrt(k) + sqrt(d))^2.
    """
    spread = (sqrt(rows) + sqrt(dimension)) ** 2
    return _SPARE * sqrt(12.0 * charge / (_YOUNG * spread))


def upload_charge(trace: float, seen: float, ridge: float) -> float:
    """Return what the rounding of an upload may add to the bound, see above."""
    most = max(seen, ridge)
    share: float = (ridge / most) ** 0.25
    return UPLOAD * ridge * (trace / most) * share


def rows_within(rows: Array, step: float, room: float) -> int:
    """Return how many leading rows take at most ``room`` bytes with this step; at least one."""
    if not len(rows):
        return 0
    bits = bits_needed(np.abs(rows).max(axis=1) / step + 0.5)
    taken = np.cumsum(bits * rows.shape[1] / 8.0 + 1.0)  # a byte says how many bits
    return max(1, int(np.count_nonzero(taken <= room)))


def fitted(summary: LossyRows, charge: float) -> Fitted:
    """Round the rows so that the bound grows by at most ``charge``. Cost O(k^2 d + k^3)."""
    rows, weight = summary.rows, summary.weight
    if not len(rows):
        levels, top = _levels(summary.bound)
        codes = np.zeros(rows.shape, np.int32)
        return Fitted(codes, 1.0, levels, top, max(0.0, summary.lost), weight * (1.0 + ETA))
    rounded, step, added = _rounded(rows, charge / weight)
    multiples, moved, _, gained = rounded
    levels, top = _levels(summary.bound + (weight * added) * moved)
    lost = max(0.0, summary.lost - gained)
    return Fitted(multiples.astype(np.int32), step, levels, top, lost, weight * (1.0 + ETA))


def _rounded(rows: Array, charge: float) -> tuple[tuple[Array, Array, float, float], float, float]:
    """Return rounded rows (``rounded_to``), their step and (1 + 1/eta) |N|^2.

    The last is at most ``charge``, unless codes get too large. Raises InvalidMessage for what is
    not finite: no step would do.
    """
    rows = rows.copy()  # one that can be written: for the compiler these are two types
    largest = float(np.abs(rows).max())
    if not (isfinite(largest) and isfinite(charge)):
        got, fix = "numbers that are not finite", "Look at the size of arms and rewards."
        raise InvalidMessage(complaint("rows to be sent", got=got, expected="finite", fix=fix))
    least = max(largest / _LARGEST, _TINIEST)
    step = step_for(charge, *rows.shape)
    while True:
        step = shortened_number(max(step, least))
        rounded = rounded_to.run(rows, step)
        added = _SAFE * _YOUNG * rounded[2]
        if added <= charge or step <= least:
            return rounded, step, added
        step *= 0.8


_BELOW = np.arange(-254, 1)  # levels 1 to 255, counted from the top
_SHARES = np.ldexp((2.0 ** (np.arange(8) / 8 - 1.0))[_BELOW % 8], _BELOW // 8 + 1)  # of the top


def _levels(bound: Array) -> tuple[NDArray[np.uint8], float]:
    """Return levels and top of the least bound that can be expressed and is not below this one."""
    largest = float(bound.max(initial=0.0))
    if largest == 0.0:
        return np.zeros(len(bound), np.uint8), 0.0
    top = shortened_number(largest * (1.0 + 2.0**-19))
    levels = np.searchsorted(_SHARES * top, bound) + 1
    return np.where(bound > 0.0, levels, 0).astype(np.uint8), top


def _levels_read(levels: NDArray[np.uint8], top: float) -> Array:
    """Return what levels stand for; level 0 is 0."""
    bounds: Array = np.concatenate([[0.0], _SHARES * top])[levels]
    return bounds


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
