"""``fedbandit quickstart``: see agents learn together, on this machine, in a minute."""

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from fedbandit.cli.command import Add, Command
from fedbandit.cli.reporting import say
from fedbandit.cli.values import above_zero, directory, positive

EDGE = "sidecar"
EXAMPLE = """\
fedbandit quickstart
fedbandit quickstart --seconds 60 --dir /tmp/shops

starts a coordinator, three agents in shops with simulated visitors, and a sidecar; prints the
address of the board, where they can be watched, and the token to sign in with. Ctrl-C ends it. What
it writes is in --dir alone; the same command goes on from there."""


def _define(add: Add) -> None:
    told = "directory for store, tokens, states and logs (default: quickstart)"
    add("--dir", type=directory, default=Path("quickstart"), metavar="DIR", help=told)
    add("--agents", type=positive, default=3, metavar="N", help="number of shops (default: 3)")
    told = "visitors a second and shop (default: 10)"
    add("--rate", type=above_zero, default=10.0, metavar="X", help=told)
    told = "end by itself after so many seconds (default: with Ctrl-C)"
    add("--seconds", type=above_zero, metavar="S", help=told)
    told = "address of coordinator and board (default: 127.0.0.1:8400, or any port if taken)"
    add("--listen", metavar="HOST:PORT", help=told)
    told = "address of the sidecar (default: 127.0.0.1:8401, or any port if taken)"
    add("--edge-listen", metavar="HOST:PORT", help=told)


def _execute(arguments: Namespace) -> None:
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        _run(arguments)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(arguments: Namespace) -> None:
    from fedbandit.cli.quickstart.places import ADMIN, MODEL, Places
    from fedbandit.cli.quickstart.playing import Shops
    from fedbandit.cli.quickstart.processes import free_address, running
    from fedbandit.client import connect

    places = Places(arguments.dir)
    names = [f"shop-{number + 1}" for number in range(arguments.agents)]
    places.prepare([*names, EDGE])
    say("starting the coordinator; the first time it compiles, for half a minute or more")
    with ExitStack() as ending:
        listen = arguments.listen or free_address(8400)
        words = ["serve", "--store", places.store, "--listen", listen]
        url = ending.enter_context(running(words, log=places.log("coordinator")))
        say("starting the sidecar")
        listen = arguments.edge_listen or free_address(8401)
        words = ["edge", "--model", MODEL, "--agent", EDGE, "--coordinator", url]
        words += ["--token-file", str(places.token(EDGE)), "--listen", listen]
        words += ["--state-dir", str(places.state(EDGE))]
        sidecar = ending.enter_context(running(words, log=places.log(EDGE)))
        say("connecting the agents")
        agents = []
        for name in names:
            token, state = places.token(name), places.state(name)
            agent = connect(url, model=MODEL, agent=name, token=token, state_dir=state)
            ending.callback(agent.close, timeout=10.0)
            agents.append(agent)
        _show(arguments.dir, url, sidecar, places.token(ADMIN))
        shops = Shops(agents, pause=1.0 / arguments.rate)
        ending.callback(shops.stop)
        try:
            _watch(shops.watch(arguments.seconds, every=1.0 if sys.stdout.isatty() else 10.0))
        except KeyboardInterrupt:
            print()
        say(f"ending: {shops.till.line}")
    sent = sum(agent.status().bytes_up + agent.status().bytes_down for agent in agents)
    uploads = sum(agent.status().uploads for agent in agents)
    say(f"{uploads} uploads, {sent:,} bytes up and down; kept in {arguments.dir}")


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _show(place: Path, url: str, sidecar: str, admin: Path) -> None:
    print(
        f"""\
board        {url}/
admin token  {admin.read_text().strip()}
sidecar      {sidecar}/docs
state        {place}{os.sep} (delete it to start afresh)
ask the sidecar, and tell it what came of it:
  json='Content-Type: application/json'
  curl -s {sidecar}/rank -H "$json" -d '{{
    "eventId": "mine-1",
    "contextFeatures": [{{"hour": "noon", "weather": "hot"}}],
    "actions": [{{"id": "tea"}}, {{"id": "juice"}}]}}'
  curl -s {sidecar}/events/mine-1/reward \\
    -H "$json" -d '{{"value": 1}}'
Ctrl-C ends it""",
        flush=True,
    )


def _watch(lines: Iterable[str]) -> None:
    """Show how it goes: in place on a terminal, line after line elsewhere."""
    terminal = sys.stdout.isatty()
    for line in lines:
        print(f"\r{line:58}" if terminal else line, end="" if terminal else "\n", flush=True)
    if terminal:
        print()


QUICKSTART = Command(
    name="quickstart",
    summary="See agents learn together: coordinator, three agents, sidecar and board.",
    example=EXAMPLE,
    define=_define,
    execute=_execute,
    extra="service",
    resumes=lambda _: True,
)
