"""``fedbandit reproduce``: repeat the paper's experiments."""

from argparse import Namespace

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_jobs, add_out, add_trials


def _define(add: Add) -> None:
    add_out(add, holds="figures, tables, report and runs")
    add_trials(add, quick="about a minute on two CPUs")
    add(
        "--all",
        action="store_true",
        dest="every_recipe",
        help="run all recipes, not the paper's alone",
    )
    add_jobs(add)


def _execute(arguments: Namespace) -> None:
    from fedbandit.lab import reproduce

    reproduce(
        out=arguments.out,
        trials=arguments.trials,
        rounds=arguments.rounds,
        quick=arguments.quick,
        every_recipe=arguments.every_recipe,
        jobs=arguments.jobs,
    )


REPRODUCE = Command(
    name="reproduce",
    summary="Repeat the paper's experiments and report which of its claims hold.",
    example="fedbandit reproduce --quick --out demo\nfedbandit reproduce --trials 20 --out results",
    define=_define,
    execute=_execute,
    resumes=lambda _: True,
)
