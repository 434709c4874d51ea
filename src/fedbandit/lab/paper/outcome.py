"""What the terminal shows after a reproduction: the table, gains, verdicts, the paths."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedbandit.lab.analysis.summary import Row
from fedbandit.lab.analysis.text import compact, number, percent, plus_minus
from fedbandit.lab.analysis.verdicts import Verdict
from fedbandit.lab.paper.claims import Claim, Findings, best_first, claims
from fedbandit.lab.paper.gains import Gain

COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.LIKELY: "yellow",
    Verdict.UNLIKELY: "yellow",
    Verdict.FAILS: "red",
    Verdict.UNDEFINED: "dim",
}

WHAT_GAINS_ARE = (
    "bytes: of FedLinUCB's; regret: of Random's; lost: reward lost to FedLinUCB, of its lead "
    "over Random"
)


def show(
    rows: Iterable[Row],
    gained: Sequence[Gain],
    found: Findings,
    *,
    paths: Sequence[Path],
    on: Console,
) -> None:
    """Print the results of the tuned radius, gains, the paper's claims beside them, the paths."""
    _show_results([row for row in rows if row.radius != "paper"], on)
    if gained:
        _show_gains(gained, on)
    _show_claims(best_first(claims(found)), on)
    for path in paths:
        on.print(Text(str(path)), soft_wrap=True)


def _show_results(rows: Sequence[Row], on: Console) -> None:
    """Print the table with all columns if they fit, else with the most important ones."""
    for left_out in ((), ("radius", "seconds")):
        table = _results(rows, left_out)
        if _fits(table, on):
            on.print(table, "")
            return
    for row in rows:
        told = (f"{name} {cell}" for name, cell in _cells(row).items())
        on.print(Text(f"{row.setting}, {row.algorithm}", style="bold"))
        _indented(Text(", ".join(told)), on)
    on.print()


def _results(rows: Sequence[Row], left_out: Sequence[str]) -> Table:
    names = [name for name in _cells(rows[0]) if name not in left_out]
    table = _plain_table("algorithm", right=names)
    setting = ""
    for row in rows:
        if row.setting != setting:
            setting = row.setting
            table.add_row(Text(f"\n{setting}", style="bold"))
        cells = _cells(row)
        table.add_row(Text(row.algorithm), *(cells[name] for name in names))
    return table


def _cells(row: Row) -> dict[str, str]:
    mean = {name: each.mean for name, each in row.estimates.items()}
    return {
        "radius": row.radius,
        "reward": plus_minus(row.estimates["reward"]),
        "regret": number(mean["regret"]),
        "seconds": number(mean["seconds"]),
        "bytes": compact(mean["bytes"]),
    }


def _show_gains(gained: Sequence[Gain], on: Console) -> None:
    on.print(Text("What FSCLB.lean gains, on the same tapes", style="bold"))
    table = _plain_table("setting", right=("bytes", "regret", "lost"))
    for each in gained:
        values = [percent(value.mean) for value in (each.bytes, each.regret, each.loss)]
        table.add_row(
            each.setting, *(Text(value, style="green") for value in values[:2]), values[2]
        )
    on.print(table)
    on.print(Text(f"{WHAT_GAINS_ARE}\n", style="dim"))


def _show_claims(found: Sequence[Claim], on: Console) -> None:
    """Print a paragraph for each test, below the claim that it belongs to."""
    if not found:
        return
    on.print(Text("What the paper claims for FSCLB, first what holds", style="bold"))
    above = ""
    for claim in found:
        if claim.paper != above:
            on.print(Text(above := claim.paper, style="bold"))
        _indented(Text(f"{claim.test}: {claim.measured}; ") + _verdict(claim), on)
    on.print()


def _verdict(claim: Claim) -> Text:
    words = [Text(text, style=COLOURS[verdict]) for verdict, text in claim.counts]
    return Text(", ").join(words)


def _indented(text: Text, on: Console) -> None:
    on.print(Padding(text, (0, 0, 0, 2), expand=False))


def _fits(table: Table, on: Console) -> bool:
    boundless = on.options.update(max_width=sys.maxsize)
    return Measurement.get(on, boundless, table).maximum <= on.width


def _plain_table(*left: str, right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table
