"""What an encoder has seen: counts of what did not fit, terms by place, and sizes of numbers."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf, log10, sqrt
from statistics import median
from threading import Lock
from typing import Final

from fedbandit.features.flat import Found
from fedbandit.features.hashed import Named, term_name
from fedbandit.features.spec import Features
from fedbandit.hashing import pair_places

_log = logging.getLogger("fedbandit.features")

MOST_TERMS: Final = 20_000
"""How many terms are remembered by name."""

MOST_NUMBERS: Final = 1_000
_ENOUGH = 20  # values of a feature before it is warned of
DROWNS: Final = 10.0
"""A feature this many times as large as the others is warned of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an encoder has seen so far.

    ``terms``: how many different terms (features and pairs of them), the first 20,000;
    ``collisions``: how many of them share a place with another. By the name of a feature:
    ``missing``, ``outside`` its declared range, ``not_among`` the declared words (both counted, the
    former taken as the end of its range, the latter left out); ``drowning``: features whose
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
        self._names: dict[tuple[str, str], None] = {}
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
            for each in context.found:
                self._count(each)
            for action in actions:
                for each in action.found:
                    self._count(each)
                if len(self._terms) < MOST_TERMS:
                    self._remember(context, action)
            here = {each.path for each in context.found}
            there = [{each.path for each in action.found} for action in actions]
            for name in self._features.declared.keys() - here:
                lacking = sum(name not in paths for paths in there)
                if lacking:  # of no action: then it is one gap, perhaps of the context
                    gaps = 1 if lacking == len(there) else lacking
                    self._missing[name] = self._missing.get(name, 0) + gaps
            drowning = self._newly_drowning()
        for told in drowning:
            _log.warning("%s", told)

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
            self._not_among[each.name] = self._not_among.get(each.name, 0) + 1
        known = each.path in self._sizes or len(self._sizes) < MOST_NUMBERS
        if each.raw is not None and known:
            sizes = self._sizes.setdefault(each.path, _Sizes())
            sizes.count += 1
            sizes.low, sizes.high = min(sizes.low, each.raw), max(sizes.high, each.raw)
            sizes.squares += each.value * each.value

    def _remember(self, context: Named, action: Named) -> None:
        """Remember the terms of an arm that are new, by name."""
        one, other = context.names, action.names
        new = [(c, a) for c in range(len(one)) for a in range(len(other))
               if (one[c], other[a]) not in self._names]  # fmt: skip
        if not new:
            return
        places, signs = pair_places(context.hashes, action.hashes, self._dimension)
        for c, a in new[: MOST_TERMS - len(self._terms)]:
            self._names[one[c], other[a]] = None
            place = int(places[c, a])
            self._terms[term_name(one[c], other[a])] = (place, float(signs[c, a]))
            self._taken[place] = self._taken.get(place, 0) + 1

    def _newly_drowning(self) -> list[str]:
        found = []
        for path, sizes in self._sizes.items():
            if path in self._drowning or sizes.count < _ENOUGH:
                continue
            rest = [each.typical for name, each in self._sizes.items() if name != path]
            usual = max(median([1.0, *rest]), 1e-3)
            if sizes.typical > DROWNS * usual:
                self._drowning[path] = told = drowning(path, sizes.low, sizes.high, usual)
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
