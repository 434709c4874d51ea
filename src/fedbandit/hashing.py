"""Signed hashing of names and pairs of names into places; ``features/hashed.py`` has the rule."""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

Hashes = NDArray[np.uint64]


def name_hash(name: str) -> int:
    """Return the BLAKE2b digest of 8 bytes as a little-endian number."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def pair_places(
    first: Hashes, second: Hashes, dimension: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return place (below ``dimension``) and sign of every pair: len(first) x len(second)."""
    hashes = _mix(first[:, None] * _GOLDEN + second)
    places = ((hashes >> np.uint64(1)) % np.uint64(dimension)).astype(np.intp)
    signs = 1.0 - 2.0 * (hashes & np.uint64(1)).astype(np.float64)
    return places, signs


def _mix(z: Hashes) -> Hashes:
    """Return the finaliser of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))
