"""``fedbandit log``: look at logs of decisions, and turn them into other formats and back."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fedbandit.cli.command import Add, Command
from fedbandit.cli.options import add_logs
from fedbandit.cli.reporting import add_json, report, say

if TYPE_CHECKING:
    from fedbandit.logs import Tally

_NAMES = 1000  # agents that are told apart

EXAMPLE = """\
fedbandit log convert decisions/ --to vw --out decisions.vw
fedbandit log convert decisions/ --to parquet --out decisions.parquet
fedbandit log convert old.vw --from vw --out decisions.ndjson
fedbandit log convert personalizer.json --from personalizer --out decisions.ndjson
fedbandit log show decisions/
fedbandit log shadow decisions/

decisions/ is the directory that an agent was given as log: by connect(..., log="decisions"), or by
--log decisions of the sidecar."""


def _define_convert(add: Add) -> None:
    add_logs(add)
    told = "what LOGS are: log (default), vw (cb_adf text) or personalizer (JSON lines)"
    add("--from", dest="source", default="log", metavar="FORMAT", help=told)
    told = "ndjson (default), parquet, vw or personalizer, which vw reads with --dsjson"
    add("--to", default="ndjson", metavar="FORMAT", help=told)
    add("--out", type=Path, required=True, metavar="FILE", help="new file to write")
    add_json(add)


def _convert(arguments: Namespace) -> None:
    from fedbandit.logs import convert

    tally = convert(arguments.logs, arguments.out, to=arguments.to, source=arguments.source)
    found = {"file": arguments.out, "events": tally.events, "left_out": dict(tally.skipped)}
    report(
        arguments, lambda: found, lambda: _say(f"{arguments.out}: {tally.events:,} events", tally)
    )


def _define_logs(add: Add) -> None:
    add_logs(add)
    add_json(add)


def _show(arguments: Namespace) -> None:
    from fedbandit.logs import read

    reader = read(arguments.logs)
    total, least, agents = 0.0, 1.0, set[str]()
    for event in reader:
        total += event.reward
        least = min(least, event.probability)
        if len(agents) < _NAMES:
            agents.add(event.agent)
    events, head = reader.tally.events, reader.head
    mean = total / events if events else float("nan")
    found = {
        "model": "" if head is None else head.model,
        "recipe": "" if head is None else head.recipe,
        "agents": sorted(agents),
        "events": events,
        "mean_reward": mean,
        "least_probability": least,
        "left_out": dict(reader.tally.skipped),
    }
    told = f"{events:,} decisions with rewards; mean {mean:.4g}; least probability {least:.3g}"
    report(arguments, lambda: found, lambda: _say(told, reader.tally))


def _shadow(arguments: Namespace) -> None:
    from dataclasses import asdict

    from fedbandit.logs import read
    from fedbandit.offline.shadow import shadow_of

    found = shadow_of(read(arguments.logs))
    plain = {**asdict(found), "sentence": found.sentence}
    report(arguments, lambda: plain, lambda: say(found.sentence))


def _say(told: str, tally: "Tally") -> None:
    print(told)
    for line in tally.sentences():
        print(line, file=sys.stderr)


LOG = Command(
    name="log",
    summary="Show logs of decisions, and convert them from and to other formats.",
    example=EXAMPLE,
    extra="logs",
    verbs=(
        Command(
            "convert", "Write the events of logs in another format.", _define_convert, _convert
        ),
        Command("show", "Count what logs hold, and what cannot be used.", _define_logs, _show),
        Command("shadow", "Compare agent and baseline of shadow mode.", _define_logs, _shadow),
    ),
)
