"""Hostile bodies and requests: nothing but 4xx, and nothing changes."""

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.model import server_at
from fedbandit.service.openapi import DESCRIPTION
from tests.service.made_uploads import GRAM, RECIPE, merged, sync_for
from tests.service.running import BODY, client_of, make_model, post, stored, sync_path

NASTY: list[object] = [
    *(None, True, -1, 0, 2**63, 2**64 - 1, 1.5, float("nan"), float("inf"), -0.0, 1e308),
    *("", "sync", "x" * 99, b"", b"\xff" * 16, bytes(8), [], {}, [[]], [1, 2, 3], {"a": 1}),
]


@pytest.fixture
def url(sqlite_url: Callable[[], str]) -> str:
    made = sqlite_url()
    make_model(made, "news", RECIPE)
    make_model(made, "shop", GRAM)
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
    summary: fb.Sketch | fb.Gram
    with np.errstate(all="ignore"):
        if isinstance(upload.summary, fb.Sketch):
            rows = upload.summary.rows * rng.choice([1.0, scale])
            summary = fb.Sketch(rows, rng.choice([0.0, scale]), upload.summary.size)
        else:
            summary = fb.Gram(np.asarray(GRAM.parts.memory.pack(upload.summary)["matrix"]) * scale)
        moment = upload.moment * rng.choice([1.0, scale])
        changed = fb.Upload(0, summary, moment, rng.choice([upload.count, 0, 1, 2**62]))
        return wire.encode_sync(
            wire.Sync(sync.fingerprint, sync.life, sync.sequence, changed, sync.born)
        )


def _bombard(client: TestClient, url: str, *, bodies: int, seed: int) -> None:
    """Post mutated bodies; those that still make sense are merged, and nothing else is."""
    rng = random.Random(seed)
    taken: dict[str, list[fb.Upload]] = {"news": [], "shop": []}
    for number in range(bodies):
        model, recipe = rng.choice([("news", RECIPE), ("shop", GRAM)])
        sync = sync_for(recipe, number, sequence=rng.choice([1, number + 1]))
        body = wire.encode_sync(sync)
        make = rng.choice([_bytes_changed, _fields_changed, None])
        body = make(rng, body) if make else _numbers_changed(rng, sync)
        answer = client.post(sync_path(model), content=body, headers=BODY)
        assert answer.status_code in (200, 409, 410, 413, 422), answer.text
        if answer.status_code != 200:
            assert set(answer.json()["error"]) == {"field", "message"}
        elif wire.decode_synced(answer.content).merged:
            taken[model].append(wire.decode_sync(body).upload)
    for model, recipe in (("news", RECIPE), ("shop", GRAM)):
        expected = merged(recipe, taken[model]).download()
        kept = wire.encode(stored(url, model))
        assert kept == wire.encode(expected)
        server_at(recipe, kept)  # a restart takes it


def test_mutated_bodies(client: TestClient, url: str) -> None:
    _bombard(client, url, bodies=1500, seed=0)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_hundred_thousand_mutated_bodies(client: TestClient, url: str, seed: int) -> None:
    before = _resident()
    _bombard(client, url, bodies=10_000, seed=seed)
    assert _resident() - before < 100e6


def _resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_an_honest_agent_is_served_after_all_that(client: TestClient, url: str) -> None:
    _bombard(client, url, bodies=100, seed=7)
    before = stored(url).version
    sync = sync_for(RECIPE, 1, life=5)
    assert post(client, sync, agent="honest").version == before + 1


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


def _against_the_description(url: str, examples: int) -> None:
    """Make requests from the OpenAPI description, good and bad, and hold the answers against it."""
    seen = set()
    with client_of(url) as client:
        schema = schemathesis.openapi.from_dict(DESCRIPTION)
        for result in schema.get_all_operations():
            assert isinstance(result, Ok)
            operation = result.ok()
            seen.add(operation.path)
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                _try_operation(client, operation, mode, examples=examples)
    assert seen == set(DESCRIPTION["paths"])


def _try_operation(
    client: TestClient, operation: Any, mode: GenerationMode, *, examples: int
) -> None:
    if mode is GenerationMode.NEGATIVE and not list(operation.iter_parameters()):
        return  # nothing to get wrong

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case: "schemathesis.Case[Any]") -> None:
        headers = {**dict(case.headers or {}), **(BODY if case.method == "POST" else {})}
        body = _as_bytes(case.body)
        request: dict[str, Any] = {"content": body} if case.method == "POST" else {}
        answer = client.request(
            case.method,
            case.formatted_path,
            params=dict(case.query or {}),
            headers={name: value for name, value in headers.items() if _sendable(value)},
            **request,
        )
        known = operation.definition.raw["responses"]
        assert str(answer.status_code) in {*known, "404", "405"}
        assert answer.status_code < 500

    holds()


@schemathesis.serializer(wire.MEDIA_TYPE)
def _serialized(_: object, value: object) -> bytes:
    return _as_bytes(value)


def _as_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else repr(value).encode()


def _sendable(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable()


def test_requests_made_from_the_description(url: str) -> None:
    _against_the_description(url, 20)
    assert (stored(url).version, stored(url, "shop").version) == (0, 0)


@pytest.mark.chaos
def test_many_requests_made_from_the_description(url: str) -> None:
    _against_the_description(url, 2000)
