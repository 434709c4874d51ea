"""The Flower app under real Flower: simulated nodes, and nodes that are killed and started again.

``short`` tests are what CI runs (make test-engines SHORT=1).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.worlds import Synthetic
from tests.engines.flower_fleet import Flower, flower, wait_for

pytestmark = pytest.mark.engines

WAIT = 900  # a crowded machine takes ten times as long as a quiet one
SIZES = {"dimension": 4, "arms": 5}


def result(place: Path, name: str) -> dict[str, Any]:
    path = place / name
    wait_for(path.exists, seconds=WAIT, what=f"the end of the run, {name}")
    told: dict[str, Any] = json.loads(path.read_text())
    return told


def observed(place: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the arms that all agents played and their rewards, by what nodes wrote down.

    A node that was killed plays rounds again that are on no disk yet: the last time counts.
    """
    played = {}
    for path in (place / "state").glob("observed-*.jsonl"):
        for line in path.read_text().splitlines():
            number, arm, reward = json.loads(line)
            played[path.name, number] = arm, reward
    arms, rewards = zip(*played.values(), strict=True)
    return np.array(arms), np.array(rewards)


def check_all_merged_once(place: Path, told: dict[str, Any], rounds: int) -> None:
    arms, rewards = observed(place)
    assert told["observations"] == told["rounds"] == len(rewards) == rounds
    assert np.allclose(told["moment"], rewards @ arms, rtol=1e-9, atol=1e-9)
    assert told["trace"] == pytest.approx(float((arms**2).sum()))
    assert told["reward"] == pytest.approx(rewards.sum())


def simulated(flower: Flower, name: str, *, agents: int, **config: object) -> dict[str, Any]:
    nodes = f"num-supernodes={agents} client-resources-num-cpus=1"
    place = flower.place
    given = {"poll": 0.05, "state_dir": str(place / "state"), "out": str(place / name)}
    flower.run("local", "--federation-config", nodes, agents=agents, **(given | config))
    return result(place, name)


def test_short_simulation_merges_what_ten_nodes_observed(tmp_path: Path) -> None:
    with flower(tmp_path) as running:
        sizes: dict[str, object] = {**SIZES, "recipe": "FedLinUCB", "record": True}
        told = simulated(running, "out.json", agents=10, rounds=200, **sizes)
    check_all_merged_once(tmp_path, told, 200)
    assert told["uploads"] > 20
    assert told["copies"] == told["errors"] == 0


def played(place: Path, agent: int) -> int:
    """Return how many rounds an agent has played by what it has written down."""
    path = place / "state" / f"observed-{agent}.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_short_deployment_survives_a_node_that_is_killed(tmp_path: Path) -> None:
    with flower(tmp_path) as running:
        running.start_link()
        for index in (0, 1):
            running.register(index)
            running.start_node(index)
        config = {**SIZES, "recipe": "FedLinUCB", "record": True, "patience": 20.0, "rounds": 30}
        places = {"state_dir": str(tmp_path / "state"), "out": str(tmp_path / "out.json")}
        running.run("tls", agents=2, **config, **places)
        wait_for(lambda: played(tmp_path, 0) > 2, seconds=WAIT, what="node 0 plays")
        running.kill_node(0)
        stopped, before = played(tmp_path, 0), played(tmp_path, 1)
        wait_for(lambda: played(tmp_path, 1) > before, seconds=WAIT, what="node 1 never waits")
        assert played(tmp_path, 0) == stopped
        running.restart_node(0)
        told = result(tmp_path, "out.json")
    check_all_merged_once(tmp_path, told, 30)


def test_regret_is_that_of_the_simulation_in_one_process(tmp_path: Path) -> None:
    rounds, agents, ours, theirs = 400, 10, [], []
    with flower(tmp_path) as running:
        for seed in range(5):
            sizes: dict[str, object] = {**SIZES, "seed": seed, "radius": 0.3}
            told = simulated(running, f"{seed}.json", agents=agents, rounds=rounds, **sizes)
            assert told["observations"] == rounds
            theirs.append(told["regret"])
            world = Synthetic(dimension=4, arms=5, agents=agents, seed=seed)
            recipe = fb.FSCLB.lean(dimension=4, agents=agents, radius=0.3)
            ours.append(float(fb.simulate(recipe, world, rounds=rounds).regret[-1]))
    print("regret on Flower", theirs, "in one process", ours)
    assert 0.5 * np.mean(ours) <= np.mean(theirs) <= 2.0 * np.mean(ours)
