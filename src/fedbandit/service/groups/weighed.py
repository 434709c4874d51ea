"""The groups of a model whose groups are weighed: kept in a store, and what agents are told.

Two things are not done with every upload, since they would cost more than merging it. Whether they
are is decided by how much an honest group pulls at the estimate (its v, see ``weighing``), never
by what an upload says of itself.

*Weighing.* What was found stands while it would take less than ``_MOVED`` of that to move the
estimate from everything back to where it was, and little was added to V since (``_LEARNED``). What
came since is in no V that is told anew. Under load weighing takes a tenth of the time at most.

*Storing.* A sum may be a hundred times as large as an upload. It is written once what it lacks
pulls by as much, or has ``_MOVED`` of the median group's mass; and with each upload while groups
are too few to be weighed, and while another coordinator merges into the same model, which reads
what is stored. What is merged and not in a stored sum when a coordinator stops is in no group from
then on: it counts as one more group's (``certainty``), and sketches are told without it. What
agents were told last goes on being told until there is time to weigh what was read.

*Watching.* Groups that are watched change nothing until it matters. Once ``WATCHED_FROM`` groups
have sent something, agents are told the whole as it is, bit for bit, while no group has more than
its share of a direction, and the estimate hangs on none; else V without what is too much
(``certainty``, ``leaning``), and the estimate by that.
Groups are weighed like any for as long as one contradicts the others, or has far more mass than
they (``KeptSums.heavy``). Sums of rewards are believed by group at all times (``rewards``).
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from fedbandit import wire
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Memory
from fedbandit.core.memory.summary import Sketch
from fedbandit.core.parts.radius import Empirical, Evidence
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Base, Rewards, Statistics
from fedbandit.service.groups.certainty import Excess, Fair, fair, weight_of
from fedbandit.service.groups.kept import KeptSums, is_past
from fedbandit.service.groups.leaning import without_leaning
from fedbandit.service.groups.lessening import is_told_anew, lessened
from fedbandit.service.groups.membership import group_at, key_for
from fedbandit.service.groups.rewards import believed, noise_for_fewer, noise_of, shown_by_several
from fedbandit.service.groups.sums import GroupSum, sound, sum_of, tempered
from fedbandit.service.groups.telling import moment_for
from fedbandit.service.groups.weighing import Weighed, weigh
from fedbandit.service.storage.contract import Model

_log = logging.getLogger("fedbandit.service")

_MOVED = 0.1
_DISPUTED = 5.0  # from a weight of one of these on, a group is told all that it sent itself
_LEARNED = 0.3  # tr V^-1 G of what has come since groups were weighed
_LEARNED_AS_IS = 1.0  # the same where all is told as it is
_SHARED = 600.0  # seconds for which another coordinator is taken to be there
_BUSY = 0.1  # the share of time that weighing takes, and telling groups what they sent
_WATCHING = 0.01  # the same while groups are watched, and all is told as it is
_SAVED, _OWED = 1.0, 5.0  # seconds of it that are saved up, and owed, at most


class StandsOut(NamedTuple):
    """A group that stands out: the key of its sum, how much of what it sent counts, and why.

    ``contradicts`` the others by more than chance; ``share`` of all mass, if that is far too much.
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
        self._recipe, self._memory, self._clock = recipe, recipe.parts.memory, clock
        self._watched = watched
        self._sums = KeptSums(self._memory)
        self._forget(None)
        self._saved, self._then = _SAVED, clock()
        self._reads, self._shared = 0, 0.0

    def _forget(self, carried: Statistics | None) -> None:
        """Know nothing of what was found, but for what agents are told by it."""
        self._found, self._at = _unknown(self._memory), self._memory.empty().moment
        self._fair: Fair | None = None
        self._own: dict[int, Excess] = {}  # what members of a group are told beside
        self._known: Array | None = None  # the inverse of V then, of few features
        self._told_mass = inf  # the mean of its diagonal
        self._made: dict[int | None, Any] = {}  # V as it is told, by who is told it
        self._weight = 1.0
        self._learned = 0.0
        self._noise: float | None = None  # of rewards, its mean square
        self._carried = carried
        self._counts = not self._watched or carried is not None  # whether what was found is told
        self._alarmed = self._counts  # whether groups are weighed

    def read(
        self, stored: Mapping[int, bytes], now: float = 0.0, carried: Statistics | None = None
    ) -> None:
        """Take up what a store has; ``carried``: what agents are told, if not all as it is."""
        self._reads += 1
        self._sums.read(stored)
        self._forget(carried)
        self._shared = now + _SHARED if self._reads > 1 else 0.0

    def absorb(self, sent: Iterable[tuple[int, Statistics]], now: float) -> dict[int, bytes]:
        """Add what was sent, each with the number of its group; return what is to be stored."""
        touched = set()
        for number, statistics in sent:
            piece = sum_of(self._memory, statistics)
            self._sums.add(number, piece, self._at)
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
        began = self._clock()
        share = _BUSY if self._counts else _WATCHING
        self._saved = min(_SAVED, self._saved + share * (began - self._then))
        self._then = began
        if self._saved >= 0.0 and self._has_changed(whole):
            self.found(whole)
            self._spend(began)
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
        return self._learned > (_LEARNED if self._counts else _LEARNED_AS_IS)

    def knows_more(self, number: int) -> bool:
        """Say whether the members of a group are told more than others: what they sent.

        Nobody is while that would take too much time.
        """
        return number in self._own and self._saved >= 0.0

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
        told = self._estimated(whole, number)
        rewards = self._rewards(whole, told, number)
        if rewards is whole.statistics.rewards and told.summary is whole.summary:
            return b"" if told is whole.statistics else told.moment.astype("<f8").tobytes()
        part = self._recipe.server()
        part.adopt(replace(told, rewards=rewards), version=whole.version)
        return wire.encode(part.whole())

    def _rewards(self, whole: Server, told: Statistics, number: int | None) -> Rewards:
        """Return the sums of rewards that are told; the whole's own where nobody asks for them."""
        if told is self._carried:
            return told.rewards
        if self._noise is None:
            return whole.statistics.rewards
        theta = self._at if self._found.theta is None else self._found.theta
        if self._found.theta is None and self._counts and self._fair and number is None:
            theta = self._fair.theta
        explained = float(theta @ told.moment) / max(told.count, 1)
        return believed(whole.statistics.rewards, noise=self._noise, explained=explained)

    def _measured_noise(self, thetas: Iterable[Array]) -> float | None:
        """Return the noise of rewards by groups, as the better of these estimates leave it.

        None where agents do not ask for it.
        """
        if not isinstance(self._recipe.parts.radius, Empirical):
            return None
        rewards, past = self._sums.rewards()
        each = [self._sums[key].total for key in self._sums.keys]
        explained = [
            [(2.0 * one.moment - one.times(theta)) @ theta for one in each] for theta in thetas
        ]
        return noise_of(rewards, explained=np.max(explained, axis=0), trusted=past)

    def _estimated(self, whole: Server, number: int | None) -> Statistics:
        """Return V and the moment that are told, in the whole's statistics; those as they are.

        As they are where nothing is too much, and little came since groups were weighed.
        """
        fair = self._fair
        if fair is None and self._carried is not None:
            return self._carried
        if fair is None or not self._counts:
            return whole.statistics
        anew = self._is_late or is_told_anew(whole, fair)
        if self._found.theta is None and not anew:
            return whole.statistics
        theta = fair.theta if self._found.theta is None else self._found.theta
        if not anew or fair.told is None:
            return _with_moment(whole, moment_for(self._recipe, whole, theta), whole)
        part = self._lessened(whole, fair, None)
        told = moment_for(self._recipe, part, theta)
        if number is not None:
            part, told = self._lessened(whole, fair, number), told + self._own[number].moment
        return _with_moment(part, told, whole)

    def _lessened(self, whole: Server, fair: Fair, number: int | None) -> Server:
        """Return a server with the V that a group is told, or all are, and the whole's moment."""
        if number not in self._made:
            own = None if number is None else self._own[number]
            self._made[number] = lessened(self._memory, whole.summary, fair, own)
        server = self._recipe.server()
        summary = self._made[number]
        server.adopt(replace(whole.statistics, summary=summary), version=whole.version)
        return server

    def found(self, whole: Server) -> Weighed:
        """Weigh the groups; where numbers are too large for that, what was found before stands."""
        keys, ridge = self._sums.keys, self._memory.ridge
        past = [is_past(key) for key in keys]
        sent = [self._sums[key].total for key in keys]
        sums = tempered(sent, ridge=ridge, trusted=past)
        try:
            with np.errstate(all="ignore"):  # what overflows is found, and is not told
                alarmed = not self._watched or (self._sums.enough and bool(self._sums.heavy()))
                if not alarmed:
                    found = weigh(sums, sent=sent, ridge=ridge, trusted=past)
                    alarmed = self._sums.enough and bool(found.doubted.any())
                    found = replace(found, theta=None)
                part = self._fairly(whole, sums, sent, past, watched=not alarmed)
                if alarmed:
                    found = weigh(part.sums, sent=sent, ridge=ridge, trusted=past)
                known = part.inverse()
        except np.linalg.LinAlgError:
            _log.warning("numbers too large to weigh groups by; what was found before stands")
            return self._found
        self._found, self._at, self._fair, self._known = found, whole.theta, part, known
        self._alarmed, self._carried = alarmed, None
        self._counts = alarmed or (self._sums.enough and part.cut)
        told = np.minimum(1.0, _DISPUTED * found.weights).tolist()
        theirs = part.own if self._counts else {}
        self._own = {keys[n]: each.scaled(told[n] ** 2) for n, each in theirs.items()}
        self._learned, self._weight = 0.0, weight_of(self._memory, whole)
        self._told_mass = part.mean()
        self._made = {}
        thetas = [self._at, part.theta] if found.theta is None else [self._at, found.theta]
        before, self._noise = self._noise, self._measured_noise(thetas)
        try:
            with np.errstate(all="ignore"):
                self._lean(whole, part, past)
        except np.linalg.LinAlgError:
            self._noise = before
        return found

    def _lean(self, whole: Server, part: Fair, past: Sequence[bool]) -> None:
        """Tell less of V where all hangs on one group, and more noise where few are shown."""
        if self._watched and not self._sums.enough:
            return
        base, ridge = self._opened(whole), self._memory.ridge
        if self._noise is not None:
            shown = shown_by_several(part.sums, ridge=ridge, trusted=past)
            seen, length = base.reading.shown_directions(ridge), float(np.linalg.norm(base.theta))
            more = noise_for_fewer(told=seen, shown=shown, ridge=ridge, length=length)
            self._noise = (sqrt(self._noise) + more) ** 2
        if isinstance(whole.summary, Sketch):
            return  # whose messages shed in all directions what they lack in one
        rewards, known = self._rewards(whole, base.statistics, None), base.statistics
        evidence = Evidence(base.theta, known.moment, known.count, rewards)
        radius = self._recipe.parts.radius(base.reading, evidence)
        theta = part.theta if self._found.theta is None else self._found.theta
        weights = self._found.weights if self._alarmed else np.ones(len(part.sums))
        self._fair = without_leaning(part, weights, theta, radius=radius, ridge=ridge, trusted=past)
        self._counts, self._made = self._counts or self._fair.cut, {}

    def _opened(self, whole: Server) -> Base:
        """Return what an agent knows by what was found."""
        server = self._recipe.server()
        server.adopt(self._estimated(whole, None), version=whole.version)
        return Base(self._memory.opened(server.download().statistics), self._memory)

    def _fairly(
        self,
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
            return fair(self._memory, whole, sums, sent=sent, trusted=trusted, watched=watched)
        except np.linalg.LinAlgError:
            sums = [sound(each) for each in sums]
            return fair(self._memory, whole, sums, sent=sent, trusted=trusted, watched=watched)

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


def _with_moment(part: Server, moment: Array, whole: Server) -> Statistics:
    """Return what a server has, with another moment; the whole's where that is no number."""
    finite = bool(np.isfinite(moment).all())
    return replace(part.statistics, moment=moment) if finite else whole.statistics


def _unknown(memory: Memory) -> Weighed:
    """Return what is known of groups before they are weighed: whatever comes is not small."""
    none = np.ones(0)
    return Weighed(None, none, none > 1.0, np.eye(len(memory.empty().moment)))


def told_of(recipe: Recipe, whole: Server, stored: Mapping[int, bytes], *, watched: bool) -> bytes:
    """Return what agents are told, of what is stored; empty for the whole as it is."""
    groups = WeighedGroups(recipe, watched=watched)
    groups.read(stored)
    return groups.told(whole)


def agents_standing_out(
    recipe: Recipe, model: Model, whole: Server, stored: Mapping[int, bytes], agents: Iterable[str]
) -> list[tuple[StandsOut, list[str]]]:
    """Return the groups that stand out, the least weight first, each with its agents.

    No agents for what was merged without groups.
    """
    groups = WeighedGroups(recipe, watched=model.watched)
    groups.read(stored)
    found, names = groups.standing_out(whole), sorted(agents)

    def members(key: int) -> list[str]:
        many, number = group_at(key)
        theirs = [] if many == 1 else names
        return [
            name
            for name in theirs
            if group_at(key_for(model.created, many, name)) == (many, number)
        ]

    return [(each, members(each.key)) for each in sorted(found, key=lambda each: each.weight)]
