"""Messages as bytes: MessagePack, arrays as their shape and their raw little-endian float64.

``encode`` and ``decode`` carry the core's messages. Over HTTP they travel in envelopes that say for
which recipe they are and which upload of which agent: an agent posts a ``Sync`` and is answered
with a ``Synced``; one that joins or catches up gets a ``Joined``. docs/wire.md describes every
field, for clients in other languages. Whatever the bytes, decoding raises nothing but
InvalidMessage, and its ``field`` says where.
"""

import re
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Annotated, Any, Final, NoReturn

import msgspec
import numpy as np
from msgspec import Meta

from fedbandit.core.linalg import Array
from fedbandit.core.messages import Collect, Download, Message, Upload
from fedbandit.core.recipe import Recipe
from fedbandit.core.summary import Gram, Sketch, Summary
from fedbandit.errors import InvalidMessage, complaint

FORMAT: Final = 1
WIDTH: Final = 8
LIFE_BYTES: Final = 16
LARGEST: Final = 2**63 - 1
MEDIA_TYPE: Final = "application/vnd.fedbandit+msgpack"
NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_LONGEST = 2**24

_Life = Annotated[bytes, Meta(min_length=LIFE_BYTES, max_length=LIFE_BYTES)]
_Fingerprint = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
_Natural = Annotated[int, Meta(ge=0, le=LARGEST)]
_Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
_Above0 = Annotated[float, Meta(gt=0.0)]


class _Vector(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    shape: tuple[int]
    data: bytes


class _Matrix(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    shape: tuple[int, int]
    data: bytes


class _Gram(msgspec.Struct, array_like=True, frozen=True, tag="gram", forbid_unknown_fields=True):
    matrix: _Matrix


class _Sketch(
    msgspec.Struct, array_like=True, frozen=True, tag="sketch", forbid_unknown_fields=True
):
    rows: _Matrix
    shed: float
    size: int


class _Upload(
    msgspec.Struct, array_like=True, frozen=True, tag="upload", forbid_unknown_fields=True
):
    format: int
    agent: int
    summary: _Gram | _Sketch
    moment: _Vector
    count: int


class _Download(
    msgspec.Struct, array_like=True, frozen=True, tag="download", forbid_unknown_fields=True
):
    format: int
    summary: _Gram | _Sketch
    moment: _Vector
    count: int
    version: int


class _Collect(
    msgspec.Struct, array_like=True, frozen=True, tag="collect", forbid_unknown_fields=True
):
    format: int


class _Sync(msgspec.Struct, array_like=True, frozen=True, tag="sync", forbid_unknown_fields=True):
    format: int
    fingerprint: _Fingerprint
    width: int
    life: _Life
    born: _Natural
    sequence: _Positive
    upload: _Upload


class _Synced(
    msgspec.Struct, array_like=True, frozen=True, tag="synced", forbid_unknown_fields=True
):
    format: int
    fingerprint: _Fingerprint
    width: int
    merged: bool
    sequence: _Positive
    version: _Natural
    download: _Download


class _Limits(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    arm_norm: _Above0
    reward: _Above0
    count: _Positive


class _Joined(
    msgspec.Struct, array_like=True, frozen=True, tag="joined", forbid_unknown_fields=True
):
    format: int
    fingerprint: _Fingerprint
    width: int
    recipe: str
    params: bytes
    limits: _Limits
    lives: _Natural
    download: _Download | None


class _Head(msgspec.Struct, array_like=True, frozen=True):
    """How every message begins, whatever the format."""

    tag: str
    format: int


@dataclass(frozen=True, slots=True, eq=False)
class Sync:
    """Agent to coordinator: upload number ``sequence`` (from 1) of one ``life`` of the agent.

    A life is 16 random bytes, drawn when an agent starts without a saved state. ``born`` is what
    ``Joined.lives`` said when this life joined first, 0 if it never did; it stays the same for
    ever, so that the coordinator can tell a life that it has forgotten from a new one.
    ``fingerprint`` names the recipe, see ``fingerprint``.
    """

    fingerprint: str
    life: bytes
    sequence: int
    upload: Upload
    born: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Synced:
    """Coordinator to agent: the upload is merged and durable, and this is everything merged so far.

    ``merged`` is False for a copy of an upload that was merged before: nothing has changed.
    ``version`` is the place of the upload in the order of merging, from 1; a copy of the life's
    last upload gets the same number again, an older copy 0. The download may be newer.
    """

    fingerprint: str
    merged: bool
    sequence: int
    version: int
    download: Download


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a coordinator takes for possible; it refuses uploads beyond, so agents check first.

    No arm is longer than ``arm_norm``, no reward larger than ``reward`` in size, and no upload
    stands for more than ``count`` observations.
    """

    arm_norm: float
    reward: float
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Coordinator to agent: the recipe, its limits, and everything merged so far.

    ``params`` are the recipe's parameters as JSON: ``RECIPES[recipe](**params)`` is the recipe that
    ``fingerprint`` names. ``download`` is None where the agent said that it has the current one.
    ``lives`` is the number of lives of this agent that have sent something so far.
    """

    fingerprint: str
    recipe: str
    params: bytes
    limits: Limits
    download: Download | None
    lives: int = 0


def fingerprint(recipe: Recipe) -> str:
    """Return 16 hexadecimal digits that tell recipes apart: of the SHA-256 of ``repr(recipe)``."""
    return sha256(repr(recipe).encode()).hexdigest()[:16]


def encode(message: Upload | Message) -> bytes:
    """Return a message as bytes."""
    match message:
        case Upload():
            wired: _Upload | _Download | _Collect = _wired_upload(message)
        case Download():
            wired = _wired_download(message)
        case Collect():
            wired = _Collect(FORMAT)
        case _:
            raise TypeError(f"no wire form for {type(message).__name__}")
    return msgspec.msgpack.encode(wired)


def decode(data: bytes) -> Upload | Message:
    """Return the message that was encoded; raise InvalidMessage if these bytes are none."""
    wired = _read(data, "message", _Upload | _Download | _Collect)
    match wired:
        case _Upload():
            return _upload(wired, "")
        case _Download():
            return _download(wired, "")
        case _:
            _check_head("", wired.format)
            return Collect()


def encode_sync(sync: Sync) -> bytes:
    """Return a sync as bytes, to be kept and sent as they are until they are answered."""
    upload = _wired_upload(sync.upload)
    return msgspec.msgpack.encode(
        _Sync(FORMAT, sync.fingerprint, WIDTH, sync.life, sync.born, sync.sequence, upload)
    )


def decode_sync(data: bytes) -> Sync:
    """Return the sync that was encoded; raise InvalidMessage if these bytes are none."""
    wired = _read(data, "sync", _Sync)
    _check_head("", wired.format, wired.width)
    upload = _upload(wired.upload, "upload.")
    return Sync(wired.fingerprint, wired.life, wired.sequence, upload, wired.born)


def encode_synced(answer: Synced, *, download: bytes | None = None) -> bytes:
    """Return an answer as bytes. Who has ``encode(answer.download)`` already may hand it in."""
    packed = msgspec.Raw(encode(answer.download) if download is None else download)
    head = ("synced", FORMAT, answer.fingerprint, WIDTH)
    return msgspec.msgpack.encode((*head, answer.merged, answer.sequence, answer.version, packed))


def decode_synced(data: bytes) -> Synced:
    """Return the answer that was encoded; raise InvalidMessage if these bytes are none."""
    wired = _read(data, "synced", _Synced)
    _check_head("", wired.format, wired.width)
    download = _download(wired.download, "download.")
    return Synced(wired.fingerprint, wired.merged, wired.sequence, wired.version, download)


def encode_joined(joined: Joined, *, download: bytes | None = None) -> bytes:
    """Return it as bytes. Who has ``encode(joined.download)`` already may hand it in."""
    packed = None
    if joined.download is not None:
        packed = msgspec.Raw(encode(joined.download) if download is None else download)
    head = ("joined", FORMAT, joined.fingerprint, WIDTH)
    limits = (joined.limits.arm_norm, joined.limits.reward, joined.limits.count)
    recipe = (joined.recipe, joined.params)
    return msgspec.msgpack.encode((*head, *recipe, limits, joined.lives, packed))


def decode_joined(data: bytes) -> Joined:
    """Return what was encoded; raise InvalidMessage if these bytes are none."""
    wired = _read(data, "joined", _Joined)
    _check_head("", wired.format, wired.width)
    given = wired.limits
    return Joined(
        wired.fingerprint,
        wired.recipe,
        wired.params,
        Limits(arm_norm=given.arm_norm, reward=given.reward, count=given.count),
        None if wired.download is None else _download(wired.download, "download."),
        wired.lives,
    )


def _wired_upload(upload: Upload) -> _Upload:
    summary, moment = _flat(upload.summary), _vector(upload.moment)
    return _Upload(FORMAT, int(upload.agent), summary, moment, int(upload.count))


def _wired_download(download: Download) -> _Download:
    summary, moment = _flat(download.summary), _vector(download.moment)
    return _Download(FORMAT, summary, moment, int(download.count), int(download.version))


def _flat(summary: Summary) -> _Gram | _Sketch:
    match summary:
        case Gram(matrix):
            return _Gram(_matrix(matrix))
        case Sketch(rows, shed, size):
            return _Sketch(_matrix(rows), float(shed), int(size))
        case _:
            raise TypeError(f"no wire form for {type(summary).__name__}")


def _matrix(array: Array) -> _Matrix:
    return _Matrix((array.shape[0], array.shape[1]), _bytes(array))


def _vector(array: Array) -> _Vector:
    return _Vector((len(array),), _bytes(array))


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array, dtype="<f8").tobytes()


def _upload(wired: _Upload, place: str) -> Upload:
    _check_head(place, wired.format)
    summary, moment = _full(wired.summary, place), _array(wired.moment, f"{place}moment")
    return Upload(wired.agent, summary, moment, wired.count)


def _download(wired: _Download, place: str) -> Download:
    _check_head(place, wired.format)
    summary, moment = _full(wired.summary, place), _array(wired.moment, f"{place}moment")
    return Download(summary, moment, wired.count, wired.version)


def _full(wired: _Gram | _Sketch, place: str) -> Summary:
    if isinstance(wired, _Gram):
        return Gram(_array(wired.matrix, f"{place}summary.matrix"))
    return Sketch(_array(wired.rows, f"{place}summary.rows"), wired.shed, wired.size)


def _array(tensor: _Vector | _Matrix, field: str) -> Array:
    shape = tensor.shape
    sound = shape[-1] > 0 and all(0 <= side <= _LONGEST for side in shape)
    if not sound or prod(shape) * WIDTH != len(tensor.data):
        _refuse(field, f"an array of shape {shape} in {len(tensor.data)} bytes")
    return np.frombuffer(tensor.data, dtype="<f8").astype(np.float64, copy=False).reshape(shape)


def _check_head(place: str, form: int, width: int = WIDTH) -> None:
    if form != FORMAT:
        _refuse(f"{place}format", f"format {form}")
    if width != WIDTH:
        _refuse(f"{place}width", f"numbers of {width} bytes", expected=f"numbers of {WIDTH} bytes")


def _read(data: bytes, kind: str, form: Any) -> Any:
    """Return the bytes as wire structs. Another format is told before what follows from it."""
    try:
        return msgspec.msgpack.decode(data, type=form)
    except msgspec.DecodeError as error:
        _check_head("", _format(data))
        said, _, path = str(error).partition(" - at `$")
        _refuse(_field(kind, path), said[:1].lower() + said[1:])
    except (UnicodeDecodeError, RecursionError) as error:
        _refuse(kind, str(error))


def _format(data: bytes) -> int:
    try:
        return msgspec.msgpack.decode(data, type=_Head).format
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FORMAT


_STRUCTS: Final[dict[str, type[msgspec.Struct]]] = {
    "sync": _Sync,
    "synced": _Synced,
    "joined": _Joined,
    "upload": _Upload,
    "download": _Download,
    "limits": _Limits,
    "moment": _Vector,
    "matrix": _Matrix,
    "rows": _Matrix,
}


def _field(kind: str, path: str) -> str:
    """Return the dotted name of the place that msgspec writes as $[6][4][0]."""
    names: list[str] = []
    for index in map(int, re.findall(r"\[(\d+)\]", path)):
        struct = _STRUCTS.get(names[-1] if names else kind)
        if struct is None:
            break
        place = index - (struct.__struct_config__.tag is not None)
        if not 0 <= place < len(struct.__struct_fields__):
            break
        names.append(struct.__struct_fields__[place])
    return ".".join(names) or kind


def _refuse(field: str, got: str, *, expected: str = f"a message in format {FORMAT}") -> NoReturn:
    fix = "Send what fedbandit.wire encodes, with the same version of fedbandit."
    raise InvalidMessage(complaint(field, got=got, expected=expected, fix=fix), field=field)
