"""Play a recipe on a world, all agents and the server in one process."""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fedbandit import wire
from fedbandit.core.agent import Agent
from fedbandit.core.checks import whole
from fedbandit.core.messages import Message, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.worlds.round import Round, World


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What happened, round by round; every array has one entry a round.

    ``reward``, ``arm``, ``agent``, ``uploaded`` and ``seconds`` are of the round alone; ``regret``,
    ``uploads``, ``scalars`` and ``bytes`` are sums up to and including it. Scalars are counted by
    the paper's rule and bytes as encoded, both directions together. Seconds cover choosing,
    observing and merging, not the world.
    """

    regret: NDArray[np.float64]
    reward: NDArray[np.float64]
    arm: NDArray[np.int64]
    agent: NDArray[np.int64]
    uploaded: NDArray[np.bool_]
    uploads: NDArray[np.int64]
    scalars: NDArray[np.int64]
    bytes: NDArray[np.int64]
    seconds: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.arm)

    def __repr__(self) -> str:
        if not len(self):
            return "Trace(rounds=0)"
        return (
            f"Trace(rounds={len(self)}, reward={self.reward.sum():.6g}, "
            f"regret={self.regret[-1]:.6g}, uploads={self.uploads[-1]}, "
            f"scalars={self.scalars[-1]}, seconds={self.seconds.sum():.3g})"
        )


def simulate(recipe: Recipe, world: World, *, rounds: int) -> Trace:
    """Play ``rounds`` rounds and return what happened.

    Messages arrive at once and in order. The trace depends on recipe, world and rounds alone, but
    for ``seconds``.
    """
    _check(recipe, world, rounds)
    warm_up(recipe)
    agents, server = recipe.fleet(), recipe.server()
    gap, reward, seconds = np.zeros(rounds), np.zeros(rounds), np.zeros(rounds)
    arm, agent, uploads, scalars, sizes = np.zeros((5, rounds), dtype=np.int64)
    played = 0
    for t, given in enumerate(islice(world.rounds(rounds), rounds)):
        this = _checked(given, t, agents=recipe.agents)
        arm[t], seconds[t], sent = _play(agents, server, this)
        agent[t] = this.agent
        gap[t] = this.means.max() - this.means[arm[t]]
        reward[t] = this.rewards[arm[t]]
        uploads[t] = sum(isinstance(message, Upload) for message in sent)
        scalars[t] = sum(message.scalars for message in sent)
        sizes[t] = sum(len(wire.encode(message)) for message in sent)
        played = t + 1
    if played < rounds:
        raise _bad_round(played, "the end of the tape", f"{rounds} rounds")
    return Trace(
        regret=gap.cumsum(),
        reward=reward,
        arm=arm,
        agent=agent,
        uploaded=uploads > 0,
        uploads=uploads.cumsum(),
        scalars=scalars.cumsum(),
        bytes=sizes.cumsum(),
        seconds=seconds,
    )


def warm_up(recipe: Recipe) -> None:
    """Do once everything that agents and server do, so that nothing is compiled on the clock."""
    memory, d = recipe.parts.memory, recipe.dimension
    base = memory.empty()
    pending = memory.pending(base, memory.read(base))
    arms = np.random.default_rng(0).standard_normal((memory.capacity + 2, d))
    for x in arms:
        pending.absorb(x, 1.0, 1.0)
    pending.growth_exceeds(0.0)
    merged = base.merge(pending.summary()).merge(pending.summary())
    memory.read(merged).best(arms, arms[0], 1.0, np.empty_like(arms), np.empty(len(arms)))


def _play(
    agents: list[Agent], server: Server, this: Round
) -> tuple[int, float, list[Upload | Message]]:
    """Play one round; return the arm, the seconds it took and every message sent."""
    agent = agents[this.agent]
    start = perf_counter()
    arm = agent.choose(this.arms)
    thinking = perf_counter() - start
    reward = float(this.rewards[arm])
    start = perf_counter()
    upload = agent.observe(arm, reward)
    sent = [] if upload is None else _deliver(upload, agents, server)
    return arm, thinking + perf_counter() - start, sent


def _deliver(first: Upload, agents: list[Agent], server: Server) -> list[Upload | Message]:
    """Carry an upload and everything that follows from it; return all messages."""
    sent: list[Upload | Message] = []
    uploads = deque([first])
    while uploads:
        upload = uploads.popleft()
        sent.append(upload)
        for directed in server.receive(upload):
            sent.append(directed.message)
            answer = agents[directed.agent].receive(directed.message)
            if answer is not None:
                uploads.append(answer)
    return sent


def _check(recipe: Recipe, world: World, rounds: int) -> None:
    whole("rounds", rounds, least=0)
    for what in ("dimension", "agents"):
        have, want = getattr(recipe, what), getattr(world, what)
        fits = have == want if what == "dimension" else have >= want
        if not fits:
            raise InvalidParameter(
                complaint(
                    f"simulate, {what}",
                    got=f"{have} in the recipe",
                    expected=f"the world's {want}",
                    fix=f"Build the recipe with {what}={want}.",
                )
            )


def _checked(this: Round, t: int, *, agents: int) -> Round:
    """Return a round whose agent exists and whose arms all have a mean and a reward."""
    if not 0 <= this.agent < agents:
        raise _bad_round(t, f"agent {this.agent}", f"an agent from 0 to {agents - 1}")
    means, rewards = np.asarray(this.means, float), np.asarray(this.rewards, float)
    for name, values in (("means", means), ("rewards", rewards)):
        if values.shape != (len(this.arms),) or not np.isfinite(values).all():
            expected = f"{len(this.arms)} finite numbers, one for each arm"
            raise _bad_round(t, f"{name} {values}", expected)
    return Round(this.agent, this.arms, means, rewards)


def _bad_round(t: int, got: str, expected: str) -> InvalidParameter:
    fix = "Mend the world: rounds(n) must yield n rounds that fit what it says of itself."
    return InvalidParameter(complaint(f"world, round {t}", got=got, expected=expected, fix=fix))
