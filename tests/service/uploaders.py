"""Agents reduced to what the coordinator sees of them: uploads that are retried until answered.

And what must be true of a store that they have uploaded to, whatever happened meanwhile.
"""

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
from tests.service.replay import replayed
from tests.service.running import BODY, Process, state_path, stored, sync_path

Where = Callable[[], str]


@dataclass
class Uploader:
    """One agent with one life. ``merged`` holds what was acknowledged, by its place in the order.

    ``told`` holds the states that it was told, encoded, by version. ``newest`` is the largest place
    that it knows of. ``copies`` and ``late`` count answers to what had been answered before: the
    last upload, and older ones out of order; ``turned_away`` counts 503. It ends
    before its next upload once it has ``enough``, and at once if it is ``stopped``.
    """

    agent: str
    life: int
    where: Where
    uploads: int
    merged: dict[int, fb.Upload] = field(default_factory=dict)
    told: dict[int, bytes] = field(default_factory=dict)
    newest: int = 0
    copies: int = 0
    late: int = 0
    turned_away: int = 0
    done: int = 0
    stopped: bool = False
    enough: bool = False
    problem: str = ""

    def run(self) -> None:
        """Upload one after another; send some answered ones again, and older ones now and then."""
        rng = random.Random(self.life)
        bodies: list[bytes] = []
        for sequence in range(1, self.uploads + 1):
            if self.enough:
                return
            seed = 10**6 * self.life + sequence
            sync = sync_for(RECIPE, seed, life=self.life, sequence=sequence)
            bodies.append(wire.encode_sync(sync))
            for again in range(1 + (rng.random() < 0.3)):
                answer = self._until_answered(bodies[-1])
                if answer is None:
                    return
                if again and answer.merged:
                    self.problem = f"{sequence} was merged twice"
                self.copies += not answer.merged
                self.merged[answer.version] = sync.upload
                self.told[answer.download.version] = wire.encode(answer.download)
                self.newest = max(self.newest, answer.version)
            if len(bodies) > 1 and rng.random() < 0.2 and not self._send_late(rng, bodies[:-1]):
                return
            self.done = sequence

    def _send_late(self, rng: random.Random, older: list[bytes]) -> bool:
        """Send an upload that others followed; say whether it was answered, and not merged."""
        answer = self._until_answered(rng.choice(older))
        if answer is None:
            return False
        if answer.merged or answer.version:
            self.problem = f"a late copy was taken for version {answer.version}"
        self.late += 1
        return True

    def _until_answered(self, body: bytes) -> wire.Synced | None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not self.stopped:
            try:
                status, data = post_once(self.where(), sync_path(agent=self.agent), body)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            if status == 200:
                return wire.decode_synced(data)
            if status != 503:
                self.problem = f"{status}: {data[:200]!r}"
                return None
            self.turned_away += 1
            time.sleep(0.02)
        self.problem = "no answer within a minute"
        return None


COPYING = ("--open", "--fruitless", "1000000")
"""How a coordinator is started for uploaders: they send more copies than one agent usually may."""


def post_once(address: str, path: str, body: bytes) -> tuple[int, bytes]:
    """Post a body over a connection of its own; return status and answer."""
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


@dataclass(frozen=True)
class Look:
    """What a store held at an instant, and the newest version acknowledged before that."""

    acknowledged: int
    held: fb.Download


def look(url: str, uploaders: list[Uploader]) -> Look:
    """Look into a store while agents may be uploading."""
    acknowledged = max(each.newest for each in uploaders)
    return Look(acknowledged, stored(url))


def check_looks(looks: list[Look], uploaders: list[Uploader]) -> None:
    """Everything acknowledged was there at every look, each once, and bit for bit.

    To be called when all uploaders are done: only then is it known what every version was. What
    was seen and what was told must be states that the uploads give, merged in their order.
    """
    order, told = in_order(uploaders), states_told(uploaders)
    assert len(order) == sum(each.done for each in uploaders)
    assert sum(each.late for each in uploaders) > 0
    for seen in looks:
        assert seen.acknowledged <= seen.held.version
        state = wire.encode(seen.held)
        assert told.setdefault(seen.held.version, state) == state
    empty = wire.encode(RECIPE.server().download())
    assert told.get(0, empty) == empty
    assert wire.encode(replayed(RECIPE, order, told).download()) == wire.encode(looks[-1].held)


def served_by(process: Process) -> fb.Download:
    """Return the state that a coordinator tells an agent that joins."""
    place = urlsplit(process.address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    try:
        connection.request("GET", state_path())
        joined = wire.decode_joined(connection.getresponse().read())
    finally:
        connection.close()
    assert joined.download is not None
    return joined.download
