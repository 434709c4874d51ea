"""theta stays, jumps, turns or walks as it says; read off arms and means by least squares."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.worlds import Drifting

GOOD: dict[str, Any] = {"dimension": 6, "arms": 12, "agents": 2, "at": 20}


def thetas(world: Drifting, n: int) -> NDArray[np.float64]:
    """Return theta in every round: with more arms than features the means tell it."""
    return np.array(
        [np.linalg.lstsq(shown.arms, shown.means, rcond=None)[0] for shown in world.rounds(n)]
    )


def steps(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.linalg.norm(np.diff(theta, axis=0), axis=1))


drifts = st.sampled_from(["abrupt", "rotation", "walk"])


@given(drifts, st.none() | st.integers(2, 6), st.floats(0.1, 10), st.integers(0, 500))
def test_theta_keeps_its_length_and_stays_until_its_round(
    drift: str, rank: int | None, signal: float, seed: int
) -> None:
    world = Drifting(**GOOD, drift=drift, rank=rank, signal=signal, seed=seed)
    found = thetas(world, 60)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), signal)
    np.testing.assert_allclose(found[:20], found[:1].repeat(20, axis=0), atol=1e-9 * signal)
    assert not np.allclose(found[20], found[19], atol=1e-6 * signal)


@given(st.integers(0, 500))
def test_an_abrupt_change_is_one_change(seed: int) -> None:
    found = thetas(Drifting(**GOOD, seed=seed), 60)
    moved = steps(found)
    assert np.flatnonzero(moved > 1e-6).tolist() == [19]


def test_the_theta_after_an_abrupt_change_does_not_depend_on_the_one_before() -> None:
    pairs = np.array([thetas(Drifting(**{**GOOD, "at": 1}, seed=s), 2) for s in range(300)])
    cosines = np.einsum("sd,sd->s", pairs[:, 0], pairs[:, 1])
    assert abs(cosines.mean()) < 5 / np.sqrt(6 * 300)
    assert cosines.var() == pytest.approx(1 / 6, abs=0.05)


@given(st.floats(0.1, 50), st.none() | st.integers(2, 6), st.integers(0, 500))
def test_a_rotation_turns_by_equal_angles_in_one_plane(
    speed: float, rank: int | None, seed: int
) -> None:
    world = Drifting(**GOOD, drift="rotation", speed=speed, rank=rank, seed=seed)
    found = thetas(world, 80)
    np.testing.assert_allclose(steps(found)[19:], 2 * np.sin(speed / 2000), rtol=1e-6)
    assert np.linalg.matrix_rank(found, tol=1e-9) == 2


@given(st.floats(0.1, 5), st.integers(0, 500))
def test_a_walk_is_continuous(speed: float, seed: int) -> None:
    found = thetas(Drifting(**GOOD, drift="walk", speed=speed, seed=seed), 200)
    usual = speed / np.sqrt(1000)
    assert steps(found)[19:].max() < 3 * usual
    assert 0.5 * usual < steps(found)[19:].mean() < 1.5 * usual


def test_a_walk_gets_as_far_as_its_speed_says() -> None:
    world = Drifting(dimension=40, arms=50, agents=1, at=0, drift="walk", speed=0.2)
    found = thetas(world, 1001)
    assert np.linalg.norm(found[1000] - found[0]) == pytest.approx(0.2, rel=0.4)


def test_without_speed_nothing_moves() -> None:
    for drift in ("rotation", "walk"):
        assert steps(thetas(Drifting(**GOOD, drift=drift, speed=0.0), 60)).max() < 1e-12


@given(drifts, st.integers(2, 6))
def test_theta_does_not_leave_the_subspace(drift: str, rank: int) -> None:
    world = Drifting(**GOOD, drift=drift, rank=rank)
    arms = np.concatenate([shown.arms for shown in world.rounds(40)])
    assert np.linalg.matrix_rank(arms) == rank
    assert np.linalg.matrix_rank(np.vstack([arms, thetas(world, 40)]), tol=1e-9) == rank


@given(drifts, st.floats(-10, 10))
def test_the_mean_does_not_change(drift: str, mean: float) -> None:
    world = Drifting(**{**GOOD, "dimension": 7}, drift=drift, mean=mean)
    assert all(np.all(shown.arms[:, -1] == 1.0) for shown in world.rounds(40))
    np.testing.assert_allclose(thetas(world, 40)[:, -1], mean, atol=1e-9)


def test_parameters_say_the_speed_that_is_used() -> None:
    assert Drifting(**GOOD).params["speed"] is None
    assert Drifting(**GOOD, drift="walk").params["speed"] == 1.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"speed": 1.0}, r"^speed: got 1\.0 with drift 'abrupt'; expected no speed"),
        ({"drift": "walk", "speed": -1.0}, r"^speed must be .*; got -1\.0"),
        ({"rank": 7}, r"^rank must be .*from 1 to 6.*; got 7"),
        ({"drift": "rotation", "rank": 1}, r"^rank must be .*\(theta turns in a plane\).*; got 1"),
        ({"drift": "rotation", "dimension": 1}, r"^dimension must be .*\(theta turns.*; got 1"),
        ({"at": 1.5}, r"^at must be .*; got 1\.5"),
        ({"arms": 0}, r"^arms must be .*; got 0"),
        ({"seed": None}, r"^seed must be .*; got None"),
    ],
    ids=repr,
)
def test_what_it_cannot_be(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Drifting(**{**GOOD, **parameters})


def test_a_misspelt_drift_gets_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'rotation'"):
        Drifting(**GOOD, drift="rotations")
