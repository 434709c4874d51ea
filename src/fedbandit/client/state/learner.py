"""The core agent with its outbox: what is learned, what is on its way. No I/O, no clock, no lock.

The policy is a frozen value that is swapped whole, so that deciding needs no lock either.
"""

from collections.abc import Callable

import numpy as np

from fedbandit import wire
from fedbandit.client.state.outbox import Outbox
from fedbandit.client.state.records import Learned, packed, unpacked
from fedbandit.core.agent import Agent
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.messages import Collect, Download, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.errors import InvalidMessage, InvalidState, complaint
from fedbandit.terms import check_served

_MANY = 2**62


class Learner:
    """One life of an agent. One thread at a time may change it; any may read ``policy``.

    ``most`` is how many observations an upload may stand for. ``digest`` names the download that it
    last received, see ``wire.digest``; nothing where that is not known.
    """

    def __init__(self, agent: Agent, outbox: Outbox, recipe: Recipe, digest: str = "") -> None:
        self.recipe = recipe
        self.outbox = outbox
        self.digest = digest
        self.most = _MANY
        self.fingerprint = wire.fingerprint(recipe)
        self._agent = agent
        self.policy = agent.policy

    @classmethod
    def fresh(cls, recipe: Recipe, life: bytes) -> "Learner":
        """Begin a life that has seen nothing."""
        return cls(check_served(recipe).agent(0), Outbox(life=life), recipe)

    @classmethod
    def restore(cls, recipe: Recipe, saved: Learned) -> "Learner":
        """Return the learner that ``saved()`` was taken of."""
        try:
            agent = Agent.restore(check_served(recipe), unpacked(saved.agent))
            outbox = Outbox(
                life=saved.life,
                born=saved.born,
                sequence=saved.sequence,
                in_flight=None if saved.in_flight is None else _upload(saved.in_flight),
                waiting=tuple(map(_upload, saved.waiting)),
            )
        except (InvalidMessage, ValueError) as error:
            raise InvalidState(str(error)) from error
        return cls(agent, outbox, recipe, saved.digest)

    @property
    def version(self) -> int:
        """The coordinator's version that it last received."""
        return self._agent.version

    @property
    def pending(self) -> int:
        """How many observations no upload has taken along yet."""
        return self._agent.pending

    def saved(self, outbox: Outbox | None = None) -> Learned:
        """Return everything, with another outbox if one is given, for the journal."""
        box = self.outbox if outbox is None else outbox
        return Learned(
            box.life,
            box.born,
            box.sequence,
            None if box.in_flight is None else wire.encode(box.in_flight),
            [wire.encode(upload) for upload in box.waiting],
            packed(self._agent.state()),
            self.digest,
        )

    def observe(self, arm: Array, reward: float) -> bool:
        """Take in an observation; say whether an upload is due because of it."""
        upload = self._agent.observe(arm, reward)
        if upload is None and self.pending >= self.most:
            return self.flush()
        if upload is not None:
            self._put(upload)
        return upload is not None

    def flush(self) -> bool:
        """Make everything pending due, whatever the trigger says; say whether there was any."""
        if not self.pending:
            return False
        upload = self._agent.receive(Collect())
        if upload is not None:
            self._put(upload)
        return True

    def acknowledge(self, answer: wire.Synced) -> None:
        """Let go of what was in flight and learn what the coordinator has merged."""
        self._check(answer.fingerprint)
        self._receive(answer.download, answer.digest, Outbox.delivered)

    def catch_up(self, joined: wire.Joined) -> None:
        """Learn what the coordinator has merged while this agent was away, and its limits."""
        self._check(joined.fingerprint)
        self._receive(joined.download, joined.digest, lambda outbox: outbox.joined(joined.lives))
        self.most = joined.limits.count

    def packed(self, upload: Upload) -> Upload:
        """Return a waiting upload as it is to be sent."""
        return self._agent.packed(upload)

    def within(self, limits: wire.Limits) -> tuple[Outbox, list[Upload]]:
        """Return the outbox without what would be refused, and that."""
        return self.outbox.within(limits, self.recipe.parts.memory.moved, self.packed)

    def _receive(
        self, download: Download | None, digest: str, change: Callable[[Outbox], Outbox]
    ) -> None:
        """Decide on a download, and on everything that is not in it; change the outbox.

        A download that is older than what we hold, or another one under the same number, comes from
        a coordinator that was set back, to a backup say. Its word counts: what we have from it is
        given up, what is our own is not.
        """
        agent = self._agent
        if download is not None and self._is_set_back(download, digest):
            self.flush()
            agent = self.recipe.agent(0)
        before, outbox = agent.version, change(self.outbox)
        if download is not None:
            agent.receive(download)
        if agent is not self._agent or agent.version > before:
            for upload in (outbox.in_flight, *outbox.waiting):
                if upload is not None:
                    agent.keep(upload)
            self._agent, self.policy = agent, agent.policy
        self.outbox = outbox
        if download is not None:
            self.digest = digest

    def _is_set_back(self, download: Download, digest: str) -> bool:
        """Say whether a download is not what ours grew into; nothing is all there is at 0."""
        if download.version != self.version:
            return download.version < self.version
        return download.version > 0 and digest != self.digest

    def _put(self, upload: Upload) -> None:
        self.outbox = self.outbox.put(upload, most=self.most, join=self._agent.joined)
        self._agent.keep(upload)
        self.policy = self._agent.policy

    def _check(self, fingerprint: str) -> None:
        if fingerprint != self.fingerprint:
            got, expected = f"fingerprint {fingerprint}", f"{self.fingerprint}, {self.recipe!r}"
            fix = "The model was made anew: start with an empty state_dir."
            raise InvalidMessage(complaint("answer", got=got, expected=expected, fix=fix))


def warm_up(recipe: Recipe) -> None:
    """Do once what an agent does, so that nothing is compiled while somebody waits for a choice."""
    learner = Learner.fresh(recipe, bytes(16))
    arms = np.eye(recipe.dimension)[:2]
    for turn in range(recipe.parts.memory.capacity + 2):
        learner.observe(arms[turn % len(arms)], 1.0)
    policy = learner.policy
    shown, widths = np.empty_like(arms), np.empty(len(arms))
    policy.reading.best(arms, policy.theta, policy.radius, shown, widths)


def _upload(data: bytes) -> Upload:
    message = wire.decode(data)
    if not isinstance(message, Upload):
        raise ValueError(f"a {type(message).__name__} in the place of an upload")
    return message
