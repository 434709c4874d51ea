"""Rounds in windows: each agent plays its own rounds of a window in stretches, uploads in order.

An agent that decides with its last download, and is answered alone, depends on no other agent
until it uploads. So each plays its rounds of a window up to its next upload; the earliest upload of
all is delivered, its sender plays on, and so forth. Every message is the one that it would be if
rounds were played one by one.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.agent import Agent
from fedbandit.core.messages import Upload
from fedbandit.core.parts.reply import ToSender
from fedbandit.core.recipe import Recipe
from fedbandit.core.server import Server
from fedbandit.simulation.fleet import Agents
from fedbandit.simulation.round import count_messages, deliver, play_round
from fedbandit.simulation.trace import PerRound
from fedbandit.worlds.round import Round

_FLOATS = 2**19  # in the arms of a window: 4 MB
_LONGEST = 4096  # rounds of a window
_SHORT = 4  # rounds of an agent in a window: with fewer on average, one by one is faster

Array = NDArray[np.float64]


def plays_in_stretches(recipe: Recipe) -> bool:
    """Say whether agents of a recipe depend on no other agent between two uploads of theirs."""
    parts = recipe.parts
    return type(parts.reply) is ToSender and not parts.own_data and not parts.shared


def play_in_windows(
    agents: Agents, server: Server, tape: Iterable[tuple[int, Round]], per_round: PerRound
) -> int:
    """Play all rounds of a tape, numbered from 0; return how many there were."""
    window, played = Window((0, 0)), 0
    for t, this in tape:
        fits = _is_plain(this, len(agents))
        if window.count and not (fits and window.has_room(this)):
            window.play(agents, server, per_round)
        if fits:
            window = window if window.shape == this.arms.shape else Window(this.arms.shape)
            window.add(t, this)
        else:
            play_round(agents, server, t, this, per_round)
        played = t + 1
    window.play(agents, server, per_round)
    return played


def _is_plain(this: Round, agents: int) -> bool:
    """Say whether a round is arrays of floats with matching shapes; others are played alone."""
    arms = this.arms
    return (
        type(arms) is np.ndarray
        and arms.dtype == np.float64
        and arms.ndim == 2
        and type(this.agent) is int
        and 0 <= this.agent < agents
        and type(this.means) is type(this.rewards) is np.ndarray
        and this.means.shape == this.rewards.shape == arms.shape[:1]
    )


class Window:
    """Copies of rounds that follow each other, all with arms of one shape (K x d)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.count, self._first = shape, 0, 0
        size = max(1, min(_LONGEST, _FLOATS // max(1, shape[0] * shape[1])))
        self._agent = np.zeros(size, np.int64)
        self._arms: Array = np.empty((size, *shape))
        self._means: Array = np.empty((size, shape[0]))
        self._rewards: Array = np.empty((size, shape[0]))

    def has_room(self, this: Round) -> bool:
        """Say whether a round can be added."""
        return self.count < len(self._agent) and this.arms.shape == self.shape

    def add(self, t: int, this: Round) -> None:
        """Copy round t, which has the shape."""
        at = self.count
        if not at:
            self._first = t
        self._agent[at], self._arms[at] = this.agent, this.arms
        self._means[at], self._rewards[at] = this.means, this.rewards
        self.count = at + 1

    def play(self, agents: Agents, server: Server, per_round: PerRound) -> None:
        """Play all rounds, and start again with none."""
        count, first = self.count, self._first
        self.count = 0
        agent, means, rewards = self._agent[:count], self._means[:count], self._rewards[:count]
        active = np.unique(agent)
        sound = np.isfinite(means).all() and np.isfinite(rewards).all()
        if not sound or count < _SHORT * len(active):
            for at in range(count):
                this = Round(int(agent[at]), self._arms[at], means[at], rewards[at])
                play_round(agents, server, first + at, this, per_round)
            return
        own = slice(first, first + count)
        per_round.agent[own] = agent
        players = [
            _Player(agents[each], np.flatnonzero(agent == each), self._arms, rewards, first)
            for each in active.tolist()
        ]
        _play_in_order(players, agents, server, per_round)
        each, arm = np.arange(count), per_round.arm[own]
        per_round.gap[own] = means.max(axis=1) - means[each, arm]
        per_round.reward[own] = rewards[each, arm]


class _Player:
    """An agent, its rounds of a window, and how many of them it has played."""

    def __init__(
        self, agent: Agent, places: NDArray[np.intp], arms: Array, rewards: Array, first: int
    ) -> None:
        self._agent, self._played = agent, 0
        self._rounds = first + places
        self._arms, self._rewards = arms[places], rewards[places]

    def play(self, per_round: PerRound) -> tuple[int, Upload] | None:
        """Play on; return the next upload and its round, None if there is none any more."""
        at = self._played
        if at == len(self._rounds):
            return None
        start = perf_counter()
        arms, upload = self._agent.play(self._arms[at:], self._rewards[at:])
        seconds = perf_counter() - start
        rounds = self._rounds[at : at + len(arms)]
        per_round.arm[rounds], per_round.seconds[rounds] = arms, seconds / len(arms)
        self._played += len(arms)
        return None if upload is None else (int(rounds[-1]), upload)


def _play_in_order(
    players: list[_Player], agents: Agents, server: Server, per_round: PerRound
) -> None:
    """Let all play to their ends; uploads are delivered by their rounds."""
    due: list[tuple[int, int, Upload]] = []  # round, player, upload: no two have the same round

    def go_on(each: int) -> None:
        if sent := players[each].play(per_round):
            heappush(due, (sent[0], each, sent[1]))

    for each in range(len(players)):
        go_on(each)
    while due:
        t, each, upload = heappop(due)
        start = perf_counter()
        sent = deliver(upload, agents, server)
        per_round.seconds[t] += perf_counter() - start
        count_messages(sent, t, per_round)
        go_on(each)
