"""Estimates agree with their definitions, and their intervals cover the truth."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.offline.estimates import METHODS, Estimate, Method, Weighed
from fedbandit.offline.reward_model import RewardModel
from fedbandit.offline.sums import Sums
from tests.offline.known_truth import Rows, draw, logged_truth, truth

REPETITIONS = 200
SMALL = st.floats(-100.0, 100.0)


def robust(rows: Rows) -> Weighed:
    """Add rows up with a cross-fitted model, five folds."""
    model, folds = RewardModel(rows.arms.shape[2]), np.arange(len(rows.reward)) % 5
    model.add(folds, rows.played, rows.reward)
    theta = model.thetas[folds]
    expected = np.einsum("nkd,nd->nk", rows.arms, theta[:, :-1]) + theta[:, -1:]
    weighed = Weighed()
    predicted = expected[np.arange(len(folds)), rows.chosen]
    weighed.add(rows.reward, rows.weight, (rows.target * expected).sum(axis=1), predicted)
    return weighed


def rejected(rows: Rows, rng: np.random.Generator) -> Weighed:
    """Add up the rows on which a draw of the policy matches, as replay does."""
    least = rows.probability.min()
    kept = rng.random(len(rows.reward)) < least * rows.weight
    weighed = Weighed()
    weighed.add(rows.reward, kept / least)
    return weighed


@cache
def repeated() -> dict[Method, list[Estimate]]:
    """Return every estimate from each of 200 logs of 1,000 events."""
    found: dict[Method, list[Estimate]] = {method: [] for method in METHODS}
    for seed in range(REPETITIONS):
        rng = np.random.default_rng(seed)
        rows = draw(rng, 1000)
        weighed, replayed = robust(rows), rejected(rows, rng)
        for method, estimates in found.items():
            estimates.append((replayed if method == "replay" else weighed).estimate(method))
    return found


@pytest.mark.parametrize("method", METHODS)
def test_intervals_cover_the_truth_in_90_to_99_percent(method: Method) -> None:
    known, gain = truth(), truth() - logged_truth()
    found = repeated()[method]
    assert 0.90 <= np.mean([each.low <= known <= each.high for each in found]) <= 0.99
    assert 0.90 <= np.mean([each.gain_low <= gain <= each.gain_high for each in found]) <= 0.99


def test_the_model_makes_intervals_narrower() -> None:
    rows = draw(np.random.default_rng(1), 4000)
    plain, doubly = robust(rows).estimate("ips"), robust(rows).estimate("dr")
    assert 0.95 * (plain.high - plain.low) > doubly.high - doubly.low


@given(st.lists(st.tuples(SMALL, st.floats(0.0, 10.0), SMALL, SMALL), min_size=2, max_size=30))
@settings(max_examples=50, deadline=None)
def test_values_are_those_of_the_definitions(rows: list[tuple[float, float, float, float]]) -> None:
    r, w, m, p = np.array(rows).T
    weighed = Weighed()
    for part in np.array_split(np.array(rows), 3):
        weighed.add(*part.T)
    ips = weighed.estimate("ips")
    assert ips.value == pytest.approx((w * r).mean(), rel=1e-9, abs=1e-9)
    half = 1.959963984540054 * (w * r).std(ddof=1) / len(r) ** 0.5
    assert ips.high - ips.value == pytest.approx(half, rel=1e-6, abs=1e-6)
    assert weighed.estimate("dr").value == pytest.approx(
        (m + w * (r - p)).mean(), rel=1e-9, abs=1e-9
    )
    if w.sum() > 1e-3:
        assert weighed.estimate("snips").value == pytest.approx(
            (w * r).sum() / w.sum(), rel=1e-9, abs=1e-9
        )
        assert ips.effective == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-6)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_sums_of_parts_are_the_sums_of_all(one: int, other: int, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((one + other, 3)) + 5.0
    whole, first, second = Sums.empty(3), Sums.empty(3), Sums.empty(3)
    whole.add(rows)
    first.add(rows[:one])
    second.add(rows[one:])
    both = first.plus(second)
    assert both.count == whole.count
    np.testing.assert_allclose(both.means, whole.means, atol=1e-12)
    np.testing.assert_allclose(both.scatter, whole.scatter, atol=1e-10)


def test_no_row_is_predicted_by_a_model_that_has_seen_it() -> None:
    rng = np.random.default_rng(3)
    arms, rewards = rng.standard_normal((50, 3)), rng.standard_normal(50)
    folds = np.arange(50) % 5
    model, changed = RewardModel(3), RewardModel(3)
    model.add(folds, arms, rewards)
    changed.add(folds, arms, np.where(folds == 2, 100.0, rewards))
    np.testing.assert_allclose(model.thetas[2], changed.thetas[2], rtol=1e-12)
    assert not np.allclose(model.thetas[1], changed.thetas[1])
    others = folds != 2
    extended = np.column_stack([arms[others], np.ones(others.sum())])
    by_hand: NDArray[np.float64] = np.linalg.solve(
        extended.T @ extended + np.eye(4), extended.T @ rewards[others]
    )
    np.testing.assert_allclose(model.thetas[2], by_hand)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(1.0, 1.0)] * 99, "too little: 99 effective rows"),
        ([(0.0, 1.0)] * 1000 + [(1.0, 1.0)] * 9, "too little: 9 rows with a reward"),
        ([(1.0, 0.0)] * 500 + [(0.5, 1.0)] * 500, "no basis: weights average 0.5"),
        ([(0.5, 2.0)] * 10 + [(0.5, 0.01)] * 1000, "too little: 22 effective rows"),
    ],
)
def test_nothing_is_concluded_from_too_little(rows: list[tuple[float, float]], says: str) -> None:
    weighed = Weighed()
    weighed.add(*np.array(rows).T)
    found = weighed.estimate("snips")
    assert not found.enough
    assert found.verdict.startswith(says)


def test_an_estimate_of_nothing_is_nan_and_says_too_little() -> None:
    for method in METHODS:
        found = Weighed().estimate(method)
        assert np.isnan(found.value)
        assert found.verdict.startswith("too little: 0 effective rows")
