"""The groups of a model whose groups are weighed: kept in a store, and what agents are told.

An upload is written as a *piece* of its group, a few kB; once the pieces of a group are twice as
large as its sum, they are added to that. So a sync writes no more than about twice its own size,
where a sum may be a hundred times as large. In a store a sum has the number of its group, and its
pieces that number and multiples of ``MOST_GROUPS`` more. What was merged before the model had
groups, or before parts were kept, is in no group.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Statistics
from fedbandit.service.models.groups import MOST_GROUPS, group_of, moment_for
from fedbandit.service.models.sums import GroupSum, nothing, packed, sum_of, unpacked
from fedbandit.service.models.weighing import DOUBTED, Weighed, weigh
from fedbandit.service.storage.contract import Model

_LOOSE = 2.0  # pieces are added to the sum once they have this many times its bytes
_AGAIN = 1.1  # all is weighed from the beginning once there are this many times the observations


@dataclass(slots=True, eq=False)
class _Kept:
    """A group: its sum, pieces included; how many bytes the stored sum has; bytes of each piece."""

    total: GroupSum
    size: int = 0
    pieces: list[int] = field(default_factory=list)


class WeighedGroups:
    """The groups of one model, as a coordinator holds them in memory."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._memory = recipe, recipe.parts.memory
        self._groups: dict[int, _Kept] = {}
        self._before: dict[int, float] = {}
        self._found, self._due = Weighed(None, np.ones(0)), 0.0

    def read(self, stored: Mapping[int, bytes]) -> None:
        """Take up what a store has; what was found of the groups before is gone on from."""
        self._groups = {}
        for number, data in sorted(stored.items()):
            kept = self._kept(number % MOST_GROUPS)
            kept.total = kept.total.plus([unpacked(data)])
            if number < MOST_GROUPS:
                kept.size = len(data)
            else:
                kept.pieces.append(len(data))

    def absorb(self, sent: Iterable[tuple[int, Statistics]]) -> dict[int, bytes]:
        """Add what was sent, each with the number of its group; return what is to be stored."""
        changed: dict[int, bytes] = {}
        for number, statistics in sent:
            kept, piece = self._kept(number), sum_of(self._memory, statistics)
            kept.total, data = kept.total.plus([piece]), packed(piece)
            kept.pieces.append(len(data))
            changed[number + MOST_GROUPS * len(kept.pieces)] = data
            if sum(kept.pieces) >= _LOOSE * kept.size:
                changed |= {
                    number + MOST_GROUPS * each: b"" for each in range(1, len(kept.pieces) + 1)
                }
                changed[number] = packed(kept.total)
                kept.size, kept.pieces = len(changed[number]), []
        return changed

    def told(self, whole: Server) -> bytes:
        """Return the moment that agents are told; empty for that of the whole."""
        found = self.found(whole)
        if found.theta is None:
            return b""
        told = moment_for(self._recipe, whole, found.theta)
        return told.astype("<f8").tobytes() if np.isfinite(told).all() else b""

    def found(self, whole: Server) -> Weighed:
        """Weigh the groups."""
        numbers = sorted(self._groups)
        sums = [self._groups[number].total for number in numbers]
        count = sum(each.count for each in sums)
        before = None
        if count < self._due and numbers == sorted(self._before):
            weights = np.array([self._before[number] for number in numbers])
            before = Weighed(self._found.theta, weights, self._found.ratio)
        try:
            with np.errstate(all="ignore"):  # what overflows is found, and is not told
                everything = sum_of(self._memory, whole.statistics)
                ridge = self._memory.ridge
                found = weigh(everything, whole.theta, sums, ridge=ridge, before=before)
        except np.linalg.LinAlgError:
            found = Weighed(None, np.ones(len(sums)))
        if before is None:
            self._due = _AGAIN * count
        self._found = found
        self._before = dict(zip(numbers, found.weights.tolist(), strict=True))
        return found

    def doubted(self, whole: Server) -> dict[int, float]:
        """Return the weights of the groups that contradict the others, by number."""
        self.found(whole)
        return {number: weight for number, weight in self._before.items() if weight < DOUBTED}

    def _kept(self, number: int) -> _Kept:
        if number not in self._groups:
            self._groups[number] = _Kept(nothing(self._memory))
        return self._groups[number]


def told_of(recipe: Recipe, whole: Server, stored: Mapping[int, bytes]) -> bytes:
    """Return the moment that agents are told, of what is stored; empty for that of the whole."""
    groups = WeighedGroups(recipe)
    groups.read(stored)
    return groups.told(whole)


def doubted_agents(
    recipe: Recipe, model: Model, whole: Server, stored: Mapping[int, bytes], agents: Iterable[str]
) -> dict[int, tuple[float, list[str]]]:
    """Return the groups that contradict the others: each with its weight and its agents."""
    groups = WeighedGroups(recipe)
    groups.read(stored)
    found = groups.doubted(whole)
    members: dict[int, list[str]] = {number: [] for number in found}
    for agent in sorted(agents):
        number = group_of(model.created, model.groups, agent)
        if number in members:
            members[number].append(agent)
    return {number: (found[number], members[number]) for number in found}


def summed(recipe: Recipe, sent: Iterable[tuple[int, Statistics]]) -> dict[int, bytes]:
    """Return the sums of what was sent, each with the number of its group, as they are stored."""
    memory, sums = recipe.parts.memory, dict[int, GroupSum]()
    for number, statistics in sent:
        ours = sums.get(number) or nothing(memory)
        sums[number] = ours.plus([sum_of(memory, statistics)])
    return {number: packed(each) for number, each in sums.items()}
