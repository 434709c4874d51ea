"""The noise of rewards, by groups: no liar makes what honest groups learned count as noise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit.core.memory.lossy.fitted import fitted
from fedbandit.core.memory.lossy.summary import nothing_lost
from fedbandit.core.memory.narrow import short_vector
from fedbandit.core.statistics import Rewards
from fedbandit.service.groups.rewards import explained_by_own
from fedbandit.service.groups.sums import GroupSum
from tests.service.groups.fleet import Fleet

NOISE = 0.1


def told_noise(fleet: Fleet) -> float:
    """The mean square of rewards that is told, without what the estimate that is told explains."""
    known = fleet.knows()
    told = known.statistics
    explained = float(known.theta @ told.moment) / told.count
    return told.rewards.squares / told.rewards.count - explained


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_tiny_arms_of_what_no_two_share_are_not_taken_for_noise(seed: int, mode: bool) -> None:
    """The estimate from all is the liar's then, and the one that is told explains nothing."""
    d, rng = 24, np.random.default_rng(seed)
    recipe = fb.FSCLB.lean(dimension=d, agents=24, alpha=1e9)
    fleet, theta = Fleet(recipe, watched=mode, honest=0), rng.uniform(0.0, 1.0, d)
    for number in range(12):
        arms = np.eye(d)[rng.choice([2 * number, 2 * number + 1], 80)]
        fleet.observed(number, arms, arms @ theta + NOISE * rng.standard_normal(80))
    assert told_noise(fleet) < 1.2 * NOISE**2
    each = np.full(d, 0.005)
    rows = np.diag(np.sqrt(each))
    summary: Any = fitted(nothing_lost(rows), 1e-3)
    moment = short_vector(-0.98 * 1.45 * np.sqrt(10_000 / d * each))
    for _ in range(20):
        squares = Rewards(10_000, 0.0, 10_000 * 1.45**2)
        fleet.send(20, fb.Upload(0, fb.Statistics(summary, moment, 10_000, squares)))
    assert np.abs(fleet.server.theta).max() > 1.0
    assert told_noise(fleet) < 2.0 * NOISE**2


@given(seed=st.integers(0, 10_000), scale=st.floats(-3.0, 3.0), low=st.integers(1, 8))
def test_what_a_group_explains_by_itself_leaves_the_noise(
    seed: int, scale: float, low: int
) -> None:
    """Whatever the size of arms and rewards, and however few directions they have."""
    rng, d, n, noise = np.random.default_rng(seed), 8, 2_000, 10.0**scale
    arms = rng.standard_normal((n, low)) @ rng.standard_normal((low, d)) * 10.0 ** rng.uniform(0, 2)
    paid = arms @ rng.standard_normal(d) + noise * rng.standard_normal(n)
    one = GroupSum(arms.T @ arms, np.zeros((0, d)), np.zeros(d), arms.T @ paid, n)
    told = Rewards(n, float(paid.sum()), float(paid @ paid))
    ridge = 1e-6 * float(np.trace(one.square))
    (explained,) = explained_by_own([one], [told], ridge=min(ridge, 1.0))
    left = (told.squares - explained) / n
    rounding = 1e-12 * told.squares / n
    assert 0.85 * noise**2 - rounding < left < 1.2 * noise**2 + 1e-4 * told.squares / n


def test_too_few_rewards_explain_nothing_by_themselves() -> None:
    """Else what fits them by chance would count as no noise at all."""
    rng, d = np.random.default_rng(0), 8
    for n in (1, d, int(1.5 * d)):
        arms, paid = 100.0 * rng.standard_normal((n, d)), rng.standard_normal(n)
        one = GroupSum(arms.T @ arms, np.zeros((0, d)), np.zeros(d), arms.T @ paid, n)
        told = Rewards(n, float(paid.sum()), float(paid @ paid))
        assert explained_by_own([one], [told], ridge=1.0)[0] == -np.inf
