"""Triangles survive the wire exactly; anything else is refused."""

import contextlib
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import errors, wire
from fedbandit.core.memory.triangle import TRIANGLE_CODES, Triangle, triangle_of

MATRIX = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.7], [0.0, -0.7, 3.0]])


def upload(width: str) -> fb.Upload:
    return fb.Upload(0, fb.Statistics(triangle_of(fb.Gram(MATRIX), width), np.arange(3.0), 12))


@pytest.mark.parametrize("width", TRIANGLE_CODES)
@given(st.data())
def test_a_server_merges_a_triangle_that_was_decoded_or_refuses_it(
    width: Any, data: st.DataObject
) -> None:
    """Numbers of any size and sign may stand where diagonal, codes, raised and shed do."""
    whole = bytearray(wire.encode(upload(width)))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    server = fb.FedLinUCB(dimension=3, agents=2, wire=width).server()
    with contextlib.suppress(errors.InvalidMessage):
        sent = wire.decode(bytes(whole))
        (answer,) = server.receive(sent)  # type: ignore[arg-type]
        assert isinstance(answer.message, fb.Download)
        again = wire.decode(wire.encode(answer.message))
        assert isinstance(again, fb.Download)


# The diagonal is 4 and 1 (and 1 above it, or half of its 2). Raised is 1/8, shed 1/2.
GOLDEN_TRIANGLES = {
    "float64": "a7666c6f61743634 02 c418 0000000000001040 000000000000f03f 000000000000f03f",
    "float32": "a7666c6f61743332 02 c40c 00001040 0000f03f 0000003f",
    "float16": "a7666c6f61743136 02 c40a 00001040 0000f03f 0038",
    "int8": "a4696e7438 02 c409 00001040 0000f03f 40",
}


@pytest.mark.parametrize("width", TRIANGLE_CODES)
def test_golden_bytes_of_triangles(width: str) -> None:
    code = {"float64": 1.0, "int8": 64}.get(width, 0.5)
    codes = np.array([code], TRIANGLE_CODES[width].dtype)
    triangle = Triangle(width, np.array([4.0, 1.0]), codes, 0.125, 0.5)
    moment = (
        "92 9102 c410 000000000000e03f 000000000000f0bf"
        if width == "float64"
        else "92 9102 c40c 0000f03f 0000003f 000080bf"
    )
    data = bytes.fromhex(
        "97 a675706c6f6164 02 00"
        f"96 a8747269616e676c65 {GOLDEN_TRIANGLES[width]} cb3fc0000000000000 cb3fe0000000000000"
        f"{moment} 02 80"
    )
    assert wire.encode(fb.Upload(0, fb.Statistics(triangle, np.array([0.5, -1.0]), 2))) == data
    again = wire.decode(data)
    assert isinstance(again, fb.Upload)
    assert isinstance(again.summary, Triangle)
    beside = 2 * 64 / 127 if width == "int8" else 1.0
    np.testing.assert_allclose(again.summary.matrix, [[4.5, beside], [beside, 1.125]], rtol=1e-15)
    assert again.moment.tolist() == [0.5, -1.0]
    assert (again.summary.raised, again.summary.shed) == (0.125, 0.5)


@pytest.mark.parametrize("dimension", [-1, 0, 1, 2, 4, 2**24 + 1, 2**62])
@pytest.mark.parametrize("width", TRIANGLE_CODES)
def test_triangles_of_another_dimension_than_their_bytes_are_refused(
    width: str, dimension: int
) -> None:
    written = msgspec.msgpack.decode(wire.encode(upload(width)))
    written[3][2] = dimension
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode(msgspec.msgpack.encode(written))
    assert caught.value.field == "summary.data"


@pytest.mark.parametrize("width", ["float63", "", "bfloat16"])
def test_triangles_of_an_unknown_width_are_refused(width: str) -> None:
    written = msgspec.msgpack.decode(wire.encode(upload("int8")))
    written[3][1] = width
    with pytest.raises(errors.InvalidMessage, match="'int8'") as caught:
        wire.decode(msgspec.msgpack.encode(written))
    assert caught.value.field == "summary.width"
