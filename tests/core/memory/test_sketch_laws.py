"""What must hold of every sketch, whatever was absorbed and however it was merged."""

from functools import reduce
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.core.memory.summary import Sketch, empty_sketch, sketch_of
from fedbandit.core.theory import epsilon_l
from tests.core.histories import assert_psd_order, histories

Array = NDArray[np.float64]
sizes = st.integers(2, 10)


def dense(sketch: Sketch, *, compensated: bool) -> Array:
    lift = sketch.shed if compensated else 0.0
    return sketch.rows.T @ sketch.rows + lift * np.eye(sketch.dimension)


def norm(arms: Array) -> float:
    return float(np.sum(arms**2))


def rounding(arms: Array) -> float:
    """Directions that rounding has drowned are dropped and counted as shed: a few units of it."""
    return float(arms.size * np.finfo(float).eps * norm(arms))


def absorbed(arms: Array, size: int) -> list[Sketch]:
    """Return the sketch after 0, 1, ..., n rows, absorbed one at a time."""
    start = empty_sketch(arms.shape[1], size)
    sketches = [start]
    for x in arms:
        sketches.append(sketches[-1].merge(sketch_of(x[None], shed=0.0, size=size)))
    return sketches


def merged(parts: list[Array], size: int) -> Sketch:
    sketches = [absorbed(part, size)[-1] for part in parts]
    return reduce(lambda one, other: one.merge(other), sketches)


@st.composite
def federations(draw: st.DrawFn) -> list[Array]:
    d = draw(st.integers(1, 8))
    return draw(st.lists(histories(dimension=d, most=15), min_size=1, max_size=4))


@given(histories(), sizes)
def test_rows_are_few_and_orthogonal(arms: Array, size: int) -> None:
    sketch = absorbed(arms, size)[-1]
    assert len(sketch.rows) <= min(size - 1, arms.shape[1])
    gram = sketch.rows @ sketch.rows.T
    np.testing.assert_allclose(gram, np.diag(sketch.squares), atol=1e-12 * (1 + norm(arms)))
    assert (sketch.squares > 0).all()


@given(histories(), sizes)
def test_sandwich(arms: Array, size: int) -> None:
    sketch, gram, scale = absorbed(arms, size)[-1], arms.T @ arms, norm(arms)
    assert_psd_order(dense(sketch, compensated=False), gram, scale=scale)
    assert_psd_order(gram, dense(sketch, compensated=True), scale=scale)


@given(federations(), sizes)
def test_sandwich_survives_merging(parts: list[Array], size: int) -> None:
    sketch, arms = merged(parts, size), np.vstack(parts)
    gram, scale = arms.T @ arms, norm(arms)
    assert_psd_order(dense(sketch, compensated=False), gram, scale=scale)
    assert_psd_order(gram, dense(sketch, compensated=True), scale=scale)


@given(histories(), sizes)
def test_compensated_form_never_decreases(arms: Array, size: int) -> None:
    sketches = absorbed(arms, size)
    for before, after in pairwise(sketches):
        assert_psd_order(
            dense(before, compensated=True), dense(after, compensated=True), scale=norm(arms)
        )


@given(federations(), sizes)
def test_compensated_form_never_decreases_by_merging(parts: list[Array], size: int) -> None:
    before, other = absorbed(parts[0], size)[-1], absorbed(parts[-1], size)[-1]
    after = before.merge(other)
    scale = norm(parts[0]) + norm(parts[-1])
    for part in (before, other):
        assert_psd_order(dense(part, compensated=True), dense(after, compensated=True), scale=scale)


@given(histories(most=9), st.integers(0, 3))
def test_exact_while_few_rows_were_seen(arms: Array, spare: int) -> None:
    sketch = absorbed(arms, max(2, len(arms) + 1 + spare))[-1]
    assert sketch.shed <= rounding(arms)
    np.testing.assert_allclose(
        dense(sketch, compensated=True), arms.T @ arms, atol=1e-12 * (1 + norm(arms))
    )


@given(federations(), sizes)
def test_shed_is_bounded_by_the_spectral_tail(parts: list[Array], size: int) -> None:
    arms = np.vstack(parts)
    tail = epsilon_l(np.linalg.eigvalsh(arms.T @ arms), sketch_size=size, ridge=1.0)
    assert merged(parts, size).shed <= tail + 1e-12 * (1 + norm(arms))


@given(histories(), st.integers(0, 2))
def test_a_sketch_larger_than_the_dimension_sheds_nothing(arms: Array, spare: int) -> None:
    sketch = absorbed(arms, arms.shape[1] + 1 + spare)[-1]
    assert sketch.shed <= rounding(arms)


@given(histories(), sizes)
def test_shed_equals_what_singular_values_say(arms: Array, size: int) -> None:
    """One shrink of everything: delta is the size-th squared singular value, by another route."""
    sigma = np.zeros(max(size, *arms.shape))
    singular = np.linalg.svd(arms, compute_uv=False)
    sigma[: len(singular)] = singular
    sketch = sketch_of(arms, shed=0.0, size=size)
    np.testing.assert_allclose(sketch.shed, sigma[size - 1] ** 2, atol=1e-12 * (1 + norm(arms)))
    expected = np.maximum(sigma**2 - sigma[size - 1] ** 2, 0.0)[: len(sketch.squares)]
    np.testing.assert_allclose(sketch.squares, expected, atol=1e-12 * (1 + norm(arms)))
