import numpy as np
import pytest

from fedbandit.core.algorithms.catalogue import RECIPES
from fedbandit.lab.paper.algorithms import OTHER_ALGORITHMS, OURS, PAPER_ALGORITHMS, assumptions
from fedbandit.lab.study.settings import AGENTS, SETTINGS, Algorithm, Radius, Setting
from fedbandit.lab.study.study import FULL
from fedbandit.worlds import Synthetic

EVERY = PAPER_ALGORITHMS + OURS + OTHER_ALGORITHMS
by_name = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)


def test_the_papers_sizes() -> None:
    sizes = [(setting.dimension, setting.sketch_size) for setting in SETTINGS]
    assert sizes == [(50, 20), (100, 40), (37, 12), (48, 20)]


@by_name
def test_worlds_are_what_the_setting_says(setting: Setting) -> None:
    world = setting.world(3)
    assert world.dimension == setting.dimension
    assert world.agents == AGENTS
    for this in world.rounds(20):
        assert this.arms.shape == (setting.arms, setting.dimension)
        assert (this.arms**2).sum(axis=1) == pytest.approx(1.0)


@by_name
def test_every_seed_has_a_tape_of_its_own(setting: Setting) -> None:
    digests = {
        tuple(this.arms.sum() for this in setting.world(seed).rounds(3)) for seed in range(6)
    }
    assert len(digests) == 6


@by_name
def test_all_classes_take_their_turn(setting: Setting) -> None:
    targets = {setting.target(seed) for seed in range(FULL.trials)}
    if setting.data is None:
        assert targets == {None}
        assert isinstance(setting.world(0), Synthetic)
    else:
        assert targets == set(range(setting.arms))
        for seed in (0, 5, 11):
            (this,) = setting.world(seed).rounds(1)
            assert this.rewards.argmax() == seed % setting.arms


@by_name
def test_rewards_stay_within_the_noise_bound(setting: Setting) -> None:
    # Gaussian noise is sigma-sub-Gaussian; what stays between 0 and 1 is so with half that width.
    rounds = list(setting.world(1).rounds(2000))
    rewards = np.concatenate([this.rewards for this in rounds])
    noise = rewards - np.concatenate([this.means for this in rounds])
    if setting.data is None:
        assert setting.noise == pytest.approx(noise.std(), rel=0.05)
    else:
        assert not noise.any()
        assert setting.noise == (rewards.max() - rewards.min()) / 2
    assert (setting.bounds(777).horizon, setting.bounds(777).noise) == (777, setting.noise)


@by_name
@pytest.mark.parametrize("algorithm", EVERY, ids=lambda algorithm: algorithm.name)
def test_every_algorithm_fits_every_setting(setting: Setting, algorithm: Algorithm) -> None:
    radii: tuple[Radius, ...] = (0.25,) if algorithm in OURS else (0.25, "paper")
    for radius in radii:
        recipe = algorithm.build(setting, radius=radius, rounds=500, seed=4)
        assert (recipe.dimension, recipe.agents) == (setting.dimension, AGENTS)
        assert recipe.label == algorithm.recipe
        if algorithm.tuned_as:
            assert recipe.params["radius"] == radius
            assert recipe.params["bounds"]["horizon"] == 500
        sizes = ("auto", setting.sketch_size)
        assert recipe.params.get("sketch_size", "auto") in sizes
        assert recipe.params.get("seed", 4) == 4


def test_every_recipe_there_is_has_its_line() -> None:
    assert {algorithm.recipe for algorithm in EVERY} == set(RECIPES)


def test_the_two_forms_differ_in_the_determinant_alone() -> None:
    best, published = (
        algorithm.build(SETTINGS[0], radius=0.1, rounds=10, seed=0).params
        for algorithm in PAPER_ALGORITHMS[1:3]
    )
    assert {name for name in best if best[name] != published[name]} == {"determinant"}


def test_assumptions_name_what_is_run() -> None:
    assert "AsyncLinUCB" not in assumptions(PAPER_ALGORITHMS)
    assert "AsyncLinUCB" in assumptions(EVERY)
    assert "assumption" in assumptions(PAPER_ALGORITHMS)["Theoretical radius"]
