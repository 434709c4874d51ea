"""Rounded sketches: what they still promise, whatever was rounded and to however few bits."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.kernels.rounding import spectral_bound
from fedbandit.core.memory.narrow import (
    CODES,
    WIDTHS,
    Narrow,
    narrowed,
    rounded,
    rounding_loss,
    values,
)
from fedbandit.core.memory.summary import Sketch, sketch_of
from tests.core.histories import histories

Array = NDArray[np.float64]
NARROW = [width for width in WIDTHS if width != "float64"]
every_width = pytest.mark.parametrize("width", NARROW)
numbers = st.floats(-1e300, 1e300, allow_nan=False)


@st.composite
def orthogonal_rows(draw: st.DrawFn) -> Array:
    """Return k x d orthogonal rows, k from 0 to d, of any scale and of very different lengths."""
    d = draw(st.integers(1, 8))
    k = draw(st.integers(0, d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        axes, spread = np.linalg.qr(rng.standard_normal((d, d)))[0][:k], 6.0
    else:  # along the axes, so that rows of any ratio are orthogonal to the last bit
        axes, spread = np.eye(d)[rng.permutation(d)[:k]], 100.0
    lengths = 10.0 ** (-draw(st.sampled_from([0.0, 1.0, spread])) * rng.random(k))
    return np.asarray(10.0 ** draw(st.integers(-60, 60)) * lengths[:, None] * axes)


def norm(rows: Array) -> float:
    return float(np.linalg.norm(rows, 2)) if rows.size else 0.0


def assert_below(small: Array, large: Array, *, scale: float) -> None:
    """Assert small <= large, up to the rounding of d x d matrices of norm ``scale``."""
    if scale > 0.0:
        assert np.linalg.eigvalsh((large - small) / scale).min() >= -1e-14


def lifted(sketch: Sketch | Narrow) -> Array:
    rows = sketch.rows
    if isinstance(sketch, Narrow):
        rows = values(sketch.codes, sketch.scales, sketch.width)
    return rows.T @ rows + sketch.shed * np.eye(sketch.dimension)


@every_width
@given(rows=orthogonal_rows(), shed=st.sampled_from([0.0, 0.25]))
def test_what_is_sent_is_never_below_what_was_meant(width: str, rows: Array, shed: float) -> None:
    scale = norm(rows) ** 2
    sketch = Sketch(rows, shed * scale, len(rows) + 2, 0.0)
    assert_below(lifted(sketch), lifted(narrowed(sketch, width)), scale=scale)


@every_width
@given(arms=histories(), size=st.integers(2, 10))
def test_the_upper_half_of_the_sandwich_survives(width: str, arms: Array, size: int) -> None:
    sent = narrowed(sketch_of(arms, shed=0.0, size=size), width)
    scale = float(np.sum(arms**2))
    assert_below(arms.T @ arms, lifted(sent), scale=10 * scale)
    rows = values(sent.codes, sent.scales, width)
    over = np.linalg.eigvalsh(rows.T @ rows - arms.T @ arms).max(initial=0.0)
    assert over <= sent.shed + 1e-13 * scale  # rounding makes rows longer, but not by more


@every_width
@given(rows=orthogonal_rows())
def test_the_loss_is_bounded_and_not_by_much_more(width: str, rows: Array) -> None:
    """The bound is two-sided; what holds of its size is 1.62 k^(1/16), beside second order."""
    sketch = Sketch(rows, 0.0, len(rows) + 1)
    sent = values(*rounded(rows, width), width)
    scale = norm(rows)
    if scale == 0.0:
        assert rounding_loss(sketch, sent) == 0.0
        return
    loss = rounding_loss(sketch, sent) / scale / scale
    exact = np.abs(np.linalg.eigvalsh((rows.T @ rows - sent.T @ sent) / scale / scale)).max()
    second = (norm(sent - rows) / scale) ** 2
    assert loss >= exact - 1e-14
    assert loss <= 1.62 * len(rows) ** (1 / 16) * (exact + 2 * second) + 1e-14


@given(st.integers(0, 12), st.integers(0, 2**32 - 1), st.integers(-140, 140))
def test_the_spectral_bound_is_one(k: int, seed: int, exponent: int) -> None:
    half = np.random.default_rng(seed).standard_normal((k, k))
    symmetric = (half + half.T) * 10.0**exponent
    exact = float(np.abs(np.linalg.eigvalsh(symmetric)).max(initial=0.0))
    got = spectral_bound(symmetric)
    assert exact * (1 - 1e-13) <= got <= exact * k ** (1 / 16) * (1 + 1e-13)


@pytest.mark.parametrize("length", [1e-140, 1e-60, 1.0, 1e60, 1e74])
@every_width
def test_no_length_is_too_small_or_too_large(width: str, length: float) -> None:
    rows = length * np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0][:4]
    sent = narrowed(Sketch(rows, 0.0, 5, 0.0), width)
    assert sent.lost is not None
    assert 0.0 < sent.shed < 0.1 * length**2
    assert 0.0 <= sent.lost < 0.1 * length**2


@every_width
def test_zero_rows_cost_nothing(width: str) -> None:
    rows = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    sent = narrowed(Sketch(rows, 0.0, 3, 0.0), width)
    np.testing.assert_array_equal(sent.rows[0], 0.0)
    np.testing.assert_allclose(sent.rows[1], rows[1], rtol=1e-5)
    assert 0.0 <= sent.shed < 1e-4


@every_width
@given(arms=histories(), size=st.integers(2, 10), lost=st.sampled_from([0.0, 1e-9, 5.0]))
def test_what_was_lost_is_accounted_for(width: str, arms: Array, size: int, lost: float) -> None:
    kept = sketch_of(arms, shed=lost, size=size)
    sketch = Sketch(kept.rows, kept.shed, size, lost)
    sent = narrowed(sketch, width)
    assert sent.lost is not None
    d, rounding = arms.shape[1], 1e-13 * (lost + float(np.sum(arms**2)))
    rows = values(sent.codes, sent.scales, width)
    assert sent.lost >= lost + float(np.sum(kept.rows**2) - np.sum(rows**2)) - rounding
    assert sent.lost <= d * sent.shed + rounding
    error = kept.rows.T @ kept.rows - rows.T @ rows + (lost - sent.lost) / d * np.eye(d)
    assert np.abs(np.linalg.eigvalsh(error)).max() <= sent.shed - sketch.shed + rounding


@every_width
@given(rows=orthogonal_rows())
def test_opened_rows_are_orthogonal_and_say_the_same(width: str, rows: Array) -> None:
    sent = narrowed(Sketch(rows, 0.5, len(rows) + 2, 0.25), width)
    opened, scale = sent.sketch(), max(norm(sent.rows) ** 2, 1e-300)
    gram = opened.rows @ opened.rows.T / scale
    assert np.abs(gram - np.diag(gram.diagonal())).max(initial=0.0) <= 1e-14
    said, meant = opened.rows.T @ opened.rows, sent.rows.T @ sent.rows
    np.testing.assert_allclose(said / scale, meant / scale, atol=1e-14)
    assert opened.size == sent.size
    assert opened.shed == pytest.approx(sent.shed, rel=1e-12, abs=1e-14 * scale)
    assert sent.lost is not None
    assert opened.lost == pytest.approx(sent.lost, rel=1e-12, abs=1e-13 * scale)


@every_width
@given(row=st.lists(numbers, min_size=1, max_size=6))
def test_rounding_twice_is_rounding_once(width: str, row: list[float]) -> None:
    once = values(*rounded(np.array([row]), width), width)
    np.testing.assert_array_equal(values(*rounded(once, width), width), once)


def neighbours(code: NDArray[np.generic], width: str) -> list[float]:
    """Return the numbers next to a float code, both ways."""
    if width == "bfloat16":
        near = np.array([int(code) - 1, int(code) + 1]).clip(0, 2**16 - 1).astype(np.uint16)
        return [float(each) for each in CODES[width].read(near)]
    return [float(np.nextafter(code, code.dtype.type(way))) for way in (-4.0, 4.0)]


@pytest.mark.parametrize("width", ["float32", "float16", "bfloat16"])
@given(row=st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=6))
def test_floats_are_rounded_to_the_nearest(width: str, row: list[float]) -> None:
    codes, scales = rounded(np.array([row]), width)
    for x, code in zip(row, codes[0], strict=True):
        meant = Fraction(x) / Fraction(float(scales[0]))
        off = abs(meant - Fraction(float(CODES[width].read(np.array([code]))[0])))
        if abs(meant) >= Fraction(1, 2**100):
            assert all(
                off <= abs(meant - Fraction(near))
                for near in neighbours(code, width)
                if np.isfinite(near)
            )


def test_bfloat16_is_not_rounded_twice() -> None:
    """Just above the middle between 1/2 and its neighbour: the nearest float32 is the middle."""
    x = (1.0 + 2.0**-8 + 2.0**-40) / 2.0
    (((got, _),),) = [values(*rounded(np.array([[x, 1.0]]), "bfloat16"), "bfloat16")]
    assert got == (1.0 + 2.0**-7) / 2.0


@given(st.lists(numbers, min_size=1, max_size=6))
def test_integers_are_within_half_a_step(row: list[float]) -> None:
    codes, scales = rounded(np.array([row]), "int8")
    largest = max(abs(x) for x in row)
    assert np.abs(codes.astype(int)).max() <= 127
    if largest > 1e-280:
        step = float(scales[0])
        assert step <= largest / 127 <= step * (1 + 2.0**-20)
        off = np.abs(np.array(row) / step - codes[0])
        assert (off <= 0.5 + 127 * 2.0**-20).all()


@every_width
@given(
    rows=orthogonal_rows(),
    moment=st.lists(st.floats(-1e140, 1e140), min_size=8, max_size=8),
    lost=st.sampled_from([None, 0.0, 0.1]),
)
def test_the_wire_is_exact(
    width: str, rows: Array, moment: list[float], lost: float | None
) -> None:
    sent = narrowed(Sketch(rows, 0.1, len(rows) + 2, lost), width)
    d = sent.dimension
    short = values(*rounded(np.array([moment[:d]]), "float32"), "float32")[0]
    data = wire.encode(fb.Upload(3, fb.Statistics(sent, short, 7)))
    again = wire.decode(data)
    assert isinstance(again, fb.Upload)
    assert isinstance(again.summary, Narrow)
    assert again.moment.tobytes() == short.tobytes()
    assert again.summary.codes.tobytes() == sent.codes.tobytes()
    assert again.summary.scales.tobytes() == sent.scales.tobytes()
    assert again.summary.rows.tobytes() == sent.rows.tobytes()
    assert (again.summary.width, again.summary.size) == (width, sent.size)
    assert (again.summary.shed, again.summary.lost) == (sent.shed, sent.lost)
    assert wire.encode(again) == data
