"""Uploads that the coordinator refused, kept as files so that they do not hold up the next ones."""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from fedbandit import wire
from fedbandit.client.state.journal import Journal, unwritable
from fedbandit.core.messages import Upload

KEPT: Final = 100
"""How many refused uploads are kept as files; one more, and the oldest is deleted."""

_ENDING = ".upload"


class RefusedUploads:
    """Keeps refused uploads as files of a directory; without one, only counts them.

    A file is a journal of one record, the upload as ``wire.encode`` writes it. It is named for its
    content, so that adding the same upload again, after a crash say, changes nothing. ``count`` is
    of all, those found at the start included; ``deleted`` of files deleted to make room.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.count = 0 if directory is None else len(_files(directory))
        self.deleted = 0

    def add(self, upload: Upload) -> None:
        """Keep an upload. With a directory, it is on the disk when this returns."""
        if self._directory is None:
            self.count += 1
            return
        data = wire.encode(upload)
        path = self._directory / (sha256(data).hexdigest()[:32] + _ENDING)
        if not path.exists():
            _make(self._directory)
            made = Journal.create(path, [data])
            try:
                made.rename(path)
                made.flush_name()
            finally:
                made.close()
            self.count += 1
            self._make_room(self._directory)

    def _make_room(self, directory: Path) -> None:
        """Delete the oldest beyond those that are kept; a file that cannot be deleted stays."""
        for path in _files(directory)[:-KEPT]:
            with suppress(OSError):
                path.unlink()
                self.deleted += 1


def _files(directory: Path) -> list[Path]:
    """Return the uploads in a directory, the oldest first."""
    found = []
    for path in directory.glob(f"*{_ENDING}"):
        with suppress(OSError):  # deleted just now
            found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found)]


def _make(directory: Path) -> None:
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(directory, error) from error
