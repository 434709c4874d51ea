"""Hostile bodies to a real sidecar: nothing but 4xx, nothing counted, and no memory taken."""

import http.client
import json
import os
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import fedbandit as fb
from fedbandit.service.private import private_coordinator
from tests.edge.sidecar import ask, running

RECIPE = fb.FSCLB(dimension=12, sketch_size=5, agents=2)
QUESTION: dict[str, Any] = {
    "eventId": "e",
    "contextFeatures": [{"time": "morning", "user": {"age": 0.3, "new": True}}],
    "actions": [
        {"id": "a", "features": [{"topic": "sport", "length": 0.4}]},
        {"id": "b", "features": [{"topic": "games"}]},
        {"id": "c"},
    ],
    "excludedActions": ["c"],
    "deferActivation": False,
}
NASTY: list[object] = [
    *(None, True, -1, 0, 2**63, 10**400, 1.5, 1e308, -0.0, float("nan"), float("inf")),
    *("", "a", "x" * 200, "\ud800", "\x00", "é", [], {}, [[]], [1, 2, 3], {"a": 1}, [{}] * 50),
    [0.1] * 12,
]
EVENTS = ["e", "nobody", "x" * 200, "..", "é", "\x00", "a b", "%", "a/b"]


def _fields_changed(rng: random.Random, given: Any) -> Any:
    whole = part = json.loads(json.dumps(given))
    while True:
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        if not keys:
            return whole
        key = rng.choice(keys)
        if not isinstance(part[key], dict | list) or rng.random() < 0.2:
            part[key] = rng.choice(NASTY)
            return whole
        part = part[key]


def _bytes_changed(rng: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(rng.choice([1, 1, 2, 8])):
        place, length = rng.randrange(len(changed) + 1), rng.choice([0, 1, 1, 4, 40])
        changed[place : place + length] = rng.choice(
            [b"", b'"', b"}", b"[" * 2000, b"\xff", b"1e999", rng.randbytes(4)]
        )
    return bytes(changed)


def _request(rng: random.Random, number: int, events: list[str]) -> tuple[str, bytes]:
    """Return a path and a body, most of them wrong in some way."""
    event = rng.choice([*EVENTS, *events[-20:]])
    kind = rng.choice(["rank", "rank", "reward", "activate"])
    given: Any = QUESTION | {"eventId": f"e{number}"} if kind == "rank" else {"value": 1.0}
    if kind == "rank" and rng.random() < 0.1:  # names nobody has seen before, and long ones
        names = {f"{number}-{rng.random()}": "y" * rng.choice([1, 1000]) for _ in range(20)}
        given = given | {"contextFeatures": [names, {"x" * 5000 + str(number): 1}]}
    if rng.random() < 0.7:
        given = _fields_changed(rng, given)
    body = json.dumps(given).encode()
    if rng.random() < 0.3:
        body = _bytes_changed(rng, body)
    path = "/rank" if kind == "rank" else f"/events/{quote(event, safe='')}/{kind}"
    return path, body


def bombard(url: str, pid: int, *, bodies: int, seed: int) -> None:
    rng, base = random.Random(seed), 0.0
    events: list[str] = []
    paid = 0
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    for number in range(bodies):
        path, body = _request(rng, number, events)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        told = answer.read()
        assert answer.status in (201, 204, 400, 404, 409, 422), told
        if answer.status >= 400:
            assert set(json.loads(told)["error"]) == {"field", "message"}
        if answer.status == 201:
            events.append(json.loads(told)["eventId"])
        paid += answer.status == 204 and path.endswith("reward")
        if number == bodies // 4:
            base = _resident(pid)
    connection.close()
    assert _resident(pid) - base < 32e6  # of which 20 are for hashes of names
    status = ask(f"{url}/healthz")
    assert (status["decisions"], status["rewards"]) == (len(events), paid)
    assert len(events) > bodies / 100 < paid
    event = ask(f"{url}/rank", QUESTION | {"eventId": "honest"})["eventId"]
    assert ask(f"{url}/events/{event}/reward", {"value": 1.0}) == 204


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    "bodies", [1500, pytest.param(50_000, marks=pytest.mark.chaos)], ids=["some", "many"]
)
def test_mutated_bodies(bodies: int, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/c.db"
    with (
        private_coordinator(store, model="news", recipe=RECIPE) as coordinator,
        running(coordinator, tmp_path / "edge") as (url, process),
    ):
        bombard(url, process.pid, bodies=bodies, seed=3)
