"""An experiment from spec to summary."""

from pathlib import Path

from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.analysis.summary import Row, summarise, write_csv
from fedbandit.lab.runs.progress import Progress
from fedbandit.lab.runs.runner import Results, run
from fedbandit.lab.runs.spec import Spec
from fedbandit.lab.runs.spec_file import read_spec


def run_spec(
    spec: Spec | str | Path,
    *,
    out: str | Path,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Results:
    """Run an experiment, given as a value or as a TOML file, and write ``OUT/summary.csv``.

    The whole spec is judged before anything runs; how runs are made and kept says
    :func:`fedbandit.lab.runs.runner.run`.
    """
    experiment = spec if isinstance(spec, Spec) else read_spec(Path(spec))
    results = run(experiment.tasks(), out=out, jobs=jobs, progress=progress)
    write_csv(summary_rows(results), results.directory / "summary.csv")
    return results


def summary_rows(results: Results) -> list[Row]:
    """Return what every algorithm reached in every setting, in the order of the tasks."""
    labels = [(task.setting, task.algorithm) for task in results.tasks]
    order = {label: position for position, label in enumerate(dict.fromkeys(labels))}
    rows = summarise(curves(results.table))
    return sorted(rows, key=lambda row: order[row.setting, row.algorithm])
