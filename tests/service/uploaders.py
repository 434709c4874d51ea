"""Agents reduced to what the coordinator sees of them: uploads that are retried until answered."""

import http.client
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import fedbandit as fb
from fedbandit import wire
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import BODY, sync_path

Where = Callable[[], str]


@dataclass
class Uploader:
    """One agent with one life. ``merged`` holds what was acknowledged, by its place in the order.

    ``told`` holds the states that it was told, encoded, by version.
    """

    agent: str
    life: int
    where: Where
    uploads: int
    merged: dict[int, fb.Upload] = field(default_factory=dict)
    told: dict[int, bytes] = field(default_factory=dict)
    copies: int = 0
    done: int = 0
    stopped: bool = False
    problem: str = ""

    def run(self) -> None:
        """Upload one after another; send some answered ones again."""
        rng = random.Random(self.life)
        for sequence in range(1, self.uploads + 1):
            seed = 1000 * self.life + sequence
            sync = sync_for(RECIPE, seed, life=self.life, sequence=sequence)
            for again in range(1 + (rng.random() < 0.3)):
                answer = self._until_answered(wire.encode_sync(sync))
                if answer is None:
                    return
                if again and answer.merged:
                    self.problem = f"{sequence} was merged twice"
                self.copies += not answer.merged
                self.merged[answer.version] = sync.upload
                self.told[answer.download.version] = wire.encode(answer.download)
            self.done = sequence

    def _until_answered(self, body: bytes) -> wire.Synced | None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not self.stopped:
            try:
                status, data = _post(self.where(), sync_path(agent=self.agent), body)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            if status == 200:
                return wire.decode_synced(data)
            if status != 503:
                self.problem = f"{status}: {data[:200]!r}"
                return None
            time.sleep(0.02)
        self.problem = "no answer within a minute"
        return None


def _post(address: str, path: str, body: bytes) -> tuple[int, bytes]:
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    try:
        connection.request("POST", path, body, BODY)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def start_all(uploaders: list[Uploader]) -> list[threading.Thread]:
    """Start a thread for each."""
    threads = [threading.Thread(target=each.run, daemon=True) for each in uploaders]
    for thread in threads:
        thread.start()
    return threads


def in_order(uploaders: list[Uploader]) -> list[fb.Upload]:
    """Return everything acknowledged, in the order of merging, each version once."""
    everything: dict[int, fb.Upload] = {}
    for uploader in uploaders:
        assert uploader.problem == ""
        assert not everything.keys() & uploader.merged.keys()
        everything |= uploader.merged
    assert sorted(everything) == list(range(1, len(everything) + 1))
    return [everything[version] for version in sorted(everything)]


def states_told(uploaders: list[Uploader]) -> dict[int, bytes]:
    """Return every state that was told, by version; all who were told one were told the same."""
    told: dict[int, bytes] = {}
    for uploader in uploaders:
        assert all(told.get(version, state) == state for version, state in uploader.told.items())
        told |= uploader.told
    return told
