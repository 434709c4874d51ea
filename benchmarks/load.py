"""Load on one machine: a durable coordinator against the same server that echoes the same bytes.

``python -m benchmarks.load`` posts syncs of d = 100, l = 40 from 8 connections, first to an echo
(same framework, same bodies in, as many bytes out), then to a coordinator on SQLite, turn and turn
about, and prints throughput, p50 and p99 of both and their ratio, and whether that reaches the
target. ``--minutes`` goes on posting, watches memory and the store's size, and says whether they
grew from the first quarter of that time to the last.
"""

import argparse
import asyncio
import http.client
import multiprocessing as mp
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.summary import sketch_of
from fedbandit.service.model import new_model
from fedbandit.service.store import Archive, Store
from fedbandit.service.stores import open_store
from fedbandit.service.tokens import new_token

DIMENSION, SKETCH, REGISTERED = 100, 40, 10_000
RECIPE = fb.FSCLB(dimension=DIMENSION, sketch_size=SKETCH, agents=100)
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
    """A server in a process of its own."""

    process: "subprocess.Popen[str]"
    address: str


def upload(seed: int) -> fb.Upload:
    """Return an upload with a full sketch."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((60, DIMENSION))
    return fb.Upload(0, sketch_of(arms, shed=0.0, size=SKETCH), rng.standard_normal(DIMENSION), 60)


def post_for(address: str, agents: list[tuple[str, str]], seconds: float, pipe: Connection) -> None:
    """Post syncs for a while, one after another; send back how long each took."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    messages, mark = [upload(seed) for seed in range(8)], wire.fingerprint(RECIPE)
    life, took, sequence = bytes(16), [], time.time_ns()  # one life goes on from turn to turn
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        agent, secret = agents[sequence % len(agents)]
        sequence += 1
        sync = wire.Sync(mark, life, sequence, messages[sequence % 8])
        body = wire.encode_sync(sync)
        headers = {"Content-Type": wire.MEDIA_TYPE, "Authorization": f"Bearer {secret}"}
        started = time.perf_counter()
        connection.request("POST", f"/v1/models/load/agents/{agent}/sync", body, headers)
        answer = connection.getresponse()
        data = answer.read()
        took.append(time.perf_counter() - started)
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {data[:300]!r}")
    pipe.send(took)


def measure(
    server: Serving, agents: list[tuple[str, str]], *, senders: int, seconds: float
) -> Measured:
    """Return what ``senders`` processes at once achieve."""
    pipes, processes, before = [], [], cpu_seconds(server.process)
    for number in range(senders):
        mine, theirs = mp.Pipe()
        share = agents[number::senders]
        process = mp.Process(target=post_for, args=(server.address, share, seconds, theirs))
        process.start()
        theirs.close()
        pipes.append(mine)
        processes.append(process)
    took = sorted(each for pipe in pipes for each in pipe.recv())
    for process in processes:
        process.join()
    cuts = statistics.quantiles(took, n=100)
    cpu = 1000 * (cpu_seconds(server.process) - before) / len(took)
    return Measured(len(took) / seconds, 1000 * cuts[49], 1000 * cuts[98], cpu)


def register(store: Store, number: int) -> list[tuple[str, str]]:
    """Make a model and tokens for many agents; return agents and tokens."""
    model, state = new_model("load", RECIPE)
    agents = [f"agent-{index}" for index in range(number)]
    secrets, tokens = zip(*(new_token(model="load", agent=agent) for agent in agents), strict=True)
    store.install(Archive(model=model, state=state, ledgers={}, tokens=tokens))
    return list(zip(agents, secrets, strict=True))


def serving(*words: str) -> Serving:
    """Start a server."""
    process = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return Serving(process, process.stdout.readline().split()[-1])


def cpu_seconds(process: "subprocess.Popen[str]") -> float:
    """Return the CPU time that a process has used, threads and kernel included."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def echo() -> None:
    """Serve an echo: the same framework, settings and sizes, and nothing else."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from fedbandit.service.listen import Address
    from fedbandit.service.run import _config, _listener, _serve
    from fedbandit.service.settings import Settings

    async def answer(request: Request) -> Response:
        return Response(await request.body(), media_type=wire.MEDIA_TYPE)

    path = "/v1/models/{model}/agents/{agent}/sync"
    app = Starlette(routes=[Route(path, answer, methods=["POST"])])
    config = _config(app, Settings())
    listener = _listener(Address(host="127.0.0.1", port=0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    asyncio.run(_serve(uvicorn.Server(config), listener, idle_seconds=60.0))


def resident(process: "subprocess.Popen[str]") -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--senders", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=0.0, help="soak afterwards")
    parser.add_argument("--registered", type=int, default=REGISTERED)
    parser.add_argument("--echo", action="store_true", help="be the echo")
    arguments = parser.parse_args()
    if arguments.echo:
        echo()
    else:
        compare(arguments)


def compare(arguments: argparse.Namespace) -> None:
    """Measure echo and coordinator, turn and turn about."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "load.db"
        store = open_store(f"sqlite:///{path}", create=True)
        agents = register(store, arguments.registered)
        store.close()
        words = ("serve", "--store", f"sqlite:///{path}", "--listen", "127.0.0.1:0")
        coordinator = serving("fedbandit.cli", *words)
        echoing = serving("benchmarks.load", "--echo")
        try:
            load = {"senders": arguments.senders, "seconds": arguments.seconds}
            ratios = []
            for _ in range(arguments.turns):
                plain, real = (measure(each, agents, **load) for each in (echoing, coordinator))
                ratios.append(real.rate / plain.rate)
                print(f"echo  {plain}\nsync  {real}\nratio {ratios[-1]:.2f}", flush=True)
            median = statistics.median(ratios)
            print(f"median ratio {median:.2f}")
            print(f"target {TARGET:.2f}: {'met' if median >= TARGET else 'missed'}", flush=True)
            soak(coordinator, agents, path, arguments)
        finally:
            for each in (coordinator, echoing):
                each.process.terminate()
                each.process.wait()
        check = sqlite3.connect(path).execute("SELECT version, length(state) FROM models")
        print("stored version and state bytes:", *check.fetchone())


def soak(
    coordinator: Serving,
    agents: list[tuple[str, str]],
    path: Path,
    arguments: argparse.Namespace,
) -> None:
    """Go on posting, print memory and the store's size as they develop, and whether they grew."""
    end, memory, store = time.monotonic() + 60 * arguments.minutes, [], []
    while time.monotonic() < end:
        real = measure(coordinator, agents, senders=arguments.senders, seconds=20.0)
        size = sum(each.stat().st_size for each in path.parent.iterdir()) / 1e6
        memory.append(resident(coordinator.process))
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
