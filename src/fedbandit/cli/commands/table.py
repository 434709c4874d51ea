"""``fedbandit table``: the summary of stored runs as LaTeX or Markdown."""

from argparse import Namespace

from fedbandit.cli.command import Add, Command
from fedbandit.cli.values import directory, words


def _define(add: Add) -> None:
    add("directory", type=directory, metavar="DIR", help="the --out directory of an earlier run")
    add("--format", choices=("markdown", "latex"), default="markdown", help="(default: markdown)")
    told = "measures, separated by commas (default: regret,uploads,bytes); reward, seconds, scalars"
    add("--measures", type=words, metavar="LIST", default=("regret", "uploads", "bytes"), help=told)
    add("--columns", type=words, metavar="LIST", default=(), help="parameters to show as columns")


def _execute(arguments: Namespace) -> None:
    from fedbandit.errors import DataError
    from fedbandit.lab.analysis.curves import curves
    from fedbandit.lab.analysis.summary import summarise, summary_table
    from fedbandit.lab.analysis.text import natural
    from fedbandit.lab.runs.records import read_runs

    runs = read_runs(arguments.directory)
    if not runs.num_rows:
        place = str(arguments.directory / "runs")
        fix = "Give the --out directory of an earlier `fedbandit run SPEC.toml --out DIR`."
        raise DataError(f"table: there are no finished runs in {place!r}. {fix}")
    found = summarise(curves(runs))
    rows = sorted(found, key=lambda row: (natural(row.setting), natural(row.algorithm)))
    table = summary_table(rows, measures=arguments.measures, columns=arguments.columns)
    print(table.markdown if arguments.format == "markdown" else table.latex)


TABLE = Command(
    name="table",
    summary="Print what stored runs reached as a table for a paper, in LaTeX or Markdown.",
    example="fedbandit table results --format latex --measures regret,bytes > table.tex",
    define=_define,
    execute=_execute,
)
