"""A sketch with rows rounded to fewer bytes for sending, and the bound on what rounding loses."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import frexp, ldexp, sqrt
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array, read_only, row_products
from fedbandit.core.kernels.rounding import spectral_bound
from fedbandit.core.memory.summary import Sketch, empty_sketch

Width = Literal["float64", "float32", "float16", "bfloat16", "int8"]
WIDTHS: Final[tuple[Width, ...]] = get_args(Width)

_UPPER_HALF = np.uint64(0xFFFFFFFF00000000)
_SAFE = 1.0 + 1e-9  # covers the rounding of the bound's own arithmetic
_FLAT = 2.0**-100  # smaller numbers, relative to the largest of their row, become 0
_LEAST_EXPONENT = -1000  # of a scale: keeps it from being subnormal, so its lower half is zero


@dataclass(frozen=True, slots=True)
class Codes:
    """One narrow number format: ``write`` turns values in [-top, top] into codes, ``read`` back.

    ``dtype`` is the type of a code. ``unit(d)`` bounds |rounded row - row| / |row| for a row of d
    numbers.
    """

    dtype: str
    top: float
    write: Callable[[Array], NDArray[Any]]
    read: Callable[[NDArray[Any]], Array]
    unit: Callable[[int], float]

    @property
    def bytes(self) -> int:
        """Bytes of one number."""
        return np.dtype(self.dtype).itemsize


def _to_bfloat16(values: Array) -> NDArray[np.uint16]:
    """Round to 8 significant bits, ties to even, and return the upper half of that float32.

    Rounding to float32 first would round twice.
    """
    fractions, exponents = np.frexp(values)
    nearest = np.ldexp(np.rint(fractions * 256.0), exponents - 8)
    upper: NDArray[np.uint16] = (
        nearest.astype(np.float32).view(np.uint32) >> np.uint32(16)
    ).astype(np.uint16)
    return upper


def _from_bfloat16(codes: NDArray[Any]) -> Array:
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _plain(dtype: str, unit: float) -> Codes:
    return Codes(
        dtype, 1.0, lambda v: v.astype(dtype), lambda c: c.astype(np.float64), lambda _: unit
    )


CODES: Final[dict[str, Codes]] = {
    "float32": _plain("<f4", 2.0**-24),
    "float16": _plain("<f2", 2.0**-11),
    "bfloat16": Codes("<u2", 1.0, _to_bfloat16, _from_bfloat16, lambda _: 2.0**-8),
    "int8": Codes(
        "|i1",
        127.0,
        lambda v: np.rint(v).astype("|i1"),
        lambda c: c.astype(np.float64),
        lambda d: sqrt(d) / 254.0,
    ),
}
"""The narrow formats by name. A number of a row is its code times the row's scale."""


@dataclass(frozen=True, eq=False)
class Narrow:
    """A sketch as it is sent in few bytes: ``codes`` (k x d) and a scale for each row.

    It stands for X^T X as a ``Sketch`` does, but its rows S' are not exactly orthogonal any more:
    ``sketch()`` makes them so before they are read, and merging does it anyway.

    S' differs from the sender's S by rounding, and ``shed`` has grown by a bound e on that
    (``rounding_loss``), so that the upper bound still holds:

        X^T X <= S^T S + shed I <= S'^T S' + (shed + e) I = S'^T S' + shed' I.

    The lower bound becomes S'^T S' <= X^T X + e I, since rounding may make rows longer; radii take
    that into account (``Federated.rounded``). ``lost`` is at least the trace of X^T X - S'^T S', or
    None if this recipe does not track it; if tracked, e bounds the error of S'^T S' + lost / d I as
    well. Always ``trusted``: merging makes new rows, so these need no check.
    """

    width: str
    codes: NDArray[Any]
    scales: Array
    shed: float
    size: int
    lost: float | None = None
    trusted: bool = field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", read_only(self.codes))
        object.__setattr__(self, "scales", read_only(self.scales))

    @cached_property
    def rows(self) -> Array:
        """The rows S' (k x d) in float64."""
        return read_only(values(self.codes, self.scales, self.width))

    @cached_property
    def squares(self) -> Array:
        """The squared norms of the rows."""
        return read_only(row_products(self.rows, self.rows))

    @property
    def dimension(self) -> int:
        """Length of an arm, d."""
        return int(self.codes.shape[1])

    @property
    def upload_scalars(self) -> int:
        """(k + 1) d + 2 + k: rows, moment, shed, count and scales; 1 more if lost is tracked."""
        k = len(self.codes)
        return (k + 1) * self.dimension + 2 + k + (self.lost is not None)

    @property
    def download_scalars(self) -> int:
        """Those of an upload and k more, the paper's H."""
        return self.upload_scalars + len(self.codes)

    def times(self, y: Array) -> Array:
        """Return (S'^T S' + lost / d I) y, which stands for X^T X y (d). Cost O(k d)."""
        return (self.rows @ y) @ self.rows + (self.lost or 0.0) / self.dimension * y

    def sketch(self) -> Sketch:
        """Return it with orthogonal rows. Cost O(k^3 + k^2 d)."""
        lost = None if self.lost is None else 0.0
        return empty_sketch(self.dimension, self.size, lost=lost).merge(self)


def narrowed(sketch: Sketch, width: str) -> Narrow:
    """Round the rows of a sketch, and add a bound on the loss to ``shed``. Cost O(k^2 d + k^3)."""
    codes, scales = rounded(sketch.rows, width)
    rows = values(codes, scales, width)
    shed, lost = sketch.shed + rounding_loss(sketch, rows), sketch.lost
    if sketch.lost is not None:
        mass = float(sketch.squares.sum() - row_products(rows, rows).sum())
        lost = max(0.0, sketch.lost + mass)
        shed += abs(lost - sketch.lost) / sketch.dimension
    return Narrow(width, codes, scales, shed, sketch.size, lost)


def rounded(rows: Array, width: str) -> tuple[NDArray[Any], Array]:
    """Return codes (k x d) and scales (k) of the nearest rows that the format can express.

    Rounding rounded rows again does not change them.
    """
    form = CODES[width]
    largest = np.abs(rows).max(axis=1, initial=0.0)
    scales = _power_of_two(largest) if form.top == 1.0 else shortened(largest / form.top)
    scaled = np.clip(rows / scales[:, None], -form.top, form.top)
    return form.write(np.where(np.abs(scaled) < _FLAT, 0.0, scaled)), scales


def short_vector(vector: Array) -> Array:
    """Return a vector (d) rounded as ``rounded`` does in float32, in less time."""
    largest = float(np.abs(vector).max())
    fraction, exponent = frexp(largest)
    exponent = min(max(exponent - (fraction == 0.5), _LEAST_EXPONENT), 1023)
    scale = ldexp(1.0, exponent)
    scaled = vector / scale
    scaled[np.abs(scaled) < _FLAT] = 0.0
    short: Array = scaled.astype(np.float32).astype(np.float64) * scale
    return short


def _power_of_two(largest: Array) -> Array:
    """Return the smallest power of two that is at least as large; it divides without rounding."""
    fraction, exponent = np.frexp(largest)
    exponent = np.clip(exponent - (fraction == 0.5), _LEAST_EXPONENT, 1023)
    return np.asarray(np.ldexp(1.0, exponent), dtype=np.float64)


def shortened(numbers: Array) -> Array:
    """Return float64 numbers with the lower 32 bits set to 0, so that four bytes hold each."""
    floor = np.maximum(numbers, 2.0**_LEAST_EXPONENT)
    return (floor.view(np.uint64) & _UPPER_HALF).view(np.float64)


def values(codes: NDArray[Any], scales: Array, width: str) -> Array:
    """Return the rows that codes and scales stand for."""
    return CODES[width].read(codes) * scales[:, None]


def rounding_loss(sketch: Sketch, rows: Array) -> float:
    """Bound the largest |eigenvalue| of S^T S - S'^T S', for S with orthogonal rows and S' near it.

    With N = S' - S that matrix is -(S^T N + N^T S) - N^T N. Let U be the rows of S at length 1,
    W = |S_i| N_i, A = W U^T and R = W - A U, which is orthogonal to U. For a unit vector
    z = U^T a + b with U b = 0,

        |z^T (U^T W + W^T U) z| = |a^T (A + A^T) a + 2 a^T R b| <= p |a|^2 + 2 r |a| |b|

    with p >= |A + A^T| and r >= |R|; that is at most the larger eigenvalue of [[p, r], [r, 0]], and
    at most 1.62 k^(1/16) times what it bounds. |N|^2 comes on top. Lengths and N are taken
    relative to their largest, so that nothing overflows. Cost O(k^2 d + k^3), without an
    eigenproblem.
    """
    noise, lengths = rows - sketch.rows, np.sqrt(sketch.squares)
    largest, longest = float(np.abs(noise).max(initial=0.0)), float(lengths.max(initial=0.0))
    if largest == 0.0 or longest == 0.0:
        return 0.0
    noise /= largest
    unit = sketch.rows / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    weighted = (lengths / longest)[:, None] * noise
    along = weighted @ unit.T
    rest = weighted - along @ unit
    p, r2 = spectral_bound(along + along.T), spectral_bound(rest @ rest.T)
    first = longest * (p + sqrt(p * p + 4.0 * r2)) / 2.0
    return _SAFE * largest * (first + largest * spectral_bound(noise @ noise.T))


def rounding_room(summary: object) -> float:
    """Return the share by which rounding may have enlarged trace + shed and the moment.

    Rounding moves a row by at most u times its length (``Codes.unit``); then ``rounding_loss`` is
    below 6 u + u^2 times the trace, for any rows. The result allows for two roundings, which
    uploads that waited may have seen. It is 0 for a summary that was not rounded.
    """
    if not isinstance(summary, Narrow):
        return 0.0
    share = CODES[summary.width].unit(summary.dimension)
    return 16.0 * share + 80.0 * share * share + 1e-6
