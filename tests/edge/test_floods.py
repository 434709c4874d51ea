"""Floods on a sidecar: programs beside it go on being served, and half a head is cut in the end."""

import http.client
import json
import os
import socket
import statistics
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fedbandit as fb
from fedbandit.service.private import private_coordinator
from tests.edge.sidecar import ask, running
from tests.web.flood import flood

RECIPE = fb.FSCLB(dimension=12, sketch_size=5, agents=2)
QUESTION: dict[str, Any] = {"actions": [{"id": "a"}, {"id": "b"}]}
KINDS = ["silent", "half-head", "large-head", "unread", "half-answered", "tiny-chunks", "garbage"]
JSON = {"Content-Type": "application/json"}
MOST_MEMORY = 60e6
SLOWEST = 2.0  # seconds that 99 of 100 requests take at most


def test_half_a_head_is_cut_off(tmp_path: Path) -> None:
    with (
        private_coordinator(f"sqlite:///{tmp_path}/c.db", model="news", recipe=RECIPE) as url,
        running(url, tmp_path / "edge", "--idle-seconds", "0.3") as (address, _),
    ):
        place = urlsplit(address)
        for said in (b"", b"POST /ra", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he"):
            with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
                connection.sendall(said)
                with suppress(ConnectionResetError):
                    while connection.recv(4096):
                        pass


def hold_out(tmp_path: Path, kind: str, number: int, *, requests: int) -> list[float]:
    """Rank and reward on a kept connection beside a flood; return how long each request took."""
    seconds = []
    with (
        private_coordinator(f"sqlite:///{tmp_path}/c.db", model="news", recipe=RECIPE) as url,
        running(url, tmp_path / "edge") as (address, process),
    ):
        place = urlsplit(address)
        assert place.hostname
        assert place.port
        kept = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
        before = _resident(process.pid)
        with flood(kind, place.hostname, place.port, number):
            for number in range(requests):
                for path, given in (
                    ("/rank", QUESTION | {"eventId": f"e{number}"}),
                    (f"/events/e{number}/reward", {"value": 1.0}),
                ):
                    started = time.monotonic()
                    kept.request("POST", path, json.dumps(given), JSON)
                    answer = kept.getresponse()
                    answer.read()
                    assert answer.status in (201, 204)
                    seconds.append(time.monotonic() - started)
            assert _resident(process.pid) - before < MOST_MEMORY
        kept.close()
        assert ask(f"{address}/healthz")["rewards"] == requests
    return seconds[2:]  # the first ones waited in line with the flood, until they were known


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kind", ["half-head"])
def test_programs_are_served_beside_a_flood(tmp_path: Path, kind: str) -> None:
    hold_out(tmp_path, kind, 600, requests=10)


@pytest.mark.chaos
@pytest.mark.parametrize("kind", KINDS)
def test_programs_are_served_in_time_under_each_flood(tmp_path: Path, kind: str) -> None:
    seconds = hold_out(tmp_path, kind, 4150, requests=300)
    assert statistics.quantiles(seconds, n=100)[-1] < SLOWEST
