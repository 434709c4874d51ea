"""The agent: chooses an arm, takes in what it paid, and says when it is time to talk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedbandit.core.checks import (
    checked_arm,
    checked_arms,
    checked_batch,
    checked_reward,
    too_large,
)
from fedbandit.core.kernels.linalg import Array, fits
from fedbandit.core.kernels.sparse import SparseArms, SparseLike
from fedbandit.core.memory.contract import Pending, Reading
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.messages import Collect, Download, Message, Upload
from fedbandit.core.parts.choice import Chosen, Policy
from fedbandit.core.saved import (
    State,
    array,
    check_owner,
    integer,
    part,
    rewards,
    rewards_entry,
    under,
)
from fedbandit.core.statistics import NO_REWARDS, Base, Rewards, Statistics
from fedbandit.errors import FedbanditError, InvalidArms, InvalidMessage, OutOfOrder, complaint

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe


class Agent:
    """Choose, observe, receive. Build it with ``recipe.agent(i)``.

    An agent holds a *base* (its last download, and for agents that decide on their own data also
    what they have sent since) and what is *pending* on top of it. It does no I/O: its caller
    carries the upload that ``observe`` may return to the server, and hands what the server answers
    to ``receive``: at any later time for agents that decide on their last download, in order and
    before the next upload for those that decide on their own data.
    """

    def __init__(self, recipe: Recipe, index: int) -> None:
        self._recipe, self._parts, self._dimension = recipe, recipe.parts, recipe.dimension
        self._choose, self._learns = recipe.parts.choice.choose, recipe.parts.choice.learns
        self.index = index
        self._decisions = 0
        self._rewards, self._reward_total, self._reward_squares = 0, 0.0, 0.0  # of what is pending
        self._chosen: Chosen | None = None
        self._chosen_with: Policy | None = None
        self._pending: Pending
        self._adopt(self._parts.memory.empty(), version=0)
        self._start_pending()

    def __repr__(self) -> str:
        name, version, pending = self._recipe.name, self._version, self.pending
        return f"<Agent {self.index} of {name}: version {version}, {pending} pending>"

    @property
    def version(self) -> int:
        """The server's version that it last received; 0 before the first."""
        return self._version

    @property
    def theta(self) -> Array:
        """A copy of the estimate that it decides with."""
        return self._policy.theta.copy()

    @property
    def policy(self) -> Policy:
        """What it decides with now.

        For agents that decide on their last download, a frozen value that any thread may use.
        """
        return self._policy

    @property
    def pending(self) -> int:
        """How many observations no upload has taken along yet."""
        return self._pending.count

    @property
    def probability(self) -> float | None:
        """The probability with which the last ``choose`` chose its arm; None before the first."""
        chosen = self._chosen
        return None if chosen is None or chosen.arm < 0 else chosen.probability

    def choose(self, arms: ArrayLike | SparseLike) -> int:
        """Return the arm to play, as the recipe's choice has it: UCB for all but ``Random``.

        ``arms`` is K x d, K >= 1; the answer is an index into it. A sparse matrix of scipy's costs
        by its entries.
        """
        given, policy = checked_arms(arms, self._dimension), self._policy
        chosen = self._choose(policy, given, self.index, self._decisions, self._chosen)
        self._chosen, self._chosen_with = chosen, policy
        self._decisions += 1
        return chosen.arm

    def choose_many(self, arms: ArrayLike) -> NDArray[np.int64]:
        """Return the arms to play for B decisions at once, each as ``choose`` would.

        ``arms`` is B x K x d. One product serves all, so a decision costs less than one at a time.
        Rewards come back by features: ``observe(arms[b, k], reward)``.
        """
        batch = checked_batch(arms, self._dimension)
        chosen = self._parts.choice.choose_many(self._policy, batch, self.index, self._decisions)
        self._decisions += len(batch)
        return chosen

    def observe(self, arm: int | ArrayLike, reward: float) -> Upload | None:
        """Take in what an arm paid; return an upload if it is time to talk (Alg. 1 lines 5-20).

        ``arm`` is an index into the arms of the last ``choose``, or the arm's own d features, for
        rewards that arrive after other decisions have been taken. What is returned is no longer
        pending: it must reach the server once.
        """
        reward = checked_reward(reward)
        x, squared_width = self._played(arm)
        parts, pending = self._parts, self._pending
        if not self._learns:
            if not fits(x, reward):
                raise too_large(x, reward)
            return None
        if not pending.absorb(x, squared_width, reward):
            raise too_large(x, reward)
        self._rewards += 1
        self._reward_total += reward
        self._reward_squares += reward * reward
        if parts.own_data:
            self._decide_on_own_data()
        if pending.growth_exceeds(parts.trigger.threshold(pending.count)):
            return self._upload()
        return None

    def receive(self, message: Message) -> Upload | None:
        """Take in what the server says; return an upload if it asked for one.

        A download older than what the agent holds is passed over.
        """
        if isinstance(message, Collect):
            return self._upload()
        if not isinstance(message, Download):
            raise InvalidMessage(
                complaint(
                    f"agent {self.index}",
                    got=f"a {type(message).__name__}",
                    expected="a Download or a Collect",
                    fix="Hand it the messages that Server.receive directs to this agent.",
                )
            )
        memory = self._parts.memory
        memory.check(message.statistics)
        if message.version > self._version:
            self._adopt(memory.opened(message.statistics), version=message.version)
            self._rebase_pending()
            if self._parts.own_data:
                self._decide_on_own_data()
        return None

    def keep(self, upload: Upload) -> None:
        """Decide on an own upload that has not reached the server, until the next download.

        An agent that decides on its last download forgets what it sends until the answer comes. One
        that is cut off need not: it goes on as if the server had merged this upload alone. The next
        download takes the place of everything; keep again what is not in it. An agent that decides
        on its own data holds the upload anyway, and must not keep it twice.
        """
        if self._parts.own_data:
            raise OutOfOrder(
                complaint(
                    f"keep, agent {self.index}",
                    got="an agent that decides on its own data",
                    expected="one that decides on its last download",
                    fix="Leave it out: the agent holds what it has sent.",
                )
            )
        self._check_own(upload, "keep")
        base = self._base
        merged = self._parts.memory.merged(base.statistics, [upload.statistics], base.reference)
        self._adopt(merged, version=self._version)
        self._rebase_pending()

    def combined(self, first: Upload, second: Upload) -> Upload:
        """Return one upload in the place of two own ones that have not reached the server.

        It is in full precision, so that it may be combined again; it is ``packed`` before it goes.
        """
        for upload in (first, second):
            self._check_own(upload, "combined")
        memory, reference = self._parts.memory, self._base.reference
        ours = memory.opened(first.statistics)
        return Upload(self.index, memory.merged(ours, [second.statistics], reference))

    def packed(self, upload: Upload) -> Upload:
        """Return an own upload as it travels: what ``combined`` returned has yet to be rounded."""
        self._check_own(upload, "packed")
        if isinstance(upload.summary, Narrow):
            return upload
        sent = self._parts.memory.uploaded(upload.statistics, self._base.reference)
        return Upload(self.index, sent)

    def state(self) -> State:
        """Return everything as a flat dictionary of plain arrays and scalars (no pickle needed)."""
        base, chosen = self._base.statistics, self._chosen
        shown = np.empty((0, self._dimension)) if chosen is None else chosen.arms
        current = chosen is not None and self._chosen_with is self._policy
        state: State = {
            "recipe": self._recipe.identity,
            "index": self.index,
            "decisions": self._decisions,
            "version": self._version,
            "shown": shown.dense() if isinstance(shown, SparseArms) else np.array(shown),
            "widths": chosen.squared_widths.copy() if chosen and current else np.zeros(0),
            "base_moment": base.moment.copy(),
            "base_count": base.count,
            "base_rewards": rewards_entry(base.rewards),
            "rewards": rewards_entry(self._pending_rewards()),
        }
        state |= under("base", self._parts.memory.pack(base.summary))
        return state | under("pending", self._pending.state())

    @classmethod
    def restore(cls, recipe: Recipe, state: Mapping[str, Any]) -> Agent:
        """Return the agent that ``state()`` was taken of; it goes on bit for bit."""
        check_owner(state, recipe)
        agent, d = recipe.agent(integer(state, "index")), recipe.dimension
        base = Statistics(
            agent._parts.memory.unpack(part(state, "base")),
            array(state, "base_moment", d),
            integer(state, "base_count"),
            rewards(state, "base_rewards"),
        )
        agent._adopt(base, version=integer(state, "version"))
        agent._start_pending()
        agent._pending.restore(part(state, "pending"))
        agent._set_rewards(rewards(state, "rewards"))
        agent._decisions = integer(state, "decisions")
        if agent._parts.own_data:
            agent._decide_on_own_data()
        agent._restore_chosen(array(state, "shown", None, d), array(state, "widths", None))
        return agent

    def _restore_chosen(self, shown: Array, widths: Array) -> None:
        """Remember the arms that were shown last; which was chosen, and how, is not saved."""
        if not len(shown):
            return
        current = len(widths) == len(shown)
        squared = widths if current else np.empty(len(shown))
        self._chosen = Chosen(-1, float("nan"), shown, squared)
        self._chosen_with = self._policy if current else None

    def _check_own(self, upload: object, who: str) -> None:
        if not isinstance(upload, Upload) or upload.agent != self.index:
            raise InvalidMessage(
                complaint(
                    f"{who}, agent {self.index}",
                    got=f"a {type(upload).__name__}",
                    expected="an Upload of its own",
                    fix="Hand it what its own observe returned.",
                )
            )
        self._parts.memory.check(upload.statistics)

    def _adopt(self, statistics: Statistics, *, version: int) -> None:
        """Hold a new base, and decide with it."""
        self._base, self._version = Base(statistics, self._parts.memory), version
        self._decide_with(self._base.reading, self._base.theta, statistics.count)

    def _decide_on_own_data(self) -> None:
        base, pending = self._base.statistics, self._pending
        reading = pending.reading()
        theta = reading.estimate(base.moment + pending.moment)
        self._decide_with(reading, theta, base.count + pending.count)

    def _decide_with(self, reading: Reading, theta: Array, count: int) -> None:
        self._policy = Policy(reading, theta, self._parts.radius(reading, count))

    def _start_pending(self) -> None:
        self._pending = self._parts.memory.pending(self._base)
        self._set_rewards(NO_REWARDS)

    def _set_rewards(self, sums: Rewards) -> None:
        """Go on from these sums over the pending rewards; plain numbers, for they change often."""
        self._rewards = sums.count
        self._reward_total, self._reward_squares = sums.total, sums.squares

    def _pending_rewards(self) -> Rewards:
        return Rewards(self._rewards, self._reward_total, self._reward_squares)

    def _rebase_pending(self) -> None:
        """Put what is pending on top of a new base."""
        if self._pending.count:
            self._pending = self._pending.over(self._base)
        else:
            self._start_pending()

    def _upload(self) -> Upload:
        """Hand over what is pending. Agents that decide on own data go on holding it."""
        memory, base, pending = self._parts.memory, self._base, self._pending
        summary = pending.summary()  # what it sheds now leaves the moment
        observed = Statistics(summary, pending.moment, pending.count, self._pending_rewards())
        upload = Upload(self.index, memory.uploaded(observed, base.reference))
        if self._parts.own_data:
            merged = memory.merged(base.statistics, [upload.statistics], None)
            self._adopt(merged, version=self._version)
        self._start_pending()
        return upload

    def _played(self, arm: int | ArrayLike) -> tuple[Array, float]:
        """Return an arm's features, and its squared width in what the agent decides with."""
        if type(arm) is int or isinstance(arm, np.integer):
            chosen = self._chosen
            if chosen is None or not 0 <= arm < len(chosen.arms):
                raise self._never_shown(arm)
            x = chosen.arms[arm]
            if self._chosen_with is self._policy:
                return x, float(chosen.squared_widths[arm])
        else:
            x = checked_arm(arm, self._dimension)
        return x, float(self._policy.reading.squared_widths(x[None])[0])

    def _never_shown(self, arm: int | np.integer[Any]) -> FedbanditError:
        if self._chosen is None:
            fix = "Call choose(arms) first, or give the arm's features."
            got = f"index {arm}, and no arms were shown"
            return OutOfOrder(complaint("observe, arm", got=got, expected="an arm", fix=fix))
        expected = f"an index from 0 to {len(self._chosen.arms) - 1}"
        fix = "Give the index of one of the arms that choose was shown last."
        return InvalidArms(complaint("observe, arm", got=arm, expected=expected, fix=fix))
