"""Figures of runs: mean curves with 95 % bands, a panel per setting."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedbandit.errors import InvalidParameter
from fedbandit.lab.analysis.curves import Curves, curves
from fedbandit.lab.analysis.statistics import band, log_band
from fedbandit.lab.figures.looks import Look, looks_of, namer, natural, rank
from fedbandit.lab.figures.saving import FORMATS, in_millions, save, spelt

ORDER_OF_MAGNITUDE = 10.0


@dataclass(frozen=True)
class Quantity:
    """A measure as a figure: the word in the file name and what stands along the axis."""

    file: str
    measure: str
    axis: str


@dataclass(frozen=True)
class Panel:
    """One setting and the lines in it."""

    title: str
    lines: tuple[Curves, ...]


QUANTITIES = (
    Quantity("reward", "regret", "cumulative regret"),
    Quantity("time", "seconds", "running time, seconds"),
    Quantity("communication", "scalars", "Com(T), scalars sent"),
)


def draw_runs(runs: pa.Table, out: Path, *, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw regret, time and communication of any table of runs, one panel per setting.

    Files are named reward, time and communication in ``out``. Lines that differ in radius alone
    say so in the legend; a setting that was run for several numbers of rounds gets a panel each.
    """
    found = curves(runs)
    if not found:
        raise InvalidParameter(
            "draw_runs: the table has no runs. Give the table of an experiment that has run."
        )
    return draw_panels(panels_by_setting(found), out, formats=formats)


def draw_panels(
    panels: Sequence[Panel], out: Path, *, suffix: str = "", formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw each quantity of these panels into ``out``: reward, time, communication + ``suffix``."""
    figures = {
        f"{quantity.file}{suffix}": partial(compose, panels, quantity) for quantity in QUANTITIES
    }
    return save(figures, out, formats)


def panels_by_setting(found: Iterable[Curves]) -> list[Panel]:
    """Make a panel of every setting, and of every number of rounds that it was run for."""
    groups: dict[tuple[str, int], list[Curves]] = {}
    for each in found:
        groups.setdefault((each.setting, each.rounds), []).append(each)
    lengths = Counter(setting for setting, _ in groups)
    return [
        Panel(
            setting if lengths[setting] == 1 else f"{setting}, {rounds:,} rounds",
            tuple(sorted(groups[setting, rounds], key=rank)),
        )
        for setting, rounds in sorted(groups, key=lambda group: (natural(group[0]), group[1]))
    ]


def compose(panels: Sequence[Panel], quantity: Quantity) -> Figure:
    """Lay out the panels two in a row, with one legend below them all."""
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    lines = [panel.lines for panel in panels]
    name = namer(lines)
    looks = looks_of(lines, name)
    legend_rows = -(-len(looks) // 4)
    height = 3.3 * rows + 0.25 * legend_rows + 0.2
    figure = Figure(figsize=(4.7 * columns + 0.4, height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    logarithmic = any(far_apart(panel, quantity.measure) for panel in panels)
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.set_yscale("log" if logarithmic else "linear")
        for each in panel.lines:
            _line(axes, each, quantity.measure, looks[name(each)])
        _frame(axes, panel)
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    for axes in grid[:, 0]:
        axes.set_ylabel(f"{quantity.axis}{', log scale' if logarithmic else ''}")
    figure.legend(
        handles=_handles(panels, quantity, name, looks),
        loc="outside lower center",
        ncols=min(4, len(looks)),
        frameon=False,
        handlelength=3.2,
    )
    return figure


def _frame(axes: Axes, panel: Panel) -> None:
    """Title, ticks and limits, after the lines are in: limits that are set stop following data."""
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.set_xlabel("round")
    axes.grid(visible=True)
    axes.set_xlim(0, max(each.rounds for each in panel.lines))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if axes.get_yscale() == "log":
        ends = [end for line in axes.get_lines() for end in _ends(line)]
        axes.set_ylim(min(ends) / 2, 2 * max(ends))  # by the lines: early bands can be very wide
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(6))
    millions = axes.get_yscale() == "linear" and axes.get_ylim()[1] > 1e6
    axes.yaxis.set_major_formatter(FuncFormatter(in_millions if millions else spelt))


def _ends(line: Line2D) -> tuple[float, float]:
    heights = np.asarray(line.get_ydata(), dtype=np.float64)
    return float(heights.min()), float(heights.max())


def _line(axes: Axes, each: Curves, measure: str, look: Look) -> None:
    """Draw the mean and its band; a log axis shows nothing of what is still zero."""
    trials = each.values[measure]
    logarithmic = axes.get_yscale() == "log"
    shown = trials.mean(axis=0) > 0.0 if logarithmic else np.ones(trials.shape[1], dtype=bool)
    if not shown.any():
        return
    x = each.checkpoints[shown]
    spread = log_band(trials[:, shown]) if logarithmic else band(trials)
    axes.fill_between(
        x, spread.low, spread.high, color=look.colour, alpha=0.18, linewidth=0, zorder=1
    )
    axes.plot(
        x,
        spread.mean,
        color=look.colour,
        linestyle=look.dashes,
        linewidth=look.width,
        zorder=look.layer,
    )


def far_apart(panel: Panel, measure: str) -> bool:
    """Whether the lines end so far apart that a linear axis would flatten the lower ones."""
    ends = [float(each.final(measure).mean()) for each in panel.lines]
    positive = [end for end in ends if end > 0.0]
    return len(positive) > 1 and max(positive) / min(positive) > ORDER_OF_MAGNITUDE


def _handles(
    panels: Sequence[Panel],
    quantity: Quantity,
    name: Callable[[Curves], str],
    looks: Mapping[str, Look],
) -> list[Line2D]:
    silent = {label for label in looks if quantity.measure == "scalars"}
    for panel in panels:
        for each in panel.lines:
            if each.final(quantity.measure).any():
                silent.discard(name(each))
    return [
        Line2D(
            [],
            [],
            color=look.colour,
            linestyle=look.dashes,
            linewidth=look.width,
            label=f"{label} (sends nothing)" if label in silent else label,
        )
        for label, look in looks.items()
    ]
