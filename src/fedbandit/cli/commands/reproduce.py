"""``fedbandit reproduce``: repeat the paper's experiments."""

from argparse import Namespace

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_jobs, add_out, add_trials
from fedbandit.cli.reporting import add_json, print_json


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
    add_json(add)


def _execute(arguments: Namespace) -> None:
    from rich.console import Console

    from fedbandit.lab import reproduce
    from fedbandit.lab.paper.claims import claims

    done = reproduce(
        out=arguments.out,
        trials=arguments.trials,
        rounds=arguments.rounds,
        quick=arguments.quick,
        every_recipe=arguments.every_recipe,
        jobs=arguments.jobs,
        console=Console(quiet=arguments.json),
    )
    if arguments.json:
        print_json(
            {
                "results": done.rows,
                "gains": done.gains,
                "claims": claims(done.tuned),
                "summary": done.summary,
                "figures": done.figures,
                "report": done.report,
            }
        )


REPRODUCE = Command(
    name="reproduce",
    summary="Repeat the paper's experiments and report which of its claims hold.",
    example="fedbandit reproduce --quick --out demo\nfedbandit reproduce --trials 20 --out results",
    define=_define,
    execute=_execute,
    resumes=lambda _: True,
)
