"""kill -9 of a real agent at any instant: every reward that was given is counted, and once.

Arms are unit vectors and every reward is 1, so a moment counts how often each arm was taken in.
After each kill the agent's directory and the coordinator's store are looked into: every reward
given must be merged, or still pending on its agent, and not both.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit import wire
from fedbandit.client.decisions import OpenDecisions
from fedbandit.client.state.directory import Identity, StateDir
from fedbandit.core.kernels.linalg import Array
from fedbandit.service.bookkeeping.deduplication import MergedUploads
from fedbandit.service.private import private_coordinator
from fedbandit.service.storage.opening import open_store
from tests.client.device import DIMENSION
from tests.client.http_twin import serving
from tests.client.proxy import MISCHIEF, Proxy, between
from tests.client.twin import Twin
from tests.service.running import make_model, start, stored

RECIPES = {
    "paper": fb.FSCLB(dimension=DIMENSION, sketch_size=3, agents=2, alpha=1e-3),
    "buffered": fb.FSCLB(dimension=DIMENSION, sketch_size=3, agents=2, cadence="buffered"),
}


@dataclass
class Life:
    """What a device has said over all its runs. ``pace``: seconds between decisions, at most.

    It plays the arms from ``next`` up to ``last``. ``unknown``: decisions that it was told are not
    open, which only a full disk can bring about.
    """

    agent: str = "phone-7"
    pace: float = 0.0
    next: int = 0
    last: int = DIMENSION
    decided: set[int] = field(default_factory=set)
    paid: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    ended: bool = False

    @property
    def unpaid(self) -> list[int]:
        return sorted(self.decided - self.paid - self.unknown)

    def hear(self, line: str) -> None:
        if line.endswith("\n") and not line.startswith("delivered"):  # not torn by the kill
            what, arm = line.split()
            said = {"decided": self.decided, "rewarded": self.paid, "unknown": self.unknown}
            said[what].add(int(arm))

    def end(self, code: int) -> None:
        """A decision may have been made and not told: its arm is left out, and never paid."""
        self.next = max(self.next, max(self.decided, default=-1) + 1) + 1
        self.ended = code == 0


Disk = Callable[["subprocess.Popen[str]", random.Random], None]


def fill_now_and_then(device: "subprocess.Popen[str]", chance: random.Random) -> None:
    """Let none of a device's files grow for a moment, as if its disk were full."""
    if chance.random() < 0.2:
        _limit_files(device, chance.choice([0, chance.randrange(20_000)]))
        Timer(0.05, _limit_files, [device, resource.RLIM_INFINITY]).start()


def _limit_files(device: "subprocess.Popen[str]", size: int) -> None:
    if device.poll() is None:
        limits = (size, resource.RLIM_INFINITY)
        resource.prlimit(device.pid, resource.RLIMIT_FSIZE, limits)


def sound(device: "subprocess.Popen[str]", chance: random.Random) -> None:
    """Leave the disk alone."""
    del device, chance


def run(
    life: Life, url: str, place: Path, *, seed: int, kill_after: int | None, disk: Disk = sound
) -> None:
    """Run the device where it stopped; kill it a moment after it has said that many words."""
    command = [sys.executable, "-m", "tests.client.device", url, life.agent, str(place), str(seed)]
    command += [str(life.pace), str(life.next), str(life.last), *map(str, life.unpaid)]
    environment = os.environ | {"FEDBANDIT_COMPILE": "0", "OPENBLAS_NUM_THREADS": "1"}
    chance = random.Random(seed)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as device:
        assert device.stdout is not None
        for said, line in enumerate(device.stdout, start=1):
            life.hear(line)
            disk(device, chance)
            if said == kill_after:
                time.sleep(chance.uniform(0.0, 0.003))
                device.kill()
    life.end(device.returncode)
    assert device.returncode == (0 if kill_after is None else -signal.SIGKILL)


Merged = Callable[[], tuple[Array, Mapping[str, MergedUploads]]]


def merged_in(store: str) -> tuple[Array, Mapping[str, MergedUploads]]:
    """Return what a coordinator's store holds, at one instant."""
    opened = open_store(store)
    archive = opened.archive("news")
    opened.close()
    download = wire.decode(archive.state)
    assert isinstance(download, fb.Download)
    return download.moment, archive.merged


def merged_by(twin: Twin, agent: str) -> tuple[Array, Mapping[str, MergedUploads]]:
    """Return what a twin has merged."""
    with twin.lock:
        return twin.server.moment.copy(), {agent: twin.ledger}


def look(life: Life, place: Path, merged: Merged) -> None:
    """Every reward given is merged or pending on its agent, once; the device does not run."""
    copied = place.with_name(place.name + "-copy")
    shutil.copytree(place, copied)
    state = StateDir(copied)
    who = Identity(model="news", agent=life.agent)
    found = state.recover(who, OpenDecisions(10_000))
    assert found is not None
    found.learner.flush()
    found.journal.close()
    state.close()
    shutil.rmtree(copied)
    outbox, (total, ledgers) = found.learner.outbox, merged()
    total = total + sum(upload.moment for upload in outbox.waiting)
    last = ledgers.get(life.agent, MergedUploads()).lives.get(outbox.life)
    if outbox.in_flight is not None and (last is None or last.sequence < outbox.sequence):
        total = total + outbox.in_flight.moment
    assert_array_equal(total[sorted(life.paid)], 1.0)
    assert set(total[life.unpaid]) <= {0.0, 1.0}  # a reward may have been given and not told
    assert_array_equal(total[sorted(life.unknown)], 0.0)
    assert_array_equal(total[life.next : life.last], 0.0)


def be_killed(
    life: Life,
    url: str,
    place: Path,
    *,
    merged: Merged,
    kills: int,
    seed: int,
    disk: Disk = sound,
) -> None:
    """Run the device, killed at random instants, and look at what is where after each."""
    chance = random.Random(seed)
    for turn in range(kills):
        kill_after = chance.randint(1, 60)
        run(life, url, place, seed=seed + turn, kill_after=kill_after, disk=disk)
        look(life, place, merged)


def finish(life: Life, url: str, place: Path, *, seed: int) -> None:
    """Run the device to its end, as fast as it can."""
    life.pace = 0.0
    run(life, url, place, seed=seed, kill_after=None)
    assert life.ended
    assert not life.unpaid


def check(lives: list[Life], found: fb.Server | fb.Download) -> None:
    """Every arm that was paid was taken in exactly once, and no other."""
    expected = np.zeros(DIMENSION)
    for life in lives:
        assert life.paid <= life.decided
        expected[list(life.paid)] += 1.0
    assert_array_equal(found.moment, expected)
    assert found.count == sum(len(life.paid) for life in lives)


def survive(recipe: fb.Recipe, place: Path, *, kills: int, seed: int) -> None:
    twin, life = Twin(recipe), Life()
    with serving(twin, trouble=0.2, seed=seed) as server:
        merged = partial(merged_by, twin, life.agent)
        be_killed(life, server.url, place, merged=merged, kills=kills, seed=seed)
        finish(life, server.url, place, seed=seed)
    assert not life.unknown
    check([life], twin.server)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_nothing_is_lost_and_nothing_counted_twice(recipe: fb.Recipe, tmp_path: Path) -> None:
    survive(recipe, tmp_path / "state", kills=3, seed=7)


def disk_filled(store: str, place: Path, *, kills: int, seed: int) -> None:
    """An agent whose disk is full now and then, and that is killed, behind a proxy that cuts."""
    life, merged = Life(), partial(merged_in, store)
    with private_coordinator(store, model="news", recipe=RECIPES["paper"]) as url:
        run(life, url, place, seed=seed, kill_after=1)  # joins without the proxy
        with between(int(url.rpartition(":")[2]), seed=seed) as proxy:
            be_killed(
                life,
                proxy.url,
                place,
                merged=merged,
                kills=kills,
                seed=seed,
                disk=fill_now_and_then,
            )
            proxy.calm = True
            finish(life, proxy.url, place, seed=seed)
    check([life], stored(store))


def test_an_agents_disk_that_is_full_now_and_then(
    tmp_path: Path, sqlite_url: Callable[[], str]
) -> None:
    disk_filled(sqlite_url(), tmp_path / "state", kills=3, seed=2)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(10))
def test_an_agents_disk_that_is_full_often(
    tmp_path: Path, sqlite_url: Callable[[], str], seed: int
) -> None:
    disk_filled(sqlite_url(), tmp_path / "state", kills=10, seed=200 + 100 * seed)


@dataclass
class Mortal:
    """A coordinator, a process of its own, that is killed and comes back at the same address."""

    store: str
    kills: int = 0

    def __post_init__(self) -> None:
        self.process = start(self.store, "--open")
        self.url = self.process.address

    def end(self) -> None:
        self.process.kill()

    def die(self) -> None:
        self.end()
        self.kills += 1
        self.process = start(self.store, "--open", listen=self.url.removeprefix("http://"))


def all_killed(store: str, place: Path, *, kills: int, seed: int) -> Proxy:
    """Kill two agents that often each, and their coordinator as often as both, all at a time.

    Between them stands a proxy that cuts requests and answers and sends copies, some late.
    """
    make_model(store, "news", RECIPES["paper"])
    half = DIMENSION // 2
    lives = [
        Life(agent=f"phone-{i}", pace=0.02, next=i * half, last=(i + 1) * half) for i in range(2)
    ]
    places = [place / life.agent for life in lives]
    chance, coordinator = random.Random(seed), Mortal(store)
    merged, seeds = partial(merged_in, store), [seed + 1000, seed + 2000]
    with ExitStack() as ending:
        ending.callback(coordinator.end)
        pool = ending.enter_context(ThreadPoolExecutor())
        proxy = ending.enter_context(between(int(coordinator.url.rpartition(":")[2]), seed=seed))
        join = partial(run, url=coordinator.url, seed=seed, kill_after=1)  # there is one to join
        list(pool.map(lambda life, home: join(life, place=home), lives, places))
        killing = [
            pool.submit(be_killed, life, proxy.url, home, merged=merged, kills=kills, seed=own)
            for life, home, own in zip(lives, places, seeds, strict=True)
        ]
        while coordinator.kills < 2 * kills or not all(each.done() for each in killing):
            time.sleep(chance.uniform(0.0, 1.5))
            coordinator.die()
        for each in killing:
            each.result()
        proxy.calm = True
        list(pool.map(lambda life, home: finish(life, proxy.url, home, seed=seed), lives, places))
    assert not any(life.unknown for life in lives)
    check(lives, stored(store))
    return proxy


def test_agents_and_their_coordinator_killed_at_a_time(
    tmp_path: Path, sqlite_url: Callable[[], str]
) -> None:
    all_killed(sqlite_url(), tmp_path, kills=1, seed=5)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(5))
def test_fifty_kills_of_agents_and_fifty_of_their_coordinator(
    store_url: str, tmp_path: Path, seed: int
) -> None:
    proxy = all_killed(store_url, tmp_path, kills=5, seed=100 + seed)
    assert all(proxy.done[kind] for kind in MISCHIEF)
    assert stored(store_url).version >= 50  # there was something on its way all the time
