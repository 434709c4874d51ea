"""Coordinators for tests: inside this process, or as a process of its own that can be killed."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from starlette.testclient import TestClient

import fedbandit as fb
from fedbandit import wire
from fedbandit.service.http.app import make_app
from fedbandit.service.models.model import DEFAULT_LIMITS, new_model
from fedbandit.service.settings import Settings
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_database, open_store
from fedbandit.service.tokens import new_token

OPEN = Settings(open=True, remember_seconds=0.0)
BODY = {"Content-Type": wire.MEDIA_TYPE}


def make_model(
    url: str,
    name: str,
    recipe: fb.Recipe,
    *,
    limits: wire.Limits = DEFAULT_LIMITS,
    relays: int = 0,
) -> None:
    """Make a model in a store."""
    store = open_store(url, create=True)
    store.create(*new_model(name, recipe, limits=limits, relays=relays))
    store.close()


def make_token(url: str, *, model: str | None, agent: str | None) -> str:
    """Make a token in a store."""
    secret, token = new_token(model=model, agent=agent)
    store = open_store(url)
    store.add_token(token)
    store.close()
    return secret


@contextmanager
def client_of(store: Store | str, settings: Settings = OPEN) -> Iterator[TestClient]:
    """Run a coordinator in this process."""
    opened = open_store(store, create=True) if isinstance(store, str) else store
    with TestClient(make_app(opened, settings)) as client:
        yield client


def sync_path(model: str = "news", agent: str = "phone") -> str:
    """Return where an agent posts its uploads."""
    return f"/v1/models/{model}/agents/{agent}/sync"


def state_path(model: str = "news", agent: str = "phone") -> str:
    """Return where an agent joins."""
    return f"/v1/models/{model}/agents/{agent}/state?format={wire.FORMAT}"


def post(client: Any, sync: wire.Sync, *, model: str = "news", agent: str = "phone") -> wire.Synced:
    """Post a sync that is answered."""
    answer = client.post(sync_path(model, agent), content=wire.encode_sync(sync), headers=BODY)
    assert answer.status_code == 200, answer.text
    return wire.decode_synced(answer.content)


def stored(url: str, name: str = "news") -> fb.Download:
    """Return the state in a store."""
    store = open_store(url)
    download = wire.decode(store.state(name)[1])
    store.close()
    assert isinstance(download, fb.Download)
    return download


def overwrite(url: str, statement: str, *values: object) -> None:
    """Change a store behind its back, as a bad disk or a careless hand does."""
    database = open_database(url, create=False)
    with database.session("write") as session:
        session.run(statement, values)
    database.close()


@contextmanager
def unwritable(url: str) -> Iterator[None]:
    """Keep everybody else from writing to a store for as long as a block runs."""
    database = open_database(url, create=False)
    with database.session("write") as session:
        session.run("UPDATE fedbandit SET version = version")
        yield
    database.close()


@dataclass
class Process:
    """A coordinator in a process of its own."""

    process: subprocess.Popen[str]
    address: str

    @property
    def worker(self) -> int:
        """The id of the process that merges for it; waits for one that is being started."""
        deadline = time.monotonic() + 60
        while (found := self._worker()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found

    def _worker(self) -> int | None:
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return next((int(pid) for each in children for pid in each.read_text().split()), None)

    @property
    def pids(self) -> tuple[int, int]:
        """The ids of its two processes."""
        return self.process.pid, self.worker

    def kill(self) -> None:
        """End it without warning, and wait for the process that merges for it: that notices."""
        worker = self._worker() if self.process.poll() is None else None
        self.process.kill()
        self._wait()
        while worker and Path(f"/proc/{worker}/stat").exists():
            time.sleep(0.005)

    def kill_worker(self) -> None:
        """End the process that merges for it without warning."""
        os.kill(self.worker, signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.process.terminate()
        return self._wait()

    def _wait(self) -> int:
        code = self.process.wait(30)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


def free_address() -> str:
    """Return an address on which a coordinator can be started, killed, and started again.

    The system gives ports from 32768 on to connections that go out: while the coordinator is
    away, one of those could take its port.
    """
    while True:
        address = ("127.0.0.1", 20_000 + secrets.randbelow(12_768))
        with socket.socket() as tried, suppress(OSError):
            tried.bind(address)
            return f"{address[0]}:{address[1]}"


def start(
    url: str, *options: str, listen: str | None = None, stderr: IO[str] | None = None
) -> Process:
    """Start ``fedbandit serve`` and wait until it says where."""
    listen = listen or free_address()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "fedbandit.cli", "serve"),
            *("--store", url, "--listen", listen, *options),
        ],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said.startswith("fedbandit: serving at "), said
    return Process(process, said.split()[-1])


@contextmanager
def running(url: str, *options: str, stderr: IO[str] | None = None) -> Iterator[Process]:
    """Run a coordinator as a process of its own, and kill it in the end."""
    process = start(url, *options, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()


def metric(process: Process, name: str) -> int:
    """Return the sum of a metric over its labels, of a coordinator that asks for no tokens."""
    with urllib.request.urlopen(f"{process.address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(line.split()[-1]) for line in lines if line.startswith(name))
