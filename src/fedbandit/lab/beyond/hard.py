"""Worlds beyond the paper's: late features, intercepts, clicks, ratings, items, hashes, drift."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.memory.sizing import lean_budget
from fedbandit.core.recipe import Recipe
from fedbandit.lab.beyond.variants import FED, LEAN, LITERAL, RANDOM
from fedbandit.lab.runs.task import NamedWorld, Task
from fedbandit.lab.specs.spec import NO_RADIUS
from fedbandit.lab.study.settings import AGENTS
from fedbandit.lab.study.study import Size
from fedbandit.worlds import Drifting, Hashed, Items, Late, Synthetic

CONSTANT: Final = "FSCLB.lean, 0.5"
LINES: Final = (FED, LITERAL, LEAN, CONSTANT, RANDOM)
ROWS: Final = 0.4
"""The literal FSCLB's sketch size as a share of d; the paper's choice. It has no default."""


@dataclass(frozen=True)
class HardWorld:
    """A world with a name; ``make`` builds it from ``params``.

    ``rounds`` is how many rounds are played in it, ``changes`` the round at which it changes (None
    if it does not), both as multiples of the study's rounds. ``share`` is what lean's rows may take
    of a d x d matrix, None for its default.
    """

    name: str
    make: Callable[..., NamedWorld]
    params: Mapping[str, Any]
    rounds: float = 1.0
    changes: float | None = None
    share: float | None = None

    def length(self, rounds: int) -> int:
        """Return how many rounds are played in a study of ``rounds``."""
        return int(self.rounds * rounds)

    def change(self, rounds: int) -> int | None:
        """Return the round, counted from 0, at which it changes in a study of ``rounds``."""
        return None if self.changes is None else int(self.changes * rounds)

    def world(self, seed: int, rounds: int) -> NamedWorld:
        """Return the tape of one trial."""
        change = self.change(rounds)
        at = {} if change is None else {"at": change}
        return self.make(**{**GENERAL, **self.params, **at}, seed=seed)


GENERAL: Mapping[str, Any] = {"dimension": 50, "arms": 10, "agents": AGENTS}


def _late(rank: int, direction: str, share: float | None = None) -> HardWorld:
    what = {"axis": "new coordinate", "dense": "new dense direction"}[direction]
    name = f"{what}, rank {rank}" + (f", {share:.0%} budget" if share else "")
    params = {"rank": rank, "direction": direction}
    return HardWorld(name, Late, params, rounds=1.25, changes=1.0, share=share)


def _drift(drift: str, **params: Any) -> HardWorld:
    return HardWorld(f"drift, {drift}", Drifting, {"drift": drift, **params}, changes=0.5)


def _still(name: str, **params: Any) -> HardWorld:
    return HardWorld(name, Synthetic, params)


ITEM_RATINGS: Mapping[str, Any] = {"items": 30, "mean": 3.0, "rewards": "ratings", "signal": 3.0}

HARD: Final = (
    _still("isotropic"),
    *(_late(rank, direction) for direction in ("axis", "dense") for rank in (5, 15, 40)),
    _late(15, "dense", share=0.08),  # has room for 15 rows of 20,000 rounds
    *(_still(f"intercept, mean {mean:g}", mean=mean) for mean in (0.0, 6.0, 10.0)),
    _still("intercept, 5 % clicks", mean=0.05, rewards="clicks", signal=0.25),
    _still("intercept, ratings", mean=3.0, rewards="ratings", signal=4.0),
    HardWorld("hashed, ratings", Hashed, {"dimension": 128}),
    HardWorld("items", Items, {"items": 30}),
    HardWorld("items, ratings", Items, ITEM_RATINGS),
    _still("own subspaces, rank 5", spectrum="low-rank", rank=5, subspaces="own"),
    _drift("abrupt"),
    _drift("rotation", speed=0.15),  # a quarter of a turn in the 10,000 rounds of a full run
    _drift("walk", speed=0.3),
)
"""Every world of ``fedbandit beyond --hard``."""


def hard_tasks(size: Size) -> list[Task]:
    """Return every run; those of a trial stand together and share a tape."""
    return [
        Task(
            setting=hard.name,
            algorithm=name,
            radius=f"{recipe.params.get('radius', NO_RADIUS)}",
            recipe=recipe,
            world=world,
            rounds=hard.length(size.rounds),
            trial=seed,
        )
        for hard in HARD
        for seed in range(size.trials)
        for world in [hard.world(seed, size.rounds)]
        for name, recipe in _recipes(world.dimension, seed, hard.share).items()
    ]


def _recipes(dimension: int, seed: int, share: float | None) -> dict[str, Recipe]:
    """Return the algorithms with default parameters; only Random has a seed."""
    common: dict[str, Any] = {"dimension": dimension, "agents": AGENTS}
    budget = None if share is None else lean_budget(dimension, share=share)
    extra: dict[str, dict[str, Any]] = {
        LITERAL: {"sketch_size": int(ROWS * dimension)},
        LEAN: {"budget": budget},
        CONSTANT: {"budget": budget, "radius": 0.5},
        RANDOM: {"seed": seed},
    }
    kinds = {CONSTANT: LEAN}
    return {name: RECIPES[kinds.get(name, name)](**common, **extra.get(name, {})) for name in LINES}
