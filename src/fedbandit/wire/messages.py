"""The core's messages as bytes."""

import msgspec

from fedbandit.core.messages import Collect, Download, Message, Upload
from fedbandit.wire.decoding import FORMAT, check_head, read
from fedbandit.wire.summaries import WiredSummary, WiredVector, unwired, wired


class WiredUpload(
    msgspec.Struct, array_like=True, frozen=True, tag="upload", forbid_unknown_fields=True
):
    """An upload as it is written."""

    format: int
    agent: int
    summary: WiredSummary
    moment: WiredVector
    count: int


class WiredDownload(
    msgspec.Struct, array_like=True, frozen=True, tag="download", forbid_unknown_fields=True
):
    """A download as it is written."""

    format: int
    summary: WiredSummary
    moment: WiredVector
    count: int
    version: int


class _Collect(
    msgspec.Struct, array_like=True, frozen=True, tag="collect", forbid_unknown_fields=True
):
    format: int


def encode(message: Upload | Message) -> bytes:
    """Return a message as bytes."""
    match message:
        case Upload():
            written: WiredUpload | WiredDownload | _Collect = wired_upload(message)
        case Download():
            written = wired_download(message)
        case Collect():
            written = _Collect(FORMAT)
        case _:
            raise TypeError(f"no wire form for {type(message).__name__}")
    return msgspec.msgpack.encode(written)


def decode(data: bytes) -> Upload | Message:
    """Return the message that was encoded; raise InvalidMessage if these bytes are none."""
    written = read(data, "message", WiredUpload | WiredDownload | _Collect)
    match written:
        case WiredUpload():
            return unwired_upload(written, "")
        case WiredDownload():
            return unwired_download(written, "")
        case _:
            check_head("", written.format)
            return Collect()


def wired_upload(upload: Upload) -> WiredUpload:
    """Return an upload as a struct."""
    summary, moment = wired(upload.summary, upload.moment)
    return WiredUpload(FORMAT, int(upload.agent), summary, moment, int(upload.count))


def wired_download(download: Download) -> WiredDownload:
    """Return a download as a struct."""
    summary, moment = wired(download.summary, download.moment)
    return WiredDownload(FORMAT, summary, moment, int(download.count), int(download.version))


def unwired_upload(written: WiredUpload, place: str) -> Upload:
    """Return the upload that was written."""
    check_head(place, written.format)
    summary, moment = unwired(written.summary, written.moment, place)
    return Upload(written.agent, summary, moment, written.count)


def unwired_download(written: WiredDownload, place: str) -> Download:
    """Return the download that was written."""
    check_head(place, written.format)
    summary, moment = unwired(written.summary, written.moment, place)
    return Download(summary, moment, written.count, written.version)
