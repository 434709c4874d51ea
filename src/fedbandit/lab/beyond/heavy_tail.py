"""A world whose tail no small sketch holds: eigenvalues 1, 1/2, 1/3, ..."""

from typing import Any

from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.core.recipe import Recipe
from fedbandit.lab.runs.task import Task
from fedbandit.lab.study.settings import AGENTS, NOISE
from fedbandit.lab.study.study import Size
from fedbandit.worlds import Synthetic

SKETCH_SIZE = 5
RADIUS = 0.2


def heavy_tasks(size: Size) -> list[Task]:
    """Return five times the rounds of a study, and half its trials, in that world."""
    rounds = 5 * size.rounds
    return [
        Task(
            setting="heavy tail",
            algorithm=name,
            radius=f"{RADIUS:g}",
            recipe=recipe,
            world=world,
            rounds=rounds,
            trial=seed,
        )
        for seed in range(max(2, size.trials // 2))
        for world in [_world(seed)]
        for name, recipe in _recipes(world.dimension).items()
    ]


def _world(seed: int) -> Synthetic:
    return Synthetic(
        dimension=50,
        arms=10,
        agents=AGENTS,
        noise=NOISE,
        seed=seed,
        spectrum="power-law",
        decay=1.0,
    )


def _recipes(dimension: int) -> dict[str, Recipe]:
    common: dict[str, Any] = {"dimension": dimension, "agents": AGENTS, "radius": RADIUS}
    fixed = {"sketch_size": SKETCH_SIZE}
    return {
        f"FSCLB, l = {SKETCH_SIZE}": RECIPES["FSCLB"](**common, **fixed),
        f"FSCLB.lean, l = {SKETCH_SIZE}": RECIPES["FSCLB.lean"](**common, **fixed),
        "FSCLB, l = auto": RECIPES["FSCLB"](**common, sketch_size="auto", cadence="buffered"),
        "FSCLB.lean, l = auto": RECIPES["FSCLB.lean"](**common),
        "FedLinUCB": RECIPES["FedLinUCB"](**common),
    }
