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
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedbandit.core.checks import one_of
from fedbandit.errors import InvalidParameter, OutputError, complaint
from fedbandit.lab.advice import FLOOR, LEAN, LITERAL, WHOLE, Advice
from fedbandit.lab.curves import Curves, curves
from fedbandit.lab.recommendation import Measured
from fedbandit.lab.statistics import band, log_band

FORMATS = ("png", "svg", "pdf")
ORDER_OF_MAGNITUDE = 10.0
SAME_PLACE = 1.03  # points closer than this on an axis of bytes lie on each other
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


@dataclass(frozen=True)
class Marks:
    """How a recipe's points are drawn; sizes are written above them, or below (-1)."""

    colour: str
    marker: str
    size: float = 7.0
    side: int = 1


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

TRADE_LOOKS: Mapping[str, Marks] = {
    LEAN: Marks("#D55E00", "o"),
    LITERAL: Marks("#332288", "s", side=-1),
    WHOLE: Marks("#0072B2", "D"),
    f"{LEAN}, auto": Marks("#D55E00", "*", 14.0),
}

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
    return _save(figures, out, formats)


def draw_advice(advice: Advice, out: Path, *, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw the spectrum with its tail, and regret against bytes, as ``advice`` in ``out``."""
    return _save({"advice": partial(compose_advice, advice)}, out, formats)


def _save(
    figures: Mapping[str, Callable[[], Figure]], out: Path, formats: Sequence[str]
) -> list[Path]:
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


def compose_advice(advice: Advice) -> Figure:
    """Lay out the spectrum beside what each size cost."""
    figure = Figure(figsize=(9.8, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _spectrum(left, advice)
    _trade(right, advice)
    handles, names = right.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside lower center", ncols=3, frameon=False, handlelength=2.6
    )
    return figure


def _spectrum(axes: Axes, advice: Advice) -> None:
    """Draw the eigenvalues, on a log axis down to a billionth of the largest, and the tail."""
    values = np.array(advice.eigenvalues)
    index = np.arange(1, len(values) + 1)
    shown = values > 1e-9 * values[0]
    axes.set_yscale("log")
    size = advice.recommendation.sketch_size
    if size is not None:
        tail = shown & (index >= size)
        share = next(each.tail for each in advice.prospects if each.sketch_size == size)
        axes.bar(index[tail], values[tail], width=1.0, color=LOOKS["FSCLB"].colour, alpha=0.25)
        text = f"tail at l = {size}: {100 * share:.2g} % of the trace"
        axes.text(0.97, 0.95, text, transform=axes.transAxes, ha="right", va="top")
    axes.plot(index[shown], values[shown], color="#333333", marker="o", markersize=3, linewidth=1.2)
    for each in advice.prospects:
        axes.axvline(each.sketch_size - 0.5, color="#999999", linewidth=0.8, linestyle=":")
    name = advice.setting if len(advice.setting) <= 30 else f"{advice.setting[:27]}..."
    axes.set_title(f"{name}: arms played", loc="left", fontweight="bold")
    axes.set_xlabel("eigenvalue, largest first (dotted: sizes tried)")
    axes.set_ylabel("eigenvalue, log scale")
    axes.set_xlim(0.5, len(values) + 1.5)
    if shown.any():
        axes.set_ylim(0.5 * values[shown].min(), 2.0 * values[0])
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(visible=True)


def _trade(axes: Axes, advice: Advice) -> None:
    """Draw regret against bytes, each size a point; bars are the intervals of the differences."""
    axes.set_xscale("log")
    shown = [each for each in advice.measured if each.recipe != FLOOR and each.bytes.mean > 0.0]
    regrets = [each.regret.mean for each in shown if each.regret.mean > 0.0]
    far = bool(regrets) and max(regrets) > ORDER_OF_MAGNITUDE / 2 * min(regrets)
    axes.set_yscale("log" if far else "linear")
    for name, look in TRADE_LOOKS.items():
        _points(axes, [each for each in shown if _trade_name(each) == name], advice, name, look)
    limit = advice.of(WHOLE).regret.mean + advice.tolerance * advice.lead.mean
    allowed = f"FedLinUCB + {100 * advice.tolerance:.2g} % of its lead"
    axes.axhline(limit, color="#555555", linewidth=1.0, linestyle="--", label=allowed)
    axes.set_title("What each size cost", loc="left", fontweight="bold")
    axes.set_xlabel("bytes sent in all, log scale")
    rounds = f"regret after {advice.rounds:,} rounds"
    axes.set_ylabel(f"{rounds}, log scale" if far else rounds)
    axes.margins(x=0.12, y=0.12)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_in_full))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if far:
        axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axes.yaxis.set_minor_formatter(FuncFormatter(_in_full))
    else:
        axes.set_ylim(bottom=0)
    axes.grid(visible=True)


def _points(axes: Axes, line: Sequence[Measured], advice: Advice, name: str, look: Marks) -> None:
    """Draw a recipe's sizes, each with its number, and a ring around the recommended one."""
    if not line:
        return
    x = [each.bytes.mean for each in line]
    y = [each.regret.mean for each in line]
    half = [_reach(each, advice) for each in line]
    axes.errorbar(
        x,
        y,
        yerr=half,
        color=look.colour,
        marker=look.marker,
        markersize=look.size,
        markeredgecolor="white",
        linewidth=1.2,
        elinewidth=0.9,
        capsize=2.5,
        label=name,
    )
    for each in line:
        if name == LEAN and each.sketch_size == advice.recommendation.sketch_size:
            at = (each.bytes.mean, each.regret.mean)
            axes.plot(*at, "o", markersize=13, markerfacecolor="none", color=look.colour)
    for text, each in _numbers(line):
        axes.annotate(
            text,
            (each.bytes.mean, each.regret.mean + look.side * _reach(each, advice)),
            xytext=(0.0, 6.0 * look.side),
            textcoords="offset points",
            ha="center",
            va="bottom" if look.side > 0 else "top",
            color=look.colour,
            fontsize=9,
        )


def _numbers(line: Sequence[Measured]) -> list[tuple[str, Measured]]:
    """Return sizes as text and where to write them; sizes that sent as much share a text."""
    groups: list[list[Measured]] = []
    for each in line:
        if groups and each.bytes.mean < SAME_PLACE * groups[-1][0].bytes.mean:
            groups[-1].append(each)
        elif each.sketch_size not in (None, "auto"):
            groups.append([each])
    return [
        ("-".join(f"{end.sketch_size}" for end in _both_ends(group)), group[0]) for group in groups
    ]


def _both_ends(group: Sequence[Measured]) -> Sequence[Measured]:
    return group if len(group) == 1 else (group[0], group[-1])


def _trade_name(each: Measured) -> str:
    return f"{LEAN}, auto" if each.sketch_size == "auto" else each.recipe


def _reach(each: Measured, advice: Advice) -> float:
    """Return half the interval of the difference from FedLinUCB, if there is one.

    It is cut before it reaches 0, which a log axis does not have.
    """
    reach = abs(each.loss.scaled(advice.lead.mean).ci95)
    return min(reach, 0.9 * each.regret.mean) if np.isfinite(reach) else 0.0


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
    axes.yaxis.set_major_formatter(FuncFormatter(_in_millions if millions else _in_full))


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


def _in_full(value: float, _position: int | None = None) -> str:
    """12,000; on a log axis a million and more as 10 M; small numbers without trailing zeros."""
    if abs(value) >= 1e6:
        return _in_millions(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _in_millions(value: float, _position: int | None = None) -> str:
    return f"{value / 1e6:,.4g} M" if value else "0"
