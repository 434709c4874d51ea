"""Figures of runs: mean curves with 95 % bands, a panel per setting."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import band, log_band
from fedbandit.lab.analysis.text import natural
from fedbandit.lab.figures.layout import add_legend, handles, leftmost, shade, sheet, style
from fedbandit.lab.figures.looks import Look, looks_of, namer, rank
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
    Quantity("regret", "regret", "cumulative regret"),
    Quantity("time", "seconds", "running time, seconds"),
    Quantity("communication", "scalars", "Com(T), scalars sent"),
    Quantity("bytes", "bytes", "bytes sent"),
)


def draw_panels(
    panels: Mapping[str, Sequence[Panel]],
    out: Path,
    *,
    formats: Sequence[str] = FORMATS,
    jobs: int = 1,
) -> list[Path]:
    """Draw each quantity of some panels into ``out``, named by it and by the key of the panels."""
    figures = {
        f"{quantity.file}{suffix}": partial(compose, some, quantity)
        for suffix, some in panels.items()
        for quantity in QUANTITIES
    }
    return save(figures, out, formats, jobs=jobs)


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
    lines = [panel.lines for panel in panels]
    name = namer(lines)
    looks = looks_of(lines, name)
    figure, grid = sheet(len(panels))
    logarithmic = any(far_apart(panel, quantity.measure) for panel in panels)
    for axes, panel in zip(grid, panels, strict=True):
        axes.set_yscale("log" if logarithmic else "linear")
        for each in panel.lines:
            _line(
                axes,
                each,
                quantity.measure,
                looks[name(each)],
                place=list(looks).index(name(each)),
                alpha=shade(len(panel.lines)),
            )
        _frame(axes, panel)
    for axes in leftmost(grid):
        axes.set_ylabel(f"{quantity.axis}{', log scale' if logarithmic else ''}")
    add_legend(figure, handles(looks, words=_words(panels, quantity, name, looks)))
    return figure


def _frame(axes: Axes, panel: Panel) -> None:
    """Title, ticks and limits, after the lines are in: limits that are set stop following data."""
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.set_xlabel("round")
    axes.grid(visible=True)
    axes.set_xlim(0, max(each.rounds for each in panel.lines))
    axes.xaxis.set_major_locator(MaxNLocator(4))
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


def _line(axes: Axes, each: Curves, measure: str, look: Look, *, place: int, alpha: float) -> None:
    """Draw the mean and its band; a log axis shows nothing of what is still zero.

    ``place`` shifts the markers, so that those of lines upon each other do not coincide.
    """
    trials = each.values[measure]
    logarithmic = axes.get_yscale() == "log"
    shown = trials.mean(axis=0) > 0.0 if logarithmic else np.ones(trials.shape[1], dtype=bool)
    if not shown.any():
        return
    x = each.checkpoints[shown]
    spread = log_band(trials[:, shown]) if logarithmic else band(trials)
    axes.fill_between(
        x, spread.low, spread.high, color=look.colour, alpha=alpha, linewidth=0, zorder=1
    )
    axes.plot(x, spread.mean, **style(look), markevery=markers(len(x), place), zorder=look.layer)


def markers(points: int, place: int) -> tuple[int, int]:
    """Return where a line has markers, about six of them: the first, and the step."""
    step = max(1, points // 6)
    return (step // 2 + place * step // 5) % max(1, min(step, points)), step


def far_apart(panel: Panel, measure: str) -> bool:
    """Whether the lines end so far apart that a linear axis would flatten the lower ones."""
    ends = [float(each.final(measure).mean()) for each in panel.lines]
    positive = [end for end in ends if end > 0.0]
    return len(positive) > 1 and max(positive) / min(positive) > ORDER_OF_MAGNITUDE


def _words(
    panels: Sequence[Panel],
    quantity: Quantity,
    name: Callable[[Curves], str],
    looks: Mapping[str, Look],
) -> dict[str, str]:
    """Say in the legend which lines send nothing."""
    if quantity.measure not in ("scalars", "bytes"):
        return {}
    lines = [each for panel in panels for each in panel.lines]
    talking = {name(each) for each in lines if each.final(quantity.measure).any()}
    return {label: f"{label} (sends nothing)" for label in looks if label not in talking}
