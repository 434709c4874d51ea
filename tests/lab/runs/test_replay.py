"""A replayed tape is the world's own, whatever the world does with its arrays."""

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.lab.runs.replay import Replay, replayable
from fedbandit.testing import ReusedArrays

REUSED = ReusedArrays(dimension=3, agents=2)


@pytest.mark.parametrize(
    "world", [REUSED, fb.worlds.Synthetic(dimension=3, arms=4, agents=2, seed=1)]
)
def test_a_replayed_tape_plays_as_the_world_does(world: fb.worlds.World) -> None:
    recipe = fb.FSCLB(dimension=3, sketch_size=2, agents=2)
    again = replayable(world, 200)
    assert isinstance(again, Replay)
    fresh = fb.simulate(recipe, world, rounds=200)
    for rounds in (200, 200, 50):
        trace = fb.simulate(recipe, again, rounds=rounds)
        np.testing.assert_array_equal(trace.arm, fresh.arm[:rounds])
        np.testing.assert_array_equal(trace.rewards, fresh.rewards[:rounds])


def test_long_tapes_are_not_kept() -> None:
    assert replayable(REUSED, 200, most_bytes=100) is REUSED
