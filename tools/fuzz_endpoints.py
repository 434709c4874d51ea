"""Coverage-guided fuzzing of every endpoint: ``python tools/fuzz_endpoints.py -runs=100000``.

The first byte of what atheris grows chooses an endpoint of the coordinator or of the sidecar, the
rest is the name in its path and its body. Requests go to the applications themselves, without a
network. No answer may be a 5xx or break off, and what was refused must have changed nothing.
"""

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote

import atheris

os.environ["FEDBANDIT_COMPILE"] = "0"  # what is instrumented cannot be compiled

MODULES = ["fedbandit.wire", "fedbandit.service", "fedbandit.edge", "fedbandit.web"]
with atheris.instrument_imports(include=MODULES):
    import fedbandit as fb
    from fedbandit import wire
    from fedbandit.client.agent import ConnectedAgent
    from fedbandit.client.connecting import open_state, waiting_for
    from fedbandit.client.state.directory import Identity
    from fedbandit.edge.app import make_app as sidecar_of
    from fedbandit.errors import Unreachable
    from fedbandit.service.http.app import make_app as coordinator_of
    from fedbandit.service.models.model import new_model
    from fedbandit.service.settings import Settings
    from fedbandit.service.storage.contract import Store
    from fedbandit.service.storage.opening import open_store

RECIPE = fb.FSCLB(dimension=3, sketch_size=3, agents=2)
JSON = b"application/json"
ENDPOINTS: tuple[tuple[str, str, str, bytes], ...] = (  # whose, method, path, content type
    ("coordinator", "POST", "/v1/models/news/agents/phone/sync", wire.MEDIA_TYPE.encode()),
    ("coordinator", "POST", "/v1/models/{}/agents/{}/sync", wire.MEDIA_TYPE.encode()),
    ("coordinator", "GET", "/v1/models/news/agents/{}/state", b""),
    ("coordinator", "GET", "/v1/models/news/agents/phone/state?have={}", b""),
    ("coordinator", "GET", "/{}", b""),
    ("sidecar", "POST", "/rank", JSON),
    ("sidecar", "POST", "/rank", JSON),
    ("sidecar", "POST", "/events/e/reward", JSON),
    ("sidecar", "POST", "/events/{}/reward", JSON),
    ("sidecar", "POST", "/events/{}/activate", b""),
    ("sidecar", "GET", "/{}", b""),
)


class Nobody:
    """A transport that reaches nobody."""

    def exchange(self, path: str, body: bytes | None = None, /) -> bytes:
        """Fail."""
        raise Unreachable(f"{path} {len(body or b'')}")

    def close(self) -> None:
        """Do nothing."""


class Fuzzed:
    """Both applications, and what they hold."""

    def __init__(self, place: Path) -> None:
        url = f"sqlite:///{place}/fuzz.db"
        self.store: Store = open_store(url, create=True)
        self.store.create(*new_model("news", RECIPE))
        waiting = waiting_for(None, 0.0)
        who = Identity(model="news", agent="edge")
        transport = Nobody()
        state = open_state(transport, who, recipe=RECIPE, waiting=waiting, max_open=50)
        self.agent = ConnectedAgent(state, transport)
        app = coordinator_of(open_store(url), Settings(open=True, remember_seconds=3600.0))
        self.apps: dict[str, Any] = {"coordinator": app, "sidecar": sidecar_of(self.agent)}
        self.loop = asyncio.new_event_loop()

    def try_bytes(self, data: bytes) -> None:
        """Make one request, and look at what has changed."""
        if not data:
            return
        whose, method, path, kind = ENDPOINTS[data[0] % len(ENDPOINTS)]
        name, _, body = data[1:].partition(b"\n") if "{}" in path else (b"", b"", data[1:])
        before = self.held()
        status = self.loop.run_until_complete(
            _ask(self.apps[whose], method, path.replace("{}", quote(name)), kind, body)
        )
        if status >= 500:
            raise AssertionError(f"{method} {path} {name!r} was answered with {status}")
        if status >= 400 and self.held() != before:
            raise AssertionError(f"{method} {path} was refused and has changed something")

    def held(self) -> tuple[object, ...]:
        """Return what requests may change: versions and counts."""
        model, status = self.store.model("news"), self.agent.status()
        return model.version, model.count, status.decisions, status.rewards, status.open


async def _ask(app: Any, method: str, target: str, kind: bytes, body: bytes) -> int:
    """Return the status of the answer to one request."""
    path, _, query = target.partition("?")
    sent: list[dict[str, Any]] = []
    asked = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return asked.pop() if asked else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [*headers, (b"content-type", kind)],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
        "state": {},
    }
    await app(scope, receive, send)
    return int(sent[0]["status"])


def seeds() -> list[bytes]:
    """Return a good request to every endpoint."""
    download = RECIPE.server().download()
    upload = fb.Upload(0, fb.Statistics(download.summary, download.moment, 1))
    sync = wire.encode_sync(wire.Sync(wire.fingerprint(RECIPE), bytes(16), 1, upload))
    question = (
        b'{"eventId": "e", "contextFeatures": [{"a": {"b": 0.5}, "c": "d"}], "excludedActions": '
        b'["y"], "actions": [{"id": "x", "features": [{"t": true}]}, {"id": "y"}]}'
    )
    arms = b'{"actions": [{"id": "x", "features": [0.1, 0.2, 0.3]}], "deferActivation": true}'
    value = b'{"value": 0.5}'
    bodies = [sync, b"news\n" + sync, b"phone", b"3", b"metrics", question, arms]
    bodies += [value, b"e\n" + value, b"e", b"healthz"]
    return [bytes([number]) + body for number, body in enumerate(bodies)]


def main() -> None:
    """Fuzz, starting from good requests; the options are libFuzzer's."""
    with TemporaryDirectory() as place, TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds()):
            (Path(corpus) / f"{number}").write_bytes(seed)
        fuzzed = Fuzzed(Path(place))
        for seed in seeds():
            fuzzed.try_bytes(seed)
        atheris.Setup([*sys.argv, corpus], fuzzed.try_bytes)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
