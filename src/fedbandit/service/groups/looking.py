"""A look at all groups: who contradicts the others, what of V is told, and what estimate.

A look that fails, because of numbers that no honest agent sends, must not leave a lie unseen. So it
is made once more without each of the groups, until one succeeds: the group that was left out is
doubted, and nothing of its estimate is told.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Memory
from fedbandit.core.server import Server
from fedbandit.service.groups.certainty import Fair, fair
from fedbandit.service.groups.sums import GroupSum, nothing, sound, tempered
from fedbandit.service.groups.weighing import Weighed, weigh

_SAVED, _LONGEST = 0.2, 60.0  # seconds that are saved up, and of waiting for more, at most


class TimeToLook:
    """The time that there is for looks: a share of all time, some of it saved up, or owed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._then = clock, clock()
        self.saved = _SAVED

    @property
    def is_there(self) -> bool:
        """Whether there is time for a look."""
        return self.saved >= 0.0

    def earn(self, share: float) -> None:
        """Add a share of the time that has gone by."""
        now = self._clock()
        self.saved, self._then = min(_SAVED, self.saved + share * (now - self._then)), now

    @contextmanager
    def spent(self, share: float) -> Iterator[None]:
        """Take off what is done meanwhile; never more than ``_LONGEST`` earns."""
        began = self._clock()
        try:
            yield
        finally:
            self.saved = max(-_LONGEST * share, self.saved - (self._clock() - began))


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The weights of groups, what is told of their sums, and V^-1 of few features.

    ``alarmed``: one contradicts the others, or has too much. ``failed``: it took leaving one out.
    """

    found: Weighed
    part: Fair
    inverse: Array | None
    alarmed: bool
    failed: bool = False


def look(
    memory: Memory,
    whole: Server,
    sent: Sequence[GroupSum],
    trusted: Sequence[bool],
    *,
    alarmed: bool,
    enough: bool,
) -> Look:
    """Look at what groups ``sent``; raise LinAlgError where leaving one out does not help.

    ``alarmed``: shares are small whether or not one contradicts the others. ``enough``: there are
    so many that it counts if one does. Cost O(N d^3); N times that if it fails.
    """
    looked = partial(_look, memory, whole, trusted=trusted, enough=enough)
    try:
        return looked(sent, alarmed=alarmed)
    except np.linalg.LinAlgError:
        pass
    for place in np.flatnonzero(~np.asarray(trusted, dtype=bool)).tolist():
        others = [nothing(memory) if n == place else each for n, each in enumerate(sent)]
        try:
            found = looked(others, alarmed=True)
        except np.linalg.LinAlgError:
            continue
        weights, doubted = found.found.weights.copy(), found.found.doubted.copy()
        weights[place], doubted[place] = 0.0, True
        without = replace(found.found, weights=weights, doubted=doubted)
        return replace(found, found=without, failed=True)
    raise np.linalg.LinAlgError("numbers too large to weigh groups by")


def _look(
    memory: Memory,
    whole: Server,
    sent: Sequence[GroupSum],
    *,
    trusted: Sequence[bool],
    alarmed: bool,
    enough: bool,
) -> Look:
    ridge = memory.ridge
    sums = tempered(sent, ridge=ridge, trusted=trusted)
    with np.errstate(all="ignore"):  # what overflows is found, and is not told
        found: Weighed | None = None
        if not alarmed:
            found = weigh(sums, sent=sent, ridge=ridge, trusted=trusted)
            alarmed = enough and bool(found.doubted.any())
        part = _fairly(memory, whole, sums, sent, trusted, watched=not alarmed)
        if found is None or part.cut:
            found = weigh(part.sums, sent=sent, ridge=ridge, trusted=trusted)
        return Look(found, part, part.inverse(), alarmed)


def _fairly(
    memory: Memory,
    whole: Server,
    sums: Sequence[GroupSum],
    sent: Sequence[GroupSum],
    trusted: Sequence[bool],
    *,
    watched: bool,
) -> Fair:
    """Return what of the sums is told. Where rounding keeps that from being found, without it.

    An upload of many observations may be a matrix with eigenvalues below 0, by its rounding.
    """
    try:
        return fair(memory, whole, sums, sent=sent, trusted=trusted, watched=watched)
    except np.linalg.LinAlgError:
        sums = [sound(each) for each in sums]
        return fair(memory, whole, sums, sent=sent, trusted=trusted, watched=watched)
