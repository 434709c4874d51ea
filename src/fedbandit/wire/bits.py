"""Integers of few bits, packed one after another without gaps."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MOST_BITS: Final = 32
"""Bits of a number, the sign included."""


def packed(codes: NDArray[np.int32], bits: NDArray[np.int64]) -> bytes:
    """Return codes (k x d) in ``bits`` (k) bits a number, row after row.

    A code c of b bits is written as c + 2^(b-1), the highest bit first. The last byte is filled up
    with zeros.
    """
    each, _, shifts = _places(bits, codes.shape[1])
    shifted = codes.astype(np.int64).ravel() + (1 << (each - 1))
    stream = (np.repeat(shifted, each) >> shifts) & 1
    return np.packbits(stream.astype(np.uint8)).tobytes()


def unpacked(data: bytes, bits: NDArray[np.int64], dimension: int) -> NDArray[np.int32]:
    """Return the codes (k x d) that ``packed`` wrote; ``data`` must have the bytes for them."""
    each, starts, shifts = _places(bits, dimension)
    if not len(each):
        return np.zeros((0, dimension), np.int32)
    stream = np.unpackbits(np.frombuffer(data, np.uint8), count=len(shifts)).astype(np.int64)
    shifted = np.add.reduceat(stream << shifts, starts)
    codes: NDArray[Any] = shifted - (1 << (each - 1))
    return codes.astype(np.int32).reshape(len(bits), dimension)


def _places(
    bits: NDArray[np.int64], dimension: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return for every number its bits and first place; for every place how far to shift there."""
    each = np.repeat(bits, dimension)
    ends = np.cumsum(each)
    starts = ends - each
    shifts = np.repeat(ends, each) - 1 - np.arange(int(ends[-1]) if len(ends) else 0)
    return each, starts, shifts
