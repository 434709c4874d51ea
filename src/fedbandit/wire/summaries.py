"""Summaries and vectors as they are encoded: in float64, as rounded rows, as a triangle."""

from collections.abc import Iterable
from math import prod
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Sent
from fedbandit.core.memory.lossy.fitted import Fitted
from fedbandit.core.memory.lossy.summary import LossyGram, LossyRows
from fedbandit.core.memory.narrow import CODES, Narrow, rounded, values
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.memory.triangle import EXACT, TRIANGLE_CODES, Triangle, triangle_of
from fedbandit.wire.bits import MOST_BITS, packed, unpacked
from fedbandit.wire.decoding import WIDTH, refuse

_LONGEST = 2**24  # rows or columns of an array
_SCALE = 4  # bytes: the upper half of a float64
_MOMENT = "float32"  # how the moment travels beside rounded rows
_F8 = np.dtype("<f8")
_HUGE = 1e150  # no number of a message is larger
_SOUND = f"it must have 1 to {_LONGEST} columns, at most {_LONGEST} rows, and the bytes for these"


class WiredVector(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A vector as it is encoded."""

    shape: tuple[int]
    data: bytes


class _Matrix(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    shape: tuple[int, int]
    data: bytes


class _Gram(msgspec.Struct, array_like=True, frozen=True, tag="gram", forbid_unknown_fields=True):
    matrix: _Matrix


class _Sketch(
    msgspec.Struct, array_like=True, frozen=True, tag="sketch", forbid_unknown_fields=True
):
    rows: _Matrix
    shed: float
    size: int
    lost: float | None


class _Narrow(
    msgspec.Struct, array_like=True, frozen=True, tag="narrow", forbid_unknown_fields=True
):
    width: Annotated[str, Meta(max_length=16)]
    rows: _Matrix
    shed: float
    size: int
    lost: float | None


class _LossyRows(
    msgspec.Struct, array_like=True, frozen=True, tag="rows", forbid_unknown_fields=True
):
    rows: _Matrix
    bound: WiredVector
    lost: float
    weight: float


class _LossyGram(
    msgspec.Struct, array_like=True, frozen=True, tag="matrix", forbid_unknown_fields=True
):
    matrix: _Matrix
    bound: WiredVector
    lost: float
    weight: float


class _Fitted(
    msgspec.Struct, array_like=True, frozen=True, tag="fitted", forbid_unknown_fields=True
):
    bits: bytes
    rows: bytes
    step: float
    levels: bytes
    top: float
    lost: float
    weight: float


class _Triangle(
    msgspec.Struct, array_like=True, frozen=True, tag="triangle", forbid_unknown_fields=True
):
    width: Annotated[str, Meta(max_length=16)]
    dimension: int
    data: bytes
    raised: float
    shed: float


WiredSummary = _Gram | _Sketch | _Narrow | _Triangle | _LossyRows | _LossyGram | _Fitted


def wired(summary: Sent, moment: Array) -> tuple[WiredSummary, WiredVector]:
    """Return a summary and its moment as structs."""
    match summary:
        case Gram(matrix, 0.0):
            return _Gram(_matrix(matrix)), _vector(moment)
        case Gram():
            return _wired_triangle(triangle_of(summary, EXACT)), _vector(moment)
        case Triangle(width):
            written = _vector(moment) if width == EXACT else _short_vector(moment)
            return _wired_triangle(summary), written
        case Sketch(rows, shed, size, lost):
            return _Sketch(_matrix(rows), float(shed), int(size), lost), _vector(moment)
        case Narrow(width, codes, scales, shed, size, lost):
            shape, data = (codes.shape[0], codes.shape[1]), _scaled(codes, scales)
            narrow = _Narrow(width, _Matrix(shape, data), float(shed), int(size), lost)
            return narrow, _short_vector(moment)
        case LossyRows(rows, bound, lost, weight):
            wired_rows = _LossyRows(_matrix(rows), _vector(bound), float(lost), float(weight))
            return wired_rows, _vector(moment)
        case LossyGram(matrix, bound, lost, weight):
            wired_matrix = _LossyGram(_matrix(matrix), _vector(bound), float(lost), float(weight))
            return wired_matrix, _vector(moment)
        case Fitted():
            return _fitted(summary), _short_vector(moment)
        case _:
            raise TypeError(f"no wire form for {type(summary).__name__}")


def unwired(summary: WiredSummary, moment: WiredVector, place: str) -> tuple[Sent, Array]:
    """Return summary and moment; raise InvalidMessage, with the field after ``place``, if bad."""
    field = f"{place}moment"
    if isinstance(summary, _Narrow):
        return _narrow(summary, place), _from_short(moment, field)
    if isinstance(summary, _Fitted):
        return _fit(summary, place, moment.shape[0]), _from_short(moment, field)
    if isinstance(summary, _Triangle):
        triangle = _triangle(summary, place)
        read = _array if triangle.width == EXACT else _from_short
        return triangle, read(moment, field)
    return _full(summary, place), _array(moment, field)


def _matrix(array: Array) -> _Matrix:
    return _Matrix((array.shape[0], array.shape[1]), _bytes(array))


def _vector(array: Array) -> WiredVector:
    return WiredVector((len(array),), _bytes(array))


def _short_vector(array: Array) -> WiredVector:
    return WiredVector((len(array),), _scaled(*rounded(array[None], _MOMENT)))


def _from_short(vector: WiredVector, field: str) -> Array:
    shape = (1, vector.shape[0])
    numbers: Array = values(*_codes(_MOMENT, shape, vector.data, field), _MOMENT)[0]
    return numbers


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array, dtype="<f8").tobytes()


def _scaled(codes: NDArray[Any], scales: Array) -> bytes:
    """Return scales, the upper half of each, and then the codes."""
    return _upper_halves(scales) + np.ascontiguousarray(codes).tobytes()


def _upper_halves(numbers: Array) -> bytes:
    bits = np.ascontiguousarray(numbers, "<f8").view("<u8")
    return (bits >> np.uint64(32)).astype("<u4").tobytes()


def _from_upper_halves(data: bytes, count: int, field: str) -> Array:
    """Return ``count`` numbers from the start of the data; raise InvalidMessage for a bad one."""
    upper = np.frombuffer(data, "<u4", count).astype(np.uint64) << np.uint64(32)
    numbers = upper.view(np.float64)
    if not ((numbers >= 0.0) & (numbers < _HUGE)).all():
        refuse(field, f"a scale is NaN, negative or above {_HUGE:g}")
    return numbers


def _codes(
    width: str, shape: tuple[int, int], data: bytes, field: str
) -> tuple[NDArray[Any], Array]:
    """Return codes (k x d) and scales (k) from bytes; raise InvalidMessage if they do not fit."""
    rows, form = shape[0], CODES[width]
    sound = shape[1] > 0 and all(0 <= side <= _LONGEST for side in shape)
    if not sound or rows * _SCALE + prod(shape) * form.bytes != len(data):
        refuse(field, f"an array of shape {shape} in {len(data)} bytes of {width}; {_SOUND}")
    codes = np.frombuffer(data, form.dtype, offset=rows * _SCALE).reshape(shape)
    scales = _from_upper_halves(data, rows, field)
    with np.errstate(all="ignore"):  # what is not finite compares as too large
        sound = bool((np.abs(values(codes, scales, width)) < _HUGE).all())
    if not sound:
        refuse(field, f"a number is not finite, or not below {_HUGE:g} in size")
    return codes, scales


def _check_width(width: str, known: Iterable[str], place: str) -> None:
    if width not in known:
        listed = " or ".join(map(repr, known))
        refuse(f"{place}summary.width", f"unknown width {width!r}; it must be {listed}")


def _wired_triangle(triangle: Triangle) -> _Triangle:
    exact = triangle.width == EXACT
    diagonal = _bytes(triangle.diagonal) if exact else _upper_halves(triangle.diagonal)
    form = TRIANGLE_CODES[triangle.width]
    data = diagonal + np.ascontiguousarray(triangle.codes, form.dtype).tobytes()
    raised, shed = float(triangle.raised), float(triangle.shed)
    return _Triangle(triangle.width, triangle.dimension, data, raised, shed)


def _triangle(wired: _Triangle, place: str) -> Triangle:
    """Return the triangle; raise InvalidMessage if its bytes do not fit or are no numbers."""
    _check_width(wired.width, TRIANGLE_CODES, place)
    d, field, form = wired.dimension, f"{place}summary.data", TRIANGLE_CODES[wired.width]
    exact = wired.width == EXACT
    head, code = d * (WIDTH if exact else _SCALE), np.dtype(form.dtype).itemsize
    if not 0 < d <= _LONGEST or head + d * (d - 1) // 2 * code != len(wired.data):
        size = f"dimension {d} in {len(wired.data)} bytes of {wired.width}"
        refuse(field, f"{size}; these must be its diagonal and what is above it, and no more")
    diagonal = (
        np.frombuffer(wired.data, _F8, d).astype(np.float64, copy=False)
        if exact
        else _from_upper_halves(wired.data, d, field)
    )
    codes = np.frombuffer(wired.data, form.dtype, offset=head)
    with np.errstate(all="ignore"):  # what is not finite compares as too large
        sound = bool((np.abs(diagonal) < _HUGE).all())
        sound = sound and bool((np.abs(codes.astype(np.float64)) < _HUGE).all())
    if not sound:
        refuse(field, f"a number is not finite, or not below {_HUGE:g} in size")
    return Triangle(wired.width, diagonal, codes, wired.raised, wired.shed)


def _narrow(wired: _Narrow, place: str) -> Narrow:
    _check_width(wired.width, CODES, place)
    codes, scales = _codes(wired.width, wired.rows.shape, wired.rows.data, f"{place}summary.rows")
    return Narrow(wired.width, codes, scales, wired.shed, wired.size, wired.lost)


def _fitted(summary: Fitted) -> _Fitted:
    bits = summary.bits
    return _Fitted(
        bits.astype(np.uint8).tobytes(),
        packed(summary.codes, bits),
        float(summary.step),
        summary.levels.tobytes(),
        float(summary.top),
        float(summary.lost),
        float(summary.weight),
    )


def _fit(wired: _Fitted, place: str, dimension: int) -> Fitted:
    bits = np.frombuffer(wired.bits, np.uint8).astype(np.int64)
    levels, d = np.frombuffer(wired.levels, np.uint8), len(wired.levels)
    if not d or d > _LONGEST:
        refuse(f"{place}summary.levels", f"{d} coordinates; there must be 1 to {_LONGEST}")
    if d != dimension:
        refuse(f"{place}summary.levels", f"{d} coordinates beside a moment of {dimension} numbers")
    if len(bits) > d:
        refuse(
            f"{place}summary.bits", f"{len(bits)} rows; there may be as many as coordinates, {d}"
        )
    if len(bits) and not (bits.min() >= 1 and bits.max() <= MOST_BITS):
        refuse(f"{place}summary.bits", f"numbers must have 1 to {MOST_BITS} bits")
    needed = -(-int(bits.sum()) * d // 8)
    if len(wired.rows) != needed:
        refuse(f"{place}summary.rows", f"{len(wired.rows)} bytes; {needed} for these bits")
    for name in ("step", "top", "lost", "weight"):
        if not 0.0 <= getattr(wired, name) < _HUGE:
            refuse(f"{place}summary.{name}", f"not a number from 0 to {_HUGE:g}")
    codes = unpacked(wired.rows, bits, d)
    if not (np.abs(codes.astype(np.float64)) * wired.step < _HUGE).all():
        refuse(f"{place}summary.rows", f"a number is not below {_HUGE:g} in size")
    return Fitted(codes, wired.step, levels, wired.top, wired.lost, wired.weight)


def _full(wired: _Gram | _Sketch | _LossyRows | _LossyGram, place: str) -> Sent:
    if isinstance(wired, _Gram):
        return Gram(_array(wired.matrix, f"{place}summary.matrix"))
    if isinstance(wired, _LossyRows):
        rows, bound = _array(wired.rows, f"{place}summary.rows"), _bound(wired, place)
        return LossyRows(rows, bound, wired.lost, wired.weight)
    if isinstance(wired, _LossyGram):
        matrix, bound = _array(wired.matrix, f"{place}summary.matrix"), _bound(wired, place)
        return LossyGram(matrix, bound, wired.lost, wired.weight)
    return Sketch(_array(wired.rows, f"{place}summary.rows"), wired.shed, wired.size, wired.lost)


def _bound(wired: _LossyRows | _LossyGram, place: str) -> Array:
    return _array(wired.bound, f"{place}summary.bound")


def _array(tensor: WiredVector | _Matrix, field: str) -> Array:
    shape = tensor.shape
    sound = shape[-1] > 0 and min(shape) >= 0 and max(shape) <= _LONGEST
    if not sound or prod(shape) * WIDTH != len(tensor.data):
        refuse(field, f"an array of shape {shape} in {len(tensor.data)} bytes; {_SOUND}")
    return np.frombuffer(tensor.data, _F8).astype(np.float64, copy=False).reshape(shape)
