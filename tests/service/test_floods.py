"""Floods without a token: honest agents go on being served, and memory stays within bounds.

Without TLS, as behind a proxy, flood and agents have the same address, and no agent can be told
from the flood by that. With TLS, each shows its own: agents make new connections from another
address than the flood. Connections that are open before the flood have its address in both cases.
"""

import http.client
import os
import ssl
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
import trustme

from fedbandit import wire
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import (
    BODY,
    Process,
    make_model,
    make_token,
    running,
    state_path,
    stored,
    sync_path,
)
from tests.web.flood import KINDS, SEALED, SHAKEN, flood

PLAIN = [kind for kind in KINDS if not kind.endswith("-hello")]
MOST_MEMORY = 150e6  # bytes more than without a flood
OTHER = ("127.0.0.2", 0)
SLOWEST = 2.0  # seconds that 99 of 100 requests take at most


@dataclass
class Honest:
    """An agent that uploads on one connection, and joins on a new one each time."""

    process: Process
    agent: str
    token: str
    trust: ssl.SSLContext | None
    seconds: list[float] = field(default_factory=list)
    refused: list[object] = field(default_factory=list)
    merged: int = 0
    enough: bool = False

    def _upload(self, connection: http.client.HTTPConnection) -> None:
        body = wire.encode_sync(sync_for(RECIPE, self.merged + 1, sequence=self.merged + 1))
        self.merged += self._ask(connection, "POST", sync_path(agent=self.agent), body)

    def run(self, patience: float) -> None:
        kept = self._connect(patience)
        while not self.enough:
            self._upload(kept)
            new = self._connect(patience, OTHER)
            self._ask(new, "GET", state_path(agent=self.agent), None)
            new.close()
            time.sleep(0.005)
        kept.close()

    def is_ready(self) -> bool:
        connection = self._connect(30.0)
        connection.request("GET", "/readyz")
        ready = connection.getresponse().status == 200
        connection.close()
        return ready

    def _connect(
        self, patience: float, source: tuple[str, int] | None = None
    ) -> http.client.HTTPConnection:
        place = urlsplit(self.process.address)
        assert place.hostname
        if self.trust is None:
            return http.client.HTTPConnection(place.hostname, place.port, timeout=patience)
        return http.client.HTTPSConnection(
            place.hostname, place.port, timeout=patience, context=self.trust, source_address=source
        )

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> bool:
        started = time.monotonic()
        try:
            headers = {"Authorization": f"Bearer {self.token}", **(BODY if body else {})}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            good = answer.status == 200
            if not good:
                self.refused.append(answer.status)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.refused.append(repr(error))
            good = False
        self.seconds.append(time.monotonic() - started)
        return good


@contextmanager
def honest_agents(
    url: str, process: Process, trust: ssl.SSLContext | None, *, patience: float
) -> Iterator[list[Honest]]:
    """Have three agents at work while a block runs, two of which are there before it begins."""
    names = ["phone", "tablet", "laptop"]
    agents = [
        Honest(process, name, make_token(url, model="news", agent=name), trust) for name in names
    ]
    threads = [Thread(target=agent.run, args=(patience,)) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        yield agents
    finally:
        for agent in agents:
            agent.enough = True
        for thread in threads:
            thread.join(120)


def resident(process: Process) -> float:
    with open(f"/proc/{process.process.pid}/statm") as file:
        return float(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def hold_out(
    url: str,
    kind: str,
    number: int,
    *,
    requests: int,
    addresses: int = 1,
    options: tuple[str, ...] = (),
    trust: ssl.SSLContext | None = None,
    patience: float = 30.0,
) -> list[float]:
    """Serve honest agents under a flood; return how long each of their requests took."""
    make_model(url, "news", RECIPE)
    with running(url, *options) as process:
        place = urlsplit(process.address)
        assert place.hostname
        assert place.port
        with honest_agents(url, process, trust, patience=patience) as agents:
            while not all(agent.merged for agent in agents):
                time.sleep(0.01)
            before = resident(process)
            with flood(kind, place.hostname, place.port, number, addresses):
                for agent in agents:
                    agent.seconds.clear()
                most = 0.0
                while not all(len(agent.seconds) > requests for agent in agents):
                    most = max(most, resident(process))
                    time.sleep(0.05)
                assert agents[0].is_ready()
                taken = [each for agent in agents for each in agent.seconds]
    print(f"{(most - before) / 1e6:.0f} MB more,", end=" ")
    assert not [each for agent in agents for each in agent.refused]
    assert most - before < MOST_MEMORY
    assert stored(url).version == sum(agent.merged for agent in agents)
    return taken


@pytest.fixture
def tls(tmp_path: Path) -> tuple[tuple[str, ...], ssl.SSLContext]:
    """Options of a coordinator that speaks TLS, and how to trust it."""
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    made.private_key_pem.write_to_path(tmp_path / "key.pem")
    made.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    files = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    return files, trusting


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("silent", 4150),
        ("half-head", 600),
        ("wrong-token", 600),
        ("unread", 600),
        ("tiny-chunks", 300),
    ],
)
def test_agents_are_served_beside_a_flood(
    sqlite_url: Callable[[], str], kind: str, number: int
) -> None:
    hold_out(sqlite_url(), kind, number, requests=10)


@pytest.mark.parametrize("kind", ["silent", "client-hello"])
def test_agents_are_served_beside_a_flood_of_tls(
    sqlite_url: Callable[[], str], kind: str, tls: tuple[tuple[str, ...], ssl.SSLContext]
) -> None:
    options, trusting = tls
    hold_out(sqlite_url(), kind, 600, requests=10, options=options, trust=trusting)


def _p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[-1]


@pytest.mark.chaos
@pytest.mark.parametrize("number", [200, 4150])
@pytest.mark.parametrize("kind", PLAIN)
def test_agents_are_served_in_time_under_each_flood(
    sqlite_url: Callable[[], str], kind: str, number: int
) -> None:
    taken = hold_out(sqlite_url(), kind, number, requests=200)
    print(f"{kind} x {number}: {len(taken)} requests, p99 {_p99(taken):.3f} s")
    assert _p99(taken) < SLOWEST


@pytest.mark.chaos
@pytest.mark.parametrize("number", [200, 4150])
@pytest.mark.parametrize(
    "kind", ["silent", "half-head", "client-hello", "costly-hello", "garbage", *SHAKEN, *SEALED]
)
def test_agents_are_served_in_time_under_each_flood_of_tls(
    sqlite_url: Callable[[], str],
    kind: str,
    number: int,
    tls: tuple[tuple[str, ...], ssl.SSLContext],
) -> None:
    options, trusting = tls
    taken = hold_out(sqlite_url(), kind, number, requests=200, options=options, trust=trusting)
    print(f"tls {kind} x {number}: {len(taken)} requests, p99 {_p99(taken):.3f} s")
    assert _p99(taken) < SLOWEST


@pytest.mark.chaos
@pytest.mark.parametrize("kind", ["client-hello", "shaken-wrong-form", "shaken-wrong-token"])
def test_agents_are_served_in_time_under_a_flood_from_many_addresses(
    sqlite_url: Callable[[], str], kind: str, tls: tuple[tuple[str, ...], ssl.SSLContext]
) -> None:
    options, trusting = tls
    taken = hold_out(
        sqlite_url(), kind, 1000, requests=200, addresses=500, options=options, trust=trusting
    )
    print(f"tls {kind} x 1000 from 500: {len(taken)} requests, p99 {_p99(taken):.3f} s")
    assert _p99(taken) < SLOWEST
