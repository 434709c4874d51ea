"""From named features of a context and an action to an arm: signed hashing of all pairs.

An arm has as many numbers as the model has dimensions, whatever features there are, so names are
hashed into places. The rule in full, to make the same arms in another program:

1. *Flatten.* ``{"user": {"age": 0.3, "lang": "de", "new": true, "city": null}}`` has the features
   ``user.age`` = 0.3, ``user.lang=de`` = 1 and ``user.new`` = 1. Numbers are taken as they are, a
   text is part of the name of a feature of value 1, true and false are 1 and 0, null is left out. A
   list of objects has the features of all of them.
2. *Hash a name*: the 8 bytes of its BLAKE2b digest of that size, little-endian; 0 for "always".
3. *Pair.* Put the feature "always" = 1 in front of both the context's and the action's features.
   Each pair (c, a) of them is a term with the value c x a: so the constant, the context, the action
   and their interactions are all there. The hash of a pair is ``mix(c * GOLDEN + a)`` mod 2^64,
   where ``mix`` is the finaliser of splitmix64.
4. *Place.* A term is added at place ``(hash >> 1) % dimension``, and subtracted if the hash is odd.
5. *Scale* the arm to length 1, so that no action counts for more because it has more features.

Two terms may share a place. Signs make that unbiased: before scaling, the inner product of two arms
is, on average over hashes, that of their terms. More dimensions, fewer collisions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Final

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import InvalidArms, complaint
from fedbandit.hashing import Hashes, name_hash, pair_places

LARGEST: Final = 1e9
DEEPEST: Final = 8
_SHORT = 128  # characters of a name whose hash is cached; the cache takes 20 MB at most


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Hashes and values of named features, "always" first, the rest in the order of their names."""

    hashes: Hashes
    values: Array

    def __len__(self) -> int:
        return len(self.values)


def features_of(given: object, *, field: str) -> Features:
    """Flatten and hash a JSON object or a list of them; an InvalidArms error names the field."""
    found = sorted(_flat(given, "", field, DEEPEST))
    hashes = [0, *(_hash(name) for name, _ in found)]
    values = [1.0, *(value for _, value in found)]
    return Features(np.array(hashes, dtype=np.uint64), np.array(values))


def arm_of(context: Features, action: Features, dimension: int) -> Array:
    """Return the arm of length 1, or all zero if every term cancels. Cost: one step per pair."""
    arm = unscaled_arm(context, action, dimension)
    norm = float(np.linalg.norm(arm))
    return arm / norm if norm > 0.0 else arm


def unscaled_arm(context: Features, action: Features, dimension: int) -> Array:
    """Return the sum of all terms, each at its place and with its sign."""
    places, signs = pair_places(context.hashes, action.hashes, dimension)
    values = np.outer(context.values, action.values)
    arm = np.zeros(dimension)
    np.add.at(arm, places.ravel(), (signs * values).ravel())
    return arm


def _flat(given: object, path: str, field: str, depth: int) -> Iterator[tuple[str, float]]:
    if depth < 0:
        raise _unusable(field, f"objects more than {DEEPEST} deep at {path[:80]!r}")
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield from _flat(value, f"{path}.{key}" if path else str(key), field, depth - 1)
    elif isinstance(given, Sequence) and not isinstance(given, str) and _objects(given):
        for value in given:
            yield from _flat(value, path, field, depth - 1)
    elif isinstance(given, str) and path:
        yield f"{path}={given}", 1.0
    elif isinstance(given, bool | int | float) and path:
        yield path, _number(given, path, field)
    elif given is not None or not path:
        where = f" at {path[:80]!r}" if path else ""
        raise _unusable(field, f"{_kind(given)}{where}")


def _objects(given: Sequence[object]) -> bool:
    return all(isinstance(each, Mapping) for each in given)


def _kind(given: object) -> str:
    """Return what JSON calls a value that is no feature."""
    match given:
        case None:
            return "null"
        case str():
            return "a text"
        case bool():
            return "true" if given else "false"
        case int() | float():
            return "a number"
        case list() if all(isinstance(each, int | float) for each in given):
            return "a list of numbers"
        case list():
            return "a list of values that are not objects"
        case _:
            return f"a {type(given).__name__}"


def _number(value: float, path: str, field: str) -> float:
    if not -LARGEST <= value <= LARGEST or not isfinite(value):
        raise _unusable(field, f"the number {value!r:.40} at {path[:80]!r}")
    return float(value)


def _hash(name: str) -> int:
    return _known_hash(name) if len(name) <= _SHORT else name_hash(name)


_known_hash = lru_cache(maxsize=65_536)(name_hash)


def _unusable(field: str, got: str) -> InvalidArms:
    expected = f"objects of numbers up to {LARGEST:g} in size, texts, true, false and null"
    fix = "Send such features, or every action's arm as a list of numbers."
    return InvalidArms(complaint(field, got=got, expected=expected, fix=fix))
