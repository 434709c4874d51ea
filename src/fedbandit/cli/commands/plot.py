"""``fedbandit plot``: draw figures of stored runs."""

import sys
from argparse import Namespace

from fedbandit.cli.command import Add, Command
from fedbandit.cli.reporting import add_json, report
from fedbandit.cli.values import directory, words
from fedbandit.errors import DataError


def _define(add: Add) -> None:
    add("directory", type=directory, metavar="DIR", help="the --out directory of an earlier run")
    told = "directory for the figures (default: DIR/figures)"
    add("--out", type=directory, metavar="DIR", help=told)
    add("--format", type=words, metavar="LIST", help="some of png,svg,pdf (default: all)")
    add_json(add)


def _execute(arguments: Namespace) -> None:
    from fedbandit.lab.analysis.curves import curves, unfinished
    from fedbandit.lab.figures.drawing import draw_runs
    from fedbandit.lab.figures.saving import FORMATS
    from fedbandit.lab.runs.records import whole_runs

    runs, broken = whole_runs(arguments.directory)
    place = repr(str(arguments.directory / "runs"))
    if not runs.num_rows:
        raise _nothing_to_draw(place, len(broken))
    if broken:
        files = len(broken) + len(runs["key"].unique())
        left_out = f"left out: {len(broken)} of {files} files in {place}, not whole records"
        print(left_out, file=sys.stderr)
    for lack in unfinished(curves(runs)):
        print(f"not finished: {lack}", file=sys.stderr)
    out = arguments.out or arguments.directory / "figures"
    drawn = draw_runs(runs, out, formats=arguments.format or FORMATS)
    report(arguments, lambda: {"figures": drawn}, lambda: print(*drawn, sep="\n"))


def _nothing_to_draw(place: str, broken: int) -> DataError:
    if broken:
        fix = "Run the command that wrote them again: it repeats the damaged runs."
        return DataError(f"plot: all {broken} files in {place} are damaged. {fix}")
    fix = "Give the --out directory of an earlier `fedbandit run SPEC.toml --out DIR`."
    return DataError(f"plot: there are no finished runs in {place}. {fix}")


PLOT = Command(
    name="plot",
    summary="Draw regret, time and communication of stored runs, with bands over trials.",
    example="fedbandit plot results --format png,svg",
    define=_define,
    execute=_execute,
)
