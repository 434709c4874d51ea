"""One self-contained page: claims beside measurements, figures, tables, settings, machine."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedbandit.lab.analysis.summary import Row
from fedbandit.lab.analysis.text import number, percent, percent_interval, plus_minus, unbroken
from fedbandit.lab.paper.claims import Findings, claims
from fedbandit.lab.paper.classes import ClassTable
from fedbandit.lab.runs.output import writing
from fedbandit.lab.study.settings import Setting
from fedbandit.lab.study.study import FULL, Size
from fedbandit.lab.study.tuning import FIRST_SEED, Choice


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
class Report:
    """Everything that the page shows."""

    size: Size
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
        less = (self.size.trials, self.size.rounds, self.size.tuning_trials, len(self.size.grid))
        full = (FULL.trials, FULL.rounds, FULL.tuning_trials, len(FULL.grid))
        return any(here < enough for here, enough in zip(less, full, strict=True))

    @property
    def full_size(self) -> str:
        """What a full run has, in words; trials and rounds are the paper's."""
        return (
            f"{FULL.trials} trials of {FULL.rounds:,} rounds, and picks each radius from "
            f"{len(FULL.grid)} on {FULL.tuning_trials} trials"
        )


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
    page = pages.get_template("report.html").render(
        report=report, claims=claims, tuning_seed=FIRST_SEED
    )
    with writing(path):
        path.write_text(page, encoding="utf-8")
    return path
