"""``fedbandit plot``: figures of stored runs."""

from argparse import Action, ArgumentParser, Namespace
from pathlib import Path

from fedbandit.cli.command import Command
from fedbandit.cli.options import words_of
from fedbandit.errors import DataError, complaint

FORMATS = ("png", "svg", "pdf")


def _define(parser: ArgumentParser) -> list[Action]:
    return [
        parser.add_argument(
            "directory", type=Path, metavar="DIR", help="the --out of an earlier run"
        ),
        parser.add_argument(
            "--out",
            type=Path,
            metavar="DIR",
            help="directory for the figures (default: DIR/figures)",
        ),
        parser.add_argument(
            "--format",
            type=words_of(FORMATS),
            default=FORMATS,
            metavar="LIST",
            help=f"some of {','.join(FORMATS)} (default: all)",
        ),
    ]


def _execute(arguments: Namespace) -> None:
    from fedbandit.lab.figures import draw_runs
    from fedbandit.lab.store import read_runs, writable_directory

    runs = read_runs(arguments.directory)
    if not runs.num_rows:
        raise DataError(
            complaint(
                "plot",
                got=f"no finished runs in {str(arguments.directory / 'runs')!r}",
                expected="the --out directory of an earlier run",
                fix="Run an experiment first: fedbandit run SPEC.toml --out DIR.",
            )
        )
    out = writable_directory(arguments.out or arguments.directory / "figures")
    for path in draw_runs(runs, out, formats=arguments.format):
        print(path)


PLOT = Command(
    name="plot",
    summary="Draw regret, time and communication of stored runs, with bands over trials.",
    example="fedbandit plot results --format png,svg",
    define=_define,
    execute=_execute,
)
