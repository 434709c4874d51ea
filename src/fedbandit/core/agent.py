"""The agent: chooses arms, learns from their rewards, and decides when to upload."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedbandit.core.checks import (
    checked_arms,
    checked_batch,
    checked_reward,
    checked_rewards,
    too_large,
    wrong_kind,
)
from fedbandit.core.kernels.linalg import Array, fits
from fedbandit.core.kernels.sparse import SparseLike
from fedbandit.core.kernels.ucb import Integers
from fedbandit.core.memory.contract import Pending, Reading
from fedbandit.core.messages import Collect, Download, Message, Upload
from fedbandit.core.parts.choice import Policy
from fedbandit.core.parts.last_choice import LastChoice
from fedbandit.core.parts.radius import Evidence
from fedbandit.core.playing import Stretch, play_drawn, play_tape, plays_tapes
from fedbandit.core.saved import (
    BASE,
    State,
    array,
    check_owner,
    estimates,
    estimates_entry,
    integer,
    part,
    rewards,
    rewards_entry,
    statistics_entries,
    statistics_in,
    under,
)
from fedbandit.core.statistics import Base, RunningEstimates, RunningRewards, Statistics
from fedbandit.core.weights import noise_of
from fedbandit.errors import NothingLearned, OutOfOrder

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe


class Agent:
    """One agent of a recipe, built with ``recipe.agent(i)``: choose, observe, receive.

    ::

        arm = agent.choose(arms)              # arms: K x d
        upload = agent.observe(arm, reward)   # None, or an Upload for the server
        if upload is not None:
            for directed in server.receive(upload):
                agents[directed.agent].receive(directed.message)

    An agent does no I/O: its caller carries messages. What it knows is a *base*, its last download,
    and *pending* observations, which it has not uploaded yet. Agents of FSCLB and FedLinUCB decide
    with the base alone, and may receive downloads at any later time. Agents of the other recipes
    decide on all their own data as well; their base includes what they uploaded, and they need
    downloads in order and before their next upload.
    """

    def __init__(self, recipe: Recipe, index: int) -> None:
        self._recipe, self._parts, self._dimension = recipe, recipe.parts, recipe.dimension
        self._choose, self._learns = recipe.parts.choice.choose, recipe.parts.choice.learns
        self._plays_tapes = plays_tapes(recipe.parts)
        self._threshold = recipe.parts.trigger.threshold(0)  # the same for all counts if so
        self.index, self._decisions, self._last = index, 0, LastChoice()
        self._rewards, self._estimates = RunningRewards(), RunningEstimates()  # of what is pending
        self._pending: Pending | None = None  # until there is an observation
        self._unanswered = 0  # uploads before the first download that were not kept
        self._adopt(self._parts.memory.empty(), version=0)

    def __repr__(self) -> str:
        name, version, pending = self._recipe.label, self._version, self.pending
        return f"<Agent {self.index} of {name}: version {version}, {pending} pending>"

    @property
    def version(self) -> int:
        """The version of the last download that it received; 0 before the first."""
        return self._version

    @property
    def cut(self) -> int:
        """How many uploads in its base had a correction that was cut (``Statistics.cut``)."""
        return self._base.statistics.cut

    @property
    def noise(self) -> float:
        """The deviation of rewards from what its base explains of them; NaN if not known."""
        return noise_of(self._base)

    @property
    def theta(self) -> Array:
        """A copy of the estimate of theta* that it decides with (d)."""
        return self._policy.theta.copy()

    @property
    def policy(self) -> Policy:
        """What it decides with now: the matrix V, theta and the radius.

        For agents that decide with their last download this is a frozen value, which other threads
        may use.
        """
        return self._policy

    @property
    def pending(self) -> int:
        """Number of observations that are not in an upload yet."""
        return 0 if self._pending is None else self._pending.count

    @property
    def probability(self) -> float | None:
        """The probability with which the last ``choose`` chose its arm; None if not known.

        Thompson sampling estimates it now, by draws, if nothing was learned since.
        """
        return self._last.probability(self._parts.choice, self._policy, self.index)

    def choose(self, arms: ArrayLike | SparseLike) -> int:
        """Return the index of the arm to play (paper, Alg. 1 line 3: UCB; ``Random`` draws one).

        ``arms`` is K x d with K >= 1, one row of features per arm; K may differ every time. A
        sparse matrix of scipy is accepted too, at a cost that grows with its entries. Cost O(K l d)
        with a sketch, O(K d^2) with a matrix. Raises InvalidArms, and changes nothing, for arms of
        the wrong shape or that are not finite.
        """
        given, policy, last = checked_arms(arms, self._dimension), self._policy, self._last
        chosen = self._choose(policy, given, self.index, self._decisions, last.chosen)
        last.chosen, last.policy, last.number = chosen, policy, self._decisions
        self._decisions += 1
        return chosen.arm

    def choose_many(self, arms: ArrayLike) -> NDArray[np.int64]:
        """Return the indices of the arms to play for B decisions, each as ``choose`` would.

        ``arms`` is B x K x d. One matrix product serves all decisions, which is faster than B calls
        of ``choose``. Report rewards with the arm's features: ``observe(arms[b, k], reward)``.
        """
        batch = checked_batch(arms, self._dimension)
        chosen = self._parts.choice.choose_many(self._policy, batch, self.index, self._decisions)
        self._decisions += len(batch)
        return chosen

    def observe(
        self,
        arm: int | ArrayLike,
        reward: float,
        *,
        pack: bool = True,
        estimate: float | None = None,
    ) -> Upload | None:
        """Learn the reward of a played arm; return an upload if one is due (Alg. 1 lines 5-20).

        ``arm`` is an index into the arms of the last ``choose``, or the d features of the arm, for
        rewards that arrive after later decisions. The observations in a returned upload are no
        longer pending: the caller must deliver it to the server, exactly once. With ``pack=False``
        it is in full precision, so that it can be ``combined``; call ``packed`` before sending.
        ``estimate``: what the reward was estimated to be; the upload tells the sums of those, if
        all were given (``Statistics.estimates``).
        Raises, and changes nothing, for an arm or a reward that is not valid.
        """
        reward = checked_reward(reward)
        x, squared_width = self._last.played(arm, self._policy, self._dimension)
        if not self._learns:
            if not fits(x, reward):
                raise too_large(x, reward)
            return None
        parts, pending = self._parts, self._pending
        if pending is None:
            pending = self._start_pending()
        if not pending.absorb(x, squared_width, reward):
            raise too_large(x, reward)
        self._rewards.add(reward)
        if estimate is not None:
            self._estimates.add(estimate, reward)
        if parts.own_data:
            self._decide_on_own_data(pending)
        if pending.growth_exceeds(parts.trigger.threshold(pending.count)):
            if not (self._version or parts.own_data):
                self._count_unanswered()
            return self._upload(pack=pack)
        return None

    def play(self, arms: ArrayLike, rewards: ArrayLike) -> Stretch:
        """Choose and observe round after round, until an upload is due or all rounds are played.

        ``arms`` is B x K x d, and ``rewards`` (B x K) has what every arm would pay: for simulations
        and replays. Does what ``choose`` and ``observe`` do, to the last bit; agents that decide
        with their last download do it in one compiled loop. Raises as they do for a bad round.
        """
        batch = checked_batch(arms, self._dimension)
        paid = checked_rewards(rewards, batch.shape[:2])
        chosen, upload, at = np.empty(len(batch), np.int64), None, 0
        rest, pause = 0, 0  # rounds to play one by one: a sketch that is full may shed at each
        while at < len(batch) and upload is None:
            quiet = 0 if rest else self._play_quietly(batch[at:], paid[at:], chosen[at:])
            if not quiet:
                rest, pause = (rest - 1, pause) if rest else (pause, 2 * pause + 1)
                arm = self.choose(batch[at])
                chosen[at], upload = arm, self.observe(arm, float(paid[at, arm]))
            elif self._pending is not None and self._pending.growth_exceeds(self._threshold):
                upload = self._upload(pack=True)
            at += quiet or 1
        return Stretch(chosen[:at], upload)

    def _play_quietly(self, arms: Array, rewards: Array, chosen: Integers) -> int:
        """Play rounds that need no exact growth and shed nothing; return how many, maybe 0."""
        policy, played = self._policy, 0
        if not self._learns:
            choice, number = self._parts.choice, self._decisions
            played = play_drawn(choice, policy, arms, rewards, chosen, self.index, number)
        elif self._plays_tapes:
            pending, limit = self._pending or self._start_pending(), self._threshold
            last = self._last
            played, shown = play_tape(policy, pending, arms, rewards, limit, chosen, last.chosen)
            if played:
                last.chosen, last.policy = shown, policy
                self._rewards.add_chosen(rewards, chosen, played)
        self._decisions += played
        return played

    def receive(self, message: Message) -> Upload | None:
        """Take a message from the server; return an upload if it was a ``Collect``.

        A download that is not newer than the agent's is ignored.
        """
        if isinstance(message, Collect):
            return self.collect()
        if not isinstance(message, Download):
            fix = "Pass it the messages that Server.receive returned for this agent."
            raise wrong_kind(f"agent {self.index}", message, "a Download or a Collect", fix)
        memory = self._parts.memory
        memory.check(message.statistics)
        if message.version > self._version:
            self._adopt(memory.opened(message.statistics), version=message.version)
            self._rebase_pending()
            if self._parts.own_data:
                self._decide_on_own_data(self._pending or self._start_pending())
        return None

    def collect(self, *, pack: bool = True) -> Upload:
        """Return everything pending as an upload, due or not; ``pack`` as in ``observe``."""
        return self._upload(pack=pack)

    def keep(self, upload: Upload) -> None:
        """Decide with an undelivered upload of its own too, until the next download.

        An agent that decides with its last download does not use what it has uploaded until the
        server answers. While there is no connection, ``keep`` merges the upload into the base, as
        if the server had merged this upload alone. The next download replaces the base: call
        ``keep`` again for every upload that is not in it. Agents that decide on their own data use
        their uploads anyway; for them this raises OutOfOrder.
        """
        if self._parts.own_data:
            raise OutOfOrder(
                f"keep: agent {self.index} decides on its own data, so it already uses what it has "
                "uploaded. Do not call keep for it."
            )
        self._check_own(upload, "keep")
        self._unanswered = 0
        base = self._base
        merged = self._parts.memory.merged(base.statistics, [upload.statistics], base.reference)
        self._adopt(merged, version=self._version)
        self._rebase_pending()

    def combined(self, first: Upload, second: Upload) -> Upload:
        """Return one upload that replaces two undelivered ones of this agent.

        It is in full precision, so that it can be combined again; call ``packed`` before sending.
        """
        for upload in (first, second):
            self._check_own(upload, "combined")
        memory, reference = self._parts.memory, self._base.reference
        ours = memory.opened(first.statistics)
        return Upload(self.index, memory.merged(ours, [second.statistics], reference))

    def packed(self, upload: Upload) -> Upload:
        """Return an upload of this agent rounded for sending, if it is not rounded already."""
        self._check_own(upload, "packed")
        sent = self._parts.memory.uploaded(upload.statistics, self._base)
        return Upload(self.index, sent)

    def state(self) -> State:
        """Return the agent as a flat dictionary of arrays and scalars, fit for ``numpy.savez``."""
        state: State = {
            "recipe": self._recipe.identity,
            "index": self.index,
            "decisions": self._decisions,
            "version": self._version,
            "rewards": rewards_entry(self._rewards.sums()),
        }
        state |= self._last.state(self._policy, self._dimension)
        state |= statistics_entries(self._base.statistics, self._parts.memory, BASE)
        if (told := self._estimates.sums()).count:
            state["estimates"] = estimates_entry(told)
        pending = self._pending or self._parts.memory.pending(self._base)
        return state | under("pending", pending.state())

    @classmethod
    def restore(cls, recipe: Recipe, state: Mapping[str, Any]) -> Agent:
        """Return the agent that ``state()`` saved; it continues with the same bits.

        Raises InvalidState if the state is damaged or was saved with another recipe.
        """
        check_owner(state, recipe)
        agent, d = recipe.agent(integer(state, "index")), recipe.dimension
        base = statistics_in(state, agent._parts.memory, d, BASE)
        agent._adopt(base, version=integer(state, "version"))
        pending = agent._start_pending()
        pending.restore(part(state, "pending"))
        agent._rewards = RunningRewards(rewards(state, "rewards", most=agent.pending))
        agent._estimates = RunningEstimates(estimates(state, "estimates", most=agent.pending))
        agent._decisions = integer(state, "decisions")
        if agent._parts.own_data:
            agent._decide_on_own_data(pending)
        shown, widths = array(state, "shown", None, d), array(state, "widths", None)
        agent._last.restore(shown, widths, agent._policy)
        return agent

    def _count_unanswered(self) -> None:
        """Warn, once, if a second upload is due and no download has ever come."""
        self._unanswered += 1
        if self._unanswered == 2:
            warnings.warn(
                f"Agent {self.index} uploads for the second time and has received no download, so "
                "it has learned nothing. Pass each upload to server.receive and the answers to "
                "agent.receive; on one machine, use fedbandit.Learner, which does that.",
                NothingLearned,
                stacklevel=3,
            )

    def _check_own(self, upload: object, who: str) -> None:
        if not isinstance(upload, Upload) or upload.agent != self.index:
            fix = "Pass it an upload that this agent's observe returned."
            raise wrong_kind(f"{who}, agent {self.index}", upload, "an Upload of its own", fix)
        self._parts.memory.check(upload.statistics)

    def _adopt(self, statistics: Statistics, *, version: int) -> None:
        """Replace the base, and decide with the new one."""
        self._base, self._version = Base(statistics, self._parts.memory), version
        moment, count, sums = statistics.moment, statistics.count, statistics.rewards
        self._decide_with(self._base.reading, Evidence(self._base.theta, moment, count, sums))

    def _decide_on_own_data(self, pending: Pending) -> None:
        base, reading = self._base.statistics, pending.reading()
        moment, count = base.moment + pending.moment, base.count + pending.count
        sums = base.rewards.plus(self._rewards.sums())
        self._decide_with(reading, Evidence(reading.estimate(moment), moment, count, sums))

    def _decide_with(self, reading: Reading, evidence: Evidence) -> None:
        self._policy = Policy(reading, evidence.theta, self._parts.radius(reading, evidence))

    def _start_pending(self) -> Pending:
        self._pending = pending = self._parts.memory.pending(self._base)
        return pending

    def _rebase_pending(self) -> None:
        """Move the pending observations on top of a new base."""
        pending = self._pending
        self._pending = pending.over(self._base) if pending is not None and pending.count else None

    def _upload(self, *, pack: bool) -> Upload:
        """Return the pending observations as an upload, and start again with none pending.

        Agents that decide on their own data add the upload to their base.
        """
        memory, base = self._parts.memory, self._base
        pending = self._pending or self._start_pending()
        summary = pending.summary()  # before the moment is read: shedding may correct it
        pending.moment.setflags(write=False)  # spares a copy of it
        sums = self._rewards.sums(), 0, self._estimates.sums()
        observed = Statistics(summary, pending.moment, pending.count, *sums)
        if pack or memory.combines_rounded:
            observed = memory.uploaded(observed, base, pending.carried)
        elif pending.carried is not None:
            observed = replace(observed, moment=pending.moment - pending.carried)
        upload = Upload(self.index, observed)
        if self._parts.own_data:
            merged = memory.merged(base.statistics, [upload.statistics], None)
            self._adopt(merged, version=self._version)
        self._pending = None
        self._rewards, self._estimates = RunningRewards(), RunningEstimates()
        return upload
