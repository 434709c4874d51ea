import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.lab.analysis.curves import curves
from fedbandit.lab.analysis.tuning import FIRST_SEED, Choice, choose_radius
from fedbandit.lab.paper.algorithms import PAPER_ALGORITHMS
from fedbandit.lab.paper.classes import classes_seen
from fedbandit.lab.study.settings import SETTINGS, Setting
from fedbandit.lab.study.study import FULL, Size, Study
from tests.lab.made_runs import made_trials

GRID = FULL.grid
STUDY = Study(PAPER_ALGORITHMS, Size(trials=1, rounds=10, tuning_trials=3, grid=(0.1, 0.5)))

rewards = st.lists(
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=2), min_size=1, max_size=len(GRID)
)


def chosen(table: list[list[int]]) -> Choice:
    grid = GRID[: len(table)]
    runs = pa.concat_tables(
        made_trials(
            {"reward": [float(value) for value in values]}, radius=f"{radius:g}", first=FIRST_SEED
        )
        for radius, values in zip(grid, table, strict=True)
    )
    return choose_radius(curves(runs), setting="synthetic d=50", algorithm="FSCLB", grid=grid)


@given(rewards)
def test_the_highest_mean_reward_wins(table: list[list[int]]) -> None:
    sums = [sum(values) for values in table]
    choice = chosen(table)
    assert choice.radius == GRID[sums.index(max(sums))]
    assert [radius for radius, _ in choice.rewards] == list(GRID[: len(table)])


def test_a_choice_at_either_end_says_so() -> None:
    assert chosen([[3, 3], [2, 2], [1, 1]]).at_edge
    assert chosen([[1, 1], [2, 2], [3, 3]]).at_edge
    assert not chosen([[1, 1], [3, 3], [2, 2]]).at_edge
    assert not chosen([[1, 1]]).at_edge


def test_runs_on_one_tape_share_one_world() -> None:
    tasks = STUDY.tuning_tasks()
    assert len({id(task.world) for task in tasks}) == len(SETTINGS) * 3


@given(st.sampled_from(SETTINGS), st.integers(1, 12))
def test_classes_seen_are_those_that_pay(setting: Setting, trials: int) -> None:
    size = Size(trials=1, rounds=1, tuning_trials=trials, grid=(0.1,))
    tasks = Study(PAPER_ALGORITHMS[:1], size, settings=(setting,)).tuning_tasks()
    worlds = [task.world.params for task in tasks]
    targets = {params["target"] for params in worlds if "target" in params}
    assert classes_seen(setting, trials) == tuple(sorted(targets))


def test_each_radius_is_tried_once_on_seeds_of_its_own() -> None:
    tasks = STUDY.tuning_tasks()
    assert len({task.key for task in tasks}) == len(tasks) == 4 * 2 * 2 * 3
    assert {task.algorithm for task in tasks} == {"FSCLB", "FedLinUCB"}
    for task in tasks:
        assert task.trial >= FIRST_SEED
        assert task.world.params["seed"] == task.trial
        assert f"{task.recipe.params['radius']:g}" == task.radius
