"""What answers, the way to them, and log lines give away: nothing."""

import asyncio
import hmac
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.http.app import make_app
from fedbandit.service.settings import Settings
from fedbandit.service.storage.opening import open_store
from fedbandit.service.tokens import digest_of, new_token, opens
from tests.service.made_uploads import GRAM, RECIPE, sync_for
from tests.service.running import BODY, make_model, make_token, running, state_path, sync_path

DOORS = [("news", "phone"), ("news", "other"), ("shop", "phone"), ("gone", "phone"), ("n x", "é")]
"""Of the first there is a token; the rest are others of the model, another model, and none."""


@pytest.fixture
def url(sqlite_url: Callable[[], str]) -> str:
    made = sqlite_url()
    make_model(made, "news", RECIPE)
    make_model(made, "shop", GRAM)
    return made


# The way to an answer --------------------------------------------------------------------------


def steps_of(do: Callable[[], object]) -> list[tuple[str, int]]:
    """Return every line of the service that runs while something is done in this thread."""
    seen: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if f"fedbandit{os.sep}service" not in frame.f_code.co_filename:
            return None
        seen.append((f"{frame.f_code.co_filename} {event}", frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
    assert seen
    return seen


def test_a_token_that_does_not_fit_takes_the_same_way_whatever_it_was_tried_on(url: str) -> None:
    """Neither agents nor models can be found out by how long a refusal takes, or by its bytes."""
    mine, stranger = make_token(url, model="news", agent="phone"), "x" * 43
    settings = Settings(remember_seconds=0.0, refusal_seconds=0.0)
    app, told = make_app(open_store(url), settings), set()

    def refused(secret: str, model: str, agent: str) -> None:
        told.add(asyncio.run(_answer(app, state_path(model, agent), secret)))

    for secret, doors in ((mine, DOORS[1:]), (stranger, DOORS)):
        refused(secret, "warm", "up")
        ways = [steps_of(partial(refused, secret, model, agent)) for model, agent in doors]
        assert all(way == ways[0] for way in ways)
    assert len(told) == 1
    assert told.pop()[0] == 401


def test_a_refusal_takes_as_long_for_a_token_that_is_known_as_for_one_that_is_not(url: str) -> None:
    """Also where one is in the coordinator's memory, and the other one is in no store."""
    mine, stranger = make_token(url, model="news", agent="phone"), "x" * 43
    pause = 0.3
    app = make_app(open_store(url), Settings(remember_seconds=60.0, refusal_seconds=pause))

    async def play() -> None:
        assert (await _answer(app, state_path(), mine))[0] == 200  # now it is remembered
        for secret in (mine, stranger, ""):
            began = time.monotonic()
            assert (await _answer(app, state_path(agent="other"), secret))[0] == 401
            assert time.monotonic() - began >= pause  # longer than any of them needs

    asyncio.run(play())


async def _answer(app: Any, path: str, secret: str) -> tuple[int, tuple[Any, ...], bytes]:
    """Ask an application in this very thread; return the status, the headers and the body."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path.partition("?")[0],
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": [(b"host", b"x"), (b"authorization", f"Bearer {secret}".encode())],
    }
    await app(scope, receive, send)
    return sent[0]["status"], tuple(sorted(sent[0]["headers"])), sent[1]["body"]


def test_tokens_are_compared_by_their_hashes_in_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Always both comparisons, of digests of one length, and no other."""
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr("fedbandit.service.tokens.hmac.compare_digest", compare)
    secret, token = new_token(model="news", agent="phone")
    ways = []
    for found in (token, None):
        for given in (secret, "", "x" * 43):
            for model, agent in DOORS:
                compared.clear()
                digest = digest_of(given)
                right = found is token and given == secret and (model, agent) == DOORS[0]
                way = steps_of(partial(opens, found, digest, model=model, agent=agent))
                assert opens(found, digest, model=model, agent=agent) == right
                assert compared == [(32, 32)] * 4
                ways.append(way)
    assert all(way == ways[0] for way in ways)


# Log lines -------------------------------------------------------------------------------------


def test_a_coordinators_log_lines_give_nothing_away(url: str, tmp_path: Path) -> None:
    secret, admin = (
        make_token(url, model="news", agent="phone"),
        make_token(url, model=None, agent=None),
    )
    wrong, log = "a-wrong-token", tmp_path / "log"
    sync = sync_for(RECIPE, 1)
    with log.open("w") as stderr, running(url, stderr=stderr) as process:
        for token in (secret, admin, wrong, f"{secret}\x7f"):
            for path in (sync_path(), sync_path("gone"), f"/{secret}", f"{state_path()}&{secret}"):
                for body in (wire.encode_sync(sync), b"nonsense", None):
                    _status(process.address + path, body, BODY | _bearer(token))
        room = (4096, resource.RLIM_INFINITY)  # enough for the log, not for the store
        resource.prlimit(process.worker, resource.RLIMIT_FSIZE, room)
        later = sync_for(RECIPE, 2, sequence=2)
        body = wire.encode_sync(later)
        assert _status(process.address + sync_path(), body, BODY | _bearer(secret)) == 503
        process.stop()
    said = log.read_text()
    assert "the store cannot be" in said  # it does say something
    _check_silent(said, [secret, admin, wrong, "nonsense", "Bearer"], [sync.upload, later.upload])


def test_a_sidecars_log_lines_give_nothing_away(url: str, tmp_path: Path) -> None:
    make_model(url, "eager", fb.FedLinUCB(dimension=8, agents=2, alpha=1e-9))
    secret, revoked = make_token(url, model="eager", agent="e"), open_store(url)
    log, environment = (
        tmp_path / "log",
        os.environ | {"FEDBANDIT_TOKEN": secret, "FEDBANDIT_COMPILE": "0"},
    )
    words = ["--model", "eager", "--agent", "e", "--listen", "127.0.0.1:0", "--state-dir"]
    question = {
        "eventId": "visit-of-alice",
        "contextFeatures": {"name": "alice-in-context"},
        "actions": [{"id": "an-action", "features": {"topic": "a-topic"}}],
    }
    with running(url) as coordinator, log.open("w") as stderr:
        command = [sys.executable, "-m", "fedbandit.cli", "edge", *words, str(tmp_path / "s")]
        command += ["--coordinator", coordinator.address]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
        ) as edge:
            assert edge.stdout is not None
            place = edge.stdout.readline().split()[-1]
            revoked.revoke(revoked.tokens()[0].name)
            revoked.close()
            time.sleep(1.1)  # as long as a coordinator may believe in it
            asked = json.dumps(question).encode()
            assert _status(f"{place}/rank", asked, JSON) == 201
            for value in (b'{"value": 0.7182818}', b'{"value": 0.7182818}', b'{"value": "secret"}'):
                _status(f"{place}/events/visit-of-alice/reward", value, JSON)
            edge.terminate()
            assert edge.wait(30) == 0
    said = log.read_text()
    assert "401" in said  # it does say something
    words = [secret, "alice", "an-action", "a-topic", "7182818", "Bearer", "secret"]
    _check_silent(said, words, [])


JSON = {"Content-Type": "application/json"}


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def _status(url: str, body: bytes | None, headers: dict[str, str]) -> int:
    try:
        with urlopen(Request(url, body, headers), timeout=30) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


def _check_silent(said: str, words: list[str], uploads: list[fb.Upload]) -> None:
    for word in words:
        assert word not in said
    numbers = [float(each) for each in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", said)]
    for upload in uploads:
        assert isinstance(upload.summary, fb.Sketch)
        for value in (*upload.moment, *upload.summary.rows.ravel()):
            assert not any(np.isclose(value, each, rtol=1e-3) for each in numbers)
