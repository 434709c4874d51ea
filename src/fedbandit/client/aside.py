"""Uploads that the coordinator will not take: put aside, so that they do not hold up the rest."""

from hashlib import sha256
from pathlib import Path

from fedbandit import wire
from fedbandit.client.journal import Journal
from fedbandit.core.messages import Upload
from fedbandit.errors import OutputError, complaint

_ENDING = ".upload"


class Aside:
    """Keeps refused uploads as files of a directory; without one, they are counted and let go.

    A file is a journal of one record, the upload as ``wire.encode`` writes it. It is named for what
    is in it, so that putting the same one aside again, after a crash say, changes nothing.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.uploads = 0 if directory is None else len(list(directory.glob(f"*{_ENDING}")))

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


def _make(directory: Path) -> None:
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        got, expected = f"{error.strerror} at {str(directory)!r}", "a directory to write to"
        fix = "Free some space or mend the disk; nothing was counted, so try again then."
        raise OutputError(complaint("state_dir", got=got, expected=expected, fix=fix)) from error
