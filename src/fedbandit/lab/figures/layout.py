"""Sheets of panels with a legend below, at the width of a column or of a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from fedbandit.lab.figures.looks import Look

COLUMN, PAGE = 3.4, 7.0  # inches
MOST_COLUMNS = 3


def sheet(panels: int, *, height: float = 2.2) -> tuple[Figure, list[Axes]]:
    """Return a figure with so many panels, and their axes.

    One panel is as wide as a column, more share the width of a page: two in a row, or three if
    they fill the rows better.
    """
    columns = min(panels, MOST_COLUMNS if panels == 3 or panels > 4 else 2)
    rows = -(-panels // columns)
    width = COLUMN if columns == 1 else PAGE
    figure = Figure(figsize=(width, height * rows + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in list(grid.flat)[panels:]:
        axes.remove()
    return figure, list(grid.flat)[:panels]


def leftmost(grid: Sequence[Axes]) -> list[Axes]:
    """Return the axes that begin a row, which name what is measured."""
    return [axes for axes in grid if (at := axes.get_subplotspec()) and at.is_first_col()]


def handles(looks: Mapping[str, Look], *, words: Mapping[str, str] | None = None) -> list[Line2D]:
    """Return a line with marker for each name; ``words`` are what the legend says instead."""
    return [
        Line2D([], [], **style(look), label=(words or {}).get(name, name))
        for name, look in looks.items()
    ]


def style(look: Look) -> dict[str, Any]:
    """Return how a line of that look is drawn."""
    return {
        "color": look.colour,
        "linestyle": look.dashes,
        "linewidth": look.width,
        "marker": look.marker,
        "markersize": 6.0 if look.marker in "*123" else 4.0,
        "markerfacecolor": look.colour if look.filled else "white",
        "markeredgewidth": 0.9,
    }


def shade(lines: int) -> float:
    """Return how opaque bands are: many bands upon each other would hide the lines."""
    return 0.18 if lines <= 4 else 0.07


def add_legend(figure: Figure, entries: Sequence[Any]) -> Legend:
    """Add a legend below the panels, in as many columns as fit, so that no word is cut off.

    The figure grows by the height of the legend, so that it takes no room from the panels.
    """
    columns, height = max(1, min(4, len(entries))), figure.get_figheight()
    size, room = float(rcParams["font.size"]) - 0.5, figure.get_figwidth() * figure.dpi
    while True:
        figure.set_figheight(height + 0.17 * -(-len(entries) // columns))
        legend = figure.legend(
            handles=list(entries),
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            handlelength=3.4,
            columnspacing=1.4,
            labelspacing=0.35,
            fontsize=size,
        )
        figure.draw_without_rendering()
        width = legend.get_window_extent().width
        if width <= room:
            return legend
        legend.remove()
        if columns > 1:
            columns -= 1
        else:  # one column and still too wide: smaller letters
            size *= 0.95 * room / width
