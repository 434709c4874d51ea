"""The groups of a model whose groups are weighed: kept in a store, and what agents are told.

Two things are not done with every upload, since they would cost more than merging it. Whether they
are is decided by how much an honest group pulls at the estimate (its v, see ``weighing``), never
by what an upload says of itself.

*Weighing.* What was found stands while it would take less than ``_MOVED`` of that to move the
estimate from everything back to where it was, and little was added to V since (``_LEARNED``). Under
load weighing takes a tenth of the time at most; then V is told without what came since, as it
always is of more than ``WHOLE`` features, where it is made once each time that groups are weighed.

*Storing.* A sum may be a hundred times as large as an upload. It is written once what it lacks
pulls by as much, or has ``_MOVED`` of the median group's mass; and with each upload while another
coordinator merges into the same model, which reads what is stored. What is merged and not in a
stored sum when a coordinator stops is in no group from then on: it counts as one more group's
(``certainty``), and sketches are told without it.

*Watching.* Groups that are watched change nothing until it matters: agents are told the whole as it
is, bit for bit, until ``WATCHED_FROM`` groups have sent something and one of them contradicts the
others, or has far more mass than they (``_HEAVY``). For as long as that is so they are weighed like
any. So honest fleets pay nothing, and small ones are not told less.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Memory
from fedbandit.core.parts.radius import Empirical
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Rewards, Statistics
from fedbandit.service.groups.certainty import Excess, Fair, fair, is_told_anew, lessened, weight_of
from fedbandit.service.groups.membership import (
    WATCHED_FROM,
    group_at,
    group_of,
)
from fedbandit.service.groups.rewards import believed
from fedbandit.service.groups.sums import (
    SILENT,
    WHOLE,
    GroupSum,
    nothing,
    packed,
    sound,
    sum_of,
    tempered,
    unpacked,
)
from fedbandit.service.groups.telling import moment_for
from fedbandit.service.groups.weighing import Weighed, weigh
from fedbandit.service.storage.contract import Model

_log = logging.getLogger("fedbandit.service")

_MOVED = 0.1
_DISPUTED = 5.0  # from a weight of one of these on, a group is told all that it sent itself
_TOGETHER = 16
_LEARNED = 0.3  # tr V^-1 G of what has come since groups were weighed
_HEAVY, _HEAVY_OF_FEW = 0.25, 4.0  # the share of all mass, and times the average, of a heavy one
_SHARED = 600.0  # seconds for which another coordinator is taken to be there
_BUSY = 0.1  # the share of time that weighing takes, and telling groups what they sent
_WATCHING = 0.03  # the same while groups are watched, and none stands out
_SAVED, _OWED = 1.0, 5.0  # seconds of it that are saved up, and owed, at most


class _Kept:
    """The sum of a group; of what is not stored of it, the mass and b - G theta.

    What comes in is added up when the sum is asked for, or once there is much of it: many at once
    take as long as one.
    """

    def __init__(self, total: GroupSum) -> None:
        self._total, self._waiting = total, list[GroupSum]()
        self.whole_mass, self.rewards = total.mass, total.rewards
        self.stored()

    @property
    def total(self) -> GroupSum:
        """The sum."""
        if self._waiting:
            self._total, self._waiting = self._total.plus(self._waiting), []
        return self._total

    def stored(self) -> None:
        """Note that all of it is stored."""
        self.mass, self.pull = 0.0, np.zeros_like(self._total.moment)

    def add(self, piece: GroupSum, at: Array) -> None:
        """Add what was sent; ``at`` is the estimate that it pulls at."""
        self._waiting.append(piece)
        if len(self._waiting) >= _TOGETHER:
            _ = self.total
        self.mass, self.whole_mass = self.mass + piece.mass, self.whole_mass + piece.mass
        self.pull = self.pull + (piece.moment - piece.times(at))
        self.rewards = self.rewards.plus(piece.rewards)


class WeighedGroups:
    """The groups of one model, as a coordinator holds them in memory."""

    def __init__(
        self,
        recipe: Recipe,
        *,
        watched: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._recipe, self._memory, self._clock = recipe, recipe.parts.memory, clock
        self._watched = watched
        self._groups: dict[int, _Kept] = {}
        self._forget()
        self._saved, self._then = _SAVED, clock()
        self._reads, self._shared, self._urgent = 0, 0.0, True

    def _forget(self) -> None:
        """Know nothing of what was found."""
        self._found, self._at = _unknown(self._memory), self._memory.empty().moment
        self._fair: Fair | None = None
        self._own: dict[int, Excess] = {}  # what members of a group are told beside
        self._since: Array | float = 0.0  # of V, what came since groups were weighed
        self._known: Array | None = None  # the inverse of V as it was told, of few features
        self._told_mass = inf  # the mean of its diagonal
        self._made: dict[int | None, Any] = {}  # V without what came since, by who is told it
        self._weight = 1.0
        self._learned = 0.0
        self._counts = not self._watched  # whether what was found is told

    def read(self, stored: Mapping[int, bytes], now: float = 0.0) -> None:
        """Take up what a store has."""
        self._groups, self._reads = {}, self._reads + 1
        self._urgent = self._reads == 1 or self._counts
        self._forget()
        self._shared = now + _SHARED if self._reads > 1 else 0.0
        for number, data in stored.items():
            total = nothing(self._memory).plus([sound(unpacked(data))])
            self._groups[number] = _Kept(total)

    def absorb(self, sent: Iterable[tuple[int, Statistics]], now: float) -> dict[int, bytes]:
        """Add what was sent, each with the number of its group; return what is to be stored."""
        touched = set()
        for number, statistics in sent:
            piece, kept = sum_of(self._memory, statistics), self._groups.get(number)
            if kept is None:
                kept = self._groups[number] = _Kept(nothing(self._memory))
            kept.add(piece, self._at)
            self._note(piece)
            touched.add(number)
        masses = sorted(each.whole_mass for each in self._groups.values())
        middle = masses[(len(masses) - 1) // 2] if masses else 0.0
        few = self._watched and not self._is_enough()  # nothing is told by the sums yet
        changed: dict[int, bytes] = {}
        for number in touched:
            kept = self._groups[number]
            small = (few or self._is_small(kept.pull)) and kept.mass <= _MOVED * middle
            if not small or now < self._shared:
                changed[number] = packed(kept.total)
                kept.stored()
        return changed

    def _note(self, piece: GroupSum) -> None:
        """Add what an upload adds to V; ``_learned`` is all that, tr V^-1 G for the V told.

        Of many features about that, as if all directions were known as well as each other.
        """
        if self._known is None:
            self._learned += piece.mass / self._told_mass
            return
        seen = piece.of_v(self._weight)
        self._since = self._since + seen
        self._learned += float(np.vdot(self._known, seen))

    def _is_small(self, pull: Array) -> bool:
        """Say whether a pull is small next to an honest group's; not before that is known."""
        return bool(pull @ (pull / self._found.metric) <= _MOVED * self._found.typical)

    def told(self, whole: Server) -> bytes:
        """Return what agents are told, see ``telling.as_told``; empty for the whole as it is."""
        if self._watched and not self._is_enough():
            return b""
        away, everything = whole.theta - self._at, sum_of(self._memory, whole.statistics)
        pull = everything.times(away) + self._memory.ridge * away
        began = self._clock()
        share = _BUSY if self._counts else _WATCHING
        self._saved = min(_SAVED, self._saved + share * (began - self._then))
        self._then = began
        small = self._is_small(pull) and self._learned <= _LEARNED
        small = small and (self._counts or not self._is_heavy())
        if not small and (self._saved >= 0.0 or self._urgent):
            self._urgent = False
            self.found(whole)
            self._spend(began)
        return self._telling(whole)

    def knows_more(self, number: int) -> bool:
        """Say whether the members of a group are told more than others: what they sent.

        Nobody is while that would take too much time.
        """
        return self._counts and number in self._own and self._saved >= 0.0

    def told_to(self, whole: Server, number: int) -> bytes:
        """Return what the members of such a group are told."""
        began = self._clock()
        told = self._telling(whole, number)
        self._spend(began)
        return told

    def _spend(self, began: float) -> None:
        self._saved = max(-_OWED, self._saved - (self._clock() - began))

    def _telling(self, whole: Server, number: int | None = None) -> bytes:
        """Return what is told by what was found last, see ``telling.as_told``."""
        told, rewards = self._estimated(whole, number), self._rewards(whole)
        if rewards is whole.statistics.rewards and told.summary is whole.summary:
            return b"" if told is whole.statistics else told.moment.astype("<f8").tobytes()
        part = self._recipe.server()
        part.adopt(replace(told, rewards=rewards), version=whole.version)
        return wire.encode(part.whole())

    def _rewards(self, whole: Server) -> Rewards:
        """Return the sums of rewards that are told; the whole's own where nobody asks for them."""
        if not isinstance(self._recipe.parts.radius, Empirical):
            return whole.statistics.rewards
        sums = [each.rewards for each in self._groups.values()]
        return believed(whole.statistics.rewards, sums)

    def _estimated(self, whole: Server, number: int | None) -> Statistics:
        """Return V and the moment that are told, in the whole's statistics; those as they are.

        With what came since groups were weighed, unless that is so much that they should have been.
        """
        fair, late = self._fair, self._learned > _LEARNED
        if fair is None or not self._counts:
            return whole.statistics
        anew = late or is_told_anew(whole, fair)
        if self._found.theta is None and not anew:
            return whole.statistics
        theta = fair.theta if self._found.theta is None else self._found.theta
        if not anew or fair.told is None:
            return _with_moment(whole, moment_for(self._recipe, whole, theta), whole)
        late = late or self._known is None
        seen = fair.told if late else fair.told + self._since
        part = self._lessened(whole, seen, None, kept=late)
        told = moment_for(self._recipe, part, theta)
        if number is not None:
            own = self._own[number]
            part = self._lessened(whole, seen + own.matrix, number, kept=late)
            told = told + own.moment
        return _with_moment(part, told, whole)

    def _lessened(self, whole: Server, seen: Array, number: int | None, *, kept: bool) -> Server:
        """Return a server with this V and the whole's moment; ``kept``: V is that of before."""
        summary = self._made.get(number) if kept else None
        if summary is None:
            summary = lessened(self._memory, whole.summary, seen)
            self._made |= {number: summary} if kept else {}
        server = self._recipe.server()
        server.adopt(replace(whole.statistics, summary=summary), version=whole.version)
        return server

    def found(self, whole: Server) -> Weighed:
        """Weigh the groups; where numbers are too large for that, what was found before stands."""
        keys, ridge = sorted(self._groups), self._memory.ridge
        past = [group_at(key)[0] == 1 for key in keys]  # merged without groups
        sent = [self._groups[key].total for key in keys]
        sums = tempered(sent, ridge=ridge, trusted=past)
        part, known, counts = Fair(whole.theta, sums, {}), None, not self._watched
        try:
            with np.errstate(all="ignore"):  # what overflows is found, and is not told
                counts = counts or self._is_heavy()
                if not counts:
                    found = weigh(sums, sent=sent, ridge=ridge, trusted=past)
                    counts = self._is_enough() and bool(found.doubted.any())
                if counts:
                    part = self._fairly(whole, sums, sent, past)
                    found = weigh(part.sums, sent=sent, ridge=ridge, trusted=past)
                    known = _inverse(part.told)
        except np.linalg.LinAlgError:
            _log.warning("numbers too large to weigh groups by; what was found before stands")
            return self._found
        self._found, self._at, self._fair, self._known = found, whole.theta, part, known
        self._counts = counts
        told = np.minimum(1.0, _DISPUTED * found.weights).tolist()
        self._own = {keys[n]: each.scaled(told[n] ** 2) for n, each in part.own.items()}
        self._learned, self._since, self._weight = 0.0, 0.0, weight_of(self._memory, whole)
        self._told_mass = inf if part.told is None else float(part.told.diagonal().mean())
        self._made = {}
        return found

    def _fairly(
        self,
        whole: Server,
        sums: Sequence[GroupSum],
        sent: Sequence[GroupSum],
        trusted: Sequence[bool],
    ) -> Fair:
        """Return what of the sums is told; all of it where numbers are too large to say."""
        try:
            return fair(self._memory, whole, sums, sent=sent, trusted=trusted)
        except np.linalg.LinAlgError:
            _log.warning("numbers too large to tell what share of a direction groups have")
            return Fair(whole.theta, sums, {})

    def _is_enough(self) -> bool:
        """Say whether so many groups have sent something that those that stand out are weighed."""
        least = SILENT * self._memory.ridge
        return sum(each.whole_mass > least for each in self._groups.values()) >= WATCHED_FROM

    def _is_heavy(self) -> bool:
        """Say whether one of enough groups has sent far more than the others."""
        masses = [each.whole_mass for each in self._groups.values()]
        mine = [each.whole_mass for key, each in self._groups.items() if group_at(key)[0] > 1]
        most = max(_HEAVY, _HEAVY_OF_FEW / len(masses)) * sum(masses)
        return max(mine, default=0.0) > most and self._is_enough()

    def doubted(self, whole: Server) -> dict[int, float]:
        """Return the weights of the groups that contradict the others, by number.

        None while all count because none of those that are watched stands out.
        """
        found = self.found(whole)
        if not self._counts:
            return {}
        each = zip(sorted(self._groups), found.weights.tolist(), found.doubted, strict=False)
        return {number: weight for number, weight, doubted in each if doubted}


def _with_moment(part: Server, moment: Array, whole: Server) -> Statistics:
    """Return what a server has, with another moment; the whole's where that is no number."""
    sound = bool(np.isfinite(moment).all())
    return replace(part.statistics, moment=moment) if sound else whole.statistics


def _inverse(told: Array | None) -> Array | None:
    """Return the inverse of V, of few features; of many it would take too long."""
    if told is None or len(told) > WHOLE:
        return None
    return np.asarray(np.linalg.inv(told))


def _unknown(memory: Memory) -> Weighed:
    """Return what is known of groups before they are weighed: whatever comes is not small."""
    none = np.ones(0)
    return Weighed(None, none, none > 1.0, np.ones_like(memory.empty().moment))


def told_of(recipe: Recipe, whole: Server, stored: Mapping[int, bytes], *, watched: bool) -> bytes:
    """Return what agents are told, of what is stored; empty for the whole as it is."""
    groups = WeighedGroups(recipe, watched=watched)
    groups.read(stored)
    return groups.told(whole)


def doubted_agents(
    recipe: Recipe, model: Model, whole: Server, stored: Mapping[int, bytes], agents: Iterable[str]
) -> dict[int, tuple[float, list[str]]]:
    """Return the groups that contradict the others, by key: each with its weight and its agents.

    No agents for what was merged without groups.
    """
    groups = WeighedGroups(recipe, watched=model.watched)
    groups.read(stored)
    found, names = groups.doubted(whole), sorted(agents)

    def members(key: int) -> list[str]:
        many, number = group_at(key)
        if many == 1:
            return []
        return [name for name in names if group_of(model.created, many, name) == number]

    return {key: (weight, members(key)) for key, weight in found.items()}
