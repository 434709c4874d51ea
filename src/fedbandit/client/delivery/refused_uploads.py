"""Uploads that the coordinator will not take: put aside, so that they do not hold up the rest."""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from fedbandit import wire
from fedbandit.client.state.journal import Journal
from fedbandit.core.messages import Upload
from fedbandit.errors import OutputError, complaint

KEPT: Final = 100
"""How many refused uploads are kept as files; one more, and the oldest is deleted."""

_ENDING = ".upload"


class Aside:
    """Keeps refused uploads as files of a directory; without one, they are counted and let go.

    A file is a journal of one record, the upload as ``wire.encode`` writes it. It is named for what
    is in it, so that putting the same one aside again, after a crash say, changes nothing.
    ``uploads`` counts all, with those found at the start; ``deleted`` those that had to make room.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.uploads = 0 if directory is None else len(_files(directory))
        self.deleted = 0

    def put(self, upload: Upload) -> None:
        """Put an upload aside: on the disk, where there is one, when this returns."""
        if self._directory is None:
            self.uploads += 1
            return
        data = wire.encode(upload)
        path = self._directory / (sha256(data).hexdigest()[:32] + _ENDING)
        if not path.exists():
            _make(self._directory)
            made = Journal.create(path, [data])
            try:
                made.take_the_name(path)
                made.settle()
            finally:
                made.close()
            self.uploads += 1
            self._make_room(self._directory)

    def _make_room(self, directory: Path) -> None:
        """Delete the oldest beyond those that are kept; a disk that will not is let be."""
        for path in _files(directory)[:-KEPT]:
            with suppress(OSError):
                path.unlink()
                self.deleted += 1


def _files(directory: Path) -> list[Path]:
    """Return the uploads in a directory, the oldest first."""
    found = []
    for path in directory.glob(f"*{_ENDING}"):
        with suppress(OSError):  # somebody deleted it just now
            found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found)]


def _make(directory: Path) -> None:
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        got, expected = f"{error.strerror} at {str(directory)!r}", "a directory to write to"
        fix = "Free some space or mend the disk; nothing was counted, so try again then."
        raise OutputError(complaint("state_dir", got=got, expected=expected, fix=fix)) from error
