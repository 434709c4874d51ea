"""The groups of a model whose groups are weighed: kept in a store, and what agents are told.

Two things are not done with every upload, since they would cost more than merging it. Whether they
are is decided by how much an honest group pulls at the estimate (its v, see ``weighing``), never
by what an upload says of itself.

*Looking.* What was found stands while it would take less than ``_MOVED`` of that to move the
estimate from everything back to where it was, and little was added to V since (``_LEARNED``). While
more has come, and there is no time to look (``looking``), nothing of it is told.

*Storing.* A sum may be a hundred times as large as an upload. It is written once what it lacks
pulls by as much, or has ``_MOVED`` of the median group's mass; and with each upload while groups
are few, or another coordinator merges into the same model. What is in no stored sum when a
coordinator stops is in no group from then on: it counts as one more group's (``certainty``).

*Watching.* Groups that are watched are told of from ``WATCHED_FROM`` on; until then agents are told
the whole as it is. The share of a direction that one may have is larger while none contradicts the
others, nor has far more mass than they (``KeptSums.heavy``), and looks have less time.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Memory
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.parts.radius import Empirical, Evidence
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Base, Rewards, Statistics
from fedbandit.service.groups.certainty import Excess, Fair, weight_of
from fedbandit.service.groups.kept import KeptSums, is_past
from fedbandit.service.groups.leaning import shifts, without_leaning
from fedbandit.service.groups.lessening import is_told_anew, lessened
from fedbandit.service.groups.looking import TimeToLook, look
from fedbandit.service.groups.membership import group_at
from fedbandit.service.groups.rewards import (
    believed,
    explained_by_own,
    noise_for_fewer,
    noise_of,
    shown_by_several,
)
from fedbandit.service.groups.sums import GroupSum, sum_of
from fedbandit.service.groups.telling import as_told, moment_for
from fedbandit.service.groups.weighing import Weighed

_log = logging.getLogger("fedbandit.service")

_MOVED = 0.1
_DISPUTED = 5.0  # from a weight of one of these on, a group is told all that it sent itself
_LEARNED = 0.3  # tr V^-1 G of what has come since groups were weighed
_SHARED = 600.0  # seconds for which another coordinator is taken to be there
_BUSY = 0.05  # the share of time that weighing takes; and as much, telling groups what they sent
_WATCHING = 0.02  # the same while groups are watched, and none stands out


class StandsOut(NamedTuple):
    """A group that stands out: the key of its sum, how much of what it sent counts, and why.

    It ``contradicts`` the others by more than chance, or its ``share`` of all mass is too much.
    """

    key: int
    weight: float
    contradicts: bool
    share: float


class WeighedGroups:
    """The groups of one model, as a coordinator holds them in memory."""

    def __init__(
        self,
        recipe: Recipe,
        *,
        watched: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._recipe, self._memory, self._time = recipe, recipe.parts.memory, TimeToLook(clock)
        self._time_for_own = TimeToLook(clock)  # of its own: looks may use up all of theirs
        self._watched = watched
        self._sums = KeptSums(self._memory)
        self._forget(None)
        self._reads, self._shared = 0, 0.0
        self._troubled = False

    def _forget(self, carried: Statistics | None) -> None:
        """Know nothing of what was found, but for what agents are told by it."""
        self._found, self._at = _unknown(self._memory), self._memory.empty().moment
        self._fair: Fair | None = None
        self._own: dict[int, Excess] = {}  # what members of a group are told beside
        self._known: Array | None = None  # the inverse of V then, of few features
        self._told_mass = inf  # the mean of its diagonal
        self._made: dict[int | None, Statistics] = {}  # told anew until the next look, by whom
        # told last, to all and to some: the bytes, their server, what they say, and their version
        self._last: dict[bool, tuple[bytes, Server, Statistics, int]] = {}
        self._weight = 1.0
        self._learned = 0.0
        self._noise: float | None = None  # of rewards, its mean square
        self._carried = carried
        self._as_found: Statistics | None = None  # the whole when it was looked at
        self._behind = False  # whether too much came since
        self._counts = not self._watched or carried is not None  # whether what was found is told
        self._alarmed = self._counts  # whether shares are small

    def read(
        self,
        stored: Mapping[int, bytes],
        now: float = 0.0,
        carried: Statistics | None = None,
        whole: Statistics | None = None,
    ) -> None:
        """Take up what a store has; ``carried``: what agents are told, if not the ``whole``."""
        self._reads += 1
        self._sums.read(stored)
        self._forget(carried)
        self._as_found = whole
        self._shared = now + _SHARED if self._reads > 1 else 0.0

    def absorb(self, sent: Iterable[tuple[int, Statistics]], now: float) -> dict[int, bytes]:
        """Add what was sent, each with the number of its group; return what is to be stored."""
        touched, told = set(), self._at if self._found.theta is None else self._found.theta
        for number, statistics in sent:
            piece = sum_of(self._memory, statistics)
            self._sums.add(number, piece, told)
            self._note(piece)
            touched.add(number)
        most = _MOVED * self._sums.middle
        changed: dict[int, bytes] = {}
        for number in touched:
            kept = self._sums[number]
            if kept.unstored > most or now < self._shared or not self._is_small(kept.pull):
                changed[number] = self._sums.write(number)
        return changed

    def _note(self, piece: GroupSum) -> None:
        """Add what an upload adds to V; ``_learned`` is all that, tr V^-1 G for the V told.

        Of many features about that, as if all directions were known as well as each other.
        """
        if self._is_late:
            return
        if self._known is None:
            self._learned += piece.mass / self._told_mass
        else:
            self._learned += piece.along_in_v(self._known, self._weight)

    def _is_small(self, pull: Array) -> bool:
        """Say whether a pull is small next to an honest group's; not before that is known."""
        return bool(pull @ self._found.inverse @ pull <= _MOVED * self._found.typical)

    def told(self, whole: Server) -> bytes:
        """Return what agents are told, see ``telling.as_told``; empty for the whole as it is."""
        if self._watched and not self._sums.enough:
            return b""
        self._time.earn(self._share)
        self._time_for_own.earn(self._share)
        self._behind = self._has_changed(whole)
        if self._behind and self._time.is_there:
            with self._time.spent(self._share):
                self.found(whole)
        return self._telling(whole)

    def _has_changed(self, whole: Server) -> bool:
        """Say whether groups are to be looked at again."""
        if self._is_late or (self._sums.heavy() and not self._alarmed):
            return True
        everything, ridge = sum_of(self._memory, whole.statistics), self._memory.ridge
        return not self._is_small(whole.moment - everything.times(self._at) - ridge * self._at)

    @property
    def _is_late(self) -> bool:
        """Whether much was added to V since groups were looked at."""
        return self._learned > _LEARNED

    def knows_more(self, number: int) -> bool:
        """Say whether the members of a group are told what they sent, and there is time for it."""
        return number in self._own and self._time_for_own.is_there

    def told_to(self, whole: Server, number: int) -> bytes:
        """Return what the members of such a group are told."""
        with self._time_for_own.spent(self._share):
            return self._telling(whole, number)

    @property
    def _share(self) -> float:
        """The share of time that looks may take now."""
        return _BUSY if self._alarmed else _WATCHING

    def _telling(self, whole: Server, number: int | None = None) -> bytes:
        """Return what is told by what was found last, see ``telling.as_told``."""
        told = self._estimated(whole, number)
        last = self._last.get(number is None)
        if last is not None and told is last[2]:
            return last[0]
        rewards = self._rewards(told, number)
        if rewards is whole.statistics.rewards and told.summary is whole.summary:
            return b"" if told is whole.statistics else told.moment.astype("<f8").tobytes()
        part = self._recipe.server()
        part.adopt(replace(told, rewards=rewards), version=whole.version)
        self._last[number is None] = wire.encode(part.whole()), part, told, whole.version
        return self._last[number is None][0]

    def opened(self, whole: Server, told: bytes) -> tuple[Server, bytes | None]:
        """Return the server that agents are told of (``as_told``), and its state if it is known.

        What was just told is not read again.
        """
        for last, part, _, version in self._last.values():
            if told is last:
                part.version = whole.version
                return part, told if version == whole.version else None
        return as_told(self._recipe, whole, told), None

    def _rewards(self, told: Statistics, number: int | None) -> Rewards:
        """Return the sums of rewards that are told; its own where nobody asks for them."""
        if told is self._carried or self._noise is None:
            return told.rewards
        theta = self._at if self._found.theta is None else self._found.theta
        if self._found.theta is None and self._counts and self._fair and number is None:
            theta = self._fair.theta
        explained = float(theta @ told.moment) / max(told.count, 1)
        return believed(told.rewards, noise=self._noise, explained=explained)

    def _measured_noise(self, thetas: Iterable[Array]) -> float | None:
        """Return the noise of rewards by groups, as the best of these and their own leave it.

        None where agents do not ask for it.
        """
        if not isinstance(self._recipe.parts.radius, Empirical):
            return None
        rewards, past = self._sums.rewards()
        each = [self._sums[key].total for key in self._sums.keys]
        explained = [explained_by_own(each, rewards, ridge=self._memory.ridge)]
        for theta in thetas:
            explained += [np.array([(2.0 * one.moment - one.times(theta)) @ theta for one in each])]
        return noise_of(rewards, explained=np.max(explained, axis=0), trusted=past)

    def _estimated(self, whole: Server, number: int | None) -> Statistics:
        """Return V and the moment that are told, in the whole's statistics; those as they are.

        As they are where nothing is too much, and little came since groups were weighed.
        """
        fair = self._fair
        if fair is None and self._carried is not None:
            return self._carried
        if fair is None or not self._counts:
            return self._as_known(whole)
        anew = self._is_late or is_told_anew(whole, fair)
        if self._found.theta is None and not anew:
            return self._as_known(whole)
        theta = fair.theta if self._found.theta is None else self._found.theta
        if not anew or fair.told is None:
            moment = moment_for(self._recipe, whole, theta)
            finite = bool(np.isfinite(moment).all())
            return replace(whole.statistics, moment=moment) if finite else whole.statistics
        if number in self._made:
            return self._made[number]
        part = self._lessened(whole, fair, None)
        moment = moment_for(self._recipe, part, theta)
        if number is not None:
            part, moment = self._lessened(whole, fair, number), moment + self._own[number].moment
        if not np.isfinite(moment).all():
            return whole.statistics
        self._made[number] = replace(part.statistics, moment=moment)
        return self._made[number]

    def _as_known(self, whole: Server) -> Statistics:
        """Return the whole; as it was looked at last while there is no time for what came since."""
        # else who lies between two looks, and takes it back, is believed every time
        return (self._as_found if self._behind else None) or whole.statistics

    def _lessened(self, whole: Server, fair: Fair, number: int | None) -> Server:
        """Return a server with the V that a group is told, or all are, and the whole's moment."""
        own = None if number is None else self._own[number]
        server, summary = self._recipe.server(), lessened(self._memory, whole.summary, fair, own)
        server.adopt(replace(whole.statistics, summary=summary), version=whole.version)
        return server

    def found(self, whole: Server) -> Weighed:
        """Look at the groups; if that fails, what was found before is told from then on."""
        keys = self._sums.keys
        past, sent = [is_past(key) for key in keys], [self._sums[key].total for key in keys]
        enough = self._sums.enough
        alarmed = not self._watched or (enough and bool(self._sums.heavy()))
        try:
            seen = look(self._memory, whole, sent, past, alarmed=alarmed, enough=enough)
        except np.linalg.LinAlgError:
            self._warn("Groups cannot be looked at; what was found before is told.")
            self._counts, self._learned = self._counts or self._fair is not None, inf
            return self._found
        if seen.failed:
            self._warn("What one group sent cannot be looked at; it is left out.")
        self._troubled = seen.failed
        found, part = seen.found, seen.part
        self._found, self._at, self._fair, self._known = found, whole.theta, part, seen.inverse
        self._alarmed, self._carried = seen.alarmed, None
        self._as_found, self._behind = whole.statistics, False
        self._counts = enough or not self._watched
        told = np.minimum(1.0, _DISPUTED * found.weights).tolist()
        theirs = part.own if self._counts else {}
        self._own = {keys[n]: each.scaled(told[n] ** 2) for n, each in theirs.items()}
        self._learned, self._weight = 0.0, weight_of(self._memory, whole)
        self._told_mass = part.mean()
        self._made = {}
        thetas = [self._at, part.theta] if found.theta is None else [self._at, found.theta]
        before, self._noise = self._noise, self._measured_noise(thetas)
        counted = self._counts
        try:
            with np.errstate(all="ignore"):
                self._lean(whole, part, past)
        except np.linalg.LinAlgError:
            self._noise, self._fair, self._counts, self._made = before, part, counted, {}
        return found

    def _warn(self, words: str) -> None:
        """Log it, once in a row."""
        if not self._troubled:
            _log.warning("%s The board and fedbandit model show name groups that stand out.", words)
        self._troubled = True

    def _lean(self, whole: Server, part: Fair, past: Sequence[bool]) -> None:
        """Tell less of what hangs on one group, and more noise where few directions are shown."""
        if not part.sums or (self._watched and not self._sums.enough):
            return
        base, ridge = self._opened(whole), self._memory.ridge
        theta = part.theta if self._found.theta is None else self._found.theta
        weights, ridges = self._found.weights, self._found.ridges
        deltas = shifts(part.sums, weights, theta, ridges=ridges, ridge=ridge, trusted=past)
        without = theta - deltas
        shortest = without[np.argmin(np.linalg.norm(without, axis=1))]
        length, most = float(np.linalg.norm(shortest)), inf
        if self._noise is not None:
            shown = shown_by_several(part.sums, ridge=ridge, trusted=past)
            seen = base.reading.shown_directions(ridge)
            more = noise_for_fewer(told=seen, shown=shown, ridge=ridge, length=length)
            self._noise = (sqrt(self._noise) + more) ** 2
            most = sqrt(self._noise) + 2.0 * length * sqrt(ridge)  # where one direction is shown
        rewards, known = self._rewards(base.statistics, None), base.statistics
        evidence = Evidence(shortest, known.moment, known.count, rewards)
        radius = min(most, self._recipe.parts.radius(base.reading, evidence))
        other = without_leaning(part, theta, deltas, radius=radius, ridge=ridge)
        if other is part:
            return
        self._fair, self._counts, self._made = other, True, {}
        if self._found.theta is not None:
            self._found = replace(self._found, theta=other.theta)
        if self._sheds_more(base, self._opened(whole)):
            self._fair, self._made = replace(other, told=part.told), {}

    def _sheds_more(self, before: Base, after: Base) -> bool:
        """Say whether a sketch of another V sheds more, which would speak of every direction.

        With ``sketch_size="auto"`` a message has no rows for directions of which little is known.
        """
        one, other = before.statistics.summary, after.statistics.summary
        return isinstance(other, Sketch) and other.shed > one.shed

    def _opened(self, whole: Server) -> Base:
        """Return what an agent knows by what was found."""
        server = self._recipe.server()
        server.adopt(self._estimated(whole, None), version=whole.version)
        return Base(self._memory.opened(server.download().statistics), self._memory)

    def standing_out(self, whole: Server) -> list[StandsOut]:
        """Return the groups that contradict the others, or are the reason that they are weighed.

        None while all count because none of those that are watched stands out.
        """
        found = self.found(whole)
        if not self._alarmed:
            return []
        heavy = self._sums.heavy() if self._watched else {}
        each = zip(self._sums.keys, found.weights.tolist(), found.doubted, strict=False)
        return [
            StandsOut(key, weight, bool(doubted), heavy.get(group_at(key), 0.0))
            for key, weight, doubted in each
            if doubted or group_at(key) in heavy
        ]


def _unknown(memory: Memory) -> Weighed:
    """Return what is known of groups before they are weighed: whatever comes is not small."""
    none = np.ones(0)
    return Weighed(None, none, none > 1.0, np.eye(len(memory.empty().moment)))


def told_of(recipe: Recipe, whole: Server, stored: Mapping[int, bytes], *, watched: bool) -> bytes:
    """Return what agents are told, of what is stored; empty for the whole as it is."""
    groups = WeighedGroups(recipe, watched=watched)
    groups.read(stored)
    return groups.told(whole)
