"""The compiled pass over an upload says what numpy says, in every form of it."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fedbandit.core.kernels.linalg import Array, inverse_square, skew
from fedbandit.service.validation.evidence import UNSEEN, evidence, is_explained

Skew = Callable[[Array], tuple[float, float]]
Evidence = Callable[[Array, Array, Array, float], tuple[float, float, float, bool]]

EVIDENCE: list[Evidence] = [evidence, evidence.source, evidence.plain]
SKEW: list[Skew] = [skew, skew.source, skew.plain]


def orthogonal(rng: np.random.Generator, k: int, d: int) -> Array:
    """Return orthogonal rows of different lengths."""
    turned, _ = np.linalg.qr(rng.standard_normal((d, d)))
    rows: Array = turned[:k] * rng.uniform(0.1, 1.0, (min(k, d), 1))
    return rows


@given(
    seed=st.integers(0, 99),
    shape=st.tuples(st.integers(0, 5), st.integers(1, 6)),
    scale=st.sampled_from([0.0, 1e-170, 1e-30, 1.0, 1e60]),
    shed=st.sampled_from([0.0, 0.5]),
)
def test_evidence_is_what_it_says(
    seed: int, shape: tuple[int, int], scale: float, shed: float
) -> None:
    rng = np.random.default_rng(seed)
    rows, moment = orthogonal(rng, *shape) * scale, rng.standard_normal(shape[1])
    rows[rng.random(len(rows)) < 0.3] = 0.0
    squares, shed = (rows * rows).sum(axis=1), shed * scale * scale
    total = float(np.trace(rows.T @ rows))
    floor = shed + UNSEEN * (total + shed)
    for form in EVIDENCE:
        trace, length, needed, short = form(rows, squares, moment, shed)
        assert_allclose(trace, total, rtol=1e-12)
        assert_allclose(length, np.linalg.norm(moment), rtol=1e-12)
        assert short == (scale == 1e-170 and bool(rows.any()))
        assert form(rows, squares, np.zeros(shape[1]), shed)[1:3] == (0.0, 0.0)
        if scale in (1.0, 1e60, 1e-30) and floor > 0.0:
            whole = rows.T @ rows + floor * np.eye(shape[1])
            assert_allclose(needed, moment @ np.linalg.solve(whole, moment), rtol=1e-5)
            lifted = np.full(shape[1], floor)
            assert_allclose(inverse_square(rows, lifted, moment), needed, rtol=1e-5)
        elif not rows.any():
            assert needed == (np.inf if shed == 0.0 else pytest.approx(moment @ moment / floor))


@given(seed=st.integers(0, 99), d=st.integers(1, 8), count=st.integers(1, 12))
def test_a_moment_is_explained_by_its_own_rewards_and_by_no_smaller_ones(
    seed: int, d: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    arms, rewards = rng.standard_normal((count, d)), rng.standard_normal(count)
    gram, moment = arms.T @ arms, arms.T @ rewards
    least = float(np.sum(np.linalg.lstsq(arms.T, moment, rcond=1e-10)[0] ** 2))
    assert is_explained(gram, moment, most=1.000001 * float(rewards @ rewards))
    assert is_explained(gram, moment, most=1.000001 * least)
    if np.linalg.cond(arms) < 1e2:
        assert not is_explained(gram, moment, most=0.99 * least)
    assert not is_explained(gram, moment, most=0.0)
    assert is_explained(np.zeros((d, d)), np.zeros(d), most=1.0)
    assert not is_explained(np.zeros((d, d)), np.ones(d), most=1.0)


@given(seed=st.integers(0, 99), shape=st.tuples(st.integers(0, 5), st.integers(1, 6)))
def test_skew_is_the_largest_product_of_two_rows(seed: int, shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(seed).standard_normal(shape)
    products = [abs(float(one @ other)) for i, one in enumerate(rows) for other in rows[:i]]
    for form in SKEW:
        square, product = form(rows)
        assert_allclose(square, max((float(row @ row) for row in rows), default=0.0), rtol=1e-12)
        assert_allclose(product, max(products, default=0.0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", SKEW, ids=["compiled", "source", "plain"])
@pytest.mark.parametrize("place", [(0, 0), (2, 1)])
def test_what_is_not_a_number_is_never_lost(form: Skew, place: tuple[int, int]) -> None:
    rows = np.eye(3)
    rows[place] = np.nan
    assert np.isnan(form(rows)[0])
