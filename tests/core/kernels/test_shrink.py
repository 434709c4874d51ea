"""Our eigensolvers against LAPACK, and one absorbed row against a whole shrink."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.core.kernels.arrowhead import arrowhead_eigh
from fedbandit.core.kernels.compiler import COMPILES
from fedbandit.core.kernels.eigh import halved, halved_eigenpairs, leading_eigenpairs
from fedbandit.core.kernels.frequent_directions import shed_one, shrink
from fedbandit.core.kernels.leading import separate_eigenpairs
from fedbandit.core.kernels.tridiagonal import tridiagonalise, turn_back
from tests.core.histories import histories

Array = NDArray[np.float64]
Eigh = Callable[[Array, Array, float, int], tuple[Array, Array]]


@st.composite
def arrowheads(draw: st.DrawFn) -> tuple[Array, Array, float]:
    """Return poles, weights and corner of a semidefinite arrowhead matrix, nasty ones included."""
    n = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1e-6, 1.0, 1e6]))
    squares = scale * np.sort(rng.random(n))[::-1]
    crossed = np.sqrt(squares * scale) * rng.standard_normal(n)
    match draw(st.sampled_from(["plain", "equal poles", "no weights", "tiny poles", "one weight"])):
        case "equal poles":
            squares[:] = squares[0]
        case "no weights":
            crossed[rng.random(n) < 0.7] = 0.0
        case "tiny poles":
            squares[n // 2 :] *= 1e-13
            crossed[n // 2 :] *= 1e-8
        case "one weight":
            crossed[1:] *= 1e-12
    needed = float(np.sum(np.divide(crossed**2, squares, where=squares > 0, out=np.zeros(n))))
    return squares, crossed, needed + draw(st.sampled_from([0.0, 1e-9, 1.0])) * scale


@pytest.mark.parametrize("eigh", [arrowhead_eigh, arrowhead_eigh.source, arrowhead_eigh.plain])
@given(case=arrowheads())
def test_it_is_the_eigendecomposition(eigh: Eigh, case: tuple[Array, Array, float]) -> None:
    squares, crossed, corner = case
    n = len(squares)
    matrix = np.diag(np.append(squares, corner))
    matrix[n, :n] = matrix[:n, n] = crossed
    with np.errstate(all="ignore"):
        values, vectors = eigh(squares, crossed, corner, n + 1)
        same, fewer = eigh(squares, crossed, corner, n // 2)
    assert np.array_equal(same, values)
    assert np.array_equal(fewer, vectors[: n // 2])
    loose = 1e-13 * float(np.linalg.norm(matrix))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1], atol=loose, rtol=0)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(n + 1), atol=1e-13)
    np.testing.assert_allclose((vectors.T * values) @ vectors, matrix, atol=loose)


@given(histories(most=30), st.integers(2, 8))
def test_absorbing_a_row_is_shrinking_all_rows(arms: Array, size: int) -> None:
    """The same matrix and the same shed; the rows may differ by a rotation where norms tie."""
    size = min(size, arms.shape[1])
    if len(arms) < size or size < 2:
        return
    rows, _ = shrink(arms[:-1], size)
    if len(rows) != size - 1:
        return
    buffer = np.vstack([rows, arms[-1]])
    expected, shed = shrink(buffer.copy(), size)
    count, squares, delta = shed_one(buffer, np.sum(rows**2, axis=1))
    kept = buffer[:count]
    loose = 1e-12 * (1e-300 + np.sum(arms**2))
    assert delta == pytest.approx(shed, abs=loose)
    np.testing.assert_allclose(kept.T @ kept, expected.T @ expected, atol=loose)
    np.testing.assert_allclose(kept @ kept.T, np.diag(squares), atol=loose)


@st.composite
def semidefinite(draw: st.DrawFn) -> Array:
    """Return a Gram matrix of 3 to 40 rows: any scale and rank, repeats, steep decay, blocks."""
    n, seed = draw(st.integers(3, 40)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, draw(st.integers(1, n))))
    kind = draw(st.sampled_from(["plain", "repeated", "decaying", "whole", "blocks", "diagonal"]))
    if kind == "repeated":
        rows = rows[rng.integers(0, n, size=n)]
    elif kind == "decaying":
        rows *= 10.0 ** -np.arange(rows.shape[1])
    elif kind == "whole":
        rows = np.round(rows)
    elif kind == "blocks":
        rows[: n // 2, ::2] = rows[n // 2 :, 1::2] = 0.0
    elif kind == "diagonal":
        rows = np.diag(rng.integers(0, 3, size=n).astype(float))
    rows *= draw(st.sampled_from([1e-90, 1e-8, 1.0, 1e8, 1e60]))
    return rows @ rows.T


def halved_in_python(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return what ``halved_eigenpairs`` does, none of it compiled."""
    scale, bands, reflectors = tridiagonalise.source(matrix)
    values, vectors = halved.source(bands.copy(), count)
    turn_back.source(reflectors, bands, vectors, count)
    return scale * values, vectors[:, : len(matrix)]


def halved_when_compiled(matrix: Array, count: int) -> tuple[Array, Array]:
    """Return what ``halved_eigenpairs`` does, which must not give up."""
    pairs = halved_eigenpairs(tridiagonalise(matrix), count)
    assert pairs is not None
    return pairs


@pytest.mark.parametrize("solve", [halved_when_compiled, halved_in_python])
@given(matrix=semidefinite(), data=st.data())
def test_leading_eigenpairs(
    solve: Callable[..., tuple[Array, Array]], matrix: Array, data: st.DataObject
) -> None:
    """Values as LAPACK has them; vectors orthonormal, and eigenvectors, to rounding."""
    n = len(matrix)
    count = data.draw(st.integers(1, n))
    values, vectors = solve(matrix, count)
    scale = max(np.abs(matrix).max(), 1e-300)
    assert vectors.shape == (count, n)
    np.testing.assert_allclose(
        values / scale, np.linalg.eigvalsh(matrix / scale)[::-1], rtol=0, atol=1e-13 * n
    )
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(count), atol=1e-13 * n)
    np.testing.assert_allclose(
        vectors @ (matrix / scale), (values[:count, None] / scale) * vectors, atol=1e-13 * n
    )


@given(matrix=semidefinite(), data=st.data())
def test_separate_eigenpairs(matrix: Array, data: st.DataObject) -> None:
    """As above, unless it gives up; rounding error may be up to n epsilon, and has no vector."""
    n = len(matrix)
    count = data.draw(st.integers(1, n))
    pairs = separate_eigenpairs(tridiagonalise(matrix), count)
    if pairs is None:
        return
    values, vectors = pairs
    scale = max(np.abs(matrix).max(), 1e-300)
    expected = np.linalg.eigvalsh(matrix / scale)[::-1][: count + 1]
    np.testing.assert_allclose(values / scale, expected, rtol=0, atol=1e-13 * n)
    shown = vectors.any(axis=1)
    assert (values[:count][~shown] <= values[0] * n * np.finfo(float).eps).all()
    np.testing.assert_allclose(vectors @ vectors.T, np.diag(shown.astype(float)), atol=1e-13 * n)
    np.testing.assert_allclose(
        vectors @ (matrix / scale), (values[:count, None] / scale) * vectors, atol=1e-13 * n
    )


@pytest.mark.parametrize("rank", [5, 30, 80])
def test_matrices_of_data_have_separate_eigenpairs(rank: int) -> None:
    """It gives up on none of them, whatever their rank, and on all with equal eigenvalues."""
    for seed in range(20 if COMPILES else 2):
        rows = np.random.default_rng(seed).standard_normal((rank, 60))
        pairs = separate_eigenpairs(tridiagonalise(rows.T @ rows), 20)
        assert pairs is not None
        assert np.isfinite(pairs[0]).all()
        twice = np.asarray(np.kron(np.eye(2), rows.T @ rows), dtype=np.float64)
        assert separate_eigenpairs(tridiagonalise(twice), 20) is None


@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 300])
def test_leading_eigenpairs_of_every_size(n: int) -> None:
    rows = np.random.default_rng(n).standard_normal((n, n + 1))
    matrix, count = rows @ rows.T, (n + 1) // 2
    values, vectors = leading_eigenpairs(matrix, count)
    assert len(values) >= min(count + 1, n)
    expected = np.linalg.eigvalsh(matrix)[::-1][: len(values)]
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        vectors @ matrix, values[:count, None] * vectors, atol=1e-11 * max(n, 1)
    )


@pytest.mark.parametrize("size", [0.0, 1e-150, 1e-155, 1e-160, 1e-163, 1e-170])
@pytest.mark.parametrize("arms", ["unit", "one-hot"])
def test_a_few_arms_again_and_again(arms: str, size: float) -> None:
    """Rows off the diagonal then fall by sixteen digits a step, until their squares vanish."""
    for seed in range(60 if COMPILES else 6):
        rng = np.random.default_rng(seed)
        n, d = (int(side) for side in rng.integers(4, 60, size=2))
        few = np.eye(d)[rng.integers(d, size=3)]
        if arms == "unit":
            few = rng.standard_normal((3, d))
        rows = few[rng.integers(3, size=n)]
        rows[-2:] = size * rng.standard_normal((2, d))
        matrix = rows @ rows.T
        values, vectors = halved_when_compiled(matrix, n)
        scale = np.abs(matrix).max()
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=1e-13 * n)
        np.testing.assert_allclose((vectors.T * values) @ vectors, matrix, atol=1e-13 * n * scale)


def test_what_has_no_eigenvalues_is_left_to_lapack() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        leading_eigenpairs(np.full((5, 5), np.nan), 2)
