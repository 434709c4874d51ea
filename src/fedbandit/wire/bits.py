"""Integers of few bits, packed one after another without gaps."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

MOST_BITS: Final = 32
"""Bits of a number, the sign included."""


def packed(codes: NDArray[np.int32], bits: NDArray[np.int64]) -> bytes:
    """Return codes (k x d) in ``bits`` (k) bits a number, row after row.

    A code c of b bits is written as c + 2^(b-1), the highest bit first. The last byte is filled up
    with zeros.
    """
    each, shifts = _places(bits, codes.shape[1])
    shifted = codes.astype(np.int64).ravel() + (1 << (each - 1))
    stream = (np.repeat(shifted, each) >> shifts) & 1
    return np.packbits(stream.astype(np.uint8)).tobytes()


def unpacked(data: bytes, bits: NDArray[np.int64], dimension: int) -> NDArray[np.int32]:
    """Return the codes (k x d) that ``packed`` wrote; ``data`` must have the bytes for them.

    Row by row: numbers as long as 64 bits for each bit of a large message would fill the memory.
    """
    codes = np.empty((len(bits), dimension), np.int32)
    stream = np.unpackbits(np.frombuffer(data, np.uint8))
    start = 0
    for row, each in zip(codes, bits.tolist(), strict=True):
        places = stream[start : start + each * dimension].reshape(dimension, each)
        row[:] = places @ (1 << np.arange(each - 1, -1, -1)) - (1 << (each - 1))
        start += each * dimension
    return codes


def _places(bits: NDArray[np.int64], dimension: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for every number its bits; for every place how far to shift there."""
    each = np.repeat(bits, dimension)
    ends = np.cumsum(each)
    shifts = np.repeat(ends, each) - 1 - np.arange(int(ends[-1]) if len(ends) else 0)
    return each, shifts
