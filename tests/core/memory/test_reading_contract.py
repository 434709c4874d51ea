"""Every way of remembering answers like the dense matrix that it stands for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedbandit.core.memory.contract import Memory, Pending, Summary
from fedbandit.core.memory.gram_memory import GramMemory
from fedbandit.core.memory.lossy.memory import LossyMemory
from fedbandit.core.memory.lossy.summary import LossyRows
from fedbandit.core.memory.sketch_memory import SketchMemory
from fedbandit.core.memory.summary import Gram, Sketch
from fedbandit.core.statistics import Base, Statistics
from tests.core.histories import histories

Array = NDArray[np.float64]
D, RIDGE = 6, 0.7

MEMORIES: dict[str, Memory] = {
    "gram": GramMemory(D, RIDGE),
    "gram, every round": GramMemory(D, RIDGE, "every-round"),
    "gram, when needed": GramMemory(D, RIDGE, "when-needed"),
    "gram, rounded": GramMemory(D, RIDGE, "when-needed", "int8"),
    "sketch": SketchMemory(D, RIDGE, size=4),
    "sketch, uncompensated": SketchMemory(D, RIDGE, size=4, compensated=False),
    "sketch, nothing shed": SketchMemory(D, RIDGE, size=D + 1),
    "sketch, buffered": SketchMemory(D, RIDGE, size=4, buffer=11),
    "lossy": LossyMemory(D, RIDGE, size=4, buffer=4, server_size=4),
    "lossy, buffered": LossyMemory(D, RIDGE, size=4, buffer=11, server_size=D + 1),
}
every_memory = pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)


def dense(memory: Memory, summary: Summary) -> Array:
    if isinstance(summary, Gram):
        return summary.matrix + RIDGE * np.eye(D)
    if isinstance(summary, LossyRows):
        lifted = np.diag(RIDGE + summary.bound)
        return summary.weight * summary.rows.T @ summary.rows + lifted
    assert isinstance(summary, Sketch)
    assert isinstance(memory, SketchMemory)
    ridge = RIDGE + (summary.shed if memory.compensated else 0.0)
    return summary.rows.T @ summary.rows + ridge * np.eye(D)


def based(memory: Memory, summary: Summary) -> Base:
    return Base(Statistics(summary, np.zeros(D), 0), memory)


def filled(memory: Memory, base: Summary, arms: Array) -> Pending:
    held = based(memory, base)
    pending = memory.pending(held)
    for x in arms:
        pending.absorb(x, float(held.reading.squared_widths(x[None])[0]), 1.0)
    return pending


@every_memory
@given(held=histories(dimension=D), asked=histories(dimension=D))
def test_reading(memory: Memory, held: Array, asked: Array) -> None:
    summary = filled(memory, memory.empty().summary, held).summary()
    reading, matrix = memory.read(summary), dense(memory, summary)
    loose = 1e-9 * (1 + np.sum(held**2)) * (1 + np.sum(asked**2))
    widths = np.einsum("kd,kd->k", asked, np.linalg.solve(matrix, asked.T).T)
    np.testing.assert_allclose(reading.squared_widths(asked), widths, rtol=1e-7, atol=loose)
    np.testing.assert_allclose(reading.logdet, np.linalg.slogdet(matrix)[1], rtol=1e-9, atol=1e-9)
    for y in asked[:3]:
        np.testing.assert_allclose(reading.solve(y), np.linalg.solve(matrix, y), atol=loose)
    shown = reading.shown_directions(RIDGE)
    assert -1e-9 <= shown <= D
    if reading.shed == 0.0:
        expected = D - RIDGE * np.trace(np.linalg.inv(matrix))
        np.testing.assert_allclose(shown, expected, atol=1e-9)


@pytest.mark.parametrize("name", sorted(MEMORIES.keys() - {"sketch, uncompensated"}))
@given(
    held=histories(dimension=D, most=20),
    new=histories(dimension=D, most=20),
    alpha=st.floats(0.01, 9.0),
)
def test_growth(name: str, held: Array, new: Array, alpha: float) -> None:
    """The trigger says what the determinants say, however little of them was computed.

    Nobody triggers on an uncompensated sketch, whose matrix may shrink.
    """
    memory = MEMORIES[name]
    base = filled(memory, memory.empty().summary, held).summary()
    reading = memory.read(base)
    pending = memory.pending(based(memory, base))
    start = dense(memory, base)
    for x in new:
        pending.absorb(x, float(reading.squared_widths(x[None])[0]), 1.0)
        fired = pending.growth_exceeds(np.log1p(alpha))
        state = pending.state()
        rows, lift = state.get("rows", np.zeros((0, D))), state.get("shed", 0.0)
        matrix = rows.T @ rows
        if len(state.get("matrix", ())):
            matrix = matrix + state["matrix"]
        matrix = matrix + np.diag(state.get("bound", np.zeros(D)))
        grown = np.linalg.slogdet(start + matrix + lift * np.eye(D))[1]
        growth = grown - np.linalg.slogdet(start)[1]
        if abs(growth - np.log1p(alpha)) > 1e-7:
            assert fired == (growth > np.log1p(alpha))


@every_memory
@given(held=histories(dimension=D, most=20), new=histories(dimension=D, most=20))
def test_reading_of_base_and_pending_together(memory: Memory, held: Array, new: Array) -> None:
    base = filled(memory, memory.empty().summary, held).summary()
    pending = filled(memory, base, new)
    together = base.merge(pending.summary())
    y = np.arange(1.0, D + 1)
    expected = np.linalg.solve(dense(memory, together), y)
    loose = 1e-8 * (1 + np.sum(held**2) + np.sum(new**2))
    np.testing.assert_allclose(pending.reading().solve(y), expected, atol=loose)


@every_memory
@given(
    one=histories(dimension=D, most=15),
    two=histories(dimension=D, most=15),
    new=histories(dimension=D, most=15),
)
def test_moving_pending_data_to_another_base(
    memory: Memory, one: Array, two: Array, new: Array
) -> None:
    first = filled(memory, memory.empty().summary, one).summary()
    second = first.merge(filled(memory, memory.empty().summary, two).summary())
    moved = filled(memory, first, new).over(based(memory, second))
    fresh = filled(memory, second, new)
    loose = 1e-8 * (1 + sum(np.sum(part**2) for part in (one, two, new)))
    y = np.ones(D)
    np.testing.assert_allclose(moved.reading().solve(y), fresh.reading().solve(y), atol=loose)
    for threshold in (0.1, 1.0, 5.0):
        assert moved.growth_exceeds(threshold + 1e-6) <= fresh.growth_exceeds(threshold)


@every_memory
@given(held=histories(dimension=D))
def test_packing_is_exact(memory: Memory, held: Array) -> None:
    summary = filled(memory, memory.empty().summary, held).summary()
    packed = memory.pack(summary)
    again = memory.pack(memory.unpack(packed))
    assert packed.keys() == again.keys()
    for key in packed:
        np.testing.assert_array_equal(packed[key], again[key])
