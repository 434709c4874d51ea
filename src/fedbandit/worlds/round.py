"""One decision of one agent, and what every arm would have paid."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Round(NamedTuple):
    """What happens in one round, for every arm that might be played.

    ``agent`` is active and is shown ``arms`` (K x d). Arm k would pay ``rewards[k]``, whose mean is
    ``means[k]``; regret is counted on means. K may change from round to round.
    """

    agent: int
    arms: NDArray[np.float64]
    means: NDArray[np.float64]
    rewards: NDArray[np.float64]


class World(Protocol):
    """A tape of rounds: playing it again gives the same rounds, whatever was chosen.

    ``rounds(n)`` yields the first n rounds; a shorter call yields a prefix of a longer one.
    """

    @property
    def dimension(self) -> int:
        """Length of an arm."""
        ...

    @property
    def agents(self) -> int:
        """Number of agents; ``Round.agent`` is below it."""
        ...

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds."""
        ...
