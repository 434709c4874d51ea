"""From named features of a context and an action to an arm: signed hashing of all pairs.

An arm has as many numbers as the model has dimensions, whatever features there are, so names are
hashed into places. The rule in full, version 1, to make the same arms in another program:

1. *Flatten.* ``{"user": {"age": 0.3, "lang": "de", "new": true, "city": null}}`` has the features
   ``user.age`` = 0.3, ``user.lang=de`` = 1 and ``user.new`` = 1. Numbers are taken as they are, a
   text is part of the name of a feature of value 1, true and false are 1 and 0, null is left out. A
   list of objects has the features of all of them. Where the model declares a feature
   (``features.spec``), a number x is (x - centre) / scale, and a category that is given as a number
   is written as a text.
2. *Hash a name*: the 8 bytes of its BLAKE2b digest of that size, little-endian; 0 for "always".
3. *Pair.* Put the feature "always" = 1 in front of both the context's and the action's features.
   Each pair (c, a) of them is a term with the value c x a: so the constant, the context, the action
   and their interactions are all there, unless the model declares fewer interactions. The hash of a
   pair is ``mix(c * GOLDEN + a)`` mod 2^64, where ``mix`` is the finaliser of splitmix64.
4. *Place.* A term is added at place ``(hash >> 1) % dimension``, and subtracted if the hash is odd.
5. *Scale* the arm to length 1, so that no action counts for more because it has more features.

Two terms may share a place. Signs make that unbiased: before scaling, the inner product of two arms
is, on average over hashes, that of their terms. More dimensions, fewer collisions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from fedbandit.features.flat import Found, flat
from fedbandit.features.spec import PLAIN, Features
from fedbandit.hashing import Hashes, name_hash, pair_places

Array = NDArray[np.float64]

_SHORT = 128  # characters of a name whose hash is cached; the cache takes 20 MB at most
ALWAYS = "(always)"


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """Names, hashes and values of features, "always" first, the rest in the order of their names.

    ``found`` has what the features after "always" were made of.
    """

    names: tuple[str, ...]
    hashes: Hashes
    values: Array
    found: tuple[Found, ...]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Term:
    """A pair of features in an arm: its name, its place, and the number that it adds there."""

    name: str
    place: int
    value: float


def features_of(given: object, *, field: str, features: Features = PLAIN) -> Named:
    """Flatten and hash a JSON object or a list of them; an InvalidArms error names the field."""
    return named(flat(given, features, field=field))


def named(some: Iterable[Found]) -> Named:
    """Return features with their hashes, in the order of their names."""
    found = tuple(sorted(some, key=_by_name))
    names = [each.name for each in found]
    hashes = np.array([0, *map(_hash, names)], dtype=np.uint64)
    values = np.array([1.0, *[each.value for each in found]])
    return Named((ALWAYS, *names), hashes, values, found)


def arms_of(
    context: Named, actions: Sequence[Named], dimension: int, features: Features = PLAIN
) -> Array:
    """Return the arms of actions (K x d), each of length 1, or all zero if every term cancels.

    Cost: one step per pair.
    """
    arms = unscaled_arms(context, actions, dimension, features)
    norms = np.array([sqrt(arm.dot(arm)) for arm in arms])
    norms[norms == 0.0] = 1.0
    arms /= norms[:, None]
    return arms


def unscaled_arms(
    context: Named, actions: Sequence[Named], dimension: int, features: Features = PLAIN
) -> Array:
    """Return the sums of all terms of each action, each term at its place and with its sign."""
    places, signs = pair_places(
        context.hashes, np.concatenate([each.hashes for each in actions]), dimension
    )
    values = signs * np.outer(context.values, np.concatenate([each.values for each in actions]))
    if features.interactions != "all":
        values *= np.hstack([kept_pairs(context, each, features) for each in actions])
    starts = dimension * np.arange(len(actions))
    places += np.repeat(starts, [len(each) for each in actions])
    sums = np.bincount(places.ravel(), values.ravel(), dimension * len(actions))
    return np.asarray(sums, np.float64).reshape(len(actions), dimension)


def arm_of(context: Named, action: Named, dimension: int, features: Features = PLAIN) -> Array:
    """Return the arm of one action."""
    arm: Array = arms_of(context, [action], dimension, features)[0]
    return arm


def terms_of(
    context: Named, action: Named, dimension: int, features: Features = PLAIN
) -> list[Term]:
    """Return the terms whose sum is ``arm_of``, by name; without those that are not paired."""
    places, values = _placed(context, action, dimension, features)
    norm = float(np.linalg.norm(unscaled_arms(context, [action], dimension, features)[0]))
    scaled = values / norm if norm > 0.0 else np.zeros_like(values)
    kept = kept_pairs(context, action, features)
    one, other = context.names, action.names
    return [
        Term(term_name(one[c], other[a]), int(places[c, a]), float(scaled[c, a]))
        for c, a in zip(*np.nonzero(kept), strict=True)
    ]


def term_name(context: str, action: str) -> str:
    """Return the name of a pair."""
    if ALWAYS in (context, action):
        alone = action if context == ALWAYS else context
        return "(constant)" if alone == ALWAYS else alone
    return f"{context} * {action}"


def _placed(
    context: Named, action: Named, dimension: int, features: Features
) -> tuple[NDArray[np.intp], Array]:
    """Return the place of every pair, and its value with its sign; 0 for those left out."""
    places, signs = pair_places(context.hashes, action.hashes, dimension)
    values = signs * np.outer(context.values, action.values)
    if features.interactions != "all":
        values = values * kept_pairs(context, action, features)
    return places, values


def kept_pairs(context: Named, action: Named, features: Features) -> NDArray[np.bool_]:
    """Say which pairs are terms: those with "always", and the declared interactions."""
    shape = len(context), len(action)
    if features.interactions == "all":
        return np.ones(shape, dtype=np.bool_)
    kept = np.zeros(shape, dtype=np.bool_)
    kept[0, :] = kept[:, 0] = True
    if features.interactions != "none":
        wanted = set(map(tuple, features.interactions))
        for c, one in enumerate(context.found, 1):
            for a, other in enumerate(action.found, 1):
                kept[c, a] = (one.path, other.path) in wanted
    return kept


def _hash(name: str) -> int:
    return _known_hash(name) if len(name) <= _SHORT else name_hash(name)


_by_name = attrgetter("name", "value")
_known_hash = lru_cache(maxsize=65_536)(name_hash)
