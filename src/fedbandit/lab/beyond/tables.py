"""Cells of tables, as text."""

import math
from collections.abc import Sequence

import numpy as np

from fedbandit.lab.analysis.curves import Curves, pick
from fedbandit.lab.analysis.statistics import Estimate, estimate
from fedbandit.lab.analysis.text import UNKNOWN


def regret_at(line: Curves, t: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the regret of every trial after the last checkpoint that is no later than t."""
    place = int(np.searchsorted(line.checkpoints, t, side="right")) - 1
    return np.asarray(line.values["regret"][:, max(place, 0)])


def line_of(found: Sequence[Curves], setting: str, name: str) -> Curves:
    """Return the runs of an algorithm at a setting, which must have been made."""
    line = pick(found, setting=setting, algorithm=name)
    if line is None:
        raise KeyError(f"{name} was not run at {setting}")
    return line


def mean_regret(line: Curves) -> str:
    """Write the regret at the end."""
    return f"{estimate(line.final('regret')).mean:,.1f}"


def megabytes(line: Curves) -> str:
    """Write the bytes sent until the end."""
    return f"{line.final('bytes').mean() / 1e6:.2f} MB"


def in_percent(value: Estimate) -> str:
    """Write a share with half its interval."""
    return f"{100 * value.mean:.2f} %{_spread(100 * value.ci95)}"


def with_spread(value: Estimate) -> str:
    """Write a ratio with half its interval; a dash for a ratio to 0."""
    if math.isnan(value.mean):
        return UNKNOWN
    return f"{value.mean:.2f}{_spread(value.ci95)}"


def _spread(half: float) -> str:
    return "" if math.isnan(half) else f" ± {half:.2f}"
