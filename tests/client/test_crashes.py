"""kill -9 of a real agent at any instant: every reward that was given is counted, and once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedbandit as fb
from fedbandit.cli.private_coordinator import private_coordinator
from tests.client.device import DIMENSION
from tests.client.http_twin import serving
from tests.client.proxy import between
from tests.client.twin import Twin
from tests.service.running import make_model, start, stored

RECIPES = {
    "paper": fb.FSCLB(dimension=DIMENSION, sketch_size=3, agents=2),
    "buffered": fb.FSCLB(dimension=DIMENSION, sketch_size=3, agents=2, cadence="buffered"),
}


@dataclass
class Life:
    """What a device has said over all its runs. ``pace``: seconds between decisions, at most."""

    agent: str = "phone-7"
    pace: float = 0.0
    decided: set[int] = field(default_factory=set)
    paid: set[int] = field(default_factory=set)
    next: int = 0
    ended: bool = False

    @property
    def unpaid(self) -> list[int]:
        return sorted(self.decided - self.paid)

    def hear(self, line: str) -> None:
        if line.endswith("\n") and not line.startswith("delivered"):  # not torn by the kill
            what, arm = line.split()
            {"decided": self.decided, "rewarded": self.paid}[what].add(int(arm))

    def end(self, code: int) -> None:
        """A decision may have been made and not told: its arm is left out, and never paid."""
        self.next = max(self.next, max(self.decided, default=-1) + 1) + 1
        self.ended = code == 0


def run(life: Life, url: str, place: Path, *, seed: int, kill_after: int | None) -> None:
    """Run the device where it stopped; kill it a moment after it has said that many words."""
    command = [sys.executable, "-m", "tests.client.device", url, life.agent, str(place), str(seed)]
    command += [str(life.pace), str(life.next), str(DIMENSION), *map(str, life.unpaid)]
    environment = os.environ | {"FEDBANDIT_COMPILE": "0", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as device:
        assert device.stdout is not None
        for said, line in enumerate(device.stdout, start=1):
            life.hear(line)
            if said == kill_after:
                time.sleep(random.Random(seed).uniform(0.0, 0.003))
                device.kill()
    life.end(device.returncode)
    assert device.returncode == (0 if kill_after is None else -signal.SIGKILL)


def be_killed(life: Life, url: str, place: Path, *, kills: int, seed: int) -> None:
    """Run the device, killed at random instants."""
    chance = random.Random(seed)
    for turn in range(kills):
        run(life, url, place, seed=seed + turn, kill_after=chance.randint(1, 60))


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
        expected[list(life.decided)] += 1.0
    assert_array_equal(found.moment, expected)
    assert found.count == sum(len(life.decided) for life in lives)


def survive(recipe: fb.Recipe, place: Path, *, kills: int, seed: int) -> None:
    twin, life = Twin(recipe), Life()
    with serving(twin, trouble=0.2, seed=seed) as server:
        be_killed(life, server.url, place, kills=kills, seed=seed)
        finish(life, server.url, place, seed=seed)
    check([life], twin.server)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_nothing_is_lost_and_nothing_counted_twice(recipe: fb.Recipe, tmp_path: Path) -> None:
    survive(recipe, tmp_path / "state", kills=3, seed=7)


def test_against_the_real_coordinator_through_a_proxy_that_cuts_and_copies(
    tmp_path: Path, sqlite_url: Callable[[], str]
) -> None:
    life, store = Life(), sqlite_url()
    with private_coordinator(store, model="news", recipe=RECIPES["paper"]) as url:
        run(life, url, tmp_path / "state", seed=1, kill_after=1)  # joins without the proxy
        with between(int(url.rpartition(":")[2]), seed=3) as proxy:
            be_killed(life, proxy.url, tmp_path / "state", kills=3, seed=2)
            finish(life, proxy.url, tmp_path / "state", seed=2)
    check([life], stored(store))


@dataclass
class Mortal:
    """A coordinator, a process of its own, that is killed and comes back at the same address."""

    store: str
    kills: int = 0

    def __post_init__(self) -> None:
        self.process = start(self.store, "--open")
        self.url = self.process.address

    def die(self) -> None:
        self.process.kill()
        self.kills += 1
        self.process = start(self.store, "--open", listen=self.url.removeprefix("http://"))


def all_killed(store: str, place: Path, *, kills: int, seed: int) -> None:
    """Kill two agents that often each, and their coordinator as often as both, all at a time."""
    make_model(store, "news", RECIPES["paper"])
    lives = [Life(agent=f"phone-{i}", pace=0.02) for i in range(2)]
    places = [place / life.agent for life in lives]
    chance, coordinator = random.Random(seed), Mortal(store)
    url, seeds = coordinator.url, [seed + 1000, seed + 2000]
    try:
        with ThreadPoolExecutor() as pool:
            join = partial(run, url=url, seed=seed, kill_after=1)  # while there is one to join
            list(pool.map(lambda life, home: join(life, place=home), lives, places))
            killing = [
                pool.submit(be_killed, life, url, home, kills=kills, seed=own)
                for life, home, own in zip(lives, places, seeds, strict=True)
            ]
            while coordinator.kills < 2 * kills or not all(each.done() for each in killing):
                time.sleep(chance.uniform(0.0, 0.5))
                coordinator.die()
            for each in killing:
                each.result()
            list(pool.map(lambda life, home: finish(life, url, home, seed=seed), lives, places))
    finally:
        coordinator.process.kill()
    check(lives, stored(store))


def test_agents_and_their_coordinator_killed_at_a_time(
    tmp_path: Path, sqlite_url: Callable[[], str]
) -> None:
    all_killed(sqlite_url(), tmp_path, kills=1, seed=5)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(5))
def test_fifty_kills_of_agents_and_fifty_of_their_coordinator(
    store_url: str, tmp_path: Path, seed: int
) -> None:
    all_killed(store_url, tmp_path, kills=5, seed=100 + seed)
