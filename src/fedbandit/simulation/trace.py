"""The result of a simulation, and the table that it is made from."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The result of ``simulate``: arrays with one entry per round.

    Of each round alone: ``rewards``, what the arm paid; ``arm``, the index that was played;
    ``agent``, which played; ``uploaded``, whether there was an upload; ``seconds`` for choosing,
    observing and merging, without the world. Rounds that were played in one go share their seconds
    evenly.

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


class PerRound(NamedTuple):
    """What every round of a trace was, before sums are taken. ``gap``: the regret of the round."""

    gap: NDArray[np.float64]
    reward: NDArray[np.float64]
    arm: NDArray[np.int64]
    agent: NDArray[np.int64]
    uploads: NDArray[np.int64]
    scalars: NDArray[np.int64]
    bytes: NDArray[np.int64]
    seconds: NDArray[np.float64]

    @classmethod
    def blank(cls, rounds: int) -> Self:
        """Return one for so many rounds, without any messages."""
        return cls(
            gap=np.zeros(rounds),
            reward=np.zeros(rounds),
            arm=np.zeros(rounds, np.int64),
            agent=np.zeros(rounds, np.int64),
            uploads=np.zeros(rounds, np.int64),
            scalars=np.zeros(rounds, np.int64),
            bytes=np.zeros(rounds, np.int64),
            seconds=np.zeros(rounds),
        )

    def trace(self, *, cut: int) -> Trace:
        """Return the trace of all rounds."""
        return Trace(
            regret=self.gap.cumsum(),
            rewards=self.reward,
            arm=self.arm,
            agent=self.agent,
            uploaded=self.uploads > 0,
            uploads=self.uploads.cumsum(),
            scalars=self.scalars.cumsum(),
            bytes=self.bytes.cumsum(),
            seconds=self.seconds,
            cut=cut,
        )
