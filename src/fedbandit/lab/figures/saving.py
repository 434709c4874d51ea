"""One style for every figure, and files that do not change unless the figure does.

Figures have the size at which they are printed: a column is 3.4 inches wide, a page 7 inches.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
from joblib import delayed
from matplotlib.figure import Figure

from fedbandit.core.checks import one_of
from fedbandit.lab.runs.output import writable_directory, writing
from fedbandit.lab.runs.workers import interrupts_held, pool

FORMATS = ("png", "svg", "pdf")

UNDATED: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}


def save(
    figures: Mapping[str, Callable[[], Figure]],
    out: Path,
    formats: Sequence[str] = FORMATS,
    *,
    jobs: int = 1,
) -> list[Path]:
    """Write figures, by their names, into ``out``; each is composed in our style.

    ``jobs``: in how many processes. A figure takes half a second, most of it for its fonts.
    """
    for kind in formats:
        one_of("formats", kind, FORMATS)
    writable_directory(out)
    calls = [(composed, out / name, formats) for name, composed in figures.items()]
    if jobs == 1 or len(calls) < 2:
        return [path for call in calls for path in _draw(*call)]
    with interrupts_held():
        drawn = pool(jobs)(delayed(_draw)(*call) for call in calls)
    return [path for paths in drawn for path in paths]


def _style() -> AbstractContextManager[None]:
    """Set the style of figures drawn in this block; fixed ids make equal figures equal files."""
    return matplotlib.rc_context(
        {
            "font.family": "DejaVu Sans",
            "font.size": 8.0,
            "axes.titlesize": 8.0,
            "axes.labelsize": 8.0,
            "axes.linewidth": 0.6,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "lines.markersize": 4.0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": "#555555",
            "axes.axisbelow": True,
            "grid.color": "#E3E3E3",
            "grid.linewidth": 0.5,
            "xtick.color": "#333333",
            "ytick.color": "#333333",
            "svg.hashsalt": "fedbandit",
            "svg.fonttype": "path",
            "pdf.fonttype": 42,  # TrueType: checkers of publishers refuse Type 3
            "ps.fonttype": 42,
            "savefig.dpi": 300.0,
            "savefig.facecolor": "white",
        }
    )


def _draw(composed: Callable[[], Figure], stem: Path, formats: Sequence[str]) -> list[Path]:
    with _style():
        figure = composed()
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once, for all formats alike
        paths = [stem.with_name(f"{stem.name}.{kind}") for kind in formats]
        for path, kind in zip(paths, formats, strict=True):
            with writing(path):
                figure.savefig(path, format=kind, metadata=UNDATED.get(kind, {}))
    return paths


def spelt(value: float, _position: int | None = None) -> str:
    """12,000; on a log axis a million and more as 10 M; small numbers without trailing zeros."""
    if abs(value) >= 1e6:
        return in_millions(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def in_millions(value: float, _position: int | None = None) -> str:
    """Write 12.5 M."""
    return f"{value / 1e6:,.4g} M" if value else "0"
