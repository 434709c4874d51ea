"""The sidecar's latency: one client on a kept connection, against a bare endpoint.

``python -m benchmarks.sidecar`` asks for a choice among 10 actions of named features (``/rank``)
and gives its reward, turn and turn about with the same framework alone, behind the same gate, with
endpoints that parse the same JSON and answer as many bytes. The agent has a journal on disk, a
coordinator to talk to, and d = 100, l = 40. It prints medians, p99, the server's CPU time for each
request, and what the sidecar takes of the bare endpoints.
"""

import argparse
import asyncio
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import fedbandit as fb
from benchmarks.load import Serving, serving
from fedbandit.edge.ranking import RankRequest, RewardRequest
from fedbandit.edge.serve import BOUNDS, PATIENCE, serve
from fedbandit.service.private import private_coordinator
from fedbandit.web import gate
from fedbandit.web.listening import listen, url_of, uvicorn_config

RECIPE = fb.FSCLB(dimension=100, sketch_size=40, agents=100, radius=0.3)
ACTIONS, COLOURS = 10, ("red", "green", "blue", "yellow")
MOST = 2.0  # times a bare endpoint
_END, _LENGTH = b"\r\n\r\n", b"content-length:"


def rank_body(number: int) -> bytes:
    """Return a request to choose among actions with five features each, in a context of three."""
    actions = [
        {
            "id": f"action-{k}",
            "features": {
                "price": (7 * k + number) % 13 / 4,
                "colour": COLOURS[(k + number) % 4],
                "fresh": (k + number) % 3 == 0,
                "genre": {"main": f"genre-{(k * number) % 17}", "other": f"genre-{k}"},
            },
        }
        for k in range(ACTIONS)
    ]
    context = {"hour": number % 24, "device": ("phone", "desk")[number % 2], "member": True}
    return msgspec.json.encode({"actions": actions, "contextFeatures": context})


class Client:
    """A kept connection to a server in processes of its own."""

    def __init__(self, server: Serving) -> None:
        place = urlsplit(server.address)
        self._server, self._host = server, place.netloc
        self._socket = socket.create_connection((place.hostname, place.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.took: dict[str, list[float]] = {"rank": [], "reward": []}
        self.cpu = 0.0

    def play(self, rounds: int) -> None:
        """Rank and reward so many times."""
        before = self._server.cpu_seconds()
        for number in range(rounds):
            answer = self.post("rank", "/rank", rank_body(number))
            path = f"/events/{msgspec.json.decode(answer)['eventId']}/reward"
            self.post("reward", path, b'{"value": 0.5}')
        self.cpu += self._server.cpu_seconds() - before

    def post(self, what: str, path: str, body: bytes) -> bytes:
        """Post something; note how long it took and return the answer."""
        lines = (
            f"POST {path} HTTP/1.1",
            f"Host: {self._host}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        sent = "\r\n".join(lines).encode() + _END + body
        began = time.perf_counter()
        self._socket.sendall(sent)
        answer = self._answer()
        self.took[what].append(time.perf_counter() - began)
        return answer

    def _answer(self) -> bytes:
        data = b""
        while _END not in data:
            data += self._received()
        head, _, body = data.partition(_END)
        told = head.lower().partition(_LENGTH)[2].partition(b"\r\n")[0]
        while len(body) < int(told or 0):
            body += self._received()
        if not head.startswith(b"HTTP/1.1 20"):
            raise SystemExit(f"refused: {body!r}")
        return body

    def _received(self) -> bytes:
        data = self._socket.recv(2**16)
        if not data:
            raise SystemExit("the server closed a connection")
        return data


def be_bare(answer: bytes) -> None:
    """Serve endpoints that parse the same JSON, by the framework alone."""

    async def rank(request: Request) -> Response:
        gate.admit(request.scope)  # or the connection would be closed
        msgspec.json.decode(await request.body(), type=RankRequest)
        return Response(answer, 201, media_type="application/json")

    async def reward(request: Request) -> Response:
        msgspec.json.decode(await request.body(), type=RewardRequest)
        return Response(status_code=204)

    routes = [("/rank", rank), ("/events/{id}/reward", reward)]
    app = Starlette(routes=[Route(path, each, methods=["POST"]) for path, each in routes])
    listener, config = listen("127.0.0.1", 0), uvicorn_config(app, stop_seconds=5)
    config.load()
    print(url_of(listener), flush=True)
    behind = gate.Gate(listener, config, bounds=BOUNDS, patience=PATIENCE)
    asyncio.run(gate.serve_behind([behind], uvicorn.Server(config)))


def be_sidecar(url: str, place: str) -> None:
    """Serve an agent."""
    agent = fb.connect(url, model="bench", agent="sidecar", state_dir=place)
    serve(agent, host="127.0.0.1", port=0, announce=lambda told: print(told, flush=True))


@contextmanager
def clients() -> Iterator[dict[str, Client]]:
    """Start both servers and connect."""
    with (
        tempfile.TemporaryDirectory() as place,
        private_coordinator(f"sqlite:///{place}/bench.db", model="bench", recipe=RECIPE) as url,
    ):
        sidecar = serving("benchmarks.sidecar", "--serve", url, str(Path(place) / "state"))
        try:
            answer = Client(sidecar).post("rank", "/rank", rank_body(0))
            bare = serving("benchmarks.sidecar", "--bare", answer.decode())
            try:
                yield {"bare": Client(bare), "sidecar": Client(sidecar)}
            finally:
                bare.stop()
        finally:
            sidecar.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="in a turn")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--bare", metavar="ANSWER", help="be the bare endpoints")
    parser.add_argument("--serve", nargs=2, metavar=("URL", "DIRECTORY"), help="be the sidecar")
    arguments = parser.parse_args()
    if arguments.bare:
        be_bare(arguments.bare.encode())
    elif arguments.serve:
        be_sidecar(*arguments.serve)
    else:
        with clients() as both:
            compare(both, arguments.rounds, arguments.turns)


def compare(both: dict[str, Client], rounds: int, turns: int) -> None:
    """Play turn and turn about, after a turn that does not count, and print."""
    for each in both.values():
        each.play(rounds)
        each.took, each.cpu = {"rank": [], "reward": []}, 0.0
    for _ in range(turns):
        for each in both.values():
            each.play(rounds)
    for what in ("rank", "reward"):
        medians = {}
        for name, each in both.items():
            cuts = statistics.quantiles(each.took[what], n=100)
            medians[name] = cuts[49]
            print(f"{what:7}{name:8} p50 {1e6 * cuts[49]:6.0f} us, p99 {1e6 * cuts[98]:6.0f} us")
        ratio = medians["sidecar"] / medians["bare"]
        said = "met" if ratio <= MOST else "missed"
        print(f"{what}: {ratio:.2f} times the bare endpoint; at most {MOST:g} wanted: {said}")
    for name, each in both.items():
        print(f"{name}: {1e6 * each.cpu / (rounds * turns):.0f} us of CPU for a rank and a reward")


if __name__ == "__main__":
    main()
