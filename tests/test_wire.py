"""Messages survive the wire exactly; anything else is refused."""

import contextlib
import hashlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import errors, wire
from fedbandit.core.memory.narrow import CODES, Narrow, narrowed

SKETCH = fb.Sketch(np.diag([3.0, 2.0, 1.0])[:2], 0.25, 3)
NARROW = {width: narrowed(fb.Sketch(SKETCH.rows / 3, 0.25, 3, 0.1), width) for width in CODES}
MESSAGES: dict[str, fb.Upload | fb.Download | fb.Collect] = {
    "upload, sketch": fb.Upload(7, SKETCH, np.arange(3.0), 12),
    "upload, gram": fb.Upload(0, fb.Gram(np.eye(3) * np.pi), np.arange(3.0), 1),
    "download, sketch": fb.Download(SKETCH, np.arange(3.0), 99, 4),
    "download, nothing yet": fb.Download(fb.Sketch(np.zeros((0, 3)), 0.0, 3), np.zeros(3), 0, 0),
    "download, gram": fb.Download(fb.Gram(np.eye(3)), -np.arange(3.0), 99, 4),
    "collect": fb.Collect(),
    "upload, accounted": fb.Upload(1, fb.Sketch(SKETCH.rows, 0.25, 3, 0.5), np.arange(3.0), 12),
    "download, narrow, nothing yet": fb.Download(
        narrowed(fb.Sketch(np.zeros((0, 3)), 0.0, 3), "int8"), np.zeros(3), 0, 0
    ),
    **{f"upload, {width}": fb.Upload(7, NARROW[width], np.arange(3.0), 12) for width in CODES},
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
        for name in ("matrix", "rows", "squares", "shed", "size", "lost", "width"):
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


@pytest.mark.parametrize("width", CODES)
@given(st.data())
def test_a_server_merges_what_was_decoded_or_refuses_it(width: Any, data: st.DataObject) -> None:
    """Numbers of any size and sign may stand where rows, scales, shed and lost do."""
    sent = fb.Upload(0, NARROW[width], np.arange(3.0), 12)
    whole = bytearray(wire.encode(sent))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    server = fb.FSCLB(
        dimension=3, sketch_size=3, agents=2, wire=width, estimate="corrected"
    ).server()
    with contextlib.suppress(errors.InvalidMessage):
        upload = wire.decode(bytes(whole))
        assert isinstance(upload, fb.Upload | fb.Download | fb.Collect)
        (answer,) = server.receive(upload)  # type: ignore[arg-type]
        assert isinstance(answer.message, fb.Download)
        again = wire.decode(wire.encode(answer.message))
        assert isinstance(again, fb.Download)


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


# One row, 3/2 and -1/2 as codes times a scale of 2; int8: 127 and -42 times 2^-6.
GOLDEN_ROWS = {
    "float32": "a7666c6f61743332  92 920102 c40c 00000040 0000403f 000080be",
    "float16": "a7666c6f61743136  92 920102 c408 00000040 003a 00b4",
    "bfloat16": "a862666c6f61743136  92 920102 c408 00000040 403f 80be",
    "int8": "a4696e7438  92 920102 c406 0000903f 7f d6",
}


def golden_narrow(width: str) -> str:
    return (
        "96 a675706c6f6164 01 00"
        f"96 a66e6172726f77 {GOLDEN_ROWS[width]} cb3fe0000000000000 02 cb3fd0000000000000"
        "92 9102 c40c 0000f03f 0000003f 000080bf"
        "02"
    )


@pytest.mark.parametrize("width", CODES)
def test_golden_bytes_of_narrow_uploads(width: str) -> None:
    codes, scale = {
        "float32": (np.array([[0.75, -0.25]], "<f4"), 2.0),
        "float16": (np.array([[0.75, -0.25]], "<f2"), 2.0),
        "bfloat16": (np.array([[0x3F40, 0xBE80]], "<u2"), 2.0),
        "int8": (np.array([[127, -42]], "|i1"), 2.0**-6),
    }[width]
    narrow = Narrow(width, codes, np.array([scale]), 0.5, 2, 0.25)
    data = bytes.fromhex(golden_narrow(width))
    assert wire.encode(fb.Upload(0, narrow, np.array([0.5, -1.0]), 2)) == data
    again = wire.decode(data)
    assert isinstance(again, fb.Upload)
    assert isinstance(again.summary, Narrow)
    expected = [127 / 64, -42 / 64] if width == "int8" else [1.5, -0.5]
    assert again.summary.rows.tolist() == [expected]
    assert again.moment.tolist() == [0.5, -1.0]
    assert (again.summary.shed, again.summary.size, again.summary.lost) == (0.5, 2, 0.25)


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
    again = wire.decode_synced(data)
    assert (again.fingerprint, again.merged) == ("0123456789abcdef", True)
    assert (again.sequence, again.version, again.download.version) == (5, 6, 7)
    assert wire.encode(again.download) == wire.encode(SMALL_DOWNLOAD)
    assert again.digest == hashlib.sha256(bytes.fromhex(GOLDEN_DOWNLOAD)).hexdigest()


@pytest.mark.parametrize("download", [SMALL_DOWNLOAD, None])
def test_golden_bytes_of_joining(download: fb.Download | None) -> None:
    data = bytes.fromhex(GOLDEN_JOINED + (GOLDEN_DOWNLOAD if download else "c0"))
    joined = wire.Joined("0123456789abcdef", "FSCLB", b"{}", LIMITS, download, 4)
    assert wire.encode_joined(joined) == data
    again = wire.decode_joined(data)
    assert (again.recipe, again.params, again.limits) == ("FSCLB", b"{}", LIMITS)
    assert again.lives == 4
    assert (again.download is None) == (download is None)
    assert again.digest == (wire.digest(download) if download else "")
    assert wire.encode_joined(again) == data


def test_a_digest_is_of_the_bytes_that_came_however_they_would_be_written_here() -> None:
    """A moment just above a power of two, rounded to it, would be written with another scale."""
    moment = np.array([0.5 + 2.0**-40, 0.0, 0.0])
    sent = fb.Download(NARROW["int8"], moment, 9, 4)
    read = wire.decode_synced(wire.encode_synced(wire.Synced("0" * 16, True, 1, 4, sent)))
    assert read.digest == wire.digest(sent) == hashlib.sha256(wire.encode(sent)).hexdigest()
    assert read.digest != wire.digest(read.download)


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


NARROW_SYNC = wire.Sync(
    "0123456789abcdef", LIFE, 5, fb.Upload(0, NARROW["int8"], np.arange(3.0), 1)
)
ONE = np.float64(1.0).tobytes()[4:]  # as a scale


def _without(place: tuple[int, ...], value: object, sync: wire.Sync = SYNC) -> bytes:
    """Return a sync with another value at a place, by indices into its arrays."""
    whole = msgspec.msgpack.decode(wire.encode_sync(sync))
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


@pytest.mark.parametrize(
    ("field", "place", "value"),
    [
        ("upload.summary", (7, 3), ["narrow"]),
        ("upload.summary", (7, 3, 1), 8),
        ("upload.summary", (7, 3, 1), "int8" * 5),
        ("upload.summary.width", (7, 3, 1), "int16"),
        ("upload.summary.width", (7, 3, 1), "float64"),
        ("upload.summary.rows", (7, 3, 1), "float16"),
        ("upload.summary", (7, 3, 2), [3, 3]),
        ("upload.summary.rows", (7, 3, 2, 0), [2, 4]),
        ("upload.summary.rows", (7, 3, 2, 0), [2, 0]),
        ("upload.summary.rows", (7, 3, 2, 0), [-2, -3]),
        ("upload.summary.rows", (7, 3, 2, 0), [2**62, 0]),
        ("upload.summary.rows", (7, 3, 2, 1), bytes(13)),
        ("upload.summary.rows", (7, 3, 2, 1), b"\xff" * 14),  # scales that are no numbers
        ("upload.summary.rows", (7, 3, 2, 1), b"\x00\x00\xf0\xbf" + bytes(10)),  # -1
        ("upload.summary.rows", (7, 3, 2, 1), b"\x00\x00\xf0\x7f" + bytes(10)),  # infinity
        ("upload.summary.rows", (7, 3, 2, 1), b"\x00\x00\xe0\x7f" + bytes(10)),  # 2^1023
        ("upload.summary", (7, 3, 3), "much"),
        ("upload.summary", (7, 3, 5), "all"),
        ("upload.moment", (7, 4, 1), np.zeros(3).tobytes()),
        ("upload.moment", (7, 4, 1), ONE + np.array([0, np.nan, 0], "<f4").tobytes()),
        ("upload.moment", (7, 4, 1), ONE + np.array([0, np.inf, 0], "<f4").tobytes()),
        ("upload.moment", (7, 4, 1), b"\xff\xff\xff\xff" + bytes(12)),
        ("upload.moment", (7, 4, 0), [4]),
    ],
)
def test_a_bad_field_of_a_narrow_message_is_named(
    field: str, place: tuple[int, ...], value: object
) -> None:
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(_without(place, value, NARROW_SYNC))
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: got ")


@pytest.mark.parametrize(
    ("width", "codes"),
    [
        ("float32", np.array([np.inf, 0.0, 0.0], "<f4")),
        ("float16", np.array([np.nan, 0.0, 0.0], "<f2")),
        ("bfloat16", np.array([0x7F80, 0, 0], "<u2")),
        ("bfloat16", np.array([0xFFC0, 0, 0], "<u2")),
    ],
)
def test_codes_that_are_no_numbers(width: str, codes: np.ndarray[Any, Any]) -> None:
    rows = [[1, 3], ONE + codes.tobytes()]
    upload = ["upload", 1, 0, ["narrow", width, rows, 0.0, 3, None], [[3], ONE + bytes(12)], 1]
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode(msgspec.msgpack.encode(upload))
    assert caught.value.field == "summary.rows"


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


AS_FIRST = "as its first element; expected"
SYNC_PARTS = "'sync', format, fingerprint, width, life, born, sequence, upload"
SKETCH_PARTS = "'sketch', rows, shed, size, lost"


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ((0,), "synk", f"sync: got 'synk' {AS_FIRST} 'sync'."),
        ((0,), "s" * 41, f"sync: got a text of 41 letters {AS_FIRST} 'sync'."),
        ((2,), "0123", "fingerprint: got '0123'; expected a text that matches ^[0-9a-f]{16}$."),
        ((3,), None, "width: got nil; expected an integer."),
        ((4,), bytes(15), "life: got 15 bytes; expected 16 bytes."),
        ((4,), bytes(300), "life: got 300 bytes; expected 16 bytes."),
        ((4,), {}, "life: got a map; expected 16 bytes."),
        ((4,), msgspec.msgpack.Ext(5, b"x"), "life: got a value of another kind; expected 16 "),
        ((6,), 0, f"sequence: got 0; expected an integer from 1 to {2**63 - 1}."),
        ((6,), True, f"sequence: got true; expected an integer from 1 to {2**63 - 1}."),
        ((7,), [0] * 70_000, f"upload: got another value {AS_FIRST} 'upload'."),
        (
            (7, 3),
            3,
            "upload.summary: got 3; expected an array that begins with 'gram' or 'sketch' ",
        ),
        (
            (7, 3),
            ["cube"],
            f"upload.summary: got 'cube' {AS_FIRST} 'gram' or 'sketch' or 'narrow'.",
        ),
        ((7, 3, 4), "all", "upload.summary: got 'all' as lost; expected a number or nil."),
        (
            (7, 3, 1, 0),
            9,
            "upload.summary: got 9 as rows.shape; expected an array of 2: an integer",
        ),
        ((7, 4, 0), ["3"], "upload.moment.shape: got '3' as element 0; expected an integer."),
    ],
)
def test_a_refusal_says_what_came_and_what_belongs_there(
    place: tuple[int, ...], value: object, told: str
) -> None:
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(_without(place, value))
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("place", "count", "parts"),
    [
        ((), 8, SYNC_PARTS),
        ((7,), 6, "'upload', format, agent, summary, moment, count"),
        ((7, 3), 5, SKETCH_PARTS),
        ((7, 3, 1), 2, "shape, data"),
        ((7, 4), 2, "shape, data"),
        ((7, 4, 0), 1, "an integer"),
    ],
)
@pytest.mark.parametrize("more", [-1, 1, 2, 20])
def test_elements_are_counted_alike_whether_too_many_or_too_few(
    place: tuple[int, ...], count: int, parts: str, more: int
) -> None:
    whole = msgspec.msgpack.decode(wire.encode_sync(SYNC))
    part = whole
    for index in place:
        part = part[index]
    part[:] = part[:more] if more < 0 else [*part, *[1] * more]
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(msgspec.msgpack.encode(whole))
    assert f": got an array of {count + more}" in str(caught.value)
    assert f"; expected an array of {count}: {parts}." in str(caught.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "sync: got 0 bytes that are not one ("),
        (wire.encode_sync(SYNC) + b"\x00", "trailing characters"),
        (wire.encode_sync(SYNC)[:-1], "truncated"),
        (b"\x98\xa2\xff\xff" + bytes(20), "sync: got a text that is not UTF-8; expected one whole"),
    ],
)
def test_what_is_no_message_at_all(data: bytes, told: str) -> None:
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(data)
    assert told in str(caught.value)
    assert "; expected one whole message in format 1 and nothing after it." in str(caught.value)


@pytest.mark.parametrize("head", [b"", b"\x98\xa4sync\x01"])
def test_saying_what_came_builds_none_of_it(head: bytes) -> None:
    """A million empty arrays would be 64 times as large as lists."""
    body = head + b"\xdd" + (2**20).to_bytes(4) + b"\x90" * 2**20 + b"\x00" * 5
    tracemalloc.start()
    with pytest.raises(errors.InvalidMessage):
        wire.decode_sync(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(body)


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
    "narrow sync": (wire.encode_sync(NARROW_SYNC), wire.decode_sync),
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
    try:
        decode(bytes(whole))
    except errors.InvalidMessage as error:
        _check_is_one_sentence(error)


def _check_is_one_sentence(error: errors.InvalidMessage) -> None:
    """It names the field, what came and what was expected, each once, in words of our own."""
    told = str(error)
    assert told.startswith(f"{error.field}: got ")
    assert told.count("; expected ") == 1
    assert "Expected" not in told
    assert "`" not in told.partition("; expected ")[2]


@pytest.mark.parametrize("kind", ENVELOPES)
@given(noise=st.binary(max_size=64))
def test_noise_is_no_envelope(kind: str, noise: bytes) -> None:
    with pytest.raises(errors.InvalidMessage) as caught:
        ENVELOPES[kind][1](noise)
    _check_is_one_sentence(caught.value)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=50)
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


@given(place=st.lists(st.integers(0, 7), max_size=5), value=anything, narrow=st.booleans())
def test_any_value_at_any_place_is_taken_or_refused(
    place: list[int], value: object, narrow: bool
) -> None:
    whole = [msgspec.msgpack.decode(wire.encode_sync(NARROW_SYNC if narrow else SYNC))]
    part, index = whole, 0
    for step in place:
        if not isinstance(part[index], list) or step >= len(part[index]):
            break
        part, index = part[index], step
    part[index] = value
    try:
        wire.decode_sync(msgspec.msgpack.encode(whole[0]))
    except errors.InvalidMessage as error:
        _check_is_one_sentence(error)
