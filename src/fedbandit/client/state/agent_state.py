"""Everything that an agent has decided and learned, changed in one order, on record first."""

import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

import numpy as np

from fedbandit import wire
from fedbandit.client.delivery.refused_uploads import Aside
from fedbandit.client.state.decision_log import Book, closed
from fedbandit.client.state.directory import Identity, header
from fedbandit.client.state.learner import Learner
from fedbandit.client.state.outbox import Outbox
from fedbandit.client.state.records import Record
from fedbandit.client.status import Status
from fedbandit.core.checks import checked_reward, too_large
from fedbandit.core.kernels.linalg import Array, fits
from fedbandit.core.messages import Upload
from fedbandit.core.parts.choice import Policy
from fedbandit.core.recipe import Recipe
from fedbandit.errors import (
    InvalidArms,
    InvalidReward,
    OutputError,
    SettledDecision,
    complaint,
)

_log = logging.getLogger(__name__)

_LOOSE = 1.0 + 1e-10
"""An arm scaled to length 1 may be longer by rounding; the coordinator allows ten times as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How long to wait for rewards, in seconds, and what to take for those that never come.

    No ``wait``: for ever. No ``default``: a decision that was not paid in time teaches nothing.
    ``clock`` counts seconds and never goes back. The time when the agent is not running does not
    count; the time when it is adds up over its runs, if it has a state_dir.
    """

    wait: float | None = None
    default: float | None = 0.0
    clock: Callable[[], float] = time.monotonic

    @property
    def marked(self) -> float:
        """Seconds between two notes of the running time: a kill costs about as much waiting."""
        return 60.0 if self.wait is None else min(60.0, max(1.0, self.wait / 10.0))


class Account:
    """A learner and its book under one lock, the ledger's; any thread may call any method.

    Nothing is learned before it is on record, and in the same order, so that what a journal gives
    back is what was learned. Opening a decision needs no ledger: see ``Book``.
    """

    def __init__(
        self,
        who: Identity,
        learner: Learner,
        book: Book,
        aside: Aside,
        *,
        waiting: Waiting,
        limits: wire.Limits | None,
    ) -> None:
        self.who, self.book, self._aside = who, book, aside
        self._learner, self._waiting, self._limits = learner, waiting, limits
        self._ledger = Lock()
        self._rewards = self._defaults = 0
        self._shut = False

    @property
    def recipe(self) -> Recipe:
        """The model's recipe."""
        return self._learner.recipe

    @property
    def policy(self) -> Policy:
        """What to decide with now: a frozen value."""
        return self._learner.policy

    @property
    def fingerprint(self) -> str:
        """What names the recipe on the wire."""
        return self._learner.fingerprint

    @property
    def digest(self) -> str:
        """What names the download that was last received; nothing before the first."""
        return self._learner.digest

    @property
    def outbox(self) -> Outbox:
        """What is in flight and what waits, as of now."""
        return self._learner.outbox

    @property
    def is_shut(self) -> bool:
        """Whether no more rewards are taken."""
        return self._shut

    @property
    def undelivered(self) -> int:
        """How many observations, in flight, waiting or pending, are not known to be merged.

        Takes no lock: for when nothing changes any more, or when about right will do.
        """
        return self._learner.pending + self._learner.outbox.observations

    def status(
        self, *, uploads: int, bytes_up: int, bytes_down: int, trouble: str | None
    ) -> Status:
        """Count everything, at one instant; how delivering goes is told by who delivers."""
        with self._ledger:
            return Status(
                version=self._learner.version,
                open=self.book.open,
                pending=self._learner.pending,
                undelivered=self._learner.outbox.observations,
                decisions=self.book.decided,
                rewards=self._rewards,
                defaults=self._defaults,
                forgotten=self.book.forgotten,
                set_aside=self._aside.uploads,
                deleted=self._aside.deleted,
                saved=not self.book.broken,
                uploads=uploads,
                bytes_up=bytes_up,
                bytes_down=bytes_down,
                trouble=trouble,
            )

    def pay(self, name: str, value: float) -> bool:
        """Take in what a decision paid; say whether an upload is due because of it."""
        with self._ledger:
            if self._shut:
                raise closed()
            value = self._checked(value)
            arm = self.book.get(name).arm
            self.check_arm(arm)
            if not fits(arm, value):
                raise too_large(arm, value)
            self.book.pay(name, value)
            self._rewards += 1
            return self._learner.observe(arm, value)

    def flush(self) -> None:
        """Make everything pending due, whatever the trigger says."""
        with self._ledger:
            self._learner.flush()

    def settle_overdue(self) -> float | None:
        """Pay the default to decisions that have waited long enough; forget the deferred ones.

        And note the running time, which the others' waiting is counted by after a crash. Returns
        in how many seconds to do so again; None where decisions wait for ever.
        """
        wait = self._waiting.wait
        if wait is None:
            return None
        unnoted = self.book.mark_time(every=self._waiting.marked)
        with self._ledger:
            while (oldest := self.book.oldest()) is not None:
                name, decision = oldest
                left = decision.since + wait - self.book.ran
                if left > 0.0:
                    return min(left, unnoted)
                with suppress(SettledDecision):  # pushed out just now
                    self._give_up(name, decision.arm, active=decision.active)
        return min(wait, unnoted)

    def tidy(self) -> None:
        """Write the journal anew if it is mostly history, or if the disk failed."""
        if self.book.too_long or self.book.broken:
            with self._ledger:
                self.book.rewrite()

    def freeze(self) -> tuple[Outbox, bool]:
        """Put an upload in flight unless one is; return the outbox, and whether it is a new one.

        It is on the disk before this returns: its number never comes to mean another upload.
        """
        with self._ledger:
            outbox = self._learner.outbox
            if outbox.in_flight is not None or not outbox.waiting:
                return outbox, False
            frozen = outbox.frozen(self._learner.packed)
            self.book.learn(self._learner.saved(frozen))
            self._learner.outbox = frozen
            return frozen, True

    def acknowledge(self, answer: wire.Synced) -> None:
        """Let go of what was in flight and learn what the coordinator has merged."""
        with self._ledger:
            self._learner.acknowledge(answer)

    def catch_up(self, joined: wire.Joined) -> None:
        """Learn what was merged while the agent was away, and limits that have changed.

        What was observed before they were known has to keep them too, or it would be refused.
        """
        with self._ledger:
            self._learner.catch_up(joined)
            if self._limits == joined.limits:
                return
            self._learner.flush()
            outbox, misfits = self._learner.within(joined.limits)
            for upload in misfits:
                self._aside.put(upload)
            self._learner.outbox, self._limits = outbox, joined.limits
            self.book.rewrite()
        for upload in misfits:
            self._tell_of(upload, "it is beyond the coordinator's limits")

    def set_aside(self, why: str) -> None:
        """Go on without what is in flight, which will not ever be taken; it is kept apart."""
        with self._ledger:
            outbox = self._learner.outbox
            if outbox.in_flight is None:
                return
            self._aside.put(outbox.in_flight)
            self.book.learn(self._learner.saved(outbox.delivered()))
            self._learner.outbox = outbox.delivered()
        self._tell_of(outbox.in_flight, why)

    def begin_another_life(self, *, again: bool) -> None:
        """Go on under a new life; send ``again`` what was in flight only if surely not merged."""
        with self._ledger:
            before = self._learner.outbox
            fresh = before.reborn(os.urandom(wire.LIFE_BYTES), again=again)
            self.book.learn(self._learner.saved(fresh))
            self._learner.outbox = fresh
        lost = before.observations - fresh.observations
        what = "the coordinator has forgotten this life, or knows more of it than we do"
        _log.warning("%s: %s; %d observations may be lost", self.who, what, lost)

    def whole(self) -> Iterable[Record]:
        """Return the records that a journal begins with, for the book, which is asked in turn."""
        return header(self.who, self._learner.recipe, self._limits), self._learner.saved()

    def shut(self) -> bool:
        """Take no more rewards; say whether it did until now.

        A reward is either in before this returns, and so among what is delivered or saved, or its
        caller is told that the agent is closed.
        """
        with self._ledger:
            was_open, self._shut = not self._shut, True
            return was_open

    def close(self) -> None:
        """Leave a short journal behind; if that fails, the long one does as well."""
        with self._ledger:
            try:
                self.book.rewrite()
            except OutputError as error:
                _log.warning("%s: %s", self.who, error)
            self.book.close()

    def check_arm(self, arm: Array) -> None:
        """Raise InvalidArms for an arm that the coordinator would refuse."""
        if self._limits is not None and not self._fits(arm):
            expected = f"at most {self._limits.arm_norm}, says the coordinator"
            fix = "Scale the features, or make the model with a larger limit."
            got = f"length {float(np.linalg.norm(arm)):.3g}"
            raise InvalidArms(complaint("arm", got=got, expected=expected, fix=fix))

    def _give_up(self, name: str, arm: Array, *, active: bool) -> None:
        default = self._waiting.default
        if active and default is not None and self._fits(arm):
            self.book.pay(name, default)
            self._defaults += 1
            self._learner.observe(arm, default)
        else:
            self.book.forget(name)

    def _tell_of(self, upload: Upload, why: str) -> None:
        what = f"an upload of {upload.count} observations is set aside"
        _log.warning("%s: %s: %s", self.who, what, why)

    def _checked(self, value: float) -> float:
        value = checked_reward(value)
        if self._limits is not None and abs(value) > self._limits.reward:
            expected = f"at most {self._limits.reward} in size, says the coordinator"
            fix = "Scale rewards, or make the model with a larger limit."
            raise InvalidReward(complaint("reward", got=value, expected=expected, fix=fix))
        return value

    def _fits(self, arm: Array) -> bool:
        return self._limits is None or float(arm @ arm) <= _LOOSE * self._limits.arm_norm**2
