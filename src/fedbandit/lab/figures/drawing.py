"""Every figure of a table of runs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from fedbandit.errors import InvalidParameter
from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.figures.differences import difference_figure
from fedbandit.lab.figures.panels import QUANTITIES, compose, panels_by_setting
from fedbandit.lab.figures.saving import FORMATS, save
from fedbandit.lab.figures.sweeps import sweep_figures


def draw_runs(runs: pa.Table, out: Path, *, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Draw regret, time and communication of any table of runs, one panel per setting.

    Files are named regret, time, communication and bytes in ``out``. Lines that differ in radius
    alone say so in the legend; a setting that was run for several numbers of rounds gets a panel
    each. Where bands overlap, ``difference`` shows regrets less the best one's, trial by trial.
    Sweeps have figures of their own (``sweeps``).
    """
    found = curves(runs)
    if not found:
        raise InvalidParameter(
            "draw_runs: the table has no runs. Give the table of an experiment that has run."
        )
    panels = panels_by_setting(found)
    figures = {quantity.file: partial(compose, panels, quantity) for quantity in QUANTITIES}
    return save({**figures, **difference_figure(panels), **sweep_figures(found)}, out, formats)
