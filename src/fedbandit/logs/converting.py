"""Turn logs into other formats and back: ``fedbandit log convert``."""

import os
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Final

from fedbandit.core.checks import one_of
from fedbandit.errors import DataError, OutputError, complaint, missing_extra
from fedbandit.logs import personalizer, vw
from fedbandit.logs.event import Event, Tally
from fedbandit.logs.files import Sources, files_of
from fedbandit.logs.reading import read
from fedbandit.logs.records import FORMAT, Decided, Opened, Rewarded, line_of

FORMATS: Final = ("ndjson", "parquet", "vw", "personalizer")
_FOREIGN: Final[dict[str, Callable[[Iterable[bytes]], Iterator[Event | str]]]] = {
    "vw": vw.events_in,
    "personalizer": personalizer.events_in,
}


def convert(
    logs: Sources, out: str | PathLike[str], *, to: str = "ndjson", source: str = "log"
) -> Tally:
    """Write the events of logs to a new file; return how many, and what was left out.

    ``to``: ndjson and parquet (a log again), vw (``cb_adf`` text), personalizer (JSON lines, which
    vw reads with ``--dsjson``). ``source``: log, vw or personalizer.
    """
    one_of("to", to, FORMATS)
    one_of("source", source, ("log", *_FOREIGN))
    path, tally = Path(out), Tally()
    if path.exists():
        raise OutputError(f"{path} is there already. Choose a new file.")
    draft = path.with_name(path.name + ".new")
    try:
        with open(draft, "wb") as file:
            file.writelines(
                _written(_events(logs, source, tally), "ndjson" if to == "parquet" else to)
            )
        if not tally.events:
            raise _nothing(logs, source, tally)
        _finish(draft, path, to)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        fix = "Choose another file, or free some space."
        raise OutputError(f"Cannot write {path}: {error.strerror or error}. {fix}") from error
    finally:
        draft.unlink(missing_ok=True)
    return tally


def _events(logs: Sources, source: str, tally: Tally) -> Iterator[Event]:
    if source == "log":
        reader = read(logs)
        yield from reader
        tally.events, tally.skipped = reader.tally.events, reader.tally.skipped
        tally.examples = reader.tally.examples
        return
    for path in files_of(logs):
        for number, found in enumerate(_FOREIGN[source](_raw(path)), start=1):
            if isinstance(found, str):
                tally.skip(found, f"{path.name}, event {number}")
            else:
                tally.events += 1
                yield found


def _raw(path: Path) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            yield from file
    except OSError as error:
        fix = "Check the path and its permissions."
        raise DataError(f"{path}: cannot be read: {error.strerror or error}. {fix}") from error


def _written(events: Iterator[Event], to: str) -> Iterator[bytes]:
    if to == "ndjson":
        yield line_of(Opened(format=FORMAT))
    for event in events:
        if to == "vw":
            yield vw.block_of(event).encode()
        elif to == "personalizer":
            yield personalizer.object_of(event)
        else:
            yield from _records(event)


def _records(event: Event) -> Iterator[bytes]:
    yield line_of(
        Decided(
            id=event.id,
            chosen=event.chosen,
            probability=event.probability,
            time=event.time,
            version=event.version,
            agent=event.agent,
            arms=None if event.arms is None else event.arms.tolist(),
            context=event.context,
            actions=None if event.actions is None else list(event.actions),
            own=None if event.own is None else event.own.tolist(),
            means=None if event.means is None else event.means.tolist(),
        )
    )
    yield line_of(Rewarded(id=event.id, reward=event.reward, time=event.time))


def _finish(draft: Path, path: Path, to: str) -> None:
    if to != "parquet":
        os.replace(draft, path)
        return
    try:
        from fedbandit.logs.parquet import to_parquet
    except ModuleNotFoundError as error:
        raise missing_extra("pyarrow", "logs", "writing Parquet") from error
    to_parquet(draft, path)


def _nothing(logs: Sources, source: str, tally: Tally) -> DataError:
    why = "; ".join(tally.sentences()) or "nothing in it"
    fix = "Name what it is: --from log, vw or personalizer."
    expected = f"events of the format {source}"
    return DataError(complaint(f"{files_of(logs)[0]}", got=why, expected=expected, fix=fix))
