"""Runs in numbers: a row per setting, algorithm and radius, and rewards by target class."""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedbandit.lab.analysis.curves import MEASURES, Curves
from fedbandit.lab.analysis.statistics import Estimate, estimate
from fedbandit.lab.paper.settings import Setting
from fedbandit.lab.runs.store import writing


@dataclass(frozen=True)
class Row:
    """What one algorithm reached in one setting: an estimate for each of ``MEASURES``."""

    setting: str
    algorithm: str
    radius: str
    trials: int
    rounds: int
    estimates: dict[str, Estimate]


@dataclass(frozen=True)
class ClassRow:
    """Mean reward per round in the trials whose target was this class, one per algorithm."""

    target: int
    trials: int
    rates: tuple[float, ...]


def summarise(found: Iterable[Curves]) -> list[Row]:
    """Return a row for each of the curves, in their order, measured after the last round."""
    return [
        Row(
            each.setting,
            each.algorithm,
            each.radius,
            len(each.trials),
            each.rounds,
            {measure: estimate(each.final(measure)) for measure in MEASURES},
        )
        for each in found
    ]


def write_csv(rows: Iterable[Row], path: Path) -> Path:
    """Write ``summary.csv``: mean and half width of the 95 % interval of every measure.

    An interval that one trial cannot give is left empty.
    """
    estimates = [f"{name}_{part}" for name in MEASURES for part in ("mean", "ci95")]
    with writing(path), path.open("w", newline="", encoding="utf-8") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(["setting", "algorithm", "radius", "trials", "rounds", *estimates])
        for row in rows:
            numbers = [
                "" if math.isnan(number) else repr(number)
                for name in MEASURES
                for number in (row.estimates[name].mean, row.estimates[name].ci95)
            ]
            labels = [row.setting, row.algorithm, row.radius, row.trials, row.rounds]
            writer.writerow([*labels, *numbers])
    return path


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
