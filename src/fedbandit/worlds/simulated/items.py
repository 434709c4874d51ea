"""A world of items that are shown as often as they are popular."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedbandit.core.checks import real, whole
from fedbandit.worlds.round import Round
from fedbandit.worlds.simulated.rewards import checked_rewards, paid
from fedbandit.worlds.tape import MOST, block_length, lengths, streams


@dataclass(frozen=True, kw_only=True)
class Items:
    """One-hot items of Zipf popularity beside dense features.

    The first ``items`` features of an arm say which item it is (a 1 among zeros), the others are a
    Gaussian vector scaled to length 1. Every arm of every round is item i (from 1) with a chance
    proportional to i^-popularity, so a round may show an item twice, with other dense features.
    The active agent is uniform at random.

    The score is <x, theta>. The dense part of theta is uniform on the sphere of radius ``signal``;
    an item's entry is normal around ``mean`` with deviation ``signal`` / sqrt(dense features), so
    that both contribute alike. ``rewards`` and ``noise`` are those of `Synthetic`.
    """

    dimension: int
    arms: int
    agents: int
    items: int
    popularity: float = 1.0
    noise: float = 0.1
    seed: int = 0
    signal: float = 1.0
    mean: float = 0.0
    rewards: str = "gaussian"

    def __post_init__(self) -> None:
        checked: dict[str, object] = {
            "dimension": whole("dimension", self.dimension, least=2, most=MOST),
            "arms": whole("arms", self.arms, least=1, most=MOST),
            "agents": whole("agents", self.agents, least=1, most=MOST),
            "popularity": real("popularity", self.popularity, zero=True),
            "seed": whole("seed", self.seed, least=0),
            **checked_rewards(
                self.rewards, noise=self.noise, signal=self.signal, mean=self.mean, meanless=False
            ),
        }
        most, why = self.dimension - 1, "at least one feature is dense"
        checked["items"] = whole("items", self.items, least=1, most=most, why=why)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def params(self) -> dict[str, object]:
        """Everything that decides the tape, as plain values."""
        return asdict(self)

    @cached_property
    def theta(self) -> NDArray[np.float64]:
        """What scores are linear in: the items' entries, then the dense part."""
        stream = streams(self.seed, 1)[0]
        dense = stream.standard_normal(self.dimension - self.items)
        dense *= self.signal / lengths(dense)
        items = stream.standard_normal(self.items) * (self.signal / np.sqrt(len(dense)))
        theta = np.concatenate([self.mean + items, dense])
        theta.setflags(write=False)
        return theta

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds. The arrays are the caller's to keep."""
        return islice(self._tape(), whole("rounds(n)", n, least=0))

    def _tape(self) -> Iterator[Round]:
        _, agents, shown, features, noise = streams(self.seed, 5)
        length, one_hot = block_length(self.arms * self.dimension), np.eye(self.items)
        shares = np.cumsum(np.arange(1, self.items + 1, dtype=np.float64) ** -self.popularity)
        while True:
            draws = shares[-1] * shown.random((length, self.arms))
            items = np.minimum(np.searchsorted(shares, draws, side="right"), self.items - 1)
            dense = features.standard_normal((length, self.arms, self.dimension - self.items))
            dense /= lengths(dense)[..., np.newaxis]
            arms = np.concatenate([one_hot[items], dense], axis=-1)
            scores: NDArray[np.float64] = np.einsum("rkd,d->rk", arms, self.theta)
            means, rewards = paid(scores, noise, kind=self.rewards, noise=self.noise)
            active = agents.integers(self.agents, size=length).tolist()
            yield from map(Round, active, arms, means, rewards)
