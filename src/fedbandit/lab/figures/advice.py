"""Advice as a figure: the spectrum with its tail, and regret against bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from fedbandit.lab.analysis.advice import FLOOR, LEAN, LITERAL, WHOLE, Advice
from fedbandit.lab.analysis.recommendation import Measured
from fedbandit.lab.figures.layout import add_legend, sheet
from fedbandit.lab.figures.looks import LOOKS
from fedbandit.lab.figures.panels import ORDER_OF_MAGNITUDE
from fedbandit.lab.figures.saving import FORMATS, save, spelt

SAME_PLACE = 1.03  # points closer than this on an axis of bytes lie on each other
ON_WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # lines do not cross a text


@dataclass(frozen=True)
class Marks:
    """How a recipe's points are drawn; sizes are written above them, or below (-1)."""

    colour: str
    marker: str
    size: float = 7.0
    side: int = 1


TRADE_LOOKS: Mapping[str, Marks] = {
    LEAN: Marks(LOOKS[LEAN].colour, "p", 4.5),
    LITERAL: Marks(LOOKS[LITERAL].colour, LOOKS[LITERAL].marker, 4.5, side=-1),
    WHOLE: Marks(LOOKS[WHOLE].colour, LOOKS[WHOLE].marker, 4.5),
    f"{LEAN}, auto": Marks(LOOKS[LEAN].colour, "*", 8.5),
}


def draw_advice(advice: Advice, out: Path, *, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw the spectrum with its tail, and regret against bytes, as ``advice`` in ``out``."""
    return save({"advice": partial(compose_advice, advice)}, out, formats)


def compose_advice(advice: Advice) -> Figure:
    """Lay out the spectrum beside what each size cost."""
    figure, (left, right) = sheet(2, height=2.6)
    _spectrum(left, advice)
    _trade(right, advice)
    entries, _ = right.get_legend_handles_labels()
    add_legend(figure, entries)
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
        axes.text(0.97, 0.95, text, transform=axes.transAxes, ha="right", va="top", bbox=ON_WHITE)
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
        _points(axes, [each for each in shown if trade_name(each) == name], advice, name, look)
    limit = advice.of(WHOLE).regret.mean + advice.tolerance * advice.lead.mean
    allowed = f"FedLinUCB + {100 * advice.tolerance:.2g} % of its lead"
    axes.axhline(limit, color="#555555", linewidth=1.0, linestyle="--", label=allowed)
    axes.set_title("What each size cost", loc="left", fontweight="bold")
    axes.set_xlabel("bytes sent in all, log scale")
    rounds = f"regret after {advice.rounds:,} rounds"
    axes.set_ylabel(f"{rounds}, log scale" if far else rounds)
    axes.margins(x=0.12, y=0.12)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(spelt))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if far:
        axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axes.yaxis.set_minor_formatter(FuncFormatter(spelt))
    else:
        axes.set_ylim(bottom=0)
    axes.grid(visible=True)


def _points(axes: Axes, line: Sequence[Measured], advice: Advice, name: str, look: Marks) -> None:
    """Draw a recipe's sizes, each with its number, and a ring around the recommended one."""
    if not line:
        return
    x = [each.bytes.mean for each in line]
    y = [each.regret.mean for each in line]
    half = [reach(each, advice) for each in line]
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
            axes.plot(*at, "o", markersize=9, markerfacecolor="none", color=look.colour)
    for text, each in _numbers(line, advice):
        axes.annotate(
            text,
            (each.bytes.mean, each.regret.mean + look.side * reach(each, advice)),
            xytext=(0.0, 4.0 * look.side),
            textcoords="offset points",
            ha="center",
            va="bottom" if look.side > 0 else "top",
            color=look.colour,
            fontsize=7,
            bbox=ON_WHITE,
        )


def _numbers(line: Sequence[Measured], advice: Advice) -> list[tuple[str, Measured]]:
    """Return sizes as text and where to write them; sizes too close for two texts share one."""
    sent = [each.bytes.mean for each in advice.measured if each.bytes.mean > 0.0]
    close = max(
        SAME_PLACE, (max(sent) / min(sent)) ** 0.1
    )  # a tenth of the axis has room for a text
    groups: list[list[Measured]] = []
    for each in line:
        if groups and each.bytes.mean < close * groups[-1][-1].bytes.mean:
            groups[-1].append(each)
        elif each.sketch_size not in (None, "auto"):
            groups.append([each])
    return [
        ("-".join(f"{end.sketch_size}" for end in _both_ends(group)), group[len(group) // 2])
        for group in groups
    ]


def _both_ends(group: Sequence[Measured]) -> Sequence[Measured]:
    return group if len(group) == 1 else (group[0], group[-1])


def trade_name(each: Measured) -> str:
    """Return under which of ``TRADE_LOOKS`` it is drawn."""
    return f"{LEAN}, auto" if each.sketch_size == "auto" else each.recipe


def reach(each: Measured, advice: Advice) -> float:
    """Return half the interval of the difference from FedLinUCB, if there is one.

    It is cut before it reaches 0, which a log axis does not have.
    """
    reach = abs(each.loss.scaled(advice.lead.mean).ci95)
    return min(reach, 0.9 * each.regret.mean) if np.isfinite(reach) else 0.0
