"""``fedbandit run``: run an experiment from a spec file."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_jobs, add_out
from fedbandit.cli.reporting import add_json, report
from fedbandit.cli.table import show_table

if TYPE_CHECKING:
    from fedbandit.lab.analysis.summary import Row
    from fedbandit.lab.runs.runner import Results
    from fedbandit.lab.specs.spec import Spec

EXAMPLE = """\
fedbandit run compare.toml --out results --jobs 4

where compare.toml says, for example:

  rounds = 2000
  trials = 5
  seed = 0

  [worlds.gaussian]
  kind = "synthetic"
  dimension = 20
  arms = 10
  agents = 5

  [recipes.FSCLB]
  kind = "FSCLB"
  sketch_size = 8
  radius = 0.3

  [recipes.FedLinUCB]
  kind = "FedLinUCB"
  radius = 0.3

Interrupt it at any time: the same command continues where it stopped."""


def _define(add: Add) -> None:
    add("spec", type=Path, metavar="SPEC.toml", help="worlds and recipes to compare")
    add_out(add, holds="runs and summary")
    add_jobs(add)
    told = "what makes the runs: processes here, or a cluster (default: loky)"
    add("--backend", choices=("loky", "dask", "ray"), default="loky", help=told)
    told = "of a running cluster (default: one is started here), such as tcp://127.0.0.1:8786"
    add("--address", metavar="URL", help=told)
    add_json(add)


def _execute(arguments: Namespace) -> None:
    from fedbandit.lab import progress_on, read_spec, run

    spec = read_spec(arguments.spec)
    for line in spec.readings():
        print(line, file=sys.stderr)
    results = run(
        spec,
        out=arguments.out,
        jobs=arguments.jobs,
        progress=progress_on(sys.stderr),
        backend=arguments.backend,
        address=arguments.address,
    )
    report(arguments, lambda: _found(spec, results), lambda: _show(spec, results))


def _found(spec: "Spec", results: "Results") -> dict[str, object]:
    from fedbandit.lab import summary_rows

    return {
        "name": spec.name,
        "results": summary_rows(results),
        "runs": len(results.tasks),
        "made_now": results.computed,
        "table": results.directory / "summary.csv",
    }


def _show(spec: "Spec", results: "Results") -> None:
    from fedbandit.lab import summary_rows
    from fedbandit.lab.analysis.curves import MEASURES

    title = f"{spec.name}: {spec.rounds:,} rounds, {spec.trials} trials, mean ± 95 % interval"
    header = ("setting", "algorithm", "radius", *MEASURES)
    show_table(title, header, [_cells(row) for row in summary_rows(results)])
    kept = len(results.tasks) - results.computed
    print(f"{len(results.tasks)} runs: {results.computed} made now, {kept} made earlier")
    print(f"table:   {results.directory / 'summary.csv'}")
    print(f"runs:    {results.directory / 'runs'} (Parquet)")
    if (results.directory / "earlier").exists():
        print(f"earlier: {results.directory / 'earlier'} (runs of earlier versions of the spec)")
    print(f"figures: fedbandit plot {results.directory}")


def _cells(row: "Row") -> list[str]:
    from fedbandit.lab.analysis.text import plus_minus

    return [row.setting, row.algorithm, row.radius, *map(plus_minus, row.estimates.values())]


RUN = Command(
    name="run",
    summary="Run an experiment: every recipe of a spec file on every one of its worlds.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    resumes=lambda _: True,
)
