"""Simulate a recipe on a world: all agents and the server in one process, no network."""

import warnings
from collections import deque
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedbandit import wire
from fedbandit.core.agent import Agent
from fedbandit.core.checks import whole
from fedbandit.core.messages import Message, Upload
from fedbandit.core.parts.choice import Policy
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.core.statistics import Base
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.independent import Independent
from fedbandit.worlds.round import Round, World


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The result of ``simulate``: arrays with one entry per round.

    Of each round alone: ``rewards``, what the arm paid; ``arm``, the index that was played;
    ``agent``, which played; ``uploaded``, whether there was an upload; ``seconds`` for choosing,
    observing and merging, without the world.

    Sums up to and including each round: ``reward``; ``regret``; ``uploads``; ``scalars``, the
    numbers in all messages, counted as the paper does; ``bytes`` of all encoded messages. Both
    directions count.

    ``cut``: how many uploads had a correction that was too long and was cut
    (``estimate="corrected"``); it should be 0.
    """

    regret: NDArray[np.float64]
    rewards: NDArray[np.float64]
    arm: NDArray[np.int64]
    agent: NDArray[np.int64]
    uploaded: NDArray[np.bool_]
    uploads: NDArray[np.int64]
    scalars: NDArray[np.int64]
    bytes: NDArray[np.int64]
    seconds: NDArray[np.float64]
    cut: int = 0

    @property
    def reward(self) -> NDArray[np.float64]:
        """Sum of the rewards up to and including each round."""
        return self.rewards.cumsum()

    def __len__(self) -> int:
        return len(self.arm)

    def __repr__(self) -> str:
        if not len(self):
            return "Trace(rounds=0)"
        return (
            f"Trace(rounds={len(self)}, reward={self.rewards.sum():.6g}, "
            f"regret={self.regret[-1]:.6g}, uploads={self.uploads[-1]}, "
            f"scalars={self.scalars[-1]}, seconds={self.seconds.sum():.3g})"
        )


def simulate(recipe: Recipe | Independent, world: World, *, rounds: int) -> Trace:
    """Play ``rounds`` rounds of a recipe on a world and return the trace.

    ``Independent`` plays a learner of one's own for each agent.

    Messages arrive at once and in order. All of the trace but ``seconds`` is determined by recipe,
    world and rounds. The world must have the recipe's dimension, and at most as many agents.
    """
    _check(recipe, world, rounds)
    if isinstance(recipe, Independent):
        return _simulate_independent(recipe, world, rounds)
    warm_up(recipe)
    agents, server = recipe.fleet(), recipe.server()
    played, table = 0, np.empty((rounds, len(Played._fields)))
    for t, this in enumerate(islice(world.rounds(rounds), rounds)):
        table[t] = _round(agents, server, t, this)
        played += 1
    if played < rounds:
        raise _bad_round(played, "no more rounds", f"{rounds} rounds")
    cut = server.statistics.cut
    if cut:
        warnings.warn(_cut_short(recipe, cut, server.version), stacklevel=2)
    return _trace(table, cut)


def _simulate_independent(recipe: Independent, world: World, rounds: int) -> Trace:
    """Play learners that send nothing; a learner that chooses no arm of the round is refused."""
    learners, played, table = recipe.fleet(), 0, np.zeros((rounds, len(Played._fields)))
    for t, this in enumerate(islice(world.rounds(rounds), rounds)):
        means, rewards = _checked(this, t, agents=len(learners))
        learner, start = learners[this.agent], perf_counter()
        arm = learner.choose(this.arms)
        if not isinstance(arm, int | np.integer) or not 0 <= arm < len(means):
            expected, fix = f"an index from 0 to {len(means) - 1}", "Correct its choose."
            message = complaint(f"{recipe.name}, round {t}", got=arm, expected=expected, fix=fix)
            raise InvalidParameter(message)
        learner.observe(int(arm), rewards[arm])
        seconds = perf_counter() - start
        gap = max(means) - means[arm]
        table[t] = Played(gap, rewards[arm], arm, this.agent, 0, 0, 0, seconds)
        played += 1
    if played < rounds:
        raise _bad_round(played, "no more rounds", f"{rounds} rounds")
    return _trace(table, cut=0)


def _trace(table: NDArray[np.float64], cut: int) -> Trace:
    gap, reward, arm, agent, uploads, scalars, sizes, seconds = table.T.copy()
    return Trace(
        regret=gap.cumsum(),
        rewards=reward,
        arm=arm.astype(np.int64),
        agent=agent.astype(np.int64),
        uploaded=uploads > 0,
        uploads=uploads.astype(np.int64).cumsum(),
        scalars=scalars.astype(np.int64).cumsum(),
        bytes=sizes.astype(np.int64).cumsum(),
        seconds=seconds,
        cut=cut,
    )


def _cut_short(recipe: Recipe, cut: int, uploads: int) -> str:
    """Say that corrections were cut, and what to do about it."""
    params = recipe.params
    told = params.get("compensation") == "uniform" or isinstance(params["radius"], str)
    fix = "Raise parameter_norm in bounds." if told else "Look at the scale of arms and rewards."
    return f"The correction of {cut} of {uploads} uploads was too long and was cut. {fix}"


class Played(NamedTuple):
    """One round of a trace, before sums are taken. ``gap``: the regret of this round."""

    gap: float
    reward: float
    arm: int
    agent: int
    uploads: int
    scalars: int
    bytes: int
    seconds: float


def warm_up(recipe: Recipe) -> None:
    """Call once what agents and server call, so that compiling is not timed as part of a run."""
    memory, d = recipe.parts.memory, recipe.dimension
    base = Base(memory.empty(), memory)
    pending = memory.pending(base)
    arms = np.random.default_rng(0).standard_normal((memory.capacity + 2, d))
    for x in arms:
        pending.absorb(x, 1.0, 1.0)
    pending.growth_exceeds(0.0)
    merged = base.statistics.summary.merge(pending.summary()).merge(pending.summary())
    policy = Policy(memory.read(merged), arms[0], 1.0)
    recipe.parts.choice.choose(policy, arms, 0, 0)


def _round(agents: list[Agent], server: Server, t: int, this: Round) -> Played:
    """Play one round; time all of it but what the world does."""
    means, rewards = _checked(this, t, agents=len(agents))
    agent = agents[this.agent]
    start = perf_counter()
    arm = agent.choose(this.arms)
    upload = agent.observe(arm, rewards[arm])
    sent = [] if upload is None else _deliver(upload, agents, server)
    seconds = perf_counter() - start
    gap = max(means) - means[arm]
    if not sent:
        return Played(gap, rewards[arm], arm, this.agent, 0, 0, 0, seconds)
    uploads = sum(isinstance(message, Upload) for message in sent)
    scalars = sum(message.scalars for message in sent)
    sizes = sum(len(wire.encode(message)) for message in sent)
    return Played(gap, rewards[arm], arm, this.agent, uploads, scalars, sizes, seconds)


def _deliver(first: Upload, agents: list[Agent], server: Server) -> list[Upload | Message]:
    """Deliver an upload and all messages that follow from it; return all messages."""
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


def _check(recipe: Recipe | Independent, world: World, rounds: int) -> None:
    whole("rounds", rounds, least=0)
    for what in ("dimension", "agents"):
        have, want = getattr(recipe, what), getattr(world, what)
        fits = have == want if what == "dimension" else have >= want
        if not fits:
            raise InvalidParameter(
                f"simulate: the recipe has {what}={have}, but the world has {what}={want}. "
                f"Build the recipe with {what}={want}."
            )


def _checked(this: Round, t: int, *, agents: int) -> tuple[list[float], list[float]]:
    """Return means and rewards, one each per arm; raise InvalidParameter for a bad round."""
    if not 0 <= this.agent < agents:
        raise _bad_round(t, f"agent {this.agent}", f"an agent from 0 to {agents - 1}")
    return _one_each(t, this, "means", this.means), _one_each(t, this, "rewards", this.rewards)


def _one_each(t: int, this: Round, name: str, given: ArrayLike) -> list[float]:
    """Return finite numbers, one per arm, as a list, which is faster than an array if short."""
    values = np.asarray(given, float)
    listed: list[float] = values.tolist()
    arms = np.shape(this.arms)[:1]
    if values.shape != arms or not (isfinite(sum(listed)) or all(map(isfinite, listed))):
        expected = f"{arms[0] if arms else 0} finite numbers, one for each arm"
        raise _bad_round(t, f"{name} {values}", expected)
    return listed


def _bad_round(t: int, got: str, expected: str) -> InvalidParameter:
    fix = "Correct the world: rounds(n) must yield n rounds that fit its dimension and agents."
    return InvalidParameter(complaint(f"world, round {t}", got=got, expected=expected, fix=fix))
