"""A world whose parameter changes, at once or gradually."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice, repeat

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import one_of, real, whole
from fedbandit.errors import InvalidParameter, complaint
from fedbandit.worlds.round import Round
from fedbandit.worlds.simulated.rewards import checked_rewards, paid
from fedbandit.worlds.simulated.synthetic import Synthetic
from fedbandit.worlds.tape import lengths, streams, with_constant

DRIFTS = ("abrupt", "rotation", "walk")
"""How theta changes."""


@dataclass(frozen=True, kw_only=True)
class Drifting:
    """Linear rewards whose parameter changes, at once or gradually.

    From round ``at`` (counted from 0) on theta is not what it was; ``drift`` says how it changes:

    - ``"abrupt"``: there is another theta, independent of the first.
    - ``"rotation"``: theta turns in a random plane, ``speed`` radians in 1,000 rounds.
    - ``"walk"``: every round theta takes a Gaussian step of about ``speed`` / sqrt(1,000) of its
      length in a random direction, so about ``speed`` in 1,000 rounds, and is scaled back.

    ``speed`` is 1 unless given. theta stays ``signal`` long. Arms are Gaussian, of length 1,
    isotropic or, with ``rank``, in a random subspace of that rank, which theta does not leave.
    ``mean``, ``rewards`` and ``noise`` are those of `Synthetic`; the mean does not change.
    """

    dimension: int
    arms: int
    agents: int
    at: int
    drift: str = "abrupt"
    speed: float | None = None
    rank: int | None = None
    noise: float = 0.1
    seed: int = 0
    signal: float = 1.0
    mean: float | None = None
    rewards: str = "gaussian"

    def __post_init__(self) -> None:
        one_of("drift", self.drift, DRIFTS)
        least = 1 if self.mean is None else 2
        checked: dict[str, object] = {
            "dimension": whole("dimension", self.dimension, least=least),
            "at": whole("at", self.at, least=0),
            **checked_rewards(self.rewards, noise=self.noise, signal=self.signal, mean=self.mean),
        }
        if self.speed is not None:
            checked["speed"] = real("speed", self.speed, zero=True)
            if self.drift == "abrupt":
                got, expected = f"{self.speed!r} with drift 'abrupt'", "no speed"
                fix = "Leave speed out, or say drift='rotation' or 'walk'."
                raise InvalidParameter(complaint("speed", got=got, expected=expected, fix=fix))
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name in ("arms", "agents", "seed", "rank"):
            object.__setattr__(self, name, getattr(self._still(), name))
        if self.drift == "rotation":
            why = "theta turns in a plane"
            whole("dimension" if self.rank is None else "rank", self._axes, least=2, why=why)

    @property
    def params(self) -> dict[str, object]:
        """Everything that decides the tape, as plain values with defaults filled in."""
        return {**asdict(self), "speed": None if self.drift == "abrupt" else self._speed}

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds. The arrays are the caller's to keep."""
        return islice(self._tape(), whole("rounds(n)", n, least=0))

    def _tape(self) -> Iterator[Round]:
        *_, noise, changes = streams(self.seed, 6)
        still, theta = self._still(), self._directions(changes)
        for active, features in still.blocks():
            along = np.stack(list(islice(theta, len(features))))
            thetas = self.signal * still.turned(along)
            scores: NDArray[np.float64] = np.einsum("rkd,rd->rk", features, thetas)
            arms = features
            if self.mean is not None:
                arms, scores = with_constant(features), scores + self.mean
            means, rewards = paid(scores, noise, kind=self.rewards, noise=self.noise)
            yield from map(Round, active.tolist(), arms, means, rewards)

    def _directions(self, stream: np.random.Generator) -> Iterator[NDArray[np.float64]]:
        """Yield theta's direction in every round, along the principal axes of the arms."""
        first, other = (_unit(stream.standard_normal(self._axes)) for _ in range(2))
        yield from repeat(first, self.at)
        if self.drift == "abrupt":
            yield from repeat(other)
        elif self.drift == "rotation":
            aside = _unit(other - np.einsum("d,d->", other, first) * first)
            for step in count(1):
                angle = step * self._speed / 1000
                yield np.cos(angle) * first + np.sin(angle) * aside
        theta, size = first, self._speed / np.sqrt(1000 * self._axes)
        while True:
            theta = _unit(theta + size * stream.standard_normal(self._axes))
            yield theta

    def _still(self) -> Synthetic:
        """Return the world whose arms these are, without the constant."""
        return Synthetic(
            dimension=self.dimension - (self.mean is not None),
            arms=self.arms,
            agents=self.agents,
            seed=self.seed,
            spectrum="isotropic" if self.rank is None else "low-rank",
            rank=self.rank,
        )

    @property
    def _axes(self) -> int:
        """How many directions arms and theta have."""
        return self.dimension - (self.mean is not None) if self.rank is None else self.rank

    @property
    def _speed(self) -> float:
        return 1.0 if self.speed is None else self.speed


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = vector / lengths(vector)
    return scaled
