"""The core's messages as bytes: Upload, Download and Collect."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from fedbandit.core.messages import Collect, Download, Message, Upload
from fedbandit.core.statistics import NO_ESTIMATES, NO_REWARDS, Estimates, Rewards, Statistics
from fedbandit.wire.decoding import FORMAT, check_head, read
from fedbandit.wire.summaries import WiredSummary, WiredVector, unwired, wired

_Natural = Annotated[int, Meta(ge=0)]


class More(msgspec.Struct, frozen=True, omit_defaults=True):
    """The map of optional fields at the end of a message; unknown fields are ignored."""


class MoreStatistics(msgspec.Struct, frozen=True, omit_defaults=True):
    """The map for statistics.

    ``rewards``: their number, their sum, the sum of their squares. ``cut``: how many uploads had a
    correction that was cut. ``estimates``, in uploads: over the same rewards, the sum of what they
    were estimated to be, and that of the squared errors.
    """

    rewards: tuple[_Natural, float, float] | None = None
    cut: _Natural = 0
    estimates: tuple[float, float] | None = None


class WiredUpload(
    msgspec.Struct, array_like=True, frozen=True, tag="upload", forbid_unknown_fields=True
):
    """An upload as it is encoded."""

    format: int
    agent: int
    summary: WiredSummary
    moment: WiredVector
    count: int
    more: MoreStatistics | None = None


class WiredDownload(
    msgspec.Struct, array_like=True, frozen=True, tag="download", forbid_unknown_fields=True
):
    """A download as it is encoded."""

    format: int
    summary: WiredSummary
    moment: WiredVector
    count: int
    version: int
    more: MoreStatistics | None = None


class _Collect(
    msgspec.Struct, array_like=True, frozen=True, tag="collect", forbid_unknown_fields=True
):
    format: int
    more: More | None = None


NOTHING_MORE: Final = More()


def encode(message: Upload | Message, *, format: int = FORMAT) -> bytes:
    """Return a message as bytes."""
    match message:
        case Upload(agent, statistics):
            fields, more = _wired(statistics, estimates=True)
            return written(format, "upload", int(agent), *fields, more=more)
        case Download(statistics, version):
            fields, more = _wired(statistics)
            return written(format, "download", *fields, int(version), more=more)
        case Collect():
            return written(format, "collect")
        case _:
            raise TypeError(f"no wire form for {type(message).__name__}")


def written(form: int, tag: str, *fields: Any, more: msgspec.Struct = NOTHING_MORE) -> bytes:
    """Return the fields of a message as bytes, followed by a map except in format 1."""
    message = (tag, form, *fields)
    return msgspec.msgpack.encode(message if form == 1 else (*message, more))


def decode(data: bytes) -> Upload | Message:
    """Return the message in these bytes; raise InvalidMessage if there is none."""
    message = read(data, "message", WiredUpload | WiredDownload | _Collect)
    match message:
        case WiredUpload():
            return unwired_upload(message, "")
        case WiredDownload():
            return unwired_download(message, "")
        case _:
            check_head("", message.format, message.more)
            return Collect()


def decode_upload(data: bytes) -> Upload:
    """Return the upload in these bytes; raise InvalidMessage if there is none."""
    return unwired_upload(read(data, "upload", WiredUpload), "")


def decode_download(data: bytes) -> Download:
    """Return the download in these bytes; raise InvalidMessage if there is none."""
    return unwired_download(read(data, "download", WiredDownload), "")


def _wired(
    statistics: Statistics, *, estimates: bool = False
) -> tuple[tuple[Any, ...], MoreStatistics]:
    summary, moment = wired(statistics.summary, statistics.moment)
    sums = statistics.rewards
    known = (int(sums.count), float(sums.total), float(sums.squares)) if sums.count else None
    guessed, told = statistics.estimates, None
    if estimates and sums.count and guessed.count == sums.count:
        told = float(guessed.total), float(guessed.errors)
    more = MoreStatistics(known, int(statistics.cut), told)
    return (summary, moment, int(statistics.count)), more


def unwired_upload(message: WiredUpload, place: str) -> Upload:
    """Return the upload; raise InvalidMessage, with the field after ``place``, if not sound."""
    return Upload(message.agent, _unwired(message, place))


def unwired_download(message: WiredDownload, place: str) -> Download:
    """Return the download; raise InvalidMessage, with the field after ``place``, if not sound."""
    return Download(_unwired(message, place), message.version)


def _unwired(message: WiredUpload | WiredDownload, place: str) -> Statistics:
    check_head(place, message.format, message.more)
    summary, moment = unwired(message.summary, message.moment, place)
    more = message.more or MoreStatistics()
    rewards = Rewards(*more.rewards) if more.rewards else NO_REWARDS
    estimates = Estimates(rewards.count, *more.estimates) if more.estimates else NO_ESTIMATES
    return Statistics(summary, moment, message.count, rewards, more.cut, estimates)
