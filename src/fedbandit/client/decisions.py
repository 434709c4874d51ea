"""A decision as the caller sees it, and the open decisions: those without a reward yet."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from fedbandit.client.slate import Pick, means
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.parts.choice import Choice, Chosen, Policy
from fedbandit.errors import (
    DuplicateDecision,
    InvalidParameter,
    SettledDecision,
    UnknownDecision,
    complaint,
)
from fedbandit.features.encoder import Encoded

REMEMBERED = 4096
"""How many settled ids are remembered, to tell a second reward from one with an unknown id.

The latest ones; a journal keeps as many. At 128 characters each that is half a megabyte.
"""

_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._~:-]{1,128}")  # . and .. vanish from a URL's path


class Place(msgspec.Struct, frozen=True, eq=False):
    """The arm in one place of a decision: give its reward under ``id`` if it was looked at.

    ``probability``: of this arm in this place, given the places above.
    """

    id: str
    index: int
    probability: float
    action: str | None


class Basis(msgspec.Struct, frozen=True, eq=False):
    """What a decision was made with: policy, rule, all arms with their widths, the pick of a place.

    ``encoded``: the names behind the arms, if features were given by name.
    """

    policy: Policy
    rule: Choice
    chance: int
    picks: Sequence[Pick]
    chosen: Chosen
    encoded: Encoded | None

    @property
    def arms(self) -> Any:
        """The arms that there were (K x d)."""
        return self.chosen.arms

    @property
    def pick(self) -> Pick:
        """The pick of the first place."""
        return self.picks[0]


class Decision(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Play the arm in row ``index``, and give its reward under ``id``.

    ``mean`` is the estimated reward of every arm and ``bonus`` its uncertainty, the radius times
    |x|_{V^-1} (both of length K); with ``choice="ucb"`` the arm with the largest sum is played.
    ``probability`` is that with which the arm was chosen, ``probabilities`` (K) those of all arms:
    1 and 0 where chance has no part in it, and 0 for excluded arms. ``estimated``: they are
    estimates, by 1,001 draws, as Thompson sampling has no formula for them; else they are exact.
    ``action``: the id of the chosen action, if actions were named. ``places``: the arms in order,
    the one in ``index`` first; ``decide(top=...)`` asks for more than one. ``basis``: what it was
    decided with, for ``ConnectedAgent.explain``. ``preferred``: in shadow mode, what the agent
    would have chosen, while ``index`` and ``probability`` are the baseline's; None elsewhere.
    """

    id: str
    index: int
    probability: float
    action: str | None
    places: tuple[Place, ...]
    preferred: int | None
    basis: Basis

    @cached_property
    def mean(self) -> Array:
        """The estimated reward of every arm (K), computed when it is first asked for."""
        return means(self.basis.policy, self.basis.arms)

    @cached_property
    def bonus(self) -> Array:
        """The uncertainty of every arm (K), computed when it is first asked for."""
        return self.basis.policy.radius * np.sqrt(self.basis.chosen.squared_widths)

    @property
    def probabilities(self) -> Array:
        """The probability of every arm (K) for the first place."""
        return self.basis.pick.probabilities

    @property
    def estimated(self) -> bool:
        """Whether probabilities are estimates."""
        return not self.basis.rule.exact

    def __repr__(self) -> str:
        played = f"{self.id!r}, index={self.index}, probability={self.probability}"
        return f"Decision({played}, action={self.action!r}, mean={self.mean}, bonus={self.bonus})"


def places_of(name: str, made: Sequence[Pick], ids: Sequence[str | None]) -> tuple[Place, ...]:
    """Return the places of a decision, from the pick of each and the ids of all actions."""
    return tuple(
        [
            Place(
                f"{name}:{k}" if k else name,
                pick.index,
                pick.probabilities.item(pick.index),
                ids[pick.index],
            )
            for k, pick in enumerate(made)
        ]
    )


class OpenDecision(msgspec.Struct, frozen=True, eq=False):
    """A decision without a reward: the arm played, since when it waits, and whether it is active.

    ``since``: the agent's running time, in seconds over all its runs. A deferred decision is not
    active until it is activated.
    """

    arm: Array
    since: float
    active: bool


class OpenDecisions:
    """At most ``most`` open decisions, the longest waiting first, and the latest settled ids.

    A decision is settled when it is rewarded or forgotten. One more than ``most`` forgets the one
    that has waited longest: nothing is learned from it. Not thread-safe.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: OrderedDict[str, OpenDecision] = OrderedDict()
        self._settled: OrderedDict[str, None] = OrderedDict()
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._open)

    def items(self) -> list[tuple[str, OpenDecision]]:
        """Return all of them with their ids, the longest waiting first."""
        return list(self._open.items())

    def settled(self) -> list[str]:
        """Return the settled ids that are remembered, the latest last."""
        return list(self._settled)

    def check_new(self, name: str) -> None:
        """Raise InvalidParameter for a malformed id, DuplicateDecision for one used before."""
        if not isinstance(name, str) or not _ID.fullmatch(name):
            expected = "1 to 128 letters, digits or any of . _ ~ : -, but not . or .. alone"
            fix = "Use other characters, or leave the id out."
            raise InvalidParameter(
                complaint("decision id", got=repr(name), expected=expected, fix=fix)
            )
        if name in self._open or name in self._settled:
            expected, fix = "an id that was not used before", "Choose a fresh one, or leave it out."
            raise DuplicateDecision(complaint("decision id", got=name, expected=expected, fix=fix))

    def add(self, name: str, decision: OpenDecision) -> list[str]:
        """Add a decision; return the ids of those that it forgot."""
        self._open[name] = decision
        return self.trim()

    def restore(self, name: str, decision: OpenDecision) -> None:
        """Add a decision of an earlier run, beyond ``most`` too; ``trim`` once all are there."""
        self._open[name] = decision

    def restore_settled(self, names: Iterable[str]) -> None:
        """Remember the ids that an earlier run settled, the latest last."""
        for name in names:
            self._remember(name)

    def trim(self) -> list[str]:
        """Forget the longest waiting while there are more than ``most``; return their ids."""
        forgotten = []
        while len(self._open) > self._most:
            oldest, _ = self._open.popitem(last=False)
            self._remember(oldest)
            forgotten.append(oldest)
        self.forgotten += len(forgotten)
        return forgotten

    def get(self, name: str) -> OpenDecision:
        """Return an open decision; raise SettledDecision or UnknownDecision if it is not open."""
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
        """Remove a decision, rewarded or forgotten, and remember its id."""
        if self._open.pop(name, None) is not None:
            self._remember(name)

    def activate(self, name: str, now: float) -> None:
        """Make a deferred decision active, waiting from now on; raise if it is not open."""
        self._open[name] = OpenDecision(self.get(name).arm, now, True)
        self._open.move_to_end(name)

    def oldest(self) -> tuple[str, OpenDecision] | None:
        """Return the one that has waited longest, with its id."""
        return next(iter(self._open.items()), None)

    def _remember(self, name: str) -> None:
        self._settled[name] = None
        if len(self._settled) > REMEMBERED:
            self._settled.popitem(last=False)
