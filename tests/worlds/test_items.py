"""Items are shown as often as Zipf says, beside dense features of length 1."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbandit.errors import InvalidParameter
from fedbandit.worlds import Items

GOOD: dict[str, Any] = {"dimension": 12, "arms": 5, "agents": 2, "items": 8}


@given(st.integers(1, 8), st.integers(1, 8), st.floats(0, 3), st.integers(0, 500))
def test_an_arm_is_one_item_and_a_dense_vector(
    items: int, dense: int, popularity: float, seed: int
) -> None:
    world = Items(
        dimension=items + dense, arms=4, agents=2, items=items, popularity=popularity, seed=seed
    )
    for shown in world.rounds(20):
        one_hot, rest = shown.arms[:, :items], shown.arms[:, items:]
        assert set(np.unique(one_hot)) <= {0.0, 1.0}
        assert np.all(one_hot.sum(axis=1) == 1.0)
        np.testing.assert_allclose(np.linalg.norm(rest, axis=1), 1.0)


@pytest.mark.parametrize("popularity", [0.0, 0.5, 1.0, 2.5])
def test_frequencies_are_those_of_zipf(popularity: float) -> None:
    world = Items(**GOOD, popularity=popularity)
    counts = np.sum([shown.arms[:, :8].sum(axis=0) for shown in world.rounds(8000)], axis=0)
    weights = np.array([1 / i**popularity for i in range(1, 9)])
    expected = 40_000 * weights / weights.sum()
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected) + 1)


def test_arms_of_a_round_are_drawn_independently() -> None:
    world = Items(**GOOD)
    items = np.array([shown.arms[:, :8].argmax(axis=1) for shown in world.rounds(8000)])
    correlation = np.corrcoef(np.hstack([items[:-1], items[1:]]).T)
    assert np.abs(correlation - np.eye(10)).max() < 5 / np.sqrt(8000)


@given(st.floats(-10, 10), st.floats(0.1, 10), st.integers(0, 500))
def test_means_are_linear_in_the_arm(mean: float, signal: float, seed: int) -> None:
    world = Items(**GOOD, mean=mean, signal=signal, seed=seed)
    shown = list(world.rounds(40))
    arms, means = (np.concatenate([this[i] for this in shown]) for i in (1, 2))
    np.testing.assert_allclose(arms @ world.theta, means, atol=1e-9)
    assert np.linalg.norm(world.theta[8:]) == pytest.approx(signal)


def test_items_are_worth_the_mean_on_average_and_spread_as_the_dense_features_do() -> None:
    entries, dense = [], []
    for seed in range(400):
        world = Items(**GOOD, mean=6.0, signal=2.0, seed=seed)
        entries.append(world.theta[:8])
        dense += [shown.arms[:, 8:] @ world.theta[8:] for shown in world.rounds(5)]
    assert np.mean(entries) == pytest.approx(6.0, abs=5 / np.sqrt(3200))
    assert np.std(entries) == pytest.approx(1.0, rel=0.06)  # 2 / sqrt(4 dense features)
    assert np.std(dense) == pytest.approx(1.0, rel=0.06)


def test_theta_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Items(**GOOD).theta[0] = 1.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"items": 12},
            r"^items must be .*from 1 to 11 \(at least one feature is dense\).*; got 12",
        ),
        ({"items": 0}, r"^items must be .*; got 0"),
        ({"popularity": -1}, r"^popularity must be .*; got -1"),
        ({"mean": None}, r"^mean: got None"),
        ({"dimension": 1}, r"^dimension must be .*; got 1"),
        ({"agents": 0}, r"^agents must be .*; got 0"),
        ({"seed": "0"}, r"^seed must be .*; got '0'"),
    ],
    ids=repr,
)
def test_what_it_cannot_be(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Items(**{**GOOD, **parameters})
