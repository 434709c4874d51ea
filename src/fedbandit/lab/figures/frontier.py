"""The frontier as a figure: bytes against regret, a panel per setting."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import estimate
from fedbandit.lab.figures.saving import save

MARKS = {
    "FSCLB": ("#D55E00", "o"),
    "buffered": ("#E69F00", "o"),
    "averaged": ("#CC79A7", "o"),
    "corrected": ("#117733", "s"),
    "FSCLB.lean": ("#332288", "*"),
    "FedLinUCB": ("#0072B2", "D"),
}
"""Colour and shape of a line by the first words of its name."""


def draw_frontier(found: Sequence[Curves], settings: Sequence[str], out: Path) -> list[Path]:
    """Draw what every line sent and what it regretted; Random, which sends nothing, is left out."""
    return save({"frontier": partial(_compose, found, settings)}, out)


def _compose(found: Sequence[Curves], settings: Sequence[str]) -> Figure:
    figure = Figure(figsize=(9.8, 7.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, 2)
    for axes, setting in zip(grid.flat, settings, strict=True):
        lines = [each for each in found if each.setting == setting]
        _panel(axes, setting, [each for each in lines if each.final("bytes").any()])
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    return figure


def _panel(axes: Axes, title: str, lines: Sequence[Curves]) -> None:
    for each in lines:
        colour, shape = MARKS[each.algorithm.partition(",")[0]]
        regret = estimate(each.final("regret"))
        step = "," in each.algorithm
        axes.plot(
            each.final("bytes").mean() / 1e6,
            regret.mean,
            shape,
            color=colour,
            markersize=11 if shape == "*" else 7,
            markerfacecolor="none" if step else colour,
            label=None if step else each.algorithm,
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
