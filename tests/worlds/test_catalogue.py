"""Every world by its name: from a spec, and for advice."""

from typing import Any

import pytest

from fedbandit.cli.entry import main
from fedbandit.lab import Part, Spec
from fedbandit.worlds import WORLDS

SIZE: dict[str, Any] = {"dimension": 6, "arms": 3, "agents": 2}
GIVEN: dict[str, dict[str, Any]] = {
    "synthetic": {**SIZE, "mean": 6, "rank": "none"},
    "classification": {"data": "satimage"},
    "late": {**SIZE, "at": 4, "rank": 2, "mean": "none"},
    "drifting": {**SIZE, "at": 4, "drift": "walk", "speed": 2},
    "items": {**SIZE, "items": 4, "mean": 3, "rewards": "ratings"},
    "hashed": {**SIZE, "rewards": "clicks", "mean": 0.05, "signal": 0.02},
}


def test_every_world_is_known_by_name_and_given_its_trials_seed() -> None:
    assert GIVEN.keys() == WORLDS.keys()
    worlds = {kind: Part(kind, params) for kind, params in GIVEN.items()}
    spec = Spec(
        name="all", rounds=5, trials=2, seed=7, worlds=worlds, recipes={"r": Part("Random")}
    )
    tasks = spec.tasks()
    assert [type(task.world) for task in tasks] == [w for w in WORLDS.values() for _ in range(2)]
    assert [task.world.params["seed"] for task in tasks] == [7, 8] * len(WORLDS)
    assert len({task.key for task in tasks}) == len(tasks)


@pytest.mark.parametrize("words", [["late", "at=10"], ["items", "items=20"]], ids=lambda w: w[0])
def test_advice_for_a_simulated_world(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--sizes", "5", "--trials", "2", "--rounds", "20", "--radius", "0.5", "--jobs", "1"]
    assert main(["advise", words[0], "--set", words[1], *size]) == 0
    assert capsys.readouterr().out.startswith(f"{words[0]}, d = 50")
