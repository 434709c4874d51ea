"""Messages survive the wire exactly; anything else is refused."""

import contextlib
import hashlib
from collections.abc import Callable

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
    data = msgspec.msgpack.encode(["upload", 1, 0, ["sketch", rows, 0.0, 3, None], moment, 1])
    with pytest.raises(errors.InvalidMessage):
        wire.decode(data)


RECIPE = fb.FSCLB(dimension=3, sketch_size=3, agents=2)
LIFE = bytes(range(16))
PARAMS = msgspec.json.encode(RECIPE.params)
LIMITS = wire.Limits(arm_norm=1.0, reward=2.0, count=1000)
SYNC = wire.Sync("0123456789abcdef", LIFE, 5, fb.Upload(0, SKETCH, np.arange(3.0), 12))
ONE_ROW = fb.Sketch(np.array([[1.5, 0.0]]), 0.5, 2)
SMALL_SYNC = wire.Sync(
    "0123456789abcdef", LIFE, 5, fb.Upload(0, ONE_ROW, np.array([0.5, -1]), 2), 3
)
SMALL_DOWNLOAD = fb.Download(fb.Gram(np.array([[2.25]])), np.array([1.0]), 300, 7)

# Written out by hand from docs/wire.md. Each line is a field.
GOLDEN_UPLOAD = (
    "96 a675706c6f6164 01 00"
    "95 a6736b65746368  92 920102 c410 000000000000f83f 0000000000000000  cb3fe0000000000000 02 c0"
    "92 9102 c410 000000000000e03f 000000000000f0bf"
    "02"
)
GOLDEN_DOWNLOAD = (
    "96 a8646f776e6c6f6164 01"
    "92 a46772616d  92 920101 c408 0000000000000240"
    "92 9101 c408 000000000000f03f"
    "cd012c 07"
)
GOLDEN_SYNC = (
    "98 a473796e63 01 b030313233343536373839616263646566 08"
    "c410 000102030405060708090a0b0c0d0e0f 03 05" + GOLDEN_UPLOAD
)
GOLDEN_SYNCED = (
    "98 a673796e636564 01 b030313233343536373839616263646566 08 c3 05 06" + GOLDEN_DOWNLOAD
)
GOLDEN_JOINED = (
    "99 a66a6f696e6564 01 b030313233343536373839616263646566 08 a54653434c42 c4027b7d"
    "93 cb3ff0000000000000 cb4000000000000000 cd03e8 04"
)


def test_golden_bytes_of_messages() -> None:
    assert wire.encode(SMALL_SYNC.upload) == bytes.fromhex(GOLDEN_UPLOAD)
    assert wire.encode(SMALL_DOWNLOAD) == bytes.fromhex(GOLDEN_DOWNLOAD)
    assert wire.encode(fb.Collect()) == bytes.fromhex("92 a7636f6c6c656374 01")


def test_golden_bytes_of_a_sync() -> None:
    data = bytes.fromhex(GOLDEN_SYNC)
    assert wire.encode_sync(SMALL_SYNC) == data
    again = wire.decode_sync(data)
    assert (again.fingerprint, again.life) == ("0123456789abcdef", LIFE)
    assert (again.born, again.sequence) == (3, 5)
    assert wire.encode(again.upload) == bytes.fromhex(GOLDEN_UPLOAD)


def test_golden_bytes_of_an_answer() -> None:
    data = bytes.fromhex(GOLDEN_SYNCED)
    answer = wire.Synced("0123456789abcdef", True, 5, 6, SMALL_DOWNLOAD)
    assert wire.encode_synced(answer) == data
    assert wire.encode_synced(answer, download=wire.encode(SMALL_DOWNLOAD)) == data
    again = wire.decode_synced(data)
    assert (again.fingerprint, again.merged) == ("0123456789abcdef", True)
    assert (again.sequence, again.version, again.download.version) == (5, 6, 7)
    assert wire.encode(again.download) == wire.encode(SMALL_DOWNLOAD)


@pytest.mark.parametrize("download", [SMALL_DOWNLOAD, None])
def test_golden_bytes_of_joining(download: fb.Download | None) -> None:
    data = bytes.fromhex(GOLDEN_JOINED + (GOLDEN_DOWNLOAD if download else "c0"))
    joined = wire.Joined("0123456789abcdef", "FSCLB", b"{}", LIMITS, download, 4)
    assert wire.encode_joined(joined) == data
    again = wire.decode_joined(data)
    assert (again.recipe, again.params, again.limits) == ("FSCLB", b"{}", LIMITS)
    assert again.lives == 4
    assert (again.download is None) == (download is None)
    assert wire.encode_joined(again) == data


def test_params_on_the_wire_are_the_recipe_again() -> None:
    again = fb.RECIPES[RECIPE.name](**msgspec.json.decode(PARAMS))
    assert again == RECIPE
    assert wire.fingerprint(again) == wire.fingerprint(RECIPE)


def test_the_fingerprint_is_of_the_whole_recipe() -> None:
    mark = wire.fingerprint(RECIPE)
    assert mark == hashlib.sha256(repr(RECIPE).encode()).hexdigest()[:16]
    others = [
        fb.FSCLB(dimension=3, sketch_size=3, agents=3),
        fb.FSCLB(dimension=3, sketch_size=3, agents=2, ridge=2.0),
        fb.FedLinUCB(dimension=3, agents=2),
    ]
    assert len({mark, *map(wire.fingerprint, others)}) == 4


def _without(place: tuple[int, ...], value: object) -> bytes:
    """Return a sync with another value at a place, by indices into its arrays."""
    whole = msgspec.msgpack.decode(wire.encode_sync(SYNC))
    part = whole
    for index in place[:-1]:
        part = part[index]
    part[place[-1]] = value
    return msgspec.msgpack.encode(whole)


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [
        ("sync", (0,), "synk"),
        ("format", (1,), 2),
        ("format", (1,), "1"),
        ("fingerprint", (2,), "0123456789abcdeg"),
        ("fingerprint", (2,), "0123"),
        ("fingerprint", (2,), b"0123456789abcdef"),
        ("width", (3,), 4),
        ("width", (3,), None),
        ("life", (4,), bytes(15)),
        ("life", (4,), bytes(17)),
        ("life", (4,), "0" * 16),
        ("born", (5,), -1),
        ("born", (5,), 2**63),
        ("sequence", (6,), 0),
        ("sequence", (6,), -1),
        ("sequence", (6,), 2**63),
        ("sequence", (6,), 1.5),
        ("upload", (7,), None),
        ("upload", (7, 0), "download"),
        ("upload.format", (7, 1), 2),
        ("upload.agent", (7, 2), "phone"),
        ("upload.summary", (7, 3), ["cube", 1]),
        ("upload.summary", (7, 3, 2), "much"),
        ("upload.summary", (7, 3, 1), [3, 3]),
        ("upload.summary.rows", (7, 3, 1, 0), [2, 4]),
        ("upload.summary.rows", (7, 3, 1, 0), [2**62, 0]),
        ("upload.summary.rows", (7, 3, 1, 1), b"1234567"),
        ("upload.moment", (7, 4), []),
        ("upload.moment.shape", (7, 4, 0), [3, 1]),
        ("upload.moment.shape", (7, 4, 0), ["3"]),
        ("upload.moment.data", (7, 4, 1), [0.0, 1.0, 2.0]),
        ("upload.moment", (7, 4, 0), [4]),
        ("upload.count", (7, 5), 1.5),
    ],
)
def test_a_bad_field_is_named(field: str, place: tuple[int, ...], value: object) -> None:
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(_without(place, value))
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: got ")


def test_missing_and_surplus_fields_are_refused() -> None:
    whole = msgspec.msgpack.decode(wire.encode_sync(SYNC))
    wrong: object
    for wrong in (whole[:-1], [*whole, 1], [*whole[:7], [*whole[7], 1]], [], {}, 3, None):
        with pytest.raises(errors.InvalidMessage):
            wire.decode_sync(msgspec.msgpack.encode(wrong))
    for data in (
        b"",
        wire.encode_sync(SYNC) + b"\x00",
        b"\xc1",
        b"\x93\xa1a\x01" + b"\x91" * 10**6,
    ):
        with pytest.raises(errors.InvalidMessage):
            wire.decode_sync(data)


def test_another_format_is_told_before_what_follows_from_it() -> None:
    with pytest.raises(errors.InvalidMessage, match="format 7") as caught:
        wire.decode_sync(msgspec.msgpack.encode(["sync", 7, {"anything": "else"}]))
    assert caught.value.field == "format"


ANSWER = wire.Synced("0123456789abcdef", False, 1, 0, SMALL_DOWNLOAD)
JOINED = wire.Joined("0123456789abcdef", "FSCLB", PARAMS, LIMITS, SMALL_DOWNLOAD)
ENVELOPES: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "sync": (wire.encode_sync(SYNC), wire.decode_sync),
    "synced": (wire.encode_synced(ANSWER), wire.decode_synced),
    "joined": (wire.encode_joined(JOINED), wire.decode_joined),
}


@pytest.mark.parametrize("kind", ENVELOPES)
@given(st.data())
def test_any_bytes_are_an_envelope_or_refused(kind: str, data: st.DataObject) -> None:
    encoded, decode = ENVELOPES[kind]
    whole = bytearray(encoded)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(whole)))
        length = data.draw(st.integers(0, 9))
        whole[start : start + length] = data.draw(st.binary(max_size=9))
    with contextlib.suppress(errors.InvalidMessage):
        decode(bytes(whole))


@pytest.mark.parametrize("kind", ENVELOPES)
@given(noise=st.binary(max_size=64))
def test_noise_is_no_envelope(kind: str, noise: bytes) -> None:
    with pytest.raises(errors.InvalidMessage):
        ENVELOPES[kind][1](noise)
