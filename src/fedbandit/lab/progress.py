"""What a person sees while runs are made: bars on a terminal, a few lines elsewhere."""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Display

_EVERYTHING = "all"
_RATE_WINDOW = 600.0  # seconds over which the time left is judged: runs may take minutes each


class Progress(Protocol):
    """Is told how far the runs are. Amounts are rounds, counted per algorithm."""

    def begin(self, *, total: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Start: rounds per algorithm in all, and those that were stored already."""
        ...

    def advance(self, algorithm: str, rounds: int) -> None:
        """Count a run of that algorithm and length, finished and stored."""
        ...

    def end(self) -> None:
        """Stop: everything is finished, or the run was broken off."""
        ...


def progress_on(stream: TextIO) -> Progress:
    """Return bars if a person is watching that stream, else lines."""
    return Bars(stream) if stream.isatty() else Lines(stream)


class Lines:
    """One line when an algorithm's last run is finished: enough for a log file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._left: Counter[str] = Counter()

    def begin(self, *, total: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Remember what is left."""
        self._left = Counter({name: total[name] - done[name] for name in total})

    def advance(self, algorithm: str, rounds: int) -> None:
        """Write the algorithm's line if this was its last run."""
        self._left[algorithm] -= rounds
        if not self._left[algorithm]:
            print(f"{algorithm}: done", file=self._stream, flush=True)

    def end(self) -> None:
        """Leave the lines as they are."""


class Bars:
    """A live bar per algorithm and one for everything, with rounds per second and time left."""

    def __init__(self, stream: TextIO) -> None:
        self._display = Display(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[rate]:>16}", style="cyan"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(file=stream),
            speed_estimate_period=_RATE_WINDOW,
        )
        self._rows: dict[str, TaskID] = {}
        self._made: Counter[str] = Counter()
        self._began = 0.0

    def begin(self, *, total: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Draw the bars."""
        whole = {**total, _EVERYTHING: sum(total.values())}
        ready = {**done, _EVERYTHING: sum(done.values())}
        for name, rounds in whole.items():
            self._rows[name] = self._display.add_task(
                name, total=rounds, completed=ready[name], rate=""
            )
        self._began = time.monotonic()
        self._display.start()

    def advance(self, algorithm: str, rounds: int) -> None:
        """Lengthen the algorithm's bar and the last one."""
        for name in (algorithm, _EVERYTHING):
            self._made[name] += rounds
            rate = self._made[name] / max(time.monotonic() - self._began, 1e-9)
            self._display.update(self._rows[name], advance=rounds, rate=f"{rate:,.0f} rounds/s")

    def end(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        self._display.stop()
