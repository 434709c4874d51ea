"""``fedbandit log``: look at logs of decisions, and turn them into other formats and back."""

import sys
from argparse import Namespace
from pathlib import Path

from fedbandit.cli.command import Add, Command

EXAMPLE = """\
fedbandit log convert decisions/ --to vw --out decisions.vw
fedbandit log convert decisions/ --to parquet --out decisions.parquet
fedbandit log convert old.vw --from vw --out decisions.ndjson
fedbandit log convert personalizer.json --from personalizer --out decisions.ndjson
fedbandit log show decisions/

decisions/ is the directory that an agent was given as log (connect(..., log="decisions"), or
fedbandit edge --log decisions)."""


def add_logs(add: Add) -> None:
    """Add the logs to read."""
    add("logs", nargs="+", type=Path, metavar="LOGS", help="directory of a log, or its files")


def _define_convert(add: Add) -> None:
    add_logs(add)
    told = "what LOGS are: log (default), vw (cb_adf text) or personalizer (JSON lines)"
    add("--from", dest="source", default="log", metavar="FORMAT", help=told)
    told = "ndjson (default), parquet, vw or personalizer, which vw reads with --dsjson"
    add("--to", default="ndjson", metavar="FORMAT", help=told)
    add("--out", type=Path, required=True, metavar="FILE", help="new file to write")


def _convert(arguments: Namespace) -> None:
    from fedbandit.logs import convert

    tally = convert(arguments.logs, arguments.out, to=arguments.to, source=arguments.source)
    print(f"{arguments.out}: {tally.events:,} events")
    for line in tally.sentences():
        print(line, file=sys.stderr)


def _show(arguments: Namespace) -> None:
    from fedbandit.logs import read

    reader = read(arguments.logs)
    total, least, agents = 0.0, 1.0, set[str]()
    for event in reader:
        total += event.reward
        least = min(least, event.probability)
        if len(agents) < 1000:
            agents.add(event.agent)
    events, head = reader.tally.events, reader.head
    if head is not None and head.recipe:
        print(f"model {head.model}, {head.recipe}, agents {', '.join(sorted(agents)[:5])}")
    mean = total / events if events else float("nan")
    print(f"{events:,} decisions with rewards; mean {mean:.4g}; least probability {least:.3g}")
    for line in reader.tally.sentences():
        print(line)


LOG = Command(
    name="log",
    summary="Show logs of decisions, and convert them from and to other formats.",
    example=EXAMPLE,
    extra="logs",
    verbs=(
        Command(
            "convert", "Write the events of logs in another format.", _define_convert, _convert
        ),
        Command("show", "Count what logs hold, and what cannot be used.", add_logs, _show),
    ),
)
