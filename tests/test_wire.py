"""Messages survive the wire exactly; anything else is refused."""

import contextlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import errors, wire

SKETCH = fb.Sketch(np.diag([3.0, 2.0, 1.0])[:2], 0.25, 3)
MESSAGES: dict[str, fb.Upload | fb.Download | fb.Collect] = {
    "upload, sketch": fb.Upload(7, SKETCH, np.arange(3.0), 12),
    "upload, gram": fb.Upload(0, fb.Gram(np.eye(3) * np.pi), np.arange(3.0), 1),
    "download, sketch": fb.Download(SKETCH, np.arange(3.0), 99, 4),
    "download, nothing yet": fb.Download(fb.Sketch(np.zeros((0, 3)), 0.0, 3), np.zeros(3), 0, 0),
    "download, gram": fb.Download(fb.Gram(np.eye(3)), -np.arange(3.0), 99, 4),
    "collect": fb.Collect(),
}
every_message = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


@every_message
def test_round_trip(message: fb.Upload | fb.Download | fb.Collect) -> None:
    data = wire.encode(message)
    again = wire.decode(data)
    assert type(again) is type(message)
    assert wire.encode(again) == data
    if isinstance(message, fb.Upload) and isinstance(again, fb.Upload):
        assert (again.agent, again.count) == (message.agent, message.count)
    if not isinstance(message, fb.Collect) and not isinstance(again, fb.Collect):
        np.testing.assert_array_equal(again.moment, message.moment)
        for name in ("matrix", "rows", "squares", "shed", "size"):
            if hasattr(message.summary, name):
                np.testing.assert_array_equal(
                    getattr(again.summary, name), getattr(message.summary, name)
                )


def test_size_is_the_numbers_and_a_few_bytes() -> None:
    message = fb.Upload(3, fb.Sketch(np.ones((20, 50)), 1.0, 21), np.ones(50), 100)
    assert 0 <= len(wire.encode(message)) - 8 * (21 * 50 + 1) < 64


@every_message
@given(st.data())
def test_damaged_bytes_are_refused_or_still_a_message(
    message: fb.Upload | fb.Download | fb.Collect, data: st.DataObject
) -> None:
    whole = bytearray(wire.encode(message))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(errors.InvalidMessage):
        wire.decode(bytes(whole[:cut]))
    whole[cut] = data.draw(st.integers(0, 255))
    with contextlib.suppress(errors.InvalidMessage):
        wire.decode(bytes(whole))


def test_another_format_is_refused() -> None:
    with pytest.raises(errors.InvalidMessage, match="format 2"):
        wire.decode(msgspec.msgpack.encode(["collect", 2]))


@pytest.mark.parametrize(
    "shape", [[2**33, 0], [2**62, 0], [0, 2**63], [2**64 - 1, 0], [3], [-1, 1]]
)
def test_shapes_that_ask_for_too_much_are_refused(shape: list[int]) -> None:
    rows = [shape, b""]
    moment = [[3], np.zeros(3).tobytes()]
    data = msgspec.msgpack.encode(["upload", 1, 0, ["sketch", rows, 0.0, 3], moment, 1])
    with pytest.raises(errors.InvalidMessage):
        wire.decode(data)
