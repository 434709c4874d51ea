"""What an encoder has seen: counts of what did not fit, terms by place, and sizes of numbers."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf, log10, sqrt
from statistics import median
from threading import Lock
from typing import Final

from fedbandit.features.flat import Found
from fedbandit.features.hashed import Named, kept_pairs, term_name
from fedbandit.features.spec import Features
from fedbandit.hashing import pair_places

_log = logging.getLogger("fedbandit.features")

MOST_TERMS: Final = 20_000
"""How many terms are remembered by name."""

MOST_NUMBERS: Final = 1_000
MOST_WORDS: Final = 1_000
"""How many words that were not declared are counted by name; others are by their feature's."""

LONGEST: Final = 200
"""Characters of a name that is remembered: a text may be anything, and of any length."""

_ENOUGH = 20  # values of a feature before it is warned of, and decisions between two looks
_FEW = 50
_PAIRS = 2_000  # pairs of names that are looked up for one decision
_KNOWN = 10_000  # contexts with actions whose pairs are all known
DROWNS: Final = 10.0
"""A feature this many times as large as the others is warned of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an encoder has seen so far.

    ``terms``: how many different terms (features and pairs of them), the first 20,000 with names of
    at most 200 characters;
    ``collisions``: how many of them share a place with another. By the name of a feature:
    ``missing``, ``outside`` its declared range, ``not_among`` the declared words (both counted, the
    former taken as the end of its range, the latter left out; 1,000 words by name, then by feature
    alone); ``drowning``: features whose
    numbers are so large that others hardly count, with what to declare.
    """

    terms: int
    collisions: int
    missing: dict[str, int] = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)
    not_among: dict[str, int] = field(default_factory=dict)
    drowning: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Sizes:
    """Of one numeric feature: how many values, their extremes, and the sum of squares as used."""

    count: int = 0
    low: float = inf
    high: float = -inf
    squares: float = 0.0

    @property
    def typical(self) -> float:
        """The root of the mean square."""
        return sqrt(self.squares / self.count) if self.count else 0.0


class Seen:
    """Counts of one encoder. Thread-safe."""

    def __init__(self, features: Features, dimension: int) -> None:
        self._features, self._dimension = features, dimension
        self._lock = Lock()
        self._decisions = 0
        self._names: set[tuple[str, str]] = set()
        self._known: set[int] = set()  # hashes of the names of contexts with actions
        self._terms: dict[str, tuple[int, float]] = {}
        self._taken: dict[int, int] = {}
        self._sizes: dict[str, _Sizes] = {}
        self._missing: dict[str, int] = {}
        self._outside: dict[str, int] = {}
        self._not_among: dict[str, int] = {}
        self._drowning: dict[str, str] = {}

    def note(self, context: Named, actions: Sequence[Named]) -> None:
        """Count the features of one decision; warn, once each, of a feature that drowns others."""
        with self._lock:
            for some in (context, *actions):
                for each in some.found:
                    if each.raw is not None or each.trouble:
                        self._count(each)
            self._remember(context, actions)
            if self._features.declared:
                self._note_missing(context, actions)
            drowning = self._newly_drowning()
        for told in drowning:
            _log.warning("%s", told)

    def _note_missing(self, context: Named, actions: Sequence[Named]) -> None:
        here = {each.path for each in context.found}
        there = [{each.path for each in action.found} for action in actions]
        for name in self._features.declared.keys() - here:
            lacking = sum(name not in paths for paths in there)
            if lacking:  # of no action: then it is one gap, perhaps of the context
                gaps = 1 if lacking == len(there) else lacking
                self._missing[name] = self._missing.get(name, 0) + gaps

    def report(self) -> Report:
        """Return what was seen so far."""
        with self._lock:
            shared = sum(count for count in self._taken.values() if count > 1)
            return Report(
                terms=len(self._terms),
                collisions=shared,
                missing=dict(self._missing),
                outside=dict(self._outside),
                not_among=dict(self._not_among),
                drowning=dict(self._drowning),
            )

    def terms(self) -> dict[str, tuple[int, float]]:
        """Return place and sign of every term that was seen, by name."""
        with self._lock:
            return dict(self._terms)

    def _count(self, each: Found) -> None:
        if each.trouble == "outside":
            self._outside[each.path] = self._outside.get(each.path, 0) + 1
        elif each.trouble:
            self._count_word(each)
        if each.raw is None or len(each.path) > LONGEST:
            return
        sizes = self._sizes.get(each.path)
        if sizes is None:
            if len(self._sizes) >= MOST_NUMBERS:
                return
            sizes = self._sizes[each.path] = _Sizes()
        sizes.count += 1
        if each.raw < sizes.low:
            sizes.low = each.raw
        if each.raw > sizes.high:
            sizes.high = each.raw
        sizes.squares += each.value * each.value

    def _count_word(self, each: Found) -> None:
        """Count a word that was not declared, by name as long as there is room."""
        words = self._not_among
        fits = len(each.name) <= LONGEST and (each.name in words or len(words) < MOST_WORDS)
        name = each.name if fits else each.path
        words[name] = words.get(name, 0) + 1

    def _remember(self, context: Named, actions: Sequence[Named]) -> None:
        """Remember terms that are new, by name: of as many actions as few pairs allow, in turn."""
        self._decisions += 1
        budget, at = _PAIRS, self._decisions * 7919 % len(actions)
        one = context.names
        for action in (*actions[at:], *actions[:at]):
            if budget <= 0 or len(self._terms) >= MOST_TERMS:
                break
            budget -= len(context) * len(action)
            other = action.names
            both = hash((one, other))
            if both not in self._known:
                self._remember_one(context, action, one, other)
                if len(self._known) < _KNOWN:
                    self._known.add(both)

    def _remember_one(
        self, context: Named, action: Named, one: Sequence[str], other: Sequence[str]
    ) -> None:
        known = self._names
        new = [
            (c, a)
            for c, first in enumerate(one)
            for a, second in enumerate(other)
            if (first, second) not in known and len(first) <= LONGEST and len(second) <= LONGEST
        ]
        if not new:
            return
        places, signs = pair_places(context.hashes, action.hashes, self._dimension)
        kept = kept_pairs(context, action, self._features)
        for c, a in new[: MOST_TERMS - len(self._terms)]:
            known.add((one[c], other[a]))
            if kept[c, a]:
                place = int(places[c, a])
                self._terms[term_name(one[c], other[a])] = (place, float(signs[c, a]))
                self._taken[place] = self._taken.get(place, 0) + 1

    def _newly_drowning(self) -> list[str]:
        """Return what to say of features that drown others; looked for every 20 decisions."""
        if self._decisions % _ENOUGH:
            return []
        sizes = {name: each.typical for name, each in self._sizes.items()}
        every = median([1.0, *sizes.values()])
        found = []
        for path, typical in sizes.items():
            if path in self._drowning or self._sizes[path].count < _ENOUGH:
                continue
            usual = every
            if len(sizes) <= _FEW:  # among few, one that is large moves the median itself
                usual = median([1.0, *(each for name, each in sizes.items() if name != path)])
            if typical > DROWNS * max(usual, 1e-3):
                low, high = self._sizes[path].low, self._sizes[path].high
                self._drowning[path] = told = drowning(path, low, high, usual)
                found.append(told)
        return found


def drowning(path: str, low: float, high: float, usual: float) -> str:
    """Return what to say of a feature whose numbers are far larger than the others'."""
    step = 10.0 ** (floor(log10(max(abs(low), abs(high), 1e-300))) - 1)
    rounded = f"{floor(low / step) * step:.12g}..{ceil(high / step) * step:.12g}"
    if floor(low / step) == ceil(high / step):
        rounded = f"centre 0 scale {max(abs(low), abs(high)):g}"
    return (
        f"Feature {path!r} has values from {low:g} to {high:g}, others about {usual:.2g}: it "
        f"drowns them. Make the model with what it ranges over: features={{{path!r}: '{rounded}'}}."
    )
