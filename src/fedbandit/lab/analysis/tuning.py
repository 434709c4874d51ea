"""Pick a constant radius per algorithm and setting, on tapes that no reported trial plays."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedbandit.lab.analysis.curves import Curves, pick
from fedbandit.lab.analysis.statistics import Estimate, estimate
from fedbandit.lab.specs.spec import FIRST_TUNING_SEED

FIRST_SEED = FIRST_TUNING_SEED
"""Tuning trials have seeds from here on; reported trials have smaller ones."""


@dataclass(frozen=True)
class Choice:
    """The radius picked for an algorithm in a setting, and the rewards of all that were tried."""

    setting: str
    algorithm: str
    radius: float
    rewards: tuple[tuple[float, Estimate], ...]

    @property
    def at_edge(self) -> bool:
        """Whether the best value ends the grid, so that one beyond it might be better still."""
        grid = [radius for radius, _ in self.rewards]
        return len(grid) > 1 and self.radius in (min(grid), max(grid))


def tuning_seeds(trials: int) -> range:
    """Return the seeds of so many tuning trials."""
    return range(FIRST_SEED, FIRST_SEED + trials)


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
