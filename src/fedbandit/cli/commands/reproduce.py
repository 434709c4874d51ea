"""``fedbandit reproduce``: the paper's experiments."""

from argparse import Action, ArgumentParser, Namespace

from fedbandit.cli.command import Command
from fedbandit.cli.options import add_jobs, add_out, add_trials


def _define(parser: ArgumentParser) -> list[Action]:
    return [
        add_out(parser, holds="figures, tables, report and runs"),
        *add_trials(parser, quick="about a minute on two CPUs"),
        parser.add_argument(
            "--all", action="store_true", dest="every_recipe", help="run every recipe there is"
        ),
        add_jobs(parser),
    ]


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
    summary="Repeat the paper's experiments and report what holds.",
    example="fedbandit reproduce --quick --out demo\nfedbandit reproduce --trials 20 --out results",
    define=_define,
    execute=_execute,
    resumes=lambda _: True,
)
