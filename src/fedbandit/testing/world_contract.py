"""What every world must do."""

import pickle
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from fedbandit.worlds import Round, World

_ROUNDS = 40


class WorldContract:
    """Tests of a world. Give a fixture ``world`` that returns it."""

    def test_a_shorter_run_is_a_prefix_and_a_repeat_is_the_same(self, world: World) -> None:
        longer = copied(world.rounds(_ROUNDS))
        assert len(longer) == _ROUNDS
        for n in (0, 1, _ROUNDS // 2, _ROUNDS):
            assert same_rounds(copied(world.rounds(n)), longer[:n])

    def test_two_runs_at_once_do_not_disturb_each_other(self, world: World) -> None:
        first, second = world.rounds(_ROUNDS), world.rounds(_ROUNDS)
        begun = copied(islice(first, 7))
        whole = copied(second)
        assert same_rounds(begun + copied(first), whole)

    def test_shapes_and_agents(self, world: World) -> None:
        for shown in world.rounds(_ROUNDS):
            k = len(shown.arms)
            assert k >= 1
            assert shown.arms.shape == (k, world.dimension)
            assert shown.means.shape == shown.rewards.shape == (k,)
            assert shown.arms.dtype == shown.means.dtype == shown.rewards.dtype == np.float64
            assert isinstance(shown.agent, int)
            assert 0 <= shown.agent < world.agents

    def test_all_numbers_are_finite(self, world: World) -> None:
        for shown in world.rounds(_ROUNDS):
            assert all(np.isfinite(array).all() for array in shown[1:])

    def test_a_pickled_world_is_the_same_world(self, world: World) -> None:
        """Experiments play a world in processes of their own."""
        before = copied(world.rounds(_ROUNDS))
        again: World = pickle.loads(pickle.dumps(world))
        assert (again.dimension, again.agents) == (world.dimension, world.agents)
        assert same_rounds(copied(again.rounds(_ROUNDS)), before)


def copied(rounds: Iterable[Round]) -> list[Round]:
    """Return rounds with arrays of their own: a world may reuse its arrays."""
    return [Round(each.agent, *(np.array(array) for array in each[1:])) for each in rounds]


def same_rounds(left: Sequence[Round], right: Sequence[Round]) -> bool:
    """Return whether two tapes are the same, bit for bit."""
    return len(left) == len(right) and all(
        a.agent == b.agent and all(np.array_equal(x, y) for x, y in zip(a[1:], b[1:], strict=True))
        for a, b in zip(left, right, strict=True)
    )
