"""``fedbandit beyond``: compare FSCLB.lean with the paper's FSCLB and FedLinUCB."""

from argparse import Namespace

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_jobs, add_out, add_trials
from fedbandit.cli.reporting import add_json, print_json


def _define(add: Add) -> None:
    add_out(add, holds="tables, figures and runs")
    add_trials(add, quick="a minute or two")
    told = "play the worlds that change, have a mean, are clicked, rated or hashed; write hard.md"
    add("--hard", action="store_true", help=told)
    add_jobs(add)
    add_json(add)


def _execute(arguments: Namespace) -> None:
    from dataclasses import asdict

    from rich.console import Console

    from fedbandit.lab.beyond.beyond import beyond, beyond_hard

    compare = beyond_hard if arguments.hard else beyond
    done = compare(
        out=arguments.out,
        trials=arguments.trials,
        rounds=arguments.rounds,
        quick=arguments.quick,
        jobs=arguments.jobs,
        console=Console(quiet=arguments.json),
    )
    if arguments.json:
        print_json(asdict(done))


BEYOND = Command(
    name="beyond",
    summary="Compare FSCLB.lean with the paper's FSCLB and FedLinUCB: bytes, regret, time.",
    example="fedbandit beyond --quick --out beyond\nfedbandit beyond --out beyond\n"
    "fedbandit beyond --hard --out beyond",
    define=_define,
    execute=_execute,
    resumes=lambda _: True,
)
