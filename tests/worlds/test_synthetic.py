"""The synthetic world has the distribution that it says it has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.errors import InvalidParameter, UnknownName
from fedbandit.worlds import Synthetic


def all_arms(world: Synthetic, n: int) -> NDArray[np.float64]:
    return np.concatenate([shown.arms for shown in world.rounds(n)])


@given(
    st.sampled_from(["isotropic", "low-rank", "power-law"]),
    st.integers(1, 30),
    st.floats(0.01, 50),
    st.integers(0, 100),
)
def test_arms_have_the_asked_length_theta_has_length_one_and_means_are_linear(
    spectrum: str, dimension: int, norm: float, seed: int
) -> None:
    world = Synthetic(
        dimension=dimension, arms=4, agents=2, seed=seed, spectrum=spectrum, norm=norm
    )
    assert np.linalg.norm(world.theta) == pytest.approx(1)
    for shown in world.rounds(5):
        np.testing.assert_allclose(np.linalg.norm(shown.arms, axis=1), norm)
        np.testing.assert_allclose(shown.means, shown.arms @ world.theta, atol=1e-12 * norm)


def test_theta_cannot_be_written() -> None:
    theta = Synthetic(dimension=3, arms=2, agents=1).theta
    with pytest.raises(ValueError, match="read-only"):
        theta[0] = 1.0


@pytest.mark.parametrize("spectrum", ["isotropic", "power-law"])
def test_theta_is_spread_over_the_sphere(spectrum: str) -> None:
    thetas = np.array(
        [
            Synthetic(dimension=3, arms=1, agents=1, seed=seed, spectrum=spectrum).theta
            for seed in range(1000)
        ]
    )
    assert np.abs(thetas.mean(axis=0)).max() < 5 / np.sqrt(3 * 1000)
    np.testing.assert_allclose(thetas.T @ thetas / 1000, np.eye(3) / 3, atol=0.05)


def test_noise_has_the_asked_deviation_and_is_independent_over_arms_and_rounds() -> None:
    n, k = 20_000, 3
    world = Synthetic(dimension=2, arms=k, agents=1, noise=0.7)
    noise = np.array([shown.rewards - shown.means for shown in world.rounds(n)])
    assert np.abs(noise.mean(axis=0)).max() < 5 * 0.7 / np.sqrt(n)
    np.testing.assert_allclose(noise.std(axis=0), 0.7, rtol=0.03)
    lagged = np.corrcoef(np.hstack([noise[:-1], noise[1:]]).T)
    assert np.abs(lagged - np.eye(2 * k)).max() < 5 / np.sqrt(n)


def test_without_noise_rewards_are_means() -> None:
    for shown in Synthetic(dimension=4, arms=3, agents=2, noise=0).rounds(10):
        np.testing.assert_array_equal(shown.rewards, shown.means)


def test_noise_and_agents_do_not_touch_the_arms() -> None:
    first = Synthetic(dimension=4, arms=3, agents=2, noise=0.1, seed=5)
    second = Synthetic(dimension=4, arms=3, agents=7, noise=3.0, seed=5)
    np.testing.assert_array_equal(all_arms(first, 20), all_arms(second, 20))


def test_isotropic_arms_have_identity_covariance() -> None:
    arms = all_arms(Synthetic(dimension=4, arms=10, agents=1, norm=None), 3000)
    np.testing.assert_allclose(arms.T @ arms / len(arms), np.eye(4), atol=0.05)


@pytest.mark.parametrize(("decay", "exponent"), [(None, 1.0), (0.0, 0.0), (2.5, 2.5)])
def test_power_law_eigenvalues_along_turned_axes(decay: float | None, exponent: float) -> None:
    world = Synthetic(dimension=6, arms=10, agents=1, norm=None, spectrum="power-law", decay=decay)
    arms = all_arms(world, 4000)
    covariance = arms.T @ arms / len(arms)
    eigenvalues = np.linalg.eigvalsh(covariance)[::-1]
    np.testing.assert_allclose(eigenvalues, [i**-exponent for i in range(1, 7)], rtol=0.05)
    if exponent:
        assert np.abs(covariance - np.diag(np.diag(covariance))).max() > 0.05


@given(st.data(), st.integers(1, 25), st.integers(0, 50))
def test_low_rank_arms_and_theta_share_a_subspace(
    data: st.DataObject, dimension: int, seed: int
) -> None:
    rank = data.draw(st.none() | st.integers(1, dimension))
    world = Synthetic(
        dimension=dimension, arms=5, agents=1, seed=seed, spectrum="low-rank", rank=rank
    )
    expected = rank or max(1, dimension // 5)
    arms = all_arms(world, 20)
    assert np.linalg.matrix_rank(arms) == expected
    assert np.linalg.matrix_rank(np.vstack([arms, world.theta])) == expected
    assert world.params["rank"] == expected


def test_low_rank_covariance_is_the_identity_on_the_subspace() -> None:
    world = Synthetic(dimension=10, arms=10, agents=1, norm=None, spectrum="low-rank", rank=3)
    arms = all_arms(world, 3000)
    eigenvalues = np.linalg.eigvalsh(arms.T @ arms / len(arms))[::-1]
    np.testing.assert_allclose(eigenvalues, [1] * 3 + [0] * 7, atol=0.05)


def test_subspaces_differ_between_seeds() -> None:
    def projector(seed: int) -> NDArray[np.float64]:
        world = Synthetic(dimension=8, arms=9, agents=1, seed=seed, spectrum="low-rank", rank=2)
        basis = np.linalg.svd(all_arms(world, 1))[2][:2]
        return np.asarray(basis.T @ basis)

    overlaps = [np.trace(projector(0) @ projector(seed)) for seed in range(1, 30)]
    assert 0.2 < np.mean(overlaps) < 0.8  # two random planes of eight dimensions: 2 * 2 / 8


def test_params_fill_in_defaults_and_are_plain() -> None:
    left = Synthetic(dimension=50, arms=2, agents=1, spectrum="low-rank", noise=1)
    right = Synthetic(dimension=50, arms=2, agents=1, spectrum="low-rank", noise=1.0, rank=10)
    assert left.params == right.params
    assert {type(value) for value in left.params.values()} == {int, float, str, type(None)}
    assert "spectrum='low-rank'" in repr(left)


@given(
    st.sampled_from(["isotropic", "low-rank", "power-law"]),
    st.integers(2, 20),
    st.floats(-20, 20),
    st.floats(0.1, 10),
)
def test_an_intercept_is_a_constant_feature_and_a_mean(
    spectrum: str, dimension: int, mean: float, signal: float
) -> None:
    world = Synthetic(
        dimension=dimension, arms=4, agents=2, spectrum=spectrum, mean=mean, signal=signal
    )
    assert world.theta.shape == (dimension,)
    assert world.theta[-1] == mean
    assert np.linalg.norm(world.theta[:-1]) == pytest.approx(signal)
    for shown in world.rounds(5):
        assert np.all(shown.arms[:, -1] == 1.0)
        np.testing.assert_allclose(np.linalg.norm(shown.arms[:, :-1], axis=1), 1.0)
        np.testing.assert_allclose(shown.means, shown.arms @ world.theta, atol=1e-9)


def test_with_an_intercept_rewards_are_around_the_mean() -> None:
    world = Synthetic(dimension=20, arms=5, agents=1, mean=10.0)
    rewards = np.array([shown.rewards for shown in world.rounds(4000)])
    assert rewards.mean() == pytest.approx(10.0, abs=5 * 0.3 / np.sqrt(20_000))


def test_signal_alone_scales_what_arms_are_worth() -> None:
    weak, strong = (Synthetic(dimension=6, arms=3, agents=2, signal=s) for s in (1.0, 4.0))
    np.testing.assert_array_equal(4.0 * weak.theta, strong.theta)
    np.testing.assert_array_equal(all_arms(weak, 20), all_arms(strong, 20))


@given(st.integers(1, 4), st.integers(2, 5), st.integers(0, 50))
def test_agents_with_own_subspaces_stay_in_them(rank: int, agents: int, seed: int) -> None:
    world = Synthetic(
        dimension=12,
        arms=5,
        agents=agents,
        seed=seed,
        spectrum="low-rank",
        rank=rank,
        subspaces="own",
    )
    by_agent: dict[int, list[NDArray[np.float64]]] = {}
    for shown in world.rounds(60):
        by_agent.setdefault(shown.agent, []).append(shown.arms)
        np.testing.assert_allclose(shown.means, shown.arms @ world.theta, atol=1e-12)
    for arms in by_agent.values():
        assert np.linalg.matrix_rank(np.concatenate(arms), tol=1e-9) == rank


def test_own_subspaces_differ_and_a_shared_one_does_not() -> None:
    def together(subspaces: str) -> int:
        world = Synthetic(
            dimension=30, arms=9, agents=5, spectrum="low-rank", rank=4, subspaces=subspaces
        )
        return int(np.linalg.matrix_rank(all_arms(world, 60), tol=1e-9))

    assert together("shared") == 4
    assert together("own") == 20


def test_own_subspaces_are_for_low_rank_arms() -> None:
    with pytest.raises(InvalidParameter, match=r"^subspaces: got 'own' with spectrum 'isotropic'"):
        Synthetic(dimension=3, arms=2, agents=1, subspaces="own")
    with pytest.raises(UnknownName, match="expected one of own, shared"):
        Synthetic(dimension=3, arms=2, agents=1, spectrum="low-rank", subspaces="each")
