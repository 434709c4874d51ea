"""Messages as bytes: MessagePack, arrays as their shape and their raw little-endian float64."""

from math import prod

import msgspec
import numpy as np

from fedbandit.core.linalg import Array
from fedbandit.core.messages import Collect, Download, Message, Upload
from fedbandit.core.summary import Gram, Sketch, Summary
from fedbandit.errors import InvalidMessage, complaint

FORMAT = 1
_LONGEST = 2**24


class _Tensor(msgspec.Struct, array_like=True, frozen=True):
    shape: tuple[int, ...]
    data: bytes


class _Gram(msgspec.Struct, array_like=True, frozen=True, tag="gram"):
    matrix: _Tensor


class _Sketch(msgspec.Struct, array_like=True, frozen=True, tag="sketch"):
    rows: _Tensor
    shed: float
    size: int


class _Upload(msgspec.Struct, array_like=True, frozen=True, tag="upload"):
    format: int
    agent: int
    summary: _Gram | _Sketch
    moment: _Tensor
    count: int


class _Download(msgspec.Struct, array_like=True, frozen=True, tag="download"):
    format: int
    summary: _Gram | _Sketch
    moment: _Tensor
    count: int
    version: int


class _Collect(msgspec.Struct, array_like=True, frozen=True, tag="collect"):
    format: int


def encode(message: Upload | Message) -> bytes:
    """Return a message as bytes."""
    match message:
        case Upload(agent, summary, moment, count):
            wired: _Upload | _Download | _Collect = _Upload(
                FORMAT, int(agent), _flat(summary), _tensor(moment), int(count)
            )
        case Download(summary, moment, count, version):
            wired = _Download(FORMAT, _flat(summary), _tensor(moment), int(count), int(version))
        case Collect():
            wired = _Collect(FORMAT)
        case _:
            raise TypeError(f"no wire form for {type(message).__name__}")
    return msgspec.msgpack.encode(wired)


def decode(data: bytes) -> Upload | Message:
    """Return the message that was encoded; raise InvalidMessage if these bytes are none."""
    try:
        wired = msgspec.msgpack.decode(data, type=_Upload | _Download | _Collect)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _broken(str(error)) from error
    if wired.format != FORMAT:
        raise _broken(f"format {wired.format}")
    match wired:
        case _Upload():
            summary, moment = _full(wired.summary), _array(wired.moment, 1)
            return Upload(wired.agent, summary, moment, wired.count)
        case _Download():
            summary, moment = _full(wired.summary), _array(wired.moment, 1)
            return Download(summary, moment, wired.count, wired.version)
        case _:
            return Collect()


def _flat(summary: Summary) -> _Gram | _Sketch:
    match summary:
        case Gram(matrix):
            return _Gram(_tensor(matrix))
        case Sketch(rows, shed, size):
            return _Sketch(_tensor(rows), float(shed), int(size))
        case _:
            raise TypeError(f"no wire form for {type(summary).__name__}")


def _full(wired: _Gram | _Sketch) -> Summary:
    if isinstance(wired, _Gram):
        return Gram(_array(wired.matrix, 2))
    return Sketch(_array(wired.rows, 2), wired.shed, wired.size)


def _tensor(array: Array) -> _Tensor:
    return _Tensor(array.shape, np.ascontiguousarray(array, dtype="<f8").tobytes())


def _array(tensor: _Tensor, ndim: int) -> Array:
    shape = tensor.shape
    sound = len(shape) == ndim and shape[-1] > 0 and all(0 <= side <= _LONGEST for side in shape)
    if not sound or prod(shape) * 8 != len(tensor.data):
        raise _broken(f"an array of shape {shape} in {len(tensor.data)} bytes")
    return np.frombuffer(tensor.data, dtype="<f8").astype(np.float64).reshape(shape)


def _broken(got: str) -> InvalidMessage:
    return InvalidMessage(
        complaint(
            "message bytes",
            got=got,
            expected=f"a message in format {FORMAT}",
            fix="Send what fedbandit.wire.encode returns, with the same version of fedbandit.",
        )
    )
