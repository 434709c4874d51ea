"""Figures of runs: mean curves with 95 % bands, a panel per setting. Only this module draws."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedbandit.core.checks import one_of
from fedbandit.errors import InvalidParameter, OutputError, complaint
from fedbandit.lab.analysis.curves import Curves, curves
from fedbandit.lab.analysis.statistics import band, log_band

FORMATS = ("png", "svg", "pdf")
ORDER_OF_MAGNITUDE = 10.0
LineStyle = Literal["-"] | tuple[float, Sequence[float]]


@dataclass(frozen=True)
class Look:
    """How an algorithm is drawn, in every figure alike: told apart without colour by its dashes."""

    colour: str
    dashes: LineStyle = "-"
    width: float = 1.8
    layer: int = 2


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

# The Okabe-Ito palette, its yellow left out (too faint on white), and two of Tol's.
LOOKS: Mapping[str, Look] = {
    "FSCLB": Look("#D55E00", "-", 2.2, 3),
    "FedLinUCB": Look("#0072B2", "-", 3.0),
    "FedLinUCB (published)": Look("#56B4E9", (0, (4.0, 2.0)), 1.6),
    "Random": Look("#7A7A7A", (0, (1.0, 1.5))),
    "AsyncLinUCB": Look("#009E73", (0, (6.0, 1.5))),
    "DisLinUCB": Look("#CC79A7", (0, (6.0, 1.5, 1.0, 1.5))),
    "LinUCB": Look("#E69F00", (0, (3.0, 1.0, 1.0, 1.0, 1.0, 1.0))),
    "Centralised": Look("#000000", (0, (2.0, 1.0))),
    "SOFUL": Look("#882255", (0, (8.0, 2.0, 2.0, 2.0))),
    "CBSCFD": Look("#44AA99", (0, (5.0, 1.0, 1.0, 1.0))),
}
OTHER_DASHES: tuple[LineStyle, ...] = (
    (0, (1.0, 1.2)),
    (0, (5.0, 1.5)),
    (0, (5.0, 1.5, 1.0, 1.5)),
    (0, (10.0, 2.0)),
    "-",
)
SPARE_COLOURS = ("#332288", "#117733", "#AA4499", "#999933", "#661100", "#6699CC")

UNDATED: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}


def draw_runs(runs: pa.Table, out: Path, *, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw regret, time and communication of any table of runs, one panel per setting.

    Files are named reward, time and communication in ``out``. Lines that differ in radius alone
    say so in the legend; a setting that was run for several numbers of rounds gets a panel each.
    """
    found = curves(runs)
    if not found:
        raise InvalidParameter(
            complaint(
                "draw_runs",
                got="a table without runs",
                expected="at least one finished run",
                fix="Give the table of an experiment that has run.",
            )
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


def save(
    figures: Mapping[str, Callable[[], Figure]], out: Path, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write figures, by their names, into ``out``; each is composed in our style."""
    for kind in formats:
        one_of("formats", kind, FORMATS)
    try:
        out.mkdir(parents=True, exist_ok=True)
        return [
            path
            for name, composed in figures.items()
            for path in _draw(composed, out / name, formats)
        ]
    except OSError as error:
        raise OutputError(
            complaint(
                f"figures in {str(out)!r}",
                got=str(error),
                expected="a directory whose files can be written",
                fix="Give another directory, or remove what is in the way.",
            )
        ) from error


def natural(text: str) -> list[tuple[int, int | str]]:
    """Return a sort key that puts d=50 before d=100."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts if part]


def _style() -> AbstractContextManager[None]:
    """Set the look of everything drawn inside; ids and metadata are fixed, so files are too."""
    return matplotlib.rc_context(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10.0,
            "axes.titlesize": 11.0,
            "axes.labelsize": 10.0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": "#555555",
            "axes.axisbelow": True,
            "grid.color": "#E3E3E3",
            "grid.linewidth": 0.7,
            "xtick.color": "#333333",
            "ytick.color": "#333333",
            "svg.hashsalt": "fedbandit",
            "svg.fonttype": "path",
            "pdf.fonttype": 3,
            "savefig.dpi": 160.0,
            "savefig.facecolor": "white",
        }
    )


def panels_by_setting(found: Iterable[Curves]) -> list[Panel]:
    """Make a panel of every setting, and of every number of rounds that it was run for."""
    groups: dict[tuple[str, int], list[Curves]] = {}
    for each in found:
        groups.setdefault((each.setting, each.rounds), []).append(each)
    lengths = Counter(setting for setting, _ in groups)
    return [
        Panel(
            setting if lengths[setting] == 1 else f"{setting}, {rounds:,} rounds",
            tuple(sorted(groups[setting, rounds], key=_rank)),
        )
        for setting, rounds in sorted(groups, key=lambda group: (natural(group[0]), group[1]))
    ]


def _draw(composed: Callable[[], Figure], stem: Path, formats: Sequence[str]) -> list[Path]:
    with _style():
        figure = composed()
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, for all formats alike
        paths = [stem.with_name(f"{stem.name}.{kind}") for kind in formats]
        for path, kind in zip(paths, formats, strict=True):
            figure.savefig(path, format=kind, metadata=UNDATED.get(kind, {}))
    return paths


def compose(panels: Sequence[Panel], quantity: Quantity) -> Figure:
    """Lay out the panels two in a row, with one legend below them all."""
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    name = _namer(panels)
    looks = _looks(panels, name)
    legend_rows = -(-len(looks) // 4)
    height = 3.3 * rows + 0.25 * legend_rows + 0.2
    figure = Figure(figsize=(4.7 * columns + 0.4, height), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    logarithmic = any(_far_apart(panel, quantity.measure) for panel in panels)
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
    axes.yaxis.set_major_formatter(FuncFormatter(_in_millions if millions else spelt))


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


def _far_apart(panel: Panel, measure: str) -> bool:
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


def _namer(panels: Sequence[Panel]) -> Callable[[Curves], str]:
    """Name lines as shortly as tells them apart: with kind of radius if need be, or all of it."""
    several = {
        algorithm
        for panel in panels
        for algorithm, lines in Counter(each.algorithm for each in panel.lines).items()
        if lines > 1
    }

    def by_kind(each: Curves) -> str:
        kind = each.radius.partition(" (")[0]
        return f"{each.algorithm}, {kind}" if each.algorithm in several else each.algorithm

    def in_full(each: Curves) -> str:
        return f"{each.algorithm}, {each.radius}" if each.algorithm in several else each.algorithm

    kinds_suffice = all(
        len({by_kind(each) for each in panel.lines}) == len(panel.lines) for panel in panels
    )
    return by_kind if kinds_suffice else in_full


def _looks(panels: Sequence[Panel], name: Callable[[Curves], str]) -> dict[str, Look]:
    """Give every name its look, in legend order; one colour per algorithm, dashes by radius."""
    lines = sorted((each for panel in panels for each in panel.lines), key=_rank)
    spare = cycle(SPARE_COLOURS)
    first: dict[str, Look] = {}
    dashes: dict[str, Iterator[LineStyle]] = {}
    looks: dict[str, Look] = {}
    for each in lines:
        if name(each) in looks:
            continue
        if each.algorithm not in first:
            first[each.algorithm] = LOOKS.get(each.algorithm) or Look(next(spare))
            dashes[each.algorithm] = cycle(OTHER_DASHES)
            looks[name(each)] = first[each.algorithm]
        else:
            other = next(dashes[each.algorithm])
            looks[name(each)] = Look(first[each.algorithm].colour, other, 1.4)
    return looks


def _rank(each: Curves) -> tuple[bool, int, list[tuple[int, int | str]], bool, str]:
    """Sort key: the paper's algorithms first, tuned before the rest, then by name."""
    known = list(LOOKS)
    place = known.index(each.algorithm) if each.algorithm in known else len(known)
    return (
        place == len(known),
        place,
        natural(each.algorithm),
        not each.radius.startswith("tuned"),
        each.radius,
    )


def spelt(value: float, _position: int | None = None) -> str:
    """12,000; on a log axis a million and more as 10 M; small numbers without trailing zeros."""
    if abs(value) >= 1e6:
        return _in_millions(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _in_millions(value: float, _position: int | None = None) -> str:
    return f"{value / 1e6:,.4g} M" if value else "0"
