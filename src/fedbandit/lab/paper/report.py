"""One self-contained page: claims beside measurements, figures, tables, settings, machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedbandit.lab.analysis.summary import Row
from fedbandit.lab.analysis.tuning import FIRST_SEED, Choice
from fedbandit.lab.figures.charts import Chart
from fedbandit.lab.page import write_page
from fedbandit.lab.paper.claims import Claim, Findings, best_first, claims
from fedbandit.lab.paper.classes import ClassTable
from fedbandit.lab.paper.gains import Gain
from fedbandit.lab.study.settings import Setting
from fedbandit.lab.study.study import FULL, Size


@dataclass(frozen=True)
class ChartGroup:
    """Charts of one quantity, a setting each, and what they show."""

    title: str
    caption: str
    charts: Sequence[Chart]


@dataclass(frozen=True)
class Report:
    """Everything that the page shows."""

    size: Size
    settings: Sequence[Setting]
    gains: Sequence[Gain]
    charts: Sequence[ChartGroup]
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
    values = {"report": report, "claims": _ordered, "tuning_seed": FIRST_SEED}
    return write_page("report.html", path, values)


def _ordered(found: Findings) -> list[Claim]:
    return best_first(claims(found))
