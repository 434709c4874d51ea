"""Hostile bodies and requests to a real coordinator: nothing but 4xx, and nothing changes."""

import http.client
import os
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.triangle import Triangle
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.http.openapi import DESCRIPTION
from tests.service.made_uploads import GRAM, RECIPE, TRIANGLE, merged, sync_for
from tests.service.running import (
    BODY,
    Process,
    client_of,
    make_model,
    make_token,
    running,
    stored,
    sync_path,
)

NASTY: list[object] = [
    *(None, True, -1, 0, 2**63, 2**64 - 1, 1.5, float("nan"), float("inf"), -0.0, 1e308),
    *("", "sync", "x" * 99, b"", b"\xff" * 16, bytes(8), [], {}, [[]], [1, 2, 3], {"a": 1}),
]


@pytest.fixture
def url(sqlite_url: Callable[[], str]) -> str:
    made = sqlite_url()
    make_model(made, "news", RECIPE)
    make_model(made, "shop", GRAM)
    make_model(made, "fair", TRIANGLE)
    return made


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    with client_of(url) as made:
        yield made


def _bytes_changed(rng: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(rng.choice([1, 1, 2, 8])):
        place, length = rng.randrange(len(changed) + 1), rng.choice([0, 1, 1, 4, 40])
        changed[place : place + length] = rng.randbytes(rng.choice([0, 1, 1, 4, 40]))
    return bytes(changed)


def _fields_changed(rng: random.Random, body: bytes) -> bytes:
    whole = part = msgspec.msgpack.decode(body)
    while True:
        index = rng.randrange(len(part))
        if not isinstance(part[index], list) or not part[index] or rng.random() < 0.2:
            break
        part = part[index]
    part[index] = rng.choice(NASTY)
    return msgspec.msgpack.encode(whole)


def _numbers_changed(rng: random.Random, sync: wire.Sync) -> bytes:
    """Return a sync of the right shape with numbers that no agent observes."""
    upload = sync.upload
    scale = rng.choice([0.0, -1.0, 1e-320, 1e8, 1e80, 1e200, float("nan"), float("inf")])
    summary: fb.Sketch | fb.Gram | Triangle
    with np.errstate(all="ignore"):
        if isinstance(upload.summary, fb.Sketch):
            rows = upload.summary.rows * rng.choice([1.0, scale])
            summary = fb.Sketch(rows, rng.choice([0.0, scale]), upload.summary.size)
        elif isinstance(upload.summary, Triangle):
            diagonal = upload.summary.diagonal * rng.choice([1.0, scale])
            raised, shed = rng.choice([0.0, scale]), rng.choice([0.0, scale])
            summary = Triangle("int8", diagonal, upload.summary.codes, raised, shed)
        else:
            summary = fb.Gram(np.asarray(GRAM.parts.memory.pack(upload.summary)["matrix"]) * scale)
        moment = upload.moment * rng.choice([1.0, scale])
        changed = fb.Upload(
            0, fb.Statistics(summary, moment, rng.choice([upload.count, 0, 1, 2**62]))
        )
        return wire.encode_sync(
            wire.Sync(sync.fingerprint, sync.life, sync.sequence, changed, sync.born)
        )


def bombard(process: Process, url: str, *, bodies: int, seed: int) -> None:
    """Post mutated bodies; those that still make sense are merged, and nothing else is."""
    rng, base = random.Random(seed), 0.0
    taken: dict[str, list[fb.Upload]] = {"news": [], "shop": [], "fair": []}
    models = [("news", RECIPE), ("shop", GRAM), ("fair", TRIANGLE)]
    with _kept_open(process) as connection:
        for number in range(bodies):
            model, recipe = rng.choice(models)
            sync = sync_for(recipe, number, sequence=rng.choice([1, number + 1]))
            body = wire.encode_sync(sync)
            make = rng.choice([_bytes_changed, _fields_changed, None])
            body = make(rng, body) if make else _numbers_changed(rng, sync)
            agent = f"phone-{number // 100}"  # one may not be refused much more often at once
            status, answer = _post(connection, sync_path(model, agent), body)
            assert status in (200, 409, 410, 413, 422), answer
            if status != 200:
                assert set(msgspec.json.decode(answer)["error"]) == {"field", "message"}
            elif wire.decode_synced(answer).merged:
                taken[model].append(wire.decode_sync(body).upload)
            if number == bodies // 10:
                base = resident(process)
    assert resident(process) - base < 16e6
    for model, recipe in models:
        expected = merged(recipe, taken[model]).whole()
        kept = wire.encode(stored(url, model))
        assert kept == wire.encode(expected)
        server_at(recipe, kept)  # a restart takes it


@contextmanager
def _kept_open(process: Process) -> Iterator[http.client.HTTPConnection]:
    place = urlsplit(process.address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    try:
        yield connection
    finally:
        connection.close()


def _post(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int, bytes]:
    connection.request("POST", path, body, BODY)
    answer = connection.getresponse()
    return answer.status, answer.read()


def resident(process: Process) -> float:
    """Return the bytes of memory that a coordinator's processes hold."""
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in process.pids]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def test_mutated_bodies_and_an_honest_agent_after_them(url: str) -> None:
    with running(url, "--open") as process:
        bombard(process, url, bodies=1500, seed=0)
        before, body = stored(url).version, wire.encode_sync(sync_for(RECIPE, 1, life=5))
        with _kept_open(process) as connection:
            status, answer = _post(connection, sync_path(agent="honest"), body)
        assert (status, wire.decode_synced(answer).version) == (200, before + 1)


@pytest.mark.chaos
def test_a_hundred_thousand_mutated_bodies(url: str) -> None:
    with running(url, "--open") as process:
        bombard(process, url, bodies=100_000, seed=1)


@pytest.mark.parametrize("size", [0, 1, 10, 100, 400])
def test_noise(client: TestClient, url: str, size: int) -> None:
    for seed in range(20):
        body = random.Random(seed).randbytes(size)
        assert client.post(sync_path(), content=body, headers=BODY).status_code == 422
    assert stored(url).version == 0


def test_deep_and_boastful_bodies(client: TestClient) -> None:
    for body in (
        b"\x91" * 500,
        b"\x98\xa4sync" + b"\x91" * 400,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x98\xa4sync\x01\xd9\x10" + b"\xff" * 16,
    ):
        assert client.post(sync_path(), content=body, headers=BODY).status_code == 422


@pytest.mark.chaos
def test_many_slow_senders_of_large_bodies_take_bounded_memory(
    sqlite_url: Callable[[], str],
) -> None:
    url, recipe = sqlite_url(), fb.FedLinUCB(dimension=1000, agents=2)
    make_model(url, "large", recipe)
    make_model(url, "news", RECIPE)
    with running(url, "--open", "--body-seconds", "60") as process, ExitStack() as slow:
        before, place = resident(process), urlsplit(process.address)
        for number in range(100):
            sender = slow.enter_context(socket.create_connection((place.hostname, place.port)))
            head = f"POST {sync_path('large', f'a{number}')} HTTP/1.1\r\nHost: localhost\r\n"
            head += f"Content-Type: {wire.MEDIA_TYPE}\r\nContent-Length: 8000000\r\n\r\n"
            with suppress(OSError):  # sent away
                sender.sendall(head.encode() + bytes(7_900_000))
        assert resident(process) - before < 2.5 * 2**28
        with _kept_open(process) as connection:
            body = wire.encode_sync(sync_for(RECIPE, 1))
            assert _post(connection, sync_path(), body)[0] == 200


# Requests made from the description ------------------------------------------------------------


OPERATIONS = [
    (path, method.upper(), mode)
    for path, methods in DESCRIPTION["paths"].items()
    for method in methods
    if method != "parameters"
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    if mode is GenerationMode.POSITIVE or "{agent}" in path  # or there is nothing to get wrong
]
every_operation = pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)


REFUSALS = {"expected-statuses": [400, 401, 404, 405, 409, 413, 415, 422]}


@dataclass(frozen=True)
class Guarded:
    """A coordinator that asks for tokens and one that does not, and their stores."""

    urls: list[str]
    tokens: Process
    open: Process
    agent: str
    admin: str


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    place = tmp_path_factory.mktemp("guarded")
    urls = [f"sqlite:///{place}/{name}.db" for name in ("tokens", "open")]
    for url in urls:
        make_model(url, "news", RECIPE)
    agent = make_token(urls[0], model="news", agent="phone")
    admin = make_token(urls[0], model=None, agent=None)
    with (
        running(urls[0], "--wrong-tokens", "1000000") as tokens,
        running(urls[1], "--open") as opened,
    ):
        yield Guarded(urls, tokens, opened, agent, admin)


@schemathesis.serializer(wire.MEDIA_TYPE)
def _serialized(_: object, value: object) -> bytes:
    return value if isinstance(value, bytes) else repr(value).encode()


def hold_to_the_description(
    guarded: Guarded, path: str, method: str, mode: GenerationMode, *, examples: int
) -> None:
    """Make requests from the description, good and bad, and hold the answers against it.

    Not that all is accepted: what a sync is, no description in JSON can tell. Half of the good ones
    come with a token that opens what they ask for, which must be of use to them alone. None of them
    changes anything.
    """
    good = mode is GenerationMode.POSITIVE
    process = guarded.tokens if good else guarded.open
    schema = schemathesis.openapi.from_url(
        f"{process.address}/openapi.json",
        config=SchemathesisConfig.from_dict({"checks": {"negative_data_rejection": REFUSALS}}),
    )

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(schema[path][method].as_strategy(generation_mode=mode), st.booleans())
    def holds(case: "schemathesis.Case[Any]", known: bool) -> None:
        if known and good:
            agents = "agent" in (case.path_parameters or {})
            real = {"model": "news", "agent": "phone"}
            case.path_parameters = {name: real[name] for name in case.path_parameters or {}}
            token = guarded.agent if agents else guarded.admin
            case.headers["Authorization"] = f"Bearer {token}"
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    holds()
    assert [stored(url).version for url in guarded.urls] == [0, 0]


@every_operation
def test_answers_are_as_described(
    guarded: Guarded, path: str, method: str, mode: GenerationMode
) -> None:
    hold_to_the_description(guarded, path, method, mode, examples=25)


@pytest.mark.chaos
@every_operation
def test_answers_are_as_described_to_many_more(
    guarded: Guarded, path: str, method: str, mode: GenerationMode
) -> None:
    hold_to_the_description(guarded, path, method, mode, examples=2000)
