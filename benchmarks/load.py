"""Load on one machine: a durable coordinator against the same server that echoes the same bytes.

``python -m benchmarks.load`` posts syncs of d = 100, l = 40 from 8 connections to three servers,
turn and turn about, once every registered agent has been seen:

- *bare*: the framework alone, with an endpoint that returns the body;
- *echo*: the coordinator with all that it asks of a request (tokens, names, limits, turns), which
  returns the body instead of merging it;
- *sync*: the coordinator on SQLite, merging, and on disk before it answers.

It prints throughput, p50, p99 and CPU time of each, what the third reaches of the others, and
whether that is the target. The model has the groups of agents that models have unless it is said
how many, which are watched; ``--groups 0`` or ``24`` measures others. ``--minutes``
goes on posting, watches memory and the store's size, and says whether they grew from the first
quarter of that time to the last.
"""

import argparse
import asyncio
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import fedbandit as fb
from benchmarks.load_senders import Agent, post, sync_bodies
from fedbandit import wire
from fedbandit.cli.models.rules import groups_from
from fedbandit.core.memory.summary import sketch_of
from fedbandit.core.statistics import Rewards
from fedbandit.service.coordinator import Coordinator
from fedbandit.service.http.app import app_of
from fedbandit.service.merging.sync import Answer, ModelRef, SyncRequest
from fedbandit.service.models.model import new_model
from fedbandit.service.serve import gate_for, uvicorn_config_for
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Archive, Store
from fedbandit.service.storage.opening import open_store
from fedbandit.service.tokens import new_token
from fedbandit.web import gate
from fedbandit.web.gate import serve_behind
from fedbandit.web.listening import listen

DIMENSION, SKETCH, REGISTERED = 100, 40, 10_000
UPLOADS = 257  # a prime, so that no agent sends the same again and again, whose noise would add up
RECIPE = fb.FSCLB(dimension=DIMENSION, sketch_size=SKETCH, agents=100)
THETA = np.random.default_rng(99).standard_normal(DIMENSION) / np.sqrt(DIMENSION)
TARGET = 0.40  # of the echo's throughput
SLACK, SLACK_MB = 0.05, 1.0  # what counts as no growth: the larger of the two


@dataclass(frozen=True)
class Measured:
    """Syncs a second, how long they took, and the server's CPU time for each, in milliseconds."""

    rate: float
    p50: float
    p99: float
    cpu: float

    def __str__(self) -> str:
        times = f"p50 {self.p50:5.2f} ms, p99 {self.p99:6.2f} ms, CPU {self.cpu:.2f} ms"
        return f"{self.rate:6.0f}/s, {times}"


@dataclass(frozen=True)
class Serving:
    """A server in processes of its own."""

    process: "subprocess.Popen[str]"
    address: str

    @property
    def pids(self) -> list[int]:
        """The ids of its processes."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [self.process.pid, *(int(i) for each in children for i in each.read_text().split())]

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used, threads and kernel included."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2] for pid in self.pids]
        ticks = sum(int(tick) for each in fields for tick in each.split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident(self) -> float:
        """Return the resident memory that it holds, in MB."""
        pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


@dataclass
class Load:
    """Who posts, and what."""

    agents: list[Agent]
    senders: int
    bodies: list[bytes] = field(
        default_factory=lambda: sync_bodies(
            [upload(seed) for seed in range(UPLOADS)], wire.fingerprint(RECIPE)
        )
    )

    def on(self, server: Serving, seconds: float) -> Measured:
        """Return what a server achieves."""
        before = server.cpu_seconds()
        took = post(server.address, self.agents, self.bodies, senders=self.senders, seconds=seconds)
        cpu = 1000 * (server.cpu_seconds() - before) / len(took)
        cuts = statistics.quantiles(took, n=100)
        return Measured(len(took) / seconds, 1000 * cuts[49], 1000 * cuts[98], cpu)


def upload(seed: int) -> fb.Upload:
    """Return an upload with a full sketch, of rewards by one theta, as honest agents have them."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((60, DIMENSION))
    paid = arms @ THETA + 0.1 * rng.standard_normal(60)
    told = Rewards(60, float(paid.sum()), float(paid @ paid))
    summary = sketch_of(arms, shed=0.0, size=SKETCH)
    return fb.Upload(0, fb.Statistics(summary, arms.T @ paid, 60, told))


def register(store: Store, number: int, groups: int | None) -> list[Agent]:
    """Make a model and tokens for many agents; return agents and tokens.

    ``groups``: None for those that models have unless it is said how many.
    """
    many, watched = groups_from(groups, dimension=DIMENSION)
    model, state = new_model("load", RECIPE, groups=many, watched=watched)
    how = ", watched" if watched else ""
    print(f"groups of agents: {model.groups or 'none'}{how}", flush=True)
    agents = [f"agent-{index}" for index in range(number)]
    secrets, tokens = zip(*(new_token(model="load", agent=agent) for agent in agents), strict=True)
    store.install(Archive(model=model, state=state, merged={}, tokens=tokens))
    return list(zip(agents, secrets, strict=True))


def serving(*words: str) -> Serving:
    """Start a server."""
    process = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return Serving(process, process.stdout.readline().split()[-1])


def be_bare() -> None:
    """Serve an echo by the framework alone."""

    async def answer(request: Request) -> Response:
        gate.admit(request.scope)  # or the connection would be closed
        return Response(await request.body(), media_type=wire.MEDIA_TYPE)

    path = "/v1/models/{model}/agents/{agent}/sync"
    _run(Starlette(routes=[Route(path, answer, methods=["POST"])]))


def be_echo(url: str) -> None:
    """Serve an echo by a coordinator."""
    _run(app_of(Coordinator(open_store(url), Settings(), merger=Echo())))


class Echo:
    """A ``SyncMerger`` that returns a body instead of merging it."""

    def __init__(self) -> None:
        self.batches: Counter[str] = Counter()

    async def take(self, _: ModelRef, request: SyncRequest) -> Answer:
        """Return it at once."""
        return Answer(b"", request.body, merged=True)

    async def check(self, _: float) -> None:
        """Have nothing to check."""

    async def stop(self, _: float) -> bool:
        """Have nothing to finish."""
        return True


def _run(app: Starlette) -> None:
    listener = listen("127.0.0.1", 0)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    settings = Settings(idle_seconds=60.0)
    config = uvicorn_config_for(app, settings)
    asyncio.run(serve_behind([gate_for(listener, config, settings)], uvicorn.Server(config)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--senders", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=0.0, help="soak afterwards")
    parser.add_argument("--registered", type=int, default=REGISTERED)
    parser.add_argument("--groups", type=int, help="groups of agents; 0 for none")
    parser.add_argument("--bare", action="store_true", help="be the framework's echo")
    parser.add_argument("--echo", metavar="STORE", help="be the coordinator's echo")
    arguments = parser.parse_args()
    if arguments.bare:
        be_bare()
    elif arguments.echo:
        be_echo(arguments.echo)
    else:
        with tempfile.TemporaryDirectory() as place:
            compare(Path(place) / "load.db", arguments)


def compare(path: Path, arguments: argparse.Namespace) -> None:
    """Measure all three, turn and turn about."""
    url = f"sqlite:///{path}"
    store = open_store(url, create=True)
    load = Load(register(store, arguments.registered, arguments.groups), arguments.senders)
    store.close()
    servers = {
        "bare": serving("benchmarks.load", "--bare"),
        "echo": serving("benchmarks.load", "--echo", url),
        "sync": serving("fedbandit.cli", "serve", "--store", url, "--listen", "127.0.0.1:0"),
    }
    try:
        for name in ("echo", "sync"):
            see_everybody(servers[name], load)
        turns = [
            {name: shown(name, load.on(each, arguments.seconds)) for name, each in servers.items()}
            for _ in range(arguments.turns)
        ]
        conclude([{name: each.rate for name, each in turn.items()} for turn in turns])
        soak(servers["sync"], load, path, arguments.minutes)
    finally:
        for each in servers.values():
            each.stop()
    check = sqlite3.connect(path).execute("SELECT version, length(state) FROM models")
    print("stored version and state bytes:", *check.fetchone())


def see_everybody(server: Serving, load: Load) -> None:
    """Post as every agent at least once, in one go: from then on nobody is new."""
    rate = load.on(server, 2.0).rate
    load.on(server, 1.5 * len(load.agents) / rate)


def shown(name: str, measured: Measured) -> Measured:
    """Print what was measured."""
    print(f"{name}  {measured}", flush=True)
    return measured


def conclude(rates: list[dict[str, float]]) -> None:
    """Print what merging leaves of the throughput, and whether it is enough."""
    for other in ("bare", "echo"):
        ratios = sorted(each["sync"] / each[other] for each in rates)
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"sync / {other}: {statistics.median(ratios):.2f} (median; {spread})")
    median = statistics.median(each["sync"] / each["echo"] for each in rates)
    print(f"target {TARGET:.2f} of the echo: {'met' if median >= TARGET else 'missed'}", flush=True)


def soak(coordinator: Serving, load: Load, path: Path, minutes: float) -> None:
    """Go on posting, print memory and the store's size as they develop, and whether they grew."""
    end, memory, store = time.monotonic() + 60 * minutes, [], []
    while time.monotonic() < end:
        real = load.on(coordinator, 20.0)
        size = sum(each.stat().st_size for each in path.parent.iterdir()) / 1e6
        memory.append(coordinator.resident())
        store.append(size)
        print(f"{real}  memory {memory[-1]:.0f} MB  store {size:.1f} MB", flush=True)
    if memory:
        print(growth("memory", memory), growth("store", store), sep="\n", flush=True)


def growth(name: str, sizes: list[float]) -> str:
    """Say whether something grew: the largest size of the first quarter against the last one's."""
    quarter = max(len(sizes) // 4, 1)
    first, last = max(sizes[:quarter]), max(sizes[-quarter:])
    flat = last - first <= max(SLACK * first, SLACK_MB)
    said = "did not grow" if flat else "GREW"
    return f"{name} {said}: first quarter at most {first:.1f} MB, last quarter {last:.1f} MB"


if __name__ == "__main__":
    main()
