"""Figures of sweeps: a measure against a parameter in small multiples, and bytes against regret."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isnan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import Estimate, estimate
from fedbandit.lab.analysis.text import natural
from fedbandit.lab.figures.layout import add_legend, handles, leftmost, sheet, style
from fedbandit.lab.figures.looks import Look, looks_of
from fedbandit.lab.figures.panels import ORDER_OF_MAGNITUDE
from fedbandit.lab.figures.saving import spelt

AXES = {"regret": "regret", "bytes": "bytes sent"}
NOT_SWEPT = ("seed", "digest", "bounds_horizon", "dimension")

Values = tuple[tuple[str, Any], ...]


def sweep_figures(found: Sequence[Curves]) -> dict[str, Callable[[], Figure]]:
    """Return, by name, regret and bytes against each swept number, and bytes against regret."""
    swept = swept_numbers(found)
    figures: dict[str, Callable[[], Figure]] = {
        f"{measure}-by-{name}": partial(compose_sweep, found, name, measure)
        for name in swept
        for measure in AXES
        if any(each.final(measure).any() for each in found)
    }
    if swept and any(each.final("bytes").any() for each in found):
        figures["bytes-against-regret"] = partial(compose_trade, found)
    return figures


def swept_numbers(found: Sequence[Curves]) -> list[str]:
    """Return the parameters that are numbers and differ among points of one world or recipe."""
    names: dict[str, None] = {}
    for mine in (_swept_by_recipe, _swept_by_world):
        for values in mine(found).values():
            names |= {
                name: None
                for name, seen in values.items()
                if all(_is_number(value) for value in seen)
            }
    return list(names)


def compose_sweep(found: Sequence[Curves], name: str, measure: str) -> Figure:
    """Draw a measure after the last round against a parameter, a panel per rest of the world.

    A line that does not have the parameter is drawn across: it is what the others compare with.
    """
    panels = _panels(found, name)
    lines = [line for panel in panels.values() for line in panel]
    looks = looks_of([[points[0] for points in lines]], _line_namer(found, name))
    label = _line_namer(found, name)
    figure, grid = sheet(len(panels), height=2.0)
    ends = [float(each.final(measure).mean()) for line in lines for each in line]
    logarithmic = min(ends) > 0.0 and max(ends) / min(ends) > ORDER_OF_MAGNITUDE
    ticks = sorted({each.params[name] for line in lines for each in line if name in each.params})
    for axes, (title, panel) in zip(grid, panels.items(), strict=True):
        axes.set_yscale("log" if logarithmic else "linear")
        _number_axis(axes, ticks)
        for place, line in enumerate(panel):
            aside = place - (len(panel) - 1) / 2
            _sweep_line(axes, line, name, measure, looks[label(line[0])], aside=aside)
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel(name)
        axes.grid(visible=True)
        _measure_axis(axes)
    low = min(axes.get_ylim()[0] for axes in grid)
    high = max(axes.get_ylim()[1] for axes in grid)
    for axes in grid:  # small multiples compare across panels
        axes.set_ylim(low if logarithmic else 0.0, high)
    for axes in leftmost(grid):
        axes.set_ylabel(f"{AXES[measure]}{', log scale' if logarithmic else ''}")
    add_legend(figure, handles(looks))
    return figure


def compose_trade(found: Sequence[Curves]) -> Figure:
    """Draw bytes against regret after the last round, a panel per setting, a line per recipe."""
    settings: dict[str, dict[str, list[Curves]]] = {}
    for each in found:
        if each.final("bytes").any():
            settings.setdefault(each.setting, {}).setdefault(each.family, []).append(each)
    titles = sorted(settings, key=natural)
    first = [points[0] for panel in settings.values() for points in panel.values()]
    looks = looks_of([first], _family)
    figure, grid = sheet(len(titles), height=2.1)
    for axes, title in zip(grid, titles, strict=True):
        for family, points in settings[title].items():
            _trade_line(axes, points, looks[family], swept=_own_sweep(found, family))
        axes.set_xscale("log")
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("bytes sent, log scale")
        axes.margins(0.15)
        axes.set_ylim(bottom=0.0)
        axes.grid(visible=True)
        axes.xaxis.set_major_formatter(FuncFormatter(spelt))
        axes.xaxis.set_minor_formatter(NullFormatter())
        _measure_axis(axes)
    for axes in leftmost(grid):
        axes.set_ylabel("regret")
    add_legend(figure, handles(looks))
    return figure


def _family(each: Curves) -> str:
    return each.family


def _trade_line(axes: Axes, points: Sequence[Curves], look: Look, *, swept: Sequence[str]) -> None:
    """Draw the points of one recipe, in the order of bytes; a single sweep is written beside."""
    ordered = sorted(points, key=lambda each: float(each.final("bytes").mean()))
    x = [float(each.final("bytes").mean()) for each in ordered]
    regrets = [estimate(each.final("regret")) for each in ordered]
    y = [each.mean for each in regrets]
    axes.errorbar(x, y, yerr=_reach(regrets), elinewidth=0.7, capsize=1.5, **style(look))
    if len(swept) == 1 and len(ordered) > 1:
        for each, across, up in zip(ordered, x, y, strict=True):
            axes.annotate(
                f"{each.params.get(swept[0], '')}",
                (across, up),
                xytext=(3.0, 2.5),
                textcoords="offset points",
                fontsize=6.0,
                color=look.colour,
            )


def _sweep_line(
    axes: Axes, line: Sequence[Curves], name: str, measure: str, look: Look, *, aside: float
) -> None:
    """Draw a line, its points ``aside`` by some hundredths, so that intervals stay apart."""
    if name not in line[0].params:
        reached = estimate(line[0].final(measure))
        axes.axhline(reached.mean, **{**style(look), "marker": "", "zorder": 1})
        return
    ordered = sorted(line, key=lambda each: float(each.params[name]))
    played = [float(each.params[name]) for each in ordered]
    reach = played[-1] - played[0]
    log = axes.get_xscale() == "log"
    x = [at * 1.03**aside if log else at + 0.012 * reach * aside for at in played]
    y = [estimate(each.final(measure)) for each in ordered]
    axes.errorbar(
        x, [each.mean for each in y], yerr=_reach(y), elinewidth=0.7, capsize=1.5, **style(look)
    )


def _reach(reached: Iterable[Estimate]) -> list[float]:
    """Return half an interval for each; 0 for one trial, and never down to 0 or below."""
    return [0.0 if isnan(each.ci95) else min(each.ci95, 0.9 * abs(each.mean)) for each in reached]


def _number_axis(axes: Axes, ticks: Sequence[float]) -> None:
    """Mark the values that were played; on a log axis if they grow by factors."""
    if len(ticks) > 2 and ticks[0] > 0 and ticks[-1] / ticks[0] >= ORDER_OF_MAGNITUDE / 3:
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(spelt))


def _measure_axis(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(spelt))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _panels(found: Sequence[Curves], name: str) -> dict[str, list[list[Curves]]]:
    """Return by title the lines of each panel: runs whose worlds differ in ``name`` at most."""
    by_world = _swept_by_world(found)
    panels: dict[str, dict[tuple[object, ...], list[Curves]]] = {}
    for each in found:
        others = [key for key in by_world[each.world] if key != name]
        title = ", ".join([each.world, *(f"{key}={each.params.get(key)}" for key in others)])
        mine = tuple(each.params.get(key) for key in _own_sweep(found, each.family) if key != name)
        radius = each.radius if not each.radius.startswith("tuned") else "tuned"
        panels.setdefault(title, {}).setdefault((each.family, mine, radius), []).append(each)
    ordered = sorted(panels, key=natural)
    return {title: list(panels[title].values()) for title in ordered}


def _line_namer(found: Sequence[Curves], name: str) -> Callable[[Curves], str]:
    """Return names of lines: the recipe, and what it sweeps besides ``name``."""

    def called(each: Curves) -> str:
        others = [key for key in _own_sweep(found, each.family) if key != name]
        return ", ".join([each.family, *(f"{key}={each.params.get(key)}" for key in others)])

    return called


def _own_sweep(found: Sequence[Curves], family: str) -> list[str]:
    return list(_swept_by_recipe(found).get(family, {}))


def _swept_by_recipe(found: Sequence[Curves]) -> dict[str, dict[str, set[Any]]]:
    """Return by recipe the parameters that differ within a setting, with their values."""
    groups: dict[tuple[str, str], list[Curves]] = {}
    for each in found:
        groups.setdefault((each.family, each.setting), []).append(each)
    merged: dict[str, dict[str, set[Any]]] = {}
    for (family, _), members in groups.items():
        for name, values in _differing(members).items():
            merged.setdefault(family, {}).setdefault(name, set()).update(values)
    return merged


def _swept_by_world(found: Sequence[Curves]) -> dict[str, dict[str, set[Any]]]:
    """Return by world the parameters that differ from setting to setting, with their values."""
    worlds: dict[str, dict[str, Curves]] = {}
    for each in found:
        worlds.setdefault(each.world, {}).setdefault(each.setting, each)
    recipe_only = {name for values in _swept_by_recipe(found).values() for name in values}
    return {
        world: {
            name: values
            for name, values in _differing(list(settings.values())).items()
            if name not in recipe_only and not name.startswith("radius")
        }
        for world, settings in worlds.items()
    }


def _differing(members: Sequence[Curves]) -> Mapping[str, set[Any]]:
    names = {name: None for each in members for name in each.params if name not in NOT_SWEPT}
    values = {name: {_plain(each.params.get(name)) for each in members} for name in names}
    if any(each.radius.startswith("tuned") for each in members):
        values.pop("radius_value", None)  # picked, not swept
    return {name: seen for name, seen in values.items() if len(seen) > 1}


def _plain(value: object) -> object:
    return value if isinstance(value, int | float | str | None) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
