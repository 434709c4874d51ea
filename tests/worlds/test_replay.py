"""A replayed tape is the world's own, whatever the world does with its arrays."""

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.simulation import window
from fedbandit.testing import ChangingArms, ReusedArrays
from fedbandit.worlds.replay import Replay, replayable

REUSED = ReusedArrays(dimension=3, agents=2)
CHANGING = ChangingArms(dimension=3, agents=2)
ALIKE = fb.worlds.Synthetic(dimension=3, arms=4, agents=2, seed=1)


@pytest.mark.parametrize("world", [REUSED, CHANGING, ALIKE])
@pytest.mark.parametrize("name", ["FSCLB", "FedLinUCB", "AsyncLinUCB", "Random"])
def test_a_replayed_tape_plays_as_the_world_does(
    world: fb.worlds.World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "_LONGEST", 61)  # so that agents go on in a later window
    more = {"sketch_size": 2} if name == "FSCLB" else {}
    recipe = fb.RECIPES[name](dimension=3, agents=2, **more)
    again = replayable(world, 200)
    assert isinstance(again, Replay)
    assert (again.stacked(200) is None) == (world is CHANGING)
    fresh = fb.simulate(recipe, world, rounds=200)
    for rounds in (200, 200, 50):
        trace = fb.simulate(recipe, again, rounds=rounds)
        np.testing.assert_array_equal(trace.arm, fresh.arm[:rounds])
        for measure in ("reward", "regret", "uploads", "bytes"):
            expected = getattr(fresh, measure)[:rounds]
            np.testing.assert_array_equal(getattr(trace, measure), expected)


def test_a_tape_without_rounds_can_be_replayed() -> None:
    assert not list(replayable(ALIKE, 0).rounds(10))


def test_long_tapes_are_not_kept() -> None:
    assert replayable(REUSED, 200, most_bytes=100) is REUSED
