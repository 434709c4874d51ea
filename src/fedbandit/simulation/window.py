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
from fedbandit.worlds.round import Round, Rounds, is_plain

_FLOATS = 2**19  # in the arms of a window: 4 MB
_LONGEST = 4096  # rounds of a window
_SHORT = 4  # rounds of an agent in a window: with fewer on average, one by one is faster


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
        fits = is_plain(this, len(agents))
        if window.count and not (fits and window.has_room(this)):
            play_together(window.emptied(), t, agents, server, per_round)
        if fits:
            window = window if window.shape == this.arms.shape else Window(this.arms.shape)
            window.add(this)
        else:
            play_round(agents, server, t, this, per_round)
        played = t + 1
    play_together(window.emptied(), played, agents, server, per_round)
    return played


def play_stacked(agents: Agents, server: Server, tape: Rounds, per_round: PerRound) -> int:
    """Play all rounds of a tape that is in memory; return how many there are."""
    many = len(tape.agent)
    size = _longest(tape.arms.shape[1:])
    for start in range(0, many, size):
        stop = min(start + size, many)
        play_together(tape.some(start, stop), stop, agents, server, per_round)
    return many


def _longest(shape: tuple[int, ...]) -> int:
    """Return how many rounds with arms of this shape (K x d) a window has."""
    return max(1, min(_LONGEST, _FLOATS // max(1, shape[0] * shape[1])))


class Window:
    """Copies of rounds that follow each other, all with arms of one shape (K x d)."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.count = shape, 0
        self._rounds = Rounds.blank(_longest(shape), shape)

    def has_room(self, this: Round) -> bool:
        """Say whether a round can be added."""
        return self.count < len(self._rounds.agent) and this.arms.shape == self.shape

    def add(self, this: Round) -> None:
        """Copy a round, which has the shape."""
        self._rounds.put(self.count, this)
        self.count += 1

    def emptied(self) -> Rounds:
        """Return the rounds that were added, and start again with none."""
        count, self.count = self.count, 0
        return self._rounds.some(0, count)


def play_together(
    these: Rounds, stop: int, agents: Agents, server: Server, per_round: PerRound
) -> None:
    """Play the rounds of a window, the last ones of ``stop`` rounds in all."""
    agent, count = these.agent, len(these.agent)
    first = stop - count
    active = np.unique(agent)
    sound = np.isfinite(these.means).all() and np.isfinite(these.rewards).all()
    if not sound or count < _SHORT * len(active):
        for t, this in enumerate(these.one_by_one(), first):
            play_round(agents, server, t, this, per_round)
        return
    own = slice(first, stop)
    per_round.agent[own] = agent
    players = [
        _Player(agents[each], np.flatnonzero(agent == each), these, first)
        for each in active.tolist()
    ]
    _play_in_order(players, agents, server, per_round)
    each, arm = np.arange(count), per_round.arm[own]
    per_round.gap[own] = these.means.max(axis=1) - these.means[each, arm]
    per_round.reward[own] = these.rewards[each, arm]


class _Player:
    """An agent, its rounds of a window, and how many of them it has played."""

    def __init__(self, agent: Agent, places: NDArray[np.intp], these: Rounds, first: int) -> None:
        self._agent, self._played = agent, 0
        self._rounds = first + places
        self._arms, self._rewards = these.arms[places], these.rewards[places]

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
