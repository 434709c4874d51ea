"""Read logs: files to events, one at a time, in bounded memory."""

from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path

import msgspec

from fedbandit.core.checks import whole
from fedbandit.errors import DataError, InvalidParameter, complaint, missing_extra
from fedbandit.logs.event import Event, Tally
from fedbandit.logs.files import PARQUET, Sources, files_of, lines_of
from fedbandit.logs.joining import WINDOW, Joiner
from fedbandit.logs.records import FORMAT, Opened, Record, record_in

_KINDS = "lines of JSON with decisions and rewards, or their Parquet"
_CONVERT = (
    "Convert other logs first: fedbandit log convert FILE --from FORMAT --out NEW, with vw or "
    "personalizer as FORMAT."
)


class read:  # noqa: N801 - called like a function, iterated like a file
    """Iterate over the events of a log: a directory, a file, or several of them in order.

    Each iteration reads the files again, and counts in ``tally`` (a new one each time) what was
    left out. Decisions and rewards are joined over the borders of files; a reward that comes more
    than ``window`` decisions later is taken for one of another log. ``default_reward``: what a
    decision without a reward is worth; None leaves it out. ``progress`` is called with the bytes
    that were read so far and those in all. ``head`` is the last ``log`` record that was met.
    """

    def __init__(
        self,
        logs: Sources,
        *,
        window: int = WINDOW,
        default_reward: float | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._files = files_of(logs)
        self._window = whole("window", window, least=1)
        self._progress = progress
        if default_reward is not None and not isfinite(default_reward):
            fix = "Give a number, or None to leave decisions without a reward out."
            told = complaint("default_reward", got=default_reward, expected="finite", fix=fix)
            raise InvalidParameter(told)
        self._default = default_reward
        self.tally, self.head = Tally(), _first_head(self._files)

    def __iter__(self) -> Iterator[Event]:
        self.tally = tally = Tally()
        joiner = Joiner(tally, window=self._window, default_reward=self._default)
        for path in self._files:
            for record, place in self._records(path, tally):
                if type(record) is Opened:
                    _checked(path, record)
                yield from joiner.take(record, place)
        yield from joiner.end()

    def _records(self, path: Path, tally: Tally) -> Iterator[tuple[Record, str]]:
        if path.suffix == PARQUET:
            yield from _parquet(path)
        else:
            yield from self._lines(path, tally)

    def _lines(self, path: Path, tally: Tally) -> Iterator[tuple[Record, str]]:
        understood, name = False, path.name
        done, total = self._bytes_before(path)
        for number, line, ended in lines_of(path):
            done += len(line) + 1
            try:
                record = record_in(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if not understood and number >= _PATIENCE:
                    raise _wrong_kind(path, line) from error
                reason = "a line that cannot be read" if ended else "a torn line at the end"
                tally.skip(reason, f"{name}, line {number}")
            else:
                understood = True
                yield record, f"{name}, line {number}"
            if self._progress is not None and number % 10_000 == 0:
                self._progress(done, total)
        if not understood and path.stat().st_size:
            raise _wrong_kind(path, next(line for _, line, _ in lines_of(path)))

    def _bytes_before(self, path: Path) -> tuple[int, int]:
        sizes = [each.stat().st_size for each in self._files]
        return sum(sizes[: self._files.index(path)]), sum(sizes)


_PATIENCE = 100
"""Lines without a single record after which a file is not a log."""


def _first_head(files: list[Path]) -> Opened | None:
    """Return the first record of the first file, if it is a ``log`` record."""
    records: Iterator[tuple[Record, str]]
    if files[0].suffix == PARQUET:
        records = _parquet(files[0])
        return _checked(files[0], next((record for record, _ in records), None))
    for _, line, _ in lines_of(files[0]):
        try:
            return _checked(files[0], record_in(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
    return None


def _checked(path: Path, record: Record | None) -> Opened | None:
    if not isinstance(record, Opened):
        return None
    if record.format > FORMAT:
        fix = "Read it with the version of fedbandit that wrote it, or a newer one."
        got, expected = f"format {record.format}", f"at most {FORMAT}"
        raise DataError(complaint(str(path), got=got, expected=expected, fix=fix))
    return record


def _parquet(path: Path) -> Iterator[tuple[Record, str]]:
    try:
        from fedbandit.logs.parquet import records_in
    except ModuleNotFoundError as error:
        raise missing_extra("pyarrow", "logs", f"reading {path.name}") from error
    for number, record in enumerate(records_in(path), start=1):
        yield record, f"{path.name}, row {number}"


def _wrong_kind(path: Path, line: bytes) -> DataError:
    got = f"a file that begins with {line[:40]!r}"
    return DataError(complaint(str(path), got=got, expected=_KINDS, fix=_CONVERT))
