"""The new arm is not there before its round, is orthogonal to the others, and pays what it says."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.worlds import Late, Round

GOOD: dict[str, Any] = {"dimension": 8, "arms": 4, "agents": 2, "at": 30, "rank": 3, "noise": 0.0}


@st.composite
def lates(draw: st.DrawFn) -> Late:
    features = draw(st.integers(2, 10))
    mean = draw(st.none() | st.floats(-10, 10))
    return Late(
        dimension=features + (mean is not None),
        arms=draw(st.integers(1, 5)),
        agents=2,
        at=draw(st.integers(0, 40)),
        rank=draw(st.integers(1, features - 1)),
        direction=draw(st.sampled_from(["axis", "dense"])),
        gain=draw(st.floats(0.1, 5)),
        mean=mean,
        seed=draw(st.integers(0, 1000)),
    )


def is_new(world: Late, shown: Round) -> NDArray[np.bool_]:
    """Tell the new arm by what it is not: in the span of the arms before."""
    first = Late(**{**world.params, "at": 10**6, "arms": world.rank + 2})  # type: ignore[arg-type]
    span = np.concatenate([this.arms for this in first.rounds(3)])
    distance = shown.arms - shown.arms @ np.linalg.pinv(span) @ span
    return np.asarray(np.linalg.norm(distance, axis=1) > 1e-6)


@given(lates())
def test_it_comes_at_its_round_once_a_round_and_pays_the_gain(world: Late) -> None:
    for t, shown in enumerate(world.rounds(50)):
        new = is_new(world, shown)
        assert new.sum() == (t >= world.at)
        np.testing.assert_allclose(shown.means[new], world.gain + (world.mean or 0.0))


@given(lates())
def test_every_arm_has_length_one_and_the_constant_is_one(world: Late) -> None:
    for shown in world.rounds(50):
        features = shown.arms
        if world.mean is not None:
            assert np.all(shown.arms[:, -1] == 1.0)
            features = shown.arms[:, :-1]
        np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0)


@given(lates())
def test_the_new_direction_is_orthogonal_to_the_others(world: Late) -> None:
    d = world.dimension - (world.mean is not None)
    before = [this.arms[:, :d] for this in world.rounds(world.at)]
    later = list(world.rounds(world.at + 5))[world.at :]
    new = np.concatenate([this.arms[is_new(world, this), :d] for this in later])
    assert np.ptp(new, axis=0).max() == 0.0
    for arms in before:
        assert np.abs(arms @ new[0]).max() < 1e-12


@given(lates())
def test_a_new_coordinate_is_exactly_zero_before(world: Late) -> None:
    for t, shown in enumerate(world.rounds(50)):
        if world.direction == "axis":
            expected = is_new(world, shown) if t >= world.at else np.zeros(world.arms)
            np.testing.assert_array_equal(shown.arms[:, 0], expected)


@given(lates())
def test_one_parameter_explains_all_means(world: Late) -> None:
    shown = list(world.rounds(60))
    arms, means = (np.concatenate([this[i] for this in shown]) for i in (1, 2))
    theta = np.linalg.lstsq(arms, means, rcond=None)[0]
    np.testing.assert_allclose(arms @ theta, means, atol=1e-9)


@pytest.mark.parametrize("direction", ["axis", "dense"])
@pytest.mark.parametrize("rank", [1, 3, 7])
def test_the_rank_is_as_asked_before_and_one_more_after(direction: str, rank: int) -> None:
    world = Late(**{**GOOD, "rank": rank}, direction=direction)
    shown = list(world.rounds(60))
    ranks = [
        np.linalg.matrix_rank(np.concatenate([this.arms for this in part]))
        for part in (shown[:30], shown)
    ]
    assert ranks == [rank, rank + 1]


def test_a_dense_direction_is_spread_over_all_coordinates() -> None:
    world = Late(dimension=50, arms=1, agents=1, at=0, rank=5, direction="dense")
    new = next(world.rounds(1)).arms[0]
    assert np.abs(new).max() < 0.6
    assert np.count_nonzero(np.abs(new) > 0.01) > 35


def test_the_new_arm_stands_anywhere() -> None:
    world = Late(**{**GOOD, "at": 0})
    places = np.array([int(np.argmax(shown.arms[:, 0])) for shown in world.rounds(4000)])
    counts = np.bincount(places, minlength=4)
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_only_the_new_arm_differs_from_the_world_without_it() -> None:
    with_it, without = (Late(**{**GOOD, "at": at}) for at in (30, 10_000))
    for shown, usual in zip(with_it.rounds(50), without.rounds(50), strict=True):
        old = ~is_new(with_it, shown)
        assert shown.agent == usual.agent
        np.testing.assert_array_equal(shown.arms[old], usual.arms[old])
        np.testing.assert_array_equal(shown.means[old], usual.means[old])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 8}, r"^rank must be .*from 1 to 7 \(one direction has to be new\).*; got 8"),
        ({"rank": 7, "mean": 1.0}, r"^rank must be .*from 1 to 6.*; got 7"),
        ({"at": -1}, r"^at must be .*; got -1"),
        ({"gain": 0.0}, r"^gain must be .*; got 0\.0"),
        ({"dimension": 1}, r"^dimension must be .*at least 2.*; got 1"),
        ({"arms": 0}, r"^arms must be .*; got 0"),
        ({"agents": 2.0}, r"^agents must be .*; got 2\.0"),
        ({"seed": -1}, r"^seed must be .*; got -1"),
    ],
    ids=repr,
)
def test_what_it_cannot_be(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Late(**{**GOOD, **parameters})


def test_a_misspelt_direction_gets_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'axis'"):
        Late(**GOOD, direction="axes")
