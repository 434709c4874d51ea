"""What lossy summaries compute in loops is what numpy computes."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from fedbandit.core.kernels.cholesky import raised_solve, solve_sum, sum_logdet, whitened
from fedbandit.core.kernels.frequent_directions import (
    squares_where_held,
    weighed_matrix,
    weighed_rows,
)
from fedbandit.core.kernels.linalg import lie_within, read_only, rows_times
from fedbandit.core.kernels.rounding import (
    fit,
    kept,
    levels_of,
    levels_read,
    rounded_to,
    rows_within,
    shortened_number,
)

Array = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


def agree(kernel: Any, *args: Any, atol: float = 0.0) -> Any:
    """Return what numpy computes, once the loops have computed the same."""
    expected, got = kernel.plain(*_copies(args)), kernel(*_copies(args))
    pairs = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
    for one, other in pairs:
        assert_allclose(one, other, rtol=1e-9, atol=atol)
    return expected


def _copies(args: tuple[Any, ...]) -> list[Any]:
    """Return copies that can be written if the originals can: else more would be compiled."""
    copies = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
    for one, other in zip(copies, args, strict=True):
        if isinstance(other, np.ndarray):
            one.flags.writeable = other.flags.writeable
    return copies


def some_rows(seed: int, k: int, d: int) -> Array:
    """Rows of different lengths, with coordinates that were never played."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((k, d)) * 10.0 ** rng.uniform(-1, 1, (k, 1))
    rows[:, rng.random(d) < 0.2] = 0.0
    return rows


@settings(max_examples=40)
@given(seed=seeds, n=st.integers(1, 40))
def test_solutions_and_determinants_are_those_of_numpy(seed: int, n: int) -> None:
    rows = some_rows(seed, n + 2, n)
    matrix = rows.T @ rows + np.eye(n)
    half, ones = read_only(0.5 * matrix), np.ones(n)
    y = rows[0].copy()
    logdet = solve_sum(read_only(half - np.eye(n)), 1.0, half, ones, y)
    assert_allclose(y, np.linalg.solve(matrix, rows[0]), rtol=1e-7, atol=1e-9)
    assert logdet == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-9, abs=1e-9)
    assert np.isnan(solve_sum(half, -3.0, half, np.zeros(n), y))


@settings(max_examples=40)
@given(seed=seeds, n=st.integers(1, 30), k=st.integers(0, 12))
def test_determinants_and_solutions(seed: int, n: int, k: int) -> None:
    rows, more = some_rows(seed, n, n), some_rows(seed + 1, k, n)
    one, other, diagonal = rows.T @ rows, more.T @ more, np.arange(1.0, n + 1.0)
    rounding = 1e-15 * n  # of the logarithm of a determinant of 1
    logdet = agree(sum_logdet, one, 1.1, other, diagonal, atol=rounding)
    assert logdet == pytest.approx(
        np.linalg.slogdet(one + 1.1 * other + np.diag(diagonal))[1], rel=1e-9, abs=rounding
    )
    assert np.isnan(sum_logdet(one, -1e9, np.eye(n), diagonal))
    agree(raised_solve, read_only(one), diagonal, read_only(rows[0]), atol=1e-9)
    agree(whitened, read_only(more), diagonal, atol=1e-9)


@settings(max_examples=40)
@given(seed=seeds, k=st.integers(1, 12), d=st.integers(1, 20))
def test_rows_by_their_coordinates(seed: int, k: int, d: int) -> None:
    rows, rng = read_only(some_rows(seed, k, d)), np.random.default_rng(seed)
    scaled, metric, held = agree(weighed_rows, rows, 0.7)
    assert_allclose(metric**2, 0.7 + held)
    agree(weighed_matrix, read_only(rows.T @ rows), 0.7, atol=1e-15)
    agree(squares_where_held, scaled, held)
    bound = read_only(rng.exponential(size=d))
    agree(rows_times, rows, bound, 2.5, rng.standard_normal(d), atol=1e-9)
    agree(rows_times, rows, read_only(np.zeros(d)), 0.0, rng.standard_normal(d), atol=1e-9)
    assert agree(lie_within, rows, 1e3, bound, 1e3)
    for bad in (np.nan, np.inf, -1e3):
        wrong = rows.copy()
        wrong[-1, -1] = bad
        assert not agree(lie_within, read_only(wrong), 1e3, bound, 1e3)
        worse = np.where(np.arange(d) == 0, bad, bound)
        assert not agree(lie_within, rows, 1e3, read_only(worse), 1e3)


@settings(max_examples=60)
@given(
    seed=seeds,
    k=st.integers(0, 12),
    d=st.integers(1, 20),
    faint=st.sampled_from([0.0, 0.02, 10.0]),
    room=st.one_of(st.just(inf), st.floats(0.0, 200.0)),
    delta=st.sampled_from([0.0, 0.3]),
    even=st.sampled_from([0.0, 2.0, 1e6]),
)
def test_a_message_is_cut_and_rounded_alike(
    seed: int, k: int, d: int, faint: float, room: float, delta: float, even: float
) -> None:
    """Codes may differ by one where a number lies in the middle between two of them."""
    rng = np.random.default_rng(seed)
    rows, held = some_rows(seed, k, d), rng.exponential(size=d) * (rng.random(d) < 0.8)
    rows = rows[np.argsort(-np.einsum("kd,kd->k", rows, rows))]
    squares = squares_where_held(rows, held)
    held = held + np.einsum("kd,kd->d", rows, rows) * (1.0 + held)
    metric, bound = np.sqrt(1.0 + held), read_only(rng.exponential(size=d))
    leading = rows, squares, delta, metric, held, bound, 1.5, 1.1
    for count in range(k + 3):
        agree(kept, *leading, count, even, atol=1e-9)
    asked = *leading, 0.01, faint, room, even
    with pytest.MonkeyPatch.context() as patch:
        for each in (rows_within, kept, rounded_to, levels_of):
            patch.setattr(each, "run", each.plain)
        expected = fit(*_copies(asked))
    codes, step, levels, top, lost, short, raised = fit(*_copies(asked))
    assert codes.dtype == np.int32
    assert levels.dtype == np.uint8
    assert codes.shape == expected[0].shape
    assert step == expected[1]
    assert_allclose(codes, expected[0], atol=1.0)
    assert_allclose(top, expected[3], rtol=1e-6)
    assert_allclose(lost, expected[4], rtol=1e-6, atol=1e-6)
    assert_allclose(short, codes * step)
    assert_allclose(raised, levels_read(levels, top))
    assert_allclose(raised, expected[6], rtol=0.1)


@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e12)), min_size=1, max_size=20))
def test_levels_of_a_bound(bound: list[float]) -> None:
    agree(levels_of, np.array(bound), 0.0, np.ones(len(bound)))
    agree(levels_of, np.array(bound), 0.1, np.arange(len(bound)) % 2.0)


@given(st.floats(1e-290, 1e290))
def test_a_shortened_number_has_32_bits_less(number: float) -> None:
    bits = np.array([number]).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)
    assert shortened_number(number) == bits.view(np.float64)[0]
