"""A world's tape, drawn once and played by several algorithms."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from fedbandit.worlds.round import Round, World

MOST_BYTES = 2**28
"""How many bytes of arms are kept in memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A world that plays the first rounds of another again, from memory."""

    dimension: int
    agents: int
    played: tuple[Round, ...]

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds again, or all there are."""
        return islice(self.played, n)


def replayable(world: World, rounds: int, *, most_bytes: int = MOST_BYTES) -> World:
    """Return a Replay of the first rounds; the world itself if that takes over ``most_bytes``.

    Rounds are copied: a world may yield the same arrays every time with other numbers in them.
    """
    tape = world.rounds(rounds)
    first = list(islice(tape, 1))
    if sum(np.asarray(this.arms).nbytes for this in first) * rounds > most_bytes:
        return world
    played = tuple(deepcopy(this) for this in islice(chain(first, tape), rounds))
    return Replay(world.dimension, world.agents, played)
