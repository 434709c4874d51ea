"""A file of checksummed records that only grows, and is replaced whole when it has grown too long.

Each record is its length and its CRC-32 (two little-endian 32-bit numbers), then its bytes. A
process killed at any instant leaves whole records and at most one torn at the end, which the next
start cuts off. A rewritten journal is complete and on the disk before it takes the old one's name.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from zlib import crc32

from fedbandit.errors import OutputError, complaint

_FRAME = Struct("<II")


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
    def resume(cls, path: Path) -> tuple["Journal", list[bytes], int]:
        """Open a journal; return it, its records, and how many torn bytes were cut off its end."""
        handle = _open(path)
        try:
            data = path.read_bytes()
            payloads, whole = split(data)
            if whole < len(data):
                os.ftruncate(handle, whole)
        except OSError as error:
            os.close(handle)
            raise _unwritable(path, error) from error
        return cls(path, handle, whole), payloads, len(data) - whole

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


def split(data: bytes) -> tuple[list[bytes], int]:
    """Return the whole records at the beginning of some bytes, and where the last of them ends."""
    payloads, place = [], 0
    while place + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, place)
        start = place + _FRAME.size
        payload = data[start : start + length]
        if not length or len(payload) < length or crc32(payload) != checksum:
            break
        payloads.append(payload)
        place = start + length
    return payloads, place


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
