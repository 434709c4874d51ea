"""Real coordinators: two on one database, stopped in the middle of work, with slow senders."""

import random
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import trustme

from fedbandit import wire
from fedbandit.service.storage.opening import open_store
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.replay import replayed
from tests.service.running import (
    make_model,
    make_token,
    metric,
    running,
    start,
    stored,
    sync_path,
)
from tests.service.uploaders import COPYING, Uploader, in_order, start_all, states_told


def test_two_coordinators_on_one_postgresql(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()
    make_model(url, "news", RECIPE)
    with running(url, *COPYING) as one, running(url, *COPYING) as other:
        rng = random.Random(0)
        agents = [
            Uploader(
                f"agent-{life}", life, lambda: rng.choice([one.address, other.address]), uploads=25
            )
            for life in range(4)
        ]
        for thread in start_all(agents):
            thread.join(60)
    order = in_order(agents)
    assert len(order) == 100
    expected = replayed(RECIPE, order, states_told(agents))
    assert wire.encode(stored(url)) == wire.encode(expected.download())


def test_told_to_stop_it_finishes_what_it_accepted(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    process = start(url, *COPYING)
    agents = [Uploader(f"agent-{life}", life, lambda: process.address, 10**6) for life in range(3)]
    threads = start_all(agents)
    while not all(agent.done >= 5 for agent in agents):
        time.sleep(0.01)
    assert process.stop() == 0
    for agent, thread in zip(agents, threads, strict=True):
        agent.stopped = True
        thread.join(30)
    state = stored(url)
    acknowledged = {v: upload for agent in agents for v, upload in agent.merged.items() if v}
    missing = set(range(1, state.version + 1)) - set(acknowledged)
    assert not missing
    order = [acknowledged[version] for version in sorted(acknowledged)]
    expected = replayed(RECIPE, order, states_told(agents))
    assert wire.encode(state) == wire.encode(expected.download())


@contextmanager
def _raw(address: str) -> Iterator[socket.socket]:
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        yield connection


def _head(length: int, *, agent: str = "phone") -> bytes:
    fields = (
        f"Host: localhost\r\nContent-Type: {wire.MEDIA_TYPE}\r\nContent-Length: {length}\r\n\r\n"
    )
    return f"POST {sync_path(agent=agent)} HTTP/1.1\r\n{fields}".encode()


def test_slow_and_large_senders_are_sent_away(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    body = wire.encode_sync(sync_for(RECIPE, 1))
    program_options = ("--open", "--body-seconds", "0.3", "--idle-seconds", "0.5")
    with running(url, *program_options) as process:
        with _raw(process.address) as slow:
            slow.sendall(_head(len(body)) + body[:-1])
            assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        with _raw(process.address) as large:
            large.sendall(_head(10**12))
            large.sendall(bytes(2**16))
            assert large.recv(100).startswith(b"HTTP/1.1 413 ")
        with _raw(process.address) as silent:
            silent.sendall(b"POST /v1/mod")
            with suppress(ConnectionResetError):
                assert silent.recv(100) == b""
        with _raw(process.address) as broken:
            broken.sendall(_head(len(body)) + body[:50])
        with _raw(process.address) as whole:
            whole.sendall(_head(len(body)) + body)
            assert whole.recv(100).startswith(b"HTTP/1.1 200 ")
    assert stored(url).version == 1


def test_one_slow_agent_takes_up_its_own_turns_only(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    body = wire.encode_sync(sync_for(RECIPE, 1))
    with (
        running(url, "--open", "--queue", "2") as process,
        _raw(process.address) as one,
        _raw(process.address) as two,
        _raw(process.address) as three,
        _raw(process.address) as other,
    ):
        for slow in (one, two):
            slow.sendall(_head(len(body)) + body[:-1])
        three.sendall(_head(len(body)) + body)
        answer = three.recv(4096)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 1" in answer.lower()
        other.sendall(_head(len(body), agent="other") + body)
        assert other.recv(100).startswith(b"HTTP/1.1 200 ")
        one.sendall(body[-1:])
        assert one.recv(100).startswith(b"HTTP/1.1 200 ")
    assert stored(url).version == 2


def test_tls_and_tokens_outside_loopback(sqlite_url: Callable[[], str], tmp_path: Path) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    secret = make_token(url, model="news", agent="phone")
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    made.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    made.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    process = start(
        url,
        *("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")),
        listen="0.0.0.0:0",
    )
    try:
        place = f"https://127.0.0.1:{urlsplit(process.address).port}"
        request = urllib.request.Request(
            f"{place}/v1/models/news/agents/phone/state?format={wire.FORMAT}",
            headers={"Authorization": f"Bearer {secret}"},
        )
        with urllib.request.urlopen(request, context=trusting, timeout=10) as answer:
            joined = wire.decode_joined(answer.read())
        assert joined.fingerprint == wire.fingerprint(RECIPE)
    finally:
        process.kill()


def test_what_waits_together_is_committed_together(sqlite_url: Callable[[], str]) -> None:
    url = sqlite_url()
    make_model(url, "news", RECIPE)
    blocker = open_store(url)
    with running(url, "--open") as process:
        agents = [Uploader(f"agent-{life}", life, lambda: process.address, 1) for life in range(8)]
        with blocker.lock("news"):  # so that all of them wait
            threads = start_all(agents)
            while metric(process, "fedbandit_waiting") < 8:
                time.sleep(0.01)
        for thread in threads:
            thread.join(60)
        batches = metric(process, "fedbandit_batches_total")
    blocker.close()
    assert batches <= 2 + sum(agent.copies for agent in agents)
    assert len(in_order(agents)) == 8
