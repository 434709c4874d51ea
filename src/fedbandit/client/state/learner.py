"""The core agent and its outbox: what was learned, and the uploads under way. No I/O, no lock.

The policy is a frozen value, replaced as a whole, so that deciding needs no lock either.
"""

from collections.abc import Callable

import numpy as np

from fedbandit import wire
from fedbandit.client.state.outbox import Outbox
from fedbandit.client.state.records import Learned, packed, unpacked
from fedbandit.core.agent import Agent
from fedbandit.core.kernels.linalg import Array
from fedbandit.core.messages import Download, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.statistics import RunningEstimates, RunningRewards
from fedbandit.errors import InvalidMessage, InvalidState
from fedbandit.terms import check_served

_MANY = 2**62


class Learner:
    """One thread at a time may change it; any may read ``policy``.

    ``most`` is how many observations an upload may stand for. ``digest`` names the download last
    received, see ``wire.digest``; empty if unknown. ``taught``: digests of the past observations
    that were given to ``AgentState.learn``. ``learned`` and ``estimated`` are sums over all rewards
    that it was given, and over what it estimated them to be just before.
    """

    def __init__(
        self,
        agent: Agent,
        outbox: Outbox,
        recipe: Recipe,
        digest: str = "",
        taught: tuple[str, ...] = (),
    ) -> None:
        self.recipe = recipe
        self.outbox = outbox
        self.digest, self.taught = digest, taught
        self.most = _MANY
        self.fingerprint, self._accepted = wire.fingerprint(recipe), wire.fingerprints(recipe)
        self._agent = agent
        self.learned, self.estimated = RunningRewards(), RunningEstimates()
        self.policy = agent.policy

    @classmethod
    def fresh(cls, recipe: Recipe, life: bytes) -> "Learner":
        """Return one that has learned nothing."""
        return cls(check_served(recipe).agent(0), Outbox(life=life), recipe)

    @classmethod
    def restore(cls, recipe: Recipe, saved: Learned) -> "Learner":
        """Return the learner whose ``saved()`` this is."""
        try:
            agent = Agent.restore(check_served(recipe), unpacked(saved.agent))
            outbox = Outbox(
                life=saved.life,
                born=saved.born,
                sequence=saved.sequence,
                in_flight=None if saved.in_flight is None else wire.decode_upload(saved.in_flight),
                waiting=tuple(map(wire.decode_upload, saved.waiting)),
            )
        except (InvalidMessage, ValueError) as error:
            raise InvalidState(str(error)) from error
        return cls(agent, outbox, recipe, saved.digest, tuple(saved.taught))

    @property
    def version(self) -> int:
        """The version of the download last received."""
        return self._agent.version

    @property
    def noise(self) -> float:
        """The deviation of rewards from what was learned of them; NaN if not known."""
        return self._agent.noise

    @property
    def cut(self) -> int:
        """How many uploads of the fleet had a correction that was cut, by the last download."""
        return self._agent.cut

    @property
    def pending(self) -> int:
        """How many observations are in no upload yet."""
        return self._agent.pending

    def saved(self, outbox: Outbox | None = None) -> Learned:
        """Return the record of everything learned, with ``outbox`` in place of its own if given."""
        box = self.outbox if outbox is None else outbox
        return Learned(
            box.life,
            box.born,
            box.sequence,
            None if box.in_flight is None else wire.encode(box.in_flight),
            [wire.encode(upload) for upload in box.waiting],
            packed(self._agent.state()),
            self.digest,
            self.taught,
        )

    def copy(self) -> "Learner":
        """Return one that has learned the same, to be changed apart from this one."""
        made = Learner.restore(self.recipe, self.saved())
        made.most = self.most
        made.learned = RunningRewards(self.learned.sums())
        made.estimated = RunningEstimates(self.estimated.sums())
        return made

    def observe(self, arm: Array, reward: float) -> bool:
        """Learn from an observation; return whether an upload became due.

        If others wait, it will be combined with them, so it is not rounded yet.
        """
        estimate = float(self.policy.theta.dot(arm))
        upload = self._agent.observe(arm, reward, pack=self.outbox.empty, estimate=estimate)
        self.learned.add(reward)
        self.estimated.add(estimate, reward)
        if upload is None and self.pending >= self.most:
            return self.flush()
        if upload is not None:
            self._put(upload)
        return upload is not None

    def flush(self) -> bool:
        """Put everything pending into an upload, fired or not; return whether there was any."""
        if not self.pending:
            return False
        self._put(self._agent.collect(pack=self.outbox.empty))
        return True

    def acknowledge(self, answer: wire.Synced) -> None:
        """Remove the upload in flight and learn from the download in the answer."""
        self._check(answer.fingerprint)
        self._receive(answer.download, answer.digest, Outbox.delivered)

    def catch_up(self, answer: wire.Joined) -> None:
        """Learn from the download in the answer, and how large an upload may be."""
        if answer.format != wire.FORMAT:
            raise InvalidMessage(
                f"The coordinator speaks format {answer.format} of the wire, this agent "
                f"{wire.FORMAT}. Upgrade the coordinator: it comes first."
            )
        self._check(answer.fingerprint)
        self._receive(answer.download, answer.digest, lambda box: box.born_after(answer.lives))
        self.most = answer.limits.count

    def packed(self, upload: Upload) -> Upload:
        """Return a waiting upload in the form that it is sent in."""
        return self._agent.packed(upload)

    def within(self, limits: wire.Limits) -> tuple[Outbox, list[Upload]]:
        """Return the outbox without the uploads beyond the limits, and those uploads."""
        return self.outbox.within(limits, self.recipe.parts.memory.moment_error, self.packed)

    def _receive(
        self, download: Download | None, digest: str, change: Callable[[Outbox], Outbox]
    ) -> None:
        """Decide by a download and by the uploads that are not in it; change the outbox.

        A download that is older than the one we have, or another one of the same version, comes
        from a coordinator that was restored from a backup. It replaces what we had from the
        coordinator; what we observed and have not delivered stays.
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
        if digest:
            self.digest = digest

    def _is_set_back(self, download: Download, digest: str) -> bool:
        """Return whether the coordinator was restored from a backup; version 0 is empty."""
        if download.version != self.version:
            return download.version < self.version
        return download.version > 0 and digest != self.digest

    def _put(self, upload: Upload) -> None:
        self.outbox = self.outbox.put(upload, most=self.most, join=self._agent.combined)
        self._agent.keep(upload)
        self.policy = self._agent.policy

    def _check(self, fingerprint: str) -> None:
        if fingerprint not in self._accepted:
            raise InvalidMessage(
                f"The coordinator serves another recipe (fingerprint {fingerprint}) than this "
                f"agent has ({self.fingerprint}, {self.recipe!r}). If the model was made anew, "
                "start with an empty state_dir; else use one version of fedbandit everywhere."
            )


def warm_up(recipe: Recipe) -> None:
    """Do once what an agent does, so that no later call waits for the compiler."""
    learner = Learner.fresh(recipe, bytes(16))
    arms = np.eye(recipe.dimension)[:2]
    for turn in range(recipe.parts.memory.capacity + 2):
        learner.observe(arms[turn % len(arms)], 1.0)
    recipe.parts.choice.choose(learner.policy, arms, 0, 0)
