"""Liars with valid tokens: what they get merged, among honest agents, under load and under faults.

And that it can be undone meanwhile, without anything that was acknowledged coming back.
"""

import http.client
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.summary import LossyRows, nothing_lost
from fedbandit.service.bookkeeping.history import History
from fedbandit.service.bookkeeping.quotas import HOUR, NO_QUOTAS, Quotas
from fedbandit.service.bookkeeping.recipes import server_at
from fedbandit.service.merging.merge import merge
from fedbandit.service.models.model import new_model
from fedbandit.service.models.undo import forget_agent, roll_back
from fedbandit.service.storage.contract import Store
from fedbandit.service.storage.opening import open_store
from tests.service.groups.fleet import AGENTS, LIAR, RECIPES, THETA, each_recipe, lie, observed
from tests.service.groups.fleet import made as watched_model
from tests.service.made_uploads import RECIPE, sync_for
from tests.service.running import BODY, OPEN, client_of, post, start, state_path, sync_path
from tests.service.uploaders import COPYING, Uploader, post_once, start_all

LIMITS = wire.Limits(arm_norm=1.0, reward=1.0, count=100)
D = 10
SERVED = {
    "FSCLB": fb.FSCLB(dimension=D, sketch_size=5, agents=20),
    "lean": fb.FSCLB.lean(dimension=D, agents=20),
    "FedLinUCB": fb.FedLinUCB(dimension=D, agents=20),
}


def made(url: str, recipe: fb.Recipe, *, quotas: Quotas, history: History | None = None) -> Store:
    store = open_store(url, create=True)
    history = History() if history is None else history
    store.create(*new_model("news", recipe, limits=LIMITS, quotas=quotas, history=history))
    return store


# Lies that the door knows ------------------------------------------------------------------------


def lies(recipe: fb.Recipe) -> dict[str, fb.Statistics]:
    """Return uploads of 100 observations within the limits that cannot be, by what is wrong."""
    u, v = np.eye(D)[0], np.eye(D)[1]
    rows, none = 10.0 * u[None], np.zeros((0, D))
    empty = recipe.parts.memory.empty().summary
    if isinstance(empty, fb.Gram):
        bent = np.full((D, D), 1.0) + 5.0 * np.eye(D)
        low = np.linalg.eigh(bent)[1][:, 0]
        bent -= (5.0 + 1e-9) * np.outer(low, low)
        return {
            "moment beside the arms": fb.Statistics(fb.Gram(rows.T @ rows), 49.0 * (u + v), 100),
            "negative eigenvalue": fb.Statistics(fb.Gram((bent + bent.T) / 2), np.zeros(D), 100),
            "too many": fb.Statistics(fb.Gram(1e9 * np.outer(u, u)), -1e9 * u, 10**9),
            "no arms": fb.Statistics(fb.Gram(np.zeros((D, D))), u, 100),
        }
    if isinstance(empty, fb.Sketch):
        size = empty.size
        return {
            "all shed": fb.Statistics(fb.Sketch(none, 99.0, size), -90.0 * u, 100),
            "beside the arms": fb.Statistics(fb.Sketch(rows, 0.0, size), 49.0 * (u + v), 100),
            "too many": fb.Statistics(fb.Sketch(none, 1e8, size), -1e8 * u, 10**9),
            "no arms": fb.Statistics(fb.Sketch(none, 0.0, size), u, 100),
        }
    exact, nothing = fitted(nothing_lost(rows), 1e-3), fitted(nothing_lost(none), 1e-3)
    unlost = fitted(LossyRows(none, np.full(D, 50.0), 0.0), 1e-3)
    elsewhere = fitted(LossyRows(none, np.where(u > 0.0, 40.0, 1e-3), 4.5), 1e-3)
    return {
        "a moment beside the bound": fb.Statistics(elsewhere, -200.0 * v, 100),
        "a bound without a loss": fb.Statistics(unlost, -90.0 * u, 100),
        "beside the arms": fb.Statistics(exact, 49.0 * (u + v), 100),
        "too many": fb.Statistics(exact, -1e8 * u, 10**9),
        "no arms": fb.Statistics(nothing, u, 100),
    }


@pytest.mark.parametrize("recipe", SERVED.values(), ids=SERVED)
def test_what_cannot_be_is_refused_and_changes_nothing(
    recipe: fb.Recipe, sqlite_url: Callable[[], str]
) -> None:
    url = sqlite_url()
    store = made(url, recipe, quotas=NO_QUOTAS)
    before = store.state("news")
    with client_of(url) as client:
        for what, statistics in lies(recipe).items():
            sync = wire.Sync(wire.fingerprint(recipe), bytes(16), 1, fb.Upload(0, statistics))
            body = wire.encode_sync(sync)
            answer = client.post(sync_path(agent="liar"), content=body, headers=BODY)
            assert answer.status_code == 422, what
    assert store.state("news") == before
    store.close()


# Liars that keep to what can be ------------------------------------------------------------------


@dataclass
class Liar:
    """Sends one upload after another as fast as it can; what waits for a quota, again at once."""

    where: Callable[[], str]
    merged: int = 0
    held_back: int = 0
    enough: bool = False
    problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        sequence = 1
        while not self.enough:
            sync = sync_for(RECIPE, sequence, life=10**6, sequence=sequence)
            try:
                path = sync_path(agent="liar")
                status, data = post_once(self.where(), path, wire.encode_sync(sync))
            except (OSError, http.client.HTTPException):
                continue
            if status == 200:
                self.merged += 1
                sequence += 1
            elif status == 429:
                self.held_back += 1
            elif status != 503:
                self.problems.append(f"{status}: {data[:200]!r}")
                return


def quotas_under_faults(url: str, *, among: int, kills: int, seed: int) -> None:
    """Kill coordinators while a liar floods them: it gets its quota merged, honest agents all."""
    store, rng = made(url, RECIPE, quotas=Quotas(uploads=40)), random.Random(seed)
    began = time.time()
    processes = [start(url, "--open") for _ in range(among)]

    def where() -> str:
        return rng.choice(processes).address

    honest = [Uploader(f"agent-{life}", life, where, 30) for life in range(2)]
    liar = Liar(where)
    threads = [threading.Thread(target=liar.run, daemon=True), *start_all(honest)]
    threads[0].start()
    try:
        for _ in range(kills):
            time.sleep(rng.uniform(0.1, 0.5))
            which = rng.randrange(among)
            if rng.random() < 0.5:
                processes[which].kill_worker()
            else:
                processes[which].kill()
                processes[which] = start(url, "--open")
        for thread in threads[1:]:
            thread.join(120)
        deadline = time.monotonic() + 60
        while liar.held_back < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        liar.enough = True
        threads[0].join(60)
    finally:
        for process in processes:
            process.kill()
    assert liar.problems == []
    assert liar.held_back >= 20
    hours = (time.time() - began) / HOUR
    agents = store.agents("news")
    assert liar.merged <= agents["liar"].uploads <= 40 * (1 + hours)
    assert [(each.problem, each.done) for each in honest] == [("", 30)] * 2
    assert store.model("news").version == sum(each.uploads for each in agents.values())
    assert store.model("news").count == sum(each.observations for each in agents.values())
    store.close()


def test_a_flood_gets_its_quota_and_no_more(sqlite_url: Callable[[], str]) -> None:
    quotas_under_faults(sqlite_url(), among=1, kills=1, seed=1)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(3))
def test_a_flood_gets_its_quota_from_two_coordinators_that_are_killed(
    postgres_url: Callable[[], str], seed: int
) -> None:
    quotas_under_faults(postgres_url(), among=2, kills=5, seed=seed)


# A liar among agents that are not told of it -----------------------------------------------------


def sent_by(
    agent: str,
    uploads: list[fb.Upload],
    recipe: fb.Recipe,
    where: Callable[[], str],
    first: int = 1,
) -> None:
    """Send one upload after another, each until it is merged."""
    for number, upload in enumerate(uploads, start=first):
        sync = wire.Sync(wire.fingerprint(recipe), agent.encode().ljust(16), number, upload)
        deadline = time.monotonic() + 120
        while True:
            with suppress(OSError, http.client.HTTPException):
                if post_once(where(), sync_path(agent=agent), wire.encode_sync(sync))[0] == 200:
                    break
            assert time.monotonic() < deadline, f"upload {number} of {agent} was not merged"
            time.sleep(0.02)


def turned_under_faults(url: str, recipe: fb.Recipe, *, among: int, kills: int, seed: int) -> None:
    """Kill coordinators while a liar sends as much as all others: agents are told the others'."""
    store, rng = watched_model(url, recipe, watched=True), random.Random(seed)
    processes = [start(url, "--open") for _ in range(among)]

    def where() -> str:
        return rng.choice(processes).address

    sent = {
        agent: [observed(recipe, 100 * turn + n) for turn in range(5)]
        for n, agent in enumerate(AGENTS)
    }
    sent[LIAR] = [lie(recipe)] * 40
    threads = [
        threading.Thread(target=sent_by, args=(*each, recipe, where), daemon=True)
        for each in sent.items()
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in range(kills):
            time.sleep(rng.uniform(0.1, 0.4))
            which = rng.randrange(among)
            processes[which].kill()
            processes[which] = start(url, "--open")
        for thread in threads:
            thread.join(120)
        for n, agent in enumerate(AGENTS):  # while there is time to look at groups, busy or not
            last = [observed(recipe, 1000 + n)]
            sent_by(agent, last, recipe, where, first=len(sent[agent]) + 1)
            sent[agent] += last
            time.sleep(0.1)
        model, state = store.state("news")
        assert model.version == sum(map(len, sent.values()))
        assert model.count == sum(each.count for some in sent.values() for each in some)
        assert server_at(recipe, state).theta @ THETA < 0.0  # of all that was merged
        honest = recipe.server()
        merge(recipe, honest, [each for agent in AGENTS for each in sent[agent]])
        for agent in AGENTS:
            address = urlsplit(where())
            connection = http.client.HTTPConnection(address.hostname or "", address.port)
            connection.request("GET", state_path(agent=agent))
            download = wire.decode_joined(connection.getresponse().read()).download
            connection.close()
            assert download is not None
            told = recipe.agent(0)
            told.receive(download)
            assert np.linalg.norm(told.theta - honest.theta) < 0.1 * np.linalg.norm(THETA)
    finally:
        for process in processes:
            process.kill()
    store.close()


def test_a_liar_turns_nobody_while_its_coordinator_is_killed(
    sqlite_url: Callable[[], str],
) -> None:
    turned_under_faults(sqlite_url(), RECIPES["lean"], among=1, kills=1, seed=1)


@pytest.mark.chaos
@each_recipe
@pytest.mark.parametrize("seed", range(2))
def test_a_liar_turns_nobody_while_two_coordinators_are_killed(
    postgres_url: Callable[[], str], recipe: fb.Recipe, seed: int
) -> None:
    turned_under_faults(postgres_url(), recipe, among=2, kills=5, seed=seed)


# Undoing under load ------------------------------------------------------------------------------


def undone_under_load(url: str, *, times: int, seed: int, kills: bool) -> None:
    """Roll back and forget while agents upload; then nothing that was acknowledged merges again."""
    history, rng = History(every=0.05, keep=8, by_agent=True), random.Random(seed)
    store = made(url, RECIPE, quotas=NO_QUOTAS, history=history)
    processes = [start(url, *COPYING)]
    agents = [
        Uploader(f"agent-{life}", life, lambda: processes[0].address, 10**9) for life in range(3)
    ]
    threads, undone = start_all(agents), 0
    try:
        for turn in range(times):
            reached, deadline = max(each.newest for each in agents), time.monotonic() + 60
            while max(each.newest for each in agents) < reached + 12:
                assert time.monotonic() < deadline, [each.problem for each in agents]
                time.sleep(0.01)
            with store.lock("news") as locked:
                snapshots = locked.past.snapshots()
                if turn % 2 and snapshots:
                    roll_back(locked, rng.choice(snapshots).version)
                else:
                    forget_agent(locked, rng.choice(agents).agent)
                undone += 1
            if kills:
                processes[0].kill()
                processes[0] = start(url, *COPYING)
        for each in agents:
            each.enough = True
        for thread in threads:
            thread.join(120)
        assert [each.problem for each in agents] == [""] * 3
        model, state = store.state("news")
        assert model.version == sum(each.done for each in agents) + undone
        processes[0].kill()
        check_copies(agents, url)
        assert store.state("news") == (model, state)
        check_parts(store)
    finally:
        processes[0].kill()
    store.close()


def check_copies(agents: list[Uploader], url: str) -> None:
    """Everything that was acknowledged is a copy, also what was taken out again."""
    with client_of(url, replace(OPEN, fruitless=10**9)) as client:
        for each in agents:
            for sequence in range(1, each.done + 1):
                seed = 10**6 * each.life + sequence
                sync = sync_for(RECIPE, seed, life=each.life, sequence=sequence)
                assert not post(client, sync, agent=each.agent).merged


def check_parts(store: Store) -> None:
    """The parts make up the model: each agent taken out in turn leaves nothing."""
    with store.lock("news") as locked:
        for agent in sorted({part.agent for part in locked.past.all_parts()}):
            forget_agent(locked, agent)
    left = wire.decode(store.state("news")[1])
    assert isinstance(left, fb.Download)
    empty = fb.Download(RECIPE.server().statistics, left.version)
    assert wire.encode(left) == wire.encode(empty)


def test_what_is_undone_under_load_stays_undone(sqlite_url: Callable[[], str]) -> None:
    undone_under_load(sqlite_url(), times=4, seed=3, kills=False)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(3))
def test_what_is_undone_under_load_and_kills_stays_undone(store_url: str, seed: int) -> None:
    undone_under_load(store_url, times=10, seed=seed, kills=True)
