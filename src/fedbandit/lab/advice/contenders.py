"""The recipes that advice compares on a world."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedbandit.core.algorithms.baselines import FedLinUCB, Random
from fedbandit.core.algorithms.fsclb import FSCLB
from fedbandit.core.recipe import Recipe
from fedbandit.lab.analysis.advice import FLOOR, LEAN, LITERAL, WHOLE, SketchSize, label
from fedbandit.worlds.round import World

RIDGE = 1.0


@dataclass(frozen=True)
class Contender:
    """A recipe of the comparison, its name in the catalogue and the size that it was given."""

    name: str
    sketch_size: SketchSize
    recipe: Recipe

    @property
    def label(self) -> str:
        """Name and size."""
        return label(self.name, self.sketch_size)


def contenders(
    world: World, *, sizes: Sequence[int], radius: float, seed: int = 0
) -> list[Contender]:
    """Return everything that is compared; only Random uses ``seed``."""
    floor = Random(dimension=world.dimension, agents=world.agents, seed=seed)
    return [
        *(lean(world, size, radius) for size in sizes),
        lean(world, "auto", radius),
        *(literal(world, size, radius) for size in sizes),
        whole_matrix(world, radius),
        Contender(FLOOR, None, floor),
    ]


def lean(world: World, size: int | Literal["auto"], radius: float) -> Contender:
    """Return FSCLB.lean with that size."""
    return Contender(LEAN, size, FSCLB.lean(**_shared(world, radius), sketch_size=size))


def literal(world: World, size: int, radius: float) -> Contender:
    """Return the paper's FSCLB with that size."""
    return Contender(LITERAL, size, FSCLB(**_shared(world, radius), sketch_size=size))


def whole_matrix(world: World, radius: float) -> Contender:
    """Return FedLinUCB, which sends the whole matrix."""
    return Contender(WHOLE, None, FedLinUCB(**_shared(world, radius)))


def _shared(world: World, radius: float) -> dict[str, Any]:
    return {
        "dimension": world.dimension,
        "agents": world.agents,
        "ridge": RIDGE,
        "radius": radius,
    }
