"""The groups of a model whose groups are weighed: kept in a store, and what agents are told.

A sum may be a hundred times as large as an upload, so it is not written with each: but once it has
a tenth more observations than what is stored, or a minute has gone by; and with each upload while
another coordinator merges into the same model, which reads what is stored. What is merged and not
in a stored sum when a coordinator stops is in no group from then on, like what was merged before
the model had groups or before parts were kept (see ``weighing``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Statistics
from fedbandit.service.models.groups import group_of, moment_for
from fedbandit.service.models.sums import GroupSum, nothing, packed, sum_of, unpacked
from fedbandit.service.models.weighing import DOUBTED, Weighed, weigh
from fedbandit.service.storage.contract import Model

_MORE, _SECONDS = 1.1, 60.0  # a sum is stored once it has this many times the observations, or then
_SHARED = 600.0  # seconds for which another coordinator is taken to be there
_SOON = 1.005  # groups are weighed once there are this many times the observations
_AGAIN = 1.2  # all is weighed from the beginning once there are this many times the observations


@dataclass(slots=True, eq=False)
class _Kept:
    """The sum of a group; how many observations the stored one has, and since when."""

    total: GroupSum
    stored: int = 0
    at: float = 0.0


class WeighedGroups:
    """The groups of one model, as a coordinator holds them in memory."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._memory = recipe, recipe.parts.memory
        self._groups: dict[int, _Kept] = {}
        self._before: dict[int, float] = {}
        self._found, self._soon, self._due = Weighed(None, np.ones(0)), 0.0, 0.0
        self._reads, self._shared = 0, 0.0

    def read(self, stored: Mapping[int, bytes], now: float = 0.0) -> None:
        """Take up what a store has; what was found of the groups before is gone on from."""
        self._groups, self._soon, self._reads = {}, 0.0, self._reads + 1
        self._shared = now + _SHARED if self._reads > 1 else 0.0
        for number, data in stored.items():
            total = nothing(self._memory).plus([unpacked(data)])
            self._groups[number] = _Kept(total, total.count, now)

    def absorb(self, sent: Iterable[tuple[int, Statistics]], now: float) -> dict[int, bytes]:
        """Add what was sent, each with the number of its group; return what is to be stored."""
        for number, statistics in sent:
            kept = self._groups.get(number)
            if kept is None:
                kept = self._groups[number] = _Kept(nothing(self._memory), at=now)
            kept.total = kept.total.plus([sum_of(self._memory, statistics)])
        changed: dict[int, bytes] = {}
        for number, kept in self._groups.items():
            new = kept.total.count - kept.stored
            late = not kept.at <= now < kept.at + _SECONDS
            if new and (late or now < self._shared or kept.total.count >= _MORE * kept.stored):
                changed[number] = packed(kept.total)
                kept.stored, kept.at = kept.total.count, now
        return changed

    def told(self, whole: Server) -> bytes:
        """Return the moment that agents are told; empty for that of the whole.

        The groups are weighed before, unless next to nothing was sent since that was done.
        """
        count = sum(each.total.count for each in self._groups.values())
        if count >= self._soon:
            self._soon = _SOON * count
            self.found(whole)
        theta = self._found.theta
        if theta is None:
            return b""
        told = moment_for(self._recipe, whole, theta)
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
