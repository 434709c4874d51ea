"""Messages survive the wire exactly; anything else is refused."""

import contextlib
import hashlib
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandit as fb
from fedbandit import errors, wire
from fedbandit.core.memory.narrow import CODES, Narrow, narrowed
from fedbandit.core.memory.triangle import TRIANGLE_CODES, triangle_of

SKETCH = fb.Sketch(np.diag([3.0, 2.0, 1.0])[:2], 0.25, 3)
NARROW = {width: narrowed(fb.Sketch(SKETCH.rows / 3, 0.25, 3, 0.1), width) for width in CODES}
LIFTED = fb.Gram(np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.7], [0.0, -0.7, 3.0]]), 0.25)
TRIANGLES = {width: triangle_of(LIFTED, width) for width in TRIANGLE_CODES}
MESSAGES: dict[str, fb.Upload | fb.Download | fb.Collect] = {
    "upload, sketch": fb.Upload(7, fb.Statistics(SKETCH, np.arange(3.0), 12)),
    "upload, rewards": fb.Upload(
        7, fb.Statistics(SKETCH, np.arange(3.0), 12, fb.Rewards(11, -0.5, 2.5))
    ),
    "upload, gram": fb.Upload(0, fb.Statistics(fb.Gram(np.eye(3) * np.pi), np.arange(3.0), 1)),
    "download, sketch": fb.Download(fb.Statistics(SKETCH, np.arange(3.0), 99), 4),
    "download, nothing yet": fb.Download(
        fb.Statistics(fb.Sketch(np.zeros((0, 3)), 0.0, 3), np.zeros(3), 0), 0
    ),
    "download, gram": fb.Download(fb.Statistics(fb.Gram(np.eye(3)), -np.arange(3.0), 99), 4),
    "collect": fb.Collect(),
    "upload, accounted": fb.Upload(
        1, fb.Statistics(fb.Sketch(SKETCH.rows, 0.25, 3, 0.5), np.arange(3.0), 12)
    ),
    "download, narrow, nothing yet": fb.Download(
        fb.Statistics(narrowed(fb.Sketch(np.zeros((0, 3)), 0.0, 3), "int8"), np.zeros(3), 0), 0
    ),
    **{
        f"upload, {width}": fb.Upload(7, fb.Statistics(NARROW[width], np.arange(3.0), 12))
        for width in CODES
    },
    **{
        f"upload, triangle, {width}": fb.Upload(
            7, fb.Statistics(TRIANGLES[width], np.arange(3.0), 12)
        )
        for width in TRIANGLE_CODES
    },
    "download, triangle, nothing yet": fb.Download(
        fb.Statistics(triangle_of(fb.Gram(np.zeros((3, 3))), "int8"), np.zeros(3), 0), 0
    ),
    "download, lifted": fb.Download(fb.Statistics(LIFTED, np.arange(3.0) / 3, 12), 3),
}
every_message = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


@every_message
@pytest.mark.parametrize("form", wire.FORMATS)
def test_round_trip(message: fb.Upload | fb.Download | fb.Collect, form: int) -> None:
    data = wire.encode(message, format=form)
    again = wire.decode(data)
    assert type(again) is type(message)
    assert wire.encode(again, format=form) == data
    if isinstance(message, fb.Upload) and isinstance(again, fb.Upload):
        assert (again.agent, again.count) == (message.agent, message.count)
    if not isinstance(message, fb.Collect) and not isinstance(again, fb.Collect):
        np.testing.assert_array_equal(again.moment, message.moment)
        carried = message.statistics.rewards if form > 1 else fb.Rewards()
        assert again.statistics.rewards == carried
        for name in (
            *("matrix", "rows", "squares", "shed", "size", "lost", "width"),
            *("diagonal", "codes", "raised"),
        ):
            if hasattr(message.summary, name):
                np.testing.assert_array_equal(
                    getattr(again.summary, name), getattr(message.summary, name)
                )


def test_size_is_the_numbers_and_a_few_bytes() -> None:
    message = fb.Upload(3, fb.Statistics(fb.Sketch(np.ones((20, 50)), 1.0, 21), np.ones(50), 100))
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
    sent = fb.Upload(0, fb.Statistics(NARROW[width], np.arange(3.0), 12))
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
    with pytest.raises(errors.InvalidMessage, match="format 3"):
        wire.decode(msgspec.msgpack.encode(["collect", 3, {}]))


@pytest.mark.parametrize("written", [["collect", 1, {}], ["collect", 2]])
def test_a_map_at_the_end_is_what_tells_format_2_from_1(written: list[object]) -> None:
    with pytest.raises(errors.InvalidMessage, match="map") as caught:
        wire.decode(msgspec.msgpack.encode(written))
    assert caught.value.field == "more"


def test_optional_fields_of_a_later_version_are_passed_over() -> None:
    written = msgspec.msgpack.decode(wire.encode_sync(SYNC))
    written[8]["weather"] = [1, 2]
    written[7][6]["losses"] = b"later"
    again = wire.decode_sync(msgspec.msgpack.encode(written))
    assert wire.encode_sync(again) == wire.encode_sync(SYNC)


@pytest.mark.parametrize(
    "shape", [[2**33, 0], [2**62, 0], [0, 2**63], [2**64 - 1, 0], [3], [-1, 1]]
)
def test_shapes_that_ask_for_too_much_are_refused(shape: list[int]) -> None:
    rows = [shape, b""]
    moment = [[3], np.zeros(3).tobytes()]
    data = msgspec.msgpack.encode(["upload", 2, 0, ["sketch", rows, 0.0, 3, None], moment, 1, {}])
    with pytest.raises(errors.InvalidMessage):
        wire.decode(data)


RECIPE = fb.FSCLB(dimension=3, sketch_size=3, agents=2)
LIFE = bytes(range(16))
PARAMS = msgspec.json.encode(RECIPE.params)
LIMITS = wire.Limits(arm_norm=1.0, reward=2.0, count=1000)
SYNC = wire.Sync(
    "0123456789abcdef", LIFE, 5, fb.Upload(0, fb.Statistics(SKETCH, np.arange(3.0), 12))
)
ONE_ROW = fb.Sketch(np.array([[1.5, 0.0]]), 0.5, 2)
SMALL_SYNC = wire.Sync(
    "0123456789abcdef", LIFE, 5, fb.Upload(0, fb.Statistics(ONE_ROW, np.array([0.5, -1]), 2)), 3
)
SMALL_DOWNLOAD = fb.Download(fb.Statistics(fb.Gram(np.array([[2.25]])), np.array([1.0]), 300), 7)

# Written out by hand from docs/wire.md. Each line is a field. Format 2 has one more: a map.
GOLDEN_UPLOAD = {
    form: (
        f"{'96' if form == 1 else '97'} a675706c6f6164 0{form} 00"
        "95 a6736b65746368  92 920102 c410 000000000000f83f 0000000000000000"
        "cb3fe0000000000000 02 c0"
        "92 9102 c410 000000000000e03f 000000000000f0bf"
        f"02 {'' if form == 1 else '80'}"
    )
    for form in wire.FORMATS
}
GOLDEN_REWARDS = "81 a772657761726473 93 02 cbbfe0000000000000 cb3ff4000000000000"
GOLDEN_DOWNLOAD = {
    form: (
        f"{'96' if form == 1 else '97'} a8646f776e6c6f6164 0{form}"
        "92 a46772616d  92 920101 c408 0000000000000240"
        "92 9101 c408 000000000000f03f"
        f"cd012c 07 {'' if form == 1 else '80'}"
    )
    for form in wire.FORMATS
}
GOLDEN_SYNC = {
    form: (
        f"{'98' if form == 1 else '99'} a473796e63 0{form} b030313233343536373839616263646566 08"
        f"c410 000102030405060708090a0b0c0d0e0f 03 05 {GOLDEN_UPLOAD[form]}"
        f"{'' if form == 1 else '80'}"
    )
    for form in wire.FORMATS
}
GOLDEN_SYNCED = {
    form: (
        f"{'98' if form == 1 else '99'} a673796e636564 0{form} b030313233343536373839616263646566"
        f"08 c3 05 06 {GOLDEN_DOWNLOAD[form]} {'' if form == 1 else '80'}"
    )
    for form in wire.FORMATS
}
GOLDEN_JOINED = {
    form: (
        f"{'99' if form == 1 else '9a'} a66a6f696e6564 0{form} b030313233343536373839616263646566"
        "08 a54653434c42 c4027b7d 93 cb3ff0000000000000 cb4000000000000000 cd03e8 04"
    )
    for form in wire.FORMATS
}
every_format = pytest.mark.parametrize("form", wire.FORMATS)


@every_format
def test_golden_bytes_of_messages(form: int) -> None:
    assert wire.encode(SMALL_SYNC.upload, format=form) == bytes.fromhex(GOLDEN_UPLOAD[form])
    assert wire.encode(SMALL_DOWNLOAD, format=form) == bytes.fromhex(GOLDEN_DOWNLOAD[form])
    collect = "92 a7636f6c6c656374 01" if form == 1 else "93 a7636f6c6c656374 02 80"
    assert wire.encode(fb.Collect(), format=form) == bytes.fromhex(collect)


def test_golden_bytes_of_rewards() -> None:
    upload = SMALL_SYNC.upload
    paid = replace(upload.statistics, rewards=fb.Rewards(2, -0.5, 1.25))
    written = bytes.fromhex(GOLDEN_UPLOAD[2].removesuffix("80") + GOLDEN_REWARDS)
    assert wire.encode(fb.Upload(0, paid)) == written
    again = wire.decode(written)
    assert isinstance(again, fb.Upload)
    assert again.statistics.rewards == fb.Rewards(2, -0.5, 1.25)


# One row, 3/2 and -1/2 as codes times a scale of 2; int8: 127 and -42 times 2^-6.
GOLDEN_ROWS = {
    "float32": "a7666c6f61743332  92 920102 c40c 00000040 0000403f 000080be",
    "float16": "a7666c6f61743136  92 920102 c408 00000040 003a 00b4",
    "bfloat16": "a862666c6f61743136  92 920102 c408 00000040 403f 80be",
    "int8": "a4696e7438  92 920102 c406 0000903f 7f d6",
}


def golden_narrow(width: str) -> str:
    return (
        "97 a675706c6f6164 02 00"
        f"96 a66e6172726f77 {GOLDEN_ROWS[width]} cb3fe0000000000000 02 cb3fd0000000000000"
        "92 9102 c40c 0000f03f 0000003f 000080bf"
        "02 80"
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
    assert wire.encode(fb.Upload(0, fb.Statistics(narrow, np.array([0.5, -1.0]), 2))) == data
    again = wire.decode(data)
    assert isinstance(again, fb.Upload)
    assert isinstance(again.summary, Narrow)
    expected = [127 / 64, -42 / 64] if width == "int8" else [1.5, -0.5]
    assert again.summary.rows.tolist() == [expected]
    assert again.moment.tolist() == [0.5, -1.0]
    assert (again.summary.shed, again.summary.size, again.summary.lost) == (0.5, 2, 0.25)


@every_format
def test_golden_bytes_of_a_sync(form: int) -> None:
    data = bytes.fromhex(GOLDEN_SYNC[form])
    assert wire.encode_sync(replace(SMALL_SYNC, format=form)) == data
    again = wire.decode_sync(data)
    assert (again.fingerprint, again.life, again.format) == ("0123456789abcdef", LIFE, form)
    assert (again.born, again.sequence) == (3, 5)
    assert wire.encode(again.upload, format=form) == bytes.fromhex(GOLDEN_UPLOAD[form])


@every_format
def test_golden_bytes_of_an_answer(form: int) -> None:
    data = bytes.fromhex(GOLDEN_SYNCED[form])
    answer = wire.Synced("0123456789abcdef", True, 5, 6, SMALL_DOWNLOAD, format=form)
    assert wire.encode_synced(answer) == data
    again = wire.decode_synced(data)
    assert (again.fingerprint, again.merged, again.format) == ("0123456789abcdef", True, form)
    assert (again.sequence, again.version, again.download.version) == (5, 6, 7)
    assert wire.encode(again.download) == wire.encode(SMALL_DOWNLOAD)
    assert again.digest == hashlib.sha256(bytes.fromhex(GOLDEN_DOWNLOAD[form])).hexdigest()


@every_format
@pytest.mark.parametrize("download", [SMALL_DOWNLOAD, None])
def test_golden_bytes_of_joining(download: fb.Download | None, form: int) -> None:
    last = (GOLDEN_DOWNLOAD[form] if download else "c0") + ("" if form == 1 else "80")
    data = bytes.fromhex(GOLDEN_JOINED[form] + last)
    joined = wire.Joined("0123456789abcdef", "FSCLB", b"{}", LIMITS, download, 4, format=form)
    assert wire.encode_joined(joined) == data
    again = wire.decode_joined(data)
    assert (again.recipe, again.params, again.limits) == ("FSCLB", b"{}", LIMITS)
    assert (again.lives, again.format) == (4, form)
    assert (again.download is None) == (download is None)
    assert again.digest == (wire.digest(download, format=form) if download else "")
    assert wire.encode_joined(again) == data


def test_a_digest_is_of_the_bytes_that_came_however_they_would_be_written_here() -> None:
    """A moment just above a power of two, rounded to it, would be written with another scale."""
    moment = np.array([0.5 + 2.0**-40, 0.0, 0.0])
    sent = fb.Download(fb.Statistics(NARROW["int8"], moment, 9), 4)
    read = wire.decode_synced(wire.encode_synced(wire.Synced("0" * 16, True, 1, 4, sent)))
    assert read.digest == wire.digest(sent) == hashlib.sha256(wire.encode(sent)).hexdigest()
    assert read.digest != wire.digest(read.download)


def test_params_on_the_wire_are_the_recipe_again() -> None:
    again = fb.RECIPES[RECIPE.name](**msgspec.json.decode(PARAMS))
    assert again == RECIPE
    assert wire.fingerprint(again) == wire.fingerprint(RECIPE)


def test_the_fingerprint_is_of_the_whole_recipe() -> None:
    mark = wire.fingerprint(RECIPE)
    assert mark == hashlib.sha256(RECIPE.identity.encode()).hexdigest()[:16]
    others = [
        fb.FSCLB(dimension=3, sketch_size=3, agents=3),
        fb.FSCLB(dimension=3, sketch_size=3, agents=2, ridge=2.0),
        fb.FedLinUCB(dimension=3, agents=2),
    ]
    assert len({mark, *map(wire.fingerprint, others)}) == 4


NARROW_SYNC = wire.Sync(
    "0123456789abcdef", LIFE, 5, fb.Upload(0, fb.Statistics(NARROW["int8"], np.arange(3.0), 1))
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
        ("format", (1,), 3),
        ("more", (1,), 1),
        ("more", (8,), []),
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
        ("upload.format", (7, 1), 3),
        ("more", (8,), {1: 2}),
        ("upload.more", (7, 6), {1: 2}),
        ("upload.more", (7, 6), {b"rewards": None}),
        ("upload.more.rewards", (7, 6), {"rewards": [1, 2.0]}),
        ("upload.more.rewards", (7, 6), {"rewards": [-1, 2.0, 3.0]}),
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
    assert str(caught.value).startswith(f"{field}: ")


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
    assert str(caught.value).startswith(f"{field}: ")


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
    narrow = ["narrow", width, rows, 0.0, 3, None]
    upload = ["upload", 2, 0, narrow, [[3], ONE + bytes(12)], 1, {}]
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


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ((0,), "synk", "sync: Invalid value 'synk'."),
        ((2,), "0123", "fingerprint: Expected str matching regex '^[0-9a-f]{16}$'."),
        ((3,), None, "width: Expected int, got None."),
        ((4,), bytes(15), "life: Expected bytes of length >= 16."),
        ((6,), 0, "sequence: Expected int >= 1."),
        ((7, 3), 3, "upload.summary: Expected array, got int."),
        ((7, 3, 1, 1), b"1234567", "upload.summary.rows: an array of shape (2, 3) in 7 bytes; it"),
        ((7, 4, 0), ["3"], "upload.moment.shape: Expected int, got str."),
    ],
)
def test_a_refusal_says_what_is_wrong_in_plain_words(
    place: tuple[int, ...], value: object, told: str
) -> None:
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(_without(place, value))
    assert str(caught.value).startswith(told)
    assert str(caught.value).endswith("See docs/wire.md, or send what fedbandit.wire encodes.")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ((), "sync: Expected array of at most length 9, got 10."),
        ((7,), "upload: Expected array of at most length 7, got 8."),
        ((7, 3), "upload.summary: Expected array of at most length 5, got 6."),
        ((7, 3, 1), "upload.summary: Expected array of at most length 2, got 3."),
        ((7, 4), "upload.moment: Expected array of at most length 2, got 3."),
    ],
)
def test_fields_too_many_are_counted_as_the_document_does(
    place: tuple[int, ...], told: str
) -> None:
    whole = msgspec.msgpack.decode(wire.encode_sync(SYNC))
    array = whole
    for step in place:
        array = array[step]
    array.append(1)
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(msgspec.msgpack.encode(whole))
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "sync: these 0 bytes are not one whole message: "),
        (wire.encode_sync(SYNC) + b"\x00", "trailing characters"),
        (wire.encode_sync(SYNC)[:-1], "truncated"),
        (b"\x98\xa2\xff\xff" + bytes(20), "sync: a text in it is not UTF-8."),
    ],
)
def test_what_is_no_message_at_all(data: bytes, told: str) -> None:
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(data)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "tag",
    ["s" * 10_000, "evil - at `$.foo`", "evil - at `$[7].upload[3]`", "a - at `$" + "7a " * 99],
)
@pytest.mark.parametrize("place", [(0,), (7, 0), (7, 3, 0)])
def test_a_refusal_is_short_and_names_the_place_whatever_the_sender_wrote(
    tag: str, place: tuple[int, ...]
) -> None:
    with pytest.raises(errors.InvalidMessage) as caught:
        wire.decode_sync(_without(place, tag))
    assert len(str(caught.value)) < 400
    assert caught.value.field == {1: "sync", 2: "upload", 3: "upload.summary"}[len(place)]


@pytest.mark.parametrize("tag", ["aa " * 10**5, "x - at `$" + "7a " * 10**5, "s" * 300_000])
def test_a_refusal_costs_no_more_memory_than_a_few_bodies(tag: str) -> None:
    body = _without((7, 3, 0), tag)
    tracemalloc.start()
    with pytest.raises(errors.InvalidMessage):
        wire.decode_sync(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(body)


def test_a_message_is_in_the_format_of_its_envelope() -> None:
    for outer, inner in ((1, 2), (2, 1)):
        whole = msgspec.msgpack.decode(wire.encode_sync(replace(SYNC, format=outer)))
        whole[7] = msgspec.msgpack.decode(wire.encode(SYNC.upload, format=inner))
        with pytest.raises(errors.InvalidMessage, match=f"format {inner}; its envelope") as caught:
            wire.decode_sync(msgspec.msgpack.encode(whole))
        assert caught.value.field == "upload.format"


def test_joining_without_a_download_tells_the_digest_of_what_would_be_sent() -> None:
    joined = wire.Joined("0" * 16, "FSCLB", b"{}", LIMITS, None, 4, "ab" * 32)
    assert wire.decode_joined(wire.encode_joined(joined)).digest == "ab" * 32
    assert wire.decode_joined(wire.encode_joined(replace(joined, format=1))).digest == ""


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
    """It names the field and says what is wrong, in one line."""
    told = str(error)
    assert told.startswith(f"{error.field}: ")
    assert "`" not in told
    assert "\n" not in told
    assert len(told) < 400


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
