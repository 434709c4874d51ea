"""The server: merges what agents send and answers as its recipe says. It never starts a talk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Summary
from fedbandit.core.messages import Directed, Download, Upload
from fedbandit.core.saved import (
    State,
    array,
    check_owner,
    integer,
    part,
    rewards,
    rewards_entry,
    under,
    wrong_entry,
)
from fedbandit.core.statistics import Base, Statistics
from fedbandit.errors import InvalidMessage, complaint

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What one agent holds, as far as the server knows."""

    summary: Summary
    logdet: float


class Server:
    """Merge uploads, answer with downloads. Build it with ``recipe.server()``.

    ``version`` is the number of uploads merged. ``held`` and ``waiting_for`` belong to the reply
    rules that need them (Async-LinUCB: what each agent holds; DisLinUCB: who has yet to send).
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._memory = recipe, recipe.parts.memory
        self._base = Base(self._memory.empty_server(), self._memory)
        self._nothing = self.holding(self._base.statistics.summary)
        self.version = 0
        self.held: dict[int, Held] = {}
        self.waiting_for: set[int] = set()

    def __repr__(self) -> str:
        name, count = self._recipe.name, self.statistics.count
        return f"<Server of {name}: {self.version} uploads, {count} observations>"

    @property
    def agents(self) -> int:
        """Number of agents that it serves."""
        return self._recipe.agents

    @property
    def statistics(self) -> Statistics:
        """Everything merged so far, in full precision."""
        return self._base.statistics

    @property
    def summary(self) -> Any:
        """What stands for X^T X of everything merged."""
        return self.statistics.summary

    @property
    def moment(self) -> Array:
        """Sum of r x of everything merged."""
        return self.statistics.moment

    @property
    def count(self) -> int:
        """Number of observations merged."""
        return self.statistics.count

    def receive(self, upload: Upload) -> list[Directed]:
        """Merge an upload (paper, Alg. 2) and return whom to answer with what.

        Raises InvalidMessage, and changes nothing, if the upload does not fit.
        """
        self.check(upload)
        self.adopt(self.merged([upload]), version=self.version + 1)
        return self._recipe.parts.reply.answers(self, upload)

    def merged(self, uploads: Sequence[Upload]) -> Statistics:
        """Return what checked uploads would make of the statistics; changes nothing.

        Uploads that came together are merged by one shrink, which sheds and costs less.
        """
        theirs = [upload.statistics for upload in uploads]
        return self._memory.merged(self.statistics, theirs, self._base.reference)

    def adopt(self, statistics: Statistics, *, version: int) -> None:
        """Go on from these statistics: what ``merged`` returned, or what was stored."""
        self._base, self.version = Base(statistics, self._memory), version

    def whole(self) -> Download:
        """Return everything merged so far, in full precision: what a server goes on from."""
        return Download(self.statistics, self.version)

    def download(self) -> Download:
        """Return everything merged so far, as it is sent to agents."""
        return Download(self._memory.downloaded(self._base), self.version)

    def held_by(self, agent: int) -> Held:
        """Return what an agent holds."""
        return self.held.get(agent, self._nothing)

    def holding(self, summary: Summary) -> Held:
        """Return a summary with its log determinant."""
        return Held(summary, self._memory.read(summary).logdet)

    def check(self, upload: Upload) -> None:
        """Raise InvalidMessage unless the upload can be merged."""
        sender = upload.agent if isinstance(upload, Upload) else None
        if not isinstance(sender, int | np.integer) or not 0 <= sender < self.agents:
            raise InvalidMessage(
                complaint(
                    "server",
                    got=f"a {type(upload).__name__} of agent {sender!r}",
                    expected=f"an Upload of an agent from 0 to {self.agents - 1}",
                    fix="Build the recipe with as many agents as there are.",
                )
            )
        self._memory.check(upload.statistics)

    def state(self) -> State:
        """Return everything as a flat dictionary of plain arrays and scalars."""
        statistics = self.statistics
        state: State = {
            "recipe": self._recipe.identity,
            "moment": statistics.moment.copy(),
            "count": statistics.count,
            "rewards": rewards_entry(statistics.rewards),
            "version": self.version,
            "waiting_for": np.array(sorted(self.waiting_for), dtype=np.float64),
            "holders": np.array(sorted(self.held), dtype=np.float64),
        }
        state |= under("summary", self._memory.pack(statistics.summary))
        for agent, held in self.held.items():
            state |= under(f"held.{agent}", self._memory.pack(held.summary))
        return state

    @classmethod
    def restore(cls, recipe: Recipe, state: Mapping[str, Any]) -> Server:
        """Return the server that ``state()`` was taken of; it goes on bit for bit."""
        check_owner(state, recipe)
        server = cls(recipe)
        statistics = Statistics(
            server._memory.unpack(part(state, "summary")),
            array(state, "moment", recipe.dimension),
            integer(state, "count"),
            rewards(state, "rewards"),
        )
        server.adopt(statistics, version=integer(state, "version"))
        server.waiting_for = server._agents_in(state, "waiting_for")
        for agent in server._agents_in(state, "holders"):
            summary = server._memory.unpack(part(state, f"held.{agent}"))
            server.held[agent] = server.holding(summary)
        return server

    def _agents_in(self, state: Mapping[str, Any], key: str) -> set[int]:
        named = {int(agent) for agent in array(state, key, None)}
        if not named <= set(range(self.agents)):
            raise wrong_entry(key, sorted(named), f"agents from 0 to {self.agents - 1}")
        return named
