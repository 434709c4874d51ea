"""A world in which a better arm with a new feature appears."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import one_of, real, whole
from fedbandit.worlds.round import Round
from fedbandit.worlds.simulated.rewards import checked_rewards, paid
from fedbandit.worlds.simulated.synthetic import Synthetic
from fedbandit.worlds.tape import streams, with_constant

DIRECTIONS = ("axis", "dense")
"""A new feature is a coordinate that was 0, or a direction that no arm had a share of."""


@dataclass(frozen=True, kw_only=True)
class Late:
    """A better arm with a new feature appears at some round, as a new product does.

    Before it, arms are those of `Synthetic` with ``rank`` random directions and length 1, and
    scores are <x, theta> with theta in their span, ``signal`` long. From round ``at`` (counted from
    0) on, one arm of every round, at a random place, is the new one: of length 1 along a direction
    that all other arms are orthogonal to, with the score ``gain``. ``direction`` says which:
    ``"axis"`` is the first coordinate, which is 0 in all other arms; ``"dense"`` is spread over all
    coordinates.

    ``mean``, ``rewards`` and ``noise`` are those of `Synthetic`; with ``mean`` the last feature of
    every arm is a constant 1, the new arm's too.
    """

    dimension: int
    arms: int
    agents: int
    at: int
    rank: int = 5
    direction: str = "axis"
    gain: float = 1.0
    noise: float = 0.1
    seed: int = 0
    signal: float = 1.0
    mean: float | None = None
    rewards: str = "gaussian"

    def __post_init__(self) -> None:
        constant = self.mean is not None
        checked: dict[str, object] = {
            "dimension": whole("dimension", self.dimension, least=2 + constant),
            "at": whole("at", self.at, least=0),
            "gain": real("gain", self.gain),
            **checked_rewards(self.rewards, noise=self.noise, signal=self.signal, mean=self.mean),
        }
        most, why = self.dimension - 1 - constant, "one direction has to be new"
        checked["rank"] = whole("rank", self.rank, least=1, most=most, why=why)
        one_of("direction", self.direction, DIRECTIONS)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name in ("arms", "agents", "seed"):
            object.__setattr__(self, name, getattr(self._before(), name))

    @property
    def params(self) -> dict[str, object]:
        """Everything that decides the tape, as plain values."""
        return asdict(self)

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds. The arrays are the caller's to keep."""
        return islice(self._tape(), whole("rounds(n)", n, least=0))

    def _tape(self) -> Iterator[Round]:
        *_, noise, places = streams(self.seed, 6)
        before, new, begun = self._before(), self._new(), 0
        known = self._padded(before.theta)
        for active, block in before.blocks():
            arms, length = self._padded(block), len(block)
            scores: NDArray[np.float64] = np.einsum("rkd,d->rk", arms, known)
            late = np.arange(max(0, self.at - begun), length)
            place = places.integers(self.arms, size=length)[late]
            arms[late, place], scores[late, place] = new, self.gain
            if self.mean is not None:
                arms, scores = with_constant(arms), scores + self.mean
            means, rewards = paid(scores, noise, kind=self.rewards, noise=self.noise)
            yield from map(Round, active.tolist(), arms, means, rewards)
            begun += length

    def _before(self) -> Synthetic:
        """Return the world without the new arm, and without the coordinate that only it has."""
        return Synthetic(
            dimension=self.dimension - (self.direction == "axis") - (self.mean is not None),
            arms=self.arms,
            agents=self.agents,
            seed=self.seed,
            spectrum="low-rank",
            rank=self.rank,
            signal=self.signal,
        )

    def _new(self) -> NDArray[np.float64]:
        """Return the new arm, without the constant."""
        if self.direction == "dense":  # the principal axis after those of the other arms
            return self._before().turned(np.eye(self.rank + 1)[self.rank])
        new = np.zeros(self.dimension - (self.mean is not None))
        new[0] = 1.0
        return new

    def _padded(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows with a 0 for the new coordinate in front, if there is one."""
        if self.direction == "dense":
            return rows
        return np.concatenate([np.zeros((*rows.shape[:-1], 1)), rows], axis=-1)
