"""A file of checksummed records that only grows, and is replaced whole when it has grown too long.

Each record is its length and its CRC-32 (two little-endian 32-bit numbers), then its bytes. A
process killed at any instant leaves whole records and at most one torn at the end, which the next
start cuts off. Anything else that cannot be read is damage: such a file is left as it is, for what
follows may be all that is left of somebody's rewards. A rewritten journal is complete and on the
disk before it takes the old one's name.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from zlib import crc32

from fedbandit.errors import InvalidState, OutputError, complaint

_FRAME = Struct("<II")


@dataclass(frozen=True, slots=True)
class Content:
    """What a journal's file holds: its records, and how many bytes of it are whole or torn."""

    payloads: list[bytes]
    whole: int
    torn: int


class Journal:
    """An open journal. Not for several threads at once: whoever holds it holds a lock as well."""

    def __init__(self, path: Path, handle: int, size: int) -> None:
        self.path = path
        self.size = size
        self._handle = handle

    @classmethod
    def create(cls, path: Path, payloads: Iterable[bytes]) -> "Journal":
        """Make a journal of these records, on the disk, beside ``path`` until it takes its name."""
        draft = path.with_suffix(".new")
        made = cls(draft, _open(draft, os.O_TRUNC), 0)
        try:
            for payload in payloads:
                made.append(payload)
            made.flush()
        except OutputError:
            made.close()
            with suppress(OSError):
                draft.unlink()
            raise
        return made

    @classmethod
    def resume(cls, path: Path, content: Content) -> "Journal":
        """Open a journal that was read, to go on after its last whole record."""
        handle = _open(path)
        try:
            if content.torn:
                os.ftruncate(handle, content.whole)
        except OSError as error:
            os.close(handle)
            raise _unwritable(path, error) from error
        return cls(path, handle, content.whole)

    def append(self, payload: bytes) -> None:
        """Add a record: when this returns, it survives the process. Fails whole or not at all."""
        record = _FRAME.pack(len(payload), crc32(payload)) + payload
        try:
            written = os.write(self._handle, record)
            while written < len(record):
                written += os.write(self._handle, record[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._handle, self.size)
            raise _unwritable(self.path, error) from error
        self.size += len(record)

    def flush(self) -> None:
        """Wait until everything added is on the disk, and so survives the machine."""
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def take_the_name(self, path: Path) -> None:
        """Let a created journal take the place of what has that name, in one step."""
        try:
            os.replace(self.path, path)
        except OSError as error:
            raise _unwritable(path, error) from error
        self.path = path

    def settle(self) -> None:
        """Wait until the file's name is on the disk as well."""
        with suppress(OSError):  # some file systems cannot, and need not
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)


def read(path: Path, *, opening: re.Pattern[bytes]) -> Content:
    """Return what a journal holds, and change nothing; raise InvalidState if it is damaged.

    ``opening`` matches how a record begins: records that come after something unreadable are found
    by it.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unwritable(path, error) from error
    payloads, whole = split(data)
    if not payloads or not _is_torn(data, whole, opening):
        got = f"something unreadable after {whole} of {len(data)} bytes"
        expected = "whole records, and at most the last one cut short"
        fix = "It was left as it is: keep a copy, then start with an empty state_dir."
        who = f"state on disk, {path}"
        raise InvalidState(complaint(who, got=got, expected=expected, fix=fix))
    return Content(payloads, whole, len(data) - whole)


def _is_torn(data: bytes, place: int, opening: re.Pattern[bytes]) -> bool:
    """Say whether what follows ``place`` is no more than a record that was not finished.

    That is its beginning, or zeros where a file grew before it was filled. A whole record with a
    wrong checksum was finished once; and if whole records follow, it is a length that is wrong.
    """
    rest = data[place:]
    if not rest.strip(b"\x00"):
        return True
    if len(rest) >= _FRAME.size and _FRAME.unpack_from(rest)[0] <= len(rest) - _FRAME.size:
        return False
    starts = (found.start() - _FRAME.size for found in opening.finditer(rest, _FRAME.size))
    return not any(_record_at(rest, start) is not None for start in starts)


def split(data: bytes) -> tuple[list[bytes], int]:
    """Return the whole records at the beginning of some bytes, and where the last of them ends."""
    payloads, place = [], 0
    while (payload := _record_at(data, place)) is not None:
        payloads.append(payload)
        place += _FRAME.size + len(payload)
    return payloads, place


def _record_at(data: bytes, place: int) -> bytes | None:
    """Return the record that begins at a place, if a whole one does."""
    start = place + _FRAME.size
    if start > len(data):
        return None
    length, checksum = _FRAME.unpack_from(data, place)
    payload = data[start : start + length]
    sound = length and len(payload) == length and crc32(payload) == checksum
    return payload if sound else None


def _open(path: Path, flags: int = 0) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | flags, mode=0o600)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        complaint(
            "state on disk",
            got=f"{error.strerror or error} at {str(path)!r}",
            expected="a file to write to",
            fix="Free some space or mend the disk; nothing was counted, so try again then.",
        )
    )
