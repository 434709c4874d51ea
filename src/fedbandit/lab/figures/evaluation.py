"""An offline evaluation as a figure: estimates with their intervals, beside what was done."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedbandit.lab.figures.saving import FORMATS, save
from fedbandit.offline.estimates import METHODS
from fedbandit.offline.outcome import Evaluation

COLOURS = {"replay": "#332288", "ips": "#999999", "snips": "#0072B2", "dr": "#D55E00"}
MARKERS = {"replay": "o", "ips": "s", "snips": "D", "dr": "^"}  # told apart without colours too


def draw_evaluation(
    evaluation: Evaluation, out: Path, *, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw the estimates as ``evaluation`` in ``out``."""
    return save({"evaluation": partial(compose_evaluation, evaluation)}, out, formats)


def compose_evaluation(evaluation: Evaluation) -> Figure:
    """Lay out a line for each policy, a point for each method; open where nothing is concluded."""
    names = list(dict.fromkeys(each.name for each in evaluation.outcomes))
    figure = Figure(figsize=(7.0, 1.4 + 0.65 * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _logged(axes, evaluation)
    _points(axes, evaluation, names)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    level = f"{100 * evaluation.level:g} %"
    axes.set_xlabel(f"reward a decision, {level} interval (open: too little to conclude from)")
    title = f"What would have happened, by {evaluation.rows:,} logged decisions"
    axes.set_title(title, loc="left", fontweight="bold")
    axes.grid(visible=True, axis="x")
    figure.legend(loc="outside lower center", ncols=5, frameon=False)
    return figure


def _logged(axes: Axes, evaluation: Evaluation) -> None:
    now = evaluation.now
    axes.axvline(now.value, color="#333333", linewidth=1.2, linestyle="--", label="what was done")
    axes.axvspan(now.low, now.high, color="#333333", alpha=0.1, linewidth=0)


def _points(axes: Axes, evaluation: Evaluation, names: list[str]) -> None:
    for step, method in enumerate(METHODS):
        shown = [
            each
            for each in evaluation.outcomes
            if each.method == method and np.isfinite([each.estimate.low, each.estimate.high]).all()
        ]
        for place, each in enumerate(shown):
            found, colour = each.estimate, COLOURS[method]
            axes.errorbar(
                found.value,
                names.index(each.name) + 0.16 * (step - 1.5),
                xerr=[[found.value - found.low], [found.high - found.value]],
                color=colour,
                marker=MARKERS[method],
                markersize=5,
                markerfacecolor=colour if found.enough else "white",
                linewidth=1.4,
                capsize=2.5,
                label=method if place == 0 else None,
            )
