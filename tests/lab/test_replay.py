"""A replayed tape is the world's own, whatever the world does with its arrays."""

from collections.abc import Iterator

import numpy as np
import pytest

import fedbandit as fb
from fedbandit.lab.runs import replay
from fedbandit.lab.runs.replay import Replay, replayable


class Thrifty:
    """Yields the same arrays in every round, with other numbers in them."""

    dimension, agents = 3, 2

    def rounds(self, n: int) -> Iterator[fb.Round]:
        rng, arms, means = np.random.default_rng(0), np.empty((4, 3)), np.empty(4)
        for t in range(n):
            arms[:] = rng.standard_normal(arms.shape)
            means[:] = arms.sum(axis=1)
            yield fb.Round(t % 2, arms, means, means)


@pytest.mark.parametrize(
    "world", [Thrifty(), fb.worlds.Synthetic(dimension=3, arms=4, agents=2, seed=1)]
)
def test_a_replayed_tape_plays_as_the_world_does(world: fb.worlds.World) -> None:
    recipe = fb.FSCLB(dimension=3, sketch_size=2, agents=2)
    again = replayable(world, 200)
    assert isinstance(again, Replay)
    fresh = fb.simulate(recipe, world, rounds=200)
    for rounds in (200, 200, 50):
        trace = fb.simulate(recipe, again, rounds=rounds)
        np.testing.assert_array_equal(trace.arm, fresh.arm[:rounds])
        np.testing.assert_array_equal(trace.reward, fresh.reward[:rounds])


def test_long_tapes_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_MOST", 100)
    world = Thrifty()
    assert replayable(world, 200) is world
