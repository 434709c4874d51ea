"""Contenders that play the same rounds block by block, on the clock."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

import fedbandit as fb

AGENTS, ARMS = 10, 10

Turn = Callable[[fb.Round], bool]
"""Play a round; say whether the agent talked to the server."""


def tape(dimension: int, *, agents: int = AGENTS, seed: int = 0) -> Iterator[fb.Round]:
    """Yield rounds for ever: K = 10 unit arms, noise 0.1."""
    world = fb.worlds.Synthetic(dimension=dimension, arms=ARMS, agents=agents, seed=seed)
    return world.rounds(2**31)


class Federation:
    """A recipe in play: its agents and its server."""

    def __init__(self, recipe: fb.Recipe) -> None:
        fb.simulation.warm_up(recipe)
        self.agents, self.server = recipe.fleet(), recipe.server()

    def round(self, this: fb.Round) -> bool:
        """Choose, observe, and exchange if it is time to; say whether it was."""
        agent = self.agents[this.agent]
        arm = agent.choose(this.arms)
        upload = agent.observe(arm, float(this.rewards[arm]))
        if upload is None:
            return False
        for answer in self.server.receive(upload):
            self.agents[answer.agent].receive(answer.message)
        return True


class Product:
    """The arms times the sketch that the agent holds, and nothing else: what no round can avoid."""

    def __init__(self, held: Federation) -> None:
        self._rows = [agent.state()["base.rows"] for agent in held.agents]

    def round(self, this: fb.Round) -> bool:
        """Multiply."""
        this.arms @ self._rows[this.agent].T
        return False


@dataclass
class Player:
    """A contender with the seconds it took: quiet rounds apart from those that talk."""

    turn: Turn
    quiet: list[float] = field(default_factory=list)
    talking: list[float] = field(default_factory=list)
    blocks: list[float] = field(default_factory=list)

    def play(self, rounds: Sequence[fb.Round]) -> None:
        """Play a block; everything but drawing the rounds is on the clock."""
        before = len(self.quiet)
        for this in rounds:
            start = perf_counter()
            talked = self.turn(this)
            (self.talking if talked else self.quiet).append(perf_counter() - start)
        if fresh := self.quiet[before:]:
            self.blocks.append(float(np.mean(fresh)))

    def forget(self) -> None:
        """Count from here."""
        for spent in (self.quiet, self.talking, self.blocks):
            spent.clear()

    @property
    def steady(self) -> float:
        """Microseconds of a round between two syncs: median over blocks of the block's mean."""
        return 1e6 * float(np.median(self.blocks))

    @property
    def whole(self) -> float:
        """Microseconds a round of everything played, server merges included."""
        total = sum(self.quiet) + sum(self.talking)
        return 1e6 * total / (len(self.quiet) + len(self.talking))


def alternate(players: Sequence[Player], dimension: int, *, blocks: int, block: int) -> None:
    """Let the players play the same blocks in turn, starting with another one each time."""
    rounds = tape(dimension)
    for turn in range(blocks):
        ahead = [next(rounds) for _ in range(block)]
        for shift in range(len(players)):
            players[(turn + shift) % len(players)].play(ahead)


def settle(player: Player, dimension: int, rounds: int) -> None:
    """Play rounds that are not counted, so that what follows is the steady state."""
    stream = tape(dimension, seed=1)
    for _ in range(rounds):
        player.turn(next(stream))
    player.forget()


def median_microseconds(act: Callable[[], object], *, blocks: int = 15, repeats: int = 50) -> float:
    """Return the median over blocks of the mean time of a call."""
    act()
    means = []
    for _ in range(blocks):
        start = perf_counter()
        for _ in range(repeats):
            act()
        means.append((perf_counter() - start) / repeats)
    return 1e6 * float(np.median(means))
