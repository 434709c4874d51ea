"""``fedbandit beyond``: our settings of FSCLB against the paper's own."""

from argparse import Action, ArgumentParser, Namespace

from fedbandit.cli.command import Command
from fedbandit.cli.options import add_jobs, add_out, add_trials


def _define(parser: ArgumentParser) -> list[Action]:
    return [
        add_out(parser, holds="tables, figures and runs"),
        *add_trials(parser, quick="a minute or two"),
        add_jobs(parser),
    ]


def _execute(arguments: Namespace) -> None:
    from fedbandit.lab.beyond.beyond import beyond

    beyond(
        out=arguments.out,
        trials=arguments.trials,
        rounds=arguments.rounds,
        quick=arguments.quick,
        jobs=arguments.jobs,
    )


BEYOND = Command(
    name="beyond",
    summary="Compare FSCLB.lean with the paper's FSCLB and FedLinUCB: bytes, regret, time.",
    example="fedbandit beyond --quick --out beyond\nfedbandit beyond --out beyond",
    define=_define,
    execute=_execute,
    resumes=lambda _: True,
)
