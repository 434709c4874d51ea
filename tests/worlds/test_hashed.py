"""Hashed arms are those that the sidecar makes of the same names; scores are sums of weights."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.errors import InvalidParameter
from fedbandit.features.hashed import arm_of, features_of
from fedbandit.worlds import Hashed

GOOD: dict[str, Any] = {"dimension": 16, "arms": 3, "agents": 2}


def sidecar_arms(world: Hashed) -> dict[tuple[tuple[int, ...], int], NDArray[np.float64]]:
    """Return the arm of every user and item, as the sidecar makes them from JSON."""
    found = {}
    for user in product(range(world.values), repeat=world.fields):
        context = {"user": {f"a{field}": str(value) for field, value in enumerate(user)}}
        for item in range(world.items):
            action = {"item": {"id": str(item), "category": str(item % world.categories)}}
            found[user, item] = arm_of(
                features_of(context, field="context"),
                features_of(action, field="action"),
                world.dimension,
            )
    return found


@given(
    st.integers(1, 60), st.integers(1, 2), st.integers(1, 3), st.integers(3, 6), st.integers(1, 3)
)
def test_arms_of_a_round_are_the_sidecars_for_one_user_and_different_items(
    dimension: int, fields: int, values: int, items: int, categories: int
) -> None:
    world = Hashed(
        dimension=dimension,
        arms=3,
        agents=2,
        fields=fields,
        values=values,
        items=items,
        categories=categories,
    )
    known = sidecar_arms(world)
    for shown in world.rounds(5):
        candidates = [
            {
                user
                for (user, _), arm in known.items()
                if np.allclose(arm, given, rtol=1e-12, atol=1e-12)
            }
            for given in shown.arms
        ]
        assert set.intersection(*candidates)


def test_users_and_items_are_uniform_and_items_of_a_round_differ() -> None:
    world = Hashed(dimension=2000, arms=3, agents=2, fields=2, values=3, items=6, categories=4)
    names = {tuple(np.round(arm, 6)): key for key, arm in sidecar_arms(world).items()}
    assert len(names) == 9 * 6
    users, items = [], []
    for shown in world.rounds(5000):
        keys = [names[tuple(np.round(arm, 6))] for arm in shown.arms]
        assert len({user for user, _ in keys}) == 1
        assert len({item for _, item in keys}) == 3
        users.append(keys[0][0])
        items += [item for _, item in keys]
    for counts in (np.unique(users, axis=0, return_counts=True)[1], np.bincount(items)):
        expected = counts.sum() / len(counts)
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_a_user_and_an_item_have_one_mean_which_is_a_sum_over_features_and_pairs() -> None:
    world = Hashed(
        dimension=2000, arms=3, agents=2, fields=2, values=3, items=6, categories=4, noise=0.0,
        rewards="gaussian", interactions=0.0,
    )  # fmt: skip
    names = {tuple(np.round(arm, 6)): key for key, arm in sidecar_arms(world).items()}
    means: dict[tuple[tuple[int, ...], int], float] = {}
    for shown in world.rounds(2000):
        for arm, mean in zip(shown.arms, shown.means, strict=True):
            key = names[tuple(np.round(arm, 6))]
            assert means.setdefault(key, mean) == mean
    assert len(means) == 54
    table = np.array(
        [[means[user, item] for item in range(6)] for user in product(range(3), repeat=2)]
    )
    additive = table.mean(axis=0) + table.mean(axis=1, keepdims=True) - table.mean()
    np.testing.assert_allclose(table, additive, atol=1e-9)


def test_interactions_make_some_users_like_what_others_do_not() -> None:
    world = Hashed(**{**GOOD, "arms": 20}, interactions=1.0, rewards="gaussian")
    order = {tuple(np.argsort(np.round(shown.means, 9)).tolist()) for shown in world.rounds(200)}
    assert len(order) > 100


@pytest.mark.parametrize("interactions", [0.0, 0.3, 2.0])
def test_scores_have_the_asked_mean_and_deviation(interactions: float) -> None:
    scores = np.concatenate(
        [
            shown.means
            for seed in range(300)
            for shown in Hashed(
                **GOOD, interactions=interactions, seed=seed, rewards="gaussian", mean=3.0,
                signal=0.7, items=60, categories=20,
            ).rounds(20)
        ]
    )  # fmt: skip
    assert scores.mean() == pytest.approx(3.0, abs=0.06)
    assert scores.std() == pytest.approx(0.7, rel=0.06)


def test_another_seed_has_other_weights_and_the_same_names() -> None:
    first, second = (Hashed(**GOOD, seed=seed) for seed in (0, 1))
    assert sidecar_arms(first).keys() == sidecar_arms(second).keys()
    assert not np.array_equal(next(first.rounds(1)).means, next(second.rounds(1)).means)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"arms": 21}, r"^arms must be .*from 1 to 20 \(a round shows different items\).*; got 21"),
        ({"fields": 0}, r"^fields must be .*; got 0"),
        ({"values": 1.0}, r"^values must be .*; got 1\.0"),
        ({"categories": 0}, r"^categories must be .*; got 0"),
        ({"interactions": -0.1}, r"^interactions must be .*; got -0\.1"),
        ({"mean": None, "rewards": "gaussian"}, r"^mean: got None"),
        ({"dimension": 0}, r"^dimension must be .*; got 0"),
        ({"seed": 1.5}, r"^seed must be .*; got 1\.5"),
    ],
    ids=repr,
)
def test_what_it_cannot_be(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Hashed(**{**GOOD, **parameters})
