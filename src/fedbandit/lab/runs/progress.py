"""Progress of the runs: bars on a terminal, a few lines elsewhere."""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Display

_RATE_WINDOW = 600.0  # seconds of history behind the time left: runs may take minutes each


class Progress(Protocol):
    """Shows how far the runs are. Amounts are rounds, counted per algorithm."""

    def begin(self, *, total: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Start: rounds per algorithm in total, and those that are stored already."""
        ...

    def advance(self, algorithm: str, rounds: int) -> None:
        """Count a run of that algorithm and length, finished and stored."""
        ...

    def end(self) -> None:
        """Stop: everything is finished, or the run was interrupted."""
        ...


def progress_on(stream: TextIO) -> Progress:
    """Return bars if that stream is a terminal, else lines."""
    return Bars(stream) if stream.isatty() else Lines(stream)


class Lines:
    """A line for every tenth of the rounds: enough for a log file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 0
        self._done = 0

    def begin(self, *, total: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Set the total and what is done already."""
        self._total, self._done = sum(total.values()), sum(done.values())

    def advance(self, algorithm: str, rounds: int) -> None:
        """Write a line if this run completed a tenth of all rounds."""
        del algorithm
        before = 10 * self._done // self._total
        self._done += rounds
        tenths = 10 * self._done // self._total
        if tenths > before:
            print(f"{10 * tenths} % of {self._total:,} rounds", file=self._stream, flush=True)

    def end(self) -> None:
        """Leave the lines as they are."""


class Bars:
    """A live bar per algorithm and one for everything, with rounds per second and time left."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._display = Display(console=self._console, speed_estimate_period=_RATE_WINDOW)
        self._rows: dict[str | None, TaskID] = {}  # None: all algorithms together
        self._made: Counter[str | None] = Counter()
        self._began = 0.0

    def begin(self, *, total: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Draw the bars."""
        self._display.columns = _columns(self._console.width - max(map(len, [*total, "all"])))
        for name, rounds in total.items():
            self._add(name, name, rounds, done[name])
        self._add(None, "all", sum(total.values()), sum(done.values()))
        self._began = time.monotonic()
        self._display.start()

    def advance(self, algorithm: str, rounds: int) -> None:
        """Lengthen the algorithm's bar and the last one."""
        for name in (algorithm, None):
            self._made[name] += rounds
            rate = self._made[name] / max(time.monotonic() - self._began, 1e-9)
            self._display.update(self._rows[name], advance=rounds, rate=f"{rate:,.0f} rounds/s")

    def end(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        self._display.stop()

    def _add(self, name: str | None, shown: str, total: int, done: int) -> None:
        self._rows[name] = self._display.add_task(shown, total=total, completed=done, rate="")


def _columns(room: int) -> tuple[ProgressColumn, ...]:
    """Return the columns that fit beside the names, the most useful first, none cut off."""
    bar = BarColumn(bar_width=min(40, max(room - 51, 10)))
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.percentage:>3.0f} %"),
    ]
    if room >= 20:
        columns += [TextColumn("left"), TimeRemainingColumn()]
    if room >= 31:
        columns.insert(1, bar)
    if room >= 61:
        columns.insert(3, TextColumn("{task.fields[rate]:>16}", style="cyan"))
        columns.insert(4, TimeElapsedColumn())
    return tuple(columns)
