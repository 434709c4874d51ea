"""The frontier as a figure: bytes against regret, a panel per setting."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import estimate
from fedbandit.lab.figures.layout import add_legend, sheet
from fedbandit.lab.figures.looks import LOOKS, Look
from fedbandit.lab.figures.saving import save


def draw_frontier(found: Sequence[Curves], settings: Sequence[str], out: Path) -> list[Path]:
    """Draw what every line sent and what it regretted; Random, which sends nothing, is left out."""
    return save({"frontier": partial(_compose, found, settings)}, out)


def _compose(found: Sequence[Curves], settings: Sequence[str]) -> Figure:
    figure, grid = sheet(len(settings), height=2.3)
    shown: dict[str, Look] = {}
    for axes, setting in zip(grid, settings, strict=True):
        lines = [each for each in found if each.setting == setting]
        talking = [each for each in lines if each.final("bytes").any()]
        _panel(axes, setting, talking)
        shown |= {each.algorithm: LOOKS[each.algorithm] for each in talking if not _is_step(each)}
    marks = [
        Line2D([], [], linestyle="", **_mark(look, filled=True), label=name)
        for name, look in shown.items()
    ]
    add_legend(figure, marks)
    return figure


def _panel(axes: Axes, title: str, lines: Sequence[Curves]) -> None:
    for each in lines:
        look = LOOKS[each.algorithm.partition(",")[0]]
        axes.plot(
            each.final("bytes").mean() / 1e6,
            estimate(each.final("regret")).mean,
            **_mark(look, filled=not _is_step(each)),
        )
    axes.set_xscale("log")
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel("bytes sent in both directions, MB, log scale")
    axes.set_ylabel("regret")
    regrets = [float(each.final("regret").mean()) for each in lines]
    if min(regrets) < max(regrets) / 2:
        axes.set_ylim(bottom=0)
    axes.margins(0.08)
    axes.grid(visible=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())  # they overlap where the range is short


def _is_step(each: Curves) -> bool:
    """Whether it is a variant, "corrected, int8" say, which has an open mark."""
    return "," in each.algorithm


def _mark(look: Look, *, filled: bool) -> dict[str, Any]:
    return {
        "marker": look.marker,
        "color": look.colour,
        "markersize": 8.0 if look.marker == "*" else 5.0,
        "markerfacecolor": look.colour if filled else "none",
    }
