"""Rewards by target class, for settings made from a data set."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.tuning import tuning_seeds
from fedbandit.lab.study.settings import Setting


@dataclass(frozen=True)
class ClassRow:
    """Mean reward per round in the trials whose target was this class, one per algorithm."""

    target: int
    trials: int
    rates: tuple[float, ...]


@dataclass(frozen=True)
class ClassTable:
    """Reward per round by target class, for one data set; radii were picked on ``tuned_on``."""

    setting: str
    algorithms: tuple[str, ...]
    rows: tuple[ClassRow, ...]
    classes: int
    tuned_on: tuple[int, ...]

    @property
    def fewest(self) -> int:
        """The smallest number of reported trials that any class has."""
        return min(row.trials for row in self.rows) if len(self.rows) == self.classes else 0

    @property
    def most(self) -> int:
        """The largest number of reported trials that any class has."""
        return max((row.trials for row in self.rows), default=0)


def class_table(
    found: Sequence[Curves], setting: Setting, *, tuned_on: tuple[int, ...]
) -> ClassTable:
    """Return the table of one data set; ``found`` may hold the curves of other settings too."""
    here = [each for each in found if each.setting == setting.name]
    names = tuple(each.algorithm for each in here)
    rows = tuple(reward_by_class(here, setting))
    return ClassTable(setting.name, names, rows, setting.arms, tuned_on)


def classes_seen(setting: Setting, tuning_trials: int) -> tuple[int, ...]:
    """Return the classes of a data set that pay in so many tuning trials, each once."""
    targets = {setting.target(seed) for seed in tuning_seeds(tuning_trials)}
    return tuple(sorted(target for target in targets if target is not None))


def reward_by_class(found: Sequence[Curves], setting: Setting) -> list[ClassRow]:
    """Split the trials of a data set by the class that paid; classes without a trial are left out.

    ``found`` are the algorithms to compare, all run on the same trials.
    """
    trials = found[0].trials if found else ()
    rows = []
    for target in range(setting.arms):
        chosen = [place for place, seed in enumerate(trials) if setting.target(seed) == target]
        if chosen:
            rates = tuple(
                float(each.final("reward")[chosen].mean()) / each.rounds for each in found
            )
            rows.append(ClassRow(target, len(chosen), rates))
    return rows
