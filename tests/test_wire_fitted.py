"""Fitted rows on the wire: every code comes back, and nothing else gets in or fills the memory."""

import tracemalloc
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import wire
from fedbandit.core.memory.lossy.fitted import Fitted, fitted
from fedbandit.core.memory.lossy.summary import nothing_lost
from fedbandit.errors import InvalidMessage
from fedbandit.wire.bits import packed, unpacked

D = 3


@given(
    bits=st.lists(st.integers(1, 32), max_size=6),
    d=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_codes_of_any_bits_come_back(bits: list[int], d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    halves = [2 ** (each - 1) for each in bits]
    codes = [rng.choice([-half, half - 1, int(rng.integers(-half, half))], d) for half in halves]
    whole = np.array(codes, np.int64).reshape(-1, d).astype(np.int32)
    written = packed(whole, np.array(bits, np.int64))
    assert len(written) == -(-sum(bits) * d // 8)
    np.testing.assert_array_equal(unpacked(written, np.array(bits, np.int64), d), whole)


def upload() -> list[Any]:
    """An upload of one row as a list of its fields."""
    row = Fitted(np.array([[1, -2, 3]], np.int32), 0.01, np.full(D, 9, np.uint8), 0.1, 0.2, 1.1)
    body = wire.encode(fb.Upload(0, fb.Statistics(row, np.ones(D), 2)))
    fields: list[Any] = msgspec.msgpack.decode(body)
    return fields


BITS, ROWS, STEP, LEVELS, TOP, LOST, WEIGHT = range(1, 8)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (BITS, b""),
        (BITS, b"\x00"),
        (BITS, b"\x21"),
        (BITS, b"\xff" * 1000),
        (BITS, b"\x01" * 4),  # more rows than coordinates
        (ROWS, b""),
        (ROWS, b"\x00" * 99),
        (LEVELS, b""),
        (LEVELS, b"\x00" * 50),
        *((at, bad) for at in (STEP, TOP, LOST, WEIGHT) for bad in (np.nan, np.inf, -1.0, 1e200)),
        (STEP, 1e149 * 9),
    ],
)
def test_damaged_rows_are_refused_by_name(at: int, value: object) -> None:
    fields = upload()
    assert wire.decode(msgspec.msgpack.encode(fields)) is not None
    fields[3][at] = value
    with pytest.raises(InvalidMessage):
        wire.decode(msgspec.msgpack.encode(fields))


def test_reading_takes_memory_in_proportion_to_what_is_read() -> None:
    d, bits = 500, np.full(500, 8, np.int64)
    data = bytes(d * d)
    tracemalloc.start()
    try:
        unpacked(data, bits, d)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 16 * len(data)  # a byte for every bit, four for every code


def test_rows_of_another_dimension_are_refused_before_they_are_unpacked() -> None:
    """Or a message of 8 MB, of one bit a number, would take more than a gigabyte to be refused."""
    d, row = 1000, Fitted(np.zeros((1, D), np.int32), 1.0, np.zeros(D, np.uint8), 0.0, 0.0, 1.0)
    sync = wire.Sync("0" * 16, bytes(16), 1, fb.Upload(0, fb.Statistics(row, np.ones(D), 1)))
    fields: list[Any] = msgspec.msgpack.decode(wire.encode_sync(sync))
    fields[7][3] = ["fitted", b"\x01" * d, bytes(d * d // 8), 1.0, bytes(d), 0.0, 0.0, 1.0]
    data = msgspec.msgpack.encode(fields)
    for known in (D, d, None):
        tracemalloc.start()
        try:
            with pytest.raises(InvalidMessage, match="moment"):
                wire.decode_sync(data, dimension=known)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= 4 * len(data)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_rows_that_are_no_numbers_are_not_rounded_for_ever(odd: float) -> None:
    rows = np.ones((2, 3))
    with pytest.raises(InvalidMessage, match="not finite"):
        fitted(nothing_lost(rows), odd)
    rows[1, 2] = odd
    with pytest.raises(InvalidMessage, match="not finite"):
        fitted(nothing_lost(rows), 0.01)
