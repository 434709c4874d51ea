"""A world's tape, drawn once and played by several algorithms."""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from fedbandit.worlds.round import Round, Rounds, World, is_plain

MOST_BYTES = 2**28
"""How many bytes of arms are kept in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A world that plays the first rounds of another again, from memory."""

    dimension: int
    agents: int
    played: Rounds | tuple[Round, ...]

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds again, or all there are."""
        played = self.played
        return islice(played.one_by_one() if isinstance(played, Rounds) else played, n)

    def stacked(self, n: int) -> Rounds | None:
        """Return the same as arrays; None if the rounds are not alike."""
        return self.played.some(0, n) if isinstance(self.played, Rounds) else None


def replayable(world: World, rounds: int, *, most_bytes: int = MOST_BYTES) -> World:
    """Return a Replay of the first rounds; the world itself if that takes over ``most_bytes``.

    Rounds are copied: a world may yield the same arrays every time with other numbers in them.
    """
    tape = world.rounds(rounds)
    first = list(islice(tape, 1))
    if sum(np.asarray(this.arms).nbytes for this in first) * rounds > most_bytes:
        return world
    played = _stacked(islice(chain(first, tape), rounds), rounds, world.agents)
    alone = islice(world.rounds(rounds), 0 if played else rounds)
    return Replay(world.dimension, world.agents, played or tuple(map(deepcopy, alone)))


def _stacked(tape: Iterable[Round], many: int, agents: int) -> Rounds | None:
    """Return all rounds of a tape as arrays; None if they are not alike, or none."""
    stack, count = None, 0
    for this in tape:
        if not is_plain(this, agents):
            return None
        if stack is None:
            stack = Rounds.blank(many, this.arms.shape)
        if this.arms.shape != stack.arms.shape[1:]:
            return None
        stack.put(count, this)
        count += 1
    return None if stack is None else stack.some(0, count)
