"""A decision as its caller sees it, and the decisions that wait for their rewards."""

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from fedbandit.core.kernels.linalg import Array
from fedbandit.errors import (
    DuplicateDecision,
    InvalidParameter,
    SettledDecision,
    UnknownDecision,
    complaint,
)

REMEMBERED = 4096
"""How many settled ids are remembered, to tell a second reward from one that belongs nowhere.

The latest ones; a journal keeps as many. At 128 characters each that is half a megabyte.
"""

_ID = re.compile(r"[A-Za-z0-9._~:-]{1,128}")


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The arm to play is row ``index``; its reward is given by ``id``.

    ``mean`` is what every arm is estimated to pay and ``bonus`` what is added for what is not known
    about it (both of length K); the arm with the largest sum is played. ``probability`` is that
    with which the arm was chosen: 1 where chance has no part in it.
    """

    id: str
    index: int
    mean: Array
    bonus: Array
    probability: float


@dataclass(frozen=True, slots=True, eq=False)
class Open:
    """A decision without a reward: the arm played, since when it waits, and whether it counts.

    ``since`` is in seconds that the agent has been running, over all its runs.
    """

    arm: Array
    since: float
    active: bool


class OpenDecisions:
    """Open decisions, the longest waiting first, at most ``most`` of them; and settled ids.

    One more than ``most`` pushes out the one that has waited longest: it is forgotten and nothing
    is learned from it, because nobody has said what it paid. One thread at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: OrderedDict[str, Open] = OrderedDict()
        self._settled: OrderedDict[str, None] = OrderedDict()
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def items(self) -> list[tuple[str, Open]]:
        """Return all of them, the longest waiting first."""
        return list(self._open.items())

    def settled(self) -> list[str]:
        """Return the settled ids that are remembered, the latest last."""
        return list(self._settled)

    def check_new(self, name: str) -> None:
        """Raise InvalidParameter for an id that cannot be one, DuplicateDecision for a used one."""
        if not isinstance(name, str) or not _ID.fullmatch(name):
            expected = "1 to 128 letters, digits or any of . _ ~ : -"
            raise InvalidParameter(
                complaint("decision id", got=repr(name), expected=expected, fix="Change it.")
            )
        if name in self._open or name in self._settled:
            expected, fix = "an id that was not used before", "Choose a fresh one, or none."
            raise DuplicateDecision(complaint("decision id", got=name, expected=expected, fix=fix))

    def add(self, name: str, decision: Open) -> list[str]:
        """Let a decision wait for its reward; return which were pushed out by it."""
        self._open[name] = decision
        return self.trim()

    def restore(self, name: str, decision: Open) -> None:
        """Let a decision of an earlier run wait, however many do; ``trim`` when all are there."""
        self._open[name] = decision

    def restore_settled(self, names: Iterable[str]) -> None:
        """Remember what an earlier run has settled, the latest last."""
        for name in names:
            self._remember(name)

    def trim(self) -> list[str]:
        """Push out those that have waited longest while there are too many; return their ids."""
        pushed_out = []
        while len(self._open) > self._most:
            oldest, _ = self._open.popitem(last=False)
            self._remember(oldest)
            pushed_out.append(oldest)
        self.forgotten += len(pushed_out)
        return pushed_out

    def get(self, name: str) -> Open:
        """Return an open decision; raise if there is none of that id."""
        found = self._open.get(name)
        if found is not None:
            return found
        if name in self._settled:
            expected, fix = "one that waits for its reward", "Give every reward once."
            got = f"{name!r}, which is settled or was given up"
            raise SettledDecision(complaint("decision", got=got, expected=expected, fix=fix))
        fix = "Use the id that decide returned, with the same state_dir; give every reward once."
        expected = "the id of an open decision of this agent"
        raise UnknownDecision(complaint("decision", got=repr(name), expected=expected, fix=fix))

    def settle(self, name: str) -> None:
        """Close a decision, rewarded or given up."""
        if self._open.pop(name, None) is not None:
            self._remember(name)

    def activate(self, name: str, now: float) -> None:
        """Let a deferred decision count, and wait, from now on; raise if it is not open."""
        self._open[name] = Open(self.get(name).arm, now, True)
        self._open.move_to_end(name)

    def oldest(self) -> tuple[str, Open] | None:
        """Return the one that has waited longest."""
        return next(iter(self._open.items()), None)

    def _remember(self, name: str) -> None:
        self._settled[name] = None
        if len(self._settled) > REMEMBERED:
            self._settled.popitem(last=False)
