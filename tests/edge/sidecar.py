"""A sidecar in this process, or as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from starlette.testclient import TestClient

from fedbandit.client import ConnectedAgent
from fedbandit.edge.app import make_app
from fedbandit.web.host_names import LOCAL, HostNames


def sidecar(agent: ConnectedAgent, names: HostNames = LOCAL, *, shadow: bool = False) -> TestClient:
    """Return a client of an agent's sidecar, to be entered; it says localhost, as programs do."""
    return TestClient(make_app(agent, names, shadow=shadow), base_url="http://localhost")


def ask(url: str, given: object = None) -> Any:
    """Post JSON, or get; return the answer's JSON, or its status if there is none."""
    body = None if given is None else json.dumps(given).encode()
    request = Request(url, body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=10) as response:
        text = response.read()
    return json.loads(text) if text else response.status


@contextmanager
def running(
    coordinator: str, place: Path, *more: str
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run the sidecar as a process of its own; yield its address and the process."""
    command = [sys.executable, "-m", "fedbandit.cli", "edge", "--model", "news", "--agent", "e"]
    command += ["--coordinator", coordinator, "--listen", "127.0.0.1:0", "--state-dir", str(place)]
    command += more
    environment = os.environ | {"FEDBANDIT_COMPILE": "0"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1], process
        finally:
            process.kill()
