"""Charts for a page: what the figures show, as plotly reads it, to hover, toggle and zoom."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedbandit.lab.analysis.curves import Curves
from fedbandit.lab.analysis.statistics import Band, band, estimate, log_band
from fedbandit.lab.figures.looks import Look, looks_of, namer
from fedbandit.lab.figures.panels import Panel, Quantity, far_apart

INK, FAINT = "#1d2329", "#e3e3e3"
SEVERAL_POWERS = 300.0  # a log axis over more than this has labels at powers of ten alone
SHOWN = "%{y:,.4g} [%{customdata[0]:,.4g}, %{customdata[1]:,.4g}]"

Trace = dict[str, Any]


@dataclass(frozen=True)
class Points:
    """Points of one recipe: what each is called, bytes, regret, half an interval of the regret."""

    name: str
    colour: str
    points: Sequence[tuple[str, float, float, float]]


@dataclass(frozen=True)
class Chart:
    """A chart as plotly takes it, with its title and what it shows in words."""

    title: str
    words: str
    data: tuple[Trace, ...]
    layout: Mapping[str, Any]

    @property
    def spec(self) -> str:
        """Data and layout as JSON that may stand inside a page's script element."""
        text = msgspec.json.encode({"data": self.data, "layout": self.layout}).decode()
        return text.replace("<", "\\u003c")


def curve_charts(panels: Sequence[Panel], quantity: Quantity) -> list[Chart]:
    """Return a chart for each panel: mean and 95 % band of every line, looking alike in all."""
    name, looks = _named([panel.lines for panel in panels])
    logarithmic = any(far_apart(panel, quantity.measure) for panel in panels)
    charts = []
    for panel in panels:
        traces = tuple(
            trace
            for each in panel.lines
            for trace in _curve(
                each, quantity.measure, name(each), looks[name(each)], logarithmic=logarithmic
            )
        )
        layout = _layout("round", quantity.axis, y=_log_axis(traces, "y") if logarithmic else {})
        charts.append(Chart(panel.title, f"{quantity.axis} by round", traces, layout))
    return charts


def difference_charts(
    panels: Sequence[Panel], *, reference: str, without: Sequence[str] = ()
) -> list[Chart]:
    """Return for each panel the regret of every line less that of ``reference``, trial by trial.

    What the lines of a trial share, an easy tape say, cancels: these bands tell lines apart where
    those of the curves overlap.
    """
    name, looks = _named([panel.lines for panel in panels])
    charts = []
    for panel in panels:
        base = next(each for each in panel.lines if each.algorithm == reference)
        traces = [
            trace
            for each in panel.lines
            if each.algorithm not in (reference, *without) and each.trials == base.trials
            for trace in _lines(
                each.checkpoints,
                band(each.values["regret"] - base.values["regret"]),
                name(each),
                looks[name(each)],
            )
        ]
        layout = _layout("round", f"regret less {reference}'s", y={"zerolinecolor": "#888888"})
        words = f"regret less that of {reference}, paired within trials, by round"
        charts.append(Chart(panel.title, words, tuple(traces), layout))
    return charts


def spectrum_chart(
    title: str,
    played: ArrayLike,
    *,
    sketched: ArrayLike | None = None,
    shed: float | None = None,
    sizes: Sequence[int] = (),
) -> Chart:
    """Return the eigenvalues of the arms played, those that a sketch of them holds, what it shed.

    ``sizes`` are marked: a sketch of size l keeps l - 1 directions.
    """
    values = np.asarray(played, dtype=np.float64)
    floor = 1e-9 * float(values.max(initial=0.0))
    data = [_dots("arms played", values, "#333333", floor)]
    if sketched is not None:
        data.append(_dots("in the sketch", sketched, "#D55E00", floor))
    shapes = [_rule(x=size - 0.5) for size in sizes]
    notes = []
    if shed is not None and shed > 0.0:
        shapes.append(_rule(y=shed, dash="dash"))
        notes = [_note(f"shed: {shed:,.4g}", shed)]
    layout = _layout("eigenvalue, largest first", "eigenvalue", y=_log_axis(data, "y"))
    words = "eigenvalues of the arms played, largest first"
    return Chart(title, words, tuple(data), {**layout, "shapes": shapes, "annotations": notes})


def trade_charts(panels: Sequence[Panel]) -> list[Chart]:
    """Return for each panel bytes against regret at the end; what sends nothing is left out.

    Variants of an algorithm, "FedLinUCB, int8" say, are one entry of the legend; a pointer tells
    them apart.
    """
    name, looks = _named([panel.lines for panel in panels])
    charts = []
    for panel in panels:
        groups: dict[str, Points] = {}
        for each in panel.lines:
            if each.final("bytes").any():
                whole = name(each)
                kin = whole.partition(",")[0]
                group = groups.setdefault(kin, Points(kin, looks[whole].colour, []))
                groups[kin] = replace(group, points=[*group.points, _end(whole, each)])
        clouds = tuple(_cloud(group, written=False) for group in groups.values())
        x = _log_axis(clouds, "x")
        layout = _layout("bytes in both directions, MB", "regret", x=x, unified=False)
        charts.append(Chart(panel.title, "bytes sent against regret", clouds, layout))
    return charts


def _end(name: str, each: Curves) -> tuple[str, float, float, float]:
    regret = estimate(each.final("regret"))
    half = regret.ci95 if np.isfinite(regret.ci95) else 0.0
    return name, float(each.final("bytes").mean()), regret.mean, half


def point_chart(title: str, groups: Sequence[Points], *, limit: float, note: str) -> Chart:
    """Return bytes against regret, each point with what it is called beside it.

    A dashed line marks the regret that is allowed; the legend has its ``note``.
    """
    clouds = [_cloud(group, written=True) for group in groups if group.points]
    x, y = (_log_axis(clouds, name) for name in "xy")
    sent = [each for cloud in clouds for each in cloud["x"]]
    allowed = {
        "x": [min(sent), max(sent)] if sent else [],
        "y": [limit, limit] if sent else [],
        "name": note,
        "mode": "lines",
        "line": {"color": "#777777", "width": 1, "dash": "dash"},
        "hoverinfo": "skip",
    }
    layout = _layout("bytes in both directions, MB", "regret", x=x, y=y, unified=False)
    return Chart(title, "bytes sent against regret", (*clouds, allowed), layout)


def _named(lines: Sequence[Sequence[Curves]]) -> tuple[Callable[[Curves], str], dict[str, Look]]:
    name = namer(lines)
    return name, looks_of(lines, name)


def _curve(
    each: Curves, measure: str, name: str, look: Look, *, logarithmic: bool
) -> Sequence[Trace]:
    """Return a mean with its band; a log axis shows nothing of what is still zero."""
    trials = each.values[measure]
    shown = trials.mean(axis=0) > 0.0 if logarithmic else np.ones(trials.shape[1], dtype=bool)
    if not shown.any():
        return ()
    spread = log_band(trials[:, shown]) if logarithmic else band(trials)
    return _lines(each.checkpoints[shown], spread, name, look)


def _lines(at: NDArray[np.int64], spread: Band, name: str, look: Look) -> Sequence[Trace]:
    low, high = _rounded(spread.low), _rounded(spread.high)
    x = at.tolist()
    area = {
        "x": [*x, *x[::-1]],
        "y": [*high, *low[::-1]],
        "fill": "toself",
        "fillcolor": _faded(look.colour),
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "legendgroup": name,
        "showlegend": False,
    }
    dash = "solid" if look.dashes == "-" else ",".join(f"{each * 1.5}px" for each in look.dashes[1])
    line = {
        "x": x,
        "y": _rounded(spread.mean),
        "customdata": list(zip(low, high, strict=True)),
        "name": name,
        "legendgroup": name,
        "mode": "lines",
        "line": {"color": look.colour, "width": look.width, "dash": dash},
        "hovertemplate": SHOWN,
    }
    return area, line


def _dots(name: str, values: ArrayLike, colour: str, floor: float) -> Trace:
    numbers = np.asarray(values, dtype=np.float64)
    index = np.flatnonzero(numbers > floor)
    return {
        "x": (index + 1).tolist(),
        "y": _rounded(numbers[index]),
        "name": name,
        "mode": "lines+markers",
        "line": {"color": colour, "width": 1.2},
        "marker": {"size": 5},
        "hovertemplate": "%{y:,.4g}",
    }


def _cloud(group: Points, *, written: bool) -> Trace:
    """Return points; what they are called is ``written`` above them, or told to a pointer."""
    names, x, y, half = zip(*group.points, strict=True)
    return {
        "x": _rounded([each / 1e6 for each in x]),
        "y": _rounded(y),
        "error_y": {"type": "data", "array": _rounded(half)},
        "text": names,
        "textposition": "top right",
        "cliponaxis": False,  # a number beside the topmost point is shown whole
        "textfont": {"color": group.colour, "size": 11},
        "name": group.name,
        "mode": "markers+text" if written else "markers",
        "marker": {"color": group.colour, "size": 9, "line": {"color": "white", "width": 1}},
        "hovertemplate": "%{text}: %{x:,.4g} MB, regret %{y:,.4g}",
    }


def _rule(*, x: float | None = None, y: float | None = None, dash: str = "dot") -> Trace:
    """Return a line across the whole chart at x or at y."""
    across = {"line": {"color": "#777777", "width": 1, "dash": dash}, "type": "line"}
    if y is None:
        return {**across, "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1}
    return {**across, "y0": y, "y1": y, "xref": "paper", "x0": 0, "x1": 1}


def _note(text: str, y: float) -> Trace:
    """Return words above a rule of a chart; plotly places them by the axis' own units."""
    place = {"xref": "paper", "x": 1, "xanchor": "right", "yanchor": "bottom", "showarrow": False}
    return {**place, "text": text, "y": y, "onY": True}


def _layout(
    across: str,
    up: str,
    *,
    x: Mapping[str, Any] | None = None,
    y: Mapping[str, Any] | None = None,
    unified: bool = True,
) -> dict[str, Any]:
    """Return what all charts share."""
    axis = {"gridcolor": FAINT, "linecolor": "#555555", "ticks": "outside", "automargin": True}
    number = {"exponentformat": "SI", "zerolinecolor": FAINT}
    return {
        "xaxis": {**axis, **number, "title": {"text": across, "standoff": 8}, **(x or {})},
        "yaxis": {**axis, **number, "title": {"text": up, "standoff": 12}, **(y or {})},
        "hovermode": "x unified" if unified else "closest",
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.3, "yanchor": "top"},
        "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        "font": {"color": INK, "size": 12},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
    }


def _log_axis(traces: Sequence[Trace], name: str) -> dict[str, Any]:
    """Return a log axis with labels at 1, 2 and 5 of each power of ten; at powers if many."""
    values = [each for trace in traces for each in trace[name] if each > 0.0]
    many = bool(values) and max(values) > SEVERAL_POWERS * min(values)
    return {"type": "log", "dtick": 1 if many else "D2", "exponentformat": "power"}


def _rounded(values: ArrayLike) -> list[float]:
    """Six digits are more than a screen shows, and a third of the page."""
    return [float(f"{each:.6g}") for each in np.asarray(values, dtype=np.float64).tolist()]


def _faded(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"
