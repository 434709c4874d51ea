"""Beyond the paper from one call: our settings of FSCLB against the paper's own and FedLinUCB."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from fedbandit.core.memory.sizing import lean_budget
from fedbandit.core.recipe import Recipe
from fedbandit.core.recipes import RECIPES
from fedbandit.lab.analysis.curves import Curves, curves
from fedbandit.lab.beyond.report import (
    AIMS,
    FED,
    LEAN,
    LITERAL,
    RANDOM,
    aims,
    heavy_tail_table,
    steps_table,
    targets_table,
    words,
)
from fedbandit.lab.figures.frontier import draw_frontier
from fedbandit.lab.paper.reproduce import Plan, make_plan, run_aloud
from fedbandit.lab.paper.settings import AGENTS, ALPHA, NOISE, RIDGE, SETTINGS, Radius, Setting
from fedbandit.lab.paper.tuning import choose_radius, tuning_tasks
from fedbandit.lab.runs.spec import NO_RADIUS
from fedbandit.lab.runs.store import writable_directory, writing
from fedbandit.lab.runs.task import Task
from fedbandit.worlds import Synthetic

HEAVY = "heavy tail"
HEAVY_SIZE = 5
HEAVY_RADIUS = 0.2


@dataclass(frozen=True)
class Variant:
    """A line of the comparison: a recipe, and the parameters that a setting gives it."""

    name: str
    recipe: str
    tuned_as: str
    params: Callable[[Setting], Mapping[str, Any]] = lambda _: {}

    def build(self, setting: Setting, *, radius: Radius, rounds: int, seed: int) -> Recipe:
        """Return the recipe for a setting; ``seed`` matters to Random alone."""
        common: dict[str, Any] = {"dimension": setting.dimension, "agents": AGENTS}
        if not self.tuned_as:
            return RECIPES[self.recipe](**common, seed=seed)
        common |= {"ridge": RIDGE, "alpha": ALPHA, "radius": radius}
        bounds = setting.bounds(rounds)
        return RECIPES[self.recipe](**common, bounds=bounds, **self.params(setting))


def _sketched(name: str, *, tuned_as: str | None = None, **extra: Any) -> Variant:
    return Variant(
        name, "FSCLB", tuned_as or name, lambda s: {"sketch_size": s.sketch_size} | extra
    )


def _budgeted(share: float) -> Variant:
    """Return FSCLB.lean with another share of a matrix as its budget."""
    return Variant(
        f"FSCLB.lean, {100 * share:g} %",
        LEAN,
        LEAN,
        lambda s: {"budget": lean_budget(s.dimension, share=share)},
    )


VARIANTS = (
    _sketched(LITERAL),
    _sketched("buffered", cadence="buffered"),
    _sketched("averaged", cadence="buffered", estimate="averaged"),
    _sketched("corrected", cadence="buffered", estimate="corrected"),
    *(
        _sketched(
            f"corrected, {width}",
            tuned_as="corrected",
            cadence="buffered",
            estimate="corrected",
            wire=width,
        )
        for width in ("float32", "float16", "bfloat16", "int8")
    ),
    Variant(LEAN, LEAN, LEAN),
    *(_budgeted(share) for share in (0.01, 0.05, 0.1)),
    Variant(FED, FED, FED),
    Variant(RANDOM, RANDOM, ""),
)
"""The paper's algorithm, one step after another away from it, and what it is compared with."""


@dataclass(frozen=True)
class Beyond:
    """Where everything was written, and how many runs had to be made for it."""

    table: Path
    figures: tuple[Path, ...]
    computed: int


def beyond(
    *,
    out: str | Path,
    trials: int | None = None,
    rounds: int | None = None,
    quick: bool = False,
    jobs: int | None = None,
    console: Console | None = None,
) -> Beyond:
    """Compare at the paper's settings and in a heavy-tailed world; write ``beyond.md``.

    20 trials of 20,000 rounds unless ``quick`` (4 of 2,000, a smaller grid) or told otherwise; the
    heavy tail gets five times the rounds and half the trials. Every variant that decides on its own
    has its radius picked on seeds that no reported trial uses. What is there already is not
    computed again.
    """
    plan, out = make_plan(trials=trials, rounds=rounds, quick=quick, every_recipe=False), Path(out)
    tuned, picked = _pick_radii(plan, out / "tuning", jobs)
    results = run_aloud("reported trials", _tasks(plan, picked), out=out, jobs=jobs)
    heavy = run_aloud("heavy tail", _heavy_tasks(plan), out=out / "heavy-tail", jobs=jobs)
    found, tail = curves(results.table), curves(heavy.table)
    text = _text(plan, found, tail)
    path = out / "beyond.md"
    with writing(path):
        path.write_text(text, encoding="utf-8")
    figures = draw_frontier(found, SETTINGS, writable_directory(out / "figures"))
    _show(found, console or Console())
    print(path)
    return Beyond(path, tuple(figures), tuned + results.computed + heavy.computed)


def _show(found: Sequence[Curves], on: Console) -> None:
    """Print what was aimed at and what was reached."""
    for number, aim in enumerate(AIMS):
        on.print(aim, style="bold")
        for setting in SETTINGS:
            on.print(f"  {setting.name:16}  {aims(found, setting)[number]}", highlight=False)


def _text(plan: Plan, found: Sequence[Curves], tail: Sequence[Curves]) -> str:
    parts = (
        words(plan.trials, plan.rounds),
        targets_table(found, SETTINGS),
        steps_table(found, SETTINGS, [each.name for each in VARIANTS]),
        heavy_tail_table(tail),
    )
    return "\n\n".join(parts) + "\n"


def _pick_radii(
    plan: Plan, out: Path, jobs: int | None
) -> tuple[int, dict[tuple[str, str], float]]:
    tasks = tuning_tasks(
        SETTINGS, VARIANTS, grid=plan.grid, trials=plan.tuning_trials, rounds=plan.rounds
    )
    results = run_aloud("picking radii", tasks, out=out, jobs=jobs)
    found = curves(results.table)
    chosen = [each.name for each in VARIANTS if each.name == each.tuned_as]
    picked = {
        (setting.name, name): choose_radius(
            found, setting=setting.name, algorithm=name, grid=plan.grid
        ).radius
        for setting in SETTINGS
        for name in chosen
    }
    return results.computed, picked


def _tasks(plan: Plan, picked: Mapping[tuple[str, str], float]) -> list[Task]:
    return [
        Task(
            setting=setting.name,
            algorithm=variant.name,
            radius=f"{radius:g}" if variant.tuned_as else NO_RADIUS,
            recipe=variant.build(setting, radius=radius, rounds=plan.rounds, seed=seed),
            world=world,
            rounds=plan.rounds,
            trial=seed,
        )
        for setting in SETTINGS
        for seed in range(plan.trials)
        for world in [setting.world(seed)]
        for variant in VARIANTS
        for radius in [picked.get((setting.name, variant.tuned_as), 0.0)]
    ]


def _heavy_tasks(plan: Plan) -> list[Task]:
    """Return runs in a world whose tail no small sketch holds: eigenvalues 1, 1/2, 1/3, ..."""
    rounds = 5 * plan.rounds
    return [
        Task(
            setting=HEAVY,
            algorithm=name,
            radius=f"{HEAVY_RADIUS:g}",
            recipe=recipe,
            world=world,
            rounds=rounds,
            trial=seed,
        )
        for seed in range(max(2, plan.trials // 2))
        for world in [_heavy_world(seed)]
        for name, recipe in _heavy_recipes(world.dimension).items()
    ]


def _heavy_world(seed: int) -> Synthetic:
    return Synthetic(
        dimension=50,
        arms=10,
        agents=AGENTS,
        noise=NOISE,
        seed=seed,
        spectrum="power-law",
        decay=1.0,
    )


def _heavy_recipes(dimension: int) -> dict[str, Recipe]:
    common: dict[str, Any] = {"dimension": dimension, "agents": AGENTS, "radius": HEAVY_RADIUS}
    fixed = {"sketch_size": HEAVY_SIZE}
    return {
        f"FSCLB, l = {HEAVY_SIZE}": RECIPES["FSCLB"](**common, **fixed),
        f"FSCLB.lean, l = {HEAVY_SIZE}": RECIPES["FSCLB.lean"](**common, **fixed),
        "FSCLB, l = auto": RECIPES["FSCLB"](**common, sketch_size="auto", cadence="buffered"),
        "FSCLB.lean, l = auto": RECIPES["FSCLB.lean"](**common),
        "FedLinUCB": RECIPES["FedLinUCB"](**common),
    }
