"""Bounds and radii against hand-computed values, dense routes and simulated truth."""

from math import e, exp, log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import errors, theory
from fedbandit.core.parts.radius import Evidence

UNIT = fb.Bounds(noise=1.0, parameter_norm=2.0, arm_norm=1.0, horizon=100, delta=0.1)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=8), st.integers(2, 10))
def test_epsilon_l_by_brute_force(eigenvalues: list[float], size: int) -> None:
    ordered = sorted(eigenvalues, reverse=True)
    expected = min(sum(ordered[k:]) / (0.5 * (size - k)) for k in range(size))
    got = theory.epsilon_l(eigenvalues, sketch_size=size, ridge=0.5)
    assert got == pytest.approx(expected, abs=1e-9)
    assert (got == 0.0) == (sum(value > 0 for value in eigenvalues) < size)


def test_radius_by_hand() -> None:
    """M = 4, alpha = 1/2: spread = sqrt(3) + 4; d = 9, lambda = 4, shed = 5."""
    odds = (1 + 100 / (0.5 * 4.0)) / 0.1
    noise = sqrt(9 * log(odds)) + 2.0 * 2.0
    given_: dict[str, Any] = {"dimension": 9, "agents": 4, "alpha": 0.5, "ridge": 4.0}
    paper = theory.radius(**given_, bounds=UNIT, shed=5.0)
    assert paper == pytest.approx((sqrt(3) + 4) * noise + (2 + sqrt(5 / 4)) * 2)
    tight = theory.radius(**given_, bounds=UNIT, shed=5.0, form="tight")
    assert tight == pytest.approx((sqrt(3) + 4) * noise + 3 * 2)


@given(st.floats(0.01, 1.0), st.floats(0.0, 1e4))
def test_the_papers_radius_is_never_below_the_tight_one_for_small_ridge(
    ridge: float, shed: float
) -> None:
    given_: dict[str, Any] = {"dimension": 3, "agents": 2, "alpha": 1.0, "ridge": ridge}
    paper = theory.radius(**given_, bounds=UNIT, shed=shed)
    assert paper >= theory.radius(**given_, bounds=UNIT, shed=shed, form="tight") - 1e-9


def test_self_normalised_radius_by_hand() -> None:
    """det V = e^3 lambda^d gives R sqrt(3 + 2 log 10) + sqrt(lambda + shed) S."""
    got = theory.self_normalised_radius(
        logdet=3 + 2 * log(4.0), dimension=2, ridge=4.0, bounds=UNIT, shed=5.0
    )
    assert got == pytest.approx(sqrt(3 + 2 * log(10)) + 3 * 2)


def test_soful_radius_by_hand() -> None:
    """Shed = lambda (e - 1) makes the factor 1 + shed/lambda equal e."""
    bounds = fb.Bounds(noise=2.0, parameter_norm=3.0, delta=exp(-1))
    got = theory.soful_radius(
        count=5, dimension=7, sketch_size=5, ridge=1 / (e - 1), bounds=bounds, shed=1.0
    )
    information = 5 * log(1 + 5 / (5 / (e - 1))) + 2 + 7
    assert got == pytest.approx(2 * sqrt(information * e) + 3 * e / sqrt(e - 1))


def test_regret_bound_by_hand() -> None:
    bounds = fb.Bounds(parameter_norm=2.0, arm_norm=3.0, horizon=10, delta=0.1)
    got = theory.regret_bound(
        dimension=4, sketch_size=2, agents=5, alpha=1.0, ridge=1.5, bounds=bounds,
        radius=0.7, spectral_error=e - 1,
    )  # fmt: skip
    width = 2 * 2 * 10 * log(1 + 90 / 3) + 2 * 4 * 10
    assert got == pytest.approx(2 * 4 * 6 * 5 * log(61) + 1.4 * sqrt(12) * sqrt(width))


def test_communication_bound_by_hand() -> None:
    bounds = fb.Bounds(arm_norm=2.0, horizon=15)
    got = theory.communication_bound(
        dimension=5, agents=3, alpha=0.5, ridge=4.0, bounds=bounds, spectral_error=1.0
    )
    assert got == pytest.approx(2 * 5 * 5 * 3)  # log2(2 * (1 + 3)) = 3


@pytest.mark.parametrize("form", ["paper", "tight"])
def test_the_confidence_set_holds_and_regret_stays_under_its_bound(form: Any) -> None:
    """Lemma 4.1 and Theorem 5.1 on a run with the theoretical radius."""
    d, size, M, T = 6, 3, 3, 2000
    bounds = fb.Bounds(noise=0.1, horizon=T)
    world = fb.worlds.Synthetic(dimension=d, arms=5, agents=M, noise=0.1, seed=0)
    recipe = fb.FSCLB(dimension=d, sketch_size=size, agents=M, radius=form, bounds=bounds)
    fleet, server, played, worst = recipe.fleet(), recipe.server(), [], 0.0
    regret = 0.0
    for who, arms, means, rewards in world.rounds(T):
        k = fleet[who].choose(arms)
        regret += float(means.max() - means[k])
        played.append(arms[k])
        upload = fleet[who].observe(k, float(rewards[k]))
        if upload is not None:
            (answer,) = server.receive(upload)
            fleet[who].receive(answer.message)
            reading = recipe.parts.memory.read(server.summary)
            error = fleet[who].theta - world.theta
            assert isinstance(server.summary, fb.Sketch)
            inside = np.sum((server.summary.rows @ error) ** 2)
            distance = sqrt(error @ error * (1.0 + reading.shed) + inside)
            sums = server.statistics
            evidence = Evidence(fleet[who].theta, sums.moment, sums.count, sums.rewards)
            radius = recipe.parts.radius(reading, evidence)
            worst = max(worst, radius)
            assert distance <= radius
    gram = np.array(played).T @ np.array(played)
    epsilon = theory.epsilon_l(np.linalg.eigvalsh(gram), sketch_size=size, ridge=1.0)
    assert regret <= theory.regret_bound(
        dimension=d, sketch_size=size, agents=M, alpha=1.0, ridge=1.0, bounds=bounds,
        radius=worst, spectral_error=epsilon,
    )  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [{"noise": 0.0}, {"parameter_norm": -1.0}, {"arm_norm": 0}, {"horizon": 0}, {"delta": 1.0}],
)
def test_bounds_that_cannot_be(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(errors.InvalidParameter, match=name):
        fb.Bounds(**wrong)
