"""An append-only file of checksummed records, replaced as a whole when it has grown too long.

Each record is its length and its CRC-32 (two little-endian 32-bit numbers), then its bytes. A
process killed at any instant leaves whole records and at most one torn at the end, which the next
start cuts off. Anything else that cannot be read is damage: such a file is left as it is, since
rewards may be stored after the damaged place. A rewritten journal is complete and on the disk
before it replaces the old one.

SQLite was measured in its place: 13 us a record against 7, with spikes to 25 ms.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from zlib import crc32

from fedbandit.errors import InvalidState, OutputError

_FRAME = Struct("<II")


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: its records, their length in bytes, and that of a torn record after."""

    payloads: list[bytes]
    whole: int
    torn: int


class Journal:
    """An open journal. Not thread-safe: callers hold a lock."""

    def __init__(self, path: Path, handle: int, size: int) -> None:
        self.path = path
        self.size = size
        self._handle, self._name, file = handle, os.fspath(path), os.fstat(handle)
        self._inode, self._device = file.st_ino, file.st_dev

    @classmethod
    def create(cls, path: Path, payloads: Iterable[bytes]) -> "Journal":
        """Write these records to the disk beside ``path``; ``rename`` then puts the file there."""
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
        """Open a journal that was read, to append after its last whole record."""
        handle = _open(path)
        try:
            if content.torn:
                os.ftruncate(handle, content.whole)
        except OSError as error:
            os.close(handle)
            raise unwritable(path, error) from error
        return cls(path, handle, content.whole)

    @property
    def in_place(self) -> bool:
        """Whether the file still has its name. What is appended after it was deleted is lost."""
        try:
            found = os.stat(self._name)
        except OSError:
            return False
        return found.st_ino == self._inode and found.st_dev == self._device

    def append(self, payload: bytes) -> None:
        """Append a record: once this returns, it survives the process. No part stays on failure."""
        record = _FRAME.pack(len(payload), crc32(payload)) + payload
        try:
            written = os.write(self._handle, record)
            while written < len(record):
                written += os.write(self._handle, record[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._handle, self.size)
            raise unwritable(self.path, error) from error
        self.size += len(record)

    def flush(self) -> None:
        """Wait until all records are on the disk: they then survive a power loss."""
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise unwritable(self.path, error) from error

    def rename(self, path: Path) -> None:
        """Move the file to ``path``, replacing what is there in one step."""
        try:
            os.replace(self.path, path)
        except OSError as error:
            raise unwritable(path, error) from error
        self.path, self._name = path, os.fspath(path)

    def flush_name(self) -> None:
        """Wait until the file's name is on the disk as well."""
        with suppress(OSError):  # some file systems cannot do this and need not
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def read(path: Path, *, opening: re.Pattern[bytes]) -> Content:
    """Return what a journal holds, changing nothing; raise InvalidState if it is damaged.

    ``opening`` matches the first bytes of a record, to find whole records after a damaged place.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        fix = "Check its permissions and the disk."
        raise OutputError(f"Cannot read {path}: {error.strerror or error}. {fix}") from error
    payloads, whole = split(data)
    if not payloads or not _is_torn(data, whole, opening):
        raise InvalidState(
            f"{path} is damaged after {whole} of {len(data)} bytes."
            " It was left as it is: keep a copy, then start with an empty state_dir."
        )
    return Content(payloads, whole, len(data) - whole)


def _is_torn(data: bytes, place: int, opening: re.Pattern[bytes]) -> bool:
    """Return whether the bytes from ``place`` on are just one record that was not finished.

    That is its beginning, or zeros if the file grew before it was filled. A record of full length
    with a wrong checksum was finished once, so it is damaged; and if whole records follow, the
    length is damaged.
    """
    rest = data[place:]
    if not rest.strip(b"\x00"):
        return True
    if len(rest) >= _FRAME.size and _FRAME.unpack_from(rest)[0] <= len(rest) - _FRAME.size:
        return False
    starts = (found.start() - _FRAME.size for found in opening.finditer(rest, _FRAME.size))
    return not any(_record_at(rest, start) is not None for start in starts)


def split(data: bytes) -> tuple[list[bytes], int]:
    """Return the whole records that the bytes begin with, and where the last of them ends."""
    payloads, place = [], 0
    while (payload := _record_at(data, place)) is not None:
        payloads.append(payload)
        place += _FRAME.size + len(payload)
    return payloads, place


def _record_at(data: bytes, place: int) -> bytes | None:
    """Return the record that begins at ``place``; None if there is no whole one."""
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
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> OutputError:
    """Return the error for a file or directory of an agent's state that cannot be written."""
    fix = "Free some space or repair the disk; nothing was counted, so try again then."
    return OutputError(f"Cannot write {path}: {error.strerror or error}. {fix}")
