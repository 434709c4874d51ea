"""One round of a simulation: choose, observe, deliver what is sent."""

from collections import deque
from collections.abc import Sequence
from math import isfinite
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from fedbandit import wire
from fedbandit.core.messages import Message, Upload
from fedbandit.core.server import Server
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.independent import Chooser
from fedbandit.simulation.fleet import Agents
from fedbandit.simulation.trace import PerRound
from fedbandit.worlds.round import Round


def play_round(agents: Agents, server: Server, t: int, this: Round, per_round: PerRound) -> None:
    """Play round t; time all of it but what the world does."""
    means, rewards = checked_numbers(this, t, agents=len(agents))
    agent = agents[this.agent]
    start = perf_counter()
    arm = agent.choose(this.arms)
    upload = agent.observe(arm, rewards[arm])
    sent = [] if upload is None else deliver(upload, agents, server)
    per_round.seconds[t] = perf_counter() - start
    per_round.agent[t], per_round.arm[t] = this.agent, arm
    per_round.gap[t], per_round.reward[t] = max(means) - means[arm], rewards[arm]
    if sent:
        count_messages(sent, t, per_round)


def play_alone(
    name: str, learners: Sequence[Chooser], t: int, this: Round, per_round: PerRound
) -> None:
    """Play round t with learners that send nothing; one that chooses no arm of it is refused."""
    means, rewards = checked_numbers(this, t, agents=len(learners))
    learner, start = learners[this.agent], perf_counter()
    arm = learner.choose(this.arms)
    if not isinstance(arm, int | np.integer) or not 0 <= arm < len(means):
        expected, fix = f"an index from 0 to {len(means) - 1}", "Correct its choose."
        message = complaint(f"{name}, round {t}", got=arm, expected=expected, fix=fix)
        raise InvalidParameter(message)
    learner.observe(int(arm), rewards[arm])
    per_round.seconds[t] = perf_counter() - start
    per_round.agent[t], per_round.arm[t] = this.agent, arm
    per_round.gap[t], per_round.reward[t] = max(means) - means[arm], rewards[arm]


def deliver(first: Upload, agents: Agents, server: Server) -> list[Upload | Message]:
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


def count_messages(sent: Sequence[Upload | Message], t: int, per_round: PerRound) -> None:
    """Write down the messages of round t."""
    per_round.uploads[t] = sum(isinstance(message, Upload) for message in sent)
    per_round.scalars[t] = sum(message.scalars for message in sent)
    per_round.bytes[t] = sum(len(wire.encode(message)) for message in sent)


def checked_numbers(this: Round, t: int, *, agents: int) -> tuple[list[float], list[float]]:
    """Return means and rewards, one each per arm; raise InvalidParameter for a bad round."""
    if not 0 <= this.agent < agents:
        raise bad_round(t, f"agent {this.agent}", f"an agent from 0 to {agents - 1}")
    return _one_each(t, this, "means", this.means), _one_each(t, this, "rewards", this.rewards)


def _one_each(t: int, this: Round, name: str, given: ArrayLike) -> list[float]:
    """Return finite numbers, one per arm, as a list, which is faster than an array if short."""
    values = np.asarray(given, float)
    listed: list[float] = values.tolist()
    arms = np.shape(this.arms)[:1]
    if values.shape != arms or not (isfinite(sum(listed)) or all(map(isfinite, listed))):
        expected = f"{arms[0] if arms else 0} finite numbers, one for each arm"
        raise bad_round(t, f"{name} {values}", expected)
    return listed


def bad_round(t: int, got: str, expected: str) -> InvalidParameter:
    """Return the error for a round that is not what the world promises."""
    fix = "Correct the world: rounds(n) must yield n rounds that fit its dimension and agents."
    return InvalidParameter(complaint(f"world, round {t}", got=got, expected=expected, fix=fix))
