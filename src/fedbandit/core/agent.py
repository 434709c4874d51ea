"""The agent: chooses an arm, takes in what it paid, and says when it is time to talk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedbandit.core.checks import (
    arms_not_finite,
    checked_arm,
    checked_arms,
    checked_batch,
    checked_reward,
    too_large,
)
from fedbandit.core.kernels.linalg import Array, fits
from fedbandit.core.kernels.sparse import SparseArms, SparseLike
from fedbandit.core.kernels.ucb import first_best, first_best_of_each
from fedbandit.core.memory.narrow import Narrow
from fedbandit.core.memory.pending import Pending
from fedbandit.core.memory.reading import Reading
from fedbandit.core.memory.summary import Summary
from fedbandit.core.messages import Collect, Download, Message, Upload, check_moment
from fedbandit.core.saved import State, array, check_owner, integer, part, under
from fedbandit.errors import FedbanditError, InvalidArms, InvalidMessage, OutOfOrder, complaint

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe

_DRAWS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """What an agent decides with; made anew, whole, whenever its data changes."""

    reading: Reading
    theta: Array
    radius: float


class Agent:
    """Choose, observe, receive. Build it with ``recipe.agent(i)``.

    An agent holds a *base* (its last download, and for agents that decide on their own data also
    what they have sent since) and what is *pending* on top of it. It does no I/O: whoever runs it
    carries the upload that ``observe`` may return to the server, and hands what the server answers
    to ``receive``: at any later time for agents that decide on their last download, in order and
    before the next upload for those that decide on their own data.
    """

    def __init__(self, recipe: Recipe, index: int) -> None:
        self._recipe, self._parts, self._dimension = recipe, recipe.parts, recipe.dimension
        self.index = index
        self._decisions = 0
        self._draws: Array | None = None
        self._shown: Array | SparseArms = np.empty((0, self._dimension))
        self._widths = np.empty(0)
        self._widths_of: Policy | None = None
        self._pending: Pending
        self._adopt(self._parts.memory.empty(), np.zeros(self._dimension), 0, version=0)
        self._start_pending()

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

    def choose(self, arms: ArrayLike | SparseLike) -> int:
        """Return the arm to play: argmax of <theta, x> + beta |x|_{V^-1} (paper, Alg. 1 line 3).

        ``arms`` is K x d, K >= 1; the answer is an index into it. Where scores tie, to nine
        digits, the first of them wins. A sparse matrix of scipy's costs by its entries.
        """
        given = checked_arms(arms, self._dimension)
        if self._parts.blind is not None:
            return self._choose_blindly(given)
        if isinstance(given, SparseArms):
            return self._choose_sparse(given)
        policy, shown, widths = self._policy, self._shown, self._widths
        if isinstance(shown, SparseArms) or len(shown) != len(given):
            shown, widths = np.empty_like(given), np.empty(len(given))
        chosen = policy.reading.best(given, policy.theta, policy.radius, shown, widths)
        if chosen < 0:
            raise arms_not_finite(given)
        self._shown, self._widths, self._widths_of = shown, widths, policy
        self._decisions += 1
        return chosen

    def choose_many(self, arms: ArrayLike) -> NDArray[np.int64]:
        """Return the arms to play for B decisions at once, each as ``choose`` would.

        ``arms`` is B x K x d. One product serves all, so a decision costs less than one at a time.
        Rewards come back by features: ``observe(arms[b, k], reward)``.
        """
        batch = checked_batch(arms, self._dimension)
        flat, policy = batch.reshape(-1, self._dimension), self._policy
        with np.errstate(all="ignore"):
            bonus = policy.radius * np.sqrt(policy.reading.squared_widths(flat))
            scores = (flat @ policy.theta + bonus).reshape(batch.shape[:2])
        if not np.isfinite(scores).all():
            raise arms_not_finite(flat)
        if self._parts.blind is not None:
            return np.array([self._draw(len(shown)) for shown in batch])
        self._decisions += len(batch)
        return first_best_of_each(scores)

    def observe(self, arm: int | ArrayLike, reward: float) -> Upload | None:
        """Take in what an arm paid; return an upload if it is time to talk (Alg. 1 lines 5-20).

        ``arm`` is an index into the arms of the last ``choose``, or the arm's own d features, for
        rewards that arrive after other decisions have been taken. What is returned is no longer
        pending: it must reach the server once.
        """
        reward = checked_reward(reward)
        x, squared_width = self._played(arm)
        parts, pending = self._parts, self._pending
        blind = parts.blind is not None
        if not (fits(x, reward) if blind else pending.absorb(x, squared_width, reward)):
            raise too_large(x, reward)
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
        self._parts.memory.check(message.summary)
        check_moment(message.moment, message.count, self._dimension)
        if message.version > self._version:
            base = self._parts.memory.opened(message.summary)
            self._adopt(base, message.moment, message.count, version=message.version)
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
        moment, at = self._base_moment + upload.moment, self._reference()
        base, moment = self._parts.memory.merged(self._base, [upload.summary], moment, at)
        self._adopt(base, moment, self._base_count + upload.count, version=self._version)
        self._rebase_pending()

    def joined(self, first: Upload, second: Upload) -> Upload:
        """Return one upload in the place of two own ones that have not reached the server.

        It is in full precision, so that it may be joined again; it is ``packed`` before it goes.
        """
        for upload in (first, second):
            self._check_own(upload, "joined")
        memory, at, count = self._parts.memory, self._reference(), first.count + second.count
        both = first.moment + second.moment
        summary, both = memory.merged(memory.opened(first.summary), [second.summary], both, at)
        return Upload(self.index, summary, both, count)

    def packed(self, upload: Upload) -> Upload:
        """Return an own upload as it travels: what ``joined`` returned has yet to be rounded."""
        self._check_own(upload, "packed")
        if isinstance(upload.summary, Narrow):
            return upload
        memory, at = self._parts.memory, self._reference()
        summary, moment = memory.uploaded(upload.summary, upload.moment, at)
        return Upload(self.index, summary, moment, upload.count)

    def state(self) -> State:
        """Return everything as a flat dictionary of plain arrays and scalars (no pickle needed)."""
        shown = self._shown
        state: State = {
            "recipe": repr(self._recipe),
            "index": self.index,
            "decisions": self._decisions,
            "version": self._version,
            "shown": shown.dense() if isinstance(shown, SparseArms) else np.array(shown),
            "widths": self._widths.copy() if self._widths_of is self._policy else np.zeros(0),
            "base_moment": self._base_moment.copy(),
            "base_count": self._base_count,
        }
        state |= under("base", self._parts.memory.pack(self._base))
        return state | under("pending", self._pending.state())

    @classmethod
    def restore(cls, recipe: Recipe, state: Mapping[str, Any]) -> Agent:
        """Return the agent that ``state()`` was taken of; it goes on bit for bit."""
        check_owner(state, repr(recipe))
        agent, d = recipe.agent(integer(state, "index")), recipe.dimension
        agent._adopt(
            agent._parts.memory.unpack(part(state, "base")),
            array(state, "base_moment", d),
            integer(state, "base_count"),
            version=integer(state, "version"),
        )
        agent._start_pending()
        agent._pending.restore(part(state, "pending"))
        agent._decisions = integer(state, "decisions")
        if agent._parts.own_data:
            agent._decide_on_own_data()
        agent._shown, widths = array(state, "shown", None, d), array(state, "widths", None)
        if len(widths) == len(agent._shown):
            agent._widths, agent._widths_of = widths, agent._policy
        else:
            agent._widths = np.empty(len(agent._shown))
        return agent

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
        self._parts.memory.check(upload.summary)
        check_moment(upload.moment, upload.count, self._dimension)

    def _adopt(self, base: Summary, moment: Array, count: int, *, version: int) -> None:
        """Hold a new base, and set everything that is derived from it."""
        reading = self._parts.memory.read(base)
        self._base, self._base_reading = base, reading
        self._base_moment, self._base_count, self._version = moment, count, version
        self._set_policy(reading, moment, count)

    def _decide_on_own_data(self) -> None:
        pending = self._pending
        moment, count = self._base_moment + pending.moment, self._base_count + pending.count
        self._set_policy(pending.reading(), moment, count)

    def _set_policy(self, reading: Reading, moment: Array, count: int) -> None:
        radius = self._parts.radius(reading, count)
        self._policy = Policy(reading, reading.estimate(moment), radius)

    def _reference(self) -> Array | None:
        """Return where errors of the summary are carried over to the moment, if anywhere."""
        return self._parts.memory.reference(self._base, self._base_moment)

    def _start_pending(self) -> None:
        memory, at = self._parts.memory, self._reference()
        self._pending = memory.pending(self._base, self._base_reading, at)

    def _rebase_pending(self) -> None:
        """Put what is pending on top of a new base."""
        if self._pending.count:
            self._pending = self._pending.over(self._base, self._base_reading, self._reference())
        else:
            self._start_pending()

    def _upload(self) -> Upload:
        """Hand over what is pending. Who decides on own data goes on holding it."""
        pending, kept = self._pending, self._pending.summary()
        summary, moment = self._parts.memory.uploaded(kept, pending.moment, self._reference())
        upload = Upload(self.index, summary, moment, pending.count)
        if self._parts.own_data:
            base, moment = self._base.merge(upload.summary), self._base_moment + upload.moment
            self._adopt(base, moment, self._base_count + upload.count, version=self._version)
        self._start_pending()
        return upload

    def _played(self, arm: int | ArrayLike) -> tuple[Array, float]:
        """Return an arm's features, and its squared width in what the agent decides with."""
        if type(arm) is int or isinstance(arm, np.integer):
            if not 0 <= arm < len(self._shown):
                raise self._never_shown(arm)
            x = self._shown[arm]
            if self._widths_of is self._policy:
                return x, float(self._widths[arm])
        else:
            x = checked_arm(arm, self._dimension)
        return x, float(self._policy.reading.squared_widths(x[None])[0])

    def _never_shown(self, arm: int | np.integer[Any]) -> FedbanditError:
        if not len(self._shown):
            fix = "Call choose(arms) first, or give the arm's features."
            got = f"index {arm}, and no arms were shown"
            return OutOfOrder(complaint("observe, arm", got=got, expected="an arm", fix=fix))
        expected = f"an index from 0 to {len(self._shown) - 1}"
        fix = "Give the index of one of the arms that choose was shown last."
        return InvalidArms(complaint("observe, arm", got=arm, expected=expected, fix=fix))

    def _choose_sparse(self, given: SparseArms) -> int:
        policy = self._policy
        with np.errstate(all="ignore"):
            widths = policy.reading.sparse_squared_widths(given)
            scores = given.times(policy.theta) + policy.radius * np.sqrt(widths)
        chosen = first_best(scores)
        if chosen < 0:
            raise arms_not_finite(given.dense())
        self._shown, self._widths, self._widths_of = given, widths, policy
        self._decisions += 1
        return chosen

    def _choose_blindly(self, given: Array | SparseArms) -> int:
        shown = given if isinstance(given, SparseArms) else np.array(given)
        if not np.isfinite(given.data if isinstance(given, SparseArms) else given).all():
            raise arms_not_finite(given.dense() if isinstance(given, SparseArms) else given)
        self._shown, self._widths, self._widths_of = shown, np.zeros(len(shown)), self._policy
        return self._draw(len(shown))

    def _draw(self, arms: int) -> int:
        """Pick uniformly, by a number that depends on seed, agent and decision alone."""
        block, place = divmod(self._decisions, _DRAWS)
        if place == 0 or self._draws is None:
            seed = [self._parts.blind or 0, self.index, block]
            self._draws = np.random.default_rng(seed).random(_DRAWS)
        self._decisions += 1
        return int(self._draws[place] * arms)
