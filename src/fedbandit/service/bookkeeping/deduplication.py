"""Which uploads of an agent have been merged: what makes a retry or a late copy harmless.

An agent draws a *life*, 16 random bytes, when it starts without a saved state, and numbers the
uploads of that life from 1. It has one upload on its way at a time, so the highest number merged
says all about a life: that number and those below are copies, a number above is new.

What is remembered must not grow for ever, and an agent that keeps its state in memory has a new
life with every start. So only the ``KEPT`` lives that uploaded last are remembered. A life
forgotten is a danger: a late copy of its uploads would look new. Each life therefore says when it
was *born*: how many lives of this agent the coordinator had known when it joined. Forgetting a life
of birth b raises the *floor* to at least b + 1, for ever, and an unknown life born below the floor
is refused.
So every forgotten life is refused, and one that joins now is not: it is born at ``known``, which is
larger than the birth of any life known before, and so at least the floor. A life cannot claim a
birth that has not come yet.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from fedbandit.core.statistics import NO_REWARDS, Rewards
from fedbandit.errors import InvalidMessage, InvalidState, complaint
from fedbandit.service.bookkeeping.quotas import NOTHING_SPENT, Spent
from fedbandit.wire import ShadowSums

KEPT: Final = 8


class ForgottenLife(InvalidMessage):
    """An upload of a life that may have been forgotten: whether it was merged is unknown."""


class UnreadableUploads(InvalidState):
    """What is stored of an agent's merged uploads cannot be read any more."""


class Life(msgspec.Struct, frozen=True):
    """The highest ``sequence`` merged of a life, and the model's ``version`` when it was."""

    born: int
    sequence: int
    version: int


class MergedUploads(msgspec.Struct, frozen=True):
    """What is remembered of the uploads of one agent that were merged into one model.

    ``known`` counts the lives that ever uploaded. ``uploads``, ``observations`` and ``received``
    (bytes) are totals; ``seen`` is the time of the last upload, in seconds since 1970, ``since``
    that of the first. ``mass`` is what they added to the trace of V, ``spent`` what of the hourly
    quotas is used up. ``loose`` counts the parts that were not merged with earlier ones yet (see
    ``history``). Of an agent that is ``quarantined`` nothing is merged. ``rewards`` and
    ``reward_total``: number and sum of the rewards that it told of. ``held``: the version that it
    was told last. ``shadow``: how it compared with the rule that it shadows, when it last told of
    that; None if it never did. ``place``: by which it was put into a group (``groups.membership``);
    None if it had sent something before agents had one, or never did.
    """

    lives: Mapping[bytes, Life] = msgspec.field(default_factory=dict)
    known: int = 0
    floor: int = 0
    uploads: int = 0
    observations: int = 0
    received: int = 0
    seen: float = 0.0
    since: float = 0.0
    mass: float = 0.0
    spent: Spent = NOTHING_SPENT
    loose: int = 0
    quarantined: bool = False
    rewards: int = 0
    reward_total: float = 0.0
    held: int = 0
    shadow: ShadowSums | None = None
    place: int | None = None

    def copy_of(self, life: bytes, *, born: int, sequence: int) -> int | None:
        """Return None for a new upload; for a copy, the version that it was merged as, if known.

        0 stands for a version no longer known. Raises ForgottenLife, or InvalidMessage for a birth
        that has not come yet.
        """
        last = self.lives.get(life)
        if last is not None:
            if sequence > last.sequence:
                return None
            return last.version if sequence == last.sequence else 0
        if born < self.floor:
            raise ForgottenLife(_forgotten(born, self.floor), field="life")
        if born > self.known:
            raise InvalidMessage(_unborn(born, self.known), field="born")
        return None

    def noting(
        self,
        life: bytes,
        *,
        born: int,
        sequence: int,
        version: int,
        observations: int = 0,
        received: int = 0,
        seen: float = 0.0,
        mass: float = 0.0,
        spent: Spent | None = None,
        rewards: Rewards = NO_REWARDS,
        shadow: ShadowSums | None = None,
    ) -> "MergedUploads":
        """Return a copy in which one more upload is merged, of so many observations and bytes.

        ``seen`` is when that was, ``spent`` what is used up by then. ``shadow`` takes the place of
        what was told before, if it is told.
        """
        last = self.lives.get(life)
        lives = {**self.lives, life: Life(last.born if last else born, sequence, version)}
        known, floor = self.known + (last is None), self.floor
        if len(lives) > KEPT:
            idlest = min(lives, key=lambda each: lives[each].version)
            floor = max(floor, lives.pop(idlest).born + 1)
        return replace(
            self,
            lives=lives,
            known=known,
            floor=floor,
            uploads=self.uploads + 1,
            observations=self.observations + observations,
            received=self.received + received,
            seen=seen,
            since=self.since if self.uploads else seen,
            mass=self.mass + mass,
            spent=self.spent if spent is None else spent,
            rewards=self.rewards + rewards.count,
            reward_total=self.reward_total + rewards.total,
            held=version,
            shadow=self.shadow if shadow is None else shadow,
        )


def _forgotten(born: int, floor: int) -> str:
    expected = f"a life born at {floor} or later, or one of the {KEPT} that are remembered"
    fix = (
        "Draw a new life and join again. If this upload was sent for the first time, send it as "
        "number 1 of the new life; else drop it, since it may have been merged."
    )
    return complaint("life", got=f"an unknown life born at {born}", expected=expected, fix=fix)


def _unborn(born: int, known: int) -> str:
    expected = f"a number from 0 to {known}, the lives of this agent that the model knows"
    fix = (
        "This life is of a model that was deleted, or newer than the backup that was restored. "
        "Draw a new life, join again, take the lives of the answer as its born, and send this "
        "upload, which was not merged, as its number 1."
    )
    return complaint("born", got=born, expected=expected, fix=fix)
