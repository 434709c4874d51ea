"""The server: merges uploads and answers them as its recipe says. It only ever answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.contract import Summary
from fedbandit.core.messages import Directed, Download, Upload
from fedbandit.core.saved import (
    MERGED,
    State,
    array,
    check_owner,
    integer,
    part,
    statistics_entries,
    statistics_in,
    under,
    wrong_entry,
)
from fedbandit.core.statistics import NO_ESTIMATES, Base, Statistics
from fedbandit.errors import InvalidMessage, complaint

if TYPE_CHECKING:
    from fedbandit.core.recipe import Recipe

_INTEGERS = (int, np.integer)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The summary of what one agent knows, as far as the server can tell, and its log det V."""

    summary: Summary
    logdet: float


class Server:
    """The server of a recipe, built with ``recipe.server()``: merges uploads, returns the answers.

    It does no I/O: its caller carries messages (see ``Agent``). ``version`` is the number of
    uploads merged. ``held`` (what each agent knows) is used by Async-LinUCB alone, ``waiting_for``
    (agents whose upload has been asked for) by DisLinUCB alone.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._memory = recipe, recipe.parts.memory
        self._base = Base(self._memory.empty_server(), self._memory)
        self._nothing = self.holding(self._base.statistics.summary)
        self.version = 0
        self.held: dict[int, Held] = {}
        self.waiting_for: set[int] = set()

    def __repr__(self) -> str:
        name, count = self._recipe.label, self.statistics.count
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
    def base(self) -> Base:
        """Everything merged so far, and what follows from it: V, theta and theta'."""
        return self._base

    @property
    def summary(self) -> Any:
        """The summary of X^T X of everything merged: a Gram matrix or a sketch."""
        return self.statistics.summary

    @property
    def moment(self) -> Array:
        """Sum of r x of everything merged."""
        return self.statistics.moment

    @property
    def theta(self) -> Array:
        """The estimate of theta* from everything merged."""
        return self._base.theta

    @property
    def count(self) -> int:
        """Number of observations merged."""
        return self.statistics.count

    def receive(self, upload: Upload) -> list[Directed]:
        """Merge an upload (paper, Alg. 2) and return the answers, each with its agent.

        Raises InvalidMessage, and changes nothing, if the upload does not fit this recipe. Cost
        O(l^2 d + l^3) with sketches, O(d^2) with matrices, and that of the answers.
        """
        self.check(upload)
        self.adopt(self.merged([upload]), version=self.version + 1)
        return self._recipe.parts.reply.answers(self, upload)

    def merged(self, uploads: Sequence[Upload]) -> Statistics:
        """Return the server's statistics merged with checked uploads; the server does not change.

        Several uploads are merged in one step, which costs less and sheds less than one by one.
        """
        theirs = [upload.statistics for upload in uploads]
        merged = self._memory.merged(self.statistics, theirs, self._base.reference)
        return replace(merged, estimates=NO_ESTIMATES) if merged.estimates.count else merged

    def adopt(self, statistics: Statistics, *, version: int) -> None:
        """Replace the server's statistics by these, from ``merged`` or from a store."""
        self._base, self.version = Base(statistics, self._memory), version

    def whole(self) -> Download:
        """Return everything merged so far, in full precision, for a store."""
        return Download(self.statistics, self.version)

    def download(self) -> Download:
        """Return everything merged so far, as it is sent to agents."""
        return Download(self._memory.downloaded(self._base), self.version)

    def held_by(self, agent: int) -> Held:
        """Return what an agent knows, as far as the server can tell."""
        return self.held.get(agent, self._nothing)

    def holding(self, summary: Summary) -> Held:
        """Return a summary with the log determinant of its V."""
        return Held(summary, self._memory.read(summary).logdet)

    def check(self, upload: Upload) -> None:
        """Raise InvalidMessage unless the upload can be merged."""
        sender = upload.agent if isinstance(upload, Upload) else None
        if not isinstance(sender, _INTEGERS) or not 0 <= sender < self.agents:
            raise InvalidMessage(
                complaint(
                    "server",
                    got=f"a {type(upload).__name__} of agent {sender!r}",
                    expected=f"an Upload of an agent from 0 to {self.agents - 1}",
                    fix="For more agents build the recipe with a larger agents=...",
                )
            )
        self._memory.check(upload.statistics)

    def state(self) -> State:
        """Return the server as a flat dictionary of arrays and scalars, fit for ``numpy.savez``."""
        state: State = {
            "recipe": self._recipe.identity,
            "version": self.version,
            "waiting_for": np.array(sorted(self.waiting_for), dtype=np.float64),
            "holders": np.array(sorted(self.held), dtype=np.float64),
        }
        state |= statistics_entries(self.statistics, self._memory, MERGED)
        for agent, held in self.held.items():
            state |= under(f"held.{agent}", self._memory.pack(held.summary))
        return state

    @classmethod
    def restore(cls, recipe: Recipe, state: Mapping[str, Any]) -> Server:
        """Return the server that ``state()`` saved; it continues with the same bits.

        Raises InvalidState if the state is damaged or was saved with another recipe.
        """
        check_owner(state, recipe)
        server = cls(recipe)
        statistics = statistics_in(state, server._memory, recipe.dimension, MERGED)
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
