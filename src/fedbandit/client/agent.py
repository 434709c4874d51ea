"""The agent on a device: decides locally, saves to its disk, delivers in the background."""

import logging
import os
import time
from collections.abc import Callable
from itertools import count
from math import inf
from threading import TIMEOUT_MAX, RLock
from types import TracebackType
from typing import Self
from weakref import finalize

import numpy as np
from numpy.typing import ArrayLike

from fedbandit.client.decisions import Decision
from fedbandit.client.delivery.background import BackgroundThread
from fedbandit.client.delivery.delivery import Delivery
from fedbandit.client.state.agent_state import AgentState
from fedbandit.client.state.decision_log import closed
from fedbandit.client.status import Status
from fedbandit.client.transport import Transport
from fedbandit.core.checks import checked_arms
from fedbandit.core.kernels.sparse import SparseArms, SparseLike
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidParameter, OutputError, complaint

_log = logging.getLogger(__name__)

_GRACE = 0.2
"""Seconds that ``close`` waits for the thread to end after its timeout."""


class ConnectedAgent:
    """Decide, reward, sync, close; made by ``fedbandit.connect``. Thread-safe.

    Deciding reads a frozen policy and holds a lock only to record the decision: it waits neither
    for the network nor for what is being learned.
    """

    def __init__(self, state: AgentState, transport: Transport) -> None:
        self._state = state
        self._delivery = Delivery(state, transport)
        self._background = BackgroundThread(self._delivery, name=f"fedbandit {state.who}")
        self._run, self._numbers = os.urandom(8).hex(), count(state.log.number + 1)
        self._closed, self._ending = False, RLock()
        self._background.start()
        if state.state_dir is None:
            finalize(self, _warn_if_never_closed, state)  # also when the program ends

    @property
    def recipe(self) -> Recipe:
        """The model's recipe; ``recipe.dimension`` is the length of an arm."""
        return self._state.recipe

    def decide(
        self, arms: ArrayLike | SparseLike, *, id: str | None = None, defer: bool = False
    ) -> Decision:
        """Choose one of the arms (K x d) and remember the decision until it is rewarded.

        ``id`` is chosen by the caller, or made up if left out. One that is open, or among the
        latest 4,096 that were settled, raises DuplicateDecision. ``defer``: the decision may never
        be put into effect, and counts only once it is activated or rewarded.
        """
        self._check_open()
        policy = self._state.policy
        number = next(self._numbers)
        given = checked_arms(arms, len(policy.theta))
        rule, chance = self.recipe.parts.choice, self._state.chance
        chosen = rule.choose(policy, given, chance, number)
        probabilities = rule.probabilities(policy, chosen, chance, number)
        shown = chosen.arms
        arm = np.array(shown[chosen.arm])
        self._state.check_arm(arm)
        name = f"{self._run}-{number}" if id is None else id
        self._state.log.decide(name, arm, active=not defer, chosen=id is not None, number=number)
        mean = shown.times(policy.theta) if isinstance(shown, SparseArms) else shown @ policy.theta
        bonus = policy.radius * np.sqrt(chosen.squared_widths)
        return Decision(
            name,
            chosen.arm,
            mean,
            bonus,
            float(probabilities[chosen.arm]),
            probabilities,
            estimated=not rule.exact,
        )

    def activate(self, id: str) -> None:
        """Put a deferred decision into effect; it waits for its reward from now on."""
        self._check_open()
        self._state.log.activate(id)

    def reward(self, id: str, value: float) -> None:
        """Give a decision its reward, once. With a state_dir it then survives a crash.

        Raises SettledDecision for the latest 4,096 ids that were rewarded or given up (after
        restarts too if there is a state_dir), and UnknownDecision for any other that is not open.
        Raises OutputError if it cannot be written: nothing was counted, and it may be given again.
        """
        self._check_open()
        due = self._state.reward(id, value)
        if due or self._state.log.too_long:
            self._background.wake()

    def sync(self, *, everything: bool = False, timeout: float = 10.0) -> bool:
        """Deliver what is due and wait for the answer; return whether all was delivered in time.

        ``everything``: also what is pending because the trigger has not fired.
        """
        self._check_open()
        self._state.settle_overdue()
        if everything:
            self._state.flush()
        return self._wait(_bounded(timeout))

    def status(self) -> Status:
        """Return the agent's counts and its last trouble."""
        return self._state.status(
            uploads=self._delivery.uploads,
            bytes_up=self._delivery.bytes_up,
            bytes_down=self._delivery.bytes_down,
            trouble=self._trouble(),
            retry_in=self._background.retry_in,
        )

    def close(self, *, flush: bool | None = None, timeout: float = 10.0) -> bool:
        """Deliver what can be delivered in ``timeout`` seconds, save the rest and stop.

        What is due is delivered in any case. ``flush``: whether to deliver also what is pending
        because the trigger has not fired. True: yes (when a device is retired); False: no; None:
        only without a state_dir, since it would be lost.

        Returns True if everything was delivered, apart from what stays pending in the state_dir
        because ``flush`` is not True. Returns False if something else was not delivered: with a
        state_dir it is saved for the next start, without one it is lost, and logged. Also False if
        there was nothing to deliver but the coordinator never answered the request for its state
        at the start. A second call delivers nothing more, waits for the first one and returns how
        it stands.

        ``timeout`` covers all of it, apart from 0.2 s of grace and writing to the disk. A thread
        that still waits for an answer then is left behind and can no longer write to the journal.
        An interrupt ends the waiting; files and connections are closed all the same.
        """
        timeout = _bounded(timeout)
        everything = self._state.state_dir is None if flush is None else flush
        if self._ending.acquire(timeout=timeout):
            try:
                if self._state.begin_closing():
                    self._closed = True
                    self._end(everything=everything, timeout=timeout)
            finally:
                self._ending.release()
        kept = self._state.state_dir is not None and flush is not True
        return not self._delivery.due() and (kept or not self._state.undelivered)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _wait(self, timeout: float) -> bool:
        self._background.wake(urgent=True)
        return self._background.wait_until(lambda: not self._delivery.due(), timeout)

    def _end(self, *, everything: bool, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        try:
            self._log_if_disk_fails(self._state.settle_overdue)
            if everything:
                self._log_if_disk_fails(self._state.flush)
            self._wait(timeout)
        finally:
            try:
                self._background.stop(max(deadline - time.monotonic(), _GRACE))
            finally:
                self._release()

    def _log_if_disk_fails(self, write: Callable[[], object]) -> None:
        """Call ``write``; if the disk fails, what was written before can still be delivered."""
        try:
            write()
        except OutputError as error:
            _log.warning("%s: %s", self._state.who, error)

    def _release(self) -> None:
        self._state.close()
        if self._state.state_dir is None and (lost := self._state.undelivered):
            _log.warning("%s: %d observations are lost", self._state.who, lost)

    def _trouble(self) -> str | None:
        if self._closed or self._background.alive:
            return self._background.trouble
        return "The delivery thread has ended. Connect again, and report the error in the log."

    def _check_open(self) -> None:
        if self._closed:
            raise closed()


def _bounded(timeout: float) -> float:
    """Return a timeout that a thread can wait for; raise InvalidParameter unless it is one."""
    if not isinstance(timeout, int | float) or not 0.0 <= timeout < inf:
        fix, expected = "Give a number, such as 10.", "seconds, 0 or more"
        raise InvalidParameter(complaint("timeout", got=timeout, expected=expected, fix=fix))
    return min(timeout, TIMEOUT_MAX)


def _warn_if_never_closed(state: AgentState) -> None:
    """Warn that an agent without a state_dir is gone, not closed, with something to deliver.

    It may run while any thread holds any lock, so it takes none.
    """
    if not state.closing and (left := state.undelivered):
        how = "Call close() at the end, use `with`, or give it a state_dir."
        _log.warning("%s: never closed, %d observations not delivered. %s", state.who, left, how)
