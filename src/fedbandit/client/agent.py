"""The agent on a device: decides by itself, remembers on its disk, delivers in the background."""

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
from fedbandit.client.delivery.background import Sender
from fedbandit.client.delivery.backoff import Backoff
from fedbandit.client.delivery.delivery import Courier
from fedbandit.client.state.agent_state import Account
from fedbandit.client.state.decision_log import closed
from fedbandit.client.state.directory import StateDir
from fedbandit.client.status import Status
from fedbandit.client.transport import Transport
from fedbandit.core.checks import checked_arms
from fedbandit.core.kernels.sparse import SparseArms, SparseLike
from fedbandit.core.parts.choice import Turn
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidParameter, OutputError, complaint

_log = logging.getLogger(__name__)

_GRACE = 0.2
"""Seconds that ``close`` gives the thread to end by itself once its time is up."""


class ConnectedAgent:
    """Decide, reward, sync, close; made by ``fedbandit.connect``. Any thread may call anything.

    Deciding uses a policy that is swapped whole, and holds a lock only to note the decision: it
    waits neither for the network nor for what is being learned.
    """

    def __init__(
        self,
        account: Account,
        transport: Transport,
        *,
        joined: bool,
        state_dir: StateDir | None,
    ) -> None:
        self._account, self._state_dir = account, state_dir
        self._courier = Courier(account, transport, joined=joined)
        self._sender = Sender(self._courier, Backoff(), name=f"fedbandit {account.who}")
        self._run, self._numbers = os.urandom(8).hex(), count(1)
        self._closed, self._ending = False, RLock()
        self._sender.start()
        if state_dir is None:
            finalize(self, _tell_what_is_left, account)  # at the program's end as well

    @property
    def recipe(self) -> Recipe:
        """The model's recipe; ``recipe.dimension`` is the length of an arm."""
        return self._account.recipe

    def decide(
        self, arms: ArrayLike | SparseLike, *, id: str | None = None, defer: bool = False
    ) -> Decision:
        """Choose one of the arms (K x d) and remember the decision until it is paid.

        ``id`` is one of the caller's own, not used before; one is made up otherwise. One that is
        open, or among the latest 4,096 that were settled, raises DuplicateDecision. ``defer``: the
        decision may never be put into effect, and counts only once it is activated or paid.
        """
        self._check_open()
        policy = self._account.policy
        number = next(self._numbers)
        given = checked_arms(arms, len(policy.theta))
        chosen = self.recipe.parts.choice(policy, given, Turn(0, number))
        shown = chosen.arms
        arm = np.array(shown[chosen.arm])
        self._account.check_arm(arm)
        name = f"{self._run}-{number}" if id is None else id
        self._account.book.decide(name, arm, active=not defer, chosen=id is not None)
        mean = shown.times(policy.theta) if isinstance(shown, SparseArms) else shown @ policy.theta
        bonus = policy.radius * np.sqrt(chosen.squared_widths)
        return Decision(name, chosen.arm, mean, bonus, chosen.probability)

    def activate(self, id: str) -> None:
        """Say that a deferred decision was put into effect; it waits for its reward from now on."""
        self._check_open()
        self._account.book.activate(id)

    def reward(self, id: str, value: float) -> None:
        """Say what a decision paid, once. When this returns, no crash of the process loses it.

        Raises SettledDecision for the latest 4,096 ids that were paid or given up, over restarts
        too if there is a state_dir, and UnknownDecision for any other that is not open. Raises
        OutputError if it cannot be written down: then nothing was counted; it may be given again.
        """
        self._check_open()
        due = self._account.pay(id, value)
        if due or self._account.book.too_long:
            self._sender.wake()

    def sync(self, *, everything: bool = False, timeout: float = 10.0) -> bool:
        """Deliver what is due and wait for the answer; say whether all was delivered in time.

        ``everything``: also what is pending, though the trigger has not fired.
        """
        self._check_open()
        self._account.settle_overdue()
        if everything:
            self._account.flush()
        return self._wait(_bounded(timeout))

    def status(self) -> Status:
        """Return how the agent is doing."""
        return self._account.status(
            uploads=self._courier.uploads,
            bytes_up=self._courier.bytes_up,
            bytes_down=self._courier.bytes_down,
            trouble=self._trouble(),
        )

    def close(self, *, flush: bool | None = None, timeout: float = 10.0) -> bool:
        """Deliver what can be delivered in ``timeout`` seconds, save the rest and stop.

        What is due is delivered in any case. ``flush`` says whether what is pending is delivered
        too, although the trigger has not fired: True, yes (do so when a device is retired); False,
        no; None, only where it would be lost otherwise, that is without a state_dir.

        Returns True if nothing is left but what stays pending in the state_dir because ``flush`` is
        not True. Returns False if anything else was not delivered: with a state_dir it is there for
        the next start, without one it is lost, and logged. And False if there was nothing to
        deliver, but the coordinator never answered when it was asked, at the start, what is new.
        A second call delivers nothing more, waits for the first one and returns how it stands.

        ``timeout`` is for all of it, but for 0.2 s of grace and for writing to the disk. A thread
        that still waits for an answer then is left behind; the journal is closed to it. An
        interrupt ends the waiting; everything is let go of all the same.
        """
        timeout = _bounded(timeout)
        everything = self._state_dir is None if flush is None else flush
        if self._ending.acquire(timeout=timeout):
            try:
                if self._account.shut():
                    self._closed = True
                    self._end(everything=everything, timeout=timeout)
            finally:
                self._ending.release()
        kept = self._state_dir is not None and flush is not True
        return not self._courier.due() and (kept or not self._account.undelivered)

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
        self._sender.wake(urgent=True)
        return self._sender.wait_until(lambda: not self._courier.due(), timeout)

    def _end(self, *, everything: bool, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        try:
            self._trying(self._account.settle_overdue)
            if everything:
                self._trying(self._account.flush)
            self._wait(timeout)
        finally:
            try:
                self._sender.stop(max(deadline - time.monotonic(), _GRACE))
            finally:
                self._let_go()

    def _trying(self, write: Callable[[], object]) -> None:
        """Write something down; where the disk fails, what was written before can still be sent."""
        try:
            write()
        except OutputError as error:
            _log.warning("%s: %s", self._account.who, error)

    def _let_go(self) -> None:
        self._account.close()
        if self._state_dir is not None:
            self._state_dir.close()
        elif lost := self._account.undelivered:
            _log.warning("%s: %d observations are lost", self._account.who, lost)

    def _trouble(self) -> str | None:
        if self._closed or self._sender.alive:
            return self._sender.trouble
        return "the thread that delivers has ended: connect again, and report why it did"

    def _check_open(self) -> None:
        if self._closed:
            raise closed()


def _bounded(timeout: float) -> float:
    """Return seconds that a thread can wait; raise InvalidParameter for what is none."""
    if not isinstance(timeout, int | float) or not 0.0 <= timeout < inf:
        fix, expected = "Give a number, such as 10.", "seconds, 0 or more"
        raise InvalidParameter(complaint("timeout", got=timeout, expected=expected, fix=fix))
    return min(timeout, TIMEOUT_MAX)


def _tell_what_is_left(account: Account) -> None:
    """Say that an agent in memory alone is gone without close, if it had anything to deliver.

    It may run while any thread holds any lock, so it takes none.
    """
    if not account.is_shut and (left := account.undelivered):
        how = "Call close() at the end, use `with`, or give it a state_dir."
        _log.warning("%s: never closed, %d observations not delivered. %s", account.who, left, how)
