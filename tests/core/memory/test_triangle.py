"""Gram matrices as triangles: what they still promise, whatever was rounded and to few bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.narrow import rounded, values
from fedbandit.core.memory.triangle import GRAM_WIRES, TRIANGLE_CODES, Triangle, triangle_of
from tests.core import literal_gram
from tests.core.histories import histories

Array = NDArray[np.float64]
NARROW = [width for width in TRIANGLE_CODES if width != "float64"]
every_width = pytest.mark.parametrize("width", TRIANGLE_CODES)
every_narrow_width = pytest.mark.parametrize("width", NARROW)
scales = st.sampled_from([1e-60, 1e-7, 1.0, 1e7, 1e60])


def gram(arms: Array, scale: float = 1.0) -> fb.Gram:
    return fb.Gram(scale * (arms.T @ arms))


def assert_below(small: Array, large: Array, *, scale: float) -> None:
    """Assert small <= large, up to the rounding of d x d matrices of norm ``scale``."""
    if scale > 0.0:
        assert np.linalg.eigvalsh((large - small) / scale).min() >= -1e-14


def test_widths_are_those_that_can_be_asked_for() -> None:
    assert set(GRAM_WIRES) == {"full", *TRIANGLE_CODES}


@every_width
@given(arms=histories(), scale=scales, shed=st.sampled_from([0.0, 0.25]))
def test_what_is_sent_is_never_below_what_was_meant(
    width: str, arms: Array, scale: float, shed: float
) -> None:
    meant = gram(arms, scale)
    norm = float(np.trace(meant.matrix))
    sent = triangle_of(fb.Gram(meant.matrix, shed * norm), width)
    assert_below(meant.matrix, sent.matrix, scale=norm)
    added = (sent.shed - shed * norm) * np.eye(len(meant.matrix))
    assert_below(sent.matrix, meant.matrix + added, scale=norm)
    np.testing.assert_array_equal(sent.matrix, sent.matrix.T)


@every_narrow_width
@given(arms=histories())
def test_it_is_the_literal_one(width: str, arms: Array) -> None:
    """But for ties, where one bit more or less in A decides."""
    meant = gram(arms)
    sent, (matrix, added) = triangle_of(meant, width), literal_gram.rounded(meant.matrix, width)
    norm, unit = float(np.trace(meant.matrix)), TRIANGLE_CODES[width].unit
    np.testing.assert_allclose(sent.matrix, matrix, atol=4 * unit * norm)
    close = np.isclose(sent.matrix, matrix, rtol=0.0, atol=1e-9 * norm).all()
    assert not close or sent.shed == pytest.approx(added, abs=1e-9 * norm)


@every_width
def test_an_entry_by_hand(width: str) -> None:
    """A = [[4, 3], [3, 9]]: the ratio is 1/2, of which 127 / 2 is a tie, rounded to even."""
    sent = triangle_of(fb.Gram(np.array([[4.0, 3.0], [3.0, 9.0]])), width)
    assert sent.diagonal.tolist() == [4.0, 9.0]
    assert sent.codes.tolist() == [{"float64": 3.0, "int8": 64}.get(width, 0.5)]
    off = 64 / 127 - 1 / 2 if width == "int8" else 0.0  # N is 0 but for -off beside the diagonal
    assert sent.raised == pytest.approx(off, rel=1e-8)
    expected = np.array([[4 * (1 + off), 6 * (0.5 + off)], [6 * (0.5 + off), 9 * (1 + off)]])
    np.testing.assert_allclose(sent.matrix, expected, rtol=1e-10)
    assert sent.shed == pytest.approx(2 * off * 9, rel=1e-8)


@every_width
@given(arms=histories())
def test_nothing_is_added_where_nothing_was_played(width: str, arms: Array) -> None:
    arms = np.column_stack([arms, np.zeros(len(arms))])
    sent = triangle_of(gram(arms), width)
    assert not sent.matrix[-1].any()
    assert not sent.matrix[:, -1].any()


@every_width
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-150, 1e149])
def test_no_size_is_too_small_or_too_large(width: str, scale: float) -> None:
    rows = np.random.default_rng(0).standard_normal((9, 4)) / 9
    sent = triangle_of(gram(rows, scale), width)
    assert np.isfinite(sent.matrix).all()
    least = 2.0**-1041  # what four bytes can say, and a little more
    assert sent.shed <= 0.1 * scale + least
    assert sent.matrix.diagonal().max() <= 1.1 * scale + least


@every_width
def test_nothing_yet_costs_nothing(width: str) -> None:
    sent = triangle_of(fb.Gram(np.zeros((3, 3))), width)
    assert (sent.raised, sent.shed) == (0.0, 0.0)
    assert not sent.matrix.any()


@given(
    width=st.sampled_from(NARROW),
    d=st.integers(1, 40),
    alike=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_doors_room_is_enough_after_three_roundings(
    width: str, d: int, alike: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((d, d)) * 10.0 ** rng.uniform(-3, 0, d)
    matrix = rows.T @ rows
    if alike:  # all ratios the same, so that all errors have one sign
        roots = np.sqrt(matrix.diagonal())
        matrix = np.outer(roots, roots) * (rng.random() + np.zeros((d, d)))
        matrix.flat[:: d + 1] = roots**2
    mass, held = float(np.trace(matrix)), fb.Gram(matrix)
    for _ in range(3):
        sent = triangle_of(held, width)
        held = sent.gram()
        assert float(np.trace(held.matrix)) <= (1.0 + sent.room) * mass
        assert sent.shed <= 2.0 * sent.room * float(np.trace(held.matrix))


@every_width
@given(arms=histories(), moment=st.lists(st.floats(-1e140, 1e140), min_size=9, max_size=9))
def test_the_wire_is_exact(width: str, arms: Array, moment: list[float]) -> None:
    sent, d = triangle_of(fb.Gram(arms.T @ arms, 0.5), width), arms.shape[1]
    short = np.array(moment[:d])
    if width != "float64":
        short = values(*rounded(short[None], "float32"), "float32")[0]
    data = wire.encode(fb.Upload(3, fb.Statistics(sent, short, 7)))
    again = wire.decode(data)
    assert isinstance(again, fb.Upload)
    assert isinstance(again.summary, Triangle)
    assert again.moment.tobytes() == short.tobytes()
    assert again.summary.matrix.tobytes() == sent.matrix.tobytes()
    assert (again.summary.width, again.summary.shed) == (width, sent.shed)
    assert wire.encode(again) == data


@pytest.mark.parametrize(
    ("width", "share"), [("float64", 0.53), ("float32", 0.28), ("float16", 0.15), ("int8", 0.09)]
)
def test_bytes_are_what_the_triangle_needs(width: str, share: float) -> None:
    whole = gram(np.random.default_rng(0).standard_normal((200, 50)))
    sent = triangle_of(whole, width)
    size, full = (
        len(wire.encode(fb.Upload(0, fb.Statistics(each, np.ones(50), 200))))
        for each in (sent, whole)
    )
    assert size < share * full
    assert sent.upload_scalars == 51 * 25 + 50 + (2 if width != "float64" else 0)


def test_a_lifted_matrix_is_stored_in_full_precision() -> None:
    held = fb.Gram(np.array([[2.0, 1 / 3], [1 / 3, np.pi]]), 0.125)
    again = wire.decode(wire.encode(fb.Download(fb.Statistics(held, np.ones(2) / 3, 4), 1)))
    assert isinstance(again, fb.Download)
    assert isinstance(again.summary, Triangle)
    opened = again.summary.gram()
    np.testing.assert_array_equal(opened.matrix, held.matrix)
    assert opened.shed == held.shed
    np.testing.assert_array_equal(again.moment, np.ones(2) / 3)
