"""Relays, roots and agents as real processes and threads over HTTP."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit.client import ConnectedAgent
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.models.model import DEFAULT_LIMITS
from fedbandit.service.relay.relayed import read_relayed
from fedbandit.service.storage.opening import open_store
from tests.service.running import Process, make_model, make_token, start

Array = NDArray[np.float64]


class Place:
    """A coordinator that can be killed and comes back at the same address, on the same store."""

    def __init__(self, url: str, *options: str) -> None:
        self.url, self._options = url, options
        self.process: Process = start(url, *options)
        self.address = self.process.address

    def kill(self) -> None:
        """End it without warning."""
        self.process.kill()

    def start(self) -> None:
        """Start it again, where it was."""
        listen = self.address.removeprefix("http://")
        self.process = start(self.url, *self._options, listen=listen)


class Player(threading.Thread):
    """An agent that decides and gets rewards, and notes what it was rewarded for."""

    def __init__(self, agent: ConnectedAgent, seed: int, dimension: int) -> None:
        super().__init__(daemon=True)
        self.agent, self._rng, self._d = agent, np.random.default_rng(seed), dimension
        self.arms: list[Array] = []
        self.rewards: list[float] = []
        self.slowest = 0.0
        self.enough = False

    def run(self) -> None:
        """Play until told that it is enough."""
        while not self.enough:
            arms = self._rng.standard_normal((4, self._d))
            arms /= np.linalg.norm(arms, axis=1, keepdims=True)
            began = time.perf_counter()
            decision = self.agent.decide(arms)
            reward = float(self._rng.choice([-1.0, 0.5, 1.0]))
            self.agent.reward(decision.id, reward)
            self.slowest = max(self.slowest, time.perf_counter() - began)
            self.arms.append(arms[decision.index])
            self.rewards.append(reward)
            time.sleep(self._rng.uniform(0.0, 0.004))


class Fleet:
    """A root, relays below it, and agents below these, all over HTTP."""

    def __init__(
        self, recipe: fb.Recipe, store: Callable[[], str], tmp: Path, *, relays: int, agents: int
    ) -> None:
        self.recipe = recipe
        url = store()
        make_model(url, "news", recipe, limits=DEFAULT_LIMITS, relays=1)
        self.root = Place(url)
        self.relays = list[Place]()
        for k in range(relays):
            self.add_relay(store(), tmp / f"token-{k}")
        self.players = [
            Player(fb.connect(relay.address, model="news", agent=f"agent-{k}"), k, recipe.dimension)
            for k, relay in enumerate(self.relays * agents)
        ]

    def add_relay(self, url: str, token: Path) -> None:
        """Start one more relay, on this store, with its token in this file."""
        name = f"relay-{len(self.relays)}"
        token.write_text(make_token(self.root.url, model="news", agent=name))
        token.chmod(0o600)
        options = (
            "--open",
            *("--upstream", self.root.address, "--upstream-agent", name),
            *("--upstream-token-file", f"news={token}", "--upstream-wait", "1"),
        )
        self.relays.append(Place(url, *options))

    def stop(self) -> None:
        """End all processes, and all agents."""
        for player in self.players:
            player.enough = True
        for player in self.players:
            player.join(10)
        for place in (self.root, *self.relays):
            place.kill()
        for player in self.players:
            player.agent.close(timeout=0.0)

    def all_alive(self) -> None:
        """Start whatever was killed and not started again."""
        for place in (self.root, *self.relays):
            if place.process.process.poll() is not None:
                place.start()

    def settle(self) -> None:
        """Let agents stop playing, and wait until the root has everything."""
        for player in self.players:
            player.enough = True
        for player in self.players:
            player.join(30)
            assert not player.is_alive()
            assert player.agent.sync(everything=True, timeout=90), player.agent.status()
        played = sum(len(player.arms) for player in self.players)
        deadline = time.monotonic() + 90
        while self.at_root().count < played or not all(map(self.has_passed_on, self.relays)):
            assert time.monotonic() < deadline, (self.at_root().count, played)
            time.sleep(0.1)

    def at_root(self) -> fb.Server:
        """What the root's store holds."""
        store = open_store(self.root.url)
        try:
            return server_at(self.recipe, store.state("news")[1])
        finally:
            store.close()

    def has_passed_on(self, relay: Place) -> bool:
        """Whether nothing waits at a relay."""
        store = open_store(relay.url)
        try:
            with store.lock("news") as locked:
                stored = locked.relaying()
        finally:
            store.close()
        assert stored is not None
        return read_relayed(self.recipe, stored).outbox.empty

    def observed(self) -> tuple[Array, Array]:
        """All arms that were played, and their rewards."""
        arms = [arm for player in self.players for arm in player.arms]
        return np.array(arms), np.array([r for player in self.players for r in player.rewards])


def kill_under_load(fleet: Fleet, *, kills: int, seed: int, pause: float) -> None:
    """Kill relays and the root at random, some for a while, while agents play."""
    rng = random.Random(seed)
    for player in fleet.players:
        player.start()
    places = [fleet.root, *fleet.relays]
    order = [places[k % len(places)] for k in range(kills)]
    rng.shuffle(order)
    for place in order:
        time.sleep(rng.uniform(0.0, pause))
        if rng.random() < 0.3 and place.process.process.poll() is None:
            place.process.kill_worker()
            continue
        place.kill()
        time.sleep(rng.uniform(0.0, pause))
        place.start()
