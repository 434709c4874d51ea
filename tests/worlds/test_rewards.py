"""Rewards average to their means in all worlds, and clicks and ratings are what they say."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.worlds import AnyWorld, Drifting, Hashed, Items, Late, Synthetic
from fedbandit.worlds.simulated.rewards import paid

SIZE: dict[str, Any] = {"dimension": 12, "arms": 5, "agents": 3, "seed": 4}
PAYMENTS: Mapping[str, dict[str, Any]] = {
    "gaussian": {"rewards": "gaussian", "mean": 6.0, "noise": 0.4},
    "clicks": {"rewards": "clicks", "mean": 0.05, "signal": 0.1},
    "ratings": {"rewards": "ratings", "mean": 3.0, "signal": 2.0},
}


def worlds(paying: dict[str, Any]) -> list[AnyWorld]:
    return [
        Synthetic(**SIZE, **paying),
        Synthetic(**SIZE, **paying, spectrum="low-rank", subspaces="own"),
        Late(**SIZE, **paying, at=1000),
        Late(**SIZE, **paying, at=1000, direction="dense"),
        Drifting(**SIZE, **paying, at=1000),
        Drifting(**SIZE, **paying, at=1000, drift="walk"),
        Items(**SIZE, **paying, items=7),
        Hashed(**SIZE, **paying),
    ]


def played(world: AnyWorld, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    shown = list(world.rounds(n))
    means, rewards = ([getattr(this, name) for this in shown] for name in ("means", "rewards"))
    return np.concatenate(means), np.concatenate(rewards)


@pytest.mark.parametrize("kind", PAYMENTS)
@pytest.mark.parametrize("number", range(8))
def test_rewards_average_to_their_means_whether_those_are_high_or_low(
    kind: str, number: int
) -> None:
    means, rewards = played(worlds(PAYMENTS[kind])[number], 4000)
    for group in np.array_split(np.argsort(means, kind="stable"), 8):
        errors = (rewards - means)[group]
        bound = 5 * {"gaussian": 0.4, "clicks": 0.5, "ratings": 1.0}[kind] / np.sqrt(len(group))
        assert abs(errors.mean()) < bound


@pytest.mark.parametrize("number", range(8))
def test_ratings_are_whole_numbers_from_1_to_5(number: int) -> None:
    means, rewards = played(worlds(PAYMENTS["ratings"])[number], 2000)
    assert set(rewards.tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert 1.0 <= means.min() < means.max() <= 5.0


@pytest.mark.parametrize("number", range(8))
def test_clicks_are_0_or_1(number: int) -> None:
    means, rewards = played(worlds(PAYMENTS["clicks"])[number], 2000)
    assert set(rewards.tolist()) == {0.0, 1.0}
    assert 0.0 <= means.min() < means.max() <= 1.0


def test_clicks_come_at_the_base_rate() -> None:
    means, rewards = played(Synthetic(**SIZE, **PAYMENTS["clicks"]), 10_000)
    assert means.mean() == pytest.approx(0.05, abs=0.003)
    assert rewards.mean() == pytest.approx(0.05, abs=5 * np.sqrt(0.05 / 50_000))


@pytest.mark.parametrize("score", [-3.0, 0.0, 0.3, 1.0, 2.2, 3.0, 4.9, 5.0, 17.0])
@pytest.mark.parametrize("kind", ["clicks", "ratings"])
def test_a_score_is_cut_to_the_range_and_the_spread_is_a_binomial_one(
    kind: str, score: float
) -> None:
    low, trials = {"clicks": (0, 1), "ratings": (1, 4)}[kind]
    scores = np.full((4000, 5), score)
    means, rewards = paid(scores, np.random.default_rng(0), kind=kind, noise=9.0)
    expected = min(max(score, low), low + trials)
    assert np.all(means == expected)
    chance = (expected - low) / trials
    variance = trials * chance * (1 - chance)
    assert rewards.mean() == pytest.approx(expected, abs=5 * np.sqrt(variance / 20_000))
    assert rewards.var() == pytest.approx(variance, abs=0.03)


@given(st.floats(-50, 50), st.floats(0, 10))
def test_gaussian_rewards_are_the_score_and_noise(score: float, noise: float) -> None:
    scores = np.full((3, 4), score)
    means, rewards = paid(scores, np.random.default_rng(1), kind="gaussian", noise=noise)
    drawn = np.random.default_rng(1).standard_normal((3, 4))
    np.testing.assert_array_equal(means, scores)
    np.testing.assert_allclose(rewards, score + noise * drawn)


@pytest.mark.parametrize("make", [Synthetic, Late, Drifting, Items, Hashed])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rewards": "clicks", "mean": 1.5}, r"^mean: got 1\.5 with rewards 'clicks'; .* 0 to 1"),
        ({"rewards": "clicks", "mean": None}, r"^mean: got None with rewards 'clicks'"),
        ({"rewards": "ratings", "mean": 0.0}, r"^mean: got 0\.0 .* from 1 to 5"),
        ({"rewards": "gaussian", "mean": float("nan")}, r"^mean: got nan .* a finite number"),
        ({"rewards": "gaussian", "mean": "6"}, r"^mean: got '6'"),
        ({"rewards": "gaussian", "mean": 10**310}, r"^mean: got 1000"),
        ({"signal": 0.0}, r"^signal must be a finite number above 0.*; got 0\.0"),
        ({"noise": -1.0}, r"^noise must be .*; got -1\.0"),
    ],
    ids=repr,
)
def test_what_rewards_cannot_be(make: Any, parameters: dict[str, Any], message: str) -> None:
    own = {Late: {"at": 3}, Drifting: {"at": 3}, Items: {"items": 4}}.get(make, {})
    with pytest.raises(InvalidParameter, match=message):
        make(**SIZE, **own, **parameters)


def test_a_misspelt_kind_of_reward_gets_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'clicks'"):
        Synthetic(**SIZE, rewards="click", mean=0.1)
