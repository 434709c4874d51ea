"""What a coordinator and the process that merges for it say to each other, over a socket.

Each message is two lengths of eight bytes, then that many bytes of MessagePack and that many of
whatever comes along as it is. Both ends are of one version of this program: nothing here is kept,
and nobody else talks to either end.
"""

import struct
from collections.abc import Iterator
from http import HTTPStatus
from typing import Literal

import msgspec

from fedbandit.errors import LocalError, StoreError, UnknownName
from fedbandit.service.merging.commit import Answer, Reborn
from fedbandit.service.merging.intake import Outcome
from fedbandit.service.merging.queue import Merged, ModelRef
from fedbandit.service.refusal import Refusal

_LENGTHS = struct.Struct("<QQ")


class Open(msgspec.Struct, array_like=True, frozen=True, tag="open"):
    """The first thing that is said: where the store is, whatever its name is made of."""

    store: bytes


class Ready(msgspec.Struct, array_like=True, frozen=True, tag="ready"):
    """The store is open and everything is compiled: syncs may come."""


class Check(msgspec.Struct, array_like=True, frozen=True, tag="check"):
    """Ask whether a sync could be merged now."""


class Checked(msgspec.Struct, array_like=True, frozen=True, tag="checked"):
    """Tell why one could not; nothing if it could."""

    trouble: str


class Take(msgspec.Struct, array_like=True, frozen=True, tag="take"):
    """A sync to take in, under a number to tell of it by. Its body comes along."""

    number: int
    model: str
    incarnation: str
    agent: str
    token: bytes | None


class Answered(msgspec.Struct, array_like=True, frozen=True, tag="answered"):
    """An answer: its head, where its download is, and whether the upload was merged now."""

    head: bytes
    start: int
    end: int
    merged: bool


class Refused(msgspec.Struct, array_like=True, frozen=True, tag="refused"):
    """A refusal."""

    status: int
    field: str
    message: str


class Taken(msgspec.Struct, array_like=True, frozen=True, tag="taken"):
    """What became of each sync of a batch. Downloads come along, each once for all its answers."""

    model: str
    incarnation: str
    numbers: list[int]
    outcomes: list[Answered | Refused]


class Failed(msgspec.Struct, array_like=True, frozen=True, tag="failed"):
    """A batch of which nothing is known, or, where the model is gone, of which nothing came."""

    model: str
    incarnation: str
    numbers: list[int]
    reason: Literal["gone", "store", "fault"]
    message: str


Message = Open | Ready | Check | Checked | Take | Taken | Failed
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Faulty(Exception):
    """Merging failed for no reason that a sender or the store could give; the log has its name."""


def packed(message: Message, along: bytes = b"") -> bytes:
    """Return a message, and what comes along with it, as bytes."""
    head = _encoder.encode(message)
    return b"".join((_LENGTHS.pack(len(head), len(along)), head, along))


class Inbox:
    """Cuts what arrives into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def arrived(self, data: bytes) -> Iterator[tuple[Message, bytes]]:
        """Take in some bytes; return the messages that are whole now, and what came along."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _LENGTHS.size:
            head, along = _LENGTHS.unpack_from(buffer)
            start, end = _LENGTHS.size + head, _LENGTHS.size + head + along
            if len(buffer) < end:
                return
            message = _decoder.decode(bytes(buffer[_LENGTHS.size : start]))
            body = bytes(buffer[start:end])
            del buffer[:end]
            yield message, body


def told(merged: Merged) -> tuple[Taken | Failed, bytes]:
    """Return what became of a batch as a message, and what comes along with it."""
    model, incarnation = merged.ref.model, merged.ref.incarnation
    numbers = list(merged.numbers)
    match merged.outcomes:
        case Reborn() | UnknownName() as error:
            return Failed(model, incarnation, numbers, "gone", str(error)), b""
        case LocalError() as error:
            return Failed(model, incarnation, numbers, "store", str(error)), b""
        case Exception() as error:
            return Failed(model, incarnation, numbers, "fault", type(error).__name__), b""
        case outcomes:
            downloads: list[bytes] = []
            listed = [_listed(each, downloads) for each in outcomes]
            return Taken(model, incarnation, numbers, listed), b"".join(downloads)


def understood(message: Taken | Failed, along: bytes) -> Merged:
    """Return what became of a batch, from the message that tells it."""
    ref = ModelRef(message.model, message.incarnation)
    outcomes: list[Outcome] | Exception
    match message:
        case Failed(reason="gone"):
            outcomes = Reborn()
        case Failed(reason="store", message=said):
            outcomes = StoreError(said)
        case Failed(message=said):
            outcomes = Faulty(said)
        case Taken():
            outcomes = [_outcome(each, along) for each in message.outcomes]
    return Merged(ref, message.numbers, outcomes)


def _listed(outcome: Outcome, downloads: list[bytes]) -> Answered | Refused:
    """Return an outcome to be sent; its download is added if it is not the last one's."""
    if isinstance(outcome, Refusal):
        return Refused(outcome.status, outcome.field, str(outcome))
    if not downloads or downloads[-1] is not outcome.download:
        downloads.append(outcome.download)
    end = sum(map(len, downloads))
    return Answered(outcome.head, end - len(outcome.download), end, outcome.merged)


def _outcome(listed: Answered | Refused, along: bytes) -> Outcome:
    if isinstance(listed, Refused):
        return Refusal(HTTPStatus(listed.status), listed.field, listed.message)
    return Answer(listed.head, along[listed.start : listed.end], listed.merged)
