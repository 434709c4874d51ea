"""Runs in numbers: a row per setting, algorithm and radius."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedbandit.errors import unknown
from fedbandit.lab.analysis.curves import MEASURES, Curves
from fedbandit.lab.analysis.statistics import Estimate, estimate
from fedbandit.lab.analysis.table import Table
from fedbandit.lab.analysis.text import UNKNOWN, plus_minus
from fedbandit.lab.runs.output import writing


@dataclass(frozen=True)
class Row:
    """What one algorithm reached in one setting: an estimate for each of ``MEASURES``."""

    setting: str
    algorithm: str
    radius: str
    trials: int
    rounds: int
    estimates: dict[str, Estimate]
    params: Mapping[str, Any] = field(default_factory=dict)


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
            each.params,
        )
        for each in found
    ]


def summary_table(
    rows: Sequence[Row], *, measures: Sequence[str], columns: Sequence[str] = ()
) -> Table:
    """Return means with 95 % intervals, a row per setting, algorithm and radius.

    ``columns`` are parameters to show besides. A radius that all rows share is left out.
    """
    for measure in measures:
        if measure not in MEASURES:
            raise unknown("measure", measure, MEASURES)
    known = {name for row in rows for name in row.params}
    for name in columns:
        if name not in known:
            raise unknown("parameter", name, known)
    radius = ["radius"] if len({row.radius for row in rows}) > 1 else []
    body = [
        [
            row.setting,
            row.algorithm,
            *([row.radius] if radius else []),
            *(str(row.params.get(name, UNKNOWN)) for name in columns),
            *(plus_minus(row.estimates[measure]) for measure in measures),
        ]
        for row in rows
    ]
    return Table(["setting", "algorithm", *radius, *columns, *measures], body)


def write_csv(rows: Iterable[Row], path: Path) -> Path:
    """Write ``summary.csv``: mean and half width of the 95 % interval of every measure.

    An interval that one trial cannot give is left empty. Every parameter that a run has is a
    column; ``seed`` is that of the first trial. Measures are totals after the last round.
    """
    rows = list(rows)
    params = list(dict.fromkeys(name for row in rows for name in row.params))
    estimates = [f"{name}_{part}" for name in MEASURES for part in ("mean", "ci95")]
    with writing(path), path.open("w", newline="", encoding="utf-8") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(["setting", "algorithm", "radius", "trials", "rounds", *params, *estimates])
        for row in rows:
            numbers = [
                "" if math.isnan(number) else repr(number)
                for name in MEASURES
                for number in (row.estimates[name].mean, row.estimates[name].ci95)
            ]
            labels = [row.setting, row.algorithm, row.radius, row.trials, row.rounds]
            given = [row.params.get(name, "") for name in params]
            writer.writerow([*labels, *given, *numbers])
    return path
