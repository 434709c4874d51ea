"""Advice as a page: the recommendation, the spectrum, and what each size cost."""

from pathlib import Path

import numpy as np

from fedbandit.lab.analysis.advice import FLOOR, WHOLE, Advice, label
from fedbandit.lab.analysis.recommendation import Measured
from fedbandit.lab.analysis.table import Table
from fedbandit.lab.analysis.text import compact, number, percent, plus_minus
from fedbandit.lab.figures.advice import TRADE_LOOKS, reach, trade_name
from fedbandit.lab.figures.charts import Chart, Points, point_chart, spectrum_chart
from fedbandit.lab.page import Section, write_page
from fedbandit.lab.runs.machine import environment


def write_advice_page(advice: Advice, path: Path) -> Path:
    """Write the page."""
    picked = "FedLinUCB's best" if advice.tuned else "as stated"
    made = (
        f"{advice.setting}, d = {advice.dimension}: {advice.trials} trials of {advice.rounds:,} "
        f"rounds, radius {advice.radius:g} ({picked}), all recipes on the same tapes."
    )
    sections = (
        Section("Recommendation", advice.recommendation.sentence),
        Section(
            "What each size cost",
            "Regret against bytes after the last round; bars are 95 % intervals of the "
            "difference from FedLinUCB. Numbers are sketch sizes.",
            [_trade(advice)],
            [_measured(advice)],
        ),
        Section(
            "What a sketch has to hold",
            "Eigenvalues of the arms that FedLinUCB played in the first trial; dotted: the sizes "
            "tried. The tail is the share of their sum outside the l - 1 directions kept.",
            [_spectrum(advice)],
            [_prospects(advice)],
        ),
    )
    values = {
        "title": f"Which sketch size for {advice.setting}?",
        "made": made,
        "sections": sections,
        "environment": environment(),
    }
    return write_page("sections.html", path, values)


def _trade(advice: Advice) -> Chart:
    shown = [each for each in advice.measured if each.recipe != FLOOR and each.bytes.mean > 0.0]
    groups = [
        Points(
            name, look.colour, [_point(each, advice) for each in shown if trade_name(each) == name]
        )
        for name, look in TRADE_LOOKS.items()
        if any(trade_name(each) == name for each in shown)
    ]
    limit = advice.of(WHOLE).regret.mean + advice.tolerance * advice.lead.mean
    note = f"FedLinUCB + {100 * advice.tolerance:.2g} % of its lead"
    return point_chart("Regret against bytes", groups, limit=limit, note=note)


def _point(each: Measured, advice: Advice) -> tuple[str, float, float, float]:
    size = f"{each.sketch_size}" if each.sketch_size is not None else ""
    return size, each.bytes.mean, each.regret.mean, reach(each, advice)


def _spectrum(advice: Advice) -> Chart:
    sizes = [each.sketch_size for each in advice.prospects]
    return spectrum_chart("Spectrum", np.array(advice.eigenvalues), sizes=sizes)


def _measured(advice: Advice) -> Table:
    head = ("recipe", "regret", "lost, % of FedLinUCB's lead", "bytes", "of FedLinUCB's")
    return Table(head, [_cells(each, advice) for each in advice.measured])


def _cells(each: Measured, advice: Advice) -> tuple[str, ...]:
    whole = advice.of(WHOLE).bytes.mean
    return (
        label(each.recipe, each.sketch_size),
        plus_minus(each.regret),
        plus_minus(each.loss.scaled(100.0)),
        compact(each.bytes.mean),
        percent(each.bytes.mean / whole if whole else float("nan")),
    )


def _prospects(advice: Advice) -> Table:
    head = ("l", "tail", "epsilon_l", "bytes of a message, FSCLB", "FSCLB.lean", "FedLinUCB")
    rows = [
        (
            f"{each.sketch_size}",
            percent(each.tail),
            number(each.epsilon),
            f"{each.bytes_float64:,}",
            f"{each.bytes_lean:,}",
            f"{advice.whole_bytes:,}",
        )
        for each in advice.prospects
    ]
    return Table(head, rows)
