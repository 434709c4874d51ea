"""The agent on a device: decides locally, saves to its disk, delivers in the background."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from math import inf
from threading import TIMEOUT_MAX, RLock
from types import TracebackType
from typing import Any, Self
from weakref import finalize

import numpy as np
from numpy.typing import ArrayLike

from fedbandit.client.decisions import Basis, Decision, Place, places_of
from fedbandit.client.delivery.background import BackgroundThread
from fedbandit.client.delivery.delivery import Delivery
from fedbandit.client.explaining import Explanation, explain
from fedbandit.client.notes import Notes, baseline_of
from fedbandit.client.past import past_observations
from fedbandit.client.slate import Pick, offered_of, picks, with_all_arms
from fedbandit.client.state.agent_state import AgentState
from fedbandit.client.state.decision_log import closed
from fedbandit.client.status import Status
from fedbandit.client.transport import Transport
from fedbandit.core.checks import checked_arms, whole
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.kernels.sparse import SparseArms, SparseLike
from fedbandit.core.recipe import Recipe
from fedbandit.core.weights import Weight, weights_of
from fedbandit.errors import InvalidParameter, OutputError, complaint
from fedbandit.features.encoder import Encoded, Encoder
from fedbandit.logs.writer import LogWriter

_log = logging.getLogger(__name__)

_GRACE = 0.2
"""Seconds that ``close`` waits for the thread to end after its timeout."""


class ConnectedAgent:
    """Decide, reward, sync, close; made by ``fedbandit.connect``. Thread-safe.

    ``encoder`` makes arms of named features, and has seen those of all decisions.

    Deciding reads a frozen policy and holds a lock only to record the decision: it waits neither
    for the network nor for what is being learned.
    """

    def __init__(
        self, state: AgentState, transport: Transport, log: LogWriter | None = None
    ) -> None:
        self._state, self._notes = state, Notes(log)
        state.on_default = self._notes.defaulted
        state.shadow_sums = self._notes.shadow_sums
        self._delivery = Delivery(state, transport)
        self._background = BackgroundThread(self._delivery, name=f"fedbandit {state.who}")
        self._run, self._numbers = os.urandom(8).hex(), count(state.log.number + 1)
        self._rule, self._dimension = state.recipe.parts.choice, state.recipe.dimension
        self.encoder = Encoder(state.recipe.parts.features, state.recipe.dimension)
        self._closed, self._ending = False, RLock()
        self._background.start()
        if state.state_dir is None:
            finalize(self, _warn_if_never_closed, state)  # also when the program ends

    @property
    def recipe(self) -> Recipe:
        """The model's recipe; ``recipe.dimension`` is the length of an arm."""
        return self._state.recipe

    @property
    def theta(self) -> Array:
        """A copy of the estimate of theta* that it decides with now (d)."""
        return self._state.policy.theta.copy()

    def decide(
        self,
        arms: ArrayLike | SparseLike | Encoded | None = None,
        *,
        context: object = None,
        actions: object = None,
        exclude: Iterable[int | str] = (),
        top: int = 1,
        baseline: int | str | None = None,
        baseline_probability: float = 1.0,
        id: str | None = None,
        defer: bool = False,
    ) -> Decision:
        """Choose one of the arms (K x d) and remember the decision until it is rewarded.

        In place of arms: ``actions``, a list of dicts or a frame of pandas or polars with one
        action a row, and the ``context`` that they are chosen in, a dict or one row; ``"id"`` names
        an action (docs/features.md). ``exclude``: indices or ids of arms that must not be chosen.

        ``top``: fill as many places, the best first. ``Decision.places`` has an id for each: give a
        reward to those that were looked at. The places after the first are deferred.

        ``baseline``: shadow mode. The arm (its index, or the action's id) that your own rule takes
        is what happens; the agent learns from its reward, and ``Decision.preferred`` is what it
        would have done. ``status().shadow`` compares the two. ``baseline_probability``: that with
        which your rule took it, if it leaves something to chance.

        ``id`` is chosen by the caller, or made up if left out. One that is open, or among the
        latest 4,096 that were settled, raises DuplicateDecision. ``defer``: the decision may never
        be put into effect, and counts only once it is activated or rewarded.
        """
        self._check_open()
        given, encoded = self._read(arms, context, actions)
        ids = (None,) * len(given) if encoded is None else encoded.ids
        offered = offered_of(len(given), ids, exclude)
        shadow = baseline_of(baseline, baseline_probability, ids, offered)
        many = 1 if top == 1 else whole("top", top, least=1, most=None if shadow is None else 1)
        state, rule = self._state, self._rule
        policy, chance, number = state.policy, state.chance, self._numbers.__next__
        made, chosen = picks(
            rule, policy, given, chance=chance, number=number, offered=offered, top=many
        )
        if len(made[0].offered) < len(given):
            chosen = with_all_arms(policy, given, made[0].index)
        name = f"{self._run}-{made[0].number}" if id is None else id
        places = places_of(name, made, ids)
        if shadow is not None:
            places = (Place(name, shadow.index, shadow.probability, ids[shadow.index]),)
        self._record(places, made, chosen.arms, active=not defer, named=id is not None)
        first, basis = places[0], Basis(policy, rule, chance, made, chosen, encoded)
        own = None if shadow is None else made[0].index
        decision = Decision(name, first.index, first.probability, first.action, places, own, basis)
        self._notes.decided(decision, active=not defer, baseline=shadow, version=state.version)
        return decision

    def _read(
        self, arms: ArrayLike | SparseLike | Encoded | None, context: object, actions: object
    ) -> tuple[Array | SparseArms, Encoded | None]:
        """Return the arms, and the names behind them if actions were given."""
        if arms is None and actions is not None:
            arms = self.encoder.encode(context, actions)
        elif arms is None or actions is not None or context is not None:
            got = "neither" if arms is None else "arms, and actions or a context"
            fix = "Give arms alone, or actions with or without a context."
            raise InvalidParameter(
                complaint("decide", got=got, expected="arms, or actions by name", fix=fix)
            )
        encoded = arms if isinstance(arms, Encoded) else None
        numbers = arms.arms if isinstance(arms, Encoded) else arms
        return checked_arms(numbers, self._dimension), encoded

    def _record(
        self, places: Sequence[Place], made: Sequence[Pick], arms: Any, *, active: bool, named: bool
    ) -> None:
        """Write the places to the journal, the last one first: its id is the longest."""
        played = [np.array(arms[place.index]) for place in places]
        for arm in played:
            self._state.check_arm(arm)
        for k in reversed(range(len(places))):
            self._state.log.decide(
                places[k].id,
                played[k],
                active=active and k == 0,
                chosen=named,
                number=made[k].number,
            )

    def explain(self, decision: Decision) -> Explanation:
        """Return why a decision is what it is; print it for a text.

        What each feature adds to the score, what is added for the unknown, the runner-up, and what
        it would need to win. By name where features were given by name.
        """
        return explain(decision)

    def weights(self) -> list[Weight]:
        """Return what was learned, by name, the largest weights first, with intervals.

        Of the features, and pairs of features, that this agent has seen by name; of coordinates if
        there were none.
        """
        policy, terms = self._state.policy, self.encoder.terms()
        return weights_of(
            policy.reading,
            policy.theta,
            ridge=self.recipe.parts.memory.ridge,
            noise=self._state.noise,
            radius=policy.radius,
            terms=terms or None,
        )

    def activate(self, id: str) -> None:
        """Put a deferred decision into effect; it waits for its reward from now on."""
        self._check_open()
        self._state.log.activate(id)
        self._notes.activated(id)

    def reward(self, id: str, value: float) -> None:
        """Give a decision its reward, once. With a state_dir it then survives a crash.

        Raises SettledDecision for the latest 4,096 ids that were rewarded or given up (after
        restarts too if there is a state_dir), and UnknownDecision for any other that is not open.
        Raises OutputError if it cannot be written: nothing was counted, and it may be given again.
        """
        self._check_open()
        self._rewarded(id, value, due=self._state.reward(id, value))

    def reward_at_once(self, id: str, value: float) -> bool:
        """Do what ``reward`` does if that waits for nothing; return whether it was done.

        For event loops. It would wait for the disk with ``durability="machine"``, and for another
        thread that learns or saves just now.
        """
        self._check_open()
        due = self._state.reward_at_once(id, value)
        if due is not None:
            self._rewarded(id, value, due=due)
        return due is not None

    def _rewarded(self, id: str, value: float, *, due: bool) -> None:
        self._notes.rewarded(id, float(value))
        if due or self._state.log.too_long:
            self._background.wake()

    def learn(self, arms: ArrayLike | SparseLike, rewards: ArrayLike) -> int:
        """Learn from past observations: arms that were played (n x d) and their rewards (n).

        They become part of uploads like any other. Returns how many were learned: all, or 0 if the
        same arms and rewards were given before (also before a restart, if there is a state_dir).
        Raises, and learns nothing, if one of them is not valid.
        """
        self._check_open()
        played, paid, digest = past_observations(arms, rewards, self.recipe.dimension)
        learned, due = self._state.learn(played, paid, digest)
        if due:
            self._background.wake()
        return learned

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
            log_lost=self._notes.lost,
            shadow=self._notes.shadow,
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
        self._notes.close()  # first: who waits for the state_dir wants the log next
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
