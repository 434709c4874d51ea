"""Pick a constant radius per algorithm and setting, on tapes that no reported trial plays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedbandit.core.recipe import Recipe
from fedbandit.lab.analysis.curves import Curves, pick
from fedbandit.lab.analysis.statistics import Estimate, estimate
from fedbandit.lab.paper.settings import Radius, Setting
from fedbandit.lab.runs.task import Task

FIRST_SEED = 1_000_000
GRID = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
TRIALS = 4


class Line(Protocol):
    """A line of a comparison; ``tuned_as`` names the line whose radius it shares."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def tuned_as(self) -> str:
        """Whose radius it shares; its own name if it has its own, empty if it has none."""
        ...

    def build(self, setting: Setting, *, radius: Radius, rounds: int, seed: int) -> Recipe:
        """Return the recipe for a setting."""
        ...


@dataclass(frozen=True)
class Choice:
    """The radius picked for an algorithm in a setting, and the rewards that it was picked by."""

    setting: str
    algorithm: str
    radius: float
    rewards: tuple[tuple[float, Estimate], ...]

    @property
    def at_edge(self) -> bool:
        """Whether the best value ends the grid, so that one beyond it might be better still."""
        grid = [radius for radius, _ in self.rewards]
        return len(grid) > 1 and self.radius in (min(grid), max(grid))


def tuning_tasks(
    settings: Iterable[Setting],
    algorithms: Iterable[Line],
    *,
    grid: Sequence[float],
    trials: int,
    rounds: int,
) -> list[Task]:
    """Return every run that picking needs; algorithms that share a radius are run once."""
    chosen = [each for each in algorithms if each.name == each.tuned_as]
    return [
        Task(
            setting=setting.name,
            algorithm=algorithm.name,
            radius=f"{radius:g}",
            recipe=algorithm.build(setting, radius=radius, rounds=rounds, seed=seed),
            world=world,
            rounds=rounds,
            trial=seed,
        )
        for setting in settings
        for worlds in [{seed: setting.world(seed) for seed in _seeds(trials)}]
        for algorithm in chosen
        for radius in grid
        for seed, world in worlds.items()
    ]


def classes_seen(setting: Setting, trials: int) -> tuple[int, ...]:
    """Return the classes of a data set that pay in so many tuning trials, without repetition."""
    targets = {setting.target(seed) for seed in _seeds(trials)}
    return tuple(sorted(target for target in targets if target is not None))


def choose_radius(
    found: Sequence[Curves], *, setting: str, algorithm: str, grid: Sequence[float]
) -> Choice:
    """Return the radius with the highest mean reward; the smallest of those that tie."""
    rewards = []
    for radius in sorted(grid):
        runs = pick(found, setting=setting, algorithm=algorithm, radius=f"{radius:g}")
        if runs is not None:
            rewards.append((radius, estimate(runs.final("reward"))))
    best = max(rewards, key=lambda pair: pair[1].mean)
    return Choice(setting, algorithm, best[0], tuple(rewards))


def _seeds(trials: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + trials)
