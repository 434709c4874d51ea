"""Paired differences: regret less that of the best line, where bands of the curves overlap."""

from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import band, estimate
from fedbandit.lab.figures.layout import add_legend, handles, shade, sheet, style
from fedbandit.lab.figures.looks import looks_of, namer
from fedbandit.lab.figures.panels import Panel, markers
from fedbandit.lab.figures.saving import spelt

NEAR = 3.0  # lines with more than so many times the best regret are told apart without this


def difference_figure(panels: Sequence[Panel]) -> dict[str, Callable[[], Figure]]:
    """Return the figure ``difference``, of the panels in which bands overlap; none if none do."""
    shown = [panel for panel in panels if overlapping(panel)]
    return {"difference": partial(compose_differences, shown)} if shown else {}


def overlapping(panel: Panel) -> bool:
    """Whether the 95 % intervals of some line and of the best one overlap after the last round."""
    if len(panel.lines) < 2:
        return False
    best = estimate(reference(panel).final("regret"))
    return any(estimate(each.final("regret")).low <= best.high for each in comparable(panel))


def reference(panel: Panel) -> Curves:
    """Return the line with the least regret."""
    return min(panel.lines, key=lambda each: float(each.final("regret").mean()))


def comparable(panel: Panel) -> list[Curves]:
    """Return the other lines that played the same trials and are not far off."""
    best = reference(panel)
    most = NEAR * float(best.final("regret").mean())
    return [
        each
        for each in panel.lines
        if each is not best
        and each.trials == best.trials
        and len(each.trials) > 1
        and float(each.final("regret").mean()) <= most
    ]


def compose_differences(panels: Sequence[Panel]) -> Figure:
    """Draw regret less the best line's, trial by trial: what the tapes share cancels."""
    name = namer([panel.lines for panel in panels])
    looks = looks_of([panel.lines for panel in panels], name)
    figure, grid = sheet(len(panels))
    seen: set[str] = set()
    for axes, panel in zip(grid, panels, strict=True):
        best = reference(panel)
        axes.axhline(0.0, color="#555555", linewidth=0.8)
        alpha = shade(len(comparable(panel)))
        for each in comparable(panel):
            look, place = looks[name(each)], list(looks).index(name(each))
            spread = band(each.values["regret"] - best.values["regret"])
            x = each.checkpoints
            axes.fill_between(
                x, spread.low, spread.high, color=look.colour, alpha=alpha, linewidth=0, zorder=1
            )
            axes.plot(x, spread.mean, **style(look), markevery=markers(len(x), place))
            seen.add(name(each))
        axes.set_title(panel.title, loc="left", fontweight="bold")
        axes.set_xlabel("round")
        axes.set_ylabel(f"regret less that of\n{name(best)}")
        axes.set_xlim(0, best.rounds)
        axes.grid(visible=True)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_major_locator(MaxNLocator(6))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(spelt))
    add_legend(figure, handles({label: look for label, look in looks.items() if label in seen}))
    return figure
