"""The compiled pass over an upload says what numpy says, in every form of it."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fedbandit.core.kernels.linalg import Array, skew
from fedbandit.service.merging.evidence import evidence

Skew = Callable[[Array], tuple[float, float]]
Evidence = Callable[[Array, Array, Array], tuple[float, float, float, bool]]

EVIDENCE: list[Evidence] = [evidence, evidence.source, evidence.plain]
SKEW: list[Skew] = [skew, skew.source, skew.plain]


@given(
    seed=st.integers(0, 99),
    shape=st.tuples(st.integers(0, 5), st.integers(1, 6)),
    scale=st.sampled_from([0.0, 1e-170, 1e-30, 1.0, 1e60]),
)
def test_evidence_is_what_it_says(seed: int, shape: tuple[int, int], scale: float) -> None:
    rng = np.random.default_rng(seed)
    rows, moment = rng.standard_normal(shape) * scale, rng.standard_normal(shape[1])
    rows[rng.random(shape[0]) < 0.3] = 0.0
    squares = (rows * rows).sum(axis=1)
    u = moment / np.linalg.norm(moment)
    for form in EVIDENCE:
        trace, length, along, short = form(rows, squares, moment)
        assert_allclose(trace, np.trace(rows.T @ rows), rtol=1e-12)
        assert_allclose(length, np.linalg.norm(moment), rtol=1e-12)
        assert_allclose(along, u @ (rows.T @ rows) @ u, rtol=1e-9, atol=1e-14 * scale**2)
        assert short == (scale == 1e-170 and bool(rows.any()))
        assert form(rows, squares, np.zeros(shape[1]))[1:3] == (0.0, 0.0)


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
