"""Run an experiment and sum it up."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.analysis.summary import Row, summarise, write_csv
from fedbandit.lab.analysis.tuning import choose_radius, tuning_seeds
from fedbandit.lab.runs.engines import Backend
from fedbandit.lab.runs.progress import Progress
from fedbandit.lab.runs.runner import Results, run_tasks
from fedbandit.lab.runs.task import Task
from fedbandit.lab.specs.file import read_spec
from fedbandit.lab.specs.spec import Spec


def run(
    experiment: Spec | str | Path | Sequence[Task],
    *,
    out: str | Path,
    jobs: int | None = None,
    progress: Progress | None = None,
    backend: Backend = "loky",
    address: str | None = None,
) -> Results:
    """Run an experiment: a Spec, the path of a TOML spec, or tasks.

    The whole of it is checked before anything runs. Every run is kept in ``OUT/runs`` as
    :func:`fedbandit.lab.runs.runner.run_tasks` says; a spec's results are also summed up in
    ``OUT/summary.csv``. ``backend`` ("loky", "dask", "ray") and ``address`` say what makes them.
    """
    if isinstance(experiment, str | Path):
        experiment = read_spec(Path(experiment))
    made = partial(run_tasks, jobs=jobs, progress=progress, backend=backend, address=address)
    if not isinstance(experiment, Spec):
        return made(experiment, out=out)
    results = made(experiment.tasks(_tuned(experiment, Path(out), made)), out=out)
    write_csv(summary_rows(results), results.directory / "summary.csv")
    return results


def _tuned(spec: Spec, out: Path, made: Callable[..., Results]) -> dict[tuple[str, str], float]:
    """Pick the radii of recipes with radius = "tuned"; their runs are kept in ``OUT/tuning``."""
    if not spec.tuned:
        return {}
    grid = spec.tuning.grid
    tasks = spec.tuning_tasks(tuning_seeds(spec.tuning.trials), grid)
    found = curves(made(tasks, out=out / "tuning").table)
    return {
        (setting, algorithm): choose_radius(
            found, setting=setting, algorithm=algorithm, grid=grid
        ).radius
        for setting, algorithm in {(task.setting, task.algorithm): None for task in tasks}
    }


run_spec = run
"""The earlier name of :func:`run`, for a spec."""


def summary_rows(results: Results) -> list[Row]:
    """Return what every algorithm reached in every setting, in the order of the tasks."""
    labels = [(task.setting, task.algorithm) for task in results.tasks]
    order = {label: position for position, label in enumerate(dict.fromkeys(labels))}
    rows = summarise(curves(results.table))
    return sorted(rows, key=lambda row: order[row.setting, row.algorithm])
