"""The agent's state behind one lock; changes are written to the journal before they are applied."""

import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from fedbandit import wire
from fedbandit.client.state.decision_log import DecisionLog, closed
from fedbandit.client.state.directory import Identity, StateDir, header
from fedbandit.client.state.learner import Learner
from fedbandit.client.state.limits import (
    arm_fits,
    check_arm,
    check_observation,
    checked_reward_within,
)
from fedbandit.client.state.outbox import Outbox
from fedbandit.client.state.records import Record
from fedbandit.client.state.refused_uploads import RefusedUploads
from fedbandit.client.status import Status
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.messages import Upload
from fedbandit.core.parts.choice import Policy
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import RunningEstimates, RunningRewards
from fedbandit.errors import OutputError, SettledDecision
from fedbandit.offline.shadow import Shadow

_log = logging.getLogger(__name__)

TAUGHT = 1024
"""How many digests of past observations are remembered, the latest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many seconds to wait for a reward, and which reward to assume after that.

    ``wait`` None: for ever. ``default`` None: nothing is learned from a decision without a reward.
    ``clock`` counts seconds and never goes back. Only the time that the agent runs counts; with a
    state_dir it adds up over restarts.
    """

    wait: float | None = None
    default: float | None = 0.0
    clock: Callable[[], float] = time.monotonic

    @property
    def write_time_every(self) -> float:
        """Seconds between two records of the running time; a kill loses about as much of it."""
        return 60.0 if self.wait is None else min(60.0, max(1.0, self.wait / 10.0))


@dataclass(frozen=True, slots=True, eq=False)
class OutgoingSync:
    """The upload in flight as it is sent. ``new``: it was put in flight for this request."""

    sequence: int
    body: bytes
    new: bool


class AgentState:
    """The learner and the decision log, saved to ``state_dir`` if there is one. Thread-safe.

    ``caught_up``: it has the coordinator's state as of this start, or of the start of this life.
    ``chance``: what its draws follow from, drawn once for every state and kept with it.
    ``on_default`` is called with the id and the reward of a decision that got the default one,
    under the learning lock. ``shadow_sums`` says how shadow decisions compare, for the coordinator.

    The learning lock orders everything that is learned. Nothing is learned before it is written,
    and both happen in the same order, so that replaying the journal gives the same learner.
    Deciding does not take this lock: see ``DecisionLog``.
    """

    def __init__(
        self,
        who: Identity,
        learner: Learner,
        log: DecisionLog,
        refused: RefusedUploads,
        *,
        waiting: Waiting,
        limits: wire.Limits | None,
        caught_up: bool,
        state_dir: StateDir | None,
        chance: int = 0,
    ) -> None:
        self.who, self.log, self._refused = who, log, refused
        self.caught_up, self.state_dir, self.chance = caught_up, state_dir, chance
        self._learner, self._waiting, self._limits = learner, waiting, limits
        self._learning_lock = Lock()
        self._rewards = self._defaults = self._taught = 0
        self.on_default: Callable[[str, float], None] = lambda _name, _value: None
        self.shadow_sums: Callable[[], wire.ShadowSums | None] = lambda: None
        learner.learned, learner.estimated = RunningRewards(), RunningEstimates()  # from now on
        self._closing = False

    @property
    def recipe(self) -> Recipe:
        """The model's recipe."""
        return self._learner.recipe

    @property
    def policy(self) -> Policy:
        """What to decide with now: a frozen value."""
        return self._learner.policy

    @property
    def noise(self) -> float:
        """The deviation of rewards from what was learned of them; NaN if not known."""
        return self._learner.noise

    @property
    def cut(self) -> int:
        """How many uploads of the fleet had a correction that was cut."""
        return self._learner.cut

    @property
    def version(self) -> int:
        """The version of the download last received."""
        return self._learner.version

    @property
    def digest(self) -> str:
        """What names the download last received; empty before the first."""
        return self._learner.digest

    @property
    def outbox(self) -> Outbox:
        """The upload in flight and those that wait, as of now."""
        return self._learner.outbox

    @property
    def closing(self) -> bool:
        """Whether rewards are no longer taken."""
        return self._closing

    @property
    def undelivered(self) -> int:
        """How many observations, in flight, waiting or pending, are not acknowledged yet.

        Takes no lock, so it is exact only while nothing changes.
        """
        return self._learner.pending + self._learner.outbox.observations

    def status(
        self,
        *,
        uploads: int,
        bytes_up: int,
        bytes_down: int,
        trouble: str | None,
        retry_in: float | None,
        log_lost: int,
        shadow: Shadow,
    ) -> Status:
        """Return all counts at one instant; those of delivery and notes are passed in."""
        with self._learning_lock:
            learned, estimated = self._learner.learned.sums(), self._learner.estimated.sums()
            return Status(
                version=self._learner.version,
                open=self.log.open,
                pending=self._learner.pending,
                undelivered=self._learner.outbox.observations,
                decisions=self.log.decided,
                rewards=self._rewards,
                defaults=self._defaults,
                taught=self._taught,
                forgotten=self.log.forgotten,
                set_aside=self._refused.count,
                deleted=self._refused.deleted,
                saved=not self.log.broken,
                uploads=uploads,
                bytes_up=bytes_up,
                bytes_down=bytes_down,
                cut=self._learner.cut,
                learned=learned.count,
                reward_total=learned.total,
                estimate_total=estimated.total,
                squared_errors=estimated.errors,
                trouble=trouble,
                retry_in=retry_in,
                log_lost=log_lost,
                shadow=shadow,
            )

    def reward(self, name: str, value: float) -> bool:
        """Learn from a decision's reward; return whether an upload became due."""
        with self._learning_lock:
            return self._reward(name, value)

    def reward_at_once(self, name: str, value: float) -> bool | None:
        """Do what ``reward`` does; None, and nothing is done, if it would wait for anything."""
        if self.log.waits_for_disk or not self._learning_lock.acquire(blocking=False):
            return None
        try:
            return self._reward(name, value)
        finally:
            self._learning_lock.release()

    def _reward(self, name: str, value: float) -> bool:
        if self._closing:
            raise closed()
        limits, value = self._limits, checked_reward_within(value, self._limits)
        arm = self.log.reward(name, value, lambda arm: check_observation(arm, value, limits))
        self._rewards += 1
        return self._learner.observe(arm, value)

    def learn(self, arms: Array, rewards: Array, digest: str) -> tuple[int, bool]:
        """Learn from past observations, all or none; return how many, and whether to upload.

        What was learned under this digest before changes nothing. It is on the disk, together with
        the digest, before it counts.
        """
        with self._learning_lock:
            if self._closing:
                raise closed()
            if digest in self._learner.taught:
                return 0, False
            due, taught = False, self._learner.copy()
            for arm, value in zip(arms, rewards.tolist(), strict=True):
                checked_reward_within(value, self._limits)
                check_observation(arm, value, self._limits)
                due |= taught.observe(arm, value)
            taught.taught = (*taught.taught, digest)[-TAUGHT:]
            self.log.learn(taught.saved())
            self._learner = taught
            self._taught += len(arms)
            return len(arms), due

    def flush(self) -> None:
        """Put everything pending into an upload, whether the trigger has fired or not."""
        with self._learning_lock:
            self._learner.flush()

    def due(self) -> bool:
        """Return whether there is an upload to deliver, or the coordinator's state to fetch."""
        return not self.caught_up or not self._learner.outbox.empty

    def do_housekeeping(self) -> float | None:
        """Settle overdue decisions and shorten the journal; return in how many seconds again.

        None if decisions wait for ever.
        """
        pause = self.settle_overdue()
        self.rewrite_journal_if_needed()
        return pause

    def settle_overdue(self) -> float | None:
        """Give the default reward to decisions that waited too long; forget the deferred ones.

        Also writes the running time, by which waiting is counted after a crash. Returns in how many
        seconds to call this again; None if decisions wait for ever.
        """
        wait = self._waiting.wait
        if wait is None:
            return None
        until_written = self.log.write_running_time(every=self._waiting.write_time_every)
        with self._learning_lock:
            while (oldest := self.log.oldest()) is not None:
                name, decision = oldest
                left = decision.since + wait - self.log.running_time
                if left > 0.0:
                    return min(left, until_written)
                with suppress(SettledDecision):  # forgotten just now, to make room for another
                    self._settle_without_reward(name, decision.arm, active=decision.active)
        return min(wait, until_written)

    def rewrite_journal_if_needed(self) -> None:
        """Rewrite the journal if it is mostly history, or if writing to it failed."""
        if self.log.too_long or self.log.broken:
            with self._learning_lock:
                self.log.rewrite()

    def next_request(self) -> OutgoingSync | None:
        """Put an upload in flight unless one is, and return the request; None if none is due.

        An upload is on the disk before it is sent, so its number never means another upload.
        """
        encoded = None
        with self._learning_lock:
            outbox = self._learner.outbox
            new = outbox.in_flight is None and bool(outbox.waiting)
            if new:
                outbox = outbox.next_in_flight(self._learner.packed)
                encoded = self._replace_outbox(outbox)
        upload = outbox.in_flight
        if upload is None:
            return None
        fingerprint, born = self._learner.fingerprint, outbox.born or 0
        told = self.shadow_sums()
        sync = wire.Sync(fingerprint, outbox.life, outbox.sequence, upload, born, shadow=told)
        return OutgoingSync(sync.sequence, wire.encode_sync(sync, upload=encoded), new)

    def acknowledge(self, answer: wire.Synced) -> None:
        """Remove the upload in flight and learn from the download in the answer."""
        with self._learning_lock:
            self._learner.acknowledge(answer)

    def catch_up(self, answer: wire.Joined) -> None:
        """Learn what was merged while the agent was away, and limits that have changed.

        Observations from before the limits were known have to keep them too, or they are refused.
        """
        with self._learning_lock:
            self._learner.catch_up(answer)
            beyond = [] if self._limits == answer.limits else self._take_limits(answer.limits)
            self.caught_up = True
        for upload in beyond:
            self._warn_of_refused(upload, "it is beyond the coordinator's limits")

    def set_aside(self, why: str) -> None:
        """Go on without the upload in flight, which the coordinator refused for its content."""
        with self._learning_lock:
            upload = self._learner.outbox.in_flight
            if upload is None:
                return
            self._refused.add(upload)
            self._replace_outbox(self._learner.outbox.delivered())
        self._warn_of_refused(upload, why)

    def begin_another_life(self, *, again: bool) -> None:
        """Go on under a new life; ``again``: send what was in flight, which was not merged."""
        with self._learning_lock:
            before = self._learner.outbox
            after = before.under_new_life(os.urandom(wire.LIFE_BYTES), again=again)
            self._replace_outbox(after)
            self.caught_up = False
        lost = before.observations - after.observations
        why = "the coordinator has forgotten this life, or knows more of it than we do"
        _log.warning("%s: %s; %d observations may be lost", self.who, why, lost)

    def snapshot(self) -> Iterable[Record]:
        """Return the records that a journal begins with. Called under the learning lock."""
        head = header(self.who, self._learner.recipe, self._limits, self.chance)
        return head, self._learner.saved()

    def begin_closing(self) -> bool:
        """Take no more rewards; return whether rewards were taken until now.

        A reward is either counted before this returns, so that it is delivered or saved, or its
        caller gets Closed.
        """
        with self._learning_lock:
            first, self._closing = not self._closing, True
            return first

    def close(self) -> None:
        """Rewrite the journal, or leave the long one if that fails; close it and the state_dir."""
        with self._learning_lock:
            try:
                self.log.rewrite()
            except OutputError as error:
                _log.warning("%s: %s", self.who, error)
            self.log.close()
        if self.state_dir is not None:
            self.state_dir.close()

    def check_arm(self, arm: Array) -> None:
        """Raise InvalidArms for an arm that the coordinator would refuse."""
        check_arm(arm, self._limits)

    def _settle_without_reward(self, name: str, arm: Array, *, active: bool) -> None:
        default = self._waiting.default
        if active and default is not None and arm_fits(arm, self._limits):
            self.log.reward(name, default)
            self._defaults += 1
            self._learner.observe(arm, default)
            self.on_default(name, default)
        else:
            self.log.forget(name)

    def _take_limits(self, limits: wire.Limits) -> list[Upload]:
        """Change the limits; return the uploads that are beyond them, kept as refused."""
        self._learner.flush()
        outbox, beyond = self._learner.within(limits)
        for upload in beyond:
            self._refused.add(upload)
        self._learner.outbox, self._limits = outbox, limits
        self.log.rewrite()
        return beyond

    def _replace_outbox(self, outbox: Outbox) -> bytes | None:
        """Change the outbox, on the disk first; return the upload in flight, encoded."""
        learned = self._learner.saved(outbox)
        self.log.learn(learned)
        self._learner.outbox = outbox
        return learned.in_flight

    def _warn_of_refused(self, upload: Upload, why: str) -> None:
        what = f"an upload of {upload.count} observations is set aside"
        _log.warning("%s: %s: %s", self.who, what, why)
