"""Small worlds, made from a seed, that ask more of a recipe than an ordinary one does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedbandit.worlds import Round, Synthetic, World

SMALL_WORLDS: Final = ("plain", "long arms", "changing arms", "tied arms", "reused arrays")


def small_worlds(*, dimension: int, agents: int, seed: int = 0) -> dict[str, World]:
    """Return a world of each kind, by the names in ``SMALL_WORLDS``."""
    plain = Synthetic(dimension=dimension, agents=agents, seed=seed, arms=4, noise=0.1)
    worlds: list[World] = [
        plain,
        replace(plain, norm=100.0),
        ChangingArms(dimension=dimension, agents=agents, seed=seed),
        TiedArms(dimension=dimension, agents=agents, seed=seed),
        ReusedArrays(dimension=dimension, agents=agents, seed=seed),
    ]
    return dict(zip(SMALL_WORLDS, worlds, strict=True))


@dataclass(frozen=True, kw_only=True)
class ChangingArms:
    """From one to seven arms a round, of changing length, longest in a direction that drifts."""

    dimension: int
    agents: int
    seed: int = 0
    drift: int = 50
    """Rounds until the next feature is the largest."""

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds."""
        rng, d = np.random.default_rng(self.seed), self.dimension
        theta = rng.standard_normal(d)
        for t in range(n):
            arms = rng.standard_normal((1 + t % 7, d)) * rng.uniform(0.1, 3.0)
            arms[:, t // self.drift % d] += 2.0
            agent, means = int(rng.integers(self.agents)), arms @ theta
            yield Round(agent, arms, means, means + rng.standard_normal(len(arms)))


@dataclass(frozen=True, kw_only=True)
class TiedArms:
    """Three equal arms a round, all features of every other round zero."""

    dimension: int
    agents: int
    seed: int = 0

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds."""
        rng = np.random.default_rng(self.seed)
        for t in range(n):
            arms = np.tile(rng.standard_normal(self.dimension) * (t % 2), (3, 1))
            means = arms.sum(axis=1)
            yield Round(t % self.agents, arms, means, means)


@dataclass(frozen=True, kw_only=True)
class ReusedArrays:
    """The same arrays in every round, with other numbers in them: a recipe has to copy them."""

    dimension: int
    agents: int
    seed: int = 0

    def rounds(self, n: int) -> Iterator[Round]:
        """Yield the first n rounds."""
        rng = np.random.default_rng(self.seed)
        arms, means = np.empty((4, self.dimension)), np.empty(4)
        for t in range(n):
            arms[:] = rng.standard_normal(arms.shape)
            means[:] = arms.sum(axis=1)
            yield Round(t % self.agents, arms, means, means)
