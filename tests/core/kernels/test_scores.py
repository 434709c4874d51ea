"""Compiled loops, their source as Python runs it, and the numpy that stands in for them agree."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedbandit.core.kernels import linalg
from fedbandit.core.kernels import ucb as scores
from fedbandit.core.kernels.compiler import Kernel

Array = NDArray[Any]
K, D, ROWS = 5, 7, 3


def orthogonal_rows(rng: np.random.Generator) -> Array:
    return np.linalg.qr(rng.standard_normal((D, ROWS)))[0].T * [[3.0], [1.0], [0.2]]


def spd_inverse(rng: np.random.Generator) -> Array:
    root = rng.standard_normal((D, D))
    return np.linalg.inv(root @ root.T + np.eye(D))


def sparse(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return arms of 2, 0, 3, 0 and 1 entries."""
    indices = np.array([1, 4, 0, 2, 6, 5])
    return rng.standard_normal(6), indices, np.array([0, 2, 2, 5, 5, 6])


def for_sketch_ucb(rng: np.random.Generator) -> tuple[Any, ...]:
    arms, rows = rng.standard_normal((K, D)), orthogonal_rows(rng)
    squares = np.einsum("kd,kd->k", rows, rows)
    theta = rng.standard_normal(D)
    return arms, theta, 0.3, rows, squares, 1.5, np.empty((K, D)), np.empty(K)


def for_gram_ucb(rng: np.random.Generator) -> tuple[Any, ...]:
    arms, theta = rng.standard_normal((K, D)), rng.standard_normal(D)
    return arms, theta, 0.3, spd_inverse(rng), np.empty((K, D)), np.empty(K)


ARGUMENTS: dict[str, tuple[Kernel[..., Any], Callable[[np.random.Generator], tuple[Any, ...]]]] = {
    "first_best": (scores.first_best, lambda rng: (rng.standard_normal(K),)),
    "sketch_ucb": (scores.sketch_ucb, for_sketch_ucb),
    "gram_ucb": (scores.gram_ucb, for_gram_ucb),
    "sparse_products": (scores.sparse_products, lambda rng: (*sparse(rng), orthogonal_rows(rng))),
    "sparse_squares": (scores.sparse_squares, lambda rng: (*sparse(rng), spd_inverse(rng))),
    "append_row": (
        linalg.append_row,
        lambda rng: (rng.random((4, D)), 2, rng.random(D), rng.random(D), -0.7),
    ),
    "absorb_into_gram": (
        linalg.absorb_into_gram,
        lambda rng: (rng.random((D, D)), spd_inverse(rng), rng.random(D), rng.random(D), -0.7),
    ),
    "row_products": (linalg.row_products, lambda rng: (rng.random((K, D)), rng.random((K, D)))),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ARGUMENTS)
def test_all_forms_of_a_kernel_agree(name: str, seed: int) -> None:
    """In what they return, and in what they write."""
    kernel, arguments = ARGUMENTS[name]
    outcomes = []
    for form in (kernel, kernel.source, kernel.plain):
        given = arguments(np.random.default_rng(seed))
        outcomes.append([form(*given), *given])
    for outcome in outcomes[1:]:
        for one, other in zip(outcomes[0], outcome, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("form", ["source", "plain"])
@pytest.mark.parametrize("spoilt", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["sketch_ucb", "gram_ucb"])
def test_scores_that_are_not_finite_decide_and_write_nothing(
    name: str, spoilt: float, form: str
) -> None:
    kernel, arguments = ARGUMENTS[name]
    given = arguments(np.random.default_rng(0))
    given[0][3, 2] = spoilt
    given[-2][:], given[-1][:] = 8.0, 9.0
    with np.errstate(all="ignore"):
        for decide in (kernel, getattr(kernel, form)):
            assert decide(*given) == -1
    assert (given[-2] == 8.0).all()
    assert (given[-1] == 9.0).all()


def test_the_first_of_equals_wins() -> None:
    for decide in (scores.first_best, scores.first_best.source, scores.first_best.plain):
        assert decide(np.array([1.0, 2.0, 2.0 + 1e-10, 2.0])) == 1
        assert decide(np.array([1.0, 2.0, 2.0 + 1e-8])) == 2
        assert decide(np.array([-1e-10, 0.0])) == 1
        assert decide(np.array([np.inf, 0.0])) == -1
    np.testing.assert_array_equal(
        scores.first_best_of_each(np.array([[1.0, 2.0, 2.0 + 1e-10], [3.0, 2.0, 1.0]])), [1, 0]
    )
