"""Relays as real processes: killed under load, cut off from the root, started again.

Whatever happens, what agents were told is merged arrives at the root once, and agents never wait.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedbandit as fb
from tests.service.relay.processes import Fleet, kill_under_load
from tests.service.relay.tree import assert_sandwich
from tests.service.running import metric

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
