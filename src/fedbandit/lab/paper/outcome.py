"""What the terminal shows after a reproduction: the table, the verdicts, the paths."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fedbandit.lab.analysis.summary import Row
from fedbandit.lab.analysis.text import compact, number, plus_minus
from fedbandit.lab.analysis.verdicts import Verdict
from fedbandit.lab.paper.claims import Findings, claims

COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.LIKELY: "yellow",
    Verdict.UNLIKELY: "yellow",
    Verdict.FAILS: "red",
    Verdict.UNDEFINED: "dim",
}

NARROWEST = 60
"""A table narrower than this would break words."""


def show(rows: Iterable[Row], found: Findings, *, paths: Sequence[Path], on: Console) -> None:
    """Print the results of the tuned radius, the paper's claims beside them, and the paths."""
    _print(_results([row for row in rows if row.radius != "paper"]), on)
    _print(_verdicts(found), on)
    for path in paths:
        on.print(Text(str(path)), soft_wrap=True)


def _print(table: Table, on: Console) -> None:
    """Print a table; on a narrow console its lines run over, so that no name or number is cut."""
    boundless = on.options.update(max_width=sys.maxsize)
    whole = all(column.no_wrap for column in table.columns)
    needed = Measurement.get(on, boundless, table).maximum if whole else NARROWEST
    if needed > on.width:
        table.width = needed
    on.print(table, "", crop=False)


def _results(rows: Sequence[Row]) -> Table:
    table = _plain_table()
    table.add_column("algorithm", no_wrap=True)
    table.add_column("radius", no_wrap=True)
    for name in ("reward", "regret", "seconds", "scalars"):
        table.add_column(name, justify="right", no_wrap=True)
    setting = ""
    for row in rows:
        if row.setting != setting:
            setting = row.setting
            table.add_row(Text(f"\n{setting}", style="bold"))
        table.add_row(
            Text(row.algorithm),
            row.radius,
            plus_minus(row.estimates["reward"]),
            *(number(row.estimates[name].mean) for name in ("regret", "seconds")),
            compact(row.estimates["scalars"].mean),
        )
    return table


def _verdicts(found: Findings) -> Table:
    table = _plain_table(below=1)
    for name in ("the paper says", "tested", "measured", "verdict"):
        table.add_column(name)
    for claim in claims(found):
        words = [Text(text, style=COLOURS[verdict]) for verdict, text in claim.counts]
        table.add_row(claim.paper, claim.test, claim.measured, Text("\n").join(words))
    return table


def _plain_table(*, below: int = 0) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, below, 0), header_style="bold")
