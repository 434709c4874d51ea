import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedbandit.errors import InvalidParameter
from fedbandit.lab.analysis.statistics import (
    Estimate,
    band,
    estimate,
    gap_loss,
    log_band,
    ratio,
    t_quantile,
)

numbers = st.floats(-1e6, 1e6)
samples = st.lists(numbers, min_size=2, max_size=30)
positives = st.lists(st.floats(0.1, 1e3), min_size=2, max_size=30)


@given(samples)
def test_estimate_is_students_t(values: list[float]) -> None:
    found = estimate(values)
    error = stats.sem(values)
    half = stats.t.ppf(0.975, len(values) - 1) * error
    assert found.mean == pytest.approx(np.mean(values), rel=1e-9, abs=1e-6)
    assert found.ci95 == pytest.approx(half, rel=1e-6, abs=1e-6)


def test_estimate_agrees_with_scipys_interval() -> None:
    values = np.random.default_rng(3).normal(5.0, 2.0, 20)
    low, high = stats.t.interval(0.95, 19, loc=values.mean(), scale=stats.sem(values))
    found = estimate(values)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)


def test_one_trial_has_a_mean_and_no_interval() -> None:
    found = estimate([7.0])
    assert found.mean == 7.0
    assert math.isnan(found.ci95)
    assert math.isnan(t_quantile(1))
    assert math.isnan(ratio([1.0], [2.0]).ci95)


@given(samples, st.floats(0.5, 100.0))
def test_a_ratio_to_a_constant_is_an_ordinary_mean(values: list[float], constant: float) -> None:
    found = ratio(values, [constant] * len(values))
    expected = estimate(np.array(values) / constant)
    assert found.mean == pytest.approx(expected.mean, rel=1e-6, abs=1e-6)
    assert found.ci95 == pytest.approx(expected.ci95, rel=1e-6, abs=1e-4)


@given(positives, st.floats(0.1, 10.0))
def test_what_both_sides_share_cancels(shared: list[float], factor: float) -> None:
    found = ratio(factor * np.array(shared), shared)
    assert found.mean == pytest.approx(factor)
    assert found.ci95 == pytest.approx(0.0, abs=1e-9 * factor)


def test_the_interval_of_a_ratio_covers_the_truth_as_often_as_it_says() -> None:
    draws = np.random.default_rng(11)
    covered = 0
    for _ in range(1000):
        tape = draws.normal(10.0, 1.0, 20)
        found = ratio(0.7 * tape + draws.normal(0.0, 0.5, 20), tape + draws.normal(0.0, 0.5, 20))
        covered += found.low <= 0.7 <= found.high
    assert 925 <= covered <= 975


def test_a_ratio_to_nothing_is_not_a_number() -> None:
    assert math.isnan(ratio([1.0, 2.0], [1.0, -1.0]).mean)


def test_gap_loss_on_numbers_made_by_hand() -> None:
    # Lost 1 and 3 of leads 10 and 30: 4 of 40, and the same share in both trials.
    found = gap_loss([9.0, 37.0], [10.0, 40.0], [0.0, 10.0])
    assert found.mean == pytest.approx(0.1)
    assert found.ci95 == pytest.approx(0.0, abs=1e-12)
    # Lost 0 and 4 of leads 10 and 10: 20 %, and t(1) * 0.2828.. / sqrt(2) around it.
    found = gap_loss([10.0, 6.0], [10.0, 10.0], [0.0, 0.0])
    assert found.mean == pytest.approx(0.2)
    assert found.ci95 == pytest.approx(stats.t.ppf(0.975, 1) * 0.2)


@given(samples)
def test_gap_loss_is_zero_for_the_reference_and_one_for_the_floor(values: list[float]) -> None:
    top = np.array(values)
    floor = top - np.linspace(1.0, 2.0, len(values))
    assert gap_loss(top, top, floor).mean == 0.0
    assert gap_loss(floor, top, floor).mean == pytest.approx(1.0)


def test_a_band_is_an_estimate_at_every_checkpoint() -> None:
    curves = np.random.default_rng(5).normal(size=(6, 9)).cumsum(axis=1)
    found = band(curves)
    for column in range(9):
        expected = estimate(curves[:, column])
        assert found.mean[column] == pytest.approx(expected.mean)
        assert found.low[column] == pytest.approx(expected.low)
        assert found.high[column] == pytest.approx(expected.high)


@given(st.floats(1.0, 1e4), st.floats(1e-4, 1e-3))
def test_on_a_log_scale_a_narrow_band_stays_what_it_is(size: float, spread: float) -> None:
    curves = size * (1.0 + spread * np.random.default_rng(7).normal(size=(8, 5)))
    plain, logarithmic = band(curves), log_band(curves)
    half = plain.high - plain.mean
    assert np.allclose(logarithmic.high, plain.high, rtol=0, atol=float(half.max()) * spread)
    assert np.allclose(logarithmic.low, plain.low, rtol=0, atol=float(half.max()) * spread)


def test_on_a_log_scale_a_wide_band_stays_positive_and_symmetric() -> None:
    wide = log_band(np.array([[1.0, 1.0], [30.0, 50.0], [2.0, 3.0]]))
    assert (wide.low > 0.0).all()
    assert np.allclose(wide.mean / wide.low, wide.high / wide.mean)


def test_the_band_of_one_trial_is_the_trial() -> None:
    curve = np.array([[1.0, 4.0, 9.0]])
    found = band(curve)
    for part in (found.mean, found.low, found.high):
        assert part.tolist() == [1.0, 4.0, 9.0]


def test_units_and_complements() -> None:
    found = Estimate(0.25, 0.05)
    assert found.complement() == Estimate(0.75, 0.05)
    assert found.scaled(-4.0) == Estimate(-1.0, 0.2)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], 3.0])
def test_only_a_list_of_trials_is_taken(values: object) -> None:
    with pytest.raises(InvalidParameter, match="one number per trial"):
        estimate(np.array(values, dtype=np.float64))


def test_a_ratio_needs_pairs() -> None:
    with pytest.raises(InvalidParameter, match="2 numerators and 3 denominators"):
        ratio([1.0, 2.0], [1.0, 2.0, 3.0])
