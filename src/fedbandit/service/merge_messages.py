"""What a coordinator and the process that merges for it say to each other, over a socket.

Each message is eight bytes that tell its length, then MessagePack. Both ends are of one version of
this program: nothing here is kept, and nobody else talks to either end.
"""

import struct
from http import HTTPStatus
from typing import Final, Literal

import msgspec

from fedbandit.errors import LocalError, StoreError, UnknownName
from fedbandit.service.batch import Answer, Reborn
from fedbandit.service.intake import Outcome
from fedbandit.service.merger import Address, Merged
from fedbandit.service.refusal import Refusal

_LENGTH = struct.Struct("<Q")
LENGTH_BYTES: Final = _LENGTH.size


class Open(msgspec.Struct, array_like=True, frozen=True, tag="open"):
    """The first thing that is said: where the store is."""

    store: str


class Ready(msgspec.Struct, array_like=True, frozen=True, tag="ready"):
    """The store is open and everything is compiled: syncs may come."""


class Take(msgspec.Struct, array_like=True, frozen=True, tag="take"):
    """A sync to take in, under a number to tell of it by."""

    number: int
    model: str
    incarnation: str
    agent: str
    body: bytes
    token: bytes | None


class Answered(msgspec.Struct, array_like=True, frozen=True, tag="answered"):
    """An answer: its head, which download follows it, and whether the upload was merged now."""

    head: bytes
    place: int
    merged: bool


class Refused(msgspec.Struct, array_like=True, frozen=True, tag="refused"):
    """A refusal."""

    status: int
    field: str
    message: str


class Taken(msgspec.Struct, array_like=True, frozen=True, tag="taken"):
    """What became of each sync of a batch. A download that many are answered with comes once."""

    model: str
    incarnation: str
    numbers: list[int]
    downloads: list[bytes]
    outcomes: list[Answered | Refused]


class Failed(msgspec.Struct, array_like=True, frozen=True, tag="failed"):
    """A batch of which nothing is known, or, where the model is gone, of which nothing came."""

    model: str
    incarnation: str
    numbers: list[int]
    reason: Literal["gone", "store", "fault"]
    message: str


Message = Open | Ready | Take | Taken | Failed
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Faulty(Exception):
    """Merging failed for no reason that a sender or the store could give; the log has its name."""


def told(merged: Merged) -> Taken | Failed:
    """Return what became of a batch as a message."""
    model, incarnation = merged.address.model, merged.address.incarnation
    numbers = list(merged.numbers)
    match merged.outcomes:
        case Reborn() | UnknownName() as error:
            return Failed(model, incarnation, numbers, "gone", str(error))
        case LocalError() as error:
            return Failed(model, incarnation, numbers, "store", str(error))
        case Exception() as error:
            return Failed(model, incarnation, numbers, "fault", type(error).__name__)
        case outcomes:
            downloads: list[bytes] = []
            packed = [_packed(each, downloads) for each in outcomes]
            return Taken(model, incarnation, numbers, downloads, packed)


def understood(message: Taken | Failed) -> Merged:
    """Return what became of a batch, from the message that tells it."""
    address = Address(message.model, message.incarnation)
    outcomes: list[Outcome] | Exception
    match message:
        case Failed(reason="gone"):
            outcomes = Reborn()
        case Failed(reason="store", message=said):
            outcomes = StoreError(said)
        case Failed(message=said):
            outcomes = Faulty(said)
        case Taken():
            outcomes = [_unpacked(each, message.downloads) for each in message.outcomes]
    return Merged(address, message.numbers, outcomes)


def _packed(outcome: Outcome, downloads: list[bytes]) -> Answered | Refused:
    if isinstance(outcome, Refusal):
        return Refused(outcome.status, outcome.field, str(outcome))
    if not downloads or downloads[-1] is not outcome.download:
        downloads.append(outcome.download)
    return Answered(outcome.head, len(downloads) - 1, outcome.merged)


def _unpacked(outcome: Answered | Refused, downloads: list[bytes]) -> Outcome:
    if isinstance(outcome, Refused):
        return Refusal(HTTPStatus(outcome.status), outcome.field, outcome.message)
    return Answer(outcome.head, downloads[outcome.place], outcome.merged)


def packed(message: Message) -> bytearray:
    """Return a message as bytes, its length first."""
    buffer = bytearray(LENGTH_BYTES)
    msgspec.msgpack.Encoder().encode_into(message, buffer, LENGTH_BYTES)
    _LENGTH.pack_into(buffer, 0, len(buffer) - LENGTH_BYTES)
    return buffer


def length(head: bytes) -> int:
    """Return the length of the message that follows a head."""
    return int(_LENGTH.unpack(head)[0])


def unpacked(body: bytes) -> Message:
    """Return the message in some bytes."""
    return _decoder.decode(body)
