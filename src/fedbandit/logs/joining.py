"""Join decisions and rewards, which may lie far apart, in bounded memory."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import isfinite

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.logs.event import Event, Tally
from fedbandit.logs.records import Activated, Decided, Opened, Record, Rewarded

WINDOW = 100_000
"""How many decisions may wait for their rewards while a log is read."""
NUMBERS = 2**25
"""How many numbers of their arms may be held meanwhile: 256 MB."""


@dataclass(slots=True)
class _Waiting:
    """A decision without its reward: ``make(reward=...)`` makes it an event."""

    make: "partial[Event]"
    active: bool
    numbers: int


class Joiner:
    """Takes records in order; returns an event when a decision's reward comes.

    At most ``window`` decisions wait; beyond that the oldest is given up: it gets
    ``default_reward``, or is left out and counted if that is None. As many ids of the latest
    settled decisions are remembered, to notice an id that comes twice.
    """

    def __init__(
        self, tally: Tally, *, window: int = WINDOW, default_reward: float | None = None
    ) -> None:
        self._tally, self._window, self._default = tally, window, default_reward
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._settled: OrderedDict[str, str] = OrderedDict()  # what another reward of it is
        self._numbers, self._agent = 0, ""
        self.head: Opened | None = None

    def take(self, record: Record, place: str) -> Iterator[Event]:
        """Yield the events that a record completes, mostly none or one."""
        match record:
            case Decided():
                self._decide(record, place)
                while len(self._waiting) > self._window or self._numbers > NUMBERS:
                    yield from self._give_up(place)
            case Rewarded():
                yield from self._reward(record, place)
            case Activated():
                if record.id in self._waiting:
                    self._waiting[record.id].active = True
            case Opened():
                self.head, self._agent = record, record.agent

    def end(self) -> Iterator[Event]:
        """Yield what is left: decisions without a reward, if there is a default for them."""
        while self._waiting:
            yield from self._give_up("the end")

    def _decide(self, record: Decided, place: str) -> None:
        if record.id in self._waiting or record.id in self._settled:
            self._tally.skip("a decision's id came twice", f"{place}, id {record.id}")
            return
        try:
            make, numbers = _checked(record, self._agent)
        except ValueError as error:
            self._remember(record.id, "the reward of a decision that is left out")
            self._tally.skip(str(error), f"{place}, id {record.id}")
            return
        self._numbers += numbers
        self._waiting[record.id] = _Waiting(make, not record.deferred, numbers)

    def _reward(self, record: Rewarded, place: str) -> Iterator[Event]:
        found = self._waiting.pop(record.id, None)
        if found is None:
            reason = self._settled.get(record.id, "a reward for a decision of another log")
            self._tally.skip(reason, f"{place}, id {record.id}")
            return
        self._settle(record.id, found)
        if not isfinite(record.reward):
            self._tally.skip("a reward that is not finite", f"{place}, id {record.id}")
            return
        yield self._rewarded(found, record.reward)

    def _give_up(self, place: str) -> Iterator[Event]:
        name, found = self._waiting.popitem(last=False)
        self._settle(name, found)
        if not found.active:
            self._tally.skip("deferred and never activated", f"{place}, id {name}")
        elif self._default is None:
            self._tally.skip("no reward", f"{place}, id {name}")
        else:
            yield self._rewarded(found, self._default)

    def _rewarded(self, found: _Waiting, reward: float) -> Event:
        self._tally.events += 1
        return found.make(reward=reward)

    def _settle(self, name: str, found: _Waiting) -> None:
        self._numbers -= found.numbers
        self._remember(name, "a second reward")

    def _remember(self, name: str, another: str) -> None:
        self._settled[name] = another
        if len(self._settled) > self._window:
            self._settled.popitem(last=False)


def _checked(record: Decided, agent: str) -> "tuple[partial[Event], int]":
    """Return what makes an event of a decision, and how many numbers that holds.

    Raises ValueError if the decision makes no sense.
    """
    if not 0.0 < record.probability <= 1.0:
        if record.probability == 0.0:
            raise ValueError("a chosen arm whose logged probability is 0")
        raise ValueError("a probability outside 0 to 1")
    arms = None if record.arms is None else _matrix(record.arms)
    many = len(record.actions or ()) if arms is None else len(arms)
    if not many:
        raise ValueError("no arms and no actions")
    if not 0 <= record.chosen < many:
        raise ValueError("a chosen arm that is not among the arms")
    make = partial(
        Event,
        id=record.id,
        chosen=record.chosen,
        probability=record.probability,
        arms=arms,
        context=record.context,
        actions=record.actions,
        agent=record.agent or agent,
        time=record.time,
        version=record.version,
        own=_probabilities(record.own, many),
        means=_one_each(record.means, many),
    )
    return make, 0 if arms is None else arms.size


def _matrix(rows: list[list[float]]) -> Array:
    try:
        matrix = np.array(rows, dtype=np.float64)
    except ValueError:
        raise ValueError("arms of different lengths") from None
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError("arms that are no matrix")
    if not np.isfinite(matrix).all():
        raise ValueError("arms that are not finite")
    return matrix


def _probabilities(given: list[float] | None, many: int) -> Array | None:
    found = _one_each(given, many)
    if found is not None and not (found.min() >= 0.0 and abs(float(found.sum()) - 1.0) <= 1e-6):
        raise ValueError("probabilities of the agent's own that do not add up to 1")
    return found


def _one_each(given: list[float] | None, many: int) -> Array | None:
    if given is None:
        return None
    if len(given) != many:
        raise ValueError("as many probabilities or means as arms were expected")
    return np.array(given, dtype=np.float64)
