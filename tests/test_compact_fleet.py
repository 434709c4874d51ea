"""Agents that are put away as numbers go on with the same bits."""

import re

import numpy as np
import pytest

import fedbandit as fb
from fedbandit import simulation
from fedbandit.cli import main
from fedbandit.simulation.fleet import CompactFleet

RECIPES = {
    "FSCLB": lambda: fb.FSCLB(dimension=5, sketch_size=3, agents=12, radius=0.3),
    "buffered": lambda: fb.FSCLB(
        dimension=5, sketch_size=3, agents=12, radius=0.3, cadence="buffered"
    ),
    "FSCLB.lean": lambda: fb.FSCLB.lean(dimension=5, agents=12, radius=0.3),
    "FedLinUCB": lambda: fb.FedLinUCB(dimension=5, agents=12, radius=0.3),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_compact_fleet_plays_as_a_list_of_agents_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, world = RECIPES[name](), fb.worlds.Synthetic(dimension=5, arms=4, agents=12, seed=3)
    whole = fb.simulate(recipe, world, rounds=300)
    monkeypatch.setattr(simulation, "MANY", 1)
    monkeypatch.setattr(simulation, "CompactFleet", lambda recipe: CompactFleet(recipe, most=12))
    awake = fb.simulate(recipe, world, rounds=300)
    monkeypatch.setattr("fedbandit.simulation.window._LONGEST", 2)
    monkeypatch.setattr(simulation, "CompactFleet", lambda recipe: CompactFleet(recipe, most=2))
    compact = fb.simulate(recipe, world, rounds=300)
    for other in (awake, compact):
        for measure in ("regret", "rewards", "arm", "uploads", "bytes"):
            np.testing.assert_array_equal(getattr(other, measure), getattr(whole, measure))


def test_agents_that_never_play_do_not_exist() -> None:
    agents = CompactFleet(fb.FSCLB(dimension=20, sketch_size=8, agents=10**9, radius=0.3))
    assert len(agents) == 10**9
    assert agents[999_999_999] is agents[999_999_999]


def test_simulate_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "--agents", "20000", "--rounds", "2000", "--set", "dimension=4"]
    assert main([*command, "--set", "sketch_size=3", "--set", "noise=0.2"]) == 0
    shown = capsys.readouterr()
    assert "100 % of 2,000 rounds" in shown.err
    assert re.search(r"^agents +20,000$", shown.out, flags=re.MULTILINE)
    assert "FSCLB(" in shown.out
    assert main([*command, "--set", "sketch_sze=3"]) == 2
    assert "Did you mean 'sketch_size'" in capsys.readouterr().err
