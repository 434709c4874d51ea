"""Relays as real processes: killed under load, cut off from the root, started again.

Whatever happens, what agents were told is merged arrives at the root once, and agents never wait.
"""

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.service.bookkeeping.quotas import Quotas
from fedbandit.service.storage.opening import open_store
from fedbandit.wire import Limits, Sync, encode_sync, fingerprint
from tests.service.relay.processes import Fleet, kill_under_load
from tests.service.relay.tree import assert_sandwich
from tests.service.running import BODY, metric, sync_path

SKETCHES = fb.FSCLB(dimension=6, sketch_size=4, agents=30, alpha=0.05)
LEAN = fb.FSCLB.lean(dimension=6, agents=30, alpha=0.05)


def assert_all_at_root(fleet: Fleet) -> None:
    """The root has merged every observation once, and its summary stands for these arms."""
    fleet.settle()
    root, (arms, rewards) = fleet.at_root(), fleet.observed()
    assert root.count == root.statistics.rewards.count == len(arms) > 0
    np.testing.assert_allclose(root.statistics.rewards.total, rewards.sum())
    assert_sandwich(fleet.recipe, root, arms, whole=True)


def killed(fleet: Fleet, *, kills: int, seed: int, pause: float) -> None:
    """Kill under load, and assert that nothing is lost or repeated and that no agent waited."""
    try:
        kill_under_load(fleet, kills=kills, seed=seed, pause=pause)
        assert_all_at_root(fleet)
    finally:
        fleet.stop()


def test_kill_9_of_a_relay_and_of_the_root(sqlite_url: Callable[[], str], tmp_path: Path) -> None:
    fleet = Fleet(SKETCHES, sqlite_url, tmp_path, relays=1, agents=3)
    try:
        kill_under_load(fleet, kills=2, seed=1, pause=0.3)
        assert_all_at_root(fleet)
        assert metric(fleet.relays[0].process, "fedbandit_upstream_uploads") > 0
        assert metric(fleet.relays[0].process, "fedbandit_upstream_troubled") == 0
    finally:
        fleet.stop()


@pytest.mark.chaos
@pytest.mark.parametrize("recipe", [SKETCHES, LEAN], ids=["sketches", "lean"])
@pytest.mark.parametrize("seed", range(2))
def test_kill_9_of_three_relays_and_the_root_with_thirty_agents(
    recipe: fb.Recipe, seed: int, sqlite_url: Callable[[], str], tmp_path: Path
) -> None:
    fleet = Fleet(recipe, sqlite_url, tmp_path, relays=3, agents=10)
    killed(fleet, kills=12, seed=seed, pause=1.0)
    assert max(player.slowest for player in fleet.players) < 60.0  # no agent waited for a start


def set_quotas(url: str, quotas: Quotas) -> None:
    """Let uploads stand for one observation each, and set the quotas of a model."""
    store = open_store(url)
    with store.lock("news") as locked:
        limits = Limits(arm_norm=1.0, reward=1.0, count=1)
        locked.set_rules(limits=limits, quotas=quotas, history=locked.model.history)
    store.close()


def status_of(address: str, agent: str, sequence: int, recipe: fb.Recipe) -> int:
    """Send an upload of one observation; return the status of the answer."""
    arm = np.eye(recipe.dimension)[:1]
    upload = fb.Upload(0, fb.Statistics(fb.Gram(arm.T @ arm), arm[0], 1))
    body = encode_sync(Sync(fingerprint(recipe), bytes(16), sequence, upload))
    request = urllib.request.Request(address + sync_path(agent=agent), body, BODY)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_one_agent_below_a_relay_does_not_keep_the_others_out(
    sqlite_url: Callable[[], str], tmp_path: Path
) -> None:
    """It spends the relay's quota and its share of the room; the rest is there for the others."""
    recipe = fb.FedLinUCB(dimension=3, agents=2)
    fleet = Fleet(recipe, sqlite_url, tmp_path, relays=0, agents=0)
    try:
        set_quotas(fleet.root.url, Quotas(uploads=1))
        fleet.add_relay(sqlite_url(), tmp_path / "token")
        relay = fleet.relays[0].address
        flood = [status_of(relay, "flood", number, recipe) for number in range(1, 31)]
        assert 9 <= flood.count(200) <= 15  # some were passed on before the quota was spent
        assert set(flood[flood.count(200) :]) == {429}
        for agent in range(4):
            assert status_of(relay, f"agent-{agent}", 1, recipe) == 200
        assert status_of(relay, "flood", 31, recipe) == 429
    finally:
        fleet.stop()
