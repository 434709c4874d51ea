"""Rules for the server's answers to an upload: which agents get what."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Protocol

from fedbandit.core.kernels.ucb import exceeds
from fedbandit.core.messages import Collect, Directed, Upload

if TYPE_CHECKING:
    from fedbandit.core.server import Server


class Reply(Protocol):
    """A rule for answers, applied after an upload has been merged."""

    def answers(self, server: Server, upload: Upload) -> list[Directed]:
        """Return the messages to send."""
        ...


@dataclass(frozen=True, slots=True)
class ToSender:
    """A download to the sender alone, so that no agent waits for another: FSCLB, FedLinUCB."""

    def answers(self, server: Server, upload: Upload) -> list[Directed]:
        """Return a download of everything, for the sender."""
        return [Directed(upload.agent, server.download())]


@dataclass(frozen=True, slots=True)
class ToOwed:
    """A download to every agent that lacks enough data: Async-LinUCB.

    Agent j holds what it last received and what it has uploaded since. It gets a download once
    det V of the server exceeds ``ratio`` (gamma_D) times det V of what j holds.
    """

    ratio: float

    def answers(self, server: Server, upload: Upload) -> list[Directed]:
        """Return downloads for these agents, and note that they hold everything now."""
        sent = server.held_by(upload.agent).summary.merge(upload.summary)
        server.held[upload.agent] = server.holding(sent)
        whole, download = server.holding(server.statistics.summary), server.download()
        owed = [
            agent
            for agent in range(server.agents)
            if exceeds(whole.logdet - server.held_by(agent).logdet, log(self.ratio))
        ]
        server.held.update(dict.fromkeys(owed, whole))
        return [Directed(agent, download) for agent in owed]


@dataclass(frozen=True, slots=True)
class ToAll:
    """Ask all other agents for uploads; when all are in, a download to every agent: DisLinUCB."""

    def answers(self, server: Server, upload: Upload) -> list[Directed]:
        """Start collecting, wait for further uploads, or send the downloads."""
        if server.waiting_for:
            server.waiting_for.discard(upload.agent)
        elif not upload.count:
            return []  # an empty upload: the answer to a synchronisation that is over
        else:
            server.waiting_for = set(range(server.agents)) - {upload.agent}
            if server.waiting_for:
                return [Directed(agent, Collect()) for agent in sorted(server.waiting_for)]
        if server.waiting_for:
            return []
        download = server.download()
        return [Directed(agent, download) for agent in range(server.agents)]
