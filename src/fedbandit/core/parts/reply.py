"""Whom the server answers after an upload, and with what."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Protocol

from fedbandit.core.kernels.ucb import exceeds
from fedbandit.core.messages import Collect, Directed, Upload

if TYPE_CHECKING:
    from fedbandit.core.server import Server


class Reply(Protocol):
    """A rule for answering, called once the upload has been merged."""

    def answers(self, server: Server, upload: Upload) -> list[Directed]:
        """Return the messages to send."""
        ...


@dataclass(frozen=True, slots=True)
class ToSender:
    """Answer the sender alone, so that no agent waits for another: FSCLB, FedLinUCB."""

    def answers(self, server: Server, upload: Upload) -> list[Directed]:
        """Send the sender everything."""
        return [Directed(upload.agent, server.download())]


@dataclass(frozen=True, slots=True)
class ToOwed:
    """Answer every agent whose missing share makes the determinant grow by a ratio: Async-LinUCB.

    What agent j holds is what it last received plus what it has sent since. It is owed the rest,
    and gets it once det(server) / det(held by j) exceeds ``ratio`` (gamma_D).
    """

    ratio: float

    def answers(self, server: Server, upload: Upload) -> list[Directed]:
        """Send everything to those who are owed enough, and note that they hold it now."""
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
    """Ask everyone for what they have, then send everyone everything: DisLinUCB."""

    def answers(self, server: Server, upload: Upload) -> list[Directed]:
        """Start to collect, go on collecting, or end it."""
        if server.waiting_for:
            server.waiting_for.discard(upload.agent)
        elif not upload.count:
            return []  # a late answer to a sync that is over
        else:
            server.waiting_for = set(range(server.agents)) - {upload.agent}
            if server.waiting_for:
                return [Directed(agent, Collect()) for agent in sorted(server.waiting_for)]
        if server.waiting_for:
            return []
        download = server.download()
        return [Directed(agent, download) for agent in range(server.agents)]
