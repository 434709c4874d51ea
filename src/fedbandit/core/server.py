"""The server: merges what agents send and answers as its recipe says. It never starts a talk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbandit.core.kernels.linalg import Array
from fedbandit.core.memory.summary import Summary
from fedbandit.core.messages import Directed, Download, Upload, check_moment
from fedbandit.core.saved import State, array, check_owner, integer, misfit, part, under
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

    ``held`` and ``waiting_for`` belong to the reply rules that need them (Async-LinUCB: what each
    agent holds; DisLinUCB: who has yet to send).
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._memory = recipe, recipe.parts.memory
        self._nothing = self.holding(self._memory.empty_server())
        self.summary = self._nothing.summary
        self.moment = np.zeros(recipe.dimension)
        self.count = 0
        self.version = 0
        self.held: dict[int, Held] = {}
        self.waiting_for: set[int] = set()

    @property
    def agents(self) -> int:
        """Number of agents that it serves."""
        return self._recipe.agents

    def receive(self, upload: Upload) -> list[Directed]:
        """Merge an upload (paper, Alg. 2) and return whom to answer with what.

        Raises InvalidMessage, and changes nothing, if the upload does not fit.
        """
        self.check(upload)
        self.merge([upload])
        return self._recipe.parts.reply.answers(self, upload)

    def merge(self, uploads: Sequence[Upload]) -> None:
        """Merge checked uploads that came together; by one shrink, which sheds and costs less."""
        memory, at = self._memory, self._reference()
        theirs = [upload.summary for upload in uploads]
        moment = sum((upload.moment for upload in uploads), self.moment)
        self.summary, self.moment = memory.merged(self.summary, theirs, moment, at)
        self.count += sum(upload.count for upload in uploads)
        self.version += len(uploads)

    def whole(self) -> Download:
        """Return everything merged so far, in full precision: what a server goes on from."""
        return Download(self.summary, self.moment, self.count, self.version)

    def download(self) -> Download:
        """Return everything merged so far, as it is sent to agents."""
        summary, moment = self._memory.downloaded(self.summary, self.moment, self._reference())
        return Download(summary, moment, self.count, self.version)

    def held_by(self, agent: int) -> Held:
        """Return what an agent holds."""
        return self.held.get(agent, self._nothing)

    def holding(self, summary: Summary) -> Held:
        """Return a summary with its log determinant."""
        return Held(summary, self._memory.read(summary).logdet)

    def state(self) -> State:
        """Return everything as a flat dictionary of plain arrays and scalars."""
        state: State = {
            "recipe": repr(self._recipe),
            "moment": self.moment.copy(),
            "count": self.count,
            "version": self.version,
            "waiting_for": np.array(sorted(self.waiting_for), dtype=np.float64),
            "holders": np.array(sorted(self.held), dtype=np.float64),
        }
        state |= under("summary", self._memory.pack(self.summary))
        for agent, held in self.held.items():
            state |= under(f"held.{agent}", self._memory.pack(held.summary))
        return state

    @classmethod
    def restore(cls, recipe: Recipe, state: Mapping[str, Any]) -> Server:
        """Return the server that ``state()`` was taken of; it goes on bit for bit."""
        check_owner(state, repr(recipe))
        server = cls(recipe)
        server.summary = server._memory.unpack(part(state, "summary"))
        server.moment = array(state, "moment", recipe.dimension)
        server.count, server.version = integer(state, "count"), integer(state, "version")
        server.waiting_for = server._agents_in(state, "waiting_for")
        for agent in server._agents_in(state, "holders"):
            summary = server._memory.unpack(part(state, f"held.{agent}"))
            server.held[agent] = server.holding(summary)
        return server

    def _reference(self) -> Array | None:
        """Return where errors of the summary are carried over to the moment, if anywhere."""
        return self._memory.reference(self.summary, self.moment)

    def _agents_in(self, state: Mapping[str, Any], key: str) -> set[int]:
        named = {int(agent) for agent in array(state, key, None)}
        if not named <= set(range(self.agents)):
            raise misfit(key, sorted(named), f"agents from 0 to {self.agents - 1}")
        return named

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
        self._memory.check(upload.summary)
        check_moment(upload.moment, upload.count, self._recipe.dimension)
