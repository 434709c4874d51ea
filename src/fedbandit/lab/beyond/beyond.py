"""Beyond the paper from one call: our settings of FSCLB against the paper's own and FedLinUCB."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fedbandit.lab.analysis.curves import Curves, curves
from fedbandit.lab.beyond.hard import hard_tasks
from fedbandit.lab.beyond.hard_report import hard_text
from fedbandit.lab.beyond.heavy_tail import heavy_tasks
from fedbandit.lab.beyond.pages import write_beyond, write_hard
from fedbandit.lab.beyond.report import (
    AIMS,
    aims,
    heavy_tail_table,
    steps_table,
    targets_table,
    words,
)
from fedbandit.lab.beyond.variants import VARIANTS
from fedbandit.lab.figures.frontier import draw_frontier
from fedbandit.lab.runs.output import writing
from fedbandit.lab.study.study import Study, run_aloud, run_study, size_of


@dataclass(frozen=True)
class Beyond:
    """Where everything was written, and how many runs had to be made for it."""

    table: Path
    page: Path
    figures: tuple[Path, ...]
    computed: int


@dataclass(frozen=True)
class Hard:
    """Where the table of the hard worlds was written, and how many runs were made for it."""

    table: Path
    page: Path
    computed: int


def beyond(
    *,
    out: str | Path,
    trials: int | None = None,
    rounds: int | None = None,
    quick: bool = False,
    jobs: int | None = None,
    console: Console | None = None,
) -> Beyond:
    """Compare at the paper's settings and in a heavy-tailed world; write ``beyond.md``, ``.html``.

    The size is that of :func:`fedbandit.lab.reproduce`; the heavy tail gets five times the rounds
    and half the trials. Finished runs are not made again.
    """
    study, out = Study(VARIANTS, size_of(trials=trials, rounds=rounds, quick=quick)), Path(out)
    done = run_study(study, out=out, jobs=jobs)
    heavy = run_aloud("heavy tail", heavy_tasks(study.size), out=out / "heavy-tail", jobs=jobs)
    tail = curves(heavy.table)
    path = out / "beyond.md"
    with writing(path):
        path.write_text(_text(study, done.found, tail), encoding="utf-8")
    page = write_beyond(study, done.found, tail, out / "beyond.html")
    names = [setting.name for setting in study.settings]
    figures = draw_frontier(done.found, names, out / "figures")
    console = console or Console()
    _show(study, done.found, console)
    for written in (path, page):
        console.print(str(written), soft_wrap=True, highlight=False)
    return Beyond(path, page, tuple(figures), done.computed + heavy.computed)


def beyond_hard(
    *,
    out: str | Path,
    trials: int | None = None,
    rounds: int | None = None,
    quick: bool = False,
    jobs: int | None = None,
    console: Console | None = None,
) -> Hard:
    """Compare in the hard worlds, with default parameters; write ``hard.md`` and ``hard.html``.

    Sizes are those of :func:`beyond`. Finished runs, in ``OUT/hard/runs``, are not made again.
    """
    size, out = size_of(trials=trials, rounds=rounds, quick=quick), Path(out)
    done = run_aloud("hard worlds", hard_tasks(size), out=out / "hard", jobs=jobs)
    path, found = out / "hard.md", curves(done.table)
    with writing(path):
        path.write_text(hard_text(found, size), encoding="utf-8")
    page = write_hard(found, size, out / "hard.html")
    console = console or Console()
    for written in (path, page):
        console.print(str(written), soft_wrap=True, highlight=False)
    return Hard(path, page, done.computed)


def _show(study: Study, found: Sequence[Curves], on: Console) -> None:
    """Print what was aimed at and what was reached."""
    for number, aim in enumerate(AIMS):
        on.print(aim, style="bold")
        for setting in study.settings:
            on.print(f"  {setting.name:16}  {aims(found, setting)[number]}", highlight=False)


def _text(study: Study, found: Sequence[Curves], tail: Sequence[Curves]) -> str:
    parts = (
        words(study.size.trials, study.size.rounds),
        targets_table(found, study.settings).markdown,
        steps_table(found, study.settings, [each.name for each in study.algorithms]).markdown,
        heavy_tail_table(tail).markdown,
    )
    return "\n\n".join(parts) + "\n"
