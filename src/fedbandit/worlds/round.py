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


class Rounds(NamedTuple):
    """B rounds that follow each other, all with arms of one shape: the fields of ``Round`` stacked.

    ``agent`` (B), ``arms`` (B x K x d), ``means`` and ``rewards`` (B x K).
    """

    agent: NDArray[np.int64]
    arms: NDArray[np.float64]
    means: NDArray[np.float64]
    rewards: NDArray[np.float64]

    @classmethod
    def blank(cls, many: int, shape: tuple[int, ...]) -> "Rounds":
        """Return room for so many rounds with arms of this shape (K x d)."""
        paid = many, shape[0]
        return cls(
            np.zeros(many, np.int64), np.empty((many, *shape)), np.empty(paid), np.empty(paid)
        )

    def put(self, at: int, this: Round) -> None:
        """Copy a round to a place."""
        self.agent[at], self.arms[at] = this.agent, this.arms
        self.means[at], self.rewards[at] = this.means, this.rewards

    def some(self, start: int, stop: int) -> "Rounds":
        """Return the rounds from ``start`` up to ``stop``; nothing is copied."""
        cut = slice(start, stop)
        return Rounds(self.agent[cut], self.arms[cut], self.means[cut], self.rewards[cut])

    def one_by_one(self) -> Iterator[Round]:
        """Yield each round; nothing is copied."""
        return map(Round, self.agent.tolist(), self.arms, self.means, self.rewards)


def is_plain(this: Round, agents: int) -> bool:
    """Say whether a round is arrays of floats with matching shapes, so that it can be stacked."""
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
