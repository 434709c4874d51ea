"""Experiments: worlds x recipes x trials, run in parallel and resumable.

``run`` runs an experiment, ``reproduce`` the paper's, ``advise`` recommends a sketch size.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from fedbandit.lab import Part, Spec, run
>>> spec = Spec(
...     name="tiny",
...     rounds=20,
...     trials=2,
...     worlds={"easy": Part("synthetic", {"dimension": 3, "arms": 2, "agents": 2})},
...     recipes={"sketch": Part("FSCLB", {"sketch_size": 2}), "floor": Part("Random")},
... )
>>> with TemporaryDirectory() as out:
...     run(spec, out=Path(out), jobs=1).table.num_rows
80
"""

from typing import TYPE_CHECKING

from fedbandit.errors import missing_extra

if TYPE_CHECKING:
    from fedbandit.lab.paper.reproduce import reproduce

try:
    from fedbandit.lab.advice.advice import advise
    from fedbandit.lab.experiment import run, run_spec, summary_rows
    from fedbandit.lab.runs.columns import SCHEMA
    from fedbandit.lab.runs.progress import Progress, progress_on
    from fedbandit.lab.runs.records import read_runs
    from fedbandit.lab.runs.runner import Results
    from fedbandit.lab.runs.task import Task
    from fedbandit.lab.specs.file import parse_spec, read_spec
    from fedbandit.lab.specs.spec import Part, Spec
except ModuleNotFoundError as missing:
    if str(missing.name).partition(".")[0] == "fedbandit":
        raise
    raise missing_extra(str(missing.name), "lab", "fedbandit.lab") from missing

__all__ = [
    "SCHEMA",
    "Part",
    "Progress",
    "Results",
    "Spec",
    "Task",
    "advise",
    "parse_spec",
    "progress_on",
    "read_runs",
    "read_spec",
    "reproduce",
    "run",
    "run_spec",
    "summary_rows",
]


def __getattr__(name: str) -> object:
    """Import ``reproduce`` when it is asked for: it brings matplotlib, which takes a second."""
    if name == "reproduce":
        from fedbandit.lab.paper.reproduce import reproduce

        return reproduce
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
