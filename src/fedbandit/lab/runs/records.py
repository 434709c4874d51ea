"""Finished runs on disk: one Parquet file each, whole or not there at all.

``OUT/runs`` holds exactly the runs of the latest call, so that pandas and polars can read the
directory as it is; whole runs of other tasks are kept in ``OUT/earlier`` and moved back when a call
needs them again.
"""

import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedbandit.lab.runs.columns import REQUIRED, SCHEMA, conformed, parameter_row
from fedbandit.lab.runs.output import TEMPORARY, writable_directory, writing
from fedbandit.lab.runs.task import Task, checkpoints
from fedbandit.simulation import Trace

_RECORD_NAME = re.compile(r"[0-9a-f]{32}\.parquet")


def record(task: Task, trace: Trace) -> pa.Table:
    """Reduce a trace to its checkpoints: one row each, in the columns of ``SCHEMA``."""
    rounds = np.array(checkpoints(task.rounds))
    at = rounds - 1
    labels = {
        "key": task.key,
        "setting": task.setting,
        "algorithm": task.algorithm,
        "radius": task.radius,
        "trial": task.trial,
        "rounds": task.rounds,
        **parameter_row(task.names, task.recipe.params, task.world.params),
    }
    measures = {
        "round": rounds,
        "reward": trace.reward[at],
        "regret": trace.regret[at],
        "seconds": np.cumsum(trace.seconds)[at],
        "uploads": trace.uploads[at],
        "scalars": trace.scalars[at],
        "bytes": trace.bytes[at],
    }
    repeated = {name: [value] * len(rounds) for name, value in labels.items()}
    return pa.table({**repeated, **measures}, schema=SCHEMA)


@dataclass(frozen=True)
class Records:
    """The records below one output directory. Make it with :func:`open_records`."""

    directory: Path

    @property
    def runs(self) -> Path:
        """Where the records of the present tasks are."""
        return self.directory / "runs"

    @property
    def earlier(self) -> Path:
        """Where whole records of other tasks are kept."""
        return self.directory / "earlier"

    def path(self, key: str) -> Path:
        """Return the path of the record with that key."""
        return self.runs / f"{key}.parquet"

    def write(self, key: str, table: pa.Table) -> None:
        """Write a record under a temporary name, then rename it: no record is ever partial."""
        temporary = self.runs / f"{TEMPORARY}{uuid4().hex}"
        with writing(self.runs):
            try:
                with temporary.open("xb") as sink:
                    pq.write_table(
                        table,
                        sink,
                        write_page_checksum=True,
                        write_statistics=False,  # these two would double the size of a record
                        store_schema=False,
                    )
                    sink.flush()
                    os.fsync(sink.fileno())
                temporary.replace(self.path(key))
            finally:
                temporary.unlink(missing_ok=True)

    def read(self, task: Task) -> pa.Table | None:
        """Return the task's record, or None if it is missing or damaged."""
        table = _whole_table(self.path(task.key), exact=True)
        if table is None or table["key"].unique().to_pylist() != [task.key]:
            return None
        return table if table["round"].to_pylist() == list(checkpoints(task.rounds)) else None

    def read_all(self, tasks: Iterable[Task]) -> pa.Table:
        """Return the records of these tasks below each other; tasks without one are left out."""
        tables = [table for task in tasks if (table := self.read(task)) is not None]
        return pa.concat_tables(tables) if tables else SCHEMA.empty_table()

    def settle(self, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """Make ``runs`` hold whole records of these tasks and nothing else; return what is missing.

        Temporary files and damaged records are deleted. Whole records of other tasks are moved to
        ``earlier``, and those of these tasks back from there.
        """
        wanted = {f"{task.key}.parquet": task for task in tasks}
        missing = []
        with writing(self.directory):
            for stale in sorted(self.runs.iterdir()):
                if stale.name not in wanted:
                    self._set_aside(stale)
            for name, task in wanted.items():
                if not (self.runs / name).exists() and (self.earlier / name).exists():
                    (self.earlier / name).replace(self.runs / name)
                if self.read(task) is None:
                    (self.runs / name).unlink(missing_ok=True)
                    missing.append(task)
        return tuple(missing)

    def _set_aside(self, stale: Path) -> None:
        if stale.name.startswith(TEMPORARY):
            stale.unlink()
        elif _RECORD_NAME.fullmatch(stale.name) is None:
            return  # not ours to touch
        elif _whole_table(stale) is None:
            stale.unlink()
        else:
            with writing(self.earlier):
                self.earlier.mkdir(exist_ok=True)
                stale.replace(self.earlier / stale.name)


def open_records(out: str | Path) -> Records:
    """Return the records below an output directory, which is made if need be."""
    records = Records(writable_directory(Path(out)))
    writable_directory(records.runs)
    return records


def read_runs(out: str | Path) -> pa.Table:
    """Return every whole record in ``OUT/runs``, sorted by setting, algorithm, radius and trial.

    Warns of files that are not whole records: they are left out.
    """
    table, broken = whole_runs(out)
    if broken:
        names = ", ".join(path.name for path in broken)
        warnings.warn(f"read_runs left out what is not a whole record: {names}", stacklevel=2)
    return table


def whole_runs(out: str | Path) -> tuple[pa.Table, list[Path]]:
    """Return what :func:`read_runs` does, and the files that are not whole records."""
    read = {path: _whole_table(path) for path in sorted((Path(out) / "runs").glob("*.parquet"))}
    tables = [SCHEMA.empty_table(), *(table for table in read.values() if table is not None)]
    order = ("setting", "algorithm", "radius", "trial", "round")
    table = pa.concat_tables(tables).sort_by([(name, "ascending") for name in order])
    return table, [path for path, table in read.items() if table is None]


def _whole_table(path: Path, *, exact: bool = False) -> pa.Table | None:
    """Return the records in a file, or None if it is damaged or of another kind.

    Its pages carry checksums, which are verified. Columns of parameters that another version of
    the package did not have are null, or with ``exact`` a reason to return None.
    """
    try:
        with path.open("rb") as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            table = file.read(use_threads=False)
    except (OSError, ValueError, pa.ArrowException):
        return None
    has = [field for field in table.schema if field.name in REQUIRED.names]
    if not table.num_rows or not pa.schema(has).equals(REQUIRED):
        return None
    if table.schema.equals(SCHEMA):
        return table
    return None if exact else conformed(table)
