"""One self-contained page: claims beside measurements, figures, tables, settings, machine."""

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedbandit.lab.analysis.statistics import Estimate
from fedbandit.lab.analysis.summary import ClassRow, Row
from fedbandit.lab.paper.claims import MINUS, Findings, claims
from fedbandit.lab.paper.settings import ROUNDS as FULL_ROUNDS
from fedbandit.lab.paper.settings import TRIALS as FULL_TRIALS
from fedbandit.lab.paper.settings import Setting
from fedbandit.lab.paper.tuning import GRID as FULL_GRID
from fedbandit.lab.paper.tuning import TRIALS as FULL_TUNING_TRIALS
from fedbandit.lab.paper.tuning import Choice
from fedbandit.lab.runs.store import writing

UNKNOWN = "\N{EN DASH}"


@dataclass(frozen=True)
class Picture:
    """A drawn figure (an SVG file) and what it shows."""

    title: str
    caption: str
    file: Path

    @property
    def source(self) -> str:
        """The file itself as a data URI, so that the page needs nothing beside it."""
        return f"data:image/svg+xml;base64,{b64encode(self.file.read_bytes()).decode('ascii')}"


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


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    trials: int
    rounds: int
    tuning_trials: int
    tuning_seed: int
    settings: Sequence[Setting]
    pictures: Sequence[Picture]
    tuned: Findings
    theoretical: Findings
    tuned_rows: Sequence[Row]
    theoretical_rows: Sequence[Row]
    choices: Sequence[Choice]
    by_class: Sequence[ClassTable]
    parameters: Mapping[str, str]
    environment: Mapping[str, str]

    @property
    def shortened(self) -> bool:
        """Whether less was run than in full, be it to report or to pick radii."""
        here = (self.trials, self.rounds, self.tuning_trials, len(self.grid))
        full = (FULL_TRIALS, FULL_ROUNDS, FULL_TUNING_TRIALS, len(FULL_GRID))
        return any(size < enough for size, enough in zip(here, full, strict=True))

    @property
    def full_size(self) -> str:
        """What a full run has, in words; trials and rounds are the paper's."""
        return (
            f"{FULL_TRIALS} trials of {FULL_ROUNDS:,} rounds, and picks each radius from "
            f"{len(FULL_GRID)} on {FULL_TUNING_TRIALS} trials"
        )

    @property
    def grid(self) -> list[float]:
        """The radii that were tried."""
        return [radius for radius, _ in self.choices[0].rewards] if self.choices else []


def write_report(report: Report, path: Path) -> Path:
    """Render the page; the same report gives the same bytes."""
    pages = Environment(
        loader=PackageLoader("fedbandit.lab"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters.update(
        number=number,
        plusminus=plus_minus,
        percent=percent,
        interval=percent_interval,
        unbroken=unbroken,
    )
    page = pages.get_template("report.html").render(report=report, claims=claims)
    with writing(path):
        path.write_text(page, encoding="utf-8")
    return path


def unbroken(text: str) -> str:
    """Keep every number and its % on one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def number(value: float) -> str:
    """Write four digits or so: 12,345, 123.4, 1.234, 0.0123."""
    if math.isnan(value):
        return UNKNOWN
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 100 else f"{value:.2f}" if size >= 1 else f"{value:.3g}"


def compact(value: float) -> str:
    """Write a count to three digits or four: 950, 142.8 k, 1.49 M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{number(value / size)} {unit}"
    return number(value)


def plus_minus(measured: Estimate) -> str:
    """Write a mean and half its interval, to the digits that the interval allows."""
    if math.isnan(measured.ci95):
        return number(measured.mean)
    if measured.ci95 == 0.0:
        return f"{number(measured.mean)} ± 0"
    digits = min(max(0, 1 - math.floor(math.log10(measured.ci95))), 6)
    return f"{measured.mean:,.{digits}f} ± {measured.ci95:,.{digits}f}"


def percent(value: float) -> str:
    """Write a share in per cent, with one decimal."""
    return UNKNOWN if math.isnan(value) else f"{100 * value:.1f} %".replace("-", MINUS)


def percent_interval(measured: Estimate) -> str:
    """Write a share in per cent with its 95 % interval."""
    if math.isnan(measured.ci95):
        return percent(measured.mean)
    low, high = (f"{100 * end:.1f}".replace("-", MINUS) for end in (measured.low, measured.high))
    return f"{percent(measured.mean)} [{low}, {high}]"
